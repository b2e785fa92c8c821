/*
 * udp: a transport for messages to and from a multicast group. It has two ranks: this process, and
 * all other members of the group. Each message is one datagram; nothing is answered, acknowledged
 * or retransmitted.
 */
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/stats.h"
#include "base/touch.h"
#include "dgram/ports/multicast.h"
#include "transport/udp/udp_group_wire.h"
#include "transport/udp/udp_impl.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_BATCH = 32, /* maximum number of datagrams per call of progress */
    GROUP_LARGEST = 1 << 16,
    /* ns between polls that find nothing, since each is a system call: the more time has passed
     * since the last arrival, the longer. A thread that sleeps is woken. */
    GROUP_PAUSE = 1000,
    GROUP_LONGEST = 20000
};

struct group_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct aqi_peer peer;
    struct ports_multicast socket;
    uint8_t key[AQI_MAC_BYTES];
    uint64_t id;
    struct aqi_spin sending, receiving; /* only with params.threads */
    struct aqi_mac *out, *in;           /* under these locks, like the following */
    uint64_t number;
    struct udp_group_seen seen;
    unsigned char *buffer;
    uint64_t arrived_at;      /* when the latest one arrived */
    _Atomic uint64_t look_at; /* when to poll next */
    bool gone;
};

/* --- opening --------------------------------------------------------------------------------- */

static bool udp_group_probe(unsigned device, struct aqi_tp_probe *probe)
{
    *probe = (struct aqi_tp_probe){.device = "", .reason = "for groups only"};
    return device == 0;
}

static void udp_group_close(struct aqi_tp *tp)
{
    struct group_tp *group = (struct group_tp *)tp;
    aqi_count(AQI_CTR_PACKETS_NO_ROOM, ports_multicast_drops(&group->socket));
    ports_multicast_close(&group->socket);
    aqi_mac_close(group->out);
    aqi_mac_close(group->in);
    free(group->buffer);
    explicit_bzero(group->key, sizeof(group->key));
    free(group);
}

/* Get the address in a URI, and the interface after "%" in the host, if any. */
static aq_status udp_group_find(const char *towards, struct udp_uri *uri, union aqi_sockaddr *at,
                                const char **interface)
{
    struct addrinfo *names;
    if (!udp_uri_read(towards, uri) || uri->host[0] == 0) return udp_uri_bad(towards);
    char *percent = strchr(uri->host, '%');
    if (percent != NULL) *percent = 0;
    if (percent != NULL) *interface = percent + 1;
    aq_status st = udp_uri_resolve(uri, false, &names);
    if (st != AQ_OK) return st;
    memset(at, 0, sizeof(*at));
    memcpy(at, names->ai_addr, aqi_min(names->ai_addrlen, sizeof(*at)));
    freeaddrinfo(names);
    return AQ_OK;
}

aq_status udp_group_is_not(const char *towards, const struct udp_uri *read)
{
    char host[sizeof(read->host)];
    union aqi_sockaddr at;
    memcpy(host, read->host, sizeof(host));
    host[strcspn(host, "%")] = 0;
    if (!aqi_sockaddr_read_ip(host, &at) || !ports_multicast_is_group(&at)) return AQ_OK;
    return aqi_fail(AQ_EINVAL, "udp",
                    "%s is the address of a group: use aq_connect with AQ_CONNECT_GROUP_SEND, "
                    "AQ_CONNECT_GROUP_RECEIVE or both; aq_listen is for servers",
                    towards);
}

static aq_status udp_group_open_socket(struct group_tp *group)
{
    const unsigned does = group->params.group;
    struct aqi_port_params want;
    struct udp_uri uri;
    union aqi_sockaddr at;
    const char *interface = NULL;
    aq_status st = udp_port_params(NULL, &want);
    if (st == AQ_OK) st = udp_group_find(group->params.towards, &uri, &at, &interface);
    if (st != AQ_OK) return st;
    const struct ports_multicast_params params = {
        .group = &at,
        .interface = interface != NULL ? interface : want.interface,
        .packet = want.packet,
        .buffer = want.buffer,
        .hops = (unsigned)udp_config.multicast_ttl,
        .sends = (does & AQI_GROUP_SEND) != 0,
        .receives = (does & AQI_GROUP_RECEIVE) != 0};
    return ports_multicast_open(&group->socket, &params);
}

/* The largest Medium with the maximum number of arguments is one datagram. */
static aq_status udp_group_limit(struct group_tp *group)
{
    const size_t least = 512, cost = UDP_GROUP_COST + aqi_am_payload_offset(AQI_AM_MAX_ARGS);
    size_t most = group->socket.packet > cost ? (group->socket.packet - cost) / 64 * 64 : 0;
    if (most < least)
        return aqi_fail(AQ_ENOTSUP, "udp",
                        "group %s: datagrams of %zu bytes have no room for messages of %zu bytes: "
                        "raise AQ_UDP_MTU",
                        group->socket.text, group->socket.packet, least);
    group->peer.max_medium = (uint32_t)aqi_min(most, group->tp.limits.max_medium);
    return AQ_OK;
}

