#include "train/run/session.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/options.h"
#include "format/disk/checksum.h"
#include "train/checkpoint/run_folder.h"
#include "train/checkpoint/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECIPE_LIMIT_BYTES = 1 << 20 };

struct ff_session {
    const ff_session_options *options;
    ff_every every;
    ff_run_folder *folder; /* NULL = nothing is kept */
    char *named;           /* runs/NAME of --name; NULL = none */
    bool created, started; /* the folder was created; the run started */
    ff_checkpoint *checkpoint;
    ff_buffer recipe;
    char *recipe_path;
    bool resolved;       /* the recipe is a run's, with its numbers as they were chosen */
    char recipe_sum[17]; /* of the recipe file that the run began with; "" = none */
    char recipe_ranks[FF_ORIGIN_RANKS]; /* of the recipe's run; "" = one, or not known */
    ff_keeper *keeper;
    char *hashes; /* path of the hashes */
    ff_buffer notes;
};

/* ---- opening ---- */

ff_status ff_session_add_note(ff_session *session, const char *text, ff_error *error) {
    return ff_buffer_printf(&session->notes, error, "%s%s", session->notes.length ? "\n" : "",
                            text);
}

bool ff_session_keeps(const ff_session_options *options) {
    return !options->out || strcmp(options->out, "none") != 0;
}

/* The requested folder; NULL: none. */
static const char *out_of(const ff_session *session) {
    return session->named ? session->named : session->options->out;
}

/* --name NAME means --out runs/NAME. */
static ff_status take_name(ff_session *session, ff_error *error) {
    const char *name = session->options->name;
    if (!name) return FF_OK;
    if (session->options->out)
        return ff_fail(error, FF_USAGE, "--name and --out exclude each other");
    if (!*name || *name == '.' || strchr(name, '/'))
        return ff_fail(error, FF_USAGE,
                       "--name '%s': is the name of a folder in " FF_RUN_FOLDERS
                       "/, without / and without a leading dot; --out takes a path",
                       name);
    return ff_path_join(&session->named, FF_RUN_FOLDERS, name, error);
}

static ff_status read_file(ff_session *session, const char *path, ff_error *error) {
    ff_buffer *text = &session->recipe;
    FF_TRY(ff_copy_string(&session->recipe_path, path, error));
    FF_TRY(ff_read_whole(text, path, RECIPE_LIMIT_BYTES, error));
    if (!text->length || !memchr(text->bytes, 0, text->length)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: is not a recipe: it has a zero byte after %zu bytes",
                   path, strlen(text->bytes));
}

static void sum_text(char text[17], const ff_buffer *of) {
    snprintf(text, 17, "%016" PRIx64, ff_checksum(of->length ? of->bytes : "", of->length));
}

static ff_status read_recipe(ff_session *session, const char *path, ff_error *error) {
    FF_TRY(read_file(session, path, error));
    sum_text(session->recipe_sum, &session->recipe);
    return FF_OK;
}

/* A run resumes with its own options: the recipe file that it began with no longer has an
 * effect. */
static ff_status check_recipe(const ff_session *session, const char *path, ff_error *error) {
    const char *was = ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_RECIPE_FILE);
    ff_buffer text = {0};
    char is[17];
    FF_TRY(ff_read_whole(&text, path, RECIPE_LIMIT_BYTES, error));
    sum_text(is, &text);
    ff_buffer_free(&text);
    if (!was || !strcmp(was, is)) return FF_OK;
    return ff_fail(
        error, FF_USAGE,
        "--recipe: %s is not what the run in %s began with; without --recipe the run continues "
        "with its own options, --set NAME=VALUE changes one, another --out begins a new run",
        path, out_of(session));
}

/* A run that ended before its first checkpoint starts again. */
static ff_status open_run(ff_session *session, ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, ff_run_folder_path(session->folder), FF_RUN_RECIPE_FILE, error));
    ff_status status = read_file(session, path, error);
    free(path);
    if (status != FF_OK) return status;
    session->resolved = true;
    return ff_session_add_note(session, "the run has no checkpoint yet: it begins again", error);
}

