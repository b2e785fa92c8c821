/* Active messages one at a time: arguments, payloads, Longs, replies, reserve and commit. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { ECHO = 70, ANSWER = 71, PLAIN = 200 };

/* The messages received so far; one for each rank of a case. */
struct am_state {
    _Atomic uint32_t received;
    _Atomic uint32_t answers;
    uint64_t seen;
};

/* Argument `i` of message `number` from `source`: all bits, both signs. */
static int32_t am_arg(uint32_t source, uint32_t number, unsigned i)
{
    static const int32_t special[] = {0, 1, -1, INT32_MAX, INT32_MIN, 0x01020304};
    uint64_t mixed = mix(((uint64_t)source << 40) + ((uint64_t)number << 8) + i);
    return mixed % 3 == 0 ? special[mixed / 3 % 6] : (int32_t)(uint32_t)mixed;
}

static void am_args(int32_t *args, uint32_t source, uint32_t number, unsigned nargs)
{
    for (unsigned i = 0; i < nargs; i++)
        args[i] = am_arg(source, number, i);
}

static uint64_t am_seed(uint32_t source, uint32_t number)
{
    return ((uint64_t)source << 32) + number * 977u;
}

static void am_wait(struct ct_ep *ep, _Atomic uint32_t *counter, uint32_t until)
{
    while (atomic_load(counter) < until)
        ct_poll(ep);
}

/* --- Short ------------------------------------------------------------------------------- */

/* The number of arguments identifies the message. */
static void am_on_short(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    CT_EQUAL(am->kind, AQI_AM_SHORT);
    CT_EQUAL(am->flags, 0);
    for (unsigned i = 0; i < am->nargs; i++)
        CT_EQUAL(am->args[i], am_arg(source, am->nargs, i));
    state->seen |= 1ull << am->nargs;
    state->received++;
}

static void am_short(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_short;
    ct_meet(ep);
    for (unsigned nargs = 0; nargs <= AQI_AM_MAX_ARGS; nargs++) {
        int32_t args[AQI_AM_MAX_ARGS];
        am_args(args, ep->self, nargs, nargs);
        struct aqi_am am = {
            .kind = AQI_AM_SHORT, .handler = PLAIN, .nargs = (uint8_t)nargs, .args = args};
        ct_send(ep, ct_next(ep), &am, NULL);
        memset(args, 0x55, sizeof(args)); /* the arguments have been copied */
    }
    am_wait(ep, &state.received, AQI_AM_MAX_ARGS + 1);
    ct_barrier(ep);
    CT_EQUAL(state.received, AQI_AM_MAX_ARGS + 1);
    CT_EQUAL(state.seen, (1ull << (AQI_AM_MAX_ARGS + 1)) - 1);
}

/* Each handler index calls its own handler. */
static void am_on_index(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    (void)source;
    CT_EQUAL(am->args[0], am->handler);
    state->received++;
}

static void am_handlers(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    for (unsigned index = 0; index < 256; index++)
        ep->handlers[index] = am_on_index;
    ct_meet(ep);
    for (unsigned index = 0; index < 256; index++) {
        struct aqi_am am = {.kind = AQI_AM_SHORT,
                            .handler = (uint8_t)index,
                            .nargs = 1,
                            .args = (int32_t[]){(int32_t)index}};
        ct_send(ep, ct_next(ep), &am, NULL);
    }
    am_wait(ep, &state.received, 256);
    ct_barrier(ep);
    CT_EQUAL(state.received, 256);
}

/* --- Medium ------------------------------------------------------------------------------ */

/* Argument 0, if there is one, and the size identify the message. */
static void am_on_medium(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    uint32_t number = am->nbytes * 32 + am->nargs;
    CT_EQUAL(am->kind, AQI_AM_MEDIUM);
    for (unsigned i = 0; i < am->nargs; i++)
        CT_EQUAL(am->args[i], am_arg(source, number, i));
    CT_CHECK(filled(am->payload, am->nbytes, am_seed(source, number)));
    memset((void *)am->payload, 0, am->nbytes); /* the handler may write to it */
    state->seen += number;
    state->received++;
}

static void am_send_medium(struct ct_ep *ep, uint32_t nbytes, unsigned nargs, struct aqi_comp *comp,
                           void *payload)
{
    int32_t args[AQI_AM_MAX_ARGS];
    uint32_t number = nbytes * 32 + nargs;
    am_args(args, ep->self, number, nargs);
    fill(payload, nbytes, am_seed(ep->self, number));
    struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                        .handler = PLAIN,
                        .nargs = (uint8_t)nargs,
                        .nbytes = nbytes,
                        .args = args,
                        .payload = payload};
    ct_send(ep, ct_next(ep), &am, comp);
}

