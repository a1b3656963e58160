/* libffload's batches in recordings on a GPU: a recording that is launched repeatedly writes the
 * batches of ff_loader on the host, across epochs and after seeks. Prints TAP. library_graph_sim
 * SET */
#include "tests/programs/library_sim.h"

enum { BATCH = 16, EPOCH = 9, BATCHES_MOST = 64 };

/* A loader, its consumer's tensors, and a recording that writes to them. */
typedef struct step {
    ffload_loader *loader;
    ff_loader *wanted; /* on the host */
    memory to;
    ff_recording *recording;
    const ffload_batch_info *info;
} step;

static void wanted_from(step *one, uint32_t epoch, uint64_t position) {
    ff_loader_destroy(&one->wanted);
    one->wanted = host_loader(BATCH, FF_CHW, epoch, position, 0);
}

static int begin(step *one) {
    return ffload_loader_begin(one->loader, native(stream), &one->info, &failure);
}

static int write_to(step *one, const memory *to) {
    return ffload_loader_write(one->loader, names, to->pointer, to->tensors, native(stream),
                               &failure);
}

static int end(step *one) {
    return ffload_loader_end(one->loader, native(stream), &failure);
}

static ff_recording *record(step *one, const memory *to) {
    ff_recording *made;
    must((int)device->table->capture_begin(device, stream, NULL), "capture_begin");
    must(write_to(one, to), "a write in a capture");
    must((int)device->table->capture_end(device, stream, &made, NULL), "capture_end");
    return made;
}

static void launch(ff_recording *recording) {
    must((int)device->table->recording_launch(device, recording, stream, NULL), "launch");
}

static void begin_step(step *one, const char *placement, const char *more) {
    char words[256];
    snprintf(words, sizeof words, "batch_size %d placement %s %s", BATCH, placement, more);
    *one = (step){.loader = load(words)};
    wanted_from(one, 0, 0);
    const ff_slot first = ff_loader_first_slot(one->wanted, 0);
    take_memory(&one->to, &first, false);
    must(begin(one), "begin");
    must(write_to(one, &one->to), "a write before the capture");
    one->recording = record(one, &one->to);
}

static void end_step(step *one) {
    wait_for(stream);
    ffload_loader_destroy(&one->loader);
    ff_loader_destroy(&one->wanted);
    device->table->recording_destroy(device, one->recording);
    free_memory(&one->to);
}

/* Checks that the host's next batch was written. */
static bool is_next(step *one, const memory *found) {
    ff_slot *slot;
    must((int)ff_loader_acquire(one->wanted, &slot, NULL), "acquire");
    wait_for(stream);
    const bool good = one->info && same(found, slot) && one->info->index == slot->batch &&
                      one->info->epoch == slot->epoch && one->info->last == slot->last;
    ff_loader_release(one->wanted, slot, NULL);
    return good;
}

/* A step of training: the recording alone, between begin and end. */
static bool steps(step *one, int many) {
    bool good = true;
    for (int i = 0; i < many && good; i++) {
        must(begin(one), "begin");
        launch(one->recording);
        must(end(one), "end");
        good = is_next(one, &one->to);
    }
    return good;
}

/* ---- what is launched ----------------------------------------------------------------------- */

/* All steps of two epochs are enqueued before one is looked at. */
static bool runs_ahead(const char *placement) {
    step one;
    memory kept[BATCHES_MOST];
    int given = 0;
    bool good = true;
    begin_step(&one, placement, "epochs 2");
    const ff_slot first = ff_loader_first_slot(one.wanted, 0);
    for (; given < BATCHES_MOST; given++) {
        must(begin(&one), "begin");
        if (!one.info) break;
        launch(one.recording);
        must(end(&one), "end");
        take_memory(&kept[given], &first, false);
        for (int i = 0; i < UNMIXED; i++) {
            const DLTensor *from = &one.to.tensor[i];
            const uint64_t bytes = first.rows * (i ? from->dtype.bits / 8 : first.row_bytes);
            must((int)device->table->copy(device, stream, kept[given].tensor[i].data, from->data,
                                          bytes, NULL),
                 "copy");
        }
    }
    wait_for(stream);
    for (int i = 0; i < given; i++) {
        ff_slot *slot;
        must((int)ff_loader_acquire(one.wanted, &slot, NULL), "acquire");
        good = good && same(&kept[i], slot);
        ff_loader_release(one.wanted, slot, NULL);
        free_memory(&kept[i]);
    }
    end_step(&one);
    return good && given == 2 * EPOCH;
}

/* A second launch or a second begin writes the same batch; without a launch the next batch follows.
 */
static bool repeats(const char *placement) {
    step one;
    const char *state;
    begin_step(&one, placement, "epochs 0");
    must(begin(&one), "begin");
    launch(one.recording);
    must(ffload_loader_state(one.loader, &state, &failure), "state");
    bool good = strstr(state, "\"position\": 0") != NULL; /* it counts at its end */
    launch(one.recording);
    must(begin(&one), "begin");
    launch(one.recording);
    must(end(&one), "end");
    good = good && is_next(&one, &one.to);
    must(begin(&one), "begin");
    must(end(&one), "end");
    wanted_from(&one, 0, 2 * BATCH);
    good = good && steps(&one, 2 * EPOCH);
    end_step(&one);
    return good;
}

