/* Heat diffusion in a plate, computed by all processes together; rank 0 draws the result.
 *
 * Usage: heat [--size WxH] [--steps N] [--output FILE.png]
 *
 * Each rank owns a band of rows in its segment, with an extra (halo) row above and below, in two
 * copies: the current state and the next. In each step it puts its outer rows into its neighbors'
 * halos, waits in a barrier, and computes. No heat leaves the plate at its edges, so the total heat
 * must stay constant; this is checked. A small plate is also computed serially by rank 0 and
 * compared. Exit code 1 if a check failed. */
#include "check.h"
#include "png.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLOW           0.2 /* fraction of a difference that flows to a neighbor in one step */
#define SERIAL_UPDATES 2e7 /* maximum cell updates that rank 0 repeats serially */
#define MAX_SIDE       16384u
#define MAX_STEPS      10000000u

struct plate {
    size_t width, height, steps;
    const char *output;
};

/* The rows of one rank; none for some ranks if there are fewer rows than ranks. */
struct band {
    size_t first, rows;
};

static aq_team *world;

static struct band band_of(const struct plate *plate, aq_rank rank)
{
    size_t size = aq_team_size(world), workers = size < plate->height ? size : plate->height;
    if (rank >= workers) return (struct band){.first = plate->height, .rows = 0};
    size_t first = plate->height * rank / workers;
    return (struct band){.first = first, .rows = plate->height * (rank + 1) / workers - first};
}

/* The start of row `row` of state `state` (0 or 1) in a segment; row 0 is the upper halo. */
static double *row_at(void *segment, struct band band, size_t width, size_t state, size_t row)
{
    return (double *)segment + (state * (band.rows + 2) + row) * width;
}

/* The initial temperature: a hot aqueduct with two rows of arches on a cold plate. */
static double initial(const struct plate *plate, size_t column, size_t row)
{
    static const struct {
        double top, bottom, period, radius, arch; /* of the width; radius 0: no openings */
    } tiers[] = {{.top = 0.08, .bottom = 0.11},
                 {.top = 0.11, .bottom = 0.235, .period = 1. / 14, .radius = 0.024, .arch = 0.15},
                 {.top = 0.235, .bottom = 0.255},
                 {.top = 0.255, .bottom = 0.48, .period = 1. / 7, .radius = 0.054, .arch = 0.325}};
    double scale = fmax((double)plate->width, (double)plate->height * 16 / 9);
    double x = ((double)column + 0.5) / scale, y = ((double)row + 0.5) / scale;
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        if (y < tiers[i].top || y >= tiers[i].bottom) continue;
        if (tiers[i].radius <= 0) return 1;
        double dx = fmod(x, tiers[i].period) - tiers[i].period / 2;
        double dy = fmin(y - tiers[i].arch, 0); /* round at the top, straight below */
        return dx * dx + dy * dy < tiers[i].radius * tiers[i].radius ? 0 : 1;
    }
    return 0;
}

/* Compute one step for `rows` rows; `now` and `next` point to the halo row above the first. */
static void compute(const double *now, double *next, size_t rows, size_t width)
{
    for (size_t row = 1; row <= rows; row++) {
        const double *mid = now + row * width, *up = mid - width, *down = mid + width;
        double *out = next + row * width;
        size_t last = width - 1;
        out[0] = mid[0] + FLOW * (up[0] + down[0] + mid[width > 1] - 3 * mid[0]);
        for (size_t x = 1; x < last; x++)
            out[x] = mid[x] + FLOW * (up[x] + down[x] + mid[x - 1] + mid[x + 1] - 4 * mid[x]);
        if (last > 0)
            out[last] = mid[last] + FLOW * (up[last] + down[last] + mid[last - 1] - 3 * mid[last]);
    }
}

/* Start to put the outer row of this band into the halo of a neighbor. At an edge of the plate,
 * copy it to this rank's own halo instead, so that no heat flows there. */
static void send_row(const struct plate *plate, aq_rank neighbor, int upwards, const double *row,
                     double *own_halo, size_t state)
{
    size_t bytes = plate->width * sizeof(double);
    struct band theirs = {0};
    if (neighbor < aq_team_size(world)) theirs = band_of(plate, neighbor);
    if (theirs.rows == 0) {
        memcpy(own_halo, row, bytes);
        return;
    }
    aq_segment_info info;
    check(aq_segment_query(world, neighbor, &info), "aq_segment_query");
    double *halo = row_at(info.addr, theirs, plate->width, state, upwards ? theirs.rows + 1 : 0);
    check(aq_put_nbi(world, neighbor, halo, row, bytes, 0), "aq_put_nbi");
}

