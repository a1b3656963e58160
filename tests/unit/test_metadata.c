/* The metadata's canonical text: round trips, every refusal, comparison, transform_id. */
#include "format/disk/checksum.h"
#include "format/writer/recorded.h"
#include "tests/unit/format_set.h"

#include <math.h>

/* An accepted text, to be changed in one place. */
static const char sound[] = "ffpack-metadata 0\n"
                            "required zstd\n"
                            "optional later\n"
                            "split train\n"
                            "sample dtype=f32 layout=hwc channels=2 height=3 width=4 variable=0 "
                            "alignment=64\n"
                            "shards items=10 per_shard=4 per_block=2\n"
                            "compression zstd level=3 filter=shuffle\n"
                            "mean 3f000000 3e800000\n"
                            "std 3f800000 40000000\n"
                            "transform resize%20size=256\n"
                            "transform normalize\n"
                            "field name=fine kind=class dtype=i32 width=1 classes=2\n"
                            "class cat\n"
                            "class dog%0A\n"
                            "field name=box kind=vector dtype=f32 width=4 classes=0\n"
                            "provenance source cifar\n"
                            "provenance option --a%20b\n";

static void sound_text(void **state) {
    (void)state;
    ff_metadata metadata, copy;
    ff_buffer text = {0};
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    assert_int_equal(metadata.dtype, FF_F32);
    assert_int_equal(metadata.layout, FF_HWC);
    assert_int_equal(metadata.items, 10);
    assert_int_equal(metadata.statistics_count, 2);
    assert_true(metadata.mean[1] == 0.25f && metadata.std[1] == 2.0f);
    assert_string_equal(metadata.transform[0], "resize size=256");
    assert_int_equal(metadata.field_count, 2);
    assert_string_equal(metadata.field[0].class_name[1], "dog\n");
    assert_string_equal(metadata.provenance[1].value, "--a b");
    assert_string_equal(metadata.optional[0], "later");
    assert_ok(ff_metadata_write(&metadata, &text, error));
    assert_string_equal(text.bytes, sound);
    assert_ok(ff_metadata_copy(&copy, &metadata, error));
    text.length = 0;
    assert_ok(ff_metadata_write(&copy, &text, error));
    assert_string_equal(text.bytes, sound);
    ff_metadata_free(&copy);
    ff_metadata_free(&copy); /* zeroed: again */
    ff_metadata_free(&metadata);
    ff_buffer_free(&text);
}

static void extension_lines_are_ignored(void **state) {
    (void)state;
    ff_metadata metadata;
    ff_buffer text = {0};
    assert_ok(ff_buffer_printf(&text, error, "%sx-tomorrow any thing\nx-\n", sound));
    assert_ok(ff_metadata_read(&metadata, text.bytes, text.length, error));
    ff_metadata_free(&metadata);
    ff_buffer_free(&text);
}

static int wrong;

/* `old` replaced by `new` (or, where old is NULL, new appended) must be refused with `part`. */
static void refuse(const char *old, const char *new, const char *part) {
    ff_metadata metadata;
    ff_buffer text = {0};
    const char *at = old ? strstr(sound, old) : sound + sizeof sound - 1;
    if (!at) fail_msg("'%s' is not in the text", old);
    assert_ok(ff_buffer_add(&text, sound, (size_t)(at - sound), error));
    assert_ok(ff_buffer_add(&text, new, strlen(new), error));
    if (old) at += strlen(old);
    assert_ok(ff_buffer_add(&text, at, strlen(at), error));
    ff_error failure = {0};
    ff_status status = ff_metadata_read(&metadata, text.bytes, text.length, &failure);
    if (status != FF_BAD_DATA || !strstr(failure.message, part)) {
        print_error("with '%s': status %d, '%s'; wanted '%s'\n", new, status, failure.message,
                    part);
        wrong++;
    }
    ff_metadata zero = {0};
    if (status == FF_OK) ff_metadata_free(&metadata);
    assert_memory_equal(&metadata, &zero, sizeof zero);
    ff_buffer_free(&text);
}

