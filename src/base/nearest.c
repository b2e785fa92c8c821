/* Finding the known name that a misspelled one was probably meant to be. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

#define NEAREST_BYTES 63 /* longer names are truncated for the comparison */

static size_t nearest_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance (insertion, deletion, replacement and swap of neighbors cost 1), ignoring case. */
static size_t nearest_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_BYTES + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    size_t a_len = strnlen(a, NEAREST_BYTES), b_len = strnlen(b, NEAREST_BYTES);
    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            int ca = toupper((unsigned char)a[i - 1]), cb = toupper((unsigned char)b[j - 1]);
            now[j] = nearest_min(nearest_min(last[j], now[j - 1]) + 1, last[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == toupper((unsigned char)b[j - 2]) &&
                cb == toupper((unsigned char)a[i - 2]))
                now[j] = nearest_min(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_len];
}

void aqi_nearest_begin(struct aqi_nearest *nearest, const char *wanted)
{
    size_t third = strnlen(wanted, NEAREST_BYTES) / 3; /* a worse match would be a guess */
    *nearest = (struct aqi_nearest){.wanted = wanted, .distance = (third > 2 ? third : 2) + 1};
}

void aqi_nearest_offer(struct aqi_nearest *nearest, const char *known)
{
    size_t distance = nearest_distance(nearest->wanted, known);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->best = known;
}
