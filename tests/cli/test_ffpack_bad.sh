#!/bin/bash
# ffpack's answers to bad input and bad options: one message, the documented exit code, no output.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
out=place/out
for kind in idx idx_gz cifar10 cifar100 same folder; do make_input $kind good_$kind 4; done
copy() { rm -rf bad; cp -r "good_$1" bad; }

# ---- sources
refuses "a missing source" 74 "nowhere: cannot open" nowhere -o $out
: >empty
refuses "an empty file" 65 "empty: is empty;wanted a folder" empty -o $out
printf 'something else entirely' >other
refuses "a file of no known kind" 65 "other: starts with bytes 73 6f 6d 65" other -o $out
mkdir hollow
refuses "an empty folder" 65 "hollow: holds no class folders" hollow -o $out
refuses "a device" 65 "/dev/null: is a device or pipe" /dev/null -o $out

# ---- IDX
images=train-images-idx3-ubyte labels=train-labels-idx1-ubyte
copy idx; truncate -s 300 bad/$images
refuses "truncated IDX images" 65 "bad/$images: has 300 bytes, wanted 496" bad -o $out
copy idx; echo >>bad/$images
refuses "IDX images with a byte too many" 65 "bad/$images: has 497 bytes, wanted 496" bad -o $out
copy idx; truncate -s 9 bad/$images
refuses "an IDX header cut off" 65 "bad/$images: ends at byte 9, wanted 16" bad -o $out
copy idx; printf '\x0a' | dd of=bad/$images bs=1 seek=2 conv=notrunc 2>/dev/null
refuses "a wrong IDX magic" 65 "bad/$images: its magic is 00 00 0a 03, wanted 00 00 08 03" bad -o $out
copy idx; printf '\xff\xff\xff\xff' | dd of=bad/$images bs=1 seek=8 conv=notrunc 2>/dev/null
refuses "an IDX size out of range" 65 "bad/$images: dimension 1 at byte 8 is 4294967295" bad -o $out
copy idx; rm bad/$labels
refuses "missing IDX labels" 65 "bad/$labels[.gz]: missing;as labels of bad/$images" bad -o $out
copy idx; cp bad/t10k-labels-idx1-ubyte bad/$labels
refuses "IDX labels of another count" 65 "bad/$labels: has 1 labels for 4 images" bad -o $out
copy idx; truncate -s 10 bad/$labels
refuses "truncated IDX labels" 65 "bad/$labels: has 10 bytes, wanted 12" bad -o $out
copy idx_gz; truncate -s 200 bad/$images.gz
refuses "truncated gzip" 65 "bad/$images.gz: the gzip data ends at byte 200" bad -o $out
copy idx_gz; printf '\x55\xaa\x55' | dd of=bad/$images.gz bs=1 seek=400 conv=notrunc 2>/dev/null
refuses "broken gzip" 65 "bad/$images.gz: broken gzip data" bad -o $out
copy idx_gz; printf 'tail' >>bad/$images.gz
refuses "bytes after gzip" 65 "bad/$images.gz: byte;after the gzip data is 0x74" bad -o $out
printf 'one\ntwo\n' >two.classes
refuses "a label beyond --classes" 65 "of item;wanted 0 to 1;two.classes" good_idx -o $out --classes two.classes
printf 'one\none\n' >twice.classes
refuses "a class named twice" 65 "twice.classes: line 2 names class 'one'" good_idx -o $out --classes twice.classes
refuses "missing --classes" 74 "no.classes: cannot open" good_idx -o $out --classes no.classes

