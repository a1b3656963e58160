#include "format/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(ff_error *error, ff_status status, const char *format, va_list arguments) {
    if (!error) return;
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    /* Names from files and folders may hold control characters: the message stays on one line, and
     * no terminal interprets it. */
    for (char *at = error->message; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
}

ff_status ff_fail(ff_error *error, ff_status status, const char *format, ...) {
    va_list arguments;
    if (error) error->system_errno = 0;
    va_start(arguments, format);
    fill(error, status, format, arguments);
    va_end(arguments);
    return status;
}

ff_status ff_fail_errno(ff_error *error, const char *format, ...) {
    int number = errno;
    ff_status status = number == ENOMEM ? FF_NO_MEMORY : FF_IO;
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, format, arguments);
    va_end(arguments);
    if (error) {
        size_t used = strlen(error->message);
        error->system_errno = number;
        snprintf(error->message + used, sizeof error->message - used, ": %s", strerror(number));
    }
    return status;
}

ff_status ff_fail_within(ff_error *error, ff_status status, const char *format, ...) {
    if (!error) return status;
    char inner[sizeof error->message];
    memcpy(inner, error->message, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    fill(error, error->status ? error->status : status, format, arguments);
    va_end(arguments);
    size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, ": %s", inner);
    return error->status;
}

int ff_exit_code(const ff_error *error) {
    switch (error->status) {
    case FF_OK: return 0;
    case FF_USAGE: return 2;
    case FF_BAD_DATA: return 65;
    case FF_IO: return 74;
    case FF_INTERRUPTED: return 128 + error->signal_number;
    case FF_PREEMPTED: return 75;
    case FF_FAILED:
    case FF_NO_MEMORY: break;
    }
    return 1;
}
