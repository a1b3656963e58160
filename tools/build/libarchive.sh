#!/bin/bash
# Builds libarchive from Debian's source package for a bundle, without arc4random_buf, which needs
# glibc 2.36, and without XML, which needs 30 MiB of tables. Prints the folder that holds
# libarchive.so.13 and its copyright; on failure one sentence, and exits 1.
# Usage: libarchive.sh FOLDER [wheel]; an existing build is kept. With `wheel` it takes the folder
# that LIBARCHIVE names instead, and it also succeeds, printing nothing, if the system's libarchive
# has permissive licences. Needs no root: it reads deb-src with its own package lists, and answers
# the configure test for arc4random_buf beforehand. CROSS, SYSROOT and CC: for another architecture.
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
command -v apt-get >/dev/null && command -v dpkg-source >/dev/null || fail "apt-get or dpkg-source (package dpkg-dev) is not here"
. /etc/os-release
[ "$ID" = debian ] || fail "this is not Debian"
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/state/lists/partial" "$scratch/cache/archives/partial"
for suite in "debian $VERSION_CODENAME" "debian-security $VERSION_CODENAME-security"; do
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/${suite% *} ${suite#* } main"
done >"$scratch/sources"
apt=(apt-get -qq -o "Dir::State=$scratch/state" -o "Dir::State::status=/var/lib/dpkg/status" -o "Dir::Cache=$scratch/cache"
    -o "Dir::Etc::SourceList=$scratch/sources" -o "Dir::Etc::SourceParts=/dev/null" -o "APT::Sandbox::User=root")
{
    cd "$scratch" && "${apt[@]}" update && "${apt[@]}" source libarchive && cd libarchive-*/
} >"$folder/log" 2>&1 || fail "its source package is not available ($(grep -m1 '^E:' "$folder/log" | cut -c1-100))"
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
