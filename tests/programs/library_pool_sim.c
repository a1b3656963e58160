/* libffload's batches in its own memory on a GPU equal those of ff_loader on the host, as long as
 * they are kept, even if enqueued work still reads them when they are released. Prints TAP.
 *   library_pool_sim [few]     few: on a simulated GPU with little memory */
#include "tests/programs/library_sim.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 16, EPOCH = 10, KEPT_MOST = 64, STREAMS = 6 };

static ff_stream *others[STREAMS]; /* of consumers */

static ffload_batch *next_on(ffload_loader *loader) {
    ffload_batch *batch;
    must(ffload_loader_next_on(loader, native(stream), &batch, &failure), "next_on");
    return batch;
}

static const DLTensor *tensor_of(const ffload_batch *batch, const char *name) {
    const DLTensor *tensor;
    must(ffload_batch_tensor(batch, name, &tensor, &failure), name);
    return tensor;
}

static ff_slot *next_slot(ff_loader *wanted) {
    ff_slot *slot;
    must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
    return slot;
}

static uint64_t blocks_of(ffload_loader *loader) {
    ffload_stats stats;
    must(ffload_loader_stats(loader, &stats, &failure), "stats");
    return stats.blocks;
}

static bool same_batch(const ffload_batch *batch, const ff_slot *slot) {
    const ffload_batch_info *info = ffload_batch_info_of(batch);
    const DLTensor *tensor[TENSORS] = {NULL};
    ff_slot shown = *slot;
    bool good = info->index == slot->batch && info->epoch == slot->epoch &&
                info->count == slot->count && info->rows == slot->rows;
    for (int i = 0; i < (slot->mix ? TENSORS : UNMIXED); i++) {
        tensor[i] = tensor_of(batch, names[i]);
        good = good && tensor[i]->device.device_type == kDLCUDA &&
               tensor[i]->device.device_id == card && tensor[i]->shape[0] == slot->count &&
               (uintptr_t)tensor[i]->data % 64 == 0;
    }
    shown.rows = slot->count; /* the tensors have no rows that only pad */
    return good && same_tensors(tensor, &shown);
}

/* ---- kept ----------------------------------------------------------------------------------- */

/* All batches of two epochs are enqueued and kept, also after the loader. */
static bool all_kept(const char *placement, const char *augment, bool chw) {
    char words[256];
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    ffload_batch *kept[KEPT_MOST];
    int given = 0;
    options.batch = BATCH, options.epochs = 2, options.last_batch = FF_LAST_BATCH_KEEP;
    options.layout = chw ? FF_CHW : FF_HWC;
    must((int)ff_augment_parse(&options.augment, augment, NULL), "augment");
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    snprintf(words, sizeof words,
             "batch_size %d epochs 2 last_batch keep placement %s augment %s layout %s", BATCH,
             placement, augment, chw ? "contiguous" : "channels_last");
    ffload_loader *loader = load(words);
    while (given < KEPT_MOST && (kept[given] = next_on(loader)) != NULL) given++;
    bool good = given == 2 * EPOCH && blocks_of(loader) == (uint64_t)given;
    ffload_loader_destroy(&loader);
    wait_for(stream);
    for (int i = 0; i < given; i++) {
        ff_slot *slot = next_slot(wanted);
        good = good && same_batch(kept[i], slot);
        ff_loader_release(wanted, slot, NULL);
        ffload_batch_release(&kept[i]);
    }
    ff_loader_destroy(&wanted);
    return good;
}

static void *delete_it(void *context) {
    DLManagedTensorVersioned *tensor = context;
    tensor->deleter(tensor);
    return NULL;
}

/* The tensor alone keeps the batch, and ends it in another thread, after the loader. */
static bool exported(void) {
    ffload_loader *loader = load("batch_size 16 placement resident");
    ff_loader *wanted = host_loader(BATCH, FF_CHW, 0, 0, 1);
    ff_slot *slot = next_slot(wanted);
    ffload_batch *batch = next_on(loader), *later = NULL;
    DLManagedTensorVersioned *images;
    pthread_t thread;
    must(ffload_batch_export(batch, "images", &images, &failure), "export");
    ffload_batch_release(&batch);
    for (int i = 0; i < 4; i++) {
        later = next_on(loader);
        ffload_batch_release(&later);
    }
    ffload_loader_destroy(&loader);
    wait_for(stream);
    const bool good = images->dl_tensor.device.device_type == kDLCUDA &&
                      is_there(&images->dl_tensor, slot->data, slot->rows * slot->row_bytes);
    if (pthread_create(&thread, NULL, delete_it, images) != 0) return false;
    pthread_join(thread, NULL);
    ff_loader_release(wanted, slot, NULL);
    ff_loader_destroy(&wanted);
    return good;
}

