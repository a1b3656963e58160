#include "tools/ffpack/source/source.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/layout.h"
#include "format/disk/set.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/divide.h"
#include "tools/ffpack/source/input.h"
#include "tools/ffpack/source/list/header.h"
#include "tools/ffpack/source/shards/braces.h"
#include "tools/ffpack/source/shards/shards.h"
#include "tools/ffpack/source/stream.h"
#include "tools/ffpack/source/unrecognized.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

extern const ff_source_format ff_source_idx, ff_source_npy, ff_source_webdataset, ff_source_cifar,
    ff_source_imagenet, ff_source_archive, ff_source_list_file, ff_source_folder,
    ff_source_tfrecord, ff_source_mds, ff_source_litdata, ff_source_beton, ff_source_parquet;

/* In the order of detection; ends with NULL. */
static const ff_source_format *const formats[] = {&ff_source_idx,        &ff_source_cifar,
                                                  &ff_source_npy,        &ff_source_tfrecord,
                                                  &ff_source_mds,        &ff_source_litdata,
                                                  &ff_source_beton,      &ff_source_parquet,
                                                  &ff_source_webdataset, &ff_source_imagenet,
                                                  &ff_source_archive,    &ff_source_list_file,
                                                  &ff_source_folder,     NULL};

static ff_status find_format(const ff_source_format **found, const char *name, ff_error *error) {
    char known[256] = "auto";
    for (const ff_source_format *const *format = formats; *format; format++) {
        *found = *format;
        if (!strcmp((*format)->name, name)) return FF_OK;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, ", %s", (*format)->name);
    }
    return ff_fail(error, FF_USAGE, "--format: '%s' is not one of %s", name, known);
}

static ff_status several_fit(const ff_source *source, const ff_source_format *other,
                             const char *path, ff_error *error) {
    return ff_fail(error, FF_USAGE,
                   "%s: holds what is read as %s, and what is read as %s; wanted --format %s or "
                   "--format %s",
                   path, source->format->name, other->name, source->format->name, other->name);
}

/* Detects the format of `path`, unless one was named. A file has the first format that fits; if two
 * formats fit a folder, the user must choose. */
static ff_status detect_at(ff_source *source, const char *path, ff_error *error) {
    bool folder;
    FF_TRY(ff_source_is_folder(path, &folder, error));
    unsigned char bytes[512];
    unsigned char *head = NULL;
    size_t head_bytes = 0;
    if (!folder) {
        ff_input *input;
        FF_TRY(ff_input_open(&input, path, error));
        ff_status status = ff_input_read(input, bytes, sizeof bytes, &head_bytes, error);
        ff_input_close(&input);
        FF_TRY(status);
        head = bytes;
        if (!head_bytes) return ff_source_unrecognized(path, head, 0, error);
    }
    if (source->format) return FF_OK;
    for (const ff_source_format *const *format = formats; *format; format++) {
        if (source->pattern && !(*format)->patterns) continue;
        /* Any folder may be a folder of images: if nothing else fits, it need not look like one. */
        if (*format == &ff_source_folder && source->format && !ff_folder_holds_images(path)) break;
        ff_error hidden = {0};
        if ((*format)->detect(path, head, head_bytes, &hidden)) {
            if (source->format) return several_fit(source, *format, path, error);
            source->format = *format;
            if (head) return FF_OK;
            continue;
        }
        /* Do not take another format only because this one could not be read. */
        bool archive = head && ff_archive_looks_like(head, head_bytes);
        if (!source->format && hidden.status != FF_OK &&
            (hidden.status != FF_BAD_DATA || archive)) {
            if (error) *error = hidden;
            return hidden.status;
        }
    }
    /* The columns are noted, so that the first line need not name them. */
    size_t line_bytes;
    if (!source->format && source->columns && head &&
        ff_list_looks_like_table(head, head_bytes, &line_bytes))
        source->format = &ff_source_list_file;
    return source->format ? FF_OK : ff_source_unrecognized(path, head, head_bytes, error);
}

/* ---- refused sources --------------------------------------------------------------------- */

