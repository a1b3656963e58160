/* A loader's options, checked and resolved once, before anything is started. Private to loader/.
 * Thread rule: read-only after ff_loader_settings_init, except for ff_reading_turn. */
#ifndef FF_LOADER_SETTINGS_H
#define FF_LOADER_SETTINGS_H

#include "loader/augment/finish.h"
#include "loader/augment/host.h"
#include "loader/host/ahead/budget.h"
#include "loader/host/options.h"
#include "loader/host/slot.h"
#include "loader/sequence/sequence.h"

typedef struct ff_loader_settings ff_loader_settings;
struct ff_loader_settings {
    ff_dataset *dataset;
    const ff_metadata *metadata;
    uint64_t count;  /* samples that an epoch may have: all, or those selected */
    uint64_t stored; /* samples of the dataset */

    ff_order_spec order;
    ff_storage_order storage; /* the samples of the order's places (ff_selection_places); proven
                               * while rows are made, or settled before */
    ff_sampling sampling;     /* its table is the weights' or classes', or the next one */
    uint64_t *shares_table;   /* NULL = there are no shares */
    uint64_t seed;
    ff_augment_spec augment;
    ff_augment_host host;
    ff_finish finish; /* used if samples are jittered, changed or mixed */

    ff_sequence sequence; /* of batches */
    uint32_t rows;        /* this share's: sequence.rows */
    uint32_t height, width;
    uint64_t row_bytes; /* stride of the rows */
    bool raw, cyclic;   /* as in ff_loader_feed */

    /* Views of a batch (loader/host/views.c): those of these settings and, with groups, of further
     * settings. A group's differ only in augment, host, finish, height, width and row_bytes, and
     * have neither order nor memory. */
    uint32_t views;            /* with groups' */
    ff_slot_view *view;        /* [views] */
    uint32_t first_view;       /* of a group */
    ff_loader_settings *group; /* [group_count] */
    size_t group_count;

    size_t label_count;
    size_t *field;    /* [label_count] of the metadata */
    bool classes_i64; /* as in ff_loader_options, as the next two */
    const int32_t *class_numbers;
    uint32_t class_count;
    uint64_t label_values_limit; /* bytes of the largest label as stored */

    /* A slot's memory, one block: data, view after view | label 0 | label 1 ... | weight | mix,
     * each at a multiple of 64. */
    uint64_t *label_offset; /* [label_count] */
    uint64_t weight_offset;
    uint64_t mix_offset; /* 0 without mixup and cutmix */
    uint64_t slot_bytes; /* a multiple of 256, so that all slots fit in one block */
    uint64_t kept_bytes; /* as in ff_loader_options */

    int threads;
    uint32_t slots;
    bool direct; /* as in ff_loader_info */
    uint64_t shard_bytes, beyond_memory_bytes;
    ff_host_memory memory;
    bool unmappable;         /* as in ff_loader_info */
    double read_again;       /* as in ff_loader_info */
    ff_ahead_budget ahead;   /* what is read ahead */
    ff_loader_options given; /* without what they point to */

    /* The settings from later epochs on: the same as here, except augment, host, finish, height,
     * width and row_bytes; slots are the same. */
    ff_loader_settings *later; /* [later_count] */
    size_t later_count;
    uint32_t from_epoch; /* of one of them */
};

FF_MUST_USE ff_status ff_loader_settings_init(ff_loader_settings *settings, ff_dataset *dataset,
                                              const ff_loader_options *options, ff_error *error);
void ff_loader_settings_free(ff_loader_settings *settings);

/* Which settings an epoch has: 0, or 1 + an index of `later`; and the settings themselves. */
size_t ff_loader_settings_in(const ff_loader_settings *settings, uint32_t epoch);
static inline const ff_loader_settings *ff_loader_settings_of(const ff_loader_settings *settings,
                                                              size_t which) {
    return which ? &settings->later[which - 1] : settings;
}

/* Resolves the views, once the shape of the first is known. */
FF_MUST_USE ff_status ff_loader_settings_views(ff_loader_settings *settings,
                                               const ff_loader_options *options, ff_error *error);
void ff_loader_settings_free_views(ff_loader_settings *settings);
/* The settings of a view: its group's. */
const ff_loader_settings *ff_loader_settings_of_view(const ff_loader_settings *settings,
                                                     uint32_t view);
/* Size and augmentation by the options. */
FF_MUST_USE ff_status ff_loader_settings_shape(ff_loader_settings *settings,
                                               const ff_loader_options *options, ff_error *error);

ff_loader_info ff_loader_settings_describe(const ff_loader_settings *settings);

/* The position to store after the batch at `batch` was used. */
ff_loader_position ff_loader_settings_next(const ff_loader_settings *settings,
                                           const ff_sequence_batch *batch);

/* Label number `i` of a batch, with its values at `values`, which may be NULL. */
ff_slot_label ff_loader_settings_label(const ff_loader_settings *settings, size_t i, void *values);

#endif
