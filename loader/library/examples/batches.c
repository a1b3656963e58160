/* Reads a packed set in batches: cc batches.c $(pkg-config --cflags --libs ffload) */
#include <ffload/ffload.h>
#include <stdio.h>

int main(int argc, char **argv) {
    ffload_dataset *dataset = NULL;
    ffload_options *options = NULL;
    ffload_loader *loader = NULL;
    ffload_batch *batch = NULL;
    const DLTensor *images, *labels;
    ffload_error error;
    if (ffload_dataset_open(&dataset, argc > 1 ? argv[1] : "packed/train", NULL, &error))
        goto failed;
    if (ffload_options_create(&options, &error)) goto failed;
    if (ffload_options_set(options, "batch_size", "16", &error)) goto failed;
    if (ffload_options_set(options, "augment", "crop=2,flip", &error)) goto failed;
    if (ffload_loader_create(&loader, dataset, options, &error)) goto failed;
    for (;; ffload_batch_release(&batch)) {
        if (ffload_loader_next(loader, &batch, &error)) goto failed;
        if (!batch) break;
        if (ffload_batch_tensor(batch, "images", &images, &error)) goto failed;
        if (ffload_batch_tensor(batch, "labels", &labels, &error)) goto failed;
        printf("%lld images, the first is of class %d and begins with %g\n",
               (long long)images->shape[0], ((int *)labels->data)[0], ((float *)images->data)[0]);
    }
    ffload_loader_destroy(&loader);
    ffload_options_destroy(&options);
    ffload_dataset_close(&dataset);
    return 0;
failed:
    fprintf(stderr, "batches: %s\n", error.message);
    return 1;
}
