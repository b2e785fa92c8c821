/* fi: address vectors. Both types number their addresses from 0. */
#include "front/fi/fi.h"

#include "base/array.h"
#include "base/log.h"
#include "base/wire.h"

#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static struct afi_av *av_of(struct fid_av *fid)
{
    return AQI_OF(fid, struct afi_av, fid);
}

static bool av_make_room(struct afi_av *av, size_t count)
{
    if (av->domain->sockets &&
        !aqi_array_reserve(&av->ips, &av->ip_room, count, sizeof(av->ips[0])))
        return false;
    return aqi_array_reserve(&av->idents, &av->room, count, sizeof(av->idents[0]));
}

/* Insert at the first free index. Returns 0 or a positive error. */
static int av_insert_one(struct afi_av *av, const struct afi_name *name, fi_addr_t *addr)
{
    fi_addr_t at = av->first_free;
    *addr = FI_ADDR_NOTAVAIL;
    if (afi_name_is_other(name)) {
        char why[200];
        aqi_wire_differs(why, sizeof(why), AQI_WIRE_FI, "the peer", name->version, "this process");
        aqi_log(AQI_LOG_ERROR, "fi", "%s", why);
    }
    if (!afi_name_is_reachable(name)) return FI_EINVAL;
    while (at < av->count && av->idents[at] != NULL)
        at++;
    if (!av_make_room(av, at + 1)) return FI_ENOMEM;
    struct afi_ident *ident = afi_ident_get(av->domain, name);
    if (ident == NULL) return FI_ENOMEM;
    ident->places++;
    ident->av = av;
    ident->addr = *addr = at;
    av->idents[at] = ident;
    if (av->domain->sockets) memcpy(&av->ips[at], name->address[0], sizeof(av->ips[at]));
    av->first_free = at + 1;
    av->count = aqi_max(av->count, av->first_free);
    return 0;
}

static int av_report_error(struct afi_av *av, size_t index, int err, void *context)
{
    const struct fi_eq_err_entry event = {
        .fid = &av->fid.fid, .context = context, .data = index, .err = err, .prov_errno = -err};
    return afi_eq_write(av->eq, AFI_EQ_ERROR, &event, sizeof(event));
}

static int av_report(struct afi_av *av, int fine, void *context)
{
    const struct fi_eq_entry event = {
        .fid = &av->fid.fid, .context = context, .data = (uint64_t)fine};
    return afi_eq_write(av->eq, FI_AV_COMPLETE, &event, sizeof(event));
}

static int av_insert_all(struct afi_av *av, bool sockets, const void *addrs, size_t count,
                         fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    int *errors = (flags & FI_SYNC_ERR) != 0 ? context : NULL;
    int fine = 0, lost = 0;
    if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0) return -FI_EBADFLAGS;
    if (av->reports && errors != NULL) return -FI_EINVAL;
    if (av->reports && av->eq == NULL) return -FI_ENOEQ;
    afi_lock();
    for (size_t i = 0; i < count; i++) {
        struct afi_name name;
        fi_addr_t got;
        afi_name_read(sockets, (const unsigned char *)addrs + i * afi_name_size(sockets), &name);
        int err = av_insert_one(av, &name, &got);
        if (fi_addr != NULL) fi_addr[i] = got;
        if (errors != NULL) errors[i] = err;
        if (err != 0 && av->reports) lost = av_report_error(av, i, err, context);
        fine += err == 0;
    }
    if (av->reports && lost == 0) lost = av_report(av, fine, context);
    afi_unlock();
    return av->reports ? lost : fine;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    struct afi_av *av = av_of(fid);
    return av_insert_all(av, av->domain->sockets, addr, count, fi_addr, flags, context);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct afi_name name;
    int err = node != NULL ? afi_name_resolve(&name, node, service, 0, false) : -FI_EINVAL;
    return err == 0 ? av_insert_all(av_of(fid), false, &name, 1, fi_addr, flags, context) : err;
}

/* Addresses that cannot be resolved are reported as those of av_insert that are not valid. */
static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    char host[NI_MAXHOST], port[32];
    if (node == NULL || service == NULL) return -FI_EINVAL;
    if (svccnt != 0 && nodecnt > INT_MAX / svccnt) return -FI_EINVAL;
    struct afi_name *names = calloc(aqi_max(nodecnt * svccnt, 1), sizeof(*names));
    if (names == NULL) return -FI_ENOMEM;
    bool fits = true;
    for (size_t i = 0; i < nodecnt && fits; i++)
        for (size_t j = 0; j < svccnt && fits; j++) {
            struct afi_name *name = &names[i * svccnt + j];
            fits = afi_name_add(node, i, host, sizeof(host)) &&
                   afi_name_add(service, j, port, sizeof(port));
            if (fits && afi_name_resolve(name, host, port, 0, false) != 0)
                *name = (struct afi_name){.count = 0};
        }
    int got = -FI_EINVAL;
    if (fits)
        got = av_insert_all(av_of(fid), false, names, nodecnt * svccnt, fi_addr, flags, context);
    free(names);
    return got;
}

