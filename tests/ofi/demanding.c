/*
 * A libfabric that is as demanding as the providers for adapters, unlike those that every machine
 * has. It is loaded in place of the real libfabric, which it uses, and aborts the process if its
 * demands are not met.
 *
 *   - Local memory is registered, and its descriptor passed (FI_MR_LOCAL). Its pages are declared
 *     pinned (FI_MR_ALLOCATED), though they are not.
 *   - Registrations are bound to the endpoint and enabled (FI_MR_ENDPOINT) before they have a key,
 *     which is chosen here (FI_MR_PROV_KEY).
 *   - Contexts belong to the provider while in use (FI_CONTEXT2).
 *   - Writes request delivery completion. Messages overtake some of them.
 *   - A buffer for many messages contains no message that is still needed when it is posted again.
 *   - Calls often find no room (-FI_EAGAIN), and completions are late and reordered.
 *   - Messages complete long before they leave; injected ones have to be small.
 *   - With DEMANDING_CUTS=N a connection breaks at N of 1000 messages: that message is lost, and so
 *     are those to the same peer that had not left. This is reported as an error of the last one,
 *     or not at all.
 *
 * With DEMANDING_BREAKS=WHAT one thing is wrong (see trial.c); "pins": memory of the program
 * outside of segments is often not registered; "full": nor is any large memory; "stale": in
 * addition, the keys of other memory that peers may access are often wrong.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum { DEMANDING_MODES = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY | FI_MR_ALLOCATED };
#define DEMANDING_MARK UINT64_C(0x1d5a7e0ff1cab1e5)

/* A registration as returned to the caller; `real` once it is enabled. */
struct demanding_mr {
    struct fid_mr mr;
    uint64_t mark;
    struct fid_domain *domain;
    struct fid_mr *real;
    const unsigned char *addr;
    size_t len;
    uint64_t access;
    int bound;
};

/* A message that is complete for its sender. */
struct demanding_sent {
    struct fi_context2 real;
    struct demanding_sent *next;
    struct fid_ep *ep;
    fi_addr_t to;
    void *user; /* its context, until its completion is reported */
    size_t len;
    unsigned long due;      /* in reads of the completion queue */
    int left, lost, failed; /* lost: with a connection; failed: lost, and reported */
    unsigned char bytes[];
};

/* A write that is posted after later messages. */
struct demanding_write {
    struct demanding_write *next;
    struct fid_ep *ep;
    struct fi_msg_rma msg;
    struct iovec part;
    struct fi_rma_iov there;
    uint64_t flags;
    unsigned long due;
    char bytes[]; /* if it was injected */
};

/* An endpoint with its completion queue, which only one thread uses at a time. */
enum { DEMANDING_LATE = 16, DEMANDING_LATER = 64, DEMANDING_LANES = 16 };
static struct demanding_lane {
    struct fid_ep *ep;
    struct fid_cq *cq;
    unsigned long reads;
    int is_empty; /* the queue, when it was last read */
    struct demanding_sent *first, **last;
    struct demanding_write *writes;
} demanding_lanes[DEMANDING_LANES];
static size_t demanding_inject_size;

/* The original operations; the same for all objects, as there is one provider. */
static struct fi_ops demanding_endpoint_was, demanding_endpoint_now;
static struct fi_ops demanding_queue_was, demanding_queue_now;
static struct fi_ops_fabric demanding_fabric_was, demanding_fabric_now;
static struct fi_ops_domain demanding_domain_was, demanding_domain_now;
static struct fi_ops_mr demanding_mr_was, demanding_mr_now;
static struct fi_ops_cq demanding_cq_was, demanding_cq_now;
static struct fi_ops_msg demanding_msg_was, demanding_msg_now;
static struct fi_ops_rma demanding_rma_was, demanding_rma_now;

static void *demanding_symbol(const char *name)
{
    static void *real;
    if (real == NULL) real = dlopen(DEMANDING_REAL, RTLD_NOW | RTLD_LOCAL);
    void *symbol = real != NULL ? dlsym(real, name) : NULL;
    if (symbol != NULL) return symbol;
    fprintf(stderr, "demanding: %s: %s\n", DEMANDING_REAL, dlerror());
    abort();
}

