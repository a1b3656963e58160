/* The files of CIFAR's binary and python versions: found by their names in a folder or an archive,
 * or a single file. Their content is described in cifar.c and python.c, the only users.
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_CIFAR_FILES_H
#define FF_FFPACK_SOURCE_CIFAR_FILES_H

#include "tools/ffpack/source/source.h"

enum { FF_CIFAR_PIXEL_BYTES = 3072, FF_CIFAR_BATCHES_LIMIT = 64 };

/* CIFAR-10 or CIFAR-100, binary or python version. Index 0 of the arrays is the first label byte of
 * a binary record, or the first label field of a pickle. */
typedef struct ff_cifar_kind {
    const char *name, *recorded;
    bool hundred, python;
    uint32_t label_count;
    uint32_t class_limit[2];
    const char *names_file[2];              /* binary: with a class name a line */
    const char *meta_file;                  /* python: with the class names */
    const char *label_key[2], *name_key[2]; /* python: in a batch, in the meta file */
} ff_cifar_kind;

extern const ff_cifar_kind ff_cifar_10, ff_cifar_100, ff_cifar_10_python, ff_cifar_100_python;

/* One file of records, or one pickle. */
typedef struct ff_cifar_batch {
    char name[256]; /* "data_batch_1.bin" */
    bool test;
    uint32_t part;
    uint64_t offset, bytes; /* in the part */
    unsigned char *labels;  /* binary version: the label bytes of its records; owned */
    ff_error error;         /* the error of reading them, which runs on a thread */
} ff_cifar_batch;

typedef struct ff_cifar {
    const ff_cifar_kind *kind;
    char *place; /* the folder or archive, for messages */
    size_t batch_count;
    ff_cifar_batch batch[FF_CIFAR_BATCHES_LIMIT];
    ff_cifar_batch meta[2]; /* the meta_file of CIFAR-10 and of CIFAR-100; no name = not found */
    char *text[2];          /* contents of names_file, or NULL */
    char *text_path[2];     /* for messages */
} ff_cifar;

/* Whether `path` holds such files; as ff_source_format's detect. */
bool ff_cifar_detect(const char *path, const unsigned char *head, size_t head_bytes,
                     ff_error *error);

/* Finds the files and adds them to the source as parts; archives are unpacked into temporary space
 * in one pass. `found` is zeroed; the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_cifar_find(ff_cifar *found, ff_source *source, ff_error *error);
void ff_cifar_free(ff_cifar *found);

/* N of data_batch_N.bin and data_batch_N, from 1 to FF_CIFAR_BATCHES_LIMIT - 1; 0 for any other
 * name. */
unsigned ff_cifar_batch_number(const char *name);

/* ---- python.c ------------------------------------------------------------------------- */

/* Whether a file that begins with `head` may be a pickle. */
bool ff_cifar_is_pickle(const unsigned char *head, size_t head_bytes);
/* The version of the pickle `batch`, by the name of its labels. */
FF_MUST_USE ff_status ff_cifar_python_kind(const ff_source *source, const ff_cifar_batch *batch,
                                           const ff_cifar_kind **kind, ff_error *error);
/* The class names of label `which` in the meta file, a line each, allocated; NULL if the meta file
 * has no names. */
FF_MUST_USE ff_status ff_cifar_python_names(const ff_cifar *found, const ff_source *source,
                                            uint32_t which, char **text, ff_error *error);
/* Adds the samples of a batch. Fields are complete. */
FF_MUST_USE ff_status ff_cifar_python_list(const ff_cifar *found, ff_source *source,
                                           const ff_cifar_batch *batch, ff_listing *listing,
                                           ff_error *error);

#endif
