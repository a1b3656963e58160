/* Included by every unit test: cmocka, and checks of calls that return a status. The call passes
 * `error` as its error: assert_ok(ff_thing_open(&thing, error)). */
#ifndef FF_TESTS_CHECK_H
#define FF_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/base/status.h"

/* A call that must succeed; its message is shown if it fails. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        ff_error error_ = {0}, *error = &error_;                                                   \
        if ((call) != FF_OK) fail_msg("%s: %s", #call, error->message);                            \
    } while (0)

/* A call that must fail with this status and a message that contains `part`. */
#define assert_fails(call, wanted, part)                                                           \
    do {                                                                                           \
        ff_error error_ = {0}, *error = &error_;                                                   \
        ff_status status_ = (call);                                                                \
        if (status_ != (wanted) || !strstr(error->message, (part)))                                \
            fail_msg("%s: status %d, '%s'; wanted %d, '%s'", #call, (int)status_, error->message,  \
                     (int)(wanted), part);                                                         \
    } while (0)

#endif
