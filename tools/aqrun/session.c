/* Sessions of ssh in the event loop: starting them, ticket, output, and end. */
#include "session.h"

#include "base/fail.h"
#include "base/list.h"
#include "base/settings.h"
#include "job/loop.h"
#include "ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output beyond this is discarded, in case a login script never stops printing. */
#define SESSION_LINES   1000u
#define SESSION_CHUNK   4096u
#define SESSION_SECOND  1000000000u
#define SESSION_USAGE   2   /* of an aqrun without --agent, or of another command with that name */
#define SESSION_NO_EXEC 127 /* also the code of a shell that does not find the command */

enum session_state { SESSION_QUEUED, SESSION_STARTED, SESSION_ANSWERED };

struct session_stream {
    struct aqi_source source;
    struct session *session;
    int number;
    size_t used;
    char line[SESSION_TEXT];
};

struct session {
    struct aqi_node node; /* in sessions.list */
    uint32_t host;
    char *name;
    char **argv;
    uint8_t *ticket;
    size_t ticket_len, ticket_sent;
    enum session_state state;
    uint64_t deadline_ns;
    bool late; /* it was killed at its deadline */
    pid_t pid;
    struct aqi_source input;
    struct session_stream streams[2];
    unsigned lines;
    char last_line[256]; /* of standard error or, if that is empty, of standard output */
    bool last_is_error;
};

static struct {
    const struct session_hooks *hooks;
    uint32_t fanout, unanswered;
    uint64_t timeout_ns;
    struct aqi_node list;
} sessions = {.list = {&sessions.list, &sessions.list}};

void sessions_open(const struct session_hooks *hooks, uint32_t fanout, uint64_t timeout_ns)
{
    sessions.hooks = hooks;
    sessions.fanout = fanout;
    sessions.timeout_ns = timeout_ns;
}

static void session_drop_ticket(struct session *session)
{
    if (session->ticket != NULL) explicit_bzero(session->ticket, session->ticket_len);
    free(session->ticket);
    session->ticket = NULL;
}

static void session_free(struct session *session)
{
    aqi_source_close(&session->input);
    for (int i = 0; i < 2; i++)
        aqi_source_close(&session->streams[i].source);
    session_drop_ticket(session);
    words_free(session->argv);
    free(session->name);
    free(session);
}

bool session_start(const struct session_request *request)
{
    struct session *session = calloc(1, sizeof(*session));
    char *name = strdup(request->name);
    if (session == NULL || name == NULL) {
        if (request->ticket != NULL) explicit_bzero(request->ticket, request->ticket_len);
        free(request->ticket);
        words_free(request->argv);
        free(session);
        free(name);
        return false;
    }
    session->host = request->host;
    session->name = name;
    session->argv = request->argv;
    session->ticket = request->ticket;
    session->ticket_len = request->ticket_len;
    session->input.fd = -1;
    for (int i = 0; i < 2; i++) {
        session->streams[i].source.fd = -1;
        session->streams[i].session = session;
        session->streams[i].number = i + 1;
    }
    aqi_list_append(&sessions.list, &session->node);
    return true;
}

static struct session *session_of(pid_t pid)
{
    for (struct aqi_node *node = sessions.list.next; node != &sessions.list; node = node->next)
        if (AQI_OF(node, struct session, node)->pid == pid)
            return AQI_OF(node, struct session, node);
    return NULL;
}

/* --- output ----------------------------------------------------------------------------------- */

static void session_line(struct session_stream *stream)
{
    struct session *session = stream->session;
    size_t len = stream->used;
    while (len > 0 && strchr(" \t\r", stream->line[len - 1]) != NULL)
        len--;
    stream->used = 0;
    stream->line[len] = '\0';
    if (len == 0) return;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)stream->line[i] < ' ' || stream->line[i] == 0x7f) stream->line[i] = '?';
    if (stream->number == STDERR_FILENO || !session->last_is_error) {
        snprintf(session->last_line, sizeof(session->last_line), "%.250s", stream->line);
        session->last_is_error = stream->number == STDERR_FILENO;
    }
    if (session->lines++ < SESSION_LINES)
        sessions.hooks->line(session->host, stream->number, stream->line);
    else if (session->lines == SESSION_LINES + 1)
        sessions.hooks->line(session->host, stream->number, "(further output is not shown)");
}

/* Read once. Returns false if there is no data now, or never will be. */
static bool session_read(struct session_stream *stream)
{
    char chunk[SESSION_CHUNK];
    ssize_t got = read(stream->source.fd, chunk, sizeof(chunk));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    for (ssize_t i = 0; i < got; i++) {
        if (chunk[i] != '\n') stream->line[stream->used++] = chunk[i];
        if (chunk[i] == '\n' || stream->used == sizeof(stream->line) - 1) session_line(stream);
    }
    if (got > 0) return true;
    session_line(stream);
    aqi_source_close(&stream->source);
    return false;
}

