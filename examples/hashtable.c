/* A distributed hash table. An insertion is an active message to the owner of the key; a lookup is
 * a one-sided get from the owner's segment.
 *
 * Usage: hashtable [KEYS_PER_RANK]. Exit code 1 if a value was wrong, missing or unexpected. */
#include "check.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SHARED_KEYS = 1000 };

/* Atomic: with AQ_PROGRESS_THREAD=yes, two threads run handlers. */
struct slot {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint64_t value;
};

/* A rank's segment: two counters, used only in rank 0's segment, and its part of the table. */
struct part {
    uint64_t lookups;
    uint64_t errors;
    struct slot slots[];
};

static aq_team *world;
static aq_handler add_handler, added_handler;
static struct part *mine;
static uint64_t slots_per_rank; /* a power of two */
static uint64_t adds_begun;
static _Atomic uint64_t adds_done;

/* Mix the bits of a key (the finalizer of splitmix64). */
static uint64_t mix(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
}

static aq_rank owner_of(uint64_t key)
{
    return (aq_rank)(mix(key) % aq_team_size(world));
}

static uint64_t first_slot(uint64_t key)
{
    return (mix(key) >> 32) & (slots_per_rank - 1);
}

/* Whether the slot has this key; a free slot is claimed for it. */
static bool has_key(struct slot *slot, uint64_t key)
{
    uint64_t found = 0;
    return atomic_compare_exchange_strong(&slot->key, &found, key) || found == key;
}

/* In the owner: find the key or a free slot, and add to its value. */
static void on_add(aq_am *am)
{
    uint64_t key = aq_arg_u64(am, 0), at = first_slot(key), tried = 0;
    while (!has_key(&mine->slots[at], key)) {
        at = (at + 1) & (slots_per_rank - 1);
        if (++tried == slots_per_rank) {
            fprintf(stderr, "rank %u: the table is full\n", aq_job_rank());
            aq_exit(1);
        }
    }
    mine->slots[at].value += aq_arg_u64(am, 2);
    check(aq_am_reply_short(am, added_handler, AQ_NO_ARGS, 0), "aq_am_reply_short");
}

static void on_added(aq_am *am)
{
    (void)am;
    adds_done++;
}

static int all_added(void *unused)
{
    (void)unused;
    return adds_done == adds_begun;
}

/* Start to add `value` to the value of `key`; many additions are in flight at a time. */
static void add(uint64_t key, uint64_t value)
{
    adds_begun++;
    check(
        aq_am_short(world, owner_of(key), add_handler, AQ_ARGS(AQ_ARG64(key), AQ_ARG64(value)), 0),
        "aq_am_short");
}

/* Return the value of `key`, or 0, without involving the owner. */
static uint64_t look_up(uint64_t key)
{
    aq_rank owner = owner_of(key);
    aq_segment_info info;
    check(aq_segment_query(world, owner, &info), "aq_segment_query");
    struct part *theirs = info.addr;
    for (uint64_t tried = 0, at = first_slot(key); tried < slots_per_rank; tried++) {
        struct slot slot;
        check(aq_get(world, owner, &slot, &theirs->slots[at], sizeof slot, 0), "aq_get");
        if (slot.key == key) return slot.value;
        if (slot.key == 0) return 0;
        at = (at + 1) & (slots_per_rank - 1);
    }
    return 0;
}

/* The keys: `count` keys of each rank, and some to which every rank adds 1. No key is 0. */
static uint64_t own_key(aq_rank rank, uint64_t i)
{
    return mix(((uint64_t)rank + 1) << 40 | i) | 1;
}

static uint64_t shared_key(uint64_t i)
{
    return mix(i + 1) & ~(uint64_t)1;
}

static void fill(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        add(own_key(aq_team_rank(world), i), i + 1);
    for (uint64_t i = 0; i < SHARED_KEYS; i++)
        add(shared_key(i), 1);
    check(aq_poll_until(all_added, NULL, AQ_FOREVER), "aq_poll_until");
}

/* Look up keys added by the next rank, by all ranks, or by none; count wrong values. */
static void verify(uint64_t count, uint64_t *lookups, uint64_t *errors)
{
    aq_rank size = aq_team_size(world), next = (aq_team_rank(world) + 1) % size;
    *errors = 0;
    for (uint64_t i = 0; i < count; i++)
        *errors += look_up(own_key(next, i)) != i + 1;
    for (uint64_t i = 0; i < SHARED_KEYS; i++) {
        *errors += look_up(shared_key(i)) != size;
        *errors += look_up(own_key(size, i)) != 0;
    }
    *lookups = count + 2 * SHARED_KEYS;
}

/* Add this rank's counts to those in rank 0's segment. */
static void report(uint64_t lookups, uint64_t errors)
{
    aq_segment_info info;
    check(aq_segment_query(world, 0, &info), "aq_segment_query");
    struct part *root = info.addr;
    aq_atomic_domain *domain;
    check(aq_atomic_domain_create(world, AQ_TYPE_U64, AQ_OP_BIT(AQ_OP_ADD), 0, &domain),
          "aq_atomic_domain_create");
    check(aq_atomic(domain, 0, &root->lookups, AQ_OP_ADD, &lookups, NULL, NULL, 0), "aq_atomic");
    check(aq_atomic(domain, 0, &root->errors, AQ_OP_ADD, &errors, NULL, NULL, 0), "aq_atomic");
    check(aq_barrier(world), "aq_barrier");
    aq_atomic_domain_destroy(domain);
}

static uint64_t count_from(int argc, char **argv)
{
    if (argc == 1) return 20000;
    char *end;
    long count = strtol(argv[1], &end, 10);
    if (argc == 2 && *end == '\0' && count >= 1 && count <= 10000000) return (uint64_t)count;
    fprintf(stderr, "usage: hashtable [KEYS_PER_RANK], 1 to 10000000\n");
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t count = count_from(argc, argv);
    check(aq_init(NULL, &world), "aq_init");
    aq_handler_entry table[] = {
        {.nargs = 4, .accepts = AQ_AM_SHORT | AQ_AM_REQUEST, .fn = on_add, .name = "add"},
        {.nargs = 0, .accepts = AQ_AM_SHORT | AQ_AM_REPLY, .fn = on_added, .name = "added"},
    };
    check(aq_am_register(aq_team_ep(world), table, 2), "aq_am_register");
    add_handler = table[0].index;
    added_handler = table[1].index;

    for (slots_per_rank = 1; slots_per_rank < 2 * (count + SHARED_KEYS);)
        slots_per_rank *= 2;
    aq_segment *segment;
    check(aq_segment_attach(world, sizeof(struct part) + slots_per_rank * sizeof(struct slot),
                            &segment),
          "aq_segment_attach");
    mine = aq_segment_addr(segment);
    check(aq_barrier(world), "aq_barrier"); /* all tables exist before the first message */

    fill(count);
    check(aq_barrier(world), "aq_barrier"); /* all keys are present before the first lookup */
    uint64_t lookups, errors;
    verify(count, &lookups, &errors);
    report(lookups, errors);

    int failed = 0;
    if (aq_team_rank(world) == 0) {
        failed = mine->errors != 0;
        printf("%u ranks, %llu lookups, %llu wrong: %s\n", aq_team_size(world),
               (unsigned long long)mine->lookups, (unsigned long long)mine->errors,
               failed ? "FAILED" : "all as expected");
    }
    check(aq_finalize(), "aq_finalize");
    return failed;
}
