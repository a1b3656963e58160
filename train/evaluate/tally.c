#include "train/evaluate/tally.h"

#include "format/base/memory.h"
#include "train/net/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Batches that may be in flight from the device. */
enum { SLOTS = 2 };
/* Logits of a batch from which on several threads share the work. */
enum { SHARED_LOGITS = 1 << 14 };

/* A batch on the host: a copy in pinned memory, or the compute's own memory. */
typedef struct slot {
    float *logits; /* [batch][stride] */
    void *labels;  /* [batch] */
    ff_dtype label_dtype;
    uint32_t count; /* samples; 0 = nothing to count */
    uint64_t first; /* number of the first sample */
    ff_event *copied;
} slot;

/* The result of one row. */
typedef struct verdict {
    int32_t label, predicted;
    bool correct, top;
    double loss;        /* negative if the sample is not among the worst */
    double probability; /* valid if loss is not negative */
} verdict;

typedef struct ff_tally_parts {
    const ff_plan *plan;
    size_t stride; /* logits of a sample */
    slot slots[SLOTS];
    verdict *verdicts; /* [batch] */
    uint64_t next_first,
        step; /* number of the next batch's first sample; distance to the batch after it */
    int next; /* slot */
} ff_tally_parts;

/* ---- counting ---- */

static int64_t label_of(const slot *from, uint32_t n) {
    return from->label_dtype == FF_I64 ? ((const int64_t *)from->labels)[n]
                                       : ((const int32_t *)from->labels)[n];
}

/* The prediction is the first of the largest logits, as in the loss; a row that is not finite
 * counts as wrong. reach: the logarithm of `classes`; least: a sample with a larger loss is among
 * the worst. */
static verdict judge(const float *logits, int classes, int64_t label, double reach, double least) {
    verdict got = {.label = (int32_t)label, .loss = -1};
    const float own = logits[label];
    int before = 0; /* classes ranked before the label */
    bool missing = false;
    for (int c = 0; c < classes; c++) {
        if (logits[c] > logits[got.predicted]) got.predicted = c;
        missing |= isnan(logits[c]) || logits[c] == INFINITY;
        before += c != label && (logits[c] > own || (c < label && logits[c] == own));
    }
    const float largest = logits[got.predicted];
    missing |= largest == -INFINITY;
    got.correct = !missing && got.predicted == label;
    got.top = !missing && before < FF_TALLY_TOP;
    /* The loss is this difference plus the logarithm of a sum of `classes` terms of at most 1. */
    if (!missing && (double)(largest - own) + reach <= least) return got;
    double sum = 0;
    for (int c = 0; c < classes; c++) sum += (double)expf(logits[c] - largest);
    // cppcheck-suppress invalidFunctionArg ; sum is at least exp(0): the largest logit's own term
    const double loss = (double)(largest - own) + log(sum);
    got.loss = isnan(loss) ? INFINITY : loss;
    got.probability = 1 / sum;
    return got;
}

/* Inserts a sample into the worst, by falling loss; equal losses by number. */
static void insert(ff_tally *tally, const ff_mistake *got) {
    int at = tally->worst_count;
    if (at == FF_TALLY_WORST && got->loss <= tally->worst[at - 1].loss) return;
    if (at == FF_TALLY_WORST)
        at--;
    else
        tally->worst_count++;
    for (; at > 0 && tally->worst[at - 1].loss < got->loss; at--)
        tally->worst[at] = tally->worst[at - 1];
    tally->worst[at] = *got;
}

static void count_batch(ff_tally *tally, slot *from) {
    const ff_tally_parts *parts = tally->parts;
    const int classes = tally->classes, threads = parts->plan->compute->threads;
    const double least =
        tally->worst_count == FF_TALLY_WORST ? tally->worst[FF_TALLY_WORST - 1].loss : -1;
    const double reach = log((double)classes);
    const size_t logits = (size_t)from->count * (size_t)classes;
    (void)threads, (void)logits; /* without OpenMP */
#pragma omp parallel for num_threads(threads) if (logits > SHARED_LOGITS)
    for (uint32_t n = 0; n < from->count; n++) {
        const int64_t label = label_of(from, n);
        if (label >= 0 && label < classes)
            parts->verdicts[n] =
                judge(from->logits + n * parts->stride, classes, label, reach, least);
        else
            parts->verdicts[n].label = -1;
    }
    for (uint32_t n = 0; n < from->count; n++) {
        const verdict *got = &parts->verdicts[n];
        if (got->label < 0) continue;
        tally->count++;
        tally->correct += got->correct;
        tally->top += got->top;
        tally->class_count[got->label]++;
        tally->class_correct[got->label] += got->correct;
        if (tally->confusion)
            tally->confusion[(size_t)got->label * (size_t)classes + (size_t)got->predicted]++;
        const ff_mistake mistake = {ff_storage_order_at(&tally->numbers, from->first + n),
                                    got->label, got->predicted, got->loss, got->probability};
        if (got->loss >= 0) insert(tally, &mistake);
    }
    from->count = 0;
}

