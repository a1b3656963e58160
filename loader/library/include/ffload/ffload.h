/* libffload: packed datasets in your own training loop.
 *
 *     ffload_dataset *dataset;
 *     ffload_options *options;
 *     ffload_loader *loader;
 *     ffload_batch *batch;
 *     const DLTensor *images, *labels;
 *     ffload_error error;
 *
 *     if (ffload_dataset_open(&dataset, "packed/train", NULL, &error)) ... error.message ...
 *     ffload_options_create(&options, &error);
 *     ffload_options_set(options, "batch_size", "256", &error);
 *     ffload_options_set(options, "augment", "crop=4,flip", &error);
 *     ffload_loader_create(&loader, dataset, options, &error);
 *     while (ffload_loader_next(loader, &batch, &error) == FFLOAD_OK && batch) {
 *         ffload_batch_tensor(batch, "images", &images, &error);  // [256, 3, 32, 32] f32
 *         ffload_batch_tensor(batch, "labels", &labels, &error);  // [256] i32
 *         ... train ...
 *         ffload_batch_release(&batch);       // at once, or any time later
 *     }
 *     ffload_loader_destroy(&loader);
 *     ffload_options_destroy(&options);
 *     ffload_dataset_close(&dataset);
 *
 * Compile with `pkg-config --cflags --libs ffload`.
 *
 * How a sample is augmented depends only on (seed, epoch, sample, view), and its place only on
 * (seed, epoch, position): batches have the same bits with any number of threads, on any number of
 * ranks and after a resume, and they equal fftrain's with the same options.
 *
 * Errors. Every fallible function returns FFLOAD_OK or another status and takes an ffload_error
 * last (NULL is accepted), which it fills, on failure only, with the status and one sentence that
 * states what was wrong, where, and usually what to do. After a failure, results returned by a
 * pointer are NULL. A NULL argument is FFLOAD_USAGE, naming the function and the argument, unless
 * its description allows NULL; functions without a status return 0 or NULL for such a pointer.
 * Nothing is printed, and no function ends the process.
 *
 * Ownership. What create, open, next and export return belongs to the caller, until destroy, close,
 * release or a tensor's deleter. These functions accept NULL, set the caller's pointer to NULL, and
 * may be called in any order: a loader keeps its dataset open, a tensor its batch, a batch its
 * memory. `const` pointers and texts belong to the object that returned them, and are valid as long
 * as the object.
 *
 * Threads. A dataset may be used by any number of threads. A loader is used by one thread at a time
 * (a second one at the same time gets FFLOAD_USAGE). Only ffload_loader_interrupt, _length, _state,
 * _stats and _describe may be called at any time by any thread. Options are used by one thread at a
 * time. Batches and tensors may be read, exported, released and deleted by any thread.
 *
 * Processes. Threads do not survive a fork: a child may release, close and destroy inherited
 * objects, and read inherited batches and tensors in host memory; all other calls on them fail with
 * FFLOAD_USAGE. The child opens its own dataset instead; all processes share the files' memory.
 *
 * Signals. The library installs a handler for SIGBUS only, which the system sends to a thread that
 * reads a mapped file when the file shrinks or its disk fails. If this happens in a read of the
 * library, the call returns FFLOAD_IO; any other SIGBUS goes to the handler that was there when the
 * first dataset was opened, or ends the process as usual. A handler that the program installs later
 * receives every SIGBUS. */
#ifndef FFLOAD_FFLOAD_H
#define FFLOAD_FFLOAD_H

/* PyTorch's or the system's dlpack.h may be included before this header if it is DLPack 1.0 or
 * newer, and after it in any case. */
#include <ffload/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FFLOAD_API __attribute__((visibility("default")))

/* ---- errors --------------------------------------------------------------------------------- */

