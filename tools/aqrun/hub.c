/* Sockets to the ranks: joining, messages in, queues out. */
#include "hub.h"

#include "job.h"
#include "job/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Messages taken from one rank before the others get their turn. */
#define HUB_TURN 64
/* A dead process has said only so much; a child of it that holds the socket may go on for ever. */
#define HUB_LAST_WORDS 65536

struct outgoing {
    struct outgoing *next;
    struct aqi_control message;
    struct parcel *parcel;
};

static struct {
    unsigned char *page; /* a cache line per rank */
    struct parcel *page_fd;
} hub;

struct parcel *parcel_new(const void *bytes, size_t len)
{
    struct parcel *parcel = calloc(1, sizeof(*parcel) + len);
    if (parcel == NULL) return NULL;
    parcel->refs = 1;
    parcel->len = len;
    parcel->fd = -1;
    if (bytes != NULL) memcpy(parcel->bytes, bytes, len);
    return parcel;
}

void parcel_release(struct parcel *parcel)
{
    if (--parcel->refs != 0) return;
    if (parcel->fd >= 0) close(parcel->fd);
    free(parcel);
}

void hub_open(void)
{
    size_t bytes = (size_t)job.size * AQI_CACHE_LINE;
    int fd = memfd_create("aq-job-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        die("job page of %zu bytes: %s: %s%s", bytes, fd < 0 ? "memfd_create" : "ftruncate",
            strerror(errno),
            errno == EPERM || errno == ENOSYS
                ? " (a filter of system calls forbids it: allow it in the container's seccomp "
                  "profile)"
                : "");
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    hub.page_fd = parcel_new(NULL, 0);
    if (page == MAP_FAILED || hub.page_fd == NULL) die("job page: %s", strerror(errno));
    /* Only this mapping, made before, can write; kernels before 5.1 do not know the last seal, and
     * there the ranks map it read-only out of politeness. */
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    hub.page = page;
    hub.page_fd->fd = fd;
}

/* Pairs with the acquire in aqi_boot_alert; after the send, so that who sees it finds the event. */
static void hub_alert(const struct rank *rank)
{
    unsigned char *line = hub.page + (size_t)rank->number * AQI_CACHE_LINE;
    atomic_fetch_add_explicit((_Atomic uint32_t *)(void *)line, 1, memory_order_release);
}

static void link_pop(struct link *link)
{
    struct outgoing *gone = link->first;
    link->first = gone->next;
    if (link->first == NULL) link->last = &link->first;
    parcel_release(gone->parcel);
    free(gone);
}

static void link_clear(struct link *link)
{
    while (link->first != NULL)
        link_pop(link);
}

static aq_status link_send_first(struct rank *rank)
{
    struct link *link = &rank->link;
    struct outgoing *out = link->first;
    struct aqi_control *message = &out->message;
    message->data = out->parcel->bytes;
    message->len = out->parcel->len;
    aq_status status = aqi_channel_send(link->control.fd, message, out->parcel->fd);
    if (status != AQ_OK) return status;
    if (message->type == AQI_CONTROL_EVENT || message->type == AQI_CONTROL_AGREED) hub_alert(rank);
    link_pop(link);
    return AQ_OK;
}

/* Send what the socket takes; the rest when it is ready. */
static void link_flush(struct rank *rank)
{
    struct link *link = &rank->link;
    while (link->first != NULL) {
        aq_status status = link_send_first(rank);
        if (status == AQ_AGAIN) break;
        if (status == AQ_OK) continue;
        if (status != AQ_EPEER) say("cannot send to rank %u: %s", rank->number, strerror(errno));
        link_clear(link); /* whoever closed it wants no more; its end is judged elsewhere */
    }
    source_watch(&link->control, link->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void hub_send(struct rank *rank, const struct aqi_control *message, struct parcel *parcel)
{
    struct link *link = &rank->link;
    if (link->control.fd < 0) return;
    struct outgoing *out = calloc(1, sizeof(*out));
    if (out == NULL) die("no memory for a message to rank %u", rank->number);
    parcel->refs++;
    out->message = *message;
    out->parcel = parcel;
    *link->last = out;
    link->last = &out->next;
    link_flush(rank);
}

void hub_tell(uint32_t but, enum aqi_boot_event_type event, uint32_t rank, int code,
              const char *why)
{
    struct aqi_control message = {
        .type = AQI_CONTROL_EVENT, .event = event, .rank = rank, .code = code};
    struct parcel *text = parcel_new(why, aqi_min(strlen(why), AQI_CONTROL_TEXT));
    if (text == NULL) die("no memory to tell: %s", why);
    for (uint32_t i = 0; i < job.spawned; i++)
        if (i != but && job.ranks[i].state == RANK_JOINED) hub_send(&job.ranks[i], &message, text);
    parcel_release(text);
}

void hub_garbage(struct rank *rank, size_t len)
{
    if (rank->link.garbage_said) return;
    rank->link.garbage_said = true;
    char name[RANK_NAME_BYTES];
    say("%s wrote %zu bytes to its control socket that make no sense; they are ignored, like all "
        "further ones",
        rank_name(rank, name), len);
}

/* Refuse a HELLO over the socket that came with it, which is then closed. */
static AQI_PRINTF(3, 4) void hub_refuse(int socket, aq_status status, const char *fmt, ...)
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
    (void)aqi_channel_send(socket, &message, -1); /* a new socket has room, or nobody listens */
    close(socket);
    tell("refused a process: %s", text);
}

static void control_ready(struct source *source);
static void life_ready(struct source *source);

static void hub_read_name(struct rank *rank)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)rank->joined_pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    if (fgets(rank->joined_name, sizeof(rank->joined_name), file) != NULL)
        rank->joined_name[strcspn(rank->joined_name, "\n")] = '\0';
    fclose(file);
}

