#include "train/recipes/loss_form.h"

#include "format/base/real.h"
#include "format/cli/nearest.h"
#include "format/cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"cross-entropy", "bce", "bce-sum"}; /* by ff_loss_kind */
enum { NAMES = sizeof names / sizeof *names };

ff_status ff_loss_parse(ff_loss_form *form, const char *text, ff_error *error) {
    const size_t length = strcspn(text, "=");
    ff_nearest nearest = {.wanted = text, .length = length};
    int kind = 0;
    while (kind < NAMES && (strlen(names[kind]) != length || strncmp(names[kind], text, length)))
        ff_nearest_offer(&nearest, names[kind++]);
    if (kind == NAMES)
        return ff_fail(error, FF_USAGE,
                       "--loss: '%.*s' is unknown%s%s%s are cross-entropy, bce and bce-sum",
                       (int)length, text, nearest.name ? "; did you mean " : "",
                       nearest.name ? nearest.name : "", nearest.name ? "? There" : "; there");
    *form = (ff_loss_form){(ff_loss_kind)kind, -1};
    if (!text[length]) return FF_OK;
    char *end;
    form->threshold = ff_real_read(text + length + 1, &end);
    if (kind == FF_LOSS_CROSS_ENTROPY)
        return ff_fail(error, FF_USAGE, "--loss: '%s': only bce and bce-sum have a threshold",
                       text);
    if (end > text + length + 1 && !*end && form->threshold >= 0 && form->threshold < 1)
        return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--loss: '%s' is not as in %s[=THRESHOLD], with a number from 0 to below 1",
                   text, names[kind]);
}

const char *ff_loss_text(const ff_loss_form *form, char text[FF_LOSS_TEXT_BYTES]) {
    char number[FF_REAL_BYTES] = "";
    const bool cut = form->kind != FF_LOSS_CROSS_ENTROPY && form->threshold >= 0;
    if (cut) ff_real_write(form->threshold, 6, number);
    snprintf(text, FF_LOSS_TEXT_BYTES, "%s%s%s", names[form->kind], cut ? "=" : "", number);
    return text;
}
