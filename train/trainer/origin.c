#include "train/trainer/origin.h"

#include "format/disk/checksum.h"
#include "train/checkpoint/weights.h"
#include "train/net/graph.h"
#include "train/sets/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it is ---- */

/* The content id of a set as text; "" without a set. */
static void id_text(ff_dataset *set, char text[33]) {
    *text = 0;
    if (set) ff_hex(text, ff_dataset_id(set)->content, 16);
}

/* "2 ranks", "2 ranks with shares 1,3" */
static void ranks_text(char *text, size_t size, const ff_job *job) {
    const int count = job ? job->size : 1;
    bool even = true;
    int used = snprintf(text, size, "%d rank%s", count, count > 1 ? "s" : "");
    for (int i = 0; i < count && job; i++)
        even = even && job->cuts[i + 1] - job->cuts[i] == job->cuts[1];
    for (int i = 0; i < count && !even && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%" PRIu32, i ? "," : " with shares ",
                         job->cuts[i + 1] - job->cuts[i]);
}

void ff_origin_of(ff_origin *origin, const ff_trainer *trainer) {
    const float *weights = trainer->class_weights;
    *origin = (ff_origin){.data = ""};
    id_text(trainer->splits.train, origin->data);
    id_text(trainer->splits.val, origin->val);
    const ff_splits *splits = &trainer->splits;
    const ff_loader_options *input = &trainer->train_input;
    const bool plain =
        !input->weights && !input->shares && input->repeats <= 1 && !input->samples_per_epoch;
    if (splits->train_selected.count || !plain)
        snprintf(origin->selected, sizeof origin->selected, "trains on %s%s%s, evaluates on %s",
                 ff_selection_say(&splits->train_selected).text, plain ? "" : ", ",
                 plain ? "" : ff_loader_say_sampling(input).text,
                 ff_selection_say(&splits->val_selected).text);
    ranks_text(origin->ranks, sizeof origin->ranks, trainer->options->job);
    if (!trainer->device)
        snprintf(origin->threads, sizeof origin->threads, "%d", ff_model_threads(trainer->model));
    if (weights)
        snprintf(origin->class_weights, sizeof origin->class_weights, "%016" PRIx64,
                 ff_checksum(weights, trainer->splits.classes * sizeof *weights));
}

/* ---- in a recipe's file ---- */

static const char ranks_line[] = "# ranks: ";

ff_status ff_origin_write_recipe(const ff_trainer *trainer, const char *recipe, ff_buffer *text,
                                 ff_error *error) {
    const ff_job *job = trainer->options->job;
    char ranks[FF_ORIGIN_RANKS];
    ranks_text(ranks, sizeof ranks, job);
    if (job && job->size > 1) FF_TRY(ff_buffer_printf(text, error, "%s%s\n", ranks_line, ranks));
    return ff_buffer_printf(text, error, "%s", recipe);
}

void ff_origin_take_ranks(char *recipe, char ranks[FF_ORIGIN_RANKS]) {
    const size_t begin = strlen(ranks_line);
    char *line = recipe;
    *ranks = 0;
    while (strncmp(line, ranks_line, begin) != 0) {
        line += strcspn(line, "\n");
        if (!*line++) return;
    }
    const size_t length = strcspn(line, "\n");
    const char *next = line + length + (line[length] == '\n');
    snprintf(ranks, FF_ORIGIN_RANKS, "%.*s", (int)(length - begin), line + begin);
    memmove(line, next, strlen(next) + 1);
}

/* ---- what cannot change ---- */

static ff_status check_set(const ff_checkpoint *checkpoint, const char *key, const char *option,
                           ff_dataset *set, ff_error *error) {
    const char *was = ff_checkpoint_text(checkpoint, key);
    char is[33];
    id_text(set, is);
    if (was && !strcmp(was, is)) return FF_OK;
    const bool grown = set && ff_dataset_metadata(set)->generation_count;
    return ff_fail(
        error, FF_BAD_DATA, "%s: the run has other data: its --%s has content id %s, %s has %s%s",
        ff_checkpoint_path(checkpoint), option, was && *was ? was : "none",
        set ? ff_dataset_path(set) : "this run", *is ? is : "none",
        grown ? "; it was appended to, but was not the run's before, and --weights RUN in "
                "place of --resume starts a new run on it from the weights of this one"
              : "");
}

