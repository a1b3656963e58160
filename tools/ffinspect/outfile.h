/* A file that ffinspect writes for the user: whole or not at all. It is written beside its place
 * under a temporary name and renamed; what exists and is no plain file (a pipe, /dev/null) is
 * written to directly, and "-" means standard output. */
#ifndef FF_FFINSPECT_OUTFILE_H
#define FF_FFINSPECT_OUTFILE_H

#include "format/base/memory.h"

typedef struct ff_outfile ff_outfile;

FF_MUST_USE ff_status ff_outfile_open(ff_outfile **file, const char *path, ff_error *error);
/* Whether ff_outfile_write_at may be used. */
bool ff_outfile_seekable(const ff_outfile *file);
/* Appends. */
FF_MUST_USE ff_status ff_outfile_write(ff_outfile *file, const void *bytes, size_t length,
                                       ff_error *error);
/* Writes at an offset; independent of what is appended. */
FF_MUST_USE ff_status ff_outfile_write_at(ff_outfile *file, uint64_t offset, const void *bytes,
                                          size_t length, ff_error *error);
/* Renames into place and frees, on failure too (then the temporary file is removed). */
FF_MUST_USE ff_status ff_outfile_commit(ff_outfile **file, ff_error *error);
/* Removes the temporary file and frees. NULL is accepted. */
void ff_outfile_discard(ff_outfile **file);

#endif
