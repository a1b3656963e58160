/* The files of CIFAR's binary version: found by their names in a folder or an archive, or one of
 * them given alone. cifar.c says what is in them. For that file only. Thread rule: one
 * thread at a time. */
#ifndef FF_FFPACK_SOURCE_CIFAR_FILES_H
#define FF_FFPACK_SOURCE_CIFAR_FILES_H

#include "tools/ffpack/source/source.h"

enum { FF_CIFAR_PIXEL_BYTES = 3072, FF_CIFAR_BATCHES_LIMIT = 64 };

/* CIFAR-10 or CIFAR-100. */
typedef struct ff_cifar_kind {
    const char *name, *recorded;
    uint32_t label_bytes;    /* before the pixels of a record */
    uint32_t class_limit[2]; /* by label byte */
    const char *names_file[2];
} ff_cifar_kind;

extern const ff_cifar_kind ff_cifar_10, ff_cifar_100;

/* One file of records. */
typedef struct ff_cifar_batch {
    char name[256]; /* "data_batch_1.bin" */
    bool test;
    uint32_t part;
    uint64_t offset, bytes; /* of it in the part */
} ff_cifar_batch;

typedef struct ff_cifar {
    const ff_cifar_kind *kind;
    char *place; /* the folder or archive, for messages */
    size_t batch_count;
    ff_cifar_batch batch[FF_CIFAR_BATCHES_LIMIT];
    char *text[2];      /* contents of names_file, or NULL */
    char *text_path[2]; /* as messages call them */
} ff_cifar;

/* Whether `path` looks like a place of such files; as ff_source_format's detect. */
bool ff_cifar_detect(const char *path, const unsigned char *head, size_t head_bytes);

/* Finds the files and adds them to the source as parts; archives are unpacked into temporary space
 * in one pass. `found` is zeroed; the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_cifar_find(ff_cifar *found, ff_source *source, ff_error *error);
void ff_cifar_free(ff_cifar *found);

/* N of data_batch_N.bin, from 1 to FF_CIFAR_BATCHES_LIMIT - 1; 0 for any other name. */
unsigned ff_cifar_batch_number(const char *name);

#endif
