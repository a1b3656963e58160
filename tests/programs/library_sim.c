/* libffload on a GPU: batches that it enqueues into a consumer's memory equal those of ff_loader on
 * the host. Prints TAP.
 */
#include "tests/programs/library_sim.h"

enum { BATCHES_MOST = 64 };

/* The same for both. */
typedef struct options_case {
    const char *words; /* "name value name value ..." */
    const char *augment;
    uint64_t batch;
    ff_dtype dtype;
    ff_layout layout;
    ff_last_batch last;
    uint32_t rank, world;
} options_case;

static int refused(const char *words, const char *part) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    const int status = ffload_loader_create(&loader, set, options, &failure);
    ffload_options_destroy(&options);
    return status == FFLOAD_USAGE && !loader && strstr(failure.message, part);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* All batches are enqueued, each into separate memory, before one is checked. */
static bool same_batches(const options_case *one, const char *placement) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    ff_slot *slot;
    memory kept[BATCHES_MOST];
    const ffload_batch_info *info;
    char words[512];
    int given = 0;
    bool good = true;
    options.batch = one->batch, options.dtype = one->dtype, options.layout = one->layout;
    options.epochs = 2, options.last_batch = one->last;
    options.share_begin = one->rank, options.share_end = one->rank + 1;
    options.share_total = one->world;
    must((int)ff_augment_parse(&options.augment, one->augment, NULL), "augment");
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    snprintf(words, sizeof words, "%s augment %s placement %s epochs 2", one->words, one->augment,
             placement);
    ffload_loader *loader = load(words);
    const ff_slot first = ff_loader_first_slot(wanted, 0);
    for (; given < BATCHES_MOST; given++) {
        take_memory(&kept[given], &first, strstr(one->words, "i64") != NULL);
        must(enqueue(loader, &kept[given], &info), words);
        if (!info) break;
    }
    wait_for(stream);
    for (int i = 0; i <= given && good; i++) {
        must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
        good = (i < given) == (slot != NULL) && (!slot || same(&kept[i], slot));
        if (slot) ff_loader_release(wanted, slot, NULL);
    }
    for (int i = 0; i <= given; i++) free_memory(&kept[i]);
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    return good && given > 2;
}

static void all_batches(void) {
    static const options_case cases[] = {
        {"batch_size 16 layout channels_last", "crop=2,flip", 16, FF_F32, FF_HWC,
         FF_LAST_BATCH_DROP, 0, 1},
        {"batch_size 16", "crop=2,flip", 16, FF_F32, FF_CHW, FF_LAST_BATCH_DROP, 0, 1},
        {"batch_size 16 dtype f16 last_batch pad layout channels_last", "mixup,flip", 16, FF_F16,
         FF_HWC, FF_LAST_BATCH_KEEP, 0, 1},
        {"batch_size 16 label_dtype i64 dtype bf16 last_batch pad", "flip", 16, FF_BF16, FF_CHW,
         FF_LAST_BATCH_KEEP, 0, 1},
        {"batch_size 16 label_dtype i64 last_batch pad", "mixup", 16, FF_F32, FF_CHW,
         FF_LAST_BATCH_KEEP, 0, 1},
        {"batch_size 20 rank 1 world 3 last_batch keep layout channels_last", "rrc=6,flip", 20,
         FF_F32, FF_HWC, FF_LAST_BATCH_KEEP, 1, 3},
        {"batch_size 16 dtype u8 last_batch pad", "rrc=7,flip", 16, FF_U8, FF_CHW,
         FF_LAST_BATCH_KEEP, 0, 1},
        {"batch_size 16 dtype u8 layout channels_last", "crop=2,flip", 16, FF_U8, FF_HWC,
         FF_LAST_BATCH_DROP, 0, 1}};
    static const char *const placements[] = {"auto", "resident", "stream", "host"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 4; k++) {
            char name[256];
            snprintf(name, sizeof name, "%s, %s, placement %s", cases[i].words, cases[i].augment,
                     placements[k]);
            result(same_batches(&cases[i], placements[k]), name);
        }
}

