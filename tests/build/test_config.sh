#!/bin/bash
# What make found is looked for again where something changed, and only then; what is not concerned is not
# compiled again. Libraries come and go in a folder of headers of the test's own; objects are touched, not
# compiled. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset CPPFLAGS CFLAGS LDFLAGS PKG_CONFIG_PATH MAKEFLAGS MAKELEVEL MFLAGS DNNL DNNL_ROOT CUDA_HOME CUDA_ROOT CC CXX
. tests/tap.sh
build=$scratch/build headers=$scratch/headers
# A compiler that counts its calls, and sees the headers of this folder in place of the system's.
mkdir "$headers"
hide() { local name; for name in "$@"; do rm "$headers/$name"; done; }
reveal() { local name; for name in "$@"; do ln -s "$(ls -d "/usr/include/$name" "/usr/include/$(gcc -print-multiarch)/$name" 2>/dev/null | head -1)" "$headers/$name"; done; }
for file in /usr/include/* "/usr/include/$(gcc -print-multiarch)"/*; do ln -sfn "$file" "$headers/"; done
printf '#!/bin/sh\necho >>%s\nexec gcc -nostdinc -isystem %s "$@" -isystem %s\n' "$scratch/calls" "$(gcc -print-file-name=include)" "$headers" >"$scratch/cc"
chmod +x "$scratch/cc"
makes() { # CODE ARGUMENT...: make's exit code
    local code=$1; shift
    : >"$scratch/calls"
    make --no-print-directory BUILD="$build" CUDA=0 "$@" >"$said" 2>&1
    [ $? = "$code" ]
}
gives() { local code=$1; shift; makes "$code" "$build/flags/c" "$@"; } # CODE SETTING...: nothing is built
calls() { wc -l <"$scratch/calls"; }
# What make would compile with these settings, which it keeps: the sources.
compiles() { gives 0 "$@" && make --no-print-directory BUILD="$build" -n programs >>"$said" 2>&1 && { grep -oE -- '-c [^ ]+\.(c|cu|cc) ' "$said"; true; } | sort -u >"$scratch/compiled"; }
touched() { # every object and program, as if it had been built now
    find format loader train tools tests -type d | sed "s|^|$build/obj/|" | xargs mkdir -p && mkdir -p "$build/python/ffload" "$build/share/ffpack/recipes" &&
        makes 0 -t programs
}

hide cmocka.h
gives 0 CC="$scratch/cc" MPI=0 && ! grep -q LIBS_CMOCKA "$build/config.mk" && [ "$(calls)" -gt 10 ]
result $? "the first make looks for everything"
gives 0 && [ "$(calls)" = 0 ]
result $? "a second looks for nothing, with the compiler of the first"
touched && compiles && [ ! -s "$scratch/compiled" ]
result $? "all is built"

reveal cmocka.h
compiles && [ "$(calls)" -gt 10 ] && grep -q '^LIBS_CMOCKA := -lcmocka' "$build/config.mk"
result $? "a library that was installed is found"
grep -q 'looked for again' "$said" && grep -q 'cmocka: found' "$said" && ! grep -q 'zlib' "$said"
result $? "only what is new is said"
[ ! -s "$scratch/compiled" ]
result $? "what does not use it is not compiled again"
makes 0 "$build/obj/tests/unit/test_dtype.o" && touch "$headers" && makes 0 -n "$build/obj/tests/unit/test_dtype.o" && [ "$(calls)" -gt 10 ] && ! grep -q test_dtype.c "$said"
result $? "a folder that changed without a library that is used: looked at again, not compiled again"

hide spng.h
makes 2 programs && grep -q 'libspng: MISSING (no header spng.h)' "$said" && grep -q 'As root: .* install libspng-dev' "$said"
result $? "a library that was removed is missed by name"
makes 2 programs && grep -q 'libspng: MISSING' "$said"
result $? "and again by the next make"
reveal spng.h
compiles && [ ! -s "$scratch/compiled" ]
result $? "installed again, nothing is compiled"

hide dnnl.h
compiles && grep -q 'train/compute/cpu/cpu.c' "$scratch/compiled" && ! grep -qvE '^-c train/compute/cpu/(cpu|onednn[a-z_]*)\.c ' "$scratch/compiled" && grep -q 'oneDNN: not found' "$said"
result $? "without oneDNN what calls it is compiled, and nothing else"
grep -q -- '-o [^ ]*/fftrain' "$said" && ! grep -- '-o [^ ]*/fftrain ' "$said" | grep -q -- -ldnnl
result $? "and fftrain is linked without it"
touched && reveal dnnl.h && compiles && grep -q 'train/compute/cpu/cpu.c' "$scratch/compiled" && ! grep -qvE '^-c train/compute/cpu/(cpu|onednn[a-z_]*)\.c ' "$scratch/compiled"
result $? "with it again, too"

