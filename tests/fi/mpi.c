/*
 * An MPI program that checks what it receives: storms from any source, rings of all sizes,
 * collectives, probes, cancels, derived types, persistent requests, splits, threads, one-sided
 * accesses, a large message.
 *
 * usage: mpi [large|one-sided]
 */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, next, previous;

static void check(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void storm(void)
{
    for (int round = 0; round < 30; round++) {
        MPI_Request requests[64];
        int out[64], seen[64] = {0};
        for (int to = 0; to < size; to++) {
            out[to] = rank * 1000 + to;
            MPI_Isend(&out[to], 1, MPI_INT, to, 100 + rank, MPI_COMM_WORLD, &requests[to]);
        }
        for (int i = 0; i < size; i++) {
            int value;
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            check(value == status.MPI_SOURCE * 1000 + rank, "a value of any source");
            check(status.MPI_TAG == 100 + status.MPI_SOURCE, "a tag of any source");
            check(seen[status.MPI_SOURCE]++ == 0, "a second message");
        }
        MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void ring(size_t len)
{
    unsigned char *out = malloc(len + 1), *in = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(i * 7 + (size_t)rank);
    MPI_Sendrecv(out, (int)len, MPI_BYTE, next, 1, in, (int)len, MPI_BYTE, previous, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < len; i++)
        check(in[i] == (unsigned char)(i * 7 + (size_t)previous), "a byte of a ring");
    free(out);
    free(in);
}

/* Messages of one sender match in order, whatever their sizes. */
static void in_order(void)
{
    enum { COUNT = 200 };
    static int out[20000], in[20000];
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int n = i % 3 == 0 ? 20000 : i % 3 == 1 ? 1 : 1000;
        out[0] = 0;
        MPI_Isend(out, n, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        MPI_Status status;
        int n;
        MPI_Recv(in, 20000, MPI_INT, previous, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        check(n == (i % 3 == 0 ? 20000 : i % 3 == 1 ? 1 : 1000), "the order of messages");
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
}

static void collectives(int count)
{
    size_t room = (size_t)count * (size_t)size;
    int *a = malloc(room * sizeof(*a)), *b = malloc(room * sizeof(*b));
    for (int i = 0; i < count; i++)
        a[i] = rank + i;
    MPI_Allreduce(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        check(b[i] == size * (size - 1) / 2 + size * i, "allreduce");
    for (size_t i = 0; i < room; i++)
        a[i] = rank * 100000 + (int)i;
    MPI_Alltoall(a, count, MPI_INT, b, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < count; i++)
            check(b[from * count + i] == from * 100000 + rank * count + i, "alltoall");
    MPI_Allgather(a, count, MPI_INT, b, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < count; i++)
            check(b[from * count + i] == from * 100000 + i, "allgather");
    for (int i = 0; i < count; i++)
        a[i] = rank == size - 1 ? 42 + i : -1;
    MPI_Bcast(a, count, MPI_INT, size - 1, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        check(a[i] == 42 + i, "bcast");
    for (int i = 0; i < count; i++)
        a[i] = rank + 1;
    MPI_Scan(a, b, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(b[count - 1] == (rank + 1) * (rank + 2) / 2, "scan");
    MPI_Reduce(a, b, count, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    check(rank != 0 || b[0] == size, "reduce");
    free(a);
    free(b);
}

static void probes(void)
{
    char out[5000], in[5000];
    int count, value = rank, got, found;
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    memset(out, rank, sizeof(out));
    MPI_Isend(out, 4321, MPI_BYTE, next, 77, MPI_COMM_WORLD, &request);
    MPI_Probe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    check(count == 4321, "the count of a probe");
    MPI_Mprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, 4321, MPI_BYTE, &message, &status);
    check(in[4320] == (char)previous, "a matched receive");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(&got, 1, MPI_INT, next, 9999, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &found);
    check(found, "a cancel");
    MPI_Iprobe(MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, &found, &status);
    check(!found, "a probe of nothing");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Issend(&value, 1, MPI_INT, next, 55, MPI_COMM_WORLD, &request);
    MPI_Recv(&got, 1, MPI_INT, previous, 55, MPI_COMM_WORLD, &status);
    check(got == previous, "a synchronous send");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void types(void)
{
    MPI_Datatype vector;
    double out[700], in[700];
    MPI_Type_vector(100, 3, 7, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < 700; i++) {
        out[i] = rank * 1000 + i;
        in[i] = -1;
    }
    MPI_Sendrecv(out, 1, vector, next, 3, in, 1, vector, previous, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 700; i++)
        check(in[i] == (i % 7 < 3 ? previous * 1000 + i : -1), "a vector");
    MPI_Type_free(&vector);
}

/* A block of a matrix, and a structure with gaps, each of many pieces. */
static void more_types(void)
{
    enum { N = 300 };
    struct pair {
        char tag;
        double value;
    };
    static int out[N][N], in[N][N];
    static struct pair pairs[1000], got[1000];
    const int sizes[] = {N, N}, parts[] = {200, 100}, starts[] = {50, 150};
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {offsetof(struct pair, tag), offsetof(struct pair, value)};
    const MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Datatype block, fields, pair;
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &block);
    MPI_Type_create_struct(2, lengths, places, kinds, &fields);
    MPI_Type_create_resized(fields, 0, sizeof(struct pair), &pair);
    MPI_Type_commit(&block);
    MPI_Type_commit(&pair);
    for (int i = 0; i < N * N; i++) {
        out[i / N][i % N] = rank * N * N + i;
        in[i / N][i % N] = -1;
    }
    for (int i = 0; i < 1000; i++)
        pairs[i] = (struct pair){.tag = (char)(i % 100), .value = rank * 1000 + i};
    MPI_Sendrecv(out, 1, block, next, 4, in, 1, block, previous, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(pairs, 1000, pair, next, 5, got, 1000, pair, previous, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < N * N; i++) {
        int within = i / N >= 50 && i / N < 250 && i % N >= 150 && i % N < 250;
        check(in[i / N][i % N] == (within ? previous * N * N + i : -1), "a block of a matrix");
    }
    for (int i = 0; i < 1000; i++)
        check(got[i].tag == i % 100 && got[i].value == previous * 1000 + i, "a structure");
    MPI_Type_free(&block);
    MPI_Type_free(&fields);
    MPI_Type_free(&pair);
}

/* Threads with a communicator each, and others that share one. */
enum { THREADS = 4 };
static MPI_Comm thread_comms[THREADS];

static void *thread_main(void *arg)
{
    static const int lens[] = {1, 500, 40000};
    int me = *(const int *)arg;
    int *out = malloc(40000 * sizeof(*out)), *in = malloc(40000 * sizeof(*in));
    for (int round = 0; round < 12; round++) {
        int len = lens[round % 3];
        MPI_Comm comm = round % 2 != 0 ? thread_comms[me] : MPI_COMM_WORLD;
        for (int i = 0; i < len; i++)
            out[i] = rank * 1000000 + me * 100000 + round + i;
        MPI_Sendrecv(out, len, MPI_INT, next, 1000 + me, in, len, MPI_INT, previous, 1000 + me,
                     comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < len; i++)
            check(in[i] == previous * 1000000 + me * 100000 + round + i, "a thread's message");
    }
    free(out);
    free(in);
    return NULL;
}

static void threads(void)
{
    pthread_t each[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &thread_comms[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        check(pthread_create(&each[i], NULL, thread_main, &numbers[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(each[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&thread_comms[i]);
}

static void persistent(void)
{
    int out, in;
    MPI_Request requests[2];
    MPI_Send_init(&out, 1, MPI_INT, next, 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, previous, 8, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < 50; round++) {
        out = rank + round;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check(in == previous + round, "a persistent request");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void splits(void)
{
    MPI_Comm half;
    int one = 1, sum;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    check(sum == (rank % 2 != 0 ? size / 2 : (size + 1) / 2), "a split");
    MPI_Comm_free(&half);
}

/*
 * A window of `count` integers. Open MPI puts the memory that it allocates into shared memory of a
 * host, so that only memory of the program is accessed by the provider.
 */
static int *open_window(int count, int allocated, MPI_Win *window)
{
    int *memory;
    MPI_Aint bytes = (MPI_Aint)count * (MPI_Aint)sizeof(int);
    if (allocated) {
        MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, window);
        return memory;
    }
    memory = malloc((size_t)bytes);
    MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, window);
    return memory;
}

static void close_window(int *memory, int allocated, MPI_Win *window)
{
    MPI_Win_free(window);
    if (!allocated) free(memory);
}

static void one_sided(int allocated)
{
    MPI_Win window;
    int values[10], got[10], one = 1, old;
    int *memory = open_window(1000, allocated, &window);
    for (int i = 0; i < 1000; i++)
        memory[i] = i < 500 ? rank : 0;
    MPI_Win_fence(0, window);
    for (int i = 0; i < 10; i++)
        values[i] = rank * 10 + i;
    MPI_Put(values, 10, MPI_INT, next, 100, 10, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 10; i++)
        check(memory[100 + i] == previous * 10 + i, "a put");
    MPI_Get(got, 10, MPI_INT, next, 0, 10, MPI_INT, window);
    MPI_Win_fence(0, window);
    check(got[3] == next, "a get");
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < 20; i++)
        MPI_Accumulate(&one, 1, MPI_INT, 0, 500, 1, MPI_INT, MPI_SUM, window);
    MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 501, MPI_SUM, window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        check(memory[500] == 20 * size && memory[501] == size, "accumulated values");
        MPI_Win_unlock(0, window);
    }
    close_window(memory, allocated, &window);
}

/* Larger accesses, locks, requests, and epochs of two processes. */
static void more_one_sided(int allocated)
{
    enum { COUNT = 300000, ROUNDS = 20 };
    MPI_Win window;
    MPI_Datatype spread;
    MPI_Group all, after, before;
    MPI_Request request;
    int *memory = open_window(COUNT, allocated, &window);
    int *values = malloc(COUNT * sizeof(int)), *got = malloc(COUNT * sizeof(int));
    MPI_Type_vector(1000, 2, 5, MPI_INT, &spread);
    MPI_Type_commit(&spread);
    memset(memory, 0, COUNT * sizeof(int));
    for (int i = 0; i < COUNT; i++)
        values[i] = rank * COUNT + i;
    MPI_Win_fence(0, window);
    MPI_Put(values, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        check(memory[i] == previous * COUNT + i, "a large put");
    MPI_Get(got, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++)
        check(got[i] == rank * COUNT + i, "a large get");
    memset(memory, 0, COUNT * sizeof(int));
    MPI_Win_fence(0, window);
    MPI_Put(values, 1, spread, next, 10, 1, spread, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 4997; i++)
        check(memory[10 + i] == (i % 5 < 2 ? previous * COUNT + i : 0), "a put of pieces");

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &after);
    MPI_Group_incl(all, 1, &previous, &before);
    MPI_Win_post(before, 0, window);
    MPI_Win_start(after, 0, window);
    MPI_Put(values, 100, MPI_INT, next, 20000, 100, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    check(memory[20099] == previous * COUNT + 99, "a put between two");
    MPI_Group_free(&all);
    MPI_Group_free(&after);
    MPI_Group_free(&before);

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        int value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&value, 1, MPI_INT, 0, 50000, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        value++;
        MPI_Put(&value, 1, MPI_INT, 0, 50000, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a shared lock would exclude a rank that is still in the loop */
    MPI_Win_lock_all(0, window);
    /*
     * One rank after another, not by retrying until it succeeds: osc/pt2pt may serve one rank only
     * and starve the others, even over Open MPI's own transports.
     */
    int mine = rank + 1, seen = rank, old = -1;
    if (rank > 0) MPI_Recv(NULL, 0, MPI_INT, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Compare_and_swap(&mine, &seen, &old, MPI_INT, 0, 50001, window);
    MPI_Win_flush(0, window);
    check(old == rank, "the value before the swap");
    MPI_Compare_and_swap(&mine, &seen, &old, MPI_INT, 0, 50001, window);
    MPI_Win_flush(0, window);
    check(old == mine, "the value after a swap that does not match");
    if (rank < size - 1) MPI_Send(NULL, 0, MPI_INT, next, 2, MPI_COMM_WORLD);
    MPI_Rput(values, 500, MPI_INT, next, 60000, 500, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(next, window);
    MPI_Rget(got, 500, MPI_INT, next, 60000, 500, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(got[499] == rank * COUNT + 499, "a put and a get with requests");
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        check(memory[50000] == ROUNDS * size, "a value protected by a lock");
        check(memory[50001] == size, "a value that each rank swapped");
        MPI_Win_unlock(0, window);
    }
    close_window(memory, allocated, &window);
    MPI_Type_free(&spread);
    free(values);
    free(got);
}

/* 2 GiB + 1 bytes. */
static void large(void)
{
    const size_t count = 715827883, len = 3 * count;
    MPI_Datatype triple;
    unsigned char *bytes = malloc(len);
    check(bytes != NULL, "memory for a large message");
    MPI_Type_contiguous(3, MPI_BYTE, &triple);
    MPI_Type_commit(&triple);
    if (rank == 0) {
        for (size_t i = 0; i < len; i++)
            bytes[i] = (unsigned char)(i ^ i >> 13);
        MPI_Send(bytes, (int)count, triple, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        memset(bytes, 0, len);
        MPI_Recv(bytes, (int)count, triple, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < len; i++)
            check(bytes[i] == (unsigned char)(i ^ i >> 13), "a byte of a large message");
    }
    MPI_Type_free(&triple);
    free(bytes);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int alone = strcmp(mode, "one-sided") == 0; /* osc/pt2pt does not support threads */
    int wanted = alone ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, got;
    MPI_Init_thread(&argc, &argv, wanted, &got);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    check(got >= wanted, "the thread level");
    if (strcmp(mode, "large") == 0) {
        large();
    } else if (alone) {
        for (int allocated = 0; allocated < 2; allocated++) {
            one_sided(allocated);
            more_one_sided(allocated);
        }
    } else {
        storm();
        for (size_t len = 0; len < 3000000; len = 3 * len + 1)
            ring(len);
        in_order();
        for (int count = 1; count < 20000; count *= 7)
            collectives(count);
        probes();
        types();
        more_types();
        persistent();
        splits();
        threads();
        one_sided(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks: all right\n", size);
    MPI_Finalize();
    return 0;
}
