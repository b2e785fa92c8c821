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

enum {
    AFI_BY_SHM = 1,
    AFI_BY_UDP = 2,
    AFI_BY_UDP6 = 4,
    AFI_SERVICE = 8,  /* `port` was chosen by the program; `id` and `secret` follow from it */
    AFI_RESOLVED = 16 /* a service as looked up: its host and transports are guesses */
};

/*
 * Fill in all but the port; `transports` is set to the one by which the addresses can be reached.
 * With a `service`, the number of a udp port, the endpoint has this port, and any process that
 * reaches its host can connect; 0: a random name. Returns 0 or a negative error.
 */
int afi_name_make(struct afi_name *name, uint16_t service);
/*
 * Look up a service of a host, as fi_getinfo does: without a service, port 0; without a node, this
 * host; a node may be an address in the format of FI_ADDR_STR. `here`: the node must be this host.
 * Blocks while a name server is asked. Returns 0 or a negative error.
 */
int afi_name_resolve(struct afi_name *name, const char *node, const char *service, uint64_t flags,
                     bool here);
/*
 * The node or service `n` after this one: the number at its end, or an address, is larger by `n`.
 * Returns false if it has no number, unless `n` is 0, or the result does not fit.
 */
bool afi_name_add(const char *text, size_t n, char *sum, size_t len);
/* Whether it is a struct sockaddr_in or sockaddr_in6. */
bool afi_name_is_socket(const void *addr, size_t len);
/* Likewise, from such an address. */
int afi_name_from_socket(struct afi_name *name, const void *addr, size_t len, bool here);
bool afi_name_is_valid(const struct afi_name *name);
/* Likewise, and not port 0, which no endpoint has. */
bool afi_name_is_reachable(const struct afi_name *name);
/* Whether it is the name of a service, which may be port 0. */
bool afi_name_is_service(const void *addr, size_t len);
/* The number of the service in a name or in the address of a socket; 0: none, or NULL. */
uint16_t afi_name_service(const void *addr, size_t len);
/* Whether both are names of one endpoint, as far as this can be known before a connection. */
bool afi_name_same(const struct afi_name *a, const struct afi_name *b);
/* Whether this name comes first of the two; both ends of a connection agree on it. */
bool afi_name_before(const struct afi_name *a, const struct afi_name *b);
/* The peer has sent its name: replace one that was looked up. */
void afi_name_learn(struct afi_name *known, const struct afi_name *sent);
/* Whether it is a name made by another version of the provider. */
bool afi_name_is_other(const struct afi_name *name);
/* Whether the other endpoint is reached through shared memory. */
bool afi_name_by_shm(const struct afi_name *self, const struct afi_name *name);
/* Get the n-th URI to try; returns false if there are fewer. */
bool afi_name_uri(const struct afi_name *self, const struct afi_name *name, unsigned n, char *uri,
                  size_t len);
/*
 * The form that names have in programs: that of sockets (struct sockaddr_in) if requested, with the
 * first address of the name, and the port of the service for which it stands.
 */
size_t afi_name_size(bool socket);
void afi_name_write(bool socket, const struct afi_name *name, void *addr);
/* Sets the name to all 0, which is not valid, if it is no address of a socket, or that of any. */
void afi_name_read(bool socket, const void *addr, struct afi_name *name);
int afi_name_text(bool socket, const void *addr, char *text, size_t len); /* like snprintf */
/* Prove knowledge of the name of `to`, for call `number` from `from`. */
int afi_name_prove(const struct afi_name *to, const uint8_t *from, const char *what,
                   uint32_t number, uint8_t proof[AFI_SECRET]);

#endif
