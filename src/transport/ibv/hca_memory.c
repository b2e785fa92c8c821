/* ibv: the memory that remote writes and reads reach, registered in parts where it is large. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char hca_memory_magic[4] = {'i', 'b', 'v', 'k'};

enum { HCA_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static size_t hca_memory_key_len(const struct hca_key *key)
{
    return offsetof(struct hca_key, rkey) + (size_t)key->rails * key->parts * sizeof(key->rkey[0]);
}

/* The largest parts that may be registered, as a power of two. */
static uint8_t hca_memory_shift(const struct hca_tp *hca)
{
    uint64_t most = hca_config.registration;
    for (unsigned r = 0; r < hca->rails; r++)
        most = aqi_min(most, hca->rail[r].device.max_mr_size);
    return (uint8_t)(63 - __builtin_clzll(most | 1));
}

static bool hca_memory_register(struct hca_tp *hca, struct hca_mem *mem)
{
    struct hca_key *key = &mem->key;
    size_t part = (size_t)1 << key->shift;
    for (unsigned p = 0; p < key->parts; p++) {
        size_t len = aqi_min(mem->mem.len - p * part, part);
        unsigned char *at = (unsigned char *)mem->mem.addr + p * part;
        if (!hca_rails_register(hca, mem->mr[p], at, len, HCA_ACCESS)) return false;
        for (unsigned r = 0; r < hca->rails; r++)
            key->rkey[p * hca->rails + r] = mem->mr[p][r]->rkey;
    }
    return true;
}

aq_status hca_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out)
{
    struct hca_tp *hca = (struct hca_tp *)tp;
    if (len == SIZE_MAX) return AQ_ENOTSUP; /* all memory there is */
    uint8_t shift = hca_memory_shift(hca);
    size_t parts = ((len - 1) >> shift) + 1, keys = parts * hca->rails;
    if (parts > HCA_KEYS || keys > HCA_KEYS) {
        aqi_log(AQI_LOG_WARN, "ibv",
                "%zu bytes would take %zu registrations, and %u are the most, so they are reached "
                "by messages: raise AQ_IBV_REGISTRATION, or lower AQ_IBV_RAILS",
                len, keys, HCA_KEYS);
        return AQ_ELIMIT;
    }
    struct hca_mem *mem = calloc(1, sizeof(*mem) + parts * sizeof(mem->mr[0]));
    if (mem == NULL) return AQ_ENOMEM;
    mem->key =
        (struct hca_key){.rails = (uint8_t)hca->rails, .shift = shift, .parts = (uint16_t)parts};
    memcpy(mem->key.magic, hca_memory_magic, sizeof(hca_memory_magic));
    mem->mem = (struct aqi_mem){
        .addr = addr, .len = len, .key = &mem->key, .key_len = hca_memory_key_len(&mem->key)};
    if (!hca_memory_register(hca, mem)) {
        hca_mem_dereg(tp, &mem->mem);
        return AQ_ELIMIT;
    }
    *out = &mem->mem;
    return AQ_OK;
}

void hca_mem_dereg(struct aqi_tp *tp, struct aqi_mem *out)
{
    struct hca_mem *mem = (struct hca_mem *)out;
    (void)tp;
    for (unsigned p = 0; p < mem->key.parts; p++)
        hca_rails_deregister(mem->mr[p]);
    free(mem);
}

/* Does a key of a peer make sense, of memory of `len` bytes? */
static bool hca_memory_key_valid(const struct hca_key *key, size_t key_len, size_t len)
{
    return memcmp(key->magic, hca_memory_magic, 4) == 0 && key->rails != 0 && key->parts != 0 &&
           key->rails <= HCA_RAILS && key->parts <= HCA_KEYS / key->rails && key->shift < 63 &&
           len != 0 && (len - 1) >> key->shift == key->parts - 1u &&
           key_len == hca_memory_key_len(key);
}

aq_status hca_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out)
{
    struct hca_key given = {.rails = 0};
    (void)tp;
    memcpy(&given, key, aqi_min(key_len, sizeof(given)));
    if (!hca_memory_key_valid(&given, key_len, len))
        return aqi_fail(AQ_EPROTO, "ibv", "peer %u sent a memory key that makes no sense",
                        peer->id);
    struct hca_rmem *rmem = malloc(sizeof(*rmem));
    if (rmem == NULL) return aqi_fail(AQ_ENOMEM, "ibv", "no memory to map memory");
    *rmem = (struct hca_rmem){.rmem = {.addr = addr, .len = len}, .key = given};
    *out = &rmem->rmem;
    return AQ_OK;
}

void hca_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem)
{
    (void)tp;
    free(rmem);
}
