/* Measures the loader's augmentations of u8 values, of samples of 3 x 256 x 256 to 224 x 224 f32
 * and u8. Usage: bench_change [THREADS [SAMPLES [ROUNDS [WORD]]]]. Prints the best round of each
 * (or of WORD), as samples a second. */
#include "tests/programs/bench_loader.h"

/* Batches by a word; NULL = none. */
static void measure(ff_dataset *dataset, int threads, int rounds, const char *word,
                    ff_dtype dtype) {
    char text[96];
    ff_loader_options options = ff_loader_defaults();
    ff_loader *loader;
    snprintf(text, sizeof text, word ? "crop=0,flip,%s" : "crop=0,flip", word);
    options.batch = 64, options.threads = threads;
    options.height = options.width = 224;
    options.dtype = dtype;
    MUST(ff_augment_parse(&options.augment, text, error));
    MUST(ff_loader_create(&loader, dataset, &options, error));
    const uint64_t batches = ff_dataset_count(dataset) / options.batch;
    double best = 0;
    epoch(loader, batches); /* maps, verifies and touches everything */
    for (int round = 0; round < rounds; round++) {
        const double rate = epoch(loader, batches);
        if (rate > best) best = rate;
    }
    snprintf(text, sizeof text, "%s%s", word ? word : "none", dtype == FF_U8 ? " to u8" : "");
    printf("  %-34s %10.0f samples/s\n", text, best);
    ff_loader_destroy(&loader);
}

int main(int count, char **argument) {
    static const char *const words[] = {
        "none",
        "trivialaugment",
        "trivialaugment=bilinear",
        "randaugment=2:9",
        "autoaugment=imagenet",
        "augmix",
        "affine=30",
        "affine=30:bilinear",
        "grayscale=1",
        "blur=23",
        "solarize=128:1",
        "equalize=1",
        "autocontrast=1",
        "sharpness=2:1",
    };
    const int threads = count > 1 ? atoi(argument[1]) : 1;
    const uint64_t samples = count > 2 ? (uint64_t)atoll(argument[2]) : 512;
    const int rounds = count > 3 ? atoi(argument[3]) : 5;
    set_spec set = plain_set(samples);
    set.height = set.width = 256;
    set.dtype = FF_U8;
    ff_dataset *dataset;
    MUST(set_make(&set, error));
    MUST(ff_dataset_open(&dataset, set.folder, FF_VERIFY_FIRST, error));
    printf("loader: %llu samples of 3x256x256 u8, crop=0,flip,WORD to 224x224 f32 and u8, batch "
           "64, %d thread%s\n",
           (unsigned long long)samples, threads, threads == 1 ? "" : "s");
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (count > 4 && strcmp(argument[4], words[w]) != 0) continue;
        measure(dataset, threads, rounds, w ? words[w] : NULL, FF_F32);
        measure(dataset, threads, rounds, w ? words[w] : NULL, FF_U8);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
    return 0;
}
