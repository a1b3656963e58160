/* Round trips of packed sets: every dtype, layout, compression, label kind and order. */
#include "format/disk/checksum.h"
#include "format/reader/dataset.h"
#include "tests/unit/format_set.h"

static void round_trip(const set_spec *spec) {
    char *folder = new_folder();
    ff_writer_result result;
    assert_ok(set_write(spec, folder, &result, error));
    set_check(spec, folder, FF_VERIFY_FIRST);
    set_check(spec, folder, FF_VERIFY_OFF);
    set_check(spec, folder, FF_VERIFY_ALWAYS);
    /* A rebuilt index is the same bytes. */
    char *index = join(folder, FF_INDEX_NAME);
    size_t length, again_length;
    uint8_t *bytes = read_whole(index, &length);
    assert_int_equal(unlink(index), 0);
    ff_writer_result again;
    assert_ok(ff_index_build(folder, NULL, &again, NULL, error));
    uint8_t *again_bytes = read_whole(index, &again_length);
    assert_int_equal(length, again_length);
    assert_memory_equal(bytes, again_bytes, length);
    assert_memory_equal(&result, &again, sizeof result);
    free(bytes);
    free(again_bytes);
    free(index);
    remove_folder(folder);
}

static void dtypes_and_layouts(void **state) {
    (void)state;
    for (int dtype = FF_U8; dtype <= FF_F32; dtype++)
        for (int layout = FF_CHW; layout <= FF_HWC; layout++)
            for (uint32_t channels = 1; channels <= 5; channels++) {
                set_spec spec = small_set;
                spec.dtype = (ff_dtype)dtype;
                spec.layout = (ff_layout)layout;
                spec.channels = channels;
                round_trip(&spec);
            }
}

static void filters(void **state) {
    (void)state;
    for (int dtype = FF_U8; dtype <= FF_F32; dtype++)
        for (int filter = FF_FILTER_NONE; filter < FF_FILTER_COUNT; filter++)
            for (int variable = 0; variable < 2; variable++) {
                set_spec spec = small_set;
                spec.zstd = true;
                spec.dtype = (ff_dtype)dtype;
                spec.layout = (ff_layout)(dtype & 1);
                spec.filter = (ff_filter)filter;
                spec.variable = variable;
                spec.labels = LABELS_ALL;
                round_trip(&spec);
            }
}

static void table_that_does_not_fit(void **state) {
    (void)state;
    set_spec spec = small_set;
    spec.zstd = true;
    spec.filter = FF_FILTER_TABLE;
    spec.misfit = true;
    for (int dtype = FF_U16; dtype <= FF_F32; dtype++) {
        spec.dtype = (ff_dtype)dtype;
        round_trip(&spec);
    }
    spec.per_block = 1;
    round_trip(&spec);
}

static void labels(void **state) {
    (void)state;
    for (int kinds = LABELS_NONE; kinds <= LABELS_ALL; kinds++)
        for (int zstd = 0; zstd < 2; zstd++) {
            set_spec spec = small_set;
            spec.labels = kinds;
            spec.zstd = zstd;
            round_trip(&spec);
        }
}

static void variable_sizes(void **state) {
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++)
        for (uint32_t alignment = 64; alignment <= 4096; alignment *= 64) {
            set_spec spec = small_set;
            spec.variable = true;
            spec.alignment = alignment;
            spec.zstd = zstd;
            spec.height = 40;
            spec.width = 33;
            spec.labels = LABELS_ALL;
            round_trip(&spec);
        }
}

static void orders_and_skips(void **state) {
    (void)state;
    for (int shuffled = 0; shuffled < 2; shuffled++)
        for (int skip = SKIP_NONE; skip <= SKIP_SHARD_1; skip++)
            for (int zstd = 0; zstd < 2; zstd++) {
                set_spec spec = small_set;
                spec.shuffled = shuffled;
                spec.skip = skip;
                spec.zstd = zstd;
                spec.labels = LABELS_ALL;
                spec.items = 37;
                round_trip(&spec);
            }
}