static ff_status open_checkpoint(ff_session *session, const char *run, ff_error *error) {
    char *note = NULL;
    FF_TRY(ff_run_folder_open(&session->folder, run, error));
    const char *chosen = ff_run_folder_chosen(session->folder);
    ff_status status =
        chosen ? ff_checkpoint_open(&session->checkpoint, chosen, error)
               : ff_keeper_newest(&session->checkpoint, ff_run_folder_checkpoints(session->folder),
                                  UINT64_MAX, &note, error);
    if (status == FF_OK && note) status = ff_session_add_note(session, note, error);
    free(note);
    if (status != FF_OK) return ff_fail_within(error, status, "--resume");
    if (!session->checkpoint) return open_run(session, error);
    FF_TRY(ff_copy_string(&session->recipe_path, ff_checkpoint_path(session->checkpoint), error));
    const char *recipe = ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_RECIPE);
    if (!recipe)
        return ff_fail(error, FF_BAD_DATA, "%s: has no " FF_CHECKPOINT_RECIPE,
                       session->recipe_path);
    session->resolved = true;
    const char *file = ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_RECIPE_FILE);
    if (file) snprintf(session->recipe_sum, sizeof session->recipe_sum, "%s", file);
    return ff_buffer_printf(&session->recipe, error, "%s", recipe);
}

/* The same command starts a run and resumes it. */
static ff_status open_automatic(ff_session *session, const char *recipe_file, ff_error *error) {
    const char *out = out_of(session);
    if (!out || !ff_session_keeps(session->options))
        return ff_fail(error, FF_USAGE,
                       "--resume auto needs --out or --name, the folder of the run");
    if (!ff_path_exists("%s/" FF_RUN_RECIPE_FILE, out))
        return recipe_file ? read_recipe(session, recipe_file, error) : FF_OK;
    FF_TRY(open_checkpoint(session, out, error));
    if (!recipe_file) return FF_OK;
    if (session->checkpoint) return check_recipe(session, recipe_file, error);
    ff_buffer_free(&session->recipe);
    free(session->recipe_path);
    session->recipe_path = NULL;
    session->resolved = false;
    return read_recipe(session, recipe_file, error);
}

static ff_status open_newest(ff_session *session, ff_error *error) {
    char *run, *note = NULL;
    ff_status status;
    FF_TRY(ff_run_folder_newest(&run, error));
    FF_TRY_DONE(ff_format(&note, error, "the newest run is %s", run));
    FF_TRY_DONE(ff_session_add_note(session, note, error));
    FF_TRY_DONE(open_checkpoint(session, run, error));
done:
    free(note);
    free(run);
    return status;
}

static ff_status open_files(ff_session *session, const char *recipe_file, ff_error *error) {
    const ff_session_options *options = session->options;
    if (ff_session_is_automatic(session)) return open_automatic(session, recipe_file, error);
    if (options->resume && recipe_file)
        return ff_fail(error, FF_USAGE,
                       "--resume continues with the run's recipe; leave out "
                       "--recipe");
    if (options->resume && out_of(session))
        return ff_fail(error, FF_USAGE, "--resume continues in the run's folder; leave out --%s",
                       options->out ? "out" : "name");
    if (options->resume && !strcmp(options->resume, FF_SESSION_NEWEST))
        return open_newest(session, error);
    if (options->resume) return open_checkpoint(session, options->resume, error);
    return recipe_file ? read_recipe(session, recipe_file, error) : FF_OK;
}

ff_status ff_session_open(ff_session **out, const ff_session_options *options,
                          const char *recipe_file, ff_error *error) {
    ff_session *session;
    *out = NULL;
    FF_TRY(ff_alloc(&session, 1, sizeof *session, "a run", error));
    session->options = options;
    ff_status status = take_name(session, error);
    if (status == FF_OK) status = open_files(session, recipe_file, error);
    if (status == FF_OK && session->recipe.bytes)
        ff_origin_take_ranks(session->recipe.bytes, session->recipe_ranks);
    if (status != FF_OK) ff_session_close(&session);
    *out = session;
    return status;
}

void ff_session_close(ff_session **pointer) {
    ff_session *session = *pointer;
    if (!session) return;
    ff_keeper_destroy(&session->keeper);
    ff_checkpoint_close(&session->checkpoint);
    if (session->created && !session->started) {
        unlink(ff_run_folder_log(session->folder));
        rmdir(ff_run_folder_checkpoints(session->folder));
        rmdir(ff_run_folder_path(session->folder));
    }
    ff_run_folder_close(&session->folder);
    ff_buffer_free(&session->recipe);
    ff_buffer_free(&session->notes);
    free(session->recipe_path);
    free(session->hashes);
    free(session->named);
    free(session);
    *pointer = NULL;
}

