/* The bootstrap of a process that has an agent on its host: aqrun, which forked it, or one
 * started by ranks of a manager's job. The rank's side of the control socket. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/stats.h"
#include "job/channel.h"
#include "job/control.h"
#include "job/managed.h"
#include "job/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORK_MILLISECOND 1000000ull
#define FORK_SLICE_MS    1000
/* aqrun limits waits and reports missing ranks. If it has not done so this long after the limit,
 * it is considered unresponsive. */
#define FORK_GRACE_NS (5000 * FORK_MILLISECOND)

struct fork_event {
    struct fork_event *next;
    struct aqi_boot_event event;
    char text[AQI_CONTROL_TEXT + 1];
    uint8_t set[]; /* AGREED */
};

struct fork_boot {
    struct aqi_boot boot;
    void *page;
    size_t page_bytes;
    uint32_t seq;                        /* collective calls made */
    aq_status broken;                    /* why no further collective call is possible, or AQ_OK */
    struct aqi_managed *_Atomic managed; /* NULL: aqrun started us */
    struct fork_event *events; /* received during collective calls, for progress to deliver */
    struct fork_event **last;
    uint8_t buf[AQI_CONTROL_MAX];
};

static struct fork_boot *fork_of(struct aqi_boot *boot)
{
    return (struct fork_boot *)(void *)boot;
}

/* The name of the launcher in messages. */
static const char *fork_agent(const struct fork_boot *fork)
{
    return fork->managed != NULL ? "the agent of this host" : "aqrun";
}

/*
 * Wait until the socket is ready for `events`. `*waited` accumulates over calls, excluding the
 * time for which this process was stopped (Ctrl-Z).
 */
static aq_status fork_wait(const struct fork_boot *fork, int fd, short events, uint64_t *waited)
{
    if (*waited >= aqi_job_config.start_timeout_ns + FORK_GRACE_NS)
        return aqi_fail(AQ_ETIMEOUT, "job",
                        "no answer from %s for %.3g s: it hangs or is stopped; end the job, or "
                        "raise AQ_START_TIMEOUT",
                        fork_agent(fork), (double)*waited / 1e9);
    struct pollfd state = {.fd = fd, .events = events};
    uint64_t before = aqi_now_ns();
    if (fork->boot.idle != NULL && events == POLLIN)
        fork->boot.idle();
    else
        poll(&state, 1, FORK_SLICE_MS);
    uint64_t elapsed = aqi_now_ns() - before;
    *waited += aqi_min(elapsed, FORK_SLICE_MS * FORK_MILLISECOND);
    return AQ_OK;
}

static aq_status fork_broken_socket(const struct fork_boot *fork, aq_status status,
                                    const char *doing)
{
    if (status == AQ_EPEER)
        return aqi_fail(AQ_EPEER, "job", "%s is gone (%s): it was killed, or it ended the job",
                        fork_agent(fork), doing);
    bool taken = errno == EBADF || errno == ENOTSOCK;
    return aqi_fail_errno(
        status, errno, "job", "%s: control socket to %s%s", doing, fork_agent(fork),
        taken ? " (the program must not close descriptors that it did not open)" : "");
}

/* Receive one message; AQ_AGAIN if there is none. Text and data are valid until the next call. */
static aq_status fork_take(struct fork_boot *fork, struct aqi_control *message, int *passed)
{
    size_t len = sizeof(fork->buf);
    int fd = -1;
    aq_status status = aqi_channel_receive(fork->boot.fd, fork->buf, &len, &fd);
    if (status == AQ_AGAIN) return status;
    if (status == AQ_ELIMIT)
        return aqi_fail(AQ_ELIMIT, "job",
                        "no file descriptor available to receive from %s: raise the limit "
                        "(ulimit -n) or close files",
                        fork_agent(fork));
    if (status == AQ_EPROTO)
        return aqi_fail(AQ_EPROTO, "job", "%s sent a malformed control message", fork_agent(fork));
    if (status != AQ_OK) return fork_broken_socket(fork, status, "receive");
    status = aqi_control_decode(fork->buf, len, message);
    if (status == AQ_OK) {
        *passed = fd;
        return AQ_OK;
    }
    if (fd >= 0) close(fd);
    if (status == AQ_EMISMATCH)
        return aqi_fail(AQ_EPROTO, "job",
                        "aqrun uses version %u of the control protocol, but this program's library "
                        "uses version %u: start it with the aqrun of the same installation",
                        message->version, aqi_wire_version(AQI_WIRE_CONTROL));
    return aqi_fail(AQ_EPROTO, "job", "%s sent a malformed control message of %zu bytes",
                    fork_agent(fork), len);
}

