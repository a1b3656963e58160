#include "tools/ffpack/settings/habits.h"

const ff_habit ff_pack_habits[] = {
    {"workers num-workers threads num-threads processes nproc", "here it is --jobs N"},
    {"output-dir out out-dir dest write-path", "here it is -o OUT"},
    {"input input-dir data data-dir root source", "here SOURCE comes without an option"},
    {"f overwrite replace exist-ok", "here it is --force"},
    {"size image-size img-size resolution", "here it is --resize N, or --resize HxW"},
    {"crop crop-size", "here it is --center-crop N"},
    {"max-resolution max-image-size", "here it is --max-side N"},
    {"q quiet silent no-progress", "here it is --progress none"},
    {"v verbose", "here --progress line is the default, and --json prints all figures"},
    {"val-split validation-split val-ratio val-size val-frac test-split test-size train-split "
     "train-size split-ratio",
     "here it is --split train=0.9,val=0.1"},
    {"seed random-state random-seed",
     "here it is --shuffle SEED for the order of the samples, and --split-seed N for --split"},
    {"stratified", "here it is --stratify, with --split"},
    {"group-key groups group", "here it is --group-by REGEX, with --split"},
    {"grayscale greyscale gray grey", "here it is --mode gray"},
    {"compression", "here it is --compress zstd"},
    {"skip-errors ignore-errors skip-broken skip-corrupt", "here it is --on-error skip"},
    {"chunk-size max-shard-size maxsize shard-bytes", "here it is --shard-size BYTES"},
    {"verify validate check check-images decode-all",
     "here it is ffpack check SOURCE, or --dry-run --decode"},
    {"path-column path-col image-column label-column label-col target-column column cols",
     "here it is --columns path=NAME,label=NAME"},
    {"ignore", "here it is --exclude PATTERN,..."},
    {"exif-transpose autorotate", "here it is --exif"},
    {"no-normalize", "here u8 samples keep the raw values: --dtype u8"},
    {0},
};

const ff_habit ff_append_habits[] = {
    {"o output out output-dir out-dir dest", "here OUT comes first: ffpack append OUT SOURCE"},
    {"input data source", "here SOURCE comes second: ffpack append OUT SOURCE"},
    {"workers num-workers threads num-threads", "here it is --jobs N"},
    {"q quiet silent no-progress", "here it is --progress none"},
    {"skip-errors ignore-errors skip-broken skip-corrupt", "here it is --on-error skip"},
    {"add-classes allow-new-classes", "here it is --new-classes"},
    {0},
};
