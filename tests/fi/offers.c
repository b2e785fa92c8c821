/* fi_getinfo: its results for programs written for each version of libfabric, and its refusals. */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <stdio.h>

/* Check that hints with this value find nothing. */
#define REFUSED(member, value)                                                                     \
    do {                                                                                           \
        struct fi_info *refused_hints = fi_allocinfo(), *refused_info;                             \
        refused_hints->member = (value);                                                           \
        if (pair_find_by(FI_VERSION(1, 17), refused_hints, &refused_info) != -FI_ENODATA)          \
            check_failed(__FILE__, __LINE__, "%s = %s is offered", #member, #value);               \
        fi_freeinfo(refused_hints);                                                                \
    } while (0)

/* FI_ORDER_STRICT and FI_ORDER_DATA, which libfabric 2 deprecates. */
enum { COMPLETIONS_IN_ORDER = 0x1ff, DATA_IN_ORDER = 1 << 16 };

static void refusals(void)
{
    for (uint64_t cap = 1; cap != 0; cap <<= 1) {
        if ((AFI_ALL_CAPS & cap) != 0) continue;
        REFUSED(caps, FI_MSG | FI_SOURCE | cap);
        REFUSED(tx_attr->caps, FI_MSG | cap);
        REFUSED(rx_attr->caps, FI_MSG | cap);
        REFUSED(domain_attr->caps, cap);
    }
    REFUSED(caps, FI_MSG | FI_SOURCE_ERR); /* without FI_SOURCE */
    REFUSED(addr_format, FI_SOCKADDR_IN6);
    REFUSED(addr_format, FI_ADDR_STR);
    REFUSED(src_addr, strdup("a name"));
    REFUSED(dest_addr, strdup("a name"));

    for (unsigned type = FI_EP_MSG; type <= FI_EP_RDM + 2; type++) /* the last ones: sockets */
        if (type != FI_EP_RDM) REFUSED(ep_attr->type, type);
    REFUSED(ep_attr->protocol, FI_PROTO_UDP);
    REFUSED(ep_attr->protocol_version, 2);
    REFUSED(ep_attr->max_msg_size, SIZE_MAX);
    REFUSED(ep_attr->msg_prefix_size, 8);
    REFUSED(ep_attr->max_order_raw_size, AFI_ATOMIC + 1);
    REFUSED(ep_attr->max_order_war_size, AFI_ATOMIC + 1);
    REFUSED(ep_attr->max_order_waw_size, AFI_ATOMIC + 1);
    REFUSED(ep_attr->auth_key_size, 8);
    REFUSED(ep_attr->tx_ctx_cnt, 2);
    REFUSED(ep_attr->rx_ctx_cnt, 2);

    REFUSED(tx_attr->op_flags, FI_COMMIT_COMPLETE);
    REFUSED(tx_attr->msg_order, FI_ORDER_RMA_WAW);
    REFUSED(tx_attr->comp_order, COMPLETIONS_IN_ORDER);
    REFUSED(tx_attr->inject_size, AFI_INJECT + 1);
    REFUSED(tx_attr->size, AFI_MOST_SIZE + 1);
    REFUSED(tx_attr->iov_limit, AFI_IOVS + 1);
    REFUSED(tx_attr->rma_iov_limit, AFI_IOVS + 1);
    REFUSED(rx_attr->op_flags, FI_COMMIT_COMPLETE);
    REFUSED(rx_attr->msg_order, FI_ORDER_RMA_WAW);
    REFUSED(rx_attr->comp_order, COMPLETIONS_IN_ORDER);
    REFUSED(rx_attr->comp_order, DATA_IN_ORDER);
    REFUSED(rx_attr->size, AFI_MOST_SIZE + 1);
    REFUSED(rx_attr->iov_limit, AFI_IOVS + 1);

    REFUSED(domain_attr->name, strdup("eth0"));
    REFUSED(domain_attr->mr_key_size, 9);
    REFUSED(domain_attr->cq_data_size, 9);
    REFUSED(domain_attr->cq_cnt, SIZE_MAX);
    REFUSED(domain_attr->ep_cnt, SIZE_MAX);
    REFUSED(domain_attr->tx_ctx_cnt, SIZE_MAX);
    REFUSED(domain_attr->rx_ctx_cnt, SIZE_MAX);
    REFUSED(domain_attr->max_ep_tx_ctx, 2);
    REFUSED(domain_attr->max_ep_rx_ctx, 2);
    REFUSED(domain_attr->max_ep_stx_ctx, SIZE_MAX);
    REFUSED(domain_attr->max_ep_srx_ctx, SIZE_MAX);
    REFUSED(domain_attr->cntr_cnt, SIZE_MAX);
    REFUSED(domain_attr->mr_iov_limit, 2);
    REFUSED(domain_attr->mr_cnt, SIZE_MAX);
    REFUSED(domain_attr->auth_key_size, 8);
    REFUSED(domain_attr->max_err_data, sizeof(struct afi_name) + 1);
    REFUSED(domain_attr->threading, AFI_THREAD_LAST + 1);
    REFUSED(domain_attr->control_progress, AFI_PROGRESS_CONTROL_UNIFIED + 1);
    REFUSED(domain_attr->data_progress, FI_PROGRESS_MANUAL + 1);
    REFUSED(domain_attr->resource_mgmt, FI_RM_ENABLED + 1);
    REFUSED(domain_attr->av_type, FI_AV_TABLE + 1);
    REFUSED(fabric_attr->name, strdup("eth0"));
}

static void offers(void)
{
    struct fi_info *info;
    struct pair_wish wish = {0};
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK(info->next == NULL);
    CHECK(info->fabric_attr->prov_name == NULL); /* libfabric fills it in */
    CHECK_EQUAL(info->domain_attr->mr_mode, 0);
    CHECK_EQUAL(info->mode, 0);
    CHECK(info->tx_attr->iov_limit >= 8 && info->rx_attr->iov_limit >= 8);
    CHECK((info->tx_attr->msg_order & FI_ORDER_SAS) != 0);
    CHECK(info->domain_attr->max_ep_srx_ctx >= info->domain_attr->ep_cnt);
    CHECK_EQUAL(info->caps & FI_SOURCE_ERR, 0); /* only if requested */
    struct fi_info *same;
    /* Whatever is offered can be requested. */
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), info, &same), 0);
    fi_freeinfo(same);
    fi_freeinfo(info);
    wish.caps = FI_TAGGED;
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(info->caps & (FI_TAGGED | FI_SEND | FI_RECV), FI_TAGGED | FI_SEND | FI_RECV);
    CHECK_EQUAL(info->caps & (FI_RMA | FI_ATOMIC | FI_MSG), 0);
    fi_freeinfo(info);
}

