#include "tools/ffpack/repair/repair.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/disk/generation.h"
#include "format/disk/set.h"
#include "format/reader/shard_check.h"
#include "format/storage/storage.h"
#include "format/writer/index.h"
#include "tools/ffpack/repair/repair_split.h"
#include "tools/ffpack/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is lost --------------------------------------------------------------------------- */

/* A lost sample with its record. */
typedef struct lost_sample {
    ff_entry entry;
    char *key;
    const char *reason;
    uint64_t before; /* samples with lower items */
} lost_sample;

typedef struct losses {
    const ff_survey *survey;
    const ff_repair_options *options;
    lost_sample *sample;
    size_t count, capacity;
    uint64_t shards_missing, shards_broken;
    bool in_order;     /* the remaining shards hold exactly the items of their positions */
    bool left;         /* there are remaining shards */
    uint64_t *present; /* a bit per item held by a shard; NULL if there are too many items */
} losses;

static bool is_sound(const ff_shard_state *state) {
    return !state->missing && !state->broken;
}

static ff_status add_lost(losses *found, const ff_shard *shard, const ff_entry *entry,
                          const char *reason, ff_error *error) {
    uint8_t key[FF_KEY_LIMIT_BYTES];
    ff_buffer text = {0};
    const ff_section *keys = &shard->footer.section[FF_SHARD_KEYS];
    FF_TRY(ff_reserve(&found->sample, &found->capacity, found->count + 1, sizeof *found->sample,
                      "lost samples", error));
    bool sound = entry->key_bytes <= sizeof key && entry->key_offset <= keys->bytes &&
                 entry->key_bytes <= keys->bytes - entry->key_offset;
    if (sound)
        FF_TRY(ff_mapped_copy(key, &shard->mapped, keys->offset + entry->key_offset,
                              entry->key_bytes, error));
    FF_TRY(ff_buffer_add(&text, "", 0, error));
    FF_TRY(ff_escape(&text, key, sound ? entry->key_bytes : 0, error));
    found->sample[found->count++] =
        (lost_sample){.entry = *entry, .key = text.bytes, .reason = reason};
    return FF_OK;
}

/* Reads an intact shard's records: which items it holds, which of its samples are lost. */
static ff_status read_records(losses *found, uint32_t number, ff_error *error) {
    const ff_survey *survey = found->survey;
    const ff_shard_state *state = &survey->shard[number];
    ff_shard_place place = ff_metadata_shard_place(&survey->metadata, number);
    ff_shard shard;
    FF_TRY(ff_shard_open(&shard, survey->folder, number, error));
    ff_status status = FF_OK;
    found->left |= shard.footer.sample_count > 0;
    for (uint64_t slot = 0; slot < shard.footer.sample_count && status == FF_OK; slot++) {
        ff_entry entry;
        status = ff_shard_record(&shard, slot, &entry, error);
        if (status != FF_OK) break;
        found->in_order &= entry.item >= place.first_position &&
                           entry.item - place.first_position < place.position_count;
        if (found->present && entry.item < survey->metadata.items)
            found->present[entry.item / 64] |= UINT64_C(1) << entry.item % 64;
        for (size_t i = 0; i < state->lost_count && status == FF_OK; i++)
            if (slot >= state->lost[i].first && slot - state->lost[i].first < state->lost[i].count)
                status = add_lost(found, &shard, &entry, state->lost[i].reason, error);
    }
    ff_shard_close(&shard);
    return status;
}

static void tell_shard(const losses *found, uint32_t number) {
    const ff_survey *survey = found->survey;
    const ff_shard_state *state = &survey->shard[number];
    ff_shard_place place = ff_metadata_shard_place(&survey->metadata, number);
    char name[32], items[80] = "";
    uint64_t last = place.first_position + place.position_count - 1;
    ff_shard_name(name, number);
    if (found->in_order && found->left)
        snprintf(items, sizeof items, ", which are items %" PRIu64 " to %" PRIu64,
                 place.first_position, last);
    ff_notice(&found->options->notices, "%s/%s is %s: positions %" PRIu64 " to %" PRIu64 "%s%s%s%s",
              survey->folder, name, state->missing ? "missing" : "broken", place.first_position,
              last, items, state->broken ? " (" : "", state->broken ? state->broken : "",
              state->broken ? ")" : "");
}

