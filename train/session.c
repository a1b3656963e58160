#include "train/session.h"

#include "format/base/file.h"
#include "format/base/options.h"
#include "format/base/path.h"
#include "format/base/read.h"
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
    bool created, started; /* the folder */
    ff_checkpoint *checkpoint;
    ff_buffer recipe;
    char *recipe_path;
    ff_keeper *keeper;
    char *hashes; /* path */
    ff_buffer notes;
};

/* ---- opening ---- */

static ff_status add_note(ff_session *session, const char *text, ff_error *error) {
    return ff_buffer_printf(&session->notes, error, "%s%s", session->notes.length ? "\n" : "",
                            text);
}

static ff_status read_file(ff_session *session, const char *path, ff_error *error) {
    FF_TRY(ff_copy_string(&session->recipe_path, path, error));
    return ff_read_whole(&session->recipe, path, RECIPE_LIMIT_BYTES, error);
}

/* A run that ended before its first checkpoint begins again. */
static ff_status open_run(ff_session *session, ff_error *error) {
    char *path;
    FF_TRY(ff_path_join(&path, ff_run_folder_path(session->folder), FF_RUN_RECIPE_FILE, error));
    ff_status status = read_file(session, path, error);
    free(path);
    if (status != FF_OK) return status;
    return add_note(session, "the run has no checkpoint yet: it begins again", error);
}

static ff_status open_checkpoint(ff_session *session, const char *run, ff_error *error) {
    char *note = NULL;
    FF_TRY(ff_run_folder_open(&session->folder, run, error));
    const char *chosen = ff_run_folder_chosen(session->folder);
    ff_status status =
        chosen ? ff_checkpoint_open(&session->checkpoint, chosen, error)
               : ff_keeper_newest(&session->checkpoint, ff_run_folder_checkpoints(session->folder),
                                  UINT64_MAX, &note, error);
    if (status == FF_OK && note) status = add_note(session, note, error);
    free(note);
    if (status != FF_OK) return ff_fail_within(error, status, "--resume");
    if (!session->checkpoint) return open_run(session, error);
    FF_TRY(ff_copy_string(&session->recipe_path, ff_checkpoint_path(session->checkpoint), error));
    const char *recipe = ff_checkpoint_text(session->checkpoint, FF_CHECKPOINT_RECIPE);
    if (!recipe)
        return ff_fail(error, FF_BAD_DATA, "%s: has no " FF_CHECKPOINT_RECIPE,
                       session->recipe_path);
    return ff_buffer_printf(&session->recipe, error, "%s", recipe);
}

/* The same command begins a run and goes on with it. */
static ff_status open_automatic(ff_session *session, const char *recipe_file, ff_error *error) {
    const char *out = session->options->out;
    if (!out || !strcmp(out, "none"))
        return ff_fail(error, FF_USAGE, "--resume auto needs --out, the folder of the run");
    if (ff_path_exists("%s/" FF_RUN_RECIPE_FILE, out)) return open_checkpoint(session, out, error);
    return recipe_file ? read_file(session, recipe_file, error) : FF_OK;
}

static ff_status open_newest(ff_session *session, ff_error *error) {
    char *run, *note = NULL;
    ff_status status;
    FF_TRY(ff_run_folder_newest(&run, error));
    FF_TRY_DONE(ff_format(&note, error, "the newest run is %s", run));
    FF_TRY_DONE(add_note(session, note, error));
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
        return ff_fail(error, FF_USAGE, "--resume goes on with its own recipe; leave out --recipe");
    if (options->resume && options->out)
        return ff_fail(error, FF_USAGE, "--resume goes on in its own folder; leave out --out");
    if (options->resume && !strcmp(options->resume, FF_SESSION_NEWEST))
        return open_newest(session, error);
    if (options->resume) return open_checkpoint(session, options->resume, error);
    return recipe_file ? read_file(session, recipe_file, error) : FF_OK;
}

