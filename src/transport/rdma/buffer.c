/* rdma: buffers for messages and for copied data, registered in chunks on demand. */
#include "transport/rdma/rdma.h"

#include "base/fail.h"

#include <stdlib.h>
#include <sys/mman.h>

static void rdma_drop_chunk(struct aqi_rdma *rdma, struct aqi_rdma_chunk *chunk)
{
    rdma->driver->dereg(rdma, chunk->mr);
    munmap(chunk->memory, chunk->len);
    free(chunk);
}

struct aqi_rdma_chunk *aqi_rdma_add_chunk(struct aqi_rdma *rdma, size_t len,
                                          enum aqi_pins_access access, size_t room)
{
    struct aqi_rdma_chunk *chunk = calloc(1, sizeof(*chunk) + room);
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == NULL || memory == MAP_FAILED) {
        if (memory != MAP_FAILED) munmap(memory, len);
        free(chunk);
        aqi_fail_quiet(AQ_ENOMEM, "no memory for buffers");
        return NULL;
    }
    chunk->memory = memory;
    chunk->len = len;
    /* After a fork, copy-on-write would separate these pages from those that the adapter
     * accesses. */
    (void)madvise(memory, len, MADV_DONTFORK);
    if (rdma->driver->reg(rdma, memory, len, access, chunk->mr) != AQ_OK) {
        rdma_drop_chunk(rdma, chunk);
        return NULL;
    }
    chunk->next = rdma->chunks;
    rdma->chunks = chunk;
    return chunk;
}

bool aqi_rdma_more_bufs(struct aqi_rdma *rdma)
{
    size_t size = rdma->driver->buf_size;
    struct aqi_rdma_chunk *chunk =
        aqi_rdma_add_chunk(rdma, aqi_rdma_chunk_len(rdma), AQI_PINS_BUFFERS, AQI_RDMA_CHUNK * size);
    if (chunk == NULL) return false;
    for (unsigned i = 0; i < AQI_RDMA_CHUNK; i++) {
        struct aqi_rdma_buf *buf = (void *)((unsigned char *)(chunk + 1) + i * size);
        *buf = (struct aqi_rdma_buf){.chunk = chunk, .bytes = chunk->memory + i * rdma->buffer};
        aqi_rdma_put(rdma, buf);
    }
    return true;
}

void aqi_rdma_drop_chunks(struct aqi_rdma *rdma)
{
    while (rdma->chunks != NULL) {
        struct aqi_rdma_chunk *chunk = rdma->chunks;
        rdma->chunks = chunk->next;
        rdma_drop_chunk(rdma, chunk);
    }
    rdma->free = rdma->held = NULL;
}
