/* Which of a source's items are broken: makes all items as packing does, and writes nothing. */
#ifndef FF_FFPACK_CHECK_H
#define FF_FFPACK_CHECK_H

#include "tools/ffpack/run/run.h"

/* Decodes all items of a listed source on the settings' threads. Each broken one goes to
 * run->options->broken, in the order of reading; odd ones are notices. Fills `checked` and `broken`
 * of the report. FF_BAD_DATA if an item is broken, else FF_USAGE if packing would refuse an item,
 * such as an image of a different size. Prints progress; returns FF_INTERRUPTED on a signal. */
FF_MUST_USE ff_status ff_check_items(const ff_run *run, ff_error *error);

#endif
