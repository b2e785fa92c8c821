/*
 * Writes of another process: a message finds the data of earlier ones of any length (FI_ORDER_SAW),
 * and none changes memory once its registration has been closed.
 */
#include "fi/pair.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY = 7, ROUNDS = 20, LONGEST = 16 << 20 };

static void await(struct side *side, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        (void)fi_cntr_read(side->reads);
    if (got == -FI_EAVAIL) {
        CHECK_EQUAL(fi_cq_readerr(cq, &error, 0), 1);
        check_failed(__FILE__, __LINE__, "an error completion: %s", fi_strerror(error.err));
    }
}

#define REPEAT(side, call)                                                                         \
    do {                                                                                           \
        ssize_t repeat_got;                                                                        \
        while ((repeat_got = (call)) == -FI_EAGAIN)                                                \
            (void)fi_cntr_read((side)->reads);                                                     \
        CHECK_EQUAL(repeat_got, 0);                                                                \
    } while (0)

static void write_rounds(struct side *side, unsigned char *memory, size_t len)
{
    int got;
    for (int i = 1; i <= ROUNDS; i++) {
        memset(memory, i, len);
        REPEAT(side, fi_recv(side->ep, &got, sizeof(got), NULL, side->other, NULL));
        REPEAT(side, fi_write(side->ep, memory, len, NULL, side->other, 0, KEY, NULL));
        if (i % 2 == 0) /* both ways to send */
            REPEAT(side, fi_inject(side->ep, &i, sizeof(i), side->other));
        else
            REPEAT(side, fi_send(side->ep, memory, len, NULL, side->other, NULL));
        await(side, side->tx);
        if (i % 2 != 0) await(side, side->tx);
        await(side, side->rx);
    }
}

static void read_rounds(struct side *side, unsigned char *memory, size_t len)
{
    unsigned char *message = malloc(len);
    for (int i = 1; i <= ROUNDS; i++) {
        REPEAT(side, fi_recv(side->ep, message, len, NULL, side->other, NULL));
        if (i == 1) REPEAT(side, fi_inject(side->ep, &i, 0, side->other));
        await(side, side->rx);
        for (size_t at = 0; at < len; at++)
            if (memory[at] != i)
                check_failed(__FILE__, __LINE__, "byte %zu of %zu is not written", at, len);
        REPEAT(side, fi_inject(side->ep, &i, sizeof(i), side->other));
    }
    free(message);
}

/* The registration may be closed before the write has ended. */
static void write_last(struct side *side, unsigned char *memory)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    int value = 0;
    memset(memory, ROUNDS + 1, LONGEST);
    REPEAT(side, fi_write(side->ep, memory, LONGEST, NULL, side->other, 0, KEY, NULL));
    while ((got = fi_cq_read(side->tx, &entry, 1)) == -FI_EAGAIN)
        (void)fi_cntr_read(side->reads);
    if (got == -FI_EAVAIL) {
        CHECK_EQUAL(fi_cq_readerr(side->tx, &error, 0), 1);
        CHECK_EQUAL(error.err, FI_EACCES);
    }
    REPEAT(side, fi_inject(side->ep, &value, sizeof(value), side->other));
}

static void close_early(struct side *side, unsigned char *memory, struct fid_mr *mr)
{
    unsigned char *copy = malloc(LONGEST);
    int got;
    while (*(volatile unsigned char *)memory != ROUNDS + 1)
        (void)fi_cntr_read(side->reads);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    memcpy(copy, memory, LONGEST);
    REPEAT(side, fi_recv(side->ep, &got, sizeof(got), NULL, side->other, NULL));
    await(side, side->rx);
    CHECK(memcmp(copy, memory, LONGEST) == 0);
    free(copy);
}

static void exchange(struct side *side, int in, int out)
{
    char name[64];
    size_t len = sizeof(name);
    CHECK_EQUAL(fi_getname(&side->ep->fid, name, &len), 0);
    CHECK_EQUAL(write(out, name, len), (ssize_t)len);
    CHECK_EQUAL(read(in, name, len), (ssize_t)len);
    side->other = side_insert(side, name);
}

static void run(bool writes, int in, int out)
{
    const struct pair_wish wish = {0};
    struct side side;
    unsigned char *memory = calloc(1, LONGEST);
    struct fid_mr *mr;
    int got;
    side_open(&side, &wish);
    CHECK_EQUAL(fi_mr_reg(side.domain, memory, LONGEST, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    exchange(&side, in, out);
    for (size_t len = 1024; len <= LONGEST; len *= 16) {
        if (writes) { /* the other one is ready */
            REPEAT(&side, fi_recv(side.ep, &got, 0, NULL, side.other, NULL));
            await(&side, side.rx);
            write_rounds(&side, memory, len);
        } else {
            read_rounds(&side, memory, len);
        }
    }
    if (writes) {
        write_last(&side, memory);
        CHECK_EQUAL(fi_close(&mr->fid), 0);
    } else {
        close_early(&side, memory, mr);
    }
    side_close(&side);
    free(memory);
}

int main(void)
{
    int there[2], back[2], status;
    CHECK_EQUAL(pipe(there), 0);
    CHECK_EQUAL(pipe(back), 0);
    pid_t child = fork();
    if (child == 0) {
        run(false, there[0], back[1]);
        _exit(0);
    }
    run(true, back[0], there[1]);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    puts("ok");
    return 0;
}