static void refusals(void **state) {
    (void)state;
    refuse("ffpack-metadata 0", "ffpack-metadata 2",
           "line 1: format version 2; this program knows 0 to 1");
    refuse("ffpack-metadata 0\n", "", "wanted 'ffpack-metadata' and a version");
    refuse("required zstd", "required wavelets%20v2",
           "line 2: needs the feature 'wavelets v2', which this version does not know");
    refuse("required zstd\n", "", "feature zstd is used but not named");
    refuse("required zstd", "required wide-labels", "feature zstd is used");
    refuse("split train\n", "", "'split' is missing");
    refuse("split train\n", "split train\nsplit test\n", "line 5: a second split");
    refuse("split train", "splat train", "unknown word 'splat train'");
    refuse("split train", "split train more", "unexpected text");
    refuse("split train", "split  train", "unexpected text");
    refuse("split train", "split tr%4", "two hexadecimal digits");
    refuse("split train", "split tr%zz", "two hexadecimal digits");
    refuse("split train", "split tr%00", "other than 00");
    refuse("split train", "split%train", "unknown word");
    refuse("dtype=f32", "dtype=f64", "dtype=f64 is not known");
    refuse("dtype=f32 layout", "dtype=i64 layout", "dtype i64, wanted");
    refuse("dtype=f32 ", "", "wanted dtype=");
    refuse("layout=hwc", "layout=whc", "layout=whc is not known");
    refuse("channels=2", "channels=0", "0 channels");
    refuse("channels=2", "channels=4097", "channels is not a number from 0 to 4096");
    refuse("channels=2", "channels=-2", "channels is not a number");
    refuse("channels=2", "channels=", "channels is not a number");
    refuse("channels=2", "channels=2x", "channels is not a number");
    refuse("channels=2", "channels=99999999999999999999999", "channels is too large");
    refuse("channels=2", "channels=02", "canonical");
    refuse("channels=2", "channels=+2", "channels is not a number");
    refuse("channels=2", "channels=3", "value 2 is not 8 hexadecimal digits");
    refuse("height=3", "height=0", "0 x 4 pixels");
    refuse("height=3", "height=1048577", "height is not a number from 0 to 1048576");
    refuse("width=4 ", "width=0 ", "3 x 0 pixels");
    refuse("height=3 width=4", "height=1048576 width=1048576", "is larger than");
    refuse("variable=0", "variable=2", "variable is not a number from 0 to 1");
    refuse("variable=0", "variable=1", "feature variable-size is used");
    refuse("alignment=64", "alignment=128", "alignment 128");
    refuse("alignment=64", "alignment=64 ", "canonical");
    refuse("alignment=64", "alignment=64 x=1", "unexpected text");
    refuse("shards items=10", "shards items=0", "0 items");
    refuse("shards items=10", "shards items=1099511627777", "not a number from 0 to 1099511627776");
    refuse("per_shard=4", "per_shard=0", "not a multiple");
    refuse("per_shard=4", "per_shard=3", "not a multiple of 2");
    refuse("per_block=2", "per_block=0", "not a multiple");
    refuse("items=10 per_shard=4", "items=4000001 per_shard=4", "more than a million");
    refuse("shards items=10 per_shard=4 per_block=2\n", "", "0 items");
    refuse("sample ", "x-sample ", "line 'sample'");
    refuse("zstd level", "lz4 level", "compression that this version does not know");
    refuse("level=3", "level=23", "level is not a number from 0 to 22");
    refuse("filter=shuffle", "filter=wavelet", "filter=wavelet is not known");
    refuse("filter=shuffle", "filter=table", "table: filter=table and no table");
    refuse("mean 3f000000 3e800000\n", "", "mean without std");
    refuse("std 3f800000 40000000\n", "", "mean without std");
    refuse("mean 3f000000 3e800000", "mean 3f000000", "value 1 is not 8");
    refuse("mean 3f000000 3e800000", "mean 3f000000 3e80000", "value 1 is not 8");
    refuse("mean 3f000000 3e800000", "mean 3f000000 3e80000g", "value 1 is not 8");
    refuse("mean 3f000000 3e800000", "mean 3f000000 3e800000 3e800000", "unexpected text");
    refuse("mean 3f000000 3e800000", "mean 3F000000 3e800000", "canonical");
    refuse("mean 3f000000 3e800000", "mean 7fc00000 3e800000", "channel 0 has mean nan");
    refuse("std 3f800000", "std 00000000", "channel 0 has mean 0.5 and std 0");
    refuse("std 3f800000", "std bf800000", "std -1");
    refuse("std 3f800000 40000000\n", "std 3f800000 40000000\nstd 3f800000 40000000\n",
           "a second line of statistics");
    refuse("resize%20size", "resize size", "unexpected text");
    refuse("resize%20size", "resize%2Dsize", "canonical");
    refuse("resize%20size", "resize%ffsize", "canonical");
    refuse("resize%20size", "resize\xffsize", "canonical");
    refuse("kind=class", "kind=klass", "kind=klass is not known");
    refuse("dtype=i32", "dtype=f32", "a class field has dtype f32");
    refuse("dtype=i32 width=1", "dtype=i32 width=2", "a class field has width 2");
    refuse("width=1 classes=2", "width=1 classes=3", "wanted class 2 of 3");
    refuse("width=1 classes=2", "width=1 classes=1", "unknown word 'class dog");
    refuse("width=1 classes=2", "width=1 classes=16777217", "classes is not a number");
    refuse("width=1 classes=2", "width=1 classes=16777216", "wanted class 2 of 16777216");
    refuse("name=fine ", "", "wanted name=");
    refuse("name=fine", "name=box", "there are two of this name");
    refuse("class cat", "class cat tom", "unexpected text");
    refuse("class cat\n", "class cat\nx-between\n", "wanted class 1 of 2");
    refuse("kind=vector dtype=f32 width=4", "kind=none dtype=f32 width=4",
           "does not fit kind none");
    refuse("kind=vector dtype=f32 width=4", "kind=vector dtype=f32 width=0", "does not fit");
    refuse("kind=vector dtype=f32 width=4", "kind=vector dtype=f32 width=5", "wide-labels is used");
    refuse("kind=vector dtype=f32 width=4", "kind=multi-hot dtype=f32 width=4", "wanted u8");
    refuse("kind=vector dtype=f32 width=4", "kind=soft dtype=u8 width=4", "wanted f32");
    refuse("kind=vector dtype=f32 width=4 classes=0", "kind=soft dtype=f32 width=4 classes=1",
           "wanted class 0 of 1");
    refuse("kind=vector dtype=f32 width=4 classes=0\n",
           "kind=soft dtype=f32 width=4 classes=1\nclass a\n", "1 class names for width 4");
    refuse("width=4 classes=0", "width=16777217 classes=0", "width is not a number");
    refuse("provenance source cifar", "provenance source", "canonical");
    refuse("provenance source cifar", "provenance source cifar 10", "unexpected text");
    refuse(NULL, "\n", "unknown word ''");
    refuse(NULL, "provenance a b", "does not end with a newline");
    refuse(NULL, "transform late\n", "canonical"); /* order of lines is fixed */
    refuse(NULL, "required zstd\n", "canonical");
    refuse(NULL,
           "sample dtype=f32 layout=hwc channels=64 height=3 width=4 variable=0 alignment=64\n",
           "a second line 'sample'");
    refuse(NULL, "shards items=10 per_shard=4 per_block=2\n", "canonical");
    refuse(NULL, "compression zstd level=3 filter=shuffle\n", "canonical");
    refuse(NULL, "table 00\n", "2 hexadecimal digits, wanted 2048");
    refuse("split train\n", "split train\ntable 00\n", "before the line 'sample'");
    refuse("split train\n", "split train\nmean 00\n", "before the line 'sample'");
    assert_int_equal(wrong, 0);
    for (size_t length = 0; length < sizeof sound - 1; length++) {
        ff_metadata metadata;
        ff_error error;
        ff_status status = ff_metadata_read(&metadata, sound, length, &error);
        /* Whole lines may be missing from the end: one label or option fewer is valid. */
        bool whole = length && sound[length - 1] == '\n';
        if (!whole) assert_int_equal(status, FF_BAD_DATA);
        ff_metadata_free(&metadata);
    }
    ff_metadata metadata;
    assert_fails(ff_metadata_read(&metadata, sound, FF_METADATA_LIMIT_BYTES + 1, error),
                 FF_BAD_DATA, "bytes, more than");
    char *nul = malloc(sizeof sound);
    memcpy(nul, sound, sizeof sound);
    *strstr(nul, "train") = 0;
    assert_fails(ff_metadata_read(&metadata, nul, sizeof sound - 1, error), FF_BAD_DATA,
                 "canonical");
    free(nul);
}

