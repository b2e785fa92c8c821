/*
 * Links: authenticated streams of frames (seal.h) between the agents of a job, over TCP, in the
 * event loop (loop.h) of a process.
 *
 * One thread. Data is sent and received only in the loop: sending queues, and aqi_links_tick,
 * which must be called before each aqi_loop_once, sends the queue. Hooks are therefore called only
 * from aqi_links_tick and aqi_loop_once, and all failures of a link are reported by one hook.
 *
 * Both sides send a keep-alive at least every quarter of AQ_HOST_TIMEOUT. A side that is silent for
 * AQ_HOST_TIMEOUT is lost.
 */
#ifndef AQI_LINK_H
#define AQI_LINK_H

#include "base/base.h"
#include "job/seal.h"

#include <sys/uio.h>

struct aqi_links; /* all links of a process */
struct aqi_link;

#define AQI_LINK_FRAME_MAX   AQI_SEAL_FRAME_MAX
#define AQI_LINK_CANDIDATES  16u   /* maximum number of addresses that a caller tries */
#define AQI_LINK_OFFER_BYTES 1024u /* for the addresses of a host as text */
#define AQI_LINK_NAME_BYTES  128u
#define AQI_LINK_STRANGERS   64u         /* maximum connections that have not authenticated */
#define AQI_LINK_PROVE_NS    5000000000u /* time limit for authentication */
#define AQI_LINK_CLOSE_NS    2000000000u /* default for an orderly close */

struct aqi_link_hooks {
    /* The other side has authenticated; `call` says which host called which, and why. The owner is
     * that given to aqi_link_connect, NULL for incoming links. */
    void (*opened)(struct aqi_link *link, const struct aqi_seal_call *call);
    /* A frame has arrived; not after aqi_link_close. */
    void (*frame)(struct aqi_link *link, const uint8_t *bytes, size_t len);
    /*
     * The link has ended, and is freed when this returns. AQ_OK: either side has closed it, and
     * everything sent before by that side has arrived. Otherwise `why` says which host was lost or
     * not reached, why, and what to do. AQ_EPEER, for a link that was open: the process there has
     * ended. AQ_EREFUSED, for one that was not: nothing listens at any of its addresses. Other
     * codes say nothing about whether the process runs. Called exactly once for each link, even if
     * it was never opened.
     */
    void (*ended)(struct aqi_link *link, aq_status status, const char *why);
    /* A caller that did not prove that it belongs to the job was rejected, or has to wait for
     * descriptors. Called at most once a second; `more` is the number of other cases since the
     * last call. */
    void (*stranger)(void *arg, const char *why, unsigned more);
};

struct aqi_links_config {
    uint8_t key[AQI_SEAL_KEY_BYTES];
    uint32_t host;                      /* of this process */
    uint64_t silence_ns;                /* AQ_HOST_TIMEOUT */
    uint64_t prove_ns;                  /* 0: AQI_LINK_PROVE_NS */
    const struct aqi_link_hooks *hooks; /* all slots are filled */
    void *arg;
};

/* @return AQ_ENOTSUP  libcrypto is missing: aq_error_message() says what to install. */
aq_status aqi_links_open(const struct aqi_links_config *config, struct aqi_links **links);
/* Close immediately without calling hooks; not from inside one. */
void aqi_links_close(struct aqi_links *links);
/* Send queued data and handle expired timers. Returns the time of the next call at the latest: the
 * deadline for aqi_loop_once. */
uint64_t aqi_links_tick(struct aqi_links *links, uint64_t now);
/* While the job is stopped (Ctrl-Z), silent hosts are not declared dead. */
void aqi_links_ignore_silence(struct aqi_links *links, bool on);
/* Number of links that have not ended. */
size_t aqi_links_count(const struct aqi_links *links);

/*
 * Listen on all addresses of this host, over IPv6 and IPv4, at a port of `ports` ("40000-40099",
 * AQ_CONTROL_PORTS), or at any free one if that is "".
 *
 * @return AQ_ESETTING  `ports` is not such a range.
 * @return AQ_ELIMIT    All ports of the range are in use.
 */
aq_status aqi_links_listen(struct aqi_links *links, const char *ports);

/*
 * The addresses at which other hosts may reach our listener, in order of preference, as text:
 * "10.0.0.7:40000,[fd00::7]:40000". Loopback is among them only if there is nothing else.
 */
aq_status aqi_links_offer(struct aqi_links *links, char *text, size_t len);

/*
 * Call host `call->to` at one of these addresses. They are tried in order, at short intervals,
 * until one of them proves to be that host. The result is reported within `timeout_ns` by the hook
 * `opened`, or by `ended` with each address and its error.
 *
 * @return AQ_EINVAL  `addresses` is malformed.
 */
aq_status aqi_link_connect(struct aqi_links *links, const char *addresses,
                           const struct aqi_seal_call *call, uint64_t timeout_ns, void *owner,
                           struct aqi_link **link);

/* Queue a copy of a frame of at most AQI_LINK_FRAME_MAX bytes. A link that has not been opened, or
 * is closed or doomed, drops it; its end is or will be reported. */
void aqi_link_send(struct aqi_link *link, const struct iovec *iov, unsigned niov);

/* Close once all queued data has arrived, within at most `within_ns` (0: AQI_LINK_CLOSE_NS); no
 * more frames are received. The hook `ended` follows. */
void aqi_link_close(struct aqi_link *link, uint64_t within_ns);

/* The caller's pointer for a link. */
void *aqi_link_owner(const struct aqi_link *link);
void aqi_link_set_owner(struct aqi_link *link, void *owner);

#endif
