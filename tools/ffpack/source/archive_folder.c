/* Image folders inside an archive (tar, zip; plain, gzip, bzip2, xz, zstd), read in memory: nothing
 * is unpacked to disk, and the result is that of the unpacked folder. */
#include "tools/ffpack/source/archive.h"
#include "tools/ffpack/source/tree.h"

/* Any archive is one, where no other source claimed it: what is wrong with it, listing says. */
static bool archive_detect(const char *path, const unsigned char *head, size_t head_bytes,
                           ff_error *error) {
    (void)path;
    (void)error;
    return head && ff_archive_looks_like(head, head_bytes);
}

static ff_status archive_list(ff_source *source, ff_error *error) {
    source->kind = "archive";
    source->encoded = true;
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    return ff_tree_list(source, source->path, &(ff_tree_options){0}, error);
}

extern const ff_source_format ff_source_archive;
const ff_source_format ff_source_archive = {
    .name = "archive",
    .wanted = "a tar or zip archive, compressed or not, of images in a folder for each class",
    .detect = archive_detect,
    .list = archive_list,
};
