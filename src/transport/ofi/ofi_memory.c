/*
 * ofi: memory accessible by remote writes and reads, and memory pinned on demand, registered in the
 * provider's mode.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char ofi_key_magic[4] = {'o', 'f', 'i', 'k'};

struct fid_mr *ofi_memory_register(struct ofi_tp *ofi, void *addr, size_t len, uint64_t access,
                                   int *err)
{
    struct fid_mr *mr = NULL;
    /* Without FI_MR_PROV_KEY we choose the keys: never one twice, nor FI_KEY_NOTAVAIL. */
    size_t bits = 8 * ofi->info->domain_attr->mr_key_size;
    uint64_t most = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX >> 1;
    uint64_t key = ofi_wants(ofi, FI_MR_PROV_KEY) ? 0 : ofi->next_key++ & most;
    *err = -fi_mr_reg(ofi->domain, addr, len, access, 0, key, 0, &mr, NULL);
    if (*err != 0 || !ofi_wants(ofi, FI_MR_ENDPOINT)) return *err == 0 ? mr : NULL;
    *err = -fi_mr_bind(mr, &ofi->ep->fid, 0);
    if (*err == 0) *err = -fi_mr_enable(mr);
    if (*err == 0) return mr;
    fi_close(&mr->fid);
    return NULL;
}

static struct ofi_mem *ofi_memory_new(void *addr, size_t len)
{
    struct ofi_mem *mem = calloc(1, sizeof(*mem) + sizeof(struct ofi_key));
    if (mem == NULL) return NULL;
    mem->key = (struct ofi_key *)(void *)(mem + 1);
    memcpy(mem->key->magic, ofi_key_magic, sizeof(ofi_key_magic));
    mem->rdma.mem =
        (struct aqi_mem){.addr = addr, .len = len, .key = mem->key, .key_len = ofi_key_len(1)};
    return mem;
}

aq_status ofi_mem_reg(struct aqi_rdma *rdma, void *addr, size_t len, struct aqi_rdma_mem **out)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    static atomic_bool told;
    if ((ofi->without & OFI_REMOTE) != 0) return AQ_ENOTSUP;
    struct ofi_mem *mem = ofi_memory_new(addr, len);
    int err;
    if (mem == NULL) return AQ_ENOMEM;
    aqi_rdma_lock(rdma);
    mem->mr = ofi_memory_register(ofi, addr, len,
                                  FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, &err);
    aqi_rdma_unlock(rdma);
    if (mem->mr != NULL && fi_mr_key(mem->mr) != FI_KEY_NOTAVAIL) {
        mem->key->keys[0] = fi_mr_key(mem->mr);
        mem->key->base = ofi_wants(ofi, FI_MR_VIRT_ADDR) ? (uintptr_t)addr : 0;
        *out = &mem->rdma;
        return AQ_OK;
    }
    aqi_log_once(&told, aqi_rdma_loud(rdma), "ofi",
                 "%s cannot register %zu bytes (%s): they are %s, as is all memory that it rejects "
                 "from now on; \"ulimit -l\" shows whether locked memory is limited",
                 ofi->info->fabric_attr->prov_name, len,
                 mem->mr == NULL ? ofi_library.strerror(err) : "it has no key",
                 aqi_rdma_instead(rdma));
    ofi_mem_drop(rdma, &mem->rdma);
    free(mem);
    return AQ_ELIMIT;
}

struct aqi_rdma_mem *ofi_mem_lent(struct aqi_rdma *rdma, void *addr, size_t len)
{
    struct ofi_mem *mem = ofi_memory_new(addr, len);
    (void)rdma;
    if (mem == NULL) return NULL;
    mem->key->lent = 1;
    return &mem->rdma;
}

void ofi_mem_drop(struct aqi_rdma *rdma, struct aqi_rdma_mem *out)
{
    struct ofi_mem *mem = (struct ofi_mem *)out;
    aqi_rdma_lock(rdma);
    if (mem->mr != NULL) fi_close(&mem->mr->fid);
    aqi_rdma_unlock(rdma);
}

aq_status ofi_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    const struct ofi_tp *ofi = (const struct ofi_tp *)tp;
    struct ofi_key given;
    bool fits = key_len >= ofi_key_len(ofi->place + 1) && key_len <= sizeof(given);
    if (fits) memcpy(&given, key, key_len);
    bool remote = (ofi->without & OFI_REMOTE) == 0;
    /* A peer may lend although we do not, if only its self-test has passed. */
    if (!fits || memcmp(given.magic, ofi_key_magic, 4) != 0 ||
        given.lent > (remote ? ofi->rdma.lending.on : 1))
        return aqi_fail(AQ_EPROTO, "ofi", "peer %u sent a malformed memory key", peer->id);
    *out = NULL; /* access it by messages, although the peer does not require that */
    if (!remote) return AQ_OK;
    struct ofi_rmem *rmem = malloc(sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "ofi", "no memory to map memory");
    *rmem = (struct ofi_rmem){.rdma = {.rmem = {.addr = addr, .len = len}, .lent = given.lent != 0},
                              .key = given.keys[ofi->place],
                              .base = given.base};
    *out = &rmem->rdma.rmem;
    return AQ_OK;
}

/* --- on demand ------------------------------------------------------------------------------- */

/*
 * The limit on registrations: half of the adapter's are for segments and buffers, the rest is
 * divided among the processes of this host.
 */
static uint64_t ofi_pins_most(const struct ofi_tp *ofi)
{
    uint64_t all = ofi->info->domain_attr->mr_cnt / 2;
    uint64_t most = all != 0 ? aqi_max(1, all / aqi_max(1, ofi->rdma.params.local_size)) : 0;
    if (most == 0 || ofi_config.registrations == 0) return aqi_max(most, ofi_config.registrations);
    return aqi_min(most, ofi_config.registrations);
}

/*
 * Deregister changed memory at once (`cut`) only if the provider pins pages. Others access whatever
 * is mapped at the address, and some never complete a rejected access.
 */
aq_status ofi_pins_open(struct ofi_tp *ofi)
{
    bool pins = ofi->rdma.lending.on || ofi_wants(ofi, FI_MR_LOCAL);
    bool cut = ofi_wants(ofi, FI_MR_ALLOCATED);
    return pins ? aqi_rdma_pins_open(&ofi->rdma, ofi_pins_most(ofi), cut) : AQ_OK;
}
