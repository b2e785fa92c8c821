/* Joining a job through a manager: see managed.h. */
#include "job/managed.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/kick.h"
#include "base/log.h"
#include "base/random.h"
#include "base/shmem.h"
#include "base/thread.h"
#include "job/channel.h"
#include "job/control.h"
#include "job/hub/hub.h"
#include "job/settings.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANAGED_MILLISECOND 1000000u

static const char managed_card_key[] = "aq-host", managed_job_key[] = "aq-key",
                  managed_offer_key[] = "aq-offer";

/* Sent by the first rank of a host to the others. */
struct managed_card {
    uint32_t version; /* of AQI_WIRE_AGENTS; first in every version, here and in managed_key */
    uint8_t name[16]; /* of the agent's socket */
    uint8_t secret[AQI_JOB_KEY_BYTES];
};

/* Sent by rank 0 to all. */
struct managed_key {
    uint32_t version;
    uint8_t key[AQI_JOB_KEY_BYTES];
};
static_assert(sizeof(struct managed_card) == 36 && sizeof(struct managed_key) == 20, "no padding");

struct aqi_managed {
    struct aqi_manager *manager;
    struct managed_card card;
    struct managed_key key;
    int feed; /* to the agent if this process forked it; otherwise -1 */
    int control;
    int stop; /* stops the watching thread */
    bool watched;
    pthread_t watch;
};

static bool managed_leads(const struct aqi_managed *managed)
{
    return managed->manager->info.local_rank == 0;
}

static socklen_t managed_address(const struct managed_card *card, struct sockaddr_un *address)
{
    char *at = address->sun_path;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *at++ = '\0';
    at = stpcpy(at, "aq-agent-");
    for (size_t i = 0; i < sizeof(card->name); i++)
        at += sprintf(at, "%02x", card->name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(at - address->sun_path));
}

/* --- starting the agent --------------------------------------------------------------------- */

static aq_status managed_listen(const struct managed_card *card, int *listener)
{
    struct sockaddr_un address;
    socklen_t len = managed_address(card, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)(void *)&address, len) == 0 &&
        listen(fd, SOMAXCONN) == 0) {
        *listener = fd;
        return AQ_OK;
    }
    int err = errno;
    if (fd >= 0) close(fd);
    return aqi_fail_errno(AQ_ESYS, err, "job",
                          "cannot create a Unix socket for the processes of this host");
}

/* Fork twice, so that the agent is not a child of the program, which does not expect one. */
static aq_status managed_fork(struct managed_plan *plan, int other_end)
{
    pid_t pid = fork();
    if (pid < 0)
        return aqi_fail_errno(AQ_ESYS, errno, "job",
                              "cannot fork this host's agent (ulimit -u, pids.max of the cgroup)");
    if (pid == 0) {
        if (fork() != 0) _exit(0);
        close(other_end);
        aqi_managed_agent(plan);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return AQ_OK;
}

static aq_status managed_start_agent(struct aqi_managed *managed)
{
    struct managed_plan plan = {.info = managed->manager->info};
    int ends[2];
    snprintf(plan.program, sizeof(plan.program), "%.60s", program_invocation_short_name);
    aq_status status = aqi_random(&managed->card, sizeof(managed->card), "job");
    managed->card.version = aqi_wire_version(AQI_WIRE_AGENTS);
    memcpy(plan.secret, managed->card.secret, sizeof(plan.secret));
    if (status == AQ_OK) status = managed_listen(&managed->card, &plan.listener);
    if (status != AQ_OK) return status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        close(plan.listener);
        return aqi_fail_errno(AQ_ESYS, errno, "job",
                              "cannot create a socket pair to this host's agent");
    }
    plan.feed = ends[1];
    status = managed_fork(&plan, ends[0]);
    close(ends[1]);
    close(plan.listener);
    if (status == AQ_OK)
        managed->feed = ends[0];
    else
        close(ends[0]);
    return status;
}

static aq_status managed_send(struct aqi_managed *managed, const void *bytes, size_t len)
{
    if (send(managed->feed, bytes, len, MSG_NOSIGNAL) == (ssize_t)len) return AQ_OK;
    return aqi_fail_errno(AQ_EPEER, errno, "job", "this host's agent has ended");
}

