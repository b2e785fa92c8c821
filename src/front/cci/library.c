/* cci: opening and closing, progress, and statuses. */
#include "front/cci/impl.h"

#include "base/log.h"

#include <poll.h>
#include <sched.h>

static int library_turn(void);

struct aqc aqc = {.thread = {.lock = &aqc.lock, .turn = library_turn}};

enum {
    LIBRARY_ROUNDS = 64,  /* rounds of progress between checks for connection events */
    LIBRARY_SPINS = 4096, /* rounds of a blocking call before it sleeps */
    LIBRARY_SLEEP_MS = 1, /* of a blocking call */
    LIBRARY_LOOK_MS = 5   /* interval of checks for timeouts */
};

/* --- statuses -------------------------------------------------------------------------------- */

const char *cci_strerror(cci_endpoint_t *endpoint, enum cci_status status)
{
#define NAME(status) [status] = #status
    static const char *const names[] = {NAME(CCI_SUCCESS),          NAME(CCI_ERROR),
                                        NAME(CCI_ERR_DISCONNECTED), NAME(CCI_ERR_RNR),
                                        NAME(CCI_ERR_DEVICE_DEAD),  NAME(CCI_ERR_RMA_HANDLE),
                                        NAME(CCI_ERR_RMA_OP),       NAME(CCI_ERR_NOT_IMPLEMENTED),
                                        NAME(CCI_ERR_NOT_FOUND),    NAME(CCI_EAGAIN),
                                        NAME(CCI_ENOMEM),           NAME(CCI_EBUSY),
                                        NAME(CCI_ENODEV),           NAME(CCI_EINVAL),
                                        NAME(CCI_ERANGE),           NAME(CCI_ENOMSG),
                                        NAME(CCI_EMSGSIZE),         NAME(CCI_EADDRNOTAVAIL),
                                        NAME(CCI_ENETDOWN),         NAME(CCI_ENOBUFS),
                                        NAME(CCI_ETIMEDOUT),        NAME(CCI_ECONNREFUSED)};
#undef NAME
    (void)endpoint;
    unsigned row = (unsigned)status;
    return row < AQI_COUNT_OF(names) && names[row] != NULL ? names[row] : "unknown error";
}

cci_status_t aqc_status(aq_status st)
{
    static const cci_status_t statuses[] = {
        [-AQ_ENOMEM] = CCI_ENOMEM,          [-AQ_ELIMIT] = CCI_ENOMEM,
        [-AQ_EPEER] = CCI_ERR_DISCONNECTED, [-AQ_EREFUSED] = CCI_ECONNREFUSED,
        [-AQ_EACCESS] = CCI_ECONNREFUSED,   [-AQ_EMISMATCH] = CCI_ECONNREFUSED,
        [-AQ_ETIMEOUT] = CCI_ETIMEDOUT,     [-AQ_ERANGE] = CCI_ERR_RMA_HANDLE,
        [-AQ_EINVAL] = CCI_EINVAL,          [-AQ_ENOTSUP] = CCI_ENODEV};
    if (st >= AQ_OK) return st == AQ_OK ? CCI_SUCCESS : CCI_ENOBUFS;
    size_t row = (size_t)-st;
    return row < AQI_COUNT_OF(statuses) && statuses[row] != 0 ? statuses[row] : CCI_ERROR;
}

/* --- opening and closing --------------------------------------------------------------------- */

/* The child has neither the library's sockets nor its thread. */
static void library_in_child(void)
{
    if (aqc.users == 0) return;
    aqc.forked = true;
    aqc_unlock(); /* if another thread of the parent held it */
}

static void library_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, library_in_child);
}

static int library_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, library_watch_forks);
    aqi_list_init(&aqc.eps);
    aqi_list_init(&aqc.active);
    aq_status st = lib_alone_open("cci", NULL, &aqc.world);
    if (st == AQ_OK) st = aq_wait_fd(&aqc.thread.fd);
    if (st == AQ_OK) st = aqc_wire_open();
    if (st == AQ_OK) st = aqc_devices_open();
    if (st != AQ_OK) {
        aqc_devices_close();
        lib_alone_close();
    }
    return (int)aqc_status(st);
}

