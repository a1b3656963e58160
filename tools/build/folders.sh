#!/bin/bash
# The folders that make install makes, listed in PREFIX/share/ffpack/folders: PREFIX (.) and folders below it
# relative to PREFIX, so that they are found after PREFIX was moved; folders above it by their absolute paths.
# Usage: folders.sh make PREFIX FOLDER...    makes FOLDER (from PREFIX), and lists what was not there
#        folders.sh stage PREFIX FOLDER...   makes FOLDER: a package is unpacked where others' folders are
#        folders.sh remove PREFIX            removes what is listed and empty, and the list
set -eu
to=$2 list=share/ffpack/folders
# The missing folders on the way to each.
missing() {
    local folder
    for folder in "$@"; do
        while [ -n "$folder" ] && [ ! -e "$folder" ]; do
            case "$folder" in
            "$to") echo . ;;
            "$to"/*) echo "${folder#"$to"/}" ;;
            *) echo "$folder" ;;
            esac
            folder=${folder%/*}
        done
    done | sort -u
}
does=$1
shift 2
case "$does" in
make | stage)
    folders=("$to" "${@/#/$to/}")
    made=$(missing "${folders[@]}")
    install -d -m 755 "${folders[@]}"
    if [ "$does" = make ] && [ -n "$made" ]; then
        echo "$made" >>"$to/$list"
        chmod 644 "$to/$list"
    fi
    ;;
remove)
    [ -e "$to/$list" ] || exit 0
    made=$(sort -ru "$to/$list")
    rm "$to/$list"
    # The deepest first; rmdir leaves a folder that holds other files.
    { grep -v '^[./]' <<<"$made" | sed "s|^|$to/|"; grep -qx '[.]' <<<"$made" && echo "$to"; grep '^/' <<<"$made"; } |
        while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
    ;;
esac
