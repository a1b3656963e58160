/* Parses the text of a metadata; refuses any text that is not canonical (FORMAT.md, "Metadata"). */
#include "format/disk/generation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const known_features[] = {"zstd", "variable-size", "wide-labels"};

typedef struct line_parser {
    const char *begin;
    const char *at, *end; /* the text not yet read */
    size_t line_number;
    const char *line; /* the current line, without its newline */
    size_t line_bytes;
    ff_error *error;
} line_parser;

static ff_status bad(line_parser *parser, const char *format, ...) FF_PRINTF(2, 3);
static ff_status bad(line_parser *parser, const char *format, ...) {
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return ff_fail(parser->error, FF_BAD_DATA, "metadata line %zu: %s", parser->line_number,
                   reason);
}

/* Moves to the next line; false at the end. */
static bool next_line(line_parser *parser) {
    if (parser->at == parser->end) return false;
    const char *newline = memchr(parser->at, '\n', (size_t)(parser->end - parser->at));
    parser->line = parser->at;
    parser->line_number++;
    parser->line_bytes = (size_t)(newline - parser->at);
    parser->at = newline + 1; /* the caller has checked that the last line ends with one */
    return true;
}

/* Whether the line begins with this word and a space (or is the word); strips both. */
static bool take_word(line_parser *parser, const char *word) {
    size_t length = strlen(word);
    if (parser->line_bytes < length || memcmp(parser->line, word, length)) return false;
    if (parser->line_bytes > length && parser->line[length] != ' ') return false;
    length += parser->line_bytes > length;
    parser->line += length;
    parser->line_bytes -= length;
    return true;
}

/* Strips `name=`; false if it is not next. */
static bool take_name(line_parser *parser, const char *name) {
    size_t length = strlen(name);
    if (parser->line_bytes <= length || memcmp(parser->line, name, length) ||
        parser->line[length] != '=')
        return false;
    parser->line += length + 1;
    parser->line_bytes -= length + 1;
    return true;
}

/* The bytes up to the next space, unescaped, as a string (no zero byte inside). */
static ff_status take_string(line_parser *parser, char **out) {
    const char *space = memchr(parser->line, ' ', parser->line_bytes);
    size_t length = space ? (size_t)(space - parser->line) : parser->line_bytes;
    FF_TRY(ff_alloc(out, length + 1, 1, "a metadata string", parser->error));
    for (size_t i = 0; i < length; i++) {
        if (parser->line[i] != '%') continue;
        if (ff_unescaped_byte(parser->line + i, length - i) <= 0) {
            free(*out);
            *out = NULL;
            return bad(parser, "'%%' is not followed by two hexadecimal digits other than 00");
        }
    }
    ff_unescape(*out, parser->line, length);
    length += space != NULL;
    parser->line += length;
    parser->line_bytes -= length;
    return FF_OK;
}

/* `name=VALUE` as an unsigned number up to `limit`. */
static ff_status take_number(line_parser *parser, const char *name, uint64_t limit,
                             uint64_t *value) {
    if (!take_name(parser, name)) return bad(parser, "wanted %s=", name);
    uint64_t number = 0;
    size_t digits = 0;
    while (digits < parser->line_bytes && parser->line[digits] >= '0' &&
           parser->line[digits] <= '9') {
        if (!ff_mul_u64(number, 10, &number) ||
            !ff_add_u64(number, (uint64_t)(parser->line[digits] - '0'), &number))
            return bad(parser, "%s is too large", name);
        digits++;
    }
    bool ends = digits == parser->line_bytes || parser->line[digits] == ' ';
    if (!digits || !ends || number > limit)
        return bad(parser, "%s is not a number from 0 to %" PRIu64, name, limit);
    digits += digits < parser->line_bytes;
    parser->line += digits;
    parser->line_bytes -= digits;
    *value = number;
    return FF_OK;
}

static ff_status take_u32(line_parser *parser, const char *name, uint32_t limit, uint32_t *value) {
    uint64_t number;
    FF_TRY(take_number(parser, name, limit, &number));
    *value = (uint32_t)number;
    return FF_OK;
}

/* `name=WORD`, one of `count` names; *index = its index. */
static ff_status take_choice(line_parser *parser, const char *name, const char *(*name_of)(int),
                             int count, int *index) {
    if (!take_name(parser, name)) return bad(parser, "wanted %s=", name);
    char *word;
    FF_TRY(take_string(parser, &word));
    for (*index = 0; *index < count; ++*index)
        if (!strcmp(word, name_of(*index))) break;
    ff_status status = FF_OK;
    if (*index == count) status = bad(parser, "%s=%.40s is not known", name, word);
    free(word);
    return status;
}

