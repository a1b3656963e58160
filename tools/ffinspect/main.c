/* ffinspect: shows and proves what a packed dataset holds. This file is its command line. */
#include "format/base/file.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/options.h"
#include "format/storage/options.h"
#include "tools/ffinspect/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const char summary[] =
    "Shows and proves what a packed dataset holds: without an option, a summary in words.\n"
    "DIR is the folder of a split, or a folder with several (OUT with OUT/train, OUT/test), or the\n"
    "URL of one, as in s3://bucket/OUT and https://host/OUT/train. With several splits the\n"
    "summary, --json, --verify, --stats, --bench, --keys, --find and --png take all splits; --sample\n"
    "and --npy need a single one.";

static const char epilogue[] =
    "Names of classes and fields in --json are as the source had them; a name that is not UTF-8 is\n"
    "percent-escaped. In keys '%' and bytes that are not UTF-8 are %XX; in words control characters\n"
    "are, too. --find takes a key as it is or as it is shown.\n"
    "\n"
    "Examples:\n"
    "  ffinspect cifar10\n"
    "  ffinspect cifar10 --verify\n"
    "  ffinspect cifar10/train --grid 6x10 --png sheet.png --seed 1\n"
    "  ffinspect cifar10/train --sample 17\n"
    "  ffinspect cifar10/test --npy test.npy\n"
    "  ffinspect photos224 --find cat/17.jpg\n"
    "  ffinspect photos224 --keys | grep -v ^train/cat/ | shuf -n 100\n"
    "  ffinspect cifar10 --json --stats | jq '.splits[].stats'\n"
    "\n"
    "Pango draws names on --png in any script, if libpangocairo-1.0.so.0 and fonts are found;\n"
    "otherwise, and with FFPACK_PANGO=0 in the environment, other letters than ASCII are\n"
    "transliterated and marked: class 3, ~name.\n"
    "\n"
    "Exit codes: 0 done, and with --verify all is well; 1 failure, and with --find no sample\n"
    "has the key; 2 wrong usage; 65 DIR is not a packed dataset, or it is broken; 74 the system\n"
    "refused to read or write; 128 + n stopped by signal n.";

/* Checks that the output was written: a full disk is an error. A closed pipe, as in `ffinspect ...
 * | head`, is an error without a message. */
static int finish(int code) {
    errno = 0;
    int failed = fflush(stdout);
    if (!failed && !ferror(stdout)) return code;
    if (errno != EPIPE) {
        ff_error error = {0};
        if (errno)
            (void)ff_fail_errno(&error, "standard output: cannot write");
        else
            (void)ff_fail(&error, FF_IO, "standard output: cannot write");
        fprintf(stderr, "ffinspect: %s\n", error.message);
    }
    return code ? code : 74;
}

static ff_status inspect(ff_inspect_options *chosen, const char **folders, int count,
                         ff_error *error) {
    if (count == 0)
        return ff_fail(error, FF_USAGE,
                       "name a packed folder: ffinspect DIR; see 'ffinspect --help'");
    if (count > 1)
        return ff_fail(error, FF_USAGE, "one folder at a time: '%s' is one too many", folders[1]);
    chosen->path = folders[0];
    FF_TRY(ff_inspect_check_options(chosen, error));
    FF_TRY(ff_storage_use(&chosen->storage, folders, 1, error));
    /* Only options that write files need cleanup after a signal; otherwise the program ends at
     * once. */
    signal(SIGPIPE, SIG_IGN);
    if (chosen->npy || chosen->png) ff_interrupt_install(0);
    return ff_inspect_run(chosen, error);
}

