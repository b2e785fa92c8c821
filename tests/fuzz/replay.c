/*
 * Runs a fuzz target without libFuzzer: on every file of a corpus, then on mutations of these from
 * a seed.
 *
 *     replay CORPUS [MUTATIONS [SEED]]
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define INPUT_MAX  512
#define CORPUS_MAX 256

struct input {
    size_t size;
    uint8_t data[INPUT_MAX];
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;

/* splitmix64: the next element of the sequence of a seed. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t random_below(uint64_t *state, size_t limit)
{
    return limit == 0 ? 0 : (size_t)(random_next(state) % limit);
}

/* The input is an exact copy, so that a sanitizer detects a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static int read_file(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL || corpus_count == CORPUS_MAX) {
        fprintf(stderr, "replay: %s: %s\n", path,
                file == NULL ? strerror(errno) : "too many files");
        if (file != NULL) fclose(file);
        return 1;
    }
    struct input *input = &corpus[corpus_count++];
    input->size = fread(input->data, 1, sizeof(input->data), file);
    fclose(file);
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Files are sorted by name, so that a seed gives the same inputs everywhere. */
static int read_corpus(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, by_name), failed = 0;
    if (count < 0) {
        fprintf(stderr, "replay: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.' && failed == 0)
            failed = read_file(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

static void insert_byte(struct input *input, size_t at, uint8_t byte)
{
    if (input->size == INPUT_MAX) return;
    memmove(input->data + at + 1, input->data + at, input->size - at);
    input->data[at] = byte;
    input->size++;
}

/* Replace the tail of this input by that of another. */
static void splice(struct input *input, uint64_t *state)
{
    const struct input *other = &corpus[random_below(state, corpus_count)];
    size_t keep = random_below(state, input->size + 1);
    size_t from = random_below(state, other->size + 1), tail = other->size - from;
    if (tail > INPUT_MAX - keep) tail = INPUT_MAX - keep;
    memcpy(input->data + keep, other->data + from, tail);
    input->size = keep + tail;
}

static void mutate(struct input *input, uint64_t *state)
{
    static const uint8_t interesting[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', '=', ',', 'K'};
    size_t at = random_below(state, input->size);
    switch (random_below(state, 6)) {
    case 0:
        if (input->size > 0) input->data[at] ^= (uint8_t)(1u << random_below(state, 8));
        break;
    case 1:
        if (input->size > 0) input->data[at] = (uint8_t)random_next(state);
        break;
    case 2:
        insert_byte(input, at, interesting[random_below(state, sizeof(interesting))]);
        break;
    case 3:
        if (input->size == 0) break;
        memmove(input->data + at, input->data + at + 1, input->size - at - 1);
        input->size--;
        break;
    case 4:
        input->size = at;
        break;
    default:
        splice(input, state);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s CORPUS [MUTATIONS [SEED]]\n", argv[0]);
        return 2;
    }
    unsigned long mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, state = seed;
    if (read_corpus(argv[1]) != 0) return 1;
    if (corpus_count == 0) {
        fprintf(stderr, "replay: no files in %s\n", argv[1]);
        return 1;
    }
    printf("%zu files, %lu mutations, seed %" PRIu64 "\n", corpus_count, mutations, seed);
    fflush(stdout);
    for (size_t i = 0; i < corpus_count; i++)
        run(corpus[i].data, corpus[i].size);
    for (unsigned long i = 0; i < mutations; i++) {
        struct input input = corpus[random_below(&state, corpus_count)];
        for (size_t steps = 1 + random_below(&state, 8); steps > 0; steps--)
            mutate(&input, &state);
        run(input.data, input.size);
    }
    return 0;
}