/* The capabilities of a context are among those of its endpoint, which are implied, too. */
static void subsets(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->caps = FI_MSG | FI_MULTI_RECV;
    hints->tx_attr->caps = FI_MSG | FI_SEND | FI_LOCAL_COMM;
    hints->rx_attr->caps = FI_MSG | FI_RECV | FI_MULTI_RECV;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK_EQUAL(info->tx_attr->caps, hints->tx_attr->caps);
    fi_freeinfo(info);
    hints->tx_attr->caps = FI_MSG | FI_TAGGED;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    hints->tx_attr->caps = 0;
    hints->rx_attr->caps = FI_MSG | FI_REMOTE_READ;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    fi_freeinfo(hints);
}

static void finds_open(const struct fi_info *hints, const struct side *side)
{
    struct fi_info *info;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK(info->fabric_attr->fabric == (side != NULL ? side->fabric : NULL));
    CHECK(info->domain_attr->domain == (side != NULL ? side->domain : NULL));
    fi_freeinfo(info);
}

/* A result refers to the objects that were opened first, unless it is restricted to others. */
static void open_objects(void)
{
    const struct pair_wish wish = {0};
    struct fi_info *hints = fi_allocinfo(), *info;
    struct side first, second;
    finds_open(hints, NULL);
    side_open(&first, &wish);
    side_open(&second, &wish);
    finds_open(hints, &first);
    hints->fabric_attr->fabric = second.fabric;
    finds_open(hints, &second);
    hints->domain_attr->domain = second.domain;
    finds_open(hints, &second);
    hints->fabric_attr->fabric = first.fabric;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    hints->fabric_attr->fabric = NULL;
    finds_open(hints, &second);
    side_close(&second);
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    hints->domain_attr->domain = NULL;
    finds_open(hints, &first);
    side_close(&first);
    finds_open(hints, NULL);
    fi_freeinfo(hints);
}

