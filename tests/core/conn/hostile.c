/*
 * A server among malicious strangers: garbage on its socket, calls with useless descriptors,
 * messages out of order, messages for handlers that do not exist. It refuses or drops them, keeps
 * no resources, and serves the next honest client.
 */
#include "base/stats.h"
#include "harness.h"
#include "raw.h"
#include "transport/hello.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PING = 100, PONG, SEGMENT = 8192, STOP = 1, SERVED = 2 };

static _Atomic uint32_t pongs;

static void on_ping(aq_am *am)
{
    aq_status st = aq_am_reply_short(am, PONG, AQ_NO_ARGS, 0);
    CHECK(st == AQ_OK || st == AQ_EPEER);
}

static void on_pong(aq_am *am)
{
    (void)am;
    pongs++;
}

static void open_with_handlers(void)
{
    aq_handler_entry table[] = {{.index = PING, .nargs = 0, .fn = on_ping},
                                {.index = PONG, .nargs = 0, .fn = on_pong}};
    role_open(AQ_THREAD_SINGLE, SEGMENT);
    job_handlers(table, COUNT_OF(table));
}

static void server(uint32_t number)
{
    (void)number;
    setenv("AQ_CONN_TIMEOUT", "300ms", 1);
    open_with_handlers();
    unsigned maps = count_maps();
    listen_here();
    unsigned fds = count_fds();
    atomic_store(&play->flag[SERVED], 1);
    unsigned quiet = 0;
    while (quiet < 1000) {
        aq_connection_event event;
        CHECK(aq_poll() >= AQ_OK);
        quiet = atomic_load(&play->flag[STOP]) ? quiet + 1 : 0;
        if (aq_connection_next_event(&event) != AQ_OK) continue;
        quiet = 0;
        if (event.type == AQ_CONNECTION_REQUEST &&
            aq_connection_accept(event.connection, NULL) == AQ_OK)
            continue;
        if (event.type == AQ_CONNECTION_OPENED) continue;
        CHECK_OK(aq_connection_close(event.connection));
    }
    CHECK_EQUAL(count_fds(), fds);
    CHECK_EQUAL(count_maps(), maps);
    /* The datagrams without a line, and the malformed calls. */
    CHECK(aqi_counter_sum(AQI_CTR_HELLO_DROPPED) >= 600);
    job_close();
}

static void honest(void)
{
    aq_connection *conn = connect_here(NULL);
    uint32_t before = pongs;
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, PING, AQ_NO_ARGS, 0));
    job_await(&pongs, before + 1);
    CHECK_OK(aq_connection_close(conn));
}

/* --- raw calls ------------------------------------------------------------------------------- */

/* Send a datagram with descriptors to the server, once it has room. */
static void post(int socket, const void *data, size_t len, const int *fds, unsigned nfds)
{
    struct sockaddr_un name;
    socklen_t name_len = raw_name(&name);
    raw_send(socket, &name, name_len, data, len, fds, nfds);
}

/*
 * Call with these bytes and objects. Returns the answer, or type 0 for none; stores the line in
 * `*keep`.
 */
static struct aqi_hello call(int socket, const void *data, size_t len, const int *objects,
                             unsigned count, int *keep)
{
    static unsigned char answer[AQI_HELLO_MAX];
    struct aqi_hello hello = {.type = 0};
    int pair[2], fds[16];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    fds[0] = pair[1];
    for (unsigned i = 0; i < count; i++)
        fds[i + 1] = objects[i];
    post(socket, data, len, fds, count + 1);
    close(pair[1]);
    ssize_t n = recv(pair[0], answer, sizeof(answer), 0); /* or the end of the line */
    if (n > 0) CHECK(aqi_hello_decode(answer, (size_t)n, &hello) == AQ_OK);
    if (keep != NULL)
        *keep = pair[0];
    else
        close(pair[0]);
    return hello;
}

