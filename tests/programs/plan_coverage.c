/* The number of cuDNN's engines for every convolution of every net, on devices described by files,
 * in every precision. Plans only, nothing runs. Prints a Markdown table and, for the tests, TAP.
 *
 *   plan_coverage [--deterministic] [--compile-nothing] [--sample N] [--fused GRAPH|all] [--tap]
 *                 [--cache FOLDER] FILE...
 *
 * --sample N: only every Nth convolution (another one on each device), for a short test. --fused:
 * fused graphs of library.h too, in 16 bits. A convolution without an engine is a failure, except
 * for fused ones, and for bf16 below compute capability 8.0, which must be refused with a
 * message. */
#include "format/base/memory.h"
#include "loader/cuda/module.h"
#include "train/compute/compute.h"
#include "train/compute/cuda/exports.h"
#include "train/net/models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    bool deterministic, compile_nothing, tap;
    int sample;
    const char *fused, *cache;
} options;

/* One line of the table: a device and a precision. */
typedef struct tally {
    int convs, none, engines_least, engines_most, tensor_cores, runtime, varying;
    size_t workspace;
    char missing[512]; /* the first message */
} tally;

static int tests, failures;

static void report(const options *o, bool good, const char *name, const char *why) {
    tests++;
    failures += !good;
    if (!o->tap) return;
    printf("%sok %d - %s\n", good ? "" : "not ", tests, name);
    if (!good) printf("# %s\n", why);
}

/* ---- the convolutions of all nets ---- */

/* Each once, in the order of nets and layers. Plain passes, in f32. */
typedef struct work {
    ff_library_conv_spec *list;
    size_t count, capacity;
} work;

static ff_status add(work *all, const ff_library_conv_spec *spec, ff_error *error) {
    for (size_t i = 0; i < all->count; i++)
        if (ff_library_conv_same(&all->list[i], spec)) return FF_OK;
    FF_TRY(ff_reserve(&all->list, &all->capacity, all->count + 1, sizeof *all->list, "convolutions",
                      error));
    all->list[all->count++] = *spec;
    return FF_OK;
}

static int padded(int channels) {
    return (channels + 7) / 8 * 8;
}

/* Forward; backward data if anything before the layer is trained (`wanted`: the gradient of a
 * layer's output is needed); backward weights if its filters are trained. Channels are padded to a
 * multiple of 8, channels of images to `image_channels` if that is more. Depthwise convolutions
 * have special kernels. */
static ff_status add_layer(work *all, const ff_graph *graph, const ff_layer *layer,
                           const bool *wanted, int batch, int image_channels, ff_error *error) {
    const ff_layer *from = &graph->layers[layer->from];
    const int image = image_channels > from->c ? image_channels : from->c;
    ff_library_conv_spec spec = {
        .pass = FF_PASS_FORWARD,
        .precision = FF_PRECISION_F32,
        .n = batch,
        .h = from->h,
        .w = from->w,
        .c = from->kind == FF_LAYER_INPUT ? image : padded(from->c),
        .k = padded(layer->c),
        .kernel = layer->kernel_h,
        .stride = layer->stride,
        .pad = layer->pad,
        .groups = layer->groups,
    };
    const ff_conv_shape shape = {.input.c = from->c,
                                 .output.c = layer->c,
                                 .kernel = layer->kernel_h,
                                 .stride = layer->stride,
                                 .pad = layer->pad,
                                 .groups = layer->groups};
    if (ff_conv_is_depthwise(&shape)) return FF_OK;
    FF_TRY(add(all, &spec, error));
    spec.pass = FF_PASS_BACKWARD_DATA;
    if (wanted[layer->from]) FF_TRY(add(all, &spec, error));
    spec.pass = FF_PASS_BACKWARD_WEIGHTS;
    if (graph->parameters[layer->parameter].trained) FF_TRY(add(all, &spec, error));
    return FF_OK;
}

