#!/bin/bash
# A bundle runs from any folder: every library except the system's and NVIDIA's is in it and found
# there, none of the target system's own is, and its programs work in an empty environment; the
# licence of each library is in it, and on Debian 12 it needs glibc 2.34 at most. TAP.
set -u
shopt -s lastpipe # so that the checks at the ends of pipes count
build=$(realpath "${BUILD:-build}")
. "$(dirname "$0")/../tap.sh"
# empty NAME: passes where standard input is empty
empty() { ! grep . >"$scratch/log"; result $? "$1" "$scratch/log"; }
for reason in "${SANITIZE:+libraries of sanitizers are not for bundles}" "$(command -v patchelf >/dev/null || echo patchelf is not here)"; do
    [ -z "$reason" ] || skip_all "a bundle" "$reason"
done
programs=(ffpack ffinspect fftrain)
[ -e "$build/gpu-check" ] && programs+=(gpu-check)
make -s BUILD="${BUILD:-build}" shared >"$scratch/log" 2>&1 || not_ok "man pages and completions are made" "$scratch/log"
LIBARCHIVE=$(tools/build/libarchive.sh "$build/libarchive" 2>"$scratch/no-libarchive") || LIBARCHIVE=
export LIBARCHIVE
tools/build/bundle.sh "$build" "$scratch/made/ffpack" "${programs[@]}" >"$scratch/said" 2>&1 || not_ok "a bundle is made" "$said"
mv "$scratch/made" "$scratch/moved"
folder=$scratch/moved/ffpack
cd "$scratch" || exit 1
run() { env -i "$@"; }

grep -vE '^bundle: .* MiB; it needs glibc 2\.[0-9]+ or newer$' "$scratch/said" | empty "it says its size and the glibc it needs"
# highest FAMILY: the newest symbol version of a family that any file needs
highest() { objdump -T "$folder"/bin/* "$folder"/lib/* 2>/dev/null | grep -o "\b$1_[0-9.]*" | sort -Vu | tail -1; }
# suffices NAME NEWEST FOUND: passes if FOUND is not newer
suffices() { printf '%s\n' "$3" "$2" | sort -V | tail -1 | grep -vx "$2" | empty "$1"; }
needed=$(highest GLIBC)
{ grep -q "needs glibc ${needed#GLIBC_} or newer" "$scratch/said" || echo "all need $needed"; } | empty "which is the highest of all files"
if [ -z "$LIBARCHIVE" ]; then skip "glibc 2.34 suffices" "$(cat "$scratch/no-libarchive")"
elif ! grep -q '^VERSION_ID="12"' /etc/os-release; then skip "glibc 2.34 suffices" "programs built here need ${needed#GLIBC_}; bundles are made on Debian 12"
else suffices "glibc 2.34 suffices" GLIBC_2.34 "$needed"
fi
# GCC 11's, as RHEL 9 has it: libstdc++.so.6.0.29 ("ABI Policy and Guidelines" of GCC).
if ! grep -q '^VERSION_ID="12"' /etc/os-release; then skip "libstdc++ of GCC 11 suffices" "programs built here need ${needed#GLIBC_}; bundles are made on Debian 12"
else
    suffices "libstdc++ of GCC 11 suffices" GLIBCXX_3.4.29 "$(highest GLIBCXX)"
    suffices "and its C++ ABI" CXXABI_1.3.13 "$(highest CXXABI)"
fi
for file in "$folder"/lib/*; do
    name=${file##*/}
    # libjbig is this project's (tools/build/no_jbig.c).
    [[ $name = libff_*.so || $name = libjbig.so.* ]] || [ -s "$folder/share/doc/licences/${name%%.so*}" ] || echo "$name"
done | empty "every library has its licence"
cat "$folder"/share/doc/licences/* | grep -oE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' | sort -u | while read -r text; do
    [ -s "$folder/share/doc/licences/${text##*/}" ] || echo "$text"
