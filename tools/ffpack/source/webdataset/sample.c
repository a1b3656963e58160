#include "tools/ffpack/source/webdataset/sample.h"

#include "format/base/text.h"
#include "format/disk/metadata.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names --------------------------------------------------------------------------------- */

static bool is_meta(const char *name) {
    size_t length = strcspn(name, "/");
    bool framed = length >= 2 && !strncmp(name, "__", 2) && !strncmp(name + length - 2, "__", 2);
    return framed && (!name[length] || length >= 4);
}

bool ff_web_split(const char *name, size_t *key_bytes) {
    if (is_meta(name)) return false;
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
    if (!dot) return false;
    if (dot == base) {
        /* Then the folder's name is the key's last component. */
        if (!slash) return false;
        const char *before = slash;
        while (before > name && before[-1] != '/') before--;
        if (memchr(before, '.', (size_t)(slash - before))) return false;
    }
    *key_bytes = (size_t)(dot - name);
    return true;
}

static bool is_image(const char *extension) {
    static const char *const known[] = {"jpg", "jpeg", "png", "ppm", "pgm", "pbm",
                                        "bmp", "webp", "gif", "tif", "tiff"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(extension, known[i])) return true;
    return false;
}

static int image_rank(const char *extension) {
    const char *dot = strrchr(extension, '.');
    return is_image(extension) ? 2 : dot && is_image(dot + 1) ? 1 : 0;
}

/* ---- samples ------------------------------------------------------------------------------- */

static void clear_names(ff_names *names) {
    names->count = 0;
    names->used = 0;
}

ff_status ff_web_sample_begin(ff_web_sample *sample, const char *key, size_t key_bytes,
                              ff_error *error) {
    clear_names(&sample->extensions);
    sample->image_rank = 0;
    sample->second = 0;
    sample->has_cls = sample->has_json = false;
    sample->key.length = 0;
    FF_TRY(ff_buffer_add(&sample->key, key, key_bytes, error));
    FF_TRY(ff_buffer_add(&sample->key, "", 1, error));
    sample->key.length--;
    return FF_OK;
}

/* Adds the extension in lower case, as a new one. */
static ff_status take_extension(ff_web_sample *sample, const char *extension, const char **taken,
                                ff_error *error) {
    ff_names *names = &sample->extensions;
    size_t number = names->count;
    if (number == FF_WEB_MEMBERS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "has more than %u members", FF_WEB_MEMBERS_LIMIT);
    FF_TRY(ff_names_add(names, extension, strlen(extension), error));
    char *lower = names->bytes + names->offset[number];
    for (char *at = lower; *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    for (size_t i = 0; i < number; i++)
        if (!strcmp(ff_names_at(names, i), lower))
            return ff_fail(error, FF_BAD_DATA, "has two members of extension '%s'", lower);
    *taken = lower;
    return FF_OK;
}

ff_status ff_web_sample_add(ff_web_sample *sample, const char *extension, uint64_t offset,
                            uint64_t bytes, ff_web_member *kind, ff_error *error) {
    const char *taken = NULL;
    FF_TRY(take_extension(sample, extension, &taken, error));
    int rank = image_rank(taken);
    *kind = rank                     ? FF_WEB_IMAGE
            : !strcmp(taken, "cls")  ? FF_WEB_CLS
            : !strcmp(taken, "json") ? FF_WEB_JSON
                                     : FF_WEB_OTHER;
    size_t number = sample->extensions.count - 1;
    if (rank && rank == sample->image_rank) sample->second = number;
    if (rank > sample->image_rank) {
        sample->image_rank = rank;
        sample->image = number;
        sample->second = 0;
        sample->image_offset = offset;
        sample->image_bytes = bytes;
    }
    return FF_OK;
}

ff_status ff_web_sample_check(const ff_web_sample *sample, ff_error *error) {
    if (!sample->image_rank)
        return ff_fail(error, FF_BAD_DATA,
                       "has no image, wanted a member of " FF_WEB_IMAGE_EXTENSIONS);
    if (sample->second)
        return ff_fail(error, FF_BAD_DATA, "has two images, '%s' and '%s', wanted one",
                       ff_names_at(&sample->extensions, sample->image),
                       ff_names_at(&sample->extensions, sample->second));
    return FF_OK;
}

void ff_web_sample_free(ff_web_sample *sample) {
    ff_buffer_free(&sample->key);
    ff_buffer_free(&sample->json);
    ff_names_free(&sample->extensions);
    *sample = (ff_web_sample){0};
}

/* ---- labels -------------------------------------------------------------------------------- */

ff_status ff_web_parse_cls(const char *text, size_t bytes, int64_t *number, ff_error *error) {
    size_t at = 0, end = bytes;
    while (at < end && isspace((unsigned char)text[at])) at++;
    while (end > at && isspace((unsigned char)text[end - 1])) end--;
    bool negative = at < end && text[at] == '-';
    if (at < end && (text[at] == '-' || text[at] == '+')) at++;
    bool whole = at < end && end - at <= 18; /* fits in 63 bits */
    int64_t value = 0;
    for (; at < end && whole; at++) {
        whole = text[at] >= '0' && text[at] <= '9';
        value = value * 10 + (text[at] - '0');
    }
    if (!whole) {
        ff_buffer shown = {0};
        ff_status status = ff_escape(&shown, text, bytes, error);
        if (status == FF_OK)
            status = ff_fail(error, FF_BAD_DATA, "its .cls holds '%.*s', wanted a whole number",
                             (int)shown.length, shown.length ? shown.bytes : "");
        ff_buffer_free(&shown);
        return status;
    }
    *number = negative ? -value : value;
    return FF_OK;
}

/* Python writes NaN, Infinity and -Infinity where JSON has no such numbers; they are replaced by a
 * string that is not longer, so that such a label is refused. */
static void replace_python_numbers(char *text, size_t bytes) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool inside = false;
    for (size_t at = 0; at < bytes; at++) {
        if (inside && text[at] == '\\') {
            at++;
            continue;
        }
        if (text[at] == '"') inside = !inside;
        for (size_t i = 0; i < 3 && !inside; i++) {
            size_t length = strlen(words[i]);
            if (bytes - at < length || memcmp(text + at, words[i], length) != 0) continue;
            memset(text + at, ' ', length);
            text[at] = text[at + 1] = '"';
            at += length - 1;
            break;
        }
    }
}

