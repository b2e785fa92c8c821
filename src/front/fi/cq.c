/* fi: completion queues. */
#include "front/fi/fi.h"

#include "lib/alone.h"

#include <stdlib.h>
#include <string.h>

/* --- writing --------------------------------------------------------------------------------- */

void afi_cq_grow(struct afi_cq *cq)
{
    struct afi_completion *ring = malloc(2 * cq->room * sizeof(*ring));
    if (ring == NULL) abort(); /* a completion would be lost */
    for (size_t i = 0; i < cq->count; i++)
        ring[i] = cq->ring[(cq->first + i) & (cq->room - 1)];
    free(cq->ring);
    cq->ring = ring;
    cq->first = 0;
    cq->room *= 2;
}

void afi_cq_fail(struct afi_cq *cq, const struct fi_cq_err_entry *entry,
                 const struct afi_name *data)
{
    struct afi_cq_error *error = malloc(sizeof(*error));
    if (error == NULL) abort();
    *error = (struct afi_cq_error){.entry = *entry};
    error->entry.prov_errno = -entry->err;
    if (data != NULL) {
        afi_name_write(cq->domain->sockets, data, error->data);
        error->entry.err_data_size = afi_name_size(cq->domain->sockets);
    }
    *cq->last_error = error;
    cq->last_error = &error->next;
    afi_wait_news(&cq->wait);
}

/* --- reading --------------------------------------------------------------------------------- */

static const size_t cq_entry_sizes[] = {[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_tagged_entry),
                                        [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
                                        [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
                                        [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
                                        [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry)};

/* Each format is a prefix of the longest one. */
static ssize_t cq_take(struct afi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
    size_t size = cq_entry_sizes[cq->format], n = 0;
    if (AQI_UNLIKELY(cq->errors != NULL)) return -FI_EAVAIL;
    for (; n < count && cq->count != 0; n++) {
        const struct afi_completion *at = &cq->ring[cq->first];
        if (AQI_LIKELY(size == sizeof(at->entry))) /* constant size */
            memcpy((unsigned char *)buf + n * size, &at->entry, sizeof(at->entry));
        else
            memcpy((unsigned char *)buf + n * size, &at->entry, size);
        if (source != NULL) source[n] = at->source;
        cq->first = (cq->first + 1) & (cq->room - 1);
        cq->count--;
    }
    return n != 0 ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
    struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid);
    afi_lock();
    if (cq->count == 0 || AQI_UNLIKELY(count == 0)) afi_progress();
    ssize_t got = cq_take(cq, buf, count, source);
    unsigned empty = afi.empty = got == -FI_EAGAIN ? afi.empty + 1 : 0;
    afi_unlock();
    lib_alone_yield(empty);
    return got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    return cq_readfrom(fid, buf, count, NULL);
}

/*
 * Without a buffer of the caller, the data stay valid until the next error is read. Many programs
 * leave the entry uninitialized: write to its buffer only if there is data.
 */
static void cq_give_data(struct afi_cq *cq, struct afi_cq_error *error, void *buf, size_t room)
{
    struct fi_cq_err_entry *entry = &error->entry;
    if (buf != NULL && room != 0) {
        entry->err_data = buf;
        entry->err_data_size = aqi_min(entry->err_data_size, room);
        if (entry->err_data_size != 0) memcpy(buf, error->data, entry->err_data_size);
    } else if (entry->err_data_size != 0) {
        memcpy(cq->data, error->data, sizeof(cq->data));
        entry->err_data = cq->data;
    }
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid);
    afi_lock();
    struct afi_cq_error *error = cq->errors;
    if (error != NULL) {
        cq->errors = error->next;
        if (cq->errors == NULL) cq->last_error = &cq->errors;
        size_t old = offsetof(struct fi_cq_err_entry, err_data_size);
        size_t size = afi_error_bytes(cq->domain->version, old);
        cq_give_data(cq, error, buf->err_data, size > old ? buf->err_data_size : 0);
        memcpy(buf, &error->entry, size);
        free(error);
    }
    afi_unlock();
    return error != NULL ? 1 : -FI_EAGAIN;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source,
                            const void *cond, int timeout)
{
    struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid);
    uint64_t deadline = afi_deadline(timeout);
    size_t least = cq->cond == FI_CQ_COND_THRESHOLD ? aqi_max((size_t)(uintptr_t)cond, 1) : 1;
    ssize_t got = -FI_EAGAIN;
    if (!afi_wait_blocks(&cq->wait)) return -FI_ENOSYS;
    afi_lock();
    for (;;) {
        if (cq->count < least) afi_progress();
        if (cq->count >= least || cq->errors != NULL || cq->signalled) break;
        if (!afi_wait_pause(&cq->wait, deadline)) break;
    }
    if (!cq->signalled || cq->count != 0) got = cq_take(cq, buf, count, source);
    cq->signalled = false;
    afi_unlock();
    return got;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid);
    if (!afi_wait_blocks(&cq->wait)) return -FI_ENOSYS;
    afi_lock();
    cq->signalled = true;
    afi_unlock();
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    return afi_strerror(prov_errno, buf, len);
}

