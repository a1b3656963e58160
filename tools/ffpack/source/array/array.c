#include "tools/ffpack/source/array/array.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 256 * 1024, STRAIGHTEN_BYTES = 32 << 20 };
#define BYTES_LIMIT (UINT64_C(1) << 60)

bool ff_array_bytes(const ff_array *array, uint64_t *bytes) {
    *bytes = ff_element_bytes(array->element);
    bool empty = false, fits = true;
    for (unsigned i = 0; i < array->dimensions; i++) {
        if (!array->size[i])
            empty = true;
        else if (!ff_mul_u64(*bytes, array->size[i], bytes) || *bytes > BYTES_LIMIT)
            fits = false;
        if (!fits) break;
    }
    if (empty) *bytes = 0;
    return fits;
}

uint64_t ff_array_sample_bytes(const ff_array *array) {
    uint64_t bytes = ff_element_bytes(array->element);
    for (unsigned i = 1; i < array->dimensions; i++) bytes *= array->size[i];
    return bytes;
}

const char *ff_array_shape(const ff_array *array, char *text, size_t size) {
    size_t length = 0;
    for (unsigned i = 0; i < array->dimensions && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRIu64, i ? " x " : "",
                                   array->size[i]);
    if (length < size)
        snprintf(text + length, size - length, "%s%s", array->dimensions ? " " : "one ",
                 ff_element_name(array->element));
    return text;
}

/* ---- fortran order ------------------------------------------------------------------------- */

/* Converts `index`, counted with the second index fastest, to the position with the last index
 * fastest, in a sample's elements. */
static uint64_t straight_place(const ff_array *array, uint64_t index) {
    uint64_t stride = ff_array_sample_bytes(array) / ff_element_bytes(array->element), place = 0;
    for (unsigned i = 1; i < array->dimensions; i++) {
        stride /= array->size[i];
        place += index % array->size[i] * stride;
        index /= array->size[i];
    }
    return place;
}

/* Samples first .. first + count - 1: for each position in a sample, the elements of all samples
 * are adjacent in the file. */
static ff_status gather(const ff_array *array, const ff_source_part *part, uint64_t first,
                        uint64_t count, unsigned char *column, unsigned char *samples,
                        ff_error *error) {
    size_t element = ff_element_bytes(array->element);
    uint64_t sample = ff_array_sample_bytes(array);
    for (uint64_t i = 0; i < sample / element; i++) {
        uint64_t place = straight_place(array, i) * element;
        FF_TRY(ff_read_at(part->fd, part->path, column, count * element,
                          array->offset + (i * array->size[0] + first) * element, error));
        for (uint64_t n = 0; n < count; n++)
            memcpy(samples + n * sample + place, column + n * element, element);
    }
    return FF_OK;
}

ff_status ff_array_straighten(ff_array *array, ff_source *source, const char *path,
                              ff_error *error) {
    bool fortran = array->fortran;
    array->fortran = false;
    uint64_t total, sample = ff_array_sample_bytes(array);
    if (!fortran || !ff_array_bytes(array, &total) || !total) return FF_OK;
    int fd;
    uint32_t added;
    FF_TRY(ff_open_temporary(source->temporary, &fd, error));
    FF_TRY(ff_source_add_part(source, path, fd, &added, error));
    const ff_source_part *part = &source->part[array->part];
    uint64_t at_once = sample < STRAIGHTEN_BYTES ? STRAIGHTEN_BYTES / sample : 1;
    if (at_once > array->size[0]) at_once = array->size[0];
    unsigned char *samples = NULL, *column = NULL;
    ff_status status;
    FF_TRY_DONE(ff_alloc_aligned(&samples, at_once, sample, 0, "samples", error));
    FF_TRY_DONE(ff_alloc_aligned(&column, at_once, 8, 0, "samples", error));
    for (uint64_t first = 0; first < array->size[0]; first += at_once) {
        uint64_t count = array->size[0] - first < at_once ? array->size[0] - first : at_once;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(gather(array, part, first, count, column, samples, error));
        FF_TRY_DONE(ff_write_temporary(fd, source->temporary, samples, count * sample,
                                       first * sample, error));
    }
done:
    free(samples);
    free(column);
    array->part = added;
    array->offset = 0;
    return status;
}

/* ---- rows ---------------------------------------------------------------------------------- */

ff_status ff_array_row(ff_array_rows *rows, uint64_t index, const unsigned char **row,
                       ff_error *error) {
    const ff_array *array = rows->array;
    uint64_t bytes = ff_array_sample_bytes(array);
    uint64_t at_once = bytes < WINDOW_BYTES ? WINDOW_BYTES / bytes : 1;
    if (!rows->window)
        FF_TRY(ff_alloc_aligned(&rows->window, at_once, bytes, 0, "an array's rows", error));
    if (index < rows->first || index >= rows->first + rows->count) {
        uint64_t left = array->size[0] - index;
        rows->first = index;
        rows->count = 0;
        uint64_t count = left < at_once ? left : at_once;
        FF_TRY(ff_read_at(rows->source->part[array->part].fd, rows->path, rows->window,
                          count * bytes, array->offset + index * bytes, error));
        rows->count = count;
    }
    *row = rows->window + (index - rows->first) * bytes;
    return FF_OK;
}

void ff_array_rows_free(ff_array_rows *rows) {
    free(rows->window);
    rows->window = NULL;
    rows->count = 0;
}
