/* ibv: message buffers, registered in chunks on demand. */
#include "transport/ibv/hca_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void hca_buffer_drop_chunk(struct hca_chunk *chunk)
{
    hca_rails_deregister(chunk->mr);
    if (chunk->memory != MAP_FAILED) munmap(chunk->memory, chunk->len);
    free(chunk);
}

bool hca_buf_more(struct hca_tp *hca)
{
    struct hca_chunk *chunk = calloc(1, sizeof(*chunk) + HCA_CHUNK * sizeof(struct hca_buf));
    if (chunk == NULL) {
        aqi_fail_quiet(AQ_ENOMEM, "no memory for buffers");
        return false;
    }
    chunk->len = aqi_round_up(HCA_CHUNK * hca->buffer, 4096);
    chunk->memory =
        mmap(NULL, chunk->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool fine = chunk->memory != MAP_FAILED;
    /* A forked child must not take these pages away from the adapter. */
    if (fine) (void)madvise(chunk->memory, chunk->len, MADV_DONTFORK);
    if (!fine) aqi_fail_quiet(AQ_ENOMEM, "no memory for buffers");
    if (!fine ||
        !hca_rails_register(hca, chunk->mr, chunk->memory, chunk->len, IBV_ACCESS_LOCAL_WRITE)) {
        hca_buffer_drop_chunk(chunk);
        return false;
    }
    chunk->next = hca->chunks;
    hca->chunks = chunk;
    struct hca_buf *bufs = (struct hca_buf *)(void *)(chunk + 1);
    for (unsigned i = 0; i < HCA_CHUNK; i++) {
        bufs[i] = (struct hca_buf){.chunk = chunk, .bytes = chunk->memory + i * hca->buffer};
        hca_buf_put(hca, &bufs[i]);
    }
    return true;
}

/* Buffers whose completion is not signalled come back only on request. */
static void hca_buffer_ask_back(struct hca_tp *hca)
{
    hca->silent_most = 0;
    for (uint32_t id = 0; id < hca->params.size; id++)
        for (unsigned r = 0; hca->peers[id] != NULL && r < hca->rails; r++)
            hca_link_mark(hca, hca->peers[id], r);
}

aq_status hca_buf_short(struct hca_tp *hca, struct hca_peer *peer, uint32_t mine)
{
    static atomic_bool once;
    aqi_log_once(&once, AQI_LOG_WARN, "ibv", "no more message buffers can be registered: %s",
                 aq_error_message());
    if (hca->bounced > mine) {
        hca_buffer_ask_back(hca);
        return AQ_AGAIN;
    }
    hca_peer_fail(hca, peer, "no buffer for messages: %s", aq_error_message());
    return AQ_EPEER;
}

void hca_buf_close(struct hca_tp *hca)
{
    while (hca->chunks != NULL) {
        struct hca_chunk *chunk = hca->chunks;
        hca->chunks = chunk->next;
        hca_buffer_drop_chunk(chunk);
    }
    hca->free = hca->held = NULL;
}
