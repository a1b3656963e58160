#include "train/checkpoint/torch/pickle.h"

#include "format/pickle/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_LIMIT = 256, NO_NAME = -1 };

static const ff_torch_type types[] = {
    {"FloatStorage", "F32", FF_F32, 4},
    {"HalfStorage", "F16", FF_F16, 2},
    {"BFloat16Storage", "BF16", FF_BF16, 2},
    {"DoubleStorage", "F64", FF_DTYPE_COUNT, 8},
    {"LongStorage", "I64", FF_I64, 8},
    {"IntStorage", "I32", FF_I32, 4},
    {"ShortStorage", "I16", FF_DTYPE_COUNT, 2},
    {"CharStorage", "I8", FF_DTYPE_COUNT, 1},
    {"ByteStorage", "U8", FF_U8, 1},
    {"BoolStorage", "BOOL", FF_DTYPE_COUNT, 1},
};
enum { TYPES = sizeof types / sizeof *types };

/* What a name stands for: one of these calls, TYPE + the index of a storage's type, or SKIPPED +
 * the index of the skipped name. */
enum { CALL_TENSOR, CALL_TENSOR_V2, CALL_PARAMETER, CALL_DICT, TYPE, SKIPPED = TYPE + TYPES };
static const struct {
    const char *module, *name;
    int call;
} calls[] = {
    {"torch._utils", "_rebuild_tensor", CALL_TENSOR},
    {"torch._utils", "_rebuild_tensor_v2", CALL_TENSOR_V2},
    {"torch._utils", "_rebuild_parameter", CALL_PARAMETER},
    {"torch._utils", "_rebuild_parameter_with_state", CALL_PARAMETER},
    {"collections", "OrderedDict", CALL_DICT},
};

/* Modules, and functions of Python's own module, that a pickle names only in order to run programs.
 * In protocol 2 subprocess is called commands, as in Python 2. */
static const char *const dangers[] = {"os",     "posix", "nt",        "subprocess", "commands",
                                      "pty",    "sys",   "runpy",     "shutil",     "socket",
                                      "ctypes", "imp",   "importlib", "webbrowser"};
static const char *const dangerous_functions[] = {
    "eval", "exec", "compile", "open", "__import__", "execfile", "input", "apply", "breakpoint"};

void ff_torch_names_free(ff_torch_names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->name[i]);
    free(names->name);
    *names = (ff_torch_names){0};
}

/* ---- imports ---- */

static bool is_dangerous(const char *module, const char *name) {
    const size_t length = strcspn(module, ".");
    for (size_t i = 0; i < sizeof dangers / sizeof *dangers; i++)
        if (strlen(dangers[i]) == length && !strncmp(module, dangers[i], length)) return true;
    if (strcmp(module, "builtins") != 0 && strcmp(module, "__builtin__") != 0) return false;
    for (size_t i = 0; i < sizeof dangerous_functions / sizeof *dangerous_functions; i++)
        if (!strcmp(name, dangerous_functions[i])) return true;
    return false;
}

/* Returns the number of a skipped name. */
static ff_status skipped(ff_torch_names *names, const ff_pickle *pickle, const char *module,
                         const char *name, int64_t *number, ff_error *error) {
    char *text;
    FF_TRY(ff_format(&text, error, "%s.%s", module, name));
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* for messages */
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], text) != 0) continue;
        free(text);
        *number = SKIPPED + (int64_t)i;
        return FF_OK;
    }
    ff_status status =
        names->count < NAMES_LIMIT
            ? ff_grow(&names->name, names->count, sizeof *names->name, "a pickle's names", error)
            : ff_pickle_fail(pickle, error, "imports more than %d names", NAMES_LIMIT);
    if (status != FF_OK) {
        free(text);
        return status;
    }
    *number = SKIPPED + (int64_t)names->count;
    names->name[names->count++] = text;
    return FF_OK;
}

static ff_status import(ff_pickle *pickle, const char *module, const char *name,
                        ff_pickle_value *value, ff_error *error) {
    ff_pickle_node node = {.kind = FF_PICKLE_NAME, .integer = NO_NAME};
    if (is_dangerous(module, name))
        return ff_pickle_fail(pickle, error,
                              "asks to run %s.%s, as files do that attack whoever loads them; "
                              "nothing was run, and the file is not read",
                              module, name);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(module, calls[i].module) && !strcmp(name, calls[i].name))
            node.integer = calls[i].call;
    if (!strcmp(module, "torch") || !strcmp(module, "torch.cuda"))
        for (int i = 0; i < TYPES; i++)
            if (!strcmp(name, types[i].storage)) node.integer = TYPE + i;
    if (node.integer == NO_NAME)
        FF_TRY(skipped(pickle->context, pickle, module, name, &node.integer, error));
    return ff_pickle_add(pickle, node, value, error);
}

/* ---- storages and tensors ---- */

