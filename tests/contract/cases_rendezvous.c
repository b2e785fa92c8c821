/*
 * Rendezvous of programs that are not started together: listeners, calls, messages, the end of a
 * channel.
 */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MESSAGE = 1000, CHANNELS = 300 };

/* The state of one side. */
struct rendezvous_state {
    const struct aqi_rendezvous_ops *ops;
    struct aqi_rendezvous *rendezvous;
    struct aqi_listener *listener;
    struct aqi_control_channel *channel[CHANNELS]; /* taken from calls */
    unsigned calls, messages, ends;
    bool refuse;   /* close the channel of every caller */
    aq_status end; /* why the last one ended */
    struct aqi_writer writer;
    uint64_t seed; /* of the last message */
    size_t len;
    off_t object;         /* size of the last object received */
    bool again[CHANNELS]; /* own calls that found no room */
};

static void rendezvous_read(struct rendezvous_state *state, const struct aqi_writer *writer,
                            struct aqi_handshake *message)
{
    struct stat info;
    state->writer = *writer;
    state->len = message->len;
    CT_CHECK(message->len >= sizeof(state->seed));
    memcpy(&state->seed, message->bytes, sizeof(state->seed));
    CT_CHECK(filled((const char *)message->bytes + 8, message->len - 8, state->seed));
    for (unsigned i = 0; i < message->nfds; i++) {
        CT_CHECK(fstat(message->fds[i], &info) == 0);
        state->object = info.st_size;
    }
    if (message->nfds > 0) { /* keep one, and leave the others to the transport */
        close(message->fds[0]);
        message->fds[0] = -1;
    }
}

static void *rendezvous_call(void *arg, void *listener_user, struct aqi_control_channel *channel,
                             const struct aqi_writer *writer, struct aqi_handshake *message)
{
    struct rendezvous_state *state = arg;
    CT_CHECK(listener_user == &state->listener);
    state->calls++;
    rendezvous_read(state, writer, message);
    if (state->refuse) return NULL;
    CT_CHECK(state->calls <= CHANNELS);
    state->channel[state->calls - 1] = channel;
    return state;
}

static void rendezvous_message(void *arg, void *channel_user, const struct aqi_writer *writer,
                               struct aqi_handshake *message)
{
    struct rendezvous_state *state = arg;
    CT_CHECK(channel_user == state);
    state->messages++;
    rendezvous_read(state, writer, message);
}

static void rendezvous_closed(void *arg, void *channel_user, aq_status status, const char *why)
{
    struct rendezvous_state *state = arg;
    bool *again = channel_user;
    CT_CHECK(status != AQ_OK);
    if (again >= state->again && again < state->again + CHANNELS)
        *again = true;
    else
        CT_CHECK(channel_user == state);
    CT_CHECK(why == NULL || why[0] != 0);
    state->ends++;
    state->end = status;
}

/* Returns false, and skips the case, if the transport has no rendezvous. */
static bool rendezvous_open(struct ct_ep *ep, struct rendezvous_state *state)
{
    *state = (struct rendezvous_state){.ops = ep->world->config.transport->rendezvous};
    struct aqi_rendezvous_hooks hooks = {.call = rendezvous_call,
                                         .message = rendezvous_message,
                                         .closed = rendezvous_closed,
                                         .arg = state};
    if (state->ops == NULL) {
        ct_skip(ep, "the transport has no rendezvous");
        return false;
    }
    CT_OK(state->ops->open(&hooks, &state->rendezvous));
    return true;
}

/* Meet all ranks, with progress if channels linger. */
static void rendezvous_meet(struct ct_ep *ep, struct rendezvous_state *state, unsigned flag)
{
    _Atomic uint32_t *met = &ep->world->flag[flag];
    uint64_t start = 0;
    atomic_fetch_add(met, 1);
    while (atomic_load(met) < ep->size) {
        if (!state->ops->lingers || state->ops->progress(state->rendezvous) == 0) ct_relax();
        CT_CHECK(!ct_overdue(&start, 60));
    }
}