/* Wait for the agent's answer to the key: its addresses, or why it cannot work. */
static aq_status managed_receive(struct aqi_managed *managed, struct managed_answer *answer)
{
    struct pollfd state = {.fd = managed->feed, .events = POLLIN};
    uint64_t limit = aqi_now_ns() + aqi_job_config.start_timeout_ns, now;
    while ((now = aqi_now_ns()) < limit && poll(&state, 1, 1000) <= 0)
        continue;
    ssize_t got = recv(managed->feed, answer, sizeof(*answer), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return aqi_fail(AQ_ETIMEOUT, "job", "this host's agent does not answer");
    if (got != (ssize_t)sizeof(*answer))
        return aqi_fail(AQ_EPEER, "job", "this host's agent has ended");
    answer->text[sizeof(answer->text) - 1] = '\0';
    return answer->failed != 0 ? aqi_fail(AQ_ESYS, "job", "%s", answer->text) : AQ_OK;
}

/* --- values exchanged through the manager --------------------------------------------------- */

static aq_status managed_put(struct aqi_managed *managed, const char *key, const void *bytes,
                             size_t len)
{
    return managed->manager->kind->put(managed->manager, key, bytes, len);
}

/* Get a value that begins with a version, which must be the one of this library. */
static aq_status managed_get_ours(struct aqi_managed *managed, uint32_t rank, const char *key,
                                  void *bytes, size_t want)
{
    uint8_t value[128] = {0};
    char them[32], why[200];
    uint32_t version;
    size_t len = 0;
    struct aqi_manager *manager = managed->manager;
    aq_status status = manager->kind->get(manager, rank, key, value, sizeof(value), &len);
    if (status != AQ_OK) return status;
    memcpy(&version, value, sizeof(version));
    if (len == want && version == aqi_wire_version(AQI_WIRE_AGENTS)) {
        memcpy(bytes, value, want);
        return AQ_OK;
    }
    snprintf(them, sizeof(them), "rank %u", rank);
    aqi_wire_differs(why, sizeof(why), AQI_WIRE_AGENTS, them, version, "this process");
    if (version != aqi_wire_version(AQI_WIRE_AGENTS)) return aqi_fail(AQ_EPROTO, "job", "%s", why);
    return aqi_fail(AQ_EPROTO, "job", "%s passed %zu bytes as %s instead of %zu", them, len, key,
                    want);
}

/* Send the agents above this host's, the parent first, each ended by NUL. */
static aq_status managed_send_above(struct aqi_managed *managed)
{
    char all[MANAGED_FEED_MAX];
    size_t used = 0, len;
    struct aqi_manager *manager = managed->manager;
    uint32_t host = manager->info.host;
    while ((host = aqi_hub_parent(host, AQI_MANAGED_FANOUT)) != AQI_NO_AGENT) {
        uint32_t first = aqi_manager_first(manager, host);
        aq_status status = manager->kind->get(manager, first, managed_offer_key, all + used,
                                              sizeof(all) - used - 1, &len);
        if (status != AQ_OK) return status;
        used += len;
        all[used++] = '\0';
    }
    return managed_send(managed, all, used);
}

/* Called after the first fence: the values of all hosts and the job's key are available. */
static aq_status managed_exchange(struct aqi_managed *managed)
{
    const struct aqi_manager_info *info = &managed->manager->info;
    struct managed_answer answer = {0};
    uint32_t first = aqi_manager_first(managed->manager, info->host);
    aq_status status =
        managed_get_ours(managed, first, managed_card_key, &managed->card, sizeof(managed->card));
    if (status == AQ_OK)
        status = managed_get_ours(managed, 0, managed_job_key, &managed->key, sizeof(managed->key));
    bool leads = managed_leads(managed);
    if (status == AQ_OK && leads)
        status = managed_send(managed, managed->key.key, sizeof(managed->key.key));
    if (status == AQ_OK && leads) status = managed_receive(managed, &answer);
    if (status != AQ_OK || info->hosts == 1) return status;
    if (leads) status = managed_put(managed, managed_offer_key, answer.text, strlen(answer.text));
    if (status == AQ_OK) status = managed->manager->kind->fence(managed->manager);
    if (status == AQ_OK && leads && info->host != 0) status = managed_send_above(managed);
    return status;
}

static aq_status managed_begin(struct aqi_managed *managed)
{
    aq_status status = AQ_OK;
    if (managed_leads(managed)) {
        status = managed_start_agent(managed);
        if (status == AQ_OK)
            status = managed_put(managed, managed_card_key, &managed->card, sizeof(managed->card));
    }
    if (status == AQ_OK && managed->manager->info.rank == 0) {
        managed->key.version = aqi_wire_version(AQI_WIRE_AGENTS);
        status = aqi_random(managed->key.key, sizeof(managed->key.key), "job");
        if (status == AQ_OK)
            status = managed_put(managed, managed_job_key, &managed->key, sizeof(managed->key));
    }
    if (status == AQ_OK) status = managed->manager->kind->fence(managed->manager);
    return status == AQ_OK ? managed_exchange(managed) : status;
}

/* --- the claim ------------------------------------------------------------------------------ */

static aq_status managed_connect(const struct aqi_managed *managed, int *out)
{
    struct sockaddr_un address;
    struct ucred cred;
    socklen_t len = managed_address(&managed->card, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return aqi_fail_errno(AQ_ESYS, errno, "job", "cannot create a socket to this host's agent");
    if (connect(fd, (struct sockaddr *)(void *)&address, len) != 0) {
        int err = errno;
        close(fd);
        return aqi_fail_errno(AQ_EPEER, err, "job",
                              "cannot reach this host's agent: processes that the manager places "
                              "on one host must share a network namespace");
    }
    if (!aqi_channel_peer(fd, &cred) || cred.uid != geteuid()) {
        close(fd);
        return aqi_fail(AQ_EACCESS, "job", "this host's agent belongs to another user");
    }
    *out = fd;
    return AQ_OK;
}

static aq_status managed_claim(struct aqi_managed *managed, int *out)
{
    struct aqi_control claim = {.type = AQI_CONTROL_CLAIM, .rank = managed->manager->info.rank};
    int fd = -1;
    memcpy(claim.key, managed->card.secret, sizeof(claim.key));
    aq_status status = managed_connect(managed, &fd);
    if (status != AQ_OK) return status;
    status = aqi_channel_send(fd, &claim, -1); /* a new socket has room */
    if (status == AQ_OK) {
        *out = fd;
        return AQ_OK;
    }
    close(fd);
    return aqi_fail(AQ_EPEER, "job", "this host's agent has ended");
}

/* --- the watch ------------------------------------------------------------------------------ */

/* If aqrun is the parent, the kernel kills this process with it. Here a thread sleeps until the
 * agent ends, so that no process survives it, even one that computes for hours. */
static void *managed_watch(void *arg)
{
    struct aqi_managed *managed = arg;
    struct pollfd states[] = {{.fd = managed->control}, {.fd = managed->stop, .events = POLLIN}};
    while (poll(states, AQI_COUNT_OF(states), -1) < 0 && errno == EINTR)
        continue;
    if (states[1].revents != 0) return NULL;
    /* A program that polls ends by itself, in a more orderly way. aqrun allows the same time. */
    uint64_t grace_ms = aqi_job_config.exit_timeout_ns / 4 * 3 / MANAGED_MILLISECOND;
    if (poll(states + 1, 1, (int)grace_ms) != 0) return NULL;
    aqi_log(AQI_LOG_ERROR, "job", "the agent of this host is gone, so this process ends");
    _exit(AQI_EXIT_FAILED);
}

static aq_status managed_start_watch(struct aqi_managed *managed, int control)
{
    managed->control = control;
    managed->stop = aqi_kick_new();
    if (managed->stop < 0)
        return aqi_fail_no_fd(errno, "job", "cannot watch the agent of this host");
    int err = aqi_thread_start(&managed->watch, managed_watch, managed);
    managed->watched = err == 0;
    return err == 0 ? AQ_OK
                    : aqi_fail_errno(AQ_ESYS, err, "job",
                                     "cannot start a thread that watches the agent of this host");
}

static void managed_end_watch(struct aqi_managed *managed)
{
    if (managed->watched) {
        aqi_kick(managed->stop);
        if (!pthread_equal(pthread_self(), managed->watch)) pthread_join(managed->watch, NULL);
    }
    if (managed->stop >= 0) close(managed->stop);
}

/* A manager may end the job before it has read the reason from standard error: wait until it has,
 * at most a second. */
void aqi_managed_abort(struct aqi_managed *managed)
{
    const struct timespec pause = {.tv_nsec = 10 * MANAGED_MILLISECOND};
    int left = 0;
    for (int i = 0; i < 100 && ioctl(STDERR_FILENO, FIONREAD, &left) == 0 && left > 0; i++)
        nanosleep(&pause, NULL);
    managed->manager->kind->abort(managed->manager, AQI_EXIT_FAILED, aq_error_message());
}

aq_status aqi_managed_open(const struct aqi_manager_kind *kind, struct aqi_managed **out,
                           int *socket)
{
    struct aqi_managed *managed = calloc(1, sizeof(*managed));
    int control = -1;
    if (managed == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to join the job");
    managed->feed = managed->stop = -1;
    aq_status status = aqi_manager_open(kind, &managed->manager);
    if (status != AQ_OK) {
        free(managed);
        return status;
    }
    status = managed_begin(managed);
    if (status == AQ_OK) status = managed_claim(managed, &control);
    if (status == AQ_OK) {
        status = managed_start_watch(managed, control);
        if (status != AQ_OK) close(control);
    }
    /* The agent thus stops waiting for this process; if no rank has claimed a place, it ends. */
    if (managed->feed >= 0) close(managed->feed);
    managed->feed = -1;
    if (status != AQ_OK) {
        aqi_managed_abort(managed);
        aqi_managed_close(managed);
        return status;
    }
    *out = managed;
    *socket = control;
    return AQ_OK;
}

void aqi_managed_close(struct aqi_managed *managed)
{
    managed_end_watch(managed);
    aqi_manager_close(managed->manager);
    free(managed);
}
