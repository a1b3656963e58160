/* Measures the loader's random resized crops of 375 x 500 photographs' sizes to 224.
 * Usage: bench_resample [THREADS [SAMPLES [ROUNDS]]]. Prints the best round of each way of loading,
 * as samples a second. */
#include "tests/programs/bench_loader.h"

int main(int count, char **argument) {
    int threads = count > 1 ? atoi(argument[1]) : 1;
    uint64_t samples = count > 2 ? (uint64_t)atoll(argument[2]) : 512;
    int rounds = count > 3 ? atoi(argument[3]) : 5;
    static const struct {
        const char *name;
        ff_dtype from, to;
        ff_layout from_layout, to_layout;
    } way[] = {{"u8 chw to f32 chw", FF_U8, FF_F32, FF_CHW, FF_CHW},
               {"f16 chw to f32 chw", FF_F16, FF_F32, FF_CHW, FF_CHW},
               {"f16 chw to f16 chw", FF_F16, FF_F16, FF_CHW, FF_CHW},
               {"u8 hwc to f32 nhwc", FF_U8, FF_F32, FF_HWC, FF_HWC}};
    printf("loader: %llu samples of 3x375x500, rrc=224,flip, batch 64, %d thread%s\n",
           (unsigned long long)samples, threads, threads == 1 ? "" : "s");
    for (size_t w = 0; w < sizeof way / sizeof way[0]; w++) {
        set_spec set = plain_set(samples);
        set.height = 375, set.width = 500;
        set.dtype = way[w].from, set.layout = way[w].from_layout;
        ff_dataset *dataset;
        MUST(set_make(&set, error));
        MUST(ff_dataset_open(&dataset, set.folder, FF_VERIFY_FIRST, error));
        ff_loader_options options = ff_loader_defaults();
        options.batch = 64, options.threads = threads;
        options.dtype = way[w].to, options.layout = way[w].to_layout;
        MUST(ff_augment_parse(&options.augment, "rrc=224,flip", error));
        ff_loader *loader;
        MUST(ff_loader_create(&loader, dataset, &options, error));
        uint64_t batches = samples / options.batch;
        double best = 0;
        epoch(loader, batches); /* maps, verifies and touches everything */
        for (int round = 0; round < rounds; round++) {
            double rate = epoch(loader, batches);
            if (rate > best) best = rate;
        }
        printf("  %-34s %10.0f samples/s\n", way[w].name, best);
        ff_loader_destroy(&loader);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
    return 0;
}
