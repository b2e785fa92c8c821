/* ofi: networks that libfabric supports, by its providers: messages, remote writes and reads. */
#ifndef AQI_TRANSPORT_OFI_H
#define AQI_TRANSPORT_OFI_H

#include "transport/transport.h"

/* All of this also in a library that was built without ofi. Bytes of an address and of a key: */
enum { OFI_ADDR = 160, OFI_KEY = 80 };

struct ofi_config {
    const char *provider, *domain;
    uint64_t medium, receive_memory, receive_many, sends, inject, piece, repair_ns, refused_ns,
        self_test_ns;
    uint64_t put_inject, put_bounce, get_bounce, bounce_memory, registrations;
    uint64_t order, progress;
    uint64_t domains, domain_threads, domain_polls;
};
extern struct ofi_config ofi_config;

/* Bytes of the largest Medium in a job of this size, whose processes may lend each other memory. */
size_t ofi_medium(uint32_t processes, bool lends);

extern const struct aqi_transport aqi_ofi_transport;
extern struct aqi_settings_table aqi_ofi_settings;

#endif
