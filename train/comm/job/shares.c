#include "train/comm/job/shares.h"

#include <stdlib.h>

bool ff_shares_parse(const char *list, int count, uint32_t *cuts) {
    const char *at = list;
    cuts[0] = 0;
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        const unsigned long part = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (!end || part < 1 || part > 1 << 20 || *end != (i + 1 < count ? ',' : '\0') ||
            cuts[i] > INT32_MAX)
            return false;
        cuts[i + 1] = cuts[i] + (uint32_t)part;
        at = end + 1;
    }
    return true;
}

/* Assigns one unit after another to the rank that would finish it first. */
bool ff_shares_choose(const double *speed, const int64_t *most, int count, int64_t total,
                      bool pairs, int64_t *rows) {
    const int64_t unit = pairs ? 2 : 1, odd = total % unit;
    const int last = count - 1;
    for (int r = 0; r < count; r++) {
        rows[r] = unit;
        if (unit + (r == last ? odd : 0) > most[r]) return false;
    }
    for (int64_t left = total / unit - count; left; left--) {
        int best = -1;
        for (int r = 0; r < count && left > 0; r++) {
            if (rows[r] + unit + (r == last ? odd : 0) > most[r]) continue;
            if (best < 0 ||
                (double)(rows[r] + unit) / speed[r] < (double)(rows[best] + unit) / speed[best])
                best = r;
        }
        if (best < 0) return false;
        rows[best] += unit;
    }
    rows[last] += odd;
    return true;
}
