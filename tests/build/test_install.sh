#!/bin/bash
# make install into a folder of its own: the programs run from there, fftrain finds the CUDA module,
# man pages and completions have the programs' own options; make uninstall leaves no file. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
unset MAKEFLAGS MAKELEVEL MFLAGS DESTDIR PREFIX
build=${BUILD:-build}
makes() { make -s BUILD="$build" SANITIZE="${SANITIZE:-}" "$@" >"$said" 2>&1; }
clean() { env -i PATH=/usr/bin:/bin HOME="$scratch" "$@"; }
here=$scratch/there/prefix

makes install PREFIX="$here"
result $? "make install into a folder of one's own"
grep -qF "export PATH=\"$here/bin:\$PATH\"" "$said"
result $? "it reports that PATH lacks it"
PATH="$here/bin:$PATH" makes install PREFIX="$here" && ! grep -q 'export PATH' "$said"
result $? "and does not where PATH has it"
[ "$(find "$here" -type f -path '*/bin/*' -printf '%m\n' | sort -u)" = 755 ] && [ "$(find "$here" -type f ! -path '*/bin/*' -printf '%m\n' | sort -u)" = 644 ]
result $? "all can read it, and run the programs"
"$build/tests/make_set" "$scratch/set" --splits train,test --count 64 --height 8 --width 8 --statistics >"$said" || exit 1
{ for program in ffpack ffinspect fftrain; do clean "$here/bin/$program" --version || exit 1; done
    clean "$here/bin/ffinspect" "$scratch/set/train" --npy "$scratch/x.npy" &&
        clean "$here/bin/ffpack" "$scratch/x.npy" -o "$scratch/packed" &&
        clean "$here/bin/fftrain" --data "$scratch/set" --recipe quickstart --epochs 1 --batch 32 --threads 1 --device cpu; } >"$said" 2>&1
