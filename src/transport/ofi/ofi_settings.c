/* ofi: its environment variables. */
#include "base/settings.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/ofi_config.h"

struct ofi_config ofi_config;

static const char *const orders[] = {"none", "relaxed", "strict", NULL};

static const char *const progresses[] = {"manual", "auto", NULL};

static const struct aqi_setting rows[] = {
    {.name = "AQ_OFI_PROVIDER",
     .alias = "GASNET_OFI_PROVIDER",
     .def = "",
     .doc = "The provider of libfabric, such as cxi or tcp, by its name in \"fi_info -t "
            "FI_EP_RDM\", of which what follows a semicolon may be left out; nothing: the first "
            "that is here of cxi, efa, opx, psm3 and psm2, or tcp if the transport is named.",
     .advice = "Name one where aqinfo shows that another is used. Those over TCP and UDP are "
               "slower than the transport udp.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct ofi_config, provider)},
    {.name = "AQ_OFI_DOMAIN",
     .alias = "GASNET_OFI_DEVICE",
     .def = "",
     .doc = "The domain of the provider, which is an adapter or a network interface, such as cxi0 "
            "or eth0; nothing: the first that is not the loopback interface.",
     .advice = "Name one where a host has several.",
     AQI_SETTING_IN(TEXT, struct ofi_config, domain)},
    {.name = "AQ_OFI_DOMAINS",
     .clamp = true,
     .alias = "GASNET_DOMAIN_COUNT",
     .def = "1",
     .doc = "Domains, each with an endpoint and a lock of its own, to which the threads of a "
            "process are given in turn; only where several threads make calls "
            "(AQ_THREAD_MULTIPLE). Memory is registered in each of them.",
     .advice = "As many as threads that communicate at the same time, where each has a core.",
     .min = 1,
     .max = 8,
     AQI_SETTING_IN(COUNT, struct ofi_config, domains)},
    {.name = "AQ_OFI_DOMAIN_THREADS",
     .def = "1",
     .doc = "So many threads are given to a domain (AQ_OFI_DOMAINS) before the next one gets any.",
     .min = 1,
     .max = 64,
     AQI_SETTING_IN(COUNT, struct ofi_config, domain_threads)},
    {.name = "AQ_OFI_DOMAIN_POLLS",
     .clamp = true,
     .alias = "GASNET_AM_DOMAIN_POLL_MASK",
     .def = "255",
     .doc =
         "A mask: a thread looks at the domains of other threads when the number of its polls "
         "has none of these bits (255: every 256th time), or when 20 us have gone by; but not at "
         "those that a thread of theirs has looked at within 20 us. 0: each time.",
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct ofi_config, domain_polls)},
    {.name = "AQ_OFI_MEDIUM",
     .clamp = true,
     .alias = "GASNET_OFI_MAX_MEDIUM",
     .def = "8K",
     .doc = "Payload bytes of the largest Medium, a multiple of 64, and of a Long that is one "
            "message; each receive buffer is so large. 4032 unless set in jobs of more than 1024 "
            "processes, and in segment modes large and everything.",
     .advice = "Raise it where messages are larger and peers are few.",
     .unit = "bytes",
     .min = 512,
     .max = 1 << 16,
     .same = true,
     AQI_SETTING_IN(BYTES, struct ofi_config, medium)},
    {.name = "AQ_OFI_RECEIVE_MEMORY",
     .def = "256M",
     .doc = "Memory for messages that have arrived, if all peers send at once, which bounds the "
            "requests under way to each (AQ_AM_CREDITS) and to all (AQ_AM_CREDITS_TOTAL). Where "
            "many messages share a buffer, a peer's requests count by AQ_AM_BYTES.",
     .advice = "Raise it in jobs of thousands of processes that send many messages to each peer.",
     .unit = "bytes",
     .min = 1 << 20,
     .max = UINT64_C(1) << 40,
     .same = true,
     AQI_SETTING_IN(BYTES, struct ofi_config, receive_memory)},
    {.name = "AQ_OFI_RECEIVE_MANY",
     .alias = "GASNET_OFI_USE_MULTI_RECV",
     .def = "yes",
     .doc =
         "Messages arrive in a few large buffers, one after the other, where the provider can do "
         "that (FI_MULTI_RECV) and does it right when it is tried; no: each in a buffer of its "
         "own.",
     .advice = "no where a provider has errors in it that the self-test does not find.",
     .same = true,
     AQI_SETTING_IN(BOOL, struct ofi_config, receive_many)},
    {.name = "AQ_OFI_ORDER",
     .def = "none",
     .doc = "The order that is asked of the provider: none, relaxed (of messages), strict (also of "
            "writes, and of messages after them); where it has no such order it is used without. "
            "The library sorts messages itself and relies on no order of writes, so what "
            "it promises is the same with all.",
     .advice = "Try relaxed where messages that come early cost time to be kept.",
     .choices = orders,
     AQI_SETTING_IN(CHOICE, struct ofi_config, order)},
    {.name = "AQ_OFI_PROGRESS",
     .def = "manual",
     .doc = "Who serves the puts and gets of peers: manual: the calls of the program, or the "
            "adapter where it needs nobody; auto: also a thread of the provider's, where it has "
            "one. Messages are handled in calls with both.",
     .advice = "Try auto where processes compute for long without a call while others put or get.",
     .choices = progresses,
     AQI_SETTING_IN(CHOICE, struct ofi_config, progress)},
    {.name = "AQ_OFI_SENDS",
     .clamp = true,
     .alias = "GASNET_GNI_NUM_PD",
     .def = "256",
     .doc = "Messages and pieces of puts and gets under way to all peers; less where the provider "
            "takes less.",
     .min = 16,
     .max = 1 << 16,
     AQI_SETTING_IN(COUNT, struct ofi_config, sends)},
    {.name = "AQ_OFI_INJECT",
     .def = "4K",
     .doc = "Messages of up to so many bytes, with their header, are injected: the provider copies "
            "them and says nothing more of them; less where it takes less. 0: none.",
     .unit = "bytes",
     .max = 1 << 16,
     AQI_SETTING_IN(BYTES, struct ofi_config, inject)},
    {.name = "AQ_OFI_PIECE",
     .def = "1M",
     .doc = "A larger transfer is split into pieces of so many bytes; less where the provider "
            "takes less.",
     .unit = "bytes",
     .min = 4096,
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct ofi_config, piece)},
    {.name = "AQ_OFI_PUT_INJECT",
     .clamp = true,
     .alias = "GASNET_GNI_PUT_FMA_RDMA_CUTOVER",
     .def = "4K",
     .doc =
         "Puts of up to so many bytes are injected: the provider copies them, wherever they lie; "
         "less where it takes less. 0: none.",
     .advice = "Lower it where a provider that copies is slower than one that fetches.",
     .unit = "bytes",
     .max = 1 << 16,
     AQI_SETTING_IN(BYTES, struct ofi_config, put_inject)},
    {.name = "AQ_OFI_PUT_BOUNCE",
     .clamp = true,
     .alias = "GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER",
     .def = "64K",
     .doc = "Where the provider wants local memory registered, a put of up to so many bytes of "
            "memory that is not, and that is not injected, is copied through buffers that are; for "
            "a larger one the memory is registered. Where it is kept so (AQ_REG_MONITOR), only "
            "what fits one buffer is copied.",
     .unit = "bytes",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct ofi_config, put_bounce)},
    {.name = "AQ_OFI_GET_BOUNCE",
     .clamp = true,
     .alias = "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER",
     .def = "64K",
     .doc = "The same as AQ_OFI_PUT_BOUNCE, of gets. They cannot be injected.",
     .unit = "bytes",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct ofi_config, get_bounce)},
    {.name = "AQ_OFI_BOUNCE_MEMORY",
     .alias = "GASNET_GNI_BOUNCE_SIZE",
     .clamp = true,
     .def = "0",
     .doc = "Memory of the buffers that puts and gets under way are copied through, at least one; "
            "0: as much as AQ_OFI_SENDS allows.",
     .unit = "bytes",
     .max = UINT64_C(1) << 40,
     AQI_SETTING_IN(BYTES, struct ofi_config, bounce_memory)},
    {.name = "AQ_OFI_REGISTRATIONS",
     .clamp = true,
     .alias = "GASNET_GNI_MEMREG",
     .def = "0",
     .doc = "The most registrations that are made so; less where the provider takes less. 0: as "
            "many as fit.",
     .advice = "Lower it where other programs need those of the adapter.",
     .max = 1 << 30,
     AQI_SETTING_IN(COUNT, struct ofi_config, registrations)},
    {.name = "AQ_OFI_REPAIR_TIMEOUT",
     .def = "60s",
     .doc =
         "A connection of the provider that breaks is made anew and what it held is sent again; "
         "where it goes on breaking for so long, the peer counts as lost. So does one that makes "
         "calls while the provider delivers nothing to it.",
     .advice = "More where a network may be down for minutes.",
     .unit = "s",
     .max = UINT64_C(86400000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, repair_ns)},
    {.name = "AQ_OFI_REFUSED_TIMEOUT",
     .def = "60m",
     .doc = "A peer for which the provider has had no room for so long counts as lost: most say no "
            "more of one that cannot be reached. After half a minute there is a warning. 0: never.",
     .advice = "More, or 0, if processes compute for so long without a call of the library.",
     .unit = "s",
     .max = UINT64_C(86400000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, refused_ns)},
    {.name = "AQ_OFI_SELF_TEST",
     .def = "5s",
     .doc = "When ofi opens it tries with messages and transfers to itself what it will rely on; "
            "each message and transfer may take so long. 0: the provider is believed.",
     .advice = "0 where a provider serves its peers but not itself.",
     .unit = "s",
     .max = UINT64_C(3600000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, self_test_ns)},
};

struct aqi_settings_table aqi_ofi_settings = {
    .group = "ofi", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &ofi_config};

/* Buffers for the messages of thousands of peers would leave each of them few requests; and where
 * memory is lent each peer needs more of them. */
size_t ofi_medium(uint32_t processes, bool lends)
{
    bool many = processes > 1024 || lends;
    return aqi_setting_spare(&aqi_ofi_settings, "AQ_OFI_MEDIUM", many, 4032) / 64 * 64;
}
