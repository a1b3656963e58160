/* WebP, lossy and lossless, by libwebp, read as by Pillow (WebPImagePlugin.py and _webp.c, version
 * 11): alpha is dropped; the first frame of an animation is used, on a black canvas. (libwebp's
 * WebPAnimDecoder, which Pillow uses, blends later frames only: the first one is decoded without
 * blending.) The file must be complete, including later frames.
 *
 * Memory: libwebp needs a few bytes per pixel in addition to the image, at most what the pixel
 * limit allows. */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/bytes.h"
#include "tools/ffpack/decode/exif.h"

#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

enum { RIFF_BYTES = 12, CHUNK_BYTES = 8, FLAG_EXIF = 8 };

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= RIFF_BYTES + 4 && memcmp(bytes, "RIFF", 4) == 0 &&
           memcmp(bytes + 8, "WEBPVP8", 7) == 0 && bytes[15] != '\0' &&
           strchr(" LX", bytes[15]) != NULL;
}

static ff_status fail(VP8StatusCode code, size_t length, ff_error *error) {
    static const char *const reasons[] = {
        [VP8_STATUS_INVALID_PARAM] = "a value that WebP does not have",
        [VP8_STATUS_BITSTREAM_ERROR] = "its data is inconsistent",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "a feature that libwebp does not know",
        [VP8_STATUS_USER_ABORT] = "stopped",
    };
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return ff_fail(error, FF_NO_MEMORY, "no memory to decode a WebP");
    if (code == VP8_STATUS_SUSPENDED || code == VP8_STATUS_NOT_ENOUGH_DATA)
        return ff_fail(error, FF_BAD_DATA,
                       "truncated WebP: its %zu bytes end before the image is complete", length);
    return ff_fail(error, FF_BAD_DATA, "broken WebP: %s", reasons[code]);
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    WebPBitstreamFeatures found;
    VP8StatusCode code = WebPGetFeatures(bytes, length, &found);
    if (code != VP8_STATUS_OK) return fail(code, length, error);
    if (found.width < 1 || found.height < 1) return fail(VP8_STATUS_BITSTREAM_ERROR, length, error);
    info->width = (uint32_t)found.width;
    info->height = (uint32_t)found.height;
    info->channels = 3;
    return FF_OK;
}

/* The first EXIF chunk, if the header announces one. */
static unsigned orientation(const uint8_t *bytes, size_t length) {
    if (bytes[15] != 'X' || length <= RIFF_BYTES + CHUNK_BYTES ||
        !(bytes[RIFF_BYTES + CHUNK_BYTES] & FLAG_EXIF))
        return FF_EXIF_NONE;
    for (size_t at = RIFF_BYTES; length - at >= CHUNK_BYTES;) {
        uint64_t size = ff_load_u32(bytes + at + 4), left = length - at - CHUNK_BYTES;
        if (size > left) break;
        if (memcmp(bytes + at, "EXIF", 4) == 0)
            return ff_exif_orientation(bytes + at + CHUNK_BYTES, (size_t)size);
        size += size & 1;
        if (size > left) break;
        at += CHUNK_BYTES + (size_t)size;
    }
    return FF_EXIF_NONE;
}

/* Decodes a frame into its place of the image. */
static VP8StatusCode decode_frame(const WebPIterator *frame, ff_image *image) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return VP8_STATUS_INVALID_PARAM;
    size_t row_bytes = (size_t)image->width * 3;
    size_t offset = (size_t)frame->y_offset * row_bytes + (size_t)frame->x_offset * 3;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = image->pixels + offset;
    config.output.u.RGBA.stride = (int)row_bytes;
    config.output.u.RGBA.size = row_bytes * image->height - offset;
    VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    return code;
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    WebPData data = {bytes, length};
    WebPDemuxState reached;
    WebPDemuxer *demuxer = WebPDemuxPartial(&data, &reached);
    ff_status status = FF_OK;
    WebPIterator frame = {0};
    if (!demuxer || reached != WEBP_DEMUX_DONE) {
        status =
            fail(demuxer ? VP8_STATUS_NOT_ENOUGH_DATA : VP8_STATUS_BITSTREAM_ERROR, length, error);
    } else if (WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH) != job->info->width ||
               WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT) != job->info->height ||
               !WebPDemuxGetFrame(demuxer, 1, &frame) || frame.width < 1 || frame.height < 1 ||
               (uint64_t)frame.x_offset + (uint64_t)frame.width > job->info->width ||
               (uint64_t)frame.y_offset + (uint64_t)frame.height > job->info->height) {
        status = fail(VP8_STATUS_BITSTREAM_ERROR, length, error);
    }
    if (status == FF_OK)
        status = ff_image_reshape(image, job->info->width, job->info->height, 3, error);
    if (status == FF_OK) {
        bool whole = (uint32_t)frame.width == job->info->width &&
                     (uint32_t)frame.height == job->info->height;
        if (!whole) memset(image->pixels, 0, (size_t)job->info->width * job->info->height * 3);
        VP8StatusCode code = decode_frame(&frame, image);
        if (code != VP8_STATUS_OK) status = fail(code, length, error);
    }
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return status == FF_OK ? ff_image_to_mode(image, job->options->mode, error) : status;
}

const ff_decode_kind ff_decode_webp = {
    .name = "WebP",
    .matches = matches,
    .probe = probe,
    .orientation = orientation,
    .decode = decode,
};
