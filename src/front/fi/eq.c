/* fi: event queues: inserted addresses, and events that the program writes itself. */
#include "front/fi/fi.h"

#include <stdlib.h>
#include <string.h>

/* Errors come before all other events. */
static struct afi_eq_event **eq_place(struct afi_eq *eq, uint32_t type)
{
    struct afi_eq_event **at = &eq->events;
    if (type != AFI_EQ_ERROR) return eq->last;
    while (*at != NULL && (*at)->type == AFI_EQ_ERROR)
        at = &(*at)->next;
    return at;
}

int afi_eq_write(struct afi_eq *eq, uint32_t type, const void *bytes, size_t len)
{
    struct afi_eq_event *event = malloc(sizeof(*event) + len);
    if (event == NULL) return -FI_ENOMEM;
    struct afi_eq_event **at = eq_place(eq, type);
    *event = (struct afi_eq_event){.next = *at, .type = type, .len = len};
    if (len != 0) memcpy(event->bytes, bytes, len);
    *at = event;
    if (event->next == NULL) eq->last = &event->next;
    afi_wait_news(&eq->wait);
    return 0;
}

static void eq_drop_first(struct afi_eq *eq)
{
    struct afi_eq_event *event = eq->events;
    eq->events = event->next;
    if (eq->events == NULL) eq->last = &eq->events;
    free(event);
}

static ssize_t eq_take(struct afi_eq *eq, uint32_t *type, void *buf, size_t len, uint64_t flags)
{
    struct afi_eq_event *event = eq->events;
    if (event == NULL) return -FI_EAGAIN;
    if (event->type == AFI_EQ_ERROR) return -FI_EAVAIL;
    if (len < event->len) return -FI_ETOOSMALL;
    *type = event->type;
    if (event->len != 0) memcpy(buf, event->bytes, event->len);
    ssize_t got = (ssize_t)event->len;
    if ((flags & FI_PEEK) == 0) eq_drop_first(eq);
    return got;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, uint64_t flags)
{
    struct afi_eq *eq = AQI_OF(fid, struct afi_eq, fid);
    afi_lock();
    if (eq->events == NULL) afi_progress();
    ssize_t got = eq_take(eq, type, buf, len, flags);
    afi_unlock();
    return got;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    struct afi_eq *eq = AQI_OF(fid, struct afi_eq, fid);
    size_t size = afi_error_bytes(eq->version, offsetof(struct fi_eq_err_entry, err_data_size));
    afi_lock();
    bool has = eq->events != NULL && eq->events->type == AFI_EQ_ERROR;
    if (has) {
        struct fi_eq_err_entry entry;
        memcpy(&entry, eq->events->bytes, sizeof(entry));
        /* see cq.c: keep the caller's buffer, as there is no error data */
        if (size == sizeof(entry) && buf->err_data_size != 0) entry.err_data = buf->err_data;
        memcpy(buf, &entry, size);
        eq_drop_first(eq);
    }
    afi_unlock();
    return has ? (ssize_t)size : -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t type, const void *buf, size_t len,
                        uint64_t flags)
{
    if (type == AFI_EQ_ERROR) return -FI_EINVAL;
    afi_lock();
    int err = afi_eq_write(AQI_OF(fid, struct afi_eq, fid), type, buf, len);
    afi_unlock();
    return err == 0 ? (ssize_t)len : err;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct afi_eq *eq = AQI_OF(fid, struct afi_eq, fid);
    uint64_t deadline = afi_deadline(timeout);
    if (!afi_wait_blocks(&eq->wait)) return -FI_ENOSYS;
    afi_lock();
    while (eq->events == NULL) {
        afi_progress();
        if (eq->events != NULL || !afi_wait_pause(&eq->wait, deadline)) break;
    }
    ssize_t got = eq_take(eq, type, buf, len, flags);
    afi_unlock();
    return got;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    return afi_strerror(prov_errno, buf, len);
}

static struct fi_ops_eq eq_ops = {.size = sizeof(struct fi_ops_eq),
                                  .read = eq_read,
                                  .readerr = eq_readerr,
                                  .write = eq_write,
                                  .sread = eq_sread,
                                  .strerror = eq_strerror};

static int eq_close(struct fid *fid)
{
    struct afi_eq *eq = AQI_OF(fid, struct afi_eq, fid.fid);
    if (!afi_release(&eq->users, &eq->fabric->users)) return -FI_EBUSY;
    afi_wait_close(&eq->wait);
    while (eq->events != NULL)
        eq_drop_first(eq);
    free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    return afi_wait_control(&AQI_OF(fid, struct afi_eq, fid.fid)->wait, command, arg);
}

static struct fi_ops eq_fid_ops = {.size = sizeof(struct fi_ops),
                                   .close = eq_close,
                                   .control = eq_control,
                                   .ops_open = afi_no_ops_open};

int afi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
                void *context)
{
    int err = attr != NULL ? afi_wait_check(attr->wait_obj, attr->wait_set) : -FI_EINVAL;
    if (err != 0) return err;
    if ((attr->flags & FI_PEER) != 0) return -FI_ENOSYS;
    if ((attr->flags & ~(FI_WRITE | FI_AFFINITY)) != 0) return -FI_EBADFLAGS;
    struct afi_eq *eq = calloc(1, sizeof(*eq));
    if (eq == NULL) return -FI_ENOMEM;
    *eq = (struct afi_eq){
        .fid = {.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fid_ops},
                .ops = &eq_ops},
        .fabric = AQI_OF(fabric, struct afi_fabric, fid),
        .version = fabric->api_version};
    eq->last = &eq->events;
    afi_wait_open(&eq->wait, attr->wait_obj, attr->wait_set, &eq->fid.fid);
    afi_use(&eq->fabric->users);
    *out = &eq->fid;
    return 0;
}