#define DEMANDING_REAL_CALL(name) ((__typeof__(&(name)))demanding_symbol(#name))

static void demanding_check(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "demanding: not true: %s\n", what);
    abort();
}

/* Returns true in `n` of `of` cases, at random from a fixed seed. */
static int demanding_draws(unsigned n, unsigned of)
{
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 20) % of < n;
}

static int demanding_happens(unsigned n)
{
    return demanding_draws(n, 8);
}

static unsigned demanding_cuts(void)
{
    static int cuts = -1;
    const char *value = cuts < 0 ? getenv("DEMANDING_CUTS") : NULL;
    if (cuts < 0) cuts = value != NULL ? atoi(value) : 0;
    return (unsigned)cuts;
}

static int demanding_breaks(const char *what)
{
    const char *value = getenv("DEMANDING_BREAKS");
    return value != NULL && strcmp(value, what) == 0;
}

/* The lane of an endpoint or a queue; a free one if both are NULL. */
static struct demanding_lane *demanding_lane(const struct fid_ep *ep, const struct fid_cq *cq)
{
    for (int i = 0; i < DEMANDING_LANES; i++)
        if (ep != NULL || cq == NULL ? demanding_lanes[i].ep == ep : demanding_lanes[i].cq == cq)
            return &demanding_lanes[i];
    fprintf(stderr, "demanding: more than %d endpoints\n", DEMANDING_LANES);
    abort();
}

/* --- operations ------------------------------------------------------------------------------ */

static void demanding_local(const void *addr, size_t len, void *desc)
{
    const struct demanding_mr *mr = desc;
    const unsigned char *bytes = addr;
    demanding_check(mr != NULL && mr->mark == DEMANDING_MARK,
                    "local memory has the descriptor of its registration");
    demanding_check(mr->real != NULL, "the registration of local memory is enabled");
    demanding_check(bytes >= mr->addr && bytes + len <= mr->addr + mr->len,
                    "local memory is inside its registration");
}

static void demanding_take_context(void *context)
{
    demanding_check(context != NULL, "an operation has a context");
    memset(context, 0xee, sizeof(struct fi_context2));
}

static ssize_t demanding_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
                              void *context)
{
    demanding_local(buf, len, desc);
    demanding_take_context(context);
    if (demanding_happens(1)) return -FI_EAGAIN;
    return demanding_msg_was.recv(ep, buf, len, NULL, from, context);
}

/* The buffer's previous contents must no longer be needed. */
static ssize_t demanding_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct fi_msg plain = *msg;
    demanding_check(msg->iov_count == 1 && msg->desc != NULL, "a receive buffer has one part");
    demanding_check((flags & FI_MULTI_RECV) != 0, "a receive buffer is for many messages");
    demanding_local(msg->msg_iov->iov_base, msg->msg_iov->iov_len, *msg->desc);
    demanding_take_context(msg->context);
    memset(msg->msg_iov->iov_base, 0xdd, msg->msg_iov->iov_len);
    if (demanding_happens(1)) return -FI_EAGAIN;
    plain.desc = NULL;
    return demanding_msg_was.recvmsg(ep, &plain, flags);
}

static void demanding_cut(const struct demanding_lane *lane, struct demanding_sent *newest)
{
    for (struct demanding_sent *sent = lane->first; sent != NULL; sent = sent->next)
        if (!sent->left && sent->to == newest->to) sent->left = sent->lost = 1;
    newest->failed = demanding_happens(4);
}

/* Alter or lose a message, if that is what breaks. */
enum { DEMANDING_LARGE = 256 };
static void demanding_spoil(struct demanding_sent *sent, int injected)
{
    if (demanding_breaks("itself") || (injected && demanding_breaks("inject")))
        sent->left = sent->lost = 1;
    if (sent->len <= DEMANDING_LARGE) return;
    if (demanding_breaks("mute")) sent->left = sent->lost = 1;
    if (demanding_breaks("flip")) sent->bytes[sent->len - 1] ^= 1;
    if (demanding_breaks("cut")) sent->len = DEMANDING_LARGE;
}

