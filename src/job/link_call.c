/* Connecting to a host: connections to its addresses are attempted in parallel, each started
 * shortly after the previous one, and the handshake is made on one connection at a time. */
#include "job/link_impl.h"

#include "base/clock.h"
#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LINK_CALL_LEAD_NS      250000000u  /* before the next address is tried as well */
#define LINK_CALL_PAUSE_NS     50000000u   /* before a busy address is retried; doubles ... */
#define LINK_CALL_PAUSE_MAX_NS 1000000000u /* ... up to this */
#define LINK_CALL_WHY          224u

enum link_try_state { TRY_WAITS, TRY_CONNECTS, TRY_CONNECTED, TRY_PROVES, TRY_FAILED };

struct link_try {
    struct aqi_source source; /* while it connects */
    struct aqi_link *link;
    union aqi_sockaddr at;
    enum link_try_state state;
    uint64_t due_ns;   /* TRY_WAITS: when to begin; TRY_PROVES: when to time out */
    uint64_t pause_ns; /* 0: it has not been busy */
    aq_status status;
    char why[LINK_CALL_WHY];
};

struct link_call {
    struct aqi_seal_call target;
    uint64_t began_ns;
    unsigned count;
    struct link_try tries[];
};

static void link_call_advance(struct aqi_link *link, uint64_t now);

static void link_call_fail(struct link_try *try, aq_status status, const char *why)
{
    aqi_source_close(&try->source);
    try->state = TRY_FAILED;
    try->status = status;
    snprintf(try->why, sizeof(try->why), "%s", why);
    /* The next address need not wait any longer. */
    const struct link_call *call = try->link->call;
    for (struct link_try *next = try + 1; next < call->tries + call->count; next++)
        if (next->state == TRY_WAITS && next->pause_ns == 0) {
            next->due_ns = 0;
            break;
        }
}

/* The errors of failed connections. */
static void link_call_fail_errno(struct link_try *try, int error)
{
    static const struct {
        int error;
        aq_status status;
        const char *why;
    } rows[] = {
        {ECONNREFUSED, AQ_EREFUSED,
         "refused: nothing is listening there any longer, or a firewall rejects it "
         "(AQ_CONTROL_PORTS)"},
        {EHOSTUNREACH, AQ_EPEER,
         "no route: the host is down or on another network, or a firewall rejects it "
         "(AQ_CONTROL_PORTS)"},
        {ENETUNREACH, AQ_EPEER, "no route to that network"},
        {EACCES, AQ_EACCESS, "this host's firewall or policy forbids it"},
        {EPERM, AQ_EACCESS, "this host's firewall or policy forbids it"},
        {EMFILE, AQ_ELIMIT, "no file descriptor available: raise ulimit -n"},
        {ENFILE, AQ_ELIMIT, "no file descriptor available on this host"},
    };
    for (unsigned i = 0; i < AQI_COUNT_OF(rows); i++)
        if (rows[i].error == error) {
            link_call_fail(try, rows[i].status, rows[i].why);
            return;
        }
    link_call_fail(try, AQ_EPEER, strerror(error));
}

/* A connection to a free port of this host may connect to itself (TCP simultaneous open). */
static bool link_call_is_itself(int fd)
{
    union aqi_sockaddr own, peer;
    socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
    return getsockname(fd, &own.any, &own_len) == 0 && getpeername(fd, &peer.any, &peer_len) == 0 &&
           own_len == peer_len && memcmp(&own, &peer, own_len) == 0;
}

static void link_call_connected(struct link_try *try)
{
    if (link_call_is_itself(try->source.fd)) {
        link_call_fail_errno(try, ECONNREFUSED);
        return;
    }
    aqi_source_watch(&try->source, 0);
    try->state = TRY_CONNECTED;
}

static void link_call_ready(struct aqi_source *source)
{
    struct link_try *try = AQI_OF(source, struct link_try, source);
    struct aqi_link *link = try->link;
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
    if (error != 0)
        link_call_fail_errno(try, error);
    else
        link_call_connected(try);
    link_call_advance(link, aqi_now_ns());
}