int main(int argc, char **argv) {
    ff_inspect_options chosen = {
        .seed = FF_INSPECT_NO_SEED, .jobs = ff_cpu_count(), .classes_limit = 20};
    const ff_option options[] = {
        {.kind = FF_OPTION_HEADING, .help = "What to show (default: a summary)"},
        {"json", 0, FF_OPTION_FLAG, NULL, &chosen.json, NULL, 0, 0,
         "print one JSON document, with what the other options ask for in it"},
        {"verify", 0, FF_OPTION_FLAG, NULL, &chosen.verify, NULL, 0, 0,
         "check every byte of the index and the shards; any changed bit is found"},
        {"stats", 0, FF_OPTION_FLAG, NULL, &chosen.stats, NULL, 0, 0,
         "mean, standard deviation, smallest and largest value, NaN and infinities of each channel "
         "of the stored values"},
        {"sample", 0, FF_OPTION_STRING, "I|A:B", &chosen.sample, NULL, 0, 0,
         "place, key, labels, checksum and first values of sample I, or of A up to but not B; with "
         "--npy, the samples to write"},
        {"keys", 0, FF_OPTION_FLAG, NULL, &chosen.keys, NULL, 0, 0,
         "the keys of all samples, a line each, as ffpack copy --keys reads them; for several "
         "splits as SPLIT/KEY"},
        {"null", '0', FF_OPTION_FLAG, NULL, &chosen.null, NULL, 0, 0,
         "with --keys: the bytes of each key as they are, and a zero byte after it, for xargs -0"},
        {"find", 0, FF_OPTION_STRING, "KEY", &chosen.find, NULL, 0, 0,
         "number, split, shard, labels and size of each sample that has this key"},
        {"bench", 0, FF_OPTION_FLAG, NULL, &chosen.bench, NULL, 0, 0,
         "samples a second, read in sequence and at random, compared with a plain memcpy of the "
         "same bytes"},
        {.kind = FF_OPTION_HEADING, .help = "What to write"},
        {"png", 0, FF_OPTION_STRING, "FILE", &chosen.png, NULL, 0, 0,
         "a contact sheet: denormalized pictures with their class names, from as many classes as "
         "fit"},
        {"grid", 0, FF_OPTION_STRING, "RxC", &chosen.grid, NULL, 0, 0,
         "rows and columns of --png, of all splits together (default: 4x8)"},
        {"label", 0, FF_OPTION_STRING, "FIELD", &chosen.label, NULL, 0, 0,
         "label field that names the pictures and chooses them (default: the first one of classes)"},
        {"npy", 0, FF_OPTION_STRING, "FILE", &chosen.npy, NULL, 0, 0,
         "the samples as stored, in the order of their numbers, as one NumPy array: shape (n, ...) "
         "of u8, f16, f32 or u16 (bf16 too, as its bits), and for a name FILE.npy the labels next "
         "to it in FILE_FIELD.npy; samples of different sizes as one array each in a new folder "
         "FILE, the labels next to it; - is standard output, without labels"},
        {.kind = FF_OPTION_HEADING, .help = "How"},
        {"seed", 0, FF_OPTION_INTEGER, "N", &chosen.seed, NULL, 0, 9e15,
         "choose the pictures of --png at random (default: spread over the classes); also the random "
         "order of --bench"},
        {"jobs", 'j', FF_OPTION_INTEGER, "N", &chosen.jobs, NULL, 1, 1024,
         "threads (default: one a CPU); results do not depend on it"},
        {"classes-limit", 0, FF_OPTION_INTEGER, "N", &chosen.classes_limit, NULL, 0, 16777216,
         "classes that the summary lists for each label field, 0 = all (default: 20)"},
        {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING},
        FF_STORAGE_ROWS(chosen.storage, FF_SAYS_PHRASE),
        {0}};
    const ff_command command = {.program = "ffinspect",
                                .usage = "ffinspect DIR [options]",
                                .summary = summary,
                                .options = options,
                                .epilogue = epilogue};
    ff_error error = {0};
    ff_positionals words;
    ff_hold_standard_files();
    ff_status status = ff_options_parse(&command, argc, argv, &words, &error);
    if (status == FF_OK && !words.done)
        status = inspect(&chosen, words.operand, words.count, &error);
    ff_positionals_free(&words);
    if (status == FF_OK) return finish(0);
    fflush(stdout); /* print the output before the error message */
    fprintf(stderr, "ffinspect: %s\n", error.message);
    return finish(ff_exit_code(&error));
}
