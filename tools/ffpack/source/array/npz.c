/* NPZ: a zip archive of .npy files, stored or deflated, as numpy.savez and savez_compressed write
 * them. Each chosen array is read once through libarchive, which checks its CRC. Stored ones, whose
 * bytes are uncompressed in the archive, stay there; the others are unpacked into temporary
 * space. */
#include "format/base/file.h"
#include "format/base/read.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/array/npy.h"
#include "tools/ffpack/source/array/npy_header.h"

#include "format/cli/interrupt.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 256 * 1024 };

static ff_status read_names(ff_source *source, ff_names *names, ff_error *error) {
    ff_archive *archive;
    ff_archive_member member;
    FF_TRY(ff_archive_open(&archive, source->path, false, error));
    ff_status status;
    for (;;) {
        FF_TRY_DONE(ff_archive_next(archive, &member, error));
        if (!member.name) break;
        if (member.kind == FF_ARCHIVE_FOLDER) continue;
        if (member.kind == FF_ARCHIVE_FILE && ff_npy_stem(member.name) && !strchr(member.name, '/'))
            FF_TRY_DONE(ff_names_add(names, member.name, strlen(member.name), error));
        else
            FF_TRY_DONE(ff_left_out_file(&source->left_out, member.name, error));
    }
done:
    ff_archive_close(&archive);
    return status;
}

/* The chosen array that the member is; NULL = none. */
static ff_array *find_array(ff_npy_choice *choice, const ff_names *names, const char *member,
                            const char **path) {
    for (size_t i = 0; i < choice->count; i++) {
        ff_array_set *set = &choice->set[i];
        *path = set->images_path;
        if (!strcmp(member, ff_names_at(names, choice->images[i]))) return &set->images;
        *path = set->labels_path;
        if (set->labeled && !strcmp(member, ff_names_at(names, choice->labels[i])))
            return &set->labels;
    }
    return NULL;
}

/* A pass over the archive. */
typedef struct npz_pass {
    ff_source *source;
    ff_archive *archive;
    char *chunk, *found; /* [CHUNK_BYTES] of a member, and of the archive at the same offset */
    int fd;              /* the archive itself, which is part `part` */
    uint32_t part;
    uint64_t file_bytes;
} npz_pass;

/* Whether the chunk's `size` bytes are at `offset` of the archive. */
static ff_status compare(npz_pass *pass, uint64_t offset, size_t size, bool *same,
                         ff_error *error) {
    *same = offset <= pass->file_bytes && size <= pass->file_bytes - offset;
    if (!*same) return FF_OK;
    FF_TRY(ff_read_at(pass->fd, pass->source->path, pass->found, size, offset, error));
    *same = !memcmp(pass->found, pass->chunk, size);
    return FF_OK;
}

static ff_status take_member(npz_pass *pass, const ff_archive_member *member, const char *path,
                             ff_array *array, ff_error *error) {
    const char *temporary = pass->source->temporary;
    int fd = pass->fd;
    uint32_t part = pass->part;
    uint64_t bytes = 0, begin = member->offset;
    bool stored = false;
    for (size_t got = CHUNK_BYTES; got == CHUNK_BYTES; bytes += got) {
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_archive_read(pass->archive, pass->chunk, CHUNK_BYTES, &got, error));
        bool same = false, first = bytes == 0;
        if (first || stored) FF_TRY(compare(pass, begin + bytes, got, &same, error));
        if (stored && !same)
            return ff_fail(error, FF_BAD_DATA, "%s: changed while it was read", path);
        if (first) stored = same;
        if (stored) continue;
        if (first) {
            begin = 0;
            FF_TRY(ff_open_temporary(temporary, &fd, error));
            FF_TRY(ff_source_add_part(pass->source, path, fd, &part, error));
        }
        FF_TRY(ff_write_temporary(fd, temporary, pass->chunk, got, bytes, error));
    }
    FF_TRY(ff_npy_read(fd, path, begin, bytes, array, error));
    array->part = part;
    return FF_OK;
}

static ff_status run_pass(npz_pass *pass, ff_npy_choice *choice, const ff_names *names,
                          ff_error *error) {
    const char *path = pass->source->path;
    FF_TRY(ff_alloc(&pass->chunk, CHUNK_BYTES, 1, "unpacking", error));
    FF_TRY(ff_alloc(&pass->found, CHUNK_BYTES, 1, "unpacking", error));
    FF_TRY(ff_source_open_file(path, &pass->fd, &pass->file_bytes, error));
    FF_TRY(ff_source_add_part(pass->source, path, pass->fd, &pass->part, error));
    FF_TRY(ff_archive_open(&pass->archive, path, false, error));
    for (;;) {
        ff_archive_member member;
        FF_TRY(ff_archive_next(pass->archive, &member, error));
        if (!member.name) return FF_OK;
        if (member.kind != FF_ARCHIVE_FILE) continue;
        ff_array *array = find_array(choice, names, member.name, &path);
        if (array) FF_TRY(take_member(pass, &member, path, array, error));
    }
}

static ff_status unpack(ff_source *source, ff_npy_choice *choice, const ff_names *names,
                        ff_error *error) {
    npz_pass pass = {.source = source};
    ff_status status = run_pass(&pass, choice, names, error);
    ff_archive_close(&pass.archive);
    free(pass.chunk);
    free(pass.found);
    return status;
}

ff_status ff_npz_list(ff_source *source, ff_error *error) {
    ff_names names = {0};
    ff_npy_choice choice = {0};
    source->kind = "npz";
    ff_status status;
    FF_TRY_DONE(read_names(source, &names, error));
    FF_TRY_DONE(ff_npy_choose(&choice, &names, source->path, error));
    FF_TRY_DONE(ff_npy_report(&choice, &names, source, error));
    FF_TRY_DONE(unpack(source, &choice, &names, error));
    FF_TRY_DONE(ff_array_list(source, choice.set, choice.count, error));
done:
    ff_npy_choice_free(&choice);
    ff_names_free(&names);
    return status;
}
