/* Generations: where shards belong, which metadata continues which, and a reader that has the set
 * open while it grows. */
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/part.h"
#include "format/reader/verify.h"
#include "format/writer/index.h"
#include "tests/unit/format_set.h"

static void next_metadata(ff_metadata *metadata, uint64_t items) {
    ff_buffer text = {0};
    uint8_t id[16];
    assert_ok(ff_metadata_write(metadata, &text, error));
    ff_id_of(id, text.bytes, text.length);
    assert_ok(ff_metadata_append(metadata, id, items, error));
    ff_buffer_free(&text);
}

/* Against counting positions one by one. */
static void places(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 200; round++) {
        ff_metadata metadata;
        assert_ok(set_metadata(&small_set, &metadata, error));
        metadata.version = FF_FORMAT_VERSION;
        metadata.items_per_block = 1 + (random = set_mix(random, 1)) % 3;
        metadata.items_per_shard =
            metadata.items_per_block * (1 + (random = set_mix(random, 2)) % 4);
        uint64_t counts[5], first_item = 0;
        size_t generations = 1 + (random = set_mix(random, 3)) % 5;
        for (size_t g = 0; g < generations; g++) {
            counts[g] = 1 + (random = set_mix(random, 4)) % 30;
            if (g)
                next_metadata(&metadata, counts[g]);
            else
                metadata.items = counts[g];
        }
        uint32_t shard = 0;
        for (size_t g = 0; g < generations; g++) {
            for (uint64_t at = 0; at < counts[g]; at += metadata.items_per_shard, shard++) {
                ff_shard_place place = ff_metadata_shard_place(&metadata, shard);
                uint64_t left = counts[g] - at;
                assert_int_equal(place.generation, g);
                assert_int_equal(place.first_position, first_item + at);
                assert_int_equal(place.position_count,
                                 left < metadata.items_per_shard ? left : metadata.items_per_shard);
                assert_int_equal(place.first_item, first_item);
                assert_int_equal(place.end_item, first_item + counts[g]);
            }
            first_item += counts[g];
        }
        assert_int_equal(ff_metadata_shard_count(&metadata), shard);
        ff_metadata copy;
        assert_ok(ff_metadata_copy(&copy, &metadata, error));
        assert_int_equal(copy.generation_count, generations - 1);
        ff_metadata_free(&copy);
        ff_metadata_free(&metadata);
    }
}

static void refuse(const char *old, const char *text, const char *sentence) {
    static const char sound[] = "ffpack-metadata 1\n"
                                "split \n"
                                "sample dtype=u8 layout=chw channels=1 height=2 width=2 variable=0 "
                                "alignment=64\n"
                                "shards items=10 per_shard=4 per_block=2\n"
                                "generation items=5 shards=2 id=00112233445566778899aabbccddeeff\n"
                                "generation items=6 shards=3 id=ff112233445566778899aabbccddeeff\n";
    char changed[1024];
    ff_metadata metadata;
    const char *at = strstr(sound, old);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - sound), sound, text, at + strlen(old));
    if (sentence) {
        assert_fails(ff_metadata_read(&metadata, changed, strlen(changed), error), FF_BAD_DATA,
                     sentence);
        return;
    }
    assert_ok(ff_metadata_read(&metadata, changed, strlen(changed), error));
    ff_metadata_free(&metadata);
}

static void refusals(void **state) {
    (void)state;
    refuse("items=5", "items=5", NULL);
    refuse("ffpack-metadata 1", "ffpack-metadata 0", "version 0 has none");
    refuse("ffpack-metadata 1", "ffpack-metadata 2", "format version 2");
    refuse("ffpack-metadata 1", "ffpack-metadata 01", "format version 01");
    refuse("items=5", "items=0", "0 items, wanted more than 0");
    refuse("items=6", "items=5", "5 items, wanted more than 5");
    refuse("items=6", "items=10", "and fewer than 10");
    refuse("shards=2", "shards=1", "1 shards for 5 items, wanted 2");
    refuse("shards=3", "shards=4000000000", "shards is not a number");
    refuse("id=00", "id=0", "31 hexadecimal digits, wanted 32");
    refuse("id=00112233445566778899aabb", "id=00112233445566778899AABB", "not in canonical form");
    refuse("id=00", "di=00", "wanted id=");
    refuse("eff\ngen", "eff \ngen", "hexadecimal");
    refuse("\ngeneration items=5", "\nmean 00000000\ngeneration items=5", "");
}

/* Every line must be the same, except those that may differ. */
static void continuing(void **state) {
    (void)state;
    ff_metadata older, newer, other;
    ff_buffer text = {0};
    uint8_t id[16];
    assert_ok(set_metadata(&small_set, &older, error));
    assert_ok(ff_metadata_copy(&newer, &older, error));
    assert_ok(ff_metadata_write(&older, &text, error));
    ff_id_of(id, text.bytes, text.length);
    next_metadata(&newer, 3);
    assert_ok(ff_metadata_add_provenance(&newer, "source", "more", error));
    assert_ok(ff_metadata_continues(&older, id, &newer, "here", error));
    id[0] ^= 1;
    assert_fails(ff_metadata_continues(&older, id, &newer, "here", error), FF_BAD_DATA,
                 "here: its metadata names no generation of this set");
    id[0] ^= 1;
    assert_ok(ff_metadata_copy(&other, &newer, error));
    other.layout = FF_HWC;
    assert_fails(ff_metadata_continues(&older, id, &other, "here", error), FF_BAD_DATA,
                 "wanted 'sample dtype=f16 layout=hwc");
    other.layout = FF_CHW;
    other.width++;
    assert_fails(ff_metadata_continues(&older, id, &other, "here", error), FF_BAD_DATA, "width=7");
    other.width--;
    assert_ok(ff_metadata_add_class(&other, 0, "added", error));
    assert_ok(ff_metadata_continues(&older, id, &other, "here", error));
    other.field[0].class_name[0][0] ^= 1;
    assert_fails(ff_metadata_continues(&older, id, &other, "here", error), FF_BAD_DATA, "class");
    other.field[0].class_name[0][0] ^= 1;
    other.field[0].class_count -= 2;
    assert_fails(ff_metadata_continues(&older, id, &other, "here", error), FF_BAD_DATA, "classes=");
    other.field[0].class_count += 2;
    assert_ok(ff_metadata_add_transform(&other, "later", error));
    assert_fails(ff_metadata_continues(&older, id, &other, "here", error), FF_BAD_DATA, "later");
    assert_fails(ff_metadata_continues(&newer, id, &older, "here", error), FF_BAD_DATA,
                 "names no generation");
    ff_metadata_free(&other);
    ff_metadata_free(&newer);
    ff_metadata_free(&older);
    ff_buffer_free(&text);
}

