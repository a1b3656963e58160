/* Training: options, the run's folder, the trainer, the run. */
#include "train/commands/command.h"
#include "train/commands/habits.h"
#include "train/commands/settings.h"
#include "train/commands/train_ranks.h"
#include "train/commands/unreached.h"
#include "train/debug/gradients.h"
#include "train/debug/lr_find.h"
#include "train/debug/overfit.h"
#include "train/machine/planned_device.h"
#include "train/predict/trainer_cost.h"
#include "train/predict/world.h"
#include "train/recipes/files.h"
#include "train/report/report.h"
#include "train/report/sheets.h"
#include "train/report/summary.h"
#include "train/run/diagnose.h"
#include "train/run/run.h"
#include "train/run/session.h"
#include "train/sets/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command_line {
    int argc;
    char **argv;
    bool done; /* --help was printed */
} command_line;

static ff_status parse_line(const ff_command *command, void *context, ff_error *error) {
    command_line *line = context;
    ff_positionals words;
    ff_status status = ff_options_parse(command, line->argc, line->argv, &words, error);
    line->done = words.done;
    if (status == FF_OK && !line->done && words.count)
        status = ff_habits_refuse_word(words.operand[0], error);
    ff_positionals_free(&words);
    return status;
}

/* The options of all --set NAME=VALUE, written as lines to *text. argv stays unchanged, because
 * ranks are started with it. */
static ff_status read_sets(const ff_option_list *sets, ff_settings *settings, ff_buffer *text,
                           ff_error *error) {
    for (int i = 0; i < sets->count; i++)
        FF_TRY(ff_buffer_printf(text, error, "%s\n", sets->value[i]));
    return text->length ? ff_settings_read(settings, text->bytes, "--set", error) : FF_OK;
}

/* Applies --set over the other options. */
static ff_status take_sets(const ff_option_list *sets, ff_settings *out, ff_buffer *text,
                           ff_error *error) {
    ff_settings alone = ff_settings_default();
    ff_buffer copy = {0};
    alone.finds = out->finds;
    ff_status status = read_sets(sets, &alone, &copy, error);
    if (status == FF_OK) status = ff_settings_give_way(out, &alone, error);
    ff_buffer_free(&copy);
    FF_TRY(status);
    return read_sets(sets, out, text, error);
}

/* Options come from the checkpoint of a resumed run or from a recipe's file, then from --set, then
 * from the command line, which is parsed first to find these. *sets must live as long as the
 * settings. */
static ff_status parse(int argc, char **argv, ff_settings *out, ff_session **session,
                       ff_buffer *sets, bool *done, ff_error *error) {
    command_line line = {.argc = argc, .argv = argv};
    FF_TRY(ff_habits_check_pretrained(argc, argv, error));
    FF_TRY(ff_settings_use(out, parse_line, &line, error));
    *done = line.done;
    if (*done) return FF_OK;
    ff_settings first = *out;
    ff_buffer given_sets = {0};
    char *file = NULL;
    ff_status status;
    if (first.trainer.recipe) FF_TRY(ff_recipe_find(&file, first.trainer.recipe, error));
    FF_TRY_DONE(ff_session_open(session, &out->session, file, error));
    if (ff_session_recipe(*session) || first.set.count) {
        char *recipe = ff_session_recipe(*session);
        const bool resolved = ff_session_recipe_is_resolved(*session);
        *out = ff_settings_default();
        out->finds = first.finds;
        if (recipe)
            FF_TRY_DONE(ff_settings_read(out, recipe, ff_session_recipe_path(*session), error));
        const char *row = out->trainer.recipe; /* on which the file is based */
        const double rate = out->trainer.hyper.learning_rate;
        const char *groups = out->trainer.groups;
        const char *shares = ff_settings_shares(out) ? out->dp_balance : NULL;
        const char *precision = out->trainer.precision;
        FF_TRY_DONE(take_sets(&first.set, out, sets, error));
        FF_TRY_DONE(ff_settings_give_way(out, &first, error));
        FF_TRY_DONE(ff_settings_use(out, parse_line, &line, error));
        if (shares && strcmp(out->dp_balance, "auto") == 0) out->dp_balance = shares;
        if (ff_session_step(*session) && ff_precision_is_auto(out->trainer.precision))
            out->trainer.precision = precision;
        if (file) out->trainer.recipe = row;
        /* A run's rates are scaled once, when it begins. */
        out->trainer.scaled_lr = resolved && first.trainer.hyper.learning_rate < 0 &&
                                 out->trainer.hyper.learning_rate == rate;
        out->trainer.scaled_groups = resolved && out->trainer.groups == groups;
    }
    if (first.trainer.recipe && !file)
        ff_settings_leave_row(out, ff_recipe_named(first.trainer.recipe));
    ff_settings settings = first;
    FF_TRY_DONE(read_sets(&first.set, &settings, &given_sets, error));
    ff_settings_name_needy(out, &settings);
    status = ff_settings_complete(out, error);
    out->trainer.began_data = ff_session_data(*session);
    out->trainer.began_val = ff_session_val(*session);
    out->lacks_weights = first.trainer.recipe && !strcmp(first.trainer.recipe, "finetune") &&
                         !out->trainer.weights && !ff_session_step(*session);
done:
    ff_buffer_free(&given_sets);
    free(file);
    return status;
}