static ff_status add_graph(work *all, const ff_graph *graph, int batch, int image_channels,
                           ff_error *error) {
    bool *wanted;
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&wanted, (uint64_t)graph->layer_count, sizeof *wanted, "a net", error));
    for (int i = 0; i < graph->parameter_count; i++)
        if (graph->parameters[i].trained) wanted[graph->parameters[i].layer] = true;
    for (int i = 0; i < graph->layer_count && status == FF_OK; i++) {
        const ff_layer *layer = &graph->layers[i];
        wanted[i] = wanted[i] || (layer->from >= 0 && wanted[layer->from]) ||
                    (layer->from2 >= 0 && wanted[layer->from2]);
        if (layer->kind == FF_LAYER_CONV)
            status = add_layer(all, graph, layer, wanted, batch, image_channels, error);
    }
    free(wanted);
    return status;
}

/* A net as it is trained. */
static ff_status add_net(work *all, const ff_net *net, ff_stem stem, int channels, int pixels,
                         int batch, int image_channels, ff_error *error) {
    ff_model_options model = {.name = net->name,
                              .stem = stem,
                              .channels = channels,
                              .height = pixels,
                              .width = pixels,
                              .classes = 10,
                              .dropout = net->dropout};
    ff_graph *graph;
    FF_TRY(ff_graph_create(&graph, channels, pixels, pixels, error));
    net->build(graph, &model);
    ff_status status = ff_graph_check(graph, error);
    if (status == FF_OK) status = add_graph(all, graph, batch, image_channels, error);
    ff_graph_destroy(&graph);
    return status;
}

/* Nets with two stems in both; others at their sizes. */
static ff_status add_nets(work *all, ff_error *error) {
    static const int image_channels[] = {3, 4, 8}; /* paddings of a stem's images */
    for (int i = 0; ff_net_at(i); i++) {
        const ff_net *net = ff_net_at(i);
        for (size_t j = 0; j < sizeof image_channels / sizeof *image_channels; j++) {
            int image = image_channels[j];
            if (net->stems) {
                FF_TRY(add_net(all, net, FF_STEM_CIFAR, 3, 32, 512, image, error));
                FF_TRY(add_net(all, net, FF_STEM_IMAGENET, 3, 224, 256, image, error));
            } else if (!strcmp(net->name, "smallnet")) {
                FF_TRY(add_net(all, net, FF_STEM_AUTO, 1, 28, 256, j ? image : 1, error));
            } else {
                FF_TRY(add_net(all, net, FF_STEM_AUTO, 3, 32, 512, image, error));
            }
        }
    }
    return FF_OK;
}

/* ---- planning ---- */

/* Plans one spec; counts it. */
static ff_status plan(ff_library *library, const ff_library_conv_spec *spec, tally *t,
                      ff_error *error) {
    ff_library_conv *conv;
    ff_error failure = {0};
    ff_status status = library->table->conv_create(library, spec, &conv, &failure);
    if (status != FF_OK && status != FF_FAILED) {
        if (error) *error = failure;
        return status;
    }
    t->convs++;
    if (status != FF_OK || !conv) {
        t->none++;
        if (!t->missing[0]) snprintf(t->missing, sizeof t->missing, "%.511s", failure.message);
        return FF_OK;
    }
    const ff_library_engine *e = &conv->engine;
    if (t->convs - t->none == 1 || e->found < t->engines_least) t->engines_least = e->found;
    if (e->found > t->engines_most) t->engines_most = e->found;
    t->tensor_cores += e->tensor_cores;
    t->runtime += e->runtime_compiled;
    t->varying += !e->deterministic;
    if (conv->workspace_bytes > t->workspace) t->workspace = conv->workspace_bytes;
    library->table->conv_destroy(library, conv);
    return FF_OK;
}

