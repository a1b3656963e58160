/* Room tools/ffpack/run, floor 15: what packing and appending share.
 *
 * run.c opens, lists and plans a source and packs its splits. describe.c writes the metadata of a
 * split, space.c estimates the disk space.
 *
 * May include format, tools/ffpack/image, tools/ffpack/settings, tools/ffpack/split.
 *
 * Shared by packing and appending: opens, lists and plans a source, and packs its splits. Private
 * to ffpack's commands. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_RUN_H
#define FF_FFPACK_RUN_H

#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/split/pack_split.h"
#include "tools/ffpack/split/report.h"

/* Zero-initialised except for the first three; released with ff_run_close. */
typedef struct ff_run {
    const ff_settings *settings;
    const ff_notices *options;
    ff_report *report;
    ff_source *source;
    ff_sample_plan plan;
    float *mean, *std; /* [plan.channels], owned; NULL without statistics */
    /* If they are computed (statistics.h): from this split, and the number of its items; 0 =
     * all. */
    const ff_source_split *counted;
    uint64_t stats_sample;
    ff_transform *transform;
    ff_skipped *skipped;
} ff_run;

/* Opens the source; `temporary` is the folder for temporary space. */
FF_MUST_USE ff_status ff_run_open(ff_run *run, const char *temporary, ff_error *error);

/* Refuses an output `folder` inside a source folder, where it would be listed as a class. */
FF_MUST_USE ff_status ff_run_check_apart(const ff_run *run, const char *folder, ff_error *error);

/* Lists the source and plans its samples. */
FF_MUST_USE ff_status ff_run_list(ff_run *run, ff_error *error);

/* Packs a split into `packing->directory`: fills the fields of `packing` that come from the run.
 * Mean and std must be known, and the split's report must have its metadata. */
FF_MUST_USE ff_status ff_run_split(ff_run *run, ff_pack_split *packing, ff_error *error);

void ff_run_close(ff_run *run);

/* Refuses (FF_USAGE) files in OUT.partial that do not belong to one of the splits `name` [count] of
 * a run; a single split without a name has its files there itself. */
FF_MUST_USE ff_status ff_run_check_leftovers(const char *partial, const char *const *name,
                                             size_t count, ff_error *error);

/* The parent folder of OUT, allocated. */
FF_MUST_USE ff_status ff_run_parent(char **parent, const char *output, ff_error *error);

#endif
