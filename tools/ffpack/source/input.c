/* gzip (RFC 1952) through zlib: members one after another are one stream, as gzip itself reads
 * them; zero bytes after the last one are padding, anything else is refused. zstd (RFC 8878)
 * through libzstd: frames one after another are one stream. */
#include "tools/ffpack/source/input.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/remote/elsewhere.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK_BYTES = 256 * 1024, AFTER_SKIP_BYTES = 4096, SKIP_BYTES = 16384 };

struct ff_input {
    char *path;
    int fd;
    bool compressed;
    ZSTD_DCtx *zstd; /* if it is zstd */
    bool in_member;  /* inside a member or a frame */
    bool finished;
    uint64_t file_bytes;
    uint64_t read_bytes;     /* from the file */
    uint64_t unpacked_bytes; /* returned, or skipped */
    size_t fill_bytes;       /* to read next: few after a skip */
    z_stream zlib;
    unsigned char chunk[CHUNK_BYTES];
};

static ff_status fill(ff_input *input, ff_error *error) {
    ssize_t got;
    do got = pread(input->fd, input->chunk, input->fill_bytes, (off_t)input->read_bytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return ff_fail_errno(error, "%s: cannot read at byte %" PRIu64, input->path,
                             input->read_bytes);
    input->read_bytes += (uint64_t)got;
    if (input->fill_bytes < CHUNK_BYTES) input->fill_bytes *= 2;
    input->zlib.next_in = input->chunk;
    input->zlib.avail_in = (uInt)got;
    return FF_OK;
}

static bool begins(const ff_input *input, const char *magic, size_t bytes) {
    return input->zlib.avail_in >= bytes && !memcmp(input->chunk, magic, bytes);
}

static ff_status open_input(ff_input **out, const char *path, bool zstd, ff_error *error) {
    *out = NULL;
    ff_input *input;
    FF_TRY(ff_alloc(&input, 1, sizeof *input, "an input", error));
    input->fd = -1;
    input->fill_bytes = CHUNK_BYTES;
    ff_status status;
    FF_TRY_DONE(ff_source_open_file(path, &input->fd, &input->file_bytes, error));
    FF_TRY_DONE(ff_copy_string(&input->path, path, error));
    FF_TRY_DONE(fill(input, error));
    const bool gzip = begins(input, "\x1f\x8b", 2);
    if (gzip) input->compressed = inflateInit2(&input->zlib, 15 + 16) == Z_OK;
    zstd = zstd && begins(input, "\x28\xb5\x2f\xfd", 4);
    if (zstd) input->compressed = (input->zstd = ZSTD_createDCtx()) != NULL;
    if ((gzip || zstd) && !input->compressed)
        status = ff_fail(error, FF_NO_MEMORY, "%s: not enough memory to decompress", path);
done:
    if (status == FF_OK)
        *out = input;
    else
        ff_input_close(&input);
    return status;
}

ff_status ff_input_open(ff_input **input, const char *path, ff_error *error) {
    return open_input(input, path, false, error);
}

ff_status ff_input_open_zstd(ff_input **input, const char *path, ff_error *error) {
    return open_input(input, path, true, error);
}

bool ff_input_is_packed(const ff_input *input) {
    return input->compressed;
}

uint64_t ff_input_at(const ff_input *input) {
    return input->unpacked_bytes;
}

static ff_status read_plain(ff_input *input, void *to, size_t size, size_t *got, ff_error *error) {
    while (*got < size) {
        if (!input->zlib.avail_in) FF_TRY(fill(input, error));
        size_t part = size - *got;
        if (part > input->zlib.avail_in) part = input->zlib.avail_in;
        if (!part) break;
        memcpy((char *)to + *got, input->zlib.next_in, part);
        input->zlib.next_in += part;
        input->zlib.avail_in -= (uInt)part;
        *got += part;
        input->unpacked_bytes += part;
    }
    return FF_OK;
}

static ff_status check_ratio(const ff_input *input, ff_error *error) {
    if (input->unpacked_bytes <= FF_INPUT_FREE_BYTES ||
        input->unpacked_bytes / FF_INPUT_RATIO <= input->file_bytes)
        return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: unpacks to more than %" PRIu64 " times its %" PRIu64
                   " bytes: a compression bomb",
                   input->path, FF_INPUT_RATIO, input->file_bytes);
}

/* The library may keep bytes for which `to` had no space: it is called again without input. */
static ff_status read_zstd(ff_input *input, void *to, size_t size, size_t *got, ff_error *error) {
    while (*got < size) {
        if (!input->zlib.avail_in) FF_TRY(fill(input, error));
        if (!input->zlib.avail_in && !input->in_member) return FF_OK;
        ZSTD_inBuffer in = {input->zlib.next_in, input->zlib.avail_in, 0};
        ZSTD_outBuffer out = {to, size, *got};
        const size_t left = ZSTD_decompressStream(input->zstd, &out, &in);
        if (ZSTD_isError(left))
            return ff_fail(error, FF_BAD_DATA, "%s: broken zstd data before byte %" PRIu64 " (%s)",
                           input->path, input->read_bytes - input->zlib.avail_in + in.pos,
                           ZSTD_getErrorName(left));
        if (!in.size && out.pos == *got)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: the zstd data ends at byte %" PRIu64 ", inside a frame",
                           input->path, input->read_bytes);
        input->zlib.next_in += in.pos;
        input->zlib.avail_in -= (uInt)in.pos;
        input->unpacked_bytes += out.pos - *got;
        *got = out.pos;
        input->in_member = left != 0;
        FF_TRY(check_ratio(input, error));
    }
    return FF_OK;
}

