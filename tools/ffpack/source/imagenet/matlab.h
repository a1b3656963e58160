/* MATLAB's MAT-files, level 5, as far as ImageNet's devkit needs them: a struct array with fields
 * of numbers and texts (https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf).
 * Little-endian files, elements compressed or not. Known gaps: everything else. Thread rule:
 * pure. */
#ifndef FF_FFPACK_SOURCE_MATLAB_H
#define FF_FFPACK_SOURCE_MATLAB_H

#include "format/base/memory.h"

/* One value of a struct array's element. */
typedef struct ff_matlab_value {
    bool is_number, is_text; /* else something that is not read */
    double number;           /* the first one of an array */
    char text[64];           /* truncated; zero-terminated */
} ff_matlab_value;

/* Calls `take` for every element of the struct array `name`, with its values of the `field_count`
 * named fields, in their order. FF_BAD_DATA if the file is broken, or lacks the array or a field;
 * `path` is for the error message. A failure of `take` ends the call. */
FF_MUST_USE ff_status
ff_matlab_struct(const uint8_t *bytes, size_t length, const char *path, const char *name,
                 const char *const *field, size_t field_count,
                 ff_status (*take)(void *context, const ff_matlab_value *value, ff_error *error),
                 void *context, ff_error *error);

#endif