static void demanding_write_due(struct demanding_lane *lane)
{
    for (struct demanding_write **at = &lane->writes; *at != NULL;) {
        struct demanding_write *write = *at;
        if (write->due > lane->reads ||
            demanding_rma_was.writemsg(write->ep, &write->msg, write->flags) != 0) {
            at = &write->next;
            continue;
        }
        *at = write->next;
        free(write);
    }
}

/* Whether an earlier message to the same peer is still queued. */
static int demanding_waits(const struct demanding_lane *lane, const struct demanding_sent *sent)
{
    for (const struct demanding_sent *at = lane->first; at != sent; at = at->next)
        if (!at->left && at->to == sent->to) return 1;
    return 0;
}

/* Pass messages that are due to the real provider. A peer for which it has no room, perhaps
 * because it is dead, does not delay others. */
static void demanding_leave(struct demanding_lane *lane)
{
    demanding_write_due(lane);
    for (struct demanding_sent *sent = lane->first; sent != NULL; sent = sent->next) {
        if (sent->left || demanding_waits(lane, sent)) continue;
        if (sent->due > lane->reads) return;
        sent->left =
            demanding_msg_was.send(sent->ep, sent->bytes, sent->len, NULL, sent->to, sent) == 0;
    }
}

/* `context` NULL: no completion is reported. */
static ssize_t demanding_queue(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to,
                               void *context)
{
    struct demanding_lane *lane = demanding_lane(ep, NULL);
    struct demanding_sent *sent = demanding_happens(2) ? NULL : malloc(sizeof(*sent) + len);
    if (sent == NULL) return -FI_EAGAIN;
    *sent = (struct demanding_sent){
        .ep = ep, .to = to, .user = context, .len = len, .due = lane->reads + DEMANDING_LATE};
    memcpy(sent->bytes, buf, len);
    *lane->last = sent;
    lane->last = &sent->next;
    if (demanding_draws(demanding_cuts(), 1000)) demanding_cut(lane, sent);
    demanding_spoil(sent, context == NULL);
    return 0;
}

static ssize_t demanding_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                              fi_addr_t to, void *context)
{
    demanding_local(buf, len, desc);
    demanding_take_context(context);
    if (len > DEMANDING_LARGE && demanding_breaks("refuse")) return -FI_EMSGSIZE;
    return demanding_queue(ep, buf, len, to, context);
}

static ssize_t demanding_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    demanding_check(len <= demanding_inject_size, "injected messages are small");
    return demanding_queue(ep, buf, len, to, NULL);
}

/* Alter a transfer, if that is what breaks. */
static void demanding_bend(struct iovec *part, struct fi_rma_iov *there, int write)
{
    if (demanding_breaks("base")) there->addr += 8;
    if (demanding_breaks("key")) there->key += 1000000;
    if (demanding_breaks("wide")) {
        part->iov_base = (char *)part->iov_base - 8;
        part->iov_len = there->len += 8;
        there->addr -= 8;
    }
    if (part->iov_len > DEMANDING_LARGE && demanding_breaks(write ? "write" : "read"))
        part->iov_len = --there->len;
}

/* The contents of an injected message that was not copied and arrives late. */
static char demanding_zeros[DEMANDING_LARGE];

static ssize_t demanding_write_later(struct fid_ep *ep, const struct fi_msg_rma *msg,
                                     uint64_t flags)
{
    struct demanding_lane *lane = demanding_lane(ep, NULL);
    size_t copied = (flags & FI_INJECT) != 0 ? msg->msg_iov->iov_len : 0;
    struct demanding_write *write = malloc(sizeof(*write) + copied);
    if (write == NULL) return -FI_EAGAIN;
    *write = (struct demanding_write){.next = lane->writes,
                                      .ep = ep,
                                      .msg = *msg,
                                      .part = *msg->msg_iov,
                                      .there = *msg->rma_iov,
                                      .flags = flags,
                                      .due = lane->reads + DEMANDING_LATER};
    write->msg.msg_iov = &write->part;
    write->msg.rma_iov = &write->there;
    if (copied != 0) write->part.iov_base = memcpy(write->bytes, msg->msg_iov->iov_base, copied);
    lane->writes = write;
    return 0;
}

