#include "loader/library/options_table.h"

#include "format/reader/reader.h"
#include "format/storage/options.h"
#include "loader/library/status.h"
#include "loader/library/text.h"

#include <string.h>

void ff_library_list_options(ffload_options *to, ff_option table[FF_LIBRARY_OPTIONS_MOST]) {
    const double most_seeds = 9007199254740992.0; /* whole numbers that a double holds */
    const double u32 = UINT32_MAX;
    const ff_option all[] = {
        {.name = "batch_size",
         .kind = FF_OPTION_INTEGER,
         .target = &to->batch_size,
         .minimum = 1,
         .maximum = 1 << 24},
        {.name = "augment", .kind = FF_OPTION_STRING, .target = &to->augment},
        {.name = "size", .kind = FF_OPTION_STRING, .target = &to->size},
        {.name = "views", .kind = FF_OPTION_STRING, .target = &to->views},
        {.name = "dtype",
         .kind = FF_OPTION_CHOICE,
         .target = &to->dtype,
         .choices = "f32|f16|bf16|u8|u16"},
        {.name = "layout",
         .kind = FF_OPTION_CHOICE,
         .target = &to->layout,
         .choices = "contiguous|channels_last"},
        {.name = "label", .kind = FF_OPTION_STRING, .target = &to->label},
        {.name = "indices", .kind = FF_OPTION_STRING, .target = &to->indices},
        {.name = "where", .kind = FF_OPTION_STRING, .target = &to->where},
        {.name = "split", .kind = FF_OPTION_STRING, .target = &to->split},
        {.name = "fold", .kind = FF_OPTION_STRING, .target = &to->fold},
        {.name = "weights", .kind = FF_OPTION_STRING, .target = &to->weights},
        {.name = "replacement",
         .kind = FF_OPTION_CHOICE,
         .target = &to->replacement,
         .choices = "yes|no"},
        {.name = "shares", .kind = FF_OPTION_STRING, .target = &to->shares},
        {.name = "shares_of",
         .kind = FF_OPTION_CHOICE,
         .target = &to->shares_of,
         .choices = "epoch|batch"},
        {.name = "samples_per_epoch",
         .kind = FF_OPTION_INTEGER,
         .target = &to->samples_per_epoch,
         .choices = "all",
         .minimum = 1,
         .maximum = most_seeds},
        {.name = "repeats",
         .kind = FF_OPTION_INTEGER,
         .target = &to->repeats,
         .minimum = 1,
         .maximum = 1 << 16},
        {.name = "per_class",
         .kind = FF_OPTION_INTEGER,
         .target = &to->per_class,
         .choices = "none",
         .minimum = 1,
         .maximum = 1 << 24},
        {.name = "label_dtype",
         .kind = FF_OPTION_CHOICE,
         .target = &to->label_dtype,
         .choices = "i32|i64"},
        {.name = "last_batch",
         .kind = FF_OPTION_CHOICE,
         .target = &to->last_batch,
         .choices = "drop|keep|pad"},
        {.name = "order",
         .kind = FF_OPTION_CHOICE,
         .target = &to->order,
         .choices = "random|block|sequential"},
        {.name = "block",
         .kind = FF_OPTION_INTEGER,
         .target = &to->block,
         .choices = "auto",
         .minimum = 1,
         .maximum = most_seeds},
        {.name = "group",
         .kind = FF_OPTION_INTEGER,
         .target = &to->group,
         .choices = "auto",
         .minimum = 1,
         .maximum = most_seeds},
        {.name = "seed", .kind = FF_OPTION_INTEGER, .target = &to->seed, .maximum = most_seeds},
        {.name = "epoch", .kind = FF_OPTION_INTEGER, .target = &to->epoch, .maximum = u32},
        {.name = "position",
         .kind = FF_OPTION_INTEGER,
         .target = &to->position,
         .maximum = most_seeds},
        {.name = "epochs", .kind = FF_OPTION_INTEGER, .target = &to->epochs, .maximum = u32},
        {.name = "rank", .kind = FF_OPTION_INTEGER, .target = &to->rank, .maximum = u32 - 1},
        {.name = "world",
         .kind = FF_OPTION_INTEGER,
         .target = &to->world,
         .minimum = 1,
         .maximum = u32},
        {.name = "cuts",
         .kind = FF_OPTION_INTEGER,
         .target = &to->cuts,
         .minimum = 1,
         .maximum = 1 << 24},
        {.name = "workers",
         .kind = FF_OPTION_INTEGER,
         .target = &to->workers,
         .choices = "auto",
         .maximum = 1024},
        {.name = "prefetch",
         .kind = FF_OPTION_INTEGER,
         .target = &to->prefetch,
         .choices = "auto",
         .minimum = 1,
         .maximum = 4096},
        {.name = "verify",
         .kind = FF_OPTION_CHOICE,
         .target = &to->verify,
         .choices = "off|first|always"},
        {.name = "device", .kind = FF_OPTION_STRING, .target = &to->device},
        {.name = "placement",
         .kind = FF_OPTION_CHOICE,
         .target = &to->placement,
         .choices = "auto|resident|stream|host"},
        {.name = "reserve", .kind = FF_OPTION_INTEGER, .target = &to->reserve, .maximum = 1 << 30},
        {.name = "memory",
         .kind = FF_OPTION_BYTES,
         .target = &to->memory,
         .minimum = 1,
         .maximum = 1e18},
        {.name = "local_world",
         .kind = FF_OPTION_INTEGER,
         .target = &to->local_world,
         .minimum = 1,
         .maximum = u32},
        FF_STORAGE_CACHE("cache", to->storage, FF_SAYS_PHRASE),
        FF_STORAGE_CACHE_SIZE("cache_size", to->storage, FF_SAYS_PHRASE),
        FF_STORAGE_TIMEOUT("storage_timeout", to->storage, FF_SAYS_PHRASE),
        FF_STORAGE_ENDPOINT("endpoint", to->storage, FF_SAYS_PHRASE),
        {.name = NULL},
    };
    _Static_assert(sizeof all <= FF_LIBRARY_OPTIONS_MOST * sizeof *table, "the table has room");
    memcpy(table, all, sizeof all);
    for (ff_option *option = table; option->name; option++) option->letter = FF_OPTION_BARE;
}