enum {
    FFLOAD_OK = 0,
    FFLOAD_FAILED = 1,      /* another failure: no GPU, a thread that does not start */
    FFLOAD_USAGE = 2,       /* an unknown option, a wrong value, or a call that is not possible */
    FFLOAD_BAD_DATA = 3,    /* the set is broken, or not a set */
    FFLOAD_IO = 4,          /* the system refused to open or read a file, or a file shrank */
    FFLOAD_NO_MEMORY = 5,   /* on the host or on the device */
    FFLOAD_INTERRUPTED = 6, /* by ffload_loader_interrupt, or by a check of the caller's */
};

typedef struct ffload_error {
    int status;         /* the returned status */
    char message[2048]; /* one line; bytes of paths as they are, else ASCII */
    int system_errno;   /* with FFLOAD_IO: errno if the system refused, else 0 */
} ffload_error;

/* This header's version: 10000 * major + 100 * minor + patch, 100 for "0.1.0". */
#define FFLOAD_VERSION_MAJOR 0
#define FFLOAD_VERSION_MINOR 1
#define FFLOAD_VERSION_PATCH 0
#define FFLOAD_VERSION                                                                             \
    (10000 * FFLOAD_VERSION_MAJOR + 100 * FFLOAD_VERSION_MINOR + FFLOAD_VERSION_PATCH)

/* The running library's version, as in "0.1.0". */
FFLOAD_API const char *ffload_version(void);

/* ---- options -------------------------------------------------------------------------------- */

