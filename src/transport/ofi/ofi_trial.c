/*
 * ofi: the self-test at open. A provider's description of itself is not trusted: the features to be
 * used are tested once, by messages and transfers of this process to itself, each with a time limit
 * (AQ_OFI_SELF_TEST). Optional features that fail are switched off; then the endpoint, which may
 * still have operations in flight, is opened again and the rest is tested with that.
 *
 * A nonexistent remote key is not tested: some providers never complete anything after one. So they
 * are never given one, nor a range that is not registered (ofi_transfer.c).
 */
#include "transport/ofi/ofi_impl.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    OFI_TRIAL_MESSAGE = 16,
    OFI_TRIAL_SMALL = 8,
    OFI_TRIAL_PAGES = 3 * 4096,
    OFI_TRIAL_AREA = 4 * 4096, /* to be written or read, and as much for its local end */
    OFI_TRIAL_OFFSET = 1000,   /* in both */
    OFI_TRIAL_NAP_MS = 10,     /* how long to wait for a descriptor */
    OFI_TRIAL_NAPS = 3,
    OFI_TRIAL_LOOKS = 200, /* minimum number of polls after the time limit, or for a test */
    OFI_TRIAL_TURN = 16,   /* polls between yields, which take long on a busy machine */
    OFI_TRIAL_DATA = 0x7e57da7a
};

struct ofi_trial {
    struct ofi_tp *ofi;
    struct ofi_peer self;
    unsigned char *areas; /* the second one is the local end */
    struct aqi_mem *mem;
    struct ofi_op op;
    struct ofi_piece piece;
    size_t len;         /* of the message in flight */
    unsigned char seed; /* of its bytes */
    bool arrived, done; /* the message has arrived; its sending is complete */
    bool released;      /* the provider has released a buffer for many messages */
    uint64_t limit;     /* in ns */
    unsigned looks;     /* all polls, */
    unsigned late;      /* and those after `limit` */
    char error[256];    /* the error, if the test failed */
};

static void ofi_trial_say(struct ofi_trial *trial, const char *fmt, ...) AQI_PRINTF(2, 3);
static void ofi_trial_say(struct ofi_trial *trial, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(trial->error, sizeof(trial->error), fmt, args);
    va_end(args);
}

static bool ofi_trial_failed(const struct ofi_trial *trial)
{
    return trial->error[0] != 0;
}

/* --- bytes that can be recognized ------------------------------------------------------------ */

static unsigned char ofi_trial_byte(const struct ofi_trial *trial, size_t i)
{
    return (unsigned char)(i * 7 + i / 256 + trial->seed);
}

static void ofi_trial_fill(const struct ofi_trial *trial, unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = ofi_trial_byte(trial, i);
}

static void ofi_trial_check(struct ofi_trial *trial, const unsigned char *bytes, size_t first,
                            size_t len)
{
    for (size_t i = first; i < len && !ofi_trial_failed(trial); i++)
        if (bytes[i] != ofi_trial_byte(trial, i))
            ofi_trial_say(trial, "its byte %zu of %zu is 0x%02x instead of 0x%02x", i, len,
                          bytes[i], ofi_trial_byte(trial, i));
}

/* --- the completion queue -------------------------------------------------------------------- */

/* A message has arrived. Drop it if it lacks the stamp, as those of strangers do. */
static void ofi_trial_received(struct ofi_trial *trial, struct ofi_buf *buf, size_t len)
{
    struct ofi_tp *ofi = trial->ofi;
    size_t stamp = aqi_min(sizeof(ofi->rdma.stamp), trial->len);
    const struct aqi_rdma_chunk *chunk = buf->area != NULL ? buf->area->chunk : buf->rdma.chunk;
    if (buf->rdma.bytes < chunk->memory || buf->rdma.bytes + len > chunk->memory + chunk->len) {
        ofi_trial_say(trial, "it was reported outside of all buffers");
    } else if (len >= stamp && memcmp(buf->rdma.bytes, &ofi->rdma.stamp, stamp) == 0) {
        trial->arrived = true;
        if (len != trial->len)
            ofi_trial_say(trial, "%zu bytes arrived instead of %zu", len, trial->len);
        else
            ofi_trial_check(trial, buf->rdma.bytes, stamp, len);
    }
    ofi_receive_drop(ofi, buf);
}

