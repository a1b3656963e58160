/* The stack machine's internals, for this room and for readers (ff_pickle_reader): file access
 * (bytes.c), stack and memo (stack.c), opcodes (pickle.c), and the resulting values (values.c). */
#ifndef FF_FORMAT_PICKLE_MACHINE_H
#define FF_FORMAT_PICKLE_MACHINE_H

#include "format/pickle/pickle.h"

/* Where a string's bytes are. Text is UTF-8. */
typedef struct ff_pickle_place {
    uint64_t offset : 63;
    uint64_t decoded : 1; /* in temporary space; otherwise in the file */
    uint64_t bytes;
} ff_pickle_place;

typedef struct ff_pickle_node {
    ff_pickle_kind kind;
    bool flag; /* for the reader's use */
    union {
        int64_t integer; /* bool, integer; name, type or skipped value: the reader's */
        double real;
        ff_pickle_place place;
        struct {
            uint32_t *item; /* dict: keys and values alternate */
            uint32_t count, capacity;
        } list;
        uint32_t made; /* an array: index into ff_pickle.made */
    };
} ff_pickle_node;

struct ff_pickle {
    const ff_pickle_reader *reader;
    void *context; /* for the reader's use */
    int fd;
    const char *path, *temporary;
    uint64_t begin, end; /* in the file */

    /* The window of the file from which opcodes are read. */
    uint64_t at; /* the next byte */
    unsigned char *window;
    uint64_t window_at;
    size_t window_bytes;

    int decoded_fd; /* -1 = none yet */
    uint64_t decoded_bytes;
    ff_buffer decoding; /* bytes of the current string that are not yet written */

    ff_pickle_node *node;
    size_t node_count, node_capacity;
    uint64_t item_count; /* total of all lists */
    ff_pickle_value *stack;
    size_t stack_count, stack_capacity;
    uint32_t mark[FF_PICKLE_MARKS_LIMIT];
    size_t mark_count;
    ff_pickle_value *memo; /* value + 1; 0 = none */
    size_t memo_capacity, memo_count;
    void *made; /* the reader's array, grown by ff_reserve; freed with the pickle */
    size_t made_count, made_capacity;
    uint64_t opcode_at; /* offset of the current opcode in the pickle */
};

/* "PATH: pickle: byte N: ..." */
ff_status ff_pickle_fail(const ff_pickle *pickle, ff_error *error, const char *format, ...)
    FF_PRINTF(3, 4);

/* ---- bytes.c -------------------------------------------------------------------------------- */

/* The next `size` <= 256 bytes, valid until the next call. */
FF_MUST_USE ff_status ff_pickle_take(ff_pickle *pickle, size_t size, const unsigned char **bytes,
                                     ff_error *error);
/* Skips `bytes` bytes; *place = their place. */
FF_MUST_USE ff_status ff_pickle_skip(ff_pickle *pickle, uint64_t bytes, ff_pickle_place *place,
                                     ff_error *error);
/* The next line without its end, at most 255 bytes. */
FF_MUST_USE ff_status ff_pickle_line(ff_pickle *pickle, char text[256], ff_error *error);
/* Decodes a line that is a string as repr() writes it ('S'), or raw-unicode-escape ('V'). */
FF_MUST_USE ff_status ff_pickle_quoted(ff_pickle *pickle, ff_pickle_place *place, ff_error *error);
FF_MUST_USE ff_status ff_pickle_unicode(ff_pickle *pickle, ff_pickle_place *place, ff_error *error);
/* Converts text to the bytes of latin-1. */
FF_MUST_USE ff_status ff_pickle_latin1(ff_pickle *pickle, ff_pickle_place text,
                                       ff_pickle_place *place, ff_error *error);
/* Reads a string, or its first `size` bytes. */
FF_MUST_USE ff_status ff_pickle_fetch(ff_pickle *pickle, ff_pickle_place place, void *to,
                                      size_t size, ff_error *error);

/* ---- stack.c -------------------------------------------------------------------------------- */

FF_MUST_USE ff_status ff_pickle_add(ff_pickle *pickle, ff_pickle_node node, ff_pickle_value *value,
                                    ff_error *error);
FF_MUST_USE ff_status ff_pickle_push(ff_pickle *pickle, ff_pickle_value value, ff_error *error);
/* Adds a value and pushes it. */
FF_MUST_USE ff_status ff_pickle_push_node(ff_pickle *pickle, ff_pickle_node node, ff_error *error);
/* Pushes a list, tuple or dict of values that were popped from the stack. */
FF_MUST_USE ff_status ff_pickle_push_list(ff_pickle *pickle, ff_pickle_kind kind,
                                          const ff_pickle_value *values, uint32_t count,
                                          ff_error *error);
/* Pops `count` values; *values points at them until the next push. */
FF_MUST_USE ff_status ff_pickle_pop(ff_pickle *pickle, size_t count, const ff_pickle_value **values,
                                    ff_error *error);
/* Pops all values down to the last mark. */
FF_MUST_USE ff_status ff_pickle_pop_mark(ff_pickle *pickle, const ff_pickle_value **values,
                                         uint32_t *count, ff_error *error);
/* The height of the stack at the last mark. */
size_t ff_pickle_bottom(const ff_pickle *pickle);
/* Appends to the list or dict on top of the stack. */
FF_MUST_USE ff_status ff_pickle_extend(ff_pickle *pickle, ff_pickle_kind kind,
                                       const ff_pickle_value *values, uint32_t count,
                                       ff_error *error);
/* Stores the top of the stack in the memo; pushes a value from the memo. */
FF_MUST_USE ff_status ff_pickle_put(ff_pickle *pickle, uint64_t index, ff_error *error);
FF_MUST_USE ff_status ff_pickle_get(ff_pickle *pickle, uint64_t index, ff_error *error);

/* ---- pickle.c ------------------------------------------------------------------------------- */

/* Copies the string `value` to `text`: FF_BAD_DATA if it is not a string or is longer. */
FF_MUST_USE ff_status ff_pickle_short(ff_pickle *pickle, ff_pickle_value value, char text[256],
                                      ff_error *error);

#endif