static void session_readable(struct aqi_source *source)
{
    session_read(AQI_OF(source, struct session_stream, source));
}

/* --- the ticket ------------------------------------------------------------------------------- */

static void session_writable(struct aqi_source *source)
{
    struct session *session = AQI_OF(source, struct session, input);
    ssize_t written = write(source->fd, session->ticket + session->ticket_sent,
                            session->ticket_len - session->ticket_sent);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (written > 0) session->ticket_sent += (size_t)written;
    /* If the session stops reading, the way it ends shows why. */
    if (written > 0 && session->ticket_sent < session->ticket_len) return;
    aqi_source_watch(source, 0);
    session_drop_ticket(session);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Describe the exit code of a failed session. */
static void session_reason(const struct session *session, int status, char *text, size_t room)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (session->late)
        snprintf(text, room, "no answer within %llu s",
                 (unsigned long long)(sessions.timeout_ns / SESSION_SECOND));
    else if (code == SESSION_NO_EXEC)
        snprintf(text, room,
                 "aqrun was not found there: install it there under the same path, or set "
                 "AQ_REMOTE_AQRUN to its path");
    else if (code == 126)
        snprintf(text, room, "aqrun cannot be run there");
    else if (code == 255)
        snprintf(text, room, "it could not be reached");
    else if (code == SESSION_USAGE && session->state != SESSION_ANSWERED)
        snprintf(text, room,
                 "the program found there does not support this aqrun: install the same version on "
                 "all hosts, or set AQ_REMOTE_AQRUN to its path");
    else if (code >= 0)
        snprintf(text, room, "the session ended with code %d", code);
    else
        snprintf(text, room, "the session was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
}

/* Whether ssh or the network failed, not the agent. */
static bool session_is_of_ssh(const struct session *session, int status)
{
    return session->state != SESSION_ANSWERED &&
           (session->late || !WIFEXITED(status) || WEXITSTATUS(status) == 255);
}

static void session_finish(struct session *session, bool failed, const char *why)
{
    aqi_list_remove(&session->node);
    if (session->state == SESSION_STARTED) sessions.unanswered--;
    enum session_end how = session->state == SESSION_ANSWERED ? SESSION_SERVED
                           : failed                           ? SESSION_FAILED
                                                              : SESSION_EXITED;
    sessions.hooks->ended(session->host, how, why);
    session_free(session);
}

/* The session's process has been reaped; others may still hold the pipes of its output. */
static void session_over(struct session *session, int status)
{
    char reason[256], hand[512] = "", why[SESSION_TEXT];
    bool quoted;
    for (int i = 0; i < 2; i++) {
        struct session_stream *stream = &session->streams[i];
        for (int reads = 0; reads < 64 && stream->source.fd >= 0 && session_read(stream); reads++)
            continue;
        if (stream->source.fd >= 0) session_line(stream);
    }
    session->pid = 0;
    session_reason(session, status, reason, sizeof(reason));
    if (session_is_of_ssh(session, status)) ssh_by_hand(session->argv, hand, sizeof(hand));
    /* If the agent has answered, the last output is not the reason. */
    quoted = session->state != SESSION_ANSWERED && session->last_line[0] != '\0';
    snprintf(why, sizeof(why), "host %s: %s%s%s%s%s%.300s", session->name, reason,
             quoted ? " (" : "", quoted ? session->last_line : "", quoted ? ")" : "",
             hand[0] != '\0' ? "; try it by hand: " : "", hand);
    session_finish(session, session->late || status != 0, why);
}

bool sessions_reaped(pid_t pid, int status)
{
    struct session *session = session_of(pid);
    if (session == NULL || pid == 0) return false;
    session_over(session, status);
    return true;
}

/* --- the start -------------------------------------------------------------------------------- */

struct session_ends {
    int ours[3], theirs[3];
    int report[2]; /* error of exec; closed by a successful exec */
};

static void session_close_ends(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

static bool session_open_ends(struct session_ends *ends)
{
    int pair[2];
    memset(ends, 0xff, sizeof(*ends));
    for (int i = 0; i < 3; i++) {
        if (pipe2(pair, O_CLOEXEC) != 0) return false;
        ends->theirs[i] = pair[i == 0 ? 0 : 1];
        ends->ours[i] = pair[i == 0 ? 1 : 0];
        fcntl(ends->ours[i], F_SETFL, O_NONBLOCK);
    }
    return pipe2(ends->report, O_CLOEXEC) == 0;
}

/*
 * A session has no terminal, so ssh cannot prompt for a password, and Ctrl-C does not stop it.
 */
static _Noreturn void session_exec(const struct session *session, struct session_ends *ends,
                                   pid_t parent)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(SESSION_NO_EXEC);
    if (sessions.hooks->child != NULL) sessions.hooks->child();
    for (int i = 0; i < 3; i++)
        if (dup2(ends->theirs[i], i) < 0) _exit(SESSION_NO_EXEC);
    setenv("SSH_ASKPASS_REQUIRE", "never", 1);
    execvp(session->argv[0], session->argv);
    int err = errno;
    ssize_t written = write(ends->report[1], &err, sizeof(err));
    _exit(written > 0 ? SESSION_NO_EXEC : 126);
}

/* Returns 0, or the errno of the step named by `*what`. */
static int session_fork(struct session *session, struct session_ends *ends, const char **what)
{
    int err = 0;
    *what = "pipe";
    if (!session_open_ends(ends)) return errno;
    *what = "fork";
    pid_t parent = getpid();
    session->pid = fork();
    if (session->pid < 0) return errno;
    if (session->pid == 0) session_exec(session, ends, parent);
    close(ends->report[1]);
    ends->report[1] = -1;
    ssize_t got;
    while ((got = read(ends->report[0], &err, sizeof(err))) < 0 && errno == EINTR)
        continue;
    *what = "exec";
    if (got != (ssize_t)sizeof(err)) return 0;
    waitpid(session->pid, NULL, 0);
    return err;
}

static void session_not_started(struct session *session, const char *what, int err)
{
    char why[SESSION_TEXT];
    bool missing = strcmp(what, "exec") == 0;
    snprintf(why, sizeof(why), "host %s: cannot run %.200s: %s%s%s", session->name,
             session->argv[0], missing ? "" : what, missing ? "" : ": ", strerror(err));
    if (missing && err == ENOENT)
        aqi_append(why, sizeof(why), "; install an ssh client, or set %s to another command",
                   aqi_setting_variable("AQ_SSH_CMD"));
    session->pid = 0;
    session_finish(session, true, why);
}

/* Start the session; freed on failure. */
static void session_begin(struct session *session, uint64_t now)
{
    struct session_ends ends;
    const char *what;
    session->state = SESSION_STARTED;
    sessions.unanswered++;
    session->deadline_ns = now + sessions.timeout_ns;
    int err = session_fork(session, &ends, &what);
    session_close_ends(ends.theirs, 3);
    session_close_ends(ends.report, 2);
    if (err != 0) {
        session_close_ends(ends.ours, 3);
        session_not_started(session, what, err);
        return;
    }
    aqi_source_open(&session->input, ends.ours[0], session_writable);
    for (int i = 0; i < 2; i++) {
        aqi_source_open(&session->streams[i].source, ends.ours[i + 1], session_readable);
        aqi_source_watch(&session->streams[i].source, EPOLLIN);
    }
    if (session->ticket_len > 0) aqi_source_watch(&session->input, EPOLLOUT);
}

uint64_t sessions_tick(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    struct aqi_node *after;
    for (struct aqi_node *node = sessions.list.next; node != &sessions.list; node = after) {
        struct session *session = AQI_OF(node, struct session, node);
        after = node->next;
        if (session->state == SESSION_STARTED && !session->late) {
            if (now >= session->deadline_ns) {
                session->late = true;
                kill(-session->pid, SIGKILL);
            } else if (session->deadline_ns < next) {
                next = session->deadline_ns;
            }
        }
        if (session->state == SESSION_QUEUED && sessions.unanswered < sessions.fanout) {
            session_begin(session, now);
            next = now; /* it has a deadline now, or has failed */
        }
    }
    return next;
}

bool sessions_have(pid_t pid)
{
    return session_of(pid) != NULL;
}

void session_answered(uint32_t host)
{
    for (struct aqi_node *node = sessions.list.next; node != &sessions.list; node = node->next) {
        struct session *session = AQI_OF(node, struct session, node);
        if (session->host != host || session->state != SESSION_STARTED) continue;
        session->state = SESSION_ANSWERED;
        sessions.unanswered--;
    }
}

bool sessions_ended(void)
{
    return aqi_list_is_empty(&sessions.list);
}

void sessions_close(void)
{
    while (!aqi_list_is_empty(&sessions.list)) {
        struct session *session = AQI_OF(sessions.list.next, struct session, node);
        aqi_list_remove(&session->node);
        if (session->pid > 0) {
            kill(-session->pid, SIGKILL);
            waitpid(session->pid, NULL, 0);
        }
        session_free(session);
    }
    sessions.unanswered = 0;
}
