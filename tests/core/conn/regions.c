/*
 * Regions: accesses by handles, with the rights that these give; forged and revoked handles; what
 * follows an access.
 */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 300000, LARGE = 64 << 20, MANY = 500, HANDLE = 90, ASK, DONE };
enum { READ_ONLY, WRITE_ONLY, BOTH, PRIVATE, HANDLES, LIST = HANDLES, LAST, ALL };
/* PRIVATE: for the first connection */
enum { REVOKED = 1, ATTACKED, FINISHED };

static aq_region_handle handles[ALL], many[MANY];
static _Atomic uint32_t have, asked;
static unsigned char memory[HANDLES][SIZE];

/* --- messages -------------------------------------------------------------------------------- */

static void on_handle(aq_am *am)
{
    CHECK_EQUAL(am->nbytes, sizeof(aq_region_handle));
    memcpy(&handles[am->args[0]], am->payload, am->nbytes);
    have++;
}

static void on_ask(aq_am *am)
{
    (void)am;
    asked++;
}

/* The message follows a put, whose bytes must be there. */
static void on_done(aq_am *am)
{
    size_t n = (uint32_t)am->args[0];
    CHECK(filled(memory[BOTH], n, n));
    CHECK_OK(aq_am_reply_short(am, ASK, AQ_NO_ARGS, 0));
}

static void open_and_register(aq_thread_mode mode)
{
    aq_handler_entry table[] = {{.index = HANDLE, .nargs = 1, .fn = on_handle},
                                {.index = ASK, .nargs = 0, .fn = on_ask},
                                {.index = DONE, .nargs = 1, .fn = on_done}};
    role_open(mode, 0);
    job_handlers(table, COUNT_OF(table));
}

static void ask(aq_connection *conn)
{
    CHECK_OK(aq_am_short(aq_connection_team(conn), 1, ASK, AQ_NO_ARGS, 0));
}

static void send_handle(aq_connection *conn, unsigned which, const aq_region *region)
{
    aq_region_handle handle;
    CHECK_OK(aq_region_handle_of(region, &handle));
    CHECK_OK(aq_am_medium(aq_connection_team(conn), 1, HANDLE, &handle, sizeof(handle),
                          AQ_ARGS((aq_arg)which), 0, NULL));
}

/* --- the owner ------------------------------------------------------------------------------- */

