#!/bin/bash
# libffload as another program sees it: installed into a folder of its own, found by pkg-config, linked by
# a C and a C++ program; which names it has, and what it does to the process that loads it. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
unset MAKEFLAGS MAKELEVEL MFLAGS DESTDIR PREFIX
build=${BUILD:-build}
here=$scratch/there/prefix library=$here/lib/libffload.so.0
make -s BUILD="$build" SANITIZE="${SANITIZE:-}" install PREFIX="$here" >"$said" 2>&1
result $? "make install"

# ---- names ----
[ "$(readlink "$here/lib/libffload.so")" = libffload.so.0 ] && readelf -d "$library" >"$said" && grep -q 'SONAME.*\[libffload\.so\.0\]' "$said" && grep -q NODELETE "$said"
result $? "its soname is libffload.so.0, and it stays once it is loaded"
! grep NEEDED "$said" | grep -qvE 'lib(jansson|xxhash|zstd|c|m|pthread|dl|asan|tsan|ubsan|gcc_s|stdc\+\+)\.so|ld-linux'
result $? "it needs no library of images, training or CUDA"
nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sort >"$scratch/exported"
sed -n 's/^FFLOAD_API .*[ *]\(ffload_[a-z_]*\)(.*/\1@@FFLOAD_0/p' "$here/include/ffload/ffload.h" | sort >"$scratch/declared"
diff "$scratch/declared" "$scratch/exported" >"$said" && [ "$(wc -l <"$scratch/declared")" -gt 20 ]
result $? "its functions are those of the header, with a version"
nm -D --defined-only "$library" | awk '$2 != "T" && $3 != "FFLOAD_0"' >"$said"
[ ! -s "$said" ]
result $? "and it has no other names"

while IFS=@ read -r name _; do grep -q "$name[,(]" tests/unit/test_library_null.c || echo "$name"; done <"$scratch/declared" >"$said"
[ ! -s "$said" ]
result $? "each is called with NULL by tests/unit/test_library_null.c"

# ---- programs ----
flags() { PKG_CONFIG_PATH=$here/lib/pkgconfig pkg-config "$@" ffload; }
static=" $(flags --static --libs) "
readelf -d "$library" | sed -n 's/.*NEEDED.*\[lib\(.*\)\.so.*/\1/p' | grep -vE '^(c|asan|tsan|ubsan|gcc_s|stdc\+\+)$' | while read -r name; do [[ $static == *" -l$name "* || $static == *" -$name "* ]] || echo "$name: $static"; done >"$said"
[ ! -s "$said" ] && [[ $static == *" -lzstd "* ]] && [[ " $(flags --libs) " != *zstd* ]]
result $? "and what it links itself, for static programs"
sanitize=${SANITIZE:+-fsanitize=$SANITIZE}
[ "$(flags --modversion)" = "$("$build/ffpack" --version | awk '{ print $2 }')" ]
result $? "pkg-config knows its version"
c() { "${CC:-gcc}" -Wall -Wextra -Werror -pedantic $sanitize "$@" $(flags --cflags --libs) -Wl,-rpath,"$here/lib" >"$said" 2>&1; }
cxx() { "${CXX:-g++}" -Wall -Wextra -Werror -pedantic $sanitize "$@" $(flags --cflags --libs) -Wl,-rpath,"$here/lib" >"$said" 2>&1; }
examples=$here/share/doc/ffpack/examples
c -std=c99 "$examples/batches.c" -o "$scratch/c"
result $? "the example in C compiles"
cxx -std=c++17 "$examples/batches.cc" -o "$scratch/c++"
result $? "the one in C++, too"
echo '#include <ffload/ffload.h>' >"$scratch/alone.c" && c -std=c99 -c "$scratch/alone.c" -o "$scratch/alone.o" && cxx -std=c++11 -x c++ -c "$scratch/alone.c" -o "$scratch/alone.o"
result $? "the header alone is C99 and C++11"
cat >"$scratch/version.c" <<'C'
#include <ffload/ffload.h>
#include <stdio.h>
#if FFLOAD_VERSION < 100 || FFLOAD_VERSION != FFLOAD_VERSION_MAJOR * 10000 + FFLOAD_VERSION_MINOR * 100 + FFLOAD_VERSION_PATCH
#error "FFLOAD_VERSION"
#endif
int main(void) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", FFLOAD_VERSION_MAJOR, FFLOAD_VERSION_MINOR, FFLOAD_VERSION_PATCH);
    return puts(text) < 0 || puts(ffload_version()) < 0;
}
C
c -std=c99 "$scratch/version.c" -o "$scratch/version" && "$scratch/version" >"$said" && [ "$(sort -u "$said")" = "$(flags --modversion)" ]
result $? "the header's version is the library's"