static void too_many_fields(void **state) {
    (void)state;
    ff_metadata metadata;
    ff_buffer text = {0};
    for (int count = 256; count <= 257; count++) {
        text.length = 0;
        assert_ok(
            ff_buffer_printf(&text, error,
                             "ffpack-metadata 0\nsplit \nsample dtype=u8 layout=chw channels=1 "
                             "height=1 width=1 variable=0 alignment=64\nshards items=1 per_shard=1 "
                             "per_block=1\n"));
        for (int i = 0; i < count; i++)
            assert_ok(ff_buffer_printf(
                &text, error, "field name=f%d kind=class dtype=i64 width=1 classes=0\n", i));
        if (count == 256) {
            assert_ok(ff_metadata_read(&metadata, text.bytes, text.length, error));
            assert_int_equal(ff_metadata_label_row_bytes(&metadata), 256 * 8);
            ff_metadata_free(&metadata);
        } else {
            assert_fails(ff_metadata_read(&metadata, text.bytes, text.length, error), FF_BAD_DATA,
                         "more than 256 fields");
        }
    }
    ff_buffer_free(&text);
}

static void checks_of_a_struct(void **state) {
    (void)state;
    ff_metadata metadata;
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    metadata.dtype = (ff_dtype)99;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA, "dtype ?");
    metadata.dtype = FF_F32;
    metadata.compression = FF_COMPRESSION_NONE;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA, "a filter without compression");
    metadata.compression = FF_COMPRESSION_ZSTD;
    metadata.std[0] = INFINITY;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA, "std: channel 0");
    metadata.std[0] = 1;
    metadata.statistics_count = 1;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA, "1 values for 2 channels");
    metadata.statistics_count = 2;
    assert_ok(ff_metadata_check(&metadata, error));
    ff_metadata_free(&metadata);
}

