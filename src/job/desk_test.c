/*
 * Tests desk.c and its sockets: which processes may join, what they are sent, malformed and
 * excessive input. Processes that the launcher did not start: desk_claim_test.c. The effects on a
 * job: tests/job.
 */
#include "base/descriptors.h"
#include "job/desk_world_test.h"

/* --- joining --------------------------------------------------------------------------------- */

static void a_rank_joins(void **state)
{
    struct stat info;
    int page;
    open_places();
    turns();
    int fd = hello(FIRST);
    expect_job(fd, FIRST, &page);
    assert_int_equal(aqi_hub_state(world.hub, FIRST), AQI_RANK_JOINED);
    assert_int_equal(aqi_hub_state(world.hub, SECOND), AQI_RANK_STARTED);
    assert_int_equal(aqi_hub_pid(world.hub, 0), getpid());
    /* The page has a line for each rank, does not grow, and only the agent can write to it. */
    assert_int_equal(fstat(page, &info), 0);
    assert_int_equal(info.st_size, HERE * AQI_CACHE_LINE);
    assert_int_not_equal(ftruncate(page, 2 * info.st_size), 0);
    assert_ptr_equal(mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0),
                     MAP_FAILED);
    const uint32_t *line = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, page, 0);
    assert_true(line != MAP_FAILED);
    int other = joined(SECOND);
    static const uint16_t types[] = {AQI_CONTROL_EVENT, AQI_CONTROL_AGREED, AQI_CONTROL_RESULT};
    for (unsigned i = 0; i < AQI_COUNT_OF(types); i++) {
        const struct aqi_control message = {.type = types[i]};
        struct aqi_control said;
        int passed;
        aqi_desk_to_rank(NULL, SECOND, &message, NULL);
        assert_int_equal(hear(other, &said, &passed), AQ_OK);
        assert_int_equal(said.type, types[i]);
        assert_int_equal(line[0], 0);
        assert_int_equal(line[AQI_CACHE_LINE / sizeof(*line)], aqi_min(i + 1, 2));
    }
    munmap((void *)(uintptr_t)line, (size_t)info.st_size);
    close(page);
    close(fd);
    close(other);
    assert_int_equal(world.said, 0);
    close_world();
}

static void a_place_is_taken_once(void **state)
{
    open_places();
    int fd = joined(FIRST), again = hello(FIRST);
    expect_refusal(again, AQ_ESTATE, "place in the job is taken");
    const struct aqi_control bye = {.type = AQI_CONTROL_BYE};
    assert_int_equal(aqi_channel_send(fd, &bye, -1), AQ_OK);
    turns();
    assert_int_equal(aqi_hub_state(world.hub, FIRST), AQI_RANK_LEFT);
    expect_refusal(hello(FIRST), AQ_ESTATE, "has left again");
    close(fd);
    close_world();
}

/* A foreign packet, or one with a wrong descriptor, is reported once and dropped. */
static void garbage_at_a_place(void **state)
{
    static const uint8_t zeros[100];
    const struct aqi_control hi = {.type = AQI_CONTROL_HELLO}, bye = {.type = AQI_CONTROL_BYE};
    for (unsigned i = 0; i < 7; i++) {
        int theirs, own;
        open_places();
        own = own_socket(&theirs);
        int place = world.place[FIRST];
        switch (i) {
        case 0:
            assert_int_equal(send(place, zeros, sizeof(zeros), 0), sizeof(zeros));
            break;
        case 1:
            assert_int_equal(send(place, zeros, 0, 0), 0);
            break;
        case 2: /* no socket for the answer */
            assert_int_equal(aqi_channel_send(place, &hi, -1), AQ_OK);
            break;
        case 3: /* a socket, but the wrong message */
            assert_int_equal(aqi_channel_send(place, &bye, theirs), AQ_OK);
            break;
        case 4: /* the right message, but not such a socket */
            close(theirs);
            theirs = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            assert_int_equal(aqi_channel_send(place, &hi, theirs), AQ_OK);
            break;
        case 5:
            close(theirs);
            theirs = open("/dev/null", O_RDWR | O_CLOEXEC);
            assert_int_equal(aqi_channel_send(place, &hi, theirs), AQ_OK);
            break;
        default: /* one of our messages, but of another type */
            assert_int_equal(aqi_channel_send(place, &bye, -1), AQ_OK);
            break;
        }
        close(theirs);
        turns();
        assert_int_equal(world.said, 1);
        assert_non_null(strstr(world.text, "rank 1 (pid "));
        assert_non_null(strstr(world.text, "bytes to its control socket; it is ignored"));
        assert_int_equal(send(place, zeros, 1, 0), 1);
        turns();
        assert_int_equal(world.said, 1);
        assert_int_equal(send(world.place[SECOND], zeros, 1, 0), 1);
        turns();
        assert_int_equal(world.said, 2);
        assert_int_equal(aqi_hub_state(world.hub, FIRST), AQI_RANK_STARTED);
        int fd = joined(FIRST); /* nevertheless */
        close(fd);
        close(own);
        close_world();
    }
}

