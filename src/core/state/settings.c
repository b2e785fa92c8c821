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

/* Of these a barrier of GASNet's is one; all others are known to it alone. */
static const struct aqi_setting_word barrier_words[] = {
    {"GNIDISSEM", "writes"},  {"RDMADISSEM", "writes"},
    {"IBDISSEM", "writes"},   {"DISSEM", "messages"},
    {"AMDISSEM", "messages"}, {"AMCENTRAL", "messages"},
    {"messages", "messages"}, {"writes", "writes"},
    {"*", "messages"},        {NULL, NULL}};

/* No part of the memory. */
static const struct aqi_setting_word segment_words[] = {{"0", ""}, {NULL, NULL}};

/* Less than two of the largest Mediums is two of them; without an alias it is "no limit". */
static const struct aqi_setting_word bytes_words[] = {{"0", "1"}, {NULL, NULL}};

/* The names of the first documents (2003) for what later ones call credits. */
static const char *const depth_aliases[] = {"GASNET_AM_OUST_PP", NULL};
static const char *const total_aliases[] = {"GASNET_AM_OUST_LIMIT", NULL};

static const struct aqi_setting rows[] = {
    {.name = "AQ_TRANSPORTS",
     .def = "auto",
     .doc =
         "Which transports may be used, in order of preference, as a comma list; auto: all, those "
         "for other hosts where there are some. A process always reaches itself by loop.",
     .advice = "aqinfo --transports shows which there are and which work here.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct aqi_core_config, transports)},
    {.name = "AQ_AM_MAX_MEDIUM",
     .def = "64K",
     .doc = "The largest payload of a Medium active message, rounded up to a multiple of 64; 8K "
            "unless set in jobs of more than 16 processes.",
     .advice = "Each pair of processes that talks has buffers for four of them each way.",
     .min = 512,
     .max = 1 << 20,
     .same = true,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, max_medium)},
    {.name = "AQ_AM_CREDITS",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_PP",
     .more_aliases = depth_aliases,
     .same = true,
     .def = "32",
     .doc = "Requests that may be under way to one peer on a transport that posts receive buffers; "
            "the same in every process.",
     .advice = "Raise it if requests of a busy pair wait (credit_none in AQ_STATS); it costs as "
               "many receive buffers per peer.",
     .min = 1,
     .max = 4095,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_credits)},
    {.name = "AQ_AM_CREDITS_TOTAL",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_TOTAL",
     .more_aliases = total_aliases,
     .def = "0",
     .doc = "Requests that may be under way to all peers together; 0: as many as AQ_AM_CREDITS "
            "allows, or the transport has room for; the same in every process.",
     .same = true,
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_credits_total)},
    {.name = "AQ_AM_BYTES",
     .clamp = true,
     .alias_words = bytes_words,
     .alias = "GASNET_NETWORKDEPTH_SPACE",
     .def = "128K",
     .doc = "Bytes of requests that may be under way to one peer, where AQ_AM_CREDITS applies; at "
            "least two of the largest Mediums; 12K unless set in jobs of more than 128 processes; "
            "0: no limit; the same in every process.",
     .same = true,
     .max = 32 << 20,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, am_bytes)},
    {.name = "AQ_AM_SLACK",
     .clamp = true,
     .alias = "GASNET_AM_CREDITS_SLACK",
     .def = "8",
     .doc = "Credits of requests without a reply that may wait for a message to ride home on, per "
            "peer, before a message of their own takes them; lowered where it could block.",
     .advice =
         "0 gives each back at once. Raise it for programs that send requests both ways; lower "
         "it where they wait for credits (credit_none in AQ_STATS).",
     .max = 4094,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, am_slack)},
    {.name = "AQ_AM_PACKED_LONG",
     .clamp = true,
     .alias = "GASNET_PACKEDLONG_LIMIT",
     .def = "1M",
     .doc = "Payload bytes of a Long that travels in one message with its header, over ibv and "
            "ofi up to the largest Medium, over udp up to 64K; a larger one is put first. 0: none. "
            "shm has a way of its own.",
     .advice = "Lower it where the copy into the target's memory costs more than a message.",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, packed_long)},
    {.name = "AQ_MAX_SEGMENT",
     .alias = "GASNET_MAX_SEGSIZE",
     .def = "0",
     .alias_words = segment_words,
     .check = core_segment_limit_legal,
     .legal = "a size such as 64M or 1.5G, or a part of the host's memory such as 0.5 or 85%; "
              "behind it /P, of each process, or /H, of all of a host together",
     .doc = "The most that a process may attach as its segment; 0: its share, the host's memory "
            "divided by its ranks. A part, a size with /P or /H, and one by GASNET_MAX_SEGSIZE are "
            "never more than that share.",
     AQI_SETTING_IN(TEXT, struct aqi_core_config, max_segment)},
    {.name = "AQ_SEGMENT_MODE",
     .def = "fast",
     .doc = "The memory of aq_segment_attach: fast and large allocate a segment; everything makes "
            "all memory of each process accessible. Unless set it is the first that the program "
            "works with; another one than it works with is an error.",
     .advice = "The same in every process. In everything, ibv and ofi register on demand what is "
               "put and got (AQ_REG_MAIN); over ofi with several domains (AQ_OFI_DOMAINS) all goes "
               "by messages, which is slower.",
     .choices = segment_modes,
     .same = true,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, segment_mode)},
    {.name = "AQ_VIS_PACK",
     .def = "1K",
     .doc = "Pieces of a vector, indexed or strided transfer below this size travel packed in "
            "messages where the segment is not mapped; larger ones as puts and gets of their own.",
     .advice = "0 never packs. Raise it for a network whose puts are slow to start.",
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, vis_pack)},
    {.name = "AQ_PROGRESS_THREAD",
     .alias = "GASNET_RCV_THREAD",
     .def = "no",
     .doc = "A thread of the library serves the peers while the program computes: it sleeps until "
            "something arrives. Handlers then run on it, at the same time as the program.",
     .advice = "yes for programs that compute for long between calls and are asked by others "
               "meanwhile; every call then takes the locks of several threads.",
     AQI_SETTING_IN(BOOL, struct aqi_core_config, progress_thread)},
    {.name = "AQ_CHECK_THREADS",
     .def = "no",
     .doc = "In mode single a call by another thread than that of aq_init fails and names both.",
     .advice = "yes to look for a program's mistakes: in that mode nothing is locked.",
     AQI_SETTING_IN(BOOL, struct aqi_core_config, check_threads)},
    {.name = "AQ_COLL_SCRATCH",
     .def = "8M",
     .doc = "Memory of each process through which those of its host do barriers and collectives, "
            "where they can map it; 0: by messages only. Physical only where it is used.",
     .advice = "Raise it if more than about eight teams do large collectives at a time.",
     .max = 1 << 30,
     .same = true,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, scratch)},
    {.name = "AQ_BARRIER",
     .alias = "GASNET_BARRIER",
     .alias_words = barrier_words,
     .def = "messages",
     .doc = "How barriers of processes that share no memory go: by messages, or by remote writes "
            "into words of the library (dissemination), which the peers' processors look for.",
     .advice = "Try writes where an adapter writes by itself (ibv, ofi) and waits poll: aqperf "
               "--pattern barrier; a thread that sleeps looks each millisecond.",
     .choices = barrier_ways,
     .same = true,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, barrier)},
    {.name = "AQ_NEIGHBORHOOD",
     .check = core_neighbors_legal,
     .legal = "0, the most ranks of a neighborhood, or a list of sizes such as 1,5,2",
     .alias = "GASNET_SUPERNODE_MAXSIZE",
     .def = "0",
     .doc = "How many ranks of a host at most map each other's memory, and reach the others as if "
            "these were on another host (by udp, if AQ_TRANSPORTS allows it); 0: all. A comma list "
            "gives sizes of neighborhoods in the order of the ranks, and repeats.",
     .advice = "1 or 1,5,2 to see on one host how a program behaves on several.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct aqi_core_config, neighborhood)},
    {.name = "AQ_COPY",
     .def = "auto",
     .doc = "How puts and gets of AQ_COPY_LEAST bytes and more copy mapped memory: memcpy of the C "
            "library; string moves of the processor; stream, past the caches; pages, the same with "
            "four pages at a time; auto: the fastest of the first few copies of about that size.",
     .advice = "memcpy if the data is used at once and streaming took it out of the caches.",
     .choices = copy_methods,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, copy)},
    {.name = "AQ_COPY_LEAST",
     .def = "1M",
     .doc = "Below this size puts and gets of mapped memory use memcpy.",
     .min = 4096,
     .max = 1ull << 40,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, copy_least)},
    {.name = "AQ_WAIT",
     .def = "auto",
     .doc = "How blocking calls wait: spin and keep the core; yield it; block (sleep soon); share "
            "(yield, sleep after a millisecond); auto: spin, then as share, at once where ranks "
            "exceed cores, soon where others want them.",
     .advice = "spin gives the last few nanoseconds when every rank has a core of its own.",
     .choices = wait_modes,
     AQI_SETTING_IN(CHOICE, struct aqi_core_config, wait)},
    {.name = "AQ_WAIT_AWAKE",
     .def = "60ms",
     .doc = "With AQ_WAIT=auto, a wait does not sleep before nothing has come for so long, where a "
            "rank has a core of its own: a message after silence is taken at once. Once others use "
            "that core, or where ranks exceed cores, it sleeps after a millisecond.",
     .advice = "0 to spend less of the processor on waiting; more where messages come after longer "
               "pauses.",
     .unit = "ms",
     .max = 3600ull * 1000000000,
     AQI_SETTING_IN(TIME, struct aqi_core_config, awake_ns)},
    {.name = "AQ_CONN_TIMEOUT",
     .def = "5s",
     .doc = "How long connecting to another program may take, unless it says itself; closing a "
            "connection while something is under way; and a reply to a peer that takes none.",
     .unit = "s",
     .min = 1000000,
     .max = 86400ull * 1000000000,
     AQI_SETTING_IN(TIME, struct aqi_core_config, conn_timeout_ns)},
    {.name = "AQ_CONN_BACKLOG",
     .def = "128",
     .doc = "Requests for connections that may wait at a listener; further callers try again.",
     .min = 1,
     .max = 65536,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, conn_backlog)},
    {.name = "AQ_CONN_DATA",
     .def = "1K",
     .doc = "The most data that a program may send along when it connects or accepts.",
     .max = 32 << 10,
     AQI_SETTING_IN(BYTES, struct aqi_core_config, conn_data)},
    {.name = "AQ_CONN_MAX",
     .def = "1024",
     .doc = "Connections that a process may have at a time, also those that have ended and are not "
            "closed.",
     .advice = "Each takes a few file descriptors: raise ulimit -n with it.",
     .min = 1,
     .max = 65536,
     AQI_SETTING_IN(COUNT, struct aqi_core_config, conn_max)},
};

struct aqi_settings_table aqi_core_settings = {
    .group = "core", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &aqi_core_config};