# ---- CIFAR
copy cifar10; truncate -s 10000 bad/data_batch_3.bin
refuses "a truncated CIFAR-10 file" 65 "data_batch_3.bin has 10000 bytes, wanted a multiple of 3073" bad -o $out
copy cifar10; printf '\x0b' | dd of=bad/data_batch_2.bin bs=1 seek=3073 conv=notrunc 2>/dev/null
refuses "a CIFAR-10 label out of range" 65 "data_batch_2.bin: label 11 at byte 3073, wanted 0 to 9" bad -o $out
copy cifar10; rm bad/data_batch_2.bin
refuses "a missing CIFAR-10 file" 65 "bad: data_batch_2.bin is missing" bad -o $out
copy cifar10; : >bad/test_batch.bin
refuses "an empty CIFAR-10 file" 65 "test_batch.bin has 0 bytes" bad -o $out
copy cifar100; printf '\x14' | dd of=bad/train.bin bs=1 seek=0 conv=notrunc 2>/dev/null
refuses "a coarse label out of range" 65 "train.bin: label 20 at byte 0, wanted 0 to 19" bad -o $out
copy cifar10; cp good_cifar100/train.bin bad
refuses "CIFAR-10 and CIFAR-100 mixed" 65 "bad: holds files of both" bad -o $out
tar czf cut.tgz good_cifar10; truncate -s 40000 cut.tgz
refuses "a truncated tar.gz" 65 "cut.tgz: broken archive near byte" cut.tgz -o $out
refuses "--classes where there are names" 2 "--classes: good_cifar10/batches.meta.txt names the classes already" good_cifar10 -o $out --classes two.classes

# ---- folders
fixed=(--resize 32x32 --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5)
refuses "images of different sizes" 2 "good_folder/C/img0.png has;and good_folder/C/img1.JPG;--resize" good_folder -o $out
mkdir -p high/a && printf 'P6 2 2 255\n123456789012' >high/a/1.ppm && printf 'P6 2 3 255\n123456789012345678' >high/a/2.ppm
refuses "images that differ in height alone" 2 "high/a/1.ppm has;and high/a/2.ppm;--resize" high -o $out
refuses "--resize N alone keeps sizes apart" 2 "good_folder/C/img0.png has;--center-crop" good_folder -o $out --resize 32
copy folder; truncate -s 600 bad/a/img1.JPG
refuses "a truncated JPEG" 65 "bad/a/img1.JPG: " bad -o $out "${fixed[@]}"
copy folder; truncate -s 600 bad/a/sub/img0.png
refuses "a truncated PNG" 65 "bad/a/sub/img0.png: " bad -o $out "${fixed[@]}"
copy folder; printf '\x00' | dd of=bad/b/img0.png bs=1 seek=200 conv=notrunc 2>/dev/null
refuses "a bit-flipped PNG" 65 "bad/b/img0.png: " bad -o $out "${fixed[@]}"
copy folder; echo text >bad/b/img1.JPG
refuses "text in a .JPG" 65 "bad/b/img1.JPG: " bad -o $out "${fixed[@]}"
copy folder; : >bad/C/img0.png
refuses "an empty image" 65 "bad/C/img0.png: " bad -o $out
copy folder; ln -s nothing bad/b/img9.png
refuses "a dangling link" 74 "bad/b/img9.png: cannot open" bad -o $out "${fixed[@]}"
copy folder; mkfifo bad/b/pipe.png
refuses "a pipe" 65 "bad/b/pipe.png: is a device or pipe" bad -o $out "${fixed[@]}"
copy folder; mkdir bad/z
refuses "a class without an image" 65 "bad/z: a class without an image" bad -o $out
copy folder; ln -s .. bad/a/sub/loop
refuses "a link that leads back" 65 "bad/a/sub/loop: is a link to a folder that contains it" bad -o $out
mkdir -p bad2/train/x bad2/test/y; cp good_same/a/img0.png bad2/train/x; cp good_same/a/img0.png bad2/test/y
refuses "splits of different classes" 65 "bad2/test: class 0 is folder y, but bad2/train has folder x" bad2 -o $out
mkdir -p bad3/test/x bad3/val/x; cp good_same/a/img0.png bad3/test/x; cp good_same/a/img0.png bad3/val/x
refuses "no train split to compute statistics from" 2 "bad3: has no split train;--stats-from" bad3 -o $out
refuses "--classes that miss a folder" 65 "good_same: folder C is not a class that two.classes names" good_same -o $out --classes two.classes
refuses "an output in the source folder" 2 "-o: the output would lie in the source folder" good_same -o good_same/new

