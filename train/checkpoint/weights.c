#include "train/checkpoint/weights.h"

#include "format/base/path.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/naming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAMED = 3 }; /* tensors that an error message names */

struct ff_weights {
    ff_tensors *file;
    ff_tensors *average; /* state.safetensors with an "ema.NAME" for every f32 parameter; or NULL */
    ff_naming naming;    /* of the file's tensors */
    ff_model *model;
    const ff_model_options *net; /* from the options */
    bool learns;                 /* a head will be trained: the file may lack it */
    char *other_classes; /* how the file's classes differ from those to be learned; NULL = not */
    const ff_safetensor **of; /* [parameters]; NULL = keeps its initial value */
    char *text;
};

/* ---- normalization ---- */

static ff_status numbers_text(const float *numbers, uint32_t count, float otherwise,
                              uint32_t channels, char **text, ff_error *error) {
    ff_buffer buffer = {0};
    ff_status status = FF_OK;
    *text = NULL;
    for (uint32_t c = 0; c < channels; c++)
        FF_TRY_DONE(ff_buffer_printf(&buffer, error, "%s%.9g", c ? " " : "",
                                     (double)(c < count ? numbers[c] : otherwise)));
    *text = buffer.bytes;
    return FF_OK;
done:
    ff_buffer_free(&buffer);
    return status;
}

ff_status ff_weights_normalization(const ff_metadata *data, char **mean, char **std,
                                   ff_error *error) {
    const uint32_t count = data->statistics_count;
    *std = NULL;
    FF_TRY(numbers_text(data->mean, count, 0, data->channels, mean, error));
    const ff_status status = numbers_text(data->std, count, 1, data->channels, std, error);
    if (status == FF_OK) return FF_OK;
    free(*mean);
    *mean = NULL;
    return status;
}

static ff_status check_normalization(const ff_weights *weights, const ff_metadata *data,
                                     ff_error *error) {
    const char *path = ff_tensors_path(weights->file);
    const char *mean = ff_tensors_text(weights->file, FF_WEIGHTS_MEAN);
    const char *std = ff_tensors_text(weights->file, FF_WEIGHTS_STD);
    char *own_mean, *own_std;
    ff_status status = FF_OK;
    if (!mean || !std) return FF_OK;
    FF_TRY(ff_weights_normalization(data, &own_mean, &own_std, error));
    if (strcmp(mean, own_mean) != 0 || strcmp(std, own_std) != 0)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: was trained on images normalized with mean %s, std %s; the training "
                         "set has mean %s, std %s; pack it with the former, or use "
                         "--any-normalization",
                         path, mean, std, own_mean, own_std);
    free(own_mean);
    free(own_std);
    return status;
}

/* ---- matching ---- */

/* Whether the parameter belongs to the head and the tensor to a head for other classes. */
static bool other_head(const ff_weights *weights, const ff_parameter *p,
                       const ff_safetensor *tensor) {
    return ff_naming_is_head(weights->model, p) && ff_naming_fits(p, tensor, true) &&
           (weights->other_classes || !ff_naming_fits(p, tensor, false));
}

static ff_status add_shape(ff_buffer *text, int rank, const uint64_t *shape, ff_error *error) {
    FF_TRY(ff_buffer_printf(text, error, "["));
    for (int i = 0; i < rank; i++)
        FF_TRY(
            ff_buffer_printf(text, error, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]));
    return ff_buffer_printf(text, error, "]");
}

/* Counts a tensor that does not fit, and adds its name to the text if it is one of the first
 * NAMED. */
static ff_status add_wrong(ff_buffer *text, int *count, const ff_parameter *p,
                           const ff_safetensor *tensor, ff_error *error) {
    uint64_t wanted[4] = {0};
    if ((*count)++ >= NAMED) return FF_OK;
    FF_TRY(ff_buffer_printf(text, error, "%s%s", *count > 1 ? ", " : "", p->name));
    if (!tensor) return FF_OK;
    for (int i = 0; i < p->rank; i++) wanted[i] = (uint64_t)p->shape[i];
    FF_TRY(ff_buffer_printf(text, error, " "));
    FF_TRY(add_shape(text, tensor->rank, tensor->shape, error));
    FF_TRY(ff_buffer_printf(text, error, " in place of "));
    return add_shape(text, p->rank, wanted, error);
}

typedef struct matching {
    int loaded, missing, mismatched, kept, absent; /* kept: head tensors; absent: not in file */
    ff_buffer missing_text, mismatched_text, kept_text;
} matching;

/* The file that holds a parameter's values. */
static ff_tensors *file_of(const ff_weights *weights, const ff_parameter *p) {
    return weights->average && p->dtype == FF_F32 ? weights->average : weights->file;
}