ff_status ff_session_open(ff_session **out, const ff_session_options *options,
                          const char *recipe_file, ff_error *error) {
    ff_session *session;
    *out = NULL;
    FF_TRY(ff_alloc(&session, 1, sizeof *session, "a run", error));
    session->options = options;
    const ff_status status = open_files(session, recipe_file, error);
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
    free(session);
    *pointer = NULL;
}

char *ff_session_recipe(ff_session *session) {
    return session->recipe.bytes;
}

const char *ff_session_recipe_path(const ff_session *session) {
    return session->recipe_path;
}

bool ff_session_is_automatic(const ff_session *session) {
    return session->options->resume && !strcmp(session->options->resume, "auto");
}

uint64_t ff_session_step(const ff_session *session) {
    return session->checkpoint ? ff_checkpoint_state(session->checkpoint)->totals.steps : 0;
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
    if (options->out && !strcmp(options->out, "none")) return FF_OK;
    FF_TRY(ff_run_folder_create(&session->folder, options->out, name, error));
    session->created = true;
    return FF_OK;
}

/* ---- starting ---- */

/* The content id of a set as text; "" for none. */
static void id_text(ff_dataset *set, char text[33]) {
    *text = 0;
    if (set) ff_hex(text, ff_dataset_id(set)->content, 16);
}

static ff_status check_set(const ff_session *session, const char *key, const char *option,
                           ff_dataset *set, ff_error *error) {
    const char *was = ff_checkpoint_text(session->checkpoint, key);
    char is[33];
    id_text(set, is);
    if (was && !strcmp(was, is)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: the run has other data: its --%s has content id %s, %s has %s",
                   ff_checkpoint_path(session->checkpoint), option, was && *was ? was : "none",
                   set ? ff_dataset_path(set) : "this run", *is ? is : "none");
}

/* What the order of the samples and the model depend on. */
static const char *const fixed[] = {"recipe", "model",      "stem",  "batch", "seed",
                                    "order",  "last-batch", "label", "crop"};

/* The line's text after "NAME = "; NULL where the text has no line of that name. *length: its
 * bytes.
 */
static const char *value_of(const char *text, const char *line, size_t name, size_t *length) {
    while (*text) {
        const size_t whole = strcspn(text, "\n");
        if (whole > name && !strncmp(text, line, name) && text[name] == ' ') {
            *length = whole - name - strlen(" = ");
            return text + name + strlen(" = ");
        }
        text += whole + (text[whole] == '\n');
    }
    *length = strlen("the default");
    return NULL;
}

/* Notes the options whose values changed, or refuses them. `now`: the lines are the run's, and the
 * others the checkpoint's; else the other way round, and only options that the run lacks are new.
 */
static ff_status note_changes(ff_session *session, const char *lines, const char *others, bool now,
                              ff_error *error) {
    for (const char *line = lines; *line;) {
        const size_t whole = strcspn(line, "\n"), name = strcspn(line, " ");
        size_t length, other_length;
        const char *value = value_of(lines, line, name, &length);
        const char *other = value_of(others, line, name, &other_length);
        const bool same = other && length == other_length && !memcmp(value, other, length);
        if (!same && (now || !other)) {
            if (!other) other = "the default";
            const char *is = now ? value : other, *was = now ? other : value;
            const int is_length = (int)(now ? length : other_length);
            const int was_length = (int)(now ? other_length : length);
            for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
                if (strlen(fixed[i]) == name && !strncmp(fixed[i], line, name))
                    return ff_fail(error, FF_USAGE,
                                   "--%s: cannot change when a run goes on; it was %.*s, not %.*s",
                                   fixed[i], was_length, was, is_length, is);
            FF_TRY(ff_buffer_printf(&session->notes, error,
                                    "%schanged: %.*s is %.*s now, it was %.*s",
                                    session->notes.length ? "\n" : "", (int)name, line, is_length,
                                    is, was_length, was));
        }
        line += whole + (line[whole] == '\n');
    }
    return FF_OK;
}