static int memory(size_t size, unsigned seals)
{
    int fd = memfd_create("hostile", MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    if (seals != 0) CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static unsigned char bytes[AQI_HELLO_MAX];

static size_t call_from(const uint32_t *address, uint32_t len)
{
    struct aqi_hello hello = {.type = AQI_HELLO_CALL,
                              .messages = aqi_wire_version(AQI_WIRE_MESSAGES),
                              .transport = aqi_wire_version(AQI_WIRE_SHM),
                              .objects = 1,
                              .max_medium = 8192,
                              .addr = address,
                              .addr_len = len};
    return aqi_hello_encode(&hello, bytes);
}

static size_t good_call(void)
{
    return call_from(raw_address, sizeof(raw_address));
}

static void garbage(int socket)
{
    int fd = memory(4096, 0), two[] = {fd, fd};
    uint64_t random = mix(job.seed);
    for (int i = 0; i < 300; i++) { /* no line, or an invalid one */
        size_t n = random % 300;
        fill(bytes, n, random);
        post(socket, bytes, n, two, i % 3 == 0 ? 0 : (unsigned)i % 3);
        random = mix(random);
    }
    for (int i = 0; i < 300; i++) { /* with one */
        size_t n = random % 300;
        fill(bytes, n, random);
        CHECK_EQUAL(call(socket, bytes, n, two, (unsigned)i % 3, NULL).status, AQ_EPROTO);
        random = mix(random);
    }
    for (int i = 0; i < 1000; i++) { /* almost valid ones */
        size_t n = good_call();
        bytes[random % n] ^= (unsigned char)(1u << random / n % 8);
        struct aqi_hello answer = call(socket, bytes, n, &fd, 1, NULL);
        CHECK(answer.type != AQI_HELLO_ACCEPT);
        random = mix(random);
    }
    post(socket, bytes, AQI_HELLO_MAX, NULL, 0);
    close(fd);
}

static void wrong_calls(int socket)
{
    size_t n = good_call();
    CHECK_EQUAL(call(socket, bytes, n, NULL, 0, NULL).status,
                AQ_EPROTO); /* one object is missing */
    bytes[8]++;
    CHECK_EQUAL(call(socket, bytes, n, NULL, 0, NULL).status, AQ_EMISMATCH); /* another version */
    for (size_t at = 58; at < 60; at++) { /* the versions of messages and of shm */
        n = good_call();
        bytes[at]++;
        CHECK_EQUAL(call(socket, bytes, n, NULL, 0, NULL).status, AQ_EMISMATCH);
    }
    n = good_call();
    for (size_t cut = 1; cut < n; cut++)
        CHECK_EQUAL(call(socket, bytes, cut, NULL, 0, NULL).status, AQ_EPROTO);
    struct aqi_hello bye = {.type = AQI_HELLO_BYE};
    n = aqi_hello_encode(&bye, bytes);
    CHECK_EQUAL(call(socket, bytes, n, NULL, 0, NULL).status, AQ_EPROTO);
}

/* Ring dimensions that no settings result in. */
static void wrong_measures(int socket)
{
    static const uint32_t measures[][3] = {
        {0, 262144, 65536},  {UINT32_MAX, 1, 1},   {65, 262144, 65536},     {131072, 262144, 65536},
        {64, 0, 65536},      {64, 1, 64},          {64, 131072, 65536},     {64, 262145, 65536},
        {64, 262144, 65535}, {64, 262144, 4096},   {64, 1u << 31, 65536},   {64, 262144, 0},
        {8, 64, 64},         {64, 262144, 131072}, {64, 1u << 30, 1u << 29}};
    int object = memory(1 << 22, F_SEAL_SHRINK | F_SEAL_GROW);
    uint32_t address[6];
    memcpy(address, raw_address, sizeof(raw_address));
    for (uint32_t len = 0; len <= sizeof(address); len++) {
        size_t n = call_from(address, len);
        if (len == 5 * sizeof(address[0])) continue;
        CHECK_EQUAL(call(socket, bytes, n, &object, 1, NULL).status, AQ_EPROTO);
    }
    for (unsigned i = 0; i < COUNT_OF(measures); i++) {
        memcpy(address + 2, measures[i], sizeof(measures[i]));
        size_t n = call_from(address, 5 * sizeof(address[0]));
        CHECK_EQUAL(call(socket, bytes, n, &object, 1, NULL).status, AQ_EPROTO);
    }
    address[0]++;
    size_t n = call_from(address, 5 * sizeof(address[0]));
    CHECK_EQUAL(call(socket, bytes, n, &object, 1, NULL).status, AQ_EPROTO);
    close(object);
}

/* The contents of `objects` in a valid call; the size is in the server's answer. */
static void wrong_memory(int socket)
{
    size_t n = good_call();
    int pipes[2], many[8];
    CHECK(pipe(pipes) == 0);
    int unsealed = memory(1 << 22, 0);
    int tiny = memory(1, F_SEAL_SHRINK | F_SEAL_GROW);
    int other = memory(1 << 22, F_SEAL_SHRINK | F_SEAL_GROW);
    CHECK_EQUAL(call(socket, bytes, n, &pipes[0], 1, NULL).status, AQ_EPROTO);
    CHECK_EQUAL(call(socket, bytes, n, &socket, 1, NULL).status, AQ_EPROTO);
    CHECK_EQUAL(call(socket, bytes, n, &unsealed, 1, NULL).status, AQ_EPROTO);
    CHECK_EQUAL(call(socket, bytes, n, &tiny, 1, NULL).status, AQ_EPROTO);
    CHECK_EQUAL(call(socket, bytes, n, &other, 1, NULL).status, AQ_EPROTO);
    for (int i = 0; i < 8; i++)
        many[i] = other;
    CHECK_EQUAL(call(socket, bytes, n, many, 8, NULL).type, 0); /* too many: dropped */
    close(pipes[0]);
    close(pipes[1]);
    close(unsealed);
    close(tiny);
    close(other);
}

/* With valid memory, so that the server accepts the call; then lies follow, on the line and in the
 * rings. */
static size_t right_size;

static int accepted_call(int socket, int *object)
{
    int line;
    *object = memory(right_size, F_SEAL_SHRINK | F_SEAL_GROW);
    struct aqi_hello answer = call(socket, bytes, good_call(), object, 1, &line);
    /* An inbox of zeros is invalid. */
    CHECK_EQUAL(answer.status, AQ_EPROTO);
    return line;
}

static void hostile(uint32_t number)
{
    (void)number;
    open_with_handlers();
    role_await(SERVED, 1);
    int raw = socket(AF_UNIX, SOCK_DGRAM, 0), object;
    CHECK(raw >= 0);
    garbage(raw);
    honest();
    wrong_calls(raw);
    honest();
    wrong_measures(raw);
    honest();
    wrong_memory(raw);
    honest();
    right_size = play->flag[8] * (size_t)4096;
    close(accepted_call(raw, &object));
    close(object);
    honest();
    close(raw);
    job_close();
}

/* --- clients that are honest until they are connected -------------------------------------- */

/* A message for a handler that the server has not registered. */
static void unknown_handler(uint32_t number)
{
    (void)number;
    open_with_handlers();
    aq_connection *conn = connect_here(NULL);
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, 200, AQ_NO_ARGS, 0));
    aq_connection_event event = expect_event(AQ_CONNECTION_LOST);
    CHECK(event.connection == conn);
    CHECK_OK(aq_connection_close(conn));
    honest();
    job_close();
}