static const ff_safetensor *find_tensor(const ff_weights *weights, const ff_parameter *p) {
    static const ff_naming averages = {.prefix = FF_CHECKPOINT_AVERAGE "."};
    const ff_tensors *file = file_of(weights, p);
    char name[2 * FF_NAMING_BYTES];
    return ff_tensors_find(
        file, ff_naming_of(file == weights->file ? &weights->naming : &averages, p->name, name));
}

static ff_status match_one(ff_weights *weights, int index, matching *m, ff_error *error) {
    const ff_parameter *p = ff_model_parameter(weights->model, index);
    const ff_safetensor *tensor = find_tensor(weights, p);
    if (!tensor && p->dtype == FF_I64) return FF_OK;
    if (!tensor && weights->learns && ff_naming_is_head(weights->model, p)) {
        m->absent++;
        return add_wrong(&m->kept_text, &m->kept, p, NULL, error);
    }
    if (!tensor) return add_wrong(&m->missing_text, &m->missing, p, NULL, error);
    if (other_head(weights, p, tensor)) return add_wrong(&m->kept_text, &m->kept, p, tensor, error);
    if (ff_naming_fits(p, tensor, false)) {
        if (p->dtype == FF_I64 && tensor->dtype != FF_I64)
            return ff_fail(error, FF_BAD_DATA, "%s: '%s' is %s, not I64",
                           ff_tensors_path(weights->file), p->name, tensor->type);
        weights->of[index] = tensor;
        m->loaded++;
        return FF_OK;
    }
    return add_wrong(&m->mismatched_text, &m->mismatched, p, tensor, error);
}

/* "2 of its tensors are missing (a, b)". */
static ff_status add_count(ff_buffer *text, int count, const char *one, const char *several,
                           const ff_buffer *names, ff_error *error) {
    if (!count) return FF_OK;
    return ff_buffer_printf(text, error, "%s %d of its tensors %s (%s%s)", text->length ? "," : "",
                            count, count == 1 ? one : several, names->bytes,
                            count > NAMED ? ", ..." : "");
}

static ff_status refuse(const ff_weights *weights, const matching *m, ff_error *error) {
    const char *model = ff_tensors_text(weights->file, FF_WEIGHTS_MODEL);
    const ff_safetensor *first = ff_tensors_at(weights->file, 0);
    ff_buffer text = {0};
    char advice[96] = "";
    ff_status status;
    if (weights->net) ff_weights_advice(weights->file, weights->net, advice, sizeof advice);
    FF_TRY_DONE(add_count(&text, m->missing, "is missing", "are missing", &m->missing_text, error));
    FF_TRY_DONE(add_count(&text, m->mismatched, "has another shape", "have another shape",
                          &m->mismatched_text, error));
    if (m->missing && first)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "; its first tensor is %s", first->name));
    status = ff_fail(error, FF_BAD_DATA, "%s: these are not weights of this model%s%s:%s%s",
                     ff_tensors_path(weights->file), model ? " but of " : "", model ? model : "",
                     text.bytes, advice);
done:
    ff_buffer_free(&text);
    return status;
}

/* Lists the tensors of the file that are neither loaded nor of a head for other classes. */
static ff_status unused_text(const ff_weights *weights, ff_buffer *text, ff_error *error) {
    const int parameters = ff_model_parameter_count(weights->model);
    int count = 0;
    bool *used;
    ff_status status = FF_OK;
    size_t tensors = 0;
    while (ff_tensors_at(weights->file, tensors)) tensors++;
    FF_TRY(ff_alloc(&used, tensors, sizeof *used, "the list of tensors", error));
    for (int i = 0; i < parameters; i++) {
        const ff_parameter *p = ff_model_parameter(weights->model, i);
        char name[2 * FF_NAMING_BYTES];
        const ff_safetensor *tensor =
            ff_tensors_find(weights->file, ff_naming_of(&weights->naming, p->name, name));
        if (tensor) used[tensor - ff_tensors_at(weights->file, 0)] = true;
    }
    for (size_t i = 0; i < tensors && status == FF_OK; i++)
        if (!used[i] && count++ < NAMED)
            status = ff_buffer_printf(text, error, "%s%s", count > 1 ? ", " : "; not used: ",
                                      ff_tensors_at(weights->file, i)->name);
    free(used);
    FF_TRY(status);
    return count > NAMED ? ff_buffer_printf(text, error, " and %d more", count - NAMED) : FF_OK;
}

/* The part of the file that has the tensors, and their prefix: " (its 'model', without
 * 'module.')". */
