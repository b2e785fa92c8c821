/* ofi: the values of its settings, also in a library that was built without it. */
#ifndef AQI_OFI_CONFIG_H
#define AQI_OFI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
