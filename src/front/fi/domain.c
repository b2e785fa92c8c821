/* fi: domains, memory registrations, and the known endpoints. */
#include "front/fi/fi.h"

#include <stdlib.h>
#include <string.h>

enum { DOMAIN_BUCKETS = 256 /* of a new domain, for each table */ };

static struct aqi_node *domain_new_buckets(size_t count)
{
    struct aqi_node *buckets = malloc(count * sizeof(*buckets));
    for (size_t i = 0; buckets != NULL && i < count; i++)
        aqi_list_init(&buckets[i]);
    return buckets;
}

/* If memory runs out, the buckets' lists grow longer instead. */
static void domain_grow(struct aqi_node **buckets, size_t *room,
                        uint64_t (*hash_of)(const struct aqi_node *link))
{
    size_t had = *room;
    struct aqi_node *old = *buckets, *grown = domain_new_buckets(2 * had);
    if (grown == NULL) return;
    for (size_t i = 0; i < had; i++)
        while (!aqi_list_is_empty(&old[i])) {
            struct aqi_node *link = old[i].next;
            aqi_list_remove(link);
            aqi_list_append(&grown[hash_of(link) & (2 * had - 1)], link);
        }
    *buckets = grown;
    *room = 2 * had;
    free(old);
}

/* --- known endpoints ------------------------------------------------------------------------- */

static uint64_t domain_name_hash(const struct afi_name *name)
{
    uint64_t word;
    memcpy(&word, name->id, sizeof(word));
    return aqi_hash_spread(aqi_hash(AQI_HASH_SEED, word));
}

static uint64_t domain_ident_hash(const struct aqi_node *link)
{
    return domain_name_hash(&AQI_OF(link, const struct afi_ident, link)->name);
}

struct afi_ident *afi_ident_get(struct afi_domain *domain, const struct afi_name *name)
{
    struct aqi_node *bucket =
        &domain->ident_buckets[domain_name_hash(name) & (domain->ident_room - 1)];
    for (struct aqi_node *at = bucket->next; at != bucket; at = at->next) {
        struct afi_ident *ident = AQI_OF(at, struct afi_ident, link);
        if (!afi_name_same(&ident->name, name)) continue;
        ident->users++;
        return ident;
    }
    struct afi_ident *ident = calloc(1, sizeof(*ident));
    if (ident == NULL) return NULL;
    ident->domain = domain;
    ident->name = *name;
    ident->users = 1;
    aqi_list_append(bucket, &ident->link);
    if (++domain->ident_count > domain->ident_room)
        domain_grow(&domain->ident_buckets, &domain->ident_room, domain_ident_hash);
    return ident;
}

void afi_ident_put(struct afi_ident *ident)
{
    if (--ident->users != 0) return;
    aqi_list_remove(&ident->link);
    ident->domain->ident_count--;
    free(ident);
}

/* --- memory ---------------------------------------------------------------------------------- */

static uint64_t domain_key_hash(uint64_t key)
{
    return aqi_hash_spread(aqi_hash(AQI_HASH_SEED, key));
}

static uint64_t domain_mr_hash(const struct aqi_node *link)
{
    return domain_key_hash(AQI_OF(link, const struct afi_mr, link)->fid.key);
}

static struct aqi_node *domain_mr_bucket(struct afi_domain *domain, uint64_t key)
{
    return &domain->mr_buckets[domain_key_hash(key) & (domain->mr_room - 1)];
}

struct afi_mr *afi_mr_of(struct afi_domain *domain, uint64_t key)
{
    struct aqi_node *bucket = domain_mr_bucket(domain, key);
    for (struct aqi_node *at = bucket->next; at != bucket; at = at->next)
        if (AQI_OF(at, struct afi_mr, link)->fid.key == key) return AQI_OF(at, struct afi_mr, link);
    return NULL;
}

struct afi_mr *afi_mr_find(struct afi_domain *domain, uint64_t key, uint64_t addr, size_t len,
                           uint64_t access, unsigned char **at)
{
    struct afi_mr *mr = afi_mr_of(domain, key);
    if (mr == NULL || (mr->access & access) != access) return NULL;
    uint64_t begin = domain->virtual ? (uintptr_t)mr->at : 0;
    if (!aqi_within(addr, len, begin, mr->len)) return NULL;
    *at = mr->at + (addr - begin);
    return mr;
}

bool afi_mr_covers(const struct afi_domain *domain, uint64_t addr, size_t len, uint64_t access)
{
    for (size_t i = 0; domain->mr_count != 0 && i < domain->mr_room; i++)
        for (struct aqi_node *at = domain->mr_buckets[i].next; at != &domain->mr_buckets[i];
             at = at->next) {
            const struct afi_mr *mr = AQI_OF(at, struct afi_mr, link);
            if ((mr->access & access) == access &&
                aqi_within(addr, len, (uintptr_t)mr->at, mr->len))
                return true;
        }
    return false;
}

