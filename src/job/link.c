/* Links: connected streams, their queues, and how they end. */
#include "job/link.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/iov.h"
#include "base/random.h"
#include "job/link_impl.h"

#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LINK_PIECES      64         /* frames sent per call */
#define LINK_TURN        (1u << 20) /* maximum bytes sent before other sources are served */
#define LINK_GRAIN_NS    10000000u  /* interval at which deadlines are checked */
#define LINK_BEATS       4          /* keep-alives per AQ_HOST_TIMEOUT */
#define LINK_NS_PER_MS   1000000u
#define LINK_BEAT_MIN_NS 10000000u

/* Kinds of frames. */
enum {
    LINK_DATA = AQI_SEAL_READY + 1,
    LINK_BEAT, /* keep-alive; u32: silence in ms before the sender declares a peer dead */
    LINK_LAST  /* the last frame; answered with the same */
};

void link_due(struct aqi_links *links, uint64_t at_ns)
{
    if (at_ns < links->next_ns) links->next_ns = at_ns;
}

/* If the path carries smaller packets than the interface, and a firewall drops the ICMP messages
 * that report it, small packets pass and larger ones are retransmitted forever. Both sides set
 * this, so it applies in both directions. It cannot be changed later, but agents send little
 * data. */
void link_keep_short(int fd)
{
    int bytes = LINK_PACKET - 40; /* minus the headers of IPv4 and TCP */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof(bytes));
}

struct aqi_link *link_new(struct aqi_links *links, enum link_state state)
{
    struct aqi_link *link = calloc(1, sizeof(*link));
    if (link == NULL) return NULL;
    link->links = links;
    link->state = state;
    link->last = &link->first;
    link->source.fd = -1;
    link->stranger = state == LINK_STRANGER;
    links->strangers += link->stranger;
    aqi_list_init(&link->dirty);
    aqi_list_append(&links->all, &link->node);
    return link;
}

static void link_drop_queue(struct aqi_link *link)
{
    while (link->first != NULL) {
        struct link_item *item = link->first;
        link->first = item->next;
        free(item);
    }
    link->last = &link->first;
    link->sent = link->backlog = 0;
}

static void link_release(struct aqi_link *link)
{
    if (link->call != NULL) link_call_drop(link);
    aqi_source_close(&link->source);
    aqi_seal_close(&link->seal);
    link_drop_queue(link);
}

/* Reset the connection when the socket is closed: after a plain close, the other side would
 * conclude that this process has ended. */
