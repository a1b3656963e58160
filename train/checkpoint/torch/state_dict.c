#include "train/checkpoint/torch/state_dict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 3, NAME_BYTES = 512, WHAT_BYTES = 600, SHOWN = 8 };
/* The most entries of a dict that the search looks at: a pickle may hold one dict many times. */
enum { LOOKED_AT = 4096 };

/* The entries in which training programs put weights, and averages: torchvision's references
 * ("model", "model_ema"), PyTorch's ImageNet example and Lightning ("state_dict"), timm
 * ("state_dict", "state_dict_ema"), and others. */
static const char *const plain[] = {"state_dict", "model",   "model_state_dict", "model_state",
                                    "net",        "network", "weights"};
static const char *const averaged[] = {"state_dict_ema", "model_ema", "ema_state_dict",
                                       "model_ema_state_dict", "ema"};

static bool is_text(const ff_pickle *pickle, ff_pickle_value value) {
    const ff_pickle_kind kind = ff_pickle_kind_of(pickle, value);
    return kind == FF_PICKLE_TEXT || kind == FF_PICKLE_BYTES;
}

static uint32_t looked_at(const ff_pickle *pickle, ff_pickle_value dict) {
    const uint32_t count = ff_pickle_count(pickle, dict);
    return count < 2 * LOOKED_AT ? count : 2 * LOOKED_AT;
}

/* Whether the value is a dict that holds a named tensor. */
static bool has_tensors(const ff_pickle *pickle, ff_pickle_value dict) {
    if (ff_pickle_kind_of(pickle, dict) != FF_PICKLE_DICT) return false;
    for (uint32_t i = 0; i + 1 < looked_at(pickle, dict); i += 2)
        if (is_text(pickle, ff_pickle_item(pickle, dict, i)) &&
            ff_pickle_kind_of(pickle, ff_pickle_item(pickle, dict, i + 1)) == FF_PICKLE_ARRAY)
            return true;
    return false;
}

static ff_status enter(ff_state_dict *state, const char *name, ff_error *error) {
    char *longer;
    FF_TRY(ff_format(&longer, error, "%s%s%s", state->part ? state->part : "",
                     state->part ? "." : "", name));
    free(state->part);
    state->part = longer;
    return FF_OK;
}

/* ---- what the file holds, for messages ---- */

/* "epoch (a whole number), model (an object of x.y), ..." */
static ff_status list_keys(ff_pickle *pickle, ff_pickle_value dict, ff_buffer *text,
                           ff_error *error) {
    const uint32_t count = ff_pickle_count(pickle, dict);
    char what[WHAT_BYTES], key[64];
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        if (i / 2 == SHOWN) return ff_buffer_printf(text, error, ", ...");
        char *name = NULL;
        size_t length = 0;
        if (!is_text(pickle, ff_pickle_item(pickle, dict, i)) ||
            ff_pickle_text(pickle, ff_pickle_item(pickle, dict, i), sizeof key - 1, &name, &length,
                           NULL) != FF_OK)
            snprintf(key, sizeof key, "a key that is not a short string");
        else
            snprintf(key, sizeof key, "%s", name);
        free(name);
        for (char *c = key; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
        FF_TRY(ff_buffer_printf(
            text, error, "%s%s (%s)", i ? ", " : "", key,
            ff_torch_what(pickle, ff_pickle_item(pickle, dict, i + 1), what, sizeof what)));
    }
    return FF_OK;
}

static ff_status refuse(ff_pickle *pickle, ff_pickle_value dict, const char *path, bool average,
                        ff_error *error) {
    ff_buffer text = {0};
    ff_status status = list_keys(pickle, dict, &text, error);
    if (status == FF_OK && average)
        status = ff_fail(error, FF_USAGE,
                         "--ema: %s has no average of the weights, no model_ema and no "
                         "state_dict_ema; it has %s",
                         path, text.length ? text.bytes : "nothing");
    else if (status == FF_OK)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: no state_dict is found in it; it has %s; if one of these holds it, "
                         "this makes a plain file: python3 -c 'import torch; "
                         "torch.save(torch.load(\"%s\", weights_only=False)[\"NAME\"], "
                         "\"weights.pth\")'",
                         path, text.length ? text.bytes : "nothing", path);
    ff_buffer_free(&text);
    return status;
}

/* Reports an object of a class: a whole model was pickled. */
static ff_status refuse_object(const ff_state_dict *state, const ff_pickle *pickle,
                               ff_pickle_value value, const char *path, ff_error *error) {
    char what[WHAT_BYTES], part[WHAT_BYTES + 8] = "";
    if (state->part) snprintf(part, sizeof part, "[\"%s\"]", state->part);
    const bool object = ff_pickle_kind_of(pickle, value) == FF_PICKLE_OTHER;
    ff_torch_what(pickle, value, what, sizeof what);
    if (!object)
        return ff_fail(error, FF_BAD_DATA, "%s: holds %s; a state_dict is wanted", path, what);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: %s%s%sholds %s, which is not read; if it is a whole model, this saves its "
                   "weights: python3 -c 'import torch; torch.save(torch.load(\"%s\", "
                   "weights_only=False)%s.state_dict(), \"weights.pth\")'",
                   path, state->part ? "its '" : "", state->part ? state->part : "",
                   state->part ? "' " : "", what, path, part);
}

/* ---- the search ---- */

/* The first of the usual names under which the dict has tensors; if `any`, also a dict or an object
 * of a class. *name = NULL if no name matches. */
