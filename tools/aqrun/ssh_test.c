/* Tests ssh.c: the words of the command, and that every shell of a host finds the program. */
#include "ssh.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *joined(const char *command, const char *options, const char *host)
{
    static char text[1024];
    char why[SSH_WHY] = "";
    const struct ssh_config config = {command, options, "/opt/bin/aqrun"};
    char **argv = ssh_argv(&config, host, why);
    text[0] = '\0';
    if (argv == NULL) return strcpy(text, why);
    for (char **word = argv; *word != NULL; word++)
        aqi_append(text, sizeof(text), "[%s]", *word);
    words_free(argv);
    return text;
}

#define DEFAULTS "[-T][-o][BatchMode=yes][-o][ForwardX11=no]"
#define LINE     "[exec /opt/bin/aqrun --agent]"

static void words(void **state)
{
    assert_string_equal(joined("ssh", "", "n1"), "[ssh]" DEFAULTS "[n1]" LINE);
    assert_string_equal(joined("/usr/bin/ssh", " -p 22 ", "me@n1"),
                        "[/usr/bin/ssh][-p][22]" DEFAULTS "[me@n1]" LINE);
    assert_string_equal(joined("rsh", "", "n1"), "[rsh][n1]" LINE);
    assert_string_equal(joined("oarsh -v", "-x", "n1"), "[oarsh][-v][-x][n1]" LINE);
    assert_string_equal(joined("'a b/ssh'  \"-o\tX 'y'\" ", "a\\ b '' \"\\\"\" 'x\\'", "n1"),
                        "[a b/ssh][-o\tX 'y'][a b][][\"][x\\]" DEFAULTS "[n1]" LINE);
    assert_non_null(strstr(joined(" ", "", "n1"), "is empty: set AQ_SSH_CMD"));
    assert_string_equal(joined("rsh \"", "-o 'x", "n1"), "[rsh][][-o][x][n1]" LINE);
}

static void by_hand(void **state)
{
    char why[SSH_WHY], text[256], small[12];
    const struct ssh_config config = {"ssh", "-o 'A b'", "/opt/bin/aqrun"};
    char **argv = ssh_argv(&config, "n3", why);
    assert_non_null(argv);
    ssh_by_hand(argv, text, sizeof(text));
    assert_string_equal(text, "ssh -o 'A b' n3 true");
    ssh_by_hand(argv, small, sizeof(small));
    assert_true(strlen(small) < sizeof(small));
    words_free(argv);
}

/* Run the line as the shell of the other host would; returns the program's output. */
static void run(const char *shell, const char *line, char *got, size_t room)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        execlp(shell, shell, "-c", line, (char *)NULL);
        _exit(126);
    }
    close(out[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(out[0], got + used, room - 1 - used)) > 0;)
        used += (size_t)n;
    got[used] = '\0';
    close(out[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
        fail_msg("%s -c %s: status %x", shell, line, (unsigned)status);
}

static bool has(const char *shell)
{
    char command[64];
    snprintf(command, sizeof(command), "command -v %s >/dev/null", shell);
    return system(command) == 0;
}

static const char *const shells[] = {"sh", "dash", "bash", "csh", "tcsh", "zsh", "fish"};

static void try_folder(const char *top, const char *folder)
{
    char path[512], got[64];
    snprintf(path, sizeof(path), "%s/%s", top, folder);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/aq'run");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    static const char script[] = "#!/bin/sh\necho \"$# $1\"\nexit 7\n";
    assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
    close(fd);
    /* Also with a name that needs no octal form. */
    for (int plain = 0; plain < 2; plain++) {
        if (plain == 1) {
            char other[512];
            snprintf(other, sizeof(other), "%s/%s/aqrun", top, folder);
            assert_int_equal(rename(path, other), 0);
            strcpy(path, other);
        }
        char *line = ssh_remote_line(path);
        assert_non_null(line);
        for (size_t i = 0; i < AQI_COUNT_OF(shells); i++) {
            if (!has(shells[i])) continue;
            run(shells[i], line, got, sizeof(got));
            assert_string_equal(got, "1 --agent\n");
        }
        free(line);
    }
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static void any_path(void **state)
{
    static const char *const folders[] = {
        "plain-1.0_x+y,z:@", "with blank", "do$HOME`ls`", "a'b",   "bang!x",   "back\\slash\\n",
        "new\nline",         "end\n",      "a\"b",        "*?[a]", "~me",      "per%cent%s",
        "#x;y&z|(u)<v>",     "{a,b}",      "caf\303\251", "=x",    "\001\177", "^x^y",
    };
    char top[] = "/tmp/aq-ssh-test-XXXXXX";
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < AQI_COUNT_OF(folders); i++)
        try_folder(top, folders[i]);
    assert_int_equal(rmdir(top), 0);
}

static void addresses(void **state)
{
    static const char offer[] = "10.0.0.7:4000,[fd00::7]:4000";
    static const struct {
        const char *connection, *before;
    } rows[] = {
        {"10.1.0.9 50000 10.1.0.3 22", "10.1.0.9:4000,"},
        {"fd01::9 50000 fd01::3 22", "[fd01::9]:4000,"},
        {"::ffff:10.1.0.9 50000 ::ffff:10.1.0.3 22", "[::ffff:10.1.0.9]:4000,"},
        {"10.1.0.9", "10.1.0.9:4000,"},
        {"fe80::9%lo 50000 fe80::3%lo 22", "[fe80::9%lo]:4000,"},
        {"fe80::9%no-such 50000 fe80::3%lo 22", ""},
        {"UNKNOWN 65535 UNKNOWN 65535", ""}, /* sshd -i on a pipe, and of vsock */
        {"10.1.0.9,10.1.0.8 1 2 3", ""},
        {"10.1.0 50000 10.1.0.3 22", ""},
        {"a:b 1 2 3", ""},
        {" 1 2 3", ""},
        {"", ""},
        {NULL, ""},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        char text[200], wanted[200];
        snprintf(wanted, sizeof(wanted), "%s%s", rows[i].before, offer);
        ssh_addresses(rows[i].connection, offer, text, sizeof(text));
        assert_string_equal(text, wanted);
    }
    char text[200], much[600];
    memset(much, '1', sizeof(much) - 1);
    much[sizeof(much) - 1] = '\0';
    ssh_addresses(much, offer, text, sizeof(text));
    assert_string_equal(text, offer);
    ssh_addresses(rows[0].connection, "no port", text, sizeof(text));
    assert_string_equal(text, "no port");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(any_path),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