static int library_use(uint32_t flags)
{
    if (aqc.users != 0) return flags == aqc.flags ? CCI_SUCCESS : CCI_ERR_NOT_IMPLEMENTED;
    aqc.flags = flags;
    if (flags > 1) return CCI_EINVAL;
    return aqc_devices_possible() ? library_open() : CCI_ERR_NOT_FOUND;
}

int cci_init(uint32_t abi_ver, uint32_t flags, uint32_t *caps)
{
    if (abi_ver != CCI_ABI_VERSION || caps == NULL) return CCI_EINVAL;
    if (aqc.forked) {
        aqi_log(AQI_LOG_ERROR, "cci",
                "cci_init: this process is a child of one that had initialized the library, which "
                "it cannot use: fork before cci_init, or execute another program");
        return CCI_ERROR;
    }
    aqc_enter();
    while (aqc.closing)
        aqc_pause(0);
    int status = library_use(flags);
    if (status == CCI_SUCCESS) {
        aqc.users++;
        *caps = 0;
    }
    aqc_unlock();
    return status;
}

int cci_finalize(void)
{
    if (aqc.forked) return CCI_SUCCESS; /* all is the parent's */
    aqc_enter();
    int status = aqc.users != 0 ? CCI_SUCCESS : CCI_ERROR;
    if (aqc.users != 0 && --aqc.users == 0) {
        aqc.closing = true;
        while (!aqi_list_is_empty(&aqc.eps))
            aqc_ep_close(AQI_OF(aqc.eps.next, struct aqc_ep, link));
        lib_alone_thread_stop(&aqc.thread);
        aqc_devices_close();
        lib_alone_close();
        aqi_stash_drop(&aqc.stash);
        aqc.closing = false;
    }
    aqc_unlock();
    return status;
}

/* --- progress -------------------------------------------------------------------------------- */

void aqc_progress(void)
{
    (void)aq_poll();
    aqc_progress_rest();
}

void aqc_progress_rest(void)
{
    uint32_t sent = aqc.sent;
    aqc.rounds++;
    if (aqc.calling != 0 || aqc.rounds % LIBRARY_ROUNDS == 0) aqc_conn_events();
    for (struct aqi_node *at = aqc.active.next, *next; at != &aqc.active; at = next) {
        next = at->next;
        aqc_conn_push(AQI_OF(at, struct aqc_conn, active));
    }
    /* Flush: peers wait for these messages, and the program may compute next. */
    if (AQI_UNLIKELY(aqc.sent != sent)) (void)aq_poll();
}

int aqc_may_sleep(void)
{
    int ms = -1;
    aqc_conn_events();
    for (struct aqi_node *at = aqc.active.next; at != &aqc.active; at = at->next) {
        const struct aqc_conn *conn = AQI_OF(at, const struct aqc_conn, active);
        if (conn->again || conn->fresh || conn->got != conn->reported || conn->tight_since != 0)
            return 0;
        if (conn->due != UINT64_MAX) ms = LIBRARY_LOOK_MS;
    }
    return aq_wait_prepare() == AQ_OK ? ms : 0;
}

void aqc_pause(unsigned rounds)
{
    struct pollfd fd = {.fd = aqc.thread.fd, .events = POLLIN};
    bool sleep = rounds >= LIBRARY_SPINS && aqc_may_sleep() != 0;
    aqc_unlock();
    if (sleep)
        (void)poll(&fd, 1, LIBRARY_SLEEP_MS);
    else if (rounds % LIBRARY_ROUNDS == 0)
        sched_yield();
    else
        aqi_big_yield(&aqc.lock);
    aqc_enter();
}

/* A round of the thread. */
static int library_turn(void)
{
    aqc_progress();
    int ms = aqc_may_sleep();
    aqc.thread.polite = false;
    for (struct aqi_node *at = aqc.eps.next; at != &aqc.eps; at = at->next) {
        struct aqc_ep *ep = AQI_OF(at, struct aqc_ep, link);
        aqc.thread.polite = aqc.thread.polite || ep->handle.fd >= 0;
        aqc_ep_signal(ep);
    }
    return ms;
}
