#include "train/trainer/batches.h"

#include <inttypes.h>

/* Sets this rank's rows of a micro-batch. Every rank needs some. */
static ff_status take_share(ff_trainer *trainer, const ff_trainer_options *options,
                            ff_error *error) {
    const ff_job *job = options->job;
    uint64_t first, rows;
    trainer->accumulate = options->accumulate > 0 ? options->accumulate : 1;
    if (trainer->batch % trainer->accumulate)
        return ff_fail(error, FF_USAGE,
                       "--accumulate %" PRId64 ": batches of %" PRId64
                       " samples cannot be cut into as many micro-batches of one size",
                       trainer->accumulate, trainer->batch);
    trainer->micro_all = trainer->batch / trainer->accumulate;
    if (ff_augment_mixes(&trainer->augment) && trainer->micro_all % 2 &&
        (trainer->accumulate > 1 || trainer->batch == 1))
        return ff_fail(error, FF_USAGE,
                       "--augment %s: samples are mixed in pairs, and micro-batches of %" PRId64
                       " samples (--batch, --accumulate) have one without a partner; an even "
                       "number is needed",
                       trainer->augment_text, trainer->micro_all);
    for (int i = 0; job && i < job->size; i++) {
        const ff_job other = {.rank = i, .size = job->size, .cuts = job->cuts};
        ff_job_share(&other, (uint64_t)trainer->micro_all, ff_augment_mixes(&trainer->augment),
                     &first, &rows);
        if (!rows)
            return ff_fail(error, FF_USAGE,
                           "%d ranks share batches of %" PRId64
                           " samples%s, and rank %d gets no samples",
                           job->size, trainer->micro_all,
                           ff_augment_mixes(&trainer->augment) ? ", in pairs" : "", i);
    }
    ff_job_share(job, (uint64_t)trainer->micro_all, ff_augment_mixes(&trainer->augment), &first,
                 &rows);
    trainer->micro = (int64_t)rows;
    trainer->first_row = (int64_t)first;
    return FF_OK;
}

/* Reproducible: the batch is cut into equal parts, in order, and a rank takes one of the
 * consecutive parts for each of its micro-batches. */
static ff_status take_parts(ff_trainer *trainer, const ff_trainer_options *options,
                            ff_error *error) {
    const ff_job *job = options->job;
    const int64_t ranks = job ? job->size : 1, given = options->accumulate;
    const int64_t parts = options->parts ? options->parts : ranks * (given > 0 ? given : 1);
    const int64_t each = parts / ranks;
    const char *pairs = ff_augment_mixes(&trainer->augment) ? ", in pairs" : "";
    if (options->sync_bn)
        return ff_fail(error, FF_USAGE,
                       "--reproducible: the statistics of --sync-bn depend on the number of ranks; "
                       "leave one of the two out");
    if (options->reduce_dtype != FF_F32)
        return ff_fail(
            error, FF_USAGE,
            "--reproducible: --reduce-dtype %s rounds the sums of each rank; leave one of "
            "the two out",
            ff_dtype_name(options->reduce_dtype));
    for (int i = 0; i < ranks && job; i++)
        if (job->cuts[i + 1] - job->cuts[i] != job->cuts[1])
            return ff_fail(error, FF_USAGE,
                           "--reproducible: all ranks have equal shares of a batch; leave out "
                           "--dp-balance");
    if (parts % ranks || (given > 0 && given != each))
        return ff_fail(error, FF_USAGE,
                       "--reproducible: a batch is in %" PRId64
                       " parts (--parts), which are not %" PRId64 " ranks times %" PRId64
                       " micro-batches",
                       parts, ranks, given > 0 ? given : each);
    if (ranks > 1 && each & (each - 1))
        return ff_fail(error, FF_USAGE,
                       "--reproducible: %" PRId64
                       " micro-batches on each of several ranks are not a "
                       "power of two, so their sums differ from one rank's",
                       each);
    if (trainer->batch % (parts * (*pairs ? 2 : 1)))
        return ff_fail(error, FF_USAGE,
                       "--reproducible: a batch of %" PRId64 " samples is not %" PRId64
                       " equal parts%s (ranks times micro-batches)",
                       trainer->batch, parts, pairs);
    trainer->accumulate = each;
    trainer->micro_all = trainer->micro = trainer->batch / parts;
    trainer->first_row = job ? job->rank * each * trainer->micro : 0;
    return FF_OK;
}

/* This rank's samples in its smaller micro-batch of the last batch, which has `rest` samples; 0:
 * the rank has no samples there, or a full micro-batch. */
static int64_t last_count(const ff_trainer *trainer, bool reproducible, int64_t rest) {
    const int64_t share = trainer->micro * (reproducible ? trainer->accumulate : 1);
    const int64_t own = (reproducible ? rest : rest % trainer->micro_all) - trainer->first_row;
    return own > 0 && own < share ? own % trainer->micro : 0;
}

/* The recipe's. Where a batch is to be chosen, the one that the choice begins with: of the set at
 * most, and in equal micro-batches. */
static int64_t usual_batch(const ff_trainer_options *options, const ff_recipe *recipe,
                           uint64_t count) {
    const int64_t parts = options->accumulate > 0 ? options->accumulate : 1;
    int64_t usual = recipe->batch;
    if (options->batch != FF_BATCH_AUTO) return usual;
    if ((uint64_t)usual > count) usual = (int64_t)count;
    return usual > parts ? usual - usual % parts : parts;
}

ff_status ff_trainer_resolve_batches(ff_trainer *trainer, const ff_trainer_options *options,
                                     const ff_recipe *recipe, ff_error *error) {
    uint64_t count = trainer->train_count;
    if (options->batch > 0)
        trainer->batch_asked = options->batch;
    else if (!trainer->batch_asked) /* not chosen by ff_trainer_create */
        trainer->batch_asked = usual_batch(options, recipe, count);
    trainer->batch = trainer->batch_asked;
    /* A loader then returns one batch of all samples in either mode; a plan of that size has no
     * padding, which would affect batch norms. */
    if ((uint64_t)trainer->batch > count) trainer->batch = (int64_t)count;
    FF_TRY(options->reproducible ? take_parts(trainer, options, error)
                                 : take_share(trainer, options, error));
    int64_t rest = (int64_t)(count % (uint64_t)trainer->batch);
    trainer->batches = count / (uint64_t)trainer->batch;
    trainer->keeps_last = options->last_batch == FF_LAST_BATCH_KEEP && rest;
    if (trainer->keeps_last) {
        trainer->last_count = last_count(trainer, options->reproducible, rest);
        trainer->batches++;
    } else {
        trainer->dropped = rest;
    }
    if (trainer->val_count)
        trainer->val_batch = (uint64_t)trainer->batch_asked < trainer->val_count
                                 ? trainer->batch_asked
                                 : (int64_t)trainer->val_count;
    const bool shared = options->job && !options->reproducible;
    const int64_t most = shared ? trainer->micro_all / options->job->size : trainer->micro;
    if ((trainer->accumulate > 1 || options->job) && trainer->val_batch > most)
        trainer->val_batch = most;
    return FF_OK;
}
