#include "tools/ffpack/source/archive/archive.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "format/disk/metadata.h"
#include "tools/ffpack/source/archive/name.h"
#include "tools/ffpack/source/archive/range.h"
#include "tools/ffpack/source/remote/elsewhere.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* A plain tar is read in small chunks, because only its headers are read and the rest is
 * skipped. */
enum { CHUNK_BYTES = 256 * 1024, PLAIN_CHUNK_BYTES = 16 * 1024, HEAD_BYTES = 512 };

struct ff_archive {
    char *path;
    uint64_t file_bytes;
    bool nested;
    bool plain;      /* as far as read */
    locale_t locale; /* "C": libarchive cannot convert names to it, and leaves them as they are */
    struct archive_entry *entry;   /* the current member's */
    struct archive *outer;         /* the file's */
    struct archive *inner;         /* the current member's, or NULL */
    struct archive *current;       /* whose member is current: outer or inner */
    ff_archive_range file, inside; /* the outer archive's, and the inner one's in a plain tar */
    ff_buffer prefix;              /* "INNER/" */
    ff_buffer name, stored;        /* `stored`: a name in a zip */
    uint64_t member_count;
    uint64_t unpacked_bytes; /* all members' so far */
    uint64_t end[2];         /* the last member's of the outer tar, and of the inner one */
};

static ff_status broken(ff_archive *archive, struct archive *reader, ff_error *error) {
    const char *reason = archive_error_string(reader);
    const ff_error *failed =
        archive->file.failed.status != FF_OK ? &archive->file.failed : &archive->inside.failed;
    if (failed->status != FF_OK) {
        if (error) *error = *failed;
        return failed->status;
    }
    if (archive_errno(reader) == ENOMEM)
        return ff_fail(error, FF_NO_MEMORY, "%s: not enough memory to read an archive",
                       archive->path);
    return ff_fail(error, FF_BAD_DATA, "%s: broken archive near byte %" PRId64 "%s%.*s (%s)",
                   archive->path, archive_filter_bytes(archive->outer, -1),
                   reader == archive->outer ? "" : " in ", (int)archive->prefix.length,
                   archive->prefix.length ? archive->prefix.bytes : "",
                   reason ? reason : "libarchive reports no reason");
}

bool ff_archive_looks_like(const unsigned char *head, size_t head_bytes) {
    static const struct {
        const char *magic;
        size_t bytes;
    } known[] = {{"\x1f\x8b", 2},           {"\x28\xb5\x2f\xfd", 4}, {"BZh", 3},
                 {"\xfd\x37\x7aXZ\x00", 6}, {"PK\x03\x04", 4},       {"PK\x05\x06", 4}};
    if (head_bytes >= 262 && !memcmp(head + 257, "ustar", 5)) return true;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (head_bytes >= known[i].bytes && !memcmp(head, known[i].magic, known[i].bytes))
            return true;
    return false;
}

/* Enabled one by one: "all" would also run external programs to decompress. */
static void support(struct archive *reader) {
    archive_read_support_filter_gzip(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_format_tar(reader);
}

/* ---- opening -------------------------------------------------------------------------------- */

static ff_status open_file(ff_archive *archive, ff_error *error) {
    ff_archive_range *file = &archive->file;
    unsigned char head[HEAD_BYTES] = {0};
    FF_TRY(ff_source_open_file(archive->path, &file->fd, &archive->file_bytes, error));
    file->path = archive->path;
    file->end = archive->file_bytes;
    if (archive->file_bytes >= HEAD_BYTES)
        FF_TRY(ff_read_at(file->fd, archive->path, head, HEAD_BYTES, 0, error));
    file->chunk_bytes = memcmp(head + 257, "ustar", 5) ? CHUNK_BYTES : PLAIN_CHUNK_BYTES;
    FF_TRY(ff_alloc(&file->chunk, file->chunk_bytes, 1, "an archive", error));
    archive->outer = archive_read_new();
    archive->entry = archive_entry_new();
    if (!archive->outer || !archive->entry)
        return ff_fail(error, FF_NO_MEMORY, "%s: not enough memory to read an archive",
                       archive->path);
    support(archive->outer);
    archive_read_support_format_zip(archive->outer);
    archive->current = archive->outer;
    return ff_archive_range_open(archive->outer, file) == ARCHIVE_OK
               ? FF_OK
               : broken(archive, archive->outer, error);
}

ff_status ff_archive_open(ff_archive **out, const char *path, bool nested, ff_error *error) {
    *out = NULL;
    ff_archive *archive;
    FF_TRY(ff_alloc(&archive, 1, sizeof *archive, "an archive", error));
    archive->file.fd = -1;
    archive->nested = nested;
    archive->plain = true;
    archive->locale = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&archive->path, path, error));
    FF_TRY_DONE(open_file(archive, error));