/* All small sizes, and the larger ones at which mistakes are likely, up to the largest. */
static size_t am_sizes(const struct ct_ep *ep, uint32_t *sizes)
{
    uint32_t max = (uint32_t)ct_max_medium(ep);
    size_t count = 0;
    for (uint32_t size = 0; size <= 80; size++)
        sizes[count++] = size;
    for (uint32_t power = 128; power < max; power *= 2)
        for (uint32_t size = power - 1; size <= power + 1; size++)
            sizes[count++] = size;
    sizes[count++] = max - 65;
    sizes[count++] = max - 1;
    sizes[count++] = max;
    return count;
}

static void am_medium(struct ct_ep *ep)
{
    struct am_state state = {0};
    uint32_t sizes[256], sent = 0;
    uint64_t sum = 0;
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_medium;
    ct_meet(ep);
    size_t count = am_sizes(ep, sizes);
    unsigned char *buffer = malloc(ct_max_medium(ep) + 1);
    CT_CHECK(buffer != NULL);
    for (size_t i = 0; i < count; i++) {
        for (unsigned nargs = 0; nargs <= AQI_AM_MAX_ARGS; nargs++) {
            /* From an odd address. Without a comp, the source may be reused on return. */
            am_send_medium(ep, sizes[i], nargs, NULL, buffer + 1);
            memset(buffer, 0x77, sizes[i] + 1);
            sum += sizes[i] * 32 + nargs;
            sent++;
        }
    }
    am_wait(ep, &state.received, sent);
    ct_barrier(ep);
    CT_EQUAL(state.received, sent);
    CT_EQUAL(state.seen, sum);
    free(buffer);
}

/*
 * With a comp, the source may be reused once comp->local has counted down, which happens exactly
 * once.
 */
static void am_medium_comp(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_medium;
    ct_meet(ep);
    uint32_t max = (uint32_t)ct_max_medium(ep);
    unsigned char *buffer = malloc(max);
    CT_CHECK(buffer != NULL);
    for (uint32_t i = 0; i < 200; i++) {
        struct aqi_comp comp;
        ct_comp_init(ep, &comp);
        aqi_comp_add(&comp, &comp.local, 1);
        am_send_medium(ep, i * max / 199, i % 17, &comp, buffer);
        ct_comp_wait(ep, &comp);
        memset(buffer, 0x77, max);
        for (int more = 0; more < 3; more++)
            ct_poll(ep);
        CT_EQUAL(ct_comp_local(&comp), 0);
        CT_EQUAL(ct_comp_remote(&comp), 0);
    }
    am_wait(ep, &state.received, 200);
    ct_barrier(ep);
    CT_EQUAL(state.received, 200);
    free(buffer);
}

static void am_limits(struct ct_ep *ep)
{
    const struct aqi_tp_limits *limits = &ep->tp->limits;
    CT_CHECK(limits->max_medium >= 512);
    CT_EQUAL(limits->max_medium % 64, 0);
    CT_CHECK(limits->max_long >= limits->max_medium);
    char text[256] = "";
    int length = ep->tp->ops.describe(ep->tp, text, sizeof(text));
    CT_CHECK(length > 0 && strlen(text) == (size_t)length);
    CT_CHECK(strchr(text, '\n') == NULL);
    CT_EQUAL(ep->tp->ops.describe(ep->tp, text, 4), length); /* as with snprintf */
    CT_EQUAL(strlen(text), 3);
}

/* --- Long -------------------------------------------------------------------------------- */

#define LONG_SLICE ((size_t)1 << 20)

static void am_on_long(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    uint32_t number = (uint32_t)am->args[0];
    CT_EQUAL(am->kind, AQI_AM_LONG);
    CT_EQUAL(am->nargs, 2);
    CT_EQUAL((size_t)(am->addr - (uint64_t)(uintptr_t)ep->mem.addr), am->args[1]);
    if (am->nbytes > 0) CT_CHECK((uint64_t)(uintptr_t)am->payload == am->addr);
    CT_CHECK(filled(ep->mem.addr + am->args[1], am->nbytes, am_seed(source, number)));
    if (am->flags & AQI_AM_IS_REPLY)
        state->answers++;
    else
        state->received++;
}

