/* Writes a packed set of synthetic images, for tests of everything that reads sets, and for the
 * golden files. Every feature of the format has an option. The same options give the same bytes: it
 * uses only integer arithmetic and correctly rounded float operations.
 *
 * `make_set DIR --count 20 ...` writes the split folder DIR; `--splits train,test` writes DIR/train
 * and DIR/test. Exit codes as in the other programs. */
#include "format/cli/options.h"
#include "format/disk/checksum.h"
#include "tests/unit/packed_set.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { DTYPES = 5 };

typedef struct make_options {
    int dtype, layout, filter;
    int64_t channels, height, width, count, classes, level, skip_every, shuffle, seed, alignment;
    uint64_t shard_bytes;
    int64_t version;
    bool variable, statistics, noise, specials, odd_names, odd_keys, unlabeled;
    const char *fields, *splits, *skip_range, *append, *part;
} make_options;

/* The split being written, and the current sample. */
typedef struct maker {
    const make_options *options;
    ff_metadata metadata;
    uint64_t seed, skip_begin, skip_end;
    uint8_t *pixels;    /* [C,H,W] u8: what the source would hold */
    uint8_t **label;    /* [field_count] */
    uint64_t *position; /* [items of the generation]: storage position -> item */
} maker;

static uint64_t mix(uint64_t value) {
    /* splitmix64's finalizer (S. Vigna, public domain). */
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static uint64_t draw(const maker *make, uint64_t item, uint64_t which) {
    return mix(mix(make->seed + item) + which);
}

static int64_t class_of(const maker *make, uint64_t item) {
    if (make->options->unlabeled && item % 10 == 7) return -1;
    return (int64_t)(draw(make, item, 1) % (uint64_t)make->options->classes);
}

/* ---- images --------------------------------------------------------------------------------- */

/* A shape per class, light on a coloured gradient, so that contact sheets show something. */
static uint8_t pixel(const maker *make, uint64_t item, int64_t c, int64_t y, int64_t x, int64_t h,
                     int64_t w) {
    uint64_t look = draw(make, item, 2);
    int64_t side = h < w ? h : w, radius = side * (5 + (int64_t)(look & 3)) / 24 + 1;
    int64_t dy = y - h / 2 - (int64_t)(look >> 8 & 7) * h / 80, dx = x - w / 2;
    int64_t far = dy * dy + dx * dx, ady = dy < 0 ? -dy : dy, adx = dx < 0 ? -dx : dx;
    bool inside;
    switch (class_of(make, item) % 6) {
    case 0: inside = far <= radius * radius; break;
    case 1: inside = ady <= radius && adx <= radius; break;
    case 2: inside = far <= radius * radius && far * 4 >= radius * radius; break;
    case 3: inside = ady + adx <= radius; break;
    case 4:
        inside = (ady * 3 <= radius || adx * 3 <= radius) && ady <= radius && adx <= radius;
        break;
    default: inside = dy <= radius && dy >= -radius && adx * 2 <= dy + radius; break;
    }
    int64_t base = (int64_t)(look >> (16 + 8 * (c % 4)) & 127);
    int64_t value = inside ? 255 - base / 2 : base / 2 + 60 * y / h + 40 * x / w;
    value += (int64_t)(mix(look + (uint64_t)((c * h + y) * w + x)) % 9) - 4;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static float mean_of(int64_t channel) {
    return 0.25f + 0.0625f * (float)(channel % 5);
}
static float std_of(int64_t channel) {
    return 0.25f + 0.03125f * (float)(channel % 7);
}

/* A byte after ToTensor and Normalize; integers are stored unchanged. */
static void element(const maker *make, int64_t channel, uint8_t value, void *to) {
    ff_dtype dtype = make->metadata.dtype;
    if (dtype == FF_U8) {
        *(uint8_t *)to = value;
    } else if (dtype == FF_U16) {
        ff_store_u16(to, (uint16_t)(value * 257));
    } else {
        float real = (float)value / 255.0f;
        if (make->options->statistics) real = (real - mean_of(channel)) / std_of(channel);
        ff_convert(to, dtype, &real, FF_F32, 1);
    }
}

static void fill_pixels(const maker *make, uint64_t item, uint32_t height, uint32_t width) {
    for (int64_t c = 0; c < make->options->channels; c++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++)
                make->pixels[((size_t)c * height + (size_t)y) * width + (size_t)x] =
                    pixel(make, item, c, y, x, height, width);
}

static void fill_tensor(const maker *make, uint64_t item, uint32_t height, uint32_t width,
                        char *tensor) {
    const ff_metadata *metadata = &make->metadata;
    size_t bytes = ff_dtype_bytes(metadata->dtype), area = (size_t)height * width;
    for (size_t c = 0; c < metadata->channels; c++)
        for (size_t i = 0; i < area; i++) {
            size_t at = metadata->layout == FF_CHW ? c * area + i : i * metadata->channels + c;
            element(make, (int64_t)c, make->pixels[c * area + i], tensor + at * bytes);
        }
    size_t count = area * metadata->channels;
    /* Values that no table of 256 holds: the low byte of each element is noise. */
    for (size_t i = 0; make->options->noise && i < count; i++)
        tensor[i * bytes] = (char)(mix(make->seed + item * 131 + i) & 255);
    if (make->options->specials && ff_dtype_is_float(metadata->dtype)) {
        static const uint32_t special[] = {0x7fc00000, 0x7f800000, 0xff800000};
        for (size_t i = 0; i < 3 && i < count; i++) {
            float value = ff_bits_float(special[(item + i) % 3]);
            if ((item + i) % 4 == 0)
                ff_convert(tensor + i * bytes, metadata->dtype, &value, FF_F32, 1);
        }
    }
}

/* ---- metadata ------------------------------------------------------------------------------- */

typedef struct known_field {
    const char *name;
    ff_field_kind kind;
    ff_dtype dtype;
    uint32_t width; /* 0 with a kind that has classes: as many as --classes */
    bool named;
} known_field;

static const known_field known_fields[] = {
    {"label", FF_FIELD_CLASS, FF_I32, 1, true},
    {"id", FF_FIELD_CLASS, FF_I64, 1, false},
    {"tags", FF_FIELD_MULTI_HOT, FF_U8, 5, true},
    {"wide-tags", FF_FIELD_MULTI_HOT, FF_U8, 40, false},
    {"soft", FF_FIELD_SOFT, FF_F32, 3, true},
    {"mix", FF_FIELD_SOFT, FF_F32, 10, false},
    {"box", FF_FIELD_VECTOR, FF_F32, 4, false},
    {"points", FF_FIELD_VECTOR, FF_I64, 7, false},
    {"halves", FF_FIELD_VECTOR, FF_F16, 3, false},
    {"bytes", FF_FIELD_VECTOR, FF_U8, 16, false},
    {"shorts", FF_FIELD_VECTOR, FF_U16, 9, false},
    {"brains", FF_FIELD_VECTOR, FF_BF16, 2, false},
    {"ints", FF_FIELD_VECTOR, FF_I32, 4, false},
    {"none", FF_FIELD_NONE, FF_U8, 0, false},
};
enum { KNOWN_FIELDS = sizeof known_fields / sizeof known_fields[0] };

static ff_status add_field(maker *make, const known_field *known, ff_error *error) {
    static const char *const odd[] = {"two words",    "100% \"quoted\"", "caf\xc3\xa9",
                                      "\xff\xfe\x01", "new\nline",       ""};
    static const char *const shape[] = {"disk", "square", "ring", "diamond", "cross", "triangle"};
    ff_metadata *metadata = &make->metadata;
    size_t field = metadata->field_count;
    FF_TRY(ff_metadata_add_field(metadata, known->name, known->kind, known->dtype, known->width,
                                 error));
    if (!known->named) return FF_OK;
    int64_t names = known->kind == FF_FIELD_CLASS ? make->options->classes : known->width;
    for (int64_t i = 0; i < names; i++) {
        char name[40];
        snprintf(name, sizeof name, i < 6 ? "%s" : "%s-%" PRId64, shape[i % 6], i);
        bool is_odd = make->options->odd_names && i < 6;
        FF_TRY(ff_metadata_add_class(metadata, field, is_odd ? odd[i] : name, error));
    }
    return FF_OK;
}

static ff_status add_fields(maker *make, ff_error *error) {
    const char *list = make->options->fields;
    if (!strcmp(list, "all")) {
        for (size_t i = 0; i < KNOWN_FIELDS; i++) FF_TRY(add_field(make, &known_fields[i], error));
        return FF_OK;
    }
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < KNOWN_FIELDS &&
               (strlen(known_fields[i].name) != length || memcmp(known_fields[i].name, at, length)))
            i++;
        if (i == KNOWN_FIELDS)
            return ff_fail(error, FF_USAGE, "--fields: no field '%.*s'", (int)length, at);
        FF_TRY(add_field(make, &known_fields[i], error));
        at += length + (at[length] == ',');
    }
    return FF_OK;
}

