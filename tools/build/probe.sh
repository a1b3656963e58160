#!/bin/bash
# Finds compiler and libraries by compiling and linking a probe for each. Writes make variables to
# the file $1, and prints on stderr what it found and what is missing, with the packages that
# contain it. If something required is missing, $1 is the message with which make ends, and the exit
# code is 1. Environment: CC, CPPFLAGS, CFLAGS, LDFLAGS, PKG_CONFIG_PATH, DNNL (auto|0|1),
# DNNL_ROOT, MPI (auto|0|1), MPICC, PYTHON, CROSS, SYSROOT, and what probe_cuda.sh reads.
set -u
export LC_ALL=C
out=$1 here=$(dirname "$0")
scratch=$(mktemp -d "$out.XXXXXX") || exit 1 # below BUILD, where programs may run
trap 'rm -rf "$scratch"' EXIT
cc=${CC:-gcc}
missing=() wanted=() # packages, by their names in Debian 12
: >"$scratch/mk"
# package NAME COLUMN: the name in packages.txt's COLUMN of Debian 12's package NAME
package() {
    awk -v name="$1" -v column="$2" '/^# need / { for (i = 3; i <= NF; i++) if ($i == column) at = i - 1 }
        !/^#/ && $2 == name { print $at; exit }' "$here/packages.txt"
}
# packages NAME -> "libz-dev (Debian, Ubuntu), libz-devel (Fedora, RHEL), libz (conda)"
packages() {
    local debian=$1 ubuntu fedora conda
    ubuntu=$(package "$1" ubuntu-24.04) fedora=$(package "$1" fedora) conda=$(package "$1" conda)
    if [ "$ubuntu" = "$debian" ]; then debian="$debian (Debian, Ubuntu)"; else debian="$debian (Debian), $ubuntu (Ubuntu)"; fi
    echo "$debian, $fedora (Fedora, RHEL), $conda (conda)"
}
# compiles FLAGS...: the probe; the reason in $reason
compiles() {
    # shellcheck disable=SC2086
    $cc -std=c11 -D_GNU_SOURCE ${CPPFLAGS:-} ${CFLAGS:-} "$scratch/probe.c" -o "$scratch/probe" ${LDFLAGS:-} "$@" 2>"$scratch/log" && return
    reason=$(sed -nE '/error|cannot find|undefined/ {
        s/.*: ([^ :]*\.h): No such file.*/no header \1/
        s/.*cannot find (-l[^ :]*).*/no library \1/
        s/^[^ ]*: *([0-9]+:)* *//
        p; q }' "$scratch/log" | cut -c1-120)
    reason=${reason:-$(head -1 "$scratch/log" | cut -c1-120)}
    return 1
}
# try 'includes' 'expression' 'flags' [MODULE] -> 0 if it compiles and links, with pkg-config's
# flags for MODULE or with 'flags'; the flags in $cppflags and $libs, the reason in $reason. pkg-config knows
# this machine's libraries, not those of another architecture, which the compiler finds by its sysroot.
try() {
    local flag
    printf '%s\nint main(void) { return (int)(long)(%s); }\n' "$1" "$2" >"$scratch/probe.c"
    if [ -n "${4:-}" ] && [ -z "${CROSS:-}" ] && libs=$(pkg-config --libs $4 2>/dev/null) && cppflags=$(pkg-config --cflags $4 2>/dev/null); then
        libs=${libs% } cppflags=${cppflags% }
        # Libraries outside the system's folders must also be found at run time.
        for flag in $libs; do case "$flag" in -L*) libs="$libs -Wl,-rpath,${flag#-L}" ;; esac; done
        # shellcheck disable=SC2086
        compiles $cppflags $libs && return
    fi
    cppflags='' libs=$3
    # shellcheck disable=SC2086
    compiles $libs
}
# Whether the probe, which returns oneDNN's version, runs; its exit code in $status, the reason in $reason. 126 and
# more are the system's. For another architecture the header states the version.
runs() {
    if [ -n "${CROSS:-}" ]; then
        status=$(printf '#include <dnnl_version.h>\nDNNL_VERSION_MAJOR\n' | $cc -E -P ${CPPFLAGS:-} - | tail -1)
        return
    fi
    "$scratch/probe" 2>"$scratch/log"
    status=$?
    reason=$(sed 's/.*: error while/error while/' "$scratch/log" | head -1)
    [ $status -lt 126 ]
}
# The names under which the probe's libraries are found when it starts. Another name means another
# library.
needed() { "${CROSS:+$CROSS-}objdump" -p "$scratch/probe" 2>/dev/null | sed -n 's/^ *NEEDED *//p'; }
# need NAME VARIABLE includes expression flags package [MODULE]: refuses to build without it. Writes
# LIBS_VARIABLE, and adds to CPPFLAGS_FOUND.
need() {
    if try "$3" "$4" "$5" "${7:-}"; then
        echo "  $1: found (${cppflags:+$cppflags }$libs)" >&2
        echo "LIBS_$2 := $libs" >>"$scratch/mk"
        [ -z "$cppflags" ] || echo "CPPFLAGS_FOUND += $cppflags" >>"$scratch/mk"
        needed >>"$scratch/sonames"
    else
        echo "  $1: MISSING ($reason): $(packages "$6")" >&2
        missing+=("$6")
    fi
}
# The last lines that make prints: what to install, or what else is wrong.
refuse() {
    local column=debian-12 install="apt-get install" names='' conda='' one
    if grep -qs '^ID=ubuntu' /etc/os-release; then column=ubuntu-24.04
    elif ! command -v apt-get >/dev/null && command -v dnf >/dev/null; then column=fedora install="dnf install"; fi
    for one in "${missing[@]}" "${wanted[@]}"; do
        names="$names $(package "$one" $column)"
        case "$conda " in *" $(package "$one" conda) "*) ;; *) conda="$conda $(package "$one" conda)" ;; esac
    done
    if [ -n "$1" ]; then echo "Not built: $1"; else
        echo "Not built, for what is MISSING above. As root: $install$names"
        echo "Without root: conda create -p deps -c conda-forge$conda; conda activate ./deps; make CPPFLAGS=-I\$CONDA_PREFIX/include LDFLAGS=\"-L\$CONDA_PREFIX/lib -Wl,-rpath,\$CONDA_PREFIX/lib\""
    fi >"$out"
    exit 1
}

