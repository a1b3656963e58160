#include "tools/ffpack/settings/options.h"

#include "format/cli/progress.h"
#include "format/storage/options.h"
#include "tools/ffpack/settings/normalize.h"

#include <assert.h>
#include <string.h>

static void add(ff_option_table *table, const ff_option *group, size_t count) {
    assert(table->count + count < FF_OPTION_TABLE_LIMIT);
    memcpy(table->option + table->count, group, count * sizeof *group);
    table->count += count;
}

ff_arguments ff_arguments_default(void) {
    return (ff_arguments){.format = "auto",
                          .mode = -1,
                          .array_layout = -1,
                          .label_kind = -1,
                          .shuffle = -1,
                          .normalize = -1,
                          .split_seed = -1,
                          .shard_bytes = UINT64_C(256) << 20};
}

void ff_options_add_output(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Input and output"},
        {"output", 'o', FF_OPTION_STRING, "OUT", &arguments->output, NULL, 0, 0,
         "folder to create, with its parents; a source with several splits becomes OUT/train, "
         "OUT/test, ..."},
        {"force", 0, FF_OPTION_FLAG, NULL, &arguments->force, NULL, 0, 0,
         "replace OUT if it exists; the old set stays until the new one is complete"},
        {"if-changed", 0, FF_OPTION_FLAG, NULL, &arguments->if_changed, NULL, 0, 0,
         "do nothing where OUT is what a run with --if-changed made of the same files (by their names, "
         "sizes and times of change) with the same options; else pack, and replace OUT as --force does"},
        {"resume", 0, FF_OPTION_FLAG, NULL, &arguments->resume, NULL, 0, 0,
         "require an interrupted packing to continue"},
        {"no-history", 0, FF_OPTION_FLAG, NULL, &arguments->no_history, NULL, 0, 0,
         "write no history: history.jsonl in each split's folder, with source, command line, date, host and "
         "version"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_append(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Input and output"},
        {"allow-duplicates", 0, FF_OPTION_FLAG, NULL, &arguments->allow_duplicates, NULL, 0, 0,
         "append also items that OUT has already, under the same name and with the same bytes "
         "(default: refuse)"},
        {"new-classes", 0, FF_OPTION_FLAG, NULL, &arguments->new_classes, NULL, 0, 0,
         "add classes that OUT does not have after its own, whose numbers stay (default: refuse)"},
        {"no-history", 0, FF_OPTION_FLAG, NULL, &arguments->no_history, NULL, 0, 0,
         "leave OUT's history.jsonl as it is"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_check(ff_option_table *table) {
    const ff_option heading = {.kind = FF_OPTION_HEADING, .help = "Input"};
    add(table, &heading, 1);
}

void ff_options_add_source(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {"format", 0, FF_OPTION_STRING,
         "auto|idx|cifar|npy|webdataset|imagenet|archive|list|folder", &arguments->format, NULL, 0,
         0, "what SOURCE is (default: auto, by its content)"},
        {"classes", 0, FF_OPTION_STRING, "FILE", &arguments->classes, NULL, 0, 0,
         "class names, one per line in the order of the labels, if the source has none, or to "
         "change its order"},
        {"classes-from", 0, FF_OPTION_STRING, "SET|FOLDER", &arguments->classes_from, NULL, 0, 0,
         "class names and their numbers from a packed set, or from a folder of class folders"},
        {"labels", 0, FF_OPTION_STRING, "[SPLIT=]FILE", &arguments->label_list, NULL, 0, 0,
         "classes of images without class folders: a name and a class per line, with a tab or "
         "a comma between; several with commas, SPLIT=FILE,SPLIT=FILE"},
        {"columns", 0, FF_OPTION_STRING, "path=NAME,label=NAME[,split=NAME]", &arguments->columns,
         NULL, 0, 0,
         "columns of a list, by their titles or by number from 1, as SOURCE or of --labels (default: "
         "those called path, file, filename, image, key and the like; label, class, target, category; "
         "split)"},
        {"splits", 0, FF_OPTION_STRING, "NAME=FOLDER,...|none", &arguments->splits, NULL, 0, 0,
         "folders of SOURCE that are splits (default: train, val, test and the like, if all "
         "folders have such names); none: all folders are classes"},
        {"exclude", 0, FF_OPTION_STRING, "PATTERN,...", &arguments->exclude, NULL, 0, 0,
         "leave out folders and files with these names: *.gif, extra, train/bad"},
        {"allow-empty-classes", 0, FF_OPTION_FLAG, NULL, &arguments->allow_empty_classes, NULL, 0,
         0, "accept class folders without images, and splits without some classes"},
        {"array-layout", 0, FF_OPTION_CHOICE, NULL, &arguments->array_layout, FF_LAYOUT_CHOICES, 0,
         0,
         "order of the axes in arrays of 4 dimensions: nchw or nhwc (default: the axis of at most 4 "
         "is the channels)"},
        {"label", 0, FF_OPTION_STRING, "FIELD", &arguments->label, NULL, 0, 0,
         "keep only this label field of a source with several; for WebDataset samples, the key of "
         "their .json that holds the label"},
        {"label-kind", 0, FF_OPTION_CHOICE, NULL, &arguments->label_kind, FF_LABEL_KIND_CHOICES, 0,
         0,
         "what labels are (default: as they look): class; names of classes, even if they are "
         "numbers; numbers that count the classes from 0; multi-hot: several names with ; or | "
         "between; value: numbers to predict"},
        {"val-labels", 0, FF_OPTION_STRING, "PATH", &arguments->val_labels, NULL, 0, 0,
         "classes of ImageNet's validation images: its devkit, or a text with one wnid per line"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_split(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Splits of a source without splits"},
        {"split", 0, FF_OPTION_STRING, "NAME=SHARE,...", &arguments->split, NULL, 0, 0,
         "divide the items into OUT/NAME, ...: train=0.9,val=0.1. The item's name alone decides, so "
         "more files never move one: its XXH3 (64 bits, with --split-seed) is h, and the item belongs "
         "to the first split whose share, with the shares before it, is above floor(h/2^11)/2^53"},
        {"split-seed", 0, FF_OPTION_INTEGER, "N", &arguments->split_seed, NULL, 0, 9e18,
         "the hash's seed: another N is another division (default: 0)"},
        {"stratify", 0, FF_OPTION_FLAG, NULL, &arguments->stratify, NULL, 0, 0,
         "exact shares of every class: the items of a class are cut in the order of their hashes; "
         "more files may then move some across a cut"},
        {"group-by", 0, FF_OPTION_STRING, "REGEX", &arguments->group_by, NULL, 0, 0,
         "keep files together, for example a patient's or a video's: hash the text that the first "
         "group of this POSIX extended expression matches in the name, or the whole match without "
         "a group"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_samples(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Samples"},
        {"dtype", 0, FF_OPTION_CHOICE, NULL, &arguments->dtype, FF_DTYPE_CHOICES, 0, 0,
         "type of the stored values (default: f16); u8 and u16 keep the raw values and record mean "
         "and std for the reader"},
        {"layout", 0, FF_OPTION_CHOICE, NULL, &arguments->layout, FF_LAYOUT_CHOICES, 0, 0,
         "order of a sample's axes (default: chw)"},
        {"resize", 0, FF_OPTION_STRING, "N|HxW", &arguments->resize, NULL, 0, 0,
         "short side to N, or exactly to HxW, as torchvision's Resize"},
        {"center-crop", 0, FF_OPTION_STRING, "N|HxW", &arguments->center_crop, NULL, 0, 0,
         "crop the center, as torchvision's CenterCrop"},
        {"max-side", 0, FF_OPTION_INTEGER, "N", &arguments->max_side, NULL, 1, FF_SIDE_LIMIT,
         "samples of different sizes: shrink an image whose long side exceeds N to N, keep others "
         "as they are; with --resize, as Resize(max_size=N)"},
        {"pad-square", 0, FF_OPTION_FLAG, NULL, &arguments->pad_square, NULL, 0, 0,
         "first pad the shorter sides with black, as torchvision's Pad"},
        {"interpolation", 0, FF_OPTION_CHOICE, NULL, &arguments->interpolation,
         FF_INTERPOLATION_CHOICES, 0, 0, "for --resize (default: bilinear)"},
        {"mode", 0, FF_OPTION_CHOICE, NULL, &arguments->mode, FF_MODE_CHOICES, 0, 0,
         "channels (default: rgb for image files, unchanged for arrays)"},
        {"range", 0, FF_OPTION_STRING, "LO,HI", &arguments->range, NULL, 0, 0,
         "values of an array of integers that become 0 and 1 (u8 without it: 0,255); floats are "
         "taken as they are; for image files: greys of 16 bits as they are, one channel"},
        {"exif", 0, FF_OPTION_FLAG, NULL, &arguments->exif, NULL, 0, 0,
         "turn image files upright by their EXIF orientation (default: as stored, like "
         "torchvision)"},
        {"fast-decode", 0, FF_OPTION_FLAG, NULL, &arguments->fast_decode, NULL, 0, 0,
         "let the decoder shrink large JPEGs by 2, 4 or 8 before the resize, as Pillow's draft mode "
         "does: faster, other pixels"},
        {"allow-truncated", 0, FF_OPTION_FLAG, NULL, &arguments->allow_truncated, NULL, 0, 0,
         "accept truncated images, filled as Pillow's LOAD_TRUNCATED_IMAGES does, and PNGs "
         "whose pixels have a wrong checksum, which is refused else (Pillow does not look)"},
        {"pillow", 0, FF_OPTION_CHOICE, NULL, &arguments->pillow, FF_PILLOW_CHOICES, 0, 0,
         "the Pillow whose values the samples have: 13.0, or 12.1 and older, which resizes with the "
         "horizontal pass first, and reads some run-length BMPs otherwise (default: 13)"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_like(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {"like", 0, FF_OPTION_STRING, "RUN|SET", &arguments->like, NULL, 0, 0,
         "make the samples as in a packed set, or as in the training set of a run of fftrain (its "
         "folder, a checkpoint or a file of weights): dtype, layout, storage, size, channels, mean "
         "and std; other options on the command line replace its own"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_statistics(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Normalize (one of)"},
        {"stats", 0, FF_OPTION_STRING, "compute", &arguments->stats, NULL, 0, 0,
         "mean and std of the train split, applied to all splits; the default for values of 8 bits, as in "
         "images, and for --dtype u8 or u16, else nothing is normalized; by a first pass, but --dtype u8 "
         "and u16 are counted while they are packed; parts called OUT.part-I-of-N share the pass, any "
         "other part makes it alone"},
        {"stats-sample", 0, FF_OPTION_INTEGER, "N", &arguments->stats_sample, NULL, 1, 9e18,
         "compute them from N of its items only: the first N in the order of --shuffle 0"},
        {"mean", 0, FF_OPTION_STRING, "A,B,C", &arguments->mean, NULL, 0, 0,
         "mean of each channel, of values from 0 to 1; with --std"},
        {"std", 0, FF_OPTION_STRING, "A,B,C", &arguments->std, NULL, 0, 0,
         "standard deviation of each channel; with --mean"},
        {"normalize", 0, FF_OPTION_CHOICE, NULL, &arguments->normalize, FF_NORMALIZE_CHOICES, 0, 0,
         "mean and std that are usual with PyTorch for a known data set; half: 0.5 for both in every "
         "channel"},
        {"stats-from", 0, FF_OPTION_STRING, "RUN|SET", &arguments->stats_from, NULL, 0, 0,
         "the mean and std of a packed set, or of the set on which a run of fftrain was trained (its "
         "folder, a checkpoint or a file of weights)"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_storage(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Storage"},
        {"shuffle", 0, FF_OPTION_INTEGER, "SEED", &arguments->shuffle, NULL, 0, 9e18,
         "store the samples in a random order (default: in the order of their numbers)"},
        {"compress", 0, FF_OPTION_STRING, "zstd[:LEVEL]", &arguments->compress, NULL, 0, 0,
         "compress the shards (default: no; LEVEL 1)"},
        {"align", 0, FF_OPTION_CHOICE, NULL, &arguments->alignment, FF_ALIGNMENT_CHOICES, 0, 0,
         "alignment of every sample in its shard, in bytes (default: 64)"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_remote(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {{.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
                               FF_STORAGE_ROWS(arguments->remote, FF_SAYS_PHRASE)};
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_shards(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {"shard-size", 0, FF_OPTION_BYTES, "BYTES", &arguments->shard_bytes, NULL, 4096,
         1099511627776.0, "maximum size of a shard, except for one block (default: 256M)"},
    };
    add(table, group, sizeof group / sizeof *group);
}

void ff_options_add_running(ff_option_table *table, ff_arguments *arguments, bool packs) {
    const ff_option group[] = {
        {.kind = FF_OPTION_HEADING, .help = "Running"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &arguments->jobs, NULL, 1, 1024,
         "worker threads (default: one per CPU); the output does not depend on it"},
    };
    const ff_option errors[] = {
        {"on-error", 0, FF_OPTION_CHOICE, NULL, &arguments->on_error, FF_ON_ERROR_CHOICES, 0, 0,
         "what to do about an image that cannot be read (default: fail)"},
        {"max-skip", 0, FF_OPTION_STRING, "N|P%", &arguments->max_skip, NULL, 0, 0,
         "with --on-error skip: fail where more items of a split would be left out, or a class loses "
         "all of its images (default: 1%, rounded up)"},
    };
    const ff_option output[] = {
        {"json", 0, FF_OPTION_FLAG, NULL, &arguments->json, NULL, 0, 0,
         "print the summary as a JSON object"},
        {"progress", 0, FF_OPTION_CHOICE, NULL, &arguments->progress, FF_PROGRESS_CHOICES, 0, 0,
         "how far the work is (default: line, on stderr); json: objects on stdout, a line each, before "
         "the summary"},
    };
    add(table, group, sizeof group / sizeof *group);
    if (packs) add(table, errors, sizeof errors / sizeof *errors);
    add(table, output, sizeof output / sizeof *output);
}

void ff_options_add_dry_run(ff_option_table *table, ff_arguments *arguments) {
    const ff_option group[] = {
        {"part", 0, FF_OPTION_STRING, "I/N|auto", &arguments->part, NULL, 0, 0,
         "pack only the I-th of N ranges of whole shards; ffpack merge joins the parts; auto: "
         "numbered by a SLURM array or tasks, MPI, or a Kubernetes indexed job (FFPACK_PARTS: of how "
         "many), into OUT.part-I-of-N"},
        {"dry-run", 0, FF_OPTION_FLAG, NULL, &arguments->dry_run, NULL, 0, 0,
         "list the source, try up to 1000 images a split, and print what would be packed; writes nothing"},
        {"decode", 0, FF_OPTION_FLAG, NULL, &arguments->decode, NULL, 0, 0,
         "with --dry-run: decode all images and list every broken one; exit code 65 if there is "
         "one"},
    };
    add(table, group, sizeof group / sizeof *group);
}
