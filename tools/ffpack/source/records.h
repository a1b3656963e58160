/* Records: files that hold one sample after another, each with columns of which one is an image and
 * one perhaps a label (TFRecords, MDS, LitData, .beton, parquet). An item's key is "FILE:N", N its
 * record's number in the file, from 0; messages call it "PATH: record N at byte B". Thread rule:
 * one thread. */
#ifndef FF_FFPACK_SOURCE_RECORDS_H
#define FF_FFPACK_SOURCE_RECORDS_H

#include "tools/ffpack/source/label_values.h"
#include "tools/ffpack/source/shards/shards.h"

#define FF_RECORD_COLUMNS_LIMIT 1024u
#define FF_RECORD_LABEL_BYTES   1024u /* of a name */

/* What a column holds. */
typedef enum ff_column_kind {
    FF_COLUMN_OTHER,
    FF_COLUMN_IMAGE, /* image files, or an image's pixels */
    FF_COLUMN_BYTES, /* bytes, which may be image files */
    FF_COLUMN_NUMBER,
    FF_COLUMN_TEXT,
    FF_COLUMN_KINDS,
} ff_column_kind;

typedef struct ff_column {
    char *name; /* owned */
    ff_column_kind kind;
} ff_column;

typedef struct ff_columns {
    ff_column *column; /* [count] */
    size_t count;
    size_t image, label; /* their places, after ff_columns_choose; label SIZE_MAX = none */
} ff_columns;            /* zero-initialised {0} */

/* FF_BAD_DATA above FF_RECORD_COLUMNS_LIMIT, or for a name that has a zero byte. */
FF_MUST_USE ff_status ff_columns_add(ff_columns *columns, const char *name, size_t bytes,
                                     ff_column_kind kind, ff_error *error);
/* Chooses the image and the label. The image: the only column of images, else "image/encoded",
 * "image", "img", "jpg", "jpeg", "png", "x", else the only column of bytes. The label:
 * source->label, else "image/class/label", "label", "labels", "class", "cls", "target", "y", else
 * the only column of numbers. `path` is for messages. FF_USAGE if --label names none; FF_BAD_DATA
 * if there is no image, or no choice between several. */
FF_MUST_USE ff_status ff_columns_choose(ff_columns *columns, const ff_source *source,
                                        const char *path, ff_error *error);
/* Adds a sentence to the summary: which columns are used, and which are not. */
FF_MUST_USE ff_status ff_columns_note(const ff_columns *columns, ff_source *source,
                                      ff_error *error);
void ff_columns_free(ff_columns *columns);

typedef struct ff_records {
    ff_source *source;
    ff_label_values values;
    bool any, labeled; /* there were records; they have labels */
    /* The file that is being read: */
    ff_listing *listing;
    const char *path, *name; /* its name is the one in keys */
    bool packed;             /* offsets are of its unpacked bytes */
    bool rows;               /* records are rows, which have no offset */
    uint64_t number, offset; /* of the record that is read */
    ff_buffer key;
} ff_records;

/* Begins a source of image files with this kind (recorded). */
FF_MUST_USE ff_status ff_records_begin(ff_records *records, ff_source *source, const char *kind,
                                       ff_error *error);
/* Begins a file, with records->number 0. Both strings must last as long as it is read. */
void ff_records_file(ff_records *records, ff_source_split *split, const char *path,
                     const char *name, bool packed);
/* Adds the file as a part whose items are records, made image files by `unwrap` (NULL: they are).
 */
FF_MUST_USE ff_status ff_records_add_part(ff_records *records, ff_source_unwrap *unwrap,
                                          uint32_t *part, ff_error *error);
/* Lists the record, whose bytes are in `part` at `offset`, and counts it. */
FF_MUST_USE ff_status ff_records_add(ff_records *records, uint32_t part, uint64_t offset,
                                     uint64_t bytes, int32_t label, ff_error *error);
/* Puts the record that is read in front of a message: "PATH: record 3 at byte 4711". */
FF_MUST_USE ff_status ff_records_within(const ff_records *records, ff_status status,
                                        ff_error *error);
/* Finishes the labels. FF_USAGE if --classes or --label is without use. */
FF_MUST_USE ff_status ff_records_finish(ff_records *records, ff_error *error);
void ff_records_free(ff_records *records);

/* Lists the shards of `kind` at source->path by `list`, whose context begins with *records. */
FF_MUST_USE ff_status ff_records_list(ff_records *records, const ff_shard_kind *kind,
                                      ff_shard_lister *list, void *context, ff_error *error);

/* ---- pixels --------------------------------------------------------------------------------- */

/* Pixels without a header become a file that the decoders read: the header of a PPM (channels 3) or
 * PGM (1) in `made`; the caller appends the pixels. */
FF_MUST_USE ff_status ff_records_pixels(ff_buffer *made, uint32_t width, uint32_t height,
                                        unsigned channels, ff_error *error);
/* An ff_source_unwrap of an image as MDS and LitData write one of Pillow: u32 width, u32 height,
 * u32 n, the n bytes of its mode, the pixels. Modes L, RGB, RGBA and RGBX (without the fourth). */
ff_source_unwrap ff_records_unwrap_pil;

#endif