static void planned_sizes(void **state) {
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        set_spec spec = small_set;
        spec.per_block = spec.per_shard = 0;
        spec.items = 1500;
        spec.height = spec.width = 32; /* 6 KiB: shards of 1 MiB */
        spec.zstd = zstd;
        spec.filter = zstd ? FF_FILTER_SHUFFLE : FF_FILTER_NONE;
        spec.shuffled = true;
        round_trip(&spec);
    }
    set_spec spec = small_set;
    spec.per_block = spec.per_shard = 0;
    spec.items = 3;
    spec.channels = 4;
    spec.height = spec.width = 150; /* more than 64 KiB: one sample a frame */
    spec.zstd = true;
    round_trip(&spec);
}

/* More index than one 64 KiB block. */
static void large_index(void **state) {
    (void)state;
    set_spec spec = small_set;
    spec.channels = spec.height = spec.width = 1;
    spec.items = 5000;
    spec.per_block = 100;
    spec.per_shard = 1000;
    spec.labels = LABELS_CLASS;
    round_trip(&spec);
    spec.shuffled = true;
    spec.skip = SKIP_SOME;
    round_trip(&spec);
}

/* The same bytes as an uninterrupted run, wherever the writer was stopped and reopened. */
static void continuing(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        set_spec spec = small_set;
        spec.zstd = i % 2;
        spec.skip = SKIP_SOME;
        spec.shuffled = true;
        uint64_t blocks = i < 2 ? 8 : 7; /* in 4 shards, the last of which may be short */
        spec.items = 4 * blocks - 2;
        char *whole = new_folder(), *command;
        ff_writer_result result;
        assert_ok(set_write(&spec, whole, &result, error));
        ff_metadata metadata;
        assert_ok(set_metadata(&spec, &metadata, error));
        /* After the last block the last shard is only kept if the writer was ended. */
        for (uint64_t stop = 0; stop <= blocks + 1; stop++) {
            const uint64_t kept =
                stop > blocks ? blocks : (stop < blocks ? stop : stop - 1) / 2 * 2;
            char *folder = new_folder();
            ff_writer *writer;
            assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
            assert_int_equal(ff_writer_end_block(writer), blocks);
            assert_ok(packed_append(writer, &metadata, stop, set_add, &spec, error));
            if (stop < blocks)
                assert_fails(ff_writer_commit(writer, &result, error), FF_FAILED, "missing");
            if (stop > blocks) assert_ok(ff_writer_end(writer, error));
            ff_writer_close(&writer);
            assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
            assert_int_equal(ff_writer_next_block(writer), kept);
            assert_ok(packed_append(writer, &metadata, UINT64_MAX, set_add, &spec, error));
            assert_ok(ff_writer_commit(writer, &result, error));
            ff_writer_close(&writer);
            assert_ok(ff_format(&command, error, "diff -r '%s' '%s'", whole, folder));
            assert_int_equal(system(command), 0);
            free(command);
            remove_folder(folder);
        }
        /* After a shard that is gone, others do not count. */
        char *gone = join(whole, "shard-000001.ffs");
        ff_writer *writer;
        assert_int_equal(unlink(gone), 0);
        assert_ok(ff_writer_open(&writer, whole, &metadata, NULL, error));
        assert_int_equal(ff_writer_next_block(writer), 2);
        ff_writer_close(&writer);
        free(gone);
        ff_metadata_free(&metadata);
        remove_folder(whole);
    }
}