static ssize_t demanding_rma(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
                             int write)
{
    struct fi_msg_rma plain = *msg;
    if ((flags & FI_INJECT) != 0)
        demanding_check(msg->msg_iov->iov_len <= demanding_inject_size, "a small put is injected");
    for (size_t i = 0; i < msg->iov_count && (flags & FI_INJECT) == 0; i++)
        demanding_local(msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len,
                        msg->desc != NULL ? msg->desc[i] : NULL);
    demanding_check(!write || (flags & FI_DELIVERY_COMPLETE) != 0,
                    "writes request delivery completion");
    demanding_check(msg->iov_count == 1 && msg->rma_iov_count == 1, "a transfer has one part");
    demanding_take_context(msg->context);
    if (demanding_happens(2)) return -FI_EAGAIN;
    struct iovec part = *msg->msg_iov;
    struct fi_rma_iov there = *msg->rma_iov;
    demanding_bend(&part, &there, write);
    if ((flags & FI_INJECT) != 0 && demanding_breaks("lend")) part.iov_base = demanding_zeros;
    plain.desc = NULL;
    plain.msg_iov = &part;
    plain.rma_iov = &there;
    if (demanding_breaks("silent")) return 0;
    if (demanding_breaks("unreported")) flags &= ~FI_REMOTE_CQ_DATA;
    if (write && demanding_happens(3)) return demanding_write_later(ep, &plain, flags);
    return write ? demanding_rma_was.writemsg(ep, &plain, flags)
                 : demanding_rma_was.readmsg(ep, &plain, flags);
}

static ssize_t demanding_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return demanding_rma(ep, msg, flags, 0);
}

static ssize_t demanding_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return demanding_rma(ep, msg, flags, 1);
}

/*
 * Whether this is the completion of a message that has left, which the program must not see; frees
 * the message if so.
 */
static int demanding_has_left(struct demanding_lane *lane, const void *context)
{
    for (struct demanding_sent **at = &lane->first; *at != NULL; at = &(*at)->next) {
        struct demanding_sent *sent = *at;
        if (sent != context) continue;
        *at = sent->next;
        if (sent->next == NULL) lane->last = at;
        free(sent);
        return 1;
    }
    return 0;
}

static ssize_t demanding_early(const struct demanding_lane *lane, struct fi_cq_data_entry *entries,
                               size_t count)
{
    size_t n = 0;
    for (struct demanding_sent *sent = lane->first; sent != NULL && n < count; sent = sent->next) {
        if (sent->user == NULL || sent->failed) continue;
        entries[n++] = (struct fi_cq_data_entry){.op_context = sent->user, .flags = FI_SEND};
        sent->user = NULL;
    }
    return (ssize_t)n;
}

/* Discard lost messages whose loss was reported. Returns the first one to report as an error. */
static struct demanding_sent *demanding_lost(struct demanding_lane *lane)
{
    for (struct demanding_sent *sent = lane->first, *next; sent != NULL; sent = next) {
        next = sent->next;
        if (sent->user != NULL && sent->failed) return sent;
        if (sent->user == NULL && sent->lost) (void)demanding_has_left(lane, sent);
    }
    return NULL;
}

/* Alter the completion of a message in a buffer for many, if that is what breaks. */
static void demanding_receive(struct fi_cq_data_entry *entry)
{
    /* It may come with the last message, or alone (libfabric 2). */
    if (demanding_breaks("greedy")) entry->flags &= ~FI_MULTI_RECV;
    if (entry->buf == NULL) return;
    if (demanding_breaks("astray")) entry->buf = (char *)entry->buf + 16;
}

/* Reads of a queue before it is overrun, if that is what breaks. */
enum { DEMANDING_OVERRUN = 1000 };

