/* fi: poll sets: one call checks many completion queues and counters. */
#include "front/fi/fi.h"

#include "base/array.h"

#include <stdlib.h>

struct afi_poll_member {
    struct fid *fid;
    uint64_t value, errors; /* of a counter, at the last fi_poll */
};

struct afi_poll {
    struct fid_poll fid;
    struct afi_domain *domain;
    struct afi_poll_member *members;
    size_t count, room;
    size_t next; /* where to begin: all are reported even if there is little space for contexts */
};

static struct afi_poll *poll_of(struct fid_poll *fid)
{
    return AQI_OF(fid, struct afi_poll, fid);
}

/* The user count of an object that may be in the set; NULL: it may not. */
static uint32_t *poll_users(const struct afi_poll *poll, struct fid *fid)
{
    if (fid != NULL && fid->fclass == FI_CLASS_CQ) {
        struct afi_cq *cq = AQI_OF(fid, struct afi_cq, fid.fid);
        return cq->domain == poll->domain ? &cq->users : NULL;
    }
    if (fid != NULL && fid->fclass == FI_CLASS_CNTR) {
        struct afi_cntr *cntr = AQI_OF(fid, struct afi_cntr, fid.fid);
        return cntr->domain == poll->domain ? &cntr->users : NULL;
    }
    return NULL;
}

/* Its index; `count` if it is not in the set. */
static size_t poll_find(const struct afi_poll *poll, const struct fid *fid)
{
    size_t at = 0;
    while (at < poll->count && poll->members[at].fid != fid)
        at++;
    return at;
}

/* --- the calls ------------------------------------------------------------------------------- */

static bool poll_has_news(struct afi_poll_member *member)
{
    if (member->fid->fclass == FI_CLASS_CQ)
        return afi_cq_has_news(AQI_OF(member->fid, const struct afi_cq, fid.fid));
    const struct afi_cntr *cntr = AQI_OF(member->fid, const struct afi_cntr, fid.fid);
    bool changed = cntr->value != member->value || cntr->errors != member->errors;
    member->value = cntr->value;
    member->errors = cntr->errors;
    return changed;
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
    struct afi_poll *poll = poll_of(fid);
    int n = 0;
    if (count < 0 || (context == NULL && count != 0)) return -FI_EINVAL;
    afi_lock();
    afi_progress();
    for (size_t i = 0; i < poll->count && n < count; i++) {
        struct afi_poll_member *member = &poll->members[poll->next];
        poll->next = (poll->next + 1) % poll->count;
        if (poll_has_news(member)) context[n++] = member->fid->context;
    }
    afi_unlock();
    return n;
}

static int poll_insert(struct afi_poll *poll, struct fid *fid)
{
    struct afi_poll_member *member;
    if (poll_find(poll, fid) != poll->count) return -FI_EALREADY;
    if (!aqi_array_reserve(&poll->members, &poll->room, poll->count + 1, sizeof(*member)))
        return -FI_ENOMEM;
    member = &poll->members[poll->count++];
    *member = (struct afi_poll_member){.fid = fid};
    if (fid->fclass == FI_CLASS_CNTR) { /* from now on, or unread */
        const struct afi_cntr *cntr = AQI_OF(fid, const struct afi_cntr, fid.fid);
        member->value = cntr->seen_value;
        member->errors = cntr->seen_errors;
    }
    ++*poll_users(poll, fid);
    return 0;
}

static int poll_remove(struct afi_poll *poll, struct fid *fid)
{
    size_t at = poll_find(poll, fid);
    if (at == poll->count) return -FI_ENOENT;
    --*poll_users(poll, fid);
    poll->members[at] = poll->members[--poll->count];
    poll->next = 0;
    return 0;
}

static int poll_change(struct fid_poll *fid, struct fid *member, uint64_t flags,
                       int (*change)(struct afi_poll *poll, struct fid *fid))
{
    struct afi_poll *poll = poll_of(fid);
    if (flags != 0) return -FI_EBADFLAGS;
    if (poll_users(poll, member) == NULL) return -FI_EINVAL;
    afi_lock();
    int err = change(poll, member);
    afi_unlock();
    return err;
}

static int poll_add(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
    return poll_change(fid, member, flags, poll_insert);
}

static int poll_del(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
    return poll_change(fid, member, flags, poll_remove);
}

static struct fi_ops_poll poll_ops = {.size = sizeof(struct fi_ops_poll),
                                      .poll = poll_poll,
                                      .poll_add = poll_add,
                                      .poll_del = poll_del};

/* --- opening --------------------------------------------------------------------------------- */

/* According to the manual page, closing a set with members fails, but programs rely on its
 * success. */
static int poll_close(struct fid *fid)
{
    struct afi_poll *poll = AQI_OF(fid, struct afi_poll, fid.fid);
    afi_lock();
    while (poll->count != 0)
        (void)poll_remove(poll, poll->members[0].fid);
    poll->domain->users--;
    afi_unlock();
    free(poll->members);
    free(poll);
    return 0;
}

static struct fi_ops poll_fid_ops = {.size = sizeof(struct fi_ops),
                                     .close = poll_close,
                                     .control = afi_no_control,
                                     .ops_open = afi_no_ops_open};

int afi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
    if (attr == NULL) return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    struct afi_poll *poll = calloc(1, sizeof(*poll));
    if (poll == NULL) return -FI_ENOMEM;
    *poll = (struct afi_poll){
        .fid = {.fid = {.fclass = FI_CLASS_POLL, .ops = &poll_fid_ops}, .ops = &poll_ops},
        .domain = AQI_OF(domain, struct afi_domain, fid)};
    afi_use(&poll->domain->users);
    *out = &poll->fid;
    return 0;
}
