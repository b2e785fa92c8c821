/* shm: opening, addresses, connecting and closing. The layout is in shm_impl.h. */
#include "base/fail.h"
#include "base/shmem.h"
#include "transport/shm/shm_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHM_ADDR = 20 }; /* bytes of an address */

struct shm_config shm_config;

static const char *const cma_modes[] = {"no", "auto", "always", NULL};

static const struct aqi_setting rows[] = {
    {.name = "AQ_SHM_SLOTS",
     .def = "64",
     .doc = "The number of messages in flight from one process to another, for requests and "
            "replies each.",
     .advice = "Raise it, with AQ_SHM_PAYLOAD, if a receiver computes between polls: a poll takes "
               "all messages in flight. Floods of small messages become slower, as the slots no "
               "longer fit the caches as well. Each message takes 128 bytes per pair of processes "
               "that communicates.",
     .min = 16,
     .max = 65536,
     .power_of_two = true,
     .same = true,
     AQI_SETTING_IN(COUNT, struct shm_config, slots)},
    {.name = "AQ_SHM_PAYLOAD",
     .def = "0",
     .doc =
         "The maximum number of payload bytes in flight from one process to another, for requests "
         "and replies each, rounded up to a power of two. It is at least four times the larger of "
         "the largest Medium and AQ_SHM_FRAGMENT; 0: that minimum, but no less than 64K.",
     .max = 1u << 30,
     .same = true,
     AQI_SETTING_IN(BYTES, struct shm_config, payload)},
    {.name = "AQ_SHM_MAP",
     .def = "yes",
     .doc = "Map the segments of the other processes of the host, for access by plain loads and "
            "stores.",
     .advice = "Set no to see how a program behaves without it.",
     AQI_SETTING_IN(BOOL, struct shm_config, map)},
    {.name = "AQ_SHM_FRAGMENT",
     .def = "0",
     .doc = "The size of the messages that transfer puts and gets of memory that is not mapped, "
            "unless CMA does it; four of them are in flight in each direction. It is at least "
            "AQ_AM_MAX_MEDIUM; 0: 64K, or AQ_AM_MAX_MEDIUM if a host has more than 16 processes.",
     .max = 1 << 24,
     .same = true,
     AQI_SETTING_IN(BYTES, struct shm_config, piece)},
    {.name = "AQ_SHM_HOT",
     .def = "8",
     .doc =
         "The number of senders that are always polled. Further ones are polled if they have sent "
         "something since the last check (AQ_SHM_COOL); the others announce their next message.",
     .advice = "Raise it if more peers than this communicate occasionally.",
     .max = UINT32_MAX,
     AQI_SETTING_IN(COUNT, struct shm_config, hot)},
    {.name = "AQ_SHM_COOL",
     .def = "2048",
     .doc = "The number of rounds of polling between two checks for senders that have sent nothing "
            "in the meantime; of polls that find nothing, only one in 16 counts as a round.",
     .min = 16,
     .max = 1u << 30,
     .power_of_two = true,
     AQI_SETTING_IN(COUNT, struct shm_config, cool)},
    {.name = "AQ_SHM_CMA",
     .def = "auto",
     .doc = "Whether memory that is not mapped is read and written by process_vm_readv and "
            "process_vm_writev (CMA): auto, if its owner is not polling, or for AQ_SHM_CMA_LEAST "
            "bytes or more; always; no, never.",
     .advice = "Set always if the owners of such memory compute more than they poll: with auto, an "
               "owner that has just stopped polling delays the transfer until it polls again.",
     .choices = cma_modes,
     AQI_SETTING_IN(CHOICE, struct shm_config, cma)},
    {.name = "AQ_SHM_CMA_LEAST",
     .def = "0",
     .doc = "Transfers of this many bytes or more use CMA even if the owner of the memory polls; "
            "0: those of 16 KB to 1 MB, if the kernel turns out to copy fast enough; otherwise "
            "none, since copying by both processes is then faster.",
     .advice = "Compare put-private of aqperf with AQ_SHM_CMA=always and AQ_SHM_CMA=no; 1T: never.",
     AQI_SETTING_IN(BYTES, struct shm_config, cma_least)},
    {.name = "AQ_SHM_FOLDER",
     .def = "",
     .doc =
         "A folder for the sockets of listeners at shm:// URIs, in place of the network namespace: "
         "programs of one host can connect if they see the same folder, under any path, and all "
         "have this setting. The folder's permissions determine which users may connect.",
     .advice = "Set it for programs in different containers that mount the folder.",
     AQI_SETTING_IN(TEXT, struct shm_config, folder)},
};