/* Returns the last completion first. */
static ssize_t demanding_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    struct fi_cq_data_entry *entries = buf;
    struct demanding_lane *lane = demanding_lane(NULL, cq);
    lane->is_empty = 0;
    if (demanding_happens(2)) return -FI_EAGAIN;
    if (lane->reads > DEMANDING_OVERRUN && demanding_breaks("overrun")) return -FI_EAVAIL;
    lane->reads++;
    demanding_leave(lane);
    if (demanding_lost(lane) != NULL) return -FI_EAVAIL;
    ssize_t got = demanding_early(lane, entries, count), kept = 0;
    if (got > 0) return got;
    got = demanding_cq_was.read(cq, buf, count);
    lane->is_empty = got == -FI_EAGAIN;
    for (ssize_t i = 0; i < got; i++)
        if (!demanding_has_left(lane, entries[i].op_context)) entries[kept++] = entries[i];
    for (ssize_t i = 0; i < kept; i++)
        demanding_receive(&entries[i]);
    if (got > 0) got = kept > 0 ? kept : -FI_EAGAIN;
    for (ssize_t i = 0; i < got / 2; i++) {
        struct fi_cq_data_entry entry = entries[i];
        entries[i] = entries[got - 1 - i];
        entries[got - 1 - i] = entry;
    }
    return got;
}

static ssize_t demanding_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry,
                                    uint64_t flags)
{
    struct demanding_lane *lane = demanding_lane(NULL, cq);
    struct demanding_sent *sent = demanding_lost(lane);
    if (lane->reads > DEMANDING_OVERRUN && demanding_breaks("overrun")) {
        *entry = (struct fi_cq_err_entry){.err = FI_EOVERRUN};
        return 1;
    }
    if (sent != NULL) {
        *entry = (struct fi_cq_err_entry){.op_context = sent->user, .err = FI_ECONNRESET};
        sent->user = NULL;
        return 1;
    }
    ssize_t got = demanding_cq_was.readerr(cq, entry, flags);
    return got == 1 && demanding_has_left(lane, entry->op_context) ? -FI_EAGAIN : got;
}

/* --- registrations --------------------------------------------------------------------------- */

static int demanding_mr_close(struct fid *fid)
{
    struct demanding_mr *mr = (struct demanding_mr *)fid;
    int err = mr->real != NULL ? fi_close(&mr->real->fid) : 0;
    mr->mark = 0;
    free(mr);
    return err;
}

static int demanding_mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)flags;
    demanding_check(to->fclass == FI_CLASS_EP, "memory is bound to an endpoint");
    ((struct demanding_mr *)fid)->bound = 1;
    return 0;
}

static int demanding_mr_control(struct fid *fid, int command, void *arg)
{
    static _Atomic uint64_t next = 1000;
    struct demanding_mr *mr = (struct demanding_mr *)fid;
    (void)arg;
    demanding_check(command == FI_ENABLE && mr->bound, "memory is bound before it is enabled");
    int err = demanding_mr_was.reg(&mr->domain->fid, mr->addr, mr->len, mr->access, 0, next++, 0,
                                   &mr->real, NULL);
    if (err == 0) mr->mr.key = fi_mr_key(mr->real);
    if ((mr->access & FI_REMOTE_READ) != 0 && demanding_breaks("stale") && demanding_happens(4))
        mr->mr.key += 1000000;
    return err;
}

static struct fi_ops demanding_mr_ops = {.size = sizeof(struct fi_ops),
                                         .close = demanding_mr_close,
                                         .bind = demanding_mr_bind,
                                         .control = demanding_mr_control};