/* Rank 0 listens, and all ranks know its address. */
static void rendezvous_listen(struct ct_ep *ep, struct rendezvous_state *state)
{
    if (ep->self == 0)
        CT_OK(state->ops->listen(state->rendezvous, NULL, &state->listener, &state->listener,
                                 ep->world->uri[0]));
    ct_meet(ep);
}

static void rendezvous_await(struct rendezvous_state *state, const unsigned *counter,
                             unsigned value)
{
    uint64_t start = 0;
    while (*counter < value) {
        if (state->ops->progress(state->rendezvous) == 0) ct_relax();
        CT_CHECK(!ct_overdue(&start, 60));
    }
}

/* A message of `len` bytes with `objects` descriptors, each of an object of the given size. */
struct rendezvous_out {
    unsigned char bytes[MESSAGE];
    int fds[AQI_RENDEZVOUS_FDS];
    struct aqi_handshake message;
};

static const struct aqi_handshake *rendezvous_write(struct rendezvous_out *out, size_t len,
                                                    unsigned objects, off_t size, uint64_t seed)
{
    memcpy(out->bytes, &seed, sizeof(seed));
    fill(out->bytes + 8, len - 8, seed);
    for (unsigned i = 0; i < objects; i++) {
        out->fds[i] = memfd_create("object", MFD_CLOEXEC);
        CT_CHECK(out->fds[i] >= 0 && ftruncate(out->fds[i], size) == 0);
    }
    out->message =
        (struct aqi_handshake){.bytes = out->bytes, .len = len, .fds = out->fds, .nfds = objects};
    return &out->message;
}

static void rendezvous_written(struct rendezvous_out *out)
{
    for (unsigned i = 0; i < out->message.nfds; i++)
        close(out->fds[i]);
}

static struct aqi_control_channel *rendezvous_connect_as(struct ct_ep *ep,
                                                         struct rendezvous_state *state,
                                                         unsigned objects, uint64_t seed,
                                                         void *user)
{
    struct rendezvous_out out;
    struct aqi_control_channel *channel = NULL;
    if (!state->ops->objects) objects = 0;
    const struct aqi_handshake *message = rendezvous_write(&out, MESSAGE, objects, 4096, seed);
    aq_status st;
    while ((st = state->ops->connect(state->rendezvous, ep->world->uri[0], message, user,
                                     &channel)) == AQ_AGAIN)
        ct_relax();
    CT_OK(st);
    rendezvous_written(&out);
    return channel;
}

static struct aqi_control_channel *rendezvous_connect(struct ct_ep *ep,
                                                      struct rendezvous_state *state,
                                                      unsigned objects, uint64_t seed)
{
    return rendezvous_connect_as(ep, state, objects, seed, state);
}

/* --- the cases ------------------------------------------------------------------------------- */

static void rendezvous_addresses(struct ct_ep *ep)
{
    struct rendezvous_state state;
    struct aqi_listener *other = NULL;
    struct aqi_control_channel *channel = NULL;
    char uri[AQI_URI_MAX], again[AQI_URI_MAX], own[64];
    struct rendezvous_out out;
    if (!rendezvous_open(ep, &state)) return;
    CT_OK(state.ops->listen(state.rendezvous, NULL, &state.listener, &state.listener, uri));
    snprintf(own, sizeof(own), "%s://", ep->world->config.transport->name);
    CT_CHECK(strncmp(uri, own, strlen(own)) == 0 && memchr(uri, 0, AQI_URI_MAX) != NULL);
    CT_EQUAL(state.ops->listen(state.rendezvous, uri, NULL, &other, again), AQ_ESTATE);
    CT_OK(state.ops->listen(state.rendezvous, NULL, &other, &other, again));
    CT_CHECK(strcmp(uri, again) != 0 && other != NULL);
    state.ops->unlisten(state.rendezvous, other);
    const struct aqi_handshake *message = rendezvous_write(&out, 100, 0, 0, 1);
    aq_status st = state.ops->connect(state.rendezvous, again, message, &state, &channel);
    if (st == AQ_OK) { /* over a network the refusal is reported later */
        rendezvous_await(&state, &state.ends, 1);
        state.ops->close_channel(channel);
        st = state.end;
    }
    CT_EQUAL(st, AQ_EREFUSED);
    CT_OK(state.ops->listen(state.rendezvous, again, &other, &other, uri));
    CT_CHECK(strcmp(uri, again) == 0);
    static const char *const bad[] = {"", "x", "nosuch://1", "://", " "};
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        CT_EQUAL(state.ops->listen(state.rendezvous, bad[i], NULL, &other, again), AQ_EINVAL);
        CT_EQUAL(state.ops->connect(state.rendezvous, bad[i], message, &state, &channel),
                 AQ_EINVAL);
    }
    state.ops->close(state.rendezvous); /* with both still listening */
    ct_meet(ep);
}