char *ff_session_recipe(ff_session *session) {
    return session->recipe.bytes;
}

const char *ff_session_recipe_path(const ff_session *session) {
    return session->recipe_path;
}

bool ff_session_recipe_is_resolved(const ff_session *session) {
    return session->resolved;
}

bool ff_session_is_automatic(const ff_session *session) {
    return session->options->resume && !strcmp(session->options->resume, "auto");
}

uint64_t ff_session_step(const ff_session *session) {
    return session->checkpoint ? ff_checkpoint_state(session->checkpoint)->totals.steps : 0;
}

const char *ff_session_data(const ff_session *session) {
    return session->checkpoint ? ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_DATA) : NULL;
}

const char *ff_session_val(const ff_session *session) {
    return session->checkpoint ? ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_VAL) : NULL;
}

const char *ff_session_log(const ff_session *session) {
    return session->folder ? ff_run_folder_log(session->folder) : NULL;
}

const char *ff_session_path(const ff_session *session) {
    return session->folder ? ff_run_folder_path(session->folder) : NULL;
}

const char *ff_session_notes(const ff_session *session) {
    return session->notes.bytes;
}

ff_status ff_session_begin(ff_session *session, const char *name, ff_error *error) {
    const ff_session_options *options = session->options;
    FF_TRY(ff_every_parse(&session->every, options->every, error));
    if (session->folder) return ff_run_folder_lock(session->folder, error);
    if (!ff_session_keeps(options)) return FF_OK;
    FF_TRY(ff_run_folder_create(&session->folder, out_of(session), name, error));
    session->created = true;
    return FF_OK;
}

/* ---- starting ---- */

/* Loads the checkpoint's values into the model. */
static ff_status go_on(ff_session *session, ff_trainer *trainer, const char *recipe,
                       ff_error *error) {
    const ff_checkpoint *checkpoint = session->checkpoint;
    FF_TRY(ff_origin_check(checkpoint, trainer, recipe, session->options->change, &session->notes,
                           error));
    FF_TRY(ff_checkpoint_load(checkpoint, trainer->model, error));
    char *text;
    FF_TRY(ff_format(&text, error, "resumes from %s, after step %" PRIu64 " of %" PRIu64,
                     ff_checkpoint_path(checkpoint), ff_session_step(session),
                     ff_trainer_total_steps(trainer)));
    const ff_status status = ff_session_add_note(session, text, error);
    free(text);
    FF_TRY(status);
    return ff_origin_compare(checkpoint, trainer, &session->notes, error);
}

static ff_status net_text(const ff_trainer *trainer, char **text, ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    ff_weights_net net = {
        .stem = ff_model_stem(trainer->model),
        .channels = splits->channels,
        .height = splits->height,
        .width = splits->width,
        .classes = splits->classes,
        .resize = splits->val_resize,
        .crop = (uint32_t)trainer->options->crop,
        .views = trainer->views,
        .precision = trainer->precision,
    };
    snprintf(net.model, sizeof net.model, "%s", trainer->model_name);
    snprintf(net.label, sizeof net.label, "%s", splits->label);
    return ff_weights_net_text(&net, text, error);
}

