/* fftrain replay: makes a step of a run again. */
#include "train/debug/replay.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "train/checkpoint/keeper.h"
#include "train/checkpoint/run_folder.h"
#include "train/commands/command.h"
#include "train/commands/settings.h"
#include "train/debug/hash_log.h"
#include "train/debug/option_changes.h"
#include "train/net/average.h"
#include "train/net/whitening.h"
#include "train/report/sheets.h"
#include "train/trainer/origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RECIPE_LIMIT_BYTES = 1 << 20 };

static const char summary[] =
    "Makes a step of a run again, from the newest checkpoint before it or from the beginning, and "
    "prints its loss, what every layer computes, every gradient, what is not finite first, and its "
    "samples. On the CPU, with the same --threads, its loss has the bits of the run's. A run on several "
    "ranks without --reproducible is the exception: replay computes on one. The run is not changed.";

static const char epilogue[] =
    "Examples:\n"
    "  fftrain replay runs/resnet18-1 --step 391 --png step-391.png\n"
    "  fftrain replay runs/resnet18-1/checkpoints/step-300 --step 391\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 bad data, 74 input or output error, 128 + n\n"
    "stopped by signal n.";

typedef struct given {
    const char *path; /* a run, or a checkpoint */
    int64_t step, from;
    const char *png, *data, *hashes, *device;
    int64_t threads;
} given;

/* The start of the steps. */
typedef struct beginning {
    ff_checkpoint *checkpoint; /* NULL = at the first step */
    ff_buffer recipe;
    char *recipe_path, *hashes;  /* the run's; NULL for a checkpoint */
    char *log;                   /* of the run */
    uint64_t recipe_step;        /* the recipe holds for the steps up to this one */
    char ranks[FF_ORIGIN_RANKS]; /* the run's; "" = unknown */
    char data[33], val[33];      /* content ids of the run's sets; "" = unknown, or no set */
    char *note;
} beginning;

/* Records the run's sets, which stay the same in a run. */
static void sets_of(beginning *b, const char *data, const char *val) {
    if (data) snprintf(b->data, sizeof b->data, "%s", data);
    if (val) snprintf(b->val, sizeof b->val, "%s", val);
}

static void sets_of_checkpoint(beginning *b, const ff_checkpoint *checkpoint) {
    sets_of(b, ff_checkpoint_text(checkpoint, FF_CHECKPOINT_DATA),
            ff_checkpoint_text(checkpoint, FF_CHECKPOINT_VAL));
}

/* Before the first checkpoint, the run's hashes name the sets. */
static void sets_of_hashes(beginning *b) {
    ff_hash_log log = {0};
    if (ff_path_exists("%s", b->hashes) && ff_hash_log_read(&log, b->hashes, 0, NULL) == FF_OK)
        sets_of(b, json_string_value(json_object_get(log.names, "data")),
                json_string_value(json_object_get(log.names, "val")));
    ff_hash_log_free(&log);
}

static ff_status recipe_of(beginning *b, const ff_checkpoint *checkpoint, ff_error *error) {
    const char *recipe = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RECIPE);
    const char *ranks = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RANKS);
    if (ranks) snprintf(b->ranks, sizeof b->ranks, "%s", ranks);
    b->recipe_step = ff_checkpoint_state(checkpoint)->totals.steps;
    sets_of_checkpoint(b, checkpoint);
    FF_TRY(ff_copy_string(&b->recipe_path, ff_checkpoint_path(checkpoint), error));
    if (!recipe)
        return ff_fail(error, FF_BAD_DATA, "%s: has no " FF_CHECKPOINT_RECIPE, b->recipe_path);
    return ff_buffer_printf(&b->recipe, error, "%s", recipe);
}

/* The options may have changed when the run was resumed: takes the options of the first checkpoint
 * at or after the step, else the run's current ones. */
static ff_status recipe_in(beginning *b, const given *in, const char *folder, ff_error *error) {
    ff_checkpoint *after = NULL;
    uint64_t *steps;
    size_t count;
    char *path;
    FF_TRY(ff_checkpoint_steps(folder, &steps, &count, error));
    while (count && steps[count - 1] < (uint64_t)in->step) count--; /* the largest is the first */
    ff_status status = FF_OK;
    if (count) {
        FF_TRY_DONE(
            ff_format(&path, error, "%s/" FF_RUN_STEP_PREFIX "%" PRIu64, folder, steps[count - 1]));
        if (ff_checkpoint_open(&after, path, NULL) == FF_OK) status = recipe_of(b, after, error);
        free(path);
    }
    if (!after) {
        b->recipe_step = UINT64_MAX;
        FF_TRY_DONE(ff_path_join(&b->recipe_path, in->path, FF_RUN_RECIPE_FILE, error));
        FF_TRY_DONE(ff_read_whole(&b->recipe, b->recipe_path, RECIPE_LIMIT_BYTES, error));
        if (b->recipe.length) ff_origin_take_ranks(b->recipe.bytes, b->ranks);
    }
done:
    ff_checkpoint_close(&after);
    free(steps);
    return status;
}

