#include "loader/cuda/architectures.h"

#include <stdlib.h>

bool ff_cuda_architecture_runs(const char *built, int major, int minor) {
    bool exact = false;
    long number = 0;
    for (const char *at = built;;) {
        char *end;
        long next = strtol(at, &end, 10);
        if (end == at) break;
        number = next;
        exact = *end >= 'a' && *end <= 'z';
        at = end + exact;
        if (exact ? number == major * 10 + minor : number / 10 == major && number % 10 <= minor)
            return true;
    }
    return number > 0 && !exact && major * 10 + minor > number;
}
