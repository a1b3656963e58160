#include "tools/ffinspect/facts/facts.h"

#include <stdlib.h>

enum { UNNAMED_LIMIT = 1 << 16 }; /* classes that are counted in a field without names */

static ff_status prepare(ff_facts *facts, const ff_metadata *metadata, ff_error *error) {
    FF_TRY(ff_alloc(&facts->field, metadata->field_count, sizeof *facts->field, "class counts",
                    error));
    facts->field_count = metadata->field_count;
    for (size_t i = 0; i < metadata->field_count; i++) {
        const ff_field *field = &metadata->field[i];
        ff_class_counts *counts = &facts->field[i];
        counts->minimum = INT64_MAX;
        counts->maximum = INT64_MIN;
        if (field->kind == FF_FIELD_CLASS)
            counts->length = field->class_count ? field->class_count : UNNAMED_LIMIT;
        else if (field->kind == FF_FIELD_MULTI_HOT && ff_field_bytes(field) <= FF_SMALL_LABEL_BYTES)
            counts->length = field->width;
        else
            continue;
        counts->counted = true;
        FF_TRY(
            ff_alloc(&counts->count, counts->length, sizeof *counts->count, "class counts", error));
    }
    return FF_OK;
}

static void count_class(ff_class_counts *counts, int64_t value) {
    if (value < 0) {
        counts->unlabeled++;
        return;
    }
    if (value < counts->minimum) counts->minimum = value;
    if (value > counts->maximum) counts->maximum = value;
    if ((uint64_t)value < counts->length)
        counts->count[value]++;
    else
        counts->other++;
}

static ff_status count_labels(ff_facts *facts, ff_dataset *dataset, ff_reader *reader,
                              uint64_t number, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    for (size_t i = 0; i < metadata->field_count; i++) {
        ff_class_counts *counts = &facts->field[i];
        if (!counts->counted) continue;
        if (metadata->field[i].kind == FF_FIELD_CLASS) {
            int64_t value;
            FF_TRY(ff_dataset_class(dataset, number, i, &value, error));
            count_class(counts, value);
            continue;
        }
        uint8_t value[FF_SMALL_LABEL_BYTES];
        bool any = false;
        FF_TRY(ff_reader_label(reader, number, i, value, error));
        for (size_t k = 0; k < counts->length; k++) {
            if (!value[k]) continue;
            any = true;
            count_class(counts, (int64_t)k);
        }
        if (!any) counts->unlabeled++;
    }
    return FF_OK;
}

static ff_status scan(ff_facts *facts, ff_dataset *dataset, ff_reader *reader, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_entry before = {0};
    facts->in_number_order = true;
    facts->smallest_height = facts->smallest_width = UINT32_MAX;
    for (uint64_t number = 0; number < ff_dataset_count(dataset); number++) {
        ff_entry entry;
        ff_dataset_scan(dataset, number, FF_SCAN_ENTRIES | FF_SCAN_LABELS);
        FF_TRY(ff_dataset_entry(dataset, number, &entry, error));
        if (entry.shard < before.shard ||
            (entry.shard == before.shard && entry.offset < before.offset))
            facts->in_number_order = false;
        if (entry.height < facts->smallest_height) facts->smallest_height = entry.height;
        if (entry.width < facts->smallest_width) facts->smallest_width = entry.width;
        if (entry.height > facts->largest_height) facts->largest_height = entry.height;
        if (entry.width > facts->largest_width) facts->largest_width = entry.width;
        facts->tensor_bytes += ff_metadata_tensor_bytes(metadata, entry.height, entry.width);
        before = entry;
        FF_TRY(count_labels(facts, dataset, reader, number, error));
    }
    return FF_OK;
}

ff_status ff_inspect_facts(ff_facts *facts, ff_dataset *dataset, ff_error *error) {
    *facts = (ff_facts){.file_bytes = ff_dataset_index_bytes(dataset)};
    FF_TRY(prepare(facts, ff_dataset_metadata(dataset), error));
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info info;
        FF_TRY(ff_dataset_shard(dataset, i, &info, error));
        facts->file_bytes += info.file_bytes;
    }
    ff_reader *reader;
    FF_TRY(ff_reader_open(&reader, dataset, error));
    ff_status status = scan(facts, dataset, reader, error);
    ff_reader_close(&reader);
    return status;
}

void ff_inspect_free_facts(ff_facts *facts) {
    for (size_t i = 0; facts->field && i < facts->field_count; i++) free(facts->field[i].count);
    free(facts->field);
    *facts = (ff_facts){0};
}
