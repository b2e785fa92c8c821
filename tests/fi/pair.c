/* Two endpoints of the provider in one process, for tests of single calls. */
#include "fi/pair.h"

#include <stdio.h>
#include <time.h>

uint64_t pair_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int pair_find(const struct pair_wish *wish, struct fi_info **info)
{
    struct fi_info *hints = fi_allocinfo();
    CHECK(hints != NULL);
    hints->caps = wish->caps;
    hints->addr_format = wish->format;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->op_flags = wish->tx_flags;
    hints->domain_attr->mr_mode = wish->mr_mode;
    hints->domain_attr->av_type = wish->av_type;
    hints->domain_attr->data_progress = wish->automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    if (wish->srx) hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    uint32_t version = wish->version != 0 ? wish->version : FI_VERSION(1, 17);
    int err = fi_prov_ini()->getinfo(version, wish->node, wish->service, wish->flags, hints, info);
    fi_freeinfo(hints);
    return err;
}

int side_try(struct side *side, const struct pair_wish *wish)
{
    struct fi_av_attr av = {.type = wish->av_type};
    struct fi_wait_attr set = {.wait_obj = wish->set};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wish->wait};
    struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_NONE};
    memset(side, 0, sizeof(*side));
    CHECK_EQUAL(pair_find(wish, &side->info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(side->info->fabric_attr, &side->fabric, NULL), 0);
    CHECK_EQUAL(fi_domain(side->fabric, side->info, &side->domain, NULL), 0);
    if (wish->wait == FI_WAIT_SET) CHECK_EQUAL(fi_wait_open(side->fabric, &set, &side->set), 0);
    cq.wait_set = side->set;
    CHECK_EQUAL(fi_av_open(side->domain, &av, &side->av, NULL), 0);
    CHECK_EQUAL(fi_cq_open(side->domain, &cq, &side->tx, NULL), 0);
    CHECK_EQUAL(fi_cq_open(side->domain, &cq, &side->rx, NULL), 0);
    CHECK_EQUAL(fi_cntr_open(side->domain, &cntr, &side->reads, NULL), 0);
    CHECK_EQUAL(fi_cntr_open(side->domain, &cntr, &side->writes, NULL), 0);
    CHECK_EQUAL(fi_cntr_open(side->domain, &cntr, &side->served, NULL), 0);
    CHECK_EQUAL(fi_endpoint(side->domain, side->info, &side->ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT | wish->cq_flags), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->rx->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->reads->fid, FI_READ), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->writes->fid, FI_WRITE), 0);
    CHECK_EQUAL(fi_ep_bind(side->ep, &side->served->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
    side->in = side->ep;
    if (wish->srx) {
        CHECK_EQUAL(fi_srx_context(side->domain, side->info->rx_attr, &side->srx, NULL), 0);
        CHECK_EQUAL(fi_ep_bind(side->ep, &side->srx->fid, 0), 0);
        side->in = side->srx;
    }
    return fi_enable(side->ep);
}

int pair_find_by(uint32_t version, const struct fi_info *hints, struct fi_info **info)
{
    return fi_prov_ini()->getinfo(version, NULL, NULL, 0, hints, info);
}

void side_open(struct side *side, const struct pair_wish *wish)
{
    CHECK_EQUAL(side_try(side, wish), 0);
}

fi_addr_t side_insert(struct side *side, const void *name)
{
    fi_addr_t addr;
    CHECK_EQUAL(fi_av_insert(side->av, name, 1, &addr, 0, NULL), 1);
    return addr;
}

void side_know(struct side *side, const void *other, size_t len)
{
    char name[64];
    CHECK_EQUAL(len, sizeof(name));
    side->other = side_insert(side, other);
    CHECK_EQUAL(fi_getname(&side->ep->fid, name, &len), 0);
    side->self = side_insert(side, name);
}

void pair_open(struct pair *pair, const struct pair_wish *wish)
{
    char a[128], b[128];
    size_t a_len = sizeof(a), b_len = sizeof(b);
    side_open(&pair->a, wish);
    side_open(&pair->b, wish);
    CHECK_EQUAL(fi_getname(&pair->a.ep->fid, a, &a_len), 0);
    CHECK_EQUAL(fi_getname(&pair->b.ep->fid, b, &b_len), 0);
    CHECK(a_len <= 64); /* as much as Open MPI has room for */
    side_know(&pair->a, b, b_len);
    side_know(&pair->b, a, a_len);
}

void side_close(struct side *side)
{
    struct fid *fids[] = {&side->ep->fid,     side->srx != NULL ? &side->srx->fid : NULL,
                          &side->tx->fid,     &side->rx->fid,
                          &side->reads->fid,  &side->writes->fid,
                          &side->served->fid, &side->av->fid,
                          &side->domain->fid, side->set != NULL ? &side->set->fid : NULL,
                          &side->fabric->fid};
    for (size_t i = 0; i < COUNT_OF(fids); i++)
        if (fids[i] != NULL) CHECK_EQUAL(fi_close(fids[i]), 0);
    fi_freeinfo(side->info);
}

void pair_close(struct pair *pair)
{
    side_close(&pair->a);
    side_close(&pair->b);
}

/* Make progress: reading a counter does that, and removes nothing from a queue. */
void pair_move(struct pair *pair)
{
    (void)fi_cntr_read(pair->a.reads);
}

struct fi_cq_tagged_entry pair_next(struct pair *pair, struct fid_cq *cq, fi_addr_t *source)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    fi_addr_t from;
    uint64_t until = pair_now() + UINT64_C(30000000000);
    for (;;) {
        ssize_t got = fi_cq_readfrom(cq, &entry, 1, &from);
        if (got == 1) break;
        if (got == -FI_EAVAIL) {
            CHECK_EQUAL(fi_cq_readerr(cq, &error, 0), 1);
            check_failed(__FILE__, __LINE__, "an error completion: %s", fi_strerror(error.err));
        }
        CHECK_EQUAL(got, -FI_EAGAIN);
        CHECK(pair_now() < until);
        pair_move(pair);
    }
    if (source != NULL) *source = from;
    return entry;
}

struct fi_cq_err_entry pair_error(struct pair *pair, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    uint64_t until = pair_now() + UINT64_C(30000000000);
    ssize_t got;
    while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
        CHECK(pair_now() < until);
        pair_move(pair);
    }
    CHECK_EQUAL(got, -FI_EAVAIL);
    CHECK_EQUAL(fi_cq_readerr(cq, &error, 0), 1);
    return error;
}

void pair_none(struct pair *pair, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    for (unsigned i = 0; i < 2000; i++) {
        CHECK_EQUAL(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
        pair_move(pair);
    }
}

void pattern_fill(void *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(i * 7 + seed * 31 + (i >> 8));
}

void pattern_check(const void *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (((const unsigned char *)bytes)[i] != (unsigned char)(i * 7 + seed * 31 + (i >> 8)))
            check_failed(__FILE__, __LINE__, "byte %zu of %zu is wrong", i, len);
}