static struct aqi_settings_table shm_settings = {
    .group = "shm", .rows = rows, .count = AQI_COUNT_OF(rows), .values = &shm_config};

static bool shm_probe(unsigned device, struct aqi_tp_probe *probe)
{
    int fd;
    void *at;
    *probe = (struct aqi_tp_probe){.device = "memfd"};
    probe->usable = aqi_shmem_new("aq-probe", aqi_page_size(), &fd, &at) == AQ_OK;
    if (probe->usable) {
        aqi_shmem_unmap(at, aqi_page_size());
        close(fd);
    } else {
        snprintf(probe->reason, sizeof(probe->reason), "%s", aq_error_message());
    }
    return device == 0;
}

enum { FRAGMENT = 64 << 10, LEAST_PAYLOAD = 64 << 10, CROWD = 16 };

static size_t shm_max_piece(const struct aqi_tp_params *params, size_t max_medium)
{
    size_t piece = (size_t)shm_config.piece;
    if (piece == 0) piece = params->local_size <= CROWD ? FRAGMENT : max_medium;
    return aqi_max(max_medium, aqi_round_up(piece, AQI_CACHE_LINE));
}

/* The dimensions of inboxes, which must be equal in all processes that share them. */
struct measures {
    size_t slots, payload, piece;
};

/* An address: the number of the inbox, and the dimensions of all inboxes. */
struct shm_addr {
    uint32_t magic, rank, slots, payload, piece;
};
static_assert(sizeof(struct shm_addr) == SHM_ADDR, "as the transport's table says");
#define ADDR_MAGIC 0x326d6873u /* "shm2" */

static bool shm_read_addr(const void *bytes, size_t len, struct shm_addr *addr)
{
    if (len != sizeof(*addr)) return false;
    memcpy(addr, bytes, len);
    return addr->magic == ADDR_MAGIC;
}

static size_t shm_least_payload(size_t max_medium, size_t piece)
{
    return SHM_PIECES * aqi_max(max_medium, piece);
}

static struct measures shm_measures_here(const struct aqi_tp_params *params, size_t max_medium)
{
    struct measures m = {.slots = shm_config.slots, .piece = shm_max_piece(params, max_medium)};
    size_t payload = shm_config.payload != 0 ? (size_t)shm_config.payload : LEAST_PAYLOAD;
    m.payload = aqi_power_of_two_from(aqi_max(payload, shm_least_payload(max_medium, m.piece)));
    return m;
}

static bool shm_power_between(size_t value, size_t least, size_t most)
{
    return value >= least && value <= most && aqi_is_power_of_two(value);
}

/* Read the dimensions in an address, which is not trusted: accept only those of valid settings. */
static aq_status shm_measures_there(const void *bytes, size_t len, size_t max_medium,
                                    struct measures *out)
{
    enum { SLOTS_LEAST = 16, SLOTS_MOST = 65536, PAYLOAD_MOST = 1 << 30 };
    struct shm_addr a;
    if (!shm_read_addr(bytes, len, &a) || !shm_power_between(a.slots, SLOTS_LEAST, SLOTS_MOST) ||
        a.piece > PAYLOAD_MOST || a.piece % AQI_CACHE_LINE != 0 || a.piece < max_medium ||
        !shm_power_between(a.payload, shm_least_payload(max_medium, a.piece), PAYLOAD_MOST))
        return aqi_fail(AQ_EPROTO, "shm", "the address of a peer is malformed");
    *out = (struct measures){a.slots, a.payload, a.piece};
    return AQ_OK;
}

