/* Random calls of libffload on a GPU: batches in a consumer's memory, in recordings and in memory
 * of the library's, kept, read later and released, with seeks, interruptions and new loaders
 * between them. A batch's content follows from its epoch and index alone. Prints TAP.
 *   library_calls_sim [CALLS [SEED]]     default: 1500 calls, the same in every run */
#include "tests/programs/library_sim.h"
#include "tests/unit/dice.h"

enum { BATCH = 16, PER_EPOCH = SAMPLES / BATCH, EPOCHS = 3, KEPT = 6, READS = 24, STREAMS = 2 };

static dice calls;
static uint64_t image_bytes;
static uint8_t *wanted[EPOCHS * PER_EPOCH]; /* images, by epoch and index */

/* Under test: the place of the next batch according to the calls so far. */
static ffload_loader *loader;
static int at;
static bool begun, good = true;
static memory to;
static ff_recording *recording;
static ff_stream *others[STREAMS];

static struct kept {
    ffload_batch *batch;
    int number;
} kept[KEPT];

/* Enqueued copies, and the batch that each must hold. */
static struct read {
    uint8_t *copy; /* device */
    int number;
} reads[READS];
static int read_count;

static void expect(bool held, const char *what) {
    if (!held && good) printf("# %s, at %d\n", what, at);
    good = good && held;
}

static void settle(void) {
    wait_for(stream);
    for (int i = 0; i < STREAMS; i++) wait_for(others[i]);
    for (int i = 0; i < read_count; i++) {
        const DLTensor copy = {.data = reads[i].copy};
        expect(is_there(&copy, wanted[reads[i].number], image_bytes), "a batch has other images");
    }
    read_count = 0;
}

static void read_in(ff_stream *in, const void *images, int number) {
    if (read_count == READS) settle();
    struct read *one = &reads[read_count++];
    one->number = number;
    must((int)device->table->copy(device, in, one->copy, images, image_bytes, NULL), "copy");
}

/* Checks that the returned batch is the expected one. */
static void pass(const ffload_batch_info *info) {
    expect(info && (int)info->epoch == at / PER_EPOCH && (int)info->index == at % PER_EPOCH,
           "another batch came");
    begun = false;
    at++;
}

static void take(struct kept *one) {
    ffload_batch_release(&one->batch);
    must(ffload_loader_next_on(loader, native(stream), &one->batch, &failure), "next_on");
    one->number = at;
    pass(one->batch ? ffload_batch_info_of(one->batch) : NULL);
}

static void use(struct kept *one) {
    const DLTensor *images;
    ff_stream *in = roll(&calls, 2) ? stream : others[roll(&calls, STREAMS)];
    if (!one->batch) return;
    must(ffload_batch_use_on(one->batch, native(in), &failure), "use_on");
    must(ffload_batch_tensor(one->batch, "images", &images, &failure), "images");
    read_in(in, images->data, one->number);
    if (roll(&calls, 2)) ffload_batch_release(&one->batch);
}

/* Begins, maybe again; launches a recording or writes without one; and maybe ends. */
static void step(void) {
    const ffload_batch_info *info;
    for (uint32_t i = roll(&calls, 2); i < 2; i++)
        must(ffload_loader_begin(loader, native(stream), &info, &failure), "begin");
    begun = true;
    for (uint32_t i = 1 + roll(&calls, 2); i > 0; i--)
        if (roll(&calls, 2))
            must((int)device->table->recording_launch(device, recording, stream, NULL), "launch");
        else
            must(ffload_loader_write(loader, names, to.pointer, to.tensors, native(stream),
                                     &failure),
                 "write");
    read_in(stream, to.tensor[0].data, at);
    if (roll(&calls, 4) == 0) return;
    must(ffload_loader_end(loader, native(stream), &failure), "end");
    pass(info);
}