static ff_status find(beginning *b, const given *in, ff_error *error) {
    const uint64_t last =
        (uint64_t)(in->from < 0 || in->from >= in->step ? in->step - 1 : in->from);
    char *folder = NULL;
    ff_status status;
    if (ff_path_exists("%s/" FF_RUN_RECIPE_FILE, in->path)) {
        FF_TRY_DONE(ff_path_join(&b->hashes, in->path, FF_RUN_HASHES, error));
        FF_TRY_DONE(ff_path_join(&b->log, in->path, FF_RUN_LOG_FILE, error));
        FF_TRY_DONE(ff_path_join(&folder, in->path, FF_RUN_CHECKPOINTS, error));
        FF_TRY_DONE(ff_keeper_newest(&b->checkpoint, folder, last, &b->note, error));
        if (b->checkpoint)
            sets_of_checkpoint(b, b->checkpoint);
        else
            sets_of_hashes(b);
        FF_TRY_DONE(recipe_in(b, in, folder, error));
    } else {
        FF_TRY_DONE(ff_checkpoint_find(in->path, &folder, error));
        FF_TRY_DONE(ff_checkpoint_open(&b->checkpoint, folder, error));
        const uint64_t done = ff_checkpoint_state(b->checkpoint)->totals.steps;
        if (done > last) {
            status =
                ff_fail(error, FF_USAGE,
                        "%s: is after step %" PRIu64 ": wanted --step %" PRIu64 " or later, or "
                        "the folder of the run",
                        in->path, last + 1, done + 1);
            goto done;
        }
        FF_TRY_DONE(recipe_of(b, b->checkpoint, error));
    }
done:
    free(folder);
    return status;
}

/* The run's options, except those that choose where and how it is computed. */
static ff_status settings_of(const beginning *b, const given *in, ff_settings *settings,
                             ff_error *error) {
    ff_trainer_options *trainer = &settings->trainer;
    *settings = ff_settings_default();
    if (b->recipe.length)
        FF_TRY(ff_settings_read(settings, b->recipe.bytes, b->recipe_path, error));
    if (in->data) {
        trainer->data = in->data;
        if (!ff_splits_val_is_none(trainer->val)) trainer->val = NULL;
    }
    if (in->device) trainer->device = in->device;
    if (in->threads) trainer->threads = in->threads;
    if (b->checkpoint) trainer->weights = NULL;
    ff_storage_set_defaults(&settings->storage);
    FF_TRY(ff_settings_complete(settings, error));
    trainer->no_graph = trainer->no_warm_up = trainer->quiet = true;
    trainer->first_step = b->checkpoint ? ff_checkpoint_state(b->checkpoint)->totals.steps : 0;
    return FF_OK;
}

static ff_status check_data(const beginning *b, const ff_trainer *trainer, ff_error *error) {
    const char *path = ff_dataset_path(trainer->splits.train);
    char is[33];
    ff_hex(is, ff_dataset_id(trainer->splits.train)->content, 16);
    if (!*b->data)
        fprintf(
            stderr,
            "fftrain: the run has kept no content id of its data: replay uses %s as it is now\n",
            path);
    if (!*b->data || !strcmp(b->data, is)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: the run has other data, with content id %s; %s has %s; --data DIR names "
                   "its place",
                   b->recipe_path, b->data, path, is);
}

/* Sets the model's values to those before the first step that is made again. */
static ff_status load(const beginning *b, ff_trainer *trainer, ff_error *error) {
    FF_TRY(check_data(b, trainer, error));
    if (!b->checkpoint) {
        ff_store *store = ff_model_store(trainer->model);
        if (!trainer->options->weights)
            FF_TRY(ff_whiten(trainer->model, trainer->splits.train,
                             ff_splits_selection(&trainer->splits.train_selected),
                             trainer->splits.val_resize, ff_model_threads(trainer->model), error));
        if (trainer->ema_decay >= 0) ff_average_begin(store);
        return FF_OK;
    }
    return ff_checkpoint_load(b->checkpoint, trainer->model, error);
}

static ff_status write_sheet(const ff_trainer *trainer, const given *in, ff_error *error) {
    ff_canvas canvas = {0};
    ff_status status = ff_sheet_step(trainer, (uint64_t)in->step - 1, &canvas, error);
    if (status == FF_OK) status = ff_canvas_write_png(&canvas, in->png, error);
    ff_canvas_free(&canvas);
    return status;
}

