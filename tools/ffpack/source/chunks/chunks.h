/* Chunks of samples, which MosaicML Streaming (MDS) and LitData write alike:
 *
 *     u32 n; u32 offset[n + 1], where each sample begins in the file and the last one ends;
 *     (MDS: the settings as JSON;) the samples
 *     sample: u32 bytes of each column that has no fixed size; then the columns' values
 *
 * all little-endian; the whole file may be compressed with zstd or gzip. A folder of chunks has an
 * index.json that lists them. A folder of folders called as splits, each with an index.json, has
 * these splits. Thread rule: one thread. */
#ifndef FF_FFPACK_SOURCE_CHUNKS_H
#define FF_FFPACK_SOURCE_CHUNKS_H

#include "tools/ffpack/source/records.h"

#include <jansson.h>

#define FF_CHUNKS_INDEX_LIMIT (UINT64_C(256) << 20)

/* How a column is written. */
typedef enum ff_chunk_form {
    FF_CHUNK_OTHER,
    FF_CHUNK_FILE,   /* an image file */
    FF_CHUNK_PIL,    /* pixels: ff_records_unwrap_pil */
    FF_CHUNK_IMAGE,  /* pixels: ff_ndarray_unwrap */
    FF_CHUNK_ARRAY,  /* an array, perhaps an image: ff_ndarray_unwrap */
    FF_CHUNK_BYTES,  /* bytes, perhaps an image file */
    FF_CHUNK_SIGNED, /* a whole number of 1, 2, 4 or 8 bytes */
    FF_CHUNK_UNSIGNED,
    FF_CHUNK_DIGITS, /* a whole number as text */
    FF_CHUNK_TEXT,
} ff_chunk_form;

typedef struct ff_chunks {
    ff_records records; /* first: ff_records_list takes this struct as its context */
    ff_columns columns; /* of the chunk that is read, as `column` */
    struct ff_chunk_column {
        ff_chunk_form form;
        uint32_t bytes; /* fixed; 0 = in each sample's head */
        char *encoding; /* owned */
    } * column;
    size_t column_count;
} ff_chunks;

/* A chunk as the index describes it. */
typedef struct ff_chunk {
    const char *index; /* the index's path; the chunk's is that of its folder with NAME */
    const char *name;
    bool packed;
    uint64_t samples;
} ff_chunk;

/* *index = the index.json `path`; the caller releases it. FF_BAD_DATA if it is not JSON. */
FF_MUST_USE ff_status ff_chunks_read_index(const char *path, json_t **index, ff_error *error);
/* Whether SOURCE `path` (head NULL: a folder) has an index for which `is` is true. */
bool ff_chunks_detect(const char *path, const unsigned char *head, bool (*is)(const json_t *index),
                      ff_error *error);
/* The files called index.json, as shards of a source. */
extern const ff_shard_kind ff_chunks_kind;

/* Values of an index, for messages called by `path` and `key`; FF_BAD_DATA. */
FF_MUST_USE ff_status ff_chunks_text(const json_t *object, const char *path, const char *key,
                                     const char **text, ff_error *error);
FF_MUST_USE ff_status ff_chunks_number(const json_t *object, const char *path, const char *key,
                                       uint64_t *number, ff_error *error);
FF_MUST_USE ff_status ff_chunks_array(const json_t *object, const char *path, const char *key,
                                      const json_t **array, ff_error *error);

/* *name = the text `key`, the name of a file in the index's folder or below it. */
FF_MUST_USE ff_status ff_chunks_file(const json_t *object, const char *path, const char *key,
                                     const char **name, ff_error *error);

/* *path = that of the file NAME next to the index, allocated. */
FF_MUST_USE ff_status ff_chunks_path(char **path, const char *index, const char *name,
                                     ff_error *error);

/* The columns of the next chunks: none, then one after another, in the order of the samples.
 * `encoding`: as the index has it. */
void ff_chunks_clear_columns(ff_chunks *chunks);
FF_MUST_USE ff_status ff_chunks_add_column(ff_chunks *chunks, const char *name, ff_chunk_form form,
                                           uint32_t bytes, const char *encoding, ff_error *error);
/* Chooses image and label; all chunks must have a label, or none. `path` is for messages. */
FF_MUST_USE ff_status ff_chunks_choose(ff_chunks *chunks, const char *path, ff_error *error);

/* Lists the samples of a chunk. */
FF_MUST_USE ff_status ff_chunks_list(ff_chunks *chunks, ff_source_split *split,
                                     const ff_chunk *chunk, ff_error *error);

/* Lists source->path; `list` reads an index and calls the functions above; `kind` is recorded. */
FF_MUST_USE ff_status ff_chunks_list_source(ff_source *source, const char *kind,
                                            ff_shard_lister *list, ff_error *error);

#endif
