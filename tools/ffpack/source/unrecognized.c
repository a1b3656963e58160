#include "tools/ffpack/source/unrecognized.h"

#include "format/base/path.h"
#include "format/cli/nearest.h"
#include "tools/ffpack/source/list/header.h"

#include <string.h>

extern const ff_source_format ff_source_idx, ff_source_npy, ff_source_webdataset, ff_source_cifar,
    ff_source_imagenet, ff_source_archive, ff_source_list_file, ff_source_folder,
    ff_source_tfrecord, ff_source_mds, ff_source_litdata, ff_source_beton, ff_source_parquet;

/* Usual formats come first: among equally near formats the first ones are named. */
static const ff_source_format *const usual[] = {
    &ff_source_folder,   &ff_source_list_file, &ff_source_archive,  &ff_source_webdataset,
    &ff_source_npy,      &ff_source_idx,       &ff_source_imagenet, &ff_source_cifar,
    &ff_source_tfrecord, &ff_source_mds,       &ff_source_litdata,  &ff_source_beton,
    &ff_source_parquet};

enum { USUAL = sizeof usual / sizeof usual[0], NEAREST = 3, FAR = 4 };

/* The distance between this ending ("/" for a folder) and the endings of a format's files; FAR if
 * it is not near. */
static int distance(const ff_source_format *format, const char *ending) {
    ff_names words = {0};
    ff_nearest nearest = {.wanted = ending, .length = strlen(ending)};
    ff_status status = FF_OK;
    for (const char *at = format->endings; *at && status == FF_OK;) {
        const size_t bytes = strcspn(at, " ");
        status = ff_names_add(&words, at, bytes, NULL);
        at += bytes + (at[bytes] == ' ');
    }
    const bool folder = *ending == '/';
    for (size_t i = 0; i < words.count; i++) {
        const char *word = ff_names_at(&words, i);
        if (folder == (*word == '/')) ff_nearest_offer(&nearest, word);
    }
    const int edits = nearest.name ? nearest.edits : FAR;
    ff_names_free(&words);
    return edits;
}

/* The descriptions of the three formats whose files' endings are nearest to this one. */
static ff_status describe_nearest(ff_buffer *text, const char *ending, ff_error *error) {
    int named = 0;
    for (int edits = 0; edits <= FAR; edits++) {
        for (int i = 0; i < USUAL && named < NEAREST; i++) {
            if (distance(usual[i], ending) != edits) continue;
            FF_TRY(ff_buffer_printf(text, error, "%s%s", named++ ? "; " : "", usual[i]->wanted));
        }
    }
    return ff_buffer_printf(text, error, "; ffpack --help lists all");
}

static ff_status no_table(const char *path, const unsigned char *head, size_t bytes,
                          ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: its first line '%.*s' neither begins with the path of a file that is "
                   "there, nor has a column called path, file, filename or image; wanted either, "
                   "as in a list of image files, or --columns path=NAME,label=NAME, which names "
                   "its columns",
                   path, (int)(bytes < 100 ? bytes : 100), (const char *)head);
}

ff_status ff_source_unrecognized(const char *path, const unsigned char *head, size_t head_bytes,
                                 ff_error *error) {
    const char *dot = strrchr(ff_path_base(path), '.');
    ff_buffer wanted = {0};
    size_t line_bytes;
    ff_status status = describe_nearest(&wanted, !head ? "/" : dot ? dot + 1 : "", error);
    if (status != FF_OK)
        ;
    else if (!head)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: not a kind of folder that ffpack knows; the nearest are %s", path,
                         wanted.bytes);
    else if (!head_bytes)
        status = ff_fail(error, FF_BAD_DATA, "%s: is empty; wanted %s", path, wanted.bytes);
    else if (ff_list_looks_like_table(head, head_bytes, &line_bytes))
        status = no_table(path, head, line_bytes, error);
    else
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: starts with bytes %02x %02x %02x %02x, which is not a source that "
                         "ffpack knows; the nearest are %s",
                         path, head[0], head_bytes > 1 ? head[1] : 0, head_bytes > 2 ? head[2] : 0,
                         head_bytes > 3 ? head[3] : 0, wanted.bytes);
    ff_buffer_free(&wanted);
    return status;
}