static void link_call_try(struct link_try *try)
{
    int fd = socket(try->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        link_call_fail_errno(try, errno);
        return;
    }
    aqi_source_open(&try->source, fd, link_call_ready);
    link_keep_short(fd);
    try->state = TRY_CONNECTS;
    if (connect(fd, &try->at.any, aqi_sockaddr_len(&try->at)) == 0) {
        link_call_connected(try);
        return;
    }
    int error = errno == EINPROGRESS ? aqi_source_try_watch(&try->source, EPOLLOUT) : errno;
    if (error != 0) link_call_fail_errno(try, error);
}

static struct link_try *link_call_first(struct link_call *call, enum link_try_state state)
{
    for (unsigned i = 0; i < call->count; i++)
        if (call->tries[i].state == state) return &call->tries[i];
    return NULL;
}

static void link_call_prove(struct aqi_link *link, struct link_try *try, uint64_t now)
{
    int fd = try->source.fd;
    char text[AQI_SOCKADDR_TEXT];
    try->source.fd = -1;
    try->state = TRY_PROVES;
    try->due_ns = now + link->links->config.prove_ns;
    link_due(link->links, try->due_ns);
    snprintf(link->name, sizeof(link->name), "host %u (%s)", link->call->target.to,
             aqi_sockaddr_text(&try->at, text));
    link_begin(link, fd, AQI_SEAL_CALLER, &link->call->target);
}

/* Report the error of each address: "10.0.0.7:4000: refused: …; [fd00::7]:4000: no answer …". */
static void link_call_doom(struct aqi_link *link)
{
    struct link_call *call = link->call;
    char text[AQI_LINK_CANDIDATES * (LINK_CALL_WHY + AQI_SOCKADDR_TEXT)], at[AQI_SOCKADDR_TEXT];
    aq_status status = AQ_OK;
    text[0] = '\0';
    for (unsigned i = 0; i < call->count; i++) {
        const struct link_try *try = &call->tries[i];
        aqi_append(text, sizeof(text), "%s%s: %s", i != 0 ? "; " : "",
                   aqi_sockaddr_text(&try->at, at), try->why);
        /* The error of an address that answered is the most informative; a refusal, perhaps by
         * another host, is the least. */
        if (status == AQ_OK || status == AQ_EREFUSED || try->status == AQ_EPROTO ||
            try->status == AQ_EACCESS)
            status = try->status;
    }
    snprintf(link->name, sizeof(link->name), "host %u", call->target.to);
    link_doom(link, status, "cannot be reached at %s", text);
}

/* The time limit has expired: fail all addresses that have not failed yet. */
static void link_call_expire(struct aqi_link *link, uint64_t now)
{
    struct link_call *call = link->call;
    char why[LINK_CALL_WHY];
    snprintf(why, sizeof(why),
             "no answer within %.1f s: the host is down, or a firewall drops packets to it "
             "(AQ_CONTROL_PORTS sets the ports to allow)",
             (double)(now - call->began_ns) / 1e9);
    for (unsigned i = 0; i < call->count; i++) {
        struct link_try *try = &call->tries[i];
        if (try->state == TRY_PROVES)
            link_call_fail(try, AQ_ETIMEOUT,
                           "it answered, but did not prove in time that it belongs to this job");
        else if (try->pause_ns != 0)
            try->state = TRY_FAILED; /* `why` has its last error */
        else if (try->state != TRY_FAILED)
            link_call_fail(try, AQ_ETIMEOUT, why);
    }
    link_call_doom(link);
}

/* Start tries that are due, with one handshake at a time; end when no address is left. */
static void link_call_advance(struct aqi_link *link, uint64_t now)
{
    struct link_call *call = link->call;
    bool proves = link_call_first(call, TRY_PROVES) != NULL;
    for (unsigned i = 0; i < call->count && !proves; i++) {
        struct link_try *try = &call->tries[i];
        if (try->state == TRY_WAITS && try->due_ns <= now) link_call_try(try);
        if (try->state == TRY_WAITS) link_due(link->links, try->due_ns);
        if (try->state != TRY_CONNECTED) continue;
        link_call_prove(link, try, now);
        return;
    }
    for (unsigned i = 0; i < call->count; i++)
        if (call->tries[i].state != TRY_FAILED) return;
    link_call_doom(link);
}

