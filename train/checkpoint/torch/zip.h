/* The directory of a zip file whose members are stored without compression, as torch.save writes it
 * (PKWARE APPNOTE 6.3.10, with zip64). It locates each member's bytes in the file, from where they
 * are read once.
 *
 * Thread rule: an object belongs to one thread at a time. */
#ifndef FF_TRAIN_TORCH_ZIP_H
#define FF_TRAIN_TORCH_ZIP_H

#include "format/base/memory.h"

#define FF_ZIP_MEMBERS_LIMIT 1048576u

typedef struct ff_zip_member {
    const char *name;       /* valid as long as the directory */
    uint64_t offset, bytes; /* in the file */
    uint32_t crc;           /* CRC-32 of the bytes */
} ff_zip_member;

typedef struct ff_zip ff_zip;

/* `fd` and `path` (for messages) must outlive the zip; `size`: the file's bytes. FF_BAD_DATA if the
 * file is not a zip file or is cut off, or if a member is compressed, encrypted or not in the file.
 * On failure *zip = NULL. */
FF_MUST_USE ff_status ff_zip_open(ff_zip **zip, int fd, const char *path, uint64_t size,
                                  ff_error *error);
void ff_zip_close(ff_zip **zip); /* NULL is accepted */

/* A member, sorted by name; NULL past the last. */
const ff_zip_member *ff_zip_at(const ff_zip *zip, size_t index);
const ff_zip_member *ff_zip_find(const ff_zip *zip, const char *name);

#endif
