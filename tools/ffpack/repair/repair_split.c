#include "tools/ffpack/repair/repair_split.h"

#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/reader/shard_check.h"
#include "tools/ffpack/source/source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- choosing the generation ---------------------------------------------------------------- */

/* Checks block `number` of the index against its checksum. */
static bool is_block_right(int file, const ff_index_header *header, uint64_t number) {
    uint8_t *bytes, wanted[8];
    uint64_t end = header->section[FF_INDEX_CHECKSUMS].offset;
    uint64_t begin = FF_HEADER_BYTES + number * FF_INDEX_BLOCK_BYTES;
    uint64_t length = end - begin < FF_INDEX_BLOCK_BYTES ? end - begin : FF_INDEX_BLOCK_BYTES;
    if (ff_alloc(&bytes, FF_INDEX_BLOCK_BYTES, 1, "a block", NULL) != FF_OK) return false;
    bool right = ff_read_at(file, "", bytes, length, begin, NULL) == FF_OK &&
                 ff_read_at(file, "", wanted, 8, end + 8 * number, NULL) == FF_OK &&
                 ff_checksum(bytes, length) == ff_load_u64(wanted);
    free(bytes);
    return right;
}

/* Reads the index's metadata text if header and text are intact: it names the committed generation,
 * whatever else of the index is broken. */
static bool read_index_text(const char *folder, ff_buffer *text, ff_metadata *metadata) {
    char *path;
    uint8_t bytes[FF_HEADER_BYTES];
    ff_index_header header;
    struct stat info;
    if (ff_format(&path, NULL, "%s/" FF_INDEX_NAME, folder) != FF_OK) return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool sound =
        file >= 0 && !fstat(file, &info) &&
        ff_read_at(file, path, bytes, sizeof bytes, 0, NULL) == FF_OK &&
        ff_index_header_decode(&header, bytes, (uint64_t)info.st_size, path, NULL) == FF_OK;
    const ff_section *section = &header.section[FF_INDEX_METADATA];
    sound = sound && section->bytes <= FF_METADATA_LIMIT_BYTES;
    for (uint64_t at = 0; sound && at < section->bytes; at += FF_INDEX_BLOCK_BYTES)
        sound = is_block_right(file, &header, at / FF_INDEX_BLOCK_BYTES);
    sound = sound && ff_reserve(&text->bytes, &text->capacity, section->bytes + 1, 1, "metadata",
                                NULL) == FF_OK;
    sound = sound &&
            ff_read_at(file, path, text->bytes, section->bytes, section->offset, NULL) == FF_OK;
    if (sound) text->length = section->bytes;
    sound = sound && ff_metadata_read(metadata, text->bytes, text->length, NULL) == FF_OK;
    if (file >= 0) close(file);
    free(path);
    return sound;
}

/* Opens a shard and checks by header and footer that it is in its place in this set. */
static ff_status open_shard(const ff_survey *survey, uint32_t number, ff_shard *shard,
                            ff_error *error) {
    uint8_t id[16];
    FF_TRY(ff_shard_open(shard, survey->folder, number, error));
    ff_id_of(id, survey->text.bytes, survey->text.length);
    ff_status status = ff_shard_belongs(shard, &survey->metadata, id, error);
    if (status != FF_OK) ff_shard_close(shard);
    return status;
}

/* Reads the metadata of a shard, if it is intact. */
static bool read_shard_text(const char *folder, uint32_t number, ff_buffer *text,
                            ff_metadata *metadata) {
    ff_shard shard;
    uint8_t id[16] = {0};
    ff_error ignored;
    if (ff_shard_open(&shard, folder, number, &ignored) != FF_OK) return false;
    text->length = 0;
    bool sound = ff_shard_metadata_text(&shard, text, &ignored) == FF_OK;
    if (sound) ff_id_of(id, text->bytes, text->length);
    sound = sound && !memcmp(id, shard.header.metadata_id, sizeof id) &&
            ff_metadata_read(metadata, text->bytes, text->length, &ignored) == FF_OK;
    ff_shard_close(&shard);
    return sound;
}

/* Whether all shards of the survey's metadata exist; with `own` only the shards of its newest
 * generation. */
static bool are_there(const ff_survey *survey, bool own) {
    uint32_t count = ff_metadata_shard_count(&survey->metadata);
    bool there = true;
    for (uint32_t i = own ? ff_metadata_first_shard(&survey->metadata) : 0; i < count && there;
         i++) {
        ff_shard shard;
        ff_error ignored;
        there = open_shard(survey, i, &shard, &ignored) == FF_OK;
        if (there) ff_shard_close(&shard);
    }
    return there;
}

static void take(ff_survey *survey, ff_buffer *text, ff_metadata *metadata) {
    ff_buffer_free(&survey->text);
    ff_metadata_free(&survey->metadata);
    survey->text = *text;
    survey->metadata = *metadata;
    *text = (ff_buffer){0};
    *metadata = (ff_metadata){0};
}

/* Without an index: from the newest generation back, the first whose shards all exist; else the
 * newest whose own shards exist, else the oldest that a shard names. */
