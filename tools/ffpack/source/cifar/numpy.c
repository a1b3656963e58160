/* NumPy arrays in a pickle: the only allowed imports, and the only calls that are evaluated.
 * numpy/core/src/multiarray/methods.c (array_reduce, array_setstate) and descriptor.c
 * (arraydescr_reduce, arraydescr_setstate).
 *
 *   _reconstruct(ndarray, (0,), b'b').__setstate__((1, shape, dtype, fortran_order, bytes))
 *   _frombuffer(bytes, dtype, shape, "C" or "F")                    (protocol 5)
 *   dtype("u1", False, True).__setstate__((3, "|", None, None, None, -1, -1, 0))
 *   encode(text, "latin1")                                          (bytes in protocols 0 to 2) */
#include "tools/ffpack/source/cifar/numpy.h"

#include "format/pickle/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The only allowed imports. */
typedef enum import_kind {
    IMPORT_RECONSTRUCT, /* numpy.core.multiarray._reconstruct */
    IMPORT_FROMBUFFER,  /* numpy.core.numeric._frombuffer, of protocol 5 */
    IMPORT_NDARRAY,     /* numpy.ndarray */
    IMPORT_DTYPE,       /* numpy.dtype */
    IMPORT_ENCODE,      /* _codecs.encode, for bytes written as text */
    IMPORT_COUNT
} import_kind;

typedef struct matrix {
    ff_array array;
    bool decoded;
} matrix;

static matrix *matrix_at(const ff_pickle *pickle, ff_pickle_value value) {
    return (matrix *)pickle->made + pickle->node[value].made;
}

static const struct {
    const char *module, *name;
    import_kind import;
} imports[] = {
    {"numpy.core.multiarray", "_reconstruct", IMPORT_RECONSTRUCT},
    {"numpy._core.multiarray", "_reconstruct", IMPORT_RECONSTRUCT},
    {"numpy.core.numeric", "_frombuffer", IMPORT_FROMBUFFER},
    {"numpy._core.numeric", "_frombuffer", IMPORT_FROMBUFFER},
    {"numpy", "ndarray", IMPORT_NDARRAY},
    {"numpy", "dtype", IMPORT_DTYPE},
    {"_codecs", "encode", IMPORT_ENCODE},
};

static ff_status import(ff_pickle *pickle, const char *module, const char *name,
                        ff_pickle_value *value, ff_error *error) {
    for (size_t i = 0; i < sizeof imports / sizeof imports[0]; i++)
        if (!strcmp(module, imports[i].module) && !strcmp(name, imports[i].name))
            return ff_pickle_add(
                pickle, (ff_pickle_node){.kind = FF_PICKLE_NAME, .integer = imports[i].import},
                value, error);
    return ff_pickle_fail(pickle, error,
                          "imports %s.%s, which ffpack never does; only NumPy's arrays of numbers "
                          "are read",
                          module, name);
}

/* ---- arguments ----------------------------------------------------------------------------- */

/* The arguments of a call or state; at most `limit`. */
static ff_status arguments_of(const ff_pickle *pickle, ff_pickle_value list, uint32_t least,
                              uint32_t limit, const char *what, const ff_pickle_value **items,
                              ff_error *error) {
    const ff_pickle_node *node = &pickle->node[list];
    if (node->kind != FF_PICKLE_LIST || node->list.count < least || node->list.count > limit)
        return ff_pickle_fail(pickle, error, "%s that NumPy does not write", what);
    *items = node->list.item;
    return FF_OK;
}

static ff_status wrong(const ff_pickle *pickle, const char *what, ff_error *error) {
    return ff_pickle_fail(pickle, error, "%s that NumPy does not write", what);
}

static bool is_string(const ff_pickle *pickle, ff_pickle_value value) {
    ff_pickle_kind kind = pickle->node[value].kind;
    return kind == FF_PICKLE_TEXT || kind == FF_PICKLE_BYTES;
}

static bool is_number(const ff_pickle *pickle, ff_pickle_value value) {
    ff_pickle_kind kind = pickle->node[value].kind;
    return kind == FF_PICKLE_INTEGER || kind == FF_PICKLE_BOOL;
}

/* ---- types --------------------------------------------------------------------------------- */

