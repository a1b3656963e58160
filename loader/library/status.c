#include "loader/library/status.h"

#include "format/cli/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)FF_OK == FFLOAD_OK && (int)FF_FAILED == FFLOAD_FAILED &&
                   (int)FF_USAGE == FFLOAD_USAGE && (int)FF_BAD_DATA == FFLOAD_BAD_DATA &&
                   (int)FF_IO == FFLOAD_IO && (int)FF_NO_MEMORY == FFLOAD_NO_MEMORY &&
                   (int)FF_INTERRUPTED == FFLOAD_INTERRUPTED,
               "the public statuses are the layers'");

const char *ffload_version(void) {
    return ff_version;
}

int ff_library_end(ff_status status, const ff_error *from, ffload_error *error) {
    if (status == FF_OK || !error) return (int)status;
    error->status = (int)status;
    error->system_errno = from->system_errno;
    snprintf(error->message, sizeof error->message, "%s", from->message);
    return (int)status;
}

ff_status ff_library_given(const char *function, const char *names, const void *const *argument,
                           size_t count, ff_error *error) {
    for (size_t i = 0; i < count; i++, names += strcspn(names, ",") + 2)
        if (!argument[i])
            return ff_fail(error, FF_USAGE, "%s: %.*s is NULL", function, (int)strcspn(names, ","),
                           names);
    return FF_OK;
}

int ff_library_process(void) {
    return getpid();
}

ff_status ff_library_check_process(int process, const char *what, ff_error *error) {
    if (process == getpid()) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s was opened by the process that this one was forked from, whose threads it "
                   "does not have; open it again here",
                   what);
}