/* The run's folder and log are opened before the model is built: a path that cannot be written
 * fails at once. */
static ff_status open_reports(const ff_settings *settings, ff_session *session, ff_report **report,
                              ff_error *error) {
    const ff_recipe *recipe =
        settings->trainer.recipe ? ff_recipe_named(settings->trainer.recipe) : NULL;
    const char *model = settings->trainer.model ? settings->trainer.model
                        : recipe                ? recipe->model
                                                : "run";
    FF_TRY(ff_session_begin(session, model, error));
    const char *const logs[] = {ff_session_log(session), settings->log_json};
    return ff_report_create(report, logs, settings->quiet ? NULL : stdout, stdout, error);
}

/* Notes on what the user may not expect of this run. */
static ff_status add_notes(ff_session *session, const ff_settings *settings,
                           const ff_trainer *trainer, ff_error *error) {
    ff_buffer dropped = {0};
    ff_status status;
    if (!ff_settings_looks(settings)) FF_TRY(ff_session_compare_ranks(session, trainer, error));
    FF_TRY_DONE(ff_settings_say_dropped(settings, trainer, &dropped, error));
    if (dropped.length) FF_TRY_DONE(ff_session_add_note(session, dropped.bytes, error));
    if (!ff_settings_looks(settings)) status = ff_unreached_say(settings, trainer, session, error);
done:
    ff_buffer_free(&dropped);
    return status;
}

/* Prints the notes from byte `printed` on. */
static void print_notes(const ff_session *session, size_t printed) {
    const char *notes = ff_session_notes(session);
    if (notes) notes += printed + (printed && notes[printed] == '\n');
    while (notes && *notes) {
        const size_t length = strcspn(notes, "\n");
        fprintf(stderr, "fftrain: %.*s\n", (int)length, notes);
        notes += length + (notes[length] == '\n');
    }
}

/* Replaces a path by the same from the root, which the caller frees. */
static char *make_absolute(const char **path) {
    char *absolute = *path ? realpath(*path, NULL) : NULL;
    if (absolute) *path = absolute;
    return absolute;
}

/* The same for all folders of --data. */
static char *make_data_absolute(const char **data) {
    char *absolute = *data ? ff_folders_absolute(*data) : NULL;
    if (absolute) *data = absolute;
    return absolute;
}

/* The same for a list, which may begin with "keys:" or "numbers:". */
static char *make_list_absolute(const char **list) {
    if (!*list) return NULL;
    const char *path = ff_selection_list_path(*list);
    if (path == *list) return make_absolute(list);
    char *given = NULL, *absolute = realpath(path, NULL);
    const int word = (int)(path - *list);
    if (absolute && ff_format(&given, NULL, "%.*s%s", word, *list, absolute) == FF_OK)
        *list = given;
    free(absolute);
    return given;
}

