/*
 * Any packets to a datagram engine that has a connection with operations in progress, including
 * packets with the right cookie and MAC: memory that peers may not write is never written, each
 * operation completes at most once, and no message above the limit is delivered.
 *
 * The input is a sequence of packets: a byte of DGRAM_FUZZ_* flags, a byte with the length in units
 * of 4, and the bytes (zeros beyond the end of input); the fields selected by the flags overwrite
 * the beginning.
 */
#include "dgram/dgram.h"
#include "dgram/packet.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>

enum {
    DGRAM_FUZZ_COOKIE = 1,    /* of the connection, source and version are right */
    DGRAM_FUZZ_HANDSHAKE = 2, /* magic, version, ids and tag are right */
    DGRAM_FUZZ_NESTED = 4,    /* no handler may run */
    DGRAM_FUZZ_COMPUTES = 8,  /* no message may be handled */
    DGRAM_FUZZ_LATER = 16     /* 1 ms passes afterwards */
};

#define PAGE      4096u
#define ADDRESS   0x20000000u /* of the memory for peers; fixed, so that inputs can contain it */
#define FIRST     256u        /* that they may access */
#define BEHIND    3840u
#define MESSAGE   4096u
#define LARGE     2000u
#define TAG       0x11 /* each byte of every MAC and therefore of every cookie */
#define TAG_WORD  UINT64_C(0x1111111111111111)
#define UNTOUCHED 0xa7

struct fuzz_end {
    struct aqi_dgram *dgram;
    unsigned lost;
};

static struct {
    struct fuzz_end end[2]; /* 0 is attacked, 1 has connected to it */
    uint64_t now;
    bool cut; /* no more packets are transmitted */
} world;

static struct fuzz_user {
    unsigned locals, remotes;
} users[6];

static void on_local(void *arg, void *user, aq_status status)
{
    struct fuzz_user *u = user;
    (void)arg;
    fuzz_require(status == AQ_OK || status == AQ_ERANGE || status == AQ_EPEER,
                 "local gets a valid status");
    fuzz_require(u->locals++ == 0, "local is called once");
}

static void on_remote(void *arg, void *user, aq_status status)
{
    struct fuzz_user *u = user;
    (void)arg;
    fuzz_require(status == AQ_OK || status == AQ_ERANGE || status == AQ_EPEER,
                 "remote gets a valid status");
    fuzz_require(u->remotes++ == 0, "remote is called once");
}

static void on_deliver(void *arg, uint32_t source, bool request, unsigned char *message, size_t len)
{
    (void)arg, (void)request;
    fuzz_require(source < 2 && len >= 4 && len <= MESSAGE, "a delivered message is valid");
    fuzz_require((uintptr_t)message % 16 == 0, "a message is aligned");
    memset(message, 0x5a, len);
}

static bool on_range(void *arg, uint64_t addr, size_t len)
{
    (void)arg;
    return addr >= ADDRESS + FIRST && addr <= ADDRESS + BEHIND && len <= ADDRESS + BEHIND - addr;
}

static aq_status on_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *addr)
{
    (void)arg;
    *addr = (struct aqi_dgram_addr){.len = 1, .bytes = {(uint8_t)id}};
    return AQ_OK;
}

static bool on_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                   struct aqi_dgram_addr *own)
{
    (void)arg;
    *to = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)id, (uint8_t)way}};
    *own = (struct aqi_dgram_addr){.len = 2, .bytes = {(uint8_t)!id, (uint8_t)way}};
    return way < 2;
}

static void on_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why)
{
    struct fuzz_end *end = arg;
    (void)id, (void)loss, (void)why;
    fuzz_require(end->lost++ == 0, "a peer is lost once");
}

static void on_small_path(void *arg, uint32_t id, size_t usable, bool agreed)
{
    (void)arg, (void)id, (void)agreed;
    fuzz_require(usable >= AQI_DGRAM_LEAST_PACKET, "a path carries the common size");
}

static void on_mac(void *arg, const char *use, const uint8_t key[16], const struct iovec *iov,
                   unsigned niov, uint8_t tag[16])
{
    (void)arg, (void)use, (void)key, (void)iov, (void)niov;
    memset(tag, TAG, 16);
}

/* An exact copy, so that a sanitizer detects a read beyond it. */
static void give(struct fuzz_end *end, const uint8_t *bytes, size_t len, unsigned flags)
{
    unsigned char *packet = malloc(len != 0 ? len : 1);
    if (packet == NULL) abort();
    if (len != 0) memcpy(packet, bytes, len);
    if (flags & DGRAM_FUZZ_COMPUTES)
        aqi_dgram_answer(end->dgram, packet, len, 0, world.now);
    else
        aqi_dgram_input(end->dgram, packet, len, !(flags & DGRAM_FUZZ_NESTED), 0, world.now);
    free(packet);
}

