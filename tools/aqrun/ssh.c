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

/* All words in one block: first the pointers, then the bytes. */
struct ssh_words {
    char **argv;
    size_t count;
    char *bytes; /* next free byte */
};

/* Copy the next word of a text to `to`, by the rules of the shell. */
static void ssh_word(const char **text, char **to)
{
    const char *at = *text;
    char quote = '\0';
    for (; *at != '\0' && (quote != '\0' || strchr(" \t\r\n", *at) == NULL); at++) {
        if (*at == quote) {
            quote = '\0';
        } else if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else {
            if (*at == '\\' && quote != '\'' && at[1] != '\0') at++;
            *(*to)++ = *at;
        }
    }
    *(*to)++ = '\0';
    *text = at;
}

static void ssh_split(struct ssh_words *words, const char *text)
{
    while (*(text += strspn(text, " \t\r\n")) != '\0') {
        words->argv[words->count++] = words->bytes;
        ssh_word(&text, &words->bytes);
    }
}

char **ssh_words(const char *text)
{
    size_t max = strlen(text) + 1; /* words, and bytes with their terminators */
    struct ssh_words words = {.argv = malloc(max * (sizeof(*words.argv) + 1) + 1)};
    if (words.argv == NULL) return NULL;
    words.bytes = (char *)(words.argv + max);
    ssh_split(&words, text);
    words.argv[words.count] = NULL;
    return words.argv;
}

static void ssh_add(struct ssh_words *words, const char *word)
{
    size_t len = strlen(word) + 1;
    words->argv[words->count++] = memcpy(words->bytes, word, len);
    words->bytes += len;
}

static bool ssh_is_openssh(const char *command)
{
    const char *slash = strrchr(command, '/');
    return strcmp(slash != NULL ? slash + 1 : command, "ssh") == 0;
}

static bool ssh_fill(struct ssh_words *words, const struct ssh_config *config, const char *host,
                     const char *line, char why[SSH_WHY])
{
    ssh_split(words, config->command);
    bool openssh = words->count > 0 && ssh_is_openssh(words->argv[0]);
    if (words->count == 0)
        return aqi_explain(why, SSH_WHY,
                           "the command by which other hosts are reached is empty: set %s",
                           aqi_setting_variable("AQ_SSH_CMD"));
    ssh_split(words, config->options);
    for (size_t i = 0; openssh && i < AQI_COUNT_OF(ssh_defaults); i++)
        ssh_add(words, ssh_defaults[i]);
    ssh_add(words, host);
    ssh_add(words, line);
    words->argv[words->count] = NULL;
    return true;
}

char **ssh_argv(const struct ssh_config *config, const char *host, char why[SSH_WHY])
{
    char *line = ssh_remote_line(config->aqrun);
    size_t given = strlen(config->command) + strlen(config->options);
    /* There are at most as many words as characters, and words never grow. */
    size_t max = given + AQI_COUNT_OF(ssh_defaults) + 4;
    size_t bytes = given + strlen(host) + (line != NULL ? strlen(line) : 0) + 80;
    char **argv = malloc(max * sizeof(*argv) + bytes);
    if (line == NULL || argv == NULL) {
        snprintf(why, SSH_WHY, "no memory for the command by which %.100s is reached", host);
        free(line);
        free(argv);
        return NULL;
    }
    struct ssh_words words = {.argv = argv, .bytes = (char *)(argv + max)};
    bool filled = ssh_fill(&words, config, host, line, why);
    free(line);
    if (filled) return argv;
    free(argv);
    return NULL;
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