static ff_status add_statistics(maker *make, ff_error *error) {
    uint32_t channels = make->metadata.channels;
    float *values;
    ff_buffer line = {0};
    FF_TRY(ff_alloc(&values, 2 * (uint64_t)channels, sizeof *values, "statistics", error));
    ff_status status = ff_buffer_printf(&line, error, "normalize mean=");
    for (uint32_t c = 0; c < channels; c++) {
        values[c] = mean_of(c);
        values[channels + c] = std_of(c);
    }
    for (uint32_t c = 0; c < 2 * channels && status == FF_OK; c++)
        status = ff_buffer_printf(&line, error, "%s%08" PRIx32,
                                  c == channels ? " std="
                                  : c           ? ","
                                                : "",
                                  ff_float_bits(values[c]));
    if (status == FF_OK)
        status =
            ff_metadata_set_statistics(&make->metadata, values, values + channels, channels, error);
    if (status == FF_OK) status = ff_metadata_add_transform(&make->metadata, line.bytes, error);
    ff_buffer_free(&line);
    free(values);
    return status;
}

static ff_status add_table(maker *make, ff_error *error) {
    ff_metadata *metadata = &make->metadata;
    size_t bytes = ff_dtype_bytes(metadata->dtype);
    FF_TRY(ff_alloc(&metadata->table, metadata->channels, 256 * bytes, "a table", error));
    for (size_t c = 0; c < metadata->channels; c++)
        for (size_t i = 0; i < 256; i++)
            element(make, (int64_t)c, (uint8_t)i, metadata->table + (c * 256 + i) * bytes);
    return FF_OK;
}