# ---- settings ----
mkdir -p "$scratch/own"
printf 'Name: spng\nDescription: x\nVersion: 1\nCflags: -DBY_PKG_CONFIG\nLibs: -lspng\n' >"$scratch/own/spng.pc"
compiles PKG_CONFIG_PATH="$scratch/own" && grep -q 'DBY_PKG_CONFIG' "$build/config.mk"
result $? "another PKG_CONFIG_PATH is looked at"
compiles && grep -q 'DBY_PKG_CONFIG' "$build/config.mk" && [ "$(calls)" = 0 ]
result $? "and kept without being given"
sed -i 's/DBY_PKG_CONFIG/DEDITED/; s|^Libs: |&-L'"$scratch/own/lib"' |' "$scratch/own/spng.pc" && compiles && grep -q 'DEDITED' "$build/config.mk" && grep -q "^$scratch/own/lib$" "$build/config.folders"
result $? "a file of pkg-config's that was edited is read again, and the folder that it names is watched"
compiles && [ "$(calls)" = 0 ] && mkdir "$scratch/own/lib" && compiles && [ "$(calls)" -gt 10 ]
result $? "and looked at when it comes"
gives 0 PKG_CONFIG_PATH="$(realpath --relative-to=. "$scratch/own")" && grep -q "$scratch/own$\|$PWD/.*/own$" "$build/config.folders" && sed -i 's/DEDITED/DBY_PKG_CONFIG/' "$scratch/own/spng.pc" &&
    gives 0 && grep -q 'DBY_PKG_CONFIG' "$build/config.mk"
result $? "a PKG_CONFIG_PATH from here, too"
compiles PKG_CONFIG_PATH= && ! grep -q 'DBY_PKG_CONFIG' "$build/config.mk"
result $? "until it is given empty"
cp "$scratch/cc" "$scratch/cc2"
compiles CC="$scratch/cc2" && [ "$(calls)" -gt 10 ] && [ "$(wc -l <"$scratch/compiled")" -gt 300 ]
result $? "another compiler looks and compiles anew"
touched && compiles && [ ! -s "$scratch/compiled" ]
result $? "once"
gives 0 CUDA=auto CUDA_HOME="$scratch/toolkit" && [ "$(calls)" -gt 10 ]
result $? "another CUDA_HOME is looked at"
touched && mkdir "$scratch/bin" && printf '#!/bin/sh\nexec %s "$@" | sed s/libspng.so.0/libspng.so.9/\n' "$(command -v objdump)" >"$scratch/bin/objdump" && chmod +x "$scratch/bin/objdump" && touch "$headers" &&
    PATH="$scratch/bin:$PATH" compiles && [ "$(wc -l <"$scratch/compiled")" -gt 300 ] && rm -r "$scratch/bin"
result $? "a library of another name (soname) compiles and links anew"
printf '#!/bin/sh\n[ "$LC_ALL" = C ] || case "$*" in *print-search-dirs*) echo "Bibliotheken: =/x"; exit ;; esac\nexec %s "$@"\n' "$scratch/cc" >"$scratch/german" && chmod +x "$scratch/german" &&
    LC_ALL='' LANG=de_DE.UTF-8 gives 0 CC="$scratch/german" && grep -q '^/usr/lib' "$build/config.folders" && gives 0 CC="$scratch/cc2"
