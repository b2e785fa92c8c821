/* ofi: peers: finding them, and handling those that are lost. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ofi_peer_last_ns = 1000000000, ofi_peer_doubt_ns = 30000000000;

/*
 * The names in an address; `*name` becomes that of the domain with this index, or NULL. Returns
 * their number; 0: malformed.
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

/* Its address, checked, and its name. AQ_AGAIN: it is being fetched. */
static aq_status ofi_peer_look_up(struct ofi_tp *ofi, uint32_t id, struct ofi_addr *addr,
                                  const unsigned char **name, unsigned *domains)
{
    size_t head = offsetof(struct ofi_addr, name), len = sizeof(*addr);
    memset(addr, 0, sizeof(*addr));
    aq_status st = ofi->tp.hooks.lookup(ofi->tp.hooks.host, ofi->front, id, addr, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    *domains = len > head && memcmp(addr->magic, ofi_magic, 4) == 0
                   ? ofi_peer_names(addr, len, ofi->place, name)
                   : 0;
    if (*domains == 0) return aqi_fail(AQ_EPROTO, "ofi", "the address of peer %u is malformed", id);
    bool like =
        addr->protocol == ofi->info->ep_attr->protocol && addr->format == ofi->info->addr_format;
    /* Another provider there, or fewer domains. */
    return like && *name != NULL ? AQ_OK : AQ_ENOTSUP;
}

unsigned ofi_peer_domains(struct ofi_tp *ofi, uint32_t id)
{
    struct ofi_addr addr;
    const unsigned char *name;
    unsigned domains;
    return ofi_peer_look_up(ofi, id, &addr, &name, &domains) == AQ_OK ? domains : 0;
}

aq_status ofi_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    struct ofi_addr addr;
    const unsigned char *name;
    unsigned domains;
    if (id == ofi->params.self) return AQ_ENOTSUP;
    if (host != ofi->params.host && ofi->info->ep_attr->protocol == FI_PROTO_SHM) return AQ_ENOTSUP;
    struct ofi_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory for peer %u", id);
    peer->peer.id = id;
    peer->addr = FI_ADDR_NOTAVAIL;
    peer->last_waiting = &peer->waiting;
    peer->last_kept = &peer->kept;
    peer->lender.id = id;
    ofi_lock(ofi);
    aq_status st = ofi_peer_look_up(ofi, id, &addr, &name, &domains);
    if (st == AQ_AGAIN) st = AQ_OK; /* looked up again when needed */
    bool new = st == AQ_OK && ofi->peers[id] == NULL;
    if (new) ofi->peers[id] = peer;
    if (st == AQ_OK) *out = &ofi->peers[id]->peer;
    ofi_unlock(ofi);
    if (!new) free(peer);
    return st;
}

static AQI_COLD aq_status ofi_peer_insert(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    struct ofi_addr addr;
    const unsigned char *name;
    unsigned domains;
    aq_status st = ofi_peer_look_up(ofi, peer->peer.id, &addr, &name, &domains);
    if (st != AQ_OK) return st == AQ_AGAIN ? st : AQ_EPEER;
    int got = fi_av_insert(ofi->av, name, 1, &peer->addr, 0, NULL);
    if (got == 1 && peer->addr != FI_ADDR_NOTAVAIL) return AQ_OK;
    peer->addr = FI_ADDR_NOTAVAIL;
    if (got == -FI_EAGAIN) return AQ_AGAIN;
    ofi_peer_fail(ofi, peer, "%s does not accept its address: %s",
                  ofi->info->fabric_attr->prov_name,
                  got < 0 ? ofi_library.strerror(-got) : "no reason given");
    return AQ_EPEER;
}

aq_status ofi_peer_ready(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    if (AQI_UNLIKELY(peer->down)) return AQ_EPEER;
    if (AQI_LIKELY(peer->addr != FI_ADDR_NOTAVAIL)) return AQ_OK;
    return ofi_peer_insert(ofi, peer);
}

const char *ofi_peer_name(const struct ofi_tp *ofi, const struct ofi_peer *peer, char *text,
                          size_t len)
{
    unsigned char addr[OFI_NAME];
    char name[96];
    size_t addr_len = sizeof(addr), name_len = sizeof(name);
    text[0] = 0;
    if (ofi->av == NULL || peer->addr == FI_ADDR_NOTAVAIL) return text;
    if (fi_av_lookup(ofi->av, peer->addr, addr, &addr_len) != 0 || addr_len > sizeof(addr))
        return text;
    (void)fi_av_straddr(ofi->av, addr, name, &name_len);
    snprintf(text, len, " (%.*s)", (int)aqi_min(name_len, sizeof(name)), name);
    return text;
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
        peer->refused = AQI_NO_DEADLINE; /* progress reports since when */
        ofi->look_at = 0;
    }
    return AQ_AGAIN;
}

