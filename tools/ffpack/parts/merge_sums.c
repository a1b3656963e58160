#include "tools/ffpack/parts/merge_sums.h"

#include "format/base/path.h"
#include "format/disk/kept.h"
#include "format/writer/pending.h"
#include "tools/ffpack/image/stats.h"
#include "tools/ffpack/image/transform.h"

#include <stdlib.h>
#include <string.h>

/* A number of sums.ffp: the bits of low or high (split/part_sums.c). */
static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct adding {
    uint32_t channels;
    ff_stats *total, *own;
    const ff_piece *counted; /* one whose sums are in the total; NULL = none */
    double low, high;
} adding;

static ff_status begin(adding *state, const ff_piece *piece, ff_error *error) {
    ff_metadata metadata;
    FF_TRY(ff_metadata_read(&metadata, piece->text.bytes, piece->text.length, error));
    state->channels = metadata.statistics_count;
    ff_metadata_free(&metadata);
    FF_TRY(ff_stats_create(&state->total, state->channels, error));
    return ff_stats_create(&state->own, state->channels, error);
}

static ff_status add(adding *state, const ff_piece *piece, const ff_kept *kept, const char *path,
                     ff_error *error) {
    if (kept->text.length != piece->text.length ||
        memcmp(kept->text.bytes, piece->text.bytes, piece->text.length) != 0)
        return ff_fail(error, FF_BAD_DATA, "%s: is of another set than %s/" FF_PART_NAME, path,
                       piece->folder);
    if (!kept->note.length) return FF_OK;
    if (!ff_stats_decode(state->own, kept->note.bytes, kept->note.length))
        return ff_fail(error, FF_BAD_DATA, "%s: has no sums of %u channels", path, state->channels);
    ff_stats_merge(state->total, state->own);
    state->counted = piece;
    state->low = double_of(kept->number[0]);
    state->high = double_of(kept->number[1]);
    return FF_OK;
}

/* A part without shards has nothing to add. */
static ff_status add_piece(adding *state, const ff_piece *piece, ff_error *error) {
    char *path;
    ff_kept kept = {0};
    FF_TRY(ff_path_join(&path, piece->folder, FF_SUMS_NAME, error));
    ff_status status = FF_OK;
    if (piece->first < piece->end && !ff_path_exists("%s", path))
        status = ff_fail(error, FF_BAD_DATA, "%s: is missing; pack --part %u/%u again", path,
                         piece->part.number, piece->part.count);
    else if (piece->first < piece->end)
        status = ff_kept_read(&kept, path, error);
    if (status == FF_OK && kept.text.length) status = add(state, piece, &kept, path, error);
    ff_kept_free(&kept);
    free(path);
    return status;
}

/* Completes the shards of a piece that are still pending. */
static ff_status complete(ff_piece *piece, uint32_t channels, const float *mean, const float *std,
                          ff_error *error) {
    ff_metadata metadata;
    ff_buffer text = {0};
    FF_TRY(ff_metadata_read(&metadata, piece->text.bytes, piece->text.length, error));
    ff_status status;
    if (metadata.statistics_count != channels || !metadata.transform_count)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA,
                            "%s/" FF_PART_NAME ": has mean and std of %u channels, wanted %u",
                            piece->folder, metadata.statistics_count, channels));
    FF_TRY_DONE(ff_transform_record_again(&metadata, mean, std, error));
    FF_TRY_DONE(ff_metadata_write(&metadata, &text, error));
    FF_TRY_DONE(ff_pending_complete(piece->folder, &piece->text, &metadata, true, error));
    ff_buffer_free(&piece->text);
    piece->text = text;
    text = (ff_buffer){0};
done:
    ff_buffer_free(&text);
    ff_metadata_free(&metadata);
    return status;
}

static ff_status complete_all(ff_merge_parts *parts, const adding *state, ff_error *error) {
    float *mean, *std = NULL;
    FF_TRY(ff_alloc(&mean, state->channels, sizeof *mean, "statistics", error));
    ff_status status;
    FF_TRY_DONE(ff_alloc(&std, state->channels, sizeof *std, "statistics", error));
    status = ff_stats_finish_range(state->total, state->low, state->high, mean, std, error);
    if (status != FF_OK)
        FF_TRY_DONE(ff_fail_within(error, status, "the sums of the parts, such as %s/" FF_SUMS_NAME,
                                   state->counted->folder));
    for (size_t i = 0; i < parts->count; i++)
        FF_TRY_DONE(complete(&parts->piece[i], state->channels, mean, std, error));
done:
    free(mean);
    free(std);
    return status;
}

ff_status ff_merge_sums(ff_merge_parts *parts, ff_error *error) {
    adding state = {0};
    bool any = false;
    for (size_t i = 0; i < parts->count && !any; i++)
        any = ff_path_exists("%s/" FF_SUMS_NAME, parts->piece[i].folder);
    if (!any) return FF_OK;
    ff_status status;
    FF_TRY_DONE(begin(&state, &parts->piece[0], error));
    for (size_t i = 0; i < parts->count; i++)
        FF_TRY_DONE(add_piece(&state, &parts->piece[i], error));
    status = complete_all(parts, &state, error);
done:
    ff_stats_destroy(&state.total);
    ff_stats_destroy(&state.own);
    return status;
}
