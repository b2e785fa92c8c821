/*
 * A program for any release: messages, one-sided operations and collectives in a job, and a
 * connection, with every byte checked. It uses public calls only, so that it also compiles with the
 * last release.
 *
 *   talk job         as a rank
 *   talk rest        as a rank that then waits until the job is ended
 *   talk serve URI   take one call, answer until the client leaves
 *   talk call URI    call it
 *   talk hear URI    as a member of a multicast group, until a message comes
 *   talk tell URI    send to the group for two seconds
 */
#include <aqueduct/aqueduct.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK = AQ_HANDLER_BASE, ANSWER, TELL };
enum { TURNS = 60, STEP = 397, MOST = 8192, WINDOW = 65536 };

static unsigned asked, answered, notified, wrong;

static unsigned char byte_of(unsigned from, size_t at)
{
    return (unsigned char)(from * 31 + at * 7 + at / 251);
}

static void fill(unsigned char *bytes, size_t len, unsigned from)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(from, i);
}

static int differs(const void *bytes, size_t len, unsigned from)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        if (at[i] != byte_of(from, i)) return 1;
    return 0;
}

static void check(aq_status status, const char *call)
{
    if (status == AQ_OK) return;
    fprintf(stderr, "talk: %s: %s: %s\n", call, aq_status_name(status), aq_error_message());
    exit(1);
}

static void on_ask(aq_am *am)
{
    wrong += (unsigned)differs(am->payload, am->nbytes, (unsigned)am->args[0]);
    asked++;
    check(aq_am_reply_medium(am, ANSWER, am->payload, am->nbytes, AQ_ARGS(am->args[0]), 0),
          "aq_am_reply_medium");
}

static void on_answer(aq_am *am)
{
    wrong += (unsigned)differs(am->payload, am->nbytes, (unsigned)am->args[0]);
    answered++;
}

static void on_tell(aq_am *am)
{
    wrong += (unsigned)differs(am->payload, am->nbytes, 5);
    notified++;
}

static int has_all(void *count)
{
    return *(unsigned *)count >= TURNS;
}

static aq_team *begin(void)
{
    aq_team *world;
    aq_handler_entry handlers[] = {
        {.index = ASK, .nargs = 1, .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST, .fn = on_ask},
        {.index = ANSWER, .nargs = 1, .accepts = AQ_AM_MEDIUM | AQ_AM_REPLY, .fn = on_answer},
        {.index = TELL, .nargs = 0, .accepts = AQ_AM_MEDIUM | AQ_AM_REQUEST, .fn = on_tell}};
    check(aq_init(NULL, &world), "aq_init");
    check(aq_am_register(aq_team_ep(world), handlers, 3), "aq_am_register");
    return world;
}

/* Send messages of many sizes; each comes back. */
static void talk_to(aq_team *team, aq_rank to)
{
    static unsigned char bytes[MOST];
    for (unsigned i = 0; i < TURNS; i++) {
        size_t len = i * STEP % (MOST + 1);
        fill(bytes, len, i);
        check(aq_am_medium(team, to, ASK, bytes, len, AQ_ARGS((int32_t)i), 0, NULL),
              "aq_am_medium");
    }
    check(aq_poll_until(has_all, &answered, AQ_FOREVER), "aq_poll_until");
}

/* Put data into the segment of the next rank, and get it back. */
static void write_to(aq_team *world, aq_rank self, aq_rank to)
{
    static unsigned char bytes[WINDOW];
    aq_segment *segment;
    check(aq_segment_attach(world, WINDOW, &segment), "aq_segment_attach");
    fill(bytes, WINDOW, self);
    check(aq_put(world, to, aq_remote_offset(0), bytes, WINDOW, AQ_REMOTE_OFFSET), "aq_put");
    memset(bytes, 0, WINDOW);
    check(aq_get(world, to, bytes, aq_remote_offset(0), WINDOW, AQ_REMOTE_OFFSET), "aq_get");
    wrong += (unsigned)differs(bytes, WINDOW, self);
}

static int never(void *unused)
{
    (void)unused;
    return 0;
}

