#include "train/commands/images.h"

#include "format/base/csv.h"
#include "format/base/file.h"
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/disk/set.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 100, SAID_BYTES = 1 << 20 };

/* ---- which images ---- */

static bool is_image_name(const char *name) {
    static const char *const endings[] = {".jpg",  ".jpeg", ".jpe", ".jfif", ".png",
                                          ".webp", ".gif",  ".bmp", ".ppm",  ".pgm",
                                          ".pbm",  ".pnm",  ".tif", ".tiff"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(dot, endings[i])) return true;
    return false;
}

static ff_status add(ff_images *images, const char *name, ff_error *error) {
    FF_TRY(ff_reserve(&images->image, &images->capacity, images->count + 1, sizeof *images->image,
                      "the list of images", error));
    return ff_copy_string(&images->image[images->count++].name, name, error);
}

static ff_status refuse_class(const ff_images *images, const char *name, const char *folder,
                              size_t length, ff_error *error) {
    enum { SHOWN = 8 };
    const ff_field *classes = images->classes;
    ff_buffer known = {0};
    ff_status status;
    for (uint32_t k = 0; k < classes->class_count && k < SHOWN; k++)
        FF_TRY_DONE(ff_buffer_printf(&known, error, "%s%s", k ? ", " : "", classes->class_name[k]));
    status = ff_fail(error, FF_BAD_DATA, "%s: the run has no class '%.*s'; it has %s%s", name,
                     (int)length, folder, known.length ? known.bytes : "classes without names",
                     classes->class_count > SHOWN ? ", ..." : "");
done:
    ff_buffer_free(&known);
    return status;
}

/* The class of the last image, found in `folder`: the class of the subfolder that holds the image.
 */
static ff_status find_class(ff_images *images, const char *folder, ff_error *error) {
    ff_image *image = &images->image[images->count - 1];
    const ff_field *classes = images->classes;
    const int root = (int)ff_path_length(folder);
    const char *inside = image->name + root + strspn(image->name + root, "/");
    const size_t length = strcspn(inside, "/");
    if (!inside[length])
        return ff_fail(error, FF_BAD_DATA, "%s: lies in no class folder; wanted %.*s/CLASS/%s",
                       image->name, root, folder, inside);
    for (; image->class < classes->class_count; image->class ++) {
        const char *class = classes->class_name[image->class];
        if (!strncmp(class, inside, length) && !class[length]) return FF_OK;
    }
    return refuse_class(images, image->name, inside, length, error);
}

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static ff_status add_of(ff_images *images, const char *folder, const char *name, ff_error *error) {
    FF_TRY(add(images, name, error));
    return images->classes ? find_class(images, folder, error) : FF_OK;
}