const ffload_options ff_library_default_options = {.batch_size = 256,
                                                   .epochs = 1,
                                                   .repeats = 1,
                                                   .world = 1,
                                                   .local_world = 1,
                                                   .cuts = 1,
                                                   .workers = -1,
                                                   .verify = FF_VERIFY_FIRST};

/* ---- described ------------------------------------------------------------------------------ */

/* A choice's words, or the word that a number may be; NULL = none. */
static json_t *words_of(const char *choices) {
    json_t *words = choices ? json_array() : NULL;
    for (const char *word = choices; words && word; word = strchr(word, '|')) {
        word += *word == '|';
        ff_json_append(&words, json_stringn(word, strcspn(word, "|")));
    }
    return words;
}

static json_t *value_of(const ff_option *option, const json_t *words) {
    switch (option->kind) {
    case FF_OPTION_CHOICE:
        return json_incref(json_array_get(words, (size_t) * (const int *)option->target));
    case FF_OPTION_INTEGER: {
        const int64_t value = *(const int64_t *)option->target;
        const bool word = words && (double)value < option->minimum;
        if (!words && (double)value < option->minimum) return json_null();
        return word ? json_incref(json_array_get(words, 0)) : json_integer(value);
    }
    case FF_OPTION_BYTES: {
        const uint64_t bytes = *(const uint64_t *)option->target;
        return bytes ? json_integer((json_int_t)bytes) : json_null();
    }
    default: return json_string(*(const char *const *)option->target);
    }
}

static json_t *option_json(const ff_option *option) {
    static const char *const kinds[] = {[FF_OPTION_STRING] = "text",
                                        [FF_OPTION_INTEGER] = "integer",
                                        [FF_OPTION_BYTES] = "bytes",
                                        [FF_OPTION_CHOICE] = "choice"};
    const bool number = option->kind == FF_OPTION_INTEGER || option->kind == FF_OPTION_BYTES;
    json_t *words = words_of(option->choices);
    json_t *json = json_pack("{s:s, s:s, s:o?, s:O?}", "name", option->name, "kind",
                             kinds[option->kind], "value", value_of(option, words), "words", words);
    json_decref(words);
    if (number && json &&
        (json_object_set_new(json, "minimum", json_integer((json_int_t)option->minimum)) ||
         json_object_set_new(json, "maximum", json_integer((json_int_t)option->maximum)))) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static ff_status describe(ffload_options *options, const char **out, ff_error *error) {
    ff_option table[FF_LIBRARY_OPTIONS_MOST];
    json_t *json = json_array();
    ff_library_list_options(options, table);
    for (const ff_option *option = table; option->name; option++)
        ff_json_append(&json, option_json(option));
    return ff_library_keep_text(&options->json, json, out, error);
}

int ffload_options_describe(ffload_options *options, const char **json, ffload_error *error) {
    ff_error inner;
    if (json) *json = NULL;
    ff_status status = FF_LIBRARY_GIVEN(&inner, options, json);
    if (status == FF_OK) status = describe(options, json, &inner);
    return ff_library_end(status, &inner, error);
}
