#include "train/machine/tuning.h"

#include <string.h>

/* Returns the line at *text and moves *text past it; NULL at the end. */
static const char *take_line(const char **text, size_t *length) {
    const char *line = *text;
    *length = strcspn(line, "\n");
    *text = line + *length + (line[*length] != '\0');
    return *line ? line : NULL;
}

static const char *notes_of(const ff_tuning *tuning) {
    return tuning->notes.length ? tuning->notes.bytes : "";
}

static bool noted(const ff_tuning *tuning, const char *line, size_t length) {
    const char *text = notes_of(tuning), *one;
    size_t there;
    while ((one = take_line(&text, &there)))
        if (there == length && memcmp(one, line, length) == 0) return true;
    return false;
}

void ff_tuning_note(void *context, const char *text) {
    ff_tuning *tuning = context;
    const char *line;
    size_t length;
    while ((line = take_line(&text, &length)))
        if (length && !noted(tuning, line, length) &&
            ff_buffer_printf(&tuning->notes, NULL, "%.*s\n", (int)length, line) != FF_OK)
            return; /* the report is incomplete */
}

void ff_tuning_progress(void *context, const ff_library_tuning *counts) {
    ff_tuning *tuning = context;
    char done[96];
    if (!tuning->shown)
        ff_progress_begin(&tuning->progress, "choosing engines", "convolutions", 0, tuning->quiet);
    tuning->shown = true;
    snprintf(done, sizeof done, "%d engines timed, %d compiled", counts->timed, counts->compiled);
    ff_progress_update(&tuning->progress, (uint64_t)counts->convolutions, done);
}

void ff_tuning_end(ff_tuning *tuning) {
    if (tuning->shown) ff_progress_end(&tuning->progress);
    tuning->shown = false;
}

void ff_tuning_print(FILE *out, const ff_tuning *tuning) {
    const ff_library_tuning *c = &tuning->counts;
    if (c->convolutions)
        fprintf(out,
                "engines        of %d convolutions, %d from the plan cache; %d compiled in %.1f s, "
                "%d found compiled, %d timed in %.1f s",
                c->convolutions, c->cached, c->compiled, c->compile_seconds, c->reused, c->timed,
                c->timing_seconds);
    if (c->failed) fprintf(out, ", %d failed to build", c->failed);
    if (c->convolutions) fputc('\n', out);
    const char *text = notes_of(tuning), *line;
    size_t length;
    while ((line = take_line(&text, &length))) fprintf(out, "note: %.*s\n", (int)length, line);
}

void ff_tuning_release(ff_tuning *tuning) {
    ff_tuning_end(tuning);
    ff_buffer_free(&tuning->notes);
}
