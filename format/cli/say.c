#include "format/cli/say.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

ff_said ff_say_count(uint64_t count, const char *one, const char *many) {
    ff_said said;
    snprintf(said.text, sizeof said.text, "%" PRIu64 " %s", count, count == 1 ? one : many);
    return said;
}

ff_said ff_say_rate(double per_second, const char *units) {
    ff_said said;
    /* Depends on the rounded value: 9.996 is printed as 10.0. */
    int decimals = per_second < 9.995 ? 2 : per_second < 99.95 ? 1 : 0;
    if (isfinite(per_second) && per_second >= 0)
        snprintf(said.text, sizeof said.text, "%.*f %s/s", decimals, per_second, units);
    else
        snprintf(said.text, sizeof said.text, "? %s/s", units);
    return said;
}

static ff_said say_size(double bytes, const char *after) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    ff_said said;
    int step = 0;
    /* Depends on the rounded value: 1023.96 KiB is printed as 1.0 MiB. */
    while (step < 6 && bytes >= (step ? 1023.95 : 1023.5)) {
        bytes /= 1024;
        step++;
    }
    int decimals = step == 0 ? 0 : step < 3 ? 1 : 2;
    snprintf(said.text, sizeof said.text, "%.*f %s%s", decimals, bytes, unit[step], after);
    return said;
}

ff_said ff_say_bytes(uint64_t bytes) {
    return say_size((double)bytes, "");
}

ff_said ff_say_byte_rate(double bytes_per_second) {
    if (isfinite(bytes_per_second) && bytes_per_second >= 0)
        return say_size(bytes_per_second, "/s");
    return (ff_said){"? B/s"};
}