/* One barrier per step suffices: a neighbor that is one step ahead writes to the other state. */
static void simulate(const struct plate *plate, struct band band, void *segment)
{
    aq_rank rank = aq_team_rank(world);
    for (size_t step = 0; step < plate->steps; step++) {
        size_t state = step % 2;
        double *now = row_at(segment, band, plate->width, state, 0);
        double *next = row_at(segment, band, plate->width, 1 - state, 0);
        if (band.rows > 0) {
            double *first = now + plate->width, *last = now + band.rows * plate->width;
            send_row(plate, rank == 0 ? AQ_RANK_NONE : rank - 1, 1, first, now, state);
            send_row(plate, rank + 1, 0, last, last + plate->width, state);
            check(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER), "aq_nbi_wait");
        }
        check(aq_barrier(world), "aq_barrier");
        compute(now, next, band.rows, plate->width);
    }
}

/* Rank 0: fetch the final state of the whole plate from all segments. */
static void gather(const struct plate *plate, double *field)
{
    for (aq_rank rank = 0; rank < aq_team_size(world); rank++) {
        struct band band = band_of(plate, rank);
        aq_segment_info info;
        check(aq_segment_query(world, rank, &info), "aq_segment_query");
        check(aq_get(world, rank, field + band.first * plate->width,
                     row_at(info.addr, band, plate->width, plate->steps % 2, 1),
                     band.rows * plate->width * sizeof(double), 0),
              "aq_get");
    }
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory != NULL) return memory;
    fprintf(stderr, "heat: no memory for %zu bytes; choose a smaller --size\n", bytes);
    aq_exit(1);
}

/* Return the maximum difference from the same plate computed serially. */
static double compare_with_serial(const struct plate *plate, const double *field)
{
    size_t width = plate->width, cells = width * plate->height;
    double *now = allocate((cells + 2 * width) * sizeof(double));
    double *next = allocate((cells + 2 * width) * sizeof(double));
    for (size_t i = 0; i < cells; i++)
        now[width + i] = initial(plate, i % width, i / width);
    for (size_t step = 0; step < plate->steps; step++) {
        memcpy(now, now + width, width * sizeof(double));
        memcpy(now + cells + width, now + cells, width * sizeof(double));
        compute(now, next, plate->height, width);
        double *swap = now;
        now = next;
        next = swap;
    }
    double worst = 0;
    for (size_t i = 0; i < cells; i++)
        worst = fmax(worst, fabs(now[width + i] - field[i]));
    free(now);
    free(next);
    return worst;
}

/* Rank 0: check the result and print which checks were made; returns 1 if one failed. */
static int verify(const struct plate *plate, const double *field)
{
    size_t cells = plate->width * plate->height;
    double before = 0, after = 0;
    for (size_t i = 0; i < cells; i++) {
        before += initial(plate, i % plate->width, i / plate->width);
        after += field[i];
    }
    double drift = fabs(after - before) / fmax(before, 1);
    int wrong = !(drift < 1e-9);
    printf("heat kept: %.6f of %.6f units, relative change %.1e: %s\n", after, before, drift,
           wrong ? "WRONG" : "right");
    if ((double)cells * (double)plate->steps <= SERIAL_UPDATES) {
        double worst = compare_with_serial(plate, field);
        int differs = !(worst < 1e-12);
        printf("compared with one process: maximum difference %.1e: %s\n", worst,
               differs ? "WRONG" : "right");
        wrong |= differs;
    }
    return wrong;
}

/* Black, purple, orange, pale yellow, with evenly increasing lightness. */
static void make_palette(unsigned char palette[768])
{
    static const unsigned char stops[][3] = {
        {0, 0, 4},     {27, 12, 65},   {74, 12, 107}, {120, 28, 109}, {165, 44, 96},
        {207, 68, 70}, {237, 105, 37}, {251, 155, 6}, {247, 209, 61}, {252, 255, 164}};
    const double intervals = sizeof stops / sizeof stops[0] - 1;
    for (size_t i = 0; i < 256; i++) {
        double at = (double)i / 255 * intervals;
        size_t stop = at < intervals ? (size_t)at : (size_t)intervals - 1;
        for (size_t color = 0; color < 3; color++) {
            double low = stops[stop][color], high = stops[stop + 1][color];
            palette[3 * i + color] =
                (unsigned char)(low + (high - low) * (at - (double)stop) + 0.5);
        }
    }
}