static void am_long(struct ct_ep *ep)
{
    static const uint32_t sizes[] = {0,    1,    7,    8,    16,   63,    64,    65,     511,
                                     4032, 4095, 4096, 4097, 8191, 65536, 65537, 300001, 1000003};
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_long;
    ct_mem_open(ep, LONG_SLICE);
    uint32_t to = ct_next(ep), sent = 0;
    unsigned char *buffer = malloc(LONG_SLICE);
    CT_CHECK(buffer != NULL);
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        if (sizes[i] > ep->tp->limits.max_long) continue;
        uint32_t offset = (uint32_t)(ct_random(ep) % (LONG_SLICE - sizes[i] + 1));
        struct aqi_comp comp;
        ct_comp_init(ep, &comp);
        bool with_comp = i % 2 == 1;
        if (with_comp) aqi_comp_add(&comp, &comp.local, 1);
        fill(buffer, sizes[i], am_seed(ep->self, (uint32_t)i));
        struct aqi_am am = {.kind = AQI_AM_LONG,
                            .handler = PLAIN,
                            .nargs = 2,
                            .nbytes = sizes[i],
                            .addr = ep->world->addr[to] + offset,
                            .args = (int32_t[]){(int32_t)i, (int32_t)offset},
                            .payload = buffer};
        ct_send(ep, to, &am, with_comp ? &comp : NULL);
        if (with_comp) ct_comp_wait(ep, &comp);
        memset(buffer, 0x77, sizes[i]);
        /* The next one may go to the same place, so wait until this one has been checked. */
        sent++;
        while (atomic_load(&state.received) < sent)
            ct_poll(ep);
        ct_barrier(ep);
    }
    CT_EQUAL(state.received, sent);
    free(buffer);
    ct_mem_close(ep);
}

/* --- replies ----------------------------------------------------------------------------- */

/*
 * Reply with the payload of the request, in the same category; a Long goes to the place that
 * argument 0 gives.
 */
static void am_on_echo(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    struct aqi_am answer = *am;
    CT_EQUAL(am->flags, 0);
    answer.handler = ANSWER;
    if (am->kind == AQI_AM_LONG) answer.addr = ep->world->addr[source];
    ct_reply(ep, source, &answer);
    state->received++;
}

static void am_on_answer(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    CT_EQUAL(source, ct_next(ep));
    CT_EQUAL(am->flags, AQI_AM_IS_REPLY);
    uint32_t number = atomic_load(&state->answers);
    for (unsigned i = 0; i < am->nargs; i++)
        CT_EQUAL(am->args[i], am_arg(ep->self, number, i));
    if (am->kind == AQI_AM_LONG) CT_EQUAL(am->addr, (uint64_t)(uintptr_t)ep->mem.addr);
    CT_CHECK(filled(am->payload, am->nbytes, am_seed(ep->self, number)));
    state->answers++;
}

static void am_replies(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[ECHO] = am_on_echo;
    ep->handlers[ANSWER] = am_on_answer;
    size_t max = ct_max_medium(ep);
    ct_mem_open(ep, max * 2);
    unsigned char *buffer = malloc(max);
    CT_CHECK(buffer != NULL);
    uint32_t to = ct_next(ep);
    for (uint32_t number = 0; number < 300; number++) {
        int32_t args[AQI_AM_MAX_ARGS];
        struct aqi_am am = {.kind = (uint8_t)(AQI_AM_SHORT + number % 3),
                            .handler = ECHO,
                            .nargs = (uint8_t)(ct_random(ep) % 17),
                            .args = args,
                            .payload = buffer};
        am_args(args, ep->self, number, am.nargs);
        if (am.kind != AQI_AM_SHORT) am.nbytes = (uint32_t)(ct_random(ep) % (max + 1));
        /* A Long request goes to the upper half, its answer to the lower half. */
        if (am.kind == AQI_AM_LONG) am.addr = ep->world->addr[to] + max;
        fill(buffer, am.nbytes, am_seed(ep->self, number));
        ct_send(ep, to, &am, NULL);
        am_wait(ep, &state.answers, number + 1);
    }
    ct_barrier(ep);
    CT_EQUAL(state.answers, 300);
    CT_EQUAL(state.received, 300);
    free(buffer);
    ct_mem_close(ep);
}

/* --- reserve and commit ------------------------------------------------------------------ */

static aq_status am_try_reserve(struct ct_ep *ep, uint32_t to, unsigned nargs, size_t nbytes,
                                struct aqi_slot *slot)
{
    aq_status status;
    while ((status = ep->tp->ops.am_reserve(ep->tp, ep->peers[to], false, nargs, nbytes, slot)) ==
           AQ_AGAIN)
        ct_poll(ep);
    return status;
}

