#include "loader/host/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH_LIMIT (UINT64_C(1) << 30)

uint64_t ff_loader_share(uint64_t batch, uint32_t part, uint32_t total, bool pairs) {
    if (part >= total) return batch;
    const uint64_t row = batch * part / total;
    return pairs ? row & ~UINT64_C(1) : row;
}

/* A last, smaller global batch has only the cuts with samples, but at least one. */
static uint64_t batches_of(const ff_sequence *sequence, uint64_t samples, bool drop) {
    const uint64_t whole = samples / sequence->batch * sequence->cuts;
    const uint64_t rest = samples % sequence->batch, rows = sequence->rows ? sequence->rows : 1;
    if (drop || rest == 0) return whole;
    uint64_t last = 0;
    if (rest > sequence->share_begin) last = (rest - sequence->share_begin + rows - 1) / rows;
    if (last > sequence->cuts) last = sequence->cuts;
    return whole + (last ? last : 1);
}

static ff_status check(const ff_sequence *sequence, ff_dataset *dataset,
                       const ff_loader_options *options, ff_error *error) {
    if (options->batch == 0 || options->batch > BATCH_LIMIT)
        return ff_fail(error, FF_USAGE, "a batch has 1 to %" PRIu64 " samples, not %" PRIu64,
                       BATCH_LIMIT, options->batch);
    if (options->position > sequence->count)
        return ff_fail(error, FF_USAGE,
                       "position %" PRIu64 " is after the end of %s with its %" PRIu64 " samples%s",
                       options->position, ff_dataset_path(dataset), sequence->count,
                       options->selection ? " of the selection" : "");
    return FF_OK;
}

static ff_status count_batches(ff_sequence *sequence, const ff_loader_options *options,
                               ff_error *error) {
    bool drop = options->last_batch == FF_LAST_BATCH_DROP && sequence->count >= options->batch;
    sequence->epoch_batches = batches_of(sequence, sequence->count, drop);
    sequence->first_epoch = options->epoch;
    sequence->first_position = options->position;
    sequence->first_batches = batches_of(sequence, sequence->count - options->position, drop);
    if (options->first_cut &&
        (options->first_cut >= sequence->cuts || options->first_cut >= sequence->first_batches))
        return ff_fail(error, FF_USAGE, "the batch at position %" PRIu64 " has no cut %u",
                       options->position, options->first_cut);
    uint64_t epochs = options->epochs;
    if (sequence->first_batches == 0) { /* stored after the last batch of an epoch */
        sequence->first_epoch++;
        sequence->first_position = 0;
        sequence->first_batches = options->epochs == 1 ? 0 : sequence->epoch_batches;
        if (epochs > 1) epochs--;
    }
    sequence->first_cut = options->first_cut;
    sequence->first_batches -= options->first_cut;
    sequence->total_batches = UINT64_MAX;
    if (epochs)
        sequence->total_batches = sequence->first_batches + (epochs - 1) * sequence->epoch_batches;
    return FF_OK;
}

static ff_status take_share(ff_sequence *sequence, const ff_loader_options *options,
                            ff_error *error) {
    uint32_t begin = options->share_begin, end = options->share_end, total = options->share_total;
    if (total == 0) begin = 0, end = 1, total = 1;
    if (begin > end || end > total)
        return ff_fail(error, FF_USAGE, "parts %u to %u of %u are not a share of a batch", begin,
                       end, total);
    const bool pairs = ff_augment_mixes(&options->augment);
    sequence->share_begin = ff_loader_share(sequence->batch, begin, total, pairs);
    const uint64_t rows =
        ff_loader_share(sequence->batch, end, total, pairs) - sequence->share_begin;
    const uint32_t each = pairs ? 2 : 1;
    sequence->cuts = options->cuts ? options->cuts : 1;
    sequence->rows = (uint32_t)(rows / sequence->cuts);
    if (sequence->cuts > 1 && rows % ((uint64_t)sequence->cuts * each))
        return ff_fail(error, FF_USAGE,
                       "%" PRIu64 " samples of a batch cannot be cut into %u equal parts%s", rows,
                       sequence->cuts, pairs ? " of pairs" : "");
    return FF_OK;
}

/* ---- samples that come several times --------------------------------------------------------- */

static bool draws(const ff_loader_options *options) {
    return options->weights || options->per_class || options->shares || options->repeats > 1;
}

