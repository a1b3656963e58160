/* The precisions of training: the dtype of activations and working weights, and the precision to
 * which the factors of products may be rounded. Sums are always f32, and there are always f32
 * master weights. */
#ifndef FF_TRAIN_PRECISION_H
#define FF_TRAIN_PRECISION_H

#include "format/base/status.h"
#include "format/disk/dtype.h"

#include <stdbool.h>

typedef enum ff_precision {
    FF_PRECISION_F32,  /* full f32: no engine that rounds its factors */
    FF_PRECISION_TF32, /* f32 storage; factors may be rounded to 10 bits of mantissa */
    FF_PRECISION_F16,
    FF_PRECISION_BF16,
    FF_PRECISION_COUNT
} ff_precision;

/* The names, as in --precision, after the word that asks for a choice, which is not parsed here. */
#define FF_PRECISION_AUTO  "auto"
#define FF_PRECISION_NAMES FF_PRECISION_AUTO "|f32|tf32|f16|bf16"
/* Whether a text asks for a choice. NULL is accepted: it does not. */
bool ff_precision_is_auto(const char *name);
/* One of the names; parsing returns false for an unknown name. */
const char *ff_precision_name(ff_precision precision);
bool ff_precision_parse(const char *name, ff_precision *precision);
/* The same; FF_USAGE names --precision and the nearest name. */
FF_MUST_USE ff_status ff_precision_read(const char *name, ff_precision *precision, ff_error *error);
/* The dtype of activations and working weights: FF_F32 FF_F32 FF_F16 FF_BF16. */
ff_dtype ff_precision_dtype(ff_precision precision);

#endif
