/*
 * Strangers that know the protocol and the memory layout, and lie where that is most harmful: about
 * the owner of the memory that they offer, with more descriptors than a message carries, and with
 * malformed data before the program has seen the request.
 */
#include "base/stats.h"
#include "harness.h"
#include "raw.h"
#include "transport/hello.h"
#include "transport/shm/shm_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

enum { SERVED = 1, CALLED, DONE, PAGES, SLOTS, LINE_BYTES };

static unsigned char bytes[AQI_HELLO_MAX];

/*
 * Call the server of the play with one object; the far end of the line stays open in this process
 * as well.
 */
static void call(int object, int line[2])
{
    struct aqi_hello hello = {.type = AQI_HELLO_CALL,
                              .messages = aqi_wire_version(AQI_WIRE_MESSAGES),
                              .transport = aqi_wire_version(AQI_WIRE_SHM),
                              .objects = 1,
                              .max_medium = 8192,
                              .addr = raw_address,
                              .addr_len = sizeof(raw_address)};
    struct sockaddr_un name;
    socklen_t len = raw_name(&name);
    int raw = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(raw >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) == 0);
    int fds[] = {line[1], object};
    raw_send(raw, &name, len, bytes, aqi_hello_encode(&hello, bytes), fds, 2);
    close(raw);
}

/* --- malformed data before the request is seen ------------------------------------------------ */

static void closing_server(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_here();
    atomic_store(&play->flag[SERVED], 1);
    while (aqi_counter_sum(AQI_CTR_HELLO_DROPPED) == 0)
        CHECK(aq_poll() >= AQ_OK);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void babbler(uint32_t number)
{
    (void)number;
    int line[2], object = memfd_create("liar", 0);
    role_await(SERVED, 1);
    call(object, line);
    close(line[1]);
    raw_send(line[0], NULL, 0, bytes, 3, NULL, 0);
    CHECK(recv(line[0], bytes, 1, 0) == 0); /* the server closes */
}

/* --- too many descriptors --------------------------------------------------------------------- */

/* The headers of the two inboxes precede all channels, each on a page. */
enum { HEADER_BYTES = 4096 };

static void measure(uint32_t number)
{
    (void)number;
    char line[512];
    unsigned long from, to;
    role_open(AQ_THREAD_SINGLE, 0);
    (void)connect_here(NULL);
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "aq-inboxes") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        const struct shm_inbox *inbox = (const void *)(from + HEADER_BYTES);
        if (inbox->magic != SHM_MAGIC || inbox->rank != 1) continue;
        play->flag[SLOTS] = inbox->slots;
        play->flag[LINE_BYTES] = (uint32_t)inbox->payload;
        play->flag[PAGES] = (uint32_t)((to - from) / 4096);
    }
    fclose(maps);
    CHECK(play->flag[PAGES] != 0);
    job_close();
}

static int good_object(void)
{
    size_t size = play->flag[PAGES] * (size_t)4096;
    int fd = memfd_create("liar", MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    struct shm_inbox *inbox = (void *)(at + HEADER_BYTES);
    inbox->magic = SHM_MAGIC;
    inbox->rank = 1;
    inbox->slots = play->flag[SLOTS];
    inbox->payload = play->flag[LINE_BYTES];
    CHECK(munmap(at, size) == 0);
    return fd;
}

static void waiting_server(uint32_t number)
{
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_here();
    unsigned fds = count_fds();
    CHECK_EQUAL(serve(3), 2); /* and one that was closed */
    CHECK_EQUAL(count_fds(), fds);
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

static void giver(uint32_t number)
{
    (void)number;
    int line[2], many[20], off = 0, on = 1;
    struct aqi_hello bye = {.type = AQI_HELLO_CONFIRM};
    int object = good_object();
    for (unsigned i = 0; i < 20; i++)
        many[i] = object;
    for (unsigned n = 7; n <= 20; n += 13) {
        call(object, line);
        CHECK(recv(line[0], bytes, sizeof(bytes), 0) > 0);
        CHECK(setsockopt(line[1], SOL_SOCKET, SO_PASSCRED, &off, sizeof(off)) == 0);
        (void)setsockopt(line[1], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on)); /* since Linux 6.5 */
        raw_send(line[0], NULL, 0, bytes, aqi_hello_encode(&bye, bytes), many, n);
        close(line[1]);
        while (recv(line[0], bytes, sizeof(bytes), 0) > 0) /* until the server closes */
            ;
        close(line[0]);
    }
}

/* --- memory of another process ---------------------------------------------------------------- */

/* Pretends to be the client, and offers the client's memory as its own. */
static void impostor(uint32_t number)
{
    (void)number;
    struct sockaddr_un name;
    socklen_t len = raw_name(&name);
    int raw = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(raw >= 0 && bind(raw, (struct sockaddr *)&name, len) == 0);
    atomic_store(&play->flag[SERVED], 1);
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec part = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    CHECK(recvmsg(raw, &message, 0) > 0 && CMSG_FIRSTHDR(&message) != NULL);
    int line;
    memcpy(&line, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(line));
    struct aqi_hello accept = {.type = AQI_HELLO_ACCEPT,
                               .max_medium = 8192,
                               .addr = raw_address,
                               .addr_len = sizeof(raw_address),
                               .segment_addr = 1 << 20,
                               .segment_size = 4096};
    const uint32_t key[] = {1, 1, 0, 0, UINT32_MAX, 0}; /* private, of local rank 1 */
    accept.key = key;
    accept.key_len = sizeof(key);
    raw_send(line, NULL, 0, bytes, aqi_hello_encode(&accept, bytes), NULL, 0);
    role_await(DONE, 1);
}

static void believer(uint32_t number)
{
    (void)number;
    aq_connection *conn;
    role_open(AQ_THREAD_SINGLE, 0);
    role_await(SERVED, 1);
    CHECK_EQUAL(aq_connect(play->uri, NULL, &conn), AQ_EPROTO);
    atomic_store(&play->flag[DONE], 1);
    job_close();
}

int main(void)
{
    play_begin("liars.babbler");
    pid_t process = play_start(closing_server, 0);
    play_ended(play_start(babbler, 0));
    play_ended(process);

    play_begin("liars.giver");
    process = play_start(waiting_server, 0);
    play_ended(play_start(measure, 0));
    play_ended(play_start(giver, 0));
    play_ended(process);

    play_begin("liars.impostor");
    process = play_start(impostor, 0);
    play_ended(play_start(believer, 0));
    play_ended(process);
    return 0;
}