static int mr_mode_of(uint32_t version, int wanted)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    hints->domain_attr->mr_mode = wanted;
    CHECK_EQUAL(pair_find_by(version, hints, &info), 0);
    int mode = info->domain_attr->mr_mode;
    CHECK_EQUAL(info->fabric_attr->api_version, version);
    fi_freeinfo(hints);
    fi_freeinfo(info);
    return mode;
}

/* Programs written for older versions of libfabric, and queries without hints. */
static void versions(void)
{
    struct fi_info *info, *hints = fi_allocinfo();
    for (uint32_t minor = 0; minor <= 17; minor++) {
        uint32_t version = FI_VERSION(1, minor);
        CHECK_EQUAL(mr_mode_of(version, AFI_MR_BASIC), AFI_MR_BASIC);
        CHECK_EQUAL(mr_mode_of(version, AFI_MR_SCALABLE), AFI_MR_SCALABLE);
        CHECK_EQUAL(mr_mode_of(version, 0), minor < 5 ? AFI_MR_SCALABLE : 0);
        if (minor >= 5) /* the program supports these; none is required */
            CHECK_EQUAL(mr_mode_of(version, FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                                FI_MR_PROV_KEY | FI_MR_ENDPOINT),
                        0);
        CHECK_EQUAL(pair_find_by(version, NULL, &info), 0);
        fi_freeinfo(info);
    }
    hints->mode = ~UINT64_C(0);
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 5), hints, &info), 0);
    CHECK_EQUAL(info->mode, 0);
    fi_freeinfo(info);
    hints->ep_attr->type = FI_EP_MSG; /* only the provider's attributes are requested */
    CHECK_EQUAL(
        fi_prov_ini()->getinfo(FI_VERSION(1, 17), "nowhere", NULL, FI_PROV_ATTR_ONLY, hints, &info),
        0);
    CHECK(info->next == NULL && info->fabric_attr->prov_version != 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* Programs written for libfabric 2, whichever headers the provider was built with. */
static void version_2(void)
{
    struct fi_info *info, *hints = fi_allocinfo();
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), NULL, &info), 0);
    CHECK_EQUAL(info->domain_attr->av_type, FI_AV_MAP);
    fi_freeinfo(info);
    CHECK_EQUAL(pair_find_by(FI_VERSION(2, 1), NULL, &info), 0);
    CHECK_EQUAL(info->domain_attr->av_type, FI_AV_TABLE);
    CHECK_EQUAL(info->domain_attr->mr_mode, 0);
    CHECK_EQUAL(info->domain_attr->control_progress, FI_PROGRESS_MANUAL);
    fi_freeinfo(info);
    hints->domain_attr->control_progress = (enum fi_progress)AFI_PROGRESS_CONTROL_UNIFIED;
    CHECK_EQUAL(pair_find_by(FI_VERSION(2, 1), hints, &info), 0);
    CHECK_EQUAL((int)info->domain_attr->control_progress, AFI_PROGRESS_CONTROL_UNIFIED);
    CHECK_EQUAL(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    fi_freeinfo(info);
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    CHECK_EQUAL(pair_find_by(FI_VERSION(2, 1), hints, &info), 0);
    CHECK_EQUAL(info->domain_attr->control_progress, FI_PROGRESS_AUTO);
    fi_freeinfo(info);
    fi_freeinfo(hints);
#if FI_MAJOR_VERSION >= 2
    REFUSED(domain_attr->max_group_id, 1);
    REFUSED(domain_attr->max_ep_auth_key, 1);
#endif
}

