/* Each wait of the ring is needed: with all of them an asynchronous device gives the host's
 * batches, and with any one removed values are wrong or ThreadSanitizer reports a race. For the
 * loader's own slots, and for batches made on the device from slots of samples as stored.
 *
 * Each case runs in its own process, because a race ends it under ThreadSanitizer. */
#include "loader/gpu/batches.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/loader_plain.h"
#include "tests/unit/check.h"
#include "tests/unit/packed_set.h"

#include <sys/wait.h>

enum { SLOTS = 3, BATCHES = 24, BATCH = 16, SEEDS = 40, WRONG = 3, FAILED = 4, RACE = 66 };

/* Which wait is removed. */
typedef enum dropped {
    DROP_NOTHING,
    DROP_COPIED,   /* threads wait until the pinned half was copied before they write to it */
    DROP_CONSUMED, /* the copy waits until the device half was read before it overwrites it */
    DROP_READY,    /* the consumer waits for the copy before it reads the device half */
} dropped;

static dropped drop;

/* Who reads the slots, and whether their memory is also the device's. */
typedef enum reader { SLOTS_COPIED, BATCHES_COPIED, SLOTS_UNIFIED, READERS } reader;
static const char *const readers[READERS] = {"slots", "batches", "slots of a unified device"};

static ff_stream *consumer; /* the others are the loader's */
static const ff_device_table *host;

static ff_status event_synchronize(ff_device *device, ff_event *event, ff_error *error) {
    return drop == DROP_COPIED ? FF_OK : host->event_synchronize(device, event, error);
}

static ff_status stream_wait(ff_device *device, ff_stream *stream, ff_event *event,
                             ff_error *error) {
    if (drop == (stream == consumer ? DROP_READY : DROP_CONSUMED)) return FF_OK;
    return host->stream_wait(device, stream, event, error);
}

typedef struct reading {
    const uint16_t *values; /* [rows][5][5] of f16 as stored */
    const int32_t *label;
    uint64_t sample[BATCH];
    const ff_augment_params *params; /* [rows] of the kernels' batches */
    const set_spec *set;
    uint64_t wrong;
} reading;

/* In the consumer's stream: a sample's values and its label follow from its number. */
static void read_slot(void *context) {
    reading *job = context;
    uint16_t wanted[25];
    for (int row = 0; row < BATCH; row++) {
        set_tensor(job->set, job->sample[row], wanted);
        for (int i = 0; i < 25; i++) job->wrong += job->values[row * 25 + i] != wanted[i];
        job->wrong += job->label[row] != set_class(job->set, job->sample[row]);
    }
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != FF_OK) exit(FAILED);                                                         \
    } while (0)

static ff_loader_options options_of(ff_device *device, uint64_t seed) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH, options.slots = SLOTS, options.threads = 2, options.dtype = FF_F16;
    options.seed = seed, options.device = device, options.feed.cyclic = seed % 2;
    return options;
}

static reading jobs[BATCHES];

/* Reads in the consumer's stream what the loader's slots hold. */
static void run_slots(const set_spec *set, ff_dataset *dataset, ff_device *device, uint64_t seed) {
    const ff_device_table *table = device->table;
    ff_loader *loader;
    ff_event *consumed[SLOTS];
    for (int i = 0; i < SLOTS; i++) TRY(table->event_create(device, &consumed[i], false, NULL));
    ff_loader_options options = options_of(device, seed);
    TRY(ff_loader_create(&loader, dataset, &options, NULL));
    for (int step = 0; step < BATCHES; step++) {
        ff_slot *slot;
        TRY(ff_loader_acquire(loader, &slot, NULL));
        if (!table->unified) TRY(table->stream_wait(device, consumer, slot->ready, NULL));
        jobs[step] = (reading){.values = slot->data, .label = slot->label[0].values, .set = set};
        for (int row = 0; row < BATCH; row++) jobs[step].sample[row] = slot->source[row].sample[0];
        TRY(table->call(device, consumer, read_slot, &jobs[step], NULL));
        TRY(table->event_record(device, consumed[slot->index], consumer, NULL));
        ff_loader_release(loader, slot, consumed[slot->index]);
    }
    TRY(table->stream_synchronize(device, consumer, NULL));
    ff_loader_destroy(&loader);
    for (int i = 0; i < SLOTS; i++) table->event_destroy(device, consumed[i]);
}