# ---- options
refuses "an unknown option" 2 "unknown option --dtpye; did you mean --dtype?" good_idx -o $out --dtpye f16
refuses "an unknown dtype" 2 "--dtype: 'f8' is not one of f16|f32|bf16|u8|u16" good_idx -o $out --dtype f8
refuses "an unknown format" 2 "--format: 'zip' is not one of auto, idx, cifar" good_idx -o $out --format zip
refuses "no source" 2 "no SOURCE" -o $out
refuses "two sources" 2 "more than one SOURCE" good_idx good_same -o $out
refuses "no output" 2 "wanted -o OUT" good_idx
refuses "jobs out of range" 2 "--jobs: 0 is out of range; it must be from 1 to 1024" good_idx -o $out --jobs 0
refuses "jobs that are not a number" 2 "--jobs: 'many' is not a whole number" good_idx -o $out --jobs many
refuses "a resize out of range" 2 "--resize" good_same -o $out --resize 0
refuses "a resize above the limit" 2 "from 1 to 1048576" good_same -o $out --resize 1048577x1
check "the largest resize is none" "$ffpack" good_same -o $out --resize 1048576x1 --dry-run
refuses "a resize that is not a size" 2 "--resize" good_same -o $out --resize 12by12
refuses "a crop out of range" 2 "--center-crop" good_same -o $out --center-crop 99999999
refuses "mean without std" 2 "--mean is set without --std" good_idx -o $out --mean 0.5
refuses "means that are not numbers" 2 "--mean: '0.5,x'" good_idx -o $out --mean 0.5,x --std 1,1
refuses "a mean too many" 2 "--mean has 2 values;good_idx has 1 channel" good_idx -o $out --mean 0.5,0.5 --std 1,1
refuses "means and stds of different counts" 2 "--mean has 2 numbers and --std 1" good_idx -o $out --mean 0.5,0.5 --std 1
refuses "a std of 0" 2 "--std: 0 is not above 0" good_idx -o $out --mean 0.5 --std 0
refuses "means of 0 to 255" 2 "--mean: 123 is above 1;from 0 to 1; divide by 255 (0.4824)" good_same -o $out --mean 123,116,103 --std 0.2,0.2,0.2
refuses "stds of 0 to 255" 2 "--std: 58.4 is above 1;divide by 255 (0.229)" good_same -o $out --mean 0.5,0.5,0.5 --std 58.4,57.1,57.4
refuses "a command misspelt" 2 "mrege: is neither a command nor a file or folder; did you mean ffpack merge?" mrege $out part
refuses "another" 2 "did you mean ffpack append?" apend $out good_idx
refuses "a source that is not there" 74 "nothing-like-it: cannot open" nothing-like-it -o $out
refuses "--stats-sample of a given mean" 2 "wanted one of" good_idx -o $out --mean 0.5 --std 1 --stats-sample 5
refuses "two kinds of statistics" 2 "wanted one of" good_idx -o $out --mean 0.5 --std 1 --stats compute
refuses "statistics of nothing" 74 "--stats-from: nowhere" good_idx -o $out --stats-from nowhere
refuses "an unknown compression" 2 "--compress: 'gzip' is unknown" good_idx -o $out --compress gzip
refuses "a compression level out of range" 2 "--compress: 'zstd:99'" good_idx -o $out --compress zstd:99
refuses "a shard size out of range" 2 "--shard-size: 1 is out of range" good_idx -o $out --shard-size 1
refuses "a negative seed" 2 "--shuffle: -1 is out of range" good_idx -o $out --shuffle -1
refuses "an alignment out of range" 2 "--align: '63' is not one of 64|4096" good_idx -o $out --align 63
refuses "--resume with nothing there" 2 "place/out.partial: does not exist" good_idx -o $out --resume
make_input flat one_value 4
refuses "images all of one value" 65 "--stats compute: one_value" one_value -o $out

