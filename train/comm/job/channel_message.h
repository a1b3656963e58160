/* The messages of the control channel: a header of 16 bytes (FF_MESSAGE_MAGIC, the kind and, in 64
 * bits, the length of the body; all little-endian), then the body. */
#ifndef FF_TRAIN_COMM_CHANNEL_MESSAGE_H
#define FF_TRAIN_COMM_CHANNEL_MESSAGE_H

#include "format/base/memory.h"

typedef enum ff_message_kind {
    FF_MESSAGE_HELLO = 1, /* first, to rank 0: an ff_hello */
    FF_MESSAGE_WELCOME,   /* all ranks have come; an ff_hello of rank 0 */
    FF_MESSAGE_REFUSED,   /* by rank 0: the reason */
    FF_MESSAGE_BEAT,      /* still alive; empty */
    FF_MESSAGE_PART,      /* to rank 0: a rank's part of a gather */
    FF_MESSAGE_PARTS,     /* from rank 0: all parts */
    FF_MESSAGE_REPORT,    /* to rank 0: why this rank fails */
    FF_MESSAGE_FAILED,    /* from rank 0: which rank failed and why */
    FF_MESSAGE_BYE,       /* this rank has ended without a failure; empty */
    FF_MESSAGE_KINDS
} ff_message_kind;

enum { FF_MESSAGE_HEADER = 16, FF_MESSAGE_TEXT = 1024, FF_MESSAGE_PART_BYTES = 16 << 20 };
#define FF_MESSAGE_MAGIC 0x31636666u /* "ffc1" */

typedef struct ff_message {
    ff_message_kind kind;
    const char *body; /* in the bytes that were parsed */
    size_t length;
} ff_message;

/* Who a rank is. */
typedef struct ff_hello {
    int rank, size, process;
    char host[128], version[32], job[512];
} ff_hello;

FF_MUST_USE ff_status ff_message_add(ff_buffer *out, ff_message_kind kind, const void *body,
                                     size_t length, ff_error *error);
/* Parses the message at the beginning of bytes[length]; *used = its length with the header, 0 if
 * the message is not complete yet. FF_BAD_DATA if the bytes are not a message, or it is longer than
 * its kind may be in a job of `size` ranks. */
FF_MUST_USE ff_status ff_message_parse(const char *bytes, size_t length, int size,
                                       ff_message *message, size_t *used, ff_error *error);

FF_MUST_USE ff_status ff_hello_add(ff_buffer *body, const ff_hello *hello, ff_error *error);
/* FF_BAD_DATA if the body is not exactly one ff_hello. */
FF_MUST_USE ff_status ff_hello_parse(const ff_message *message, ff_hello *hello, ff_error *error);

/* Write parts[size] as the body of PARTS, and read them back. The result is empty before; the
 * caller owns and frees it, also after a failure. FF_BAD_DATA if the lengths are not those of
 * `size` parts. */
FF_MUST_USE ff_status ff_parts_add(ff_buffer *body, const ff_buffer *parts, int size,
                                   ff_error *error);
FF_MUST_USE ff_status ff_parts_split(const ff_buffer *body, ff_buffer *parts, int size,
                                     ff_error *error);

#endif