/* Small and wide labels of this text: fine (4 -> 8 bytes of the row), box (16 bytes of the row). */
static void sizes_and_offsets(void **state) {
    (void)state;
    ff_metadata metadata;
    bool wide;
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    assert_int_equal(ff_metadata_tensor_bytes(&metadata, 3, 4), 96);
    assert_int_equal(ff_metadata_label_row_bytes(&metadata), 24);
    assert_int_equal(ff_metadata_field_offset(&metadata, 1, 3, 4, &wide), 8);
    assert_false(wide);
    assert_ok(ff_metadata_add_field(&metadata, "a", FF_FIELD_MULTI_HOT, FF_U8, 17, error));
    assert_ok(ff_metadata_add_field(&metadata, "b", FF_FIELD_CLASS, FF_I64, 1, error));
    assert_ok(ff_metadata_add_field(&metadata, "c", FF_FIELD_SOFT, FF_F32, 5, error));
    assert_int_equal(ff_metadata_field_offset(&metadata, 2, 3, 4, &wide), 96);
    assert_true(wide);
    assert_int_equal(ff_metadata_field_offset(&metadata, 2, 1, 1, &wide), 16);
    assert_int_equal(ff_metadata_field_offset(&metadata, 3, 3, 4, &wide), 24);
    assert_false(wide);
    assert_int_equal(ff_metadata_field_offset(&metadata, 4, 3, 4, &wide), 128);
    assert_int_equal(ff_metadata_payload_bytes(&metadata, 3, 4), 148);
    assert_int_equal(ff_metadata_slot_bytes(&metadata, 3, 4), 192);
    assert_int_equal(ff_metadata_label_row_bytes(&metadata), 32);
    ff_metadata_free(&metadata);
}