static bool on_transmit(void *arg, enum aqi_dgram_channel channel, const struct aqi_dgram_addr *to,
                        const struct iovec *iov, unsigned niov, size_t segment, unsigned packets)
{
    static uint8_t all[AQI_DGRAM_BURST + AQI_DGRAM_MOST_PACKET];
    size_t len = 0;
    (void)arg, (void)channel;
    if (world.cut) return true;
    for (unsigned i = 0; i < niov; i++) {
        memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    for (size_t at = 0; packets-- > 0; at += segment) {
        /*
         * Engines are not entered again from their hooks: packets that answer are not delivered
         * from here.
         */
        size_t n = len - at < segment ? len - at : segment;
        uint8_t copy[AQI_DGRAM_LEAST_PACKET];
        fuzz_require(n <= sizeof(copy), "packets are as large as configured");
        memcpy(copy, all + at, n);
        give(&world.end[to->bytes[0] & 1], copy, n, 0);
    }
    return true;
}

static void open_end(uint32_t id)
{
    struct fuzz_end *end = &world.end[id];
    struct aqi_dgram_config config;
    const struct aqi_dgram_hooks hooks = {.transmit = on_transmit,
                                          .deliver = on_deliver,
                                          .local = on_local,
                                          .remote = on_remote,
                                          .range_ok = on_range,
                                          .lookup = on_lookup,
                                          .way = on_way,
                                          .lost = on_lost,
                                          .small_path = on_small_path,
                                          .mac = on_mac,
                                          .arg = end};
    aqi_dgram_defaults(&config);
    config.self = id;
    config.size = 2;
    config.epoch = id + 1;
    config.packet = AQI_DGRAM_LEAST_PACKET;
    config.max_message = MESSAGE;
    config.dead_after = 0;
    config.pool = 4;
    on_lookup(NULL, id, &config.address);
    if (aqi_dgram_create(&config, &hooks, &end->dgram) != AQ_OK) abort();
    if (aqi_dgram_peer(end->dgram, !id) != AQ_OK) abort();
}

static void progress(unsigned times)
{
    for (; times > 0; times--) {
        world.now += 1000000;
        for (unsigned i = 0; i < 2; i++) {
            if (world.end[i].dgram == NULL) continue;
            aqi_dgram_resume(world.end[i].dgram, true, world.now);
            aqi_dgram_progress(world.end[i].dgram, true, world.now);
        }
    }
}

/* Begin operations that are in progress when the packets arrive. */
static void begin_operations(unsigned char *small, unsigned char *large, const uint8_t *source)
{
    struct aqi_dgram *dgram = world.end[0].dgram;
    uint8_t head[32] = {0};
    aq_status st = aqi_dgram_get(dgram, 1, ADDRESS + FIRST, small, 64, &users[0]);
    if (st == AQ_OK) st = aqi_dgram_get(dgram, 1, ADDRESS + FIRST, large, LARGE, &users[1]);
    if (st == AQ_OK)
        st = aqi_dgram_put(dgram, 1, ADDRESS + FIRST, source, LARGE, false, NULL, 0, &users[2]);
    if (st == AQ_OK)
        st = aqi_dgram_put(dgram, 1, ADDRESS + FIRST, source, 8, false, NULL, 0, &users[3]);
    if (st == AQ_OK)
        st = aqi_dgram_put(dgram, 1, ADDRESS + FIRST, source, LARGE, false, head, sizeof(head),
                           &users[4]);
    if (st == AQ_OK) st = aqi_dgram_send(dgram, 1, false, head, sizeof(head), source, LARGE);
    fuzz_require(st == AQ_OK, "operations begin on a new connection");
}

static void write_over(uint8_t *packet, size_t len, unsigned flags)
{
    const uint64_t cookie = TAG_WORD, magic = UINT64_C(0x31676d6172676441);
    const uint32_t ids[2] = {1, 0};
    if (flags & DGRAM_FUZZ_COOKIE && len >= 32) {
        memcpy(packet, &cookie, 8);
        memcpy(packet + 8, ids, 4);
        packet[31] = aqi_wire_version(AQI_WIRE_UDP);
    } else if (flags & DGRAM_FUZZ_HANDSHAKE && len >= 112) {
        memcpy(packet, &magic, 8);
        packet[8] = aqi_wire_version(AQI_WIRE_UDP);
        memcpy(packet + 12, ids, 8);
        memset(packet + 96, TAG, 16);
    }
}

static void attack(const uint8_t *data, size_t size)
{
    uint8_t packet[4 * UINT8_MAX];
    while (size >= 2) {
        unsigned flags = data[0];
        size_t len = 4u * data[1], there = len < size - 2 ? len : size - 2;
        memset(packet, 0, len);
        memcpy(packet, data + 2, there);
        data += 2 + there;
        size -= 2 + there;
        write_over(packet, len, flags);
        give(&world.end[0], packet, len, flags);
        if (flags & DGRAM_FUZZ_LATER) progress(1);
    }
    progress(3);
}

static uint8_t *reachable(void)
{
    static uint8_t *page;
    if (page != NULL) return page;
    page = mmap((void *)(uintptr_t)ADDRESS, PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    fuzz_require(page == (uint8_t *)(uintptr_t)ADDRESS, "the address is free");
    return page;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *page = reachable();
    memset(page, UNTOUCHED, PAGE);
    memset(&world, 0, sizeof(world));
    memset(users, 0, sizeof(users));
    world.now = 1000000000;
    unsigned char *small = calloc(1, 64), *large = calloc(1, LARGE), *source = calloc(1, LARGE);
    if (small == NULL || large == NULL || source == NULL) abort();
    open_end(0);
    open_end(1);
    uint8_t head[16] = {0};
    if (aqi_dgram_send(world.end[1].dgram, 0, false, head, sizeof(head), NULL, 0) != AQ_OK) abort();
    progress(20);
    struct aqi_dgram_peer_info info;
    fuzz_require(aqi_dgram_peer_info(world.end[0].dgram, 1, &info) && info.connected,
                 "there is a connection");
    world.cut = true;
    begin_operations(small, large, source);
    aqi_dgram_destroy(world.end[1].dgram);
    world.end[1].dgram = NULL;
    attack(data, size);
    aqi_dgram_destroy(world.end[0].dgram);
    for (size_t i = 0; i < PAGE; i++)
        fuzz_require((i >= FIRST && i < BEHIND) || page[i] == UNTOUCHED,
                     "only memory that peers may write is written");
    free(small);
    free(large);
    free(source);
    return 0;
}
