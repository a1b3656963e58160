/* WebDataset: tars whose members are grouped into samples by their names (sample.h), as
 * https://github.com/webdataset/webdataset reads them. SOURCE is a tar (plain or compressed), a
 * folder of tars, or a brace pattern like train-{000..146}.tar (shards.h).
 *
 * Consecutive members of one key are a sample; groups never cross tars. Items are numbered in the
 * order of reading, and an item's key is its sample's (__key__), which is often unique only within
 * its tar. The image is the member with an image's extension; the label is the .cls, a whole
 * number, or a value of the .json: the key named by --label, else the first of "label", "cls" and
 * "class" that exists. The first sample with a label decides for all. Whole numbers are class
 * numbers; strings are class names, numbered in the order of --classes, else of their bytes. A set
 * has labels for every sample, or for none. Refused: links and devices (their bytes are elsewhere),
 * samples without an image. Other members (captions, arrays) are counted as left out. A leading
 * "./" of members' names is not part of the key. */
#include "format/base/read.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/label_values.h"
#include "tools/ffpack/source/shards/shards.h"
#include "tools/ffpack/source/source.h"
#include "tools/ffpack/source/webdataset/sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A tar's extensions: .tar .tgz .tbz2 .txz .tzst, .tar.gz and the like. */
static bool is_tar_name(const char *name) {
    static const char *const ends[] = {".tar",    ".tgz",     ".tbz2",   ".txz",    ".tzst",
                                       ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && !strcasecmp(name + length - end, ends[i])) return true;
    }
    return false;
}

const ff_shard_kind ff_web_tars = {.one = "tar", .many = "tars", .is_name = is_tar_name};

/* ---- detection ----------------------------------------------------------------------------- */

enum { LOOK_AT_MEMBERS = 64, LOOK_AT_BYTES = 8 << 20 };

/* Whether one of the first groups of a tar has an image and a label. In compressed tars skipping
 * members means unpacking them, so only a few are checked. */
static bool tar_is_web(const char *path, ff_error *error) {
    ff_archive *archive;
    ff_archive_member member;
    ff_web_sample sample = {0};
    bool image = false, label = false;
    uint64_t bytes = 0;
    if (ff_archive_open(&archive, path, false, error) != FF_OK) return false;
    for (int i = 0; i < LOOK_AT_MEMBERS && !(image && label) && bytes < LOOK_AT_BYTES; i++) {
        size_t key_bytes;
        ff_web_member kind;
        if (ff_archive_next(archive, &member, error) != FF_OK || !member.name) break;
        if (!ff_archive_is_plain(archive)) bytes += member.bytes;
        if (member.kind != FF_ARCHIVE_FILE || !ff_web_split(member.name, &key_bytes)) continue;
        if (key_bytes != sample.key.length ||
            memcmp(sample.key.bytes, member.name, key_bytes) != 0) {
            image = label = false;
            if (ff_web_sample_begin(&sample, member.name, key_bytes, error) != FF_OK) break;
        }
        ff_error wrong = {0};
        if (ff_web_sample_add(&sample, member.name + key_bytes + 1, 0, 0, &kind, &wrong) != FF_OK) {
            if (wrong.status == FF_BAD_DATA) continue; /* listing will report it */
            *error = wrong;
            break;
        }
        image = image || kind == FF_WEB_IMAGE;
        label = label || kind == FF_WEB_CLS || kind == FF_WEB_JSON;
    }
    ff_web_sample_free(&sample);
    ff_archive_close(&archive);
    return image && label;
}

static bool webdataset_detect(const char *path, const unsigned char *head, size_t head_bytes,
                              ff_error *error) {
    bool zip = head && head_bytes > 2 && !memcmp(head, "PK", 2);
    if (head) return !zip && ff_archive_looks_like(head, head_bytes) && tar_is_web(path, error);
    ff_shards tars;
    if (ff_shards_find(&tars, path, &ff_web_tars, NULL, error) != FF_OK) return false;
    bool web = tar_is_web(ff_names_at(&tars.path, 0), error);
    ff_shards_free(&tars);
    return web;
}

