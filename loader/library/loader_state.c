/* A loader's description of itself, and its position. */
#include "loader/library/loader.h"
#include "loader/library/status.h"
#include "loader/library/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- description ---------------------------------------------------------------------------- */

static json_t *numbers(const int64_t *value, int count) {
    json_t *array = json_array();
    for (int i = 0; array && i < count; i++) ff_json_append(&array, json_integer(value[i]));
    return array;
}

static json_t *tensors_array(const ff_library_plan *plan) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < plan->count; i++) {
        ff_library_tensor tensor;
        ff_library_plan_describe(plan, i, plan->rows, NULL, &tensor);
        const int rank = tensor.dl.ndim;
        json_t *item =
            json_pack("{s:o, s:s, s:o, s:o}", "name",
                      ff_json_bytes(plan->tensor[i].name, strlen(plan->tensor[i].name)), "dtype",
                      ff_dtype_name(plan->tensor[i].dtype), "shape", numbers(tensor.shape, rank),
                      "strides", numbers(tensor.strides, rank));
        ff_json_append(&array, item);
    }
    return array;
}

static ff_status describe(ffload_loader *loader, const char **out, ff_error *error) {
    const ff_loader_info info = ff_library_info(loader);
    const ff_library_plan *plan = loader->plan;
    const ff_library_gpu *gpu = &loader->gpu;
    const ff_batches_info batches = gpu->batches
                                        ? ff_batches_describe(gpu->batches)
                                        : (ff_batches_info){.placement = FF_PLACEMENT_HOST};
    char device[16] = "cpu";
    if (gpu->device) snprintf(device, sizeof device, "cuda:%d", gpu->device->ordinal);
    json_t *json = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:I, s:s, s:s, s:s, s:s, s:s, s:o}",
        "batches", (json_int_t)info.batches_per_epoch, "samples", (json_int_t)info.samples, "rows",
        (json_int_t)info.rows, "batch_size", (json_int_t)loader->settings.loader.batch, "channels",
        (json_int_t)plan->channels, "height", (json_int_t)plan->height, "width",
        (json_int_t)plan->width, "dtype", ff_dtype_name(plan->tensor[0].dtype), "layout",
        plan->layout == FF_CHW ? "contiguous" : "channels_last", "threads", info.threads, "slots",
        (json_int_t)info.slots, "device", device, "placement", ff_placement_name(batches.placement),
        "reason",
        batches.reason ? batches.reason : "Placement: host, because the device is the CPU.",
        "reading", ff_loader_say_reading(&info).text, "advice", ff_loader_say_cache(&info).text,
        "tensors", tensors_array(plan));
    return ff_library_keep_text(&loader->json, json, out, error);
}

int ffload_loader_describe(ffload_loader *loader, const char **json, ffload_error *error) {
    ff_error inner;
    if (json) *json = NULL;
    ff_status status = ff_library_look(loader, FF_LIBRARY_GIVEN(&inner, loader, json), &inner);
    if (status == FF_OK) status = ff_library_look_away(loader, describe(loader, json, &inner));
    return ff_library_end(status, &inner, error);
}

uint64_t ffload_loader_length(const ffload_loader *loader) {
    return loader ? loader->length : 0;
}

/* ---- position ------------------------------------------------------------------------------- */

/* Without a returned batch, or with epochs without end, the next batch is the same anyway. */
static ff_status seek(ffload_loader *loader, uint32_t epoch, uint64_t position, uint32_t cut,
                      ff_error *error) {
    const ff_loader_position *next = &loader->next;
    const bool counts = loader->settings.loader.epochs != 0 && !loader->fresh;
    if (!counts && epoch == next->epoch && position == next->position && cut == next->cut)
        return FF_OK;
    return ff_library_seek(loader, epoch, position, cut, error);
}

int ffload_loader_seek(ffload_loader *loader, uint32_t epoch, uint64_t position,
                       ffload_error *error) {
    ff_error inner;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader), &inner);
    if (status == FF_OK)
        status = ff_library_leave(loader, seek(loader, epoch, position, 0, &inner));
    return ff_library_end(status, &inner, error);
}

