/* The patterns of puts, gets, values and memsets. */
#include "api_aq.h"

static void check(aq_status status, const char *call)
{
    api_aq_check(status, call);
}

double api_aq_put_lat(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        check(aq_put(api_aq_world(), perf->peer, perf->peer_addr->data, perf->source, size, 0),
              "aq_put");
    return measure_now_ns() - begun;
}

double api_aq_get_lat(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        check(aq_get(api_aq_world(), perf->target, perf->peer, perf->peer_addr->data, size, 0),
              "aq_get");
    return measure_now_ns() - begun;
}

double api_aq_put_value(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        check(aq_put_value(api_aq_world(), perf->peer, perf->peer_addr->data, i, size, 0),
              "aq_put_value");
    return measure_now_ns() - begun;
}

double api_aq_get_value(struct perf *perf, size_t size, uint64_t n)
{
    uint64_t value;
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        check(aq_get_value(api_aq_world(), perf->peer, perf->peer_addr->data, size, 0, &value),
              "aq_get_value");
    return measure_now_ns() - begun;
}

static void put_nbi(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        check(aq_put_nbi(api_aq_world(), perf->peer, perf->peer_addr->data, perf->source, size, 0),
              "aq_put_nbi");
    check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
}

double api_aq_put_flood(struct perf *perf, size_t size, uint64_t n)
{
    return api_aq_spread(perf, size, n, put_nbi);
}

static void get_nbi(struct perf *perf, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        check(aq_get_nbi(api_aq_world(), perf->target, perf->peer, perf->peer_addr->data, size, 0),
              "aq_get_nbi");
    check(aq_nbi_wait(AQ_NBI_GET), "aq_nbi_wait");
}

double api_aq_get_flood(struct perf *perf, size_t size, uint64_t n)
{
    return api_aq_spread(perf, size, n, get_nbi);
}

static void put_nb(struct perf *perf, size_t size, uint64_t n)
{
    enum { WINDOW = 64 };
    aq_event events[WINDOW];
    while (n > 0) {
        size_t count = n < WINDOW ? (size_t)n : WINDOW;
        for (size_t i = 0; i < count; i++)
            check(aq_put_nb(api_aq_world(), perf->peer, perf->peer_addr->data, perf->source, size,
                            0, &events[i]),
                  "aq_put_nb");
        check(aq_event_wait_all(events, count), "aq_event_wait_all");
        n -= count;
    }
}

double api_aq_put_events(struct perf *perf, size_t size, uint64_t n)
{
    return api_aq_spread(perf, size, n, put_nb);
}

double api_aq_memset(struct perf *perf, size_t size, uint64_t n)
{
    double begun = measure_now_ns();
    for (uint64_t i = 0; i < n; i++)
        check(aq_memset_nbi(api_aq_world(), perf->peer, perf->peer_addr->data, (int)i & 0xff, size,
                            0),
              "aq_memset_nbi");
    check(aq_nbi_wait(AQ_NBI_PUT), "aq_nbi_wait");
    return measure_now_ns() - begun;
}