static ff_status describe(maker *make, const char *split, uint64_t items, ff_error *error) {
    static const ff_dtype dtype[DTYPES] = {FF_U8, FF_U16, FF_F16, FF_BF16, FF_F32};
    const make_options *options = make->options;
    ff_metadata *metadata = &make->metadata;
    *metadata = (ff_metadata){.dtype = dtype[options->dtype],
                              .layout = options->layout ? FF_HWC : FF_CHW,
                              .channels = (uint32_t)options->channels,
                              .height = (uint32_t)options->height,
                              .width = (uint32_t)options->width,
                              .variable_size = options->variable,
                              .alignment = (uint32_t)options->alignment,
                              .items = items};
    FF_TRY(ff_copy_string(&metadata->split, split, error));
    if (options->level) {
        metadata->compression = FF_COMPRESSION_ZSTD;
        metadata->level = (int)options->level;
        metadata->filter = (ff_filter)options->filter;
        if (metadata->filter == FF_FILTER_TABLE) FF_TRY(add_table(make, error));
    }
    FF_TRY(ff_metadata_add_transform(metadata, "to_tensor scale=1/255", error));
    if (options->statistics) FF_TRY(add_statistics(make, error));
    FF_TRY(add_fields(make, error));
    FF_TRY(ff_metadata_add_provenance(metadata, "source", "made-up", error));
    /* No real version: golden files must stay the same bytes from release to release. */
    FF_TRY(ff_metadata_add_provenance(metadata, "ffpack", "0.0.0", error));
    if (options->shuffle >= 0)
        FF_TRY(ff_metadata_add_provenance(metadata, "option", "--shuffle", error));
    FF_TRY(ff_metadata_add_optional(metadata, "made-up", error));
    FF_TRY(ff_metadata_plan(metadata, options->shard_bytes, error));
    metadata->version = (uint32_t)options->version;
    return FF_OK;
}

