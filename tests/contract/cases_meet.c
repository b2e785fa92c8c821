/* Meeting programs not started together: listeners, calls, letters, and the end of a line. */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LETTER = 1000, LINES = 300 };

/* What one side has seen. */
struct meet_state {
    const struct aqi_meet_ops *ops;
    struct aqi_meet *meet;
    struct aqi_listener *listener;
    struct aqi_line *line[LINES]; /* taken from calls */
    unsigned calls, letters, ends;
    bool refuse; /* hang up on whoever calls */
    struct aqi_writer writer;
    uint64_t seed; /* of the last letter */
    size_t len;
    off_t object; /* size of the last object that came along */
};

static void meet_read(struct meet_state *state, const struct aqi_writer *writer,
                      struct aqi_letter *letter)
{
    struct stat info;
    state->writer = *writer;
    state->len = letter->len;
    CT_CHECK(letter->len >= sizeof(state->seed));
    memcpy(&state->seed, letter->bytes, sizeof(state->seed));
    CT_CHECK(filled((const char *)letter->bytes + 8, letter->len - 8, state->seed));
    for (unsigned i = 0; i < letter->nfds; i++) {
        CT_CHECK(fstat(letter->fds[i], &info) == 0);
        state->object = info.st_size;
    }
    if (letter->nfds > 0) { /* keep one, and leave the others to the transport */
        close(letter->fds[0]);
        letter->fds[0] = -1;
    }
}

static void *meet_call(void *arg, void *listener_user, struct aqi_line *line,
                       const struct aqi_writer *writer, struct aqi_letter *letter)
{
    struct meet_state *state = arg;
    CT_CHECK(listener_user == &state->listener);
    state->calls++;
    meet_read(state, writer, letter);
    if (state->refuse) return NULL;
    CT_CHECK(state->calls <= LINES);
    state->line[state->calls - 1] = line;
    return state;
}

static void meet_letter(void *arg, void *line_user, const struct aqi_writer *writer,
                        struct aqi_letter *letter)
{
    struct meet_state *state = arg;
    CT_CHECK(line_user == state);
    state->letters++;
    meet_read(state, writer, letter);
}

static void meet_hung_up(void *arg, void *line_user)
{
    struct meet_state *state = arg;
    CT_CHECK(line_user == state);
    state->ends++;
}

/* False: the transport meets nobody, and the case is skipped. */
static bool meet_open(struct ct_ep *ep, struct meet_state *state)
{
    *state = (struct meet_state){.ops = ep->world->config.transport->meet};
    struct aqi_meet_hooks hooks = {
        .call = meet_call, .letter = meet_letter, .hung_up = meet_hung_up, .arg = state};
    if (state->ops == NULL) {
        ct_skip(ep, "the transport meets nobody");
        return false;
    }
    CT_OK(state->ops->open(&hooks, &state->meet));
    return true;
}

/* Rank 0 listens, and everybody knows where. */
static void meet_listen(struct ct_ep *ep, struct meet_state *state)
{
    if (ep->self == 0)
        CT_OK(state->ops->listen(state->meet, NULL, &state->listener, &state->listener,
                                 ep->world->uri[0]));
    ct_meet(ep);
}

static void meet_await(struct meet_state *state, const unsigned *counter, unsigned value)
{
    uint64_t start = 0;
    while (*counter < value) {
        if (state->ops->progress(state->meet) == 0) ct_relax();
        CT_CHECK(!ct_overdue(&start, 60));
    }
}

/* A letter of `len` bytes with `objects` descriptors, each of an object of so many bytes. */
struct meet_out {
    unsigned char bytes[LETTER];
    int fds[AQI_MEET_FDS];
    struct aqi_letter letter;
};

static const struct aqi_letter *meet_write(struct meet_out *out, size_t len, unsigned objects,
                                           off_t size, uint64_t seed)
{
    memcpy(out->bytes, &seed, sizeof(seed));
    fill(out->bytes + 8, len - 8, seed);
    for (unsigned i = 0; i < objects; i++) {
        out->fds[i] = memfd_create("object", MFD_CLOEXEC);
        CT_CHECK(out->fds[i] >= 0 && ftruncate(out->fds[i], size) == 0);
    }
    out->letter =
        (struct aqi_letter){.bytes = out->bytes, .len = len, .fds = out->fds, .nfds = objects};
    return &out->letter;
}

