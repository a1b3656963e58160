/* Image folders on disk: walks folders, follows links, and adds them to a tree (tree.h). Beyond
 * torchvision's ImageFolder: a folder that cannot be read, and a link that leads back above itself,
 * are errors; there they are silently skipped, or walked 40 times. */
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/tree/tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_LIMIT = 128 };

/* Accepts any folder; listing reports problems. */
static bool folder_detect(const char *path, const unsigned char *head, size_t head_bytes,
                          ff_error *error) {
    (void)path;
    (void)error;
    (void)head_bytes;
    return head == NULL;
}

/* Looks at no more than NAMES_LOOKED_AT names of a folder, `depth` below the source. */
static bool holds_images(const char *path, int depth) {
    enum { DEEPEST = 2, NAMES_LOOKED_AT = 4096 };
    DIR *folder = opendir(path);
    bool found = false;
    if (!folder) return false;
    const struct dirent *item;
    for (int i = 0; i < NAMES_LOOKED_AT && !found && (item = readdir(folder)); i++) {
        char *inside;
        struct stat info;
        if (*item->d_name == '.') continue;
        if (depth && item->d_type != DT_DIR && ff_is_image_name(item->d_name)) found = true;
        if (found || depth == DEEPEST || item->d_type == DT_REG) continue;
        if (ff_path_join(&inside, path, item->d_name, NULL) != FF_OK) break;
        if (stat(inside, &info) == 0 && S_ISDIR(info.st_mode))
            found = holds_images(inside, depth + 1);
        free(inside);
    }
    closedir(folder);
    return found;
}

bool ff_folder_holds_images(const char *path) {
    return holds_images(path, 0);
}

typedef struct folder_identity {
    dev_t device;
    ino_t inode;
} folder_identity;

typedef struct folder_walk {
    const char *root;
    ff_tree *tree;
    size_t depth;
    folder_identity above[DEPTH_LIMIT];
    ff_buffer path; /* "ROOT/a/b" of the folder being added */
} folder_walk;

/* Regular files only: opening a pipe would wait. An unreadable file is not taken for an image. */
static ff_status look(void *context, unsigned char *head, size_t size, size_t *got,
                      ff_error *error) {
    const folder_walk *walk = context;
    int fd;
    uint64_t bytes = 0;
    *got = 0;
    if (ff_open_file(walk->path.bytes, &fd, &bytes, NULL) != FF_OK) return FF_OK;
    if (bytes < size) size = (size_t)bytes;
    ff_status status = ff_read_at(fd, walk->path.bytes, head, size, 0, error);
    if (status == FF_OK) *got = size;
    ff_close_file(&fd);
    return status;
}

static ff_status open_table(void *context, const char *name, ff_table **table, ff_error *error) {
    const folder_walk *walk = context;
    char *path;
    FF_TRY(ff_path_join(&path, walk->root, name, error));
    ff_status status = ff_table_open(table, path, error);
    free(path);
    return status;
}

static ff_status walk_folder(folder_walk *walk, const struct stat *info, ff_error *error);

/* Adds what is at walk->path. A broken link is added as a file, as ImageFolder does; reading it
 * fails. */
static ff_status walk_entry(folder_walk *walk, ff_error *error) {
    const char *path = walk->path.bytes, *name = path + strlen(walk->root) + 1;
    struct stat info = {0};
    bool there = stat(path, &info) == 0;
    if (!there && errno != ENOENT && errno != ELOOP)
        return ff_fail_errno(error, "%s: cannot stat", path);
    if (!S_ISDIR(info.st_mode)) {
        ff_tree_place place = {.bytes = there ? (uint64_t)info.st_size : 0};
        return ff_tree_add_file(walk->tree, name, &place, NULL, error);
    }
    bool taken;
    FF_TRY(ff_tree_add_folder(walk->tree, name, &taken, error));
    return taken ? walk_folder(walk, &info, error) : FF_OK;
}

static ff_status walk_folder(folder_walk *walk, const struct stat *info, ff_error *error) {
    const char *path = walk->path.bytes;
    for (size_t i = 0; i < walk->depth; i++)
        if (walk->above[i].device == info->st_dev && walk->above[i].inode == info->st_ino)
            return ff_fail(error, FF_BAD_DATA, "%s: is a link to a folder that contains it", path);
    if (walk->depth == DEPTH_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: more than %d folders deep", path, DEPTH_LIMIT);
    walk->above[walk->depth++] = (folder_identity){info->st_dev, info->st_ino};
    ff_names inside;
    FF_TRY(ff_names_read(&inside, path, NULL, error));
    size_t length = walk->path.length;
    ff_status status = ff_interrupt_check(error);
    for (size_t i = 0; i < inside.count && status == FF_OK; i++) {
        walk->path.length = length;
        status = ff_buffer_printf(&walk->path, error, "/%s", ff_names_at(&inside, i));
        if (status == FF_OK) status = walk_entry(walk, error);
    }
    walk->path.length = length;
    ff_names_free(&inside);
    walk->depth--;
    return status;
}

static ff_status folder_list(ff_source *source, ff_error *error) {
    folder_walk walk = {.root = source->path};
    ff_tree_options options = {
        .files = true, .rooted = true, .context = &walk, .look = look, .open = open_table};
    struct stat info;
    source->kind = "folder";
    source->encoded = true;
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    if (ff_elsewhere_folder()) return ff_tree_list_objects(source, error);
    if (stat(source->path, &info) < 0) return ff_fail_errno(error, "%s: cannot list", source->path);
    FF_TRY(ff_tree_create(&walk.tree, source, source->path, &options, error));
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&walk.path, error, "%s", source->path));
    FF_TRY_DONE(walk_folder(&walk, &info, error));
    FF_TRY_DONE(ff_tree_fill(walk.tree, FF_PART_FILE, false, error));
done:
    ff_buffer_free(&walk.path);
    ff_tree_destroy(&walk.tree);
    return status;
}

extern const ff_source_format ff_source_folder;
const ff_source_format ff_source_folder = {
    .name = "folder",
    .wanted = "a folder with one folder of images per class",
    .endings = "/",
    .detect = folder_detect,
    .list = folder_list,
    .uses = FF_USES_CLASSES | FF_USES_TREE | FF_USES_LABEL_KIND | FF_USES_EMPTY | FF_USES_SPLITS |
            FF_USES_COLUMNS,
};