/* The metadata of the next generation. */
static ff_status describe_next(maker *make, uint64_t items, ff_error *error) {
    ff_buffer text = {0};
    uint8_t id[16];
    ff_status status = ff_metadata_write(&make->metadata, &text, error);
    ff_id_store(id, XXH3_128bits(text.bytes, text.length));
    if (status == FF_OK) status = ff_metadata_append(&make->metadata, id, items, error);
    if (status == FF_OK)
        status = ff_metadata_add_provenance(&make->metadata, "source", "made-up, more", error);
    ff_buffer_free(&text);
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static void fill_label(const maker *make, uint64_t item, size_t index) {
    const ff_field *field = &make->metadata.field[index];
    uint8_t *to = make->label[index];
    size_t bytes = ff_dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->width; i++) {
        int64_t value = (int64_t)(draw(make, item, 1000 * (index + 1) + i) % 200);
        if (field->kind == FF_FIELD_CLASS) value = class_of(make, item);
        if (field->kind == FF_FIELD_MULTI_HOT) value = value % 3 == 0;
        if (field->kind == FF_FIELD_VECTOR && field->dtype != FF_U8 && field->dtype != FF_U16)
            value -= 100;
        /* Powers of two, so that probabilities add up to exactly 1. */
        float real = field->kind == FF_FIELD_SOFT
                         ? 1.0f / (float)(UINT64_C(1) << (i + 1 < field->width ? i + 1 : i))
                         : (float)value / 4;
        switch (field->dtype) {
        case FF_U8: to[i] = (uint8_t)value; break;
        case FF_U16: ff_store_u16(to + i * bytes, (uint16_t)value); break;
        case FF_I32: ff_store_u32(to + i * bytes, (uint32_t)value); break;
        case FF_I64: ff_store_u64(to + i * bytes, (uint64_t)value); break;
        default: ff_convert(to + i * bytes, field->dtype, &real, FF_F32, 1);
        }
    }
}

static size_t make_key(const maker *make, uint64_t item, char key[FF_KEY_LIMIT_BYTES]) {
    if (!make->options->odd_keys || item % 5 == 4)
        return (size_t)snprintf(key, FF_KEY_LIMIT_BYTES, "made-up/%06" PRIu64 ".png", item);
    size_t length = item % 5 == 0 ? 0 : item % 5 == 1 ? FF_KEY_LIMIT_BYTES : 40;
    for (size_t i = 0; i < length; i++) key[i] = (char)mix(make->seed + item * 7 + i);
    return length;
}

static bool is_skipped(const maker *make, uint64_t item) {
    int64_t every = make->options->skip_every;
    return (every && item % (uint64_t)every == (uint64_t)every - 1) ||
           (item >= make->skip_begin && item < make->skip_end);
}

/* A packed_add. */
static ff_status add_sample(const void *context, const ff_metadata *metadata, uint64_t position,
                            ff_block *block, ff_error *error) {
    const maker *make = context;
    uint64_t item = make->position[position];
    char key[FF_KEY_LIMIT_BYTES];
    void *tensor;
    uint32_t height = metadata->height, width = metadata->width;
    if (is_skipped(make, item)) return FF_OK;
    if (metadata->variable_size) {
        height = height - (uint32_t)(draw(make, item, 3) % (height / 2 + 1));
        width = width - (uint32_t)(draw(make, item, 4) % (width / 2 + 1));
    }
    fill_pixels(make, item, height, width);
    for (size_t i = 0; i < metadata->field_count; i++) fill_label(make, item, i);
    ff_block_sample sample = {
        .item = item,
        .height = height,
        .width = width,
        .key = key,
        .key_bytes = make_key(make, item, key),
        .source_checksum = XXH3_64bits(make->pixels, (size_t)metadata->channels * height * width),
        .label = (const void *const *)make->label,
    };
    FF_TRY(ff_block_add(block, &sample, &tensor, error));
    fill_tensor(make, item, height, width, tensor);
    return FF_OK;
}

static ff_status prepare(maker *make, ff_error *error) {
    const ff_metadata *metadata = &make->metadata;
    uint64_t first = ff_metadata_first_item(metadata), items = metadata->items - first;
    free(make->position);
    FF_TRY(ff_alloc(&make->position, items, sizeof *make->position, "an order", error));
    for (uint64_t i = 0; i < items; i++) make->position[i] = first + i;
    for (uint64_t i = items; make->options->shuffle >= 0 && i > 1; i--) {
        uint64_t j = mix(mix((uint64_t)make->options->shuffle) + i) % i, kept = make->position[j];
        make->position[j] = make->position[i - 1];
        make->position[i - 1] = kept;
    }
    if (make->pixels) return FF_OK;
    FF_TRY(ff_alloc(&make->pixels, (uint64_t)metadata->channels * metadata->height, metadata->width,
                    "pixels", error));
    FF_TRY(ff_alloc(&make->label, metadata->field_count, sizeof *make->label, "labels", error));
    for (size_t i = 0; i < metadata->field_count; i++)
        FF_TRY(ff_alloc(&make->label[i], 1, ff_field_bytes(&metadata->field[i]), "labels", error));
    return FF_OK;
}

