/* Does what the options ask, on every split that the path means, and prints it. */
#ifndef FF_FFINSPECT_RUN_H
#define FF_FFINSPECT_RUN_H

#include "tools/ffinspect/inspect.h"

/* FF_USAGE on a combination of options that means nothing. */
FF_MUST_USE ff_status ff_inspect_check_options(const ff_inspect_options *options, ff_error *error);

/* Prints to standard output. Problems that --verify finds are printed, and FF_BAD_DATA or FF_IO
 * comes back at the end. */
FF_MUST_USE ff_status ff_inspect_run(const ff_inspect_options *options, ff_error *error);

#endif
