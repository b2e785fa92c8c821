/* The command that starts an agent on another host. */
#include "ssh.h"

#include "base/fail.h"
#include "base/inet.h"
#include "base/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that need no quotes in any shell, even at the start of a word. */
#define SSH_PLAIN                                                                                  \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"                               \
    "/._-+,:@"
/* Characters that single quotes do not protect in at least one of sh, csh and fish. */
#define SSH_UNQUOTABLE "'!\\\n"

/* Defaults: OpenSSH uses the first value of an option. */
static const char *const ssh_defaults[] = {"-T", "-o", "BatchMode=yes", "-o", "ForwardX11=no"};

/*
 * Encode a path with other characters as octal numbers for printf: the remote shell then parses
 * only characters that have the same meaning in all shells. The x prevents the removal of trailing
 * newlines.
 */
static char *ssh_octal_line(const char *path)
{
    static const char before[] = "exec /bin/sh -c 'p=$(printf %b \"";
    static const char after[] = "x\"); exec \"${p%x}\" --agent'";
    size_t room = sizeof(before) + sizeof(after) + 5 * strlen(path);
    char *line = malloc(room);
    if (line == NULL) return NULL;
    snprintf(line, room, "%s", before);
    for (; *path != '\0'; path++)
        aqi_append(line, room, "\\0%03o", (unsigned char)*path);
    aqi_append(line, room, "%s", after);
    return line;
}

char *ssh_remote_line(const char *path)
{
    char *line;
    if (strpbrk(path, SSH_UNQUOTABLE) != NULL) return ssh_octal_line(path);
    const char *quote = path[strspn(path, SSH_PLAIN)] == '\0' ? "" : "'";
    return asprintf(&line, "exec %s%s%s --agent", quote, path, quote) < 0 ? NULL : line;
}

static bool ssh_is_openssh(const char *command)
{
    const char *slash = strrchr(command, '/');
    return strcmp(slash != NULL ? slash + 1 : command, "ssh") == 0;
}

char **ssh_argv(const struct ssh_config *config, const char *host, char why[SSH_WHY])
{
    struct words words = {0};
    words_split(&words, config->command);
    if (words.used == 0 && !words.failed) {
        aqi_explain(why, SSH_WHY, "the command by which other hosts are reached is empty: set %s",
                    aqi_setting_variable("AQ_SSH_CMD"));
        return NULL;
    }
    bool openssh = words.used > 0 && ssh_is_openssh(words.argv[0]);
    words_split(&words, config->options);
    for (size_t i = 0; openssh && i < AQI_COUNT_OF(ssh_defaults); i++)
        words_add(&words, "%s", ssh_defaults[i]);
    words_add(&words, "%s", host);
    words_add_text(&words, "", ssh_remote_line(config->aqrun));
    char **argv = words_finish(&words);
    if (argv == NULL)
        aqi_explain(why, SSH_WHY, "no memory for the command by which %.100s is reached", host);
    return argv;
}

/* Whether these words begin with the options added by aqrun. */
static bool ssh_begins_defaults(char *const *argv)
{
    for (size_t i = 0; i < AQI_COUNT_OF(ssh_defaults); i++)
        if (argv[i] == NULL || strcmp(argv[i], ssh_defaults[i]) != 0) return false;
    return true;
}

void ssh_by_hand(char *const *argv, char *text, size_t room)
{
    text[0] = '\0';
    /* All but the last word, which is the remote command line. */
    for (; argv[0] != NULL && argv[1] != NULL; argv++) {
        if (ssh_begins_defaults(argv)) argv += AQI_COUNT_OF(ssh_defaults);
        bool plain = argv[0][0] != '\0' && argv[0][strspn(argv[0], SSH_PLAIN "=")] == '\0';
        const char *quote = plain ? "" : "'";
        aqi_append(text, room, "%s%s%s ", quote, argv[0], quote);
    }
    aqi_append(text, room, "true");
}

void ssh_addresses(const char *connection, const char *offer, char *text, size_t room)
{
    char one[AQI_SOCKADDR_TEXT];
    union aqi_sockaddr at;
    size_t len = connection != NULL ? strcspn(connection, " ") : 0;
    bool v6 = len != 0 && memchr(connection, ':', len) != NULL;
    size_t first = strcspn(offer, ",");
    const char *port = memrchr(offer, ':', first);
    int used = port == NULL ? -1
                            : snprintf(one, sizeof(one), "%s%.*s%s%.*s", v6 ? "[" : "", (int)len,
                                       len != 0 ? connection : "", v6 ? "]" : "",
                                       (int)(offer + first - port), port);
    bool seen = used > 0 && used < (int)sizeof(one) && aqi_sockaddr_read(one, &at);
    snprintf(text, room, "%s%s%s", seen ? one : "", seen ? "," : "", offer);
}