result $? "a compiler that speaks another language is understood"
grep -q '^/etc/ld.so.cache$' "$build/config.folders" && grep -q '^/usr/local/lib$' "$build/config.folders"
result $? "what ldconfig and the linker know by themselves is watched"
TMPDIR=/nonexistent gives 0 MPI=0 CPPFLAGS=-DX && [ "$(calls)" -gt 10 ] && gives 0 CPPFLAGS=
result $? "no other folder than BUILD is needed"
compiles DNNL=0 && ! grep -q HAVE_DNNL "$build/config.mk" && compiles && ! grep -q HAVE_DNNL "$build/config.mk"
result $? "an option holds for later calls"
compiles DNNL=auto && grep -q HAVE_DNNL "$build/config.mk"
result $? "until another is given"
gives 2 DNNL=1 DNNL_ROOT=/nowhere CPPFLAGS=-Ddnnl_version=no_such_function && compiles && grep -q HAVE_DNNL "$build/config.mk"
result $? "options that were refused are not kept"

# ---- dry runs, and what else make remembers ----
touched && cp "$build/settings.mk" "$build/flags/c" "$scratch" && makes 0 -n programs CFLAGS=-O0 CUDA=auto &&
    [ "$(grep -cE -- ' -O0 .* -c ' "$said")" -gt 300 ] && cmp "$scratch/settings.mk" "$build/settings.mk" && cmp "$scratch/c" "$build/flags/c"
result $? "a dry run reports what would be compiled with other settings"
compiles && [ ! -s "$scratch/compiled" ] && cmp "$scratch/settings.mk" "$build/settings.mk"
result $? "and keeps none of them"
makes 0 -n programs CFLAGS=-O0 && gives 0 CFLAGS=-O0 && grep -q '^kept_CFLAGS := -O0$' "$build/settings.mk"
result $? "which make itself does"
# Beside the build folder: the sources of this one, of which the test moves one away.
other=$scratch/other
mkdir "$other" && cp -a Makefile tools format loader train tests "$other" && cd "$other" || exit 1
printf 'int ff_removed(void);\nint ff_removed(void) { return 1; }\n' >format/removed.c
mkdir -p build/obj && makes 0 BUILD=build CFLAGS=-O0 -j2 build/libff_format.a && ar t build/libff_format.a | grep -q '^removed.o$'
rm format/removed.c && makes 0 BUILD=build build/libff_format.a && ! ar t build/libff_format.a | grep -q '^removed.o$'
result $? "an archive has no object of a source that is gone"
recompiles() { makes 0 -n "BUILD=$1" "${1%/}/libff_format.a" && grep -qE -- '-c format/cli/options.c ' "$said"; }
touch format/cli/options.h && recompiles build && makes 0 BUILD=build/ build/libff_format.a && ! recompiles build && touch -d '1 minute' format/cli/options.h && recompiles build
result $? "headers are known in build, where it was built as build/"
touch format/cli/options.h && makes 0 BUILD=./build build/libff_format.a && ! recompiles build && touch -d '1 minute' format/cli/options.h && recompiles build
result $? "and as ./build"
makes 0 BUILD=out DNNL=0 out/flags/c && makes 0 BUILD=out clean && [ ! -e out ] && [ -e build/libff_format.a ]
result $? "make clean removes BUILD, and nothing else"
refused=0
for folder in / . .. ./ "$PWD" "$(dirname "$PWD")"; do makes 2 -n "BUILD=$folder" clean && grep -q 'does not remove' "$said" || refused=1; done
result $refused "and never this folder, or one around it"
makes 0 BUILD=out DNNL=0 out/flags/c && makes 0 BUILD=out clean out/libff_format.a && [ -e out/libff_format.a ] && ! grep -q DNNL out/settings.mk
result $? "make clean with another target begins anew"
makes 2 BUILD=/proc/none programs && grep -q 'cannot be written; make BUILD=dir' "$said"
result $? "a folder that cannot be written is named"
makes 2 'BUILD=a b' programs && grep -q 'without blanks' "$said" && [ ! -e a ]
result $? "a name with a blank is refused"
makes 0 BUILD=out DNNL=0 CPPFLAGS=-DKEPT out/flags/c && make -n wheel BUILD=out 2>&1 | tr '\n' ' ' | grep -q "CPPFLAGS='-DKEPT'.* DNNL='0'.* BUILD=out/wheel-all"
result $? "a wheel is built with the settings that are kept"
rm -rf out
mv build moved && recompiles moved
result $? "and where it was moved"
cd - >/dev/null || exit 1

# ---- install ----
hide spng.h
makes 0 -n install PREFIX="$scratch/to" && [ "$(calls)" = 0 ]
result $? "make install takes what was found for the build"
reveal spng.h
finish
