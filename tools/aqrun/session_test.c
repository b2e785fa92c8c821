/* Tests session.c with a script in place of ssh: normal operation and all errors. */
#include "session.h"

#include "base/capture_test.h"
#include "base/clock.h"
#include "base/fail.h"
#include "job/loop.h"
#include "ssh.h"
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SECOND  1000000000u
#define HOSTS   64u
#define TIMEOUT (60ull * SECOND)

static char top[64], ssh_path[96], agent_path[96], ticket_path[96];

static struct {
    char lines[65536];
    char why[HOSTS][SESSION_TEXT];
    bool ended[HOSTS];
    enum session_end how[HOSTS];
    uint32_t count_ended;
    unsigned count_lines;
} recorded;

static void on_line(uint32_t host, int stream, const char *text)
{
    recorded.count_lines++;
    aqi_append(recorded.lines, sizeof(recorded.lines), "%u/%d: %s\n", host, stream, text);
}

static void on_ended(uint32_t host, enum session_end how, const char *why)
{
    assert_false(recorded.ended[host]);
    recorded.ended[host] = true;
    recorded.how[host] = how;
    recorded.count_ended++;
    snprintf(recorded.why[host], SESSION_TEXT, "%s", why);
}

static sigset_t children;
static struct aqi_source child_signals;

static void child_restores_signals(void)
{
    sigprocmask(SIG_UNBLOCK, &children, NULL);
}

static const struct session_hooks hooks = {
    .line = on_line, .ended = on_ended, .child = child_restores_signals};

/* As aqrun does for all its children. */
static void reap(struct aqi_source *source)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(source->fd, &info, sizeof(info)) > 0)
        continue;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        assert_true(sessions_reaped(pid, status));
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* ssh OPTIONS HOST LINE: the name of the host determines what happens. */
static const char ssh_script[] =
    "#!/bin/sh\n"
    "while [ $# -gt 2 ]; do options=\"$options $1\"; shift; done\n"
    "case $1 in\n"
    "down) echo 'ssh: connect to host down port 22: Connection refused' >&2; exit 255 ;;\n"
    "denied) case $options in *BatchMode=yes*) ;; *) sleep 1000 ;; esac\n"
    "    echo 'denied: Permission denied (publickey).' >&2; exit 255 ;;\n"
    "missing) echo 'sh: 1: exec: /opt/aqrun: not found' >&2; exit 127 ;;\n"
    "hang) exec sleep 1000 ;;\n"
    "silent) exit 3 ;;\n"
    "old) echo 'aqrun: unknown option: --agent' >&2; exit 2 ;;\n"
    "killed) kill -KILL $$ ;;\n"
    "motd) printf 'Welcome\\033[1m\\n\\n\\001\\000\\377 \\nno end of line' ; exec sh -c \"$2\" ;;\n"
    "talks) yes talk | head -n 3000; exit 3 ;;\n"
    "holds) sleep 1000 & echo $! >&2; exit 255 ;;\n"
    "*) exec sh -c \"$2\" ;;\n"
    "esac\n";

