#include "tools/ffpack/settings/normalize.h"

#include <string.h>

/* Values from 0 to 1. imagenet: torchvision's models; cifar10, cifar100, mnist and fashion-mnist:
 * each one's training images, rounded to four digits. */
static const struct {
    const char *name;
    uint32_t channels; /* 0 = any number of channels, all with the first values */
    float mean[3], std[3];
} known[] = {
    {"imagenet", 3, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
    {"cifar10", 3, {0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
    {"cifar100", 3, {0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}},
    {"mnist", 1, {0.1307f}, {0.3081f}},
    {"fashion-mnist", 1, {0.2860f}, {0.3530f}},
    {"half", 0, {0.5f}, {0.5f}},
};

ff_status ff_normalize_take(ff_settings *settings, int word, ff_error *error) {
    const uint32_t channels = known[word].channels;
    const uint32_t count = channels ? channels : FF_CHANNELS_LIMIT;
    FF_TRY(ff_alloc(&settings->mean, count, sizeof *settings->mean, "statistics", error));
    FF_TRY(ff_alloc(&settings->std, count, sizeof *settings->std, "statistics", error));
    for (uint32_t i = 0; i < count; i++) {
        settings->mean[i] = known[word].mean[channels ? i : 0];
        settings->std[i] = known[word].std[channels ? i : 0];
    }
    settings->statistics = FF_STATISTICS_GIVEN;
    settings->statistics_count = channels;
    return ff_format(&settings->statistics_origin, error, "--normalize %s", known[word].name);
}
