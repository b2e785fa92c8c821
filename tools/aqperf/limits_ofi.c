/*
 * The limits of a fabric with libfabric: the provider that the transport ofi uses, with the same
 * hints.
 */
#include "limits_fabric.h"
#include "ofi_objects.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_WORDS = 32, SLOTS = 3 * FABRIC_IN_FLIGHT, BATCH = 16 };

/* A pending operation. */
struct slot {
    struct fi_context2 context; /* must be first: the provider requires it */
    enum fabric_op op;
    struct slot *next; /* in the free list */
};

static struct {
    struct ofi_objects open;
    struct fabric_memory memory;
    fi_addr_t peer;
    uint64_t key, there;
    struct slot slots[SLOTS], *free;
    unsigned injected; /* sends that completed immediately but have not been reported */
    struct fi_cq_entry found[BATCH];
    unsigned found_first, found_count;
} ofi;

/* --- opening --------------------------------------------------------------------------------- */

static struct fi_info *ofi_hints(void)
{
    const char *provider = measure_setting("AQ_OFI_PROVIDER");
    struct fi_info *hints = ofi_library.dupinfo(NULL);
    if (hints == NULL) return NULL;
    if (provider[0] == 0) provider = fabric_device("ofi", 0);
    if (provider[0] == 0) provider = "tcp";
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strndup(provider, strcspn(provider, " "));
    return hints;
}

/* Find the requested domain, or the first one that is not the loopback interface. */
static int ofi_find(void)
{
    const char *domain = measure_setting("AQ_OFI_DOMAIN");
    struct fi_info *list = NULL, *found = NULL, *hints = ofi_hints();
    int err = hints != NULL ? ofi_library_getinfo(hints, &list) : -FI_ENOMEM;
    for (struct fi_info *info = list; info != NULL; info = info->next) {
        bool loopback = strcmp(info->domain_attr->name, "lo") == 0;
        if (domain[0] != 0 ? strcmp(info->domain_attr->name, domain) != 0
                           : found != NULL && loopback)
            continue;
        found = info;
        if (!loopback) break;
    }
    if (found != NULL) ofi.open.info = ofi_library.dupinfo(found);
    if (list != NULL) ofi_library.freeinfo(list);
    if (hints != NULL) ofi_library.freeinfo(hints);
    return ofi.open.info != NULL ? 0 : err != 0 ? err : -FI_ENODATA;
}

static int ofi_register(void)
{
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    int err = fi_mr_reg(ofi.open.domain, ofi.memory.outgoing, 2 * ofi.memory.len, access, 0, 1, 0,
                        &ofi.open.mr, NULL);
    if (err != 0 || (ofi.open.info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0) return err;
    err = fi_mr_bind(ofi.open.mr, &ofi.open.ep->fid, 0);
    return err == 0 ? fi_mr_enable(ofi.open.mr) : err;
}

static size_t ofi_open(unsigned rank, const struct fabric_memory *memory,
                       uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY])
{
    /* Request a file descriptor if the provider supports it, as the library does: some providers
     * then poll their sockets in a different, faster way. */
    const struct fi_cq_attr queue = {
        .size = 2 * SLOTS, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
    size_t len = NAME_WORDS * sizeof(*card);
    const char *missing = ofi_library_missing(), *what;
    (void)rank;
    ofi.memory = *memory;
    for (unsigned i = 0; i < SLOTS; i++) {
        ofi.slots[i].next = ofi.free;
        ofi.free = &ofi.slots[i];
    }
    int err = missing == NULL ? ofi_find() : 0;
    if (missing == NULL && err == 0) err = ofi_objects_open(&ofi.open, &queue, &what);
    if (missing == NULL && err == 0) err = ofi_register();
    if (missing == NULL && err == 0) err = fi_getname(&ofi.open.ep->fid, card, &len);
    if (missing != NULL || err != 0) {
        snprintf(why, FABRIC_WHY, "%s", missing != NULL ? missing : ofi_library.strerror(-err));
        return 0;
    }
    bool virtual = (ofi.open.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    card[NAME_WORDS] = fi_mr_key(ofi.open.mr);
    card[NAME_WORDS + 1] = (virtual ? (uintptr_t)memory->outgoing : 0) + memory->len;
    return ofi.open.info->ep_attr->max_msg_size;
}

static bool ofi_connect(const uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY])
{
    ofi.key = card[NAME_WORDS];
    ofi.there = card[NAME_WORDS + 1];
    if (fi_av_insert(ofi.open.av, card, 1, &ofi.peer, 0, NULL) == 1) return true;
    snprintf(why, FABRIC_WHY, "the address of the peer is malformed");
    return false;
}

static void ofi_close(void)
{
    ofi_objects_close(&ofi.open);
}

/* --- operations ------------------------------------------------------------------------------ */

static ssize_t ofi_start(enum fabric_op op, size_t size, struct slot *slot)
{
    bool out = op == FABRIC_SEND || op == FABRIC_PUT;
    void *desc = fi_mr_desc(ofi.open.mr);
    struct iovec part = {out ? ofi.memory.outgoing : ofi.memory.incoming, size};
    struct fi_rma_iov there = {.addr = ofi.there, .len = size, .key = ofi.key};
    struct fi_msg_rma msg = {.msg_iov = &part,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = ofi.peer,
                             .rma_iov = &there,
                             .rma_iov_count = 1,
                             .context = slot};
    switch (op) {
    case FABRIC_SEND:
        return fi_send(ofi.open.ep, part.iov_base, size, desc, ofi.peer, slot);
    case FABRIC_RECEIVE:
        return fi_recv(ofi.open.ep, part.iov_base, size, desc, FI_ADDR_UNSPEC, slot);
    case FABRIC_PUT:
        return fi_writemsg(ofi.open.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    default:
        return fi_readmsg(ofi.open.ep, &msg, FI_COMPLETION);
    }
}

static bool ofi_post(enum fabric_op op, size_t size)
{
    struct slot *slot = ofi.free;
    if (op == FABRIC_SEND && size <= ofi.open.info->tx_attr->inject_size) {
        bool left = fi_inject(ofi.open.ep, ofi.memory.outgoing, size, ofi.peer) == 0;
        ofi.injected += left;
        return left;
    }
    if (slot == NULL) return false;
    struct slot *next = slot->next;
    slot->op = op;
    if (ofi_start(op, size, slot) != 0) return false;
    ofi.free = next;
    return true;
}

static int ofi_poll(enum fabric_op *completed, char why[FABRIC_WHY])
{
    struct fi_cq_err_entry error = {0};
    if (ofi.injected > 0) {
        ofi.injected--;
        *completed = FABRIC_SEND;
        return 1;
    }
    if (ofi.found_first == ofi.found_count) {
        ssize_t got = fi_cq_read(ofi.open.cq, ofi.found, BATCH);
        if (got == -FI_EAGAIN) return 0;
        if (got <= 0) {
            if (fi_cq_readerr(ofi.open.cq, &error, 0) == 1) got = -error.err;
            snprintf(why, FABRIC_WHY, "%s", ofi_library.strerror((int)-got));
            return -1;
        }
        ofi.found_first = 0;
        ofi.found_count = (unsigned)got;
    }
    struct slot *slot = ofi.found[ofi.found_first++].op_context;
    *completed = slot->op;
    slot->next = ofi.free;
    ofi.free = slot;
    return 1;
}

const struct fabric fabric_ofi = {.transport = "ofi",
                                  .first = LIMIT_OFI,
                                  .open = ofi_open,
                                  .connect = ofi_connect,
                                  .post = ofi_post,
                                  .poll = ofi_poll,
                                  .close = ofi_close};