static void meet_written(struct meet_out *out)
{
    for (unsigned i = 0; i < out->letter.nfds; i++)
        close(out->fds[i]);
}

static struct aqi_line *meet_dial(struct ct_ep *ep, struct meet_state *state, unsigned objects,
                                  uint64_t seed)
{
    struct meet_out out;
    struct aqi_line *line = NULL;
    const struct aqi_letter *letter = meet_write(&out, LETTER, objects, 4096, seed);
    aq_status st;
    while ((st = state->ops->dial(state->meet, ep->world->uri[0], letter, state, &line)) ==
           AQ_AGAIN)
        ct_relax();
    CT_OK(st);
    meet_written(&out);
    return line;
}

/* --- the cases ------------------------------------------------------------------------------- */

static void meet_addresses(struct ct_ep *ep)
{
    struct meet_state state;
    struct aqi_listener *other = NULL;
    struct aqi_line *line = NULL;
    char uri[AQI_URI_MAX], again[AQI_URI_MAX], own[64];
    struct meet_out out;
    if (!meet_open(ep, &state)) return;
    CT_OK(state.ops->listen(state.meet, NULL, &state.listener, &state.listener, uri));
    snprintf(own, sizeof(own), "%s://", ep->world->config.transport->name);
    CT_CHECK(strncmp(uri, own, strlen(own)) == 0 && memchr(uri, 0, AQI_URI_MAX) != NULL);
    CT_EQUAL(state.ops->listen(state.meet, uri, NULL, &other, again), AQ_ESTATE);
    CT_OK(state.ops->listen(state.meet, NULL, &other, &other, again));
    CT_CHECK(strcmp(uri, again) != 0 && other != NULL);
    state.ops->unlisten(state.meet, other);
    const struct aqi_letter *letter = meet_write(&out, 100, 0, 0, 1);
    CT_EQUAL(state.ops->dial(state.meet, again, letter, &state, &line), AQ_EREFUSED);
    CT_OK(state.ops->listen(state.meet, again, &other, &other, uri));
    CT_CHECK(strcmp(uri, again) == 0);
    static const char *const bad[] = {"", "x", "nosuch://1", "://", " "};
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        CT_EQUAL(state.ops->listen(state.meet, bad[i], NULL, &other, again), AQ_EINVAL);
        CT_EQUAL(state.ops->dial(state.meet, bad[i], letter, &state, &line), AQ_EINVAL);
    }
    state.ops->close(state.meet); /* with both still listening */
    ct_meet(ep);
}

static void meet_talk(struct ct_ep *ep)
{
    struct meet_state state;
    struct meet_out out;
    if (!meet_open(ep, &state)) return;
    meet_listen(ep, &state);
    struct aqi_line *line = meet_dial(ep, &state, 2, 1000 + ep->self);
    if (ep->self == 0) {
        meet_await(&state, &state.calls, ep->size);
        CT_EQUAL(state.len, LETTER);
        CT_EQUAL(state.object, 4096);
        CT_EQUAL(state.writer.uid, geteuid());
        CT_CHECK(state.writer.pid > 0);
        for (uint32_t i = 0; i < ep->size; i++) {
            CT_OK(state.ops->send(state.line[i], meet_write(&out, 8 + i, 1, 8192, i)));
            meet_written(&out);
        }
    }
    meet_await(&state, &state.letters, 1);
    CT_EQUAL(state.object, 8192);
    CT_CHECK(ep->world->config.as_threads || state.writer.pid != 0);
    state.ops->hang_up(line);
    if (ep->self == 0) {
        meet_await(&state, &state.ends, ep->size);
        for (uint32_t i = 0; i < ep->size; i++) {
            CT_EQUAL(state.ops->send(state.line[i], meet_write(&out, 8, 0, 0, 1)), AQ_EPEER);
            state.ops->hang_up(state.line[i]);
        }
    }
    state.ops->close(state.meet);
    ct_meet(ep);
}

/* Who is hung up on hears of it, and nobody's descriptors stay. */
static void meet_refused(struct ct_ep *ep)
{
    struct meet_state state;
    if (!meet_open(ep, &state)) return;
    state.refuse = true;
    meet_listen(ep, &state);
    for (unsigned i = 0; i < 50; i++) {
        struct aqi_line *line = meet_dial(ep, &state, AQI_MEET_FDS, i);
        meet_await(&state, &state.ends, i + 1);
        state.ops->hang_up(line);
    }
    CT_EQUAL(state.letters, 0);
    if (ep->self == 0) meet_await(&state, &state.calls, 50 * ep->size);
    ct_meet(ep);
    state.ops->close(state.meet);
    ct_meet(ep);
}