/* The name of a peer can be given as an address. */
static void addresses(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct afi_name *name = malloc(sizeof(*name));
    CHECK_EQUAL(afi_name_make(name, 0), 0);
    name->transports = AFI_BY_UDP;
    hints->dest_addr = name;
    hints->dest_addrlen = sizeof(*name) - 1;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    hints->dest_addrlen = sizeof(*name);
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK_EQUAL(info->dest_addrlen, sizeof(*name));
    CHECK(memcmp(info->dest_addr, name, sizeof(*name)) == 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* Calls that an open fabric and the objects of a domain refuse. */
static void calls(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_av_attr av_attr = {.name = "shared"};
    struct fid_av *av;
    struct fid_ep *ep;
    struct fid_eq *eq;
    struct fid_pep *pep;
    void *ops = NULL;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_av_open(pair.a.domain, &av_attr, &av, NULL), -FI_ENOSYS);
    av_attr = (struct fi_av_attr){.type = FI_AV_TABLE + 1};
    CHECK_EQUAL(fi_av_open(pair.a.domain, &av_attr, &av, NULL), -FI_EINVAL);
    av_attr = (struct fi_av_attr){.flags = FI_READ}; /* of a shared vector */
    CHECK_EQUAL(fi_av_open(pair.a.domain, &av_attr, &av, NULL), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_scalable_ep(pair.a.domain, pair.a.info, &ep, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_passive_ep(pair.a.fabric, pair.a.info, &pep, NULL), -FI_ENOSYS);
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE, .flags = FI_PEER};
    struct fi_cq_attr cq_attr = {.flags = FI_PEER};
    struct fi_rx_attr rx_attr = {.op_flags = FI_PEER};
    struct fid_cq *cq;
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &eq_attr, &eq, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_cq_open(pair.a.domain, &cq_attr, &cq, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_srx_context(pair.a.domain, &rx_attr, &ep, NULL), -FI_ENOSYS);
    eq_attr.flags = 0;
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &eq_attr, &eq, NULL), 0);
    struct fid *fids[] = {&pair.a.fabric->fid, &pair.a.domain->fid, &pair.a.av->fid,
                          &pair.a.tx->fid,     &pair.a.reads->fid,  &eq->fid,
                          &pair.a.ep->fid};
    for (size_t i = 0; i < COUNT_OF(fids); i++) {
        CHECK_EQUAL(fi_open_ops(fids[i], "an interface", 0, &ops, NULL), -FI_ENOSYS);
        CHECK_EQUAL(fi_control(fids[i], FI_BACKLOG, &ops), -FI_ENOSYS);
    }
    CHECK_EQUAL(fi_tx_context(pair.a.ep, 0, pair.a.info->tx_attr, &ep, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_rx_context(pair.a.ep, 0, pair.a.info->rx_attr, &ep, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_setname(&pair.a.ep->fid, &av_attr, sizeof(av_attr)), -FI_EINVAL);
    CHECK_EQUAL(fi_endpoint2(pair.a.domain, pair.a.info, &ep, FI_PEER, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_set_ops(&pair.a.domain->fid, "an interface", 0, ops, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* An endpoint that no peer could reach cannot be enabled. */
static void unreachable(void)
{
    struct pair_wish wish = {0};
    struct side side = {0};
    struct fi_av_attr attr = {0};
    struct fi_cq_attr cq_attr = {0};
    const char *set = getenv("AQ_TRANSPORTS");
    char *old = strdup(set != NULL ? set : "loop,shm,udp");
    CHECK_EQUAL(setenv("AQ_TRANSPORTS", "loop", 1), 0);
    CHECK_EQUAL(pair_find(&wish, &side.info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(side.info->fabric_attr, &side.fabric, NULL), 0);
    CHECK_EQUAL(fi_domain(side.fabric, side.info, &side.domain, NULL), 0);
    CHECK_EQUAL(fi_av_open(side.domain, &attr, &side.av, NULL), 0);
    CHECK_EQUAL(fi_cq_open(side.domain, &cq_attr, &side.tx, NULL), 0);
    CHECK_EQUAL(fi_endpoint(side.domain, side.info, &side.ep, NULL), 0);
    CHECK_EQUAL(fi_enable(side.ep), -FI_ENOAV);
    CHECK_EQUAL(fi_ep_bind(side.ep, &side.av->fid, 0), 0);
    CHECK_EQUAL(fi_enable(side.ep), -FI_ENOCQ);
    CHECK_EQUAL(fi_ep_bind(side.ep, &side.tx->fid, FI_TRANSMIT), 0);
    CHECK_EQUAL(fi_enable(side.ep), -FI_ENODATA);
    CHECK_EQUAL(fi_close(&side.ep->fid), 0);
    CHECK_EQUAL(fi_close(&side.tx->fid), 0);
    CHECK_EQUAL(fi_close(&side.av->fid), 0);
    CHECK_EQUAL(fi_close(&side.domain->fid), 0);
    CHECK_EQUAL(fi_close(&side.fabric->fid), 0);
    fi_freeinfo(side.info);
    CHECK_EQUAL(setenv("AQ_TRANSPORTS", old, 1), 0);
    free(old);
}

int main(void)
{
    unreachable();
    refusals();
    addresses();
    calls();
    offers();
    subsets();
    open_objects();
    versions();
    version_2();
    puts("ok");
    return 0;
}