/* ---- life ---- */

static size_t logits_bytes(const ff_tally_parts *parts) {
    return (size_t)parts->plan->batch * parts->stride * sizeof(float);
}

static ff_status build(ff_tally *tally, const ff_plan *plan, ff_error *error) {
    static const char what[] = "the counts of an evaluation";
    const ff_tensor *logits = &plan->tensors[plan->graph->output];
    const uint64_t classes = (uint64_t)logits->c;
    ff_device *device = plan->compute->device;
    FF_TRY(ff_alloc(&tally->parts, 1, sizeof *tally->parts, what, error));
    ff_tally_parts *parts = tally->parts;
    parts->plan = plan;
    parts->stride = (size_t)ff_tensor_padded_channels(logits);
    tally->classes = logits->c;
    FF_TRY(ff_alloc(&tally->class_count, classes, sizeof *tally->class_count, what, error));
    FF_TRY(ff_alloc(&tally->class_correct, classes, sizeof *tally->class_correct, what, error));
    if (classes <= FF_TALLY_MATRIX)
        FF_TRY(
            ff_alloc(&tally->confusion, classes * classes, sizeof *tally->confusion, what, error));
    FF_TRY(ff_alloc(&parts->verdicts, (uint64_t)plan->batch, sizeof *parts->verdicts, what, error));
    for (int i = 0; i < SLOTS && !device->table->unified; i++) {
        slot *one = &parts->slots[i];
        void *memory;
        FF_TRY(device->table->allocate_pinned(device, &memory, logits_bytes(parts), what, error));
        one->logits = memory;
        FF_TRY(device->table->allocate_pinned(
            device, &one->labels, (uint64_t)plan->batch * sizeof(int64_t), what, error));
        FF_TRY(device->table->event_create(device, &one->copied, false, error));
    }
    return FF_OK;
}

ff_status ff_tally_create(ff_tally **tally, const ff_plan *plan, ff_error *error) {
    FF_TRY(ff_alloc(tally, 1, sizeof **tally, "the counts of an evaluation", error));
    const ff_status status = build(*tally, plan, error);
    if (status != FF_OK) ff_tally_destroy(tally);
    return status;
}

static void release_slots(ff_tally_parts *parts) {
    ff_device *device = parts->plan->compute->device;
    for (int i = 0; i < SLOTS && !device->table->unified; i++) {
        slot *one = &parts->slots[i];
        if (one->logits) device->table->release_pinned(device, one->logits);
        if (one->labels) device->table->release_pinned(device, one->labels);
        device->table->event_destroy(device, one->copied);
    }
}

void ff_tally_destroy(ff_tally **pointer) {
    ff_tally *tally = *pointer;
    if (!tally) return;
    if (tally->parts) {
        release_slots(tally->parts);
        free(tally->parts->verdicts);
    }
    free(tally->parts);
    free(tally->class_count);
    free(tally->class_correct);
    free(tally->confusion);
    free(tally);
    *pointer = NULL;
}

/* ---- a pass ---- */

void ff_tally_begin(ff_tally *tally, int rank, int ranks) {
    const uint64_t batch = (uint64_t)tally->parts->plan->batch;
    const size_t classes = (size_t)tally->classes;
    tally->count = tally->correct = tally->top = 0;
    tally->worst_count = 0;
    tally->whole = false;
    memset(tally->class_count, 0, classes * sizeof *tally->class_count);
    memset(tally->class_correct, 0, classes * sizeof *tally->class_correct);
    if (tally->confusion) memset(tally->confusion, 0, classes * classes * sizeof *tally->confusion);
    tally->parts->next_first = (uint64_t)rank * batch;
    tally->parts->step = (uint64_t)ranks * batch;
    for (int i = 0; i < SLOTS; i++) tally->parts->slots[i].count = 0;
}

/* Waits for a slot's batch, if it has one, and counts it. */
static ff_status take(ff_tally *tally, slot *from, ff_error *error) {
    ff_device *device = tally->parts->plan->compute->device;
    if (!from->count) return FF_OK;
    FF_TRY(device->table->event_synchronize(device, from->copied, error));
    count_batch(tally, from);
    return FF_OK;
}

static ff_status copy(const ff_tally_parts *parts, slot *to, const ff_batch *batch,
                      ff_error *error) {
    const ff_plan *plan = parts->plan;
    ff_device *device = plan->compute->device;
    ff_stream *stream = plan->compute->stream;
    const uint64_t label_bytes = (uint64_t)plan->batch * ff_dtype_bytes(batch->label_dtype);
    FF_TRY(device->table->copy(device, stream, to->logits, ff_plan_at(plan, plan->logits),
                               logits_bytes(parts), error));
    FF_TRY(device->table->copy(device, stream, to->labels, batch->labels, label_bytes, error));
    return device->table->event_record(device, to->copied, stream, error);
}