static void draw(const struct plate *plate, const double *field)
{
    size_t cells = plate->width * plate->height;
    unsigned char palette[768], *pixels = allocate(cells);
    make_palette(palette);
    for (size_t i = 0; i < cells; i++) /* the square root makes small values visible */
        pixels[i] = (unsigned char)(255 * sqrt(fmin(fmax(field[i], 0), 1)) + 0.5);
    if (png_write(plate->output, pixels, plate->width, plate->height, palette) != 0) {
        fprintf(stderr, "heat: cannot write %s: %s\n", plate->output, strerror(errno));
        aq_exit(1);
    }
    free(pixels);
    printf("picture: %s\n", plate->output);
}

static double now_s(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int finish(const struct plate *plate, double seconds)
{
    double updates = (double)plate->width * (double)plate->height * (double)plate->steps;
    printf("%zu x %zu cells, %zu steps on %u ranks in %.3f s: %.0f million cell updates/s\n",
           plate->width, plate->height, plate->steps, aq_team_size(world), seconds,
           updates / seconds / 1e6);
    double *field = allocate(plate->width * plate->height * sizeof(double));
    gather(plate, field);
    int wrong = verify(plate, field);
    draw(plate, field);
    free(field);
    return wrong;
}

static void usage(int code)
{
    fprintf(code == 0 ? stdout : stderr,
            "usage: heat [--size WxH] [--steps N] [--output FILE.png]\n"
            "  --size    cells, 1x1 to %ux%u (960x540)\n"
            "  --steps   0 to %u (300)\n"
            "  --output  the picture (heat.png)\n",
            MAX_SIDE, MAX_SIDE, MAX_STEPS);
    exit(code);
}

/* Parse a number from `text` up to `end_char`; anything else ends the program. */
static size_t number(const char *text, char end_char, size_t min, size_t max, const char **rest)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != end_char || errno != 0 || value < min ||
        value > max) {
        fprintf(stderr, "heat: \"%s\" is not a number from %zu to %zu\n", text, min, max);
        usage(2);
    }
    if (rest != NULL) *rest = end + 1;
    return value;
}

static void options(struct plate *plate, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1], *height;
        if (strcmp(name, "--help") == 0) usage(0);
        int known = strcmp(name, "--size") == 0 || strcmp(name, "--steps") == 0 ||
                    strcmp(name, "--output") == 0;
        if (!known || value == NULL) {
            fprintf(stderr, "heat: %s %s\n", name, known ? "needs a value" : "is not an option");
            usage(2);
        }
        if (strcmp(name, "--size") == 0) {
            if (strchr(value, 'x') == NULL) {
                fprintf(stderr, "heat: --size %s: give width x height, such as 960x540\n", value);
                usage(2);
            }
            plate->width = number(value, 'x', 1, MAX_SIDE, &height);
            plate->height = number(height, '\0', 1, MAX_SIDE, NULL);
        } else if (strcmp(name, "--steps") == 0) {
            plate->steps = number(value, '\0', 0, MAX_STEPS, NULL);
        } else {
            plate->output = value;
        }
    }
}

int main(int argc, char **argv)
{
    struct plate plate = {.width = 960, .height = 540, .steps = 300, .output = "heat.png"};
    options(&plate, argc, argv);
    check(aq_init(NULL, &world), "aq_init");

    struct band band = band_of(&plate, aq_team_rank(world));
    aq_segment *segment;
    check(aq_segment_attach(world, 2 * (band.rows + 2) * plate.width * sizeof(double), &segment),
          "aq_segment_attach");
    double *first = row_at(aq_segment_addr(segment), band, plate.width, 0, 1);
    for (size_t i = 0; i < band.rows * plate.width; i++)
        first[i] = initial(&plate, i % plate.width, band.first + i / plate.width);

    check(aq_barrier(world), "aq_barrier");
    double start = now_s();
    simulate(&plate, band, aq_segment_addr(segment));
    check(aq_barrier(world), "aq_barrier");
    double seconds = now_s() - start;

    int wrong = 0;
    if (aq_team_rank(world) == 0) wrong = finish(&plate, seconds);
    check(aq_finalize(), "aq_finalize"); /* waits for rank 0, which reads all segments */
    return wrong;
}
