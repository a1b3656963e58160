/* The simulated CUDA module with the module's own cuDNN and cuBLAS code up to the launches. Two
 * more variables: FF_LAUNCHES_GPU is the file that describes the GPU for cuDNN (an H100 without
 * it); with FF_LAUNCHES=record all results are zeros. FF_LAUNCHES=plan goes with --dry-run
 * --device-json: each planned convolution is executed once, and once in a capture, and writes
 * nothing. At exit the program prints what was executed and which rules were broken. */
#include "loader/cuda/module.h"

static ff_status sim_module_open(ff_cuda_module **module, int ordinal, ff_error *error);
static const ff_cuda_table *sim_module_table(const ff_cuda_module *module);
#define ff_cuda_module_open  sim_module_open
#define ff_cuda_module_table sim_module_table
#include "tests/cuda/sim/module/module.c"
#undef ff_cuda_module_open
#undef ff_cuda_module_table

#include "tests/cuda/launches/launches.h"
#include "train/compute/cuda/cudnn/library.h"

static ff_library_table library;

/* ---- each convolution by itself ---- */

typedef struct turn {
    ff_device *device;
    ff_library *library;
    ff_stream *stream;
    ff_library_conv *conv;
    ff_library_conv_arguments arguments;
    void *blocks[24], *workspace;
    int count;
} turn;

static ff_status take(turn *t, void *argument, size_t bytes, ff_error *error) {
    void *memory;
    FF_TRY(host_table->allocate(t->device, &memory, bytes, "a tensor", error));
    t->blocks[t->count++] = memory;
    memcpy(argument, &memory, sizeof memory);
    return FF_OK;
}

/* All arguments that a spec may have; those of channels have 4 bytes for each. */
static ff_status take_all(turn *t, ff_error *error) {
    const ff_library_conv_spec *s = &t->conv->spec;
    const ff_library_conv_sizes sizes = ff_library_conv_bytes(s);
    ff_library_conv_arguments *a = &t->arguments;
    const size_t c = (size_t)(s->c > s->k ? s->c : s->k) * sizeof(float);
    FF_TRY(take(t, &a->x, sizes.x, error));
    FF_TRY(take(t, &a->w, sizes.w, error));
    FF_TRY(take(t, &a->y, sizes.y, error));
    FF_TRY(take(t, &a->relu_y, sizes.x, error));
    FF_TRY(take(t, &a->norm_x, sizes.x, error));
    void *channels[] = {&a->bias,  &a->scale,          &a->shift,       &a->sum,   &a->square_sum,
                        &a->mean,  &a->inv_std,        &a->gamma,       &a->beta,  &a->dgamma,
                        &a->dbeta, &a->gradient_scale, &a->input_scale, &a->offset};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        FF_TRY(take(t, channels[i], c, error));
    return t->conv->workspace_bytes ? take(t, &t->workspace, t->conv->workspace_bytes, error)
                                    : FF_OK;
}

static ff_status execute(turn *t, ff_error *error) {
    return ff_library_cudnn.conv_run(t->library, t->conv,
                                     host_table->native_stream(t->device, t->stream), &t->arguments,
                                     t->workspace, error);
}

static ff_status execute_twice(turn *t, ff_error *error) {
    ff_recording *recording = NULL;
    ff_status status;
    FF_TRY_DONE(host_table->stream_create(t->device, &t->stream, error));
    FF_TRY_DONE(take_all(t, error));
    FF_TRY_DONE(execute(t, error));
    FF_TRY_DONE(host_table->capture_begin(t->device, t->stream, error));
    status = execute(t, error);
    const ff_status ended =
        host_table->capture_end(t->device, t->stream, &recording, status == FF_OK ? error : NULL);
    if (status == FF_OK) status = ended;
    if (status == FF_OK)
        status = host_table->recording_launch(t->device, recording, t->stream, error);
done:
    if (t->stream) host_table->stream_destroy(t->device, t->stream);
    if (recording) host_table->recording_destroy(t->device, recording);
    while (t->count) host_table->release(t->device, t->blocks[--t->count]);
    return status;
}

static ff_device *recorder;

/* Recorded launches need a device, also where only a description is planned for. */
static ff_status open_library(ff_library **opened, const ff_library_options *options,
                              ff_error *error) {
    ff_library_options own = *options;
    if (ff_launched.skips && !recorder) FF_TRY(device_create(&recorder, 0, error));
    if (recorder) own.device = recorder;
    FF_TRY(ff_library_cudnn.open(opened, &own, error));
    (*opened)->table = &library;
    return FF_OK;
}

static ff_status plan_and_execute(ff_library *l, const ff_library_conv_spec *spec,
                                  ff_library_conv **conv, ff_error *error) {
    FF_TRY(ff_library_cudnn.conv_create(l, spec, conv, error));
    if (!recorder || !*conv) return FF_OK;
    turn t = {.device = recorder, .library = l, .conv = *conv};
    return execute_twice(&t, error);
}

/* ---- the module ---- */

static char description[8192];
static ff_status available; /* cuDNN */
static ff_error why;

static void print_launches(void) {
    fprintf(stderr,
            "launches: %d convolutions and %d products, %d of them captured; %d rules broken%s%s\n",
            ff_launched.convolutions, ff_launched.products, ff_launched.captured,
            ff_launched.broken, ff_launched.broken ? ", first: " : "", ff_launched.first);
}

static void prepare_launches(void) {
    const char *path = getenv("FF_LAUNCHES_GPU"), *mode = getenv("FF_LAUNCHES");
    FILE *file = fopen(path ? path : "tests/gpu/sm_90_h100.json", "rb");
    const size_t length = file ? fread(description, 1, sizeof description - 1, file) : 0;
    if (file) fclose(file);
    available = length ? ff_launches_open(description, &why)
                       : ff_fail(&why, FF_FAILED, "no file describes the GPU");
    ff_launched.records = mode && !strcmp(mode, "record");
    ff_launched.skips = mode && !strcmp(mode, "plan");
    library = ff_library_cudnn;
    library.open = open_library;
    library.conv_create = plan_and_execute;
    atexit(print_launches);
}

ff_status ff_cuda_module_open(ff_cuda_module **module, int ordinal, ff_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *module = NULL;
    pthread_once(&once, prepare_launches);
    if (available != FF_OK) return ff_fail(error, available, "%s", why.message);
    return sim_module_open(module, ordinal, error);
}

const ff_cuda_table *ff_cuda_module_table(const ff_cuda_module *module) {
    static struct ff_train_cuda train;
    static ff_cuda_table table;
    table = *sim_module_table(module);
    train = *table.train;
    train.library = &library;
    train.describe = ff_library_cudnn_describe;
    table.train = &train;
    return &table;
}