static void refuses_nonsense(void)
{
    static const unsigned rights[] = {0, AQ_REGION_READ | 1, 0x10000};
    aq_region *region;
    for (size_t i = 0; i < COUNT_OF(rights); i++)
        CHECK_REFUSED(aq_region_create(NULL, memory, 8, rights[i], &region), AQ_EINVAL);
    CHECK_REFUSED(aq_region_create(NULL, memory, 0, AQ_REGION_READ, &region), AQ_EINVAL);
    CHECK_REFUSED(aq_region_create(NULL, NULL, 8, AQ_REGION_READ, &region), AQ_EINVAL);
    CHECK_REFUSED(aq_region_create(NULL, memory, SIZE_MAX, AQ_REGION_READ, &region), AQ_EINVAL);
    CHECK_REFUSED(aq_region_create(NULL, memory, 8, AQ_REGION_READ, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_region_handle_of(NULL, handles), AQ_EINVAL);
    CHECK_OK(aq_region_revoke(NULL));
}

static void *poll_too(void *unused)
{
    while (atomic_load(&asked) < FINISHED)
        (void)aq_poll();
    return unused;
}

/* Whether a transfer into these bytes has begun. They are deliberately read while another thread
 * writes. */
__attribute__((no_sanitize("thread"), noinline)) static bool has_begun(const unsigned char *bytes)
{
    return *(const volatile unsigned char *)bytes != 0;
}

/* Once a region is revoked, nothing in it changes, whatever is under way. */
static void revoke_under_way(aq_connection *conn)
{
    unsigned char *bytes = malloc(LARGE);
    aq_region *region;
    CHECK(bytes != NULL);
    memset(bytes, 0, LARGE);
    CHECK_OK(aq_region_create(conn, bytes, LARGE, AQ_REGION_WRITE, &region));
    send_handle(conn, LAST, region);
    while (!has_begun(bytes))
        (void)aq_poll();
    CHECK_OK(aq_region_revoke(region));
    memset(bytes, 0, LARGE);
    job_await(&asked, ATTACKED);
    CHECK(all_bytes(bytes, LARGE, 0));
    free(bytes);
}

static void owner(uint32_t number)
{
    aq_region *regions[HANDLES], *small[MANY];
    pthread_t thread;
    (void)number;
    open_and_register(AQ_THREAD_MULTIPLE);
    refuses_nonsense();
    aq_listener *listener = listen_here();
    aq_connection *first = accept_one(NULL), *second = accept_one(NULL);
    fill(memory[READ_ONLY], SIZE, 1);
    static const unsigned rights[] = {AQ_REGION_READ, AQ_REGION_WRITE,
                                      AQ_REGION_READ | AQ_REGION_WRITE, AQ_REGION_READ};
    for (unsigned i = 0; i < HANDLES; i++) {
        CHECK_OK(
            aq_region_create(i == PRIVATE ? first : NULL, memory[i], SIZE, rights[i], &regions[i]));
        send_handle(first, i, regions[i]);
    }
    CHECK_EQUAL(pthread_create(&thread, NULL, poll_too, NULL), 0);
    job_await(&asked, REVOKED);
    CHECK(filled(memory[READ_ONLY], SIZE, 1));
    CHECK(all_bytes(memory[PRIVATE], SIZE, 0));
    for (unsigned i = 0; i < HANDLES; i++)
        CHECK_OK(aq_region_revoke(regions[i]));
    CHECK_REFUSED(aq_region_revoke(regions[0]), AQ_EINVAL);
    memset(memory, 0x55, sizeof(memory));
    /* Many at once. They reuse the places of the previous regions, whose handles are no longer
     * valid. */
    for (unsigned i = 0; i < MANY; i++)
        CHECK_OK(aq_region_create(NULL, memory[BOTH] + 64 * (size_t)i, 64,
                                  AQ_REGION_READ | AQ_REGION_WRITE, &small[i]));
    aq_region *list;
    for (unsigned i = 0; i < MANY; i++)
        CHECK_OK(aq_region_handle_of(small[i], &many[i]));
    CHECK_OK(aq_region_create(first, many, sizeof(many), AQ_REGION_READ, &list));
    send_handle(first, LIST, list);
    revoke_under_way(first);
    CHECK(all_bytes(memory[READ_ONLY], SIZE, 0x55) && all_bytes(memory[WRITE_ONLY], SIZE, 0x55));
    for (unsigned i = 0; i < MANY; i++)
        CHECK(all_bytes(memory[BOTH] + 64 * (size_t)i, 64, (unsigned char)i));
    job_await(&asked, FINISHED);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK_OK(aq_connection_close(expect_event(AQ_CONNECTION_CLOSED).connection));
    (void)second;
    CHECK_OK(aq_region_revoke(list)); /* its connection is already closed; job_close revokes the
                                       * others */
    CHECK_OK(aq_listener_close(listener));
    job_close();
}

/* --- its peer -------------------------------------------------------------------------------- */

static aq_status put(aq_connection *conn, const aq_region_handle *there, uint64_t at,
                     const void *from, size_t n, unsigned flags)
{
    aq_event ev;
    aq_status st = aq_region_put_nb(conn, there, at, from, n, flags, &ev);
    return st == AQ_OK ? aq_event_wait(&ev, AQ_FOREVER) : st;
}

static aq_status get(aq_connection *conn, void *to, const aq_region_handle *there, uint64_t at,
                     size_t n)
{
    aq_event ev;
    aq_status st = aq_region_get_nb(conn, to, there, at, n, 0, &ev);
    return st == AQ_OK ? aq_event_wait(&ev, AQ_FOREVER) : st;
}

static unsigned char out[SIZE], in[SIZE];

static void reads_and_writes(aq_connection *conn)
{
    static const size_t sizes[] = {0, 1, 8, 100, 4096, 65537, SIZE};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t n = sizes[i], at = SIZE - n;
        fill(out, n, 10 + i);
        CHECK_OK(put(conn, &handles[BOTH], at, out, n, 0));
        memset(in, 0, n);
        CHECK_OK(get(conn, in, &handles[BOTH], at, n));
        CHECK(memcmp(in, out, n) == 0);
    }
    CHECK_OK(get(conn, in, &handles[READ_ONLY], 0, SIZE));
    CHECK(filled(in, SIZE, 1));
    CHECK_OK(put(conn, &handles[WRITE_ONLY], 0, out, SIZE, 0));
    CHECK_OK(get(conn, in, &handles[PRIVATE], 7, 1000));
    CHECK(all_bytes(in, 1000, 0));
}