void link_call_refused(struct aqi_link *link, aq_status status, bool again, const char *why)
{
    uint64_t now = aqi_now_ns();
    struct link_try *try = link_call_first(link->call, TRY_PROVES);
    link_call_fail(try, status, why);
    aqi_source_close(&link->source);
    aqi_seal_close(&link->seal);
    if (again) {
        try->pause_ns =
            aqi_max(LINK_CALL_PAUSE_NS, aqi_min(2 * try->pause_ns, LINK_CALL_PAUSE_MAX_NS));
        try->due_ns = now + try->pause_ns;
        try->state = TRY_WAITS;
    }
    link_call_advance(link, now);
}

uint64_t link_call_tick(struct aqi_link *link, uint64_t now)
{
    if (now >= link->deadline_ns) {
        link_call_expire(link, now);
        return UINT64_MAX;
    }
    struct link_try *try = link_call_first(link->call, TRY_PROVES);
    if (try != NULL && now < try->due_ns) return aqi_min(try->due_ns, link->deadline_ns);
    if (try != NULL)
        link_call_refused(link, AQ_ETIMEOUT, false,
                          "it answered, but did not prove in time that it belongs to this job");
    else
        link_call_advance(link, now);
    return link->deadline_ns;
}

void link_call_drop(struct aqi_link *link)
{
    for (unsigned i = 0; i < link->call->count; i++)
        aqi_source_close(&link->call->tries[i].source);
    free(link->call);
    link->call = NULL;
}

/* Parse the first addresses of a list; returns their number, 0 if malformed. */
static unsigned link_call_read(const char *list, union aqi_sockaddr at[AQI_LINK_CANDIDATES])
{
    unsigned count = 0;
    do {
        char text[AQI_SOCKADDR_TEXT];
        size_t len = strcspn(list, ",");
        if (len >= sizeof(text)) return 0;
        memcpy(text, list, len);
        text[len] = '\0';
        if (!aqi_sockaddr_read(text, &at[count])) return 0;
        count++;
        list += len;
    } while (*list++ != '\0' && count < AQI_LINK_CANDIDATES);
    return count;
}

aq_status aqi_link_connect(struct aqi_links *links, const char *addresses,
                           const struct aqi_seal_call *target, uint64_t timeout_ns, void *owner,
                           struct aqi_link **out)
{
    union aqi_sockaddr at[AQI_LINK_CANDIDATES];
    unsigned count = link_call_read(addresses, at);
    if (count == 0)
        return aqi_fail(AQ_EINVAL, "job",
                        "\"%s\" is not a list of addresses of a host: give a list such as "
                        "\"10.0.0.7:4000,[fd00::7]:4000\"",
                        addresses);
    struct link_call *call = calloc(1, sizeof(*call) + count * sizeof(call->tries[0]));
    struct aqi_link *link = call != NULL ? link_new(links, LINK_CALLING) : NULL;
    if (link == NULL) {
        free(call);
        return aqi_fail(AQ_ENOMEM, "job", "no memory to connect to a host");
    }
    call->target = *target;
    call->count = count;
    call->began_ns = aqi_now_ns();
    link->call = call;
    link->owner = owner;
    link->deadline_ns = call->began_ns + timeout_ns;
    link_due(links, link->deadline_ns);
    for (unsigned i = 0; i < count; i++)
        call->tries[i] = (struct link_try){.source.fd = -1,
                                           .link = link,
                                           .at = at[i],
                                           .due_ns = call->began_ns + i * LINK_CALL_LEAD_NS};
    link_call_advance(link, call->began_ns);
    *out = link;
    return AQ_OK;
}
