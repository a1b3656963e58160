/* Turns internal errors into the library's, and records which process created an object. Private to
 * loader/library/. */
#ifndef FF_LOADER_LIBRARY_STATUS_H
#define FF_LOADER_LIBRARY_STATUS_H

#include "format/base/status.h"

#include <ffload/ffload.h>

/* Ends every public function: copies a failure's message, and returns the public status. `error`
 * may be NULL. */
int ff_library_end(ff_status status, const ff_error *from, ffload_error *error);

/* Begins every public function: FF_USAGE, naming the function and the argument, if one of these
 * pointers is NULL. `names`: the arguments' names, with commas between. */
FF_MUST_USE ff_status ff_library_given(const char *function, const char *names,
                                       const void *const *argument, size_t count, ff_error *error);
#define FF_LIBRARY_GIVEN(error, ...)                                                               \
    ff_library_given(__func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__},                   \
                     sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *), error)

/* Marks objects created in this process; a child process compares the mark. */
int ff_library_process(void);

/* FF_USAGE if `process` is not this process: `what` was inherited through a fork. */
FF_MUST_USE ff_status ff_library_check_process(int process, const char *what, ff_error *error);

#endif