static void rendezvous_talk(struct ct_ep *ep)
{
    struct rendezvous_state state;
    struct rendezvous_out out;
    if (!rendezvous_open(ep, &state)) return;
    rendezvous_listen(ep, &state);
    bool objects = state.ops->objects, known = !state.ops->lingers;
    struct aqi_control_channel *channel = rendezvous_connect(ep, &state, 2, 1000 + ep->self);
    if (ep->self == 0) {
        rendezvous_await(&state, &state.calls, ep->size);
        CT_EQUAL(state.len, MESSAGE);
        CT_EQUAL(state.object, objects ? 4096 : 0);
        CT_EQUAL(state.writer.uid, known ? geteuid() : UINT32_MAX);
        CT_CHECK(state.writer.ours == state.ops->knows_writers(state.rendezvous));
        CT_CHECK(known ? state.writer.pid > 0 : state.writer.pid == 0);
        for (uint32_t i = 0; i < ep->size; i++) {
            CT_OK(
                state.ops->send(state.channel[i], rendezvous_write(&out, 8 + i, objects, 8192, i)));
            rendezvous_written(&out);
        }
    }
    rendezvous_await(&state, &state.messages, 1);
    CT_EQUAL(state.object, objects ? 8192 : 0);
    CT_CHECK(ep->world->config.as_threads || !known || state.writer.pid != 0);
    state.ops->close_channel(channel);
    if (ep->self == 0) {
        rendezvous_await(&state, &state.ends, ep->size);
        for (uint32_t i = 0; i < ep->size; i++) {
            CT_EQUAL(state.ops->send(state.channel[i], rendezvous_write(&out, 8, 0, 0, 1)),
                     AQ_EPEER);
            state.ops->close_channel(state.channel[i]);
        }
    }
    rendezvous_meet(ep, &state, 0);
    state.ops->close(state.rendezvous);
    ct_meet(ep);
}

/* A caller that is refused is notified, and no descriptors are leaked on either side. */
static void rendezvous_refused(struct ct_ep *ep)
{
    struct rendezvous_state state;
    if (!rendezvous_open(ep, &state)) return;
    state.refuse = true;
    rendezvous_listen(ep, &state);
    for (unsigned i = 0; i < 50; i++) {
        struct aqi_control_channel *channel = rendezvous_connect(ep, &state, AQI_RENDEZVOUS_FDS, i);
        rendezvous_await(&state, &state.ends, i + 1);
        state.ops->close_channel(channel);
    }
    CT_EQUAL(state.messages, 0);
    if (ep->self == 0) rendezvous_await(&state, &state.calls, 50 * ep->size);
    rendezvous_meet(ep, &state, 0);
    state.ops->close(state.rendezvous);
    ct_meet(ep);
}

