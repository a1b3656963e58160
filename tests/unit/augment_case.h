/* A random case of augmentation on the host, for tests of fast versions against the plain one. */
#ifndef FF_TESTS_AUGMENT_CASE_H
#define FF_TESTS_AUGMENT_CASE_H

#include "loader/augment/host.h"
#include "tests/unit/check.h"
#include "tests/unit/dice.h"

#include <stdlib.h>

typedef struct augment_case {
    ff_augment_spec spec; /* with the sizes: set before augment_case_init */
    uint32_t height, width, out_height, out_width;
    ff_metadata metadata;
    float mean[8], std[8];
    ff_augment_host host;
    ff_augment_params params;
    uint8_t *source; /* exactly source_bytes, so that AddressSanitizer catches reads outside it */
    size_t source_bytes, out_bytes;
} augment_case;

/* Statistics or none, and the parameters of a random sample. Fills `source` with random bytes. */
static inline void augment_case_init(augment_case *c, dice *luck, ff_dtype from,
                                     ff_layout from_layout, uint32_t channels, ff_dtype to,
                                     ff_layout to_layout) {
    assert_ok(ff_augment_check(&c->spec, c->height, c->width, c->out_height, c->out_width, error));
    c->metadata = (ff_metadata){.dtype = from, .layout = from_layout, .channels = channels};
    for (int i = 0; i < 8; i++) c->mean[i] = 0.4f + 0.01f * (float)i, c->std[i] = 0.2f;
    if (roll(luck, 4)) {
        c->metadata.statistics_count = channels;
        c->metadata.mean = c->mean, c->metadata.std = c->std;
    }
    assert_ok(ff_augment_host_init(&c->host, &c->metadata, &c->spec, to, to_layout, c->out_height,
                                   c->out_width, error));
    c->params = ff_augment_at(&c->spec, 1, roll(luck, 3), roll(luck, 100000), c->height, c->width,
                              c->out_height, c->out_width);
    c->source_bytes = (size_t)channels * c->height * c->width * ff_dtype_bytes(from);
    c->out_bytes = (size_t)channels * c->out_height * c->out_width * ff_dtype_bytes(to);
    c->source = malloc(c->source_bytes);
    assert_non_null(c->source);
    for (size_t i = 0; i < c->source_bytes; i += sizeof(ff_random)) {
        ff_random bits = throw_dice(luck, 1003);
        size_t left = c->source_bytes - i;
        memcpy(c->source + i, &bits, left < sizeof bits ? left : sizeof bits);
    }
}

static inline void augment_case_free(augment_case *c) {
    ff_augment_host_free(&c->host);
    free(c->source);
}

/* An output between guards: written from AUGMENT_GUARD on, at a whole cache line. */
enum { AUGMENT_GUARD = 128 };
static inline uint8_t *augment_case_output(const augment_case *c) {
    uint8_t *out = aligned_alloc(64, ff_align_u64(c->out_bytes + 2 * AUGMENT_GUARD, 64));
    assert_non_null(out);
    memset(out, 0xa5, c->out_bytes + 2 * AUGMENT_GUARD);
    return out;
}

/* Checks that both are equal to the last byte, guards included; frees both. */
static inline void augment_case_compare(const augment_case *c, const char *name, uint8_t *plain,
                                        uint8_t *fast) {
    const ff_augment_params *p = &c->params;
    for (size_t i = 0; i < c->out_bytes + 2 * AUGMENT_GUARD; i++) {
        if (plain[i] == fast[i]) continue;
        fail_msg("%s: %s %s to %s %s, %u channels, %ux%u to %ux%u, y %d x %d %u x %u flags %u pad "
                 "%u/%d cutout %u at %d,%d: byte %zd is %02x, wanted %02x",
                 name, ff_dtype_name(c->host.from), ff_layout_name(c->host.from_layout),
                 ff_dtype_name(c->host.to), ff_layout_name(c->host.to_layout), c->host.channels,
                 c->height, c->width, c->out_height, c->out_width, p->y, p->x, p->height, p->width,
                 p->flags, c->spec.pad, (int)c->spec.pad_mode, c->spec.cutout, p->cut_y, p->cut_x,
                 (ssize_t)i - AUGMENT_GUARD, fast[i], plain[i]);
    }
    free(plain);
    free(fast);
}

#endif