/* ---- labels -------------------------------------------------------------------------------- */

static const char *const usual_keys[] = {"label", "cls", "class"};
enum { USUAL_KEYS = 3 };

typedef struct web {
    ff_source *source;
    ff_listing *listing; /* the split's */
    const char *path;    /* the tar's */
    ff_archive *archive;
    uint32_t part; /* FF_PART_FILE = not yet added */
    uint64_t bytes;
    ff_web_sample sample;
    /* The place of all samples' labels. */
    enum { LABEL_UNKNOWN, LABEL_CLS, LABEL_JSON } origin;
    const char *key; /* of the .json */
    ff_label_values values;
    ff_web_label label;
    ff_buffer unlabeled; /* the first such sample, for messages */
    bool labeled;        /* there was a sample with a label */
} web;

/* "SAMPLE of TAR" */
static ff_status in_sample(const web *state, ff_status status, ff_error *error) {
    return status == FF_OK ? FF_OK
                           : ff_fail_within(error, status, "%s: sample %.200s", state->path,
                                            state->sample.key.bytes);
}

static ff_status read_json(web *state, const char *const *keys, size_t key_count, size_t *used,
                           ff_error *error) {
    ff_web_sample *sample = &state->sample;
    return ff_web_parse_json(sample->json.bytes, sample->json.length, keys, key_count,
                             &state->label, used, error);
}

/* state->label = the sample's. */
static ff_status find_label(web *state, ff_error *error) {
    const ff_web_sample *sample = &state->sample;
    size_t used = 0;
    state->label.kind = FF_WEB_NONE;
    if (state->origin != LABEL_JSON && sample->has_cls) {
        state->origin = LABEL_CLS;
        state->label.kind = FF_WEB_NUMBER;
        state->label.number = sample->cls;
    } else if (state->origin == LABEL_JSON && sample->has_json) {
        FF_TRY(read_json(state, &state->key, 1, &used, error));
    } else if (state->origin == LABEL_UNKNOWN && sample->has_json) {
        FF_TRY(read_json(state, usual_keys, USUAL_KEYS, &used, error));
        if (state->label.kind == FF_WEB_NONE) return FF_OK;
        state->origin = LABEL_JSON;
        state->key = usual_keys[used];
    }
    return FF_OK;
}

/* For a set with and without labels: names `unlabeled`. */
static ff_status missing_label(const web *state, const char *unlabeled, ff_error *error) {
    return state->origin == LABEL_CLS
               ? ff_fail(error, FF_BAD_DATA, "%s has no .cls, as other samples have", unlabeled)
               : ff_fail(error, FF_BAD_DATA,
                         "%s has no label, wanted '%s' in its .json, as other samples have",
                         unlabeled, state->key);
}

static ff_status note_unlabeled(web *state, ff_error *error) {
    ff_buffer name = {0};
    ff_status status =
        ff_buffer_printf(&name, error, "%s: sample %.200s", state->path, state->sample.key.bytes);
    if (status == FF_OK && state->labeled) status = missing_label(state, name.bytes, error);
    if (status == FF_OK && !state->unlabeled.length)
        state->unlabeled = name;
    else
        ff_buffer_free(&name);
    return status;
}

/* ---- samples ------------------------------------------------------------------------------- */

static ff_status take_sample(web *state, int32_t *label, ff_error *error) {
    FF_TRY(ff_web_sample_check(&state->sample, error));
    FF_TRY(find_label(state, error));
    if (ff_web_is_unlabeled(&state->label)) return FF_OK;
    const ff_buffer *name = &state->label.name;
    return state->label.kind == FF_WEB_NAME
               ? ff_label_name(&state->values, name->length ? name->bytes : "", name->length, label,
                               error)
               : ff_label_number(&state->values, state->label.number, label, error);
}

