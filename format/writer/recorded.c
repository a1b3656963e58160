#include "format/writer/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A transform line is a word and NAME=VALUE pairs: the option that each stands for. */
static const struct {
    const char *word, *name; /* name NULL: the word itself */
    const char *option;
} rows[] = {
    {"exif_transpose", NULL, "--exif"},
    {"fast_decode", NULL, "--fast-decode"},
    {"grayscale", NULL, "--mode=gray"},
    {"pad_square", NULL, "--pad-square"},
    {"resize", "size", "--resize="},
    {"resize", "max_size", "--max-side="},
    {"resize", "interpolation", "--interpolation="},
    {"max_side", "size", "--max-side="},
    {"max_side", "interpolation", "--interpolation="},
    {"center_crop", "size", "--center-crop="},
    {"to_tensor", "range", "--range="},
};

static ff_status add(ff_recorded *recorded, const char *name, const char *value, size_t length,
                     ff_error *error) {
    FF_TRY(ff_reserve(&recorded->option, &recorded->capacity, recorded->count + 1,
                      sizeof *recorded->option, "options", error));
    FF_TRY(
        ff_format(&recorded->option[recorded->count], error, "%s%.*s", name, (int)length, value));
    recorded->count++;
    return FF_OK;
}

ff_status ff_recorded_add(ff_recorded *recorded, const char *option, ff_error *error) {
    return add(recorded, option, "", 0, error);
}

static ff_status add_transform(ff_recorded *recorded, const char *line, ff_error *error) {
    size_t word = strcspn(line, " ");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strlen(rows[i].word) != word || memcmp(rows[i].word, line, word) != 0) continue;
        if (!rows[i].name) FF_TRY(add(recorded, rows[i].option, "", 0, error));
        for (const char *at = line + word; rows[i].name && *at; at += strcspn(at, " ")) {
            size_t length = strlen(rows[i].name);
            at++; /* the space */
            if (strncmp(at, rows[i].name, length) != 0 || at[length] != '=') continue;
            at += length + 1;
            FF_TRY(add(recorded, rows[i].option, at, strcspn(at, " "), error));
        }
    }
    return FF_OK;
}

static const char *find_fact(const ff_metadata *metadata, const char *key) {
    for (size_t i = 0; i < metadata->provenance_count; i++)
        if (!strcmp(metadata->provenance[i].key, key)) return metadata->provenance[i].value;
    return NULL;
}

const char *ff_recorded_split(const ff_metadata *metadata) {
    return find_fact(metadata, "split");
}

static bool is_resize(const char *line) {
    return !strncmp(line, "resize ", 7) || !strncmp(line, "max_side ", 9);
}

/* Sets of image files record their Pillow; since then resizes also record the order of their
 * passes. */
const char *ff_recorded_pillow(const ff_metadata *metadata) {
    const char *said = find_fact(metadata, "pillow");
    if (said) return said;
    for (size_t i = 0; i < metadata->transform_count; i++)
        if (is_resize(metadata->transform[i]))
            return strstr(metadata->transform[i], " passes=cheaper_first") ? "13" : "12";
    return find_fact(metadata, "libjpeg-turbo") ? "12" : NULL;
}

/* "--name value" or "--name". */
static ff_status add_option(ff_recorded *recorded, const char *text, ff_error *error) {
    FF_TRY(ff_recorded_add(recorded, text, error));
    char *space = strchr(recorded->option[recorded->count - 1], ' ');
    if (space) *space = '=';
    return FF_OK;
}

/* Adds the options of the first packing; an append's options apply only to that append. The facts
 * of each packing begin with its source. */
static ff_status add_provenance(ff_recorded *recorded, const ff_metadata *metadata,
                                ff_error *error) {
    size_t sources = 0;
    for (size_t i = 0; i < metadata->provenance_count; i++) {
        sources += !strcmp(metadata->provenance[i].key, "source");
        if (sources < 2 && !strcmp(metadata->provenance[i].key, "option"))
            FF_TRY(add_option(recorded, metadata->provenance[i].value, error));
    }
    return FF_OK;
}

ff_status ff_recorded_options(ff_recorded *recorded, const ff_metadata *metadata, ff_error *error) {
    const char *dtype = ff_dtype_name(metadata->dtype), *layout = ff_layout_name(metadata->layout);
    FF_TRY(add(recorded, "--dtype=", dtype, strlen(dtype), error));
    FF_TRY(add(recorded, "--layout=", layout, strlen(layout), error));
    FF_TRY(add(recorded, "--align=", metadata->alignment == 64 ? "64" : "4096", 4, error));
    if (metadata->compression == FF_COMPRESSION_ZSTD) {
        char text[32];
        int length = snprintf(text, sizeof text, "zstd:%d", metadata->level);
        FF_TRY(add(recorded, "--compress=", text, (size_t)length, error));
    }
    for (size_t i = 0; i < metadata->transform_count; i++)
        FF_TRY(add_transform(recorded, metadata->transform[i], error));
    const char *pillow = ff_recorded_pillow(metadata);
    if (pillow) FF_TRY(add(recorded, "--pillow=", pillow, strlen(pillow), error));
    return add_provenance(recorded, metadata, error);
}

void ff_recorded_free(ff_recorded *recorded) {
    for (size_t i = 0; i < recorded->count; i++) free(recorded->option[i]);
    free(recorded->option);
    *recorded = (ff_recorded){0};
}
