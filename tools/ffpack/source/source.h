/* Room tools/ffpack/source, floor 12: what a dataset on disk holds.
 *
 * source.c detects the kind of a dataset, a folder for each kind; elsewhere.c copies what is behind
 * a URL or comes from the standard input; listing.c and sorter.c keep the items on disk.
 * class_numbers.h and class_set.c number the classes, divide.c and split_rule.c divide one split
 * into several, read.c and stream.c read an item's bytes.
 *
 * May include format, tools/ffpack/decode.
 *
 * Sources: datasets on disk, as lists of items.
 *
 * Every kind of source is a file or folder, and one row of the table in source.c. Listing
 * fixes splits, items, classes and numbers before anything is written. Afterwards every item is a
 * range of bytes in a part (a file, or bytes unpacked from a stream into temporary space), or a
 * separate file, so one reader reads the items of all kinds in any order on any number of
 * threads. */
#ifndef FF_FFPACK_SOURCE_H
#define FF_FFPACK_SOURCE_H

#include "format/disk/metadata.h"
#include "format/select/split_rule.h"
#include "tools/ffpack/source/array/element.h"
#include "tools/ffpack/source/class_numbers.h"
#include "tools/ffpack/source/left_out.h"
#include "tools/ffpack/source/listing.h"
#include "tools/ffpack/source/names.h"
#include "tools/ffpack/source/remote/elsewhere.h"

#define FF_ENCODED_LIMIT_BYTES (UINT64_C(2) << 30) /* an image file's */

typedef struct ff_source ff_source;

/* The options that only some kinds use. */
typedef enum ff_source_uses {
    FF_USES_CLASSES = 1,      /* --classes, --classes-from */
    FF_USES_TREE = 2,         /* --exclude, --labels */
    FF_USES_VAL_LABELS = 4,   /* --val-labels */
    FF_USES_ARRAY_LAYOUT = 8, /* --array-layout */
    FF_USES_LABEL_KIND = 16,  /* --label-kind */
    FF_USES_EMPTY = 32,       /* --allow-empty-classes */
    FF_USES_SPLITS = 64,      /* --splits */
    FF_USES_COLUMNS = 128,    /* --columns */
} ff_source_uses;

/* How one kind is detected and listed. */
typedef struct ff_source_format {
    const char *name;    /* the word of --format */
    const char *wanted;  /* its description, for the message when no kind matches */
    const char *endings; /* endings of its files, "csv tsv"; "/" = a folder. For that message */
    /* Whether `path` holds it, by content and names, at low cost. `head`: the first bytes of a
     * file, decompressed if gzip; NULL for a folder. *error is zeroed; it keeps a failure that
     * prevented an answer. Required. */
    bool (*detect)(const char *path, const unsigned char *head, size_t head_bytes, ff_error *error);
    /* Fills kind, raw, labels, parts and splits. Required. */
    ff_status (*list)(ff_source *source, ff_error *error);
    /* Whether SOURCE may be a brace pattern (braces.h); detect then gets its first file. */
    bool patterns;
    bool elsewhere;     /* SOURCE may be one file of elsewhere.h: it needs no other files */
    unsigned uses;      /* of ff_source_uses; other options of ff_source_uses are refused */
    const char *labels; /* where its labels are; required unless `uses` has FF_USES_TREE */
} ff_source_format;

/* An image file in memory. */
typedef struct ff_image_file {
    const unsigned char *bytes;
    uint64_t length;
} ff_image_file;

struct ff_source_part;

/* Makes an item's image file of the bytes that the item has in its part: a range of them, or the
 * bytes of `made`, which is reused. *file holds the item's bytes before. `fd` is the part's file,
 * -1 for a stream. FF_BAD_DATA; the message follows the item's name. Thread-safe. */
typedef ff_status ff_source_unwrap(const struct ff_source_part *part, int fd, ff_buffer *made,
                                   ff_image_file *file, ff_error *error);

/* What can only be read sequentially, and what items' offsets are there. */
typedef enum ff_stream_kind {
    FF_STREAM_NONE,    /* a file: any range of its bytes is read */
    FF_STREAM_ARCHIVE, /* the ordinals of members */
    FF_STREAM_BYTES,   /* a compressed file (input.h): the offsets of unpacked bytes */
    FF_STREAM_COLUMN,  /* a column of a parquet file (parquet/reader.h): the numbers of rows */
} ff_stream_kind;

/* Where items are stored. The storage order of the items of a stream is the order of reading. */
typedef struct ff_source_part {
    char *path;     /* for messages */
    int fd;         /* -1 for a stream, or a file that its reader opens */
    uint64_t bytes; /* the file's, if fd is -1 and it is not a stream */
    ff_stream_kind stream;
    bool nested;              /* an archive's: as ff_archive_open's */
    bool records;             /* items are records: a key ends with its number after a colon */
    ff_source_unwrap *unwrap; /* NULL: items are image files */
    char *column; /* for `unwrap`: where or how the image is in a record; of a stream: the column;
                     owned */
} ff_source_part;

