/* The initial values of a store's parameters. */
#include "format/base/memory.h"
#include "loader/device/absent.h"
#include "loader/sequence/philox.h"
#include "train/net/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Box and Muller 1958. Words become doubles in (0, 1]. */
static double normal(const ff_random *random) {
    const double pi = 3.14159265358979323846;
    double u = ((double)random->word[0] + 1.0) * 0x1p-32;
    double v = (double)random->word[1] * 0x1p-32;
    return sqrt(-2.0 * log(u)) * cos(2.0 * pi * v);
}

/* Divides by the standard deviation (torch's std, with count - 1). */
static void make_unit(float *values, size_t count) {
    double sum = 0, squares = 0;
    for (size_t e = 0; e < count; e++) sum += (double)values[e];
    const double mean = sum / (double)count;
    for (size_t e = 0; e < count; e++)
        squares += ((double)values[e] - mean) * ((double)values[e] - mean);
    const double deviation = sqrt(squares / (double)(count > 1 ? count - 1 : 1));
    for (size_t e = 0; deviation > 0 && e < count; e++)
        values[e] = (float)((double)values[e] / deviation);
}

/* Filters [o][i][h][w]: in each group, filter k passes input channel k through. */
static void make_dirac(const ff_graph_parameter *p, int groups, float *filters) {
    const int64_t taps = p->shape[2] * p->shape[3];
    const int64_t middle = p->shape[2] / 2 * p->shape[3] + p->shape[3] / 2;
    for (int64_t o = 0; o < p->shape[0]; o++) {
        const int64_t own = o % (p->shape[0] / groups);
        if (own >= p->shape[1]) continue;
        float *filter = filters + o * p->shape[1] * taps;
        memset(filter, 0, (size_t)(p->shape[1] * taps) * sizeof *filter);
        filter[own * taps + middle] = 1;
    }
}

/* The initial values of parameter `index`, in torch's order. */
static void draw(const ff_graph *graph, int index, uint64_t seed, int threads, float *drawn) {
    const ff_graph_parameter *p = &graph->parameters[index];
    const size_t count = ff_graph_elements(p);
#pragma omp parallel for num_threads(threads)
    for (size_t e = 0; e < count; e++) {
        double value = p->scale;
        if (p->initial != FF_INITIAL_CONSTANT) {
            ff_random random = ff_philox_draw(seed, FF_DOMAIN_INIT, (uint32_t)index, e, 0);
            value *= p->initial == FF_INITIAL_NORMAL ? normal(&random)
                                                     : 2.0 * (double)random.word[0] * 0x1p-32 - 1.0;
        }
        drawn[e] = (float)value;
    }
    if (p->initial == FF_INITIAL_UNIT) make_unit(drawn, count);
    if (p->initial == FF_INITIAL_DIRAC) make_dirac(p, graph->layers[p->layer].groups, drawn);
}

ff_status ff_store_initialise(ff_store *store, const uint64_t *seed, ff_error *error) {
    ff_compute *compute = store->compute;
    ff_device *device = compute->device;
    ff_device *host = device->table->unified ? device : NULL; /* whose memory may be counted */
    for (int i = 0; i < store->graph->parameter_count; i++) {
        const ff_graph_parameter *p = &store->graph->parameters[i];
        if (p->dtype != FF_F32) continue;
        const size_t bytes = ff_graph_elements(p) * sizeof(float);
        void *drawn;
        FF_TRY(host ? host->table->allocate(host, &drawn, bytes, "initial values", error)
                    : ff_alloc(&drawn, bytes, 1, "initial values", error));
        if (!ff_device_is_absent(device)) {
            if (seed)
                draw(store->graph, i, *seed, compute->threads, drawn);
            else
                memset(drawn, 0, bytes);
            ff_store_import(store, i, FF_PART_VALUE, drawn);
        }
        if (host)
            host->table->release(host, drawn);
        else
            free(drawn);
    }
    return ff_compute_check(compute, error);
}
