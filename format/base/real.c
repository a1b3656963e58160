#include "format/base/real.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t plain;

static void create_plain(void) {
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double ff_real_read(const char *text, char **end) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_plain);
    /* newlocale needs no memory for "C"; if it fails all the same, the process's locale reads. */
    return plain ? strtod_l(text, end, plain) : strtod(text, end);
}

void ff_real_write(double value, int digits, char text[FF_REAL_BYTES]) {
    const char *mark = localeconv()->decimal_point;
    for (; digits <= 17; digits++) {
        snprintf(text, FF_REAL_BYTES, "%.*g", digits, value);
        char *at = strstr(text, mark);
        if (at) {
            memmove(at + 1, at + strlen(mark), strlen(at + strlen(mark)) + 1);
            *at = '.';
        }
        if (ff_real_read(text, NULL) == value) return;
    }
}