static ff_status find_named(ff_pickle *pickle, ff_pickle_value dict, bool average, bool any,
                            const char **name, ff_pickle_value *value, ff_error *error) {
    const char *const *names = average ? averaged : plain;
    const size_t count =
        average ? sizeof averaged / sizeof *averaged : sizeof plain / sizeof *plain;
    *name = NULL;
    for (size_t i = 0; i < count && !*name; i++) {
        bool found;
        ff_pickle_value one = dict;
        FF_TRY(ff_pickle_find(pickle, dict, names[i], &found, &one, error));
        if (!found) continue;
        const ff_pickle_kind kind = ff_pickle_kind_of(pickle, one);
        if (!has_tensors(pickle, one) &&
            !(any && (kind == FF_PICKLE_DICT || kind == FF_PICKLE_OTHER)))
            continue;
        *name = names[i];
        *value = one;
    }
    return FF_OK;
}

/* Counts the entries that are dicts with tensors; if there is exactly one, returns its name and
 * value. */
static ff_status find_only(ff_pickle *pickle, ff_pickle_value dict, int *count, char **name,
                           ff_pickle_value *value, ff_error *error) {
    uint32_t at = 0;
    *count = 0;
    *name = NULL;
    for (uint32_t i = 0; i + 1 < looked_at(pickle, dict); i += 2)
        if (is_text(pickle, ff_pickle_item(pickle, dict, i)) &&
            has_tensors(pickle, ff_pickle_item(pickle, dict, i + 1))) {
            ++*count;
            at = i;
        }
    if (*count != 1) return FF_OK;
    *value = ff_pickle_item(pickle, dict, at + 1);
    return ff_pickle_text(pickle, ff_pickle_item(pickle, dict, at), NAME_BYTES, name, NULL, error);
}

/* Descends by one level from the dict *at; *found: *at already holds the weights. */
static ff_status step(ff_state_dict *state, ff_pickle *pickle, const char *path, bool average,
                      ff_pickle_value *at, bool *found, ff_error *error) {
    const ff_pickle_value dict = *at;
    const char *name;
    char *only = NULL;
    int parts = 0;
    if (ff_pickle_kind_of(pickle, dict) != FF_PICKLE_DICT)
        return refuse_object(state, pickle, dict, path, error);
    FF_TRY(find_named(pickle, dict, average, false, &name, at, error));
    if (!name && average) return refuse(pickle, dict, path, true, error);
    if (!name) FF_TRY(find_only(pickle, dict, &parts, &only, at, error));
    if (!name && !parts) FF_TRY(find_named(pickle, dict, false, true, &name, at, error));
    /* In a dict that also has parts with tensors, its own tensors are an accuracy or a step. */
    *found = !name && !parts && has_tensors(pickle, dict);
    if (*found) return FF_OK;
    if (!name && !only) return refuse(pickle, dict, path, false, error);
    const ff_status status = enter(state, only ? only : name, error);
    free(only);
    return status;
}

static ff_status search(ff_state_dict *state, ff_pickle *pickle, const char *path, bool average,
                        ff_pickle_value *at, ff_error *error) {
    bool found = false;
    for (int depth = 0; depth <= DEPTH; depth++) {
        FF_TRY(step(state, pickle, path, average && !depth, at, &found, error));
        if (found) return FF_OK;
    }
    return ff_fail(error, FF_BAD_DATA, "%s: its '%s' lies too deep in it", path, state->part);
}

/* ---- the tensors ---- */

static ff_status add_tensor(ff_state_dict *state, ff_pickle *pickle, ff_pickle_value key,
                            ff_pickle_value value, const char *path, ff_error *error) {
    const ff_pickle_kind kind = ff_pickle_kind_of(pickle, value);
    char **name = &state->name[state->count], what[WHAT_BYTES];
    size_t length;
    if (!is_text(pickle, key) || (kind != FF_PICKLE_ARRAY && kind != FF_PICKLE_OTHER)) return FF_OK;
    FF_TRY(ff_pickle_text(pickle, key, NAME_BYTES, name, &length, error));
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)(*name)[i] < ' ' || (*name)[i] == 0x7f) {
            free(*name);
            *name = NULL;
            return ff_fail(error, FF_BAD_DATA, "%s: a tensor's name has control characters", path);
        }
    if (kind == FF_PICKLE_OTHER) {
        const ff_status status =
            ff_fail(error, FF_BAD_DATA, "%s: '%s' is %s, and no tensor that is read", path, *name,
                    ff_torch_what(pickle, value, what, sizeof what));
        free(*name);
        *name = NULL;
        return status;
    }
    state->tensor[state->count++] = *ff_torch_tensor_of(pickle, value);
    return FF_OK;
}

ff_status ff_state_dict_find(ff_state_dict *state, ff_pickle *pickle, const char *path,
                             bool average, ff_error *error) {
    ff_pickle_value dict = ff_pickle_root(pickle);
    FF_TRY(search(state, pickle, path, average, &dict, error));
    const uint32_t count = ff_pickle_count(pickle, dict);
    FF_TRY(ff_alloc(&state->name, count / 2 + 1, sizeof *state->name, "a state_dict", error));
    FF_TRY(ff_alloc(&state->tensor, count / 2 + 1, sizeof *state->tensor, "a state_dict", error));
    for (uint32_t i = 0; i + 1 < count; i += 2)
        FF_TRY(add_tensor(state, pickle, ff_pickle_item(pickle, dict, i),
                          ff_pickle_item(pickle, dict, i + 1), path, error));
    return FF_OK;
}

void ff_state_dict_free(ff_state_dict *state) {
    for (size_t i = 0; i < state->count; i++) free(state->name[i]);
    free(state->name);
    free(state->tensor);
    free(state->part);
    *state = (ff_state_dict){0};
}
