#!/bin/bash
# Puts the programs of a build and the libraries they need into a folder that runs in any place.
# Usage: bundle.sh BUILD FOLDER PROGRAM...
#
# FOLDER/bin holds the programs, FOLDER/lib the CUDA and MPI modules and every library except those
# that belong to the target system (the C and C++ runtimes, the driver's and MPI's) and NVIDIA's, which are found
# on that system (loader/cuda/libraries.h) or, with BUNDLE_CUDA=1, put into FOLDER/lib. Programs and libraries
# find each other by $ORIGIN; no LD_LIBRARY_PATH is needed or changed. FOLDER/share holds man pages, completions
# and documents if BUILD/share has them, and the licence of every library (share/doc/licences; its file
# "libraries" names package and version). Copied into a PREFIX, FOLDER is installed there. Environment:
# LIBARCHIVE and LIBCURL, folders of rebuilt ones (libarchive.sh, libcurl.sh); BUNDLE_CUDA, CUDA_FOLDERS; BUNDLE_LIBRARIES, other
# libraries of BUILD that FOLDER/lib gets; BUNDLE_MPI=0 leaves the MPI module out; CROSS, SYSROOT: a build for another
# architecture, whose libraries are in SYSROOT.
set -eu
build=$1 folder=$2
shift 2
patchelf=$(command -v patchelf) || { echo "bundle: patchelf is MISSING; Debian package patchelf, or 'make deps'" >&2; exit 1; }
# Every system has its own: glibc, GCC's C++ library, the driver.
system='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl|libnsl|libstdc\+\+|libgcc_s|libcuda|libnvidia-ml)\.so'
nvidia='^(libcudart|libcudnn.*|libcublas.*|libnccl|libnvrtc.*|libnvJitLink)\.so'

rm -rf "$folder"
licences=$folder/share/doc/licences
mkdir -p "$folder/bin" "$folder/lib" "$licences"
for part in "$build"/share/*/; do [ ! -d "$part" ] || cp -r "$part" "$folder/share/"; done
cp LICENSE "$licences/ffpack"
# twin FILE: the file of a sysroot under its name on this machine, which knows the package of both
twin() { local at=${1#"$SYSROOT"}; echo "${at/"$CROSS"/"$(gcc -print-multiarch)"}"; }
# licence NAME FILE: copies a library's licence from its package, with the common texts that it
# refers to
licence() {
    local text package='' name
    text=$(dirname "$2")/copyright
    if [ ! -e "$text" ]; then
        for name in "$2" "$(realpath "$2")" "/usr$(realpath "$2")" ${CROSS:+"$(twin "$2")"}; do
            package=$(dpkg-query -S "$name" 2>/dev/null | sed -n '1s/[:,].*//p')
            [ -z "$package" ] || break
        done
        text=${SYSROOT:-}/usr/share/doc/$package/copyright
    fi
    [ -e "$text" ] || { echo "bundle: no licence of $2 was found; put it into $licences" >&2; return; }
    cp -L "$text" "$licences/${1%%.so*}"
    if [ -n "${package:-}" ]; then package="$package $(dpkg-query -W -f '${Version}' "$package")"
    else package="${1%%[-.]*} $(cat "$(dirname "$2")/version" 2>/dev/null || echo rebuilt)"; fi
    echo "$1 $package" >>"$licences/libraries"
    grep -oE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$text" | sort -u | while read -r name; do
        [ ! -e "$name" ] || cp -L "$name" "$licences/"
    done
}
for program in "$@"; do cp "$build/$program" "$folder/bin/"; done
[ ! -e "$build/libff_cuda.so" ] || cp "$build/libff_cuda.so" "$folder/lib/"
for library in ${BUNDLE_LIBRARIES:-}; do cp -L "$build/$library" "$folder/lib/"; done

# The libraries that files need, directly or through others: "NAME PATH" each. ldd starts the files, which those of
# another architecture do not.
needs() {
    local -A seen=()
    local files=("$@") name place
    if [ -z "${CROSS:-}" ]; then
        LD_LIBRARY_PATH=${LIBARCHIVE:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ldd "$@" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u
        return
    fi
    while [ ${#files[@]} -gt 0 ]; do
        for name in $("$CROSS-readelf" -d "${files[0]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            [ -z "${seen[$name]:-}" ] || continue
            seen[$name]=1
            for place in ${LIBARCHIVE:+"$LIBARCHIVE"} "$SYSROOT/usr/lib/$CROSS" "$SYSROOT/lib/$CROSS"; do
                [ -e "$place/$name" ] || continue
                echo "$name $place/$name"
                files+=("$place/$name")
                break
            done
        done
        files=("${files[@]:1}")
    done
}
# shellcheck disable=SC2046
needs "$folder"/bin/* $(find "$folder/lib" -type f) |
    while read -r name file; do
        if grep -qE "$system" <<<"$name"; then continue; fi
        if grep -qE "$nvidia" <<<"$name"; then continue; fi
        if [[ $name = libjbig.so.* ]]; then # no_jbig.c explains why
            ${CC:-gcc} -O2 -shared -fPIC -nostdlib tools/build/no_jbig.c -o "$folder/lib/$name" -Wl,-soname,"$name"
            continue
        fi
        cp -L "$file" "$folder/lib/$name"
        licence "$name" "$file"
    done
if [ -n "${LIBCURL:-}" ]; then # opened by its name at the first URL (format/storage/curl.c)
    cp "$LIBCURL/libcurl-ffpack.so.4" "$folder/lib/"
    licence libcurl-ffpack.so.4 "$LIBCURL/libcurl-ffpack.so.4"
fi
# MPI is the target system's, as its mpirun is.
[ "${BUNDLE_MPI:-1}" = 0 ] || [ ! -e "$build/libff_mpi.so" ] || cp "$build/libff_mpi.so" "$folder/lib/"
if [ "${BUNDLE_CUDA:-0}" = 1 ]; then
    for place in ${CUDA_FOLDERS:-}; do
        for file in "$place"/lib{nvrtc,cublas,cudnn,nccl}*.so.*; do
            case "$file" in *.alt.* | *'*'*) continue ;; esac
            cp -L "$file" "$folder/lib/"
        done
    done
fi
chmod u+w "$folder"/bin/* "$folder"/lib/* 2>/dev/null || true
"${CROSS:+$CROSS-}strip" --strip-unneeded "$folder"/bin/*
for file in "$folder"/lib/*; do
    [ -e "$file" ] || continue
    # NVIDIA's libraries find each other already, and stay unchanged.
    if grep -qE "$nvidia" <<<"${file##*/}"; then continue; fi
    "${CROSS:+$CROSS-}strip" --strip-unneeded "$file"
    "$patchelf" --set-rpath '$ORIGIN' "$file"
done
for file in "$folder"/bin/*; do "$patchelf" --set-rpath '$ORIGIN/../lib' "$file"; done

glibc=$("${CROSS:+$CROSS-}objdump" -T "$folder"/bin/* "$folder"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
echo "bundle: $folder, $(du -sk --apparent-size "$folder" | awk '{ printf "%.1f", $1 / 1024 }') MiB; it needs glibc ${glibc#GLIBC_} or newer"