/* Leaves out hidden files, and files that macOS adds to archives, as ffpack does. */
static ff_status add_folder(ff_images *images, const char *folder, ff_error *error) {
    char *roots[] = {(char *)(uintptr_t)folder, NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    ff_status status = FF_OK;
    if (!walk) return ff_fail_errno(error, "%s: cannot list", folder);
    for (FTSENT *at; status == FF_OK && (at = fts_read(walk));) {
        const bool hidden = *at->fts_name == '.' || !strcmp(at->fts_name, "__MACOSX");
        if (at->fts_level > 0 && hidden)
            fts_set(walk, at, FTS_SKIP);
        else if (at->fts_info == FTS_DNR || at->fts_info == FTS_ERR) {
            errno = at->fts_errno;
            status = ff_fail_errno(error, "%s: cannot list", at->fts_path);
        } else if (at->fts_info != FTS_D && at->fts_info != FTS_DP && at->fts_info != FTS_DC) {
            if (is_image_name(at->fts_name))
                status = add_of(images, folder, at->fts_path, error);
            else
                images->left_out++;
        }
    }
    fts_close(walk);
    return status;
}

static ff_status list(ff_images *images, const char *const *names, int count, ff_error *error) {
    int missing = 0;
    for (int i = 0; i < count; i++) {
        struct stat info;
        const bool there = stat(names[i], &info) == 0;
        if (there && S_ISDIR(info.st_mode)) {
            ff_set set;
            const bool packed = ff_set_find(&set, names[i], NULL) == FF_OK && set.count;
            ff_set_free(&set);
            if (packed)
                return ff_fail(error, FF_USAGE, "%s: is a packed set, which is predicted alone",
                               names[i]);
            FF_TRY(add_folder(images, names[i], error));
        } else {
            missing += !there;
            FF_TRY(add(images, names[i], error));
        }
    }
    if (missing == count) {
        errno = ENOENT;
        return ff_fail_errno(error, "%s: neither a packed set nor an image", names[0]);
    }
    return images->count ? FF_OK
                         : ff_fail(error, FF_BAD_DATA,
                                   "%s: neither a packed set nor a folder with files that are "
                                   "named as images are (.jpg, .png, ...)",
                                   names[0]);
}

/* Writes a list for ffpack, as CSV: absolute paths, because the list lies elsewhere; the split,
 * whose column makes the list CSV; and numbers of classes. */
static ff_status write_list(const ff_images *images, ff_error *error) {
    char *here = getcwd(NULL, 0);
    ff_buffer text = {0}, path = {0};
    ff_status status;
    if (!here) return ff_fail_errno(error, "cannot find the current folder");
    FF_TRY_DONE(ff_buffer_printf(&text, error, "path,split%s\n",
                                 images->classes ? "," FF_IMAGES_LABEL ":class" : ""));
    for (size_t i = 0; i < images->count; i++) {
        const char *name = images->image[i].name;
        path.length = 0;
        if (*name != '/') FF_TRY_DONE(ff_buffer_printf(&path, error, "%s/", here));
        FF_TRY_DONE(ff_buffer_add(&path, name, strlen(name), error));
        FF_TRY_DONE(ff_csv_cell(&text, path.bytes, path.length, error));
        FF_TRY_DONE(ff_buffer_printf(&text, error, ",all"));
        if (images->classes)
            FF_TRY_DONE(ff_buffer_printf(&text, error, ",%u", images->image[i].class));
        FF_TRY_DONE(ff_buffer_printf(&text, error, "\n"));
    }
    FF_TRY_DONE(ff_file_save(images->folder, "list.csv", &text, error));
done:
    ff_buffer_free(&path);
    ff_buffer_free(&text);
    free(here);
    return status;
}

/* ---- how they are packed ---- */

static bool transformed(const ff_metadata *trained, const char *word) {
    for (size_t i = 0; i < trained->transform_count; i++)
        if (!strncmp(trained->transform[i], word, strlen(word))) return true;
    return false;
}

/* Without a central crop all training images had one size or aspect ratio, which no option records:
 * *size is the option that brings other images to that size, or NULL. */
static ff_status choose_size(char **size, const ff_metadata *trained, const char *weights,
                             ff_error *error) {
    const bool sized = trained->variable_size || transformed(trained, "center_crop");
    /* Greys of 16 bits, which are not resized. */
    const bool deep = trained->channels == 1 && transformed(trained, "to_tensor range=");
    *size = NULL;
    if ((!deep && !transformed(trained, "to_tensor scale=1/255")) ||
        (trained->channels != 1 && trained->channels != 3))
        return ff_fail(error, FF_BAD_DATA,
                       "%s: was trained on arrays with %u channels, not on image files; pack yours "
                       "as its training set was packed, and use the packed set",
                       weights, trained->channels);
    if (sized || deep) return FF_OK;
    return ff_format(size, error, "--resize=%ux%u", trained->height, trained->width);
}

/* ---- ffpack ---- */

/* The program in this program's folder, or else the one in PATH. */
static ff_status find_program(char **program, ff_error *error) {
    char *folder;
    FF_TRY(ff_path_of_program(&folder, error));
    const ff_status status = ff_path_join(program, folder, "ffpack", error);
    free(folder);
    if (status != FF_OK || access(*program, X_OK) == 0) return status;
    free(*program);
    return ff_copy_string(program, "ffpack", error);
}

/* Starts ffpack without its summary; *said = a pipe with its messages. */
static ff_status start(char **arguments, pid_t *process, int *said, ff_error *error) {
    posix_spawn_file_actions_t actions;
    extern char **environ;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return ff_fail_errno(error, "cannot make a pipe");
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed =
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
        if (!failed)
            failed = posix_spawnp(process, arguments[0], &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    *said = ends[0];
    if (!failed) return FF_OK;
    close(ends[0]);
    if (failed == ENOENT)
        return ff_fail(
            error, FF_USAGE,
            "predicting image files needs ffpack, which is neither next to fftrain nor in PATH; or "
            "pack them, and use the packed set");
    errno = failed;
    return ff_fail_errno(error, "cannot start %s", arguments[0]);
}

/* Reads the process's messages until it ends, and passes signals on to it. */
static ff_status listen_to(pid_t process, int said, ff_buffer *text, int *code, ff_error *error) {
    char bytes[4096];
    bool stopped = false;
    ff_status status = FF_OK;
    for (ssize_t got = 1; got != 0;) {
        struct pollfd waits = {.fd = said, .events = POLLIN};
        if (!stopped && ff_interrupt_signal()) {
            kill(process, SIGTERM);
            stopped = true;
        }
        if (poll(&waits, 1, POLL_MS) <= 0) continue;
        got = read(said, bytes, sizeof bytes);
        if (got > 0 && text->length < SAID_BYTES && status == FF_OK)
            status = ff_buffer_add(text, bytes, (size_t)got, error);
        if (got < 0 && errno != EINTR) break;
    }
    while (waitpid(process, code, 0) < 0 && errno == EINTR) continue;
    FF_TRY(ff_interrupt_check(error));
    return status == FF_OK ? ff_buffer_add(text, "", 1, error) : status;
}

/* ffpack's last sentence, without the part on how it would continue. */
static ff_status told(ff_buffer *text, int code, ff_error *error) {
    static const char more[] = "; finished work is kept";
    char *last = text->bytes;
    for (char *line = last; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (*line) last = line;
    }
    last[strcspn(last, "\n")] = 0;
    char *end = strstr(last, more);
    if (end) *end = 0;
    const int exits = WIFEXITED(code) ? WEXITSTATUS(code) : 0;
    /* Usually a terminal's signal to both, which this process has yet to take. */
    if (exits == 128 + SIGINT || exits == 128 + SIGTERM)
        return ff_interrupt_fail(exits - 128, error);
    return ff_fail(error,
                   exits == 2    ? FF_USAGE
                   : exits == 65 ? FF_BAD_DATA
                   : exits == 74 ? FF_IO
                                 : FF_FAILED,
                   "%s", *last ? last : "ffpack: was killed");
}

/* `size`: an option, or NULL. */
static ff_status run(const ff_images *images, const char *weights, char *size, ff_error *error) {
    char *program = NULL, *source = NULL, *like = NULL;
    ff_buffer said_text = {0};
    pid_t process;
    int said = -1, code = 0;
    ff_status status;
    FF_TRY_DONE(find_program(&program, error));
    FF_TRY_DONE(ff_path_join(&source, images->folder, "list.csv", error));
    FF_TRY_DONE(ff_format(&like, error, "--like=%s", weights));
    char *arguments[] = {program,
                         source,
                         (char[]){"--output"},
                         images->set,
                         (char[]){"--format=list"},
                         (char[]){"--on-error=skip"},
                         (char[]){"--max-skip=100%"},
                         like,
                         size,
                         NULL};
    FF_TRY_DONE(start(arguments, &process, &said, error));
    status = listen_to(process, said, &said_text, &code, error);
    close(said);
    if (status == FF_OK && code != 0) status = told(&said_text, code, error);
done:
    ff_buffer_free(&said_text);
    free(like);
    free(source);
    free(program);
    return status;
}

/* ---- what was left out ---- */

/* The reason without the image's name at its beginning. */
static const char *reason_of(char *name, char *reason) {
    ff_tsv_text(name);
    ff_tsv_text(reason);
    const size_t named = strlen(name);
    const bool begins = !strncmp(reason, name, named) && !strncmp(reason + named, ": ", 2);
    return begins ? reason + named + 2 : reason;
}

/* A line of titles, then lines of split, position, item, name and reason. */
static ff_status read_skipped(ff_images *images, ff_error *error) {
    char *path, *line = NULL;
    size_t capacity = 0;
    ff_status status = FF_OK;
    FF_TRY(ff_format(&path, error, "%s.skipped.tsv", images->set));
    FILE *file = fopen(path, "re");
    if (file && getline(&line, &capacity, file) < 0)
        status = ff_fail(error, FF_BAD_DATA, "%s: has no lines", path);
    while (file && status == FF_OK && getline(&line, &capacity, file) > 0) {
        char *cell[5] = {line};
        for (int i = 1; i < 5 && cell[i - 1]; i++) {
            cell[i] = strchr(cell[i - 1], '\t');
            if (cell[i]) *cell[i]++ = 0;
        }
        const uint64_t item = cell[4] ? strtoull(cell[2], NULL, 10) : images->count;
        if (item >= images->count || images->image[item].reason) {
            status = ff_fail(error, FF_BAD_DATA, "%s: names no image", path);
            break;
        }
        cell[4][strcspn(cell[4], "\n")] = 0;
        status = ff_copy_string(&images->image[item].reason, reason_of(cell[3], cell[4]), error);
        images->broken++;
    }
    if (file) fclose(file);
    free(line);
    free(path);
    return status;
}

/* ---- all of it ---- */

static ff_status make_folder(ff_images *images, ff_error *error) {
    const char *place = getenv("TMPDIR");
    FF_TRY(
        ff_format(&images->folder, error, "%s/fftrain-XXXXXX", place && *place ? place : "/tmp"));
    if (mkdtemp(images->folder)) return ff_path_join(&images->set, images->folder, "set", error);
    const ff_status status =
        ff_fail_errno(error, "%s: cannot create the temporary folder", images->folder);
    free(images->folder);
    images->folder = NULL;
    return status;
}

ff_status ff_images_pack(ff_images *images, const char *const *names, int count,
                         const ff_metadata *trained, const char *weights, ff_error *error) {
    char *size = NULL;
    ff_status status;
    FF_TRY_DONE(list(images, names, count, error));
    FF_TRY_DONE(choose_size(&size, trained, weights, error));
    FF_TRY_DONE(make_folder(images, error));
    FF_TRY_DONE(write_list(images, error));
    status = run(images, weights, size, error);
    if (status != FF_OK && status != FF_BAD_DATA) goto done;
    /* If all images are broken, ffpack fails and there is no set. */
    const ff_status listed = read_skipped(images, status == FF_OK ? error : NULL);
    if (status == FF_OK || images->broken == images->count) status = listed;
done:
    free(size);
    return status;
}

void ff_images_free(ff_images *images) {
    char *roots[] = {images->folder, NULL};
    FTS *walk = images->folder ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    for (FTSENT *at; walk && (at = fts_read(walk));)
        if (at->fts_info != FTS_D) remove(at->fts_accpath);
    if (walk) fts_close(walk);
    for (size_t i = 0; i < images->count; i++) {
        free(images->image[i].name);
        free(images->image[i].reason);
    }
    free(images->image);
    free(images->set);
    free(images->folder);
    *images = (ff_images){0};
}