/* A writer in a folder that another dataset's shards are in. */
static void other_metadata(void **state) {
    (void)state;
    char *folder = new_folder();
    ff_metadata metadata, other;
    ff_writer *writer;
    assert_ok(set_write(&small_set, folder, NULL, error));
    assert_ok(set_metadata(&small_set, &metadata, error));
    assert_ok(ff_metadata_copy(&other, &metadata, error));
    other.dtype = FF_BF16;
    assert_fails(ff_writer_open(&writer, folder, &other, NULL, error), FF_USAGE, "dtype=f16");
    assert_null(writer);
    assert_fails(ff_writer_open(&writer, folder, &other, NULL, error), FF_USAGE, "dtype=bf16");
    ff_metadata_free(&other);
    assert_ok(ff_metadata_copy(&other, &metadata, error));
    assert_ok(ff_metadata_add_provenance(&other, "option", "--exif", error));
    assert_fails(ff_writer_open(&writer, folder, &other, NULL, error), FF_USAGE,
                 "wanted 'provenance option --exif'");
    ff_metadata_free(&other);
    ff_metadata_free(&metadata);
    remove_folder(folder);
}

static void writer_refusals(void **state) {
    (void)state;
    ff_metadata metadata;
    ff_writer *writer;
    ff_block *block;
    ff_writer_result result;
    void *tensor;
    set_spec spec = small_set;
    assert_ok(set_metadata(&spec, &metadata, error));
    assert_fails(ff_writer_open(&writer, "/nonexistent/folder", &metadata, NULL, error), FF_IO,
                 "/nonexistent/folder");
    char *folder = new_folder();
    assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
    assert_ok(ff_block_create(&block, &metadata, error));
    assert_ok(packed_fill(block, &metadata, 1, set_add, &spec, error));
    assert_fails(ff_writer_append(writer, block, error), FF_FAILED,
                 "block 1 was appended, wanted 0");
    uint8_t label[8] = {0};
    const void *labels[1] = {label};
    char *key = calloc(FF_KEY_LIMIT_BYTES + 1, 1);
    ff_block_sample sample = {.key = key, .key_bytes = FF_KEY_LIMIT_BYTES + 1, .label = labels};
    assert_fails(ff_block_add(block, &sample, &tensor, error), FF_BAD_DATA, "4097 bytes");
    sample.key_bytes = 0;
    sample.item = metadata.items;
    assert_fails(ff_block_add(block, &sample, &tensor, error), FF_FAILED, "item 20 of 20");
    free(key);
    ff_block_destroy(&block);
    ff_writer_close(&writer);

    /* Not one sample. */
    assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
    assert_ok(ff_block_create(&block, &metadata, error));
    for (uint64_t i = 0; i < ff_writer_end_block(writer); i++) {
        ff_block_reset(block, i);
        assert_ok(ff_block_seal(block, error));
        assert_ok(ff_writer_append(writer, block, error));
    }
    assert_fails(ff_writer_commit(writer, &result, error), FF_BAD_DATA, "not one sample");
    ff_writer_close(&writer);
    ff_block_destroy(&block);
    remove_folder(folder);

    /* A side too large in a dataset of variable size. */
    ff_metadata_free(&metadata);
    spec.variable = true;
    assert_ok(set_metadata(&spec, &metadata, error));
    assert_ok(ff_block_create(&block, &metadata, error));
    ff_block_reset(block, 0);
    sample = (ff_block_sample){.height = 6, .width = 7, .key = "", .label = labels};
    assert_fails(ff_block_add(block, &sample, &tensor, error), FF_BAD_DATA, "6 x 7");
    sample.height = 0;
    assert_fails(ff_block_add(block, &sample, &tensor, error), FF_BAD_DATA, "0 x 7");
    ff_block_destroy(&block);
    ff_metadata_free(&metadata);
}