static AQI_COLD void ofi_peer_warn(const struct ofi_tp *ofi, struct ofi_peer *peer)
{
    char name[OFI_PEER_NAME];
    peer->doubted = true;
    aqi_log(AQI_LOG_WARN, "ofi",
            "%s on %s has had no room for messages to rank %u%s for %u s: if that rank makes "
            "calls, the network does not reach it: check for a firewall, and set %s to an "
            "interface of one network on all hosts; ofi keeps trying (AQ_OFI_REFUSED_TIMEOUT)",
            ofi->info->fabric_attr->prov_name, ofi->info->domain_attr->name, peer->peer.id,
            ofi_peer_name(ofi, peer, name, sizeof(name)),
            (unsigned)(ofi_peer_doubt_ns / 1000000000), aqi_setting_variable("AQ_OFI_DOMAIN"));
}

/*
 * It may only be computing. But providers report nothing else about an unreachable peer, ever.
 * Returns when to check it again.
 */
static uint64_t ofi_peer_doubt(struct ofi_tp *ofi, struct ofi_peer *peer)
{
    uint64_t limit = ofi_config.refused_ns != 0 ? ofi_config.refused_ns : AQI_NO_DEADLINE;
    if (peer->refused == 0) return AQI_NO_DEADLINE;
    peer->refused = aqi_min(peer->refused, ofi->now);
    uint64_t since = ofi->now - peer->refused;
    if (since >= limit) {
        ofi_peer_fail(
            ofi, peer,
            "%s on %s has had no room for messages to it for %u s (AQ_OFI_REFUSED_TIMEOUT): the "
            "network does not reach it, or it made no calls",
            ofi->info->fabric_attr->prov_name, ofi->info->domain_attr->name,
            (unsigned)(since / 1000000000));
        return AQI_NO_DEADLINE;
    }
    if (since >= ofi_peer_doubt_ns && !peer->doubted) ofi_peer_warn(ofi, peer);
    if (!peer->doubted) limit = aqi_min(limit, ofi_peer_doubt_ns);
    return limit == AQI_NO_DEADLINE ? limit : peer->refused + limit;
}

void ofi_peer_look(struct ofi_tp *ofi)
{
    uint64_t at = ofi->look_at = AQI_NO_DEADLINE;
    for (uint32_t id = 0; id < ofi->params.size && !ofi->draining; id++) {
        struct ofi_peer *peer = ofi->peers[id];
        if (peer == NULL || peer->down) continue;
        at = aqi_min(at, ofi_peer_doubt(ofi, peer));
        at = aqi_min(at, ofi_flush_look(ofi, peer, ofi->now));
    }
    ofi->look_at = aqi_min(ofi->look_at, at);
}

/*
 * The operations that the provider has for it end some time, or never: callers wait for them only
 * as long as data that a dead peer had sent may take to arrive.
 */
void ofi_peer_fail(struct ofi_tp *ofi, struct ofi_peer *peer, const char *fmt, ...)
{
    char name[OFI_PEER_NAME];
    va_list args;
    if (peer->down) return;
    va_start(args, fmt);
    vsnprintf(peer->why, sizeof(peer->why), fmt, args);
    va_end(args);
    aqi_log(AQI_LOG_INFO, "ofi", "peer %u%s is lost: %s", peer->peer.id,
            ofi_peer_name(ofi, peer, name, sizeof(name)), peer->why);
    peer->down = true;
    peer->sends = 0;
    ofi_flush_forget(ofi, peer);
    ofi_transfer_fail(ofi, peer, false);
    if (peer->ops != NULL) {
        peer->end_by = AQI_NO_DEADLINE; /* progress reports when */
        ofi->dying++;
    }
    if (peer->lost || ofi->draining) return;
    peer->lost = true;
    peer->next_lost = ofi->lost;
    ofi->lost = peer;
}

void ofi_peer_end_transfers(struct ofi_tp *ofi)
{
    for (uint32_t id = 0; id < ofi->params.size; id++) {
        struct ofi_peer *peer = ofi->peers[id];
        if (peer == NULL || peer->end_by == 0) continue;
        peer->end_by = aqi_min(peer->end_by, ofi->now + ofi_peer_last_ns);
        if (peer->ops != NULL && ofi->now < peer->end_by) continue;
        ofi_transfer_fail(ofi, peer, true);
        peer->end_by = 0;
        ofi->dying--;
    }
}

void ofi_disconnect(struct aqi_tp *tp, struct aqi_peer *to)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    struct ofi_peer *peer = (struct ofi_peer *)to;
    ofi_lock(ofi);
    peer->lost = true; /* the caller knows it */
    ofi_peer_fail(ofi, peer, "the job says that it is dead");
    ofi_unlock(ofi);
}

unsigned ofi_peer_tell_lost(struct ofi_tp *ofi)
{
    for (unsigned n = 0;; n++) {
        ofi_lock(ofi);
        struct ofi_peer *peer = ofi->lost;
        if (peer != NULL) ofi->lost = peer->next_lost;
        ofi_unlock(ofi);
        if (peer == NULL) return n;
        ofi->tp.hooks.peer_lost(ofi->tp.hooks.arg, peer->peer.id, peer->why);
    }
}