/* Settings by name, each with a default. Later versions add names.
 *
 *   batch_size  N (256): samples of a batch, over all ranks
 *   augment     none (default), or a list as in "crop=4,flip" and "rrc=224,flip,mixup=0.2":
 *               crop[=PAD][:reflect], flip[=alternate], cutout=SIZE, resize=SIZE, rrc=SIZE,
 *               vflip[=P], jitter=B[:C[:S[:H]]], affine=DEGREES, trivialaugment,
 *               randaugment[=OPS[:MAGNITUDE]], autoaugment[=imagenet|cifar10|svhn],
 *               augmix[=SEVERITY[:CHAINS[:DEPTH[:ALPHA]]]], grayscale[=P],
 *               blur=SIZE[:LOW-HIGH[:P]], solarize=THRESHOLD, posterize=BITS, invert, equalize,
 *               autocontrast, sharpness=FACTOR, erase=P, mixup[=ALPHA], cutmix[=ALPHA]; the same
 *               as fftrain's --augment, which fftrain --help describes
 *   size        HxW of the images; default: as augmented, or as stored
 *   views       N: several views of each sample, as for contrastive learning, in tensors images/0
 *               to images/N-1 | groups of views with sizes of their own, as for multi-crop:
 *               "global 2 rrc=224:0.4-1,flip; local 6 rrc=96:0.05-0.4,flip" has tensors
 *               images/global/0 to images/local/5. A group is a name, the number of its views,
 *               their augmentation and, if it does not follow from the augmentation, their size
 *               HxW; the options augment and size are then unset. Each view is augmented by draws
 *               of its own, the first as without this option, and the sample is read once. At most
 *               64 views, without mixup and cutmix. Default: one view, images
 *   dtype       f32 (default) | f16 | bf16; u8 | u16: values as stored, from such sets. u8 is
 *               cropped, flipped and resampled as torchvision's v2 does tensors of u8, on the host
 *               and on a GPU; u16 is not resampled, and on the host only
 *   layout      contiguous (default) | channels_last: the memory of images, whose shape is [N, C,
 *               H, W] in both
 *   label       NAME or NAME,NAME: label fields; default: the first, if the set has any
 *   label_dtype i32 (default) | i64: of class fields' labels; PyTorch's losses take i64
 *
 * The samples of an epoch: those that match all of the next four options; default: all of the set.
 *
 *   indices     a text file with the number or the key of a sample per line ("numbers:FILE" and
 *               "keys:FILE" decide if both fit); ffload_options_set_indices takes an array. Order
 *               sequential keeps the order of listed numbers; otherwise samples are in the order of
 *               their numbers
 *   where       an expression over label fields, key, split, height and width, as in ffpack copy
 *               --where: "label in ('cat', 'dog') and width >= 224"
 *   split       a part of the set by the hash of keys that ffpack --split uses: "train:0.9",
 *               "val:0.1" (any name but train: the last tenth), or "val of
 *               train=0.8,val=0.1,test=0.1". Further words, each after a space: seed=N, stratified
 *               (each class is divided) and, as the last, group-by=REGEX (keys in which it matches
 *               the same text stay together)
 *   fold        "2/5": the second of five equal parts by the same hash, "not 2/5": all others; the
 *               same further words
 *
 * How often they come; each of the next options but samples_per_epoch needs order random, and draws
 * augmentations by positions of the epoch, so that a sample looks different each time:
 *
 *   weights     each sample of an epoch is drawn with probabilities in proportion to these numbers:
 *               "balanced" (1 / the number of samples of the same class of the
 *               first label, 0 without a class), a label field of one number a sample, or a text
 *               file with a number per line, for each selected sample or each one of the set;
 *               ffload_options_set_weights takes an array. 8 bytes of memory a sample
 *   replacement yes (default): an epoch may have a sample several times | no: each sample at most
 *               once; the probability that an epoch has it is in proportion to its weight, up to 1,
 *               and needs samples_per_epoch positive weights
 *   shares      of a dataset of several sets (ffload_dataset_open_several): how much each set
 *               contributes, a number for each set with commas between, of any sum, in millionths:
 *               "0.8,0.2" or "4,1". The samples of a set come equally often, up to one time; a set
 *               that is smaller than its share comes again, in another order. Other shares from an
 *               epoch on may follow: "0.8,0.2;10:0.5,0.5"
 *   shares_of   epoch (default): the epoch has these shares, up to one sample, and a batch those
 *               that chance gives it | batch: each batch has them, up to one sample
 *   samples_per_epoch
 *               samples of an epoch. Default: the number of samples, or of selected samples, which
 *               is also the maximum without weights, per_class and shares
 *   repeats     how often each drawn sample comes in a batch, for repeated augmentation; an epoch
 *               stays as long, and so has fewer different samples. Default: 1
 *   per_class   samples of each class in a batch, which has batch_size / per_class classes of the
 *               first label, drawn for each batch; samples of one class differ if it has enough
 *
 * Batches:
 *
 *   last_batch  drop (default): an incomplete last batch is left out, unless it is the only one |
 *               keep: the last batch is smaller | pad: it is filled with rows of zeros, with class
 *               -1 and weight 0
 *
 *   order       random (default) | block: for sets larger than memory | sequential
 *   block       N (auto): with order block, samples that are stored together. auto: about 1 MiB;
 *               if memory cannot keep the set, 320 KiB to 4 MiB, or less if memory is too small
 *               for 64 such blocks
 *   group       N (auto): with order block, blocks that are mixed with each other. auto: 2048;
 *               fewer, but at least 64, if memory cannot keep 2048
 *   seed        N (0): for order and augmentation, up to 2^53
 *   epoch       N (0): the first epoch
 *   position    N (0): samples of the first epoch that are skipped before the first batch
 *   epochs      N (1): the number of epochs, the first included; 0: without end
 *   rank        N (0), and
 *   world       N (1): the loader returns rank's rows of each batch; world: the number of ranks
 *   cuts        N (1): each batch comes in this number of equal parts, one after another
 *
 *   workers     N (auto): threads that make batches ahead of their use; 0: the caller's thread
 *               makes the batches. auto: one for each processor, at most 8
 *   prefetch    N (auto): batches that are ready or being made
 *   memory      BYTES, as in 512M and 8G (default: what the machine and the process's limits leave,
 *               at most FFLOAD_MEMORY, an environment variable): for the page cache of the set and
 *               for reading ahead; a set that is larger is read directly
 *   cache       DIR (FFPACK_CACHE, or ffpack in $XDG_CACHE_HOME or ~/.cache): for sets behind URLs,
 *               the folder of what is fetched, shared by all processes of the machine
 *   cache_size  BYTES, as in 200G (FFPACK_CACHE_SIZE, or half of the space that is free or that the
 *               cache has): the most that the folder may have
 *   storage_timeout
 *               N (300): seconds without a byte from a server, after which reading fails
 *   endpoint    URL (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or the cloud's): the server of s3://
 *               and gs:// URLs. These four are of ffload_dataset_open; a loader has its dataset's
 *   local_world N (1): the number of ranks on this machine, which share its memory
 *   verify      off | first (default) | always: when a sample's checksum is compared: never, at the
 *               first read, or at each read; for ffload_dataset_open
 *
 *   device      cpu (default) | cuda | cuda:N: where batches are made
 *   placement   auto (default) | resident: the whole set is in the device's memory | stream:
 *               samples are copied to the device, and augmented there | host: batches are made on
 *               the host and copied to the device
 *   reserve     N (0): with placement auto, MiB of the device's memory to leave free */