/* The three ids: what they depend on and what they do not. */
static void ids(void **state) {
    (void)state;
    ff_writer_result first, other;
    set_spec spec = small_set;
    char *folder = new_folder();
    assert_ok(set_write(&spec, folder, &first, error));
    remove_folder(folder);
    struct {
        set_spec spec;
        bool content, transform, source; /* stays the same */
    } const cases[] = {
        {.spec = small_set, .content = true, .transform = true, .source = true},
        {.spec = small_set, .content = true, .transform = true, .source = true},
        {.spec = small_set, .content = true, .transform = true, .source = true},
        {.spec = small_set, .content = false, .transform = true, .source = true},
        {.spec = small_set, .content = false, .transform = false, .source = false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spec = cases[i].spec;
        if (i == 0) spec.zstd = true;
        if (i == 1) spec.per_shard = 4;
        if (i == 2) spec.shuffled = true; /* no id depends on the storage order */
        if (i == 3) spec.dtype = FF_U8;
        if (i == 4) spec.channels = 1, spec.seed = 2;
        folder = new_folder();
        assert_ok(set_write(&spec, folder, &other, error));
        assert_int_equal(!memcmp(first.content_id, other.content_id, 16), cases[i].content);
        assert_int_equal(!memcmp(first.transform_id, other.transform_id, 16), cases[i].transform);
        assert_int_equal(!memcmp(first.source_id, other.source_id, 16), cases[i].source);
        remove_folder(folder);
    }
}

/* Other tools read a compressed shard: zstd -d gives the filtered payload. */
static void zstd_reads_shards(void **state) {
    (void)state;
    if (system("zstd --version >/dev/null 2>&1")) skip();
    set_spec spec = small_set;
    spec.zstd = true;
    spec.labels = LABELS_CLASS;
    spec.items = 8;
    char *folder = new_folder(), *command;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_format(&command, error,
                        "zstd -q -d -c '%s'/shard-000000.ffs > '%s'/payload && zstd -q -t "
                        "'%s'/shard-000000.ffs --format=zstd",
                        folder, folder, folder));
    assert_int_equal(system(command), 0);
    free(command);
    char *path = join(folder, "payload");
    size_t length;
    uint8_t *bytes = read_whole(path, &length), tensor[3 * 5 * 7 * 2];
    assert_int_equal(length, 8 * sizeof tensor);
    for (uint64_t i = 0; i < 8; i++) {
        set_tensor(&spec, i, tensor);
        assert_memory_equal(tensor, bytes + i * sizeof tensor, sizeof tensor);
    }
    free(bytes);
    free(path);
    remove_folder(folder);
}

static void reader_refusals(void **state) {
    (void)state;
    ff_dataset *dataset;
    ff_entry entry;
    ff_shard_info info;
    size_t field;
    char *folder = new_folder();
    assert_fails(ff_dataset_open(&dataset, "/nonexistent", FF_VERIFY_FIRST, error), FF_IO,
                 "/nonexistent: no such folder");
    assert_null(dataset);
    assert_fails(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error), FF_BAD_DATA,
                 "is not a packed dataset");
    char *split = join(folder, "train");
    assert_int_equal(mkdir(split, 0777), 0);
    assert_ok(set_write(&small_set, split, NULL, error));
    assert_fails(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error), FF_BAD_DATA, "/train");
    assert_ok(ff_dataset_open(&dataset, split, FF_VERIFY_FIRST, error));
    assert_fails(ff_dataset_entry(dataset, 20, &entry, error), FF_USAGE, "sample 20");
    assert_fails(ff_dataset_shard(dataset, 3, &info, error), FF_USAGE, "shard 3 of 3");
    assert_fails(ff_dataset_field(dataset, "fine", &field, error), FF_USAGE, "it has class");
    assert_ok(ff_dataset_field(dataset, NULL, &field, error));
    assert_ok(ff_dataset_field(dataset, "class", &field, error));
    ff_dataset_close(&dataset);
    ff_dataset_close(&dataset);
    free(split);
    remove_folder(folder);
}

