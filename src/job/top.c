/* Counters of a host's ranks, and clients that monitor the job. */
#include "job/top.h"

#include "base/clock.h"
#include "base/safe_text.h"
#include "job/channel.h"
#include "job/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TOP_SAMPLE_NS       20000000u
#define TOP_INTERVAL_MIN_NS 100000000u
#define TOP_INTERVAL_MAX_NS 3600000000000ull
enum { TOP_WATCHERS = 16 };
#define TOP_QUEUE_MAX (64u << 20) /* maximum bytes queued for a client that does not read */

struct top_rank {
    int fd; /* 0: none */
    uint32_t doing, looks, waits;
};

/* A packet that must not be lost, queued while the socket is full. */
struct top_packet {
    struct top_packet *next;
    size_t len;
    uint8_t bytes[];
};

struct top_watcher {
    struct aqi_source source;
    struct top_watcher *next;
    uint64_t interval_ns; /* at which it requests counters; 0: it does not */
    uint32_t turn;        /* of its query about peers; 0: none */
    struct top_packet *first, **last;
    size_t queued;
};

static struct {
    struct aqi_top_params params;
    struct top_rank *ranks; /* of this host */
    uint64_t interval_ns;   /* 0: not monitored */
    uint64_t sample_ns, show_ns;
    struct aqi_source listener;
    struct top_watcher *watchers;
    uint64_t requested_ns; /* interval requested by the clients; the next tick announces it */
    uint64_t announced_ns; /* to all agents */
    uint32_t watching;
    uint32_t turn, announced_turn; /* numbers of queries about peers */
} top = {.listener.fd = -1};

/* --- the ranks of this host ----------------------------------------------------------------- */

static struct top_rank *top_rank(uint32_t rank)
{
    uint32_t index = aqi_hub_index(top.params.hub, rank);
    return top.ranks != NULL && index != AQI_NO_RANK ? &top.ranks[index] : NULL;
}

void aqi_top_take(uint32_t rank, int fd)
{
    struct top_rank *of = top_rank(rank);
    if (of == NULL || of->fd != 0)
        close(fd);
    else
        of->fd = fd;
}

bool aqi_top_counters(uint32_t rank, uint64_t value[AQI_CTR_COUNT])
{
    const struct top_rank *of = top_rank(rank);
    uint32_t doing;
    return of != NULL && of->fd != 0 && aqi_counters_read(of->fd, value, &doing);
}

static void top_sample(void)
{
    for (uint32_t i = 0; i < aqi_hub_local_ranks(top.params.hub); i++) {
        struct top_rank *of = &top.ranks[i];
        if (of->fd == 0 || !aqi_counters_doing(of->fd, &of->doing)) continue;
        of->looks++;
        of->waits += of->doing != AQI_DOING_WORK;
    }
}

static bool top_row(uint32_t index, struct aqi_top_row *row)
{
    const struct top_rank *of = &top.ranks[index];
    uint32_t rank = aqi_hub_rank_at(top.params.hub, index);
    *row = (struct aqi_top_row){.rank = rank,
                                .state = aqi_hub_state(top.params.hub, rank),
                                .looks = of->looks,
                                .waits = of->waits,
                                .at_ns = aqi_now_ns()};
    return of->fd != 0 && aqi_counters_read(of->fd, row->value, &row->doing);
}

static void top_send(const struct aqi_top_packet *packet)
{
    size_t len = offsetof(struct aqi_top_packet, row) + packet->rows * sizeof(packet->row[0]);
    if (packet->rows != 0 && aqi_hub_has_room(top.params.hub))
        aqi_hub_printed(top.params.hub, packet->row[0].rank, AQI_STREAM_TOP, packet, len);
}

static void top_show(void)
{
    static struct aqi_top_packet packet;
    packet.version = aqi_wire_version(AQI_WIRE_TOP);
    packet.form = aqi_counters_form();
    packet.ranks = aqi_hub_ranks(top.params.hub);
    packet.rows = 0;
    snprintf(packet.host, sizeof(packet.host), "%s", top.params.host);
    aqi_safe_path(top.params.program, sizeof(packet.program), packet.program);
    for (uint32_t i = 0; i < aqi_hub_local_ranks(top.params.hub); i++) {
        if (top_row(i, &packet.row[packet.rows])) packet.rows++;
        if (packet.rows < AQI_TOP_ROWS) continue;
        top_send(&packet);
        packet.rows = 0;
    }
    top_send(&packet);
}

void aqi_top_watch(void *arg, uint64_t interval_ns)
{
    (void)arg;
    top.interval_ns = top.ranks != NULL ? interval_ns : 0;
    top.sample_ns = top.show_ns = 0; /* immediately, as a baseline for rates */
}

static uint64_t top_tick_ranks(uint64_t now)
{
    if (top.interval_ns == 0) return UINT64_MAX;
    if (now >= top.sample_ns) {
        top_sample();
        top.sample_ns = now + TOP_SAMPLE_NS;
    }
    if (now >= top.show_ns) {
        top_show();
        top.show_ns = (now - top.show_ns < top.interval_ns ? top.show_ns : now) + top.interval_ns;
    }
    return aqi_min(top.sample_ns, top.show_ns);
}

/* --- clients ------------------------------------------------------------------------ */

static void top_count_watchers(void)
{
    top.requested_ns = 0;
    for (const struct top_watcher *w = top.watchers; w != NULL; w = w->next)
        if (w->interval_ns != 0 && (top.requested_ns == 0 || w->interval_ns < top.requested_ns))
            top.requested_ns = w->interval_ns;
}

