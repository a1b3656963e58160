/* Writes PNG files with libspng. */
#include "format/base/file.h"
#include "loader/draw/canvas.h"

#include <spng.h>
#include <stdlib.h>

static ff_status encode(spng_ctx *context, const ff_canvas *canvas, void **bytes, size_t *length,
                        ff_error *error) {
    struct spng_ihdr header = {.width = canvas->width,
                               .height = canvas->height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    int code = spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    /* The rows of enlarged pictures repeat: this filter makes files as small as trying every
     * filter, in half the time. */
    if (!code) code = spng_set_option(context, SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_UP);
    if (!code) code = spng_set_ihdr(context, &header);
    if (!code)
        code = spng_encode_image(context, canvas->rgb, (size_t)canvas->width * canvas->height * 3,
                                 SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (!code) *bytes = spng_get_png_buffer(context, length, &code);
    if (code || !*bytes)
        return ff_fail(error, FF_FAILED, "cannot encode the picture: %s", spng_strerror(code));
    return FF_OK;
}

ff_status ff_canvas_png(const ff_canvas *canvas, ff_buffer *png, ff_error *error) {
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    if (!context) return ff_fail(error, FF_NO_MEMORY, "not enough memory to encode a picture");
    void *bytes = NULL;
    size_t length = 0;
    const ff_status status = encode(context, canvas, &bytes, &length, error);
    spng_ctx_free(context);
    *png = (ff_buffer){.bytes = bytes, .length = length, .capacity = length};
    return status;
}

ff_status ff_canvas_write_png(const ff_canvas *canvas, const char *path, ff_error *error) {
    ff_file *file = NULL;
    ff_buffer png = {0};
    ff_status status;
    FF_TRY_DONE(ff_canvas_png(canvas, &png, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, png.bytes, png.length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    ff_buffer_free(&png);
    return status;
}