/* Once no process holds the place's socket, it is closed and no longer polled. */
static void an_abandoned_place(void **state)
{
    open_places();
    unsigned before = descriptors();
    close(world.place[FIRST]);
    world.place[FIRST] = -1;
    turns();
    assert_int_equal(descriptors(), before - 2);
    assert_int_equal(world.said, 0);
    close_world();
}

static void another_version(void **state)
{
    uint16_t head[2] = {aqi_wire_version(AQI_WIRE_CONTROL) + 1, AQI_CONTROL_HELLO};
    open_places();
    int theirs, own = own_socket(&theirs);
    struct iovec bytes = {.iov_base = head, .iov_len = sizeof(head)};
    struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
    struct cmsghdr control[2];
    aqi_descriptors_add(&packet, control, &theirs, 1);
    assert_int_equal(aqi_descriptors_send(world.place[FIRST], &packet), 0);
    close(theirs);
    turns();
    expect_refusal(own, AQ_EPROTO, "of the control protocol, but this aqrun uses version ");
    /* Without a socket, no answer can be sent. */
    assert_int_equal(send(world.place[FIRST], head, sizeof(head), 0), sizeof(head));
    turns();
    assert_int_equal(world.said, 1);
    close_world();
}

/* --- messages from and to ranks -------------------------------------------------------------- */

static void garbage_from_a_rank(void **state)
{
    static const uint8_t zeros[100];
    for (unsigned i = 0; i < 5; i++) {
        open_places();
        int fd = joined(FIRST), theirs, own = own_socket(&theirs);
        const struct aqi_control show = {.type = AQI_CONTROL_SHOW,
                                         .call = AQI_SHOW_COUNTERS,
                                         .bytes = aqi_counters_form()},
                                 job = {.type = AQI_CONTROL_JOB,
                                        .size = 1,
                                        .hosts = 1,
                                        .local_size = 1},
                                 exit = {.type = AQI_CONTROL_READY};
        if (i == 0) assert_int_equal(send(fd, zeros, sizeof(zeros), 0), sizeof(zeros));
        if (i == 1) assert_int_equal(aqi_channel_send(fd, &job, theirs), AQ_OK);
        if (i == 2) assert_int_equal(aqi_channel_send(fd, &exit, theirs), AQ_OK);
        if (i == 3) assert_int_equal(aqi_channel_send(fd, &show, theirs), AQ_OK);
        if (i == 4) assert_int_equal(aqi_channel_send(fd, &show, -1), AQ_OK);
        close(theirs);
        turns();
        /* All descriptors that came with it were closed, except those passed on. */
        struct aqi_control message;
        int passed;
        assert_int_equal(hear(own, &message, &passed), i == 3 ? AQ_AGAIN : AQ_EPEER);
        assert_int_equal(world.said, i < 2);
        if (i < 2) assert_non_null(strstr(world.text, "sent a malformed message"));
        assert_int_equal(send(fd, zeros, 1, 0), 1);
        turns();
        assert_int_equal(world.said, 1);
        assert_int_equal(hear(fd, &message, &passed), AQ_AGAIN); /* the rank is still served */
        close(own);
        close(fd);
        turns();
        assert_int_equal(aqi_hub_state(world.hub, FIRST), AQI_RANK_JOINED);
        close_world();
    }
}

static bool unread(int fd)
{
    int bytes = 0; /* data sent here */
    assert_int_equal(ioctl(fd, SIOCOUTQ, &bytes), 0);
    return bytes != 0;
}

/* A rank that sends a lot is served in turn with the others; when it ends, all its data is read. */
static void busy_ranks_take_turns(void **state)
{
    static const uint8_t zeros[8];
    open_places();
    int fd = joined(FIRST);
    const int talkers[] = {fd, world.place[SECOND]};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned more = 0; more < 2; more++) {
            for (unsigned n = 0; n < TURN + more; n++)
                assert_int_equal(send(talkers[i], zeros, sizeof(zeros), 0), sizeof(zeros));
            turn();
            assert_int_equal(unread(talkers[i]), more);
            turn();
            assert_false(unread(talkers[i]));
        }
    for (unsigned n = 0; n < 2 * TURN; n++)
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(send(talkers[i], zeros, sizeof(zeros), 0), sizeof(zeros));
    aqi_desk_drain(NULL, FIRST);
    assert_false(unread(fd));
    assert_true(unread(world.place[SECOND]));
    aqi_desk_drain(NULL, SECOND);
    assert_false(unread(world.place[SECOND]));
    close(fd);
    close_world();
}

