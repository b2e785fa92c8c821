/* ofi: finding peers, and handling lost ones. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/shmem.h"

#include <stdio.h>
#include <string.h>

static const uint64_t ofi_peer_last_ns = 1000000000, ofi_peer_doubt_ns = 30000000000;
/* A provider that lacks a file descriptor for a connection only reports that it has no room. */
static const uint64_t ofi_peer_no_fd_ns = 1000000000;

/*
 * Find the name of the domain with this index in an address, or NULL. Returns the number of names;
 * 0: malformed.
 */
static unsigned ofi_peer_names(const struct ofi_addr *addr, size_t len, unsigned place,
                               const unsigned char **name)
{
    size_t head = offsetof(struct ofi_addr, name), at = 0, n = addr->len;
    *name = NULL;
    for (unsigned count = 0;; n = addr->name[at++]) {
        if (n == 0 || n > OFI_NAME || at + n > len - head) return 0;
        if (count++ == place) *name = addr->name + at;
        at += n;
        if (at == len - head) return count;
    }
}

struct peer_name {
    struct ofi_addr addr;
    const unsigned char *name; /* of the domain with our index, in `addr` */
    unsigned domains;
};

/* Look up its address, check it, and find its name there. AQ_AGAIN: it is being fetched. */
static aq_status ofi_peer_look_up(struct ofi_tp *ofi, uint32_t id, struct peer_name *out)
{
    struct ofi_addr *addr = &out->addr;
    size_t head = offsetof(struct ofi_addr, name), len = sizeof(*addr);
    memset(out, 0, sizeof(*out));
    aq_status st = ofi->rdma.tp.hooks.lookup(ofi->rdma.tp.hooks.host, ofi->front, id, addr, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    if (len > head && memcmp(addr->magic, ofi_magic, 4) == 0)
        out->domains = ofi_peer_names(addr, len, ofi->place, &out->name);
    if (out->domains == 0)
        return aqi_fail(AQ_EPROTO, "ofi", "the address of rank %u is malformed", id);
    bool like =
        addr->protocol == ofi->info->ep_attr->protocol && addr->format == ofi->info->addr_format;
    /* It may have another provider, or fewer domains. */
    return like && out->name != NULL ? AQ_OK : AQ_ENOTSUP;
}

unsigned ofi_peer_domains(struct ofi_tp *ofi, uint32_t id)
{
    struct peer_name found;
    return ofi_peer_look_up(ofi, id, &found) == AQ_OK ? found.domains : 0;
}

aq_status ofi_peer_meet(struct aqi_rdma *rdma, struct aqi_rdma_peer *to, uint32_t host)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_peer *peer = (struct ofi_peer *)to;
    struct peer_name found;
    peer->addr = FI_ADDR_NOTAVAIL;
    peer->last_kept = &peer->kept;
    if (host != rdma->params.host && ofi->info->ep_attr->protocol == FI_PROTO_SHM)
        return AQ_ENOTSUP;
    return ofi_peer_look_up(ofi, to->peer.id, &found);
}

static AQI_COLD aq_status ofi_peer_insert(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    struct peer_name found;
    aq_status st = ofi_peer_look_up(ofi, peer->rdma.peer.id, &found);
    if (st != AQ_OK) return st == AQ_AGAIN ? st : AQ_EPEER;
    int got = fi_av_insert(ofi->av, found.name, 1, &peer->addr, 0, NULL);
    if (got == 1 && peer->addr != FI_ADDR_NOTAVAIL) return AQ_OK;
    peer->addr = FI_ADDR_NOTAVAIL;
    if (got == -FI_EAGAIN) return AQ_AGAIN;
    aqi_rdma_fail(&ofi->rdma, &peer->rdma, "%s rejected its address: %s", ofi_name(ofi),
                  got < 0 ? ofi_library.strerror(-got) : "no reason given");
    return AQ_EPEER;
}

aq_status ofi_peer_ready(struct aqi_rdma *rdma, struct aqi_rdma_peer *to)
{
    struct ofi_peer *peer = (struct ofi_peer *)to;
    if (AQI_UNLIKELY(to->down)) return AQ_EPEER;
    if (AQI_LIKELY(peer->addr != FI_ADDR_NOTAVAIL)) return AQ_OK;
    return ofi_peer_insert((struct ofi_tp *)rdma, peer);
}

void ofi_peer_where(const struct aqi_rdma *rdma, const struct aqi_rdma_peer *to,
                    char text[AQI_RDMA_WHERE])
{
    const struct ofi_tp *ofi = (const struct ofi_tp *)rdma;
    const struct ofi_peer *peer = (const struct ofi_peer *)to;
    unsigned char addr[OFI_NAME];
    char name[96];
    size_t addr_len = sizeof(addr), name_len = sizeof(name);
    text[0] = 0;
    if (ofi->av == NULL || peer->addr == FI_ADDR_NOTAVAIL) return;
    if (fi_av_lookup(ofi->av, peer->addr, addr, &addr_len) != 0 || addr_len > sizeof(addr)) return;
    (void)fi_av_straddr(ofi->av, addr, name, &name_len);
    snprintf(text, AQI_RDMA_WHERE, " (%.*s)", (int)aqi_min(name_len, sizeof(name)), name);
}

bool ofi_peer_is_cut(int err)
{
    static const int cut[] = {FI_ECANCELED,
                              FI_ENOTCONN,
                              FI_ECONNRESET,
                              FI_ECONNABORTED,
                              FI_ECONNREFUSED,
                              FI_ETIMEDOUT,
                              FI_ESHUTDOWN,
                              FI_EHOSTUNREACH,
                              FI_ENETUNREACH,
                              FI_EHOSTDOWN,
                              FI_ENETDOWN,
                              FI_EIO,
                              EPIPE};
    for (size_t i = 0; i < AQI_COUNT_OF(cut); i++)
        if (err == cut[i]) return true;
    return false;
}