static struct shm_layout shm_layout_for(const struct aqi_tp_params *params,
                                        const struct measures *m)
{
    struct shm_layout layout = {.ranks = params->local_size, .slots = (uint32_t)m->slots};
    size_t payload = m->payload;
    layout.lines = (uint32_t)(payload / AQI_CACHE_LINE);
    layout.channel =
        aqi_round_up(sizeof(struct shm_channel_head) +
                         SHM_RINGS * (layout.slots * sizeof(struct shm_slot) + payload),
                     aqi_page_size());
    /* For shm_polled_of and shm_calling_of. */
    size_t bytes = 2 * aqi_round_up(layout.ranks, AQI_CACHE_LINE);
    layout.inbox = aqi_round_up(sizeof(struct shm_inbox) + bytes, aqi_page_size());
    layout.channels = layout.inbox * layout.ranks;
    layout.total = layout.channels + (size_t)layout.ranks * layout.ranks * layout.channel;
    return layout;
}

static void shm_close(struct aqi_tp *tp)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    uint32_t ranks = shm->layout.ranks;
    shm_wake_close(shm);
    for (uint32_t i = 0; shm->peers != NULL && i < ranks; i++)
        if (shm->peers[i] != NULL) {
            free(shm->peers[i]->tx[SHM_REQUESTS].line_after);
            free(shm->peers[i]->tx[SHM_REPLIES].line_after);
            free(shm->peers[i]);
        }
    for (uint32_t i = 0; shm->sources != NULL && i < ranks; i++)
        free(shm->sources[i]);
    free(shm->peers);
    free(shm->sources);
    free(shm->polled);
    free(shm->watch);
    free(shm->proof);
    for (uint32_t i = 0; i < shm->area_count; i++) {
        aqi_shmem_unmap(shm->areas[i].base, shm->areas[i].stride * shm->params.local_size);
        close(shm->areas[i].fd);
    }
    if (shm->memory != NULL) aqi_shmem_unmap(shm->memory, shm->layout.total);
    free(shm);
}

static aq_status shm_map_inboxes(struct shm_tp *shm)
{
    size_t total = shm->layout.total;
    const struct aqi_tp_hooks *hooks = &shm->params.hooks;
    void *at;
    int fd;
    aq_status st = hooks->share(hooks->host, "aq-inboxes", total, &fd);
    if (st != AQ_OK) return st;
    st = aqi_shmem_map(fd, total, &at);
    close(fd);
    if (st != AQ_OK) return st;
    shm->memory = at;
    shm->inbox = shm_inbox_of(shm, shm->params.local_rank);
    shm->inbox->rank = shm->params.local_rank;
    shm->inbox->slots = shm->layout.slots;
    shm->inbox->payload = (uint64_t)shm->layout.lines * AQI_CACHE_LINE;
    return AQ_OK;
}