static ff_status found_text(const ff_weights *weights, ff_buffer *text, ff_error *error) {
    const char *part = ff_tensors_part(weights->file), *prefix = weights->naming.prefix;
    const bool timm = weights->naming.timm;
    if (!*part && !*prefix && !timm) return FF_OK;
    return ff_buffer_printf(
        text, error, " (%s%s%s%s%s%s%s%s)", *part ? "its '" : "", part, *part ? "'" : "",
        *part && (*prefix || timm) ? ", " : "", *prefix ? "names without '" : "", prefix,
        *prefix ? timm ? "', timm's" : "'" : "", timm && !*prefix ? "timm's names" : "");
}

static ff_status describe(ff_weights *weights, const matching *m, ff_error *error) {
    const int parameters = ff_model_parameter_count(weights->model);
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "%s", ff_tensors_path(weights->file)));
    FF_TRY_DONE(found_text(weights, &text, error));
    FF_TRY_DONE(ff_buffer_printf(&text, error, ": %d of %d tensors loaded", m->loaded, parameters));
    if (m->absent)
        FF_TRY_DONE(ff_buffer_printf(
            &text, error, "; %s is not in the file, so the head keeps its initial values",
            m->kept_text.bytes));
    else if (m->kept && weights->other_classes)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "; %s, so the head keeps its initial values",
                                     weights->other_classes));
    else if (m->kept)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "; the head keeps its initial values: %s",
                                     m->kept_text.bytes));
    FF_TRY_DONE(unused_text(weights, &text, error));
    if (!ff_tensors_text(weights->file, FF_WEIGHTS_MEAN))
        FF_TRY_DONE(ff_buffer_printf(
            &text, error,
            "; the file does not record how its images were normalized, make sure that it is as "
            "the set's are"));
    weights->text = text.bytes;
    return FF_OK;
done:
    ff_buffer_free(&text);
    return status;
}

/* Compares the class names of the file's label with those to be learned, if both have the same
 * number of classes. */
static ff_status compare_classes(ff_weights *weights, const ff_field *classes, ff_error *error) {
    const char *net = ff_tensors_text(weights->file, FF_WEIGHTS_NET);
    const char *text = ff_tensors_text(weights->file, FF_WEIGHTS_METADATA);
    ff_metadata trained = {0};
    ff_weights_net form;
    ff_status status = FF_OK;
    if (!net || !text || !ff_weights_net_parse(&form, net)) return FF_OK;
    FF_TRY(ff_metadata_read(&trained, text, strlen(text), error));
    for (size_t i = 0; i < trained.field_count; i++) {
        const ff_field *field = &trained.field[i];
        if (strcmp(field->name, form.label) != 0 || field->class_count != classes->class_count)
            continue;
        for (uint32_t c = 0; c < field->class_count && !weights->other_classes; c++)
            if (strcmp(field->class_name[c], classes->class_name[c]) != 0)
                FF_TRY_DONE(ff_format(&weights->other_classes, error,
                                      "its classes are others, class %u is '%.100s' there and "
                                      "'%.100s' here",
                                      c, field->class_name[c], classes->class_name[c]));
    }
done:
    ff_metadata_free(&trained);
    return status;
}

static ff_status match(ff_weights *weights, ff_error *error) {
    const int parameters = ff_model_parameter_count(weights->model);
    matching m = {0};
    ff_status status;
    FF_TRY_DONE(ff_alloc(&weights->of, (uint64_t)parameters, sizeof *weights->of,
                         "the list of tensors", error));
    FF_TRY_DONE(ff_naming_find(&weights->naming, weights->file, weights->model, error));
    for (int i = 0; i < parameters; i++) FF_TRY_DONE(match_one(weights, i, &m, error));
    if (m.missing || m.mismatched) FF_TRY_DONE(refuse(weights, &m, error));
    status = describe(weights, &m, error);
done:
    ff_buffer_free(&m.missing_text);
    ff_buffer_free(&m.mismatched_text);
    ff_buffer_free(&m.kept_text);
    return status;
}

/* If the file belongs to a checkpoint, compares its bytes with the checksum there. Links are
 * followed first, because `last` may change meanwhile. */
static ff_status check_file(const char *path, ff_error *error) {
    char *real = realpath(path, NULL), *name = real ? strrchr(real, '/') : NULL;
    ff_status status = FF_OK;
    if (name) *name++ = 0;
    for (int i = 0; name && i < FF_CHECKPOINT_FILES && status == FF_OK; i++)
        if (!strcmp(name, ff_checkpoint_files[i]) &&
            ff_path_exists("%s/" FF_CHECKPOINT_SUMS_FILE, real))
            status = ff_checkpoint_check(real, i, error);
    free(real);
    return status;
}

