/* Two endpoints of one process. What cannot be set up fails the test. */
#ifndef AFI_SIDES_TEST_H
#define AFI_SIDES_TEST_H

#include "front/fi/fi.h"

#include "base/capture_test.h"

#include <rdma/providers/fi_prov.h>
#include <stdlib.h>

struct fi_provider *fi_prov_ini(void);

enum { TIMEOUT_MS = 120000 };

static struct {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *info;
} world;

static struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t other;
} from, to;

static inline void side_open(struct side *side)
{
    struct fi_av_attr av = {.type = FI_AV_MAP};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    assert_int_equal(fi_av_open(world.domain, &av, &side->av, NULL), 0);
    assert_int_equal(fi_cq_open(world.domain, &cq, &side->cq, NULL), 0);
    assert_int_equal(fi_endpoint(world.domain, world.info, &side->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(side->ep), 0);
}

static inline struct afi_name side_name(const struct side *side)
{
    struct afi_name name;
    size_t len = sizeof(name);
    assert_int_equal(fi_getname(&side->ep->fid, &name, &len), 0);
    return name;
}

static inline void side_learn(struct side *side, const struct side *other)
{
    const struct afi_name name = side_name(other);
    assert_int_equal(fi_av_insert(side->av, &name, 1, &side->other, 0, NULL), 1);
}

static inline void side_await(const struct side *side)
{
    struct fi_cq_tagged_entry entry;
    uint64_t until = afi_deadline(TIMEOUT_MS);
    while (fi_cq_read(side->cq, &entry, 1) != 1)
        assert_true(aqi_now_ns() < until);
}

/* As a remote address. */
static inline uint64_t side_address(const void *at)
{
    const struct afi_domain *domain = AQI_OF(world.domain, const struct afi_domain, fid);
    return domain->virtual ? (uintptr_t)at : 0;
}

static inline struct afi_peer *side_peer(const struct side *side)
{
    return afi_peer_of(AQI_OF(side->ep, struct afi_ep, fid), side->other);
}

/* It remains until the process ends. */
static inline void world_open(void)
{
    struct fi_info *hints = fi_allocinfo();
    assert_int_equal(fi_prov_ini()->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &world.info),
                     0);
    assert_int_equal(fi_prov_ini()->fabric(world.info->fabric_attr, &world.fabric, NULL), 0);
    assert_int_equal(fi_domain(world.fabric, world.info, &world.domain, NULL), 0);
    fi_freeinfo(hints);
}

static inline void sides_open(void)
{
    world_open();
    side_open(&from);
    side_open(&to);
    side_learn(&from, &to);
    side_learn(&to, &from);
}

#endif