static aq_status shm_open(const struct aqi_tp_params *params, struct aqi_tp **tp)
{
    size_t max_medium = aqi_round_up(params->max_medium, 64);
    struct measures measures = shm_measures_here(params, max_medium);
    aq_status st = params->like != NULL
                       ? shm_measures_there(params->like, params->like_len, max_medium, &measures)
                       : AQ_OK;
    if (st != AQ_OK) return st;
    struct shm_tp *shm = calloc(1, sizeof(*shm));
    if (shm == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory to open the transport");
    shm->wake_socket = -1;
    shm->params = *params;
    shm->params.like = NULL; /* owned by the caller */
    shm->tp.hooks = params->hooks;
    shm->tp.limits = (struct aqi_tp_limits){
        .max_medium = max_medium, .max_long = UINT32_MAX, .max_piece = measures.piece};
    shm->layout = shm_layout_for(params, &measures);
    st = AQ_ENOMEM;
    shm->peers = calloc(shm->layout.ranks, sizeof(struct shm_peer *));
    shm->sources = calloc(shm->layout.ranks, sizeof(struct shm_source *));
    shm->polled = calloc(shm->layout.ranks, sizeof(*shm->polled));
    shm->watch = calloc(SHM_WATCH_RINGS + SHM_RINGS * shm->layout.ranks, sizeof(*shm->watch));
    shm->cool = (uint32_t)shm_config.cool;
    if (shm->peers == NULL || shm->sources == NULL || shm->polled == NULL || shm->watch == NULL) {
        aqi_fail(st, "shm", "no memory for %u peers", shm->layout.ranks);
        goto fail;
    }
    st = shm_map_inboxes(shm);
    if (st == AQ_OK) st = shm_wake_open(shm);
    if (st == AQ_OK) st = shm_cma_open(shm);
    if (st != AQ_OK) goto fail;
    shm->inbox->magic = SHM_MAGIC;
    shm->tp.watched = true;
    shm->tp.moved = shm_moved;
    shm->tp.watch = shm->watch;
    shm->tp.wide = SHM_WATCH_RINGS;
    shm->tp.watches = SHM_WATCH_RINGS;
    aqi_watch_set(&shm->watch[SHM_WATCH_CALLS], &shm->inbox->calls, 0);
    *tp = &shm->tp;
    return AQ_OK;
fail:
    shm_close(&shm->tp);
    return st;
}

static aq_status shm_address(struct aqi_tp *tp, void *out, size_t *len)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    struct shm_addr addr = {ADDR_MAGIC, shm->params.local_rank, shm->layout.slots,
                            shm->layout.lines * AQI_CACHE_LINE, (uint32_t)shm->tp.limits.max_piece};
    memcpy(out, &addr, sizeof(addr));
    *len = sizeof(addr);
    return AQ_OK;
}

static aq_status shm_find_peer(struct shm_tp *shm, uint32_t id, uint32_t *rank)
{
    unsigned char bytes[AQI_ADDR_MAX];
    struct shm_addr addr;
    size_t len = sizeof(bytes);
    aq_status st = shm->params.hooks.lookup(shm->params.hooks.host, &shm->tp, id, bytes, &len);
    if (st != AQ_OK) return st;
    if (len == 0) return AQ_ENOTSUP;
    /* The keys of this process are trusted, so no peer may pretend to be it. */
    if (!shm_read_addr(bytes, len, &addr) || addr.rank >= shm->layout.ranks ||
        (addr.rank == shm->params.local_rank) != (id == shm->params.self))
        return aqi_fail(AQ_EPROTO, "shm", "the address of peer %u is malformed", id);
    *rank = addr.rank;
    return AQ_OK;
}

static aq_status shm_check_inbox(const struct shm_tp *shm, const struct shm_inbox *inbox,
                                 uint32_t rank)
{
    if (inbox->magic != SHM_MAGIC || inbox->rank != rank)
        return aqi_fail(AQ_EPROTO, "shm",
                        "the inbox of local rank %u is not set up, or was set up by another build "
                        "of the library: use the same build in all processes",
                        rank);
    if (inbox->slots != shm->layout.slots ||
        inbox->payload != (uint64_t)shm->layout.lines * AQI_CACHE_LINE)
        return aqi_fail(
            AQ_EMISMATCH, "shm",
            "local rank %u has rings of %u slots and %llu bytes, but this process has rings of %u "
            "slots and %u bytes: give all processes the same AQ_SHM_ and AQ_AM_ settings",
            rank, inbox->slots, (unsigned long long)inbox->payload, shm->layout.slots,
            shm->layout.lines * AQI_CACHE_LINE);
    return AQ_OK;
}

