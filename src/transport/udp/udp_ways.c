/*
 * udp: addresses. A process of a job announces all that it has of one family, the best first: which
 * of them lead anywhere is found by trying those for which the kernel has a route
 * (src/dgram/ways.c).
 */
#include "transport/udp/udp_impl.h"

#include "dgram/ports/interface.h"

#include <string.h>

const unsigned char udp_magic[4] = {'u', 'd', 'p', '1'};
const unsigned char udp_job_magic[4] = {'u', 'd', 'p', '2'};

aq_status udp_address(struct aqi_tp *tp, void *out, size_t *len)
{
    struct udp_tp *udp = (struct udp_tp *)tp;
    const struct aqi_port *port = udp->port;
    struct udp_connection_addr *addr = &udp->own.addr;
    struct udp_job_addr job = {.count = (uint8_t)(1 + port->other_count), .at = {port->address}};
    if (udp->own.is_connection) {
        memcpy(addr->base.magic, udp_magic, sizeof(udp_magic));
        addr->base.at = port->address;
        *len = sizeof(*addr);
        memcpy(out, addr, *len);
        return AQ_OK;
    }
    memcpy(job.magic, udp_job_magic, sizeof(job.magic));
    memcpy(&job.at[1], port->others, port->other_count * sizeof(job.at[1]));
    *len = sizeof(job);
    memcpy(out, &job, *len);
    return AQ_OK;
}

static bool udp_ways_is_one(const struct aqi_dgram_addr *at)
{
    return at->len != 0 && at->len <= sizeof(at->bytes);
}

static aq_status udp_ways_lookup(const struct udp_tp *udp, uint32_t id, void *addr, size_t size)
{
    unsigned char bytes[AQI_ADDR_MAX];
    size_t len = sizeof(bytes);
    aq_status st = udp->tp.hooks.lookup(udp->tp.hooks.host, &udp->tp, id, bytes, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    if (len != size) return AQ_EPROTO;
    memcpy(addr, bytes, size);
    return AQ_OK;
}

aq_status udp_ways_announced(const struct udp_tp *udp, uint32_t id, struct udp_job_addr *announced)
{
    aq_status st = udp_ways_lookup(udp, id, announced, sizeof(*announced));
    if (st != AQ_OK) return st;
    if (memcmp(announced->magic, udp_job_magic, sizeof(udp_job_magic)) != 0 ||
        announced->count == 0 || announced->count > AQI_DGRAM_WAYS)
        return AQ_EPROTO;
    for (unsigned i = 0; i < announced->count; i++)
        if (!udp_ways_is_one(&announced->at[i])) return AQ_EPROTO;
    return AQ_OK;
}

aq_status udp_hook_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *at)
{
    const struct udp_tp *udp = arg;
    struct udp_connection_addr addr;
    struct udp_job_addr announced;
    if (!udp->own.is_connection) {
        aq_status st = udp_ways_announced(udp, id, &announced);
        if (st == AQ_OK) *at = announced.at[0];
        return st;
    }
    aq_status st = udp_ways_lookup(udp, id, &addr, sizeof(addr));
    if (st != AQ_OK) return st;
    if (memcmp(addr.base.magic, udp_magic, sizeof(udp_magic)) != 0 ||
        !udp_ways_is_one(&addr.base.at))
        return AQ_EPROTO;
    *at = addr.base.at;
    return AQ_OK;
}

/* Whether the kernel has a route to `to`. `*own`: our address for replies. */
static bool udp_ways_route(const struct udp_tp *udp, const struct aqi_dgram_addr *to,
                           struct aqi_dgram_addr *own)
{
    union aqi_sockaddr source;
    if (!ports_address_reaches(&udp->port->address, to) || !ports_interface_route(to, &source))
        return false;
    *own = udp->port->address;
    if (udp->port->other_count != 0) ports_address_at(&udp->port->address, &source, own);
    return true;
}

bool udp_hook_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                  struct aqi_dgram_addr *own)
{
    const struct udp_tp *udp = arg;
    struct udp_job_addr announced;
    if (udp_ways_announced(udp, id, &announced) != AQ_OK || way >= announced.count) return false;
    *to = announced.at[way];
    if (udp_ways_route(udp, to, own)) return true;
    /* If none leads anywhere now, packets sent by the first show why. */
    for (unsigned i = 1; way == 0 && i < announced.count; i++)
        if (udp_ways_route(udp, &announced.at[i], own)) return false;
    *own = udp->port->address;
    return way == 0;
}
