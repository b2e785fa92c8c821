/*
 * Any messages from a peer of the provider for libfabric, which has a receive posted for each kind
 * of message, registered memory, and operations that wait for an answer. Each message is preceded
 * by its length (two bytes), and gets the next number.
 */
#include "front/fi/wire_world_test.h"
#include "fuzz.h"

static void post_receives(void)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct iovec iov = {.iov_base = world.target + 100, .iov_len = 100};
        const struct afi_receive_request request = {.iov = &iov,
                                                    .count = 1,
                                                    .tag = 5,
                                                    .ignore = i == 1 ? UINT64_MAX : 0,
                                                    .flags = i == 2 ? FI_MULTI_RECV : 0,
                                                    .tagged = i < 2,
                                                    .report = true};
        world_must(afi_receive_post(world.ep->rxq, &request));
    }
}

/* Each message is in an exact buffer, so that a sanitizer detects a read beyond it. */
static void take(const uint8_t *data, size_t len)
{
    unsigned char *bytes = malloc(len != 0 ? len : 1);
    uint32_t number = world.peer->received + 1;
    if (bytes == NULL) abort();
    memcpy(bytes, data, len);
    if (len >= sizeof(struct afi_brief))
        memcpy(bytes + offsetof(struct afi_brief, number), &number, sizeof(number));
    afi_wire_input(world.peer, bytes, len);
    free(bytes);
}

static void end(void)
{
    world_disconnect();
    for (unsigned i = 0; i < OPS; i++)
        fuzz_require(afi.ops[i].op == NULL, "each operation ends with the connection");
    for (unsigned i = MEMORY; i < sizeof(world.memory); i++)
        fuzz_require(world.memory[i] == 0, "nothing is written beyond registered memory");
    for (unsigned i = 200; i < sizeof(world.target); i++)
        fuzz_require(world.target[i] == 0, "nothing is written beyond a receive");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (world.ep == NULL) world_open();
    world.peer->state = AFI_UP;
    world.peer->eager = 8192;
    world_begin_operations();
    post_receives();
    while (len >= 2) {
        size_t n = data[0] | (size_t)data[1] << 8;
        data += 2;
        len -= 2;
        if (n > len) n = len;
        take(data, n);
        data += n;
        len -= n;
    }
    end();
    return 0;
}
