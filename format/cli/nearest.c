#include "format/cli/nearest.h"

#include <string.h>

enum { FARTHEST = 3 };

/* Levenshtein distance of short words; long ones count as far apart. */
static int distance(const char *a, size_t a_length, const char *b) {
    enum { LIMIT = 40 };
    size_t b_length = strlen(b);
    if (a_length >= LIMIT || b_length >= LIMIT) return LIMIT;
    int row[LIMIT];
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_length];
}

void ff_nearest_offer(ff_nearest *nearest, const char *name) {
    const size_t name_length = strlen(name);
    const size_t longer = nearest->length > name_length ? nearest->length : name_length;
    int edits = distance(nearest->wanted, nearest->length, name);
    if (edits > FARTHEST || (size_t)edits > (longer + 2) / 3) return;
    if (nearest->name && edits >= nearest->edits) return;
    nearest->name = name;
    nearest->edits = edits;
}