ff_status ff_tally_add(ff_tally *tally, const ff_batch *batch, uint32_t count, ff_error *error) {
    ff_tally_parts *parts = tally->parts;
    const ff_plan *plan = parts->plan;
    const uint64_t first = parts->next_first;
    parts->next_first += parts->step;
    if (plan->compute->device->table->unified) {
        slot here = {.logits = ff_plan_at(plan, plan->logits),
                     .labels = (void *)(uintptr_t)batch->labels,
                     .label_dtype = batch->label_dtype,
                     .count = count,
                     .first = first};
        count_batch(tally, &here);
        return FF_OK;
    }
    slot *to = &parts->slots[parts->next];
    parts->next = (parts->next + 1) % SLOTS;
    FF_TRY(take(tally, to, error));
    FF_TRY(copy(parts, to, batch, error));
    to->label_dtype = batch->label_dtype;
    to->first = first;
    to->count = count;
    return FF_OK;
}

ff_status ff_tally_end(ff_tally *tally, ff_error *error) {
    ff_tally_parts *parts = tally->parts;
    for (int i = 0; i < SLOTS; i++)
        FF_TRY(take(tally, &parts->slots[(parts->next + i) % SLOTS], error));
    tally->whole = true;
    return FF_OK;
}

/* ---- over all ranks ---- */

static ff_status sum_counts(ff_job *job, int64_t *counts, size_t count, ff_error *error) {
    double *numbers;
    FF_TRY(ff_alloc(&numbers, count, sizeof *numbers, "the counts of an evaluation", error));
    for (size_t i = 0; i < count; i++) numbers[i] = (double)counts[i];
    const ff_status status = ff_job_sum(job, numbers, count, error);
    for (size_t i = 0; i < count; i++) counts[i] = (int64_t)numbers[i];
    free(numbers);
    return status;
}

static ff_status sum_confusion(ff_tally *tally, ff_job *job, ff_error *error) {
    const size_t count = (size_t)tally->classes * (size_t)tally->classes;
    double *numbers;
    if (!tally->confusion) return FF_OK;
    FF_TRY(ff_alloc(&numbers, count, sizeof *numbers, "the counts of an evaluation", error));
    for (size_t i = 0; i < count; i++) numbers[i] = tally->confusion[i];
    const ff_status status = ff_job_sum(job, numbers, count, error);
    for (size_t i = 0; i < count; i++) tally->confusion[i] = (uint32_t)numbers[i];
    free(numbers);
    return status;
}

/* By falling loss, then by number. */
static int compare(const void *left, const void *right) {
    const ff_mistake *a = left, *b = right;
    if (a->loss != b->loss) return a->loss > b->loss ? -1 : 1;
    return (a->sample > b->sample) - (a->sample < b->sample);
}

/* Each rank's part of the sum is zero except for its own mistakes. */
static ff_status join_worst(ff_tally *tally, ff_job *job, ff_error *error) {
    enum { NUMBERS = 5 };
    const size_t most = (size_t)job->size * FF_TALLY_WORST;
    double *numbers, *own;
    ff_mistake *all = NULL;
    size_t count = 0;
    ff_status status;
    FF_TRY(ff_alloc(&numbers, most * NUMBERS, sizeof *numbers, "mistakes", error));
    own = numbers + (size_t)job->rank * FF_TALLY_WORST * NUMBERS;
    for (int i = 0; i < tally->worst_count; i++, own += NUMBERS) {
        const ff_mistake *from = &tally->worst[i];
        own[0] = (double)from->sample + 1; /* 0 = no mistake */
        own[1] = from->label;
        own[2] = from->predicted;
        own[3] = from->loss;
        own[4] = from->probability;
    }
    FF_TRY_DONE(ff_alloc(&all, most, sizeof *all, "mistakes", error));
    FF_TRY_DONE(ff_job_sum(job, numbers, most * NUMBERS, error));
    for (size_t i = 0; i < most; i++) {
        const double *from = numbers + i * NUMBERS;
        if (from[0] > 0)
            all[count++] = (ff_mistake){(uint64_t)from[0] - 1, (int32_t)from[1], (int32_t)from[2],
                                        from[3], from[4]};
    }
    qsort(all, count, sizeof *all, compare);
    tally->worst_count = (int)(count < FF_TALLY_WORST ? count : FF_TALLY_WORST);
    memcpy(tally->worst, all, (size_t)tally->worst_count * sizeof *all);
done:
    free(all);
    free(numbers);
    return status;
}

ff_status ff_tally_join(ff_tally *tally, ff_job *job, ff_error *error) {
    const size_t classes = (size_t)tally->classes;
    int64_t counts[] = {tally->count, tally->correct, tally->top};
    FF_TRY(sum_counts(job, counts, 3, error));
    tally->count = counts[0];
    tally->correct = counts[1];
    tally->top = counts[2];
    FF_TRY(sum_counts(job, tally->class_count, classes, error));
    FF_TRY(sum_counts(job, tally->class_correct, classes, error));
    FF_TRY(sum_confusion(tally, job, error));
    return join_worst(tally, job, error);
}
