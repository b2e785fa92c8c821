/* Formats the ranks of a job as lines of text, and as JSON. */
#include "aqtop.h"
#include "base/safe_text.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const column_names[COLUMNS] = {
    [BY_RANK] = "rank", [BY_HOST] = "host", [BY_MESSAGES] = "messages", [BY_OUT] = "out",
    [BY_IN] = "in",     [BY_SIZE] = "size", [BY_AGAIN] = "again",       [BY_WAITS] = "waits"};

static struct {
    enum column by;
    bool reverse;
} order;

static double print_value(const struct rank *rank)
{
    const double values[COLUMNS] = {[BY_MESSAGES] = rank->rates.messages,
                                    [BY_OUT] = rank->rates.out,
                                    [BY_IN] = rank->rates.in,
                                    [BY_SIZE] = rank->rates.size,
                                    [BY_AGAIN] = rank->rates.again,
                                    [BY_WAITS] = rank->rates.waits};
    return values[order.by];
}

/* Names and ranks in ascending, numbers in descending order. */
static int print_compare(const void *a, const void *b)
{
    const struct rank *x = *(const struct rank *const *)a, *y = *(const struct rank *const *)b;
    int result = order.by == BY_HOST ? strcmp(x->host, y->host) : 0;
    double left = print_value(x), right = print_value(y);
    if (left != right) result = left > right ? -1 : 1;
    if (result == 0) result = x->now.rank < y->now.rank ? -1 : x->now.rank > y->now.rank;
    return order.reverse ? -result : result;
}

const struct rank **print_sorted(const struct watch *watch, enum column by, bool reverse,
                                 size_t *count)
{
    const struct rank **sorted = calloc(watch->count + 1, sizeof(*sorted));
    *count = 0;
    if (sorted == NULL) abort();
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->ranks[i].rated) sorted[(*count)++] = &watch->ranks[i];
    order.by = by;
    order.reverse = reverse;
    qsort(sorted, *count, sizeof(*sorted), print_compare);
    return sorted;
}

/* Format 1234567 as 1.23M. */
static const char *print_short(double value, char text[16])
{
    static const char units[] = " kMGTP";
    size_t unit = 0;
    while (value >= 999.5 && units[unit + 1] != '\0') {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(text, 16, "%.0f", value);
    else
        snprintf(text, 16, "%.3g%c", value, units[unit]);
    return text;
}

/* The reason why the rank waits, or its fate. */
static void print_state(const struct aqi_top_row *row, char text[40])
{
    uint32_t doing = row->doing & ~(uint32_t)AQI_DOING_ASLEEP;
    const char *name = doing < AQI_DOINGS ? aqi_doing_names[doing] : "?";
    if (row->state == AQI_RANK_LEFT || row->state == AQI_RANK_LOST)
        snprintf(text, 40, "%s", row->state == AQI_RANK_LEFT ? "left" : "lost");
    else
        snprintf(text, 40, "%s%s", name, doing != row->doing ? ", asleep" : "");
}

void print_head(const struct watch *watch, char line[PRINT_LINE])
{
    unsigned ranks, hosts;
    struct rates total = watch_total(watch, &ranks, &hosts);
    char text[4][16], program[40];
    snprintf(line, PRINT_LINE,
             "job %d, %s: %u of %u ranks on %u host%s; %s msg/s, %s B/s out, %s B/s in, %s "
             "again/s, waiting %.0f %%",
             (int)watch->job, aqi_safe_path(watch->program, sizeof(program), program), ranks,
             watch->count, hosts, hosts == 1 ? "" : "s", print_short(total.messages, text[0]),
             print_short(total.out, text[1]), print_short(total.in, text[2]),
             print_short(total.again, text[3]), 100 * total.waits);
}

void print_titles(char line[PRINT_LINE])
{
    snprintf(line, PRINT_LINE, "%6s %-12s %8s %8s %8s %8s %8s %6s  %s", "rank", "host", "msg/s",
             "B/s out", "B/s in", "size", "again/s", "wait %", "waits for");
}

void print_rank(const struct rank *rank, char line[PRINT_LINE])
{
    const struct rates *rates = &rank->rates;
    char text[5][16], state[40];
    print_state(&rank->now, state);
    snprintf(line, PRINT_LINE, "%6u %-12.40s %8s %8s %8s %8s %8s %6.0f  %s", rank->now.rank,
             rank->host, print_short(rates->messages, text[0]), print_short(rates->out, text[1]),
             print_short(rates->in, text[2]), print_short(rates->size, text[3]),
             print_short(rates->again, text[4]), 100 * rates->waits, state);
}

void print_text(const struct watch *watch, enum column by, bool reverse)
{
    char line[PRINT_LINE];
    size_t count;
    const struct rank **ranks = print_sorted(watch, by, reverse, &count);
    print_head(watch, line);
    puts(line);
    print_titles(line);
    puts(line);
    for (size_t i = 0; i < count; i++) {
        print_rank(ranks[i], line);
        puts(line);
    }
    putchar('\n');
    free(ranks);
}

static void print_json_rates(const struct rates *rates)
{
    printf("\"messages\":%.1f,\"out\":%.1f,\"in\":%.1f,\"size\":%.1f,\"again\":%.1f,\"waits\":%.3f",
           rates->messages, rates->out, rates->in, rates->size, rates->again, rates->waits);
}

/* One line per interval. */
void print_json(const struct watch *watch, enum column by, bool reverse)
{
    unsigned seen, hosts;
    size_t count;
    const struct rank **ranks = print_sorted(watch, by, reverse, &count);
    struct rates total = watch_total(watch, &seen, &hosts);
    printf("{\"job\":%d,\"program\":", (int)watch->job);
    json_string(stdout, watch->program);
    printf(",\"ranks\":%u,\"hosts\":%u,\"total\":{", watch->count, hosts);
    print_json_rates(&total);
    printf("},\"rows\":[");
    for (size_t i = 0; i < count; i++) {
        char state[40];
        print_state(&ranks[i]->now, state);
        printf("%s{\"rank\":%u,\"host\":", i == 0 ? "" : ",", ranks[i]->now.rank);
        json_string(stdout, ranks[i]->host);
        printf(",\"state\":\"%s\",", state);
        print_json_rates(&ranks[i]->rates);
        putchar('}');
    }
    printf("]}\n");
    free(ranks);
}