/* "s3://bucket/x": letters, digits, + - and . before "://" (RFC 3986). */
static size_t scheme_bytes(const char *path) {
    static const char of_scheme[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t bytes = strspn(path, of_scheme);
    return strncmp(path + bytes, "://", 3) ? 0 : bytes;
}

/* A split's folder, a folder of splits only, or one of a split's files. */
static bool is_packed(const char *path) {
    const char *base = ff_path_base(path);
    struct stat info;
    if (stat(path, &info) < 0) return false;
    if (!S_ISDIR(info.st_mode))
        return !strcmp(base, FF_INDEX_NAME) ||
               (!strncmp(base, "shard-", 6) && !fnmatch("*.ffs", base, 0));
    return ff_set_is_whole(path);
}

static ff_status check_path(const ff_source *source, ff_error *error) {
    struct stat info;
    const char *path = source->path;
    size_t scheme = scheme_bytes(path);
    if (source->elsewhere) return FF_OK;
    if (scheme && stat(path, &info) < 0)
        return ff_fail(error, FF_USAGE,
                       "%s: %.*s:// is not read; wanted a file or folder of this machine, a URL of "
                       "s3://, gs://, https:// or http://, or - for the standard input",
                       path, (int)scheme, path);
    if (!is_packed(path)) return FF_OK;
    return ff_fail(
        error, FF_USAGE,
        "%s: is packed already; ffinspect shows it, ffpack append SET SOURCE adds to it, ffpack copy SET -o NEW edits a copy, ffpack merge OUT PART... merges parts",
        path);
}

/* An index, a list or a folder has other files next to it. */
static ff_status check_elsewhere(const ff_source *source, ff_error *error) {
    char of[128] = "";
    const bool objects = ff_elsewhere_folder() != NULL;
    const bool fits =
        objects ? source->format == &ff_source_folder || source->format == &ff_source_webdataset
                : source->format->elsewhere;
    if (!source->elsewhere || fits) return FF_OK;
    for (const ff_source_format *const *format = formats; *format; format++) {
        size_t length = strlen(of);
        if ((*format)->elsewhere)
            snprintf(of + length, sizeof of - length, "%s%s", length ? ", " : "", (*format)->name);
    }
    return ff_fail(
        error, FF_USAGE, "%s: is read as --format %s, which needs files of this machine; %s %s",
        source->path, source->format->name,
        objects ? "the objects of a bucket are read as" : "from a URL or the standard input come",
        objects ? "folder, webdataset" : of);
}

/* ---- options that a kind does not use ---------------------------------------------------- */

static ff_status check_uses(const ff_source *source, const ff_source_options *options,
                            ff_error *error) {
    const struct {
        const char *name;
        bool given;
        unsigned use;
    } given[] = {
        {"classes", options->classes, FF_USES_CLASSES},
        {"classes-from", options->classes_from, FF_USES_CLASSES},
        {"splits", options->splits, FF_USES_SPLITS},
        {"exclude", options->exclude, FF_USES_TREE},
        {"labels", options->label_list, FF_USES_TREE},
        {"columns", options->columns, FF_USES_COLUMNS},
        {"allow-empty-classes", options->allow_empty_classes, FF_USES_EMPTY},
        {"val-labels", options->val_labels, FF_USES_VAL_LABELS},
        {"label-kind", options->label_kind != FF_LABEL_GUESS, FF_USES_LABEL_KIND},
        {"array-layout", options->array_layout != FF_ARRAY_GUESS, FF_USES_ARRAY_LAYOUT},
    };
    if (options->classes && options->classes_from)
        return ff_fail(error, FF_USAGE, "--classes and --classes-from exclude each other");
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (!given[i].given || (source->format->uses & given[i].use)) continue;
        const bool list = !strcmp(given[i].name, "labels");
        char of[128] = "";
        for (const ff_source_format *const *format = formats; *format; format++) {
            size_t length = strlen(of);
            if ((*format)->uses & given[i].use)
                snprintf(of + length, sizeof of - length, "%s%s", length ? ", " : "",
                         (*format)->name);
        }
        return ff_fail(error, FF_USAGE,
                       "--%s: does not apply to %s, which is read as --format %s%s%s; it is for %s",
                       given[i].name, source->path, source->format->name,
                       list ? " and has its labels " : "", list ? source->format->labels : "", of);
    }
    return FF_OK;
}

static ff_status detect_objects(ff_source *source, ff_error *error) {
    bool tars;
    if (source->format) return FF_OK;
    FF_TRY(ff_shards_look(ff_elsewhere_folder(), &ff_web_tars, &tars, error));
    source->format = tars ? &ff_source_webdataset : &ff_source_folder;
    return FF_OK;
}

/* A name with braces that does not exist is a pattern; its first file decides the format. */
static ff_status detect(ff_source *source, ff_error *error) {
    struct stat info;
    if (ff_elsewhere_folder()) return detect_objects(source, error);
    if (!strchr(source->path, '{') || (!source->elsewhere && stat(source->path, &info) == 0))
        return detect_at(source, source->path, error);
    source->pattern = true;
    if (source->format && !source->format->patterns)
        return ff_fail(error, FF_USAGE, "%s: --format %s takes one file or folder, no pattern",
                       source->path, source->format->name);
    ff_names names = {0};
    ff_status status;
    FF_TRY_DONE(ff_braces_expand(&names, source->path, error));
    FF_TRY_DONE(detect_at(source, ff_names_at(&names, 0), error));
done:
    ff_names_free(&names);
    return status;
}

static ff_status copy_options(ff_source *source, const ff_source_options *options,
                              ff_error *error) {
    const struct {
        char **to;
        const char *from;
    } strings[] = {
        {&source->temporary, options->temporary},  {&source->classes, options->classes},
        {&source->classes, options->classes_from}, {&source->val_labels, options->val_labels},
        {&source->label, options->label},          {&source->splits, options->splits},
        {&source->exclude, options->exclude},      {&source->label_list, options->label_list},
        {&source->columns, options->columns},
    };
    source->jobs = options->jobs;
    source->array_layout = options->array_layout;
    source->skip = options->skip;
    source->rule = options->rule;
    source->label_kind = options->label_kind;
    source->allow_empty_classes = options->allow_empty_classes;
    source->classes_from = options->classes_from != NULL;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        if (strings[i].from && !*strings[i].to)
            FF_TRY(ff_copy_string(strings[i].to, strings[i].from, error));
    return FF_OK;
}