static ff_status make_type(ff_pickle *pickle, const ff_pickle_value *arguments,
                           ff_pickle_value *result, ff_error *error) {
    char text[256];
    ff_element_type element;
    bool big_endian;
    FF_TRY(ff_pickle_short(pickle, arguments[0], text, error));
    if (!ff_element_parse(text, &element, &big_endian))
        return ff_pickle_fail(pickle, error,
                              "an array of type %s; only arrays of numbers are read%s", text,
                              *text == 'O' ? ", Python's objects never" : "");
    return ff_pickle_add(
        pickle, (ff_pickle_node){.kind = FF_PICKLE_TYPE, .integer = element, .flag = big_endian},
        result, error);
}

static ff_status build_type(ff_pickle *pickle, ff_pickle_value type, ff_pickle_value state,
                            ff_error *error) {
    const ff_pickle_value *items = NULL;
    char order[256];
    FF_TRY(arguments_of(pickle, state, 5, 9, "a state of a type", &items, error));
    FF_TRY(ff_pickle_short(pickle, items[1], order, error));
    if (!*order || order[1] || !strchr("<>=|", *order)) return wrong(pickle, "a byte order", error);
    for (int i = 2; i < 5; i++)
        if (pickle->node[items[i]].kind != FF_PICKLE_NONE)
            return ff_pickle_fail(
                pickle, error, "an array of a type with fields; only arrays of numbers are read");
    pickle->node[type].flag = *order == '>';
    return FF_OK;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static ff_status make_array(ff_pickle *pickle, ff_pickle_value *result, ff_error *error) {
    FF_TRY(ff_reserve(&pickle->made, &pickle->made_capacity, pickle->made_count + 1, sizeof(matrix),
                      "a pickle's arrays", error));
    ff_pickle_node node = {.kind = FF_PICKLE_ARRAY, .made = (uint32_t)pickle->made_count};
    FF_TRY(ff_pickle_add(pickle, node, result, error));
    pickle->made_count++;
    *matrix_at(pickle, *result) = (matrix){0};
    return FF_OK;
}

/* Its elements are the bytes `data`, whose count must match type and shape. */
static ff_status fill_array(ff_pickle *pickle, ff_pickle_value value, ff_pickle_value shape,
                            ff_pickle_value type, bool fortran, ff_pickle_value data,
                            ff_error *error) {
    const ff_pickle_value *sides = NULL;
    FF_TRY(arguments_of(pickle, shape, 0, FF_ARRAY_DIMENSIONS, "a shape", &sides, error));
    if (pickle->node[type].kind != FF_PICKLE_TYPE) return wrong(pickle, "an array's type", error);
    if (pickle->node[data].kind != FF_PICKLE_BYTES)
        return ff_pickle_fail(pickle, error, "an array of %s, wanted bytes",
                              ff_pickle_kind_name(pickle, pickle->node[data].kind));
    matrix filled = {0};
    ff_array *array = &filled.array;
    ff_pickle_place place = pickle->node[data].place;
    array->element = (ff_element_type)pickle->node[type].integer;
    array->big_endian = pickle->node[type].flag;
    array->dimensions = pickle->node[shape].list.count;
    array->fortran = fortran && array->dimensions > 1;
    array->offset = place.offset;
    filled.decoded = place.decoded;
    for (unsigned i = 0; i < array->dimensions; i++) {
        if (!is_number(pickle, sides[i]) || pickle->node[sides[i]].integer < 0)
            return wrong(pickle, "a shape", error);
        array->size[i] = (uint64_t)pickle->node[sides[i]].integer;
    }
    uint64_t bytes;
    char text[256];
    if (!ff_array_bytes(array, &bytes) || bytes != place.bytes)
        return ff_pickle_fail(pickle, error, "an array of %s in %" PRIu64 " bytes",
                              ff_array_shape(array, text, sizeof text), (uint64_t)place.bytes);
    *matrix_at(pickle, value) = filled;
    return FF_OK;
}

static ff_status build_array(ff_pickle *pickle, ff_pickle_value value, ff_pickle_value state,
                             ff_error *error) {
    const ff_pickle_value *items = NULL;
    FF_TRY(arguments_of(pickle, state, 5, 5, "a state of an array", &items, error));
    if (!is_number(pickle, items[0]) || pickle->node[items[0]].integer != 1 ||
        !is_number(pickle, items[3]))
        return wrong(pickle, "a state of an array", error);
    return fill_array(pickle, value, items[1], items[2], pickle->node[items[3]].integer != 0,
                      items[4], error);
}

/* ---- calls --------------------------------------------------------------------------------- */

static ff_status encode(ff_pickle *pickle, const ff_pickle_value *arguments,
                        ff_pickle_value *result, ff_error *error) {
    char codec[256];
    FF_TRY(ff_pickle_short(pickle, arguments[1], codec, error));
    if (strcmp(codec, "latin1") != 0 && strcmp(codec, "latin-1") != 0)
        return ff_pickle_fail(pickle, error, "encodes as '%s', wanted latin1", codec);
    if (!is_string(pickle, arguments[0])) return wrong(pickle, "bytes", error);
    ff_pickle_node node = {.kind = FF_PICKLE_BYTES};
    FF_TRY(ff_pickle_latin1(pickle, pickle->node[arguments[0]].place, &node.place, error));
    return ff_pickle_add(pickle, node, result, error);
}

static ff_status from_buffer(ff_pickle *pickle, const ff_pickle_value *arguments,
                             ff_pickle_value *result, ff_error *error) {
    char order[256];
    FF_TRY(ff_pickle_short(pickle, arguments[3], order, error));
    if (strcmp(order, "C") != 0 && strcmp(order, "F") != 0) return wrong(pickle, "an order", error);
    FF_TRY(make_array(pickle, result, error));
    return fill_array(pickle, *result, arguments[2], arguments[1], *order == 'F', arguments[0],
                      error);
}

static ff_status call(ff_pickle *pickle, ff_pickle_value callable, ff_pickle_value list,
                      ff_pickle_value *result, ff_error *error) {
    static const uint32_t counts[IMPORT_COUNT] = {3, 4, 0, 3, 2};
    const ff_pickle_node *node = &pickle->node[callable];
    if (node->kind != FF_PICKLE_NAME)
        return ff_pickle_fail(pickle, error, "calls %s", ff_pickle_kind_name(pickle, node->kind));
    int64_t called = node->integer;
    const ff_pickle_value *arguments = NULL;
    FF_TRY(arguments_of(pickle, list, counts[called], counts[called], "a call", &arguments, error));
    switch (called) {
    case IMPORT_RECONSTRUCT:
        node = &pickle->node[arguments[0]];
        if (node->kind != FF_PICKLE_NAME || node->integer != IMPORT_NDARRAY)
            return wrong(pickle, "a call", error);
        return make_array(pickle, result, error);
    case IMPORT_FROMBUFFER: return from_buffer(pickle, arguments, result, error);
    case IMPORT_DTYPE: return make_type(pickle, arguments, result, error);
    case IMPORT_ENCODE: return encode(pickle, arguments, result, error);
    default: return wrong(pickle, "a call", error);
    }
}

static ff_status build(ff_pickle *pickle, ff_pickle_value object, ff_pickle_value state,
                       ff_error *error) {
    switch (pickle->node[object].kind) {
    case FF_PICKLE_ARRAY: return build_array(pickle, object, state, error);
    case FF_PICKLE_TYPE: return build_type(pickle, object, state, error);
    default:
        return ff_pickle_fail(pickle, error, "sets the state of %s",
                              ff_pickle_kind_name(pickle, pickle->node[object].kind));
    }
}

/* ---- the reader ---------------------------------------------------------------------------- */

ff_status ff_numpy_read(ff_pickle **pickle, const ff_pickle_file *at, ff_error *error) {
    static const ff_pickle_reader reader = {.holds =
                                                "numbers, strings, lists, dicts and NumPy's arrays",
                                            .array = "an array",
                                            .type = "a NumPy type",
                                            .import = import,
                                            .call = call,
                                            .build = build};
    return ff_pickle_read(pickle, &reader, NULL, at, error);
}

ff_array ff_numpy_array(const ff_pickle *pickle, ff_pickle_value value, bool *decoded) {
    *decoded = matrix_at(pickle, value)->decoded;
    return matrix_at(pickle, value)->array;
}