/* A missing, swapped, foreign or older shard. */
static void wrong_shards(void **state) {
    (void)state;
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    ff_writer_result result;
    char *folder = new_folder(), *other = new_folder(), *command;
    set_spec spec = small_set;
    assert_ok(set_write(&small_set, folder, &result, error));
    spec.seed = 2;
    assert_ok(set_write(&spec, other, &result, error));
    char *path = join(folder, "shard-000001.ffs"), *away = join(folder, "away");
    assert_int_equal(rename(path, away), 0);
    assert_fails(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error), FF_IO,
                 "shard-000001.ffs: cannot stat");
    assert_fails(ff_index_build(folder, NULL, &result, NULL, error), FF_IO, "shard-000001.ffs");
    assert_ok(ff_format(&command, error, "cp '%s'/shard-000000.ffs '%s'", folder, path));
    assert_int_equal(system(command), 0);
    free(command);
    assert_fails(ff_index_build(folder, NULL, &result, NULL, error), FF_BAD_DATA,
                 "holds shard 0, wanted 1");
    assert_ok(ff_format(&command, error, "cp '%s'/shard-000001.ffs '%s'", other, path));
    assert_int_equal(system(command), 0);
    free(command);
    assert_fails(ff_verify_split(folder, NULL, 1, NULL, NULL, error), FF_BAD_DATA,
                 "shard-000001.ffs");
    size_t wanted, found;
    free(read_whole(path, &wanted));
    free(read_whole(away, &found));
    if (wanted == found) {
        assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
        assert_ok(ff_reader_open(&reader, dataset, error));
        assert_fails(ff_reader_sample(reader, 8, &view, error), FF_BAD_DATA, "another shard");
        assert_ok(ff_reader_sample(reader, 7, &view, error));
        ff_reader_close(&reader);
        ff_dataset_close(&dataset);
    }
    free(path);
    free(away);
    remove_folder(folder);
    remove_folder(other);
}

/* Flips one bit of the byte at an offset of a file in the folder; the same call restores it. */
static void flip(const char *folder, const char *name, uint64_t offset) {
    char *path = join(folder, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte != EOF);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    free(path);
}

/* Damage is found in each damaged sample and in no other, whatever was read and found sound
 * before. */
static void damaged_samples(void **state) {
    (void)state;
    set_spec spec = small_set;
    spec.items = 64;
    char *folder = new_folder();
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    for (uint64_t i = 0; i < spec.items; i++) {
        ff_entry entry;
        char name[32];
        assert_ok(ff_dataset_entry(dataset, i, &entry, error));
        ff_shard_name(name, entry.shard);
        if (set_mix(5, i) % 3 == 0) flip(folder, name, entry.offset + i);
    }
    ff_dataset_close(&dataset);
    for (int verify = FF_VERIFY_OFF; verify <= FF_VERIFY_ALWAYS; verify++) {
        assert_ok(ff_dataset_open(&dataset, folder, (ff_verify)verify, error));
        assert_ok(ff_reader_open(&reader, dataset, error));
        for (int round = 0; round < 4; round++)
            for (uint64_t i = 0; i < spec.items; i++) {
                char part[48];
                bool damaged = set_mix(5, i) % 3 == 0;
                if (damaged != round % 2) continue; /* the sound ones, the damaged ones, again */
                snprintf(part, sizeof part, "sample %u has checksum", (unsigned)i);
                if (damaged && verify != FF_VERIFY_OFF)
                    assert_fails(ff_reader_sample(reader, i, &view, error), FF_BAD_DATA, part);
                else
                    assert_ok(ff_reader_sample(reader, i, &view, error));
            }
        ff_reader_close(&reader);
        ff_dataset_close(&dataset);
    }
    remove_folder(folder);
}

/* Reads everything in the index: must fail if any byte of it is damaged. */
static ff_status read_index_through(const char *folder, ff_error *error) {
    ff_dataset *dataset;
    ff_status status = ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error);
    if (status != FF_OK) return status;
    for (uint64_t i = 0; i < ff_dataset_count(dataset) && status == FF_OK; i++) {
        uint8_t key[FF_KEY_LIMIT_BYTES];
        size_t key_bytes;
        int64_t value;
        status = ff_dataset_key(dataset, i, key, &key_bytes, error);
        if (status == FF_OK) status = ff_dataset_class(dataset, i, 0, &value, error);
    }
    ff_dataset_close(&dataset);
    return status;
}

