#include "train/machine/card.h"

#include <stddef.h>
#include <string.h>

/* Floating-point operations per clock and multiprocessor: matrix products with f32 sums, dense, by
 * precision, and other f32 arithmetic. From NVIDIA's architecture papers: Turing (2018), A100
 * (2020), GA102 (2021), Ada (2022), H100 (2022), and the data sheets of B200 and the RTX Blackwell
 * GPUs (2025). A GPU's peak is this number times multiprocessors times boost clock. `halved`:
 * GeForce GPUs sum in f32 at half the rate. */
typedef struct rate {
    int capability;
    double matrix[FF_PRECISION_COUNT];
    double f32;
    bool halved;
} rate;

static const rate rates[] = {
    /*     f32, tf32,  f16, bf16 */
    {75, {128, 0, 1024, 0}, 128, true},         {80, {128, 1024, 2048, 2048}, 128, false},
    {86, {256, 512, 1024, 1024}, 256, true},    {89, {256, 512, 1024, 1024}, 256, true},
    {90, {256, 2048, 4096, 4096}, 256, false},  {100, {256, 4096, 8192, 8192}, 256, false},
    {103, {256, 4096, 8192, 8192}, 256, false}, {120, {256, 512, 1024, 1024}, 256, true},
};

/* Width of the memory's bus in bits, from the GPUs' data sheets: cuDNN's descriptions do not
 * contain it. */
static const struct bus {
    const char *name; /* part of the GPU's name */
    int bits;
} buses[] = {
    {"H200", 6144},    {"H100", 5120},    {"A100", 5120},    {"B200", 8192}, {"RTX 5090", 512},
    {"RTX 4090", 384}, {"RTX 3090", 384}, {"RTX 3060", 192}, {"T4", 256},    {"L4", 192},
};

static int bits_of(const ff_card_facts *facts) {
    if (facts->memory_bus_bits > 0) return facts->memory_bus_bits;
    for (size_t i = 0; facts->name && i < sizeof buses / sizeof *buses; i++)
        if (strstr(facts->name, buses[i].name)) return buses[i].bits;
    return 0;
}

ff_card ff_card_limits(const ff_card_facts *facts) {
    const double clocks = 1e3 * facts->clock_khz * facts->multiprocessors;
    ff_card card = {.bytes_per_s = 2e3 * facts->memory_clock_khz * bits_of(facts) / 8};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const rate *r = &rates[i];
        if (r->capability != facts->capability) continue;
        const bool half = r->halved && facts->name && strstr(facts->name, "GeForce");
        card.f32_flops = r->f32 * clocks;
        for (int p = 0; p < FF_PRECISION_COUNT; p++)
            card.matrix_flops[p] =
                r->matrix[p] * clocks * (half && p != FF_PRECISION_F32 ? 0.5 : 1);
    }
    return card;
}
