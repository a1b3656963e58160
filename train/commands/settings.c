#include "train/commands/settings_table.h"

#include "train/commands/habits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FF_SETTINGS = 128 }; /* more than the table has */

static const char epilogue[] =
    "Defaults are chosen and printed at the start; --dry-run only prints.\n"
    "\n"
    "Examples:\n"
    "  fftrain --data OUT --model smallnet\n"
    "  fftrain --data OUT/train --val OUT/test --model resnet18 --epochs 60 \\\n"
    "          --augment crop=4,flip,cutout=8\n"
    "  fftrain --data CIFAR-10 --recipe cifar-speed\n"
    "  fftrain --data OUT --recipe finetune --weights FILE --epochs 5\n"
    "  fftrain --data OUT --model resnet50 --optimizer adamw --lr 0.002 \\\n"
    "          --weight-decay 0.05 --groups 'fc.*:lr=0.02' --clip-norm 1\n"
    "  fftrain --data OUT --model resnet18 \\\n"
    "          --augment rrc=224,flip,jitter=0.4:0.4:0.4,mixup=0.2\n"
    "  fftrain --resume runs/resnet18-1\n"
    "  fftrain evaluate OUT -c runs/resnet18-1\n"
    "  fftrain predict photos/*.jpg -c runs/resnet18-1\n"
    "  fftrain export RUN -o FILE --onnx FILE.onnx\n"
    "  fftrain report RUN...\n"
    "  fftrain runs\n"
    "  fftrain lr-find --data OUT --model resnet18\n"
    "  fftrain diff RUN RUN\n"
    "  fftrain replay RUN --step N\n"
    "  mpirun --hostfile HOSTS fftrain measure-net -o net.json\n"
    "\n"
    "The last nine have their own --help.\n"
    "\n"
    "--log-json appends one object per line: an event \"start\" with every choice (first_step:\n"
    "the steps done before; later epochs in the lines above were abandoned); after each\n"
    "epoch {event:\"epoch\", epoch, train_loss, train_accuracy, val_loss, val_accuracy,\n"
    "learning_rate, seconds, samples_per_second, data_wait_percent, skipped_updates,\n"
    "loss_scale}, with more than 5 classes val_top5_accuracy, and with --ema val_ema_loss\n"
    "and val_ema_accuracy; accuracies are in [0, 1], learning rate and loss scale are the\n"
    "last step's, seconds count training without evaluation, and skipped_updates counts the\n"
    "updates skipped because 16-bit gradients overflowed; within an epoch {event:\"step\",\n"
    "epoch, step, train_loss, learning_rate, samples_per_second,\n"
    "data_wait_percent} over the steps since the line before (--log-every); and an event\n"
    "\"end\" with how the run ended, where timed_seconds are whitening, training and the last\n"
    "evaluation after the warm-up, and cold_seconds include the warm-up. On a GPU both events\n"
    "have gpu_utilization_percent, gpu_memory_bytes, sm_clock_mhz and memory_clock_mhz, read from\n"
    "NVML near the end of an epoch's training; without NVML they are left out.\n"
    "\n"
    "SIGINT, SIGTERM and SIGUSR1 stop at the next step, after a checkpoint is saved; a second one\n"
    "stops at once.\n"
    "\n"
    "Exit codes: 0 done, 1 failed (also: the loss is NaN or infinite), 2 wrong usage, 65 bad\n"
    "data, 74 input or output error, 75 stopped by a scheduler's signal with a checkpoint saved,\n"
    "128 + n stopped by signal n.";

static const char find_summary[] =
    "Finds a learning rate: takes some hundred steps whose rate rises by the same factor each, and "
    "prints the loss by the rate and a suggestion. Keeps nothing of the run. It also takes the "
    "options of training: the rate is found for these.";

static const char find_epilogue[] =
    "The suggestion is fastai's \"valley\": the smoothed loss's longest fall, half of the way through.\n"
    "\"steep\" is where the smoothed loss falls the most, \"minimum\" a tenth of the rate of its least;\n"
    "the valley lags behind the loss: larger rates may train faster. Each is a value for --lr, the\n"
    "peak of a schedule. The search ends at 4 times the least loss. Other --groups rise in\n"
    "proportion. (L. Smith 2015, arXiv 1506.01186) --log-json appends one object: event \"lr-find\",\n"
    "suggested, steep,\n"
    "minimum (0 = none), and for each step rate, loss and smoothed_loss.\n"
    "\n"
    "Examples:\n"
    "  fftrain lr-find --data OUT --model resnet18\n"
    "  fftrain lr-find --data OUT --recipe finetune --weights FILE --png rates.png\n"
    "\n"
    "Exit codes: as for fftrain; 1 also if the loss never falls.";

bool ff_setting_is_last(const ff_setting *row) {
    return !row->option.name && row->option.kind != FF_OPTION_HEADING;
}

static void set_number(const ff_option *option, double value) {
    if (option->kind == FF_OPTION_INTEGER) *(int64_t *)option->target = (int64_t)value;
    if (option->kind == FF_OPTION_REAL) *(double *)option->target = value;
    if (option->kind == FF_OPTION_CHOICE) *(int *)option->target = (int)value;
}