/* The options that decide which samples come, with this loader's values. */
typedef struct fact {
    const char *name;
    uint64_t value;
} fact;
enum { FACTS = 6 };

/* Their number: the last one is of order node-block alone. */
static int list_facts(const ffload_loader *loader, fact facts[FACTS]) {
    const ff_loader_info info = ff_library_info(loader);
    const ff_loader_options *options = &loader->settings.loader;
    const bool blocks = ff_order_has_blocks(options->order);
    const fact all[FACTS] = {{"seed", options->seed},
                             {"batch_size", options->batch},
                             {"samples", info.samples},
                             {"block", blocks ? info.block : 0},
                             {"group", blocks ? info.group : 0},
                             {"machines", info.machines}};
    memcpy(facts, all, sizeof all);
    return options->order == FF_ORDER_NODE_BLOCK ? FACTS : FACTS - 1;
}

/* *json = NULL without memory. */
static void set_member(json_t **json, const char *name, json_t *value) {
    if (*json && json_object_set_new(*json, name, value) == 0) return;
    json_decref(*json);
    *json = NULL;
}

/* The content id of several sets, as JSON and in hexadecimal; "" for a single set. */
static const char sets_name[] = "sets";

static void id_of_sets(const ffload_loader *loader, char text[33]) {
    const ff_dataset *dataset = loader->dataset->inner;
    *text = 0;
    if (ff_dataset_set_count(dataset) > 1) ff_hex(text, ff_dataset_id(dataset)->content, 16);
}

/* Which rows of a batch its cuts have: a state between them belongs to these. */
typedef struct cuts_text {
    char text[80];
} cuts_text;

static cuts_text say_cuts(const ffload_loader *loader) {
    const ff_loader_options *options = &loader->settings.loader;
    cuts_text said;
    snprintf(said.text, sizeof said.text, "cuts=%u and world=%u%s", options->cuts,
             options->share_total, ff_augment_mixes(&options->augment) ? ", mixed in pairs" : "");
    return said;
}

static ff_status write_state(ffload_loader *loader, const char **out, ff_error *error) {
    fact facts[FACTS];
    char sets[33];
    const int count = list_facts(loader, facts);
    json_t *json = json_pack("{s:I, s:I, s:s, s:s, s:s}", "epoch", (json_int_t)loader->next.epoch,
                             "position", (json_int_t)loader->next.position, "order",
                             ff_order_name(loader->settings.loader.order), "selection",
                             ff_selection_say(loader->settings.loader.selection).text, "sampling",
                             ff_loader_say_sampling(&loader->settings.loader).text);
    for (int i = 0; i < count; i++)
        set_member(&json, facts[i].name, json_integer((json_int_t)facts[i].value));
    id_of_sets(loader, sets);
    if (*sets) set_member(&json, sets_name, json_string(sets));
    if (loader->next.cut) {
        set_member(&json, "cut", json_integer(loader->next.cut));
        set_member(&json, "cuts", json_string(say_cuts(loader).text));
    }
    return ff_library_keep_text(&loader->state, json, out, error);
}

int ffload_loader_state(ffload_loader *loader, const char **json, ffload_error *error) {
    ff_error inner;
    if (json) *json = NULL;
    ff_status status = ff_library_look(loader, FF_LIBRARY_GIVEN(&inner, loader, json), &inner);
    if (status == FF_OK) status = ff_library_look_away(loader, write_state(loader, json, &inner));
    return ff_library_end(status, &inner, error);
}

static ff_status read_number(const json_t *json, const char *name, uint64_t most, uint64_t *value,
                             ff_error *error) {
    const json_t *number = json_object_get(json, name);
    const json_int_t whole = json_integer_value(number);
    *value = 0;
    if (!json_is_integer(number) || whole < 0 || (uint64_t)whole > most)
        return ff_fail(error, FF_USAGE, "the state of a loader has no %s, or one out of range",
                       name);
    *value = (uint64_t)whole;
    return FF_OK;
}

