#include "tools/ffinspect/summary.h"

#include "format/base/readable.h"
#include "format/cli/say.h"
#include "tools/ffinspect/facts/facts.h"
#include "tools/ffinspect/facts/history.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/facts/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 24, NAME_LIMIT = 60, TEXT_LIMIT = 200, CHANNELS_LIMIT = 16 };

static bool has_transform(const ff_metadata *metadata, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i < metadata->transform_count; i++) {
        const char *line = metadata->transform[i];
        if (!strncmp(line, word, length) && (!line[length] || line[length] == ' ')) return true;
    }
    return false;
}

const char *ff_inspect_values_sentence(const ff_metadata *metadata) {
    bool real = ff_dtype_is_float(metadata->dtype);
    if (metadata->dtype == FF_U16 && metadata->statistics_count)
        return "raw; mean and std are recorded: the reader scales the values as the transform to_tensor says, then applies (x - mean) / std";
    if (metadata->statistics_count)
        return real ? "already normalized, (x - mean) / std"
                    : "raw; mean and std are recorded: the reader applies (x / 255 - mean) / std";
    if (!real) return "raw; no mean and std are recorded";
    return has_transform(metadata, "to_tensor") ? "scaled to 0..1 (ToTensor), not normalized"
                                                : "as the source had them, not normalized";
}

/* Prints " name " before each fact. */
static void print_head(const char *name) {
    printf("  %-11s ", name);
}

static void print_title(ff_dataset *dataset, const char *name) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    bool chw = metadata->layout == FF_CHW;
    uint32_t channels = metadata->channels, height = metadata->height, width = metadata->width;
    printf("%s: %s of ", name, ff_say_count(ff_dataset_count(dataset), "sample", "samples").text);
    if (metadata->variable_size) printf("up to ");
    if (chw)
        printf("%u x %u x %u", channels, height, width);
    else
        printf("%u x %u x %u", height, width, channels);
    printf(" %s (%s)\n", ff_dtype_name(metadata->dtype),
           chw ? "channels, height, width" : "height, width, channels");
}

static void print_storage(ff_dataset *dataset, const ff_facts *facts) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    uint32_t shards = ff_dataset_shard_count(dataset);
    print_head("on disk");
    printf("%s (%" PRIu64 " bytes) in %s and an index of %s\n",
           ff_say_bytes(facts->file_bytes).text, facts->file_bytes,
           ff_say_count(shards, "shard", "shards").text,
           ff_say_bytes(ff_dataset_index_bytes(dataset)).text);
    print_head("tensors");
    printf("%s raw, ", ff_say_bytes(facts->tensor_bytes).text);
    if (metadata->compression == FF_COMPRESSION_ZSTD)
        printf("compressed to %.3f of that: zstd level %d, filter %s",
               (double)facts->file_bytes / (double)facts->tensor_bytes, metadata->level,
               ff_filter_name(metadata->filter));
    else
        printf("not compressed, each at a multiple of %u bytes", metadata->alignment);
    printf("; %s\n", facts->in_number_order ? "stored in the order of their numbers"
                                            : "stored in another order");
    if (metadata->variable_size) {
        print_head("sizes");
        printf("%u to %u pixels high, %u to %u wide\n", facts->smallest_height,
               facts->largest_height, facts->smallest_width, facts->largest_width);
    }
    uint64_t skipped = metadata->items - ff_dataset_count(dataset);
    if (skipped) {
        print_head("skipped");
        printf("%" PRIu64 " of the source's %s\n", skipped,
               ff_say_count(metadata->items, "item", "items").text);
    }
}

static void print_floats(const char *name, const float *value, uint32_t count) {
    char text[32];
    print_head("");
    printf("%-5s", name);
    for (uint32_t c = 0; c < count && c < CHANNELS_LIMIT; c++)
        printf("%s%s", c ? ", " : "", ff_inspect_float(text, value[c]));
    if (count > CHANNELS_LIMIT) printf(", ... and %u more", count - CHANNELS_LIMIT);
    putchar('\n');
}

/* Prints a class, its name padded to a column, and its count. Names may hold characters of several
 * bytes, so the padding counts characters. */
static ff_status print_class(const ff_field *field, size_t index, uint64_t count, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = FF_OK;
    if (field->class_count) {
        const char *name = field->class_name[index];
        status = ff_readable(&text, name, strlen(name), NAME_LIMIT, error);
    }
    if (status == FF_OK) {
        int wide = 0;
        for (size_t i = 0; i < text.length; i++)
            wide += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
        print_head("");
        printf("%5zu  %s%*s %" PRIu64 "\n", index, text.length ? text.bytes : "",
               wide < NAME_WIDTH ? NAME_WIDTH - wide : 0, "", count);
    }
    ff_buffer_free(&text);
    return status;
}

static ff_status print_classes(const ff_field *field, const ff_class_counts *counts, uint64_t limit,
                               ff_error *error) {
    uint64_t shown = 0, left_out = 0;
    for (size_t i = 0; i < counts->length; i++) {
        if (!field->class_count && !counts->count[i]) continue;
        if (limit && shown >= limit) {
            left_out++;
            continue;
        }
        FF_TRY(print_class(field, i, counts->count[i], error));
        shown++;
    }
    if (left_out) {
        print_head("");
        printf("... and %" PRIu64 " more\n", left_out);
    }
    if (counts->other) {
        print_head("");
        printf("%s of a class from %zu up, to %" PRId64 "\n",
               ff_say_count(counts->other, "sample", "samples").text, counts->length,
               counts->maximum);
    }
    if (counts->unlabeled) {
        print_head("");
        printf("%s without a class\n", ff_say_count(counts->unlabeled, "sample", "samples").text);
    }
    return FF_OK;
}