static ff_status choose(ff_survey *survey, const uint32_t *number, size_t count, ff_error *error) {
    ff_survey at = {.folder = survey->folder};
    bool have_own = false;
    uint8_t last[16] = {0};
    for (size_t i = count; i-- > 0;) {
        ff_buffer text = {0};
        ff_metadata metadata;
        uint8_t id[16];
        if (!read_shard_text(survey->folder, number[i], &text, &metadata)) {
            ff_buffer_free(&text);
            continue;
        }
        ff_id_of(id, text.bytes, text.length);
        bool again = at.text.length && !memcmp(id, last, sizeof id);
        memcpy(last, id, sizeof id);
        if (again) {
            ff_buffer_free(&text);
            ff_metadata_free(&metadata);
            continue;
        }
        take(&at, &text, &metadata);
        bool whole = are_there(&at, false), own = whole || are_there(&at, true);
        if (whole || !have_own) {
            /* The text, kept in the survey; `at` marks it as read. */
            ff_buffer copy = {0};
            ff_metadata again_metadata;
            FF_TRY(ff_buffer_add(&copy, at.text.bytes, at.text.length, error));
            FF_TRY(ff_metadata_copy(&again_metadata, &at.metadata, error));
            take(survey, &copy, &again_metadata);
        }
        have_own |= own;
        if (whole) break;
    }
    ff_buffer_free(&at.text);
    ff_metadata_free(&at.metadata);
    if (survey->text.length) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: no whole shard describes the set", survey->folder);
}

static int compare(const void *a, const void *b) {
    uint32_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

static ff_status find_generation(ff_survey *survey, ff_error *error) {
    ff_names names;
    uint32_t *number;
    size_t count = 0;
    FF_TRY(ff_names_read(&names, survey->folder, NULL, error));
    ff_status status = ff_alloc(&number, names.count, sizeof *number, "shards", error);
    for (size_t i = 0; status == FF_OK && i < names.count; i++)
        count += ff_shard_name_parse(ff_names_at(&names, i), &number[count]);
    ff_names_free(&names);
    FF_TRY(status);
    if (count) qsort(number, count, sizeof *number, compare);
    survey->committed = read_index_text(survey->folder, &survey->text, &survey->metadata);
    if (!survey->committed) survey->text.length = 0;
    if (!survey->committed) status = choose(survey, number, count, error);
    if (status == FF_OK) {
        survey->shard_count = ff_metadata_shard_count(&survey->metadata);
        for (size_t i = 0; i < count; i++) survey->beyond += number[i] >= survey->shard_count;
    }
    free(number);
    return status;
}

/* ---- checking ---------------------------------------------------------------------------- */

typedef struct check_job {
    ff_survey *survey;
    uint32_t number;
    ff_error *failed;
} check_job;

static void note_lost(void *context, uint64_t first, uint64_t count, const ff_error *problem) {
    check_job *job = context;
    ff_shard_state *state = &job->survey->shard[job->number];
    ff_lost_slots lost = {.first = first, .count = count};
    if (ff_reserve(&state->lost, &state->lost_capacity, state->lost_count + 1, sizeof lost,
                   "lost samples", job->failed) == FF_OK &&
        ff_copy_string(&lost.reason, problem->message, job->failed) == FF_OK)
        state->lost[state->lost_count++] = lost;
}

static void check_shard(void *context, size_t number) {
    ff_survey *survey = context;
    ff_shard_state *state = &survey->shard[number];
    ff_shard shard;
    ff_error problem = {0}, failed = {0};
    char name[32], *path = NULL;
    check_job job = {.survey = survey, .number = (uint32_t)number, .failed = &failed};
    ff_shard_check check = {.metadata = &survey->metadata, .broken = note_lost, .context = &job};
    ff_id_of(check.metadata_id, survey->text.bytes, survey->text.length);
    ff_shard_name(name, (uint32_t)number);
    ff_status status = ff_format(&path, &problem, "%s/%s", survey->folder, name);
    if (status == FF_OK && access(path, F_OK)) {
        state->missing = true;
        free(path);
        return;
    }
    if (status == FF_OK) status = open_shard(survey, (uint32_t)number, &shard, &problem);
    if (status == FF_OK) {
        status = ff_shard_check_run(&check, &shard, &problem);
        ff_shard_close(&shard);
    }
    if (status == FF_OK && failed.status != FF_OK) problem = failed;
    if (problem.status != FF_OK &&
        ff_copy_string(&state->broken, problem.message, &failed) != FF_OK)
        state->missing = true; /* no memory even for a message */
    free(path);
}

ff_status ff_survey_make(ff_survey *survey, const char *folder, int jobs, ff_error *error) {
    survey->folder = folder;
    FF_TRY(find_generation(survey, error));
    FF_TRY(ff_alloc(&survey->shard, survey->shard_count, sizeof *survey->shard, "shards", error));
    return ff_parallel_for(jobs, survey->shard_count, check_shard, survey, error);
}

bool ff_survey_is_whole(const ff_survey *survey) {
    for (uint32_t i = 0; i < survey->shard_count; i++) {
        const ff_shard_state *state = &survey->shard[i];
        if (state->missing || state->broken || state->lost_count) return false;
    }
    return true;
}

void ff_survey_free(ff_survey *survey) {
    for (uint32_t i = 0; survey->shard && i < survey->shard_count; i++) {
        ff_shard_state *state = &survey->shard[i];
        for (size_t k = 0; k < state->lost_count; k++) free(state->lost[k].reason);
        free(state->lost);
        free(state->broken);
    }
    free(survey->shard);
    ff_buffer_free(&survey->text);
    ff_metadata_free(&survey->metadata);
    *survey = (ff_survey){0};
}
