/* Two epochs of libffload's batches on a GPU that may run out of memory, or go: prints why they
 * ended, and exits with the status. library_short_sim "NAME VALUE NAME VALUE ..." */
#include "tests/programs/library_sim.h"

static int take_all(ffload_loader *loader) {
    ffload_batch *batch;
    int status;
    do {
        status = ffload_loader_next_on(loader, native(stream), &batch, &failure);
        const bool last = !batch;
        ffload_batch_release(&batch);
        if (last) break;
    } while (status == FFLOAD_OK);
    return status;
}

int main(int count, char **words) {
    ffload_loader *loader = NULL;
    if (count != 2 || !open_all()) return 1;
    ffload_options *options = options_from(words[1]);
    int status = ffload_loader_create(&loader, set, options, &failure);
    ffload_options_destroy(&options);
    if (status == FFLOAD_OK) status = take_all(loader);
    ffload_loader_destroy(&loader);
    if (status != FFLOAD_OK) fprintf(stderr, "libffload: %s\n", failure.message);
    (void)close_all();
    return status;
}