done | empty "and the texts that it refers to are there"
for file in man/man1/{ffpack,ffinspect,fftrain}.1 bash-completion/completions/fftrain zsh/site-functions/_fftrain doc/ffpack/README.md doc/licences/ffpack; do
    [ -s "$folder/share/$file" ] || echo "$file"
done | empty "man pages, completions and documents are in it"
find "$folder/lib" | grep -E '/(libcuda|libnvidia-ml|libc|libm|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' | empty "nothing that belongs to the system"
find "$folder/lib" -name '*.so*' | grep -E 'libcudnn|libcublas|libnvrtc|libnccl' | empty "none of NVIDIA's libraries"
for file in "$folder"/lib/*; do
    [ "$(patchelf --print-rpath "$file")" = '$ORIGIN' ] || echo "$file: $(patchelf --print-rpath "$file")"
done | empty "every library looks next to itself"
for file in "$folder"/bin/* "$folder"/lib/*; do
    [ "${file##*/}" != libff_mpi.so ] || continue # its MPI is the system's
    run ldd "$file" | sed "s|^|${file##*/}: |"
done | grep -vE 'linux-vdso|ld-linux|statically linked' |
    grep -vE ' => /[^ ]*/(libc|libm|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s)\.so' |
    grep -vE 'lib(cudnn|cublas|cublasLt|nvrtc|nccl)\.so[.0-9]* => ' |
    grep -vF " => $folder/" | empty "the rest is found in the bundle"
for program in ffpack ffinspect fftrain; do
    run "$folder/bin/$program" --help >help 2>&1 || echo "$program --help ends with $?: $(head -1 help)"
done | empty "the programs run in an empty environment"
"$build/tests/make_set" set --splits train,test --count 64 --height 8 --width 8 --statistics >log || exit 1
{ run "$folder/bin/ffinspect" set >log 2>&1 || echo "exit code $?: $(head -1 log)"; } | empty "a packed set is inspected"
{ run "$folder/bin/fftrain" --data set --model smallnet --epochs 1 --batch 32 --threads 1 >log 2>&1 || tail -3 log; } | empty "and trained on"
if [ -e "$build/libff_mpi.so" ] && command -v mpirun >/dev/null; then
    # An MPI's mpirun wants a home and a place for files.
    { run PATH="$PATH" HOME="$scratch" mpirun --allow-run-as-root --oversubscribe -n 2 "$folder/bin/fftrain" --data set --model smallnet --epochs 1 \
        --batch 32 --threads 1 >log 2>&1 && grep -q '^communicator   mpi$' log || tail -3 log; } | empty "and trained on by two ranks of MPI"
else
    skip "and trained on by two ranks of MPI" "there is no MPI module or no mpirun"
fi
mkdir prefix && cp -r "$folder"/* prefix
{ { run prefix/bin/fftrain --version && run prefix/bin/ffinspect set/train --npy x.npy && run prefix/bin/ffpack x.npy -o from-prefix; } >log 2>&1 || cat log; } | empty "copied into a prefix all three run from there"
mkdir -p images/a images/b && printf 'P6 2 2 255\nabcdefghijkl' | tee images/a/x.ppm >images/b/y.ppm
for how in gzip bzip2 xz zstd; do
    command -v $how >/dev/null || continue
    tar -cf images.tar --use-compress-program=$how images/a images/b
    run "$folder/bin/ffpack" images.tar -o "from-$how" --force >log 2>&1 || { echo "$how:"; cat log; }
done | empty "its libarchive reads archives of each compression"
if [ -e "$folder/lib/libff_cuda.so" ]; then
    cp "$build/tests/cuda_open" "$folder/bin/"
    run PATH="$PATH" "$folder/bin/cuda_open" "$folder/bin" "$(sed -n 's/^CUDA_VERSION := //p' "$build/config.mk")" -1 >log 2>&1
    if grep -q 'was not found' log; then skip "the CUDA module opens" "$(cat log)"
    else grep -v '^opened: CUDA' log | empty "the CUDA module opens"; fi
else
    skip "the CUDA module opens" "there is no module: built without CUDA"
fi
finish
