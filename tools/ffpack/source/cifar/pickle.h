/* Python's pickles, protocols 0 to 5, as far as they hold data: None, bool, int, float, str, bytes,
 * list, tuple, dict, and NumPy's arrays of numbers. Nothing is ever executed: a pickle that imports
 * anything not needed for NumPy arrays is refused, naming the import (FF_BAD_DATA).
 *
 * Opcodes as in Python's Lib/pickletools.py. The bytes of strings and arrays stay in the file;
 * those written as text (protocols 0 to 2 of Python 3, which write bytes as latin-1 text) are
 * decoded into temporary space. Known gaps: sets, persistent and extension ids, out-of-band
 * buffers, integers beyond 64 bits; all are refused by name. Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_PICKLE_H
#define FF_FFPACK_SOURCE_PICKLE_H

#include "tools/ffpack/source/array/array.h"

#define FF_PICKLE_VALUES_LIMIT                                                                     \
    UINT32_C(4194304) /* of values, of memos, and of items in all lists */
#define FF_PICKLE_STACK_LIMIT UINT32_C(1048576)
#define FF_PICKLE_MARKS_LIMIT UINT32_C(1024)

typedef struct ff_pickle ff_pickle;
typedef uint32_t ff_pickle_value; /* a value inside of a pickle */

typedef enum ff_pickle_kind {
    FF_PICKLE_NONE,
    FF_PICKLE_BOOL,
    FF_PICKLE_INTEGER,
    FF_PICKLE_FLOAT,
    FF_PICKLE_TEXT,  /* str; in a pickle of Python 2 also unicode */
    FF_PICKLE_BYTES, /* bytes; in a pickle of Python 2 str */
    FF_PICKLE_LIST,  /* list or tuple */
    FF_PICKLE_DICT,
    FF_PICKLE_ARRAY,
    FF_PICKLE_TYPE, /* a NumPy dtype */
    FF_PICKLE_NAME, /* what was imported */
} ff_pickle_kind;

/* Reads the pickle in `bytes` bytes from `offset` of `fd`, up to its last opcode; `path` is for
 * messages. `fd` and `path` must outlive it. `temporary` is the folder for temporary space. */
FF_MUST_USE ff_status ff_pickle_read(ff_pickle **pickle, int fd, const char *path, uint64_t offset,
                                     uint64_t bytes, const char *temporary, ff_error *error);
void ff_pickle_destroy(ff_pickle **pickle);

ff_pickle_value ff_pickle_root(const ff_pickle *pickle);
ff_pickle_kind ff_pickle_kind_of(const ff_pickle *pickle, ff_pickle_value value);
/* "a list", for messages. */
const char *ff_pickle_kind_name(ff_pickle_kind kind);

/* The entry of a dict whose key is this string, the last one where there are several; false where
 * there is none, or `dict` is no dict. */
FF_MUST_USE ff_status ff_pickle_find(ff_pickle *pickle, ff_pickle_value dict, const char *key,
                                     bool *found, ff_pickle_value *value, ff_error *error);

/* Of a list: how many, and one of them. */
uint32_t ff_pickle_count(const ff_pickle *pickle, ff_pickle_value list);
ff_pickle_value ff_pickle_item(const ff_pickle *pickle, ff_pickle_value list, uint32_t index);

/* Of an integer. */
int64_t ff_pickle_integer(const ff_pickle *pickle, ff_pickle_value value);

/* Of a text or bytes of at most `limit` bytes: *text is allocated and ends with a zero byte,
 * *length may be NULL. FF_BAD_DATA where it is longer. */
FF_MUST_USE ff_status ff_pickle_text(ff_pickle *pickle, ff_pickle_value value, size_t limit,
                                     char **text, size_t *length, ff_error *error);

/* Of an array (without dimensions if the pickle never set its state). Its part is not set;
 * *decoded: whether its offset is in temporary space and not in the file. Its bytes are
 * contiguous. */
ff_array ff_pickle_array(const ff_pickle *pickle, ff_pickle_value value, bool *decoded);

/* *fd = the temporary space with decoded bytes, closed by the caller. Only if something was
 * decoded. */
FF_MUST_USE ff_status ff_pickle_decoded(const ff_pickle *pickle, int *fd, ff_error *error);

#endif