result $? "all three run from there, fftrain with a recipe"
mkdir -p "$scratch/copied/programs" "$scratch/moved" "$scratch/foreign/quickstart" # a folder of a recipe's name
cp "$here"/bin/* "$scratch/copied/programs/"
fails() { (cd "$scratch/foreign" && clean "$scratch/copied/programs/$1" "${@:2}" >"$said" 2>&1); [ $? = 1 ]; }
fails fftrain --data "$scratch/set" --recipe quickstart && [ "$(wc -l <"$said")" = 1 ] &&
    grep -qF "fftrain: --recipe: 'quickstart' is unknown, and fftrain's recipe files are missing: neither $scratch/copied/programs/share/ffpack/recipes nor $scratch/copied/share/ffpack/recipes exists; copy share from where fftrain was built or installed, or use make install or make bundle; the recipes without files are smallnet, " "$said"
result $? "fftrain copied without share reports which files are missing, where they were looked for, and what to do"
clean "$scratch/copied/programs/fftrain" --data "$scratch/set" --recipe resnet18 --dry-run >"$said" 2>&1 &&
    clean "$scratch/copied/programs/ffpack" "$scratch/x.npy" -o "$scratch/packed-2" >"$said" 2>&1 &&
    clean "$scratch/copied/programs/ffinspect" "$scratch/packed-2" >"$said" 2>&1
result $? "what needs no share runs without"
for place in copied/programs copied; do
    mkdir -p "$scratch/$place/share/ffpack" && cp -r "$here/share/ffpack/recipes" "$scratch/$place/share/ffpack/"
    clean "$scratch/copied/programs/fftrain" --data "$scratch/set" --recipe quickstart --dry-run >"$said" 2>&1
    result $? "with share in $place it finds the recipes"
    fails fftrain --data "$scratch/set" --recipe quickstar || grep -qF "'quickstar' is unknown; did you mean quickstart?" "$said"
    result $? "and names the nearest"
    rm -r "$scratch/$place/share"
done
cp -r "$here" "$scratch/moved/prefix" && clean "$scratch/moved/prefix/bin/fftrain" --data "$scratch/set" --recipe quickstart --dry-run >"$said" 2>&1
result $? "and where the whole PREFIX was moved"
diff -r tools/launch "$here/share/ffpack/launch" >"$said"
result $? "job files are in share/ffpack/launch"
if [ -e "$build/libff_cuda.so" ]; then
    cmp -s "$here/lib/libff_cuda.so" "$build/libff_cuda.so"
    result $? "the CUDA module is in lib"
    # The module is found; the driver is missing, or with one a device: --device cuda reports which.
    clean "$here/bin/fftrain" --data "$scratch/set" --model smallnet --epochs 1 --batch 32 --device cuda >"$said" 2>&1
    ! grep -qE 'the (CUDA )?module' "$said"
    result $? "fftrain finds it there"
    fails fftrain --data "$scratch/set" --model smallnet --epochs 1 --batch 32 --device cuda &&
        grep -qF "the module libff_cuda.so is neither in $scratch/copied/programs nor in its ../lib or ..; copy it from where this was built or installed, or use make install or make bundle" "$said"
    result $? "copied without it, it reports where it was looked for, and what to do"
else
    echo old >"$scratch/old" && install -D "$scratch/old" "$here/lib/libff_cuda.so" && makes install PREFIX="$here" && [ ! -e "$here/lib/libff_cuda.so" ]
    result $? "an older build's module does not stay"
fi
if [ -e "$build/libff_mpi.so" ]; then
    cmp -s "$here/lib/libff_mpi.so" "$build/libff_mpi.so"
    result $? "the MPI module is in lib"
fi

# ---- pages ----
(cd "$here/share/doc/ffpack" && find . -name '*.md' | while read -r page; do
    grep -oE '\]\([^)# ]+' "$page" | sed 's/..//' | grep -v '://' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page links to $link, which is not installed"
    done
done) >"$said"
[ ! -s "$said" ] && grep -q '](train/GPU.md)' "$here/share/doc/ffpack/README.md" && grep -q '](examples/batches.c)' "$here/share/doc/ffpack/README.md"
result $? "installed pages link to what is installed"
for file in tools/launch=../../ffpack/launch one/of.md; do echo "$file"; done | paste -sd' ' >"$scratch/there.txt"
printf '%s\n' 'A [folder](../tools/launch), a [page](of.md#part), [two' 'lines](gone.md) and ![a picture](a.png) [b](https://b.c/d) a[i](x).' >"$scratch/page.md"
awk -v page=one/page.md -v there="$(cat "$scratch/there.txt")" -f tools/build/pages.awk "$scratch/page.md" >"$said"
[ "$(cat "$said")" = 'A [folder](../../../ffpack/launch), a [page](of.md#part), two
lines and a picture [b](https://b.c/d) ai.' ]
result $? "a link to a file that is not there becomes its text"

# ---- man pages ----
for program in ffpack ffinspect fftrain; do
    page=$here/share/man/man1/$program.1
    if command -v groff >/dev/null; then groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null | head -5; fi
    # It has no date.
    if command -v mandoc >/dev/null; then mandoc -Tlint -Wwarning "$page" | grep -v 'missing date' | head -5; fi
done >"$said"
if command -v groff >/dev/null || command -v mandoc >/dev/null; then
    [ ! -s "$said" ]
    result $? "groff and mandoc find no fault with the man pages"
else skip "groff and mandoc find no fault with the man pages" "neither is here"; fi
read_page() { if command -v mandoc >/dev/null; then mandoc -Tascii -Owidth=200 "$1" | sed 's/.\x08//g'; else groff -man -Tascii -P-cbou -rLL=200n "$1"; fi; }
if command -v groff >/dev/null || command -v mandoc >/dev/null; then
    : >"$said"
    for program in ffpack ffinspect fftrain; do
        read_page "$here/share/man/man1/$program.1" >"$scratch/page"
        case $program in ffpack) commands="merge append copy repair" ;; fftrain) commands="evaluate predict export report lr-find diff replay measure-net" ;; *) commands= ;; esac
        for command in '' $commands; do
            "$here/bin/$program" $command --help | grep -oE '^ +(-., )?--[a-z][a-z0-9-]*' | sed 's/.*--/--/' | while read -r option; do
                grep -qE -- "^ +(-., )?$option( |$)" "$scratch/page" || echo "$program $command: $option is not in the man page"
            done >>"$said"
        done
        grep -qx 'EXIT STATUS' "$scratch/page" && grep -qx 'EXAMPLES' "$scratch/page" || echo "$program: no exit status or examples" >>"$said"
    done
    [ ! -s "$said" ]
    result $? "every option is in its man page, and so are examples and exit codes"
else skip "every option is in its man page" "neither groff nor mandoc is here"; fi

# ---- completions ----
mkdir "$scratch/work" && touch "$scratch/work/names with blanks.txt" && mkdir "$scratch/work/folder"
# bash_completes 'LINE': what bash offers for its last word
bash_completes() {
    (cd "$scratch/work" && bash --norc -c '
        . "$1"; read -ra COMP_WORDS <<<"${2//=/ = }"; case $2 in *" ") COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$2
        '"$(complete_function "$1")"'
        printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd,' - "$here/share/bash-completion/completions/${1%% *}" "$1")
}
complete_function() { sed -n 's/^complete -F \([^ ]*\) .*/\1/p' "$here/share/bash-completion/completions/${1%% *}"; }
offers() { # LINE WANTED
    local got; got=$("$completes" "$1" 2>&1)
    echo "$1: '$got', wanted '$2'" >"$said"
    [ "$got" = "$2" ]
    result $? "$shell offers for '$1': $2"
}
cases() {
    offers "ffpack --dty" "--dtype"
    offers "ffpack --dtype b" "bf16"
    offers "ffpack --format i" "idx,imagenet"
    offers "ffpack --dtype=u" "u16,u8"
    offers "ffpack x -o f" "folder"
    offers "ffpack --classes n" "names with blanks.txt"
    offers "ffpack me" "merge"
    offers "ffpack merge --f" "--force"
    offers "ffpack merge --w" "--wait"
    offers "ffpack repair --j" "--jobs"
    offers "ffpack append --dtype bf" "bf16"
    offers "fftrain --resume " "auto,folder"
    offers "fftrain --resume a" "auto"
    offers "fftrain --val " "folder,none"
    offers "fftrain --val=no" "none"
    offers "fftrain --class-weights b" "balanced"
    offers "fftrain --class-weights n" "names with blanks.txt"
    offers "ffinspect --gri" "--grid"
    offers "ffinspect n" "names with blanks.txt"
    offers "fftrain --order bl" "block"
    offers "fftrain --device cu" "cuda"
    offers "fftrain --data " "folder"
}
shell=bash completes=bash_completes
cases
offers "ffpack merge --dty" ""
offers "ffpack --mean " ""
# zsh in a terminal of its own: zpty types the line and a tab, and a hook prints what is offered.
zsh_completes() {
    (cd "$scratch/work" && timeout 60 zsh -f "$scratch/offer.zsh" "$here/share/zsh/site-functions" "$1")
}
cat >"$scratch/offer.zsh" <<'Z'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; PROMPT=; unsetopt zle_bracketed_paste 2>/dev/null; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u; zstyle ':completion:*' list-grouped false"
zpty -w shell 'compadd() { if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi; typeset -a __hits; builtin compadd -A __hits "$@"; builtin compadd "$@"; local r=$?; print -rl -- $__hits >>offered; return r }'
zpty -w shell 'finish() { zle complete-word; : >finished; exit }; zle -N finish; bindkey "^I" finish; : >ready'
for ((i = 0; i < 300; i++)); do [[ -e ready ]] && break; sleep 0.1; done
rm -f offered finished ready
zpty -w -n shell "$2"$'\t'
for ((i = 0; i < 300; i++)); do [[ -e finished ]] && break; sleep 0.1; done
[[ -e offered ]] && sed 's/\\//g' offered | grep . | sort -u | paste -sd,
rm -f offered finished
zpty -d shell
Z
if command -v zsh >/dev/null; then
    shell=zsh completes=zsh_completes
    cases