# ---- beside other headers of DLPack ----
# A system's dlpack/dlpack.h as of 0.6 and as of 1.0 (where a struct has no typedef), as far as a consumer needs it; and what uses DLPack's names.
mkdir -p "$scratch"/dlpack-{0.6,1.0}/dlpack
for version in 0.6 1.0; do
    {
        printf '#ifndef DLPACK_DLPACK_H_\n#define DLPACK_DLPACK_H_\n#include <stdint.h>\n'
        [ $version = 0.6 ] && echo '#define DLPACK_VERSION 60' || printf '#define DLPACK_MAJOR_VERSION 1\n#define DLPACK_MINOR_VERSION 0\n#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)\n'
        cat <<'C'
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLROCM = 10 } DLDeviceType;
typedef struct { DLDeviceType device_type; int device_id; } DLDevice;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U, kDLComplex = 5U } DLDataTypeCode;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct { void *data; DLDevice device; int ndim; DLDataType dtype; int64_t *shape; int64_t *strides; uint64_t byte_offset; } DLTensor;
typedef struct DLManagedTensor { DLTensor dl_tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *self); } DLManagedTensor;
C
        [ $version = 0.6 ] || printf 'typedef struct { uint32_t major; uint32_t minor; } DLPackVersion;\nstruct DLManagedTensorVersioned { DLPackVersion version; void *manager_ctx; void (*deleter)(struct DLManagedTensorVersioned *self); uint64_t flags; DLTensor dl_tensor; };\n'
        echo '#endif'
    } >"$scratch/dlpack-$version/dlpack/dlpack.h"
done
uses='int use(void); int use(void) { DLManagedTensorVersioned t; DLDevice d = {kDLROCM, 0}; t.dl_tensor.dtype.code = kDLComplex; t.dl_tensor.device = d; return t.dl_tensor.dtype.code + (int)sizeof(DLManagedTensor); }'
printf '#include <ffload/ffload.h>\n#include <dlpack/dlpack.h>\n%s\n' "$uses" >"$scratch/after.c"
printf '#include <dlpack/dlpack.h>\n#include <ffload/ffload.h>\n%s\n' "$uses" >"$scratch/before.c"
compiles() { c -std=c99 -I"$scratch/dlpack-$2" -c "$scratch/$1.c" -o "$scratch/$1.o" && cxx -std=c++11 -I"$scratch/dlpack-$2" -x c++ -c "$scratch/$1.c" -o "$scratch/$1.o"; }
compiles after 0.6 && compiles after 1.0 && compiles before 1.0
result $? "the header compiles before any dlpack.h, and after one of DLPack 1"
! c -std=c99 -I"$scratch/dlpack-0.6" -c "$scratch/before.c" -o "$scratch/before.o" && grep -q 'error: .*not of DLPack 1: include <ffload/ffload.h> first' "$said"
result $? "and reports what to do after an older one"

"$build/tests/make_set" "$scratch/set" --splits train,test --count 100 --height 8 --width 8 --statistics >"$said" || exit 1
set=$scratch/set/train
"$scratch/c" "$set" >"$scratch/c.out" 2>"$said" && [ ! -s "$said" ] && "$build/tests/dump_batches" "$set" 16 "$(wc -l <"$scratch/c.out")" crop=2,flip >"$scratch/batches" &&
    "${PYTHON:-/usr/bin/python3}" - "$scratch/c.out" "$scratch/batches" >"$said" 2>&1 <<'PYTHON'
import re, struct, sys
lines, batches = open(sys.argv[1]).read().splitlines(), open(sys.argv[2], "rb").read()
size = len(batches) // len(lines)
channels = (size - 16 * 8) // (16 * 8 * 8 * 4)
assert len(lines) >= 3 and size == 16 * (channels * 8 * 8 * 4 + 8), (len(lines), size)
for i, line in enumerate(lines):
    batch = batches[i * size:(i + 1) * size]
    first, label = struct.unpack("<f", batch[:4])[0], struct.unpack("<q", batch[-16 * 8:][:8])[0]
    assert line == "16 images, the first is of class %d and begins with %g" % (label, first), (i, line, label, first)
PYTHON
result $? "it prints the loader's batches, and nothing else"
"$scratch/c++" "$set" >"$scratch/c++.out" 2>"$said" && cmp "$scratch/c.out" "$scratch/c++.out" >>"$said"
result $? "and so does the one in C++"
for one in c c++; do
    "$scratch/$one" "$scratch/set" >"$scratch/out" 2>"$said"
    [ $? = 1 ] && [ ! -s "$scratch/out" ] && [ "$(wc -l <"$said")" = 1 ] && grep -qF "$scratch/set" "$said" && grep -qF 'train' "$said"
    result $? "a folder of splits is refused, naming them ($one)"