/* When a process ends, its messages are still read, but only up to a limit. */
static void last_messages(void **state)
{
    static const uint8_t zeros[8];
    const int room = 256 << 20;
    open_places();
    int fd = joined(FIRST);
    const int talkers[] = {fd, world.place[SECOND]};
    for (unsigned i = 0; i < 2; i++)
        if (setsockopt(talkers[i], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0) {
            print_message("not tested: a buffer of this size needs a privilege\n");
            close(fd);
            close_world();
            return;
        }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned more = 0; more < 2; more++) {
            for (unsigned n = 0; n < LAST_WORDS + more; n++)
                assert_int_equal(send(talkers[i], zeros, sizeof(zeros), 0), sizeof(zeros));
            aqi_desk_drain(NULL, i == 0 ? FIRST : SECOND);
            assert_int_equal(unread(talkers[i]), more);
        }
    close(fd);
    close_world();
}

enum { MANY = 100 };

static void queue_many(struct aqi_parcel **parcel)
{
    *parcel = aqi_parcel_new(NULL, AQI_CONTROL_CHUNK);
    assert_non_null(*parcel);
    for (uint32_t i = 0; i < MANY; i++) {
        const struct aqi_control message = {
            .type = AQI_CONTROL_RESULT, .seq = i, .bytes = AQI_CONTROL_CHUNK};
        aqi_desk_to_rank(NULL, FIRST, &message, i % 2 != 0 ? *parcel : NULL);
    }
    assert_true((*parcel)->refs > 1);
}

/* Messages that exceed the socket's buffer wait, in order; data that was sent is freed. */
static void a_rank_that_reads_slowly(void **state)
{
    struct aqi_parcel *parcel;
    struct aqi_control message;
    int passed;
    open_places();
    int fd = joined(FIRST);
    queue_many(&parcel);
    const struct aqi_control event = {.type = AQI_CONTROL_EVENT};
    aqi_desk_to_rank(NULL, SECOND, &event, parcel); /* it has not joined yet */
    uint32_t most = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        while (hear(fd, &message, &passed) == AQ_AGAIN) {
            turn();
            assert_in_range(++most, 1, 2 * MANY);
        }
        assert_int_equal(message.type, AQI_CONTROL_RESULT);
        assert_int_equal(message.seq, i);
        assert_int_equal(message.len, i % 2 != 0 ? AQI_CONTROL_CHUNK : 0);
    }
    assert_true(most > 0);
    turns();
    assert_int_equal(hear(fd, &message, &passed), AQ_AGAIN);
    assert_int_equal(parcel->refs, 1);
    aqi_parcel_release(parcel);
    assert_int_equal(world.said, 0);
    close(fd);
    close_world();
}

/* Messages queued for a process that closes its socket, or leaves, are freed. */
static void a_rank_that_does_not_read(void **state)
{
    for (unsigned leaves = 0; leaves < 2; leaves++) {
        struct aqi_parcel *parcel;
        open_places();
        int fd = joined(FIRST);
        queue_many(&parcel);
        if (leaves == 0) close(fd);
        if (leaves == 1) aqi_desk_leave(FIRST);
        turns();
        assert_int_equal(parcel->refs, 1);
        assert_int_equal(world.said, 0);
        const struct aqi_control event = {.type = AQI_CONTROL_EVENT};
        aqi_desk_to_rank(NULL, FIRST, &event, parcel);
        assert_int_equal(parcel->refs, 1);
        aqi_parcel_release(parcel);
        if (leaves != 0) close(fd);
        close_world();
    }
}

/* A message that is too long for its type is not sent, and reported; the next one is sent. */
static void a_message_that_cannot_be_sent(void **state)
{
    struct aqi_control said;
    int passed;
    open_places();
    int fd = joined(FIRST);
    struct aqi_parcel *parcel = aqi_parcel_new(NULL, AQI_CONTROL_TEXT + 1);
    const struct aqi_control event = {.type = AQI_CONTROL_EVENT};
    aqi_desk_to_rank(NULL, FIRST, &event, parcel);
    assert_int_equal(parcel->refs, 1);
    assert_int_equal(world.said, 1);
    assert_non_null(strstr(world.text, "cannot send to rank 1: "));
    aqi_desk_to_rank(NULL, FIRST, &event, NULL);
    assert_int_equal(hear(fd, &said, &passed), AQ_OK);
    aqi_parcel_release(parcel);
    close(fd);
    close_world();
}

/* --- other processes ------------------------------------------------------------------------- */

