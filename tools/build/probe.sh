#!/bin/bash
# Finds libraries by compiling and linking a probe for each; writes make variables to the file $1
# and says on stderr what it found and why not. Environment: CC, DNNL (auto|0|1), DNNL_ROOT, and
# what probe_cuda.sh reads.
set -u
out=$1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
cc=${CC:-gcc}
failed=0
: >"$scratch/mk"
# try NAME 'includes' 'expression' 'flags' -> 0 where it compiles and links; the reason in $reason
try() {
    printf '%s\nint main(void) { return (int)(long)(%s); }\n' "$2" "$3" >"$scratch/probe.c"
    # shellcheck disable=SC2086
    if $cc -std=c11 -D_GNU_SOURCE "$scratch/probe.c" -o "$scratch/probe" $4 2>"$scratch/log"; then
        return 0
    fi
    reason=$(grep -m1 -E 'error|cannot find|undefined' "$scratch/log" | sed 's/^[^:]*: *//' | cut -c1-100)
    return 1
}
# need NAME VARIABLE includes expression flags package: refuses to build without it
need() {
    if try "$1" "$3" "$4" "$5"; then
        echo "  $1: found ($5)" >&2
        echo "$2 := $5" >>"$scratch/mk"
    else
        echo "  $1: MISSING ($reason); Debian package $6, or 'make deps'" >&2
        failed=1
    fi
}
echo "probing for libraries with $cc:" >&2
need xxhash LIBS_XXHASH '#include <xxhash.h>' 'XXH3_64bits("", 0) + XXH_versionNumber()' '-lxxhash' libxxhash-dev
# The library's own choice of AVX2 or AVX-512 as it runs; not every build of it has that.
try dispatch '#include <xxh_x86dispatch.h>' 'XXH3_64bits("", 0)' '-lxxhash' &&
    echo "CPPFLAGS_XXHASH := -DFF_HAVE_XXH_DISPATCH" >>"$scratch/mk"
need zstd LIBS_ZSTD '#include <zstd.h>' 'ZSTD_versionNumber()' '-lzstd' libzstd-dev
need zlib LIBS_ZLIB '#include <zlib.h>' 'zlibCompileFlags()' '-lz' zlib1g-dev
need libarchive LIBS_ARCHIVE '#include <archive.h>' 'archive_version_number()' '-larchive' libarchive-dev
need libjpeg LIBS_JPEG '#include <stdio.h>
#include <jpeglib.h>' 'jpeg_std_error(0) && &jpeg_crop_scanline && LIBJPEG_TURBO_VERSION_NUMBER' '-ljpeg' libjpeg62-turbo-dev
need libspng LIBS_PNG '#include <spng.h>' 'spng_ctx_new(0)' '-lspng' libspng-dev
need libwebp LIBS_WEBP '#include <webp/decode.h>
#include <webp/demux.h>' 'WebPGetDecoderVersion() + WebPGetDemuxVersion()' '-lwebpdemux -lwebp' libwebp-dev
need libtiff LIBS_TIFF '#include <tiffio.h>' 'TIFFGetVersion()' '-ltiff' libtiff-dev
need jansson LIBS_JANSSON '#include <jansson.h>' 'json_object()' '-ljansson' libjansson-dev

dnnl_flags="-ldnnl"
[ -n "${DNNL_ROOT:-}" ] && dnnl_flags="-I$DNNL_ROOT/include -L$DNNL_ROOT/lib -Wl,-rpath,$DNNL_ROOT/lib -ldnnl"
if [ "${DNNL:-auto}" = 0 ]; then
    echo "  oneDNN: not used (DNNL=0); training on the CPU uses the plain loops" >&2
elif try oneDNN '#include <dnnl.h>' 'dnnl_version()->major' "$dnnl_flags"; then
    "$scratch/probe"
    echo "  oneDNN: found, version $?.x ($dnnl_flags)" >&2
    echo "HAVE_DNNL := 1" >>"$scratch/mk"
    echo "LIBS_DNNL := $dnnl_flags" >>"$scratch/mk"
    [ -n "${DNNL_ROOT:-}" ] && echo "CPPFLAGS_DNNL := -I$DNNL_ROOT/include" >>"$scratch/mk"
elif [ "${DNNL:-auto}" = 1 ]; then
    echo "  oneDNN: MISSING ($reason), and DNNL=1 insists; Debian package libdnnl-dev" >&2
    failed=1
else
    echo "  oneDNN: not found ($reason); training on the CPU uses the plain loops, slowly; Debian package libdnnl-dev" >&2
fi
"$(dirname "$0")/probe_cuda.sh" "$scratch/mk" || failed=1
if try cmocka '#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>' '(cmocka_set_message_output(CM_OUTPUT_TAP), 0)' '-lcmocka'; then
    echo "  cmocka: found (unit tests)" >&2
    echo "HAVE_CMOCKA := 1" >>"$scratch/mk"
else
    echo "  cmocka: not found ($reason); needed by 'make test' only" >&2
fi
[ $failed -eq 0 ] || exit 1
mkdir -p "$(dirname "$out")" && cp "$scratch/mk" "$out"