static void ofi_trial_error(struct ofi_trial *trial)
{
    char text[192];
    int err;
    if (ofi_progress_error(trial->ofi, &err, text, sizeof(text)) != NULL)
        ofi_trial_say(trial, "it ended with: %s", text);
}

/* Returns false if there was no completion. */
static bool ofi_trial_poll(struct ofi_trial *trial)
{
    struct ofi_tp *ofi = trial->ofi;
    struct fi_cq_data_entry entry;
    ofi_receive_post(ofi);
    ssize_t got = fi_cq_read(ofi->cq, &entry, 1);
    if (got == -FI_EAVAIL)
        ofi_trial_error(trial);
    else if (got < 0 && got != -FI_EAGAIN)
        ofi_trial_say(trial, "the completion queue reported: %s", ofi_library.strerror((int)-got));
    if (got != 1) return false;
    if (ofi_receive_is_write(&entry)) {
        trial->arrived = trial->arrived || entry.data == trial->op.data;
        return true;
    }
    struct ofi_ctx *ctx = entry.op_context;
    if (ctx->kind == OFI_RECEIVE || ctx->kind == OFI_AREA) {
        struct ofi_buf view, *buf = ofi_receive_message(&entry, &view);
        trial->released = trial->released || (entry.flags & FI_MULTI_RECV) != 0;
        ofi_receive_found(ofi, &entry);
        if (buf != NULL) ofi_trial_received(trial, buf, entry.len);
        return true;
    }
    trial->done = true;
    if (ctx->kind == OFI_PIECE) return true;
    struct ofi_buf *buf = ofi_buf_of(ctx);
    buf->busy = false;
    ofi_buf_put(ofi, buf);
    return true;
}

/* Likewise, but fails the test if it is too late, unless this process hardly ran in that time. */
static bool ofi_trial_look(struct ofi_trial *trial)
{
    bool last = aqi_now_ns() >= trial->limit && trial->late++ >= OFI_TRIAL_LOOKS;
    if (ofi_trial_poll(trial)) return true;
    if (last && !ofi_trial_failed(trial))
        ofi_trial_say(trial, "after %llu ms it %s",
                      (unsigned long long)(ofi_config.self_test_ns / 1000000),
                      !trial->done           ? "was not complete"
                      : trial->op.op.is_long ? "was complete but not reported"
                                             : "had been sent but had not arrived");
    if (trial->looks++ % OFI_TRIAL_TURN == 0) sched_yield();
    return false;
}

static bool ofi_trial_is_over(const struct ofi_trial *trial)
{
    return ofi_trial_failed(trial) || (trial->arrived && trial->done);
}

static void ofi_trial_wait(struct ofi_trial *trial)
{
    while (!ofi_trial_is_over(trial))
        (void)ofi_trial_look(trial);
}

/* --- tests ----------------------------------------------------------------------------------- */

/* The time limit is for one message or transfer, since many take long on a busy machine. */
static void ofi_trial_begin(struct ofi_trial *trial)
{
    trial->arrived = trial->done = trial->op.op.is_long = false;
    trial->seed++;
    trial->limit = aqi_now_ns() + ofi_config.self_test_ns;
    trial->late = 0;
}

/* Post the message in `buf`, or the transfer if it is NULL. */
static void ofi_trial_post(struct ofi_trial *trial, struct ofi_buf *buf)
{
    ssize_t err = -FI_EAGAIN;
    while (err == -FI_EAGAIN && !ofi_trial_failed(trial)) {
        err = buf != NULL ? ofi_message_post_send(trial->ofi, &trial->self, buf, trial->len)
                          : ofi_transfer_give(trial->ofi, &trial->op, &trial->piece);
        if (err == -FI_EAGAIN) (void)ofi_trial_look(trial);
    }
    if (err != 0 && !ofi_trial_failed(trial))
        ofi_trial_say(trial, "it was rejected: %s", ofi_library.strerror((int)-err));
}

