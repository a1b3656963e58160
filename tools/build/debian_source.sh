#!/bin/bash
# Unpacks the source package NAME of this Debian, with its patches, in FOLDER, and prints the folder of the sources; on failure
# one sentence on standard output, and exits 1. Needs no root: it reads deb-src with its own package lists.
# Usage: debian_source.sh NAME FOLDER
set -u
name=$1 folder=$2
fail() { echo "$1" && exit 1; }
command -v apt-get >/dev/null && command -v dpkg-source >/dev/null || fail "apt-get or dpkg-source (package dpkg-dev) is not here"
. /etc/os-release
[ "$ID" = debian ] || fail "this is not Debian"
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
for suite in "debian $VERSION_CODENAME" "debian-security $VERSION_CODENAME-security"; do
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/${suite% *} ${suite#* } main"
done >"$folder/sources"
apt=(apt-get -qq -o "Dir::State=$folder/state" -o "Dir::State::status=/var/lib/dpkg/status" -o "Dir::Cache=$folder/cache"
    -o "Dir::Etc::SourceList=$folder/sources" -o "Dir::Etc::SourceParts=/dev/null" -o "APT::Sandbox::User=root")
cd "$folder" || exit 1
{ "${apt[@]}" update && "${apt[@]}" source "$name"; } >log 2>&1 ||
    fail "its source package is not available ($(grep -m1 '^E:' log | cut -c1-100))"
echo "$folder/$(find . -maxdepth 1 -type d -name "$name-*" -printf '%f\n' | head -1)"
