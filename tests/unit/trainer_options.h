/* A trainer's options as those of an empty command line, on the CPU. */
#ifndef FF_TESTS_TRAINER_OPTIONS_H
#define FF_TESTS_TRAINER_OPTIONS_H

#include "train/commands/settings.h"

#include <stdlib.h>

static inline ff_trainer_options default_options(void) {
    ff_settings settings = ff_settings_default();
    ff_error failure;
    if (ff_settings_complete(&settings, &failure) != FF_OK) abort();
    settings.trainer.device = "cpu";
    return settings.trainer;
}

#endif