static void print_tally(const char *device, const char *what, const tally *t) {
    printf("| %s | %s | %d | %d | ", device, what, t->convs, t->none);
    if (t->convs > t->none)
        printf("%d-%d | %d | %d | %d | %.1f |\n", t->engines_least, t->engines_most,
               t->tensor_cores, t->runtime, t->varying, (double)t->workspace / (1 << 20));
    else
        printf("- | - | - | - | - |\n");
    fflush(stdout);
}

/* Engines that may be chosen are drawn from all convolutions of the work, `first` on. */
static ff_status plain(ff_library *library, const options *o, const work *all, const char *device,
                       ff_precision precision, size_t first, ff_error *error) {
    tally t = {0};
    for (size_t i = first % (size_t)o->sample; i < all->count; i += (size_t)o->sample) {
        ff_library_conv_spec spec = all->list[i];
        spec.precision = precision;
        FF_TRY(plan(library, &spec, &t, error));
    }
    char name[256];
    const char *p = ff_precision_name(precision);
    /* Compute capabilities are in the file's name: sm_75... */
    if (precision == FF_PRECISION_BF16 && !strncmp(device, "sm_75", 5)) {
        snprintf(name, sizeof name, "%s: %d convolutions in bf16 are refused with the reason",
                 device, t.convs);
        report(o, t.none == t.convs && strstr(t.missing, "bf16 needs 8.0") != NULL, name,
               t.missing);
    } else {
        snprintf(name, sizeof name, "%s: %d convolutions in %s%s have a plan each", device, t.convs,
                 p, o->deterministic ? ", deterministic," : "");
        bool right = t.none == 0 && t.convs > 0 && !(o->deterministic && t.varying) &&
                     !(precision == FF_PRECISION_F32 && t.tensor_cores);
        report(o, right, name, t.missing);
    }
    if (t.missing[0]) fprintf(stderr, "# %s\n", t.missing);
    if (!o->tap) print_tally(device, p, &t);
    return FF_OK;
}

static ff_status fused(ff_library *library, const options *o, const work *all, const char *device,
                       ff_precision precision, ff_error *error) {
    static const struct {
        const char *name;
        ff_library_pass pass;
        ff_library_prologue prologue;
        ff_library_epilogue epilogue;
        bool f32_gradient;
    } graphs[] = {
        {"bias", FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_BIAS, false},
        {"bias, ReLU", FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_BIAS_RELU, false},
        {"bias, GELU", FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_BIAS_GELU, false},
        {"statistics", FF_PASS_FORWARD, FF_PROLOGUE_NONE, FF_EPILOGUE_STATISTICS, false},
        {"scale-shift-ReLU", FF_PASS_FORWARD, FF_PROLOGUE_SCALE_SHIFT_RELU, FF_EPILOGUE_NONE,
         false},
        {"scale-shift-ReLU, statistics", FF_PASS_FORWARD, FF_PROLOGUE_SCALE_SHIFT_RELU,
         FF_EPILOGUE_STATISTICS, false},
        {"scale-shift-ReLU, weights", FF_PASS_BACKWARD_WEIGHTS, FF_PROLOGUE_SCALE_SHIFT_RELU,
         FF_EPILOGUE_NONE, false},
        {"weights in f32", FF_PASS_BACKWARD_WEIGHTS, FF_PROLOGUE_NONE, FF_EPILOGUE_NONE, true},
        {"ReLU backward", FF_PASS_BACKWARD_DATA, FF_PROLOGUE_NONE, FF_EPILOGUE_RELU_BACKWARD,
         false},
        {"ReLU, norm backward", FF_PASS_BACKWARD_DATA, FF_PROLOGUE_NONE,
         FF_EPILOGUE_RELU_NORM_BACKWARD, false},
    };
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        tally t = {0};
        size_t number = 0;
        if (strcmp(o->fused, "all") != 0 && strcmp(o->fused, graphs[g].name) != 0) continue;
        for (size_t i = 0; i < all->count; i++) {
            ff_library_conv_spec spec = all->list[i];
            if (spec.pass != graphs[g].pass || number++ % (size_t)o->sample != 0) continue;
            spec.precision = precision;
            spec.prologue = graphs[g].prologue;
            spec.epilogue = graphs[g].epilogue;
            spec.f32_gradient = graphs[g].f32_gradient;
            FF_TRY(plan(library, &spec, &t, error));
        }
        char what[128];
        snprintf(what, sizeof what, "%s %s", ff_precision_name(precision), graphs[g].name);
        if (t.missing[0]) fprintf(stderr, "# %s\n", t.missing);
        if (!o->tap) print_tally(device, what, &t);
    }
    return FF_OK;
}

