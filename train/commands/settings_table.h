/* The table of the options of training: one row for each option has its name, value, help, default,
 * how it resolves (settings_values.c), how the log has it (settings_log.c) and what a run that
 * resumes may change. Private to train/commands/; settings.h has the parsed settings. */
#ifndef FF_TRAIN_SETTINGS_TABLE_H
#define FF_TRAIN_SETTINGS_TABLE_H

#include "train/commands/settings.h"

/* The properties of an option in addition to its name and value. */
typedef enum ff_setting_is {
    FF_SETTING_SEARCH = 1 << 0, /* only for fftrain lr-find */
    FF_SETTING_FIXED = 1 << 1,  /* a run that resumes cannot change it: samples or model follow */
    /* When a run resumes, what follows from the option is compared, not its text. */
    FF_SETTING_COMPARED = 1 << 2,
    FF_SETTING_HERE =
        1 << 3, /* for this start only: not part of the run, which may resume elsewhere */
    FF_SETTING_RANK = 1 << 4,       /* the ranks of a job may have other values */
    FF_SETTING_FOLDER = 1 << 5,     /* needs a run's folder */
    FF_SETTING_VALIDATION = 1 << 6, /* needs a validation set */
    FF_SETTING_OFF_AT_0 = 1 << 7,   /* 0 asks for nothing, and needs neither */
} ff_setting_is;

/* Writes what the trainer has resolved into the option's target, so that the recipe alone makes the
 * same run. */
typedef void ff_setting_resolve(ff_settings *settings, const ff_trainer *trainer);
/* The value in the log's start line; NULL when out of memory. */
typedef json_t *ff_setting_logged(const ff_trainer *trainer);

typedef struct ff_setting {
    ff_option option; /* its target is in a struct of the table itself: ff_setting_in */
    unsigned is;      /* FF_SETTING_... */
    double initial;   /* the default of a number or a choice; flags are off, texts NULL */
    ff_setting_resolve *resolve; /* NULL: the option's value is kept */
    struct {
        const char *key;          /* NULL: not in the start line */
        ff_setting_logged *value; /* NULL: the option's, as resolved */
    } log;
} ff_setting;

/* Ends with an option of name NULL and kind FLAG. */
extern const ff_setting ff_settings_table[];
/* The row's option, with its target in *settings. */
ff_option ff_setting_in(const ff_setting *row, ff_settings *settings);
bool ff_setting_is_last(const ff_setting *row);

/* An optimizer's numbers resolve together. */
ff_setting_resolve ff_resolve_model, ff_resolve_stem, ff_resolve_epochs, ff_resolve_batch,
    ff_resolve_parts, ff_resolve_accumulate, ff_resolve_augment, ff_resolve_val_every,
    ff_resolve_block, ff_resolve_group, ff_resolve_machines, ff_resolve_label_smoothing,
    ff_resolve_views, ff_resolve_precision, ff_resolve_groups, ff_resolve_dp_balance,
    ff_resolve_optimizer, ff_resolve_nesterov, ff_resolve_no_nesterov, ff_resolve_schedule,
    ff_resolve_warmup, ff_resolve_numbers;

ff_setting_logged ff_log_data, ff_log_val, ff_log_label, ff_log_device, ff_log_precision,
    ff_log_placement, ff_log_compute, ff_log_threads, ff_log_workers, ff_log_batch,
    ff_log_val_resize, ff_log_rate, ff_log_schedule, ff_log_warmup, ff_log_momentum,
    ff_log_nesterov, ff_log_weight_decay, ff_log_recipe, ff_log_views, ff_log_groups, ff_log_loss,
    ff_log_optimizer, ff_log_clip_norm, ff_log_ema, ff_log_accumulate, ff_log_block, ff_log_group,
    ff_log_machines;

#endif