static void job(int rests)
{
    aq_team *world = begin();
    aq_rank self = aq_team_rank(world), size = aq_team_size(world), next = (self + 1) % size;
    uint64_t mine = self + 1, sum = 0;
    check(aq_barrier(world), "aq_barrier");
    talk_to(world, next);
    if (rests) {
        fprintf(stderr, "process %d rests\n", (int)getpid());
        check(aq_poll_until(never, NULL, AQ_FOREVER), "aq_poll_until");
    }
    write_to(world, self, next);
    check(aq_coll_allreduce(world, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0), "aq_coll_allreduce");
    wrong += sum != (uint64_t)size * (size + 1) / 2;
    check(aq_barrier(world), "aq_barrier");
    printf("rank %u of %u: %s\n", self, size, wrong == 0 && asked == TURNS ? "right" : "WRONG");
    check(aq_finalize(), "aq_finalize");
}

/*
 * Serve until the client has left. A refused client causes no event; then the test ends this
 * process.
 */
static void serve(const char *uri)
{
    aq_listener *listener;
    aq_connection_event event;
    int over = 0;
    (void)begin();
    check(aq_listen(uri, 0, NULL, &listener), "aq_listen");
    printf("listening at %s\n", aq_listener_uri(listener));
    fflush(stdout);
    while (!over) {
        aq_status st = aq_poll_for(10000000);
        if (st < AQ_OK) check(st, "aq_poll_for");
        while (aq_connection_next_event(&event) == AQ_OK) {
            if (event.type == AQ_CONNECTION_REQUEST)
                check(aq_connection_accept(event.connection, NULL), "aq_connection_accept");
            else if (event.connection != NULL && event.type != AQ_CONNECTION_OPENED)
                over = aq_connection_close(event.connection) == AQ_OK;
        }
    }
    printf("server: %s\n", wrong == 0 && asked == TURNS ? "right" : "WRONG");
    check(aq_finalize(), "aq_finalize");
}

static void call(const char *uri)
{
    aq_connection *connection;
    aq_connect_params params = aq_connect_defaults();
    (void)begin();
    params.timeout_ns = 15000000000u;
    check(aq_connect(uri, &params, &connection), "aq_connect");
    talk_to(aq_connection_team(connection), 1);
    check(aq_connection_close(connection), "aq_connection_close");
    printf("client: %s\n", wrong == 0 ? "right" : "WRONG");
    check(aq_finalize(), "aq_finalize");
}

#ifdef AQ_CONNECT_GROUP_SEND
static aq_connection *join(const char *uri, unsigned flags)
{
    aq_connection *connection;
    aq_connect_params params = aq_connect_defaults();
    (void)begin();
    params.flags = flags;
    check(aq_connect(uri, &params, &connection), "aq_connect");
    return connection;
}

static int was_notified(void *unused)
{
    (void)unused;
    return notified != 0;
}

static void hear(const char *uri)
{
    aq_connection *connection = join(uri, AQ_CONNECT_GROUP_RECEIVE);
    printf("listening at %s\n", uri);
    fflush(stdout);
    check(aq_poll_until(was_notified, NULL, AQ_FOREVER), "aq_poll_until");
    check(aq_connection_close(connection), "aq_connection_close");
    printf("member: %s\n", wrong == 0 ? "right" : "WRONG");
    check(aq_finalize(), "aq_finalize");
}

static void tell(const char *uri)
{
    unsigned char bytes[STEP];
    aq_connection *connection = join(uri, AQ_CONNECT_GROUP_SEND);
    aq_team *team = aq_connection_team(connection);
    fill(bytes, STEP, 5);
    for (unsigned i = 0; i < 100; i++) {
        check(aq_am_medium(team, 1, TELL, bytes, STEP, NULL, 0, 0, NULL), "aq_am_medium");
        usleep(20000);
    }
    check(aq_connection_close(connection), "aq_connection_close");
    check(aq_finalize(), "aq_finalize");
}
#endif

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "job") == 0)
        job(0);
    else if (argc == 2 && strcmp(argv[1], "rest") == 0)
        job(1);
    else if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "call") == 0)
        call(argv[2]);
#ifdef AQ_CONNECT_GROUP_SEND
    else if (argc == 3 && strcmp(argv[1], "hear") == 0)
        hear(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "tell") == 0)
        tell(argv[2]);
#endif
    else
        return 2;
    return wrong != 0;
}