static ff_status take_value(const json_t *value, const char *key, ff_web_label *label,
                            ff_error *error) {
    label->name.length = 0;
    if (json_is_string(value)) {
        label->kind = FF_WEB_NAME;
        return ff_buffer_add(&label->name, json_string_value(value), json_string_length(value),
                             error);
    }
    double number = json_is_real(value) ? json_real_value(value) : 0.5;
    if (number != floor(number) || fabs(number) > 9e15)
        return ff_fail(error, FF_BAD_DATA,
                       "'%s' in its .json is neither a whole number nor a string", key);
    label->kind = FF_WEB_NUMBER;
    label->number = (int64_t)number;
    return FF_OK;
}

bool ff_web_is_unlabeled(const ff_web_label *label) {
    int64_t number = label->number;
    const ff_buffer *name = &label->name;
    if (label->kind == FF_WEB_NAME && ff_text_whole(name->bytes, name->length, &number) <= 0)
        return false;
    return label->kind == FF_WEB_NONE || number == -1;
}

ff_status ff_web_parse_json(char *text, size_t bytes, const char *const *keys, size_t key_count,
                            ff_web_label *label, size_t *used, ff_error *error) {
    label->kind = FF_WEB_NONE;
    replace_python_numbers(text, bytes);
    json_error_t reason;
    /* Integers as doubles: other values than the label may be larger than 64 bits. */
    json_t *root = json_loadb(text, bytes, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &reason);
    if (!root && json_error_code(&reason) == json_error_out_of_memory)
        return ff_fail(error, FF_NO_MEMORY, "not enough memory for a .json");
    if (!root)
        return ff_fail(error, FF_BAD_DATA, "its .json is broken at byte %d (%s)", reason.position,
                       reason.text);
    ff_status status = FF_OK;
    if (!json_is_object(root))
        status = ff_fail(error, FF_BAD_DATA, "its .json is not an object, wanted {...}");
    for (size_t i = 0; i < key_count && status == FF_OK; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (!value || json_is_null(value)) continue;
        *used = i;
        status = take_value(value, keys[i], label, error);
        break;
    }
    json_decref(root);
    return status;
}