ff_sampling_text ff_loader_say_sampling(const ff_loader_options *options) {
    ff_sampling_text said = {0};
    char *at = said.text, *end = said.text + sizeof said.text;
    if (options->weights)
        at += snprintf(at, (size_t)(end - at), "weights %016" PRIx64 "%s", options->weights->id,
                       options->weights->distinct ? " without replacement" : "");
    if (options->per_class)
        at += snprintf(at, (size_t)(end - at), "%u of each class %016" PRIx64, options->per_class,
                       options->classes->id);
    if (options->shares)
        at += snprintf(at, (size_t)(end - at), "shares of %s %016" PRIx64,
                       options->shares->by_batch ? "each batch" : "an epoch", options->shares->id);
    if (options->repeats > 1)
        at += snprintf(at, (size_t)(end - at), "%srepeats %u", at == said.text ? "" : ", ",
                       options->repeats);
    if (at == said.text) at += snprintf(at, (size_t)(end - at), "each sample once");
    if (options->samples_per_epoch)
        snprintf(at, (size_t)(end - at), ", %" PRIu64 " samples an epoch",
                 options->samples_per_epoch);
    return said;
}

static ff_status check_classes(const ff_loader_options *options, ff_error *error) {
    const uint32_t each = options->per_class;
    if (options->weights || options->repeats > 1)
        return ff_fail(error, FF_USAGE, "per_class: cannot be combined with %s",
                       options->weights ? "weights" : "repeats");
    if (options->batch % each)
        return ff_fail(error, FF_USAGE,
                       "per_class: a batch of %" PRIu64 " cannot have %u samples of each class",
                       options->batch, each);
    if (options->batch / each > options->classes->count)
        return ff_fail(error, FF_USAGE,
                       "per_class: a batch of %" PRIu64 " with %u of each class needs %" PRIu64
                       " classes; there are %" PRIu64,
                       options->batch, each, options->batch / each, options->classes->count);
    return FF_OK;
}

static bool alternates(const ff_loader_options *options) {
    bool found = options->augment.flip == FF_FLIP_ALTERNATE;
    for (size_t i = 0; i < options->group_count; i++)
        found |= options->groups[i].augment.flip == FF_FLIP_ALTERNATE;
    return found;
}

/* The option that needs order random. */
static const char *drawing(const ff_loader_options *options) {
    return options->weights     ? options->words.weights
           : options->per_class ? "per_class"
           : options->shares    ? options->words.shares
                                : options->words.repeats;
}

/* places: samples that there are. */
static ff_status check_sampling(const ff_loader_options *options, uint64_t places,
                                ff_error *error) {
    const ff_loader_words *words = &options->words;
    if (draws(options) && options->order != FF_ORDER_RANDOM)
        return ff_fail(error, FF_USAGE, "%s: needs order random, and the order is %s",
                       drawing(options), ff_order_name(options->order));
    if (options->shares && (options->weights || options->per_class))
        return ff_fail(error, FF_USAGE, "%s: cannot be combined with %s", words->shares,
                       drawing(options));
    if (draws(options) && alternates(options))
        return ff_fail(error, FF_USAGE,
                       "%s: flips alternate by epoch only where each sample comes once an epoch; "
                       "wanted flip in place of flip=alternate",
                       words->augment);
    if (options->samples_per_epoch > places && !options->weights && !options->per_class &&
        !options->shares)
        return ff_fail(error, FF_USAGE,
                       "%s: there are %" PRIu64 " samples, not %" PRIu64
                       "; with %s or %s a sample may come several times",
                       words->samples_per_epoch, places, options->samples_per_epoch, words->weights,
                       words->shares);
    return options->per_class ? check_classes(options, error) : FF_OK;
}

ff_status ff_sequence_init(ff_sequence *sequence, ff_dataset *dataset,
                           const ff_loader_options *options, ff_error *error) {
    const ff_selection *selection = options->selection;
    const uint64_t places = selection ? selection->count : ff_dataset_count(dataset);
    *sequence = (ff_sequence){.count = places, .batch = options->batch};
    if (options->samples_per_epoch) sequence->count = options->samples_per_epoch;
    FF_TRY(check_sampling(options, places, error));
    FF_TRY(check(sequence, dataset, options, error));
    FF_TRY(take_share(sequence, options, error));
    return count_batches(sequence, options, error);
}