/* Opens a file, or the file `name` in a checkpoint. average: as for ff_torch_open. */
static ff_status open_file(ff_tensors **file, const char *path, const char *name, bool check,
                           bool average, ff_error *error) {
    struct stat info;
    char *folder, *inside = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        if (check) FF_TRY(check_file(path, error));
        return ff_tensors_open(file, path, average, error);
    }
    FF_TRY(ff_checkpoint_find(path, &folder, error));
    ff_status status = ff_path_join(&inside, folder, name, error);
    if (status == FF_OK && check) status = check_file(inside, error);
    if (status == FF_OK) status = ff_tensors_open(file, inside, average, error);
    free(inside);
    free(folder);
    return status;
}

static ff_status open_average(ff_weights *weights, const char *path, ff_error *error) {
    FF_TRY(open_file(&weights->average, path, FF_CHECKPOINT_STATE_FILE, true, false, error));
    const size_t length = strlen(FF_CHECKPOINT_AVERAGE ".");
    for (size_t i = 0; ff_tensors_at(weights->average, i); i++)
        if (!strncmp(ff_tensors_at(weights->average, i)->name, FF_CHECKPOINT_AVERAGE ".", length))
            return FF_OK;
    return ff_fail(
        error, FF_USAGE,
        "--ema: %s has no average of the parameters; checkpoints of runs with --ema have", path);
}

ff_status ff_weights_open_file(ff_tensors **file, const char *path, ff_error *error) {
    return open_file(file, path, FF_WEIGHTS_FILE, false, false, error);
}

ff_status ff_weights_read_fact(const char *path, const char *key, char **text, ff_error *error) {
    ff_tensors *file;
    *text = NULL;
    FF_TRY(ff_weights_open_file(&file, path, error));
    const char *found = ff_tensors_text(file, key);
    const ff_status status = found ? ff_copy_string(text, found, error) : FF_OK;
    ff_tensors_close(&file);
    return status;
}

ff_status ff_weights_open(ff_weights **out, const ff_weights_options *options, ff_model *model,
                          ff_error *error) {
    ff_weights *weights;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&weights, 1, sizeof *weights, "weights", error));
    weights->model = model;
    weights->learns = options->classes != NULL;
    weights->net = options->net;
    FF_TRY_DONE(
        open_file(&weights->file, options->path, FF_WEIGHTS_FILE, true, options->average, error));
    if (options->average && !ff_tensors_of_torch(weights->file))
        FF_TRY_DONE(open_average(weights, options->path, error));
    if (options->classes) FF_TRY_DONE(compare_classes(weights, options->classes, error));
    FF_TRY_DONE(match(weights, error));
    if (options->data) FF_TRY_DONE(check_normalization(weights, options->data, error));
    *out = weights;
    return FF_OK;
done:
    ff_weights_close(&weights);
    return status;
}

void ff_weights_close(ff_weights **pointer) {
    ff_weights *weights = *pointer;
    if (!weights) return;
    ff_tensors_close(&weights->file);
    ff_tensors_close(&weights->average);
    free(weights->of);
    free(weights->other_classes);
    free(weights->text);
    free(weights);
    *pointer = NULL;
}

const char *ff_weights_text(const ff_weights *weights) {
    return weights->text;
}

bool ff_weights_has_head(const ff_weights *weights) {
    for (int i = 0; i < ff_model_parameter_count(weights->model); i++)
        if (ff_naming_is_head(weights->model, ff_model_parameter(weights->model, i)) &&
            !weights->of[i])
            return false;
    return true;
}

ff_status ff_weights_load(const ff_weights *weights, ff_error *error) {
    ff_status status = FF_OK;
    void *values = NULL;
    uint64_t most = 0;
    for (int i = 0; i < ff_model_parameter_count(weights->model); i++) {
        const ff_safetensor *tensor = weights->of[i];
        if (tensor && tensor->count > most) most = tensor->count;
    }
    FF_TRY(ff_alloc(&values, most, sizeof(int64_t), "weights", error));
    for (int i = 0; i < ff_model_parameter_count(weights->model); i++) {
        const ff_safetensor *tensor = weights->of[i];
        if (!tensor) continue;
        ff_tensors *file = file_of(weights, ff_model_parameter(weights->model, i));
        if (tensor->dtype == FF_I64)
            FF_TRY_DONE(ff_tensors_read(file, tensor, values, error));
        else
            FF_TRY_DONE(ff_tensors_read_f32(file, tensor, values, error));
        ff_model_set(weights->model, i, FF_PART_VALUE, values);
    }
    status = ff_model_check(weights->model, error);
done:
    free(values);
    return status;
}
