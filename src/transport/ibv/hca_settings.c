/* ibv: its environment variables. */
#include "base/settings.h"
#include "transport/ibv/ibv.h"

struct hca_config hca_config;

static const char *const ports_aliases[] = {"GASNET_VAPI_PORTS", NULL};
static const char *const device_aliases[] = {"GASNET_HCA_ID", NULL};
static const char *const port_aliases[] = {"GASNET_PORT_NUM", NULL};
/* The names in GASNet's later documents and in its first ones (2003). */
static const char *const sends_aliases[] = {"GASNET_OP_OUST_PP", NULL};
static const char *const total_aliases[] = {"GASNET_OP_OUST_LIMIT", NULL};
/* The maximum in flight. */
static const struct aqi_setting_word bounce_words[] = {{"0", "1048576"}, {NULL, NULL}};

/* DEVICE[:PORT,PORT...]+DEVICE... */
static bool hca_settings_is_filter(const char *at)
{
    for (at += strspn(at, "+"); *at != '\0'; at += strspn(at, "+")) {
        size_t len = strcspn(at, ":+,; \t");
        if (len == 0) return false;
        at += len;
        for (char before = ':'; *at == before; before = ',', at += 1 + len)
            if ((len = strspn(at + 1, "0123456789")) == 0) return false;
        if (*at != '+' && *at != '\0') return false;
    }
    return true;
}