static void print_id(const char *name, const uint8_t id[16]) {
    printf(" %s=", name);
    for (int i = 0; i < 16; i++) printf("%02x", id[i]);
}

/* The shards and index of the generation that the metadata describes. */
static ff_status write_generation(maker *make, const char *directory, const ff_part *part,
                                  ff_writer_result *result, ff_error *error) {
    FF_TRY(prepare(make, error));
    return packed_write(directory, &make->metadata, part, add_sample, make, result, error);
}

static ff_status write_split(const make_options *options, const char *directory, const char *split,
                             uint64_t number, uint32_t splits, ff_error *error) {
    maker make = {.options = options, .seed = mix((uint64_t)options->seed + (number << 32))};
    ff_writer_result result;
    ff_part part = {0};
    ff_status status;
    if (options->part) FF_TRY(ff_part_parse(&part, options->part, error));
    part.split = (uint32_t)number;
    part.splits = splits;
    if (options->skip_range &&
        sscanf(options->skip_range, "%" SCNu64 ":%" SCNu64, &make.skip_begin, &make.skip_end) != 2)
        return ff_fail(error, FF_USAGE, "--skip-range: wanted A:B");
    if (mkdir(directory, 0777) && errno != EEXIST)
        return ff_fail_errno(error, "%s: cannot create", directory);
    /* Every split after the first has half as many samples. */
    FF_TRY_DONE(describe(&make, split, (uint64_t)options->count >> (number > 0), error));
    FF_TRY_DONE(write_generation(&make, directory, part.count ? &part : NULL, &result, error));
    for (const char *at = options->append; at && *at; at += strspn(at, ",")) {
        char *end;
        FF_TRY_DONE(describe_next(&make, strtoull(at, &end, 10), error));
        FF_TRY_DONE(write_generation(&make, directory, NULL, &result, error));
        at = end;
    }
    printf("%s samples=%" PRIu64 " shards=%" PRIu64 " bytes=%" PRIu64, directory,
           result.sample_count, result.shard_count, result.file_bytes);
    print_id("content", result.content_id);
    print_id("transform", result.transform_id);
    print_id("source", result.source_id);
    putchar('\n');
done:
    for (size_t i = 0; make.label && i < make.metadata.field_count; i++) free(make.label[i]);
    free(make.label);
    free(make.pixels);
    free(make.position);
    ff_metadata_free(&make.metadata);
    return status;
}

static ff_status write_set(const make_options *options, const char *directory, ff_error *error) {
    if (!options->splits) return write_split(options, directory, "", 0, 1, error);
    if (mkdir(directory, 0777) && errno != EEXIST)
        return ff_fail_errno(error, "%s: cannot create", directory);
    ff_status status = FF_OK;
    uint64_t number = 0;
    uint32_t splits = 1;
    for (const char *at = options->splits; *at; at++) splits += *at == ',';
    for (const char *at = options->splits; *at && status == FF_OK; number++) {
        int length = (int)strcspn(at, ",");
        char *path, name[64];
        snprintf(name, sizeof name, "%.*s", length, at);
        FF_TRY(ff_format(&path, error, "%s/%s", directory, name));
        status = write_split(options, path, name, number, splits, error);
        free(path);
        at += length + (at[length] == ',');
    }
    return status;
}

