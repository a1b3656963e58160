#!/bin/bash
# Runs a command (default: .ci/steps, the README's commands and all tests) on a copy of this checkout, in a
# chroot of a Debian that has git and make and nothing else.
# Usage: debian.sh [--fresh] SUITE [COMMAND...]; SUITE is debootstrap's: bookworm (12), trixie (13). Needs
# root; installs debootstrap. The chroot (8 GB) is kept in FFPACK_CHROOTS (/var/tmp/ffpack-chroots) and
# used again; --fresh makes one for this command only. The chroot can read a CUDA toolkit of this machine,
# and shared/ next to the checkout. Exit code: the command's.
set -u
fail() { echo "debian: $*" >&2; exit 1; }
fresh=''
[ "${1:-}" != --fresh ] || { fresh=1; shift; }
[ $# -ge 1 ] || fail "name the suite: debian.sh trixie [COMMAND...]"
suite=$1
shift
[ $# -gt 0 ] || set -- .ci/steps
[ "$(id -u)" = 0 ] || fail "a chroot needs root: sudo $0 $suite"
export DEBIAN_FRONTEND=noninteractive
command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap >/dev/null; } ||
    fail "debootstrap cannot be installed"
cd "$(dirname "$0")/../.." || exit 1
chroots=${FFPACK_CHROOTS:-/var/tmp/ffpack-chroots}
root=$chroots/$suite
[ -z "$fresh" ] || root=$chroots/$suite.$$
trap '[ -z "$fresh" ] || rm -rf --one-file-system "$root" "$root.log"' EXIT
trap 'exit 130' INT TERM
if [ ! -e "$root/.made" ]; then
    mkdir -p "$root"
    debootstrap --variant=minbase --include=make,git "$suite" "$root" >"$root.log" 2>&1 ||
        fail "debootstrap failed: $(tail -n 3 "$root.log")"
    rm -f "$root"/var/cache/apt/archives/*.deb
    touch "$root/.made"
fi
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io" # a chroot that a crash may have damaged is made again
echo 'APT::Keep-Downloaded-Packages "false";' >"$root/etc/apt/apt.conf.d/keep-nothing"
# How this machine reaches the network: names, certificates, settings of pip.
for file in resolv.conf hosts; do cp -L "/etc/$file" "$root/etc/$file"; done
for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/*.crt; do [ ! -e "$file" ] || install -D -m 644 "$file" "$root$file"; done
mkdir -p "$root/root/ffpack"
# What was built in the chroot stays; files deleted here are deleted there.
(cd "$root/root/ffpack" && find . -mindepth 1 -maxdepth 1 ! -name build ! -name quickstart -exec rm -rf {} +)
git clone -q --no-checkout . "$root/root/clone" && mv "$root/root/clone/.git" "$root/root/ffpack/" && rmdir "$root/root/clone" || fail "git clone failed"
git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$root/root/ffpack"
git -C "$root/root/ffpack" reset -q
# The command runs in its own namespaces and root: what it mounts and starts ends with it, however it ends.
inside() {
    reads() { # FOLDER PLACE: mounts the folder there, read-only
        mkdir -p "$root$2" && mount --bind "$1" "$root$2" && mount -o remount,bind,ro "$root$2" || fail "$root$2 cannot be mounted"
    }
    mount --bind "$root" "$root" || fail "$root cannot be mounted"
    local toolkit
    for toolkit in /usr/local/cuda*; do
        [ ! -d "$toolkit" ] || [ -n "${FFPACK_WITHOUT_CUDA:-}" ] || reads "$(realpath "$toolkit")" "$toolkit"
    done
    [ ! -d ../shared ] || reads "$(realpath ../shared)" /root/shared
    mount -t proc proc "$root/proc" || fail "$root/proc cannot be mounted"
    mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || fail "$root/dev and $root/sys cannot be mounted"
    # Replaces the root; in a chroot there would be no user namespaces.
    cd "$root" && mkdir -p .machine && pivot_root . .machine || fail "$root cannot be the root"
    umount -l .machine && rmdir .machine && cd /root/ffpack || fail "the machine's root stays"
    exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" "$@"
}
export root
export -f fail inside
unshare --mount --propagation private --pid --fork --kill-child bash -c 'inside "$@"' bash "$@"