static void write_generation(const set_spec *spec, const ff_metadata *metadata,
                             const char *folder) {
    ff_writer_result result;
    assert_ok(packed_write(folder, metadata, NULL, set_add, spec, &result, error));
    assert_int_equal(result.sample_count, metadata->items);
}

static void check_all(const set_spec *spec, ff_dataset *dataset, uint64_t count) {
    ff_reader *reader;
    assert_int_equal(ff_dataset_count(dataset), count);
    assert_ok(ff_reader_open(&reader, dataset, error));
    for (uint64_t i = 0; i < count; i++) set_check_sample(spec, dataset, reader, i, i);
    ff_reader_close(&reader);
}

/* Also from a set of version 0, raw and compressed. */
static void growing(void **state) {
    (void)state;
    for (int which = 0; which < 8; which++) {
        set_spec spec = small_set;
        if (which & 1) spec.zstd = true;
        if (which & 1) spec.filter = FF_FILTER_SHUFFLE;
        if (which & 2) spec.variable = true;
        char *folder = new_folder();
        ff_metadata metadata;
        ff_dataset *old, *middle, *now;
        assert_ok(set_metadata(&spec, &metadata, error));
        metadata.version = which & 4 ? FF_FORMAT_VERSION : 0;
        write_generation(&spec, &metadata, folder);
        assert_ok(ff_dataset_open(&old, folder, FF_VERIFY_FIRST, error));
        next_metadata(&metadata, 9);
        write_generation(&spec, &metadata, folder);
        assert_ok(ff_dataset_open(&middle, folder, FF_VERIFY_FIRST, error));
        next_metadata(&metadata, 1);
        write_generation(&spec, &metadata, folder);
        assert_ok(ff_dataset_open(&now, folder, FF_VERIFY_FIRST, error));
        /* No shard was read before. */
        check_all(&spec, old, 20);
        check_all(&spec, middle, 29);
        check_all(&spec, now, 30);
        assert_ok(ff_verify_split(folder, NULL, 2, NULL, NULL, error));
        ff_dataset_close(&old);
        ff_dataset_close(&middle);
        ff_dataset_close(&now);
        ff_metadata_free(&metadata);
        remove_folder(folder);
    }
}

static void part_texts(void **state) {
    (void)state;
    static const char *const wrong[] = {"",    "1",   "/",    "0/1",  "2/1",       "1/0",
                                        "1/x", "x/1", "1/1 ", " 1/1", "1/1000001", "-1/2"};
    ff_part part;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(ff_part_parse(&part, wrong[i], error), FF_USAGE, "--part: '");
    assert_ok(ff_part_parse(&part, "3/7", error));
    assert_int_equal(part.number, 3);
    assert_int_equal(part.count, 7);
    /* The parts' ranges are the whole, in order, whatever the numbers. */
    for (uint32_t shards = 1; shards < 40; shards++)
        for (part.count = 1; part.count < 50; part.count++) {
            uint32_t next = 0, first, end;
            for (part.number = 1; part.number <= part.count; part.number++) {
                ff_part_range(&part, shards, &first, &end);
                assert_int_equal(first, next);
                assert_true(end >= first);
                next = end;
            }
            assert_int_equal(next, shards);
        }
}

static void part_files(void **state) {
    (void)state;
    char *folder = new_folder(), *path = join(folder, FF_PART_NAME);
    ff_part part = {.number = 2, .count = 3, .split = 1, .splits = 2}, found;
    ff_buffer text = {0}, read = {0};
    size_t length;
    assert_ok(ff_buffer_printf(&text, error, "any text\n"));
    assert_ok(ff_part_write(&part, folder, &text, error));
    assert_ok(ff_part_read(&found, folder, &read, error));
    assert_memory_equal(&part, &found, sizeof part);
    assert_string_equal(read.bytes, "any text\n");
    uint8_t *bytes = read_whole(path, &length);
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= 1;
        write_whole(path, bytes, length);
        bytes[i] ^= 1;
        assert_fails(ff_part_read(&found, folder, &read, error), FF_BAD_DATA, "");
    }
    for (size_t i = 0; i < length; i++) {
        write_whole(path, bytes, i);
        assert_fails(ff_part_read(&found, folder, &read, error), FF_BAD_DATA, "");
    }
    free(bytes);
    free(path);
    ff_buffer_free(&text);
    ff_buffer_free(&read);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),  cmocka_unit_test(refusals),   cmocka_unit_test(continuing),
        cmocka_unit_test(growing), cmocka_unit_test(part_texts), cmocka_unit_test(part_files),
    };
    return cmocka_run_group_tests_name("generations", tests, NULL, NULL);
}
