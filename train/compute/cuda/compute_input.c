/* The padding of the images' channels. Convolutions of 3 channels have few engines, convolutions of
 * 8 waste work; timing finds the faster padding. */
#include "train/compute/cuda/compute.h"

static int padded(int channels, int multiple) {
    return (channels + multiple - 1) / multiple * multiple;
}

/* NHWC: all channels in one block. */
int ff_cuda_channel_block(const ff_compute *compute, int channels) {
    (void)compute;
    return padded(channels, 8);
}

int ff_cuda_input_block(const ff_compute *compute, int channels) {
    const ff_cuda_compute *self = (const ff_cuda_compute *)compute;
    return self->image_channels == channels ? self->image_block : padded(channels, 8);
}

/* Muon's kernels process the unpadded filters of a convolution in vectors of 8 elements. */
static bool whole_eights(const ff_conv_shape *s) {
    const size_t count = (size_t)s->output.c * (size_t)s->kernel * (size_t)s->kernel *
                         (size_t)ff_tensor_padded_channels(&s->input);
    return s->frozen || count % 8 == 0;
}

/* The time of all convolutions with this channel block of the images, and of writing the images'
 * padding. 0 if a time is unknown or a convolution cannot be planned. */
static ff_status cost(ff_compute *compute, const ff_conv_shape *shapes, int count, int block,
                      double *ns, ff_error *error) {
    ff_tensor images = shapes[0].input;
    images.block = 1;
    const double bare = (double)ff_tensor_count(&images);
    images.block = block;
    const double added = (double)ff_tensor_count(&images) - bare;
    bool known = true;
    *ns = 0;
    const double rate = ((const ff_cuda_compute *)compute)->bytes_per_ns;
    double sum = added * (double)compute->element_bytes / rate;
    for (int i = 0; i < count; i++) {
        ff_conv_shape shape = shapes[i];
        ff_conv *conv;
        ff_error failure = {0};
        shape.input.block = block;
        if (shape.groups > 1 || !whole_eights(&shape)) return FF_OK;
        const ff_status status = ff_cuda_conv_create(compute, &shape, NULL, &conv, &failure);
        if (status == FF_NO_MEMORY) return ff_fail(error, status, "%s", failure.message);
        if (status != FF_OK) return FF_OK;
        const double one = ff_cuda_conv_ns(conv);
        ff_cuda_conv_destroy(compute, conv);
        if (one <= 0 && !((const ff_cuda_compute *)compute)->ahead) return FF_OK;
        if (one <= 0) known = false;
        sum += one;
    }
    if (known) *ns = sum;
    return FF_OK;
}

/* Plans all candidates, for a GPU that will choose. */
static ff_status plan_ahead(ff_compute *compute, const ff_conv_shape *shapes, int count,
                            const int blocks[3], ff_error *error) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    ff_status status = FF_OK;
    double ns;
    self->tried = true;
    for (int i = 0; i < 3 && status == FF_OK; i++)
        if (!i || blocks[i] != blocks[i - 1])
            status = cost(compute, shapes, count, blocks[i], &ns, error);
    self->tried = false;
    return status;
}

ff_status ff_cuda_choose_input_block(ff_compute *compute, const ff_conv_shape *shapes, int count,
                                     ff_error *error) {
    ff_cuda_compute *self = (ff_cuda_compute *)compute;
    self->image_channels = 0;
    if (!(self->timed || self->ahead) || count < 1) return FF_OK;
    const int channels = shapes[0].input.c;
    const int blocks[] = {padded(channels, 8), padded(channels, 4), channels};
    if (self->ahead) return plan_ahead(compute, shapes, count, blocks, error);
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double ns;
        if (i && blocks[i] == blocks[i - 1]) continue;
        FF_TRY(cost(compute, shapes, count, blocks[i], &ns, error));
        if (ns <= 0 && !i) return FF_OK; /* nothing to compare with */
        if (ns <= 0 || (i && ns >= best)) continue;
        best = ns;
        self->image_channels = channels;
        self->image_block = blocks[i];
    }
    return FF_OK;
}