/* Metadata, entries and keys of several 64 KiB blocks each: every block that a range touches is
 * checked before anything of the range is used. */
static void damaged_index(void **state) {
    (void)state;
    set_spec spec = small_set;
    spec.channels = spec.height = spec.width = 1;
    spec.items = 5000;
    spec.per_block = 100;
    spec.per_shard = 1000;
    ff_metadata metadata;
    assert_ok(set_metadata(&spec, &metadata, error));
    for (int i = 0; i < 4000; i++) {
        char value[64];
        snprintf(value, sizeof value, "the value of a long list of options, number %d", i);
        assert_ok(ff_metadata_add_provenance(&metadata, "option", value, error));
    }
    char *folder = new_folder(), *path = join(folder, FF_INDEX_NAME);
    ff_writer *writer;
    ff_writer_result result;
    ff_index_header header;
    assert_ok(ff_writer_open(&writer, folder, &metadata, NULL, error));
    assert_ok(packed_append(writer, &metadata, UINT64_MAX, set_add, &spec, error));
    assert_ok(ff_writer_commit(writer, &result, error));
    ff_writer_close(&writer);
    ff_metadata_free(&metadata);
    size_t length;
    uint8_t *bytes = read_whole(path, &length);
    assert_ok(ff_index_header_decode(&header, bytes, length, path, error));
    const ff_section *section = header.section;
    assert_true(section[FF_INDEX_METADATA].bytes > 3 * FF_INDEX_BLOCK_BYTES);
    assert_true(section[FF_INDEX_KEYS].bytes > 2 * FF_INDEX_BLOCK_BYTES);
    assert_ok(read_index_through(folder, error));
    for (int s = 0; s < FF_INDEX_SECTIONS; s++)
        for (uint64_t at = section[s].bytes; at > 0; at = at > 20011 ? at - 20011 : 0) {
            flip(folder, FF_INDEX_NAME, section[s].offset + at - 1);
            assert_fails(read_index_through(folder, error), FF_BAD_DATA, "checksum");
            flip(folder, FF_INDEX_NAME, section[s].offset + at - 1);
        }
    /* A key that crosses a border, damaged after it, read before anything else of that block. */
    ff_dataset *dataset;
    int crossing = 0;
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_OFF, error));
    for (uint64_t i = 0; i < spec.items; i++) {
        ff_entry entry;
        assert_ok(ff_dataset_entry(dataset, i, &entry, error));
        uint64_t first = section[FF_INDEX_KEYS].offset + entry.key_offset - FF_HEADER_BYTES;
        uint64_t last = first + entry.key_bytes - 1;
        if (!entry.key_bytes || first / FF_INDEX_BLOCK_BYTES == last / FF_INDEX_BLOCK_BYTES)
            continue;
        ff_dataset *fresh;
        uint8_t key[FF_KEY_LIMIT_BYTES];
        size_t key_bytes;
        flip(folder, FF_INDEX_NAME, FF_HEADER_BYTES + last);
        assert_ok(ff_dataset_open(&fresh, folder, FF_VERIFY_OFF, error));
        assert_fails(ff_dataset_key(fresh, i, key, &key_bytes, error), FF_BAD_DATA, "checksum");
        ff_dataset_close(&fresh);
        flip(folder, FF_INDEX_NAME, FF_HEADER_BYTES + last);
        crossing++;
    }
    assert_true(crossing >= 2);
    ff_dataset_close(&dataset);
    free(bytes);
    free(path);
    remove_folder(folder);
}

