/* Archives: any bytes give members with valid names and sizes, or a message; nested or not; the
 * same result twice. */
#include "format/base/memory.h"
#include "format/disk/metadata.h"
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/archive/archive.h"

#include <sys/mman.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_archive: line %d: %s\n", __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { MEMBERS = 200, READ_BYTES = 1 << 16 };

/* A checksum of everything read, and whether it succeeded. */
static uint64_t walk(const char *path, bool nested) {
    ff_archive *archive;
    ff_error error = {0};
    uint64_t sum = 0;
    ff_status status = ff_archive_open(&archive, path, nested, &error);
    for (int i = 0; status == FF_OK && i < MEMBERS; i++) {
        static char bytes[READ_BYTES];
        ff_archive_member member;
        size_t got;
        status = ff_archive_next(archive, &member, &error);
        if (status != FF_OK || !member.name) break;
        size_t length = strlen(member.name);
        CHECK(length > 0 && length <= FF_KEY_LIMIT_BYTES && member.name[0] != '/');
        CHECK(strcmp(member.name, "..") != 0 && strncmp(member.name, "../", 3) != 0);
        CHECK(!strstr(member.name, "/../"));
        CHECK(member.ordinal == (uint64_t)i);
        sum = sum * 31 + length + member.bytes + (uint64_t)member.kind;
        if (member.kind != FF_ARCHIVE_FILE) continue;
        status = ff_archive_read(archive, bytes, sizeof bytes, &got, &error);
        if (status == FF_OK) CHECK(got <= member.bytes || got <= sizeof bytes);
        if (status == FF_OK) sum = sum * 31 + got;
    }
    if (status != FF_OK) {
        CHECK(status == FF_BAD_DATA || status == FF_NO_MEMORY);
        CHECK(error.message[0] && !strchr(error.message, '\n'));
    }
    ff_archive_close(&archive);
    return sum + (uint64_t)status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ff_archive_looks_like(bytes, length < 512 ? length : 512);
    for (int nested = 0; nested < 2; nested++) CHECK(walk(path, nested) == walk(path, nested));
    close(fd);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