static ff_status compare_sets(const ffload_loader *loader, const json_t *json, ff_error *error) {
    const char *sets = json_string_value(json_object_get(json, sets_name));
    char own[33];
    id_of_sets(loader, own);
    if (!strcmp(sets ? sets : "", own)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the state belongs to %s%s, but this loader has %s%s: other sets, or the same "
                   "ones in another order",
                   sets ? "sets with the content id " : "a single set", sets ? sets : "",
                   *own ? "sets with the content id " : "a single set", own);
}

/* Refuses a state that belongs to other batches. */
static ff_status compare_facts(const ffload_loader *loader, const json_t *json, ff_error *error) {
    fact facts[FACTS];
    const char *order = json_string_value(json_object_get(json, "order"));
    const char *own = ff_order_name(loader->settings.loader.order);
    const int count = list_facts(loader, facts);
    if (!order || strcmp(order, own) != 0)
        return ff_fail(error, FF_USAGE, "the state has order %s, but this loader has %s",
                       order ? order : "unknown", own);
    FF_TRY(compare_sets(loader, json, error));
    const ff_selection_text selected = ff_selection_say(loader->settings.loader.selection);
    const char *selection = json_string_value(json_object_get(json, "selection"));
    /* Versions without selections did not write it. */
    if (!selection) selection = ff_selection_say(NULL).text;
    if (strcmp(selection, selected.text) != 0)
        return ff_fail(error, FF_USAGE, "the state belongs to %s, but this loader has %s",
                       selection, selected.text);
    const ff_sampling_text sampled = ff_loader_say_sampling(&loader->settings.loader);
    const char *sampling = json_string_value(json_object_get(json, "sampling"));
    if (!sampling) sampling = "each sample once"; /* a version without sampling wrote the state */
    if (strcmp(sampling, sampled.text) != 0)
        return ff_fail(error, FF_USAGE, "the state belongs to %s, but this loader has %s", sampling,
                       sampled.text);
    for (int i = 0; i < count; i++) {
        uint64_t value;
        FF_TRY(read_number(json, facts[i].name, INT64_MAX, &value, error));
        if (value != facts[i].value)
            return ff_fail(error, FF_USAGE,
                           "the state has %s %" PRIu64 ", but this loader has %" PRIu64,
                           facts[i].name, value, facts[i].value);
    }
    return FF_OK;
}

/* The cut to begin with; 0 in a state that was written after a whole batch. */
static ff_status read_cut(const ffload_loader *loader, const json_t *json, uint64_t *cut,
                          ff_error *error) {
    const char *cuts = json_string_value(json_object_get(json, "cuts"));
    *cut = 0;
    if (!json_object_get(json, "cut")) return FF_OK;
    FF_TRY(read_number(json, "cut", UINT32_MAX, cut, error));
    if (*cut == 0 || (cuts && !strcmp(cuts, say_cuts(loader).text))) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "the state was saved after cut %" PRIu64
                   " of a batch with %s, but this loader has %s; wanted the same, or a state saved "
                   "after a whole batch",
                   *cut, cuts ? cuts : "unknown cuts", say_cuts(loader).text);
}

static ff_status restore(ffload_loader *loader, const char *text, ff_error *error) {
    uint64_t epoch = 0, position = 0, cut = 0;
    ff_status status;
    json_t *json = json_loads(text, 0, NULL);
    if (!json) return ff_fail(error, FF_USAGE, "the state of a loader is not JSON text");
    FF_TRY_DONE(compare_facts(loader, json, error));
    FF_TRY_DONE(read_number(json, "epoch", UINT32_MAX, &epoch, error));
    FF_TRY_DONE(read_number(json, "position", INT64_MAX, &position, error));
    FF_TRY_DONE(read_cut(loader, json, &cut, error));
    status = seek(loader, (uint32_t)epoch, position, (uint32_t)cut, error);
done:
    json_decref(json);
    return status;
}

int ffload_loader_restore(ffload_loader *loader, const char *json, ffload_error *error) {
    ff_error inner;
    ff_status status = ff_library_enter(loader, FF_LIBRARY_GIVEN(&inner, loader, json), &inner);
    if (status == FF_OK) status = ff_library_leave(loader, restore(loader, json, &inner));
    return ff_library_end(status, &inner, error);
}