static ff_status make_keeper(ff_session *session, ff_trainer *trainer, const ff_buffer *recipe,
                             ff_error *error) {
    const ff_metadata *data = ff_dataset_metadata(trainer->splits.train);
    const ff_keeper_options options = {.directory = ff_run_folder_checkpoints(session->folder),
                                       .keep = (int)session->options->keep,
                                       .best_by = (ff_best_by)session->options->best_by,
                                       .views = (uint32_t)trainer->views,
                                       .from = ff_session_step(session)};
    char *mean = NULL, *std = NULL, *net = NULL;
    ff_origin origin;
    ff_buffer metadata = {0};
    ff_capture *capture;
    ff_status status;
    ff_origin_of(&origin, trainer);
    FF_TRY_DONE(ff_weights_normalization(data, &mean, &std, error));
    FF_TRY_DONE(ff_metadata_write(data, &metadata, error));
    FF_TRY_DONE(net_text(trainer, &net, error));
    const ff_safetensors_fact weights[] = {
        {"format", "pt"},      {FF_WEIGHTS_MODEL, trainer->model_name},
        {FF_WEIGHTS_NET, net}, {FF_WEIGHTS_MEAN, mean},
        {FF_WEIGHTS_STD, std}, {FF_WEIGHTS_METADATA, metadata.bytes}};
    const ff_safetensors_fact facts[] = {
        {FF_CHECKPOINT_RECIPE, recipe->length ? recipe->bytes : ""},
        {FF_CHECKPOINT_DATA, origin.data},
        {FF_CHECKPOINT_VAL, origin.val},
        {FF_CHECKPOINT_SELECTED, origin.selected},
        {FF_CHECKPOINT_RANKS, origin.ranks},
        {FF_CHECKPOINT_THREADS, origin.threads},
        {FF_CHECKPOINT_CLASS_WEIGHTS, origin.class_weights},
        {FF_CHECKPOINT_RECIPE_FILE, session->recipe_sum},
        {FF_CHECKPOINT_COMPUTE, ff_model_compute_name(trainer->model)},
        {FF_CHECKPOINT_VERSION, ff_version},
    };
    FF_TRY_DONE(ff_capture_create(&capture, trainer->model, weights,
                                  sizeof weights / sizeof *weights, facts,
                                  sizeof facts / sizeof *facts, error));
    FF_TRY_DONE(ff_keeper_create(&session->keeper, capture, &options, error));
done:
    ff_buffer_free(&metadata);
    free(mean);
    free(std);
    free(net);
    return status;
}

/* Writes recipe.txt. */
static ff_status save_recipe(const ff_session *session, const ff_trainer *trainer,
                             const ff_buffer *recipe, ff_error *error) {
    ff_buffer text = {0};
    ff_status status =
        ff_origin_write_recipe(trainer, recipe->length ? recipe->bytes : "", &text, error);
    if (status == FF_OK)
        status =
            ff_file_save(ff_run_folder_path(session->folder), FF_RUN_RECIPE_FILE, &text, error);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_session_compare_ranks(ff_session *session, const ff_trainer *trainer,
                                   ff_error *error) {
    const char *was = session->recipe_ranks, *effect = ff_origin_effect_of_ranks(trainer);
    ff_origin now;
    ff_origin_of(&now, trainer);
    if (!*was || !effect || !strcmp(was, now.ranks)) return FF_OK;
    char *text;
    FF_TRY(ff_format(&text, error, "the recipe's run had %s and this one has %s: %s", was,
                     now.ranks, effect));
    const ff_status status = ff_session_add_note(session, text, error);
    free(text);
    return status;
}

ff_status ff_session_start(ff_session *session, ff_trainer *trainer, const ff_buffer *recipe,
                           ff_error *error) {
    if (session->checkpoint)
        FF_TRY(go_on(session, trainer, recipe->length ? recipe->bytes : "", error));
    if (!session->folder) return FF_OK;
    const char *folder = ff_run_folder_path(session->folder);
    FF_TRY(ff_path_join(&session->hashes, folder, FF_RUN_HASHES, error));
    return make_keeper(session, trainer, recipe, error);
}

ff_status ff_session_write(ff_session *session, const ff_trainer *trainer, const ff_buffer *recipe,
                           ff_error *error) {
    char *note;
    if (!session->folder) return FF_OK;
    FF_TRY(save_recipe(session, trainer, recipe, error));
    session->started = true;
    FF_TRY(ff_keeper_begin(session->keeper, &note, error));
    const ff_status status = note ? ff_session_add_note(session, note, error) : FF_OK;
    free(note);
    return status;
}

ff_run_options ff_session_run(const ff_session *session) {
    return (ff_run_options){
        .keeper = session->keeper,
        .every = session->every,
        .best_by = (ff_best_by)session->options->best_by,
        .from = session->checkpoint ? ff_checkpoint_state(session->checkpoint) : NULL,
        .from_path = session->checkpoint ? ff_checkpoint_path(session->checkpoint) : NULL,
        .folder = ff_session_path(session),
        .hashes = session->hashes,
        .hash_every = session->options->hash_every,
        .may_be_complete = ff_session_is_automatic(session),
    };
}