enum { DEMANDING_REGISTERED = 1 << 20 };
static int demanding_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                         uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **out,
                         void *context)
{
    int small = demanding_breaks("full") || demanding_breaks("stale");
    if (len > DEMANDING_REGISTERED && small) return -FI_ENOSPC;
    if ((access & (FI_SEND | FI_REMOTE_READ)) == 0 && demanding_breaks("pins") &&
        demanding_happens(4))
        return demanding_happens(4) ? -FI_ENOSPC : -FI_EINVAL;
    struct demanding_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) return -FI_ENOMEM;
    demanding_check(offset == 0 && key == 0 && flags == 0, "the key is left to the provider");
    mr->mr.fid = (struct fid){.fclass = FI_CLASS_MR, .context = context, .ops = &demanding_mr_ops};
    mr->mr.mem_desc = mr;
    mr->mr.key = FI_KEY_NOTAVAIL;
    mr->mark = DEMANDING_MARK;
    mr->domain = (struct fid_domain *)fid;
    mr->addr = buf;
    mr->len = len;
    mr->access = access;
    *out = &mr->mr;
    return 0;
}

/* --- opening --------------------------------------------------------------------------------- */

/* Return a descriptor that is never readable, or always, if that is what breaks. */
static int demanding_cq_control(struct fid *fid, int command, void *arg)
{
    int err = demanding_queue_was.control(fid, command, arg);
    int restless = demanding_breaks("restless");
    if (err != 0 || command != FI_GETWAIT || (!restless && !demanding_breaks("asleep"))) return err;
    static int fd = -1;
    if (fd >= 0) close(fd);
    *(int *)arg = fd = eventfd((unsigned)restless, EFD_CLOEXEC);
    return 0;
}

static int demanding_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                             void *context)
{
    int err = demanding_domain_was.cq_open(domain, attr, cq, context);
    if (err != 0) return err;
    demanding_check(attr->format == FI_CQ_FORMAT_DATA,
                    "completions have the format FI_CQ_FORMAT_DATA");
    demanding_cq_was = demanding_cq_now = *(*cq)->ops;
    demanding_cq_now.read = demanding_cq_read;
    demanding_cq_now.readerr = demanding_cq_readerr;
    (*cq)->ops = &demanding_cq_now;
    demanding_queue_was = demanding_queue_now = *(*cq)->fid.ops;
    demanding_queue_now.control = demanding_cq_control;
    (*cq)->fid.ops = &demanding_queue_now;
    return 0;
}

static struct fi_info *demanding_plain(const struct fi_info *info)
{
    struct fi_info *plain = fi_dupinfo(info);
    if (plain == NULL) abort();
    plain->domain_attr->mr_mode &= ~DEMANDING_MODES;
    plain->mode &= ~FI_CONTEXT2;
    return plain;
}

/* Messages that have not left are lost with the endpoint. */
static int demanding_endpoint_close(struct fid *fid)
{
    struct demanding_lane *lane = demanding_lane((struct fid_ep *)fid, NULL);
    int err = demanding_endpoint_was.close(fid);
    while (lane->first != NULL)
        (void)demanding_has_left(lane, lane->first);
    while (lane->writes != NULL) {
        struct demanding_write *write = lane->writes;
        lane->writes = write->next;
        free(write);
    }
    lane->ep = NULL;
    lane->cq = NULL;
    return err;
}

static int demanding_endpoint_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    if (to->fclass == FI_CLASS_CQ)
        demanding_lane((struct fid_ep *)fid, NULL)->cq = (struct fid_cq *)to;
    return demanding_endpoint_was.bind(fid, to, flags);
}

/* An adapter with room for few peers, as ofi_rxm uses it. */
enum { DEMANDING_UNIVERSE = 64, DEMANDING_UNIVERSE_IF_UNSET = 256 };
static int demanding_universe(void)
{
    const char *value = getenv("FI_UNIVERSE_SIZE");
    return value != NULL ? atoi(value) : DEMANDING_UNIVERSE_IF_UNSET;
}