echo "probing for libraries with $cc:" >&2
# Without these nothing else can be probed: name everything that building needs.
everything() { mapfile -t missing < <(awk '$1 == "build" { print $2 }' "$here/packages.txt"); }
printf 'int main(void) { return 0; }\n' >"$scratch/probe.c"
# shellcheck disable=SC2086
if ! $cc -c "$scratch/probe.c" -o "$scratch/probe.o" 2>"$scratch/log"; then
    echo "  C compiler: MISSING ($(head -1 "$scratch/log" | sed 's/^[^ ]* line [0-9]*: //' | cut -c1-120)): $(packages gcc); CC=... names another" >&2
    everything
    refuse ''
fi
printf '#include <stdio.h>\n#include <pthread.h>\nint main(void) { return puts("") < 0; }\n' >"$scratch/probe.c"
if ! compiles -pthread; then
    echo "  C library: MISSING ($reason): $(packages libc6-dev)" >&2
    everything
    refuse ''
fi
need OpenMP OPENMP '#include <omp.h>' 'omp_get_max_threads()' '-fopenmp' gcc
need xxhash XXHASH '#include <xxhash.h>' 'XXH3_64bits("", 0) + XXH_versionNumber()' '-lxxhash' libxxhash-dev libxxhash
# The library's own choice of AVX2 or AVX-512 at run time, which not every build of it has.
try '#include <xxh_x86dispatch.h>' 'XXH3_64bits("", 0)' '-lxxhash' libxxhash &&
    echo "CPPFLAGS_FOUND += -DFF_HAVE_XXH_DISPATCH" >>"$scratch/mk"
need zstd ZSTD '#include <zstd.h>' 'ZSTD_versionNumber()' '-lzstd' libzstd-dev libzstd
need zlib ZLIB '#include <zlib.h>' 'zlibCompileFlags()' '-lz' zlib1g-dev zlib
need libarchive ARCHIVE '#include <archive.h>' 'archive_version_number()' '-larchive' libarchive-dev libarchive
need libjpeg JPEG '#include <stdio.h>
#include <jpeglib.h>' 'jpeg_std_error(0) && &jpeg_crop_scanline && LIBJPEG_TURBO_VERSION_NUMBER' '-ljpeg' libjpeg62-turbo-dev libjpeg
need libspng PNG '#include <spng.h>' 'spng_ctx_new(0)' '-lspng' libspng-dev spng
need libwebp WEBP '#include <webp/decode.h>
#include <webp/demux.h>' 'WebPGetDecoderVersion() + WebPGetDemuxVersion()' '-lwebpdemux -lwebp' libwebp-dev 'libwebpdemux libwebp'
need libtiff TIFF '#include <tiffio.h>' 'TIFFGetVersion()' '-ltiff' libtiff-dev libtiff-4
# The header alone: the library is opened at the first use of a URL.
need libcurl CURL '#include <curl/curl.h>' 'LIBCURL_VERSION_NUM' '' libcurl4-openssl-dev
need jansson JANSSON '#include <jansson.h>' 'json_object()' '-ljansson' libjansson-dev jansson