ff_status ff_source_open(ff_source **out, const char *path, const ff_source_options *options,
                         ff_error *error) {
    *out = NULL;
    ff_source *source;
    FF_TRY(ff_alloc(&source, 1, sizeof *source, "a source", error));
    ff_status status;
    source->elsewhere = ff_is_elsewhere(path);
    if (source->elsewhere)
        FF_TRY_DONE(ff_elsewhere_begin(&source->path, path, options->temporary, error));
    else
        FF_TRY_DONE(ff_copy_bytes(&source->path, path, ff_path_length(path), error));
    FF_TRY_DONE(copy_options(source, options, error));
    FF_TRY_DONE(check_path(source, error));
    if (options->format && strcmp(options->format, "auto") != 0)
        FF_TRY_DONE(find_format(&source->format, options->format, error));
    FF_TRY_DONE(detect(source, error));
    FF_TRY_DONE(check_elsewhere(source, error));
    FF_TRY_DONE(check_uses(source, options, error));
done:
    if (status == FF_OK)
        *out = source;
    else
        ff_source_close(&source);
    return status;
}

ff_status ff_source_note(ff_source *source, char *text, ff_error *error) {
    ff_status status = ff_names_add(&source->notes, text, strlen(text), error);
    free(text);
    return status;
}

/* Notes classes with the names of splits: usually a layout that was not recognized. */
static ff_status note_classes(ff_source *source, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < source->labels.field_count; i++)
        for (uint32_t k = 0; k < source->labels.field[i].class_count && status == FF_OK; k++) {
            const char *name = source->labels.field[i].class_name[k];
            if (ff_split_rank(name, strlen(name)) >= 0)
                status =
                    ff_buffer_printf(&text, error, "%s%s",
                                     text.length ? ", " : "classes with names of splits: ", name);
        }
    if (status == FF_OK && text.length)
        status = ff_names_add(&source->notes, text.bytes, text.length, error);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_source_list(ff_source *source, ff_error *error) {
    FF_TRY(source->format->list(source, error));
    FF_TRY(ff_source_check_kind(source, error));
    if (source->label) FF_TRY(ff_source_keep_label(source, error));
    if (source->rule) FF_TRY(ff_source_divide(source, error));
    for (size_t i = 0; i < source->split_count; i++) {
        ff_source_split *split = &source->split[i];
        FF_TRY(ff_listing_finish(split->listing, error));
        if (!ff_listing_count(split->listing))
            return ff_fail(error, FF_BAD_DATA, "%s: %s%shas no items", source->path, split->name,
                           *split->name ? " " : "");
        FF_TRY(ff_stream_order(source, split, error));
    }
    FF_TRY(ff_source_note_labels(source, error));
    return note_classes(source, error);
}

void ff_source_free_split(ff_source_split *split) {
    free(split->name);
    free(split->root);
    if (split->order)
        munmap((void *)(uintptr_t)split->order,
               ff_listing_count(split->listing) * sizeof *split->order);
    ff_listing_destroy(&split->listing);
}

void ff_source_close(ff_source **out) {
    ff_source *source = *out;
    if (!source) return;
    for (size_t i = 0; i < source->part_count; i++) {
        ff_close_file(&source->part[i].fd);
        free(source->part[i].path);
        free(source->part[i].column);
    }
    for (size_t i = 0; i < source->split_count; i++) ff_source_free_split(&source->split[i]);
    free(source->part);
    free(source->split);
    ff_metadata_free(&source->labels);
    free(source->path);
    free(source->temporary);
    free(source->classes);
    free(source->val_labels);
    free(source->label);
    free(source->splits);
    free(source->exclude);
    free(source->label_list);
    free(source->columns);
    if (source->elsewhere) ff_elsewhere_end();
    ff_left_out_free(&source->left_out);
    ff_names_free(&source->notes);
    free(source);
    *out = NULL;
}

const ff_source_split *ff_source_find(const ff_source *source, const char *name) {
    for (size_t i = 0; i < source->split_count; i++)
        if (!strcmp(source->split[i].name, name)) return &source->split[i];
    return NULL;
}

ff_status ff_source_add_split(ff_source *source, const char *name, ff_source_split **split,
                              ff_error *error) {
    FF_TRY(ff_grow(&source->split, source->split_count, sizeof *source->split,
                   "the splits of a source", error));
    ff_source_split added = {0};
    size_t label_bytes = 0;
    for (size_t i = 0; i < source->labels.field_count; i++)
        label_bytes += ff_field_bytes(&source->labels.field[i]);
    FF_TRY(ff_copy_string(&added.name, name, error));
    ff_status status = ff_listing_create(&added.listing, source->temporary, label_bytes, error);
    if (status != FF_OK) {
        free(added.name);
        return status;
    }
    *split = &source->split[source->split_count++];
    **split = added;
    return FF_OK;
}
