/* NPZ: a zip archive of .npy files, stored or deflated, as numpy.savez and savez_compressed write
 * them. The chosen arrays are unpacked into temporary space, each checked against its CRC. */
#include "tools/ffpack/source/archive.h"
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/npy.h"
#include "tools/ffpack/source/npy_header.h"

#include "format/base/interrupt.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 256 * 1024 };

static ff_status read_names(const ff_source *source, ff_names *names, ff_error *error) {
    ff_archive *archive;
    ff_archive_member member;
    FF_TRY(ff_archive_open(&archive, source->path, false, error));
    ff_status status;
    for (;;) {
        FF_TRY_DONE(ff_archive_next(archive, &member, error));
        if (!member.name) break;
        if (member.kind == FF_ARCHIVE_FILE && ff_npy_stem(member.name) && !strchr(member.name, '/'))
            FF_TRY_DONE(ff_names_add(names, member.name, strlen(member.name), error));
    }
done:
    ff_archive_close(&archive);
    return status;
}

/* The array of the choice that a member is; NULL = none. */
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

static ff_status unpack_member(ff_source *source, ff_archive *archive, char *chunk,
                               const char *path, ff_array *array, ff_error *error) {
    int fd;
    uint32_t part;
    uint64_t bytes = 0;
    FF_TRY(ff_disk_temporary(source->temporary, &fd, error));
    FF_TRY(ff_source_add_part(source, path, fd, &part, error));
    for (size_t got = CHUNK_BYTES; got == CHUNK_BYTES; bytes += got) {
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_archive_read(archive, chunk, CHUNK_BYTES, &got, error));
        FF_TRY(ff_disk_write_at(fd, source->temporary, chunk, got, bytes, error));
    }
    FF_TRY(ff_npy_read(fd, path, 0, bytes, array, error));
    array->part = part;
    return FF_OK;
}

static ff_status unpack(ff_source *source, ff_npy_choice *choice, const ff_names *names,
                        ff_error *error) {
    ff_archive *archive;
    ff_archive_member member;
    char *chunk;
    FF_TRY(ff_alloc(&chunk, CHUNK_BYTES, 1, "unpacking", error));
    ff_status status = ff_archive_open(&archive, source->path, false, error);
    while (status == FF_OK) {
        const char *path;
        FF_TRY_DONE(ff_archive_next(archive, &member, error));
        if (!member.name) break;
        ff_array *array =
            member.kind == FF_ARCHIVE_FILE ? find_array(choice, names, member.name, &path) : NULL;
        if (array) FF_TRY_DONE(unpack_member(source, archive, chunk, path, array, error));
    }
done:
    ff_archive_close(&archive);
    free(chunk);
    return status;
}

ff_status ff_npz_list(ff_source *source, ff_error *error) {
    ff_names names = {0};
    ff_npy_choice choice = {0};
    source->kind = "npz";
    ff_status status = read_names(source, &names, error);
    if (status == FF_OK) status = ff_npy_choose(&choice, &names, source->path, error);
    if (status == FF_OK) status = unpack(source, &choice, &names, error);
    if (status == FF_OK) status = ff_array_list(source, choice.set, choice.count, error);
    ff_npy_choice_free(&choice);
    ff_names_free(&names);
    return status;
}