static int domain_mr_close(struct fid *fid)
{
    struct afi_mr *mr = AQI_OF(fid, struct afi_mr, fid.fid);
    afi_lock();
    afi_fetch_revoke(mr);
    aqi_list_remove(&mr->link);
    mr->domain->users--;
    mr->domain->mr_count--;
    if (mr->cntr != NULL) mr->cntr->users--;
    afi_unlock();
    free(mr);
    return 0;
}

static int domain_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct afi_mr *mr = AQI_OF(fid, struct afi_mr, fid.fid);
    if (bfid->fclass == FI_CLASS_EP) return 0; /* accessible to all endpoints */
    if (bfid->fclass != FI_CLASS_CNTR || (flags & ~(FI_REMOTE_WRITE | FI_REMOTE_READ)) != 0)
        return -FI_EINVAL;
    if (mr->cntr != NULL) return -FI_EINVAL;
    afi_lock();
    mr->cntr = AQI_OF(bfid, struct afi_cntr, fid.fid);
    mr->cntr->users++;
    mr->counted = flags != 0 ? flags : FI_REMOTE_WRITE | FI_REMOTE_READ;
    afi_unlock();
    return 0;
}

/* The raw key is the key itself. */
static int domain_mr_raw(const struct afi_mr *mr, const struct fi_mr_raw_attr *raw)
{
    size_t room = *raw->key_size, size = sizeof(mr->fid.key);
    *raw->key_size = size;
    if (room < size) return -FI_ETOOSMALL;
    *raw->base_addr = mr->domain->virtual ? (uintptr_t)mr->at : 0;
    memcpy(raw->raw_key, &mr->fid.key, size);
    return 0;
}

/* Nothing of a registration is cached, so there is nothing to refresh. */
static int domain_mr_control(struct fid *fid, int command, void *arg)
{
    if (command == FI_GET_RAW_MR) return domain_mr_raw(AQI_OF(fid, struct afi_mr, fid.fid), arg);
    return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops domain_mr_ops = {.size = sizeof(struct fi_ops),
                                      .close = domain_mr_close,
                                      .bind = domain_mr_bind,
                                      .control = domain_mr_control,
                                      .ops_open = afi_no_ops_open};

static int domain_mr_add(struct afi_domain *domain, struct afi_mr *mr, uint64_t wanted)
{
    uint64_t key = wanted;
    if (domain->chooses_keys) {
        while (afi_mr_of(domain, domain->next_key) != NULL)
            domain->next_key++;
        key = domain->next_key++;
    } else if (key == FI_KEY_NOTAVAIL) {
        return -FI_EKEYREJECTED;
    } else if (afi_mr_of(domain, key) != NULL) {
        return -FI_ENOKEY;
    }
    mr->fid.key = key;
    mr->fid.mem_desc = mr;
    const struct fi_eq_entry event = {.fid = &mr->fid.fid, .context = mr->fid.fid.context};
    if (domain->reports && afi_eq_write(domain->eq, FI_MR_COMPLETE, &event, sizeof(event)) != 0)
        return -FI_ENOMEM;
    aqi_list_append(domain_mr_bucket(domain, key), &mr->link);
    domain->users++;
    if (++domain->mr_count > domain->mr_room)
        domain_grow(&domain->mr_buckets, &domain->mr_room, domain_mr_hash);
    return 0;
}

static int domain_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                             struct fid_mr **out)
{
    struct afi_domain *domain = AQI_OF(fid, struct afi_domain, fid.fid);
    if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1 || attr->mr_iov == NULL ||
        attr->offset != 0)
        return -FI_EINVAL;
    /* Do not read `iface`, which is for FI_HMEM: the structure of older programs ends before it. */
    if ((flags & ~(FI_RMA_EVENT)) != 0) return -FI_EBADFLAGS;
    struct afi_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) return -FI_ENOMEM;
    *mr = (struct afi_mr){
        .fid = {.fid = {.fclass = FI_CLASS_MR, .context = attr->context, .ops = &domain_mr_ops}},
        .domain = domain,
        .at = attr->mr_iov->iov_base,
        .len = attr->mr_iov->iov_len,
        .access = attr->access};
    afi_lock();
    int err = domain_mr_add(domain, mr, attr->requested_key);
    afi_unlock();
    if (err != 0)
        free(mr);
    else
        *out = &mr->fid;
    return err;
}

static int domain_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                          uint64_t offset, uint64_t requested_key, uint64_t flags,
                          struct fid_mr **mr, void *context)
{
    const struct fi_mr_attr attr = {.mr_iov = iov,
                                    .iov_count = count,
                                    .access = access,
                                    .offset = offset,
                                    .requested_key = requested_key,
                                    .context = context};
    return domain_mr_regattr(fid, &attr, flags, mr);
}