typedef struct ffload_options ffload_options;

FFLOAD_API int ffload_options_create(ffload_options **options, ffload_error *error);
FFLOAD_API void ffload_options_destroy(ffload_options **options);

/* FFLOAD_USAGE for an unknown option, naming the nearest one, or a wrong value.
 * ffload_loader_create checks whether options fit the set. */
FFLOAD_API int ffload_options_set(ffload_options *options, const char *name, const char *value,
                                  ffload_error *error);

/* All options in the order above, and their values, as JSON: an array of {name, kind (integer,
 * bytes, choice, text), value (null: unset, and the default is described above), words (a choice's
 * words, or the word that an integer may be; else null), and for numbers minimum and maximum}.
 * Valid until the next call of this function or the end of the options. */
FFLOAD_API int ffload_options_describe(ffload_options *options, const char **json,
                                       ffload_error *error);

/* The samples of an epoch by their numbers, in this order, as option indices; a number may come
 * several times. They are copied. indices NULL: the option is unset (default); count 0 with another
 * address: no sample, which ffload_loader_create refuses. */
FFLOAD_API int ffload_options_set_indices(ffload_options *options, const int64_t *numbers,
                                          size_t count, ffload_error *error);

/* Weights of the samples as option weights, at least 0, of any sum. They are copied. NULL: none are
 * given (default). */
FFLOAD_API int ffload_options_set_weights(ffload_options *options, const double *weights,
                                          size_t count, ffload_error *error);

/* A loader with these options calls check(context) about every 20 ms while ffload_loader_next
 * waits, and after every 8 MiB while ffload_loader_create uploads a resident set, in the calling
 * thread. A result other than 0 ends the call with FFLOAD_INTERRUPTED. check must not use the
 * loader. NULL = no calls. */
typedef int ffload_check(void *context);
FFLOAD_API int ffload_options_set_check(ffload_options *options, ffload_check *check, void *context,
                                        ffload_error *error);

/* ---- datasets ------------------------------------------------------------------------------- */

/* A packed split: mapped, never parsed, so ten million samples open as fast as ten. Every number
 * read from the files is checked, and samples have checksums (option verify). */
typedef struct ffload_dataset ffload_dataset;

/* Opens the folder of a split, which has index.ffx. options: verify; NULL = the defaults.
 * FFLOAD_BAD_DATA if `path` is not such a folder, naming the splits in it, if any. */
FFLOAD_API int ffload_dataset_open(ffload_dataset **dataset, const char *path,
                                   const ffload_options *options, ffload_error *error);