static int demanding_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                              void *context)
{
    if (demanding_breaks("universe") && demanding_universe() > DEMANDING_UNIVERSE)
        return -FI_EINVAL;
    if (demanding_breaks("memory")) return -FI_ENOMEM;
    struct fi_info *plain = demanding_plain(info);
    int err = demanding_domain_was.endpoint(domain, plain, ep, context);
    fi_freeinfo(plain);
    if (err != 0) return err;
    demanding_msg_was = demanding_msg_now = *(*ep)->msg;
    demanding_rma_was = demanding_rma_now = *(*ep)->rma;
    demanding_msg_now.recv = demanding_recv;
    demanding_msg_now.recvmsg = demanding_recvmsg;
    demanding_msg_now.send = demanding_send;
    demanding_msg_now.inject = demanding_inject;
    demanding_inject_size = info->tx_attr->inject_size;
    demanding_rma_now.readmsg = demanding_readmsg;
    demanding_rma_now.writemsg = demanding_writemsg;
    (*ep)->msg = &demanding_msg_now;
    (*ep)->rma = &demanding_rma_now;
    demanding_endpoint_was = demanding_endpoint_now = *(*ep)->fid.ops;
    demanding_endpoint_now.close = demanding_endpoint_close;
    demanding_endpoint_now.bind = demanding_endpoint_bind;
    struct demanding_lane *lane = demanding_lane(NULL, NULL);
    *lane = (struct demanding_lane){.ep = *ep, .last = &lane->first};
    (*ep)->fid.ops = &demanding_endpoint_now;
    return 0;
}

static int demanding_domain(struct fid_fabric *fabric, struct fi_info *info,
                            struct fid_domain **domain, void *context)
{
    struct fi_info *plain = demanding_plain(info);
    int err = demanding_fabric_was.domain(fabric, plain, domain, context);
    fi_freeinfo(plain);
    if (err != 0) return err;
    demanding_domain_was = demanding_domain_now = *(*domain)->ops;
    demanding_mr_was = demanding_mr_now = *(*domain)->mr;
    demanding_domain_now.cq_open = demanding_cq_open;
    demanding_domain_now.endpoint = demanding_endpoint;
    demanding_mr_now.reg = demanding_reg;
    (*domain)->ops = &demanding_domain_now;
    (*domain)->mr = &demanding_mr_now;
    return 0;
}

static int demanding_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    if (demanding_breaks("asleep")) return FI_SUCCESS;
    const struct demanding_lane *lane = demanding_lane(NULL, (struct fid_cq *)*fids);
    return lane->first != NULL || lane->writes != NULL || !lane->is_empty
               ? -FI_EAGAIN
               : demanding_fabric_was.trywait(fabric, fids, count);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int err = DEMANDING_REAL_CALL(fi_fabric)(attr, fabric, context);
    if (err != 0) return err;
    demanding_fabric_was = demanding_fabric_now = *(*fabric)->ops;
    demanding_fabric_now.domain = demanding_domain;
    demanding_fabric_now.trywait = demanding_trywait;
    (*fabric)->ops = &demanding_fabric_now;
    return 0;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    demanding_check((hints->domain_attr->mr_mode & DEMANDING_MODES) == DEMANDING_MODES,
                    "all modes of registrations are supported");
    demanding_check((hints->mode & FI_CONTEXT2) != 0, "contexts have room for the provider");
    if (hints->tx_attr->msg_order != 0 && demanding_breaks("order")) return -FI_ENODATA;
    if (hints->domain_attr->data_progress == FI_PROGRESS_AUTO && demanding_breaks("manual"))
        return -FI_ENODATA;
    int err = DEMANDING_REAL_CALL(fi_getinfo)(version, node, service, flags, hints, info);
    for (struct fi_info *at = err == 0 ? *info : NULL; at != NULL; at = at->next) {
        at->domain_attr->mr_mode |= DEMANDING_MODES;
        at->mode |= FI_CONTEXT2;
        if (demanding_breaks("manual")) at->domain_attr->data_progress = FI_PROGRESS_MANUAL;
        if (demanding_breaks("order")) at->tx_attr->msg_order = 0;
        if (demanding_breaks("few")) at->domain_attr->ep_cnt = 6;
    }
    return err;
}

void fi_freeinfo(struct fi_info *info)
{
    DEMANDING_REAL_CALL(fi_freeinfo)(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return DEMANDING_REAL_CALL(fi_dupinfo)(info);
}

uint32_t fi_version(void)
{
    return DEMANDING_REAL_CALL(fi_version)();
}

const char *fi_strerror(int err)
{
    return DEMANDING_REAL_CALL(fi_strerror)(err);
}