/* Sends questions until there is no room, and then stops its process, so that it takes no
 * answer. */
static void never_listens(uint32_t number)
{
    (void)number;
    open_with_handlers();
    aq_connection *conn = connect_here(NULL);
    aq_team *team = aq_connection_team(conn);
    unsigned again = 0;
    while (again < 100000) {
        aq_status st = aq_am_short(team, 1, PING, AQ_NO_ARGS, AQ_IMMEDIATE);
        CHECK(st == AQ_OK || st == AQ_AGAIN);
        again = st == AQ_AGAIN ? again + 1 : 0;
    }
    atomic_store(&play->flag[3], 1);
    raise(SIGSTOP);
    pause();
}

static size_t object_size(void)
{
    /* An honest client's mapping for a connection has the right size. */
    char line[512];
    unsigned long from, to, size = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        if (strstr(line, "aq-inboxes") != NULL && sscanf(line, "%lx-%lx", &from, &to) == 2)
            size = to - from > size ? to - from : size;
    fclose(maps);
    return size;
}

/* Determines the size of valid memory for the liars. */
static void measure(uint32_t number)
{
    (void)number;
    open_with_handlers();
    aq_connection *conn = connect_here(NULL);
    play->flag[8] = (uint32_t)(object_size() / 4096);
    CHECK(play->flag[8] > 0);
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

int main(void)
{
    play_begin("hostile");
    pid_t process = play_start(server, 0);
    play_ended(play_start(measure, 0));
    play_ended(play_start(hostile, 0));
    play_ended(play_start(unknown_handler, 0));
    pid_t stopped = play_start(never_listens, 0);
    while (atomic_load(&play->flag[3]) == 0)
        usleep(1000);
    play_ended(play_start(unknown_handler, 0)); /* it is served nevertheless, after a while */
    kill(stopped, SIGKILL);
    play_killed(stopped);
    atomic_store(&play->flag[STOP], 1);
    play_ended(process);
    return 0;
}
