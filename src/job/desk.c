/* Sockets to the ranks: joining, received messages, and send queues. */
#include "job/desk.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/line.h"
#include "base/mac.h"
#include "base/shmem.h"
#include "job/channel.h"
#include "job/loop.h"
#include "job/records.h"
#include "job/top.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Maximum messages received from one rank per wakeup. */
#define DESK_TURN 64
/* Maximum messages read after a process died: a child that inherited its socket might send
 * forever. */
#define DESK_LAST_WORDS 65536

struct desk_outgoing {
    struct desk_outgoing *next;
    struct aqi_control message;
    struct aqi_parcel *parcel;
};

struct desk_seat {
    struct aqi_source place;   /* our end of AQ_BOOT_FD, which receives HELLO */
    struct aqi_source control; /* the socket passed with HELLO */
    struct aqi_source life; /* pidfd of the process that sent HELLO, unless it is the forked one */
    struct desk_outgoing *first, **last;
    pid_t pid; /* the process that was forked */
    bool garbage_reported;
    bool ended; /* a process that was not forked here has ended */
};

/* A process that has connected, but not claimed a place yet. */
struct desk_caller {
    struct aqi_source source;
    struct desk_caller *next;
    struct ucred cred;
};

static struct {
    struct aqi_hub *hub;
    struct desk_seat *seats;
    uint32_t count;
    unsigned char *page; /* a cache line per seat */
    size_t page_bytes;
    struct aqi_parcel *empty;
    struct aqi_source listener; /* for ranks not forked here, which present this secret */
    uint8_t secret[AQI_JOB_KEY_BYTES];
    struct desk_caller *callers;
    uint32_t calling, claimed;
} desk = {.listener.fd = -1};

static struct desk_seat *desk_seat(uint32_t rank)
{
    return &desk.seats[aqi_hub_index(desk.hub, rank)];
}

static uint32_t desk_rank(const struct desk_seat *seat)
{
    return aqi_hub_rank_at(desk.hub, (uint32_t)(seat - desk.seats));
}

