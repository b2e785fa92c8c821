/* ofi: its environment variables. */
#include "base/settings.h"
#include "transport/ofi/ofi.h"

struct ofi_config ofi_config;

static const char *const orders[] = {"none", "relaxed", "strict", NULL};

static const char *const progresses[] = {"manual", "auto", NULL};

static const struct aqi_setting rows[] = {
    {.name = "AQ_OFI_PROVIDER",
     .alias = "GASNET_OFI_PROVIDER",
     .def = "",
     .doc = "The provider of libfabric, such as cxi or tcp, by its name in \"fi_info -t "
            "FI_EP_RDM\"; the part after a semicolon may be omitted. If empty: the first available "
            "one of cxi, efa, opx, psm3 and psm2, or tcp if AQ_TRANSPORTS names ofi.",
     .advice = "Name one if aqinfo shows that another is used. Providers over TCP and UDP are "
               "slower than the transport udp.",
     .same = true,
     AQI_SETTING_IN(TEXT, struct ofi_config, provider)},
    {.name = "AQ_OFI_DOMAIN",
     .alias = "GASNET_OFI_DEVICE",
     .def = "",
     .doc = "The domain of the provider, which is an adapter or a network interface, such as cxi0 "
            "or eth0. If empty: the first that is not the loopback interface.",
     .advice = "Name one if a host has several.",
     AQI_SETTING_IN(TEXT, struct ofi_config, domain)},
    {.name = "AQ_OFI_DOMAINS",
     .clamp = true,
     .alias = "GASNET_DOMAIN_COUNT",
     .def = "1",
     .doc = "The number of domains, each with its own endpoint and lock, to which the threads of a "
            "process are assigned in turn; used only if several threads make calls "
            "(AQ_THREAD_MULTIPLE). Memory is registered in each of them.",
     .advice =
         "Set it to the number of threads that communicate at the same time, if each has a core.",
     .min = 1,
     .max = 8,
     AQI_SETTING_IN(COUNT, struct ofi_config, domains)},
    {.name = "AQ_OFI_DOMAIN_THREADS",
     .def = "1",
     .doc = "The number of threads that are assigned to a domain (AQ_OFI_DOMAINS) before the next "
            "domain gets any.",
     .min = 1,
     .max = 64,
     AQI_SETTING_IN(COUNT, struct ofi_config, domain_threads)},
    {.name = "AQ_OFI_DOMAIN_POLLS",
     .clamp = true,
     .alias = "GASNET_AM_DOMAIN_POLL_MASK",
     .def = "255",
     .doc = "A mask: a thread polls the domains of other threads when the number of its polls has "
            "none of these bits (255: every 256th poll), or after 20 us, except for domains that "
            "their own threads have polled within 20 us. 0: at each poll.",
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct ofi_config, domain_polls)},
    {.name = "AQ_OFI_MEDIUM",
     .clamp = true,
     .alias = "GASNET_OFI_MAX_MEDIUM",
     .def = "8K",
     .doc = "The largest payload in bytes, a multiple of 64, of a Medium and of a Long that is one "
            "message; it is also the size of each receive buffer. The default is 4032 in jobs of "
            "more than 1024 processes, and in segment modes large and everything.",
     .advice = "Raise it if messages are larger and the peers are few.",
     .unit = "bytes",
     .min = 512,
     .max = 1 << 16,
     .same = true,
     AQI_SETTING_IN(BYTES, struct ofi_config, medium)},
    {.name = "AQ_OFI_RECEIVE_MEMORY",
     .def = "256M",
     .doc = "The memory for arriving messages when all peers send at once, which limits the "
            "requests in flight to each (AQ_AM_CREDITS) and to all (AQ_AM_CREDITS_TOTAL). If many "
            "messages share a buffer, the requests of a peer count by their size (AQ_AM_BYTES).",
     .advice = "Raise it in jobs of thousands of processes that send many messages to each peer.",
     .unit = "bytes",
     .min = 1 << 20,
     .max = UINT64_C(1) << 40,
     .same = true,
     AQI_SETTING_IN(BYTES, struct ofi_config, receive_memory)},
    {.name = "AQ_OFI_RECEIVE_MANY",
     .alias = "GASNET_OFI_USE_MULTI_RECV",
     .def = "yes",
     .doc = "yes: messages arrive in a few large buffers, one after the other, if the provider "
            "supports that (FI_MULTI_RECV) and passes its self-test; no: each message has a buffer "
            "of its own.",
     .advice = "Set no if a provider has bugs that the self-test does not find.",
     .same = true,
     AQI_SETTING_IN(BOOL, struct ofi_config, receive_many)},
    {.name = "AQ_OFI_ORDER",
     .def = "none",
     .doc = "The order that is requested of the provider: none, relaxed (of messages), strict "
            "(also of writes, and of messages after them); a provider without that order is used "
            "without it. The library orders messages itself and relies on no order of writes, so "
            "it guarantees the same in each case.",
     .advice = "Try relaxed if keeping messages that arrive early costs time.",
     .choices = orders,
     AQI_SETTING_IN(CHOICE, struct ofi_config, order)},
    {.name = "AQ_OFI_PROGRESS",
     .def = "manual",
     .doc = "How puts and gets of peers are served: manual, by calls of the program, or by the "
            "adapter if it needs no help; auto, also by a thread of the provider, if it has one. "
            "With both, messages are handled in calls only.",
     .advice =
         "Try auto if processes compute for a long time without a call while others put or get.",
     .choices = progresses,
     AQI_SETTING_IN(CHOICE, struct ofi_config, progress)},
    {.name = "AQ_OFI_SENDS",
     .clamp = true,
     .alias = "GASNET_GNI_NUM_PD",
     .def = "256",
     .doc = "The maximum number of messages and pieces of puts and gets in flight to all peers "
            "together; less if the provider supports less.",
     .min = 16,
     .max = 1 << 16,
     AQI_SETTING_IN(COUNT, struct ofi_config, sends)},
    {.name = "AQ_OFI_INJECT",
     .def = "4K",
     .doc = "Messages of up to this many bytes, including their header, are injected: the provider "
            "copies them and reports no completion; less if it supports less. 0: none.",
     .unit = "bytes",
     .max = 1 << 16,
     AQI_SETTING_IN(BYTES, struct ofi_config, inject)},
    {.name = "AQ_OFI_PIECE",
     .def = "1M",
     .doc = "Transfers larger than this are split into pieces of this size; less if the provider "
            "supports less.",
     .unit = "bytes",
     .min = 4096,
     .max = 1 << 30,
     AQI_SETTING_IN(BYTES, struct ofi_config, piece)},
    {.name = "AQ_OFI_PUT_INJECT",
     .clamp = true,
     .alias = "GASNET_GNI_PUT_FMA_RDMA_CUTOVER",
     .def = "4K",
     .doc = "Puts of up to this many bytes are injected: the provider copies them from any memory; "
            "less if it supports less. 0: none.",
     .advice = "Lower it if the provider is slower at copying than at fetching.",
     .unit = "bytes",
     .max = 1 << 16,
     AQI_SETTING_IN(BYTES, struct ofi_config, put_inject)},
    {.name = "AQ_OFI_PUT_BOUNCE",
     .clamp = true,
     .alias = "GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER",
     .def = "64K",
     .doc = "If the provider requires local memory to be registered, a put of up to this many "
            "bytes that is neither registered nor injected is copied through registered buffers; "
            "for a larger one, the memory is registered. If registrations are kept "
            "(AQ_REG_MONITOR), only transfers that fit in one buffer are copied.",
     .unit = "bytes",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct ofi_config, put_bounce)},
    {.name = "AQ_OFI_GET_BOUNCE",
     .clamp = true,
     .alias = "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER",
     .def = "64K",
     .doc = "Like AQ_OFI_PUT_BOUNCE, but for gets, which cannot be injected.",
     .unit = "bytes",
     .max = 1 << 20,
     AQI_SETTING_IN(BYTES, struct ofi_config, get_bounce)},
    {.name = "AQ_OFI_BOUNCE_MEMORY",
     .alias = "GASNET_GNI_BOUNCE_SIZE",
     .clamp = true,
     .def = "0",
     .doc = "The memory of the buffers through which puts and gets are copied (AQ_OFI_PUT_BOUNCE, "
            "AQ_OFI_GET_BOUNCE), at least one buffer; 0: as much as AQ_OFI_SENDS allows.",
     .unit = "bytes",
     .max = UINT64_C(1) << 40,
     AQI_SETTING_IN(BYTES, struct ofi_config, bounce_memory)},
    {.name = "AQ_OFI_REGISTRATIONS",
     .clamp = true,
     .alias = "GASNET_GNI_MEMREG",
     .def = "0",
     .doc = "The maximum number of registrations that a process makes on demand; less if the "
            "provider supports less. 0: as many as fit.",
     .advice = "Lower it if other programs need registrations of the adapter.",
     .max = 1 << 30,
     AQI_SETTING_IN(COUNT, struct ofi_config, registrations)},
    {.name = "AQ_OFI_REPAIR_TIMEOUT",
     .def = "60s",
     .doc = "A broken connection of the provider is re-established and its data is sent again; if "
            "it keeps breaking for this long, the peer counts as lost. So does a peer that makes "
            "calls while the provider delivers nothing to it for this long.",
     .advice = "Raise it if a network may be down for minutes.",
     .unit = "s",
     .max = UINT64_C(86400000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, repair_ns)},
    {.name = "AQ_OFI_REFUSED_TIMEOUT",
     .def = "60m",
     .doc = "A peer for which the provider has had no room for this long counts as lost, since "
            "most providers report nothing else about an unreachable one. There is a warning after "
            "half a minute. 0: never.",
     .advice =
         "Raise it, or set 0, if processes compute for this long without a call of the library.",
     .unit = "s",
     .max = UINT64_C(86400000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, refused_ns)},
    {.name = "AQ_OFI_SELF_TEST",
     .def = "5s",
     .doc = "Time limit for each self-test: when ofi opens, it tests the features that it will "
            "use, by messages and transfers to itself. 0: no tests; the provider is trusted.",
     .advice = "Set 0 if a provider serves its peers but not itself.",
     .unit = "s",
     .max = UINT64_C(3600000000000),
     AQI_SETTING_IN(TIME, struct ofi_config, self_test_ns)},
};

struct aqi_settings_table aqi_ofi_settings = {
    .group = "ofi", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &ofi_config};

/*
 * With large buffers, thousands of peers could have only few requests each in flight; and if memory
 * is lent, each peer needs more buffers.
 */
size_t ofi_medium(uint32_t processes, bool lends)
{
    bool many = processes > 1024 || lends;
    return aqi_setting_spare(&aqi_ofi_settings, "AQ_OFI_MEDIUM", many, 4032) / 64 * 64;
}