static const char *dtype_name(int i) {
    return ff_dtype_name((ff_dtype)i);
}
static const char *layout_name(int i) {
    return ff_layout_name((ff_layout)i);
}
static const char *kind_name(int i) {
    return ff_field_kind_name((ff_field_kind)i);
}
static const char *filter_name(int i) {
    return ff_filter_name((ff_filter)i);
}

/* The rest of the line as `bytes` bytes in hexadecimal. */
static ff_status take_hex(line_parser *parser, uint8_t *out, size_t bytes) {
    if (parser->line_bytes != 2 * bytes)
        return bad(parser, "%zu hexadecimal digits, wanted %zu", parser->line_bytes, 2 * bytes);
    for (size_t i = 0; i < bytes; i++) {
        int high = ff_hex_digit(parser->line[2 * i]), low = ff_hex_digit(parser->line[2 * i + 1]);
        if (high < 0 || low < 0) return bad(parser, "not a hexadecimal digit");
        out[i] = (uint8_t)(high << 4 | low);
    }
    return FF_OK;
}

static ff_status read_sample(line_parser *parser, ff_metadata *metadata) {
    int dtype, layout;
    uint32_t variable;
    /* Tables and statistics are allocated by the numbers in this line. */
    if (metadata->channels) return bad(parser, "a second line 'sample'");
    FF_TRY(take_choice(parser, "dtype", dtype_name, FF_DTYPE_COUNT, &dtype));
    FF_TRY(take_choice(parser, "layout", layout_name, 2, &layout));
    FF_TRY(take_u32(parser, "channels", FF_CHANNELS_LIMIT, &metadata->channels));
    if (!metadata->channels) return bad(parser, "0 channels");
    FF_TRY(take_u32(parser, "height", FF_SIDE_LIMIT, &metadata->height));
    FF_TRY(take_u32(parser, "width", FF_SIDE_LIMIT, &metadata->width));
    FF_TRY(take_u32(parser, "variable", 1, &variable));
    FF_TRY(take_u32(parser, "alignment", 4096, &metadata->alignment));
    metadata->dtype = (ff_dtype)dtype;
    metadata->layout = (ff_layout)layout;
    metadata->variable_size = variable;
    return FF_OK;
}

static ff_status read_compression(line_parser *parser, ff_metadata *metadata) {
    if (!take_word(parser, "zstd"))
        return bad(parser, "a compression that this version does not know");
    uint64_t level;
    int filter;
    FF_TRY(take_number(parser, "level", 22, &level));
    FF_TRY(take_choice(parser, "filter", filter_name, FF_FILTER_COUNT, &filter));
    metadata->compression = FF_COMPRESSION_ZSTD;
    metadata->level = (int)level;
    metadata->filter = (ff_filter)filter;
    return FF_OK;
}

/* The number of shards bounds the number of generations: each generation has at least one shard. */
static ff_status read_generation(line_parser *parser, ff_metadata *metadata) {
    ff_generation at = {0};
    FF_TRY(take_number(parser, "items", UINT64_C(1) << 40, &at.items));
    FF_TRY(take_u32(parser, "shards", FF_SHARDS_LIMIT, &at.shards));
    if (!take_name(parser, "id")) return bad(parser, "wanted id=");
    FF_TRY(take_hex(parser, at.id, sizeof at.id));
    parser->line_bytes = 0;
    if (metadata->generation_count >= FF_SHARDS_LIMIT) return bad(parser, "too many generations");
    FF_TRY(ff_grow(&metadata->generation, metadata->generation_count, sizeof at, "generations",
                   parser->error));
    metadata->generation[metadata->generation_count++] = at;
    return FF_OK;
}

/* Line `table` number `row` of channels. */
static ff_status read_table(line_parser *parser, ff_metadata *metadata, uint32_t row) {
    size_t bytes = 256 * ff_dtype_bytes(metadata->dtype);
    if (row >= metadata->channels)
        return bad(parser, metadata->channels ? "more tables than channels"
                                              : "a table before the line 'sample'");
    if (!metadata->table)
        FF_TRY(ff_alloc(&metadata->table, metadata->channels, bytes, "tables", parser->error));
    return take_hex(parser, metadata->table + row * bytes, bytes);
}