static void whole(void) {
    const ffload_batch_info *info;
    must(enqueue(loader, &to, &info), "enqueue_into");
    read_in(stream, to.tensor[0].data, at);
    pass(info);
}

static void seek(void) {
    at = (int)roll(&calls, EPOCHS * PER_EPOCH);
    must(ffload_loader_seek(loader, (uint32_t)(at / PER_EPOCH),
                            (uint64_t)BATCH * (unsigned)(at % PER_EPOCH), &failure),
         "seek");
    begun = false;
}

static void interrupt(void) {
    ffload_batch *batch;
    ffload_loader_interrupt(loader);
    expect(ffload_loader_next_on(loader, native(stream), &batch, &failure) == FFLOAD_INTERRUPTED &&
               !batch,
           "no interruption");
}

static void end_wrongly(void) {
    if (begun) return;
    expect(ffload_loader_end(loader, native(stream), &failure) == FFLOAD_USAGE, "an end too many");
}

/* Makes another loader; the old loader's batches stay. */
static void renew(void) {
    static const char *const placements[] = {"resident", "stream", "host"};
    char words[128];
    if (recording) wait_for(stream);
    device->table->recording_destroy(device, recording);
    ffload_loader_destroy(&loader);
    snprintf(words, sizeof words, "batch_size %d epochs 0 placement %s", BATCH,
             placements[roll(&calls, 3)]);
    loader = load(words);
    must((int)device->table->capture_begin(device, stream, NULL), "capture_begin");
    must(ffload_loader_write(loader, names, to.pointer, to.tensors, native(stream), &failure),
         "write in a capture");
    must((int)device->table->capture_end(device, stream, &recording, NULL), "capture_end");
    at = 0;
    begun = false;
}

static void call(void) {
    if (at == EPOCHS * PER_EPOCH) seek();
    switch (roll(&calls, 32)) {
    case 0: renew(); break;
    case 1: settle(); break;
    case 2: interrupt(); break;
    case 3: end_wrongly(); break;
    case 4:
    case 5: seek(); break;
    default:
        switch (roll(&calls, 4)) {
        case 0: take(&kept[roll(&calls, KEPT)]); break;
        case 1: use(&kept[roll(&calls, KEPT)]); break;
        case 2: step(); break;
        default: whole();
        }
    }
}

static void fill_wanted(void) {
    ff_loader *host = host_loader(BATCH, FF_CHW, 0, 0, EPOCHS);
    ff_slot *slot;
    for (int i = 0; i < EPOCHS * PER_EPOCH; i++) {
        must((int)ff_loader_acquire(host, &slot, NULL), "acquire");
        image_bytes = slot->rows * slot->row_bytes;
        wanted[i] = malloc(image_bytes);
        memcpy(wanted[i], slot->data, image_bytes);
        if (i == 0) take_memory(&to, slot, false);
        ff_loader_release(host, slot, NULL);
    }
    ff_loader_destroy(&host);
    for (int i = 0; i < READS; i++) reads[i].copy = allocate(image_bytes);
    for (int i = 0; i < STREAMS; i++)
        must((int)device->table->stream_create(device, &others[i], NULL), "stream");
}

int main(int argc, char **argv) {
    const int many = argc > 1 ? atoi(argv[1]) : 1500;
    calls.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (!open_all()) return 0;
    fill_wanted();
    renew();
    for (int i = 0; i < many && good; i++) call();
    settle();
    ffload_loader_destroy(&loader);
    for (int i = 0; i < KEPT; i++) ffload_batch_release(&kept[i].batch);
    device->table->recording_destroy(device, recording);
    for (int i = 0; i < STREAMS; i++) device->table->stream_destroy(device, others[i]);
    for (int i = 0; i < READS; i++) device->table->release(device, reads[i].copy);
    for (int i = 0; i < EPOCHS * PER_EPOCH; i++) free(wanted[i]);
    free_memory(&to);
    result(good, "every batch is what its place says, whatever was called before");
    return close_all();
}