static aq_status desk_make_page(uint32_t ranks, struct aqi_parcel *parcel)
{
    desk.page_bytes = (size_t)ranks * AQI_CACHE_LINE;
    parcel->fd = memfd_create("aq-job-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (parcel->fd < 0 || ftruncate(parcel->fd, (off_t)desk.page_bytes) != 0)
        return aqi_fail(AQ_ESYS, "job", "cannot create the job page of %zu bytes: %s: %s%s",
                        desk.page_bytes, parcel->fd < 0 ? "memfd_create" : "ftruncate",
                        strerror(errno),
                        errno == EPERM || errno == ENOSYS
                            ? " (forbidden by a system call filter: allow it in the container's "
                              "seccomp profile)"
                            : "");
    void *page = mmap(NULL, desk.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, parcel->fd, 0);
    if (page == MAP_FAILED) return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot map the job page");
    /* Only this mapping, made before, is writable; kernels before 5.1 do not support the last
     * seal, and there ranks map it read-only without being forced to. */
    fcntl(parcel->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    fcntl(parcel->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    desk.page = page;
    return AQ_OK;
}

aq_status aqi_desk_open(uint32_t ranks, struct aqi_parcel **page)
{
    struct aqi_parcel *parcel = aqi_parcel_new(NULL, 0);
    desk.empty = aqi_parcel_new(NULL, 0);
    desk.seats = calloc(ranks + 1, sizeof(*desk.seats));
    desk.count = ranks;
    if (parcel == NULL || desk.empty == NULL || desk.seats == NULL)
        return aqi_fail(AQ_ENOMEM, "job", "no memory for %u ranks", ranks);
    for (uint32_t i = 0; i < ranks; i++) {
        struct desk_seat *seat = &desk.seats[i];
        seat->place.fd = seat->control.fd = seat->life.fd = -1;
        seat->last = &seat->first;
    }
    aq_status status = ranks != 0 ? desk_make_page(ranks, parcel) : AQ_OK;
    if (status == AQ_OK)
        *page = parcel;
    else
        aqi_parcel_release(parcel);
    return status;
}

void aqi_desk_serve(struct aqi_hub *hub)
{
    desk.hub = hub;
}

/* --- queues --------------------------------------------------------------------------------- */

/* Pairs with the acquire in aqi_boot_alert. Called after the send, so that a rank that sees the
 * count finds the event. */
static void desk_alert(const struct desk_seat *seat)
{
    unsigned char *line = desk.page + (size_t)(seat - desk.seats) * AQI_CACHE_LINE;
    atomic_fetch_add_explicit((_Atomic uint32_t *)(void *)line, 1, memory_order_release);
}

static void desk_seat_pop(struct desk_seat *seat)
{
    struct desk_outgoing *gone = seat->first;
    seat->first = gone->next;
    if (seat->first == NULL) seat->last = &seat->first;
    aqi_parcel_release(gone->parcel);
    free(gone);
}

static void desk_seat_clear(struct desk_seat *seat)
{
    while (seat->first != NULL)
        desk_seat_pop(seat);
}

static aq_status desk_seat_send_first(struct desk_seat *seat)
{
    struct desk_outgoing *out = seat->first;
    struct aqi_control *message = &out->message;
    message->data = out->parcel->bytes;
    message->len = out->parcel->len;
    aq_status status = aqi_channel_send(seat->control.fd, message, out->parcel->fd);
    if (status != AQ_OK) return status;
    if (message->type == AQI_CONTROL_EVENT || message->type == AQI_CONTROL_AGREED) desk_alert(seat);
    desk_seat_pop(seat);
    return AQ_OK;
}

/* Send as much as the socket accepts; the rest follows once it is writable. */
static void desk_seat_flush(struct desk_seat *seat)
{
    while (seat->first != NULL) {
        aq_status status = desk_seat_send_first(seat);
        if (status == AQ_AGAIN) break;
        if (status == AQ_OK) continue;
        if (status != AQ_EPEER)
            aqi_hub_print(desk.hub, "cannot send to rank %u: %s", desk_rank(seat), strerror(errno));
        desk_seat_clear(seat); /* closed by the rank, whose end is handled elsewhere */
    }
    aqi_source_watch(&seat->control, seat->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void aqi_desk_to_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                      struct aqi_parcel *parcel)
{
    struct desk_seat *seat = desk_seat(rank);
    (void)arg;
    if (seat->control.fd < 0) return;
    struct desk_outgoing *out = calloc(1, sizeof(*out));
    if (out == NULL) {
        aqi_hub_failed(desk.hub, AQI_EXIT_FAILED, "no memory for a message to rank %u", rank);
        return;
    }
    out->message = *message;
    out->parcel = parcel != NULL ? parcel : desk.empty;
    out->parcel->refs++;
    *seat->last = out;
    seat->last = &out->next;
    desk_seat_flush(seat);
}

static void desk_seat_leave(struct desk_seat *seat)
{
    desk_seat_clear(seat);
    aqi_source_close(&seat->place);
    aqi_source_close(&seat->control);
    aqi_source_close(&seat->life);
}

/* --- joining -------------------------------------------------------------------------------- */

static void desk_garbage(struct desk_seat *seat, size_t len)
{
    char name[AQI_RANK_NAME_BYTES];
    if (seat->garbage_reported) return;
    seat->garbage_reported = true;
    aqi_hub_print(
        desk.hub,
        "%s sent a malformed message of %zu bytes to its control socket; it is ignored, as "
        "are all further ones",
        aqi_hub_name(desk.hub, desk_rank(seat), name), len);
}

/* Refuse a HELLO over the socket passed with it, and close the socket. */
static AQI_PRINTF(3, 4) void desk_refuse(int socket, aq_status status, const char *fmt, ...)
{
    char text[AQI_CONTROL_TEXT];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct aqi_control message = {.type = AQI_CONTROL_REFUSE,
                                  .status = status,
                                  .data = text,
                                  .len = aqi_min((size_t)len, sizeof(text) - 1)};
    (void)aqi_channel_send(socket, &message, -1); /* a new socket has room, or no reader */
    close(socket);
    aqi_hub_print_verbose(desk.hub, "refused a process: %s", text);
}

static void desk_control_ready(struct aqi_source *source);
static void desk_life_ready(struct aqi_source *source);

/* Read the kernel's name of the process. */
static void desk_read_name(pid_t pid, char name[16])
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    (void)aqi_line_read(path, name, 16);
}

/* Watch a process that sent HELLO but was not forked here, such as the child of a shell. */
static void desk_watch_life(struct desk_seat *seat, pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return; /* no pidfd, or dead already: the end of the forked process is reported */
    aqi_source_open(&seat->life, fd, desk_life_ready);
    aqi_source_watch(&seat->life, EPOLLIN);
}

static void desk_accept(struct desk_seat *seat, int socket, pid_t pid)
{
    char name[16] = "";
    aqi_source_open(&seat->control, socket, desk_control_ready);
    if (pid != seat->pid && pid > 0) {
        desk_read_name(pid, name);
        desk_watch_life(seat, pid);
    }
    aqi_hub_joined(desk.hub, desk_rank(seat), (int)pid, name);
}

static void desk_hello(struct desk_seat *seat, int socket)
{
    char why[AQI_CONTROL_TEXT];
    struct ucred cred;
    if (!aqi_channel_peer(socket, &cred)) {
        close(socket);
        desk_garbage(seat, 0);
        return;
    }
    if (cred.uid != geteuid()) {
        desk_refuse(socket, AQ_EACCESS,
                    "rank %u: process %d belongs to user %u, but the job belongs to user %u: all "
                    "processes of a job must have the same user",
                    desk_rank(seat), (int)cred.pid, cred.uid, geteuid());
        return;
    }
    aq_status status = aqi_hub_may_join(desk.hub, desk_rank(seat), why);
    if (status == AQ_OK)
        desk_accept(seat, socket, cred.pid);
    else
        desk_refuse(socket, status, "%s", why);
}

static void desk_place_on_packet(struct desk_seat *seat, const uint8_t *buf, size_t len, int socket)
{
    struct aqi_control message;
    aq_status status = aqi_control_decode(buf, len, &message);
    bool hello = (status == AQ_OK || status == AQ_EMISMATCH) && message.type == AQI_CONTROL_HELLO &&
                 socket >= 0;
    if (hello && status == AQ_OK) {
        desk_hello(seat, socket);
    } else if (hello) {
        desk_refuse(socket, AQ_EPROTO,
                    "this program's library uses version %u of the control protocol, but this "
                    "aqrun uses version %u: start it with the aqrun of the same installation",
                    message.version, aqi_wire_version(AQI_WIRE_CONTROL));
    } else {
        desk_garbage(seat, len);
        if (socket >= 0) close(socket);
    }
}

/* Receive a packet from the socket of the place. Returns false if there is none. */
static bool desk_place_receive(struct desk_seat *seat)
{
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    int socket = -1;
    aq_status status = aqi_channel_receive(seat->place.fd, buf, &len, &socket);
    if (status == AQ_AGAIN) return false;
    if (status == AQ_EPEER || status == AQ_ESYS) {
        aqi_source_close(&seat->place);
        return false;
    }
    if (status == AQ_ELIMIT)
        aqi_hub_print(desk.hub,
                      "rank %u cannot join: aqrun has run out of file descriptors: raise the limit "
                      "(ulimit -n)",
                      desk_rank(seat));
    if (status == AQ_OK) desk_place_on_packet(seat, buf, len, socket);
    return true;
}

static void desk_place_ready(struct aqi_source *source)
{
    struct desk_seat *seat = AQI_OF(source, struct desk_seat, place);
    aqi_hub_now(desk.hub, aqi_now_ns());
    for (int i = 0; i < DESK_TURN && desk_place_receive(seat); i++)
        continue;
}

/* --- ranks not forked here ------------------------------------------------------------------ */

/* Maximum connections without a claim, beyond one per rank. */
#define DESK_STRANGERS 64u

/* A process that was not forked here has ended, with unknown exit status. If it has left the job,
 * the end of its socket suffices. */
static void desk_report_end(struct desk_seat *seat)
{
    uint32_t rank = desk_rank(seat);
    bool left = aqi_hub_state(desk.hub, rank) == AQI_RANK_LEFT;
    if (desk.claimed == 0 || seat->ended || (seat->life.fd >= 0 && !left)) return;
    seat->ended = true;
    aqi_hub_ended(desk.hub, rank, -1);
    desk_seat_leave(seat);
}

static void desk_forget_caller(struct desk_caller *caller)
{
    struct desk_caller **at = &desk.callers;
    while (*at != caller)
        at = &(*at)->next;
    *at = caller->next;
    desk.calling--;
    aqi_source_close(&caller->source);
    free(caller);
}

static void desk_claim(struct desk_caller *caller, const struct aqi_control *message)
{
    char why[AQI_CONTROL_TEXT];
    int fd = fcntl(caller->source.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return;
    if (message->rank >= aqi_hub_ranks(desk.hub) ||
        aqi_hub_index(desk.hub, message->rank) == AQI_NO_RANK) {
        desk_refuse(fd, AQ_EMISMATCH, "rank %u does not belong to this host", message->rank);
        return;
    }
    struct desk_seat *seat = desk_seat(message->rank);
    if (aqi_hub_state(desk.hub, message->rank) == AQI_RANK_WAITING) {
        seat->pid = caller->cred.pid;
        desk.claimed++;
        aqi_hub_started(desk.hub, message->rank, (int)caller->cred.pid);
    }
    aq_status status = aqi_hub_may_join(desk.hub, message->rank, why);
    if (status != AQ_OK) {
        desk_refuse(fd, status, "%s", why);
        return;
    }
    desk_watch_life(seat, caller->cred.pid);
    desk_accept(seat, fd, caller->cred.pid);
}

/* The secret of a caller that uses another version cannot be checked, as its position may
 * differ. */
static void desk_claim_other(struct desk_caller *caller, unsigned version)
{
    char why[AQI_CONTROL_TEXT];
    int fd = fcntl(caller->source.fd, F_DUPFD_CLOEXEC, 0);
    aqi_wire_differs(why, sizeof(why), AQI_WIRE_CONTROL, "this program's library", version,
                     "the agent of its host");
    if (fd >= 0) desk_refuse(fd, AQ_EPROTO, "%s", why);
}

static void desk_caller_ready(struct aqi_source *source)
{
    struct desk_caller *caller = AQI_OF(source, struct desk_caller, source);
    struct aqi_control message;
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    int passed = -1;
    aqi_hub_now(desk.hub, aqi_now_ns());
    aq_status status = aqi_channel_receive(source->fd, buf, &len, &passed);
    if (passed >= 0) close(passed);
    if (status == AQ_AGAIN) return;
    if (status == AQ_OK) status = aqi_control_decode(buf, len, &message);
    if (status == AQ_OK && message.type == AQI_CONTROL_CLAIM &&
        aqi_mac_same(message.key, desk.secret))
        desk_claim(caller, &message);
    else if (status == AQ_EMISMATCH && message.type == AQI_CONTROL_CLAIM)
        desk_claim_other(caller, message.version);
    desk_forget_caller(caller);
}

static void desk_listener_ready(struct aqi_source *source)
{
    int fd = aqi_source_accept(source);
    if (fd < 0) return;
    struct desk_caller *caller = calloc(1, sizeof(*caller));
    bool full = desk.calling >= desk.count + DESK_STRANGERS;
    if (caller == NULL || full || !aqi_channel_peer(fd, &caller->cred) ||
        caller->cred.uid != geteuid()) {
        free(caller);
        close(fd);
        return;
    }
    caller->next = desk.callers;
    desk.callers = caller;
    desk.calling++;
    aqi_source_open(&caller->source, fd, desk_caller_ready);
    aqi_source_watch(&caller->source, EPOLLIN);
}

aq_status aqi_desk_listen(int fd, const uint8_t secret[AQI_JOB_KEY_BYTES])
{
    memcpy(desk.secret, secret, sizeof(desk.secret));
    aqi_source_open(&desk.listener, fd, desk_listener_ready);
    int err = aqi_source_try_watch(&desk.listener, EPOLLIN);
    return err == 0 ? AQ_OK
                    : aqi_fail_errno(AQ_ESYS, err, "job", "cannot watch the socket for ranks");
}

uint32_t aqi_desk_claimed(void)
{
    return desk.claimed;
}

void aqi_desk_kill(void *arg, uint32_t rank, int number)
{
    const struct desk_seat *seat = desk_seat(rank);
    (void)arg;
    if (seat->life.fd >= 0)
        (void)syscall(SYS_pidfd_send_signal, seat->life.fd, number, NULL, 0);
    else if (seat->pid > 0 && !seat->ended)
        (void)kill(seat->pid, number);
}

/* --- messages ------------------------------------------------------------------------------- */

/* Takes ownership of the descriptor. */
static void desk_show(const struct desk_seat *seat, const struct aqi_control *message, int fd)
{
    uint32_t rank = desk_rank(seat);
    char name[AQI_RANK_NAME_BYTES];
    if (message->call != AQI_SHOW_COUNTERS) {
        aqi_records_take(rank, (enum aqi_show)message->call, fd);
    } else if (message->bytes == aqi_counters_form()) {
        aqi_top_take(rank, fd);
    } else {
        aqi_hub_print(
            desk.hub,
            "%s has different counters than this aqrun, so they cannot be shown: start it "
            "with the aqrun of the same installation",
            aqi_hub_name(desk.hub, rank, name));
        close(fd);
    }
}

/* Receive a packet from the rank's own socket. Returns false if there is none. */
static bool desk_control_receive(struct desk_seat *seat)
{
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    int passed = -1;
    aq_status status = aqi_channel_receive(seat->control.fd, buf, &len, &passed);
    if (status == AQ_AGAIN) return false;
    if (status == AQ_EPEER || status == AQ_ESYS) {
        desk_seat_clear(seat);
        aqi_source_close(&seat->control);
        desk_report_end(seat);
        return false;
    }
    struct aqi_control message;
    if (status == AQ_OK) status = aqi_control_decode(buf, len, &message);
    if (status == AQ_OK && message.type == AQI_CONTROL_SHOW) {
        /* It has no descriptor if too many were open here: do without. */
        if (passed >= 0) desk_show(seat, &message, passed);
        return true;
    }
    if (passed >= 0) close(passed);
    aqi_records_forward_log(desk_rank(seat));
    if (status == AQ_OK) status = aqi_hub_from_rank(desk.hub, desk_rank(seat), &message);
    if (status != AQ_OK) desk_garbage(seat, len);
    return true;
}

static void desk_control_ready(struct aqi_source *source)
{
    struct desk_seat *seat = AQI_OF(source, struct desk_seat, control);
    aqi_hub_now(desk.hub, aqi_now_ns());
    if ((source->events & EPOLLOUT) != 0) desk_seat_flush(seat);
    for (int i = 0; i < DESK_TURN && source->fd >= 0 && desk_control_receive(seat); i++)
        continue;
}

static void desk_life_ready(struct aqi_source *source)
{
    struct desk_seat *seat = AQI_OF(source, struct desk_seat, life);
    aqi_hub_now(desk.hub, aqi_now_ns());
    aqi_source_close(source);
    aqi_desk_drain(NULL, desk_rank(seat));
    if (desk.claimed == 0)
        aqi_hub_lost(desk.hub, desk_rank(seat));
    else
        desk_report_end(seat);
}

int aqi_desk_place(uint32_t rank)
{
    int pair[2];
    struct desk_seat *seat = desk_seat(rank);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return -1;
    aqi_source_open(&seat->place, pair[0], desk_place_ready);
    aqi_source_watch(&seat->place, EPOLLIN);
    return pair[1];
}

void aqi_desk_forked(uint32_t rank, pid_t pid)
{
    desk_seat(rank)->pid = pid;
}

void aqi_desk_drain(void *arg, uint32_t rank)
{
    struct desk_seat *seat = desk_seat(rank);
    (void)arg;
    for (int i = 0; i < DESK_LAST_WORDS && seat->place.fd >= 0 && desk_place_receive(seat); i++)
        continue;
    for (int i = 0; i < DESK_LAST_WORDS && seat->control.fd >= 0 && desk_control_receive(seat); i++)
        continue;
    aqi_records_forward_log(rank);
}

void aqi_desk_leave(uint32_t rank)
{
    desk_seat_leave(desk_seat(rank));
}

void aqi_desk_close(void)
{
    for (uint32_t i = 0; i < desk.count; i++)
        desk_seat_leave(&desk.seats[i]);
    aqi_source_close(&desk.listener);
    while (desk.callers != NULL)
        desk_forget_caller(desk.callers);
    if (desk.page != NULL) munmap(desk.page, desk.page_bytes);
    if (desk.empty != NULL) aqi_parcel_release(desk.empty);
    free(desk.seats);
    memset(&desk, 0, sizeof(desk));
    desk.listener.fd = -1;
}

/* --- descriptors ---------------------------------------------------------------------------- */

static aq_status desk_wrap(aq_status status, int fd, struct aqi_parcel **parcel)
{
    if (status != AQ_OK) return status;
    *parcel = aqi_parcel_new(NULL, 0);
    if (*parcel == NULL) {
        close(fd);
        return aqi_fail(AQ_ENOMEM, "job", "no memory for the shared data of all ranks");
    }
    (*parcel)->fd = fd;
    return AQ_OK;
}

aq_status aqi_desk_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel)
{
    int fd = -1;
    (void)arg;
    aq_status status = aqi_shmem_freeze("aq-table", bytes, len, &fd);
    return desk_wrap(status, fd, parcel);
}

aq_status aqi_desk_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel)
{
    int fd = -1;
    (void)arg;
    aq_status status = aqi_shmem_create(name, bytes, &fd);
    return desk_wrap(status, fd, parcel);
}
