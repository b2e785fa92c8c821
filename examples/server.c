/*
 * A key-value service for separately started programs: listens at a URI, sleeps in poll(), and
 * answers clients (client.c). Usage: server [URI]. Without a URI, the library chooses one. The URI
 * is printed.
 */
#include "check.h"

#include <poll.h>
#include <string.h>

enum { KEYS = 256, TEXT = 64 };
enum { SET = AQ_HANDLER_BASE, GET, STOP, VALUE }; /* the same as in client.c */

static struct {
    char key[TEXT], value[TEXT];
} table[KEYS];
static int running = 1;

static int find(const char *key)
{
    for (int i = 0; i < KEYS; i++)
        if (strcmp(table[i].key, key) == 0) return i;
    return -1;
}

/* The payload is untrusted: it is accepted only if it is two NUL-terminated strings. */
static int two_strings(const aq_am *am, char *first, char *second)
{
    const char *at = am->payload;
    size_t n = strnlen(at, am->nbytes);
    if (n >= TEXT || n + 1 >= am->nbytes) return 0;
    size_t m = strnlen(at + n + 1, am->nbytes - n - 1);
    if (m >= TEXT || n + m + 2 != am->nbytes) return 0;
    memcpy(first, at, n + 1);
    memcpy(second, at + n + 1, m + 1);
    first[n] = second[m] = 0; /* even if it was modified meanwhile */
    return 1;
}

static void answer(aq_am *am, const char *value)
{
    /* The client may end before the reply is sent; main() handles that event. */
    aq_status st = aq_am_reply_medium(am, VALUE, value, value != NULL ? strlen(value) + 1 : 0,
                                      AQ_ARGS(value != NULL), 0);
    if (st != AQ_EPEER) check(st, "aq_am_reply_medium");
}

static void on_set(aq_am *am)
{
    char key[TEXT], value[TEXT];
    int i = two_strings(am, key, value) ? find(key) : -1;
    if (i < 0 && (i = find("")) < 0) {
        answer(am, NULL); /* full */
        return;
    }
    memcpy(table[i].key, key, TEXT);
    memcpy(table[i].value, value, TEXT);
    answer(am, value);
}

static void on_get(aq_am *am)
{
    char key[TEXT], unused[TEXT];
    int i = two_strings(am, key, unused) && key[0] != 0 ? find(key) : -1;
    answer(am, i >= 0 ? table[i].value : NULL);
}

static void on_stop(aq_am *am)
{
    running = 0;
    answer(am, "stopping");
}

/* Over a network, the process ID is unknown. */
static void say(const aq_connection_info *info, const char *what)
{
    if (info->pid != 0)
        printf("process %d: %s\n", (int)info->pid, what);
    else
        printf("a client: %s\n", what);
}

static void handle(const aq_connection_event *event)
{
    aq_connection_info info;
    if (event->connection == NULL) { /* an event of the listener */
        int down = event->type == AQ_LISTENER_DOWN;
        printf("the network interface is %s\n", down ? "down" : "up again");
        fflush(stdout);
        return;
    }
    check(aq_connection_query(event->connection, &info), "aq_connection_query");
    switch (event->type) {
    case AQ_CONNECTION_REQUEST:
        if (info.nbytes == 3 && memcmp(info.data, "kv1", 3) == 0) {
            if (aq_connection_accept(event->connection, NULL) != AQ_OK)
                aq_connection_close(event->connection); /* the client has disconnected */
        } else {
            check(aq_connection_reject(event->connection, 1, "this is a kv1 service"),
                  "aq_connection_reject");
        }
        break;
    case AQ_CONNECTION_OPENED:
        say(&info, "is connected");
        break;
    default:
        say(&info, info.reason);
        check(aq_connection_close(event->connection), "aq_connection_close");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    aq_team *world;
    aq_listener *listener;
    int fd;
    if (argc > 2) {
        fprintf(stderr, "usage: server [URI]\n");
        return 2;
    }
    aq_error_log(0); /* check() prints failures */
    check(aq_init(NULL, &world), "aq_init");
    aq_handler_entry handlers[] = {
        {.index = SET, .nargs = 0, .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST, .fn = on_set},
        {.index = GET, .nargs = 0, .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST, .fn = on_get},
        {.index = STOP, .nargs = 0, .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST, .fn = on_stop}};
    check(aq_am_register(aq_team_ep(world), handlers, 3), "aq_am_register");
    check(aq_listen(argc > 1 ? argv[1] : NULL, 0, NULL, &listener), "aq_listen");
    check(aq_wait_fd(&fd), "aq_wait_fd");
    printf("listening at %s\n", aq_listener_uri(listener));
    fflush(stdout);
    for (unsigned idle = 0; running;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN}; /* a program adds its own descriptors */
        aq_connection_event event;
        aq_status st = aq_poll();
        if (st < AQ_OK) break;
        idle = st == AQ_OK ? 0 : idle + 1;
        /* Waking up takes longer than answering: poll for a while before sleeping. */
        if (idle > 1000 && aq_wait_prepare() == AQ_OK) poll(&wait, 1, -1);
        while (aq_connection_next_event(&event) == AQ_OK)
            handle(&event);
    }
    check(aq_listener_close(listener), "aq_listener_close");
    return aq_finalize() == AQ_OK ? 0 : 1; /* closes open connections */
}