/* Whether --sample-weights is not a file, though a file may have its name. */
static bool names_weights(const ff_settings *settings, const ff_trainer *trainer) {
    const char *weights = settings->trainer.sample_weights;
    size_t field;
    return weights && (strcmp(weights, "balanced") == 0 ||
                       ff_dataset_field(trainer->splits.train, weights, &field, NULL) == FF_OK);
}

/* Called once it is certain that the run makes steps. */
typedef struct beginning {
    const ff_settings *settings;
    ff_session *session;
    const ff_trainer *trainer;
    ff_report *report;
    const ff_buffer *recipe;
} beginning;

static ff_status begin_run(void *context, ff_error *error) {
    const beginning *of = context;
    const char *before = ff_session_notes(of->session);
    const size_t printed = before ? strlen(before) : 0;
    FF_TRY(ff_session_write(of->session, of->trainer, of->recipe, error));
    FF_TRY(ff_report_record(of->report, of->settings->tensorboard, ff_session_path(of->session),
                            error));
    print_notes(of->session, printed);
    if (!of->settings->quiet) putchar('\n');
    return FF_OK;
}

static ff_status run(const ff_settings *settings, ff_session *session, ff_trainer *trainer,
                     ff_report *report, ff_error *error) {
    ff_settings kept = *settings;
    ff_buffer recipe = {0};
    const char *const balanced = settings->trainer.class_weights;
    const bool is_path = balanced && strcmp(balanced, "balanced") != 0;
    /* The run's options as text, without options that are not part of the run, so that it is the
     * same wherever the run resumes. */
    char *paths[] = {
        make_data_absolute(&kept.trainer.data),
        ff_splits_val_is_none(kept.trainer.val) ? NULL : make_absolute(&kept.trainer.val),
        make_absolute(&kept.trainer.weights),
        make_absolute(&kept.storage.cache),
        is_path ? make_absolute(&kept.trainer.class_weights) : NULL,
        make_list_absolute(&kept.trainer.subset),
        names_weights(&kept, trainer) ? NULL : make_absolute(&kept.trainer.sample_weights)};
    ff_status status;
    ff_settings_keep_run(&kept, trainer);
    json_t *logged = ff_settings_log(&kept, trainer);
    if (!logged) FF_TRY_DONE(ff_fail(error, FF_NO_MEMORY, "no memory for the log"));
    ff_report_options(report, logged);
    FF_TRY_DONE(ff_settings_write(&kept, &recipe, error));
    FF_TRY_DONE(ff_session_start(session, trainer, &recipe, error));
    if (!settings->quiet && ff_session_path(session))
        printf("run            %s\n", ff_session_path(session));
    print_notes(session, 0);
    beginning of = {settings, session, trainer, report, &recipe};
    ff_run_options options = ff_session_run(session);
    options.begins = begin_run;
    options.context = &of;
    FF_TRY_DONE(ff_run(trainer, report, &options, error));
done:
    ff_buffer_free(&recipe);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) free(paths[i]);
    return status;
}

static ff_status show_batch(const ff_trainer *trainer, const char *path, ff_error *error) {
    ff_canvas canvas = {0};
    ff_status status = ff_sheet_inputs(trainer, &canvas, error);
    if (status == FF_OK) status = ff_canvas_write_png(&canvas, path, error);
    ff_canvas_free(&canvas);
    return status;
}