/* Counts the members that are not read: captions, arrays, second images, a .json next to the .cls.
 */
static ff_status leave_rest(web *state, ff_error *error) {
    const ff_web_sample *sample = &state->sample;
    ff_buffer name = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < sample->extensions.count && status == FF_OK; i++) {
        const char *extension = ff_names_at(&sample->extensions, i);
        if (i == sample->image || (!strcmp(extension, "cls") && state->origin != LABEL_JSON) ||
            (!strcmp(extension, "json") && state->origin != LABEL_CLS))
            continue;
        name.length = 0;
        status = ff_buffer_printf(&name, error, "%s.%s", sample->key.bytes, extension);
        if (status == FF_OK) status = ff_left_out_file(&state->source->left_out, name.bytes, error);
    }
    ff_buffer_free(&name);
    return status;
}

/* The sample is complete and becomes an item. Its label is a number, or a name's in order of
 * appearance. */
static ff_status finish_sample(web *state, ff_error *error) {
    ff_web_sample *sample = &state->sample;
    if (!sample->extensions.count) return FF_OK;
    int32_t label = -1;
    FF_TRY(in_sample(state, take_sample(state, &label, error), error));
    FF_TRY(leave_rest(state, error));
    if (state->label.kind == FF_WEB_NONE) {
        FF_TRY(note_unlabeled(state, error));
    } else {
        state->labeled = true;
        if (state->unlabeled.length) return missing_label(state, state->unlabeled.bytes, error);
    }
    if (state->part == FF_PART_FILE)
        FF_TRY(
            ff_archive_is_plain(state->archive)
                ? ff_source_add_file(state->source, state->path, state->bytes, &state->part, error)
                : ff_source_add_stream(state->source, state->path, false, &state->part, error));
    ff_item item = {.part = state->part,
                    .offset = sample->image_offset,
                    .bytes = sample->image_bytes,
                    .key = sample->key.bytes,
                    .key_bytes = sample->key.length,
                    .labels = &label};
    sample->extensions.count = 0;
    return ff_listing_add(state->listing, &item, error);
}

static ff_status read_cls(web *state, uint64_t bytes, ff_error *error) {
    char text[FF_WEB_CLS_LIMIT_BYTES];
    size_t got;
    if (bytes > sizeof text)
        return ff_fail(error, FF_BAD_DATA,
                       "its .cls has %" PRIu64 " bytes, wanted a whole number in at most %zu",
                       bytes, sizeof text);
    FF_TRY(ff_archive_read(state->archive, text, sizeof text, &got, error));
    FF_TRY(ff_web_parse_cls(text, got, &state->sample.cls, error));
    state->sample.has_cls = true;
    return FF_OK;
}

static ff_status keep_json(web *state, uint64_t bytes, ff_error *error) {
    ff_buffer *json = &state->sample.json;
    if (bytes > FF_WEB_JSON_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "its .json has %" PRIu64 " bytes, at most %u are allowed", bytes,
                       FF_WEB_JSON_LIMIT_BYTES);
    FF_TRY(ff_reserve(&json->bytes, &json->capacity, bytes + 1, 1, "a .json", error));
    FF_TRY(ff_archive_read(state->archive, json->bytes, bytes, &json->length, error));
    state->sample.has_json = true;
    return FF_OK;
}

