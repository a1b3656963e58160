/* JSON for values for which JSON has no type. Functions return a new reference, or NULL if out of
 * memory. Thread rule: pure. */
#ifndef FF_BASE_JSON_H
#define FF_BASE_JSON_H

#include "format/base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Text that may hold any bytes, such as a path: percent-escaped (ff_escape) if it is not UTF-8;
 * NULL becomes null. */
json_t *ff_json_text(const char *text);

/* Bytes, always percent-escaped. */
json_t *ff_json_bytes(const void *bytes, size_t length);

/* A sample's key as written by ff_key_text (format/base/readable.h). */
json_t *ff_json_key(const void *key, size_t length);

/* A number, or the string "NaN", "Infinity" or "-Infinity". */
json_t *ff_json_number(double value);

/* Adds `item`, which is released in any case. If either is NULL or memory runs out, the array is
 * released too and *array = NULL: an array fails as a whole. */
void ff_json_append(json_t **array, json_t *item);

/* An id in hexadecimal. */
json_t *ff_json_id(const uint8_t id[16]);

/* Calls `take` with the object of each line of a file, until a call fails; returns that call's
 * status. Lines that are not JSON objects are counted in *others, which may be NULL; empty lines
 * are not counted. FF_IO; FF_BAD_DATA beyond 1 GiB. */
typedef ff_status ff_json_taker(void *context, json_t *object, ff_error *error);
FF_MUST_USE ff_status ff_json_lines_read(const char *path, ff_json_taker *take, void *context,
                                         size_t *others, ff_error *error);

#endif