static aq_status udp_group_make_key(struct group_tp *group)
{
    uint8_t address[UDP_CALL_BYTES], port[UDP_CALL_BYTES];
    aq_status st = aqi_mac_open(AQI_MAC_HMAC, &group->out);
    if (st == AQ_OK) st = aqi_mac_open(AQI_MAC_HMAC, &group->in);
    if (st == AQ_OK) st = aqi_random(&group->id, sizeof(group->id), "udp");
    if (st != AQ_OK) return st;
    udp_group_names(&group->socket.group, address, port);
    udp_connection_derive(group->out, "group", address, port, group->key);
    return AQ_OK;
}

static aq_status udp_group_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    struct group_tp *group = calloc(1, sizeof(*group));
    if (group == NULL) return aqi_fail(AQ_ENOMEM, "udp", "no memory to open a group");
    group->params = *params;
    group->tp.hooks = params->hooks;
    group->tp.limits = (struct aqi_tp_limits){.max_medium = aqi_round_up(params->max_medium, 64),
                                              .max_long = UINT32_MAX};
    group->socket.in = group->socket.out = -1;
    group->buffer = aligned_alloc(AQI_CACHE_LINE, GROUP_LARGEST);
    aq_status st = group->buffer != NULL
                       ? AQ_OK
                       : aqi_fail(AQ_ENOMEM, "udp", "no memory to open the transport");
    if (st == AQ_OK) st = udp_group_open_socket(group);
    if (st == AQ_OK) st = udp_group_limit(group);
    if (st == AQ_OK) st = udp_group_make_key(group);
    if (st != AQ_OK) {
        udp_group_close(&group->tp);
        return st;
    }
    *tp = &group->tp;
    return AQ_OK;
}

static aq_status udp_group_address(struct aqi_tp *tp, void *addr, size_t *len)
{
    (void)tp, (void)addr;
    *len = 0; /* no peer needs it */
    return AQ_OK;
}

static aq_status udp_group_connect(struct aqi_tp *tp, uint32_t id, uint32_t host,
                                   struct aqi_peer **peer)
{
    struct group_tp *group = (struct group_tp *)tp;
    (void)host;
    if (id == group->params.self) return AQ_ENOTSUP;
    group->peer.id = id;
    *peer = &group->peer;
    return AQ_OK;
}

/* --- sending --------------------------------------------------------------------------------- */

static AQI_COLD aq_status udp_group_refuse(const struct group_tp *group, bool sends)
{
    if (!sends)
        return aqi_fail(
            AQ_ENOTSUP, "udp",
            "group %s: this connection only receives: open it with AQ_CONNECT_GROUP_SEND as well",
            group->socket.text);
    return aqi_fail(AQ_ENOTSUP, "udp",
                    "group %s: a group takes only Short and Medium requests, and they cannot be "
                    "answered: for all else, connect to the member itself",
                    group->socket.text);
}

static aq_status udp_group_am_send(struct aqi_tp *tp, struct aqi_peer *peer,
                                   const struct aqi_am *am, struct aqi_comp *comp)
{
    struct group_tp *group = (struct group_tp *)tp;
    alignas(16) unsigned char head[sizeof(struct udp_group_head) + sizeof(struct udp_head)] = {0};
    uint8_t tag[AQI_MAC_BYTES];
    bool sends = group->socket.out >= 0, reply = (am->flags & AQI_AM_IS_REPLY) != 0;
    (void)peer;
    if (AQI_UNLIKELY(!sends || reply || am->kind > AQI_AM_MEDIUM))
        return udp_group_refuse(group, sends || reply || am->kind > AQI_AM_MEDIUM);
    size_t nbytes = aqi_am_payload(am);
    if (nbytes != 0) aqi_touch_read(am->payload, nbytes);
    aqi_am_encode(head + sizeof(struct udp_group_head), am, group->params.self);
    const struct iovec iov[] = {
        {.iov_base = head,
         .iov_len = sizeof(struct udp_group_head) + aqi_am_payload_offset(am->nargs)},
        {.iov_base = (void *)(uintptr_t)am->payload, .iov_len = nbytes},
        {.iov_base = tag, .iov_len = sizeof(tag)}};
    aqi_spin_lock_if(group->params.threads, &group->sending);
    struct udp_group_head *own = (struct udp_group_head *)(void *)head;
    own->sender = group->id;
    own->number = ++group->number;
    udp_group_seal(group->out, group->key, iov, 2, tag);
    aqi_spin_unlock_if(group->params.threads, &group->sending);
    aq_status st = ports_multicast_send(&group->socket, iov, AQI_COUNT_OF(iov));
    if (st != AQ_OK) return st;
    aqi_count(AQI_CTR_PACKETS, 1);
    aqi_comp_local(comp);
    return AQ_OK;
}

/* --- receiving ------------------------------------------------------------------------------- */