static ff_status wrong(const ff_pickle *pickle, const char *what, ff_error *error) {
    return ff_pickle_fail(pickle, error, "%s that torch.save does not write", what);
}

/* Makes an object that is not read; its name is that of the call that made it. */
static ff_status skip(ff_pickle *pickle, ff_pickle_value made_by, ff_pickle_value *result,
                      ff_error *error) {
    const ff_pickle_node *by = &pickle->node[made_by];
    ff_pickle_node node = {.kind = FF_PICKLE_OTHER, .integer = NO_NAME};
    if (by->kind == FF_PICKLE_NAME || by->kind == FF_PICKLE_OTHER) node.integer = by->integer;
    return ff_pickle_add(pickle, node, result, error);
}

/* A storage has count elements but is not yet a tensor. Both are kept as tensors. */
static ff_status make(ff_pickle *pickle, ff_pickle_kind kind, const ff_torch_tensor *tensor,
                      ff_pickle_value *result, ff_error *error) {
    if (pickle->made_count == FF_TORCH_MADE_LIMIT)
        return ff_pickle_fail(pickle, error, "more than %u tensors and storages",
                              FF_TORCH_MADE_LIMIT);
    FF_TRY(ff_reserve(&pickle->made, &pickle->made_capacity, pickle->made_count + 1, sizeof *tensor,
                      "a pickle's tensors", error));
    const ff_pickle_node node = {.kind = kind, .made = (uint32_t)pickle->made_count};
    FF_TRY(ff_pickle_add(pickle, node, result, error));
    ((ff_torch_tensor *)pickle->made)[pickle->made_count++] = *tensor;
    return FF_OK;
}

const ff_torch_tensor *ff_torch_tensor_of(const ff_pickle *pickle, ff_pickle_value value) {
    return (const ff_torch_tensor *)pickle->made + pickle->node[value].made;
}

const ff_torch_storage *ff_torch_storage_at(const ff_pickle *pickle, size_t index) {
    const ff_torch_tensor *made = pickle->made;
    return index < pickle->made_count ? &made[index].of : NULL;
}

ff_status ff_torch_key(ff_pickle *pickle, ff_pickle_value value, char text[256], ff_error *error) {
    return ff_pickle_short(pickle, value, text, error);
}

/* A number that is not negative. */
static bool whole(const ff_pickle *pickle, ff_pickle_value value, uint64_t *out) {
    const ff_pickle_node *node = &pickle->node[value];
    if (node->kind != FF_PICKLE_INTEGER || node->integer < 0) return false;
    *out = (uint64_t)node->integer;
    return true;
}

static ff_status persistent(ff_pickle *pickle, ff_pickle_value id, ff_pickle_value *result,
                            ff_error *error) {
    const ff_pickle_node *list = &pickle->node[id];
    ff_torch_tensor storage = {0};
    char text[256];
    if (list->kind != FF_PICKLE_LIST || list->list.count < 2)
        return wrong(pickle, "a persistent id", error);
    const ff_pickle_value *item = list->list.item;
    const uint32_t count = list->list.count;
    FF_TRY(ff_pickle_short(pickle, item[0], text, error));
    const ff_pickle_node *type = &pickle->node[item[1]];
    if (type->kind != FF_PICKLE_NAME) return wrong(pickle, "a persistent id", error);
    if (strcmp(text, "storage") != 0 || type->integer < TYPE || type->integer >= SKIPPED)
        return skip(pickle, item[1], result, error);
    storage.of.type = &types[type->integer - TYPE];
    if (count < 5 || count > 6 || !whole(pickle, item[4], &storage.of.count) ||
        (count == 6 && pickle->node[item[5]].kind != FF_PICKLE_NONE))
        return wrong(pickle, "a storage", error);
    FF_TRY(ff_pickle_short(pickle, item[2], text, error));
    if (strlen(text) >= sizeof storage.of.key) return wrong(pickle, "a storage's key", error);
    memcpy(storage.of.key, text, strlen(text) + 1);
    return make(pickle, FF_PICKLE_TYPE, &storage, result, error);
}

