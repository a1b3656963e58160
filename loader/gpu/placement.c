#include "loader/gpu/placement.h"

#include "format/cli/say.h"

#include <stdio.h>
#include <string.h>

static const char *const names[FF_PLACEMENT_COUNT] = {
    [FF_PLACEMENT_AUTO] = "auto",
    [FF_PLACEMENT_RESIDENT] = "resident",
    [FF_PLACEMENT_STREAM] = "stream",
    [FF_PLACEMENT_HOST] = "host",
};

const char *ff_placement_name(ff_placement placement) {
    return names[placement];
}

bool ff_placement_parse(const char *name, ff_placement *placement) {
    for (int i = 0; i < FF_PLACEMENT_COUNT; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *placement = (ff_placement)i;
        return true;
    }
    return false;
}

ff_status ff_placement_choose(ff_placement asked, const ff_placement_facts *facts,
                              ff_placement *chosen, char *reason, size_t reason_bytes,
                              ff_error *error) {
    uint64_t free_bytes = facts->free_bytes, spare = free_bytes / FF_PLACEMENT_SPARE, wanted;
    bool fits = ff_add_u64(facts->set_bytes, facts->reserve_bytes, &wanted) &&
                ff_add_u64(wanted, spare, &wanted) && wanted <= free_bytes;
    *chosen = asked;
    if (asked != FF_PLACEMENT_AUTO) {
        snprintf(reason, reason_bytes, "Placement: %s, as requested.", names[asked]);
        if (asked == FF_PLACEMENT_HOST) return FF_OK;
        if (facts->unable)
            return ff_fail(error, FF_USAGE,
                           "placement %s needs the device's kernels to augment, but %s; use "
                           "placement host",
                           names[asked], facts->unable);
        if (asked == FF_PLACEMENT_RESIDENT && facts->set_bytes > free_bytes)
            return ff_fail(error, FF_USAGE,
                           "placement resident: the set takes %s, but the device has %s free; "
                           "use placement stream",
                           ff_say_bytes(facts->set_bytes).text, ff_say_bytes(free_bytes).text);
        return FF_OK;
    }
    if (facts->unable) {
        *chosen = FF_PLACEMENT_HOST;
        snprintf(reason, reason_bytes,
                 "Placement: host, because the device's kernels cannot augment: %s.",
                 facts->unable);
        return FF_OK;
    }
    *chosen = fits ? FF_PLACEMENT_RESIDENT : FF_PLACEMENT_STREAM;
    snprintf(reason, reason_bytes,
             "Placement: %s, because the set's %s and %s for the network %s into the "
             "device's free %s, of which a %uth stays unused.",
             names[*chosen], ff_say_bytes(facts->set_bytes).text,
             ff_say_bytes(facts->reserve_bytes).text, fits ? "fit" : "do not fit",
             ff_say_bytes(free_bytes).text, FF_PLACEMENT_SPARE);
    return FF_OK;
}