static ff_status print_field(const ff_field *field, const ff_class_counts *counts, uint64_t limit,
                             ff_error *error) {
    ff_buffer name = {0};
    FF_TRY(ff_readable(&name, field->name, strlen(field->name), NAME_LIMIT, error));
    print_head("label");
    printf("%s: ", name.bytes);
    ff_buffer_free(&name);
    switch (field->kind) {
    case FF_FIELD_CLASS:
        if (field->class_count)
            printf("one of %s\n", ff_say_count(field->class_count, "class", "classes").text);
        else if (counts->maximum >= counts->minimum)
            printf("a class without a name, %" PRId64 " to %" PRId64 "\n", counts->minimum,
                   counts->maximum);
        else
            printf("a class without a name; all samples are unlabeled\n");
        break;
    case FF_FIELD_MULTI_HOT:
        printf("any of %s\n", ff_say_count(field->width, "class", "classes").text);
        break;
    case FF_FIELD_SOFT:
        printf("probabilities of %s\n", ff_say_count(field->width, "class", "classes").text);
        break;
    case FF_FIELD_VECTOR:
        printf("%s of type %s\n", ff_say_count(field->width, "number", "numbers").text,
               ff_dtype_name(field->dtype));
        break;
    default: printf("nothing\n");
    }
    return counts->counted ? print_classes(field, counts, limit, error) : FF_OK;
}

static ff_status print_transforms(const ff_metadata *metadata, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < metadata->transform_count && status == FF_OK; i++) {
        const char *line = metadata->transform[i];
        /* The mean and std above show Normalize's parameters. */
        size_t length = strncmp(line, "normalize ", 10) ? strlen(line) : 9;
        text.length = 0;
        status = ff_readable(&text, line, length, TEXT_LIMIT, error);
        if (status != FF_OK) break;
        print_head(i ? "" : "transforms");
        printf("%zu. %s%s\n", i + 1, text.bytes,
               length == 9 && !ff_dtype_is_float(metadata->dtype) ? " (when read)" : "");
    }
    if (!metadata->transform_count) {
        print_head("transforms");
        printf("none recorded\n");
    }
    ff_buffer_free(&text);
    return status;
}

static ff_status print_provenance(const ff_metadata *metadata, ff_error *error) {
    ff_buffer text = {0};
    ff_status status = FF_OK;
    for (size_t i = 0; i < metadata->provenance_count; i++) {
        const ff_provenance *fact = &metadata->provenance[i];
        text.length = 0;
        FF_TRY_DONE(ff_readable(&text, fact->key, strlen(fact->key), TEXT_LIMIT, error));
        FF_TRY_DONE(ff_buffer_printf(&text, error, ": "));
        FF_TRY_DONE(ff_readable(&text, fact->value, strlen(fact->value), TEXT_LIMIT, error));
        print_head(i ? "" : "made from");
        printf("%s\n", text.bytes);
    }
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status print_history(const ff_dataset *dataset, ff_error *error) {
    ff_buffer lines = {0};
    ff_status status = ff_inspect_history(&lines, dataset, error);
    const char *at = status == FF_OK ? lines.bytes : "";
    for (size_t length; *at; at += length + 1) {
        length = strcspn(at, "\n");
        print_head(at == lines.bytes ? "history" : "");
        printf("%.*s\n", (int)length, at);
    }
    ff_buffer_free(&lines);
    return status;
}

static ff_status print_all(ff_dataset *dataset, const ff_facts *facts, const char *name,
                           uint64_t classes_limit, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_dataset_ids *id = ff_dataset_id(dataset);
    print_title(dataset, name);
    print_storage(dataset, facts);
    print_head("values");
    printf("%s\n", ff_inspect_values_sentence(metadata));
    if (metadata->statistics_count) {
        print_floats("mean", metadata->mean, metadata->statistics_count);
        print_floats("std", metadata->std, metadata->statistics_count);
    }
    FF_TRY(print_transforms(metadata, error));
    for (size_t i = 0; i < metadata->field_count; i++)
        FF_TRY(print_field(&metadata->field[i], &facts->field[i], classes_limit, error));
    if (!metadata->field_count) {
        print_head("label");
        printf("none\n");
    }
    FF_TRY(print_provenance(metadata, error));
    FF_TRY(print_history(dataset, error));
    char text[16];
    print_head("ids");
    printf("content %s, ", ff_inspect_short_id(text, id->content));
    printf("transform %s, ", ff_inspect_short_id(text, id->transform));
    printf("source %s (--json prints all digits)\n", ff_inspect_short_id(text, id->source));
    return FF_OK;
}

ff_status ff_inspect_print_summary(ff_dataset *dataset, const char *name, uint64_t classes_limit,
                                   ff_error *error) {
    ff_facts facts;
    ff_status status;
    FF_TRY_DONE(ff_inspect_facts(&facts, dataset, error));
    FF_TRY_DONE(print_all(dataset, &facts, name, classes_limit, error));
done:
    ff_inspect_free_facts(&facts);
    return status;
}

void ff_inspect_print_stats(const ff_dataset *dataset, const char *name,
                            const ff_channel_stats *stats) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    printf("%s: %s, %s values, %s\n", name,
           ff_say_count(ff_dataset_count(dataset), "sample", "samples").text,
           ff_dtype_name(metadata->dtype), ff_inspect_values_sentence(metadata));
    printf(
        "  channel           mean            std            min            max        NaN        Inf\n");
    for (uint32_t c = 0; c < metadata->channels; c++)
        printf("  %7u %14.8g %14.8g %14.8g %14.8g %10" PRIu64 " %10" PRIu64 "\n", c, stats[c].mean,
               ff_inspect_std(&stats[c]), stats[c].minimum, stats[c].maximum, stats[c].nan_count,
               stats[c].infinity_count);
}