/* ---- released ------------------------------------------------------------------------------- */

/* Each batch is released as soon as its readers, copies, are enqueued: in the loader's stream, or
 * in all the others. None is allocated later on, and every copy is of its own batch. */
static bool read_later(bool in_others, int steps) {
    ffload_loader *loader = load("batch_size 16 placement resident epochs 0");
    ff_loader *wanted = host_loader(BATCH, FF_CHW, 0, 0, 0);
    ff_slot *slot = next_slot(wanted);
    const uint64_t bytes = slot->rows * slot->row_bytes;
    uint8_t *read = allocate(STREAMS * bytes * (uint64_t)steps);
    bool good = true;
    for (int i = 0; i < steps; i++) {
        ffload_batch *batch = next_on(loader);
        for (int k = 0; k < STREAMS; k++) {
            ff_stream *reader = in_others ? others[(i + k) % STREAMS] : stream;
            must(ffload_batch_use_on(batch, native(reader), &failure), "use_on");
            must((int)device->table->copy(device, reader, read + (size_t)(STREAMS * i + k) * bytes,
                                          tensor_of(batch, "images")->data, bytes, NULL),
                 "copy");
        }
        ffload_batch_release(&batch);
    }
    good = blocks_of(loader) == 1;
    for (int i = 0; i < STREAMS; i++) wait_for(others[i]);
    wait_for(stream);
    for (int i = 0; i < steps; i++) {
        for (int k = 0; k < STREAMS; k++) {
            const DLTensor copy = {.data = read + (size_t)(STREAMS * i + k) * bytes};
            good = good && is_there(&copy, slot->data, bytes);
        }
        ff_loader_release(wanted, slot, NULL);
        slot = next_slot(wanted);
    }
    ff_loader_release(wanted, slot, NULL);
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    device->table->release(device, read);
    return good;
}

/* A loop that keeps the last two allocates three; the streams of its calls may be others. */
static bool few_blocks(void) {
    ffload_loader *loader = load("batch_size 16 placement stream epochs 0");
    ffload_batch *last[3] = {NULL};
    for (int i = 0; i < 50; i++) {
        ff_stream *in = others[i / 7 % STREAMS];
        wait_for(i ? others[(i - 1) / 7 % STREAMS] : in); /* calls in several streams are ordered */
        must(ffload_loader_next_on(loader, native(in), &last[i % 3], &failure), "next_on");
        ffload_batch_release(&last[(i + 1) % 3]);
    }
    const bool good = blocks_of(loader) == 3;
    ffload_loader_destroy(&loader);
    for (int i = 0; i < 3; i++) ffload_batch_release(&last[i]);
    return good;
}

/* A stream in a capture cannot be waited for: the block that it reads is not used again until
 * later. */
static bool captured(void) {
    ffload_loader *loader = load("batch_size 16 placement resident epochs 0");
    ffload_batch *batch = next_on(loader), *refused;
    ff_recording *recording;
    must(ffload_batch_use_on(batch, native(others[0]), &failure), "use_on");
    must((int)device->table->capture_begin(device, others[0], NULL), "capture_begin");
    bool good = ffload_batch_use_on(batch, native(others[0]), &failure) == FFLOAD_OK; /* it does */
    ffload_batch_release(&batch);
    batch = next_on(loader);
    good = good && blocks_of(loader) == 2;
    good = good && ffload_batch_use_on(batch, native(others[0]), &failure) == FFLOAD_USAGE &&
           tells("in a capture");
    good = good &&
           ffload_loader_next_on(loader, native(others[0]), &refused, &failure) == FFLOAD_USAGE &&
           !refused && tells("in a capture");
    ffload_batch_release(&batch);
    must((int)device->table->capture_end(device, others[0], &recording, NULL), "capture_end");
    device->table->recording_destroy(device, recording);
    batch = next_on(loader);
    good = good && blocks_of(loader) == 2 && ffload_batch_info_of(batch)->index == 2;
    ffload_batch_release(&batch);
    ffload_loader_destroy(&loader);
    return good;
}