/* The checkpoint's values are put into the model. */
static ff_status go_on(ff_session *session, ff_trainer *trainer, const char *recipe,
                       ff_error *error) {
    const ff_checkpoint *checkpoint = session->checkpoint;
    const char *old = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RECIPE);
    FF_TRY(note_changes(session, recipe, old, true, error));
    FF_TRY(note_changes(session, old, recipe, false, error));
    FF_TRY(check_set(session, FF_CHECKPOINT_DATA, "data", trainer->splits.train, error));
    FF_TRY(check_set(session, FF_CHECKPOINT_VAL, "val", trainer->splits.val, error));
    FF_TRY(ff_checkpoint_load(checkpoint, trainer->model, error));
    char *text;
    const char *compute = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_COMPUTE);
    FF_TRY(ff_format(&text, error, "goes on from %s, after step %" PRIu64 " of %" PRIu64,
                     ff_checkpoint_path(checkpoint), ff_session_step(session),
                     ff_trainer_total_steps(trainer)));
    ff_status status = add_note(session, text, error);
    free(text);
    if (status != FF_OK || !compute) return status;
    const char *now = ff_model_compute_name(trainer->model);
    if (!strcmp(now, compute)) return FF_OK;
    FF_TRY(
        ff_format(&text, error,
                  "the run computed with %s before and does with %s now: its results will differ "
                  "in the last bits",
                  compute, now));
    status = add_note(session, text, error);
    free(text);
    return status;
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
    char *note = NULL, *mean = NULL, *std = NULL, *net = NULL, train[33], val[33];
    ff_buffer metadata = {0};
    ff_capture *capture;
    ff_status status;
    id_text(trainer->splits.train, train);
    id_text(trainer->splits.val, val);
    FF_TRY_DONE(ff_weights_normalization(data, &mean, &std, error));
    FF_TRY_DONE(ff_metadata_write(data, &metadata, error));
    FF_TRY_DONE(net_text(trainer, &net, error));
    const ff_safetensors_fact weights[] = {
        {"format", "pt"},      {FF_WEIGHTS_MODEL, trainer->model_name},
        {FF_WEIGHTS_NET, net}, {FF_WEIGHTS_MEAN, mean},
        {FF_WEIGHTS_STD, std}, {FF_WEIGHTS_METADATA, metadata.bytes}};
    const ff_safetensors_fact facts[] = {
        {FF_CHECKPOINT_RECIPE, recipe->length ? recipe->bytes : ""},
        {FF_CHECKPOINT_DATA, train},
        {FF_CHECKPOINT_VAL, val},
        {FF_CHECKPOINT_COMPUTE, ff_model_compute_name(trainer->model)},
        {FF_CHECKPOINT_VERSION, ff_version},
    };
    FF_TRY_DONE(ff_capture_create(&capture, trainer->model, weights,
                                  sizeof weights / sizeof *weights, facts,
                                  sizeof facts / sizeof *facts, error));
    FF_TRY_DONE(ff_keeper_create(&session->keeper, capture, &options, &note, error));
    if (note) status = add_note(session, note, error);
done:
    free(note);
    ff_buffer_free(&metadata);
    free(mean);
    free(std);
    free(net);
    return status;
}

ff_status ff_session_start(ff_session *session, ff_trainer *trainer, const ff_buffer *recipe,
                           ff_error *error) {
    if (session->checkpoint)
        FF_TRY(go_on(session, trainer, recipe->length ? recipe->bytes : "", error));
    if (!session->folder) return FF_OK;
    const char *folder = ff_run_folder_path(session->folder);
    FF_TRY(ff_path_join(&session->hashes, folder, FF_RUN_HASHES, error));
    FF_TRY(ff_file_save(folder, FF_RUN_RECIPE_FILE, recipe, error));
    session->started = true;
    return make_keeper(session, trainer, recipe, error);
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