static bool av_remove_one(struct afi_av *av, fi_addr_t addr)
{
    struct afi_ident *ident = afi_av_ident(av, addr);
    if (ident == NULL) return false;
    av->idents[addr] = NULL;
    av->first_free = aqi_min(av->first_free, addr);
    afi.lost += --ident->places == 0;
    if (ident->av == av && ident->addr == addr) ident->av = NULL;
    afi_ident_put(ident);
    return true;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    bool known = true;
    if (flags != 0) return -FI_EBADFLAGS;
    afi_lock();
    for (size_t i = 0; i < count; i++)
        known = av_remove_one(av_of(fid), fi_addr[i]) && known;
    afi_unlock();
    return known ? 0 : -FI_EINVAL;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    const struct afi_av *av = av_of(fid);
    bool sockets = av->domain->sockets;
    struct afi_name name;
    unsigned char bytes[sizeof(name)];
    size_t room = *addrlen, size = afi_name_size(sockets);
    afi_lock();
    const struct afi_ident *ident = afi_av_ident(av, fi_addr);
    if (ident != NULL) name = ident->name;
    if (ident != NULL && sockets) memcpy(name.address[0], &av->ips[fi_addr], sizeof(av->ips[0]));
    afi_unlock();
    if (ident == NULL) return -FI_EINVAL;
    afi_name_write(sockets, &name, bytes);
    memcpy(addr, bytes, aqi_min(room, size));
    *addrlen = size;
    return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    *len = (size_t)afi_name_text(av_of(fid)->domain->sockets, addr, buf, *len) + 1;
    return buf;
}

static struct fi_ops_av av_ops = {.size = sizeof(struct fi_ops_av),
                                  .insert = av_insert,
                                  .insertsvc = av_insertsvc,
                                  .insertsym = av_insertsym,
                                  .remove = av_remove,
                                  .lookup = av_lookup,
                                  .straddr = av_straddr};

static int av_close(struct fid *fid)
{
    struct afi_av *av = AQI_OF(fid, struct afi_av, fid.fid);
    afi_lock();
    bool busy = av->users != 0;
    for (size_t i = 0; !busy && i < av->count; i++)
        (void)av_remove_one(av, i);
    if (!busy) av->domain->users--;
    if (!busy && av->eq != NULL) av->eq->users--;
    afi_unlock();
    if (busy) return -FI_EBUSY;
    free(av->idents);
    free(av->ips);
    free(av);
    return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct afi_av *av = AQI_OF(fid, struct afi_av, fid.fid);
    if (flags != 0) return -FI_EBADFLAGS;
    if (bfid->fclass != FI_CLASS_EQ || av->eq != NULL) return -FI_EINVAL;
    afi_lock();
    av->eq = AQI_OF(bfid, struct afi_eq, fid.fid);
    av->eq->users++;
    afi_unlock();
    return 0;
}

static struct fi_ops av_fid_ops = {.size = sizeof(struct fi_ops),
                                   .close = av_close,
                                   .bind = av_bind,
                                   .control = afi_no_control,
                                   .ops_open = afi_no_ops_open};

int afi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                void *context)
{
    struct afi_domain *owner = AQI_OF(domain, struct afi_domain, fid);
    if (attr == NULL) return -FI_EINVAL;
    if (attr->name != NULL || attr->rx_ctx_bits != 0) return -FI_ENOSYS;
    if ((unsigned)attr->type > FI_AV_TABLE) return -FI_EINVAL;
    if ((attr->flags & ~(FI_EVENT | AFI_SYMMETRIC)) != 0) return -FI_EBADFLAGS;
    struct afi_av *av = calloc(1, sizeof(*av));
    if (av == NULL) return -FI_ENOMEM;
    if (attr->type == FI_AV_UNSPEC)
        attr->type = owner->av_type != FI_AV_UNSPEC ? owner->av_type : FI_AV_MAP;
    *av = (struct afi_av){
        .fid = {.fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops},
                .ops = &av_ops},
        .domain = owner,
        .reports = (attr->flags & FI_EVENT) != 0};
    afi_use(&owner->users);
    *out = &av->fid;
    return 0;
}
