/* The table of patterns. A new one is a row here, a run function in each API back end, and, if none
 * fits, a limit. */
#include "perf.h"

#define K 1024u
#define M (1024u * 1024u)

const char *const unit_names[UNIT_COUNT] = {
    [UNIT_NS] = "ns", [UNIT_RATE] = "M/s", [UNIT_BANDWIDTH] = "GB/s"};

double unit_from_ns(enum unit unit, double ns, size_t size, uint64_t n)
{
    if (ns <= 0) ns = 1; /* below what the clock can tell */
    switch (unit) {
    case UNIT_RATE:
        return (double)n / ns * 1e3;
    case UNIT_BANDWIDTH:
        return (double)n * (double)size / ns;
    default:
        return ns / (double)n;
    }
}

const struct pattern patterns[PATTERN_COUNT] = {
    [AM_SHORT_RTT] = {.name = "am-short-rtt",
                      .doc = "Short request and its reply, one at a time",
                      .unit = UNIT_NS,
                      .limit = LIMIT_LINE_RTT,
                      .sizes = {0},
                      .size_count = 1},
    [AM_MEDIUM_RTT] = {.name = "am-medium-rtt",
                       .doc = "Medium request, its payload sent back in a Medium reply",
                       .unit = UNIT_NS,
                       .sized = true,
                       .limit = LIMIT_LINE_ECHO,
                       .sizes = {8, 512, 4 * K},
                       .size_count = 3},
    [AM_LONG_RTT] = {.name = "am-long-rtt",
                     .doc = "Long request, its payload sent back in a Long reply",
                     .unit = UNIT_NS,
                     .sized = true,
                     .limit = LIMIT_LINE_ECHO,
                     .sizes = {8, 512, 4 * K, 64 * K},
                     .size_count = 4},
    [AM_SHORT_RATE] = {.name = "am-short-rate",
                       .doc = "flood of Short requests, until the last one has been handled",
                       .unit = UNIT_RATE,
                       .limit = LIMIT_LINE_STREAM,
                       .sizes = {0},
                       .size_count = 1},
    [AM_MEDIUM_RATE] = {.name = "am-medium-rate",
                        .doc = "flood of Medium requests, until the last one has been handled",
                        .unit = UNIT_RATE,
                        .sized = true,
                        .limit = LIMIT_LINE_STREAM,
                        .sizes = {8, 512, 4 * K},
                        .size_count = 3},
    [PUT_LAT] = {.name = "put-lat",
                 .doc = "blocking put into the peer's segment, one at a time",
                 .unit = UNIT_NS,
                 .sized = true,
                 .limit = LIMIT_MEMCPY_OUT,
                 .word = LIMIT_STORE,
                 .second = LIMIT_CMA_WRITE,
                 .sizes = {8, 512, 4 * K},
                 .size_count = 3},
    [GET_LAT] = {.name = "get-lat",
                 .doc = "blocking get from the peer's segment, one at a time",
                 .unit = UNIT_NS,
                 .sized = true,
                 .limit = LIMIT_MEMCPY_IN,
                 .word = LIMIT_LOAD,
                 .second = LIMIT_CMA_READ,
                 .sizes = {8, 512, 4 * K},
                 .size_count = 3},
    [ATOMIC_LAT] = {.name = "atomic-lat",
                    .doc = "64-bit fetch-and-add in the peer's segment, one at a time",
                    .unit = UNIT_NS,
                    .limit = LIMIT_ATOMIC,
                    .word = LIMIT_ATOMIC,
                    .sizes = {8},
                    .size_count = 1},
    [PUT_BW] = {.name = "put-bw",
                .doc = "non-blocking puts, many under way, until all are visible",
                .unit = UNIT_BANDWIDTH,
                .sized = true,
                .least = 1,
                .limit = LIMIT_MEMCPY_OUT,
                .second = LIMIT_CMA_WRITE,
                .sizes = {4 * K, 64 * K, 1 * M, 4 * M},
                .size_count = 4},
    [GET_BW] = {.name = "get-bw",
                .doc = "non-blocking gets, many under way, until all have arrived",
                .unit = UNIT_BANDWIDTH,
                .sized = true,
                .least = 1,
                .limit = LIMIT_MEMCPY_IN,
                .second = LIMIT_CMA_READ,
                .sizes = {4 * K, 64 * K, 1 * M, 4 * M},
                .size_count = 4},
    [STRIDED_PUT] = {.name = "strided-put",
                     .doc = "words of 8 bytes put into every other word, many calls under way",
                     .unit = UNIT_BANDWIDTH,
                     .sized = true,
                     .least = 8,
                     .limit = LIMIT_STRIDED_OUT,
                     .word = LIMIT_STORE,
                     .sizes = {64, 4 * K, 64 * K},
                     .size_count = 3},
    [BARRIER] = {.name = "barrier",
                 .doc = "barrier of all ranks",
                 .unit = UNIT_NS,
                 .all_ranks = true,
                 .limit = LIMIT_LINE_ROUNDS,
                 .sizes = {0},
                 .size_count = 1},
};