/* We are told when the forked process ends; one that a shell started has to be watched. */
static void hub_watch_life(struct rank *rank)
{
    if (rank->joined_pid == rank->pid || rank->joined_pid <= 0) return;
    hub_read_name(rank);
    int fd = (int)syscall(SYS_pidfd_open, rank->joined_pid, 0);
    if (fd < 0) return; /* no pidfd, or dead already: the end of the forked process will tell */
    source_open(&rank->life, fd, life_ready);
    source_watch(&rank->life, EPOLLIN);
}

static void hub_accept(struct rank *rank, int socket, pid_t pid)
{
    rank->state = RANK_JOINED;
    rank->joined_pid = pid;
    source_open(&rank->link.control, socket, control_ready);
    hub_watch_life(rank);
    struct aqi_control message = {.type = AQI_CONTROL_JOB,
                                  .rank = rank->number,
                                  .size = job.size,
                                  .hosts = 1,
                                  .local_rank = rank->number,
                                  .local_size = job.size};
    memcpy(message.key, job.key, sizeof(message.key));
    hub_send(rank, &message, hub.page_fd);
    tell("rank %u joined (pid %d)", rank->number, (int)pid);
}

/* Who made the socket that came with HELLO: the kernel says, not the message. */
static bool hub_credentials(int socket, struct ucred *who)
{
    socklen_t len = sizeof(*who);
    return aqi_channel_is_one(socket) &&
           getsockopt(socket, SOL_SOCKET, SO_PEERCRED, who, &len) == 0;
}

static void hub_hello(struct rank *rank, int socket)
{
    struct ucred who;
    if (!hub_credentials(socket, &who)) {
        close(socket);
        hub_garbage(rank, 0);
    } else if (who.uid != geteuid()) {
        hub_refuse(socket, AQ_EACCESS,
                   "rank %u: process %d belongs to user %u, but the job to user %u: a job is one "
                   "user's",
                   rank->number, (int)who.pid, who.uid, geteuid());
    } else if (rank->state != RANK_STARTED) {
        hub_refuse(socket, AQ_ESTATE,
                   "rank %u's place in the job is taken: process %d joined there and %s; a place "
                   "serves one program once, so start the second one with an aqrun of its own",
                   rank->number, (int)rank->joined_pid,
                   rank->state == RANK_LEFT ? "has left again" : "has not left");
    } else if (job.end.ending) {
        hub_refuse(socket, AQ_EPEER, "the job is ending: %s", job.end.why);
    } else {
        hub_accept(rank, socket, who.pid);
    }
}

/* Take a packet from the place's socket; false when there is none. */
static bool place_take(struct rank *rank)
{
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    int socket = -1;
    aq_status status = aqi_channel_receive(rank->link.place.fd, buf, &len, &socket);
    if (status == AQ_AGAIN) return false;
    if (status == AQ_EPEER || status == AQ_ESYS) {
        source_close(&rank->link.place);
        return false;
    }
    if (status == AQ_ELIMIT)
        say("rank %u cannot join: aqrun is out of file descriptors: raise the "
            "limit (ulimit -n)",
            rank->number);
    if (status != AQ_OK) return true;
    struct aqi_control message;
    status = aqi_control_decode(buf, len, &message);
    bool hello = (status == AQ_OK || status == AQ_EMISMATCH) && message.type == AQI_CONTROL_HELLO &&
                 socket >= 0;
    if (hello && status == AQ_OK) {
        hub_hello(rank, socket);
    } else if (hello) {
        hub_refuse(socket, AQ_EPROTO,
                   "this program's library speaks version %u of the control protocol, this aqrun "
                   "version %u: start it with the aqrun of the same installation",
                   message.version, AQI_CONTROL_VERSION);
    } else {
        hub_garbage(rank, len);
        if (socket >= 0) close(socket);
    }
    return true;
}