done:
    if (status == FF_OK)
        *out = archive;
    else
        ff_archive_close(&archive);
    return status;
}

/* ---- inner archives ------------------------------------------------------------------------ */

static bool is_plain_tar(struct archive *reader) {
    return archive_filter_code(reader, 0) == ARCHIVE_FILTER_NONE &&
           (archive_format(reader) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
}

/* Enters the current member of the outer archive, called `name` there. */
static ff_status enter(ff_archive *archive, const char *name, uint64_t bytes, ff_error *error) {
    archive->prefix.length = 0;
    FF_TRY(ff_buffer_printf(&archive->prefix, error, "%.*s/", (int)strlen(name) - 4, name));
    archive->end[1] = 0;
    archive->inner = archive_read_new();
    if (!archive->inner)
        return ff_fail(error, FF_NO_MEMORY, "%s: not enough memory for the inner archive %s",
                       archive->path, name);
    support(archive->inner);
    archive->current = archive->inner;
    bool in_place = is_plain_tar(archive->outer);
    if (in_place) {
        ff_archive_range *inside = &archive->inside;
        inside->fd = archive->file.fd;
        inside->path = archive->path;
        inside->begin = inside->at = (uint64_t)archive_filter_bytes(archive->outer, 0);
        inside->end = inside->begin + bytes;
        if (inside->end > archive->file_bytes)
            return ff_fail(error, FF_BAD_DATA, "%s: ends within its member %s", archive->path,
                           name);
        inside->chunk_bytes = PLAIN_CHUNK_BYTES;
        if (!inside->chunk)
            FF_TRY(ff_alloc(&inside->chunk, PLAIN_CHUNK_BYTES, 1, "an archive", error));
    }
    int result = in_place ? ff_archive_range_open(archive->inner, &archive->inside)
                          : ff_archive_member_open(archive->inner, archive->outer);
    return result == ARCHIVE_OK ? FF_OK : broken(archive, archive->inner, error);
}

static void leave(ff_archive *archive) {
    archive_read_free(archive->inner);
    archive->inner = NULL;
    archive->current = archive->outer;
    archive->prefix.length = 0;
}

/* ---- members ------------------------------------------------------------------------------- */

/* An error that names the member, shortened if it is long. */
static ff_status refuse(const ff_archive *archive, const char *name, const char *why,
                        ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: member %.*s%.200s%s %s", archive->path,
                   (int)archive->prefix.length, archive->prefix.length ? archive->prefix.bytes : "",
                   name, strlen(name) > 200 ? "..." : "", why);
}

/* Names are keys, never paths. A name that would leave the folder is an attack, at least on other
 * tools. */
