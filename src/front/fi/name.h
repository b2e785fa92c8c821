/* The name of an endpoint: all that peers need to connect to it, in any process. */
#ifndef AFI_NAME_H
#define AFI_NAME_H

#include "base/wire.h"

enum { AFI_ID = 8, AFI_SECRET = 16, AFI_ADDRESSES = 6 };

/* At most FI_NAME_MAX bytes, the size of programs' buffers. */
struct afi_name {
    unsigned char magic[3];
    uint8_t version;    /* of AQI_WIRE_FI, which also covers the messages of wire.h */
    uint8_t count;      /* of addresses */
    uint8_t transports; /* bits of AFI_BY_… */
    uint16_t port;      /* of udp */
    uint8_t id[AFI_ID]; /* random: the endpoint, and its name in shared memory */
    uint8_t host[AFI_ID];
    uint8_t secret[AFI_SECRET];        /* known only to holders of the name */
    uint8_t address[AFI_ADDRESSES][4]; /* IPv4, or one of IPv6 and zeros */
};
static_assert(sizeof(struct afi_name) == 64, "as peers of this version expect");

enum { AFI_BY_SHM = 1, AFI_BY_UDP = 2, AFI_BY_UDP6 = 4 };

/*
 * Fill in all but the port; `transports` is set to the one by which the addresses can be reached.
 * Returns 0 or a negative error.
 */
int afi_name_make(struct afi_name *name);
bool afi_name_is_valid(const struct afi_name *name);
/* Whether it is a name made by another version of the provider. */
bool afi_name_is_other(const struct afi_name *name);
/* Whether the other endpoint is reached through shared memory. */
bool afi_name_by_shm(const struct afi_name *self, const struct afi_name *name);
/* Get the n-th URI to try; returns false if there are fewer. */
bool afi_name_uri(const struct afi_name *self, const struct afi_name *name, unsigned n, char *uri,
                  size_t len);
int afi_name_text(const struct afi_name *name, char *text, size_t len); /* like snprintf */
/* Prove knowledge of the name of `to`, for call `number` from `from`. */
int afi_name_prove(const struct afi_name *to, const uint8_t *from, const char *what,
                   uint32_t number, uint8_t proof[AFI_SECRET]);

#endif
