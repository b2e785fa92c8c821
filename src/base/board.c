/* Text about this process that others may read. */
#include "base/board.h"

#include "base/shmem.h"
#include "base/spin.h"

#include <unistd.h>

static struct {
    struct aqi_board *_Atomic at;
    size_t size;
    int fd;
    struct aqi_spin lock; /* of its writers, and of who opens it */
    struct aqi_safe_text text;
} board;

static aq_status board_make(size_t size)
{
    void *at;
    int fd;
    aq_status st = aqi_shmem_create(AQI_BOARD_NAME, size, &fd);
    if (st != AQ_OK) return st;
    st = aqi_shmem_map(fd, size, &at);
    if (st != AQ_OK) {
        close(fd);
        return st;
    }
    board.size = size;
    board.fd = fd; /* stays open, so that it is found */
    atomic_store(&board.at, at);
    return AQ_OK;
}

aq_status aqi_board_open(size_t room)
{
    size_t size = aqi_round_up(sizeof(struct aqi_board) + room, aqi_page_size());
    aqi_spin_lock(&board.lock);
    aq_status st = atomic_load(&board.at) != NULL ? AQ_OK : board_make(size);
    aqi_spin_unlock(&board.lock);
    return st;
}

struct aqi_safe_text *aqi_board_begin(void)
{
    struct aqi_board *at = atomic_load(&board.at);
    if (at == NULL) return NULL;
    aqi_spin_lock(&board.lock);
    atomic_fetch_add(&at->turn, 1);
    board.text = (struct aqi_safe_text){.text = at->text, .room = board.size - sizeof(*at)};
    return &board.text;
}

void aqi_board_end(void)
{
    struct aqi_board *at = atomic_load(&board.at);
    at->len = board.text.used;
    atomic_fetch_add(&at->turn, 1);
    aqi_spin_unlock(&board.lock);
}

void aqi_board_print(int fd)
{
    struct aqi_board *at = atomic_load(&board.at);
    if (at == NULL) return;
    struct aqi_safe_text text = {.text = at->text, .used = at->len, .room = at->len};
    (void)aqi_safe_write(&text, fd);
}
