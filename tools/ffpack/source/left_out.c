#include "tools/ffpack/source/left_out.h"

#include "format/base/path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ENDING_LIMIT_BYTES = 16 };

static ff_left_out_kind *find(const ff_left_out *left, const char *one) {
    for (size_t i = 0; i < left->count; i++)
        if (!strcmp(left->kind[i].one, one)) return &left->kind[i];
    return NULL;
}

static ff_status describe(ff_left_out_kind *kind, const char *many, const char *detail,
                          const void *name, size_t name_bytes, ff_error *error) {
    FF_TRY(ff_format(&kind->many, error, "%s%s%s", many, *detail ? " " : "", detail));
    FF_TRY(ff_copy_bytes(&kind->example, name, name_bytes, error));
    for (char *at = kind->example; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    return FF_OK;
}

ff_status ff_left_out_add(ff_left_out *left, const char *one, const char *many, const char *detail,
                          const void *name, size_t name_bytes, ff_error *error) {
    char *text;
    FF_TRY(ff_format(&text, error, "%s%s%s", one, *detail ? " " : "", detail));
    ff_left_out_kind *kind = find(left, text);
    if (!kind && left->count >= FF_LEFT_OUT_LIMIT - 1 && strcmp(text, "other file") != 0) {
        free(text);
        return ff_left_out_add(left, "other file", "other files", "", name, name_bytes, error);
    }
    ff_status status = FF_OK;
    if (!kind) {
        status = ff_reserve(&left->kind, &left->capacity, left->count + 1, sizeof *left->kind,
                            "what is left out", error);
        if (status == FF_OK) {
            kind = &left->kind[left->count++];
            *kind = (ff_left_out_kind){.one = text};
            text = NULL;
            status = describe(kind, many, detail, name, name_bytes, error);
        }
    }
    free(text);
    if (status == FF_OK) kind->count++;
    return status;
}

ff_status ff_left_out_file(ff_left_out *left, const char *path, ff_error *error) {
    const char *ending = ff_path_ending(path);
    bool named = *ending && strlen(ending) <= ENDING_LIMIT_BYTES;
    const char *one = named     ? "file in"
                      : *ending ? "file of another kind"
                                : "file without an ending";
    const char *many = named     ? "files in"
                       : *ending ? "files of other kinds"
                                 : "files without an ending";
    return ff_left_out_add(left, one, many, named ? ending : "", path, strlen(path), error);
}

ff_status ff_left_out_text(const ff_left_out_kind *kind, char **text, ff_error *error) {
    bool one = kind->count == 1;
    return ff_format(text, error, "%" PRIu64 " %s (%s%s)", kind->count,
                     one ? kind->one : kind->many, kind->example, one ? "" : ", ...");
}

void ff_left_out_free(ff_left_out *left) {
    for (size_t i = 0; i < left->count; i++) {
        free(left->kind[i].one);
        free(left->kind[i].many);
        free(left->kind[i].example);
    }
    free(left->kind);
    *left = (ff_left_out){0};
}