/* For samples not stored in the order of their numbers: lists the items that no shard holds. */
static ff_status tell_items(const losses *found, ff_error *error) {
    ff_buffer text = {0};
    uint64_t items = found->survey->metadata.items;
    for (uint64_t item = 0, end; item < items; item = end) {
        bool held = found->present[item / 64] >> item % 64 & 1;
        for (end = item + 1; end < items && (found->present[end / 64] >> end % 64 & 1) == held;)
            end++;
        if (held) continue;
        FF_TRY(ff_buffer_printf(&text, error, "%s%" PRIu64, text.length ? ", " : "", item));
        if (end > item + 1) FF_TRY(ff_buffer_printf(&text, error, "-%" PRIu64, end - 1));
        if (text.length > 4000) {
            FF_TRY(ff_buffer_printf(&text, error, ", ..."));
            break;
        }
    }
    ff_notice(&found->options->notices,
              "%s: items that no shard holds, those left out among them: %s", found->survey->folder,
              text.length ? text.bytes : "none");
    ff_buffer_free(&text);
    return FF_OK;
}

static void tell_sample(const losses *found, const lost_sample *sample, uint64_t number) {
    char text[64];
    if (found->present && !found->shards_missing && !found->shards_broken)
        snprintf(text, sizeof text, "sample %" PRIu64 " (item %" PRIu64, number,
                 sample->entry.item);
    else
        snprintf(text, sizeof text, "a sample (item %" PRIu64, sample->entry.item);
    ff_notice(&found->options->notices, "%s: %s, key %s) is broken: %s", found->survey->folder,
              text, sample->key, sample->reason);
}

/* A lost sample's number is the count of samples with lower items. */
static uint64_t count_below(const losses *found, uint64_t item) {
    uint64_t below = 0;
    for (uint64_t i = 0; i < item / 64; i++)
        below += (uint64_t)__builtin_popcountll(found->present[i]);
    uint64_t mask = (UINT64_C(1) << item % 64) - 1;
    return below + (uint64_t)__builtin_popcountll(found->present[item / 64] & mask);
}

static ff_status tell_losses(losses *found, ff_error *error) {
    const ff_survey *survey = found->survey;
    uint64_t items = survey->metadata.items;
    if (items < UINT64_C(1) << 33)
        FF_TRY(ff_alloc(&found->present, items / 64 + 1, sizeof *found->present, "items", error));
    for (uint32_t i = 0; i < survey->shard_count; i++) {
        const ff_shard_state *state = &survey->shard[i];
        found->shards_missing += state->missing;
        found->shards_broken += state->broken != NULL;
        if (is_sound(state)) FF_TRY(read_records(found, i, error));
    }
    for (uint32_t i = 0; i < survey->shard_count; i++)
        if (!is_sound(&survey->shard[i])) tell_shard(found, i);
    bool lost = found->shards_missing || found->shards_broken;
    if (lost && found->present && found->left && !found->in_order) FF_TRY(tell_items(found, error));
    for (size_t i = 0; i < found->count; i++) {
        const lost_sample *sample = &found->sample[i];
        bool known = found->present && sample->entry.item < items;
        tell_sample(found, sample, known ? count_below(found, sample->entry.item) : 0);
    }
    return ff_fail(error, FF_BAD_DATA,
                   "%s: lost: %" PRIu64 " shards missing, %" PRIu64
                   " broken, and %zu samples in others; nothing was changed",
                   survey->folder, found->shards_missing, found->shards_broken, found->count);
}

static ff_status report_losses(const ff_survey *survey, const ff_repair_options *options,
                               ff_error *error) {
    losses found = {.survey = survey, .options = options, .in_order = true};
    ff_status status = tell_losses(&found, error);
    for (size_t i = 0; i < found.count; i++) free(found.sample[i].key);
    free(found.sample);
    free(found.present);
    return status;
}