static void ofi_trial_send(struct ofi_trial *trial, size_t len, enum ofi_kind kind)
{
    struct ofi_tp *ofi = trial->ofi;
    struct ofi_buf *buf = ofi_buf_get(ofi);
    if (buf == NULL) {
        ofi_trial_say(trial, "out of memory, or the memory cannot be registered");
        return;
    }
    trial->len = len;
    ofi_trial_begin(trial);
    ofi_trial_fill(trial, buf->rdma.bytes, len);
    memcpy(buf->rdma.bytes, &ofi->rdma.stamp, aqi_min(sizeof(ofi->rdma.stamp), len));
    buf->ctx.kind = kind;
    ofi_trial_post(trial, buf);
    if (buf->busy || ofi_trial_failed(trial)) return;
    trial->done = true;
    ofi_buf_put(ofi, buf);
}

enum ofi_trial_how { OFI_TRIAL_WRITE, OFI_TRIAL_READ, OFI_TRIAL_INJECT, OFI_TRIAL_REPORT };

struct ofi_trial_row {
    const char *what;
    unsigned without; /* enum ofi_part, or 0: the provider is unusable */
    void (*run)(struct ofi_trial *trial, const struct ofi_trial_row *row);
    size_t len;
    enum ofi_trial_how how; /* of a transfer, or OFI_TRIAL_INJECT of a message */
};

static void ofi_trial_itself(struct ofi_trial *trial, const struct ofi_trial_row *row)
{
    struct ofi_tp *ofi = trial->ofi;
    unsigned char name[OFI_NAME];
    size_t room = sizeof(name);
    int err = fi_getname(&ofi->ep->fid, name, &room);
    /* It is not removed: shm never answers a process that reuses a removed address. */
    if (err == 0) err = fi_av_insert(ofi->av, name, 1, &trial->self.addr, 0, NULL) == 1 ? 0 : -1;
    if (err != 0) {
        ofi_trial_say(trial, "its own address was rejected");
        return;
    }
    ofi_trial_send(trial, row->len, OFI_CONTROL);
    ofi_trial_wait(trial);
}

/* The largest message, or the largest that is injected. */
static void ofi_trial_largest(struct ofi_trial *trial, const struct ofi_trial_row *row)
{
    bool inject = row->how == OFI_TRIAL_INJECT;
    size_t len = trial->ofi->rdma.buffer;
    if (inject) len = aqi_min(len, trial->ofi->inject);
    if (len == 0) return;
    ofi_trial_send(trial, len, inject ? OFI_SEND : OFI_CONTROL);
    ofi_trial_wait(trial);
}

/* Send more messages than fit one buffer: it is released, and they continue in the next. */
static void ofi_trial_many(struct ofi_trial *trial, const struct ofi_trial_row *row)
{
    (void)row;
    trial->released = false;
    for (unsigned n = 0; n <= AQI_RDMA_CHUNK && !ofi_trial_failed(trial); n++) {
        ofi_trial_send(trial, trial->ofi->rdma.buffer, OFI_CONTROL);
        ofi_trial_wait(trial);
    }
    bool arrived = !ofi_trial_failed(trial);
    while (!trial->released && !ofi_trial_failed(trial))
        (void)ofi_trial_look(trial);
    if (arrived && ofi_trial_failed(trial))
        ofi_trial_say(trial, "a buffer with no room for the next message was not released");
}

