/* fi: completion counters. */
#include "front/fi/fi.h"

#include "lib/alone.h"

#include <stdlib.h>

static struct afi_cntr *cntr_of(struct fid_cntr *fid)
{
    return AQI_OF(fid, struct afi_cntr, fid);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct afi_cntr *cntr = cntr_of(fid);
    afi_lock();
    afi_progress();
    uint64_t value = cntr->value;
    unsigned empty = afi.empty = value == cntr->seen_value ? afi.empty + 1 : 0;
    cntr->seen_value = value;
    afi_unlock();
    lib_alone_yield(empty);
    return value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    afi_lock();
    afi_progress();
    uint64_t errors = cntr_of(fid)->seen_errors = cntr_of(fid)->errors;
    afi_unlock();
    return errors;
}

/* Set a value of the counter, `*value`, to `by`, or add `by` to it. */
static int cntr_change(struct fid_cntr *fid, uint64_t *value, uint64_t by, bool set)
{
    afi_lock();
    *value = set ? by : *value + by;
    afi_wait_news(&cntr_of(fid)->wait);
    afi_unlock();
    return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, &cntr_of(fid)->value, value, false);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, &cntr_of(fid)->value, value, true);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, &cntr_of(fid)->errors, value, false);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, &cntr_of(fid)->errors, value, true);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct afi_cntr *cntr = cntr_of(fid);
    uint64_t deadline = afi_deadline(timeout);
    int err = 0;
    if (cntr->wait.obj == FI_WAIT_SET) return -FI_ENOSYS;
    afi_lock();
    uint64_t errors = cntr->errors;
    for (;;) {
        afi_progress();
        if (cntr->value >= threshold) break;
        if (cntr->errors != errors)
            err = -FI_EAVAIL;
        else if (!afi_wait_pause(&cntr->wait, deadline))
            err = -FI_ETIMEDOUT;
        if (err != 0) break;
    }
    afi_unlock();
    return err;
}

static struct fi_ops_cntr cntr_ops = {.size = sizeof(struct fi_ops_cntr),
                                      .read = cntr_read,
                                      .readerr = cntr_readerr,
                                      .add = cntr_add,
                                      .set = cntr_set,
                                      .wait = cntr_wait,
                                      .adderr = cntr_adderr,
                                      .seterr = cntr_seterr};

static int cntr_close(struct fid *fid)
{
    struct afi_cntr *cntr = AQI_OF(fid, struct afi_cntr, fid.fid);
    if (!afi_release(&cntr->users, &cntr->domain->users)) return -FI_EBUSY;
    afi_wait_close(&cntr->wait);
    free(cntr);
    return 0;
}

/* A counter has no operation flags, but the commands are valid. */
static int cntr_control(struct fid *fid, int command, void *arg)
{
    if (command == FI_SETOPSFLAG) return *(const uint64_t *)arg == 0 ? 0 : -FI_EBADFLAGS;
    if (command == FI_GETOPSFLAG) {
        *(uint64_t *)arg = 0;
        return 0;
    }
    return afi_wait_control(&AQI_OF(fid, struct afi_cntr, fid.fid)->wait, command, arg);
}

static struct fi_ops cntr_fid_ops = {.size = sizeof(struct fi_ops),
                                     .close = cntr_close,
                                     .control = cntr_control,
                                     .ops_open = afi_no_ops_open};

int afi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
                  void *context)
{
    int err = attr != NULL ? afi_wait_check(attr->wait_obj, attr->wait_set) : -FI_EINVAL;
    if (err != 0) return err;
    if (attr->events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    struct afi_cntr *cntr = calloc(1, sizeof(*cntr));
    if (cntr == NULL) return -FI_ENOMEM;
    *cntr = (struct afi_cntr){
        .fid = {.fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &cntr_fid_ops},
                .ops = &cntr_ops},
        .domain = AQI_OF(domain, struct afi_domain, fid)};
    afi_wait_open(&cntr->wait, attr->wait_obj, attr->wait_set, &cntr->fid.fid);
    afi_use(&cntr->domain->users);
    *out = &cntr->fid;
    return 0;
}
