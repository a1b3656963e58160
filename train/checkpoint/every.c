#include "train/checkpoint/every.h"
#include "format/base/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether the word is `unit` or its plural. */
static bool is_unit(const char *word, const char *unit) {
    const size_t length = strlen(unit);
    return !strncmp(word, unit, length) && (!word[length] || !strcmp(word + length, "s"));
}

ff_status ff_every_parse(ff_every *every, const char *text, ff_error *error) {
    *every = (ff_every){.unit = FF_EVERY_CHOSEN};
    if (!text) return FF_OK;
    char *word;
    double amount = ff_real_read(text, &word);
    if (word == text) amount = 1;
    word += strspn(word, " ");
    const bool minutes = is_unit(word, "minute");
    every->amount = amount;
    every->unit = minutes                                              ? FF_EVERY_MINUTES
                  : is_unit(word, "step")                              ? FF_EVERY_STEPS
                  : is_unit(word, "epoch") || (!*word && word != text) ? FF_EVERY_EPOCHS
                                                                       : FF_EVERY_CHOSEN;
    const bool whole = floor(amount) == amount && amount < 1e15;
    if (every->unit != FF_EVERY_CHOSEN && amount > 0 && isfinite(amount) && (minutes || whole))
        return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--checkpoint-every: '%s' is not N epochs, N steps or N minutes", text);
}

bool ff_every_worthwhile(double seconds, double took) {
    const double times = 100, longest = 30;
    return seconds >= fmin(times * took, longest);
}