int main(int argc, char **argv) {
    make_options options = {.version = FF_FORMAT_VERSION,
                            .dtype = 2,
                            .channels = 3,
                            .height = 32,
                            .width = 32,
                            .count = 20,
                            .classes = 6,
                            .filter = FF_FILTER_SHUFFLE,
                            .shuffle = -1,
                            .alignment = 64,
                            .shard_bytes = 64 << 20,
                            .fields = "label"};
    const ff_option table[] = {
        {"dtype", 0, FF_OPTION_CHOICE, NULL, &options.dtype, "u8|u16|f16|bf16|f32", 0, 0, "f16"},
        {"layout", 0, FF_OPTION_CHOICE, NULL, &options.layout, "chw|hwc", 0, 0, "chw"},
        {"channels", 0, FF_OPTION_INTEGER, "N", &options.channels, NULL, 1, 4096, "3"},
        {"height", 0, FF_OPTION_INTEGER, "N", &options.height, NULL, 1, 65536, "32"},
        {"width", 0, FF_OPTION_INTEGER, "N", &options.width, NULL, 1, 65536, "32"},
        {"count", 0, FF_OPTION_INTEGER, "N", &options.count, NULL, 1, 1e9,
         "items, skipped ones among them; 20"},
        {"classes", 0, FF_OPTION_INTEGER, "N", &options.classes, NULL, 1, 1e6, "6"},
        {"compress", 0, FF_OPTION_INTEGER, "LEVEL", &options.level, NULL, -7, 22, "zstd; 0 = none"},
        {"filter", 0, FF_OPTION_CHOICE, NULL, &options.filter, "none|shuffle|table|delta", 0, 0,
         "with --compress; shuffle"},
        {"variable", 0, FF_OPTION_FLAG, NULL, &options.variable, NULL, 0, 0,
         "sizes from half of height x width up"},
        {"statistics", 0, FF_OPTION_FLAG, NULL, &options.statistics, NULL, 0, 0,
         "Normalize is applied (floats) or recorded (integers)"},
        {"noise", 0, FF_OPTION_FLAG, NULL, &options.noise, NULL, 0, 0,
         "the low byte of every element is noise"},
        {"specials", 0, FF_OPTION_FLAG, NULL, &options.specials, NULL, 0, 0,
         "some NaN and infinities"},
        {"fields", 0, FF_OPTION_STRING, "LIST", &options.fields, NULL, 0, 0,
         "all, or label,id,tags,wide-tags,soft,mix,box,points,halves,bytes,shorts,brains,ints,none; '' = no field; label"},
        {"odd-names", 0, FF_OPTION_FLAG, NULL, &options.odd_names, NULL, 0, 0,
         "class names of odd bytes"},
        {"odd-keys", 0, FF_OPTION_FLAG, NULL, &options.odd_keys, NULL, 0, 0,
         "keys of odd bytes, empty ones, and of 4096 bytes"},
        {"unlabeled", 0, FF_OPTION_FLAG, NULL, &options.unlabeled, NULL, 0, 0,
         "every tenth item has class -1"},
        {"skip-every", 0, FF_OPTION_INTEGER, "N", &options.skip_every, NULL, 0, 1e9,
         "every Nth item is missing"},
        {"skip-range", 0, FF_OPTION_STRING, "A:B", &options.skip_range, NULL, 0, 0,
         "these items are missing"},
        {"shuffle", 0, FF_OPTION_INTEGER, "SEED", &options.shuffle, NULL, 0, 1e9,
         "another storage order"},
        {"shard-size", 0, FF_OPTION_BYTES, "BYTES", &options.shard_bytes, NULL, 1, 1e15, "64M"},
        {"alignment", 0, FF_OPTION_INTEGER, "N", &options.alignment, NULL, 64, 4096, "64 or 4096"},
        {"splits", 0, FF_OPTION_STRING, "LIST", &options.splits, NULL, 0, 0,
         "train,test: folders of these names"},
        {"append", 0, FF_OPTION_STRING, "N,N,...", &options.append, NULL, 0, 0,
         "further generations of that many items"},
        {"part", 0, FF_OPTION_STRING, "I/N", &options.part, NULL, 0, 0, "only this part"},
        {"format-version", 0, FF_OPTION_INTEGER, "N", &options.version, NULL, 0, FF_FORMAT_VERSION,
         "the newest"},
        {"seed", 0, FF_OPTION_INTEGER, "N", &options.seed, NULL, 0, 1e9, "0"},
        {0},
    };
    ff_command command = {.program = "make_set",
                          .usage = "make_set DIR [options]",
                          .summary = "Writes a packed set with made-up pictures.",
                          .options = table};
    ff_error error = {0};
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, &error);
    if (status == FF_OK && !words.done) {
        status = words.count == 1
                     ? write_set(&options, words.operand[0], &error)
                     : ff_fail(&error, FF_USAGE, "wanted one folder, got %d", words.count);
    }
    ff_positionals_free(&words);
    if (status == FF_OK) return 0;
    fprintf(stderr, "make_set: %s\n", error.message);
    return ff_exit_code(&error);
}