static void place_ready(struct source *source)
{
    struct rank *rank = AQRUN_OF(source, struct rank, link.place);
    for (int i = 0; i < HUB_TURN && place_take(rank); i++)
        continue;
}

static void hub_on_bye(struct rank *rank, const struct aqi_control *message)
{
    (void)message;
    rank->state = RANK_LEFT;
    job.absent++;
    tell("rank %u left", rank->number);
    if (rank->leaving) end_left(rank);
    collective_check();
    agree_gone(rank);
}

static void hub_on_ready(struct rank *rank, const struct aqi_control *message)
{
    (void)message;
    job.ready += !rank->ready;
    rank->ready = true;
}

static void hub_on_exit(struct rank *rank, const struct aqi_control *message)
{
    char why[AQI_CONTROL_TEXT + 1];
    aqi_control_text(message, why);
    end_asked(rank, message->code, why);
}

static void hub_on_leaving(struct rank *rank, const struct aqi_control *message)
{
    (void)message;
    job.leaving += !rank->leaving;
    rank->leaving = true;
    collective_check();
}

static void hub_on_ending(struct rank *rank, const struct aqi_control *message)
{
    end_wanted(rank, message->code, message->wait);
}

/* What a rank may say once it has joined; the other types are garbage. */
static void (*const hub_handlers[AQI_CONTROL_TYPES])(struct rank *, const struct aqi_control *) = {
    [AQI_CONTROL_CALL] = collective_call, [AQI_CONTROL_BYE] = hub_on_bye,
    [AQI_CONTROL_READY] = hub_on_ready,   [AQI_CONTROL_LEAVING] = hub_on_leaving,
    [AQI_CONTROL_AGREE] = agree_call,     [AQI_CONTROL_EXIT] = hub_on_exit,
    [AQI_CONTROL_ENDING] = hub_on_ending,
};

/* Take a packet from the rank's own socket; false when there is none. */
static bool control_take(struct rank *rank)
{
    uint8_t buf[AQI_CONTROL_MAX];
    size_t len = sizeof(buf);
    int passed = -1;
    aq_status status = aqi_channel_receive(rank->link.control.fd, buf, &len, &passed);
    if (status == AQ_AGAIN) return false;
    if (status == AQ_EPEER || status == AQ_ESYS) {
        link_clear(&rank->link);
        source_close(&rank->link.control);
        return false;
    }
    if (passed >= 0) close(passed);
    struct aqi_control message;
    if (status == AQ_OK) status = aqi_control_decode(buf, len, &message);
    if (status != AQ_OK || hub_handlers[message.type] == NULL)
        hub_garbage(rank, len);
    else if (rank->state == RANK_JOINED) /* who has left has nothing to say any more */
        hub_handlers[message.type](rank, &message);
    return true;
}

static void control_ready(struct source *source)
{
    struct rank *rank = AQRUN_OF(source, struct rank, link.control);
    if ((source->events & EPOLLOUT) != 0) link_flush(rank);
    for (int i = 0; i < HUB_TURN && source->fd >= 0 && control_take(rank); i++)
        continue;
}

static void life_ready(struct source *source)
{
    struct rank *rank = AQRUN_OF(source, struct rank, life);
    source_close(source);
    hub_drain(rank);
    if (rank->state == RANK_JOINED) end_lost(rank);
}

int hub_place(struct rank *rank)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        die("socket pair for rank %u: %s", rank->number, strerror(errno));
    struct link *link = &rank->link;
    link->last = &link->first;
    source_open(&link->place, pair[0], place_ready);
    source_watch(&link->place, EPOLLIN);
    return pair[1];
}

void hub_drain(struct rank *rank)
{
    for (int i = 0; i < HUB_LAST_WORDS && rank->link.place.fd >= 0 && place_take(rank); i++)
        continue;
    for (int i = 0; i < HUB_LAST_WORDS && rank->link.control.fd >= 0 && control_take(rank); i++)
        continue;
}

void hub_close(struct rank *rank)
{
    link_clear(&rank->link);
    source_close(&rank->link.place);
    source_close(&rank->link.control);
    source_close(&rank->life);
}