/* Reports why the repeated steps cannot have the run's numbers. */
static void print_doubts(const beginning *b, const given *in, const ff_trainer *trainer) {
    const char *effect = ff_origin_effect_of_ranks(trainer);
    const uint64_t first = trainer->options->first_step;
    const uint64_t changed = b->log ? ff_option_changes_last(b->log, first, b->recipe_step) : 0;
    ff_origin now;
    ff_origin_of(&now, trainer);
    if (changed)
        fprintf(stderr,
                "fftrain: the run was resumed with other options after step %" PRIu64
                "; the steps before that are made with the options of step %" PRId64 ", too\n",
                changed, in->step);
    if (*b->ranks && strcmp(b->ranks, now.ranks) && effect)
        fprintf(stderr, "fftrain: the run had %s and replay has %s: %s\n", b->ranks, now.ranks,
                effect);
}

static ff_status replay(const given *in, ff_error *error) {
    beginning b = {0};
    ff_settings settings;
    ff_tuning tuning = {.quiet = true};
    ff_trainer *trainer = NULL;
    ff_status status;
    FF_TRY_DONE(find(&b, in, error));
    if (b.note) fprintf(stderr, "fftrain: %s\n", b.note);
    const char *was = b.checkpoint ? ff_checkpoint_text(b.checkpoint, FF_CHECKPOINT_RECIPE) : NULL;
    if (was && b.recipe.length && strcmp(was, b.recipe.bytes))
        fprintf(stderr,
                "fftrain: the run had other options when %s was saved than at step %" PRId64
                "; all steps are made with the options of that step\n",
                ff_checkpoint_path(b.checkpoint), in->step);
    FF_TRY_DONE(settings_of(&b, in, &settings, error));
    settings.trainer.tuning = &tuning;
    settings.trainer.began_data = *b.data ? b.data : NULL;
    settings.trainer.began_val = *b.val ? b.val : NULL;
    status = ff_trainer_create(&trainer, &settings.trainer, error);
    ff_tuning_end(&tuning);
    if (status != FF_OK) goto done;
    if ((uint64_t)in->step > ff_trainer_total_steps(trainer)) {
        status = ff_fail(error, FF_USAGE, "--step %" PRId64 ": the run has %" PRIu64 " steps",
                         in->step, ff_trainer_total_steps(trainer));
        goto done;
    }
    print_doubts(&b, in, trainer);
    FF_TRY_DONE(load(&b, trainer, error));
    if (in->png) FF_TRY_DONE(write_sheet(trainer, in, error));
    printf("from       %s\n", b.checkpoint ? ff_checkpoint_path(b.checkpoint) : "the first step");
    const ff_replay_options options = {(uint64_t)in->step, in->hashes, b.hashes};
    FF_TRY_DONE(ff_replay(trainer, &options, stdout, error));
done:
    ff_trainer_destroy(&trainer);
    ff_tuning_release(&tuning);
    ff_checkpoint_close(&b.checkpoint);
    ff_buffer_free(&b.recipe);
    free(b.recipe_path);
    free(b.hashes);
    free(b.log);
    free(b.note);
    return status;
}

ff_status ff_command_replay(int argc, char **argv, ff_error *error) {
    given in = {.from = -1};
    const ff_option table[] = {
        {"step", 0, FF_OPTION_INTEGER, "N", &in.step, NULL, 1, 1e12, "The step to show, from 1."},
        {"png", 0, FF_OPTION_STRING, "FILE", &in.png, NULL, 0, 0,
         "Write a sheet of its images, augmented, as they enter the net."},
        {"data", 'd', FF_OPTION_STRING, "DIR", &in.data, NULL, 0, 0,
         "Where the training set is now; default: where it was."},
        {"from", 0, FF_OPTION_INTEGER, "N", &in.from, NULL, 0, 1e12,
         "Begin at a checkpoint of at most N steps; default: the newest before --step."},
        {"hashes", 0, FF_OPTION_STRING, "FILE", &in.hashes, NULL, 0, 0,
         "Write hashes of every step, its outputs and gradients, for fftrain diff."},
        {"device", 0, FF_OPTION_STRING, "auto|cpu|cuda[:I]", &in.device, NULL, 0, 0,
         "Where to compute; default: as in the run."},
        {"threads", 'j', FF_OPTION_INTEGER, "N", &in.threads, NULL, 0, 1024,
         "Compute threads; default 0: as in the run."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = "fftrain replay",
        .usage = "fftrain replay RUN|CHECKPOINT --step N [--png FILE] [options]",
        .summary = summary,
        .options = table,
        .epilogue = epilogue,
    };
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, error);
    if (status == FF_OK && !words.done) {
        in.path = words.count ? words.operand[0] : NULL;
        ff_interrupt_install(0);
        status = words.count == 1 && in.step
                     ? replay(&in, error)
                     : ff_fail(error, FF_USAGE, "wanted fftrain replay RUN --step N");
    }
    ff_positionals_free(&words);
    return status;
}
