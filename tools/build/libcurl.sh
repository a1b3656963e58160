#!/bin/bash
# Builds libcurl from Debian's source package for a bundle or a wheel: HTTP and HTTPS alone, with OpenSSL inside and hidden, because
# a process with two files named libcrypto.so.3 uses the first of them for both. Prints the folder that holds libcurl-ffpack.so.4
# and its copyright; on failure one sentence on standard error, and exits 1: URLs then use the system's libcurl.
# Usage: libcurl.sh FOLDER; an existing build is kept. CROSS, SYSROOT and CC: for another architecture.
set -u
mkdir -p "$1" && folder=$(realpath "$1")
[ ! -e "$folder/libcurl-ffpack.so.4" ] || { echo "$folder"; exit; }
here=$(dirname "$(realpath "$0")")
fail() { echo "libcurl is not built, because $1: URLs use the system's" >&2 && exit 1; }
multiarch=${CROSS:-$(gcc -print-multiarch)} system=${SYSROOT:-}/usr
[ -e "$system/lib/$multiarch/libssl.a" ] || fail "$system/lib/$multiarch has no libssl.a (package libssl-dev)"
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
source=$("$here/debian_source.sh" curl "$scratch") || fail "$source"
# With nothing but the archives in its folder, the linker takes them.
mkdir -p "$scratch/openssl/lib"
ln -s "$system/include" "$scratch/openssl/include"
ln -s "$system/lib/$multiarch/libssl.a" "$system/lib/$multiarch/libcrypto.a" "$scratch/openssl/lib/"
cd "$source" || exit 1
off=()
for part in ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt ftp file ntlm alt-svc hsts manual; do off+=("--disable-$part"); done
for part in libpsl libidn2 nghttp2 zlib zstd brotli librtmp libssh2 libgsasl; do off+=("--without-$part"); done
{
    CC="${CC:-gcc}" ./configure ${CROSS:+--host="$CROSS"} --disable-static --with-openssl="$scratch/openssl" "${off[@]}" CFLAGS=-O2 LDFLAGS=-Wl,--exclude-libs,ALL &&
        make -s -j"$(nproc)" -C lib ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=: libcurl.la
} >>"$folder/log" 2>&1 || fail "it does not build: $folder/log"
dpkg-parsechangelog -S Version >"$folder/version"
cat debian/copyright "$system/share/doc/libssl-dev/copyright" >"$folder/copyright"
cp -L lib/.libs/libcurl.so.4 "$folder/libcurl-ffpack.so.4"
echo "$folder"