/* Batches go to two streams by turns, which nothing else orders. */
static bool by_turns(const char *placement) {
    ff_loader *wanted = host_loader(16, FF_CHW, 0, 0, 0);
    ff_stream *const first = stream;
    ff_stream *second;
    memory kept[BATCHES_MOST];
    const ffload_batch_info *info;
    char words[128];
    bool good = true;
    must((int)device->table->stream_create(device, &second, NULL), "stream");
    snprintf(words, sizeof words, "batch_size 16 epochs 0 placement %s", placement);
    ffload_loader *loader = load(words);
    ff_slot *slot;
    must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
    for (int i = 0; i < BATCHES_MOST; i++) take_memory(&kept[i], slot, false);
    for (int i = 0; i < BATCHES_MOST; i++) {
        stream = i % 2 ? second : first;
        must(enqueue(loader, &kept[i], &info), words);
    }
    stream = first;
    wait_for(first);
    wait_for(second);
    for (int i = 0; i < BATCHES_MOST; i++) {
        if (i) must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
        good = good && same(&kept[i], slot);
        ff_loader_release(wanted, slot, NULL);
        free_memory(&kept[i]);
    }
    device->table->stream_destroy(device, second);
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    return good;
}

/* ---- where it is, and what it refuses ------------------------------------------------------- */

static bool seeks(const char *placement) {
    ff_loader *wanted = host_loader(16, FF_CHW, 1, 32, 0);
    ff_slot *slot;
    memory found;
    const ffload_batch_info *info;
    char words[128];
    const char *state;
    must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
    take_memory(&found, slot, false);
    snprintf(words, sizeof words, "batch_size 16 epochs 0 placement %s", placement);
    ffload_loader *loader = load(words);
    must(enqueue(loader, &found, &info), "first");
    must(ffload_loader_seek(loader, 1, 32, &failure), "seek");
    must(enqueue(loader, &found, &info), "second");
    bool good = info->epoch == 1 && info->position == 32 && info->index == 2;
    wait_for(stream);
    good = good && same(&found, slot);
    must(ffload_loader_state(loader, &state, &failure), "state");
    good = good && strstr(state, "\"position\": 48");
    good = good && ffload_loader_seek(loader, 0, 100000, &failure) == FFLOAD_USAGE;
    must(enqueue(loader, &found, &info), "after a seek that was refused");
    good = good && info->position == 48;
    ffload_loader_interrupt(loader);
    good = good && enqueue(loader, &found, &info) == FFLOAD_INTERRUPTED && !info;
    must(enqueue(loader, &found, &info), "after an interruption");
    good = good && info->position == 64;
    ff_loader_release(wanted, slot, NULL);
    ff_loader_destroy(&wanted);
    ffload_loader_destroy(&loader);
    free_memory(&found);
    return good;
}

static int asked;

static int end_it(void *context) {
    (void)context;
    return ++asked > 0;
}

/* A check ends the upload of a resident set; without an upload it is not called. */
static bool stopped(const char *placement) {
    char words[128];
    ffload_loader *loader;
    snprintf(words, sizeof words, "batch_size 16 placement %s", placement);
    ffload_options *options = options_from(words);
    asked = 0;
    must(ffload_options_set_check(options, end_it, NULL, &failure), "check");
    const int status = ffload_loader_create(&loader, set, options, &failure);
    ffload_options_destroy(&options);
    ffload_loader_destroy(&loader);
    return status == FFLOAD_INTERRUPTED && asked == 1;
}