/* A message is sent once the bytes have arrived; a single event covers the put and the message. */
static void tells_when_done(aq_connection *conn)
{
    static const size_t sizes[] = {1, 1000, 70000, SIZE};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        aq_event ev;
        fill(out, sizes[i], sizes[i]);
        CHECK_OK(aq_region_put_nb(conn, &handles[BOTH], 0, out, sizes[i], 0, &ev));
        CHECK_OK(aq_am_medium_after_nb(aq_connection_team(conn), 1, DONE, NULL, 0,
                                       AQ_ARGS((aq_arg)sizes[i]), 0, &ev));
        CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
        job_await(&asked, (uint32_t)i + 1);
    }
}

/* With a fence the second put takes effect last, although it is shorter. */
static void fences(aq_connection *conn)
{
    static const unsigned char last[16] = "the last word";
    static unsigned char zeros[SIZE];
    for (unsigned i = 0; i < 20; i++) {
        aq_event first, second;
        CHECK_OK(aq_region_put_nb(conn, &handles[BOTH], 0, zeros, SIZE, 0, &first));
        CHECK_OK(aq_region_put_nb(conn, &handles[BOTH], SIZE - sizeof(last), last, sizeof(last),
                                  AQ_FENCE, &second));
        CHECK_OK(aq_event_wait(&second, AQ_FOREVER));
        CHECK_OK(aq_event_test(&first)); /* it was complete before */
        CHECK_OK(get(conn, in, &handles[BOTH], SIZE - sizeof(last), sizeof(last)));
        CHECK(memcmp(in, last, sizeof(last)) == 0);
    }
}

/* This side refuses what the handle does not permit. */
static void is_refused_here(aq_connection *conn)
{
    aq_region_handle nonsense;
    aq_event ev;
    memset(&nonsense, 0x5a, sizeof(nonsense));
    CHECK_REFUSED(put(conn, &handles[READ_ONLY], 0, out, 8, 0), AQ_EACCESS);
    CHECK_REFUSED(get(conn, in, &handles[WRITE_ONLY], 0, 8), AQ_EACCESS);
    CHECK_REFUSED(get(conn, in, &handles[BOTH], SIZE - 7, 8), AQ_ERANGE);
    CHECK_REFUSED(get(conn, in, &handles[BOTH], UINT64_MAX, 8), AQ_ERANGE);
    CHECK_REFUSED(get(conn, in, &nonsense, 0, 8), AQ_EINVAL);
    CHECK_EQUAL(aq_region_handle_size(&nonsense), 0);
    CHECK_EQUAL(aq_region_handle_size(NULL), 0);
    CHECK_EQUAL(aq_region_handle_size(&handles[BOTH]), SIZE);
    CHECK_REFUSED(get(conn, in, NULL, 0, 8), AQ_EINVAL);
    CHECK_REFUSED(get(conn, NULL, &handles[BOTH], 0, 8), AQ_EINVAL);
    CHECK_REFUSED(aq_region_get_nb(conn, in, &handles[BOTH], 0, 8, 0x800, &ev), AQ_EINVAL);
    CHECK_REFUSED(aq_region_get_nb(conn, in, &handles[BOTH], 0, 8, 0, NULL), AQ_EINVAL);
}

/* The message of the last failure says why. */
static void expect_reason(const char *why)
{
    if (strstr(aq_error_message(), why) == NULL)
        check_failed(__FILE__, __LINE__, "\"%s\" does not say that %s", aq_error_message(), why);
}

/* The bytes of a handle, as region.c makes them. */
struct forged {
    uint32_t magic, rights;
    uint64_t size;
    uint32_t ticket[4];
};

