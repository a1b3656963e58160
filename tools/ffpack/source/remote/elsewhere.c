#include "tools/ffpack/source/remote/elsewhere.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/remote/copied.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define STANDARD_INPUT "standard input"

typedef struct copy {
    char *path;
    int fd;
    uint64_t bytes;
} copy;

/* The source that is being read. */
static struct {
    pthread_mutex_t mutex;
    char *temporary; /* NULL: the source's files are on this machine */
    char *server; /* "https://HOST/" of a source's web URL, and its query for all objects there */
    char *query;
    bool input;         /* the source is the standard input */
    ff_storage *folder; /* of a source that is a folder of objects; else NULL */
    ff_names folders;   /* in it, by their URLs */
    size_t count, last;
    copy *copy; /* [count] */
} here = {.mutex = PTHREAD_MUTEX_INITIALIZER};

bool ff_is_elsewhere(const char *source) {
    return !strcmp(source, "-") || ff_storage_is_url(source);
}

ff_status ff_source_shown(char **name, const char *source, ff_error *error) {
    return strcmp(source, "-") ? ff_copy_bytes(name, source, ff_storage_shown_bytes(source), error)
                               : ff_copy_string(name, STANDARD_INPUT, error);
}

/* A source may have more objects than a process usually has files. */
static void allow_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    (void)!setrlimit(RLIMIT_NOFILE, &limit);
}

/* Whether a bucket's URL is an object is for the server to say, unless it ends with a slash. A
 * brace pattern names objects. */
static ff_status find_folder(const char *url, ff_error *error) {
    const ff_storage_options options = {.check = ff_interrupt_check};
    const bool slash = url[strlen(url) - 1] == '/';
    ff_object object;
    bool there = false;
    if (strchr(url, '{') || (!slash && !ff_storage_is_bucket(url))) return FF_OK;
    FF_TRY(ff_storage_open(&here.folder, url, &options, error));
    if (!slash) FF_TRY(ff_storage_find(here.folder, "", &object, &there, error));
    if (there) ff_storage_close(&here.folder);
    return FF_OK;
}

ff_status ff_elsewhere_begin(char **name, const char *source, const char *temporary,
                             ff_error *error) {
    const size_t shown = ff_storage_shown_bytes(source);
    allow_files();
    here.input = !strcmp(source, "-");
    FF_TRY(ff_copy_string(&here.temporary, temporary, error));
    const size_t server = strcspn(source, ":") + strspn(source + strcspn(source, ":"), ":/");
    FF_TRY(ff_copy_bytes(&here.server, source, server + strcspn(source + server, "/?#"), error));
    FF_TRY(ff_copy_string(&here.query, source + shown, error));
    FF_TRY(ff_source_shown(name, source, error));
    if (here.input) return FF_OK;
    FF_TRY(find_folder(*name, error));
    (*name)[ff_path_length(*name)] = 0;
    return FF_OK;
}

void ff_elsewhere_end(void) {
    for (size_t i = 0; i < here.count; i++) {
        ff_close_file(&here.copy[i].fd);
        free(here.copy[i].path);
    }
    ff_storage_close(&here.folder);
    ff_names_free(&here.folders);
    free(here.copy);
    free(here.temporary);
    free(here.server);
    free(here.query);
    here.copy = NULL;
    here.temporary = here.server = here.query = NULL;
    here.count = here.last = 0;
    here.input = false;
}

ff_storage *ff_elsewhere_folder(void) {
    return here.folder;
}

static bool is_copied(const char *path) {
    return here.temporary && (here.input ? !strcmp(path, STANDARD_INPUT) : ff_storage_is_url(path));
}

/* Files are opened one after the other, mostly: the search begins at the one that was found last.
 */
static const copy *find(const char *path) {
    for (size_t i = 0; i < here.count; i++) {
        const size_t at = (here.last + i) % here.count;
        if (strcmp(here.copy[at].path, path) != 0) continue;
        here.last = at;
        return &here.copy[at];
    }
    return NULL;
}