static void planning(void **state) {
    (void)state;
    const struct {
        uint32_t side;
        bool zstd;
        uint64_t shard_bytes, per_block, per_shard;
    } cases[] = {
        {32, false, UINT64_C(64) << 20, 170, 10880}, /* slots of 6 KiB, blocks of 1 MiB */
        {32, true, UINT64_C(64) << 20, 42, 10920},   /* blocks of 256 KiB */
        {224, true, UINT64_C(64) << 20, 1, 222},     /* from 64 KiB: one a frame */
        {32, false, 1, 1, 1},                        /* a shard holds at least one sample */
        {32, false, 100000, 16, 16},                 /* and no block is larger than its shard */
        {1, false, UINT64_C(1) << 40, 16384, 262144},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_metadata metadata = {.dtype = FF_F16, .channels = 3, .items = 100};
        metadata.height = metadata.width = cases[i].side;
        if (cases[i].zstd) metadata.compression = FF_COMPRESSION_ZSTD;
        assert_ok(ff_metadata_plan(&metadata, cases[i].shard_bytes, error));
        assert_int_equal(metadata.items_per_block, cases[i].per_block);
        assert_int_equal(metadata.items_per_shard, cases[i].per_shard);
        assert_int_equal(metadata.required_count, cases[i].zstd);
        assert_int_equal(metadata.alignment, 64);
        ff_metadata_free(&metadata);
    }
    /* At exactly 64 KiB, and just below. */
    for (uint32_t width = 255; width <= 256; width++) {
        ff_metadata metadata = {.dtype = FF_U8,
                                .channels = 1,
                                .height = 256,
                                .width = width,
                                .items = UINT64_C(1) << 34,
                                .compression = FF_COMPRESSION_ZSTD};
        assert_ok(ff_metadata_plan(&metadata, UINT64_C(1) << 34, error));
        assert_int_equal(metadata.items_per_block, width == 256 ? 1 : 4);
        ff_metadata_free(&metadata);
    }
    /* The limits themselves are allowed. */
    ff_metadata metadata = {.dtype = FF_U8, .height = 1, .width = 1, .items = UINT64_C(1) << 37};
    metadata.channels = FF_CHANNELS_LIMIT;
    assert_ok(ff_metadata_plan(&metadata, UINT64_C(1) << 34, error));
    ff_metadata_free(&metadata);
}

/* The limits also apply to what a program puts together, not only to what is read. */
static void most_items(void **state) {
    (void)state;
    ff_metadata metadata;
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    metadata.items_per_shard = UINT64_C(1) << 22;
    metadata.items_per_block = UINT64_C(1) << 20;
    metadata.items = UINT64_C(1) << 40;
    assert_ok(ff_metadata_check(&metadata, error));
    metadata.items++;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA,
                 "shards: 1099511627777 items, wanted 1 to 2^40");
    metadata.items = 0;
    assert_fails(ff_metadata_check(&metadata, error), FF_BAD_DATA, "shards: 0 items");
    ff_metadata_free(&metadata);
}

static void transform_id(void **state) {
    (void)state;
    ff_metadata metadata;
    uint8_t first[16], id[16];
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    assert_ok(ff_metadata_transform_id(&metadata, first, error));
    /* The hash of these lines and no others. */
    static const char lines[] = "mean 3f000000 3e800000\nstd 3f800000 40000000\n"
                                "transform resize%20size=256\ntransform normalize\n"
                                "class cat\nclass dog%0A\n";
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(lines, sizeof lines - 1));
    assert_memory_equal(canonical.digest, first, 16);
    metadata.dtype = FF_U8;
    metadata.layout = FF_CHW;
    assert_ok(ff_metadata_transform_id(&metadata, id, error));
    assert_memory_equal(first, id, 16);
    metadata.mean[0] = nextafterf(metadata.mean[0], 1);
    assert_ok(ff_metadata_transform_id(&metadata, id, error));
    assert_memory_not_equal(first, id, 16);
    ff_metadata_free(&metadata);
}