static ff_status read_shape(const ff_pickle *pickle, ff_pickle_value size, ff_pickle_value stride,
                            ff_torch_tensor *tensor, ff_error *error) {
    const ff_pickle_node *sizes = &pickle->node[size], *strides = &pickle->node[stride];
    uint64_t last = 0, step;
    if (sizes->kind != FF_PICKLE_LIST || strides->kind != FF_PICKLE_LIST ||
        sizes->list.count != strides->list.count || sizes->list.count > FF_TORCH_RANK)
        return wrong(pickle, "a tensor's shape", error);
    tensor->rank = (int)sizes->list.count;
    tensor->count = 1;
    for (int k = 0; k < tensor->rank; k++)
        if (!whole(pickle, sizes->list.item[k], &tensor->shape[k]) ||
            !whole(pickle, strides->list.item[k], &tensor->stride[k]))
            return wrong(pickle, "a tensor's shape", error);
    bool fits = true, empty = false;
    for (int k = 0; k < tensor->rank; k++) empty |= !tensor->shape[k];
    for (int k = 0; k < tensor->rank && !empty; k++) {
        fits = fits && ff_mul_u64(tensor->count, tensor->shape[k], &tensor->count) &&
               ff_mul_u64(tensor->shape[k] - 1, tensor->stride[k], &step) &&
               ff_add_u64(last, step, &last);
    }
    tensor->span = empty || !fits ? 0 : last + 1;
    if (empty) tensor->count = 0;
    if (fits && (empty || (last < tensor->of.count && tensor->offset < tensor->of.count - last)))
        return FF_OK;
    return ff_pickle_fail(pickle, error,
                          "a tensor whose elements lie beyond the %" PRIu64 " of its storage '%s'",
                          tensor->of.count, tensor->of.key);
}

static ff_status make_tensor(ff_pickle *pickle, const ff_pickle_value *item, uint32_t count,
                             uint32_t least, ff_pickle_value *result, ff_error *error) {
    if (count < least) return wrong(pickle, "a call", error);
    if (pickle->node[item[0]].kind == FF_PICKLE_OTHER) return skip(pickle, item[0], result, error);
    if (pickle->node[item[0]].kind != FF_PICKLE_TYPE) return wrong(pickle, "a call", error);
    ff_torch_tensor tensor = *ff_torch_tensor_of(pickle, item[0]);
    if (!whole(pickle, item[1], &tensor.offset)) return wrong(pickle, "a tensor's offset", error);
    FF_TRY(read_shape(pickle, item[2], item[3], &tensor, error));
    return make(pickle, FF_PICKLE_ARRAY, &tensor, result, error);
}

/* ---- calls ---- */

static ff_status call(ff_pickle *pickle, ff_pickle_value callable, ff_pickle_value arguments,
                      ff_pickle_value *result, ff_error *error) {
    const ff_pickle_node *name = &pickle->node[callable], *list = &pickle->node[arguments];
    if (name->kind != FF_PICKLE_NAME && name->kind != FF_PICKLE_OTHER)
        return ff_pickle_fail(pickle, error, "calls %s", ff_pickle_kind_name(pickle, name->kind));
    if (list->kind != FF_PICKLE_LIST) return wrong(pickle, "a call", error);
    const ff_pickle_value *item = list->list.item;
    const uint32_t count = list->list.count;
    if (name->kind == FF_PICKLE_NAME) switch (name->integer) {
        case CALL_TENSOR: return make_tensor(pickle, item, count, 4, result, error);
        case CALL_TENSOR_V2: return make_tensor(pickle, item, count, 6, result, error);
        case CALL_PARAMETER:
            if (!count) return wrong(pickle, "a call", error);
            *result = item[0];
            return FF_OK;
        case CALL_DICT:
            if (count) break;
            return ff_pickle_add(pickle, (ff_pickle_node){.kind = FF_PICKLE_DICT}, result, error);
        default: break;
        }
    return skip(pickle, callable, result, error);
}

/* Does not read an object's state: a dict's state is its attributes, as _metadata of a
 * state_dict. */
static ff_status build(ff_pickle *pickle, ff_pickle_value object, ff_pickle_value state,
                       ff_error *error) {
    (void)state;
    const ff_pickle_kind kind = pickle->node[object].kind;
    if (kind == FF_PICKLE_DICT || kind == FF_PICKLE_OTHER || kind == FF_PICKLE_ARRAY) return FF_OK;
    return ff_pickle_fail(pickle, error, "sets the state of %s", ff_pickle_kind_name(pickle, kind));
}

/* ---- the reader ---- */

ff_status ff_torch_pickle_read(ff_pickle **pickle, ff_torch_names *names, const ff_pickle_file *at,
                               ff_error *error) {
    static const ff_pickle_reader reader = {
        .holds = "numbers, strings, lists, dicts and PyTorch's tensors",
        .array = "a tensor",
        .type = "a storage",
        .skips = true,
        .import = import,
        .call = call,
        .build = build,
        .persistent = persistent};
    return ff_pickle_read(pickle, &reader, names, at, error);
}

const char *ff_torch_what(const ff_pickle *pickle, ff_pickle_value value, char *text, size_t size) {
    const ff_pickle_node *node = &pickle->node[value];
    const ff_torch_names *names = pickle->context;
    const int64_t number = node->integer - SKIPPED;
    if (node->kind == FF_PICKLE_OTHER && number >= 0 && (uint64_t)number < names->count)
        snprintf(text, size, "an object of %s", names->name[number]);
    else
        snprintf(text, size, "%s", ff_pickle_kind_name(pickle, node->kind));
    return text;
}