else
    skip "zsh's completion" "zsh is not here"
fi

# ---- staging and removing ----
makes uninstall PREFIX="$here" && [ ! -e "$scratch/there" ]
result $? "make uninstall leaves nothing, and no folder that the installation made"
# Folders that were there, and files of others.
mkdir -p "$here/bin" "$here/share/man" "$here/share/empty" && makes install PREFIX="$here" && makes install PREFIX="$here" &&
    touch "$here/lib/pkgconfig/other.pc" && mv "$here" "$here-moved" && makes uninstall PREFIX="$here-moved"
(cd "$here-moved" && find . | sort) | diff - <(printf '%s\n' . ./bin ./lib ./lib/pkgconfig ./lib/pkgconfig/other.pc ./share ./share/empty ./share/man) >"$said" && rm -r "$scratch/there"
result $? "nor anything of others, also where it was moved and installed twice"
makes install DESTDIR="$scratch/stage" PREFIX=/opt/ff && clean "$scratch/stage/opt/ff/bin/fftrain" --version >>"$said" && ! grep -rqF "$scratch" "$scratch/stage/opt/ff/share"
result $? "DESTDIR stages"
(umask 077; makes install DESTDIR="$scratch/closed" PREFIX=/opt/ff) && [ -z "$(find "$scratch/closed/opt/ff" -type d ! -perm 755)" ] && rm -r "$scratch/closed"
result $? "folders are open to all, whatever the umask"
(cd "$scratch" && mkdir -p rel) && makes install PREFIX="$(realpath --relative-to=. "$scratch/rel")" && grep -q "^prefix=$scratch/rel$" "$scratch/rel/lib/pkgconfig/ffload.pc" && rm -r "$scratch/rel"
result $? "a PREFIX from here is one for every folder in ffload.pc"
makes uninstall DESTDIR="$scratch/stage" PREFIX=/opt/ff && [ -z "$(find "$scratch/stage" -type f)" ]
result $? "and is removed"
if makes install PREFIX=/proc/nowhere; then result 1 "a PREFIX that cannot be written is refused"; else
    grep -qF 'install: /proc/nowhere cannot be written: sudo make install, or make install PREFIX=$HOME/.local' "$said"
    result $? "a PREFIX that cannot be written is refused"
fi
finish