/* A frame's checksum is verified before zstd sees the frame, unless verification is off. */
static void damaged_frames(void **state) {
    (void)state;
    set_spec spec = small_set;
    spec.zstd = true;
    spec.items = 8;
    char *folder = new_folder(), *path = join(folder, "shard-000000.ffs");
    ff_dataset *dataset;
    ff_reader *reader;
    ff_view view;
    assert_ok(set_write(&spec, folder, NULL, error));
    assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_FIRST, error));
    const ff_shard *shard;
    assert_ok(ff_dataset_open_shard(dataset, 0, &shard, error));
    uint64_t end = shard->footer.samples_end;
    ff_dataset_close(&dataset);
    for (uint64_t at = FF_HEADER_BYTES; at < end; at += 7)
        for (int verify = FF_VERIFY_OFF; verify <= FF_VERIFY_FIRST; verify++) {
            flip(folder, "shard-000000.ffs", at);
            assert_ok(ff_dataset_open(&dataset, folder, (ff_verify)verify, error));
            assert_ok(ff_reader_open(&reader, dataset, error));
            ff_status status = FF_OK;
            ff_error failure = {0};
            for (uint64_t i = 0; i < 8 && status == FF_OK; i++)
                status = ff_reader_sample(reader, i, &view, &failure);
            bool named = strstr(failure.message, "the frame has checksum") != NULL;
            assert_int_equal(named, verify == FF_VERIFY_FIRST);
            if (named) assert_int_equal(status, FF_BAD_DATA);
            ff_reader_close(&reader);
            ff_dataset_close(&dataset);
            flip(folder, "shard-000000.ffs", at);
        }
    set_check(&spec, folder, FF_VERIFY_FIRST);
    free(path);
    remove_folder(folder);
}

/* No index is built from shards whose records are impossible, although their checksums match. */
static void wrong_records(void **state) {
    (void)state;
    set_spec spec = small_set;
    static const struct {
        const char *what;     /* for readers */
        size_t offset, bytes; /* in a record */
        uint64_t value;
        const char *part;
    } cases[] = {
        {"an item of another record", 0, 8, 8, "item 8 is there twice"},
        {"the last item", 0, 8, 19, "item 19 is there twice"},
        {"an item beyond the last", 0, 8, 20, "record 1 is out of range"},
        {"another shard", 56, 4, 0, "record 1 is out of range"},
        {"a key of too many bytes", 60, 2, FF_KEY_LIMIT_BYTES + 1, "record 1 is out of range"},
        {"a key after the keys", 40, 8, 1 << 20, "record 1 is out of range"},
        {"another height", 48, 4, 6, "is 6 x 7, wanted 5 x 7"},
        {"another width", 52, 4, 6, "is 5 x 6, wanted 5 x 7"},
        {"a byte more", 16, 8, 211, "has 211 bytes, wanted 210"},
        {"a place within the header", 8, 8, 4032, "outside of the samples"},
        {"a place that is not aligned", 8, 8, 4096 + 32, "outside of the samples"},
        {"a place beyond the samples", 8, 8, 1 << 20, "outside of the samples"},
        {"a reserved byte", 62, 1, 1, "record 1 is out of range"},
    };
    char *folder = new_folder(), *path = join(folder, "shard-000001.ffs");
    ff_writer_result result;
    ff_shard shard;
    ff_shard_footer footer;
    size_t length;
    assert_ok(set_write(&spec, folder, &result, error));
    assert_ok(ff_shard_open(&shard, folder, 1, error));
    footer = shard.footer;
    uint64_t footer_offset = shard.footer_offset;
    const ff_section records = footer.section[FF_SHARD_RECORDS];
    ff_shard_close(&shard);
    uint8_t *sound = read_whole(path, &length), *bytes = malloc(length);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bytes, sound, length);
        uint8_t value[8];
        ff_store_u64(value, cases[i].value);
        memcpy(bytes + records.offset + FF_ENTRY_BYTES + cases[i].offset, value, cases[i].bytes);
        footer.section[FF_SHARD_RECORDS].checksum =
            ff_checksum(bytes + records.offset, records.bytes);
        ff_shard_footer_encode(&footer, bytes + footer_offset);
        write_whole(path, bytes, length);
        assert_fails(ff_index_build(folder, NULL, &result, NULL, error), FF_BAD_DATA,
                     cases[i].part);
    }
    write_whole(path, sound, length);
    assert_ok(ff_index_build(folder, NULL, &result, NULL, error));
    free(sound);
    free(bytes);
    free(path);
    remove_folder(folder);
}