static void link_reset(const struct aqi_link *link)
{
    const struct linger none = {.l_onoff = 1};
    (void)setsockopt(link->source.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

void link_doom(struct aqi_link *link, aq_status status, const char *fmt, ...)
{
    if (link->state == LINK_DOOMED) return;
    if (link->state == LINK_OPEN && status != AQ_OK && status != AQ_EPEER) link_reset(link);
    char *why;
    va_list args;
    va_start(args, fmt);
    link->why = vasprintf(&why, fmt, args) >= 0 ? why : NULL;
    va_end(args);
    link->state = LINK_DOOMED;
    link->status = status;
    link->links->doomed++;
    link->links->strangers -= link->stranger;
    link_release(link);
}

static void link_dirty(struct aqi_link *link)
{
    if (aqi_list_is_empty(&link->dirty)) aqi_list_append(&link->links->dirty, &link->dirty);
}

static size_t link_size(const struct iovec *iov, unsigned niov)
{
    size_t len = 0;
    for (unsigned i = 0; i < niov; i++)
        len += iov[i].iov_len;
    return len;
}

static void link_queue(struct aqi_link *link, uint8_t kind, const struct iovec *iov, unsigned niov)
{
    size_t len = link_size(iov, niov), whole = AQI_SEAL_HEAD + len + AQI_SEAL_TAG;
    if (len > AQI_LINK_FRAME_MAX) {
        link_doom(link, AQ_ESIZE, "cannot send a frame of %zu bytes: the maximum is %u", len,
                  AQI_LINK_FRAME_MAX);
        return;
    }
    struct link_item *item = calloc(1, sizeof(*item) + whole);
    if (item == NULL) {
        link_doom(link, AQ_ENOMEM, "no memory for a frame of %zu bytes, with %zu bytes queued", len,
                  link->backlog);
        return;
    }
    uint8_t *payload = item->bytes + AQI_SEAL_HEAD;
    uint8_t *tag = payload + aqi_iov_gather(iov, niov, payload);
    aqi_seal_frame(&link->seal, kind, payload, len, item->bytes, tag);
    item->next = NULL;
    item->len = whole;
    *link->last = item;
    link->last = &item->next;
    link->backlog += whole;
    link_dirty(link);
}

void aqi_link_send(struct aqi_link *link, const struct iovec *iov, unsigned niov)
{
    if (link->state == LINK_OPEN) link_queue(link, LINK_DATA, iov, niov);
}

static void link_beat(struct aqi_link *link)
{
    uint32_t ms = htole32((uint32_t)(link->links->config.silence_ns / LINK_NS_PER_MS));
    const struct iovec piece = {&ms, sizeof(ms)};
    link_queue(link, LINK_BEAT, &piece, 1);
}

static void link_send_last(struct aqi_link *link, uint64_t within_ns)
{
    link_queue(link, LINK_LAST, NULL, 0);
    if (link->state == LINK_DOOMED) return;
    link->state = LINK_CLOSING;
    link->deadline_ns = aqi_now_ns() + (within_ns != 0 ? within_ns : AQI_LINK_CLOSE_NS);
    link_due(link->links, link->deadline_ns);
}

void aqi_link_close(struct aqi_link *link, uint64_t within_ns)
{
    if (link->state == LINK_OPEN)
        link_send_last(link, within_ns);
    else if (link->state == LINK_CALLING)
        link_doom(link, AQ_OK, "closed before it was opened");
}

/* The other side has closed the connection. */
static void link_peer_closed(struct aqi_link *link)
{
    const char *why = aqi_seal_cut_reason(&link->seal);
    if (link->state == LINK_CALLING)
        link_call_refused(link, AQ_EPEER, true, why);
    else if (link->stranger && link->seal.held_len == 0)
        link_doom(link, AQ_OK, "%s", why); /* it was only probing, or has found a better path */
    else if (link->state == LINK_CLOSING && !link->last_received)
        link_doom(link, AQ_EPEER,
                  "the other side closed the connection before it had received all data");
    else
        link_doom(link, AQ_EPEER, "%s", why);
}

/* End a connection that the kernel reports as broken. */
static void link_failed(struct aqi_link *link, int error)
{
    bool reset = error == ECONNRESET || error == EPIPE;
    /* EPIPE: the other side had closed the connection before. */
    aq_status status = error == EPIPE ? AQ_EPEER : AQ_ESYS;
    const char *why = reset
                          ? "the connection was reset: the process there has ended or has received "
                            "nothing from this host for too long, or a firewall cut the connection"
                          : strerror(error);
    if (link->state == LINK_CALLING)
        link_call_refused(link, AQ_EPEER, true, reset ? aqi_seal_cut_reason(&link->seal) : why);
    else if (link->stranger && reset)
        link_peer_closed(link);
    else if (link->state == LINK_CLOSING && link->backlog != 0)
        link_doom(link, status, "%s, with %zu bytes unsent", why, link->backlog);
    else
        link_doom(link, status, "%s", why);
}

/* Remove sent data from the queue. */
static void link_sent(struct aqi_link *link, size_t len)
{
    link->backlog -= len;
    link->sent += len;
    while (link->first != NULL && link->sent >= link->first->len) {
        struct link_item *item = link->first;
        link->sent -= item->len;
        link->first = item->next;
        if (link->first == NULL) link->last = &link->first;
        free(item);
    }
}

static bool link_receive(struct aqi_link *link, int error);

/* Send as much as possible. Returns false if the socket accepts no more or has failed. */
static bool link_send_some(struct aqi_link *link, size_t *len)
{
    struct iovec iov[LINK_PIECES];
    struct msghdr message = {.msg_iov = iov};
    size_t skip = link->sent;
    for (struct link_item *i = link->first; i != NULL && message.msg_iovlen < LINK_PIECES;
         i = i->next) {
        iov[message.msg_iovlen++] = (struct iovec){i->bytes + skip, i->len - skip};
        skip = 0;
    }
    ssize_t sent = sendmsg(link->source.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        int error = errno;
        if (error == EAGAIN || error == EINTR) return false;
        /* Receive what the other side sent before it ended. */
        while (link_receive(link, error))
            ;
        link_failed(link, error);
        return false;
    }
    *len = (size_t)sent;
    link_sent(link, *len);
    return true;
}

static void link_flush(struct aqi_link *link)
{
    size_t turn = 0, len;
    while (link->first != NULL && turn < LINK_TURN && link_send_some(link, &len))
        turn += len;
    if (link->state == LINK_DOOMED) return;
    if (turn != 0) link->sent_ns = aqi_now_ns();
    aqi_source_watch(&link->source, link->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (link->state == LINK_CLOSING && link->last_received && link->first == NULL)
        link_doom(link, AQ_OK, "closed");
}

/* Send handshake bytes, which are few enough for the socket's buffer. */
static void link_send_handshake(struct aqi_link *link)
{
    struct aqi_seal *seal = &link->seal;
    if (seal->out_len == 0) return;
    (void)!send(link->source.fd, seal->out, seal->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    seal->out_len = 0;
}

static void link_opened(struct aqi_link *link)
{
    struct aqi_links *links = link->links;
    link_send_handshake(link);
    if (link->state == LINK_STRANGER) {
        link->stranger = false;
        links->strangers--;
        char at[AQI_LINK_NAME_BYTES];
        snprintf(at, sizeof(at), "%s", link->name);
        snprintf(link->name, sizeof(link->name), "host %u (%.80s)", link->seal.call.from, at);
    } else {
        link_call_drop(link);
    }
    link->state = LINK_OPEN;
    link->sent_ns = link->received_ns;
    link->beat_ns = links->config.silence_ns / LINK_BEATS;
    link_due(links, link->sent_ns + link->beat_ns);
    link_beat(link); /* announces how often we expect keep-alives */
    struct aqi_seal_call call = link->seal.call;
    call.to = link->seal.answered;
    links->config.hooks->opened(link, &call);
}

static void link_serve(struct aqi_link *link, const struct aqi_seal_frame *frame)
{
    uint32_t ms;
    if (frame->kind == LINK_DATA) {
        if (link->state == LINK_OPEN)
            link->links->config.hooks->frame(link, frame->bytes, frame->len);
    } else if (frame->kind == LINK_BEAT && frame->len == sizeof(ms)) {
        memcpy(&ms, frame->bytes, sizeof(ms));
        uint64_t silence =
            aqi_min(le32toh(ms) * (uint64_t)LINK_NS_PER_MS, link->links->config.silence_ns);
        link->beat_ns = aqi_max(silence / LINK_BEATS, LINK_BEAT_MIN_NS);
        link_due(link->links, link->sent_ns + link->beat_ns);
    } else if (frame->kind == LINK_LAST && frame->len == 0) {
        link->last_received = true;
        if (link->state == LINK_OPEN)
            link_send_last(link, 0);
        else if (link->first == NULL)
            link_doom(link, AQ_OK, "closed");
    } else {
        link_doom(link, AQ_EPROTO, "malformed frame of kind %u with %zu bytes", frame->kind,
                  frame->len);
    }
}

/* The other side violates the protocol. */
static void link_violated(struct aqi_link *link, aq_status status)
{
    link_send_handshake(link);
    if (link->state == LINK_CALLING)
        link_call_refused(link, status, false, link->seal.why);
    else
        link_doom(link, status, "%s", link->seal.why);
}

static void link_feed(struct aqi_link *link, const uint8_t *at, size_t left)
{
    struct aqi_seal_frame frame;
    aq_status status;
    while ((status = aqi_seal_take(&link->seal, &at, &left, &frame)) == AQ_OK) {
        link->received_ns = aqi_now_ns();
        if (frame.kind == AQI_SEAL_READY)
            link_opened(link);
        else
            link_serve(link, &frame);
        if (link->state == LINK_DOOMED) return;
    }
    if (status < 0)
        link_violated(link, status);
    else
        link_send_handshake(link);
}

/* Receive once. Returns false if nothing is left to receive. `error`: one that the kernel has
 * already reported, and does not repeat. */
static bool link_receive(struct aqi_link *link, int error)
{
    struct aqi_links *links = link->links;
    ssize_t len = recv(link->source.fd, links->room, sizeof(links->room), MSG_DONTWAIT);
    if (len > 0)
        link_feed(link, links->room, (size_t)len);
    else if (len == 0 && error == 0)
        link_peer_closed(link);
    else if (len == 0)
        link_failed(link, error);
    else if (errno != EAGAIN && errno != EINTR)
        link_failed(link, errno);
    return len > 0 && link->state != LINK_DOOMED;
}

static void link_ready(struct aqi_source *source)
{
    struct aqi_link *link = AQI_OF(source, struct aqi_link, source);
    uint32_t events = source->events;
    if ((events & EPOLLOUT) != 0 && link->first != NULL) link_flush(link);
    if (link->state != LINK_DOOMED && (events & ~(uint32_t)EPOLLOUT) != 0)
        (void)link_receive(link, 0);
}

void link_begin(struct aqi_link *link, int fd, enum aqi_seal_role role,
                const struct aqi_seal_call *call)
{
    uint8_t nonce[AQI_SEAL_NONCE];
    int on = 1;
    if (aqi_random(nonce, sizeof(nonce), "job") != AQ_OK) abort();
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    aqi_seal_open(&link->seal, &link->links->job, role, call, nonce);
    aqi_source_open(&link->source, fd, link_ready);
    int error = aqi_source_try_watch(&link->source, EPOLLIN);
    if (error == 0)
        link_send_handshake(link);
    else
        link_failed(link, error);
}

void aqi_links_ignore_silence(struct aqi_links *links, bool on)
{
    links->ignore_silence = on;
}

/* Whether the link has been silent for too long. Data that arrived while this process was busy
 * counts. */
static bool link_is_silent(struct aqi_link *link, uint64_t now)
{
    if (link->links->ignore_silence) link->received_ns = now;
    uint64_t heard = link->received_ns, silence = link->links->config.silence_ns;
    if (now < heard + silence) return false;
    while (link->received_ns == heard && link_receive(link, 0))
        ;
    return link->state != LINK_DOOMED && link->received_ns == heard;
}

static uint64_t link_tick_open(struct aqi_link *link, uint64_t now)
{
    if (link_is_silent(link, now)) {
        link_doom(link, AQ_ETIMEOUT,
                  "nothing was received for %.1f s (AQ_HOST_TIMEOUT): the host or the network to "
                  "it is down, the path does not carry packets of %d bytes (MTU), or the process "
                  "there is stopped",
                  (double)(now - link->received_ns) / 1e9, LINK_PACKET);
        return UINT64_MAX;
    }
    if (link->state != LINK_OPEN) return now; /* the state has changed: check again */
    /* Queued data serves as a keep-alive. */
    if (now >= link->sent_ns + link->beat_ns && link->first == NULL) link_beat(link);
    uint64_t beat = (link->first == NULL ? link->sent_ns : now) + link->beat_ns;
    return aqi_min(beat, link->received_ns + link->links->config.silence_ns);
}

static uint64_t link_tick(struct aqi_link *link, uint64_t now)
{
    switch (link->state) {
    case LINK_CALLING:
        return link_call_tick(link, now);
    case LINK_OPEN:
        return link_tick_open(link, now);
    case LINK_CLOSING:
    case LINK_STRANGER:
        if (now < link->deadline_ns) return link->deadline_ns;
        if (link->state == LINK_STRANGER)
            link_doom(link, AQ_ETIMEOUT, "it did not prove in time that it belongs to this job");
        else
            link_doom(link, AQ_ETIMEOUT,
                      "while closing, the other side did not receive all data (%zu bytes are still "
                      "queued)",
                      link->backlog);
        return UINT64_MAX;
    case LINK_DOOMED:
        break;
    }
    return UINT64_MAX;
}

/* A hook may close any link, but none is freed here. */
static void link_tick_all(struct aqi_links *links, uint64_t now)
{
    for (struct aqi_node *at = links->all.next; at != &links->all; at = at->next)
        link_due(links, link_tick(AQI_OF(at, struct aqi_link, node), now));
}

static void link_flush_dirty(struct aqi_links *links)
{
    while (!aqi_list_is_empty(&links->dirty)) {
        struct aqi_link *link = AQI_OF(links->dirty.next, struct aqi_link, dirty);
        aqi_list_remove(&link->dirty);
        if (link->state != LINK_DOOMED) link_flush(link);
    }
}

static void link_end(struct aqi_link *link)
{
    struct aqi_links *links = link->links;
    char *text;
    if (link->why == NULL || asprintf(&text, "%s: %s", link->name, link->why) < 0) text = NULL;
    const char *why = text != NULL ? text : "no memory to report why a link has ended";
    aqi_list_remove(&link->node);
    aqi_list_remove(&link->dirty);
    links->doomed--;
    if (!link->stranger)
        links->config.hooks->ended(link, link->status, why);
    else if (link->status != AQ_OK)
        link_listen_report(links, why);
    free(text);
    free(link->why);
    free(link);
}

/* Links doomed by a hook meanwhile may wait for the next tick. */
static void link_end_doomed(struct aqi_links *links)
{
    struct aqi_node *next;
    for (struct aqi_node *at = links->all.next; at != &links->all; at = next) {
        struct aqi_link *link = AQI_OF(at, struct aqi_link, node);
        next = at->next;
        if (link->state == LINK_DOOMED) link_end(link);
    }
}

uint64_t aqi_links_tick(struct aqi_links *links, uint64_t now)
{
    if (now >= links->next_ns) {
        links->next_ns = UINT64_MAX;
        link_tick_all(links, now);
        links->next_ns = aqi_max(links->next_ns, now + LINK_GRAIN_NS);
    }
    link_due(links, link_listen_tick(links, now));
    link_flush_dirty(links);
    if (links->doomed != 0) link_end_doomed(links);
    return !aqi_list_is_empty(&links->dirty) || links->doomed != 0 ? now : links->next_ns;
}

size_t aqi_links_count(const struct aqi_links *links)
{
    size_t count = 0;
    for (const struct aqi_node *at = links->all.next; at != &links->all; at = at->next)
        count += !AQI_OF(at, struct aqi_link, node)->stranger;
    return count;
}

aq_status aqi_links_open(const struct aqi_links_config *config, struct aqi_links **out)
{
    struct aqi_links *links = calloc(1, sizeof(*links));
    if (links == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory for links between hosts");
    aq_status status = aqi_seal_job_open(&links->job, config->key);
    if (status != AQ_OK) {
        free(links);
        return status;
    }
    links->config = *config;
    explicit_bzero(links->config.key, sizeof(links->config.key));
    if (links->config.prove_ns == 0) links->config.prove_ns = AQI_LINK_PROVE_NS;
    aqi_list_init(&links->all);
    aqi_list_init(&links->dirty);
    links->listener.fd = -1;
    links->next_ns = links->listen_ns = UINT64_MAX;
    *out = links;
    return AQ_OK;
}

void aqi_links_close(struct aqi_links *links)
{
    if (links == NULL) return;
    while (!aqi_list_is_empty(&links->all)) {
        struct aqi_link *link = AQI_OF(links->all.next, struct aqi_link, node);
        aqi_list_remove(&link->node);
        link_release(link);
        free(link->why);
        free(link);
    }
    aqi_source_close(&links->listener);
    aqi_seal_job_close(&links->job);
    free(links);
}

void *aqi_link_owner(const struct aqi_link *link)
{
    return link->owner;
}

void aqi_link_set_owner(struct aqi_link *link, void *owner)
{
    link->owner = owner;
}