/* Where the transport has no reserve of its own, only the commit may find that there is no room. */
static void am_do_commit(struct ct_ep *ep, uint32_t to, struct aqi_slot *slot,
                         const struct aqi_am *am)
{
    aq_status status;
    while ((status = ep->tp->ops.am_commit(ep->tp, ep->peers[to], slot, am)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

static void am_reserve_commit(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_medium;
    ct_meet(ep);
    size_t max = ct_max_medium(ep);
    uint32_t to = ct_next(ep), sent = 0;
    for (uint32_t i = 0; i < 600; i++) {
        size_t room = i % 7 == 0 ? max : ct_random(ep) % (max + 1);
        uint32_t nbytes = (uint32_t)(i % 5 == 0 ? room : ct_random(ep) % (room + 1));
        unsigned nargs = i % 17;
        struct aqi_slot slot;
        CT_OK(am_try_reserve(ep, to, nargs, room, &slot));
        CT_EQUAL((uintptr_t)slot.payload % 16, 0);
        fill(slot.payload, room, i); /* all of the reserved room may be written */
        if (i % 3 == 0) {
            CT_OK(ep->tp->ops.am_commit(ep->tp, ep->peers[to], &slot, NULL));
            continue;
        }
        int32_t args[AQI_AM_MAX_ARGS];
        uint32_t number = nbytes * 32 + nargs;
        am_args(args, ep->self, number, nargs);
        fill(slot.payload, nbytes, am_seed(ep->self, number));
        struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                            .handler = PLAIN,
                            .nargs = (uint8_t)nargs,
                            .nbytes = nbytes,
                            .args = args};
        am_do_commit(ep, to, &slot, &am);
        sent++;
    }
    am_wait(ep, &state.received, sent);
    ct_barrier(ep);
    CT_EQUAL(state.received, sent);
}

/* Canceled reservations cost nothing: many more of them than there are slots. */
static void am_cancel(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_medium;
    ct_meet(ep);
    uint32_t to = ct_next(ep);
    for (uint32_t i = 0; i < 4000; i++) {
        struct aqi_slot slot;
        CT_OK(am_try_reserve(ep, to, i % 17, ct_max_medium(ep), &slot));
        CT_OK(ep->tp->ops.am_commit(ep->tp, ep->peers[to], &slot, NULL));
    }
    unsigned char payload[100];
    am_send_medium(ep, sizeof(payload), 3, NULL, payload);
    am_wait(ep, &state.received, 1);
    ct_barrier(ep);
    CT_EQUAL(state.received, 1);
}

/* The reply is written directly into the transport's buffer, inside the handler. */
static void am_on_reserve_echo(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    struct aqi_slot slot;
    const struct aqi_transport *ops = &ep->tp->ops;
    for (int round = 0; round < 2; round++) {
        aq_status status;
        while ((status = ops->am_reserve(ep->tp, ep->peers[source], true, am->nargs, am->nbytes,
                                         &slot)) == AQ_AGAIN)
            ct_progress(ep, AQI_PROGRESS_REPLIES);
        CT_EQUAL(status, AQ_OK);
        memcpy(slot.payload, am->payload, am->nbytes);
        struct aqi_am answer = *am;
        answer.handler = ANSWER;
        answer.flags = AQI_AM_IS_REPLY;
        /* The first reservation is canceled, the second is sent. */
        do {
            status = ops->am_commit(ep->tp, ep->peers[source], &slot, round == 0 ? NULL : &answer);
            if (status == AQ_AGAIN) ct_progress(ep, AQI_PROGRESS_REPLIES);
        } while (status == AQ_AGAIN);
        CT_EQUAL(status, AQ_OK);
    }
    state->received++;
}

static void am_reserve_reply(struct ct_ep *ep)
{
    struct am_state state = {0};
    ep->user = &state;
    ep->handlers[ECHO] = am_on_reserve_echo;
    ep->handlers[ANSWER] = am_on_answer;
    ct_meet(ep);
    size_t max = ct_max_medium(ep);
    unsigned char *buffer = malloc(max);
    CT_CHECK(buffer != NULL);
    for (uint32_t number = 0; number < 300; number++) {
        int32_t args[AQI_AM_MAX_ARGS];
        struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                            .handler = ECHO,
                            .nargs = (uint8_t)(ct_random(ep) % 17),
                            .nbytes = (uint32_t)(ct_random(ep) % (max + 1)),
                            .args = args,
                            .payload = buffer};
        am_args(args, ep->self, number, am.nargs);
        fill(buffer, am.nbytes, am_seed(ep->self, number));
        ct_send(ep, ct_next(ep), &am, NULL);
        am_wait(ep, &state.answers, number + 1);
    }
    ct_barrier(ep);
    CT_EQUAL(state.answers, 300);
    free(buffer);
}

/* --- endpoints --------------------------------------------------------------------------- */

/* The first argument of a message gives the endpoints that its flags must name. */
static void am_check_eps(const struct aqi_am *am, uint8_t reply)
{
    CT_EQUAL(am->flags, (am->args[0] & (int32_t)AQI_AM_EPS) | reply);
}

/* The reply goes from the request's target endpoint to its source endpoint. */
static void am_on_ep_request(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    uint8_t back = aqi_am_to(aqi_am_from_ep(am->flags)) | aqi_am_from(aqi_am_to_ep(am->flags));
    struct aqi_am answer = *am;
    am_check_eps(am, 0);
    answer.handler = ANSWER;
    answer.flags = back;
    answer.args = (int32_t[]){back};
    if (am->kind == AQI_AM_LONG) answer.addr = ep->world->addr[source];
    ct_reply(ep, source, &answer);
    state->received++;
}

static void am_on_ep_answer(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    struct am_state *state = ep->user;
    (void)source;
    am_check_eps(am, AQI_AM_IS_REPLY);
    state->answers++;
}

static void am_send_reserved(struct ct_ep *ep, uint32_t to, const struct aqi_am *am)
{
    struct aqi_slot slot;
    aq_status status;
    while ((status = am_try_reserve(ep, to, am->nargs, am->nbytes, &slot)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
    memcpy(slot.payload, am->payload, am->nbytes);
    while ((status = ep->tp->ops.am_commit(ep->tp, ep->peers[to], &slot, am)) == AQ_AGAIN)
        ct_poll(ep);
    CT_EQUAL(status, AQ_OK);
}

/* Every pair of endpoints, in messages of every kind and their replies, however they are sent. */
static void am_endpoints(struct ct_ep *ep)
{
    static const struct {
        uint8_t kind;
        bool reserved;
        uint32_t nbytes;
    } shapes[] = {{AQI_AM_SHORT, false, 0},   {AQI_AM_MEDIUM, false, 40},
                  {AQI_AM_MEDIUM, true, 400}, {AQI_AM_LONG, false, 0},
                  {AQI_AM_LONG, false, 300},  {AQI_AM_LONG, false, 150000}};
    struct am_state state = {0};
    unsigned char *buffer = calloc(1, LONG_SLICE);
    uint32_t sent = 0;
    CT_CHECK(buffer != NULL);
    ep->user = &state;
    ep->handlers[PLAIN] = am_on_ep_request;
    ep->handlers[ANSWER] = am_on_ep_answer;
    ct_mem_open(ep, 2 * LONG_SLICE);
    for (unsigned eps = 0; eps <= AQI_AM_EPS; eps += 4)
        for (size_t i = 0; i < AQI_COUNT_OF(shapes); i++) {
            struct aqi_am am = {.kind = shapes[i].kind,
                                .handler = PLAIN,
                                .nargs = 1,
                                .flags = (uint8_t)eps,
                                .nbytes = shapes[i].nbytes,
                                .addr = ep->world->addr[ct_next(ep)] + LONG_SLICE,
                                .args = (int32_t[]){(int32_t)eps},
                                .payload = buffer};
            if (shapes[i].reserved)
                am_send_reserved(ep, ct_next(ep), &am);
            else
                ct_send(ep, ct_next(ep), &am, NULL);
            am_wait(ep, &state.answers, ++sent);
        }
    ct_barrier(ep);
    CT_EQUAL(state.received, sent);
    free(buffer);
    ct_mem_close(ep);
}

const struct ct_case ct_cases_am[] = {
    {"limits and description", am_limits, 0},
    {"short: 0 to 16 arguments, their values", am_short, 0},
    {"short: every handler index", am_handlers, 0},
    {"medium: sizes times arguments", am_medium, 0},
    {"medium: local completion", am_medium_comp, 0},
    {"long: sizes, places, local completion", am_long, 0},
    {"replies of all categories", am_replies, 0},
    {"reserve and commit, with less payload", am_reserve_commit, 0},
    {"reserve and cancel", am_cancel, 0},
    {"reserve and commit of replies", am_reserve_reply, 0},
    {"endpoints in messages and replies of all categories", am_endpoints, 0},
    {NULL, NULL, 0},
};