done

# ---- the process ----
cat >"$scratch/guest.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ffload/ffload.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int seen;
static void on_fault(int number) { seen = number; siglongjmp(back, 1); }
#define CHECK(what) if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

/* Reads a mapping of an empty file. */
static void fault(void) {
    FILE *file = tmpfile();
    volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    seen = 0;
    if (!sigsetjmp(back, 1)) (void)*map;
    CHECK(seen == SIGBUS);
    munmap((void *)map, 4096);
    fclose(file);
}

int main(int argc, char **argv) {
    struct sigaction action, before[NSIG] = {{{0}}}, own = {.sa_handler = on_fault};
    sigset_t blocked_before, blocked;
    (void)argc;
    sigaction(SIGBUS, &own, NULL);
    for (int number = 1; number < NSIG; number++) sigaction(number, NULL, &before[number]);
    CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &blocked_before));
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(handle);
    int (*open_set)(ffload_dataset **, const char *, const ffload_options *, ffload_error *);
    int (*sample)(ffload_dataset *, uint64_t, DLManagedTensorVersioned **, ffload_error *);
    int (*create)(ffload_loader **, ffload_dataset *, const ffload_options *, ffload_error *);
    int (*next)(ffload_loader *, ffload_batch **, ffload_error *);
    *(void **)&open_set = dlsym(handle, "ffload_dataset_open");
    *(void **)&sample = dlsym(handle, "ffload_dataset_sample");
    *(void **)&create = dlsym(handle, "ffload_loader_create");
    *(void **)&next = dlsym(handle, "ffload_loader_next");
    ffload_dataset *set;
    ffload_loader *loader;
    ffload_batch *batch;
    DLManagedTensorVersioned *tensor;
    ffload_error error;
    CHECK(!open_set(&set, argv[2], NULL, &error));
    CHECK(!create(&loader, set, NULL, &error));
    CHECK(!next(loader, &batch, &error));
    fault(); /* the program's own faults are its handler's, in this thread and with the library at work */
    CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &blocked));
    for (int number = 1; number < NSIG; number++) { /* no other signal is handled, and none is blocked */
        if (number == SIGBUS || sigaction(number, NULL, &action)) continue;
        CHECK(action.sa_handler == before[number].sa_handler);
        CHECK(sigismember(&blocked, number) == sigismember(&blocked_before, number));
    }
    /* Its own faults are errors: the set's only shard is cut short. */
    CHECK(!truncate(argv[3], 4096));
    CHECK(sample(set, 40, &tensor, &error) == FFLOAD_IO);
    CHECK(strstr(error.message, argv[3]) && !tensor);
    fault();
    dlclose(handle); /* its threads continue */
    usleep(50000);
    fault();
    return 0;
}
C
"$scratch/c" "$set" >/dev/null && "${CC:-gcc}" -Wall -Wextra $sanitize "$scratch/guest.c" $(flags --cflags) -ldl -pthread -o "$scratch/guest" >"$said" 2>&1 &&
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:handle_sigbus=0:detect_leaks=0 "$scratch/guest" "$library" "$set" "$set/shard-000000.ffs" >"$said" 2>&1
result $? "a program's own SIGBUS is its own handler's, the library's are errors; no other signal is touched; dlclose is harmless"
cat >"$scratch/gpu.c" <<'C'
#include <ffload/ffload.h>
#include <stdio.h>

int main(int argc, char **argv) {
    ffload_error error = {0};
    ffload_dataset *set;
    ffload_options *options;
    ffload_loader *loader;
    (void)argc;
    if (ffload_dataset_open(&set, argv[1], NULL, &error) || ffload_options_create(&options, &error) ||
        ffload_options_set(options, "device", "cuda", &error) || ffload_options_set(options, "layout", "channels_last", &error)) return 1;
    const int status = ffload_loader_create(&loader, set, options, &error);
    printf("%d %s\n", status, error.message);
    ffload_loader_destroy(&loader);
    ffload_options_destroy(&options);
    ffload_dataset_close(&set);
    return 0;
}
C
c -std=c99 "$scratch/gpu.c" -o "$scratch/gpu" && "$scratch/gpu" "$scratch/set/test" >"$said" 2>&1 && [ "$(wc -l <"$said")" = 1 ] &&
    if [ -e "$build/libff_cuda.so" ]; then ! grep -qE 'the (CUDA )?module|built without' "$said"; else grep -q '^1 .*built without CUDA' "$said"; fi
result $? "it finds the CUDA module next to itself, and says in one sentence what is missing for a GPU"
finish
