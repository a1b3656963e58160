#include "train/record.h"

#include "train/events/events.h"

#include <stdlib.h>

struct ff_record {
    ff_events *events;
    bool failed; /* a failure was returned */
};

ff_status ff_record_create(ff_record **record, const char *events, ff_error *error) {
    FF_TRY(ff_alloc(record, 1, sizeof **record, "the reports", error));
    const ff_status status = ff_events_create(&(*record)->events, events, error);
    if (status != FF_OK) ff_record_destroy(record);
    return status;
}

void ff_record_destroy(ff_record **record) {
    if (!*record) return;
    ff_events_close(&(*record)->events);
    free(*record);
    *record = NULL;
}

static void add_epoch(ff_events *events, const ff_epoch *epoch) {
    const ff_nvml_reading *gpu = &epoch->gpu;
    const struct {
        const char *tag;
        bool told;
        double value;
    } scalars[] = {
        {"train/loss", true, epoch->train_loss},
        {"train/accuracy", true, epoch->train_accuracy},
        {"val/loss", epoch->evaluated, epoch->val_loss},
        {"val/accuracy", epoch->evaluated, epoch->val_accuracy},
        {"val/top5_accuracy", epoch->evaluated && epoch->val_top5 >= 0, epoch->val_top5},
        {"learning_rate", true, epoch->learning_rate},
        {"speed/samples_per_second", true, epoch->samples_per_second},
        {"speed/data_wait_percent", true, epoch->data_wait_percent},
        {"speed/gpu_utilization_percent", epoch->gpu_read && gpu->gpu_percent >= 0,
         gpu->gpu_percent},
        {"speed/gpu_memory_bytes", epoch->gpu_read && gpu->used_bytes > 0, (double)gpu->used_bytes},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (scalars[i].told)
            ff_events_scalar(events, scalars[i].tag, epoch->steps, scalars[i].value);
}

/* `status`, or FF_OK where a failure was returned before. */
static ff_status first_failure(ff_record *record, ff_status status) {
    if (status == FF_OK || record->failed) return FF_OK;
    record->failed = true;
    return status;
}

ff_status ff_record_epoch(ff_record *record, const ff_epoch *epoch, ff_error *error) {
    add_epoch(record->events, epoch);
    return first_failure(record, ff_events_flush(record->events, error));
}
