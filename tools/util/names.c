/* Answering a misspelt name with the one that was probably meant. */
#include "names.h"
#include <ctype.h>
#include <string.h>

#define NAME_MAX_LENGTH 63 /* longer names are not compared */

/* Insertions, deletions and replacements from `a` to `b`; the case of letters does not count. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1], length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            size_t best = diagonal + (same ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

void nearest_begin(struct nearest *nearest, const char *wanted)
{
    size_t length = strlen(wanted);
    *nearest = (struct nearest){.wanted = wanted, .distance = length / 2 + 1};
}

void nearest_offer(struct nearest *nearest, const char *known)
{
    if (strlen(known) > NAME_MAX_LENGTH || strlen(nearest->wanted) > NAME_MAX_LENGTH) return;
    size_t distance = edit_distance(nearest->wanted, known);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->best = known;
}
