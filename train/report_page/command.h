/* `fftrain report RUN... [-o FILE]`. */
#ifndef FF_TRAIN_REPORT_PAGE_COMMAND_H
#define FF_TRAIN_REPORT_PAGE_COMMAND_H

#include "format/base/status.h"

/* argv[0] is "report". Prints where the page is. FF_USAGE, FF_BAD_DATA, FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_report_command(int argc, char **argv, ff_error *error);

#endif