static void shard_names(void **state) {
    (void)state;
    char name[32];
    uint32_t number = 9;
    ff_shard_name(name, 12);
    assert_string_equal(name, "shard-000012.ffs");
    assert_true(ff_shard_name_parse(name, &number) && number == 12);
    ff_shard_name(name, 1234567);
    assert_true(ff_shard_name_parse(name, &number) && number == 1234567);
    const char *const others[] = {"shard-000012",      "shard-000012.ffs.tmp", "shard-12.ffs",
                                  "shard-0000012.ffs", "shard-000012.ffx",     "shard-00001x.ffs",
                                  "Shard-000012.ffs",  "shard-.ffs",           ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ff_shard_name_parse(others[i], &number)) fail_msg("'%s' is taken", others[i]);
}

/* A folder that holds a shard below or beyond the writer's, or the other kind of committed file. */
static void stale_shards(void **state) {
    (void)state;
    char *whole = new_folder(), *folder = new_folder();
    ff_metadata metadata;
    ff_writer *writer;
    assert_ok(set_write(&small_set, whole, NULL, error)); /* shards 0 to 2 */
    assert_ok(set_metadata(&small_set, &metadata, error));
    const ff_part part = {.number = 2, .count = 3, .splits = 1}; /* shard 1 */
    static const struct {
        const char *name;
        bool part, accepted;
    } cases[] = {
        {"shard-000000.ffs", false, true},  {"shard-000002.ffs", false, true},
        {"shard-000003.ffs", false, false}, {"shard-000004.ffs", false, false},
        {FF_PART_NAME, false, false},       {FF_INDEX_NAME, false, true},
        {"shard-000000.ffs", true, false},  {"shard-000001.ffs", true, true},
        {"shard-000002.ffs", true, false},  {FF_INDEX_NAME, true, false},
        {FF_PART_NAME, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *command, *path = join(folder, cases[i].name);
        char *source = join(whole, cases[i].name);
        if (access(source, F_OK)) {
            free(source);
            source = join(whole, "shard-000000.ffs");
        }
        assert_ok(ff_format(&command, error, "cp '%s' '%s'", source, path));
        assert_int_equal(system(command), 0);
        if (cases[i].accepted)
            assert_ok(
                ff_writer_open(&writer, folder, &metadata, cases[i].part ? &part : NULL, error));
        else
            assert_fails(
                ff_writer_open(&writer, folder, &metadata, cases[i].part ? &part : NULL, error),
                FF_USAGE, cases[i].name);
        ff_writer_close(&writer);
        assert_int_equal(unlink(path), 0);
        free(command);
        free(source);
        free(path);
    }
    ff_metadata_free(&metadata);
    remove_folder(whole);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_and_layouts),
        cmocka_unit_test(filters),
        cmocka_unit_test(table_that_does_not_fit),
        cmocka_unit_test(labels),
        cmocka_unit_test(variable_sizes),
        cmocka_unit_test(orders_and_skips),
        cmocka_unit_test(planned_sizes),
        cmocka_unit_test(large_index),
        cmocka_unit_test(continuing),
        cmocka_unit_test(other_metadata),
        cmocka_unit_test(writer_refusals),
        cmocka_unit_test(ids),
        cmocka_unit_test(zstd_reads_shards),
        cmocka_unit_test(reader_refusals),
        cmocka_unit_test(wrong_shards),
        cmocka_unit_test(damaged_samples),
        cmocka_unit_test(damaged_index),
        cmocka_unit_test(damaged_frames),
        cmocka_unit_test(stale_shards),
        cmocka_unit_test(wrong_records),
        cmocka_unit_test(shard_names),
    };
    return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
