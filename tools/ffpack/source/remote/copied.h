/* Copies of what lies elsewhere, in temporary space. Private to elsewhere.c. Thread rule: one
 * thread at a time. */
#ifndef FF_FFPACK_SOURCE_COPIED_H
#define FF_FFPACK_SOURCE_COPIED_H

#include "format/base/memory.h"

/* *fd = a copy of the object behind `url`, whose size is *bytes; `path` names the object in
 * messages. FF_IO also if the folder `temporary` lacks the space. The caller closes *fd. */
FF_MUST_USE ff_status ff_copy_object(const char *url, const char *path, const char *temporary,
                                     int *fd, uint64_t *bytes, ff_error *error);

/* The same of the rest of the standard input. A regular file that nothing was read from is opened
 * instead. FF_USAGE for a terminal. */
FF_MUST_USE ff_status ff_copy_input(const char *path, const char *temporary, int *fd,
                                    uint64_t *bytes, ff_error *error);

#endif