/* The owner refuses the handles that a peer forges, and is not disturbed. */
static void is_refused_there(aq_connection *conn, aq_connection *other)
{
    struct forged forged;
    aq_region_handle bytes;
    memcpy(&forged, &handles[READ_ONLY], sizeof(forged));
    forged.rights = AQ_REGION_READ | AQ_REGION_WRITE;
    memcpy(&bytes, &forged, sizeof(bytes));
    CHECK_REFUSED(put(conn, &bytes, 0, out, SIZE, 0), AQ_EACCESS);
    expect_reason("the region does not grant the right");
    forged.size = UINT64_MAX;
    memcpy(&bytes, &forged, sizeof(bytes));
    CHECK_REFUSED(get(conn, in, &bytes, SIZE - 7, 8), AQ_ERANGE);
    CHECK_REFUSED(get(conn, in, &bytes, UINT64_MAX - 100, 8), AQ_ERANGE);
    expect_reason("read 8 bytes at offset 18446744073709551515: the region ends before");
    for (unsigned i = 0; i < 4; i++)
        for (unsigned bit = 0; bit < 32; bit += 7) {
            memcpy(&forged, &handles[BOTH], sizeof(forged));
            forged.ticket[i] ^= 1u << bit;
            memcpy(&bytes, &forged, sizeof(bytes));
            CHECK_REFUSED(put(conn, &bytes, 0, out, 8, 0), AQ_EACCESS);
            CHECK_REFUSED(get(conn, in, &bytes, 0, 8), AQ_EACCESS);
            expect_reason("it has no region with this handle");
        }
    CHECK_REFUSED(get(other, in, &handles[PRIVATE], 0, 8), AQ_EACCESS);
    expect_reason("the region is for another connection");
    CHECK_OK(get(other, in, &handles[READ_ONLY], 0, 8));
}

static int has_list(void *unused)
{
    (void)unused;
    return aq_region_handle_size(&handles[LIST]) != 0;
}

static void is_refused_once_revoked(aq_connection *conn)
{
    ask(conn);
    CHECK_OK(aq_poll_until(has_list, NULL, AQ_FOREVER)); /* the handle of LAST may overtake it */
    CHECK_OK(get(conn, many, &handles[LIST], 0, sizeof(many)));
    for (unsigned i = 0; i < HANDLES; i++) {
        if (i != WRITE_ONLY) {
            CHECK_REFUSED(get(conn, in, &handles[i], 0, 8), AQ_EACCESS);
            expect_reason("revoked");
        }
        if (i == WRITE_ONLY || i == BOTH)
            CHECK_REFUSED(put(conn, &handles[i], 0, out, SIZE, 0), AQ_EACCESS);
    }
    aq_event events[MANY];
    static unsigned char bytes[MANY][64];
    for (unsigned i = 0; i < MANY; i++) {
        memset(bytes[i], (int)i, 64);
        CHECK_OK(aq_region_put_nb(conn, &many[i], 0, bytes[i], 64, 0, &events[i]));
    }
    for (unsigned i = 0; i < MANY; i++)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
}

static void peer(uint32_t number)
{
    (void)number;
    open_and_register(AQ_THREAD_SINGLE);
    aq_connection *conn = connect_here(NULL), *other = connect_here(NULL);
    job_await(&have, HANDLES);
    reads_and_writes(conn);
    tells_when_done(conn);
    fences(conn);
    is_refused_here(conn);
    is_refused_there(conn, other);
    is_refused_once_revoked(conn);
    job_await(&have, ALL);
    unsigned char *bytes = malloc(LARGE);
    CHECK(bytes != NULL);
    memset(bytes, 0x77, LARGE);
    CHECK_REFUSED(put(conn, &handles[LAST], 0, bytes, LARGE, 0), AQ_EACCESS);
    free(bytes);
    ask(conn);
    ask(conn);
    CHECK_OK(aq_connection_close(conn));
    CHECK_OK(aq_connection_close(other));
    job_close();
}

int main(void)
{
    play_begin("regions");
    pid_t one = play_start(owner, 0), two = play_start(peer, 0);
    play_ended(one);
    play_ended(two);
    return 0;
}
