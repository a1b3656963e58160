/* The first batches of a run's epoch 0, as a net receives them:
 *   dump_batches SET BATCH COUNT AUGMENT [SEED] >OUT
 * OUT: for each batch its images [batch][channels][height][width] f32 and labels [batch] i64, as
 * train_steps reads them. */
#include "loader/host/loader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void must(ff_status status, const ff_error *error) {
    if (status == FF_OK) return;
    fprintf(stderr, "dump_batches: %s\n", error->message);
    exit(1);
}

int main(int argc, char **argv) {
    ff_error error = {0};
    if (argc < 5) {
        fprintf(stderr, "usage: dump_batches SET BATCH COUNT AUGMENT [SEED]\n");
        return 2;
    }
    ff_dataset *set;
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    options.batch = strtoull(argv[2], NULL, 10);
    options.seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    must(ff_augment_parse(&options.augment, argv[4], &error), &error);
    must(ff_dataset_open(&set, argv[1], FF_VERIFY_FIRST, &error), &error);
    must(ff_loader_create(&loader, set, &options, &error), &error);
    for (uint64_t left = strtoull(argv[3], NULL, 10); left; left--) {
        ff_slot *slot;
        must(ff_loader_acquire(loader, &slot, &error), &error);
        for (uint32_t i = 0; i < slot->rows; i++) {
            const char *row = (const char *)slot->data + i * slot->row_bytes;
            const size_t count = (size_t)slot->channels * slot->height * slot->width;
            if (fwrite(row, sizeof(float), count, stdout) != count) return 1;
        }
        for (uint32_t i = 0; i < slot->rows; i++) {
            const int64_t label = ((const int32_t *)slot->label[0].values)[i];
            if (fwrite(&label, sizeof label, 1, stdout) != 1) return 1;
        }
        ff_loader_release(loader, slot, NULL);
    }
    ff_loader_destroy(&loader);
    ff_dataset_close(&set);
    return 0;
}