static void comparison(void **state) {
    (void)state;
    ff_buffer a = {0}, b = {0};
    assert_ok(ff_buffer_printf(&a, error, "one\ntwo\nthree\n"));
    assert_ok(ff_buffer_printf(&b, error, "one\ntwo\nthree\n"));
    assert_ok(ff_metadata_compare("shard", &a, &b, error));
    b.bytes[6] = 'x';
    assert_fails(ff_metadata_compare("shard", &a, &b, error), FF_USAGE,
                 "shard: has 'two', wanted 'twx'");
    b.bytes[6] = 'o';
    assert_ok(ff_buffer_printf(&b, error, "four\n"));
    assert_fails(ff_metadata_compare("shard", &a, &b, error), FF_USAGE, "has '', wanted 'four'");
    assert_fails(ff_metadata_compare("shard", &b, &a, error), FF_USAGE, "has 'four', wanted ''");
    ff_buffer_free(&a);
    ff_buffer_free(&b);
}

static void escapes(void **state) {
    (void)state;
    ff_buffer text = {0};
    uint8_t all[256];
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    assert_ok(ff_escape(&text, all, 256, error));
    assert_int_equal(text.length, 93 + 3 * 163);
    const char *at = text.bytes;
    for (int i = 0; i < 256; i++) {
        char wanted[4];
        if (i > 0x20 && i < 0x7f && i != '%')
            snprintf(wanted, sizeof wanted, "%c", i);
        else
            snprintf(wanted, sizeof wanted, "%%%02X", (unsigned)i);
        assert_memory_equal(at, wanted, strlen(wanted));
        at += strlen(wanted);
    }
    ff_buffer_free(&text);
    /* Every byte but zero survives in a class name. */
    ff_metadata metadata, copy;
    char name[256];
    for (int i = 1; i < 256; i++) name[i - 1] = (char)i;
    name[255] = 0;
    assert_ok(ff_metadata_read(&metadata, sound, sizeof sound - 1, error));
    free(metadata.field[0].class_name[0]);
    assert_ok(ff_copy_string(&metadata.field[0].class_name[0], name, error));
    assert_ok(ff_metadata_copy(&copy, &metadata, error));
    assert_string_equal(copy.field[0].class_name[0], name);
    ff_metadata_free(&copy);
    ff_metadata_free(&metadata);
}

/* The option that a set's metadata stands for: what it says, or what it means where it is older
 * than the option. */
static void pillow_of_a_set(void **state) {
    (void)state;
    static const struct {
        const char *transform, *fact, *value, *option;
    } cases[] = {
        {NULL, NULL, NULL, NULL}, /* arrays as they are */
        {NULL, "libjpeg-turbo", "2.1.5", "--pillow=12"},
        {NULL, "pillow", "12", "--pillow=12"},
        {NULL, "pillow", "13", "--pillow=13"},
        {"resize size=256 interpolation=bilinear", "source", "cifar", "--pillow=12"},
        {"max_side size=256 interpolation=bicubic", "source", "cifar", "--pillow=12"},
        {"resize size=9 interpolation=bilinear passes=cheaper_first", NULL, NULL, "--pillow=13"},
        {"center_crop size=9x9", "source", "cifar", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_metadata metadata = {.alignment = 64};
        ff_recorded recorded = {0};
        if (cases[i].transform)
            assert_ok(ff_metadata_add_transform(&metadata, cases[i].transform, error));
        if (cases[i].fact)
            assert_ok(ff_metadata_add_provenance(&metadata, cases[i].fact, cases[i].value, error));
        assert_ok(ff_recorded_options(&recorded, &metadata, error));
        const char *found = NULL;
        for (size_t k = 0; k < recorded.count; k++)
            if (!strncmp(recorded.option[k], "--pillow", 8)) found = recorded.option[k];
        if (cases[i].option)
            assert_string_equal(found, cases[i].option);
        else
            assert_null(found);
        ff_recorded_free(&recorded);
        ff_metadata_free(&metadata);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_text),
        cmocka_unit_test(extension_lines_are_ignored),
        cmocka_unit_test(refusals),
        cmocka_unit_test(too_many_fields),
        cmocka_unit_test(checks_of_a_struct),
        cmocka_unit_test(sizes_and_offsets),
        cmocka_unit_test(planning),
        cmocka_unit_test(most_items),
        cmocka_unit_test(transform_id),
        cmocka_unit_test(comparison),
        cmocka_unit_test(escapes),
        cmocka_unit_test(pillow_of_a_set),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