/* As many calls as it takes until there is no room: each that was taken arrives. */
static void meet_full(struct ct_ep *ep)
{
    struct meet_state state;
    struct aqi_line *line[LINES];
    struct meet_out out;
    unsigned n = 0;
    if (!meet_open(ep, &state)) return;
    meet_listen(ep, &state);
    uint32_t caller = ep->size - 1;
    if (ep->self == caller) {
        aq_status st = AQ_OK;
        while (n < LINES && st == AQ_OK) {
            st = state.ops->dial(state.meet, ep->world->uri[0], meet_write(&out, LETTER, 1, 1, n),
                                 &state, &line[n]);
            meet_written(&out);
            n += st == AQ_OK;
        }
        CT_CHECK(n > 0 && (st == AQ_OK || st == AQ_AGAIN));
        atomic_store(&ep->world->flag[0], n);
    }
    if (ep->self != 0) ct_meet(ep);
    if (ep->self == 0) {
        if (caller != 0) ct_meet(ep);
        meet_await(&state, &state.calls, atomic_load(&ep->world->flag[0]));
        if (caller == 0) ct_meet(ep);
    }
    ct_meet(ep);
    state.ops->close(state.meet); /* with all lines open */
    ct_meet(ep);
}

/* The descriptor is readable when there is something, and not when there is nothing. */
static void meet_sleep(struct ct_ep *ep)
{
    struct meet_state state;
    if (!meet_open(ep, &state)) return;
    meet_listen(ep, &state);
    struct pollfd fd = {.fd = state.ops->wait_fd(state.meet), .events = POLLIN};
    CT_CHECK(fd.fd >= 0 && poll(&fd, 1, 0) == 0);
    struct aqi_line *line = NULL;
    ct_meet(ep);
    if (ep->self == ep->size - 1) line = meet_dial(ep, &state, 0, 3);
    if (ep->self == 0) {
        CT_EQUAL(poll(&fd, 1, 30000), 1);
        meet_await(&state, &state.calls, 1);
        while (state.ops->progress(state.meet) != 0)
            ;
        CT_EQUAL(poll(&fd, 1, 0), 0);
    }
    ct_meet(ep);
    if (line != NULL) state.ops->hang_up(line);
    if (ep->self == 0) {
        CT_EQUAL(poll(&fd, 1, 30000), 1);
        meet_await(&state, &state.ends, 1);
        CT_EQUAL(poll(&fd, 1, 0), 0); /* an end is told once */
    }
    ct_meet(ep);
    state.ops->close(state.meet);
    ct_meet(ep);
}

/* A process that dies without a word ends its lines, and what it had written arrives before. */
static void meet_death(struct ct_ep *ep)
{
    struct meet_state state;
    struct meet_out out;
    if (!meet_open(ep, &state)) return;
    meet_listen(ep, &state);
    if (ep->self == 1) {
        atomic_store(&ep->world->may_die[1], true);
        struct aqi_line *line = meet_dial(ep, &state, 1, 3);
        for (unsigned i = 0; i < 5; i++)
            CT_OK(state.ops->send(line, meet_write(&out, 8, 0, 0, i)));
        raise(SIGKILL);
    }
    if (ep->self == 0) {
        meet_await(&state, &state.ends, 1);
        CT_EQUAL(state.calls, 1);
        CT_EQUAL(state.letters, 5);
    }
    state.ops->close(state.meet);
}

const struct ct_case ct_cases_meet[] = {
    {"meet: addresses, free again when nobody listens", meet_addresses, CT_CLOSED | CT_CLEAN},
    {"meet: letters both ways, with descriptors and who wrote", meet_talk, CT_CLOSED | CT_CLEAN},
    {"meet: who is hung up on hears of it", meet_refused, CT_CLOSED | CT_CLEAN | CT_PEERS},
    {"meet: no call that was taken is lost", meet_full, CT_CLOSED | CT_CLEAN},
    {"meet: the descriptor tells when to look", meet_sleep, CT_CLOSED | CT_CLEAN},
    {"meet: a death ends a line after its last letter", meet_death,
     CT_CLOSED | CT_CLEAN | CT_PEERS | CT_PROCESSES},
    {NULL, NULL, 0},
};
