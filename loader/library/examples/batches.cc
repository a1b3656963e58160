// The same with owners: c++ batches.cc $(pkg-config --cflags --libs ffload)
#include <cstdio>
#include <ffload/ffload.h>

template <class T, auto end> struct Owned {
    T *at = nullptr;
    ~Owned() {
        end(&at);
    }
};

static ffload_error error;
static void must(int status) {
    if (status != FFLOAD_OK) throw error;
}

static void read(const char *path) {
    Owned<ffload_dataset, ffload_dataset_close> dataset;
    Owned<ffload_options, ffload_options_destroy> options;
    Owned<ffload_loader, ffload_loader_destroy> loader;
    must(ffload_dataset_open(&dataset.at, path, nullptr, &error));
    must(ffload_options_create(&options.at, &error));
    must(ffload_options_set(options.at, "batch_size", "16", &error));
    must(ffload_options_set(options.at, "augment", "crop=2,flip", &error));
    must(ffload_loader_create(&loader.at, dataset.at, options.at, &error));
    for (;;) {
        Owned<ffload_batch, ffload_batch_release> batch;
        const DLTensor *images, *labels;
        must(ffload_loader_next(loader.at, &batch.at, &error));
        if (!batch.at) break;
        must(ffload_batch_tensor(batch.at, "images", &images, &error));
        must(ffload_batch_tensor(batch.at, "labels", &labels, &error));
        std::printf("%lld images, the first is of class %d and begins with %g\n",
                    static_cast<long long>(images->shape[0]), static_cast<int *>(labels->data)[0],
                    static_cast<float *>(images->data)[0]);
    }
}

int main(int argc, char **argv) {
    try {
        read(argc > 1 ? argv[1] : "packed/train");
    } catch (const ffload_error &failure) {
        std::fprintf(stderr, "batches: %s\n", failure.message);
        return 1;
    }
}
