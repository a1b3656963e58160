/* The bare loop with which packing photographs is compared: the files are in memory, and each is
 * decoded, resized and cropped into memory that is reused; nothing else is done. Usage:
 * bench_decode RESIZE CROP THREADS ROUNDS FILE... Prints the seconds of each round. With WHOLE=1 in
 * the environment whole images are decoded, not only what the crop needs. */
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/image/geometry.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct file {
    uint8_t *bytes;
    size_t length;
} file;

typedef struct loop {
    ff_geometry geometry;
    bool whole;
    file *file;
    size_t count;
    atomic_size_t next;
    atomic_uint sum; /* of the results, so that the compiler keeps the work */
} loop;

static void give_up(const ff_error *error) {
    fprintf(stderr, "bench_decode: %s\n", error->message);
    exit(1);
}

static ff_status convert(const loop *job, const file *of, ff_decoder *decoder, ff_image *image,
                         ff_geometry_scratch *scratch, const ff_image **output, ff_error *error) {
    const ff_decode_options options = {.mode = FF_MODE_RGB, .pixel_limit = FF_PIXEL_LIMIT};
    ff_image_info info;
    ff_region needed;
    FF_TRY(ff_decode_probe(of->bytes, of->length, &options, &info, error));
    FF_TRY(ff_geometry_needed(&job->geometry, info.width, info.height, scratch, &needed, error));
    FF_TRY(ff_decode(decoder, of->bytes, of->length, &options, job->whole ? NULL : &needed, image,
                     error));
    return ff_geometry_apply(&job->geometry, image, info.width, info.height, scratch, output,
                             error);
}

static void work(void *context, int index) {
    (void)index;
    loop *job = context;
    ff_error error;
    ff_decoder *decoder;
    ff_image image = {0};
    ff_geometry_scratch scratch = {0};
    if (ff_decoder_create(&decoder, &error) != FF_OK) give_up(&error);
    size_t i;
    while ((i = atomic_fetch_add(&job->next, 1)) < job->count) {
        const ff_image *output;
        if (convert(job, &job->file[i], decoder, &image, &scratch, &output, &error) != FF_OK)
            give_up(&error);
        atomic_fetch_add(&job->sum, output->pixels[output->width / 2]);
    }
    ff_decoder_destroy(&decoder);
    ff_image_free(&image);
    ff_geometry_scratch_free(&scratch);
}

static file read_file(const char *path) {
    FILE *from = fopen(path, "rb");
    file made = {0};
    if (from && fseek(from, 0, SEEK_END) == 0) made.length = (size_t)ftell(from);
    made.bytes = malloc(made.length + 1);
    if (!from || !made.bytes || fseek(from, 0, SEEK_SET) != 0 ||
        fread(made.bytes, 1, made.length, from) != made.length) {
        fprintf(stderr, "bench_decode: %s: cannot read\n", path);
        exit(1);
    }
    fclose(from);
    return made;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: bench_decode RESIZE CROP THREADS ROUNDS FILE...\n");
        return 2;
    }
    loop job = {.whole = getenv("WHOLE") != NULL, .count = (size_t)argc - 5};
    ff_error error;
    if (ff_geometry_parse_resize(&job.geometry, "RESIZE", argv[1], &error) != FF_OK ||
        ff_geometry_parse_crop(&job.geometry, "CROP", argv[2], &error) != FF_OK ||
        ff_alloc(&job.file, job.count, sizeof *job.file, "files", &error) != FF_OK)
        give_up(&error);
    for (size_t i = 0; i < job.count; i++) job.file[i] = read_file(argv[5 + i]);
    for (int round = 0; round < atoi(argv[4]); round++) {
        ff_threads *threads;
        atomic_store(&job.next, 0);
        uint64_t began_ns = ff_now_ns();
        if (ff_threads_start(&threads, atoi(argv[3]), "decode", work, &job, &error) != FF_OK)
            give_up(&error);
        ff_threads_join(&threads);
        printf("%.6f\n", (double)(ff_now_ns() - began_ns) * 1e-9);
    }
    for (size_t i = 0; i < job.count; i++) free(job.file[i].bytes);
    free(job.file);
    return 0;
}
