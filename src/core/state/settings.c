/* The environment variables of the core. */
#include "core/core.h"
#include "core/state/state.h"

struct aqi_core_config aqi_core_config;

/* In the order of aq_wait_mode. */
static const char *const wait_modes[] = {"auto", "spin", "yield", "block", "share", NULL};

/* In the order of enum aqi_copy_method. */
static const char *const copy_methods[] = {"memcpy", "string", "stream", "pages", "auto", NULL};

static const char *const barrier_ways[] = {"messages", "writes", NULL};
static const char *const segment_modes[] = {"fast", "large", "everything", NULL};

/* Values of GASNET_BARRIER: those with a counterpart here; GASNet has others. */
static const struct aqi_setting_word barrier_words[] = {
    {"GNIDISSEM", "writes"},  {"RDMADISSEM", "writes"},
    {"IBDISSEM", "writes"},   {"DISSEM", "messages"},
    {"AMDISSEM", "messages"}, {"AMCENTRAL", "messages"},
    {"messages", "messages"}, {"writes", "writes"},
    {"*", "messages"},        {NULL, NULL}};

/* 0 under the alias is invalid, like the empty text. */
static const struct aqi_setting_word segment_words[] = {{"0", ""}, {NULL, NULL}};

/* 0 under the alias requests the minimum, to which 1 is raised; otherwise it means "no limit". */
static const struct aqi_setting_word bytes_words[] = {{"0", "1"}, {NULL, NULL}};

/* Other names in GASNet's documents for the settings called credits elsewhere. */
static const char *const depth_aliases[] = {"GASNET_AM_OUST_PP", "GASNET_NETWORKDEPTH", NULL};
static const char *const total_aliases[] = {"GASNET_AM_OUST_LIMIT", NULL};

