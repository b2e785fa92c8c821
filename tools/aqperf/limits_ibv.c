/* The limits of a fabric with verbs: one queue pair on the adapter that the transport ibv uses. */
#include "limits_fabric.h"
#include "transport/ibv/hca_verbs.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE = 4 * FABRIC_IN_FLIGHT, RECEIVES = 8, INLINE = 72, READS = 16, HOPS = 64 };
enum { CARD_QP, CARD_LID, CARD_MTU, CARD_KEY, CARD_ADDR, CARD_GID /* two words */ };

static struct {
    struct ibv_context *context;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct fabric_memory memory;
    uint8_t number, gid_index;
    uint32_t inline_limit, key;
    uint64_t there;
} hca;

/* --- opening --------------------------------------------------------------------------------- */

/* Open "DEVICE:PORT" as reported by the library: the first one, or if processes are spread, one for
 * each. */
static bool hca_open_device(unsigned rank)
{
    const char *name = fabric_device("ibv", 0), *other = fabric_device("ibv", rank);
    if (strcmp(measure_setting("AQ_IBV_SPREAD"), "yes") == 0 && other[0] != 0) name = other;
    size_t len = strcspn(name, ":");
    struct ibv_device **list = hca_verbs.get_device_list(NULL);
    for (unsigned i = 0; list != NULL && list[i] != NULL && hca.context == NULL; i++) {
        const char *here = hca_verbs.get_device_name(list[i]);
        if (strlen(here) == len && memcmp(here, name, len) == 0)
            hca.context = hca_verbs.open_device(list[i]);
    }
    if (list != NULL) hca_verbs.free_device_list(list);
    hca.number = name[len] == ':' ? (uint8_t)atoi(name + len + 1) : 1;
    return hca.context != NULL && hca_verbs.query_device(hca.context, &hca.device) == 0 &&
           hca_verbs.query_port(hca.context, hca.number, &hca.port) == 0;
}

/* On Ethernet, find the last GID of an IPv4 network: with two RoCE versions, that is version 2. */
static void hca_find_gid(union ibv_gid *gid)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    for (int i = 0; i < hca.port.gid_tbl_len; i++)
        if (hca_verbs.query_gid(hca.context, hca.number, i, gid) == 0 &&
            memcmp(gid, mapped, sizeof(mapped)) == 0)
            hca.gid_index = (uint8_t)i;
    (void)hca_verbs.query_gid(hca.context, hca.number, hca.gid_index, gid);
}

static bool hca_open_queues(void)
{
    struct ibv_qp_init_attr init = {.cap = {.max_send_wr = QUEUE,
                                            .max_recv_wr = RECEIVES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = INLINE},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = hca.number,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    hca.pd = hca_verbs.alloc_pd(hca.context);
    hca.cq = hca_verbs.create_cq(hca.context, 2 * QUEUE, NULL, NULL, 0);
    if (hca.pd == NULL || hca.cq == NULL) return false;
    init.send_cq = init.recv_cq = hca.cq;
    hca.qp = hca_verbs.create_qp(hca.pd, &init);
    while (hca.qp == NULL && init.cap.max_inline_data != 0) { /* the adapter supports less */
        init.cap.max_inline_data /= 2;
        hca.qp = hca_verbs.create_qp(hca.pd, &init);
    }
    hca.inline_limit = init.cap.max_inline_data;
    hca.mr =
        hca_verbs.reg_mr(hca.pd, hca.memory.outgoing, 2 * hca.memory.len,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    return hca.qp != NULL && hca.mr != NULL &&
           hca_verbs.modify_qp(hca.qp, &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                   IBV_QP_ACCESS_FLAGS) == 0;
}

static size_t hca_open(unsigned rank, const struct fabric_memory *memory,
                       uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY])
{
    union ibv_gid gid;
    const char *missing = hca_verbs_missing();
    hca.memory = *memory;
    if (missing != NULL || !hca_open_device(rank) || !hca_open_queues()) {
        snprintf(why, FABRIC_WHY, "%s", missing != NULL ? missing : strerror(errno));
        return 0;
    }
    hca_find_gid(&gid);
    card[CARD_QP] = hca.qp->qp_num;
    card[CARD_LID] = hca.port.lid;
    card[CARD_MTU] = hca.port.active_mtu;
    card[CARD_KEY] = hca.mr->rkey;
    card[CARD_ADDR] = (uintptr_t)memory->incoming;
    memcpy(&card[CARD_GID], &gid, sizeof(gid));
    return hca.port.max_msg_sz;
}

static bool hca_connect(const uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY])
{
    uint64_t mtu = card[CARD_MTU] < hca.port.active_mtu ? card[CARD_MTU] : hca.port.active_mtu;
    int reads = hca.device.max_qp_rd_atom < READS ? hca.device.max_qp_rd_atom : READS;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = (enum ibv_mtu)mtu,
                               .dest_qp_num = (uint32_t)card[CARD_QP],
                               .max_dest_rd_atomic = (uint8_t)reads,
                               .min_rnr_timer = 12};
    attr.ah_attr.port_num = hca.number;
    attr.ah_attr.dlid = (uint16_t)card[CARD_LID];
    attr.ah_attr.is_global = hca.port.link_layer == IBV_LINK_LAYER_ETHERNET;
    attr.ah_attr.grh.sgid_index = hca.gid_index;
    attr.ah_attr.grh.hop_limit = HOPS;
    memcpy(&attr.ah_attr.grh.dgid, &card[CARD_GID], sizeof(attr.ah_attr.grh.dgid));
    hca.key = (uint32_t)card[CARD_KEY];
    hca.there = card[CARD_ADDR];
    int err =
        hca_verbs.modify_qp(hca.qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 18,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = (uint8_t)reads};
    if (err == 0)
        err = hca_verbs.modify_qp(hca.qp, &attr,
                                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (err != 0) snprintf(why, FABRIC_WHY, "cannot connect the queue pair: %s", strerror(err));
    return err == 0;
}