/* All ranks call at once; those for which there is no room are notified, and call again. */
static void rendezvous_full_later(struct ct_ep *ep, struct rendezvous_state *state)
{
    struct aqi_control_channel *channel[CHANNELS];
    unsigned n = ep->self == ep->size - 1 ? CHANNELS : 0;
    uint64_t start = 0;
    for (unsigned i = 0; i < n; i++)
        channel[i] = rendezvous_connect_as(ep, state, 0, i, &state->again[i]);
    while (atomic_load(&ep->world->flag[0]) == 0) {
        if (state->ops->progress(state->rendezvous) == 0) ct_relax();
        for (unsigned i = 0; i < n; i++) {
            if (!state->again[i]) continue;
            CT_EQUAL(state->end, AQ_AGAIN);
            state->ops->close_channel(channel[i]);
            state->again[i] = false;
            channel[i] = rendezvous_connect_as(ep, state, 0, i, &state->again[i]);
        }
        if (ep->self == 0 && state->calls == CHANNELS) atomic_store(&ep->world->flag[0], 1);
        CT_CHECK(!ct_overdue(&start, 60));
    }
    CT_EQUAL(state->calls, ep->self == 0 ? CHANNELS : 0);
}

/* Call until there is no room: each accepted call arrives. */
static void rendezvous_full(struct ct_ep *ep)
{
    struct rendezvous_state state;
    struct aqi_control_channel *channel[CHANNELS];
    struct rendezvous_out out;
    unsigned n = 0;
    if (!rendezvous_open(ep, &state)) return;
    if (state.ops->lingers) {
        rendezvous_listen(ep, &state);
        rendezvous_full_later(ep, &state);
        rendezvous_meet(ep, &state, 1);
        state.ops->close(state.rendezvous);
        ct_meet(ep);
        return;
    }
    rendezvous_listen(ep, &state);
    uint32_t caller = ep->size - 1;
    if (ep->self == caller) {
        aq_status st = AQ_OK;
        while (n < CHANNELS && st == AQ_OK) {
            st = state.ops->connect(state.rendezvous, ep->world->uri[0],
                                    rendezvous_write(&out, MESSAGE, 1, 1, n), &state, &channel[n]);
            rendezvous_written(&out);
            n += st == AQ_OK;
        }
        CT_CHECK(n > 0 && (st == AQ_OK || st == AQ_AGAIN));
        atomic_store(&ep->world->flag[0], n);
    }
    if (ep->self != 0) ct_meet(ep);
    if (ep->self == 0) {
        if (caller != 0) ct_meet(ep);
        rendezvous_await(&state, &state.calls, atomic_load(&ep->world->flag[0]));
        if (caller == 0) ct_meet(ep);
    }
    ct_meet(ep);
    state.ops->close(state.rendezvous); /* with all channels open */
    ct_meet(ep);
}

/* Sleep until the counter has this value; then there must be nothing left to do, at once or
 * soon. */
static void rendezvous_sleep_until(struct rendezvous_state *state, const unsigned *counter,
                                   unsigned value)
{
    struct pollfd fd = {.fd = state->ops->wait_fd(state->rendezvous), .events = POLLIN};
    uint64_t start = 0;
    while (*counter < value) {
        CT_EQUAL(poll(&fd, 1, 30000), 1);
        (void)state->ops->progress(state->rendezvous);
    }
    while (state->ops->progress(state->rendezvous) != 0)
        ;
    while (state->ops->lingers && poll(&fd, 1, 0) != 0) {
        (void)state->ops->progress(state->rendezvous);
        CT_CHECK(!ct_overdue(&start, 60));
    }
    CT_EQUAL(poll(&fd, 1, 0), 0);
}

/* The descriptor is readable if and only if there is something to do. */
static void rendezvous_sleep(struct ct_ep *ep)
{
    struct rendezvous_state state;
    if (!rendezvous_open(ep, &state)) return;
    rendezvous_listen(ep, &state);
    struct pollfd fd = {.fd = state.ops->wait_fd(state.rendezvous), .events = POLLIN};
    CT_CHECK(fd.fd >= 0 && poll(&fd, 1, 0) == 0);
    struct aqi_control_channel *channel = NULL;
    ct_meet(ep);
    if (ep->self == ep->size - 1) channel = rendezvous_connect(ep, &state, 0, 3);
    if (ep->self == 0) rendezvous_sleep_until(&state, &state.calls, 1);
    rendezvous_meet(ep, &state, 0);
    if (channel != NULL) state.ops->close_channel(channel);
    if (ep->self == 0) rendezvous_sleep_until(&state, &state.ends, 1);
    rendezvous_meet(ep, &state, 1);
    CT_EQUAL(state.ends, ep->self == 0); /* an end is reported once */
    state.ops->close(state.rendezvous);
    ct_meet(ep);
}

