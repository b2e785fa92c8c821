/* Determines which ranks share a host, by the manager's mapping or by exchanging host names. */
#include "base/fail.h"
#include "base/here.h"
#include "job/boot.h"
#include "manager_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define HOSTS_BLOCKS 4096u /* maximum number of blocks of a mapping */

struct hosts_block {
    uint32_t first, nodes, ranks;
};

static bool hosts_block(const char **at, struct hosts_block *block)
{
    if (**at != '(') return false;
    ++*at;
    return manager_number_before(at, ',', &block->first) &&
           manager_number_before(at, ',', &block->nodes) &&
           manager_number_before(at, ')', &block->ranks) && block->nodes != 0 && block->ranks != 0;
}

/* Assign the next ranks to nodes according to a block. */
static uint32_t hosts_assign(const struct hosts_block *block, uint32_t rank, uint32_t size,
                             uint64_t *node_of)
{
    for (uint32_t node = 0; node < block->nodes && rank < size; node++)
        for (uint32_t i = 0; i < block->ranks && rank < size; i++)
            node_of[rank++] = (uint64_t)block->first + node;
    return rank;
}

bool manager_mapping(const char *text, uint32_t size, uint64_t *node_of)
{
    static const char head[] = "(vector";
    struct hosts_block block;
    size_t blocks = 0;
    if (strncmp(text, head, sizeof(head) - 1) != 0) return false;
    const char *list = text + sizeof(head) - 1, *at = list;
    for (; *at == ','; blocks++) {
        at++;
        if (blocks == HOSTS_BLOCKS || !hosts_block(&at, &block)) return false;
    }
    if (blocks == 0 || strcmp(at, ")") != 0) return false;
    for (uint32_t rank = 0; rank < size;) {
        for (at = list; *at == ',';) {
            at++;
            (void)hosts_block(&at, &block); /* cannot fail: parsed successfully above */
            rank = hosts_assign(&block, rank, size, node_of);
        }
    }
    return true;
}

struct hosts_place {
    uint64_t node;
    uint32_t rank;
};

static int hosts_compare(const void *a, const void *b)
{
    const struct hosts_place *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Number hosts in the order of ranks; `places` is sorted by node and rank. */
static void hosts_name(struct aqi_manager_info *info, const struct hosts_place *places,
                       uint32_t *host_of)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < info->size; i++) {
        if (i == 0 || places[i].node != places[i - 1].node) first = places[i].rank;
        host_of[places[i].rank] = first;
    }
    /* Each now has the first rank of its host, which is never above its own. */
    for (uint32_t rank = 0; rank < info->size; rank++)
        host_of[rank] = host_of[rank] == rank ? info->hosts++ : host_of[host_of[rank]];
    info->host = host_of[info->rank];
    for (uint32_t rank = 0; rank < info->size; rank++) {
        if (host_of[rank] != info->host) continue;
        if (rank < info->rank) info->local_rank++;
        info->local_size++;
    }
}

aq_status manager_set_hosts(struct aqi_manager *manager, const uint64_t *node_of)
{
    struct aqi_manager_info *info = &manager->info;
    uint32_t *host_of = calloc(info->size, sizeof(*host_of));
    struct hosts_place *places = calloc(info->size, sizeof(*places));
    if (host_of == NULL || places == NULL) {
        free(host_of);
        free(places);
        return aqi_fail(AQ_ENOMEM, "job", "no memory for a table of %u ranks", info->size);
    }
    for (uint32_t rank = 0; rank < info->size; rank++)
        places[rank] = (struct hosts_place){node_of[rank], rank};
    qsort(places, info->size, sizeof(*places), hosts_compare);
    hosts_name(info, places, host_of);
    free(places);
    info->host_of = host_of;
    return AQ_OK;
}

/* A number that identifies this host, from its name and boot ID. */
static uint64_t hosts_mine(void)
{
    struct utsname names = {.nodename = ""};
    (void)uname(&names);
    return aqi_hash(aqi_hash_text(AQI_HASH_SEED, names.nodename), aqi_here_boot());
}

static aq_status hosts_exchange(struct aqi_manager *manager, uint64_t *node_of)
{
    static const char key[] = "aq-host";
    uint64_t mine = hosts_mine();
    size_t len;
    aq_status status = manager->kind->put(manager, key, &mine, sizeof(mine));
    if (status == AQ_OK) status = manager->kind->fence(manager);
    for (uint32_t rank = 0; rank < manager->info.size && status == AQ_OK; rank++) {
        status = manager->kind->get(manager, rank, key, &node_of[rank], sizeof(*node_of), &len);
        if (status == AQ_OK && len != sizeof(*node_of))
            status = aqi_fail(AQ_EPROTO, "job",
                              "rank %u passed to %s a host ID of %zu bytes instead of %zu: all "
                              "ranks must use the same version of the library",
                              rank, manager->kind->name, len, sizeof(*node_of));
    }
    return status;
}

aq_status manager_map_hosts(struct aqi_manager *manager, const char *mapping)
{
    uint32_t size = manager->info.size;
    uint64_t *node_of = calloc(size, sizeof(*node_of));
    aq_status status = AQ_OK;
    if (node_of == NULL)
        return aqi_fail(AQ_ENOMEM, "job", "no memory for a table of %u ranks", size);
    if (mapping == NULL || !manager_mapping(mapping, size, node_of))
        status = hosts_exchange(manager, node_of);
    if (status == AQ_OK) status = manager_set_hosts(manager, node_of);
    free(node_of);
    return status;
}

aq_status manager_check_ranks(const struct aqi_manager *manager)
{
    const struct aqi_manager_info *info = &manager->info;
    if (info->size != 0 && info->size <= AQI_MAX_RANKS && info->rank < info->size) return AQ_OK;
    return aqi_fail(
        AQ_EPROTO, "job",
        "%s reports that this is rank %u of %u: there can be at most %u, numbered from 0",
        manager->kind->name, info->rank, info->size, AQI_MAX_RANKS);
}
