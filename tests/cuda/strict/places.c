/* Where work was enqueued, and the sentences about it. */
#include "tests/cuda/strict/state.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 4096, SHOWN = 6 };

char *strict_kept;
static place *places[BUCKETS];

const place *find_place(const char *what, const void *kernel) {
    place found = {.what = what, .kernel = kernel};
    size_t sum = (size_t)kernel;
    found.depth = backtrace(found.frames, sizeof found.frames / sizeof *found.frames);
    for (int i = 0; i < found.depth; i++) sum = sum * 31 + (size_t)found.frames[i];
    place **at = &places[sum % BUCKETS];
    for (; *at; at = &(*at)->next)
        if ((*at)->what == what && (*at)->kernel == kernel &&
            !memcmp((*at)->frames, found.frames, sizeof found.frames))
            return *at;
    *at = malloc(sizeof found);
    if (!*at) abort();
    **at = found;
    return *at;
}

/* "function at file:line"; false: of the stand-in itself, or unknown. */
static bool line_of(const void *code, char *line, int room) {
    Dl_info in;
    char command[512];
    bool good = false;
    if (!dladdr(code, &in) || !in.dli_fname) return false;
    snprintf(command, sizeof command, "addr2line -fpC -e '%s' %#lx 2>/dev/null", in.dli_fname,
             (unsigned long)((const char *)code - (const char *)in.dli_fbase));
    FILE *found = popen(command, "r");
    if (found) good = fgets(line, room, found) != NULL;
    if (found) pclose(found);
    return good && !strchr(line, '?') && !strstr(line, "tests/cuda/s");
}

static void add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, STRICT_SENTENCE - used, format, values);
    va_end(values);
}

static void add_code(char *text, const char *what, const void *code) {
    char line[1024];
    if (code && line_of(code, line, sizeof line)) add(text, "    %s%s", what, line);
}

static void add_place(char *text, const char *which, const place *where) {
    if (!where) return;
    add(text, "  %s: %s\n", which, where->what);
    add_code(text, "kernel ", where->kernel);
    for (int i = 0, shown = 0; i < where->depth && shown < SHOWN; i++) {
        const size_t before = strlen(text);
        add_code(text, "", (const char *)where->frames[i] - 1);
        shown += strlen(text) > before;
    }
}

void fail(const place *now, const place *then, const void *at, const char *format, ...) {
    static char text[STRICT_SENTENCE];
    static bool failing;
    va_list values;
    if (failing || (strict_kept && *strict_kept)) return;
    failing = true;
    snprintf(text, sizeof text, "strict: ");
    va_start(values, format);
    vsnprintf(text + strlen(text), sizeof text - strlen(text), format, values);
    va_end(values);
    add(text, "\n");
    add_code(text, "in ", at);
    add_place(text, "this one", now);
    add_place(text, "the other", then);
    if (strict_kept) {
        memcpy(strict_kept, text, sizeof text);
    } else {
        if (write(STDERR_FILENO, text, strlen(text)) < 0) abort();
        abort();
    }
    failing = false;
}