ff_settings ff_settings_default(void) {
    ff_settings defaults = {.session.change = ff_settings_change};
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++) {
        const ff_option option = ff_setting_in(row, &defaults);
        if (row->initial != 0) set_number(&option, row->initial);
    }
    return defaults;
}

ff_status ff_settings_use(ff_settings *out,
                          ff_status (*use)(const ff_command *command, void *context,
                                           ff_error *error),
                          void *context, ff_error *error) {
    char known[FF_AUGMENT_HELP_BYTES], augment_help[FF_AUGMENT_HELP_BYTES + 100];
    snprintf(augment_help, sizeof augment_help,
             "none, or a list of %s; default: the model's, as printed at the start.",
             ff_augment_help(known));
    char schedules[FF_SCHEDULE_HELP_BYTES], schedule_help[FF_SCHEDULE_HELP_BYTES + 120];
    snprintf(schedule_help, sizeof schedule_help,
             "Learning rate after the warm-up: %s; default: the recipe's, usually cosine.",
             ff_schedule_help(schedules));
    ff_option options[FF_SETTINGS] = {{.name = NULL}};
    int count = 0;
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++) {
        if (row->is & FF_SETTING_SEARCH && !out->finds) continue;
        ff_option *option = &options[count++];
        *option = ff_setting_in(row, out);
        if (option->target == &out->trainer.augment) option->help = augment_help;
        if (option->target == &out->trainer.schedule) option->help = schedule_help;
        assert(count < FF_SETTINGS);
    }
    const ff_command command = {
        .program = out->finds ? "fftrain lr-find" : "fftrain",
        .usage = out->finds
                     ? "fftrain lr-find --data DIR --model NAME | --recipe NAME [options]"
                     : "fftrain --data DIR [--val DIR] --model NAME | --recipe NAME [options]",
        .summary =
            out->finds
                ? find_summary
                : "Trains a model on a dataset packed by ffpack, and evaluates it on another.",
        .options = options,
        .epilogue = out->finds ? find_epilogue : epilogue,
        .habits = ff_train_habits,
    };
    return use(&command, context, error);
}

typedef struct recipe_text {
    char *text;
    const char *where;
} recipe_text;

static ff_status read_recipe(const ff_command *command, void *context, ff_error *error) {
    const recipe_text *recipe = context;
    return ff_options_read(command, recipe->text, recipe->where, error);
}

ff_status ff_settings_read(ff_settings *settings, char *text, const char *where, ff_error *error) {
    recipe_text recipe = {text, where};
    return ff_settings_use(settings, read_recipe, &recipe, error);
}

typedef struct written {
    const ff_settings *settings;
    ff_buffer *text;
} written;

static ff_status write_recipe(const ff_command *command, void *context, ff_error *error) {
    const written *to = context;
    const ff_settings defaults = ff_settings_default();
    return ff_options_write(command->options, to->settings, &defaults, to->text, error);
}

ff_status ff_settings_write(ff_settings *settings, ff_buffer *text, ff_error *error) {
    written to = {settings, text};
    return ff_settings_use(settings, write_recipe, &to, error);
}

/* ---- what an option is ---- */

/* Sets the options of this kind to their defaults. */
static void set_to_defaults(ff_settings *settings, unsigned is) {
    ff_settings defaults = ff_settings_default();
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++) {
        if (!(row->is & is) || !row->option.name) continue;
        const ff_option option = ff_setting_in(row, settings);
        ff_option_copy(&option, ff_setting_in(row, &defaults).target);
    }
}

void ff_settings_keep_run(ff_settings *settings, const ff_trainer *trainer) {
    set_to_defaults(settings, FF_SETTING_HERE);
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++)
        if (row->resolve) row->resolve(settings, trainer);
}

void ff_settings_leave_rank(ff_settings *settings) {
    set_to_defaults(settings, FF_SETTING_RANK);
}

/* "--keep, --hash-every": the options of this kind in `line`. */
static void name_given(char *names, size_t size, ff_settings *line, unsigned is) {
    ff_settings defaults = ff_settings_default();
    *names = 0;
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++) {
        const ff_option option = ff_setting_in(row, line);
        const size_t used = strlen(names);
        if (!(row->is & is) || ff_option_same(&option, ff_setting_in(row, &defaults).target))
            continue;
        if (row->is & FF_SETTING_OFF_AT_0 && *(const int64_t *)option.target == 0) continue;
        snprintf(names + used, size - used, "%s--%s", used ? ", " : "", option.name);
    }
}

void ff_settings_name_needy(ff_settings *settings, ff_settings *line) {
    name_given(settings->for_folder, sizeof settings->for_folder, line, FF_SETTING_FOLDER);
    name_given(settings->for_validation, sizeof settings->for_validation, line,
               FF_SETTING_VALIDATION);
}

ff_origin_change ff_settings_change(const char *name, size_t length) {
    for (const ff_setting *row = ff_settings_table; !ff_setting_is_last(row); row++) {
        const char *known = row->option.name;
        if (!known || strlen(known) != length || memcmp(known, name, length) != 0) continue;
        if (row->is & FF_SETTING_FIXED) return FF_CHANGE_REFUSED;
        if (row->is & FF_SETTING_COMPARED) return FF_CHANGE_COMPARED;
    }
    return FF_CHANGE_NOTED;
}
