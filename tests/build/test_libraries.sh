#!/bin/bash
# make's messages and exit codes when a compiler or libraries are missing, and that it takes them
# from where CPPFLAGS, LDFLAGS and PKG_CONFIG_PATH say. Some of the system's headers are hidden.
# TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
unset CPPFLAGS CFLAGS LDFLAGS PKG_CONFIG_PATH MAKEFLAGS MAKELEVEL MFLAGS DNNL DNNL_ROOT
# A compiler for which the headers named are not installed.
without() {
    local name=$1 file header; shift
    mkdir -p "$scratch/$name"
    for file in /usr/include/* "/usr/include/$(gcc -print-multiarch)"/*; do ln -sfn "$file" "$scratch/$name/"; done
    for header in "$@"; do rm "$scratch/$name/$header"; done
    printf '#!/bin/sh\nexec gcc -nostdinc -isystem %s "$@" -isystem %s\n' "$(gcc -print-file-name=include)" "$scratch/$name" >"$scratch/$name-cc"
    chmod +x "$scratch/$name-cc"
}
# makes CODE ARGUMENT...: make's exit code
makes() {
    local code=$1; shift
    make -s BUILD="$scratch/build" CUDA=0 CFLAGS=-O0 "$@" >"$said" 2>&1
    [ $? = "$code" ]
}
says() { grep -qE -- "$1" "$said"; }
ends() { tail -n 1 "$said" | grep -qE -- "$1"; }

makes 2 CC=no-such-compiler && says 'C compiler: MISSING \(.*no-such-compiler: (command )?not found\): gcc \(Debian' && ! says libjpeg:
result $? "a missing compiler is called that, and nothing else is"
says 'apt-get install gcc .*libc6-dev.* libxxhash-dev|dnf install gcc .*glibc-devel.* xxhash-devel'
result $? "then all that building takes is named"
without libc stdio.h
makes 2 CC="$scratch/libc-cc" && says 'C library: MISSING \(no header stdio.h\): libc6-dev \(Debian, Ubuntu\), glibc-devel \(Fedora, RHEL\), sysroot_linux-64 \(conda\)' && ! says libjpeg:
result $? "missing headers of the C library are not called libjpeg's"
without some spng.h jansson.h jpeglib.h cmocka.h
makes 2 CC="$scratch/some-cc" &&
    says 'libspng: MISSING \(no header spng.h\): libspng-dev \(Debian, Ubuntu\), libspng-devel \(Fedora, RHEL\), libspng \(conda\)' &&
    says 'libjpeg: MISSING \(no header jpeglib.h\): libjpeg62-turbo-dev \(Debian\), libjpeg-turbo8-dev \(Ubuntu\), libjpeg-turbo-devel \(Fedora' &&
    says 'zlib: found' && says "cmocka: not found \(no header cmocka.h\); 'make test' alone needs it: libcmocka-dev"
result $? "missing libraries are named by header and package of each system"
says 'Not built, for what is MISSING above. As root: [a-z-]+ install (libjpeg[^ ]* libspng-dev(el)? [a-z]*jansson-dev(el)?)$' && ! says 'Error [0-9]' &&
    ends '^Without root: conda create .* libjpeg-turbo libspng jansson; conda activate .*CPPFLAGS=.*LDFLAGS='
result $? "the last lines are how to install exactly these, not make's"
[ ! -e "$scratch/build/config.mk" ]
result $? "nothing stays of it: a second make looks again"
makes 2 DNNL=1 DNNL_ROOT=/nowhere CPPFLAGS=-Ddnnl_version=no_such_function && says 'oneDNN: MISSING \(.*, and DNNL=1 insists: libdnnl-dev' && ends 'conda-forge onednn;'
result $? "DNNL=1 insists"
makes 2 MPI=1 MPICC=no-such-mpicc && says 'MPI: MISSING \(no no-such-mpicc\), and MPI=1 insists: libopenmpi-dev' && ends 'conda-forge openmpi;'
result $? "MPI=1 insists"
makes 2 CUDA=1 CUDA_HOME=/nowhere CC="$scratch/some-cc" && says 'Not built'
result $? "CUDA=1 does not hide it"

# ---- the user's own folder with what the system lacks ----
own=$scratch/own
mkdir -p "$own/include" "$own/lib/pkgconfig"
cp -L "$scratch/libc"/{spng,jansson,jansson_config,jpeglib}.h "$own/include"
echo 'int of_ones_own = 1;' | gcc -shared -fPIC -x c - -o "$own/lib/libofonesown.so"
makes 0 CC="$scratch/some-cc" CPPFLAGS="-I$own/include" LDFLAGS="-L$own/lib -lofonesown -Wl,-rpath,$own/lib" "$scratch/build/ffinspect" &&
    "$scratch/build/ffinspect" --version >>"$said" && readelf -d "$scratch/build/ffinspect" | grep -q "RUNPATH.*$own/lib"
result $? "CPPFLAGS and LDFLAGS are taken by the probes and by the build"
rm "$scratch/build/obj/tools/ffinspect/npy.o" "$scratch/build/obj/tools/ffinspect/document.o" &&
    makes 0 CC="$scratch/some-cc" "$scratch/build/ffinspect" && readelf -d "$scratch/build/ffinspect" | grep -q "RUNPATH.*$own/lib"
result $? "a later make without them takes them, too"
rm -r "$scratch/build"
printf 'Name: spng\nDescription: x\nVersion: 1\nCflags: -I%s -DBY_PKG_CONFIG\nLibs: -L%s -lspng -lofonesown\n' "$own/include" "$own/lib" >"$own/lib/pkgconfig/spng.pc"
makes 2 CC="$scratch/some-cc" PKG_CONFIG_PATH="$own/lib/pkgconfig" && says "libspng: found \(-I$own/include -DBY_PKG_CONFIG -L$own/lib -lspng -lofonesown -Wl,-rpath,$own/lib\)"
result $? "PKG_CONFIG_PATH is, too, and what lies there is found when programs run"
finish
