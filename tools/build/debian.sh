#!/bin/bash
# Runs a command (default: make test) on a copy of the tracked and the new files, in a chroot of another
# Debian. Usage: debian.sh SUITE [COMMAND...]; SUITE is debootstrap's: bookworm (12), trixie (13).
# Needs root and debootstrap; the chroot is kept and reused, in FFPACK_CHROOTS
# (/var/tmp/ffpack-chroots), 3 GB. Exit code: the command's.
set -u
fail() { echo "debian: $*" >&2; exit 1; }
[ $# -ge 1 ] || fail "name the suite: debian.sh trixie [COMMAND...]"
suite=$1
shift
[ $# -gt 0 ] || set -- make test CUDA=0
[ "$(id -u)" = 0 ] || fail "a chroot needs root: sudo $0 $suite"
command -v debootstrap >/dev/null || fail "debootstrap is not here: apt-get install debootstrap"
cd "$(dirname "$0")/../.." || exit 1
root=${FFPACK_CHROOTS:-/var/tmp/ffpack-chroots}/$suite
if [ ! -e "$root/.made" ]; then
    mkdir -p "$root"
    debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" >"$root.log" 2>&1 ||
        fail "debootstrap failed: $root.log"
    touch "$root/.made"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
trap 'umount -l "$root/proc" "$root/dev" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
mount -t proc proc "$root/proc" || fail "$root/proc cannot be mounted"
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" || fail "$root/dev cannot be mounted"
mkdir -p "$root/root/ffpack"
# Build outputs there stay; files deleted here are deleted there.
(cd "$root/root/ffpack" && find . -mindepth 1 -maxdepth 1 ! -name build ! -name quickstart -exec rm -rf {} +)
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$root/root/ffpack"
chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" \
    sh -c 'cd /root/ffpack && exec "$@"' sh "$@"