typedef struct ff_source_split {
    char *name; /* "train", "test", ...; "" if the source has only one split */
    char *root; /* the folder of its files, if items are files; else NULL */
    ff_listing *listing;
    const uint64_t *order; /* [items] item at each storage position; NULL = the order of numbers.
                              Mapped; owned */
} ff_source_split;

/* Items that are arrays, not encoded images, at `offset` in the item's bytes. */
typedef struct ff_source_raw {
    uint32_t offset;
    uint32_t channels, height, width;
    ff_layout layout;
    ff_element_type element; /* zero = u8 */
    bool big_endian;
} ff_source_raw;

/* --array-layout: which axis of arrays of 4 dimensions is the channels. */
typedef enum ff_array_axes { FF_ARRAY_GUESS, FF_ARRAY_CHW, FF_ARRAY_HWC } ff_array_axes;

struct ff_source {
    const ff_source_format *format;
    char *path;
    char *temporary;   /* the folder for temporary space */
    char *classes;     /* --classes FILE or --classes-from PATH, or NULL */
    bool classes_from; /* `classes` is --classes-from: a packed set or a folder of class folders */
    char *val_labels;  /* --val-labels PATH, or NULL */
    char *label;       /* --label FIELD, or NULL */
    char *splits;      /* --splits, or NULL */
    char *exclude;     /* --exclude, or NULL */
    char *label_list;  /* --labels, or NULL */
    char *columns;     /* --columns, or NULL */
    bool allow_empty_classes;
    ff_label_kind label_kind; /* --label-kind */
    ff_array_axes array_layout;
    bool skip;                 /* --on-error skip: items may be missing */
    bool pattern;              /* `path` is a brace pattern */
    bool elsewhere;            /* `path` is the name of ff_elsewhere_begin */
    int jobs;                  /* threads for unpacking */
    const char *kind;          /* recorded: "idx", "cifar-10-binary", ... */
    bool encoded;              /* items are image files to decode; else `raw` describes them */
    ff_source_raw raw;         /* if not encoded */
    ff_metadata labels;        /* its fields with their class names; nothing else is filled */
    const ff_split_rule *rule; /* --split, if it divides the source; else NULL; not owned */
    size_t part_count;
    ff_source_part *part;
    size_t split_count;
    ff_source_split *split; /* train first */
    ff_left_out left_out;   /* what listing left out */
    ff_names notes;         /* further sentences for the summary */
};

typedef struct ff_source_options {
    const char *format;       /* --format; NULL or "auto" = by content */
    const char *classes;      /* file with one class name per line; NULL = the source's own */
    const char *classes_from; /* packed set or folder with the classes; not with `classes` */
    /* --splits, --exclude, --labels, --columns; or NULL */
    const char *splits, *exclude, *label_list, *columns;
    bool allow_empty_classes;
    ff_label_kind label_kind;   /* --label-kind; FF_LABEL_GUESS = as the labels look */
    const char *val_labels;     /* for ImageNet's validation images; NULL = searched next to them */
    const char *temporary;      /* folder for temporary space */
    const char *label;          /* the only label field to keep; NULL = all */
    ff_array_axes array_layout; /* of arrays of 4 dimensions */
    bool skip;                  /* missing items fail only when they are read */
    int jobs;
    const ff_split_rule *rule; /* --split; NULL = none; must outlive the source */
} ff_source_options;

/* Detects the kind of the file, folder or pattern `path`; reads only its first bytes or names. */
FF_MUST_USE ff_status ff_source_open(ff_source **source, const char *path,
                                     const ff_source_options *options, ff_error *error);

/* Lists the source; called once, before anything else. FF_BAD_DATA if a split has no items;
 * FF_USAGE without a label field options->label. */
FF_MUST_USE ff_status ff_source_list(ff_source *source, ff_error *error);

void ff_source_close(ff_source **source);

/* The split of this name, or NULL. */
const ff_source_split *ff_source_find(const ff_source *source, const char *name);

/* An item's name for messages: its path, or its part and key. Truncated to `size`. Returns
 * `text`. */
const char *ff_source_item_name(const ff_source *source, const ff_source_split *split,
                                const ff_item *item, char *text, size_t size);

/* The path of an item that is a file (FF_PART_FILE), in place of what `path` held. */
FF_MUST_USE ff_status ff_source_item_path(const ff_source_split *split, const ff_item *item,
                                          ff_buffer *path, ff_error *error);

/* The item at a storage position, in the source's own order. */
static inline uint64_t ff_source_item_at(const ff_source_split *split, uint64_t position) {
    return split->order ? split->order[position] : position;
}

/* A thread's access to the bytes of items. `source` and `stream` (source/stream.h; NULL if the
 * split has none) must outlive it. */
struct ff_stream;
typedef struct ff_source_reader ff_source_reader;
FF_MUST_USE ff_status ff_source_reader_create(ff_source_reader **reader, const ff_source *source,
                                              struct ff_stream *stream, ff_error *error);