static ff_status make_copy(const char *path, ff_error *error) {
    copy added = {.fd = -1};
    char *url = NULL;
    ff_status status;
    FF_TRY(ff_grow(&here.copy, here.count, sizeof added, "copies of files", error));
    FF_TRY_DONE(ff_copy_string(&added.path, path, error));
    if (here.input) {
        FF_TRY_DONE(ff_copy_input(path, here.temporary, &added.fd, &added.bytes, error));
    } else {
        const size_t server = strlen(here.server);
        const bool same = !strncmp(path, here.server, server) && path[server] == '/';
        FF_TRY_DONE(ff_format(&url, error, "%s%s", path, same ? here.query : ""));
        FF_TRY_DONE(ff_copy_object(url, path, here.temporary, &added.fd, &added.bytes, error));
    }
    here.last = here.count;
    here.copy[here.count++] = added;
done:
    free(url);
    if (status != FF_OK) {
        ff_close_file(&added.fd);
        free(added.path);
    }
    return status;
}

static ff_status open_copy(const char *path, int *fd, uint64_t *bytes, ff_error *error) {
    *fd = -1;
    if (!find(path)) FF_TRY(make_copy(path, error));
    const copy *found = find(path);
    *fd = fcntl(found->fd, F_DUPFD_CLOEXEC, 3);
    if (*fd < 0) return ff_fail_errno(error, "%s: cannot open its copy", path);
    if (bytes) *bytes = found->bytes;
    return FF_OK;
}

ff_status ff_source_open_file(const char *path, int *fd, uint64_t *bytes, ff_error *error) {
    if (!is_copied(path)) return ff_open_file(path, fd, bytes, error);
    pthread_mutex_lock(&here.mutex);
    const ff_status status = open_copy(path, fd, bytes, error);
    pthread_mutex_unlock(&here.mutex);
    return status;
}

/* ---- folders -------------------------------------------------------------------------------- */

static bool is_known(const char *url) {
    if (!here.folder) return false;
    for (size_t i = 0; i < here.folders.count; i++)
        if (!strcmp(ff_names_at(&here.folders, i), url)) return true;
    return !strcmp(url, ff_storage_url(here.folder));
}

ff_status ff_source_is_folder(const char *path, bool *folder, ff_error *error) {
    struct stat info;
    *folder = false;
    if (is_copied(path)) {
        *folder = is_known(path);
        return FF_OK;
    }
    if (stat(path, &info) < 0) return ff_fail_errno(error, "%s: cannot open", path);
    *folder = S_ISDIR(info.st_mode);
    return FF_OK;
}

/* Lists the files and folders in a folder from the objects below it. */
typedef struct reading {
    ff_names *names;
    const char *url;
    size_t own; /* bytes of the folder in the objects' names, with its slash */
} reading;

static ff_status take_name(void *context, const char *name, const ff_object *object,
                           ff_error *error) {
    const reading *from = context;
    const char *inside = name + from->own;
    const size_t bytes = strcspn(inside, "/");
    ff_names *names = from->names;
    (void)object;
    if (!bytes) return FF_OK; /* the folder itself */
    const char *last = names->count ? ff_names_at(names, names->count - 1) : "";
    const bool folder = inside[bytes] == '/';
    if (folder && strlen(last) == bytes && !memcmp(last, inside, bytes)) return FF_OK;
    FF_TRY(ff_names_add(names, inside, bytes, error));
    return folder
               ? ff_names_add_text(&here.folders, error, "%s/%.*s", from->url, (int)bytes, inside)
               : FF_OK;
}

static ff_status read_objects(ff_names *names, const char *url, ff_error *error) {
    const size_t root = strlen(ff_storage_url(here.folder));
    reading from = {.names = names, .url = url};
    char *prefix;
    FF_TRY(
        ff_format(&prefix, error, "%s%s", url[root] ? url + root + 1 : "", url[root] ? "/" : ""));
    from.own = strlen(prefix);
    const ff_status status = ff_storage_list(here.folder, prefix, take_name, &from, error);
    free(prefix);
    if (status == FF_OK)
        ff_names_sort(names);
    else
        ff_names_free(names);
    return status;
}

ff_status ff_source_read_folder(ff_names *names, const char *path, ff_error *error) {
    if (!is_copied(path)) return ff_names_read(names, path, NULL, error);
    *names = (ff_names){0};
    return read_objects(names, path, error);
}