/* The forked process is a shell, and its child of this name joins. */
static void expect_process_of_a_shell(const char *its_name, const char *as_said)
{
    char name[AQI_RANK_NAME_BYTES];
    int ready[2];
    open_places();
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int theirs, own = own_socket(&theirs);
        const struct aqi_control message = {.type = AQI_CONTROL_HELLO};
        prctl(PR_SET_NAME, its_name);
        if (aqi_channel_send(world.place[FIRST], &message, theirs) != AQ_OK) _exit(1);
        (void)!write(ready[1], &own, 1);
        pause();
    }
    assert_int_equal(read(ready[0], name, 1), 1);
    turns();
    assert_int_equal(aqi_hub_pid(world.hub, 0), pid);
    assert_non_null(strstr(aqi_hub_name(world.hub, FIRST, name), as_said));
    assert_false(aqi_hub_ending(world.hub));
    unsigned before = descriptors();
    aqi_desk_kill(NULL, FIRST, SIGTERM); /* the child, not the shell, is the process of the rank */
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    turns();
    /* Its socket and the descriptor that showed its end are closed; the shell has a limited time.
     */
    assert_int_equal(descriptors(), before - 2);
    assert_false(aqi_hub_ending(world.hub));
    aqi_hub_now(world.hub, aqi_now_ns() + UINT64_MAX / 8);
    (void)aqi_hub_tick(world.hub);
    assert_true(aqi_hub_ending(world.hub));
    close(ready[0]);
    close(ready[1]);
    close_world();
}

static void a_process_of_a_shell(void **state)
{
    expect_process_of_a_shell("fifteen letters", ", fifteen letters)");
    expect_process_of_a_shell("short", ", short)");
}

/* A signal to a rank reaches only its process: not the agent, nor a later process with the same
 * ID. */
static void signals_to_ranks_without_a_process(void **state)
{
    const struct sigaction counted = {.sa_handler = on_signal};
    struct sigaction before;
    open_places();
    assert_int_equal(sigaction(SIGURG, &counted, &before), 0); /* harmless to other processes */
    signals = 0;
    aqi_desk_forked(FIRST, 0);
    aqi_desk_kill(NULL, FIRST, SIGURG);
    assert_int_equal(signals, 0);
    aqi_desk_forked(FIRST, getpid());
    aqi_desk_kill(NULL, FIRST, SIGURG);
    assert_int_equal(signals, 1);
    assert_int_equal(sigaction(SIGURG, &before, NULL), 0);
    close_world();
}

static bool is_mapped(const char *name)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        found = found || strstr(line, name) != NULL;
    fclose(file);
    return found;
}

/* A host may have one rank, or none; then there is no page. */
static void a_page_for_one_rank_or_none(void **state)
{
    struct aqi_parcel *page;
    struct stat info;
    for (uint32_t ranks = 0; ranks < 2; ranks++) {
        assert_int_equal(aqi_desk_open(ranks, &page), AQ_OK);
        assert_int_equal(page->fd >= 0, ranks);
        if (ranks != 0) assert_int_equal(fstat(page->fd, &info), 0);
        if (ranks != 0) assert_int_equal(info.st_size, AQI_CACHE_LINE);
        aqi_desk_close();
        aqi_parcel_release(page);
        assert_false(is_mapped("aq-job-page"));
    }
}

/* --- descriptors ----------------------------------------------------------------------------- */

static void objects_shared_by_ranks(void **state)
{
    struct aqi_parcel *parcel;
    struct stat info;
    char bytes[6];
    open_world();
    assert_int_equal(aqi_desk_freeze(NULL, "table", 6, &parcel), AQ_OK);
    assert_int_equal(parcel->refs, 1);
    assert_int_equal(parcel->len, 0);
    assert_int_equal(pread(parcel->fd, bytes, sizeof(bytes), 0), 6);
    assert_string_equal(bytes, "table");
    assert_true(pwrite(parcel->fd, "x", 1, 0) < 0);
    aqi_parcel_release(parcel);
    assert_int_equal(aqi_desk_share(NULL, "aq-test", 4096, &parcel), AQ_OK);
    assert_int_equal(fstat(parcel->fd, &info), 0);
    assert_int_equal(info.st_size, 4096);
    aqi_parcel_release(parcel);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_joins),
        cmocka_unit_test(a_place_is_taken_once),
        cmocka_unit_test(garbage_at_a_place),
        cmocka_unit_test(an_abandoned_place),
        cmocka_unit_test(another_version),
        cmocka_unit_test(garbage_from_a_rank),
        cmocka_unit_test(busy_ranks_take_turns),
        cmocka_unit_test(last_messages),
        cmocka_unit_test(a_rank_that_reads_slowly),
        cmocka_unit_test(a_rank_that_does_not_read),
        cmocka_unit_test(a_message_that_cannot_be_sent),
        cmocka_unit_test(a_process_of_a_shell),
        cmocka_unit_test(signals_to_ranks_without_a_process),
        cmocka_unit_test(a_page_for_one_rank_or_none),
        cmocka_unit_test(objects_shared_by_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
