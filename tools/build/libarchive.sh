#!/bin/bash
# Builds libarchive from Debian's source package for a bundle, without arc4random_buf, which needs
# glibc 2.36, and without XML, which needs 30 MiB of tables. Prints the folder that holds
# libarchive.so.13 and its copyright; on failure one sentence, and exits 1.
# Usage: libarchive.sh FOLDER [wheel]; an existing build is kept. With `wheel` it takes the folder
# that LIBARCHIVE names instead, and it also succeeds, printing nothing, if the system's libarchive
# has permissive licences. It answers the configure test for arc4random_buf beforehand. CROSS, SYSROOT and CC: for another architecture.
set -u
[ "${2:-}${LIBARCHIVE:+ given}" != 'wheel given' ] || { echo "$LIBARCHIVE"; exit; }
use=${2:-bundle}
mkdir -p "$1" && folder=$(realpath "$1")
[ ! -e "$folder/libarchive.so.13" ] || { echo "$folder"; exit; }
# Libraries of the system's libarchive whose licences a wheel must not hold (licences.txt).
copyleft() { [ -z "${CROSS:-}" ] || { echo "libacl and libnettle"; return; }; ldd "$("${CC:-gcc}" -print-file-name=libarchive.so)" 2>/dev/null | grep -oE 'lib(acl|nettle)' | sort -u | paste -sd, | sed 's/,/ and /'; }
fail() {
    local others
    if [ "$use" = wheel ] && others=$(copyleft) && [ -n "$others" ]; then
        echo "wheel: libarchive is not rebuilt, because $1, and the system's needs $others, under the LGPL, which a wheel" \
            "must not hold; wanted Debian with access to its source packages, or LIBARCHIVE=FOLDER, which holds a" \
            "libarchive.so.13 configured --disable-acl --without-nettle, and its licence as copyright" >&2
        exit 1
    fi
    echo "$use: libarchive is not rebuilt, because $1: the $use has the system's, and may need its glibc" >&2
    [ "$use" = wheel ]
    exit
}
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
source=$("$here/debian_source.sh" libarchive "$scratch") || fail "$source"
cd "$source" || exit 1
# libarchive's own arc4random_buf is static, which conflicts with the declaration in glibc 2.36's
# stdlib.h.
sed -i 's/\<arc4random_buf\>/archive_random_buf/' libarchive/archive_random.c
{
    ac_cv_func_arc4random_buf=no CC="${CC:-gcc}" ./configure ${CROSS:+--host="$CROSS"} --disable-static --disable-bsdtar --disable-bsdcat --disable-bsdcpio \
        --disable-acl --disable-xattr --without-xml2 --without-expat --without-nettle --without-openssl --with-zstd CFLAGS=-O2 &&
        make -s -j"$(nproc)" ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=: libarchive.la
} >>"$folder/log" 2>&1 || fail "it does not build: $folder/log"
dpkg-parsechangelog -S Version >"$folder/version"
cp -L .libs/libarchive.so.13 debian/copyright "$folder"
echo "$folder"