static aq_status fork_receive(struct fork_boot *fork, struct aqi_control *message, int *passed)
{
    uint64_t waited = 0;
    for (;;) {
        aq_status status = fork_take(fork, message, passed);
        if (status != AQ_AGAIN) return status;
        status = fork_wait(fork, fork->boot.fd, POLLIN, &waited);
        if (status != AQ_OK) return status;
    }
}

static aq_status fork_send(const struct fork_boot *fork, int socket,
                           const struct aqi_control *message, int pass)
{
    uint64_t waited = 0;
    for (;;) {
        aq_status status = aqi_channel_send(socket, message, pass);
        if (status == AQ_OK) return AQ_OK;
        if (status != AQ_AGAIN) return fork_broken_socket(fork, status, "send");
        status = fork_wait(fork, socket, POLLOUT, &waited);
        if (status != AQ_OK) return status;
    }
}

/* Check that AQ_BOOT_FD is the socket passed by aqrun. A child of a rank inherits the variable,
 * not the socket. */
static aq_status fork_check_place(int place)
{
    if (aqi_channel_is_one(place)) return AQ_OK;
    return aqi_fail(
        AQ_ESTATE, "job",
        "AQ_BOOT_FD=%d is not aqrun's control socket: a rank of a job started this program, or the "
        "descriptor was closed; unset AQ_BOOT_FD to run it as a separate job",
        place);
}

static void fork_hang_up(struct fork_boot *fork)
{
    close(atomic_exchange(&fork->boot.fd, -1));
}

/* Send HELLO over the place's socket, with one end of a new socket for all further messages. */
static aq_status fork_hello(struct fork_boot *fork, int place)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return aqi_fail_errno(
            errno == EMFILE || errno == ENFILE ? AQ_ELIMIT : AQ_ESYS, errno, "job",
            "cannot create a socket pair for the control channel (is ulimit -n too low?)");
    struct aqi_control hello = {.type = AQI_CONTROL_HELLO};
    fork->boot.fd = pair[0]; /* before aqrun is notified: see aqi_boot_open */
    aq_status status = fork_send(fork, place, &hello, pair[1]);
    close(pair[1]);
    if (status != AQ_OK) fork_hang_up(fork);
    return status;
}

/* Map the page, which has a cache line for each rank of this host. */
static aq_status fork_map_page(struct fork_boot *fork, int page, uint32_t rank, uint32_t size)
{
    fork->page_bytes = (size_t)size * AQI_CACHE_LINE;
    void *addr = mmap(NULL, fork->page_bytes, PROT_READ, MAP_SHARED, page, 0);
    if (addr == MAP_FAILED)
        return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot map the job page of %zu bytes",
                              fork->page_bytes);
    fork->page = addr;
    const unsigned char *line = (const unsigned char *)addr + (size_t)rank * AQI_CACHE_LINE;
    fork->boot.alerts = (const _Atomic uint32_t *)(const void *)line;
    return AQ_OK;
}

static aq_status fork_status(const struct aqi_control *message)
{
    return message->status < 0 ? (aq_status)message->status : AQ_EPROTO;
}

/* Receive the answer to HELLO: this rank's place in the job, or why it was refused. */
static aq_status fork_join(struct fork_boot *fork)
{
    char text[AQI_CONTROL_TEXT + 1];
    struct aqi_control job;
    int page = -1;
    aq_status status = fork_receive(fork, &job, &page);
    if (status != AQ_OK) return status;
    if (job.type == AQI_CONTROL_REFUSE) {
        status = aqi_fail(fork_status(&job), "job", "%s", aqi_control_text(&job, text));
    } else if (job.type != AQI_CONTROL_JOB || page < 0) {
        status = aqi_fail(AQ_EPROTO, "job", "%s answered HELLO with a message of type %u",
                          fork_agent(fork), job.type);
    } else {
        struct aqi_boot_info *info = &fork->boot.info;
        info->rank = job.rank;
        info->size = job.size;
        info->host = job.host;
        info->hosts = job.hosts;
        info->local_rank = job.local_rank;
        info->local_size = job.local_size;
        memcpy(info->key, job.key, sizeof(info->key));
        status = fork_map_page(fork, page, job.local_rank, job.local_size);
    }
    if (page >= 0) close(page);
    return status;
}

