/*
 * ibv: memory accessible by remote writes and reads, registered in parts if it is large, or lent on
 * demand; and memory pinned on demand.
 */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/settings.h"
#include "transport/ibv/ibv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char hca_memory_magic[4] = {'i', 'b', 'v', 'k'};

static size_t hca_memory_key_len(const struct hca_key *key)
{
    return offsetof(struct hca_key, rkey) + (size_t)key->rails * key->parts * sizeof(key->rkey[0]);
}

/* The log2 of the largest part that all adapters support. */
static uint8_t hca_memory_most(const struct hca_tp *hca)
{
    uint64_t most = UINT64_MAX;
    for (unsigned r = 0; r < hca->rails; r++)
        most = aqi_min(most, hca->rail[r].device.max_mr_size);
    return (uint8_t)(63 - __builtin_clzll(most | 1));
}

static size_t hca_memory_parts(size_t len, uint8_t shift)
{
    return ((len - 1) >> shift) + 1;
}

/*
 * The log2 of the size of parts: as set, or larger if a key cannot describe that many parts and the
 * memory cannot be lent instead.
 */
static uint8_t hca_memory_shift(const struct hca_tp *hca, size_t len)
{
    uint8_t most = hca_memory_most(hca);
    uint8_t wanted =
        (uint8_t)aqi_min((unsigned)(63 - __builtin_clzll(hca_config.registration)), most);
    uint8_t shift = wanted;
    while (!hca->rdma.lending.on && shift < most &&
           hca_memory_parts(len, shift) * hca->rails > HCA_KEYS)
        shift++;
    if (shift != wanted)
        aqi_log(hca->rdma.params.local_rank == 0 ? AQI_LOG_WARN : AQI_LOG_INFO, "ibv",
                "%s: %zu bytes would take %zu registrations, but the maximum is %u, so each has "
                "%llu bytes instead",
                aqi_setting_variable("AQ_IBV_REGISTRATION"), len,
                hca_memory_parts(len, wanted) * hca->rails, HCA_KEYS, 1ull << shift);
    return shift;
}

static bool hca_memory_register(struct hca_tp *hca, struct hca_mem *mem)
{
    struct hca_key *key = &mem->key;
    size_t part = (size_t)1 << key->shift;
    for (unsigned p = 0; p < key->parts; p++) {
        size_t len = aqi_min(mem->rdma.mem.len - p * part, part);
        unsigned char *at = (unsigned char *)mem->rdma.mem.addr + p * part;
        if (!hca_rails_register(hca, mem->mr[p], at, len, HCA_ACCESS)) return false;
        for (unsigned r = 0; r < hca->rails; r++)
            key->rkey[p * hca->rails + r] = hca_rkey_of(mem->mr[p][r]);
    }
    return true;
}

static struct hca_mem *hca_memory_new(const struct hca_tp *hca, void *addr, size_t len,
                                      uint8_t shift, size_t parts)
{
    struct hca_mem *mem = calloc(1, sizeof(*mem) + parts * sizeof(mem->mr[0]));
    if (mem == NULL) return NULL;
    mem->key =
        (struct hca_key){.rails = (uint8_t)hca->rails, .shift = shift, .parts = (uint16_t)parts};
    memcpy(mem->key.magic, hca_memory_magic, sizeof(hca_memory_magic));
    mem->rdma.mem = (struct aqi_mem){
        .addr = addr, .len = len, .key = &mem->key, .key_len = hca_memory_key_len(&mem->key)};
    return mem;
}

aq_status hca_mem_reg(struct aqi_rdma *rdma, void *addr, size_t len, struct aqi_rdma_mem **out)
{
    struct hca_tp *hca = (struct hca_tp *)rdma;
    uint8_t shift = hca_memory_shift(hca, len);
    size_t parts = hca_memory_parts(len, shift), keys = parts * hca->rails;
    if (keys > HCA_KEYS) {
        aqi_log(aqi_rdma_loud(rdma), "ibv",
                "%zu bytes would take %zu registrations of %llu bytes, but the maximum is %u, so "
                "they are %s: raise %s if the adapter supports larger ones, or lower %s",
                len, keys, 1ull << shift, HCA_KEYS, aqi_rdma_instead(rdma),
                aqi_setting_variable("AQ_IBV_REGISTRATION"), aqi_setting_variable("AQ_IBV_RAILS"));
        return AQ_ELIMIT;
    }
    struct hca_mem *mem = hca_memory_new(hca, addr, len, shift, parts);
    if (mem == NULL) return AQ_ENOMEM;
    *out = &mem->rdma;
    if (hca_memory_register(hca, mem)) return AQ_OK;
    aqi_log(aqi_rdma_loud(rdma), "ibv", "%zu bytes are %s: %s", len, aqi_rdma_instead(rdma),
            aq_error_message());
    hca_mem_drop(rdma, &mem->rdma);
    free(mem);
    return AQ_ELIMIT;
}

struct aqi_rdma_mem *hca_mem_lent(struct aqi_rdma *rdma, void *addr, size_t len)
{
    struct hca_mem *mem = hca_memory_new((struct hca_tp *)rdma, addr, len, 0, 0);
    return mem != NULL ? &mem->rdma : NULL;
}

void hca_mem_drop(struct aqi_rdma *rdma, struct aqi_rdma_mem *out)
{
    struct hca_mem *mem = (struct hca_mem *)out;
    for (unsigned p = 0; p < mem->key.parts; p++)
        hca_rails_deregister(rdma, mem->mr[p]);
}

/* Whether a key of a peer is valid, for memory of `len` bytes. */
static bool hca_memory_key_valid(const struct hca_tp *hca, const struct hca_key *key,
                                 size_t key_len, size_t len)
{
    if (memcmp(key->magic, hca_memory_magic, 4) != 0 || key->rails == 0 || key->rails > HCA_RAILS ||
        key->parts > HCA_KEYS / key->rails || key->shift >= 63 || len == 0 ||
        key_len != hca_memory_key_len(key))
        return false;
    return key->parts != 0 ? (len - 1) >> key->shift == key->parts - 1u : hca->rdma.lending.on;
}

aq_status hca_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct hca_key given = {.rails = 0};
    memcpy(&given, key, aqi_min(key_len, sizeof(given)));
    if (!hca_memory_key_valid((const struct hca_tp *)tp, &given, key_len, len))
        return aqi_fail(AQ_EPROTO, "ibv", "peer %u sent a malformed memory key", peer->id);
    struct hca_rmem *rmem = malloc(sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory to map memory");
    *rmem = (struct hca_rmem){
        .rdma = {.rmem = {.addr = addr, .len = len}, .lent = given.parts == 0}, .key = given};
    *out = &rmem->rdma.rmem;
    return AQ_OK;
}