/* "" in a checkpoint, or a checkpoint without the text, means all samples. */
static ff_status check_selected(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                                ff_error *error) {
    static const char all[] = "trains on all samples";
    const char *was = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_SELECTED);
    ff_origin now;
    ff_origin_of(&now, trainer);
    if (!strcmp(was ? was : "", now.selected)) return FF_OK;
    return ff_fail(
        error, FF_USAGE,
        "--subset, --fold, --sample-weights, --no-replacement, --shares, --samples-per-epoch, "
        "--repeats: cannot change when a run resumes; %s: the run %s, not %s",
        ff_checkpoint_path(checkpoint), was && *was ? was : all,
        *now.selected ? now.selected : all);
}

/* Notes a set that was appended to since the run began. */
static ff_status note_grown(ff_buffer *notes, const ff_dataset *set, uint64_t left_out,
                            ff_error *error) {
    if (!left_out) return FF_OK;
    const uint64_t count = ff_dataset_count(set);
    return ff_buffer_printf(notes, error,
                            "%s%s was appended to: the run continues with the %" PRIu64
                            " of its %" PRIu64 " samples with which it began",
                            notes->length ? "\n" : "", ff_dataset_path(set), count,
                            count + left_out);
}

/* The line's text after "NAME = "; NULL if the text has no line with this name. *length: its bytes.
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
 * others the checkpoint's; otherwise the reverse, and only options that the run lacks are noted.
 */
static ff_status note_changes(ff_buffer *notes, const char *lines, const char *others, bool now,
                              ff_origin_change (*change)(const char *name, size_t length),
                              ff_error *error) {
    for (const char *line = lines; *line;) {
        const size_t whole = strcspn(line, "\n"), name = strcspn(line, " ");
        size_t length, other_length;
        const char *value = value_of(lines, line, name, &length);
        const char *other = value_of(others, line, name, &other_length);
        const bool same = other && length == other_length && !memcmp(value, other, length);
        const ff_origin_change changed = change(line, name);
        if (!same && changed != FF_CHANGE_COMPARED && (now || !other)) {
            if (!other) other = "the default";
            const char *is = now ? value : other, *was = now ? other : value;
            const int is_length = (int)(now ? length : other_length);
            const int was_length = (int)(now ? other_length : length);
            if (changed == FF_CHANGE_REFUSED)
                return ff_fail(error, FF_USAGE,
                               "--%.*s: cannot change when a run resumes; it was %.*s, not %.*s",
                               (int)name, line, was_length, was, is_length, is);
            FF_TRY(ff_buffer_printf(notes, error, "%schanged: %.*s is %.*s now, it was %.*s",
                                    notes->length ? "\n" : "", (int)name, line, is_length, is,
                                    was_length, was));
        }
        line += whole + (line[whole] == '\n');
    }
    return FF_OK;
}

/* A schedule is spread over the run, so another number of epochs changes the learning rate
 * immediately. */
static ff_status note_schedule(ff_buffer *notes, const char *recipe, const char *old,
                               const ff_trainer *trainer, ff_error *error) {
    static const char name[] = "epochs";
    const ff_trainer_update *main = &trainer->groups[trainer->main_group];
    size_t length, other_length;
    const char *is = value_of(recipe, name, strlen(name), &length);
    const char *was = value_of(old, name, strlen(name), &other_length);
    if (!is || !was || (length == other_length && !memcmp(is, was, length))) return FF_OK;
    if (!strcmp(main->schedule.text, "constant")) return FF_OK;
    return ff_buffer_printf(notes, error,
                            "%sthe schedule %s is spread over all epochs, so learning rates are "
                            "others from this step on",
                            notes->length ? "\n" : "", main->schedule.text);
}

/* Compares the run's label and classes: content ids cover samples and numbers of classes, but not
 * the classes' names. */