/* Join by the socket that aqrun has passed. */
static aq_status fork_open_place(struct fork_boot *fork)
{
    int place = (int)aqi_job_config.boot_fd;
    aq_status status = fork_check_place(place);
    if (status != AQ_OK) return status;
    /* Programs started by this one are not ranks. */
    fcntl(place, F_SETFD, FD_CLOEXEC);
    /* aqrun has requested this already, unless there is a shell between it and this process. If
     * aqrun died before this line, the socket below shows it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return fork_hello(fork, place);
}

static void fork_depart(struct aqi_boot *boot)
{
    struct aqi_managed *managed = atomic_exchange(&fork_of(boot)->managed, NULL);
    if (managed != NULL) aqi_managed_close(managed);
}

static aq_status fork_open_managed(struct fork_boot *fork, const struct aqi_manager_kind *kind)
{
    struct aqi_managed *managed;
    int fd;
    aq_status status = aqi_managed_open(kind, &managed, &fd);
    if (status != AQ_OK) return status;
    fork->boot.fd = fd;
    fork->managed = managed;
    return AQ_OK;
}

static aq_status fork_open(struct aqi_boot *boot)
{
    struct fork_boot *fork = fork_of(boot);
    const struct aqi_manager_kind *kind = NULL;
    fork->last = &fork->events;
    aq_status status = AQ_OK;
    if (aqi_job_config.boot_fd == 0) status = aqi_manager_choose(&kind);
    if (status == AQ_OK)
        status = kind != NULL ? fork_open_managed(fork, kind) : fork_open_place(fork);
    if (status != AQ_OK) return status;
    status = fork_join(fork);
    if (status != AQ_OK) {
        /* Otherwise the other ranks would wait for this one. */
        if (fork->managed != NULL) aqi_managed_abort(fork->managed);
        fork_depart(boot);
        fork_hang_up(fork);
    } else if (kind == NULL) {
        close((int)aqi_job_config.boot_fd); /* programs started by this one must not inherit it */
    }
    return status;
}

/* Convert an unsolicited message, EVENT or AGREED, to an event. */
static aq_status fork_read_event(const struct fork_boot *fork, const struct aqi_control *message,
                                 struct fork_event **out)
{
    bool agreed = message->type == AQI_CONTROL_AGREED;
    size_t set_bytes = agreed ? aqi_boot_set_bytes(fork->boot.info.size) : 0;
    if (agreed && message->len != set_bytes)
        return aqi_fail(AQ_EPROTO, "job", "%s sent a set of ranks of %zu bytes instead of %zu",
                        fork_agent(fork), message->len, set_bytes);
    struct fork_event *read = calloc(1, sizeof(*read) + set_bytes);
    if (read == NULL)
        return aqi_fail(AQ_ENOMEM, "job", "no memory for a message from %s", fork_agent(fork));
    if (agreed)
        memcpy(read->set, message->data, set_bytes);
    else
        aqi_control_text(message, read->text);
    read->event = (struct aqi_boot_event){.type = agreed ? AQI_BOOT_AGREED
                                                         : (enum aqi_boot_event_type)message->event,
                                          .rank = message->rank,
                                          .code = message->code,
                                          .text = read->text,
                                          .name = {message->name[0], message->name[1]},
                                          .status = (aq_status)message->status,
                                          .set = read->set};
    *out = read;
    return AQ_OK;
}

static bool fork_is_event(const struct aqi_control *message)
{
    return message->type == AQI_CONTROL_EVENT || message->type == AQI_CONTROL_AGREED;
}

/* Queue a message received while a collective call waits for its result. */
static aq_status fork_queue_event(struct fork_boot *fork, const struct aqi_control *message)
{
    struct fork_event *event;
    aq_status status = fork_read_event(fork, message, &event);
    if (status != AQ_OK) return status;
    *fork->last = event;
    fork->last = &event->next;
    /* Whether a death fails the call is decided by aqrun, the same for all ranks, and is in the
     * result. */
    if (event->event.type != AQI_BOOT_EXIT) return AQ_OK;
    /* aqrun has reported it; each rank repeating it would be noise. */
    return aqi_fail_quiet(AQ_EPEER, "%s", event->text);
}

/* Once started, a collective call can only end by a result; if it fails here, so do all later
 * ones. */
static aq_status fork_fail_calls(struct fork_boot *fork, aq_status status)
{
    fork->broken = status;
    return status;
}

/* Send this rank's part of collective call number `seq` to aqrun, in pieces. */
static aq_status fork_call(struct fork_boot *fork, enum aqi_control_call call, const void *data,
                           size_t len, uint64_t bytes)
{
    if (fork->broken != AQ_OK)
        return aqi_fail_quiet(fork->broken, "an earlier exchange between all ranks failed");
    struct aqi_control message = {
        .type = AQI_CONTROL_CALL, .seq = ++fork->seq, .call = call, .bytes = bytes};
    do {
        message.data = len != 0 ? (const uint8_t *)data + message.offset : NULL;
        message.len = aqi_min(len - message.offset, AQI_CONTROL_CHUNK);
        aq_status status = fork_send(fork, fork->boot.fd, &message, -1);
        if (status != AQ_OK) return fork_fail_calls(fork, status);
        message.offset += message.len;
    } while (message.offset < len);
    return AQ_OK;
}

