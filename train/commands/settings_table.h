/* The table of the options of training: one row for each option has its name, value, help, how it
 * resolves (settings_values.c) and what a run that resumes may change. Defaults other than 0 are in
 * ff_trainer_default_options and ff_settings_default. Private to train/commands/; settings.h has
 * the parsed settings. */
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

typedef struct ff_setting {
    ff_option option; /* its target is in a struct of the table itself: ff_setting_in */
    unsigned is;      /* FF_SETTING_... */
    /* Writes what the trainer has resolved into the option's target, so that the recipe alone makes
     * the same run. NULL: the option's text is kept. */
    void (*resolve)(ff_settings *settings, const ff_trainer *trainer);
} ff_setting;

/* Ends with an option of name NULL and kind FLAG. */
extern const ff_setting ff_settings_table[];
/* The row's option, with its target in *settings. */
ff_option ff_setting_in(const ff_setting *row, ff_settings *settings);

/* How each option resolves; an optimizer's numbers resolve together. */
void ff_resolve_model(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_stem(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_epochs(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_batch(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_parts(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_accumulate(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_augment(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_val_every(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_block(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_group(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_label_smoothing(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_views(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_groups(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_dp_balance(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_optimizer(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_nesterov(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_no_nesterov(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_schedule(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_warmup(ff_settings *settings, const ff_trainer *trainer);
void ff_resolve_numbers(ff_settings *settings, const ff_trainer *trainer);

#endif