aq_status ofi_peer_refused(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (peer->refused == 0) {
        peer->refused = AQI_NO_DEADLINE; /* progress sets since when */
        ofi->look_at = 0;
    }
    return AQ_AGAIN;
}

aq_status ofi_peer_rejected(struct ofi_tp *ofi, struct ofi_peer *peer, ssize_t err,
                            const char *what)
{
    if (ofi_peer_is_full(err)) return ofi_peer_refused(ofi, peer);
    const char *why = ofi_library.strerror((int)-err);
    if (ofi_peer_is_cut((int)-err))
        ofi_flush_broken(ofi, peer, why);
    else
        aqi_rdma_fail(&ofi->rdma, &peer->rdma, "%s rejected %s: %s", ofi_name(ofi), what, why);
    return peer->rdma.down ? AQ_EPEER : AQ_AGAIN;
}

static AQI_COLD void ofi_peer_warn(const struct ofi_tp *ofi, struct ofi_peer *peer, uint64_t since,
                                   bool no_fd)
{
    char name[AQI_RDMA_WHERE], advice[224];
    ofi_peer_where(&ofi->rdma, &peer->rdma, name);
    peer->doubted = true;
    if (no_fd)
        snprintf(advice, sizeof(advice),
                 "all file descriptors of this process are in use, and the provider may need some "
                 "for each peer: raise the limit with `ulimit -n %llu`",
                 aqi_fd_advice());
    else
        snprintf(advice, sizeof(advice),
                 "if that rank makes calls, the network does not reach it: check for a firewall, "
                 "and set %s to an interface of one network on all hosts",
                 aqi_setting_variable("AQ_OFI_DOMAIN"));
    aqi_log(AQI_LOG_WARN, "ofi",
            "%s on %s has had no room for messages to rank %u%s for %u s: %s; ofi keeps trying "
            "(AQ_OFI_REFUSED_TIMEOUT)",
            ofi_name(ofi), ofi->info->domain_attr->name, peer->rdma.peer.id, name,
            (unsigned)(since / 1000000000), advice);
}

/*
 * The peer may only be computing, but a provider reports no more than this about an unreachable
 * one. Returns when to check it again.
 */
static uint64_t ofi_peer_doubt(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    uint64_t limit = ofi_config.refused_ns != 0 ? ofi_config.refused_ns : AQI_NO_DEADLINE;
    if (peer->refused == 0) return AQI_NO_DEADLINE;
    peer->refused = aqi_min(peer->refused, ofi->rdma.now);
    uint64_t since = ofi->rdma.now - peer->refused;
    if (since >= limit) {
        aqi_rdma_fail(
            &ofi->rdma, &peer->rdma,
            "%s on %s has had no room for messages to it for %u s (AQ_OFI_REFUSED_TIMEOUT): %s",
            ofi_name(ofi), ofi->info->domain_attr->name, (unsigned)(since / 1000000000),
            aqi_free_fds(1) == 0 ? "all file descriptors of this process are in use (ulimit -n)"
                                 : "the network does not reach it, or it made no calls");
        return AQI_NO_DEADLINE;
    }
    bool no_fd = !peer->doubted && since >= ofi_peer_no_fd_ns && aqi_free_fds(1) == 0;
    if (!peer->doubted && (no_fd || since >= ofi_peer_doubt_ns))
        ofi_peer_warn(ofi, peer, since, no_fd);
    if (!peer->doubted)
        limit = aqi_min(limit, since < ofi_peer_no_fd_ns ? ofi_peer_no_fd_ns : ofi_peer_doubt_ns);
    return limit == AQI_NO_DEADLINE ? limit : peer->refused + limit;
}

void ofi_peer_look(struct ofi_tp *ofi)
{
    uint64_t at = ofi->look_at = AQI_NO_DEADLINE;
    for (uint32_t id = 0; id < ofi->rdma.params.size && !ofi->rdma.draining; id++) {
        struct ofi_peer *peer = ofi_peer_at(ofi, id);
        if (peer == NULL || peer->rdma.down) continue;
        at = aqi_min(at, ofi_peer_doubt(ofi, peer));
        at = aqi_min(at, ofi_flush_look(ofi, peer, ofi->rdma.now));
    }
    ofi->look_at = aqi_min(ofi->look_at, at);
}

/*
 * The provider's operations for it end late or never: callers wait for them only as long as data
 * sent by a dead peer may take to arrive.
 */
void ofi_peer_down(struct aqi_rdma *rdma, struct aqi_rdma_peer *lost)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_peer *peer = (struct ofi_peer *)lost;
    peer->sends = 0;
    ofi_flush_forget(ofi, peer);
    ofi_farewell_begin(ofi, peer);
    ofi_transfer_fail(ofi, peer, false);
    if (peer->rdma.ops == NULL) return;
    peer->end_by = AQI_NO_DEADLINE; /* progress sets when */
    ofi->dying++;
}

void ofi_peer_end_transfers(struct ofi_tp *ofi)
{
    for (uint32_t id = 0; id < ofi->rdma.params.size; id++) {
        struct ofi_peer *peer = ofi_peer_at(ofi, id);
        if (peer == NULL || peer->end_by == 0) continue;
        peer->end_by = aqi_min(peer->end_by, ofi->rdma.now + ofi_peer_last_ns);
        if (peer->rdma.ops != NULL && ofi->rdma.now < peer->end_by) continue;
        ofi_transfer_fail(ofi, peer, true);
        peer->end_by = 0;
        ofi->dying--;
    }
}