static ff_status take_name(ff_archive *archive, const char *name, ff_error *error) {
    if (*name == '/') return refuse(archive, name, "has an absolute name", error);
    while (name[0] == '.' && (name[1] == '/' || !name[1])) {
        name++;
        while (*name == '/') name++;
    }
    size_t length = strlen(name);
    while (length && name[length - 1] == '/') length--;
    if (archive->prefix.length + length > FF_KEY_LIMIT_BYTES) {
        char why[96];
        snprintf(why, sizeof why, "has a name of %zu bytes, at most %u are allowed",
                 archive->prefix.length + length, FF_KEY_LIMIT_BYTES);
        return refuse(archive, name, why, error);
    }
    for (const char *at = name; at;) {
        if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || !at[2]))
            return refuse(archive, name, "leads out of the archive by its '..'", error);
        at = strchr(at, '/');
        if (at) at++;
    }
    archive->name.length = 0;
    FF_TRY(ff_buffer_add(&archive->name, archive->prefix.bytes, archive->prefix.length, error));
    FF_TRY(ff_buffer_add(&archive->name, name, length, error));
    return ff_buffer_add(&archive->name, "", 1, error);
}

static ff_status check_ratio(ff_archive *archive, uint64_t bytes, const char *name,
                             ff_error *error) {
    uint64_t read = (uint64_t)archive_filter_bytes(archive->outer, 0);
    archive->unpacked_bytes += bytes < UINT64_MAX / 4 ? bytes : UINT64_MAX / 4;
    uint64_t total = archive->unpacked_bytes > read ? archive->unpacked_bytes : read;
    if (total <= FF_ARCHIVE_FREE_BYTES || total / FF_ARCHIVE_RATIO <= archive->file_bytes)
        return FF_OK;
    char why[160];
    snprintf(why, sizeof why,
             "brings it to %" PRIu64 " bytes, more than %" PRIu64 " times the file's %" PRIu64
             ": a compression bomb",
             total, FF_ARCHIVE_RATIO, archive->file_bytes);
    return refuse(archive, name, why, error);
}

static ff_archive_kind kind_of(struct archive_entry *entry) {
    if (archive_entry_hardlink(entry) || archive_entry_filetype(entry) == AE_IFLNK)
        return FF_ARCHIVE_LINK;
    if (archive_entry_filetype(entry) == AE_IFREG) return FF_ARCHIVE_FILE;
    return archive_entry_filetype(entry) == AE_IFDIR ? FF_ARCHIVE_FOLDER : FF_ARCHIVE_OTHER;
}

static bool is_tar_name(const char *name) {
    size_t length = strlen(name);
    return length > 4 && !strcasecmp(name + length - 4, ".tar");
}

/* libarchive reads the blocks of zeros at a tar's end. A tar without them was cut off exactly after
 * a member. */
static ff_status check_end(const ff_archive *archive, ff_error *error) {
    struct archive *reader = archive->current;
    bool tar = (archive_format(reader) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
    uint64_t end = archive->end[archive->inner != NULL];
    if (!tar || !end || (uint64_t)archive_filter_bytes(reader, 0) > end) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: ends at byte %" PRIu64 "%s%.*s after a member, without the zeros that end "
                   "a tar: it was cut off (if it is whole, truncate -s +1024 adds them)",
                   archive->path, end, archive->inner ? " of " : "", (int)archive->prefix.length,
                   archive->prefix.length ? archive->prefix.bytes : "");
}

/* The next header; *more = false at the end. */
static ff_status next_entry(ff_archive *archive, bool *more, ff_error *error) {
    for (;;) {
        /* In a UTF-8 locale libarchive composes the Unicode of names; in the locale used here their
         * bytes stay unchanged. */
        locale_t before = archive->locale ? uselocale(archive->locale) : (locale_t)0;
        int result = archive_read_next_header2(archive->current, archive->entry);
        if (archive->locale) uselocale(before);
        *more = result != ARCHIVE_EOF;
        if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return FF_OK;
        if (*more) return broken(archive, archive->current, error);
        FF_TRY(check_end(archive, error));
        if (!archive->inner) return FF_OK;
        leave(archive);
    }
}