/* Announces that the items at storage positions first .. end - 1 are read next. Every position is
 * announced once, by one of a stream's readers. */
FF_MUST_USE ff_status ff_source_begin(ff_source_reader *reader, uint64_t first, uint64_t end,
                                      ff_error *error);
/* An item's image file, or the bytes of its array, valid until the next call; with a stream only
 * announced items. If the item is a file, it must still have the size it was listed with. */
FF_MUST_USE ff_status ff_source_read(ff_source_reader *reader, const ff_source_split *split,
                                     const ff_item *item, ff_image_file *file, ff_error *error);
void ff_source_reader_destroy(ff_source_reader **reader);

/* Whether folders in `path`, or folders in these, hold files with names of images. */
bool ff_folder_holds_images(const char *path);

/* ---- for the sources ------------------------------------------------------------------------ */

/* Adds a part, which takes ownership of `fd`, also after a failure. *part = its number. */
FF_MUST_USE ff_status ff_source_add_part(ff_source *source, const char *path, int fd,
                                         uint32_t *part, ff_error *error);
/* Adds a file of `bytes` bytes that is opened by its readers, so that there may be more parts than
 * a process may have open files. It must still have this size when read. */
FF_MUST_USE ff_status ff_source_add_file(ff_source *source, const char *path, uint64_t bytes,
                                         uint32_t *part, ff_error *error);
/* Adds the archive `path`: as a file if it is `plain` (ff_archive_is_plain; items' offsets are then
 * their members'), else as a stream. */
FF_MUST_USE ff_status ff_source_add_archive(ff_source *source, const char *path, bool plain,
                                            bool nested, uint32_t *part, ff_error *error);
/* Adds the archive `path` as a stream. */
FF_MUST_USE ff_status ff_source_add_stream(ff_source *source, const char *path, bool nested,
                                           uint32_t *part, ff_error *error);
/* Adds the compressed file `path` as a stream; items' offsets are those of its unpacked bytes. */
FF_MUST_USE ff_status ff_source_add_packed(ff_source *source, const char *path, uint32_t *part,
                                           ff_error *error);
/* Adds the column of this path of the parquet file `path` as a stream. */
FF_MUST_USE ff_status ff_source_add_column(ff_source *source, const char *path, const char *column,
                                           uint32_t *part, ff_error *error);
/* Adds a split with an empty listing; fields are complete. Valid until the next one is added. */
FF_MUST_USE ff_status ff_source_add_split(ff_source *source, const char *name,
                                          ff_source_split **split, ff_error *error);
/* Releases what a split owns, and not the split itself. */
void ff_source_free_split(ff_source_split *split);
/* Replaces the labels of every item by others of `label_bytes` bytes, which `change` makes from the
 * listed ones. The caller adapts source->labels. */
FF_MUST_USE ff_status ff_source_relabel(ff_source *source, size_t label_bytes,
                                        ff_status (*change)(void *context, const void *labels,
                                                            void *changed, ff_error *error),
                                        void *context, ff_error *error);
/* Makes classes of the numbers that the items have as labels of the only field, where --classes or
 * --classes-from names these (class_numbers.h). FF_USAGE for a --label-kind that does not apply. */
FF_MUST_USE ff_status ff_source_read_numbers(ff_source *source, ff_error *error);
/* FF_USAGE if --label-kind asks for values or several classes and there are none. Called by
 * ff_source_list. */
FF_MUST_USE ff_status ff_source_check_kind(const ff_source *source, ff_error *error);
/* Adds a sentence to the summary; frees `text`. */
FF_MUST_USE ff_status ff_source_note(ff_source *source, char *text, ff_error *error);
/* Describes each label field in the summary. Called by ff_source_list. */
FF_MUST_USE ff_status ff_source_note_labels(ff_source *source, ff_error *error);
/* Keeps only the label field source->label. Called by ff_source_list. */
FF_MUST_USE ff_status ff_source_keep_label(ff_source *source, ff_error *error);
/* Class names of a field from the lines of a text file, empty lines at its end left out; or with
 * source->classes_from of a packed set (of the field with that name, or its only one), or of the
 * class folders of a folder, or of the folder of its train split. */
FF_MUST_USE ff_status ff_source_read_classes(ff_source *source, size_t field, const char *path,
                                             ff_error *error);
/* The same from a text (modified in place); `path` is for messages. */
FF_MUST_USE ff_status ff_source_take_classes(ff_source *source, size_t field, const char *path,
                                             char *text, ff_error *error);
/* The labels of class folders in `where`: by --classes FILE, which must name them all; else their
 * ranks, in which case every split must have the same (with --allow-empty-classes: no others than
 * the first). The caller frees *label [folders->count]. Field 0 gets the class names. */
FF_MUST_USE ff_status ff_source_label_folders(ff_source *source, const char *where,
                                              const ff_names *folders, int32_t **label,
                                              ff_error *error);

#endif