dnnl_flags="-ldnnl"
[ -n "${DNNL_ROOT:-}" ] && dnnl_flags="-I$DNNL_ROOT/include -L$DNNL_ROOT/lib -Wl,-rpath,$DNNL_ROOT/lib -ldnnl"
if [ "${DNNL:-auto}" = 0 ]; then
    echo "  oneDNN: not used (DNNL=0); training on the CPU uses the plain loops" >&2
elif try '#include <dnnl.h>' 'dnnl_version()->major' "$dnnl_flags" && runs; then
    echo "  oneDNN: found, version $status.x ($dnnl_flags)" >&2
    echo "HAVE_DNNL := 1" >>"$scratch/mk"
    echo "LIBS_DNNL := $dnnl_flags" >>"$scratch/mk"
    echo "CPPFLAGS_DNNL := -DFF_HAVE_DNNL=$status ${DNNL_ROOT:+-I$DNNL_ROOT/include}" >>"$scratch/mk"
elif [ "${DNNL:-auto}" = 1 ]; then
    echo "  oneDNN: MISSING ($reason), and DNNL=1 insists: $(packages libdnnl-dev)" >&2
    missing+=(libdnnl-dev)
else
    echo "  oneDNN: not found ($reason); training on the CPU uses the plain loops, slowly: $(packages libdnnl-dev)" >&2
    wanted+=(libdnnl-dev)
fi
# The compiler wrapper of the requested MPI, or of the first in PATH, knows MPI's flags.
mpi_flags=$("${MPICC:-mpicc}" -show 2>/dev/null | cut -d' ' -f2-)
if [ "${MPI:-auto}" = 0 ]; then
    echo "  MPI: not used (MPI=0)" >&2
elif [ -n "$mpi_flags" ] && try '#include <mpi.h>' 'MPI_Init_thread(0, 0, 0, 0)' "$mpi_flags"; then
    echo "  MPI: found ($mpi_flags)" >&2
    echo "HAVE_MPI := 1" >>"$scratch/mk"
    echo "FLAGS_MPI := $mpi_flags" >>"$scratch/mk"
else
    [ -n "$mpi_flags" ] || reason="no ${MPICC:-mpicc}"
    if [ "${MPI:-auto}" = 1 ]; then
        echo "  MPI: MISSING ($reason), and MPI=1 insists: $(packages libopenmpi-dev)" >&2
        missing+=(libopenmpi-dev)
    else
        echo "  MPI: not found ($reason); ranks under mpirun need it: $(packages libopenmpi-dev)" >&2
    fi
fi
python_include=$("${PYTHON:-/usr/bin/python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
[ -z "${CROSS:-}" ] || python_include=$SYSROOT$python_include
if [ -n "$python_include" ] && printf '#include <Python.h>\nint main(void) { return 0; }\n' >"$scratch/probe.c" && compiles -isystem "$python_include"; then
    echo "  Python: found ($python_include)" >&2
    echo "FLAGS_PYTHON := -isystem $python_include" >>"$scratch/mk"
else
    echo "  Python: not found (${reason:-no ${PYTHON:-/usr/bin/python3}}); the package ffload needs it: $(packages python3-dev)" >&2
fi
"$here/probe_cuda.sh" "$scratch/mk" || insisted=1
if try '#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>' '(cmocka_set_message_output(CM_OUTPUT_TAP), 0)' '-lcmocka' cmocka; then
    echo "  cmocka: found (unit tests)" >&2
    echo "LIBS_CMOCKA := $libs" >>"$scratch/mk"
    echo "CPPFLAGS_CMOCKA := $cppflags" >>"$scratch/mk"
else
    echo "  cmocka: not found ($reason); 'make test' alone needs it: $(packages libcmocka-dev)" >&2
fi
[ ${#missing[@]} -eq 0 ] || refuse ''
echo "SONAMES := $(sort -u "$scratch/sonames" | paste -sd' ')" >>"$scratch/mk"
[ -z "${insisted:-}" ] || refuse 'CUDA=1 insists on what is MISSING above; CUDA=auto builds without.'
cp "$scratch/mk" "$out"