# ---- outputs
mkdir -p present; echo precious >present/file
refuses "an output that exists" 2 "present: exists already; --force" good_idx -o present
refuses "--force over something else" 2 "present/file: ffpack did not write this" good_idx -o present --force
check "what was there is untouched" grep -q precious present/file
refuses "parents of OUT that cannot be created" 74 "/proc/nowhere: cannot create" good_idx -o /proc/nowhere/out
refuses "an output below a file" 74 "other" good_idx -o other/out
if [ "$(id -u)" -eq 0 ]; then
    if mkdir full && mount -t tmpfs -o size=1m,mode=755 none full 2>/dev/null; then
        make_input cifar10 big 100
        # Checked before any work; what a compressed set needs is known once it is written.
        "$ffpack" big -o full/out >stdout 2>stderr
        check "too little space: exit code" test $? -eq 74
        check "too little space: one message, needs and has" bash -c "[ \$(wc -l <stderr) -eq 1 ] && grep -qE '^ffpack: full/out: needs [0-9.]+ MiB, and its disk has [0-9.]+ KiB free\$' stderr"
        check "too little space: nothing is left" test ! -e full/out -a ! -e full/out.partial
        check "too little space: --dry-run tells" bash -c "'$ffpack' big -o full/out --dry-run | grep -qE '^needs [0-9.]+ MiB on the disk, which has [0-9.]+ [KM]iB free\$'"
        for size in "" "--shard-size 64K"; do
            # shellcheck disable=SC2086
            "$ffpack" big -o full/out --compress zstd $size >stdout 2>stderr
            code=$?
            if [ $code -eq 74 ] && [ "$(wc -l <stderr)" -eq 2 ] && grep -q 'No space left on device' stderr &&
                grep -q '^ffpack: full/out may not fit: it needs at most .* (as if zstd saved nothing), and its disk has ' stderr &&
                [ ! -e full/out ]; then
                ok "a full disk ${size:+with small shards}"
            else
                not_ok "a full disk ${size:+with small shards}"; echo "# exit $code"; sed 's/^/# /' stderr
            fi
        done
        make_input idx_gz long 20000
        "$ffpack" long -o full/unpacked >stdout 2>stderr
        code=$?
        if [ $code -eq 74 ] && grep -q '^ffpack: full.*: cannot write temporary space: No space left' stderr &&
            [ ! -e full/unpacked.partial ]; then
            ok "a full disk while unpacking"
        else
            not_ok "a full disk while unpacking"; echo "# exit $code"; sed 's/^/# /' stderr
        fi
        # A kept run is continued once there is space.
        mount -o remount,size=64m full
        check "continues when there is space" "$ffpack" big -o full/out --compress zstd --shard-size 64K --resume
        "$ffpack" big -o full/other --compress zstd --shard-size 64K >/dev/null
        check "to the same bytes" diff -rx history.jsonl full/out full/other
        mount -o remount,ro full
        "$ffpack" big -o full/third >stdout 2>stderr
        code=$?
        if [ $code -eq 74 ] && grep -q 'full/third.partial: .*Read-only file system' stderr; then
            ok "an output on a read-only disk"
        else
            not_ok "an output on a read-only disk"; echo "# exit $code"; sed 's/^/# /' stderr
        fi
        umount full
    else
        skip "a full disk" "no tmpfs can be mounted here"
    fi
else
    skip "a full disk" "mounting a small tmpfs needs root"
    mkdir locked; chmod 555 locked
    refuses "an output folder without permission" 74 "locked/out.partial: cannot create" good_idx -o locked/out
fi
if "$ffpack" good_idx -o place/told >/dev/full 2>stderr; then
    not_ok "a summary that cannot be written"
else
    check "a summary that cannot be written" grep -q 'stdout: cannot write the summary' stderr
fi
for words in --help --version --describe "merge --help"; do
    # shellcheck disable=SC2086
    "$ffpack" $words >/dev/full 2>stderr
    [ $? = 74 ] && [ "$(wc -l <stderr)" = 1 ] && grep -q 'stdout: cannot write: No space' stderr
    result $? "$words that cannot be written" stderr
done
finish
