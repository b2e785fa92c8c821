/*
 * Links: authenticated streams of frames (seal.h) between the agents of a job, over TCP, in the
 * event loop (loop.h) of a process.
 *
 * One thread. Nothing is sent or received but in the loop: sending queues, and aqi_links_tick,
 * which is to be called before each aqi_loop_once, sends what was queued. So no hook is called from
 * within a call of the program, other than aqi_links_tick and aqi_loop_once, and all that can go
 * wrong with a link is told by one hook.
 *
 * Both sides say at least every quarter of AQ_HOST_TIMEOUT that they live. Whoever is silent for
 * that long is lost.
 */
#ifndef AQI_LINK_H
#define AQI_LINK_H

#include "base/base.h"
#include "job/seal.h"

#include <sys/uio.h>

struct aqi_links; /* all of a process */
struct aqi_link;

#define AQI_LINK_FRAME_MAX   AQI_SEAL_FRAME_MAX
#define AQI_LINK_CANDIDATES  16u   /* most addresses that a caller tries */
#define AQI_LINK_OFFER_BYTES 1024u /* of the addresses of a host as text */
#define AQI_LINK_NAME_BYTES  128u
#define AQI_LINK_STRANGERS   64u         /* connections that have not proved themselves */
#define AQI_LINK_PROVE_NS    5000000000u /* in which they have to */
#define AQI_LINK_CLOSE_NS    2000000000u /* for an orderly close, unless told otherwise */

struct aqi_link_hooks {
    /* The other side has proved itself: who called whom, and what for. The owner of a link that we
     * called is what aqi_link_connect got, of others NULL. */
    void (*opened)(struct aqi_link *link, const struct aqi_seal_call *call);
    /* A frame has come; not after aqi_link_close. */
    void (*frame)(struct aqi_link *link, const uint8_t *bytes, size_t len);
    /* What waits to be sent has fallen below half the mark after it had reached that. */
    void (*room)(struct aqi_link *link);
    /*
     * The link is over, and freed when this returns. AQ_OK: either side has closed it, and whatever
     * that side had sent before has arrived. Else `why` says who was lost or not reached, why, and
     * what to do. AQ_EPEER, of one that was open: the process there has ended. AQ_EREFUSED, of one
     * that was not: nothing listens at any of its addresses. All else says nothing of it. Called
     * once for each link, also one that was never opened.
     */
    void (*ended)(struct aqi_link *link, aq_status status, const char *why);
    /* Somebody who could not prove to be of the job was turned away, or is kept waiting for want of
     * descriptors; at most once a second, with the number of those since the last time. */
    void (*stranger)(void *arg, const char *why, unsigned more);
};

struct aqi_links_config {
    uint8_t key[AQI_SEAL_KEY_BYTES];
    uint32_t host;                      /* our number */
    uint64_t silence_ns;                /* AQ_HOST_TIMEOUT */
    uint64_t prove_ns;                  /* 0: AQI_LINK_PROVE_NS */
    size_t mark;                        /* for the hook `room`; 0: never */
    const struct aqi_link_hooks *hooks; /* all slots are filled */
    void *arg;
};

/* @return AQ_ENOTSUP  There is no libcrypto: aq_error_message() says what to install. */
aq_status aqi_links_open(const struct aqi_links_config *config, struct aqi_links **links);
/* At once and without a hook; not from inside one. */
void aqi_links_close(struct aqi_links *links);
/* Send what was queued, and see to what is overdue. Returns when it wants to be called again, at
 * the latest: the deadline for aqi_loop_once. */
uint64_t aqi_links_tick(struct aqi_links *links, uint64_t now);
/* While the job is stopped (Ctrl-Z) nobody is given up for being silent. */
void aqi_links_patient(struct aqi_links *links, bool patient);
/* How many there are that have not ended. */
size_t aqi_links_count(const struct aqi_links *links);

/*
 * Listen on all addresses of this host, over IPv6 and IPv4, at a port of `ports` ("40000-40099",
 * AQ_CONTROL_PORTS), or at any free one if that is "".
 *
 * @return AQ_ESETTING  `ports` is not such a range.
 * @return AQ_ELIMIT    All ports of the range are taken.
 */
aq_status aqi_links_listen(struct aqi_links *links, const char *ports, uint16_t *port);

/*
 * The addresses at which other hosts may reach our listener, the best first, as text:
 * "10.0.0.7:40000,[fd00::7]:40000". Loopback is among them only if there is nothing else.
 */
aq_status aqi_links_offer(struct aqi_links *links, char *text, size_t len);

/*
 * Call host `call->to` at one of these addresses. They are tried at short intervals, the first
 * first, until one of them proves to be that host. How it goes is told by the hooks `opened` or
 * `ended`, which names each address and what is wrong with it, within `timeout_ns`.
 *
 * @return AQ_EINVAL  `addresses` are not such texts.
 */
aq_status aqi_link_connect(struct aqi_links *links, const char *addresses,
                           const struct aqi_seal_call *call, uint64_t timeout_ns, void *owner,
                           struct aqi_link **link);

/* Queue a frame of at most AQI_LINK_FRAME_MAX bytes, of which a copy is made. A link that has not
 * been opened, or is closed or doomed, drops it: its end is or will be told. */
void aqi_link_send(struct aqi_link *link, const struct iovec *iov, unsigned niov);
/* Bytes that wait in our memory to be sent. */
size_t aqi_link_backlog(const struct aqi_link *link);

/* Close when all that is queued has arrived, in `within_ns` at most (0: AQI_LINK_CLOSE_NS); no more
 * frames are received. The hook `ended` follows. */
void aqi_link_close(struct aqi_link *link, uint64_t within_ns);

/* What the program keeps for a link. */
void *aqi_link_owner(const struct aqi_link *link);
void aqi_link_set_owner(struct aqi_link *link, void *owner);
/* The `arg` of the links it belongs to. */
void *aqi_link_arg(const struct aqi_link *link);
/* "host 3 (10.0.0.7:40000)" */
const char *aqi_link_name(const struct aqi_link *link);

#endif