static ff_status read_floats(line_parser *parser, float **out, uint32_t count) {
    if (*out) return bad(parser, "a second line of statistics");
    if (!count) return bad(parser, "statistics before the line 'sample'");
    FF_TRY(ff_alloc(out, count, sizeof **out, "statistics", parser->error));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        for (int k = 0; k < 8; k++) {
            int digit = (size_t)k < parser->line_bytes ? ff_hex_digit(parser->line[k]) : -1;
            if (digit < 0) return bad(parser, "value %u is not 8 hexadecimal digits", i);
            bits = bits << 4 | (uint32_t)digit;
        }
        (*out)[i] = ff_bits_float(bits);
        size_t used = parser->line_bytes > 8 && i + 1 < count && parser->line[8] == ' ' ? 9 : 8;
        parser->line += used;
        parser->line_bytes -= used;
    }
    return FF_OK;
}

/* The i-th class name of the field added last. */
static ff_status read_class(line_parser *parser, ff_metadata *metadata, uint32_t i,
                            uint32_t count) {
    if (!next_line(parser) || !take_word(parser, "class"))
        return bad(parser, "wanted class %u of %u", i, count);
    char *name;
    FF_TRY(take_string(parser, &name));
    ff_status status;
    if (parser->line_bytes) FF_TRY_DONE(bad(parser, "unexpected text at its end"));
    FF_TRY_DONE(ff_metadata_add_class(metadata, metadata->field_count - 1, name, parser->error));
done:
    free(name);
    return status;
}

static ff_status read_field(line_parser *parser, ff_metadata *metadata) {
    if (metadata->field_count >= FF_FIELDS_LIMIT) return bad(parser, "more than 256 fields");
    if (!take_name(parser, "name")) return bad(parser, "wanted name=");
    char *name;
    FF_TRY(take_string(parser, &name));
    int kind = 0, dtype = 0;
    uint32_t width = 0, classes = 0;
    ff_status status;
    FF_TRY_DONE(take_choice(parser, "kind", kind_name, FF_FIELD_KIND_COUNT, &kind));
    FF_TRY_DONE(take_choice(parser, "dtype", dtype_name, FF_DTYPE_COUNT, &dtype));
    FF_TRY_DONE(take_u32(parser, "width", FF_CLASSES_LIMIT, &width));
    FF_TRY_DONE(take_u32(parser, "classes", FF_CLASSES_LIMIT, &classes));
    if (parser->line_bytes) FF_TRY_DONE(bad(parser, "unexpected text at its end"));
    FF_TRY_DONE(ff_metadata_add_field(metadata, name, (ff_field_kind)kind, (ff_dtype)dtype, width,
                                      parser->error));
    for (uint32_t i = 0; i < classes; i++) FF_TRY_DONE(read_class(parser, metadata, i, classes));
done:
    free(name);
    return status;
}

static ff_status read_strings(line_parser *parser, ff_metadata *metadata, const char *word) {
    char *first = NULL, *second = NULL;
    ff_status status = take_string(parser, &first);
    if (status == FF_OK && !strcmp(word, "provenance")) {
        status = take_string(parser, &second);
        if (status == FF_OK)
            status = ff_metadata_add_provenance(metadata, first, second, parser->error);
    } else if (status == FF_OK && !strcmp(word, "transform")) {
        status = ff_metadata_add_transform(metadata, first, parser->error);
    } else if (status == FF_OK && !strcmp(word, "required")) {
        bool known = false;
        for (size_t i = 0; i < sizeof known_features / sizeof *known_features; i++)
            known |= !strcmp(first, known_features[i]);
        status = known ? ff_metadata_add_required(metadata, first, parser->error)
                       : bad(parser, "needs the feature '%.80s', which this version does not know",
                             first);
    } else if (status == FF_OK && !strcmp(word, "optional")) {
        status = ff_metadata_add_optional(metadata, first, parser->error);
    } else if (status == FF_OK && !strcmp(word, "split")) {
        if (metadata->split) {
            status = bad(parser, "a second split");
        } else {
            metadata->split = first;
            first = NULL;
        }
    }
    free(first);
    free(second);
    return status;
}