/* fftrain lr-find */
static ff_status find_rate(const ff_settings *settings, ff_trainer *trainer, ff_json_log *log,
                           ff_error *error) {
    ff_lr_curve curve;
    ff_canvas canvas = {0};
    ff_status status;
    FF_TRY_DONE(ff_lr_find(trainer, &curve, error));
    if (!settings->quiet) ff_lr_curve_print(stdout, &curve);
    if (log) FF_TRY_DONE(ff_lr_curve_log(&curve, log, error));
    if (settings->png) {
        FF_TRY_DONE(ff_lr_curve_draw(&curve, &canvas, error));
        FF_TRY_DONE(ff_canvas_write_png(&canvas, settings->png, error));
    }
    if (curve.suggested > 0)
        printf("suggested: --lr %.2g\n", curve.suggested);
    else
        status =
            ff_fail(error, FF_FAILED, "the loss never falls for long between the rates %g and %g",
                    trainer->sweep.from, trainer->sweep.to);
done:
    ff_canvas_free(&canvas);
    ff_lr_curve_free(&curve);
    return status;
}

/* ---- --dry-run ---- */

static ff_status predict_world(ff_world *world, const ff_settings *settings,
                               const ff_trainer *trainer, const ff_planned_device *planned,
                               ff_error *error) {
    const ff_card card = planned ? ff_planned_device_card(planned) : (ff_card){0};
    return ff_world_predict(world, trainer, settings->world, settings->net, planned ? &card : NULL,
                            error);
}

static ff_status print_world(const ff_settings *settings, const ff_trainer *trainer,
                             const ff_planned_device *planned, ff_error *error) {
    ff_world world;
    FF_TRY(predict_world(&world, settings, trainer, planned, error));
    ff_world_print(stdout, &world);
    ff_world_free(&world);
    return FF_OK;
}

/* With --world the memory of one rank was checked, not the memory of the whole batch. */
static ff_status print_json(const ff_settings *settings, const ff_trainer *trainer,
                            const ff_planned_device *planned, ff_error *error) {
    ff_world world;
    if (!settings->world) {
        FF_TRY(ff_summary_write_json(stdout, trainer, NULL, error));
        return ff_needs_check(trainer, error);
    }
    FF_TRY(predict_world(&world, settings, trainer, planned, error));
    const ff_status status = ff_summary_write_json(stdout, trainer, &world, error);
    ff_world_free(&world);
    return status;
}

static ff_status open_planned(ff_planned_device **planned, const char *device_json,
                              ff_trainer_options *options, ff_error *error) {
    const ff_machine_options machine = {.plan_cache = options->plan_cache,
                                        .tune_seconds = options->tune_seconds,
                                        .no_fold = options->no_fold,
                                        .tuning = options->tuning};
    FF_TRY(ff_planned_device_open(planned, device_json, &machine, error));
    options->planned = ff_planned_device_model(*planned);
    options->planned_kernels = ff_planned_device_kernels(*planned);
    return FF_OK;
}

static void warn(const ff_settings *settings, const ff_trainer *trainer, const ff_job *job) {
    if (ff_machine_warning(trainer->machine))
        fprintf(stderr, "fftrain: %s\n", ff_machine_warning(trainer->machine));
    if (settings->lacks_weights && (!job || job->rank == 0))
        fprintf(stderr,
                "fftrain: --recipe finetune without --weights FILE starts from random values\n");
}

/* Prints the summary, and the output of --dry-run and --world. */
static ff_status print_summary(const ff_settings *settings, ff_trainer *trainer,
                               ff_planned_device *planned, const ff_tuning *tuning,
                               ff_error *error) {
    const bool prints = settings->dry_run || !settings->quiet;
    if (prints) ff_summary_print(stdout, trainer);
    if (settings->dry_run) ff_summary_print_layers(stdout, trainer);
    if (planned) {
        const ff_card card = ff_planned_device_card(planned);
        ff_planned_device_print(stdout, planned);
        FF_TRY(ff_trainer_print_costs(stdout, trainer, &card, error));
    }
    if (prints) ff_tuning_print(stdout, tuning);
    if (settings->world) return print_world(settings, trainer, planned, error);
    return settings->dry_run ? ff_needs_check(trainer, error) : FF_OK;
}

