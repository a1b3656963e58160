/* WebDataset's samples: splits a member's name into the sample's key and an extension, finds the
 * image and the label among the members, and parses the label (webdataset/tariterators.py).
 *
 * Thread rule: a sample belongs to one thread. */
#ifndef FF_FFPACK_WEB_SAMPLE_H
#define FF_FFPACK_WEB_SAMPLE_H

#include "tools/ffpack/source/names.h"

#define FF_WEB_CLS_LIMIT_BYTES  32u
#define FF_WEB_JSON_LIMIT_BYTES (1u << 20)
#define FF_WEB_MEMBERS_LIMIT    1024u /* one sample's */
#define FF_WEB_IMAGE_EXTENSIONS ".jpg .jpeg .png .ppm .pgm .pbm .bmp .webp .gif .tif .tiff"

/* The key is the name up to the first dot of its last component; the extension is everything after
 * that dot. A name that begins with a dot after a folder has the folder with its '/' as its key, as
 * with WebDataset's regular expression ^((?:.*[/]|)[^.]+)[.]([^/]*)$. False if it has no key, or is
 * WebDataset's own (__NAME__ or inside such a folder): such members are left out. */
bool ff_web_split(const char *name, size_t *key_bytes);

typedef struct ff_web_sample {
    ff_buffer key;
    ff_names extensions; /* in lower case */
    int image_rank;      /* 0 = no image yet */
    size_t image;        /* index of its extension */
    size_t second;       /* index of another image of this rank; 0 = none */
    uint64_t image_offset, image_bytes;
    bool has_cls, has_json;
    int64_t cls;
    ff_buffer json;
} ff_web_sample; /* zero-initialised {0} */

typedef enum ff_web_member { FF_WEB_OTHER, FF_WEB_IMAGE, FF_WEB_CLS, FF_WEB_JSON } ff_web_member;

/* Clears the sample; the next one has the key `key`. */
FF_MUST_USE ff_status ff_web_sample_begin(ff_web_sample *sample, const char *key, size_t key_bytes,
                                          ff_error *error);
/* Takes a member with this extension; *kind = its kind. An image's place is noted: one whose
 * extension is an image's ("jpg") before one whose extension ends so ("left.jpg"). FF_BAD_DATA if
 * there is a member with this extension already, in upper or lower case. */
FF_MUST_USE ff_status ff_web_sample_add(ff_web_sample *sample, const char *extension,
                                        uint64_t offset, uint64_t bytes, ff_web_member *kind,
                                        ff_error *error);
/* FF_BAD_DATA if it has no image, or more than one of the preferred rank. */
FF_MUST_USE ff_status ff_web_sample_check(const ff_web_sample *sample, ff_error *error);
void ff_web_sample_free(ff_web_sample *sample);

/* ---- labels -------------------------------------------------------------------------------- */

typedef struct ff_web_label {
    enum { FF_WEB_NONE, FF_WEB_NUMBER, FF_WEB_NAME } kind;
    int64_t number;
    ff_buffer name;
} ff_web_label;

/* Whether the label is missing, or -1, also as a string. */
bool ff_web_is_unlabeled(const ff_web_label *label);

/* The whole number in a .cls, with white space around it. */
FF_MUST_USE ff_status ff_web_parse_cls(const char *text, size_t bytes, int64_t *number,
                                       ff_error *error);

/* The value of the first of `keys` that the object has: a whole number or a string; kind none if it
 * has no such key, or null. *used = the key found. Python's NaN and Infinity are taken for strings;
 * changes the text. */
FF_MUST_USE ff_status ff_web_parse_json(char *text, size_t bytes, const char *const *keys,
                                        size_t key_count, ff_web_label *label, size_t *used,
                                        ff_error *error);

#endif