static ff_status read_line(line_parser *parser, ff_metadata *metadata, uint32_t *table_rows) {
    static const char *const text_words[] = {"required", "optional", "split", "transform",
                                             "provenance"};
    for (size_t i = 0; i < sizeof text_words / sizeof *text_words; i++)
        if (take_word(parser, text_words[i])) return read_strings(parser, metadata, text_words[i]);
    if (take_word(parser, "sample")) return read_sample(parser, metadata);
    if (take_word(parser, "shards")) {
        FF_TRY(take_number(parser, "items", UINT64_C(1) << 40, &metadata->items));
        FF_TRY(take_number(parser, "per_shard", UINT64_C(1) << 40, &metadata->items_per_shard));
        return take_number(parser, "per_block", UINT64_C(1) << 40, &metadata->items_per_block);
    }
    if (take_word(parser, "generation")) return read_generation(parser, metadata);
    if (take_word(parser, "compression")) return read_compression(parser, metadata);
    if (take_word(parser, "table")) {
        FF_TRY(read_table(parser, metadata, (*table_rows)++));
        parser->line_bytes = 0;
        return FF_OK;
    }
    if (take_word(parser, "mean")) {
        metadata->statistics_count = metadata->channels;
        return read_floats(parser, &metadata->mean, metadata->channels);
    }
    if (take_word(parser, "std")) return read_floats(parser, &metadata->std, metadata->channels);
    if (take_word(parser, "field")) return read_field(parser, metadata);
    if (parser->line_bytes >= 2 && !memcmp(parser->line, "x-", 2)) {
        parser->line_bytes = 0; /* an extension that any reader may ignore */
        return FF_OK;
    }
    return bad(parser, "unknown word '%.*s'",
               (int)(parser->line_bytes < 40 ? parser->line_bytes : 40), parser->line);
}

/* The order of lines, the spelling of numbers and all escapes are fixed. So the parsed metadata,
 * written again, must have the same text, except for extension lines. */
static ff_status check_canonical(line_parser *parser, const ff_metadata *metadata) {
    ff_buffer again = {0};
    ff_status status = ff_metadata_write(metadata, &again, parser->error);
    const char *wanted = again.bytes;
    parser->at = parser->begin;
    parser->line_number = 0;
    while (status == FF_OK && next_line(parser)) {
        if (parser->line_bytes >= 2 && !memcmp(parser->line, "x-", 2)) continue;
        size_t length = (size_t)(parser->at - parser->line); /* including the newline */
        size_t left = again.length - (size_t)(wanted - again.bytes);
        if (length > left || memcmp(parser->line, wanted, length))
            status = bad(parser, "is not in its place or not in canonical form");
        else
            wanted += length;
    }
    if (status == FF_OK && *wanted) status = bad(parser, "the text ends early");
    ff_buffer_free(&again);
    return status;
}

static ff_status read_version(line_parser *parser, uint32_t *version) {
    for (*version = 0; *version <= FF_FORMAT_VERSION; ++*version) {
        char known[16];
        int length = snprintf(known, sizeof known, "%u", *version);
        if (parser->line_bytes == (size_t)length && !memcmp(parser->line, known, (size_t)length))
            return FF_OK;
    }
    return bad(parser, "format version %.*s; this program knows 0 to %u",
               (int)(parser->line_bytes < 20 ? parser->line_bytes : 20), parser->line,
               FF_FORMAT_VERSION);
}

static ff_status read_all(line_parser *parser, ff_metadata *metadata) {
    uint32_t table_rows = 0;
    if (parser->at == parser->end || parser->end[-1] != '\n')
        return bad(parser, "the text does not end with a newline");
    if (!next_line(parser) || !take_word(parser, FF_METADATA_WORD))
        return bad(parser, "wanted '%s' and a version", FF_METADATA_WORD);
    FF_TRY(read_version(parser, &metadata->version));
    while (next_line(parser)) {
        FF_TRY(read_line(parser, metadata, &table_rows));
        if (parser->line_bytes) return bad(parser, "unexpected text at its end");
    }
    if (metadata->table && table_rows != metadata->channels)
        return bad(parser, "%u tables for %u channels", table_rows, metadata->channels);
    if (!metadata->split) return bad(parser, "the line 'split' is missing");
    if (!metadata->mean != !metadata->std) return bad(parser, "mean without std, or the reverse");
    FF_TRY(ff_metadata_check(metadata, parser->error));
    return check_canonical(parser, metadata);
}

ff_status ff_metadata_read(ff_metadata *metadata, const char *text, size_t length,
                           ff_error *error) {
    *metadata = (ff_metadata){0};
    if (length > FF_METADATA_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "metadata: %zu bytes, more than %" PRIu64, length,
                       (uint64_t)FF_METADATA_LIMIT_BYTES);
    line_parser parser = {.begin = text, .at = text, .end = text + length, .error = error};
    ff_status status = read_all(&parser, metadata);
    if (status != FF_OK) ff_metadata_free(metadata);
    return status;
}
