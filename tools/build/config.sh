#!/bin/bash
# Looks for the libraries, but only if something may have changed since the last time: the settings
# of make, the programs that PATH names, the folders that compilers and pkg-config search.
# Usage: config.sh BUILD. Writes BUILD/config.mk (make variables), or BUILD/config.refused (the
# sentence with which make ends). Environment: the variables named in SETTINGS, with their values;
# GIVEN names those that the user set, which BUILD/settings.mk keeps for later calls of make; with
# DRY it does not.
set -u
export LC_ALL=C # because compilers' messages are parsed
build=$1 here=$(dirname "$0")
mkdir -p "$build/flags"
cc=${CC%% *}

# ---- what the result depends on ----
settings() {
    local name
    for name in $SETTINGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG_LIBDIR; do
        printf '%s=%s\n' "$name" "${!name-}"
    done
    tools
}
tools() {
    local tool
    for tool in "$cc" "${CXX%% *}" pkg-config "${MPICC:-mpicc}" nvcc "$PYTHON"; do command -v "$tool"; done
}
# The folders of flags like -Idir, -isystem dir and -Ldir.
named() {
    printf '%s\n' "$@" | sed -nE 's/^(-I|-L|-isystem|-Wl,-rpath,)(.+)/\2/p; /^-(I|L|isystem)$/{n;p;}'
}
# Installing or removing a library changes the folder that holds the library, or that folder's
# parent.
folders() {
    $CC -E -v -x c /dev/null 2>&1 | sed -n '/^#include </,/^End of search/ s/^ //p'
    $CC -print-search-dirs 2>/dev/null | sed -n 's/^libraries: =//p' | tr : '\n'
    pkg-config --variable pc_path pkg-config 2>/dev/null | tr : '\n'
    # shellcheck disable=SC2086
    named ${CPPFLAGS:-} ${CFLAGS:-} ${LDFLAGS:-}
    printf '%s\n' "${CPATH:-}" "${LIBRARY_PATH:-}" "${LD_LIBRARY_PATH:-}" | tr : '\n'
    # A user may edit own descriptions of libraries in place.
    printf '%s\n' "${PKG_CONFIG_PATH:-}" "${PKG_CONFIG_LIBDIR:-}" | tr : '\n' | while read -r place; do
        [ -n "$place" ] && { echo "$place"; compgen -G "$place/*.pc"; }
    done
    # The linker's own folders, and the libraries that a starting program would find.
    ld --verbose 2>/dev/null | grep -oE 'SEARCH_DIR\("=?[^"]+' | sed -E 's/.*"=?//'
    echo /etc/ld.so.cache
    # cc1 is next to the compiler's libraries; a compiler without it supports only some languages.
    dirname "$("$cc" -print-prog-name=cc1plus 2>/dev/null)"
    "$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null
    echo /usr/local
    local place more compiler
    compiler=$(realpath "$(command -v nvcc)" 2>/dev/null)
    for place in ${compiler:+"${compiler%/bin/nvcc}"} ${DNNL_ROOT:+"$DNNL_ROOT"} ${CUDA_HOME:+"$CUDA_HOME"} ${CUDA_ROOT:+"$CUDA_ROOT" "$CUDA_ROOT"/nvidia "$CUDA_ROOT"/nvidia/*} /usr/local/cuda*; do
        for more in '' /bin /include /lib /lib64 /targets/*/include /targets/*/lib; do compgen -G "$place$more" || echo "$place$more"; done
    done
}
scripts=("$0" "$here/probe.sh" "$here/probe_cuda.sh")
# stat leaves out what does not exist, and so the absence is remembered.
current() {
    settings
    local programs=() places=()
    mapfile -t programs < <(tools | sort -u)
    mapfile -t places <"$build/config.folders"
    stat -L -c '%n %y' "${scripts[@]}" "${programs[@]}" "${places[@]}" 2>/dev/null
}
quiet=''
if [ -e "$build/config.mk" ] && [ -e "$build/config.folders" ] && [ -e "$build/config.seen" ]; then
    now=$(current)
    [ "$now" != "$(cat "$build/config.seen")" ] || exit 0
    quiet=1
fi

# ---- looking again ----
new=$build/config.new.$$
trap 'rm -rf "$new" "$new".*' EXIT
# A relative path belongs to this checkout.
folders | sed -E '/^$/d; s|^([^/])|'"$PWD"'/\1|' | sort -u >"$new.folders"
mv "$new.folders" "$build/config.folders"
current >"$new.seen"
if [ -z "$quiet" ]; then
    "$here/probe.sh" "$new" 2>&1 | tee "$new.log" >&2
    code=${PIPESTATUS[0]}
else
    "$here/probe.sh" "$new" >"$new.log" 2>&1
    code=$?
    # Prints only what is new.
    changes=$(grep -vxFf "$build/config.log" "$new.log" 2>/dev/null)
    [ -z "$changes" ] || printf 'libraries were looked for again:\n%s\n' "$changes" >&2
fi
if [ "$code" -ne 0 ]; then
    # The next call looks again.
    rm -f "$build/config.mk" "$build/config.seen"
    printf '%s' "$(cat "$new")" >"$build/config.refused" # without the last newline, which make's message would show
    exit 0
fi
# A later make without these settings uses them again, such as the first make's CPPFLAGS.
for name in $GIVEN; do
    value=${!name//\$/\$\$}
    printf 'kept_%s := %s\n' "$name" "${value//#/\\#}"
done >"$new.settings"
# A dry run keeps no settings; if it had other ones, the next call looks again.
if [ -z "${DRY:-}" ]; then mv "$new.settings" "$build/settings.mk"
elif ! cmp -s "$new.settings" "$build/settings.mk"; then echo "a dry run" >>"$new.seen"; fi
# Also the folders and files that the found libraries name, for example in a .pc file.
grep -oE '( |-I|-L)/[^ ]+' "$new" | sed 's|^[^/]*||' | sort -u | grep -vxFf "$build/config.folders" >"$new.more"
xargs stat -L -c '%n %y' <"$new.more" >>"$new.seen" 2>/dev/null
cat "$new.more" >>"$build/config.folders"
mv "$new.log" "$build/config.log"
mv "$new" "$build/config.mk"
mv "$new.seen" "$build/config.seen"
rm -f "$build/config.refused"