static void refusals(void) {
    ff_loader *wanted = host_loader(16, FF_HWC, 0, 0, 0);
    memory to;
    const ffload_batch_info *info;
    ffload_batch *batch;
    const char *text;
    const ff_slot first = ff_loader_first_slot(wanted, 0);
    take_memory(&to, &first, false);
    ffload_loader *loader = load("batch_size 16 placement resident layout channels_last");
    result(ffload_loader_next(loader, &batch, &failure) == FFLOAD_USAGE && tells("enqueue_into"),
           "it gives no batches on the host");
    to.tensors = 5;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("no tensor 'mix'") && !info,
           "a tensor that there is not");
    to.tensors = UNMIXED;
    to.tensor[0].byte_offset = 2;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("not aligned"), "an odd address");
    to.tensor[0].byte_offset = 0;
    to.tensor[0].device.device_id = card + 1;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("not in the memory of cuda:"),
           "another device");
    to.tensor[0].device.device_id = card;
    to.strides[0][1] = 2;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("shape and strides"), "strides");
    to.tensor[0].strides = NULL;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("shape and strides"),
           "no strides, which are those of another layout");
    to.tensor[0].strides = to.strides[0];
    to.strides[0][1] = 1;
    to.tensor[0].shape = NULL;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("shape and strides"), "no shape");
    to.tensor[0].shape = to.shape[0];
    to.pointer[1] = NULL;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("to[1] is NULL"), "no tensor");
    to.pointer[1] = &to.tensor[1];
    const char *const unnamed[] = {names[0], NULL};
    result(ffload_loader_enqueue_into(loader, unnamed, to.pointer, 2, native(stream), &info,
                                      &failure) == FFLOAD_USAGE &&
               tells("names[1] is NULL"),
           "no name");
    to.shape[1][0] = 15;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("labels"), "too few rows");
    to.shape[1][0] = 16;
    to.tensor[2].dtype.code = kDLInt;
    result(enqueue(loader, &to, &info) == FFLOAD_USAGE && tells("weight is not f32"), "dtype");
    to.tensor[2].dtype.code = kDLFloat;
    must(enqueue(loader, &to, &info), "enqueue");
    result(info->index == 0, "and what was refused has cost no batch");
    must(ffload_loader_describe(loader, &text, &failure), "describe");
    result(strstr(text, card ? "\"cuda:1\"" : "\"cuda:0\"") &&
               strstr(text, "Placement: resident, as requested."),
           "it reports where it is");
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    free_memory(&to);
    result(refused("dtype u16", "u16"), "values that are not stored are refused");
}

/* Whether a call left the calling thread's current device as it was; with one GPU it cannot. */
static bool kept_device(void) {
    const bool kept = device->table->current(device) == 0;
    device->table->restore(device, 0);
    return kept;
}

static bool keeps_the_device(void) {
    const ffload_batch_info *info;
    ffload_batch *batch;
    DLManagedTensorVersioned *images;
    memory to;
    ff_loader *wanted = host_loader(16, FF_CHW, 0, 0, 0);
    const ff_slot first = ff_loader_first_slot(wanted, 0);
    take_memory(&to, &first, false);
    ffload_options *options = options_from("batch_size 16 placement stream");
    ffload_loader *loader;
    bool good = true;
    (void)kept_device();
    must(ffload_loader_create(&loader, set, options, &failure), "create");
    good = kept_device() && good;
    must(enqueue(loader, &to, &info), "enqueue_into");
    good = kept_device() && good;
    must(ffload_loader_begin(loader, native(stream), &info, &failure), "begin");
    good = kept_device() && good;
    must(ffload_loader_write(loader, names, to.pointer, to.tensors, native(stream), &failure),
         "write");
    good = kept_device() && good;
    must(ffload_loader_end(loader, native(stream), &failure), "end");
    good = kept_device() && good;
    must(ffload_loader_begin(loader, native(stream), &info, &failure), "begin");
    must(ffload_loader_seek(loader, 0, 32, &failure), "seek");
    good = kept_device() && good;
    must(ffload_loader_next_on(loader, native(stream), &batch, &failure), "next_on");
    good = kept_device() && good;
    must(ffload_batch_use_on(batch, native(copies), &failure), "use_on");
    good = kept_device() && good;
    must(ffload_batch_export(batch, "images", &images, &failure), "export");
    ffload_batch_release(&batch);
    images->deleter(images);
    good = kept_device() && good;
    ffload_loader_destroy(&loader);
    good = kept_device() && good;
    ffload_options_set(options, "placement", "host", NULL);
    good = ffload_loader_create(&loader, set, options, NULL) == FFLOAD_OK && kept_device() && good;
    ffload_loader_destroy(&loader);
    ffload_options_set(options, "dtype", "u16", NULL);
    good = ffload_loader_create(&loader, set, options, NULL) != FFLOAD_OK && kept_device() && good;
    ffload_options_destroy(&options);
    ff_loader_destroy(&wanted);
    free_memory(&to);
    return good;
}

int main(void) {
    if (!open_all()) return 0;
    all_batches();
    result(by_turns("resident"), "two streams by turns, resident");
    result(by_turns("stream"), "two streams by turns, streamed");
    result(seeks("resident"), "seeks, resident");
    result(seeks("stream"), "seeks, streamed");
    result(stopped("resident") && !stopped("stream"), "an upload is stopped by a check");
    result(keeps_the_device(), "the calling thread's current device stays");
    refusals();
    return close_all();
}