static void top_forget(struct top_watcher *watcher)
{
    struct top_watcher **at = &top.watchers;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    top.watching--;
    while (watcher->first != NULL) {
        struct top_packet *gone = watcher->first;
        watcher->first = gone->next;
        free(gone);
    }
    aqi_source_close(&watcher->source);
    free(watcher);
    top_count_watchers();
}

/* Send queued packets until the socket is full. */
static void top_flush(struct top_watcher *watcher)
{
    for (struct top_packet *packet; (packet = watcher->first) != NULL;) {
        if (send(watcher->source.fd, packet->bytes, packet->len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break; /* also if the client has closed the socket, which recv detects */
        watcher->queued -= packet->len;
        watcher->first = packet->next;
        free(packet);
    }
    if (watcher->first == NULL) watcher->last = &watcher->first;
    aqi_source_watch(&watcher->source, watcher->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void top_watcher_ready(struct aqi_source *source)
{
    struct top_watcher *watcher = AQI_OF(source, struct top_watcher, source);
    struct aqi_top_ask ask;
    top_flush(watcher);
    ssize_t got = recv(source->fd, &ask, sizeof(ask), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got != (ssize_t)sizeof(ask) || ask.version != aqi_wire_version(AQI_WIRE_TOP)) {
        const uint32_t ours = aqi_wire_version(AQI_WIRE_TOP);
        if (got >= (ssize_t)sizeof(ask.version) && ask.version != ours)
            (void)send(source->fd, &ours, sizeof(ours), MSG_DONTWAIT | MSG_NOSIGNAL);
        top_forget(watcher);
        return;
    }
    if (ask.what == AQI_TOP_PEERS) {
        watcher->turn = ++top.turn;
        return;
    }
    uint64_t wanted = ask.interval_ms * 1000000ull;
    watcher->interval_ns = aqi_min(aqi_max(wanted, TOP_INTERVAL_MIN_NS), TOP_INTERVAL_MAX_NS);
    top_count_watchers();
}

static void top_listener_ready(struct aqi_source *source)
{
    struct ucred cred;
    int fd = aqi_source_accept(source);
    if (fd < 0) return;
    struct top_watcher *watcher = calloc(1, sizeof(*watcher));
    if (watcher == NULL || top.watching >= TOP_WATCHERS || !aqi_channel_peer(fd, &cred) ||
        (cred.uid != geteuid() && cred.uid != 0)) {
        free(watcher);
        close(fd);
        return;
    }
    watcher->next = top.watchers;
    watcher->last = &watcher->first;
    top.watchers = watcher;
    top.watching++;
    aqi_source_open(&watcher->source, fd, top_watcher_ready);
    aqi_source_watch(&watcher->source, EPOLLIN);
}

/* Slow readers lose packets. */
void aqi_top_arrived(const void *bytes, size_t len)
{
    for (const struct top_watcher *w = top.watchers; w != NULL; w = w->next)
        if (w->interval_ns != 0) (void)send(w->source.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void top_queue(struct top_watcher *watcher, const void *bytes, size_t len)
{
    struct top_packet *packet = malloc(sizeof(*packet) + len);
    if (packet == NULL || watcher->queued + len > TOP_QUEUE_MAX) {
        free(packet);
        (void)shutdown(watcher->source.fd, SHUT_RDWR); /* so that the client notices the loss */
        return;
    }
    packet->next = NULL;
    packet->len = len;
    memcpy(packet->bytes, bytes, len);
    *watcher->last = packet;
    watcher->last = &packet->next;
    watcher->queued += len;
    top_flush(watcher);
}

void aqi_top_peers_arrived(const void *bytes, size_t len)
{
    struct aqi_top_peers head;
    if (len < offsetof(struct aqi_top_peers, text)) return;
    memcpy(&head, bytes, offsetof(struct aqi_top_peers, text));
    for (struct top_watcher *w = top.watchers; w != NULL; w = w->next)
        if (w->turn != 0 && w->turn == head.turn) top_queue(w, bytes, len);
}

/* On failure the job runs, but cannot be monitored. */
static void top_listen(void)
{
    struct sockaddr_un address;
    socklen_t size = aqi_top_address((unsigned)geteuid(), (int)getpid(), &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    if (bind(fd, (struct sockaddr *)(void *)&address, size) != 0 || listen(fd, TOP_WATCHERS) != 0) {
        close(fd);
        return;
    }
    aqi_source_open(&top.listener, fd, top_listener_ready);
    (void)aqi_source_try_watch(&top.listener, EPOLLIN);
}

uint64_t aqi_top_tick(uint64_t now)
{
    if (top.requested_ns != top.announced_ns) {
        top.announced_ns = top.requested_ns;
        aqi_hub_watch(top.params.hub, top.requested_ns);
    }
    if (top.turn != top.announced_turn) {
        top.announced_turn = top.turn;
        aqi_hub_ask_peers(top.params.hub, top.turn);
    }
    return top_tick_ranks(now);
}

void aqi_top_open(const struct aqi_top_params *params)
{
    top.params = *params;
    top.ranks = calloc(aqi_hub_local_ranks(params->hub) + 1, sizeof(*top.ranks));
    if (params->root) top_listen();
}

void aqi_top_close(void)
{
    for (uint32_t i = 0; top.ranks != NULL && i < aqi_hub_local_ranks(top.params.hub); i++)
        if (top.ranks[i].fd != 0) close(top.ranks[i].fd);
    while (top.watchers != NULL)
        top_forget(top.watchers);
    aqi_source_close(&top.listener);
    free(top.ranks);
    memset(&top, 0, sizeof(top));
    top.listener.fd = -1;
}