/* In the consumer's stream, after the kernels, whose parameters name the samples. */
static void read_batch(void *context) {
    reading *job = context;
    for (int row = 0; row < BATCH; row++) job->sample[row] = job->params[row].sample;
    read_slot(job);
}

/* The same for batches that kernels make, by a recording, from the loader's slots. */
static void run_batches(const set_spec *set, ff_dataset *dataset, ff_device *device,
                        uint64_t seed) {
    const ff_device_table *table = device->table;
    ff_batches *batches;
    ff_recording *recording;
    ff_batches_options options = {.loader = options_of(device, seed),
                                  .kernels = &ff_loader_plain_kernels,
                                  .placement = FF_PLACEMENT_STREAM};
    TRY(ff_batches_create(&batches, dataset, &options, NULL));
    const ff_batch_buffers *buffers = ff_batches_buffers(batches);
    TRY(table->capture_begin(device, consumer, NULL));
    TRY(ff_batches_enqueue(batches, consumer, NULL));
    TRY(table->capture_end(device, consumer, &recording, NULL));
    for (int step = 0; step < BATCHES; step++) {
        const ff_batch_info *batch;
        TRY(ff_batches_prepare(batches, consumer, &batch, NULL));
        TRY(table->recording_launch(device, recording, consumer, NULL));
        jobs[step] = (reading){.values = buffers->data,
                               .label = buffers->label[0].values,
                               .params = buffers->params,
                               .set = set};
        TRY(table->call(device, consumer, read_batch, &jobs[step], NULL));
        TRY(ff_batches_finish(batches, consumer, NULL));
    }
    TRY(table->stream_synchronize(device, consumer, NULL));
    ff_batches_destroy(&batches);
    table->recording_destroy(device, recording);
}

static uint64_t run(const set_spec *set, ff_dataset *dataset, uint64_t seed, reader who) {
    ff_device *device;
    TRY(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 400000, seed, NULL));
    host = device->table;
    ff_device_table table = *host;
    table.event_synchronize = event_synchronize;
    table.stream_wait = stream_wait;
    table.unified = who == SLOTS_UNIFIED;
    device->table = &table;
    TRY(table.stream_create(device, &consumer, NULL));
    if (who == BATCHES_COPIED)
        run_batches(set, dataset, device, seed);
    else
        run_slots(set, dataset, device, seed);
    uint64_t wrong = 0;
    for (int step = 0; step < BATCHES; step++) wrong += jobs[step].wrong;
    table.stream_destroy(device, consumer);
    ff_device_destroy(&device);
    return wrong;
}

/* The exit status of a process that runs through all seeds or until something is wrong. */
static int run_process(set_spec *set, dropped which, reader who) {
    pid_t child = fork();
    if (child == 0) {
        ff_dataset *dataset;
        drop = which;
        if (which != DROP_NOTHING && !freopen("/dev/null", "w", stderr)) exit(FAILED);
        TRY(ff_dataset_open(&dataset, set->folder, FF_VERIFY_FIRST, NULL));
        int seeds = which == DROP_NOTHING ? SEEDS / 4 : SEEDS;
        uint64_t wrong = 0;
        for (int seed = 0; seed < seeds && !wrong; seed++) wrong = run(set, dataset, seed, who);
        ff_dataset_close(&dataset);
        exit(wrong ? WRONG : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void each_wait(void **state) {
    (void)state;
    set_spec set = plain_set(400);
    set.channels = 1, set.height = set.width = 5, set.no_statistics = true;
    assert_ok(set_make(&set, error));
    for (int who = 0; who < READERS; who++) {
        assert_int_equal(run_process(&set, DROP_NOTHING, (reader)who), 0);
        /* Without a copy there is one wait: the threads wait for the consumer. */
        const dropped last = who == SLOTS_UNIFIED ? DROP_COPIED : DROP_READY;
        for (int which = DROP_COPIED; which <= (int)last; which++) {
            int found = run_process(&set, (dropped)which, (reader)who);
            if (found != WRONG && found != RACE)
                fail_msg("wait %d of %s was taken out, and the process ended with %d", which,
                         readers[who], found);
        }
    }
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