static ff_status check_classes(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                               ff_error *error) {
    const char *path = ff_checkpoint_path(checkpoint), *label = trainer->splits.label;
    ff_metadata trained = {0};
    ff_weights_net form;
    size_t now, was = 0;
    char *net, *text = NULL;
    ff_status status;
    FF_TRY(ff_weights_read_fact(path, FF_WEIGHTS_NET, &net, error));
    if (net && ff_weights_net_parse(&form, net) && strcmp(form.label, label) != 0) {
        status =
            ff_fail(error, FF_USAGE, "--label: cannot change when a run resumes; it was %s, not %s",
                    form.label, label);
        goto done;
    }
    FF_TRY_DONE(ff_weights_read_fact(path, FF_WEIGHTS_METADATA, &text, error));
    if (text) FF_TRY_DONE(ff_metadata_read(&trained, text, strlen(text), error));
    while (was < trained.field_count && strcmp(trained.field[was].name, label) != 0) was++;
    if (was == trained.field_count) goto done;
    FF_TRY_DONE(ff_dataset_field(trainer->splits.train, label, &now, error));
    const ff_agreement_side before = {path, &trained, was};
    const ff_agreement_side after = ff_agreement_of(trainer->splits.train, now);
    status = ff_agreement_check(&before, &after, FF_FIT_RESAMPLED, error);
done:
    free(net);
    free(text);
    ff_metadata_free(&trained);
    return status;
}

ff_status ff_origin_check(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                          const char *recipe,
                          ff_origin_change (*change)(const char *name, size_t length),
                          ff_buffer *notes, ff_error *error) {
    const char *old = ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RECIPE);
    FF_TRY(note_changes(notes, recipe, old, true, change, error));
    FF_TRY(note_changes(notes, old, recipe, false, change, error));
    FF_TRY(note_schedule(notes, recipe, old, trainer, error));
    FF_TRY(check_set(checkpoint, FF_CHECKPOINT_DATA, "data", trainer->splits.train, error));
    FF_TRY(check_set(checkpoint, FF_CHECKPOINT_VAL, "val", trainer->splits.val, error));
    FF_TRY(check_selected(checkpoint, trainer, error));
    const ff_splits *splits = &trainer->splits;
    FF_TRY(note_grown(notes, splits->train, splits->train_left_out, error));
    FF_TRY(note_grown(notes, splits->val, splits->val_left_out, error));
    return check_classes(checkpoint, trainer, error);
}

/* ---- notes ---- */

static const char last_bits[] = "its results will differ in the last bits";

const char *ff_origin_effect_of_ranks(const ff_trainer *trainer) {
    const ff_graph *graph = ff_model_store(trainer->model)->graph;
    if (trainer->options->reproducible) return NULL;
    for (int i = 0; i < graph->layer_count && !trainer->options->sync_bn; i++)
        if (graph->layers[i].kind == FF_LAYER_NORM && !graph->layers[i].held)
            return "batch norms see other parts of a batch, so its results will differ";
    return last_bits;
}

/* Whether the checkpoint has such a text that differs from the run's. */
static bool differs(const ff_checkpoint *checkpoint, const char *key, const char *now) {
    const char *was = ff_checkpoint_text(checkpoint, key);
    return was && strcmp(was, now) != 0;
}

ff_status ff_origin_compare(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                            ff_buffer *notes, ff_error *error) {
    const char *effect = ff_origin_effect_of_ranks(trainer);
    const char *compute = ff_model_compute_name(trainer->model);
    ff_origin now;
    ff_origin_of(&now, trainer);
    if (differs(checkpoint, FF_CHECKPOINT_CLASS_WEIGHTS, now.class_weights))
        FF_TRY(ff_buffer_printf(notes, error,
                                "\nchanged: the class weights are others now than in the run"));
    const bool ranks = differs(checkpoint, FF_CHECKPOINT_RANKS, now.ranks);
    if (ranks && effect)
        FF_TRY(ff_buffer_printf(notes, error, "\nthe run had %s and has %s now: %s",
                                ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RANKS), now.ranks,
                                effect));
    if (differs(checkpoint, FF_CHECKPOINT_COMPUTE, compute))
        FF_TRY(ff_buffer_printf(
            notes, error, "\nthe run computed with %s before and does with %s now: %s",
            ff_checkpoint_text(checkpoint, FF_CHECKPOINT_COMPUTE), compute, last_bits));
    else if (!ranks && differs(checkpoint, FF_CHECKPOINT_THREADS, now.threads))
        FF_TRY(ff_buffer_printf(notes, error, "\nthe run had %s compute threads and has %s now: %s",
                                ff_checkpoint_text(checkpoint, FF_CHECKPOINT_THREADS), now.threads,
                                last_bits));
    return FF_OK;
}