/* Wait for the next piece of the result of the current call. */
static aq_status fork_result(struct fork_boot *fork, struct aqi_control *result, int *passed)
{
    char text[AQI_CONTROL_TEXT + 1];
    for (;;) {
        aq_status status = fork_receive(fork, result, passed);
        if (status != AQ_OK) return fork_fail_calls(fork, status);
        if (fork_is_event(result)) {
            status = fork_queue_event(fork, result);
            if (status != AQ_OK) return fork_fail_calls(fork, status);
            continue;
        }
        if (result->type == AQI_CONTROL_RESULT && result->seq == fork->seq) break;
        if (*passed >= 0) close(*passed);
    }
    if (result->status == AQ_OK) return AQ_OK;
    /* aqrun has reported it. */
    return fork_fail_calls(
        fork, aqi_fail_quiet(fork_status(result), "%s", aqi_control_text(result, text)));
}

static aq_status fork_gather(struct fork_boot *fork, enum aqi_control_call call, const void *mine,
                             size_t len, struct aqi_control *result, int *passed)
{
    uint32_t size = fork->boot.info.size;
    uint64_t total = (uint64_t)len * size;
    if (len > AQI_CONTROL_PART || total > AQI_CONTROL_GATHER)
        return aqi_fail(AQ_ESIZE, "job",
                        "allgather of %zu bytes from each of %u ranks: the maximum is %u each and "
                        "%llu in total",
                        len, size, AQI_CONTROL_PART, AQI_CONTROL_GATHER);
    aq_status status = fork_call(fork, call, mine, len, len);
    if (status == AQ_OK) status = fork_result(fork, result, passed);
    if (status == AQ_OK && (result->bytes != total || (*passed >= 0) != (call == AQI_CALL_TABLE) ||
                            (call == AQI_CALL_ALLGATHER && result->len != total)))
        status = fork_fail_calls(fork, aqi_fail(AQ_EPROTO, "job",
                                                "%s sent a result that does not match the call",
                                                fork_agent(fork)));
    if (status != AQ_OK && *passed >= 0) close(*passed);
    return status;
}

/* Map privately: older kernels allow no shared mapping of objects that are sealed against
 * writing. */
static aq_status fork_table(struct aqi_boot *boot, const void *mine, size_t len, void **memory)
{
    struct fork_boot *fork = fork_of(boot);
    struct aqi_control result;
    struct stat info;
    int fd = -1;
    size_t total = len * boot->info.size;
    aq_status status = fork_gather(fork, AQI_CALL_TABLE, mine, len, &result, &fd);
    if (status != AQ_OK) return status;
    void *at = mmap(NULL, total, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        status =
            aqi_fail_errno(AQ_ESYS, errno, "job", "cannot map the %zu bytes of all ranks", total);
    } else if (fstat(fd, &info) != 0 || (uint64_t)info.st_size < total) {
        status = aqi_fail(AQ_EPROTO, "job", "%s sent a table that is too short", fork_agent(fork));
        munmap(at, total);
    } else {
        *memory = at;
    }
    close(fd);
    return status == AQ_OK ? AQ_OK : fork_fail_calls(fork, status);
}

static aq_status fork_allgather(struct aqi_boot *boot, const void *mine, size_t len, void *all)
{
    struct aqi_control result;
    int fd = -1;
    size_t total = len * boot->info.size;
    if (total <= AQI_CONTROL_CHUNK) {
        aq_status status = fork_gather(fork_of(boot), AQI_CALL_ALLGATHER, mine, len, &result, &fd);
        if (status == AQ_OK && total != 0) memcpy(all, result.data, total);
        return status;
    }
    void *table;
    aq_status status = fork_table(boot, mine, len, &table);
    if (status != AQ_OK) return status;
    memcpy(all, table, total);
    munmap(table, total);
    return AQ_OK;
}