/* ---- other places --------------------------------------------------------------------------- */

/* A child may only end inherited objects. */
static bool forked(void) {
    ffload_loader *loader = load("batch_size 16 placement resident");
    ffload_batch *batch = next_on(loader);
    int status = 1;
    wait_for(stream);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        bool good = ffload_batch_use_on(batch, NULL, &failure) == FFLOAD_USAGE && tells("forked");
        ffload_batch_release(&batch);
        ffload_loader_destroy(&loader);
        _exit(good ? 0 : 1);
    }
    waitpid(child, &status, 0);
    ffload_batch_release(&batch);
    batch = next_on(loader);
    const bool good = status == 0 && ffload_batch_info_of(batch)->index == 1;
    ffload_batch_release(&batch);
    ffload_loader_destroy(&loader);
    return good;
}

static bool on_the_cpu(void) {
    ffload_loader *loader = load("batch_size 16 device cpu");
    ffload_batch *batch;
    bool good = ffload_loader_next_on(loader, NULL, &batch, &failure) == FFLOAD_USAGE && !batch &&
                tells("on the CPU");
    must(ffload_loader_next(loader, &batch, &failure), "next");
    good = good && ffload_batch_use_on(batch, NULL, &failure) == FFLOAD_OK;
    ffload_batch_release(&batch);
    ffload_loader_destroy(&loader);
    return good;
}

/* If there is no memory for a batch, it is not lost: it comes once another one is released. */
static bool no_memory(void) {
    ffload_loader *loader = load("batch_size 16 placement stream epochs 0 workers 1");
    ff_loader *wanted = host_loader(BATCH, FF_CHW, 0, 0, 0);
    ffload_batch *kept[KEPT_MOST] = {NULL};
    int given = 0, status = FFLOAD_OK;
    while (given < KEPT_MOST && status == FFLOAD_OK) {
        status = ffload_loader_next_on(loader, native(stream), &kept[given], &failure);
        given += status == FFLOAD_OK;
    }
    bool good = status == FFLOAD_NO_MEMORY && given > 1 && given < KEPT_MOST && tells("a batch");
    ffload_batch_release(&kept[0]);
    kept[0] = next_on(loader);
    wait_for(stream);
    for (int i = 0; i <= given; i++) {
        ff_slot *slot = next_slot(wanted);
        if (i) good = good && same_batch(kept[i % given], slot);
        ff_loader_release(wanted, slot, NULL);
    }
    for (int i = 0; i < given; i++) ffload_batch_release(&kept[i]);
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    return good;
}

static void all_cases(void) {
    static const char *const placements[] = {"resident", "stream", "host"};
    for (int k = 0; k < 3; k++) {
        char name[128];
        snprintf(name, sizeof name, "all are kept, placement %s", placements[k]);
        result(all_kept(placements[k], "crop=2,flip", false) &&
                   all_kept(placements[k], "mixup,flip", true),
               name);
    }
    result(exported(), "a tensor that is exported keeps its batch");
    result(read_later(false, 40), "released while it is to be read in the same stream");
    result(read_later(true, 40), "released while it is to be read in others");
    result(few_blocks(), "a loop that keeps two allocates three");
    result(captured(), "streams in captures");
    result(forked(), "a child ends what it has");
    result(on_the_cpu(), "on the CPU");
}

int main(int argc, char **argv) {
    const bool few = argc > 1 && !strcmp(argv[1], "few");
    if (few) setenv("FF_SIM_MEMORY", "400", 1);
    if (!open_all()) return 0;
    for (int i = 0; i < STREAMS; i++)
        must((int)device->table->stream_create(device, &others[i], NULL), "stream");
    if (few)
        result(no_memory(), "without memory no batch is lost");
    else
        all_cases();
    for (int i = 0; i < STREAMS; i++) device->table->stream_destroy(device, others[i]);
    return close_all();
}
