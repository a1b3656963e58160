/* The command line of training: its options and their table. */
#ifndef FF_TRAIN_SETTINGS_H
#define FF_TRAIN_SETTINGS_H

#include "format/cli/options.h"
#include "format/storage/storage.h"
#include "train/run/session.h"

#include <jansson.h>

typedef struct ff_settings {
    bool finds; /* for fftrain lr-find, which has additional options; owned by the caller */
    ff_trainer_options trainer;
    ff_session_options session;
    ff_option_list set;
    int stem, views, order, last_batch, verify, compute, frozen_norms,
        reduce_dtype;            /* indexes of the choices */
    const char *dp, *dp_balance; /* of devices.h */
    int64_t ranks;               /* to start on this machine; 0 = none */
    int64_t rank_timeout;        /* seconds */
    const char *placement, *png, *device_json, *log_json, *tensorboard, *show_batch;
    int64_t world, log_every; /* steps */
    const char *net;
    ff_storage_options storage;
    bool dry_run, json, diagnose, check_gradients, quiet, top5;
    bool lacks_weights; /* with --recipe finetune: no weights to start from */
    /* "lr 0.4, momentum 0.9": the recipe's numbers that another --optimizer left out; "" = none */
    char dropped[256];
    /* Names the options of the command line that need a run's folder, and those that need a
     * validation set: "--keep, --hash-every"; empty without such options */
    char for_folder[64], for_validation[64];
} ff_settings;

ff_settings ff_settings_default(void);

/* Calls `use` with the table, whose targets are in *settings. */
FF_MUST_USE ff_status ff_settings_use(ff_settings *settings,
                                      ff_status (*use)(const ff_command *command, void *context,
                                                       ff_error *error),
                                      void *context, ff_error *error);

/* Sets the options of a recipe's lines. The text is changed and must outlive the settings; `where`
 * names it in errors. */
FF_MUST_USE ff_status ff_settings_read(ff_settings *settings, char *text, const char *where,
                                       ff_error *error);

/* Resets earlier options that later options exclude: the numbers of another optimizer, Nesterov
 * momentum or its absence. FF_USAGE if groups have such numbers. */
FF_MUST_USE ff_status ff_settings_give_way(ff_settings *settings, const ff_settings *later,
                                           ff_error *error);

/* The same for a row of recipes/table.h that --recipe names: it has numbers for SGD. */
void ff_settings_leave_row(ff_settings *settings, const ff_recipe *row);

/* Adds the sentence about the numbers that were left out, and what the trainer uses instead;
 * nothing if none were. */
FF_MUST_USE ff_status ff_settings_say_dropped(const ff_settings *settings,
                                              const ff_trainer *trainer, ff_buffer *text,
                                              ff_error *error);

/* Names the options of `line`, the command line alone, that need a run's folder or a validation
 * set. */
void ff_settings_name_needy(ff_settings *settings, ff_settings *line);

/* Adds a line for each option that differs from its default, in the form that ff_settings_read
 * reads. */
FF_MUST_USE ff_status ff_settings_write(ff_settings *settings, ff_buffer *text, ff_error *error);

/* Call after all options are set: sets the fields that the table does not set itself, and checks
 * single options. FF_USAGE. */
FF_MUST_USE ff_status ff_settings_complete(ff_settings *settings, ff_error *error);

/* Leaves out what belongs only to this start: a run may resume elsewhere and with other ranks.
 * Replaces the other defaults by the values that the trainer has resolved, so that the options
 * alone make the same run. The trainer must outlive the settings. */
void ff_settings_keep_run(ff_settings *settings, const ff_trainer *trainer);

/* The options' part of the log's start line (report.h), after ff_settings_keep_run. The caller owns
 * the object; FF_NO_MEMORY is NULL. */
json_t *ff_settings_log(ff_settings *settings, const ff_trainer *trainer);

/* Leaves out the options in which the ranks of a job may differ. */
void ff_settings_leave_rank(ff_settings *settings);

/* For ff_session_options.change. */
ff_origin_change ff_settings_change(const char *name, size_t length);

/* The shares that --dp-balance auto has chosen, as in "2,3,3": a run's recipe records "auto=2,3,3",
 * and a resumed run with the same number of ranks keeps the shares; else NULL. */
const char *ff_settings_shares(const ff_settings *settings);

/* Whether the command only looks at the net, instead of making a run. */
bool ff_settings_looks(const ff_settings *settings);
/* Whether a run is made. */
bool ff_settings_trains(const ff_settings *settings);

#endif