static bool ofi_trial_register(struct ofi_trial *trial)
{
    if (trial->mem != NULL) return true;
    unsigned char *areas =
        mmap(NULL, 2 * OFI_TRIAL_AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    trial->areas = areas != MAP_FAILED ? areas : NULL;
    if (trial->areas != NULL && aqi_rdma_mem_reg(&trial->ofi->rdma.tp, trial->areas,
                                                 2 * OFI_TRIAL_AREA, &trial->mem) == AQ_OK)
        return true;
    ofi_trial_say(trial, "%d bytes could not be registered for it", 2 * OFI_TRIAL_AREA);
    return false;
}

/* Check the data; everything around it must be unchanged. */
static void ofi_trial_check_area(struct ofi_trial *trial, const unsigned char *area, size_t len)
{
    ofi_trial_check(trial, area + OFI_TRIAL_OFFSET, 0, len);
    for (size_t i = 0; i < OFI_TRIAL_AREA && !ofi_trial_failed(trial); i++)
        if (area[i] != 0 && (i < OFI_TRIAL_OFFSET || i >= OFI_TRIAL_OFFSET + len))
            ofi_trial_say(trial, "memory %td bytes from its start was also written",
                          (ptrdiff_t)i - OFI_TRIAL_OFFSET);
}

static void ofi_trial_remote(struct ofi_trial *trial, const struct ofi_trial_row *row)
{
    const struct ofi_tp *ofi = trial->ofi;
    bool get = row->how == OFI_TRIAL_READ, inject = row->how == OFI_TRIAL_INJECT,
         report = row->how == OFI_TRIAL_REPORT;
    size_t len = inject ? aqi_min(ofi->put_inject, row->len) : row->len;
    if ((ofi->without & OFI_REMOTE) != 0 || len == 0 || !ofi_trial_register(trial)) return;
    const struct aqi_rdma_mem *mem = (const struct aqi_rdma_mem *)trial->mem;
    const struct ofi_key *key = trial->mem->key;
    unsigned char *local = trial->areas + OFI_TRIAL_AREA;
    unsigned char *from = get ? trial->areas : local, *to = get ? local : trial->areas;
    ofi_trial_begin(trial);
    trial->arrived = !report;
    memset(to, 0, OFI_TRIAL_AREA);
    memset(from, UCHAR_MAX, OFI_TRIAL_AREA);
    ofi_trial_fill(trial, from + OFI_TRIAL_OFFSET, len);
    trial->op = (struct ofi_op){
        .op = {.peer = &trial->self.rdma,
               .is_long = report,
               .get = get,
               .remote = key->base + OFI_TRIAL_OFFSET,
               .local = local + OFI_TRIAL_OFFSET},
        .key = key->keys[0],
        .inject = inject,
        .data = OFI_TRIAL_DATA,
        .desc = !inject && ofi_wants(ofi, FI_MR_LOCAL) ? fi_mr_desc(mem->mr[0][0]) : NULL};
    trial->piece =
        (struct ofi_piece){.ctx.kind = OFI_PIECE, .rdma = {.op = &trial->op.op, .len = len}};
    ofi_trial_post(trial, NULL);
    if (inject) memset(from, 0, OFI_TRIAL_AREA); /* too late to affect the transfer */
    ofi_trial_wait(trial);
    if (!ofi_trial_failed(trial)) ofi_trial_check_area(trial, to, len);
}

/* Whether the descriptor is readable, or becomes so. -1: do not wait for it now. */
static int ofi_trial_nap(const struct ofi_trial *trial, int ms)
{
    const struct ofi_tp *ofi = trial->ofi;
    struct fid *fids[] = {&ofi->cq->fid};
    struct pollfd fd = {.fd = ofi->rdma.fd, .events = POLLIN};
    return fi_trywait(ofi->fabric, fids, 1) == FI_SUCCESS ? poll(&fd, 1, ms) : -1;
}

/* Returns whether a completion arrived that the descriptor did not signal. */
static bool ofi_trial_sleeps_on(struct ofi_trial *trial)
{
    bool missed = false, silent = false;
    while (!ofi_trial_is_over(trial)) {
        bool found = ofi_trial_look(trial);
        missed = missed || (found && silent);
        silent = !found && ofi_trial_nap(trial, OFI_TRIAL_NAP_MS) == 0;
    }
    return missed;
}

/* Returns whether it keeps signaling when there are no completions. */
static bool ofi_trial_is_restless(struct ofi_trial *trial)
{
    bool readable = false;
    for (unsigned n = 0; n < OFI_TRIAL_LOOKS; n++) {
        while (ofi_trial_poll(trial)) {
        }
        int woken = ofi_trial_nap(trial, 0);
        if (woken == 0) return false;
        readable = readable || woken > 0;
        sched_yield();
    }
    return readable;
}

/* Test it more than once, as a completion after a nap may just have been late. */
static void ofi_trial_wake(struct ofi_trial *trial, const struct ofi_trial_row *row)
{
    bool missed = true;
    if (trial->ofi->rdma.fd < 0) return; /* it has none */
    for (unsigned n = 0; n < OFI_TRIAL_NAPS && missed && !ofi_trial_failed(trial); n++) {
        ofi_trial_send(trial, row->len, OFI_CONTROL);
        missed = ofi_trial_sleeps_on(trial);
    }
    if (ofi_trial_failed(trial)) return;
    if (missed)
        ofi_trial_say(trial, "it was not readable although there were completions");
    else if (ofi_trial_is_restless(trial))
        ofi_trial_say(trial, "it is readable although there are no completions");
}

/* --- all tests ------------------------------------------------------------------------------- */

static const struct ofi_trial_row ofi_trial_rows[] = {
    {"a message to itself", OFI_ITSELF, ofi_trial_itself, OFI_TRIAL_MESSAGE, 0},
    {"an injected message", OFI_INJECT, ofi_trial_largest, 0, OFI_TRIAL_INJECT},
    {"many messages in a buffer", OFI_MANY, ofi_trial_many, 0, 0},
    {"a message that fills a buffer", 0, ofi_trial_largest, 0, 0},
    {"a remote write of 8 bytes", OFI_REMOTE, ofi_trial_remote, OFI_TRIAL_SMALL, OFI_TRIAL_WRITE},
    {"a remote write of 12288 bytes", OFI_REMOTE, ofi_trial_remote, OFI_TRIAL_PAGES,
     OFI_TRIAL_WRITE},
    {"a remote read of 8 bytes", OFI_REMOTE, ofi_trial_remote, OFI_TRIAL_SMALL, OFI_TRIAL_READ},
    {"a remote read of 12288 bytes", OFI_REMOTE, ofi_trial_remote, OFI_TRIAL_PAGES, OFI_TRIAL_READ},
    {"an injected remote write", OFI_PUTS, ofi_trial_remote, OFI_TRIAL_PAGES, OFI_TRIAL_INJECT},
    {"a remote write that the target's queue reports", OFI_REPORT, ofi_trial_remote,
     OFI_TRIAL_PAGES, OFI_TRIAL_REPORT},
    {"the descriptor of the completion queue", OFI_WAKE, ofi_trial_wake, OFI_TRIAL_MESSAGE, 0},
};

static const struct {
    unsigned part;
    enum aqi_log_level level; /* waiting is only a little slower */
    const char *instead;
} ofi_trial_parts[] = {
    {OFI_ITSELF, AQI_LOG_INFO, "not self-tested, as it cannot reach itself"},
    {OFI_MANY, AQI_LOG_INFO, "each message has a buffer of its own"},
    {OFI_INJECT, AQI_LOG_WARN, "messages are not injected"},
    {OFI_PUTS, AQI_LOG_INFO, "puts are not injected"},
    {OFI_REPORT, AQI_LOG_INFO, "Longs are put before their header is sent"},
    {OFI_REMOTE, AQI_LOG_WARN, "puts and gets go by messages"},
    {OFI_WAKE, AQI_LOG_INFO, "waits poll"},
};

int ofi_trial_describe(const struct ofi_tp *ofi, char *buf, size_t len)
{
    char text[256] = "";
    for (size_t i = 0; i < AQI_COUNT_OF(ofi_trial_parts); i++)
        if (ofi->without & ofi_trial_parts[i].part)
            aqi_append(text, sizeof(text), ", %s", ofi_trial_parts[i].instead);
    if (ofi_config.self_test_ns == 0) return snprintf(buf, len, ", not self-tested");
    return snprintf(buf, len, "%s%s", ofi->without & OFI_ITSELF ? "" : ", self-tested", text);
}

/* Returns the test that failed, or NULL. */
static const struct ofi_trial_row *ofi_trial_run(struct ofi_trial *trial)
{
    const struct ofi_trial_row *failed = NULL;
    for (size_t i = 0; i < AQI_COUNT_OF(ofi_trial_rows) && failed == NULL; i++) {
        const struct ofi_trial_row *row = &ofi_trial_rows[i];
        if (trial->ofi->without & row->without) continue;
        row->run(trial, row);
        if (ofi_trial_failed(trial)) failed = row;
    }
    if (trial->mem != NULL) aqi_rdma_mem_dereg(&trial->ofi->rdma.tp, trial->mem);
    return failed;
}

/* Switch the failed feature off, or reject the provider. */
static aq_status ofi_trial_judge(struct ofi_tp *ofi, const struct ofi_trial_row *row,
                                 const char *error)
{
    const char *provider = ofi_name(ofi), *domain = ofi->info->domain_attr->name;
    unsigned part = row->without;
    /* If no message arrives, the buffers for many may be the cause. */
    if (part == OFI_ITSELF && (ofi->without & OFI_MANY) == 0) part = OFI_MANY;
    ofi->without |= part;
    if (part == OFI_INJECT) ofi->inject = 0;
    if (part == OFI_PUTS) ofi->put_inject = 0;
    for (size_t i = 0; i < AQI_COUNT_OF(ofi_trial_parts); i++) {
        if (ofi_trial_parts[i].part != part) continue;
        aqi_log(ofi_trial_parts[i].level, "ofi",
                "%s on %s: self-test of %s: %s: %s; set %s or %s to choose another", provider,
                domain, row->what, error, ofi_trial_parts[i].instead,
                aqi_setting_variable("AQ_OFI_PROVIDER"), aqi_setting_variable("AQ_OFI_DOMAIN"));
        return AQ_OK;
    }
    return aqi_fail(AQ_ENOTSUP, "ofi",
                    "%s on %s: self-test of %s: %s: set %s or %s to choose another; \"fi_info -t "
                    "FI_EP_RDM\" lists them",
                    provider, domain, row->what, error, aqi_setting_variable("AQ_OFI_PROVIDER"),
                    aqi_setting_variable("AQ_OFI_DOMAIN"));
}

/* Run the tests once. `*again`: repeat them with another endpoint, with features switched off. */
static aq_status ofi_trial_attempt(struct ofi_tp *ofi, bool *again)
{
    struct ofi_trial trial = {.ofi = ofi, .self.addr = FI_ADDR_NOTAVAIL};
    const struct ofi_trial_row *failed = NULL;
    aq_status st = ofi_endpoint_open(ofi);
    if (st != AQ_OK) return st;
    *again = false;
    if (ofi_config.self_test_ns != 0 && (ofi->without & OFI_ITSELF) == 0)
        failed = ofi_trial_run(&trial);
    if (failed != NULL) {
        st = ofi_trial_judge(ofi, failed, trial.error);
        *again = st == AQ_OK;
        ofi_endpoint_close(ofi); /* then nothing uses the trial's memory */
    }
    if (trial.areas != NULL) munmap(trial.areas, 2 * OFI_TRIAL_AREA);
    if (st == AQ_OK && !*again) ofi_receive_post(ofi);
    return st;
}

aq_status ofi_trial_open(struct ofi_tp *ofi)
{
    bool again = true;
    aq_status st = AQ_OK;
    while (st == AQ_OK && again)
        st = ofi_trial_attempt(ofi, &again);
    return st;
}