static const struct aqi_setting rows[] = {
    {.name = "AQ_TRANSPORTS",
     .def = "auto",
     .doc = "The transports that may be used, as a comma-separated list in order of preference; "
            "auto: all of them, but those for other hosts only if the job has other hosts. A "
            "process always reaches itself by loop.",
     .advice = "aqinfo --transports lists them and shows which work here.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct aqi_core_config, transports)},
    {.name = "AQ_AM_MAX_MEDIUM",
     .def = "64K",
     .doc = "The largest payload of a Medium active message, rounded up to a multiple of 64. The "
            "default is 8K in jobs of more than 16 processes.",
     .advice = "Raise it for programs that send larger messages. Over shm, each pair of processes "
               "that communicates has four buffers of this size in each direction, for requests "
               "and for replies each.",
     .min = 512,
     .max = 1 << 20,
     .same = true,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, max_medium)},
    {.name = "AQ_AM_CREDITS",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_PP",
     .more_aliases = depth_aliases,
     .same = true,
     .def = "128",
     .doc = "The maximum number of requests in flight to one peer, on a transport that posts "
            "receive buffers. The default is 64 in jobs of more than 4 processes, and 32 in those "
            "of more than 8. It must be the same in every process.",
     .advice =
         "Raise it if requests to a busy peer, or to one that computes between its polls, wait for "
         "credits (credit_none in AQ_STATS); each peer takes that many receive buffers.",
     .min = 1,
     .max = 4095,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_credits)},
    {.name = "AQ_AM_CREDITS_TOTAL",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_TOTAL",
     .more_aliases = total_aliases,
     .def = "0",
     .doc = "The maximum number of requests in flight to all peers together; 0: as many as "
            "AQ_AM_CREDITS allows, or as many as the transport has room for. It must be the same "
            "in every process.",
     .same = true,
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_credits_total)},
    {.name = "AQ_AM_BYTES",
     .clamp = true,
     .alias_words = bytes_words,
     .alias = "GASNET_NETWORKDEPTH_SPACE",
     .def = "512K",
     .doc = "The maximum number of bytes of requests in flight to one peer, where AQ_AM_CREDITS "
            "applies; at least two of the largest Mediums; 0: no limit. The default is 256K in "
            "jobs of more than 4 processes, 128K in those of more than 8, and 12K in those of more "
            "than 128. It must be the same in every process.",
     .same = true,
     .max = 32 << 20,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, am_bytes)},
    {.name = "AQ_AM_SLACK",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_SLACK",
     .def = "8",
     .doc = "The maximum number of credits per peer, of requests without a reply, that wait for "
            "another message to return them; beyond it, a separate message returns them. "
            "Lowered if waiting could block the peer. 0: each credit is returned at once.",
     .advice = "Raise it if requests are sent in both directions; lower it if they wait for "
               "credits (credit_none in AQ_STATS).",
     .max = 4094,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_slack)},
    {.name = "AQ_AM_PACKED_LONG",
     .clamp = true,
     .alias = "GASNET_PACKEDLONG_LIMIT",
     .def = "1M",
     .doc =
         "The largest payload of a Long that is sent in one message with its header: over ibv and "
         "ofi at most the largest Medium, over udp at most 64K. 0: none. It does not apply to shm.",
     .advice = "Lower it if copying the payload at the target costs more than another message.",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, packed_long)},
    {.name = "AQ_MAX_SEGMENT",
     .alias = "GASNET_MAX_SEGSIZE",
     .def = "0",
     .alias_words = segment_words,
     .check = core_segment_limit_legal,
     .legal = "a size such as 64M or 1.5G, or a fraction of the host's memory such as 0.5 or 85%, "
              "optionally followed by /P (for each process) or /H (for all processes of a host "
              "together)",
     .doc = "The largest segment that a process may attach; 0: its share, which is the host's "
            "memory divided by its ranks. A fraction, a size with /P or /H, and a value given by "
            "GASNET_MAX_SEGSIZE are limited to that share.",
     AQI_SETTING_IN(TEXT, struct aqi_core_config, max_segment)},
    {.name = "AQ_SEGMENT_MODE",
     .def = "fast",
     .doc = "The memory that aq_segment_attach provides: fast and large allocate a segment; "
            "everything makes "
            "all memory of each process accessible. The default is the first mode that the program "
            "supports; a mode that it does not support is an error. It must be the same in every "
            "process.",
     .advice = "In mode everything, ibv and ofi register memory on demand (AQ_REG_MAIN); ofi with "
               "several domains (AQ_OFI_DOMAINS) uses messages instead, which is slower.",
     .choices = segment_modes,
     .same = true,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, segment_mode)},
    {.name = "AQ_VIS_PACK",
     .def = "1K",
     .doc = "Pieces of a vector, indexed or strided transfer that are smaller than this are packed "
            "into messages if the segment is not mapped; larger ones are individual puts and gets. "
            "0: no packing.",
     .advice = "Raise it if the network is slow to start puts.",
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, vis_pack)},
    {.name = "AQ_PROGRESS_THREAD",
     .alias = "GASNET_RCV_THREAD",
     .def = "no",
     .doc =
         "Whether a thread of the library serves the peers while the program computes; it sleeps "
         "until something arrives. Handlers also run on it, concurrently with the program.",
     .advice = "Set yes for programs that compute for a long time between calls while others send "
               "to them; every call then takes the locks of AQ_THREAD_MULTIPLE.",
     AQI_SETTING_IN(BOOL, struct aqi_core_config, progress_thread)},
    {.name = "AQ_CHECK_THREADS",
     .def = "no",
     .doc = "In AQ_THREAD_SINGLE, make calls by threads other than that of aq_init fail with a "
            "message that names both.",
     .advice =
         "Set yes to find such calls in a program: they are errors, as that mode takes no locks.",
     AQI_SETTING_IN(BOOL, struct aqi_core_config, check_threads)},
    {.name = "AQ_COLL_SCRATCH",
     .def = "8M",
     .doc = "The memory that each process provides for barriers and collectives among the "
            "processes of a host, if they can map it; 0: these use messages only. Physical memory "
            "is allocated only where it is used.",
     .advice = "Raise it if more than about eight teams run large collectives at the same time.",
     .max = 1 << 30,
     .same = true,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, scratch)},
    {.name = "AQ_BARRIER",
     .alias = "GASNET_BARRIER",
     .alias_words = barrier_words,
     .def = "messages",
     .doc = "How barriers of processes that share no memory communicate: by messages, or by remote "
            "writes to the library's memory (dissemination).",
     .advice = "Try writes if the adapters write without help of the CPU (ibv, ofi) and waits "
               "poll, since a sleeping thread checks only every millisecond; compare with aqperf "
               "--pattern barrier.",
     .choices = barrier_ways,
     .same = true,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, barrier)},
    {.name = "AQ_NEIGHBORHOOD",
     .check = core_neighbors_legal,
     .legal = "0, the maximum number of ranks in a neighborhood, or a list of sizes such as 1,5,2",
     .alias = "GASNET_SUPERNODE_MAXSIZE",
     .def = "0",
     .doc = "The maximum number of ranks of a host that map each other's memory; they reach the "
            "other ranks as if those were on another host (by udp, if AQ_TRANSPORTS allows it). 0: "
            "all. A comma-separated list gives the sizes of the neighborhoods in the order of the "
            "ranks; it repeats.",
     .advice = "Set 1 or 1,5,2 to see on one host how a program behaves on several.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct aqi_core_config, neighborhood)},
    {.name = "AQ_COPY",
     .def = "auto",
     .doc = "How puts and gets of AQ_COPY_LEAST bytes or more copy mapped memory: memcpy, by the C "
            "library; string, by the processor's string instructions; stream, by stores that "
            "bypass the caches; pages, likewise, but four pages at a time; auto, whichever is "
            "fastest in the first few copies of about that size.",
     .advice = "Set memcpy if the data is used soon afterwards, since streaming keeps it out of "
               "the caches.",
     .choices = copy_methods,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, copy)},
    {.name = "AQ_COPY_LEAST",
     .def = "1M",
     .doc = "Puts and gets of fewer bytes of mapped memory always use memcpy.",
     .min = 4096,
     .max = 1ull << 40,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, copy_least)},
    {.name = "AQ_WAIT",
     .def = "auto",
     .doc = "How blocking calls wait: spin (keep the core), yield (yield it), block (sleep soon), "
            "share (yield, and sleep after a millisecond). auto: spin, then as share; as share at "
            "once if there are more ranks than cores, and soon if others use the core.",
     .advice = "Set spin to gain the last few nanoseconds if every rank has a core of its own.",
     .choices = wait_modes,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, wait)},
    {.name = "AQ_WAIT_AWAKE",
     .def = "60ms",
     .doc = "With AQ_WAIT=auto, how long a wait stays awake after the last arrival if the rank has "
            "a core of its own, so that a message after a pause is handled at once. If others use "
            "that core, or there are more ranks than cores, it sleeps after a millisecond.",
     .advice =
         "Set 0 to use less CPU time for waiting; raise it if messages arrive after longer pauses.",
     .unit = "ms",
     .max = 3600ull * 1000000000,
     AQI_SETTING_IN(TIME, struct aqi_core_config, awake_ns)},
    {.name = "AQ_CONN_TIMEOUT",
     .def = "5s",
     .doc = "Time limit for connecting to another program, unless the call has its own limit; for "
            "closing a connection while data is in flight; and for a reply to a peer that accepts "
            "none.",
     .unit = "s",
     .min = 1000000,
     .max = 86400ull * 1000000000,
     AQI_SETTING_IN(TIME, struct aqi_core_config, conn_timeout_ns)},
    {.name = "AQ_CONN_BACKLOG",
     .def = "128",
     .doc = "The maximum number of connection requests that wait at a listener; further clients "
            "try again.",
     .min = 1,
     .max = 65536,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, conn_backlog)},
    {.name = "AQ_CONN_DATA",
     .def = "1K",
     .doc = "The maximum size of the data that a program may pass when it connects or accepts.",
     .max = 32 << 10,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, conn_data)},
    {.name = "AQ_CONN_MAX",
     .def = "8192",
     .doc = "The maximum number of connections of a process, including ended ones that have not "
            "been closed.",
     .advice = "Each takes one file descriptor and 14 KB of memory over shm, and six descriptors "
               "and 110 KB over udp: raise ulimit -n for thousands.",
     .min = 1,
     .max = 65536,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, conn_max)},
};

static const char *const gone[] = {"AQ_CONN_RETRY", NULL};

struct aqi_settings_table aqi_core_settings = {.group = "core",
                                               .rows = rows,
                                               .count = AQI_COUNT_OF(rows),
                                               .values = &aqi_core_config,
                                               .gone = gone};