/* When a process is killed, its channels end after its last message has been delivered. Over a
 * network, this holds for messages that it knew to have arrived. */
static void rendezvous_death(struct ct_ep *ep)
{
    struct rendezvous_state state;
    struct rendezvous_out out;
    if (!rendezvous_open(ep, &state)) return;
    rendezvous_listen(ep, &state);
    if (ep->self == 1) {
        atomic_store(&ep->world->may_die[1], true);
        struct aqi_control_channel *channel = rendezvous_connect(ep, &state, 1, 3);
        for (unsigned i = 0; i < 5; i++)
            CT_OK(state.ops->send(channel, rendezvous_write(&out, 8, 0, 0, i)));
        if (state.ops->lingers) rendezvous_await(&state, &state.messages, 1);
        raise(SIGKILL);
    }
    if (ep->self == 0 && state.ops->lingers) {
        rendezvous_await(&state, &state.messages, 5);
        CT_OK(state.ops->send(state.channel[0], rendezvous_write(&out, 8, 0, 0, 1)));
    }
    if (ep->self == 0) {
        rendezvous_await(&state, &state.ends, 1);
        CT_EQUAL(state.calls, 1);
        CT_EQUAL(state.messages, 5);
    }
    state.ops->close(state.rendezvous);
}

/* Messages of all sizes arrive in order and complete. */
static void rendezvous_sizes(struct ct_ep *ep)
{
    enum { COUNT = 24 };
    struct rendezvous_state state;
    static unsigned char bytes[AQI_HANDSHAKE_MAX];
    struct aqi_control_channel *channel = NULL;
    if (!rendezvous_open(ep, &state)) return;
    rendezvous_listen(ep, &state);
    if (ep->self == ep->size - 1) {
        channel = rendezvous_connect(ep, &state, 0, 3);
        for (uint64_t i = 0; i < COUNT; i++) {
            size_t len = i == COUNT - 1 ? sizeof(bytes) : 8 + i * 1700;
            memcpy(bytes, &i, sizeof(i));
            fill(bytes + 8, len - 8, i);
            struct aqi_handshake message = {.bytes = bytes, .len = len};
            while (atomic_load(&ep->world->flag[1]) + 4 < i)
                (void)state.ops->progress(state.rendezvous);
            CT_OK(state.ops->send(channel, &message));
        }
    }
    while (ep->self == 0 && state.messages < COUNT) {
        unsigned before = state.messages;
        rendezvous_await(&state, &state.messages, before + 1);
        CT_EQUAL(state.seed, state.messages - 1);
        atomic_store(&ep->world->flag[1], state.messages);
    }
    rendezvous_meet(ep, &state, 0);
    if (channel != NULL) state.ops->close_channel(channel);
    state.ops->close(state.rendezvous);
    ct_meet(ep);
}

const struct ct_case ct_cases_rendezvous[] = {
    {"rendezvous: addresses, free again after the listener closes", rendezvous_addresses,
     CT_CLOSED | CT_CLEAN},
    {"rendezvous: messages both ways, with descriptors and credentials", rendezvous_talk,
     CT_CLOSED | CT_CLEAN},
    {"rendezvous: a refused caller is notified", rendezvous_refused,
     CT_CLOSED | CT_CLEAN | CT_PEERS},
    {"rendezvous: no accepted call is lost", rendezvous_full, CT_CLOSED | CT_CLEAN},
    {"rendezvous: the descriptor is readable when there is work", rendezvous_sleep,
     CT_CLOSED | CT_CLEAN},
    {"rendezvous: messages of all sizes arrive in order", rendezvous_sizes, CT_CLOSED | CT_CLEAN},
    {"rendezvous: a death ends a channel after its last message", rendezvous_death,
     CT_CLOSED | CT_CLEAN | CT_PEERS | CT_PROCESSES},
    {NULL, NULL, 0},
};