/* Opens `count` folders as one set, at most 64: the samples of the first, then those of the second,
 * and so on; all functions take it. Its classes are those of the first set, then the further ones
 * of the next, by name, and labels are numbers of these classes. Batches have the tensor sources:
 * the set of each row. FFLOAD_USAGE if two sets differ in dtype, layout, shape, normalization,
 * label fields, compression or alignment. */
FFLOAD_API int ffload_dataset_open_several(ffload_dataset **dataset, const char *const *paths,
                                           size_t count, const ffload_options *options,
                                           ffload_error *error);
FFLOAD_API void ffload_dataset_close(ffload_dataset **dataset);

FFLOAD_API uint64_t ffload_dataset_count(const ffload_dataset *dataset);

/* What the set is, as JSON: an object with the words of `ffinspect --json`, except those that need
 * a pass over the index: split, samples, items, dtype, layout, shape, variable_size, channels,
 * height, width, compression, normalize (state, mean, std, and both as bits), transforms, fields
 * (name, kind, dtype, width, in_index, classes), provenance (key, value), required, optional, ids
 * (content, transform, source), and of several sets `sets` (path, samples, content). Names that may
 * be any bytes are percent-escaped. */
FFLOAD_API int ffload_dataset_describe(ffload_dataset *dataset, const char **json,
                                       ffload_error *error);

/* Sample `number` < count: [C, H, W] or [H, W, C] in the set's dtype and layout, in host memory, as
 * stored: a float set is normalized, a u8 set is not. The caller owns the tensor and calls its
 * deleter. FFLOAD_BAD_DATA if its checksum is wrong. */
FFLOAD_API int ffload_dataset_sample(ffload_dataset *dataset, uint64_t number,
                                     DLManagedTensorVersioned **tensor, ffload_error *error);

/* The same in place, read-only: no byte is copied, and the tensor keeps the dataset open. A
 * compressed set has no views (FFLOAD_USAGE). Reading a view when its file has shrunk ends the
 * process by SIGBUS, as any read of a mapped file does: ffload_dataset_sample is the safe one. */
FFLOAD_API int ffload_dataset_view(ffload_dataset *dataset, uint64_t number,
                                   DLManagedTensorVersioned **tensor, ffload_error *error);

/* The sample's values of a label field (NULL = the first), as stored: [] for a class field, with -1
 * for an unlabelled sample, else [width]. FFLOAD_USAGE for an unknown field, listing the fields. */
FFLOAD_API int ffload_dataset_label(ffload_dataset *dataset, uint64_t number, const char *field,
                                    DLManagedTensorVersioned **tensor, ffload_error *error);

/* The same for `count` samples from number `first` on, without reading the samples if the field is
 * small: [count] i64 for a class field, [count, width] for others, as stored. FFLOAD_USAGE if the
 * set has fewer samples. */
FFLOAD_API int ffload_dataset_labels(ffload_dataset *dataset, uint64_t first, uint64_t count,
                                     const char *field, DLManagedTensorVersioned **tensor,
                                     ffload_error *error);

/* The sample's key, usually its path in the source: any bytes, *bytes of them, without a final
 * zero. `key` has room for FFLOAD_KEY_MOST. */
#define FFLOAD_KEY_MOST 4096
FFLOAD_API int ffload_dataset_key(ffload_dataset *dataset, uint64_t number, char *key,
                                  size_t *bytes, ffload_error *error);

/* ffload_dataset_verify calls this in one thread at a time: with a sentence (path, place) for each
 * problem, and with NULL to report progress. `done` of `total` bytes are checked. A result other
 * than 0 ends the check. */
typedef int ffload_progress(void *context, const char *problem, uint64_t done, uint64_t total);

/* Checks every byte of the set, as `ffinspect --verify` does: any changed bit is found. `threads`:
 * their number; 0 = one for each processor. progress may be NULL. FFLOAD_BAD_DATA with the first
 * problem. */