/* Between members: at the end, at padding, or at the next header. */
static ff_status next_member(ff_input *input, ff_error *error) {
    for (;;) {
        if (!input->zlib.avail_in) FF_TRY(fill(input, error));
        if (!input->zlib.avail_in) {
            input->finished = true;
            return FF_OK;
        }
        if (*input->zlib.next_in == 0x1f) {
            inflateReset(&input->zlib);
            input->in_member = true;
            return FF_OK;
        }
        if (*input->zlib.next_in)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: byte %" PRIu64 " after the gzip data is 0x%02x, wanted the end",
                           input->path, input->read_bytes - input->zlib.avail_in,
                           *input->zlib.next_in);
        input->zlib.next_in++;
        input->zlib.avail_in--;
    }
}

ff_status ff_input_read(ff_input *input, void *to, size_t size, size_t *got, ff_error *error) {
    *got = 0;
    if (!input->compressed) return read_plain(input, to, size, got, error);
    if (input->zstd) return read_zstd(input, to, size, got, error);
    while (*got < size && !input->finished) {
        if (!input->in_member) {
            FF_TRY(next_member(input, error));
            continue;
        }
        if (!input->zlib.avail_in) FF_TRY(fill(input, error));
        if (!input->zlib.avail_in)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: the gzip data ends at byte %" PRIu64 ", before its trailer",
                           input->path, input->read_bytes);
        size_t part = size - *got;
        if (part > 1 << 30) part = 1 << 30;
        input->zlib.next_out = (unsigned char *)to + *got;
        input->zlib.avail_out = (uInt)part;
        int result = inflate(&input->zlib, Z_NO_FLUSH);
        part -= input->zlib.avail_out;
        *got += part;
        input->unpacked_bytes += part;
        FF_TRY(check_ratio(input, error));
        if (result == Z_STREAM_END)
            input->in_member = false;
        else if (result != Z_OK && result != Z_BUF_ERROR)
            return ff_fail(error, FF_BAD_DATA, "%s: broken gzip data before byte %" PRIu64 " (%s)",
                           input->path, input->read_bytes - input->zlib.avail_in,
                           input->zlib.msg ? input->zlib.msg : "zlib reports no reason");
    }
    return FF_OK;
}

static ff_status ends_in(const ff_input *input, uint64_t at, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: ends at %sbyte %" PRIu64 ", inside %s", input->path,
                   input->compressed ? "unpacked " : "", at, what);
}

ff_status ff_input_exactly(ff_input *input, void *to, size_t size, const char *what,
                           ff_error *error) {
    size_t got;
    FF_TRY(ff_input_read(input, to, size, &got, error));
    return got == size ? FF_OK : ends_in(input, input->unpacked_bytes, what, error);
}

ff_status ff_input_skip_to(ff_input *input, uint64_t offset, const char *what, ff_error *error) {
    unsigned char skipped[SKIP_BYTES];
    while (input->compressed && input->unpacked_bytes < offset) {
        const uint64_t left = offset - input->unpacked_bytes;
        const size_t part = left < sizeof skipped ? (size_t)left : sizeof skipped;
        FF_TRY(ff_input_exactly(input, skipped, part, what, error));
    }
    if (input->compressed) return FF_OK;
    const uint64_t left = offset - input->unpacked_bytes;
    if (offset > input->file_bytes) return ends_in(input, input->file_bytes, what, error);
    if (left <= input->zlib.avail_in) {
        input->zlib.next_in += left;
        input->zlib.avail_in -= (uInt)left;
    } else {
        input->read_bytes = offset;
        input->zlib.avail_in = 0;
        input->fill_bytes = AFTER_SKIP_BYTES;
    }
    input->unpacked_bytes = offset;
    return FF_OK;
}

static ff_status unpack(ff_input *input, const char *temporary, int *fd, uint64_t *bytes,
                        ff_error *error) {
    FF_TRY(ff_open_temporary(temporary, fd, error));
    char *chunk;
    FF_TRY(ff_alloc_aligned(&chunk, CHUNK_BYTES, 1, 0, "unpacking", error));
    ff_status status = FF_OK;
    for (size_t got = CHUNK_BYTES; got == CHUNK_BYTES; *bytes += got) {
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_input_read(input, chunk, CHUNK_BYTES, &got, error));
        FF_TRY_DONE(ff_write_temporary(*fd, temporary, chunk, got, *bytes, error));
    }
done:
    free(chunk);
    return status;
}

ff_status ff_input_unpack(const char *path, const char *temporary, int *fd, uint64_t *bytes,
                          bool *unpacked, ff_error *error) {
    ff_input *input;
    *fd = -1;
    *bytes = 0;
    FF_TRY(ff_input_open(&input, path, error));
    if (unpacked) *unpacked = input->compressed;
    ff_status status = input->compressed ? unpack(input, temporary, fd, bytes, error)
                                         : ff_source_open_file(path, fd, bytes, error);
    ff_input_close(&input);
    if (status != FF_OK) ff_close_file(fd);
    return status;
}

void ff_input_close(ff_input **input) {
    if (!*input) return;
    if ((*input)->compressed && !(*input)->zstd) inflateEnd(&(*input)->zlib);
    ZSTD_freeDCtx((*input)->zstd);
    ff_close_file(&(*input)->fd);
    free((*input)->path);
    free(*input);
    *input = NULL;
}
