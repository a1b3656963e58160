/* Room format/pickle, floor 1: Python's pickles, read and written.
 *
 * pickle.h reads values, write.h writes them. Nothing is ever executed.
 *
 * May include format/base.
 *
 * Python's pickles, protocols 0 to 5, as far as they hold data: None, bool, int, float, str, bytes,
 * list, tuple, dict, and what a reader makes of calls: NumPy's arrays
 * (tools/ffpack/source/cifar/numpy.h), PyTorch's tensors (train/checkpoint/torch/pickle.h). Nothing
 * is ever executed: an import is a name that the reader accepts or refuses (FF_BAD_DATA), and the
 * reader decides what a call of that name makes.
 *
 * Opcodes as in Python's Lib/pickletools.py. The bytes of strings stay in the file; strings written
 * as text (protocols 0 to 2 of Python 3 write bytes as latin-1 text) are decoded into temporary
 * space. Lists and dicts may hold themselves: nothing here follows such links. Known gaps, all
 * refused by name: extension ids, persistent ids as text, out-of-band buffers; also sets, objects
 * of classes and integers beyond 64 bits, if the reader does not skip them. Thread rule: one thread
 * at a time. */
#ifndef FF_FORMAT_PICKLE_H
#define FF_FORMAT_PICKLE_H

#include "format/base/memory.h"

#define FF_PICKLE_VALUES_LIMIT                                                                     \
    UINT32_C(4194304) /* limit of values, of memos, and of items in all lists */
#define FF_PICKLE_STACK_LIMIT UINT32_C(1048576)
#define FF_PICKLE_MARKS_LIMIT UINT32_C(1024)

typedef struct ff_pickle ff_pickle;
typedef uint32_t ff_pickle_value; /* a value inside a pickle */

typedef enum ff_pickle_kind {
    FF_PICKLE_NONE,
    FF_PICKLE_BOOL,
    FF_PICKLE_INTEGER,
    FF_PICKLE_FLOAT,
    FF_PICKLE_TEXT,  /* str; in a pickle of Python 2 also unicode */
    FF_PICKLE_BYTES, /* bytes; in a pickle of Python 2 str */
    FF_PICKLE_LIST,  /* list or tuple */
    FF_PICKLE_DICT,
    FF_PICKLE_ARRAY, /* an array or a tensor that the reader made */
    FF_PICKLE_TYPE,  /* what the reader makes it from: a type, a storage */
    FF_PICKLE_NAME,  /* what was imported */
    FF_PICKLE_OTHER, /* skipped: a set, an object of a class */
} ff_pickle_kind;

/* How a reader of one library's pickles takes part. */
typedef struct ff_pickle_reader {
    const char *holds; /* what it reads, for messages: "numbers, strings, lists, dicts and ..." */
    const char *array, *type; /* names of these kinds: "an array", "a NumPy type" */
    bool skips; /* sets, objects of classes and large integers become FF_PICKLE_OTHER */
    /* The value of MODULE.NAME. */
    ff_status (*import)(ff_pickle *pickle, const char *module, const char *name,
                        ff_pickle_value *value, ff_error *error);
    /* The result of callable(*arguments), also if a class is called, and of
     * object.__setstate__(state). */
    ff_status (*call)(ff_pickle *pickle, ff_pickle_value callable, ff_pickle_value arguments,
                      ff_pickle_value *result, ff_error *error);
    ff_status (*build)(ff_pickle *pickle, ff_pickle_value object, ff_pickle_value state,
                       ff_error *error);
    /* The value that a persistent id stands for; NULL: such ids are refused. */
    ff_status (*persistent)(ff_pickle *pickle, ff_pickle_value id, ff_pickle_value *result,
                            ff_error *error);
} ff_pickle_reader;

/* Reads the pickle that begins at `offset` of `fd` and ends within `bytes` bytes, up to its last
 * opcode; `path` is for messages. `fd`, `path`, `reader` and `context` (the reader's) must outlive
 * the pickle. `temporary` is the folder for temporary space. On failure *pickle = NULL. */
typedef struct ff_pickle_file {
    int fd;
    const char *path;
    uint64_t offset, bytes;
    const char *temporary;
} ff_pickle_file;
FF_MUST_USE ff_status ff_pickle_read(ff_pickle **pickle, const ff_pickle_reader *reader,
                                     void *context, const ff_pickle_file *at, ff_error *error);
void ff_pickle_destroy(ff_pickle **pickle);

ff_pickle_value ff_pickle_root(const ff_pickle *pickle);
/* The file offset after the pickle's last opcode. */
uint64_t ff_pickle_end(const ff_pickle *pickle);
ff_pickle_kind ff_pickle_kind_of(const ff_pickle *pickle, ff_pickle_value value);
/* "a list", for messages. */
const char *ff_pickle_kind_name(const ff_pickle *pickle, ff_pickle_kind kind);

/* The entry of a dict whose key is this string, the last one if there are several; false if there
 * is no such entry or `dict` is not a dict. */
FF_MUST_USE ff_status ff_pickle_find(ff_pickle *pickle, ff_pickle_value dict, const char *key,
                                     bool *found, ff_pickle_value *value, ff_error *error);

/* The number of a list's items, and one item. A dict's items are alternating keys and values. */
uint32_t ff_pickle_count(const ff_pickle *pickle, ff_pickle_value list);
ff_pickle_value ff_pickle_item(const ff_pickle *pickle, ff_pickle_value list, uint32_t index);

/* The value of an integer or a bool. */
int64_t ff_pickle_integer(const ff_pickle *pickle, ff_pickle_value value);

/* *text = the content of a text or bytes value of at most `limit` bytes, allocated, with a final
 * zero byte; *length (may be NULL) = its length. FF_BAD_DATA if it is longer. */
FF_MUST_USE ff_status ff_pickle_text(ff_pickle *pickle, ff_pickle_value value, size_t limit,
                                     char **text, size_t *length, ff_error *error);

/* *fd = the temporary space with decoded bytes, closed by the caller. Call it only if something was
 * decoded. */
FF_MUST_USE ff_status ff_pickle_decoded(const ff_pickle *pickle, int *fd, ff_error *error);

#endif