FFLOAD_API int ffload_dataset_verify(ffload_dataset *dataset, int threads,
                                     ffload_progress *progress, void *context, ffload_error *error);

/* ---- loaders -------------------------------------------------------------------------------- */

/* Batches of a dataset in the order of its epochs. */
typedef struct ffload_loader ffload_loader;

/* A batch's numbers. */
typedef struct ffload_batch_info {
    uint32_t rows;         /* in each full batch of this rank and this cut */
    uint32_t count;        /* samples in this batch */
    uint32_t epoch;        /* its epoch */
    uint32_t last;         /* 1: the last one of its epoch */
    uint64_t index;        /* the batch's number in its epoch */
    uint64_t position;     /* of the batch's first sample in the epoch's order */
    uint64_t global_count; /* samples of this batch over all ranks and cuts */
} ffload_batch_info;

/* Checks all options against each other and the set before anything starts; FFLOAD_USAGE names what
 * does not fit. `dataset` may be closed afterwards, and `options` changed or destroyed. */
FFLOAD_API int ffload_loader_create(ffload_loader **loader, ffload_dataset *dataset,
                                    const ffload_options *options, ffload_error *error);

/* Stops its threads. Batches stay as they are. */
FFLOAD_API void ffload_loader_destroy(ffload_loader **loader);

/* Describes the loader as JSON: an object with batches (of an epoch from its start), samples (of
 * the set), rows, batch_size, channels, height, width, dtype, layout, threads, slots, device,
 * placement and reason (a sentence: why this placement), reading (how the files are read now, and
 * why), and tensors, an array of {name, dtype, shape, strides} of a full batch. Names are
 * percent-escaped. Valid until the next call of this function or the end of the loader. */
FFLOAD_API int ffload_loader_describe(ffload_loader *loader, const char **json,
                                      ffload_error *error);

/* Batches of an epoch from its start; with cuts, parts of batches. */
FFLOAD_API uint64_t ffload_loader_length(const ffload_loader *loader);

/* One batch, in host memory or on a GPU, valid until it is released, also after its loader is gone.
 * Its memory is then used for another batch: a loop that keeps no batch allocates nothing after the
 * start, except a few bytes for each exported tensor. */
typedef struct ffload_batch ffload_batch;

/* Waits for the next batch; *batch = NULL after the last one of the last epoch. If making a batch
 * failed, the call that would return it returns the error, and so do all later calls. FFLOAD_USAGE
 * for a loader on a GPU; see ffload_loader_next_on. */
FFLOAD_API int ffload_loader_next(ffload_loader *loader, ffload_batch **batch, ffload_error *error);

/* Ends the waiting ffload_loader_next, or else its next call, with FFLOAD_INTERRUPTED within 0.1 s.
 * No batch is lost: the call after that returns the awaited batch. May be called by any thread, and
 * in a signal handler. */
FFLOAD_API void ffload_loader_interrupt(ffload_loader *loader);

/* Continues with the batch that begins at `position` of `epoch`; epochs count from there. Costs
 * nothing if that batch is next anyway; otherwise the batches that are ready are lost. A batch that
 * was begun on a GPU (ffload_loader_begin) ends. */
FFLOAD_API int ffload_loader_seek(ffload_loader *loader, uint32_t epoch, uint64_t position,
                                  ffload_error *error);

/* The loader's position as JSON: all that is needed to continue with the batch after the last
 * returned one. May be called by any thread, also while another thread waits for a batch, as
 * ffload_loader_describe and ffload_loader_stats. Valid until the next call of this function or the
 * end of the loader. */
FFLOAD_API int ffload_loader_state(ffload_loader *loader, const char **json, ffload_error *error);

/* Continues at the position of `json`. FFLOAD_USAGE if the text belongs to other batches: another
 * seed, order, batch size or number of samples, or other sets among several. Rank, world, cuts,
 * augmentation and threads may differ; after some of a batch's cuts, world and cuts must be equal.
 */