static const struct aqi_setting rows[] = {
    {.name = "AQ_IBV_PORTS",
     .alias = "GASNET_IBV_PORTS",
     .more_aliases = ports_aliases,
     .old_aliases = device_aliases,
     .check = hca_settings_is_filter,
     .legal = "devices separated by +, each optionally with a colon and comma-separated ports, "
              "such as mlx5_0:1,2+mlx5_1",
     .def = "",
     .doc = "The ports that may be used, such as mlx5_0:1+mlx5_1 (devices separated by +, each "
            "optionally followed by a colon and comma-separated ports). It is a filter, so unknown "
            "and inactive ports are skipped. If empty: the first active port of each device.",
     .advice = "Name the ports of one fabric if a host is in several.",
     AQI_SETTING_IN(TEXT, struct hca_config, ports)},
    {.name = "AQ_IBV_PORT",
     .old_aliases = port_aliases,
     .def = "0",
     .doc = "The port to use of a device for which AQ_IBV_PORTS names no port; 0: the first active "
            "one.",
     .max = 255,
     AQI_SETTING_IN(COUNT, struct hca_config, port)},
    {.name = "AQ_IBV_RAILS",
     .clamp = true,
     .alias = "GASNET_NUM_QPS",
     .def = "0",
     .doc = "The number of connections to each peer, each over a different port; 0: one per port "
            "in use, but at most two.",
     .advice = "Set 1 to save memory if a job has thousands of processes.",
     .max = HCA_RAILS,
     .same = true,
     AQI_SETTING_IN(COUNT, struct hca_config, rails)},
    {.name = "AQ_IBV_SPREAD",
     .def = "no",
     .doc = "Whether the processes of a host begin with different ports, each with one whose "
            "adapter is close to its cores, so that their messages are spread over the adapters.",
     .advice = "Set yes if all ports are in one network.",
     AQI_SETTING_IN(BOOL, struct hca_config, spread)},
    {.name = "AQ_IBV_GID",
     .def = "auto",
     .doc = "The address of a RoCE port to use: its index, or auto: the best type of address (RoCE "
            "v2 with an IPv4 address before others).",
     .advice = "Give an index if a port has addresses in several networks; show_gids lists them.",
     AQI_SETTING_IN(TEXT, struct hca_config, gid)},
    {.name = "AQ_IBV_MEDIUM",
     .def = "4032",
     .doc = "The largest payload of a Medium in bytes, a multiple of 64; it is also the size of "
            "each receive buffer.",
     .advice = "Raise it if messages are larger and the peers are few.",
     .unit = "bytes",
     .min = 512,
     .max = 1 << 16,
     .same = true,
     AQI_SETTING_IN(BYTES, struct hca_config, medium)},
    {.name = "AQ_IBV_RECEIVE_MEMORY",
     .def = "256M",
     .doc = "The memory for receive buffers when all peers are connected, which limits the "
            "requests in flight to each (AQ_AM_CREDITS).",
     .advice = "Raise it in jobs of thousands of processes that send many messages to each peer.",
     .unit = "bytes",
     .min = 1 << 20,
     .max = UINT64_C(1) << 40,
     .same = true,
     AQI_SETTING_IN(BYTES, struct hca_config, receive_memory)},
    {.name = "AQ_IBV_SENDS",
     .alias = "GASNET_NETWORKDEPTH_PP",
     .more_aliases = sends_aliases,
     .clamp = true,
     .def = "64",
     .doc = "The maximum number of pieces of puts and gets in flight on one connection.",
     .min = 4,
     .max = 4096,
     AQI_SETTING_IN(COUNT, struct hca_config, sends)},
    {.name = "AQ_IBV_SENDS_TOTAL",
     .alias = "GASNET_NETWORKDEPTH_TOTAL",
     .more_aliases = total_aliases,
     .clamp = true,
     .def = "0",
     .doc = "The maximum number of messages and pieces of puts and gets in flight on all "
            "connections together, at least 64; 0: as many as the adapter has room for.",
     .advice = "Lower it if the adapter must keep room for other programs.",
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct hca_config, sends_total)},
    {.name = "AQ_IBV_BOUNCE_LIMIT",
     .clamp = true,
     .alias = "GASNET_NONBULKPUT_BOUNCE_LIMIT",
     .def = "64K",
     .doc = "A put or get of at most this many bytes of unregistered memory is copied through "
            "registered buffers; for a larger one, the memory is registered. If registrations are "
            "kept (AQ_REG_MONITOR), only transfers that fit in one buffer are copied.",
     .unit = "bytes",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct hca_config, bounce_limit)},
    {.name = "AQ_IBV_BOUNCES",
     .alias_words = bounce_words,
     .clamp = true,
     .alias = "GASNET_BBUF_COUNT",
     .def = "1024",
     .doc =
         "The number of buffers for sending and for the copies described at AQ_IBV_BOUNCE_LIMIT.",
     .min = 64,
     .max = 1 << 20,
     AQI_SETTING_IN(COUNT, struct hca_config, bounces)},
    {.name = "AQ_IBV_PIECE",
     .def = "1M",
     .doc = "Transfers larger than this are split into pieces of this size, which are spread over "
            "the ports.",
     .unit = "bytes",
     .min = 4096,
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct hca_config, piece)},
    {.name = "AQ_IBV_REGISTRATION",
     .clamp = true,
     .alias = "GASNET_PIN_MAXSZ",
     .def = "1T",
     .doc = "Segments larger than this are registered in parts of this size, or of the adapter's "
            "maximum if that is less. If that would take more than 32 parts on all ports together, "
            "the parts are larger; in mode large, the segment is registered on demand instead.",
     .advice = "Lower it if an adapter is slow with large registrations.",
     .unit = "bytes",
     .min = 1 << 16,
     .max = UINT64_C(1) << 60,
     .power_of_two = true,
     AQI_SETTING_IN(BYTES, struct hca_config, registration)},
    {.name = "AQ_IBV_INLINE",
     .clamp = true,
     .alias = "GASNET_INLINESEND_LIMIT",
     .def = "72",
     .doc = "The maximum number of bytes that are passed to the adapter within the request to send "
            "them; less if the adapter supports less.",
     .unit = "bytes",
     .max = 1024,
     AQI_SETTING_IN(BYTES, struct hca_config, inline_limit)},
    {.name = "AQ_IBV_TIMEOUT",
     .clamp = true,
     .alias = "GASNET_QP_TIMEOUT",
     .def = "18",
     .doc = "The adapter retransmits after 4.096 us times 2 to the power of this value without an "
            "acknowledgement.",
     .min = 1,
     .max = 31,
     AQI_SETTING_IN(COUNT, struct hca_config, timeout)},
    {.name = "AQ_IBV_RETRIES",
     .clamp = true,
     .alias = "GASNET_QP_RETRY_COUNT",
     .def = "7",
     .doc = "After this many retransmissions without an acknowledgement, the connection is "
            "re-established, without that port if another one reaches the peer; only the job "
            "declares peers dead.",
     .max = 7,
     AQI_SETTING_IN(COUNT, struct hca_config, retries)},
    {.name = "AQ_IBV_SILENCE",
     .def = "0",
     .doc = "If an adapter with requests in flight on a connection has neither completed anything "
            "nor reported a failure for this long, the connection is re-established; 0: four times "
            "what AQ_IBV_TIMEOUT and AQ_IBV_RETRIES take.",
     .unit = "s",
     .max = UINT64_C(86400000000000),
     AQI_SETTING_IN(TIME, struct hca_config, silence_ns)},
    {.name = "AQ_IBV_RNR_RETRIES",
     .def = "7",
     .doc = "The maximum number of times that a message is sent again to a peer that has no buffer "
            "for it, which should not happen; 7: no limit.",
     .max = 7,
     AQI_SETTING_IN(COUNT, struct hca_config, rnr_retries)},
    {.name = "AQ_IBV_MTU",
     .def = "0",
     .doc = "The maximum packet size (256, 512, 1024, 2048 or 4096); 0: the maximum that both "
            "ports support.",
     .unit = "bytes",
     .max = 4096,
     AQI_SETTING_IN(BYTES, struct hca_config, mtu)},
    {.name = "AQ_IBV_SERVICE_LEVEL",
     .def = "0",
     .doc = "The service level of connections; over Ethernet, the priority.",
     .max = 15,
     AQI_SETTING_IN(COUNT, struct hca_config, service_level)},
    {.name = "AQ_IBV_TRAFFIC_CLASS",
     .def = "0",
     .doc = "The traffic class of connections over Ethernet: the DSCP times four.",
     .max = 255,
     AQI_SETTING_IN(COUNT, struct hca_config, traffic_class)},
    {.name = "AQ_IBV_PKEY",
     .def = "0",
     .doc = "The index of the partition key of the port.",
     .max = 65535,
     AQI_SETTING_IN(COUNT, struct hca_config, pkey)},
    {.name = "AQ_IBV_SPARES",
     .alias = "GASNET_AM_SPARES",
     .clamp = true,
     .def = "4",
     .doc =
         "The number of buffers that replace those of messages whose handlers are running. At most "
         "this many handlers run without a copy of the message; further messages are copied.",
     .min = 1,
     .max = 1024,
     AQI_SETTING_IN(COUNT, struct hca_config, spares)},
    {.name = "AQ_IBV_RING_PEERS",
     .clamp = true,
     .alias = "GASNET_AMRDMA_MAX_PEERS",
     .def = "32",
     .doc = "The maximum number of peers to which a process lends a ring, into which they write "
            "small messages; those that send most get one. 0: none.",
     .advice = "Set it to the number of peers that communicate all the time; each makes a poll a "
               "little longer.",
     .max = 1024,
     AQI_SETTING_IN(COUNT, struct hca_config, ring_peers)},
    {.name = "AQ_IBV_RING_DEPTH",
     .clamp = true,
     .alias = "GASNET_AMRDMA_DEPTH",
     .def = "16",
     .doc = "The number of messages in a ring, a power of two (other numbers are rounded down); "
            "messages that find no room in it are sent in the usual way.",
     .min = 1,
     .max = 32,
     AQI_SETTING_IN(COUNT, struct hca_config, ring_depth)},
    {.name = "AQ_IBV_RING_LIMIT",
     .clamp = true,
     .alias = "GASNET_AMRDMA_LIMIT",
     .def = "4K",
     .doc = "The size of a message in a ring, including its header and tail (at most 112 bytes), "
            "and of each slot: a multiple of 64; 0: no rings.",
     .unit = "bytes",
     .max = 1 << 15,
     AQI_SETTING_IN(BYTES, struct hca_config, ring_limit)},
    {.name = "AQ_IBV_RING_CYCLE",
     .clamp = true,
     .alias = "GASNET_AMRDMA_CYCLE",
     .def = "1024",
     .doc = "The choice of the peers that get a ring is reviewed after this many small messages; "
            "0: no rings.",
     .advice = "Lower it if the set of busy peers changes often.",
     .max = 1 << 30,
     AQI_SETTING_IN(COUNT, struct hca_config, ring_cycle)},
};

struct aqi_settings_table aqi_ibv_settings = {
    .group = "ibv", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &hca_config};