/* The recording stays right after seeks, also one while a batch is begun. */
static bool seeks(const char *placement) {
    step one;
    const char *state;
    begin_step(&one, placement, "epochs 0");
    bool good = steps(&one, 3);
    wait_for(stream);
    device->table->recording_destroy(device, one.recording);
    one.recording = record(&one, &one.to); /* while none is begun */
    must(ffload_loader_seek(one.loader, 1, 5 * BATCH, &failure), "seek");
    wanted_from(&one, 1, 5 * BATCH);
    good = good && steps(&one, EPOCH);
    must(begin(&one), "begin");
    launch(one.recording);
    must(ffload_loader_seek(one.loader, 0, BATCH, &failure), "seek");
    good = good && end(&one) == FFLOAD_USAGE && tells("none was begun");
    wanted_from(&one, 0, BATCH);
    good = good && steps(&one, 2);
    must(ffload_loader_state(one.loader, &state, &failure), "state");
    char *kept = strdup(state);
    good = good && steps(&one, 4);
    must(ffload_loader_restore(one.loader, kept, &failure), "restore");
    wanted_from(&one, 0, 3 * BATCH);
    good = good && steps(&one, 2 * EPOCH);
    free(kept);
    end_step(&one);
    return good;
}

/* Two recordings in turn, to two buffers, and batches that are written without one. */
static bool alternates(const char *placement) {
    step one;
    memory other;
    begin_step(&one, placement, "epochs 0");
    const ff_slot first = ff_loader_first_slot(one.wanted, 0);
    take_memory(&other, &first, false);
    ff_recording *second = record(&one, &other);
    bool good = true;
    for (int i = 0; i < EPOCH && good; i++) {
        good = steps(&one, 1);
        must(begin(&one), "begin");
        launch(second);
        must(end(&one), "end");
        good = good && is_next(&one, &other);
        must(enqueue(one.loader, &other, &one.info), "enqueue");
        good = good && is_next(&one, &other);
    }
    wait_for(stream);
    device->table->recording_destroy(device, second);
    end_step(&one);
    free_memory(&other);
    return good;
}

/* The end of a loader waits for a batch that was begun and never ended. */
static bool waits_for_begun(const char *placement) {
    bool good = true;
    for (int i = 0; i < 10; i++) {
        step one;
        ff_slot *slot;
        begin_step(&one, placement, "");
        must((int)ff_loader_acquire(one.wanted, &slot, NULL), "acquire");
        must(begin(&one), "begin");
        launch(one.recording);
        ffload_loader_destroy(&one.loader);
        good = good && same(&one.to, slot);
        ff_loader_release(one.wanted, slot, NULL);
        end_step(&one);
    }
    return good;
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refusals(void) {
    step one;
    ff_recording *recording;
    begin_step(&one, "stream", "");
    must(begin(&one), "begin");
    must(end(&one), "end");
    result(end(&one) == FFLOAD_USAGE && tells("none was begun"), "an end without a begin");
    result(write_to(&one, &one.to) == FFLOAD_USAGE && tells("none was begun"),
           "a write without a begin");
    must((int)device->table->capture_begin(device, stream, NULL), "capture_begin");
    result(begin(&one) == FFLOAD_USAGE && tells("in a capture") && !one.info, "begin in a capture");
    result(enqueue(one.loader, &one.to, &one.info) == FFLOAD_USAGE && tells("in a capture"),
           "enqueue_into in a capture");
    must((int)device->table->capture_end(device, stream, &recording, NULL), "capture_end");
    device->table->recording_destroy(device, recording);
    must(begin(&one), "begin");
    must((int)device->table->capture_begin(device, stream, NULL), "capture_begin");
    result(end(&one) == FFLOAD_USAGE && tells("in a capture"), "end in a capture");
    one.to.shape[1][0]--;
    result(write_to(&one, &one.to) == FFLOAD_USAGE && tells("labels"),
           "a tensor that does not fit, in a capture");
    one.to.shape[1][0]++;
    must((int)device->table->capture_end(device, stream, &recording, NULL), "capture_end");
    device->table->recording_destroy(device, recording);
    wanted_from(&one, 0, BATCH);
    result(steps(&one, 3), "and what was refused has cost no batch");
    end_step(&one);
    one.loader = load("batch_size 16 device cpu");
    result(begin(&one) == FFLOAD_USAGE && tells("on the CPU") &&
               write_to(&one, &one.to) == FFLOAD_USAGE && end(&one) == FFLOAD_USAGE,
           "on the CPU there is not one of these");
    ffload_loader_destroy(&one.loader);
}

int main(void) {
    static const char *const placements[] = {"resident", "stream", "host"};
    static const struct {
        bool (*good)(const char *placement);
        const char *name;
    } cases[] = {{runs_ahead, "all steps of two epochs"},
                 {repeats, "launched twice, or not at all"},
                 {seeks, "seeks"},
                 {alternates, "two recordings and none in turn"},
                 {waits_for_begun, "the loader ends while a batch is begun"}};
    if (!open_all()) return 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 3; k++) {
            char name[128];
            snprintf(name, sizeof name, "%s, placement %s", cases[i].name, placements[k]);
            result(cases[i].good(placements[k]), name);
        }
    refusals();
    return close_all();
}
