/* Room train/debug, floor 17: why a run computes what it computes.
 *
 * This header lets a visitor see every operation of a step. bad_loss.c uses it to find the first
 * NaN; hashes.c to write hashes by which two runs are compared (hash_log.c reads them,
 * option_changes.c finds the steps at which options changed); replay.c to show one step of an old
 * run. gradients.c compares the backward pass with differences of the loss. overfit.c and lr_find.c
 * are short trainings that answer a question.
 *
 * May include format, loader/draw, train/checkpoint, train/net, train/report, train/trainer.
 *
 * Looks at everything that a training step computes, operation by operation: the images, each
 * output, and in the backward pass the gradient of each output and of each parameter. Activations
 * share memory by lifetime, so each is seen right after its operation, when the device has waited.
 *
 *     ff_probe_begin(&probe, plan, batch.images, visit, context);
 *     ff_plan_enqueue(plan, &batch, true, ring, 1, NULL);      (or ff_step_run, of a step whose
 *     status = ff_probe_end(&probe, &error);                    segments are not captured)
 *
 * The step computes the same bits as without a probe. Thread rule: the plan's thread. */
#ifndef FF_TRAIN_DEBUG_PROBE_H
#define FF_TRAIN_DEBUG_PROBE_H

#include "train/net/plan.h"

enum { FF_PROBE_NAME = 512 };

typedef enum ff_seen_kind {
    FF_SEEN_INPUT,  /* the images, before the first operation */
    FF_SEEN_OUTPUT, /* an operation's output, after the operation */
    /* The gradient of an operation's output, before its backward pass. The gradient of a folded
     * norm has already passed the ReLU. */
    FF_SEEN_GRADIENT,
    FF_SEEN_PARAMETER_GRADIENT, /* after the backward pass of its operation */
} ff_seen_kind;

typedef struct ff_seen {
    ff_seen_kind kind;
    int op;           /* in the plan; -1: the images */
    int parameter;    /* whose gradient is seen; else -1 */
    const char *name; /* of the operation's layers, "bn1 + relu", or of the parameter */
    ff_tensor shape;  /* unused for a parameter */
    /* The number of f32 values: in the shape [n, c, h, w]; a parameter's in torch's order. */
    size_t count;
} ff_seen;

typedef struct ff_probe ff_probe;
/* A failure ends the visits; ff_probe_end returns it. */
typedef ff_status (*ff_probe_visit)(void *context, ff_probe *probe, const ff_seen *seen,
                                    ff_error *error);

struct ff_probe {
    ff_plan *plan;
    const void *images;
    ff_probe_visit visit;
    void *context;
    /* the rest is private */
    ff_compute_watch watch;
    ff_mark mark; /* the current part, and its operation; -1 = none */
    int op;
    ff_seen seen;
    const void *first; /* the values seen, on the device; more: further summands */
    const void *more[FF_MAX_USERS];
    int more_count;
    void *bytes; /* host copies; sizes below */
    float *values;
    size_t byte_room, value_room;
    ff_status status;
    ff_error failure;
};

/* Sets the compute's watch until ff_probe_end. Outputs that are never written are not seen: those
 * of a norm that is folded into the next convolution, which then has both names. */
void ff_probe_begin(ff_probe *probe, ff_plan *plan, const void *images, ff_probe_visit visit,
                    void *context);
/* Visits the last operation. Returns the first failure: of a visit, of the device, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_probe_end(ff_probe *probe, ff_error *error);

/* ---- for a visit; results are valid until it returns ---- */

/* The values seen. NULL: no memory, or the device failed; *error has the reason. */
const float *ff_probe_values(ff_probe *probe, ff_error *error);
/* The memory of an output or of the images, in the compute's layout and dtype. NULL as above. */
const void *ff_probe_bytes(ff_probe *probe, size_t *bytes, ff_error *error);

/* ---- values ---- */

typedef struct ff_value_range {
    double minimum, maximum, mean_magnitude; /* of the finite values; 0 without any */
    uint64_t nan, infinite;
} ff_value_range;
ff_value_range ff_value_range_of(const float *values, size_t count);

#endif
