/*
 * Any bytes as messages of a peer to a registration cache that lends and borrows: refused messages
 * change nothing, and everything that was pinned is released. The input is a sequence of messages,
 * each preceded by its length (two bytes); between them this process requests a piece and releases
 * it.
 */
#include "fuzz.h"

#include "base/fail.h"
#include "reg/message.h"
#include "reg/reg.h"

#include <string.h>

enum { PAGE = 4096, REGION = 4 * PAGE, PIECES = 8 };

static uint64_t pinned;
static unsigned waiting;

static aq_status on_pin(void *host, uint64_t addr, uint64_t len, struct aqi_reg_mem *mem)
{
    (void)host;
    fuzz_require(addr % PAGE == 0 && len % PAGE == 0 && len != 0 && len <= REGION, "pages");
    pinned += len;
    fuzz_require(pinned <= 2 * PIECES * REGION, "the limit");
    *mem = (struct aqi_reg_mem){.handle = (void *)(uintptr_t)len, .key = "key", .key_len = 3};
    return AQ_OK;
}

static void on_unpin(void *host, const struct aqi_reg_mem *mem)
{
    (void)host;
    pinned -= (uintptr_t)mem->handle;
}

static enum aqi_reg_how on_how(void *host, uint32_t who, uint64_t addr, uint64_t len,
                               uint64_t *from, uint64_t *to)
{
    (void)host, (void)who, (void)from, (void)to;
    fuzz_require(len != 0 && len <= REGION && addr + (len - 1) >= addr, "a range");
    return addr / REGION % 4 == 3   ? AQI_REG_NEVER
           : addr / REGION % 4 == 2 ? AQI_REG_ONCE
                                    : AQI_REG_KEEP;
}

static bool on_changed(void *host, uint64_t *addr, uint64_t *len)
{
    (void)host, (void)addr, (void)len;
    return false;
}

static aq_status on_send(void *host, uint32_t peer, const void *bytes, size_t len)
{
    struct reg_message message;
    (void)peer;
    fuzz_require(len <= AQI_REG_MESSAGE_MAX, "messages are bounded");
    fuzz_require(reg_message_decode(bytes, len, &message) == AQ_OK,
                 "a sent message is well-formed");
    return ++*(unsigned *)host % 4 == 0 ? AQ_AGAIN : AQ_OK;
}

static aq_status on_ride(void *host, uint32_t peer, uint64_t addr, uint8_t tag, const void *bytes,
                         size_t nbytes)
{
    (void)host, (void)peer, (void)addr, (void)tag, (void)bytes;
    fuzz_require(nbytes != 0 && nbytes <= AQI_REG_RIDE_MAX, "the data sent along is bounded");
    return AQ_OK;
}

struct ask {
    struct aqi_reg_wait wait;
    bool waits, ready;
};

static void on_ready(struct aqi_reg_wait *wait, aq_status status)
{
    struct ask *ask = (struct ask *)(void *)wait;
    fuzz_require(ask->waits, "a waiting request is answered once");
    ask->waits = false;
    ask->ready = status == AQ_OK;
    if (ask->ready)
        fuzz_require(wait->use.len != 0 && wait->use.mem->key_len != 0 &&
                         wait->use.addr >= wait->use.mem_addr,
                     "an answer has what was requested");
    waiting--;
}

static void ask_for(struct aqi_reg *reg, struct ask *ask, uint64_t addr)
{
    if (ask->waits) return;
    if (ask->ready) aqi_reg_release(reg, &ask->wait.use);
    *ask = (struct ask){.wait = {.ready = on_ready, .bytes = "ride", .nbytes = addr % 5}};
    aq_status st = aqi_reg_remote(reg, 1, addr, 100, &ask->wait);
    ask->ready = st == AQ_OK;
    ask->waits = st == AQ_AGAIN;
    waiting += ask->waits;
}

static void hear(struct aqi_reg *reg, const uint8_t *bytes, size_t len)
{
    struct aqi_reg_counts before = *aqi_reg_counts(reg);
    uint8_t *exact = malloc(len != 0 ? len : 1);
    if (exact == NULL) abort();
    memcpy(exact, bytes, len);
    if (aqi_reg_input(reg, 1, exact, len) != AQ_OK)
        fuzz_require(memcmp(&before, aqi_reg_counts(reg), sizeof(before)) == 0,
                     "a refused message changes nothing");
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ask asks[4];
    unsigned sends = 0;
    struct aqi_reg *reg;
    struct aqi_reg_params params = {
        .limits = {.page = PAGE,
                   .region = REGION,
                   .main = {.bytes = PIECES * REGION, .regions = PIECES},
                   .victim = {.bytes = PIECES * REGION, .regions = 4 * PIECES},
                   .ride = AQI_REG_RIDE_MAX},
        .peers = 2,
        .cut = size % 2 != 0,
        .hooks = {on_pin, on_unpin, on_how, on_changed, on_send, on_ride, &sends}};
    memset(asks, 0, sizeof(asks));
    aqi_fail_defer(true);
    if (aqi_reg_open(&params, &reg) != AQ_OK) abort();
    for (unsigned step = 0; size >= 2; step++) {
        size_t len = data[0] | (size_t)(data[1] & 0xf) << 8;
        if (data[1] & 0x10)
            ask_for(reg, &asks[step % 4], (uint64_t)(data[0] & 31) * REGION / 2 + 1);
        if (data[1] & 0x20) aqi_reg_invalidate(reg, data[0] * (uint64_t)PAGE, 3 * PAGE);
        if (data[1] & 0x40) (void)aqi_reg_progress(reg);
        data += 2;
        size -= 2;
        if (len > size) len = size;
        hear(reg, data, len);
        data += len;
        size -= len;
    }
    aqi_reg_peer_down(reg, 1);
    fuzz_require(waiting == 0, "no request waits for a dead peer");
    for (size_t i = 0; i < 4; i++)
        if (asks[i].ready) aqi_reg_release(reg, &asks[i].wait.use);
    fuzz_require(aqi_reg_counts(reg)->lent.bytes == 0, "a dead peer holds nothing");
    fuzz_require(!aqi_reg_fenced(reg), "no request waits for pieces of a dead peer");
    aqi_reg_close(reg);
    fuzz_require(pinned == 0, "everything is released");
    return 0;
}
