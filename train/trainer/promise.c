#include "train/trainer/promise.h"

#include "format/base/json.h"
#include "format/cli/say.h"

#include <string.h>

enum { MEASURE_NS = 250000000 };
/* From this share of the steps' time on, a wait for the disk is announced before it happens. */
#define WORTH_WARNING 0.2
/* Times the own order's rate from which on another order is recommended. */
#define WORTH_CHANGING 1.2

void ff_promise_measure(ff_promise *promise, ff_dataset *dataset, const ff_loader_options *options,
                        int disks) {
    *promise = (ff_promise){.order = options->order,
                            .samples = options->selection ? options->selection->count
                                                          : ff_dataset_count(dataset)};
    ff_loader_options plain = *options; /* draws have no other order */
    plain.weights = NULL, plain.shares = NULL, plain.repeats = 0, plain.samples_per_epoch = 0;
    if (options->samples_per_epoch) promise->samples = options->samples_per_epoch;
    if (ff_dataset_is_remote(dataset)) return;
    if (ff_rates_of_disk(dataset, &plain, MEASURE_NS, promise->rate, NULL) != FF_OK)
        memset(promise->rate, 0, sizeof promise->rate);
    for (int kind = 0; kind < FF_ORDER_KIND_COUNT; kind++) promise->rate[kind].samples *= disks;
}

const ff_disk_rate *ff_promise_own(const ff_promise *promise) {
    return &promise->rate[promise->order];
}

static double epoch_seconds(const ff_promise *promise, const ff_disk_rate *rate) {
    return (double)promise->samples / rate->samples;
}

/* "12.3 s", "4.5 minutes", "2.5 hours" */
static ff_said say_seconds(double seconds) {
    ff_said said;
    if (seconds < 120)
        snprintf(said.text, sizeof said.text, "%.3g s", seconds);
    else if (seconds < 7200)
        snprintf(said.text, sizeof said.text, "%.3g minutes", seconds / 60);
    else
        snprintf(said.text, sizeof said.text, "%.3g hours", seconds / 3600);
    return said;
}

/* How many times faster block order is, if the change is worth it; else 0. */
static double block_gains(const ff_promise *promise) {
    const double own = ff_promise_own(promise)->samples;
    const double block = promise->rate[FF_ORDER_BLOCK].samples;
    const bool gains =
        promise->order == FF_ORDER_RANDOM && own > 0 && block >= WORTH_CHANGING * own;
    return gains ? block / own : 0;
}

static void print_recommended(FILE *out, const ff_promise *promise) {
    const double gain = block_gains(promise), random = promise->rate[FF_ORDER_RANDOM].samples;
    const double own = ff_promise_own(promise)->samples;
    if (gain > 0)
        fprintf(out, "               recommended: --order block, with %.1f times the samples/s\n",
                gain);
    else if (ff_order_has_blocks(promise->order) && own < WORTH_CHANGING * random)
        fprintf(out,
                "               recommended: --order random, with %.2f times the samples/s, and "
                "better mixed\n",
                random / own);
    else
        fprintf(out, "               recommended: --order %s, as it is\n",
                ff_order_name(promise->order));
}

void ff_promise_print(FILE *out, const ff_promise *promise) {
    const ff_disk_rate *own = ff_promise_own(promise);
    if (own->samples <= 0) return;
    if (own->once) {
        fprintf(out, "disk           %s in the first epoch, in %s; memory keeps the set\n",
                ff_say_rate(own->samples, "samples").text,
                say_seconds(epoch_seconds(promise, own)).text);
        return;
    }
    const char *head = "disk";
    for (int kind = 0; kind < FF_ORDER_KIND_COUNT; kind++) {
        const ff_disk_rate *rate = &promise->rate[kind];
        if (rate->samples <= 0) continue;
        fprintf(out, "%-14s order %s: %s, %.2f bytes read for each used, an epoch in %s\n", head,
                ff_order_name((ff_order_kind)kind), ff_say_rate(rate->samples, "samples").text,
                rate->read, say_seconds(epoch_seconds(promise, rate)).text);
        head = "";
    }
    print_recommended(out, promise);
}

json_t *ff_promise_json(const ff_promise *promise) {
    json_t *object = json_object();
    if (ff_promise_own(promise)->samples <= 0) {
        json_decref(object);
        return json_null();
    }
    for (int kind = 0; object && kind < FF_ORDER_KIND_COUNT; kind++) {
        const ff_disk_rate *rate = &promise->rate[kind];
        if (rate->samples <= 0) continue;
        json_t *one = json_pack(
            "{s:o, s:o, s:o, s:b}", "samples_per_second", ff_json_number(rate->samples),
            "read_per_used", ff_json_number(rate->read), "epoch_seconds",
            ff_json_number(epoch_seconds(promise, rate)), "first_epoch_alone", (int)rate->once);
        if (json_object_set_new(object, ff_order_name((ff_order_kind)kind), one) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

ff_promise_advice ff_promise_advise(const ff_promise *promise) {
    static const char faster[] = "keep the data in memory or on a faster disk";
    const ff_disk_rate *own = ff_promise_own(promise);
    const double gain = block_gains(promise);
    ff_promise_advice advice;
    if (own->once)
        snprintf(advice.text, sizeof advice.text, "keep the data on a faster disk");
    else if (gain > 0)
        snprintf(advice.text, sizeof advice.text,
                 "use --order block, with %.1f times the samples/s, or %s", gain, faster);
    else if (own->samples > 0 || ff_order_has_blocks(promise->order))
        snprintf(advice.text, sizeof advice.text, "%s", faster);
    else
        snprintf(advice.text, sizeof advice.text, "%s, or use --order block", faster);
    return advice;
}

bool ff_promise_warns(const ff_promise *promise, double step_rate, char *text, size_t size) {
    const ff_disk_rate *own = ff_promise_own(promise);
    const double waits = 1 - own->samples / step_rate;
    if (own->samples <= 0 || !(waits > WORTH_WARNING)) return false;
    snprintf(
        text, size,
        "the steps will spend %.0f %% of %s waiting for data: the disk reads %s, and the steps "
        "could use %s; an epoch takes %s; %s",
        100 * waits, own->once ? "the first epoch" : "their time",
        ff_say_rate(own->samples, "samples").text, ff_say_rate(step_rate, "samples").text,
        say_seconds(epoch_seconds(promise, own)).text, ff_promise_advise(promise).text);
    return true;
}