static struct fi_ops_cq cq_ops = {.size = sizeof(struct fi_ops_cq),
                                  .read = cq_read,
                                  .readfrom = cq_readfrom,
                                  .readerr = cq_readerr,
                                  .sread = cq_sread,
                                  .sreadfrom = cq_sreadfrom,
                                  .signal = cq_signal,
                                  .strerror = cq_strerror};

/* --- opening --------------------------------------------------------------------------------- */

static int cq_close(struct fid *fid)
{
    struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid.fid);
    if (!afi_release(&cq->users, &cq->domain->users)) return -FI_EBUSY;
    afi_wait_close(&cq->wait);
    while (cq->errors != NULL) {
        struct afi_cq_error *error = cq->errors;
        cq->errors = error->next;
        free(error);
    }
    free(cq->ring);
    free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    return afi_wait_control(&AQI_OF(fid, struct afi_cq, fid.fid)->wait, command, arg);
}

static struct fi_ops cq_fid_ops = {.size = sizeof(struct fi_ops),
                                   .close = cq_close,
                                   .control = cq_control,
                                   .ops_open = afi_no_ops_open};

int afi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
                void *context)
{
    int err = attr != NULL ? afi_wait_check(attr->wait_obj, attr->wait_set) : -FI_EINVAL;
    if (err != 0) return err;
    if (attr->format > FI_CQ_FORMAT_TAGGED || (attr->flags & FI_PEER) != 0) return -FI_ENOSYS;
    if ((attr->flags & ~FI_AFFINITY) != 0) return -FI_EBADFLAGS;
    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_cond > FI_CQ_COND_THRESHOLD) return -FI_EINVAL;
    struct afi_cq *cq = calloc(1, sizeof(*cq));
    size_t room = aqi_power_of_two_from(attr->size != 0 ? aqi_min(attr->size, 1 << 20) : AFI_CQ);
    struct afi_completion *ring = malloc(room * sizeof(*ring));
    if (cq == NULL || ring == NULL) {
        free(cq);
        free(ring);
        return -FI_ENOMEM;
    }
    if (attr->format == FI_CQ_FORMAT_UNSPEC) attr->format = FI_CQ_FORMAT_TAGGED;
    *cq = (struct afi_cq){
        .fid = {.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops},
                .ops = &cq_ops},
        .domain = AQI_OF(domain, struct afi_domain, fid),
        .format = attr->format,
        .cond = attr->wait_cond,
        .ring = ring,
        .room = room};
    cq->last_error = &cq->errors;
    afi_wait_open(&cq->wait, attr->wait_obj, attr->wait_set, &cq->fid.fid);
    afi_use(&cq->domain->users);
    *out = &cq->fid;
    return 0;
}