/* ---- repairing ------------------------------------------------------------------------------ */

/* Removes incomplete files of a killed writer. */
static ff_status remove_temporaries(const char *folder, uint64_t *removed, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char stem[64], *path;
        uint32_t number;
        const char *name = ff_names_at(&names, i);
        if (!ff_path_stem(stem, sizeof stem, name, FF_TMP_SUFFIX)) continue;
        if (strcmp(stem, FF_INDEX_NAME) != 0 && strcmp(stem, FF_HISTORY_NAME) != 0 &&
            !ff_shard_name_parse(stem, &number))
            continue;
        status = ff_path_join(&path, folder, name, error);
        if (status != FF_OK) break;
        if (unlink(path)) status = ff_fail_errno(error, "%s: cannot remove", path);
        free(path);
        ++*removed;
    }
    ff_names_free(&names);
    return status;
}

static ff_status repair_whole(const ff_survey *survey, const ff_repair_options *options,
                              ff_error *error) {
    ff_writer_result result;
    bool written;
    uint64_t removed = 0;
    FF_TRY(remove_temporaries(survey->folder, &removed, error));
    FF_TRY(ff_index_build(survey->folder, &survey->text, &result, &written, error));
    ff_error unrecorded;
    if (written && ff_history_add(survey->folder, &options->history, NULL, &unrecorded) != FF_OK)
        ff_notice(&options->notices, "%s", unrecorded.message);
    if (written)
        ff_notice(&options->notices,
                  "%s: rebuilt " FF_INDEX_NAME ": %" PRIu64 " samples in %" PRIu64 " shards",
                  survey->folder, result.sample_count, result.shard_count);
    else
        ff_notice(&options->notices,
                  "%s: nothing to repair: %" PRIu64 " samples in %" PRIu64 " shards",
                  survey->folder, result.sample_count, result.shard_count);
    if (removed)
        ff_notice(&options->notices, "%s: removed %" PRIu64 " incomplete files", survey->folder,
                  removed);
    return FF_OK;
}

static ff_status repair_split(const char *folder, const ff_repair_options *options,
                              ff_error *error) {
    FF_TRY(ff_set_refuse_part(folder, error));
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) return ff_fail_errno(error, "%s: cannot open the folder", folder);
    ff_survey survey = {0};
    ff_status status;
    bool unlocked;
    FF_TRY_DONE(ff_lock_folder(lock, folder, &unlocked, error));
    if (unlocked) ff_notice(&options->notices, FF_UNLOCKED, folder);
    FF_TRY_DONE(ff_survey_make(&survey, folder, options->jobs, error));
    if (survey.beyond)
        ff_notice(
            &options->notices,
            "%s: %u shards are of a later generation that was never committed; they are ignored",
            folder, survey.beyond);
    status = ff_survey_is_whole(&survey) ? repair_whole(&survey, options, error)
                                         : report_losses(&survey, options, error);
done:
    ff_survey_free(&survey);
    close(lock);
    return status;
}

ff_status ff_repair_run(const char *path, const ff_repair_options *options, ff_error *error) {
    ff_set set;
    ff_error first = {0};
    FF_TRY(ff_storage_refuse(path, "repair changes", error));
    ff_status status = ff_set_find(&set, path, error);
    if (status == FF_OK && !set.count)
        status = ff_fail(error, FF_BAD_DATA, "%s: holds no shards, and no folder in it does", path);
    for (size_t i = 0; i < set.count; i++) {
        ff_error problem = {0};
        /* A loss in one split does not prevent the repair of others. */
        if (repair_split(set.split[i].path, options, &problem) == FF_OK) continue;
        if (first.status != FF_OK) ff_notice(&options->notices, "%s", problem.message);
        if (first.status == FF_OK) first = problem;
    }
    ff_set_free(&set);
    FF_TRY(status);
    if (first.status != FF_OK && error) *error = first;
    return first.status;
}