static aq_status fork_share(struct aqi_boot *boot, const char *name, size_t bytes, int *fd)
{
    struct fork_boot *fork = fork_of(boot);
    size_t len = strlen(name);
    if (len > AQI_CONTROL_NAME)
        return aqi_fail(AQ_EINVAL, "job",
                        "the name of a shared object, \"%.80s...\", is longer "
                        "than %u bytes",
                        name, AQI_CONTROL_NAME);
    aq_status status = fork_call(fork, AQI_CALL_SHARE, name, len, bytes);
    if (status != AQ_OK) return status;
    struct aqi_control result;
    int passed = -1;
    status = fork_result(fork, &result, &passed);
    if (status == AQ_OK && passed < 0)
        status =
            fork_fail_calls(fork, aqi_fail(AQ_EPROTO, "job", "%s sent no descriptor for \"%s\"",
                                           fork_agent(fork), name));
    if (status == AQ_OK) *fd = passed;
    return status;
}

/* Deliver and free one event. It is counted first, as the callback may end the process. */
static void fork_deliver(struct fork_boot *fork, struct fork_event *event, aqi_boot_event_fn *fn,
                         void *arg)
{
    atomic_fetch_add_explicit(&fork->boot.seen, 1, memory_order_relaxed);
    fn(arg, &event->event);
    free(event);
}

static struct fork_event *fork_pop(struct fork_boot *fork)
{
    struct fork_event *event = fork->events;
    if (event == NULL) return NULL;
    fork->events = event->next;
    if (fork->events == NULL) fork->last = &fork->events;
    return event;
}

static aq_status fork_reach(struct aqi_boot *boot, enum aqi_boot_stage stage)
{
    static const uint16_t types[] = {[AQI_BOOT_READY] = AQI_CONTROL_READY,
                                     [AQI_BOOT_LEAVING] = AQI_CONTROL_LEAVING,
                                     [AQI_BOOT_LEFT] = AQI_CONTROL_BYE};
    struct aqi_control message = {.type = types[stage]};
    return fork_send(fork_of(boot), boot->fd, &message, -1);
}

static aq_status fork_agree(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                            const uint8_t *members)
{
    struct aqi_control agree = {.type = AQI_CONTROL_AGREE,
                                .status = mine,
                                .name = {name[0], name[1]},
                                .data = members,
                                .len = aqi_boot_set_bytes(boot->info.size)};
    return fork_send(fork_of(boot), boot->fd, &agree, -1);
}

static aq_status fork_show(struct aqi_boot *boot, enum aqi_show what, int fd)
{
    struct aqi_control message = {.type = AQI_CONTROL_SHOW, .call = what};
    if (what == AQI_SHOW_COUNTERS) message.bytes = aqi_counters_form();
    return fork_send(fork_of(boot), boot->fd, &message, fd);
}

static aq_status fork_progress(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg)
{
    struct fork_boot *fork = fork_of(boot);
    struct fork_event *event;
    while ((event = fork_pop(fork)) != NULL)
        fork_deliver(fork, event, fn, arg);
    for (;;) {
        struct aqi_control message;
        int passed = -1;
        aq_status status = fork_take(fork, &message, &passed);
        if (status == AQ_AGAIN) return AQ_OK;
        if (status != AQ_OK) return status;
        if (passed >= 0) close(passed);
        /* The result of a call that has already failed here is ignored. */
        if (!fork_is_event(&message)) continue;
        status = fork_read_event(fork, &message, &event);
        if (status != AQ_OK) return status;
        fork_deliver(fork, event, fn, arg);
    }
}

/* If the socket is full or closed, nothing can be sent; aqrun then notices the death of this
 * process. */
static void fork_exit(struct aqi_boot *boot, int code, const char *why)
{
    struct aqi_control message = {.type = AQI_CONTROL_EXIT, .code = code, .data = why};
    if (why != NULL) message.len = aqi_min(strlen(why), AQI_CONTROL_TEXT);
    (void)aqi_channel_send(boot->fd, &message, -1);
}

static bool fork_ending(struct aqi_boot *boot, int code, uint64_t wait_ns)
{
    struct aqi_control message = {.type = AQI_CONTROL_ENDING, .code = code, .wait = wait_ns};
    return aqi_channel_send(boot->fd, &message, -1) == AQ_OK;
}

static void fork_close(struct aqi_boot *boot)
{
    struct fork_boot *fork = fork_of(boot);
    struct fork_event *event;
    while ((event = fork_pop(fork)) != NULL)
        free(event);
    munmap(fork->page, fork->page_bytes);
    fork_depart(boot);
    close(boot->fd);
}

const struct aqi_boot_kind aqi_boot_fork = {
    .bytes = sizeof(struct fork_boot),
    .open = fork_open,
    .allgather = fork_allgather,
    .table = fork_table,
    .share = fork_share,
    .reach = fork_reach,
    .agree = fork_agree,
    .show = fork_show,
    .progress = fork_progress,
    .exit = fork_exit,
    .ending = fork_ending,
    .depart = fork_depart,
    .close = fork_close,
};