/* --diagnose, --check-gradients and --overfit. */
static ff_status look(const ff_settings *settings, ff_trainer *trainer, ff_error *error) {
    if (settings->diagnose) {
        if (!settings->quiet) putchar('\n');
        FF_TRY(ff_diagnose(trainer, stdout, error));
    }
    if (settings->check_gradients) FF_TRY(ff_check_gradients(trainer, stdout, error));
    if (settings->trainer.overfit && !settings->diagnose) return ff_overfit(trainer, stdout, error);
    return FF_OK;
}

static ff_status train(const ff_settings *settings, ff_session *session, ff_job *job,
                       const char *device, ff_error *error) {
    ff_report *report = NULL;
    ff_trainer *trainer = NULL;
    ff_planned_device *planned = NULL;
    ff_trainer_options options = settings->trainer;
    ff_tuning tuning = {.quiet = settings->quiet};
    ff_status status = FF_OK;
    ff_json_log *log = NULL;
    const bool finds = settings->finds && !settings->dry_run;
    options.tuning = &tuning;
    options.counts = settings->dry_run || settings->show_batch;
    options.checkpoints = !ff_settings_looks(settings) && ff_session_keeps(&settings->session);
    options.first_step = ff_session_step(session);
    options.job = job;
    if (device) options.device = device;
    if (settings->device_json)
        FF_TRY_DONE(open_planned(&planned, settings->device_json, &options, error));
    options.measures_disk =
        !planned && !settings->json && !settings->show_batch && (!job || job->rank == 0);
    if (ff_settings_trains(settings)) FF_TRY_DONE(open_reports(settings, session, &report, error));
    if (finds && settings->log_json) FF_TRY_DONE(ff_json_log_open(&log, settings->log_json, error));
    if (report) ff_report_points_every(report, settings->log_every);
    if (report && settings->top5) ff_report_show_top5(report);
    status = ff_trainer_create(&trainer, &options, error);
    ff_tuning_end(&tuning);
    if (status != FF_OK) goto done;
    FF_TRY_DONE(ff_train_agree(settings, trainer, error));
    warn(settings, trainer, job);
    FF_TRY_DONE(add_notes(session, settings, trainer, error));
    if (!ff_settings_trains(settings)) print_notes(session, 0);
    if (settings->show_batch) {
        status = show_batch(trainer, settings->show_batch, error);
        goto done;
    }
    if (settings->json) {
        status = print_json(settings, trainer, planned, error);
        goto done;
    }
    FF_TRY_DONE(print_summary(settings, trainer, planned, &tuning, error));
    if (!settings->dry_run) FF_TRY_DONE(look(settings, trainer, error));
    if (finds) FF_TRY_DONE(find_rate(settings, trainer, log, error));
    if (ff_settings_trains(settings)) FF_TRY_DONE(run(settings, session, trainer, report, error));
done:
    status = ff_job_conclude(job, status, error);
    ff_trainer_destroy(&trainer);
    ff_planned_device_close(&planned);
    ff_tuning_release(&tuning);
    ff_report_destroy(&report);
    ff_json_log_close(&log);
    return status;
}

static ff_status command(int argc, char **argv, bool finds, ff_error *error) {
    ff_settings settings = ff_settings_default();
    ff_session *session = NULL;
    ff_buffer sets = {0};
    bool done = false;
    settings.finds = finds;
    ff_status status = parse(argc, argv, &settings, &session, &sets, &done, error);
    if (status != FF_OK)
        ff_train_tell_ranks(&settings, error);
    else if (!done) {
        ff_storage_set_defaults(&settings.storage);
        status = ff_train_ranks(&settings, session, argv, train, error);
    }
    ff_session_close(&session);
    ff_buffer_free(&sets);
    return status;
}

ff_status ff_command_train(int argc, char **argv, ff_error *error) {
    return command(argc, argv, false, error);
}

ff_status ff_command_lr_find(int argc, char **argv, ff_error *error) {
    return command(argc, argv, true, error);
}