/* *name as it is stored; a zip's in UTF-8 is not in the entry. */
static ff_status find_name(ff_archive *archive, const char **name, ff_error *error) {
    *name = archive_entry_pathname(archive->entry);
    if (*name) return FF_OK;
    if ((archive_format(archive->current) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP)
        FF_TRY(ff_archive_zip_name(&archive->stored, archive->file.fd, archive->path,
                                   (uint64_t)archive_read_header_position(archive->current),
                                   (uint64_t)archive_filter_bytes(archive->current, 0), error));
    *name = archive->stored.bytes;
    return archive->stored.length > 1 ? FF_OK : broken(archive, archive->current, error);
}

ff_status ff_archive_next(ff_archive *archive, ff_archive_member *member, ff_error *error) {
    *member = (ff_archive_member){0};
    for (;;) {
        struct archive_entry *entry = archive->entry;
        bool more;
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(next_entry(archive, &more, error));
        if (!more) return FF_OK;
        const char *name;
        FF_TRY(find_name(archive, &name, error));
        FF_TRY(take_name(archive, name, error));
        name = archive->name.bytes;
        member->kind = kind_of(entry);
        if (member->kind == FF_ARCHIVE_FILE) {
            if (archive_entry_is_encrypted(entry))
                return refuse(archive, name, "is encrypted", error);
            if (archive_entry_sparse_count(entry) > 0)
                return refuse(archive, name, "is a sparse file", error);
            if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
                return refuse(archive, name, "does not state its size", error);
            member->bytes = (uint64_t)archive_entry_size(entry);
            FF_TRY(check_ratio(archive, member->bytes, name, error));
        }
        if (!is_plain_tar(archive->current)) archive->plain = false;
        archive->end[archive->inner != NULL] =
            (uint64_t)archive_filter_bytes(archive->current, 0) + ff_align_u64(member->bytes, 512);
        if (archive->nested && !archive->inner && member->kind == FF_ARCHIVE_FILE &&
            is_tar_name(name)) {
            FF_TRY(enter(archive, name, member->bytes, error));
            continue;
        }
        if (!*name) continue; /* the archive's own "." */
        member->name = name;
        member->ordinal = archive->member_count++;
        member->offset = (uint64_t)archive_filter_bytes(archive->current, 0) +
                         (archive->inner ? archive->inside.begin : 0);
        return FF_OK;
    }
}

bool ff_archive_holds(const char *path, bool (*wanted)(const char *base), ff_error *error) {
    enum { LOOK_AT = 64 };
    ff_archive *archive;
    bool found = false;
    if (ff_archive_open(&archive, path, false, error) != FF_OK) return false;
    for (int i = 0; i < LOOK_AT && !found; i++) {
        ff_archive_member member;
        if (ff_archive_next(archive, &member, error) != FF_OK || !member.name) break;
        found = member.kind == FF_ARCHIVE_FILE && wanted(ff_path_base(member.name));
    }
    ff_archive_close(&archive);
    return found;
}

ff_status ff_archive_read(ff_archive *archive, void *to, size_t size, size_t *got,
                          ff_error *error) {
    *got = 0;
    while (*got < size) {
        la_ssize_t part = archive_read_data(archive->current, (char *)to + *got, size - *got);
        if (part < 0) return broken(archive, archive->current, error);
        if (part == 0) break;
        *got += (size_t)part;
    }
    return FF_OK;
}

bool ff_archive_is_plain(const ff_archive *archive) {
    return archive->plain;
}

void ff_archive_close(ff_archive **archive) {
    if (!*archive) return;
    if ((*archive)->inner) archive_read_free((*archive)->inner);
    if ((*archive)->outer) archive_read_free((*archive)->outer);
    archive_entry_free((*archive)->entry);
    if ((*archive)->locale) freelocale((*archive)->locale);
    ff_close_file(&(*archive)->file.fd);
    ff_buffer_free(&(*archive)->prefix);
    ff_buffer_free(&(*archive)->name);
    ff_buffer_free(&(*archive)->stored);
    free((*archive)->file.chunk);
    free((*archive)->inside.chunk);
    free((*archive)->path);
    free(*archive);
    *archive = NULL;
}