FFLOAD_API int ffload_loader_restore(ffload_loader *loader, const char *json, ffload_error *error);

typedef struct ffload_stats {
    uint64_t wait_ns; /* spent in ffload_loader_next: the consumer's wait for data */
    uint64_t fill_ns; /* spent making batches, summed over threads */
    uint64_t samples; /* returned */
    uint64_t batches;
    uint64_t blocks; /* allocated for batches: constant while released blocks suffice */
    uint64_t reserved[3];
} ffload_stats;

/* Counted since the loader's creation, seeks included. */
FFLOAD_API int ffload_loader_stats(ffload_loader *loader, ffload_stats *stats, ffload_error *error);

/* ---- batches -------------------------------------------------------------------------------- */

FFLOAD_API void ffload_batch_release(ffload_batch **batch);

FFLOAD_API const ffload_batch_info *ffload_batch_info_of(const ffload_batch *batch);

/* A tensor of the batch by its name. n: the batch's samples, info.count; with last_batch pad:
 * info.rows.
 *
 *   images         [n, C, H, W] of the option dtype, with strides of the option layout: normalized,
 *                  as augmented; u8 and u16: as stored; with option views: the first view
 *   images/K       view K of option views
 *   images/NAME/K  view K of its group NAME
 *   labels         the first label field: a class field [n] of the option label_dtype, -1 for an
 *                  unlabelled sample, others [n, width] f32
 *   labels/NAME    the field NAME, one of the option label
 *   weight         [n] f32: 1; 0 for rows that only pad
 *   samples        [n] i64: the samples' numbers in the set; -1 for rows that only pad
 *   sources        [n] i64, of a dataset of several sets: the numbers of the samples' sets, from 0
 * and with mixup or cutmix, where row i is mixed with row i ^ 1:
 *   mix            [n] f32: the share of the row's own sample and label; 1 if it is not mixed
 *   labels_b       as labels: the other sample's, whose share is 1 - mix
 *   labels_b/NAME  as labels/NAME
 *
 * The loss of a mixed row is mix * loss(labels) + (1 - mix) * loss(labels_b).
 *
 * FFLOAD_USAGE for an unknown tensor, naming the batch's tensors. Valid until the batch is
 * released. */
FFLOAD_API int ffload_batch_tensor(const ffload_batch *batch, const char *name,
                                   const DLTensor **tensor, ffload_error *error);

/* The same with an owner, for other libraries, which may write to the tensor: the batch lives until
 * a thread calls the tensor's deleter. */
FFLOAD_API int ffload_batch_export(ffload_batch *batch, const char *name,
                                   DLManagedTensorVersioned **tensor, ffload_error *error);

/* *old takes over a tensor, for consumers that do not know versions; *tensor = NULL. The flags are
 * lost. On failure the caller keeps *tensor. */
FFLOAD_API int ffload_unversioned(DLManagedTensorVersioned **tensor, DLManagedTensor **old,
                                  ffload_error *error);

/* ---- batches on a GPU ----------------------------------------------------------------------- */

/* With device cuda a loader writes the next batch into the caller's memory, names[i] into to[i].
 * names: any of a batch's tensors (ffload_batch_tensor). to: tensors on the loader's device, of the
 * dtype, shape and strides of a full batch (ffload_loader_describe); rows after info.count are
 * padding, with weight 0 and class -1.
 *
 * All work is enqueued in `stream`, a cudaStream_t of the caller, and the host does not wait for
 * the work: later work in the stream sees the batch. With placement stream or host the call waits,
 * as ffload_loader_next does, until the batch's samples were read. Calls may use different streams:
 * each batch waits for the one before it. No function changes the calling thread's current device;
 * if the current device is not the loader's, it gets a context, too.
 *
 * *info = NULL after the last batch, else valid until the next call. ffload_loader_destroy waits
 * for the enqueued batches. FFLOAD_USAGE for a loader on the CPU. */