static int domain_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                         uint64_t offset, uint64_t requested_key, uint64_t flags,
                         struct fid_mr **mr, void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return domain_mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

static struct fi_ops_mr domain_reg_ops = {.size = sizeof(struct fi_ops_mr),
                                          .reg = domain_mr_reg,
                                          .regv = domain_mr_regv,
                                          .regattr = domain_mr_regattr};

/* --- domains --------------------------------------------------------------------------------- */

static int domain_no_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                         void *context)
{
    return -FI_ENOSYS;
}

static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = afi_av_open,
                                          .cq_open = afi_cq_open,
                                          .endpoint = afi_ep_open,
                                          .scalable_ep = domain_no_sep,
                                          .cntr_open = afi_cntr_open,
                                          .poll_open = afi_poll_open,
                                          .stx_ctx = afi_stx_open,
                                          .srx_ctx = afi_srx_open,
                                          .query_atomic = afi_atomic_query};

static void domain_free(struct afi_domain *domain)
{
    free(domain->ident_buckets);
    free(domain->mr_buckets);
    free(domain);
}

static int domain_close(struct fid *fid)
{
    struct afi_domain *domain = AQI_OF(fid, struct afi_domain, fid.fid);
    afi_lock();
    bool busy = domain->users != 0;
    if (!busy && domain->eq != NULL) domain->eq->users--;
    if (!busy && domain->progresses) afi_thread_stop();
    if (!busy && --afi.domains == 0) afi_library_close();
    if (!busy) domain->fabric->users--;
    if (!busy) aqi_list_remove(&domain->link);
    afi_unlock();
    if (busy) return -FI_EBUSY;
    domain_free(domain);
    return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct afi_domain *domain = AQI_OF(fid, struct afi_domain, fid.fid);
    if ((flags & ~AFI_REG_MR) != 0) return -FI_EBADFLAGS;
    if (bfid->fclass != FI_CLASS_EQ || domain->eq != NULL) return -FI_EINVAL;
    afi_lock();
    domain->eq = AQI_OF(bfid, struct afi_eq, fid.fid);
    domain->eq->users++;
    domain->reports = (flags & AFI_REG_MR) != 0;
    afi_unlock();
    return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    if (command == FI_UNMAP_KEY) return 0;
    if (command != FI_MAP_RAW_MR) return -FI_ENOSYS;
    const struct fi_mr_map_raw *map = arg;
    if (map->key_size != sizeof(*map->key)) return -FI_EINVAL;
    memcpy(map->key, map->raw_key, sizeof(*map->key));
    return 0;
}

static struct fi_ops domain_fid_ops = {.size = sizeof(struct fi_ops),
                                       .close = domain_close,
                                       .bind = domain_bind,
                                       .control = domain_control,
                                       .ops_open = afi_no_ops_open};

static void domain_choose_mr(struct afi_domain *domain, int mode)
{
    domain->virtual = mode == AFI_MR_BASIC || (mode & FI_MR_VIRT_ADDR) != 0;
    domain->chooses_keys = mode == AFI_MR_BASIC || (mode & FI_MR_PROV_KEY) != 0;
}

int afi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                    void *context)
{
    int err = afi_info_check(info);
    if (err != 0) return err;
    struct afi_domain *domain = calloc(1, sizeof(*domain));
    struct aqi_node *mrs = domain_new_buckets(DOMAIN_BUCKETS);
    struct aqi_node *idents = domain_new_buckets(DOMAIN_BUCKETS);
    if (domain == NULL || mrs == NULL || idents == NULL) {
        free(domain);
        free(mrs);
        free(idents);
        return -FI_ENOMEM;
    }
    *domain = (struct afi_domain){
        .fid = {.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops},
                .ops = &domain_ops,
                .mr = &domain_reg_ops},
        .fabric = AQI_OF(fabric, struct afi_fabric, fid),
        .version = fabric->api_version,
        .sockets = afi_info_has_sockets(info),
        .av_type = info->domain_attr->av_type,
        .progresses = info->domain_attr->data_progress == FI_PROGRESS_AUTO,
        .ident_buckets = idents,
        .ident_room = DOMAIN_BUCKETS,
        .mr_buckets = mrs,
        .mr_room = DOMAIN_BUCKETS,
        .next_key = 1};
    domain_choose_mr(domain, info->domain_attr->mr_mode);
    afi_lock();
    err = afi_library_open();
    afi.domains += err == 0; /* the start of the thread may release the lock */
    if (err == 0 && domain->progresses) {
        err = afi_thread_start();
        afi.domains -= err != 0;
    }
    if (err == 0) {
        domain->fabric->users++;
        aqi_list_append(&domain->fabric->domains, &domain->link);
    }
    afi_unlock();
    if (err != 0) {
        domain_free(domain);
        return err;
    }
    *out = &domain->fid;
    return 0;
}
