/* A shard of any bytes: the index builder and, where it accepts them, the reader and the verifier,
 * which must then find no fault in anything that checksums cover. */
#include "tests/fuzz/set.h"

static void try_shard(const uint8_t *bytes, size_t length, unsigned choice) {
    ff_error error = {0};
    ff_writer_result result;
    fuzz_write("shard-000000.ffs", bytes, length);
    ff_status status = ff_index_build(fuzz_folder, NULL, &result, NULL, &error);
    fuzz_check_error(status, &error);
    if (status != FF_OK) return;
    fuzz_read((ff_verify)(choice % 3));
    (void)fuzz_verify();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    unsigned choice = fuzz_hash(bytes, length);
    fuzz_make_folder();
    try_shard(bytes, length, choice);
    uint8_t *repaired = malloc(length ? length : 1);
    if (!repaired) return 0;
    if (length) memcpy(repaired, bytes, length);
    fuzz_repair_shard(repaired, length);
    if (length && memcmp(repaired, bytes, length) != 0) try_shard(repaired, length, choice);
    free(repaired);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