static void hca_close(void)
{
    if (hca.qp != NULL) hca_verbs.destroy_qp(hca.qp);
    if (hca.mr != NULL) hca_verbs.dereg_mr(hca.mr);
    if (hca.cq != NULL) hca_verbs.destroy_cq(hca.cq);
    if (hca.pd != NULL) hca_verbs.dealloc_pd(hca.pd);
    if (hca.context != NULL) hca_verbs.close_device(hca.context);
}

/* --- operations ------------------------------------------------------------------------------ */

static bool hca_post(enum fabric_op op, size_t size)
{
    static const enum ibv_wr_opcode codes[FABRIC_OPS] = {[FABRIC_SEND] = IBV_WR_SEND,
                                                         [FABRIC_PUT] = IBV_WR_RDMA_WRITE,
                                                         [FABRIC_GET] = IBV_WR_RDMA_READ};
    bool out = op == FABRIC_SEND || op == FABRIC_PUT;
    struct ibv_sge piece = {(uintptr_t)(out ? hca.memory.outgoing : hca.memory.incoming),
                            (uint32_t)size, hca.mr->lkey};
    if (op == FABRIC_RECEIVE) {
        struct ibv_recv_wr *bad, wr = {.wr_id = op, .sg_list = &piece, .num_sge = 1};
        return ibv_post_recv(hca.qp, &wr, &bad) == 0;
    }
    struct ibv_send_wr *bad, wr = {.wr_id = op,
                                   .sg_list = &piece,
                                   .num_sge = 1,
                                   .opcode = codes[op],
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {hca.there, hca.key}};
    if (out && size <= hca.inline_limit) wr.send_flags |= IBV_SEND_INLINE;
    return ibv_post_send(hca.qp, &wr, &bad) == 0;
}

static int hca_poll(enum fabric_op *completed, char why[FABRIC_WHY])
{
    struct ibv_wc wc;
    int got = ibv_poll_cq(hca.cq, 1, &wc);
    if (got == 0) return 0;
    if (got < 0 || wc.status != IBV_WC_SUCCESS) {
        snprintf(why, FABRIC_WHY, "%s",
                 got < 0 ? "polling the completion queue failed"
                         : hca_verbs.wc_status_str(wc.status));
        return -1;
    }
    *completed = (enum fabric_op)wc.wr_id;
    return 1;
}

const struct fabric fabric_ibv = {.transport = "ibv",
                                  .first = LIMIT_IBV,
                                  .open = hca_open,
                                  .connect = hca_connect,
                                  .post = hca_post,
                                  .poll = hca_poll,
                                  .close = hca_close};
