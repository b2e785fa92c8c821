/*
 * A minimal user program, in the common subset of C and C++: every process greets the next one and
 * itself, and checks the greetings. Built against the installed tree only.
 */
#include <aqueduct/aqueduct.h>
#include <stdio.h>

enum { GREETING = AQ_HANDLER_BASE, WIDE };

static aq_arg heard_sum;
static int heard_count;

static void greeting(aq_am *am)
{
    heard_sum += am->args[0];
    heard_count++;
}

/* 64-bit, signed and pointer arguments, among others. */
static void wide(aq_am *am)
{
    if (am->args[0] == -7 && (int64_t)aq_arg_u64(am, 1) == -5000000000 && am->args[3] == 8 &&
        aq_arg_ptr(am, 4) == (void *)&heard_sum && aq_arg_u64(am, 6) == 3000000000u)
        heard_count++;
}

static int heard_all(void *wanted)
{
    return heard_count == *(int *)wanted;
}

static int fail(const char *what, aq_status status)
{
    fprintf(stderr, "client: %s: %s: %s\n", what, aq_status_name(status), aq_error_message());
    return 1;
}

int main(void)
{
    aq_team *world;
    aq_status status = aq_init(NULL, &world);
    if (status != AQ_OK) return fail("aq_init", status);
    aq_rank rank = aq_team_rank(world), size = aq_team_size(world);

    aq_handler_entry table[] = {{GREETING, 1, AQ_AM_SHORT, greeting, NULL, "greeting"},
                                {WIDE, 8, AQ_AM_SHORT, wide, NULL, "wide"}};
    status = aq_am_register(aq_team_ep(world), table, 2);
    if (status != AQ_OK) return fail("aq_am_register", status);
    status = aq_barrier(world);
    if (status != AQ_OK) return fail("aq_barrier", status);

    const aq_rank targets[] = {rank, (rank + 1) % size};
    for (int i = 0; i < 2; i++) {
        status = aq_am_short(world, targets[i], GREETING, AQ_ARGS((aq_arg)rank + 1), 0);
        if (status != AQ_OK) return fail("aq_am_short", status);
    }
    status = aq_am_short(
        world, rank, WIDE,
        AQ_ARGS(-7, AQ_ARG64(-5000000000), 8, AQ_ARG_PTR(&heard_sum), AQ_ARG64(3000000000u)), 0);
    if (status != AQ_OK) return fail("aq_am_short", status);
    int wanted = 3;
    status = aq_poll_until(heard_all, &wanted, AQ_FOREVER);
    if (status != AQ_OK) return fail("aq_poll_until", status);
    aq_arg expected = (aq_arg)(rank + 1 + (rank + size - 1) % size + 1);
    if (heard_sum != expected) {
        fprintf(stderr, "client: got %d instead of %d\n", (int)heard_sum, (int)expected);
        return 1;
    }
    status = aq_finalize();
    if (status != AQ_OK) return fail("aq_finalize", status);
    printf("client %u of %u got both greetings\n", (unsigned)rank, (unsigned)size);
    return 0;
}