FFLOAD_API int ffload_loader_enqueue_into(ffload_loader *loader, const char *const *names,
                                          const DLTensor *const *to, size_t count, void *stream,
                                          const ffload_batch_info **info, ffload_error *error);

/* The same in three parts. The caller may capture the second part in a CUDA graph, together with
 * the training step that reads the batch:
 *
 *     ... cudaStreamBeginCapture(stream, ...) ...
 *     ffload_loader_write(loader, names, to, count, stream, &error);  // recorded, not done
 *     ... the step ...
 *     ... cudaStreamEndCapture(stream, &graph), cudaGraphInstantiate(&step, graph, 0) ...
 *     while (ffload_loader_begin(loader, stream, &info, &error) == FFLOAD_OK && info) {
 *         cudaGraphLaunch(step, stream);
 *         ffload_loader_end(loader, stream, &error);
 *     }
 *
 * begin does the host's part: it waits as enqueue_into does, and enqueues the batch's place; *info
 * = NULL after the last batch. write enqueues the work that writes the batch begun before it or, in
 * a capture, the batch begun before each launch. end declares that all work that writes the batch
 * is enqueued, and counts the batch as returned: before end, another begin, in the same stream or
 * another, begins the same batch, and another write or launch writes the same batch.
 *
 * Before the capture, write one batch outside of it, which loads the kernels: begin and write
 * without end suffice, and lose no batch. A recording holds the addresses of `to` and of the
 * loader's memory. It stays valid after seeks and in further epochs, until ffload_loader_destroy,
 * which the caller calls after the last launch is done. Several recordings may write to several
 * tensors. write allocates nothing, and neither waits nor synchronizes.
 *
 * FFLOAD_USAGE: begin and end in a capture; write outside of a capture without a begun batch; end
 * without a begun batch. The stream of a begin must live until the end, a seek, or the loader's
 * end. */
FFLOAD_API int ffload_loader_begin(ffload_loader *loader, void *stream,
                                   const ffload_batch_info **info, ffload_error *error);
FFLOAD_API int ffload_loader_write(ffload_loader *loader, const char *const *names,
                                   const DLTensor *const *to, size_t count, void *stream,
                                   ffload_error *error);
FFLOAD_API int ffload_loader_end(ffload_loader *loader, void *stream, ffload_error *error);

/* For consumers without memory for the batch: returns the next batch in the loader's memory on its
 * device, as ffload_loader_next does on the host, with tensors of device kDLCUDA; *batch = NULL
 * after the last one. The work that writes it is enqueued in `stream`, as by enqueue_into.
 *
 * The caller may keep the batch for any time, also after the loader is gone. Once the batch is
 * released, and the deleters of its tensors were called, its memory is used for a later batch,
 * although enqueued work may still read it: the later batch is written only after the work that is
 * by then enqueued in the stream of this call and in the streams passed to ffload_batch_use_on, and
 * the host never waits. Work in any other stream must be done when the batch is released. All these
 * streams must live until then. A loop that keeps no batch allocates nothing after the start. A
 * release after the loader's end waits for the work in these streams, and frees the memory. */
FFLOAD_API int ffload_loader_next_on(ffload_loader *loader, void *stream, ffload_batch **batch,
                                     ffload_error *error);

/* Lets work in `stream` use a batch on a GPU: work enqueued there later sees the batch, whichever
 * stream wrote it, and the batch's memory is used for another batch only after the work that
 * `stream` has at the release. For example in __dlpack__(stream), for the consumer's stream. May be
 * called by any thread. Does nothing for a batch on the host. FFLOAD_USAGE if the stream is in a
 * capture. */
FFLOAD_API int ffload_batch_use_on(ffload_batch *batch, void *stream, ffload_error *error);

#ifdef __cplusplus
}
#endif

#endif
