/* ofi: buffers for messages and for copied data, allocated in chunks on demand. */
#include "transport/ofi/ofi_impl.h"

#include <stdlib.h>
#include <sys/mman.h>

static void ofi_buffer_drop_chunk(struct ofi_chunk *chunk)
{
    if (chunk->mr != NULL) fi_close(&chunk->mr->fid);
    if (chunk->memory != MAP_FAILED) munmap(chunk->memory, chunk->len);
    free(chunk);
}

static bool ofi_buffer_register(struct ofi_tp *ofi, struct ofi_chunk *chunk)
{
    int err;
    if (!ofi_wants(ofi, FI_MR_LOCAL)) return true;
    /* A forked child must not take these pages away from the adapter. */
    (void)madvise(chunk->memory, chunk->len, MADV_DONTFORK);
    chunk->mr = ofi_memory_register(ofi, chunk->memory, chunk->len,
                                    FI_SEND | FI_RECV | FI_READ | FI_WRITE, &err);
    return chunk->mr != NULL;
}

/* Followed by room for the state of its parts. */
static struct ofi_chunk *ofi_buffer_add_chunk(struct ofi_tp *ofi, size_t room)
{
    struct ofi_chunk *chunk = calloc(1, sizeof(*chunk) + room);
    if (chunk == NULL) return NULL;
    chunk->len = ofi_area_len(ofi);
    chunk->memory =
        mmap(NULL, chunk->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->memory == MAP_FAILED || !ofi_buffer_register(ofi, chunk)) {
        ofi_buffer_drop_chunk(chunk);
        return NULL;
    }
    chunk->next = ofi->chunks;
    ofi->chunks = chunk;
    return chunk;
}

static bool ofi_buffer_add(struct ofi_tp *ofi)
{
    struct ofi_chunk *chunk = ofi_buffer_add_chunk(ofi, OFI_CHUNK * sizeof(struct ofi_buf));
    if (chunk == NULL) return false;
    struct ofi_buf *bufs = (struct ofi_buf *)(void *)(chunk + 1);
    for (unsigned i = 0; i < OFI_CHUNK; i++) {
        bufs[i] = (struct ofi_buf){.chunk = chunk, .bytes = chunk->memory + i * ofi->buffer};
        ofi_buf_put(ofi, &bufs[i]);
    }
    return true;
}

struct ofi_buf *ofi_buf_get(struct ofi_tp *ofi)
{
    if (AQI_UNLIKELY(ofi->free == NULL) && !ofi_buffer_add(ofi)) return NULL;
    struct ofi_buf *buf = ofi->free;
    ofi->free = buf->next;
    return buf;
}

struct ofi_area *ofi_area_get(struct ofi_tp *ofi)
{
    struct ofi_area *area = ofi->free_areas;
    if (area != NULL) {
        ofi->free_areas = area->next;
        return area;
    }
    struct ofi_chunk *chunk = ofi_buffer_add_chunk(ofi, sizeof(*area));
    if (chunk == NULL) return NULL;
    area = (struct ofi_area *)(void *)(chunk + 1);
    *area = (struct ofi_area){.ctx.kind = OFI_AREA, .chunk = chunk};
    return area;
}

void ofi_buf_close(struct ofi_tp *ofi)
{
    while (ofi->chunks != NULL) {
        struct ofi_chunk *chunk = ofi->chunks;
        ofi->chunks = chunk->next;
        ofi_buffer_drop_chunk(chunk);
    }
    ofi->free = ofi->held = NULL;
    ofi->free_areas = NULL;
}
