/*
 * Tests fetch.c: an endpoint that is closed while it fetches a message and the next one arrives.
 * Two endpoints of one process, which transfer as if each had its own.
 */
#include "front/fi/fi.h"

#include "base/capture_test.h"

#include <rdma/providers/fi_prov.h>
#include <stdlib.h>

struct fi_provider *fi_prov_ini(void);

enum { LEN = 4 << 20, PATIENCE_MS = 120000 };

static unsigned char sent[LEN], got[2][LEN];

static struct {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
} world;

static struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t other;
} from, to;

static void side_open(struct side *side, struct fi_info *info)
{
    struct fi_av_attr av = {.type = FI_AV_MAP};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    assert_int_equal(fi_av_open(world.domain, &av, &side->av, NULL), 0);
    assert_int_equal(fi_cq_open(world.domain, &cq, &side->cq, NULL), 0);
    assert_int_equal(fi_endpoint(world.domain, info, &side->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(side->ep), 0);
}

static void side_learn(struct side *side, const struct side *other)
{
    struct afi_name name;
    size_t len = sizeof(name);
    assert_int_equal(fi_getname(&other->ep->fid, &name, &len), 0);
    assert_int_equal(fi_av_insert(side->av, &name, 1, &side->other, 0, NULL), 1);
}

static void side_await(const struct side *side)
{
    struct fi_cq_tagged_entry entry;
    uint64_t until = afi_deadline(PATIENCE_MS);
    while (fi_cq_read(side->cq, &entry, 1) != 1)
        assert_true(afi_now() < until);
}

static struct afi_peer *side_peer(const struct side *side)
{
    return afi_peer_of(AQI_OF(side->ep, struct afi_ep, fid), side->other);
}

static int open_world(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    (void)state;
    assert_int_equal(setenv("AQ_SHM_CMA", "no", 1), 0); /* a transfer takes several polls */
    assert_int_equal(fi_prov_ini()->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
    assert_int_equal(fi_prov_ini()->fabric(info->fabric_attr, &world.fabric, NULL), 0);
    assert_int_equal(fi_domain(world.fabric, info, &world.domain, NULL), 0);
    side_open(&from, info);
    side_open(&to, info);
    side_learn(&from, &to);
    side_learn(&to, &from);
    fi_freeinfo(hints);
    fi_freeinfo(info);
    return 0;
}

static void test_closing_while_messages_arrive(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) /* one to connect */
        assert_int_equal(fi_recv(to.ep, got[i], LEN, NULL, to.other, NULL), 0);
    assert_int_equal(fi_send(from.ep, sent, 1, NULL, from.other, NULL), 0);
    side_await(&from);
    side_await(&to);
    assert_int_equal(fi_recv(to.ep, got[0], LEN, NULL, to.other, NULL), 0);
    struct afi_peer *peer = side_peer(&to);
    assert_non_null(peer);
    peer->local = false;
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    for (uint64_t until = afi_deadline(PATIENCE_MS); aqi_list_is_empty(&afi.fetches);) {
        assert_true(afi_now() < until);
        afi_progress();
    }
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    assert_int_equal(fi_close(&to.ep->fid), 0);
    assert_true(aqi_list_is_empty(&afi.fetches));
    assert_int_equal(fi_close(&from.ep->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_closing_while_messages_arrive)};
    return cmocka_run_group_tests(tests, open_world, NULL);
}