static void tell(void *context, const char *line) {
    (void)context;
    fprintf(stderr, "# %s\n", line);
}

static ff_status read_text(const char *path, char **text, ff_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return ff_fail_errno(error, "%s", path);
    char bytes[8192];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return ff_copy_bytes(text, bytes, length, error);
}

static ff_status cover(const ff_library_table *table, const options *o, const work *all,
                       const char *path, size_t first, ff_error *error) {
    char *json, device[128];
    ff_library *library;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    snprintf(device, sizeof device, "%.*s", (int)strcspn(file, "."), file);
    FF_TRY(read_text(path, &json, error));
    ff_library_options wanted = {.device_json = json,
                                 .deterministic = o->deterministic,
                                 .cache_folder = o->cache,
                                 .compile_nothing = o->compile_nothing,
                                 .note = tell};
    ff_status status = table->open(&library, &wanted, error);
    free(json);
    if (status != FF_OK) return ff_fail_within(error, status, "%s", path);
    for (int p = 0; p < FF_PRECISION_COUNT && status == FF_OK; p++) {
        status = plain(library, o, all, device, (ff_precision)p, first + (size_t)p, error);
        if (status == FF_OK && o->fused && p >= FF_PRECISION_F16)
            status = fused(library, o, all, device, (ff_precision)p, error);
    }
    ff_library_close(&library);
    return status;
}

int main(int argc, char **argv) {
    options o = {.sample = 1};
    ff_error failure = {0}, *error = &failure;
    ff_cuda_module *module = NULL;
    work all = {0};
    ff_status status;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--deterministic")) o.deterministic = true;
        if (!strcmp(argv[i], "--fused") && i + 1 < argc) o.fused = argv[++i];
        if (!strcmp(argv[i], "--tap")) o.tap = true;
        if (!strcmp(argv[i], "--compile-nothing")) o.compile_nothing = true;
        if (!strcmp(argv[i], "--sample") && i + 1 < argc) o.sample = atoi(argv[++i]);
        if (!strcmp(argv[i], "--cache") && i + 1 < argc) o.cache = argv[++i];
    }
    if (o.sample < 1 || i == argc) {
        fprintf(stderr, "plan_coverage [--deterministic] [--compile-nothing] [--sample N] "
                        "[--fused GRAPH|all] [--tap] [--cache FOLDER] FILE...\n");
        return 2;
    }
    if (ff_cuda_module_open(&module, FF_CUDA_NO_DEVICE, error) != FF_OK) {
        printf("ok 1 - plans # SKIP %s\n", error->message);
        return 0;
    }
    const ff_library_table *table = ff_cuda_module_table(module)->train->library;
    FF_TRY_DONE(add_nets(&all, error));
    if (!o.tap)
        printf("| device | what | convolutions | without an engine | engines | on tensor cores | "
               "compiled at run time | not deterministic | largest workspace, MiB |\n"
               "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t first = 0; i < argc; i++, first++)
        FF_TRY_DONE(cover(table, &o, &all, argv[i], first, error));
done:
    free(all.list);
    ff_cuda_module_close(&module);
    if (status != FF_OK) {
        fprintf(stderr, "plan_coverage: %s\n", error->message);
        return 1;
    }
    return failures != 0;
}