static AQI_COLD void udp_group_drop(const struct group_tp *group, enum udp_group_kind kind,
                                    const struct udp_group_head *head)
{
    static atomic_bool once;
    char why[200];
    aqi_count(AQI_CTR_PACKETS_DROPPED, 1);
    if (kind != UDP_GROUP_OTHER) return;
    udp_group_differs(head, why, sizeof(why));
    aqi_log_once(&once, AQI_LOG_WARN, "udp", "group %s: messages are dropped: %s",
                 group->socket.text, why);
}

/* Decode the message after the head. Returns false if it is none that a group carries. */
static bool udp_group_decode(const struct group_tp *group, size_t len, struct aqi_am *am)
{
    unsigned char *message = group->buffer + sizeof(struct udp_group_head);
    uint32_t source;
    if (aqi_am_decode(message, len, group->tp.limits.max_medium, am, &source) != AQ_OK)
        return false;
    if (am->kind > AQI_AM_MEDIUM || (am->flags & (AQI_AM_IS_REPLY | AQI_AM_CREDITS)) != 0)
        return false;
    size_t offset = aqi_am_payload_offset(am->nargs);
    am->payload = message + offset;
    return am->nbytes == 0 || (len >= offset && am->nbytes <= len - offset);
}

static void udp_group_take(struct group_tp *group, size_t len)
{
    struct udp_group_head head;
    struct aqi_am am;
    enum udp_group_kind kind = udp_group_read(group->in, group->key, group->buffer, len, &head);
    if (kind != UDP_GROUP_GOOD) {
        udp_group_drop(group, kind, &head);
    } else if (head.sender == group->id) {
        return; /* our own, looped back */
    } else if (!udp_group_is_new(&group->seen, head.sender, head.number)) {
        aqi_count(AQI_CTR_PACKETS_REPEATED, 1);
    } else if (!udp_group_decode(group, len - UDP_GROUP_COST, &am)) {
        aqi_count(AQI_CTR_AM_DROPPED, 1);
    } else {
        aqi_count(AQI_CTR_PACKETS_RECEIVED, 1);
        group->tp.hooks.deliver(group->tp.hooks.arg, group->peer.id, &am);
    }
}

static unsigned udp_group_receive(struct group_tp *group, uint64_t now)
{
    unsigned n = 0;
    size_t len;
    aq_status st = AQ_OK;
    while (n < GROUP_BATCH && (st = ports_multicast_receive(&group->socket, group->buffer,
                                                            GROUP_LARGEST, &len)) == AQ_OK) {
        udp_group_take(group, len);
        n++;
    }
    if (n != 0) group->arrived_at = now;
    uint64_t pause = aqi_min(aqi_max((now - group->arrived_at) / 16, GROUP_PAUSE), GROUP_LONGEST);
    atomic_store_explicit(&group->look_at, n != 0 ? 0 : now + pause, memory_order_relaxed);
    if (AQI_UNLIKELY(st == AQ_ESYS) && !group->gone) {
        group->gone = true;
        group->tp.hooks.peer_lost(group->tp.hooks.arg, group->peer.id, "its socket is closed");
    }
    return n;
}

static unsigned udp_group_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct group_tp *group = (struct group_tp *)tp;
    uint64_t look_at = atomic_load_explicit(&group->look_at, memory_order_relaxed);
    if (group->socket.in < 0 || mode != AQI_PROGRESS_ALL || now < look_at) return 0;
    if (group->params.threads && !aqi_spin_try(&group->receiving)) return 0;
    unsigned n = udp_group_receive(group, now);
    aqi_spin_unlock_if(group->params.threads, &group->receiving);
    return n;
}

static aq_status udp_group_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp, (void)peer;
    return AQ_OK;
}

static uint64_t udp_group_next_deadline(struct aqi_tp *tp)
{
    (void)tp;
    return AQI_NO_DEADLINE;
}

/* The socket that sends receives nothing, so it is never readable. */
static int udp_group_wait_fd(struct aqi_tp *tp)
{
    const struct ports_multicast *at = &((struct group_tp *)tp)->socket;
    return at->in >= 0 ? at->in : at->out;
}

static aq_status udp_group_arm(struct aqi_tp *tp, bool on)
{
    struct pollfd fd = {.fd = udp_group_wait_fd(tp), .events = POLLIN};
    return on && poll(&fd, 1, 0) != 0 ? AQ_AGAIN : AQ_OK;
}

const struct aqi_transport udp_group = {
    .name = "udp",
    .doc = "messages to and from a multicast group",
    .caps = AQI_CAP_TIMERS | AQI_CAP_WAIT_FD | AQI_CAP_FAR | AQI_CAP_GROUP,
    .probe = udp_group_probe,
    .open = udp_group_open,
    .close = udp_group_close,
    .address = udp_group_address,
    .connect = udp_group_connect,
    .am_send = udp_group_am_send,
    .progress = udp_group_progress,
    .quiet = udp_group_quiet,
    .next_deadline = udp_group_next_deadline,
    .wait_fd = udp_group_wait_fd,
    .arm = udp_group_arm,
};