static int make_folder(void **state)
{
    char text[512];
    int epoll;
    strcpy(top, "/tmp/aq-session-test-XXXXXX");
    if (mkdtemp(top) == NULL) return 1;
    snprintf(ssh_path, sizeof(ssh_path), "%s/ssh", top);
    snprintf(agent_path, sizeof(agent_path), "%s/a qrun", top);
    snprintf(ticket_path, sizeof(ticket_path), "%s/ticket", top);
    write_file(ssh_path, ssh_script);
    /* It ends after TICKET bytes, or if that is not set, with its input. */
    snprintf(text, sizeof(text),
             "#!/bin/sh\necho agent is here >&2\n"
             "${TICKET:+head -c} ${TICKET:-cat} >%s.$$\nmv %s.$$ %s\n",
             ticket_path, ticket_path, ticket_path);
    write_file(agent_path, text);
    signal(SIGPIPE, SIG_IGN);
    if (aqi_loop_open(NULL, &epoll) != AQ_OK) return 1;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    aqi_source_open(&child_signals, signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK), reap);
    return aqi_source_try_watch(&child_signals, EPOLLIN);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static int remove_folder(void **state)
{
    aqi_source_close(&child_signals);
    aqi_loop_close();
    return nftw(top, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void start_with(const char *command, uint32_t host, const char *name, size_t ticket_len)
{
    char why[SSH_WHY];
    const struct ssh_config config = {command, "", agent_path};
    struct session_request request = {.host = host, .name = name, .ticket_len = ticket_len};
    request.argv = ssh_argv(&config, name, why);
    assert_non_null(request.argv);
    request.ticket = malloc(ticket_len + 1);
    assert_non_null(request.ticket);
    for (size_t i = 0; i < ticket_len; i++)
        request.ticket[i] = (uint8_t)(i * 7 + i / 251);
    assert_true(session_start(&request));
}

static void start(uint32_t host, const char *name, size_t ticket_len)
{
    start_with(ssh_path, host, name, ticket_len);
}

/* Likewise, with an agent that ends after its ticket. */
static void start_short(uint32_t host, const char *name, size_t ticket_len)
{
    char text[24];
    snprintf(text, sizeof(text), "%zu", ticket_len);
    setenv("TICKET", text, 1);
    start(host, name, ticket_len);
    sessions_tick(aqi_now_ns());
    unsetenv("TICKET");
}

static void open_sessions(uint32_t fanout, uint64_t timeout_ns)
{
    memset(&recorded, 0, sizeof(recorded));
    sessions_open(&hooks, fanout, timeout_ns);
}

static void run_until(uint32_t ended)
{
    uint64_t limit = aqi_now_ns() + TIMEOUT;
    while (recorded.count_ended < ended) {
        assert_true(aqi_now_ns() < limit);
        uint64_t next = sessions_tick(aqi_now_ns());
        aqi_loop_once(aqi_min(next, limit));
    }
}

static void expect_ticket(size_t len)
{
    int fd = open(ticket_path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    size_t used = 0;
    for (ssize_t n; (n = read(fd, bytes + used, len + 1 - used)) > 0;)
        used += (size_t)n;
    assert_int_equal(used, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], (uint8_t)(i * 7 + i / 251));
    free(bytes);
    close(fd);
}

/* The ticket arrives complete. */
static void ticket(void **state)
{
    static const size_t sizes[] = {0, 100, 1000000};
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        open_sessions(4, TIMEOUT);
        start_short(3, "n3", sizes[i]);
        session_answered(3);
        run_until(1);
        assert_non_null(strstr(recorded.lines, "3/2: agent is here\n"));
        assert_int_equal(recorded.how[3], SESSION_SERVED);
        assert_string_equal(recorded.why[3], "host n3: the session ended with code 0");
        assert_true(sessions_ended());
        expect_ticket(sizes[i]);
        sessions_close();
    }
}

static void failures(void **state)
{
    static const char *const cases[][3] = {
        {"down", "it could not be reached (ssh: connect to host down port 22: Connection refused)",
         "/ssh down true"},
        {"denied", "it could not be reached (denied: Permission denied (publickey).)",
         "denied true"},
        {"missing", "aqrun was not found there: install it", "AQ_REMOTE_AQRUN"},
        {"silent", "host silent: the session ended with code 3", ""},
        {"old", "install the same version on all hosts", "(aqrun: unknown option: --agent)"},
        {"killed", "was killed by signal 9", "killed true"},
        {"hang", "no answer within 1 s; try it by hand", "hang true"},
    };
    uint32_t count = AQI_COUNT_OF(cases);
    open_sessions(8, SECOND);
    for (uint32_t i = 0; i < count; i++)
        start(i, cases[i][0], 200000);
    run_until(count);
    for (uint32_t i = 0; i < count; i++) {
        char host[64];
        snprintf(host, sizeof(host), "host %s: ", cases[i][0]);
        assert_int_equal(recorded.how[i], SESSION_FAILED);
        assert_int_equal(strncmp(recorded.why[i], host, strlen(host)), 0);
        for (int k = 1; k < 3; k++)
            if (strstr(recorded.why[i], cases[i][k]) == NULL) fail_msg("%s", recorded.why[i]);
    }
    assert_non_null(strstr(recorded.lines, "0/2: ssh: connect to host down"));
    sessions_close();
}

static void no_ssh(void **state)
{
    open_sessions(1, TIMEOUT);
    start_with("/no/such/ssh", 0, "n0", 10);
    start_with("/", 1, "n1", 10);
    run_until(2);
    assert_non_null(strstr(recorded.why[0], "host n0: cannot run /no/such/ssh: No such file"));
    assert_non_null(strstr(recorded.why[0], "AQ_SSH_CMD"));
    assert_non_null(strstr(recorded.why[1], "host n1: cannot run /: Permission denied"));
    sessions_close();
}

/* The output of login scripts is passed on as printable lines, and does no harm. */
static void login_text(void **state)
{
    open_sessions(4, TIMEOUT);
    start_short(1, "motd", 1000);
    run_until(1);
    assert_non_null(strstr(recorded.lines, "1/2: agent is here\n"));
    assert_int_equal(recorded.how[1], SESSION_EXITED);
    assert_non_null(strstr(recorded.lines, "1/1: Welcome?[1m\n"));
    assert_non_null(strstr(recorded.lines, "1/1: no end of line\n"));
    for (const char *c = recorded.lines; *c != '\0'; c++)
        assert_true(*c == '\n' || ((unsigned char)*c >= ' ' && *c != 0x7f));
    sessions_close();
}

static void endless_output(void **state)
{
    open_sessions(4, TIMEOUT);
    start(0, "talks", 0);
    run_until(1);
    assert_int_equal(recorded.count_lines, 1001);
    sessions_close();
}

/* A background process keeps the session's output open: it is not waited for. */
static void holds_output(void **state)
{
    open_sessions(4, TIMEOUT);
    start(0, "holds", 0);
    run_until(1);
    assert_non_null(strstr(recorded.why[0], "it could not be reached"));
    pid_t held = (pid_t)atoi(recorded.lines + strlen("0/2: "));
    assert_true(held > 1);
    kill(held, SIGKILL);
    sessions_close();
}

/* Whether `text`, which ends a line, also begins one: that of host 10 ends like that of host 0. */
static bool has_line(const char *text)
{
    const char *at = strstr(recorded.lines, text);
    while (at != NULL && at > recorded.lines && at[-1] != '\n')
        at = strstr(at + 1, text);
    return at != NULL;
}

/* At most the fan-out start before one has answered or ended. Host 10 comes before host 0. */
static void fan_out(void **state)
{
    const uint32_t count = 12, fanout = 3;
    open_sessions(fanout, TIMEOUT);
    for (uint32_t i = 0; i < count; i++)
        start(count - 1 - i, i % 4 == 3 ? "down" : "n", 50);
    uint32_t answered = 0;
    bool here[64] = {false};
    uint64_t limit = aqi_now_ns() + TIMEOUT;
    while (answered + recorded.count_ended < count) {
        assert_true(aqi_now_ns() < limit);
        aqi_loop_once(aqi_min(sessions_tick(aqi_now_ns()), limit));
        uint32_t started = 0;
        for (uint32_t i = 0; i < count; i++) {
            char text[32];
            snprintf(text, sizeof(text), "%u/2: agent is here\n", i);
            if (here[i] || !has_line(text)) continue;
            started++;
            here[i] = true;
            session_answered(i);
            answered++;
        }
        assert_true(started <= fanout);
    }
    assert_int_equal(recorded.count_ended, 3);
    assert_false(sessions_ended());
    sessions_close(); /* kills the others */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Until its process has been reaped, a session has not ended. */
static void ends_when_reaped(void **state)
{
    open_sessions(4, TIMEOUT);
    start(0, "down", 10);
    sessions_tick(aqi_now_ns());
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    assert_true(pid > 0);
    assert_false(sessions_reaped(pid + 1, status));
    aqi_loop_once(aqi_now_ns());
    assert_int_equal(recorded.count_ended, 0);
    assert_true(sessions_reaped(pid, status));
    assert_non_null(strstr(recorded.why[0], "Connection refused"));
    sessions_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticket),         cmocka_unit_test(failures),
        cmocka_unit_test(no_ssh),         cmocka_unit_test(login_text),
        cmocka_unit_test(endless_output), cmocka_unit_test(holds_output),
        cmocka_unit_test(fan_out),        cmocka_unit_test(ends_when_reaped),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