static aq_status shm_connect(struct aqi_tp *tp, uint32_t id, uint32_t host, struct aqi_peer **out)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    uint32_t rank;
    if (host != shm->params.host) return AQ_ENOTSUP;
    aq_status st = shm_find_peer(shm, id, &rank);
    if (st != AQ_OK) return st;
    struct shm_inbox *inbox = shm_inbox_of(shm, rank);
    st = shm_check_inbox(shm, inbox, rank);
    if (st != AQ_OK) return st;
    struct shm_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) return aqi_fail(AQ_ENOMEM, "shm", "no memory for peer %u", id);
    peer->peer.id = id;
    peer->local_rank = rank;
    peer->inbox = inbox;
    peer->fence = inbox->fence || !shm->membarrier;
    peer->polled = shm_polled_of(inbox, shm->params.local_rank);
    peer->calling = shm_calling_of(shm, inbox, shm->params.local_rank);
    /* The process ID that a stranger gives could be that of another process that we may access. */
    if (shm->params.stranger) peer->cma = SHM_CMA_FAILS;
    for (unsigned ring = 0; ring < SHM_RINGS; ring++)
        shm_tx_init(shm, &peer->tx[ring], ring, rank);
    aqi_spin_lock(&shm->join_lock);
    shm->peers[rank] = peer;
    aqi_spin_unlock(&shm->join_lock);
    if (inbox->network != shm->inbox->network) shm->apart = true;
    *out = &peer->peer;
    return AQ_OK;
}

static void shm_disconnect(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp;
    ((struct shm_peer *)peer)->lost = true;
}

/* A message counts as sent once it is in the ring; memory operations complete at once. */
static aq_status shm_quiet(struct aqi_tp *tp, struct aqi_peer *peer)
{
    (void)tp, (void)peer;
    return AQ_OK;
}

static int shm_describe(struct aqi_tp *tp, char *buf, size_t len)
{
    struct shm_tp *shm = (struct shm_tp *)tp;
    return snprintf(buf, len,
                    "%u processes, %u slots and %u bytes of payload each way per pair, %s, %s",
                    shm->layout.ranks, shm->layout.slots, shm->layout.lines * AQI_CACHE_LINE,
                    shm->apart        ? "polls instead of being woken"
                    : shm->membarrier ? "wakes by membarrier"
                                      : "wakes by fence",
                    shm_cma_state(shm));
}

const struct aqi_transport aqi_shm_transport = {
    .name = "shm",
    .doc = "processes of one host over shared memory",
    .caps = AQI_CAP_RESERVE | AQI_CAP_PUT | AQI_CAP_GET | AQI_CAP_ATOMIC | AQI_CAP_FILL |
            AQI_CAP_MAP | AQI_CAP_ALLOC | AQI_CAP_REG | AQI_CAP_WAIT_FD | AQI_CAP_MEM_FD |
            AQI_CAP_RENDEZVOUS | AQI_CAP_PULL | AQI_CAP_REST | AQI_CAP_ORDER,
    .addr_max = SHM_ADDR,
    .key_max = SHM_KEY,
    .settings = &shm_settings,
    .probe = shm_probe,
    .open = shm_open,
    .close = shm_close,
    .address = shm_address,
    .connect = shm_connect,
    .disconnect = shm_disconnect,
    .am_send = shm_am_send,
    .progress = shm_progress,
    .quiet = shm_quiet,
    .am_reserve = shm_am_reserve,
    .am_commit = shm_am_commit,
    .put = shm_put,
    .get = shm_get,
    .fill = shm_fill,
    .pull = shm_cma_pull,
    .atomic = shm_atomic,
    .mem_alloc = shm_mem_alloc,
    .mem_reg = shm_mem_reg,
    .mem_dereg = shm_mem_dereg,
    .mem_map = shm_mem_map,
    .mem_unmap = shm_mem_unmap,
    .mem_fd = shm_mem_fd,
    .rendezvous = &shm_rendezvous,
    .wait_fd = shm_wait_fd,
    .arm = shm_arm,
    .rest = shm_rest,
    .describe = shm_describe,
};