static ff_status take_member(web *state, const ff_archive_member *member, ff_error *error) {
    size_t key_bytes;
    ff_web_sample *sample = &state->sample;
    if (member->kind == FF_ARCHIVE_FOLDER) return FF_OK;
    if (!ff_web_split(member->name, &key_bytes))
        return ff_left_out_add(&state->source->left_out, "member whose name has no key",
                               "members whose names have no key", "", member->name,
                               strlen(member->name), error);
    if (member->kind != FF_ARCHIVE_FILE)
        return ff_fail(error, FF_BAD_DATA, "%s: member %.200s is a %s, wanted a regular file",
                       state->path, member->name,
                       member->kind == FF_ARCHIVE_LINK ? "link" : "device or pipe");
    bool same = sample->extensions.count && key_bytes == sample->key.length &&
                !memcmp(sample->key.bytes, member->name, key_bytes);
    if (!same) {
        FF_TRY(finish_sample(state, error));
        FF_TRY(ff_web_sample_begin(sample, member->name, key_bytes, error));
    }
    ff_web_member kind;
    bool plain = ff_archive_is_plain(state->archive);
    ff_status status =
        ff_web_sample_add(sample, member->name + key_bytes + 1,
                          plain ? member->offset : member->ordinal, member->bytes, &kind, error);
    if (status == FF_OK && kind == FF_WEB_CLS && state->origin != LABEL_JSON)
        status = read_cls(state, member->bytes, error);
    if (status == FF_OK && kind == FF_WEB_JSON && state->origin != LABEL_CLS)
        status = keep_json(state, member->bytes, error);
    return in_sample(state, status, error);
}

static ff_status list_members(web *state, ff_error *error) {
    ff_archive_member member;
    for (;;) {
        FF_TRY(ff_archive_next(state->archive, &member, error));
        if (!member.name) return finish_sample(state, error);
        FF_TRY(take_member(state, &member, error));
    }
}

static ff_status list_tar(void *context, ff_source_split *split, const char *path,
                          ff_error *error) {
    int fd;
    web *state = context;
    state->listing = split->listing;
    state->path = path;
    state->part = FF_PART_FILE;
    FF_TRY(ff_source_open_file(path, &fd, &state->bytes, error));
    ff_close_file(&fd);
    FF_TRY(ff_archive_open(&state->archive, path, false, error));
    ff_status status = list_members(state, error);
    ff_archive_close(&state->archive);
    return status;
}

/* ---- the set ------------------------------------------------------------------------------- */

/* A set without labels is refused with options for them. */
static ff_status finish_labels(web *state, ff_error *error) {
    const ff_source *source = state->source;
    if (!state->labeled && source->label)
        return ff_fail(error, FF_USAGE, "--label: no sample of %s has '%s' in a .json",
                       source->path, source->label);
    if (!state->labeled && source->classes)
        return ff_fail(error, FF_USAGE, "--classes: the samples of %s have no labels",
                       source->path);
    return ff_label_values_finish(&state->values, state->labeled, error);
}

static ff_status webdataset_list(ff_source *source, ff_error *error) {
    source->kind = "webdataset";
    source->encoded = true;
    web state = {.source = source,
                 .origin = source->label ? LABEL_JSON : LABEL_UNKNOWN,
                 .key = source->label};
    FF_TRY(ff_label_values_begin(&state.values, source, error));
    ff_shards tars;
    FF_TRY(ff_shards_find(&tars, source->path, &ff_web_tars, source, error));
    ff_status status;
    FF_TRY_DONE(ff_shards_list(&tars, source, list_tar, &state, error));
    FF_TRY_DONE(finish_labels(&state, error));
done:
    ff_web_sample_free(&state.sample);
    ff_label_values_free(&state.values);
    ff_buffer_free(&state.label.name);
    ff_buffer_free(&state.unlabeled);
    ff_shards_free(&tars);
    return status;
}

extern const ff_source_format ff_source_webdataset;
const ff_source_format ff_source_webdataset = {
    .name = "webdataset",
    .elsewhere = true,
    .wanted = "a WebDataset: a tar of images with a .cls or .json each, or a folder or a pattern "
              "like train-{000..146}.tar of such tars",
    .endings = "tar /",
    .detect = webdataset_detect,
    .list = webdataset_list,
    .patterns = true,
    .labels = "next to the images as .cls or .json",
    .uses = FF_USES_CLASSES | FF_USES_LABEL_KIND | FF_USES_SPLITS,
};
