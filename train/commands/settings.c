#include "train/commands/settings.h"

#include "train/commands/habits.h"
#include "train/debug/hashes.h"
#include "train/predict/predict.h"
#include "train/report/events/step_points.h"

#include <stdlib.h>
#include <string.h>

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
    "The last nine have a --help of their own.\n"
    "\n"
    "--log-json appends one object per line: an event \"start\" with every choice (first_step:\n"
    "the steps done before; epochs beyond them that stand above were left); after each\n"
    "epoch {event:\"epoch\", epoch, train_loss, train_accuracy, val_loss, val_accuracy,\n"
    "learning_rate, seconds, samples_per_second, data_wait_percent, skipped_updates,\n"
    "loss_scale}, and val_top5_accuracy where there are more than 5 classes, and\n"
    "val_ema_loss and val_ema_accuracy with --ema; accuracies are in [0, 1], learning rate and\n"
    "loss scale are those of the last step, seconds are of training\n"
    "without evaluation, and updates are skipped whose 16-bit gradients overflowed; within it\n"
    "{event:\"step\", epoch, step, train_loss, learning_rate, samples_per_second,\n"
    "data_wait_percent} over the steps since the line before (--log-every); and an event\n"
    "\"end\" with how the run ended, where timed_seconds are whitening, training and the last\n"
    "evaluation after the warm-up, and cold_seconds include the warm-up. On a GPU both have\n"
    "gpu_utilization_percent, gpu_memory_bytes, sm_clock_mhz and memory_clock_mhz, read from\n"
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
    "prints the loss by the rate and a suggestion. Keeps nothing of the run. It has the options of "
    "training, too: the rate found is for these.";

static const char find_epilogue[] =
    "The suggestion is fastai's \"valley\": the smoothed loss's longest fall, half of the way through.\n"
    "\"steep\" is where the smoothed loss falls the most, \"minimum\" a tenth of the rate of its least;\n"
    "it lags behind the loss: larger rates may train faster. Each is a value for --lr, a schedule's\n"
    "peak. The search ends at 4 times the least loss. Other --groups rise in proportion. (L. Smith\n"
    "2015, arXiv 1506.01186) --log-json appends one object: event \"lr-find\", suggested, steep,\n"
    "minimum (0 = none), and of each step rate, loss and smoothed_loss.\n"
    "\n"
    "Examples:\n"
    "  fftrain lr-find --data OUT --model resnet18\n"
    "  fftrain lr-find --data OUT --recipe finetune --weights FILE --png rates.png\n"
    "\n"
    "Exit codes: as of fftrain; 1 also where the loss never falls.";

ff_settings ff_settings_default(void) {
    ff_settings defaults = {.trainer = ff_trainer_default_options()};
    defaults.verify = FF_VERIFY_FIRST;
    defaults.session.keep = 3;
    defaults.rank_timeout = 60;
    defaults.log_every = FF_STEP_POINTS_CHOSEN;
    defaults.frozen_norms = -1; /* as eval */
    defaults.trainer.sweep = (ff_trainer_sweep){200, 1e-6, 10};
    defaults.session.hash_every = FF_HASHES_CHOSEN;
    return defaults;
}

ff_status ff_settings_use(ff_settings *out,
                          ff_status (*use)(const ff_command *command, void *context,
                                           ff_error *error),
                          void *context, ff_error *error) {
    ff_trainer_options *trainer = &out->trainer;
    const double most_seeds = 9007199254740992.0; /* whole numbers that a double holds */
    char known[FF_AUGMENT_HELP_BYTES], augment_help[FF_AUGMENT_HELP_BYTES + 100];
    snprintf(augment_help, sizeof augment_help,
             "none, or a list of %s; default: the model's, as printed at the start.",
             ff_augment_help(known));
    char schedules[FF_SCHEDULE_HELP_BYTES], schedule_help[FF_SCHEDULE_HELP_BYTES + 120];
    snprintf(schedule_help, sizeof schedule_help,
             "Learning rate after the warm-up: %s; default: the recipe's, usually cosine.",
             ff_schedule_help(schedules));
    enum { OF_SEARCH = 5 };
    const ff_option options[] = {
        {.kind = FF_OPTION_HEADING, .help = "Search"},
        {"steps", 0, FF_OPTION_INTEGER, "N", &trainer->sweep.steps, NULL, 20, 10000,
         "Steps at most; default 200."},
        {"from", 0, FF_OPTION_REAL, "X", &trainer->sweep.from, NULL, 1e-30, 1e6,
         "First rate; default 1e-6."},
        {"to", 0, FF_OPTION_REAL, "X", &trainer->sweep.to, NULL, 1e-30, 1e6,
         "Last rate; default 10."},
        {"png", 0, FF_OPTION_STRING, "FILE", &out->png, NULL, 0, 0,
         "Draw the curve into this file, too."},

        {.kind = FF_OPTION_HEADING, .help = "Data"},
        {"data", 'd', FF_OPTION_STRING, "DIR", &trainer->data, NULL, 0, 0,
         "Packed training set, or a folder of splits with 'train'."},
        {"val", 0, FF_OPTION_STRING, "DIR|none", &trainer->val, NULL, 0, 0,
         "Packed set to evaluate on; none: train without evaluation (a folder of that name is "
         "./none); default: the first of 'val', 'valid' and 'test' next to 'train' in --data, where "
         "there is one."},
        {"val-every", 0, FF_OPTION_INTEGER, "N", &trainer->val_every, NULL, 0, 1000000,
         "Evaluate after every Nth epoch, and after the last; 0 = after the last only; default: "
         "the recipe's, usually 1."},
        {"patience", 0, FF_OPTION_INTEGER, "N", &trainer->patience, NULL, 0, 1000000,
         "Stop early, after N evaluations in a row without a better one by --best-by; the learning "
         "rate is that of all --epochs, and a run that has stopped goes on with a larger N, or 0; "
         "default 0: never."},
        {"label", 0, FF_OPTION_STRING, "FIELD", &trainer->label, NULL, 0, 0,
         "Label field to learn; default: the first."},
        {"augment", 0, FF_OPTION_STRING, "LIST", &trainer->augment, NULL, 0, 0, augment_help},
        {"crop", 0, FF_OPTION_INTEGER, "N", &trainer->crop, NULL, 1, 65536,
         "Crop samples to N x N: at random with crop in --augment, else and for evaluation at the "
         "centre; default: the SIZE of rrc, else whole samples."},
        {"sizes", 0, FF_OPTION_STRING, "EPOCH:SIZE,...", &trainer->sizes, NULL, 0, 0,
         "Train on images whose short side is SIZE from that epoch on, as in 0:128,30:160,60:192; "
         "35-76:192 goes there in steps of 32 pixels; evaluation keeps the whole size; default: the "
         "whole size."},
        {"val-resize", 0, FF_OPTION_INTEGER, "N", &trainer->val_resize, NULL, 1, 65536,
         "Resize the short side to N before the central crop for evaluation; default, where "
         "needed: that of resize in --augment, else 8/7 of the crop, 256 for 224."},
        {"order", 0, FF_OPTION_CHOICE, NULL, &out->order, "random|block|sequential", 0, 0,
         "Order of an epoch; block suits data larger than memory; default random."},
        {"block", 0, FF_OPTION_INTEGER, "N", &trainer->block, NULL, 1, most_seeds,
         "With --order block: samples that are stored together; default: about 1 MiB of them, of a "
         "set larger than memory 320 KiB to 4 MiB or, where memory is too little for 64 such blocks, "
         "less; a run that goes on keeps its own."},
        {"group", 0, FF_OPTION_INTEGER, "N", &trainer->group, NULL, 1, most_seeds,
         "With --order block: blocks that are mixed with each other; default 2048, of a set larger "
         "than memory as many as memory can keep, from 64 on; a run that goes on keeps its own."},
        {"last-batch", 0, FF_OPTION_CHOICE, NULL, &out->last_batch, "drop|keep", 0, 0,
         "Whether an incomplete last batch of an epoch is dropped or kept; default drop."},
        {"verify-data", 0, FF_OPTION_CHOICE, NULL, &out->verify, "off|first|always", 0, 0,
         "When samples are checked against their checksums; default first, once per sample."},
        {"workers", 0, FF_OPTION_INTEGER, "N", &trainer->workers, NULL, 0, 256,
         "Threads that fill batches ahead; 0 fills them between steps; default 1, plus 1 per 8 "
         "--threads; on a GPU as many as --threads, 8 at most."},

        {.kind = FF_OPTION_HEADING, .help = "Model"},
        {"recipe", 0, FF_OPTION_STRING, "NAME|FILE", &trainer->recipe, NULL, 0, 0,
         "A model with all settings to train it: quickstart, cifar10-resnet18, cifar-speed, "
         "imagenet-resnet50-short, imagenet-resnet50-long, finetune, or a model's name; or a file "
         "with a line NAME = VALUE for each option; default: that of --model."},
        {"model", 'm', FF_OPTION_STRING, "NAME", &trainer->model, NULL, 0, 0,
         "smallnet, cifarnet, resnet18, 34, 50, 101 or 152, vgg11, 13, 16 or 19, also with _bn, "
         "mobilenet_v2."},
        {"weights", 0, FF_OPTION_STRING, "FILE", &trainer->weights, NULL, 0, 0,
         "Start from these weights: a run or a checkpoint, a safetensors file, or a file of "
         "torch.save (.pth), with torchvision's or timm's names; a head for other classes keeps its "
         "initial values."},
        {"any-normalization", 0, FF_OPTION_FLAG, NULL, &trainer->any_normalization, NULL, 0, 0,
         "Take --weights even where their images were normalized with other numbers."},
        {"stem", 0, FF_OPTION_CHOICE, NULL, &out->stem, "auto|cifar|imagenet", 0, 0,
         "First layers of a resnet or mobilenet_v2, last layers of a vgg; default auto: those of "
         "--weights, else cifar up to 64 pixels."},
        {"dropout", 0, FF_OPTION_REAL, "P", &trainer->dropout, NULL, 0, 0.99,
         "Dropout of nets that have it; default: the model's."},

        {.kind = FF_OPTION_HEADING, .help = "Training"},
        {"epochs", 'e', FF_OPTION_INTEGER, "N", &trainer->epochs, NULL, 1, 1000000,
         "Passes over the training set; default: the model's."},
        {"batch", 'b', FF_OPTION_INTEGER, "N|auto", &trainer->batch, "auto", 1, 1048576,
         "Samples per step; auto: the largest power of two that leaves an epoch 32 steps and is no "
         "more than 32 times the model's, or the largest that needs at most 90 % of the memory; "
         "default, and auto's where an epoch is shorter: the model's; a smaller set is one batch."},
        {"accumulate", 0, FF_OPTION_INTEGER, "N", &trainer->accumulate, NULL, 1, 65536,
         "Cut each batch into N micro-batches whose gradients are added up, in the memory of one; "
         "batch norms see one at a time; default 1."},
        {"reproducible", 0, FF_OPTION_FLAG, NULL, &trainer->reproducible, NULL, 0, 0,
         "On the CPU: end in the same bits on any number of ranks, where ranks times --accumulate and "
         "--threads (default 1) stay the same; gradients, losses and running statistics are summed in "
         "a fixed tree. Several ranks have a power of two micro-batches each."},
        {"parts", 0, FF_OPTION_INTEGER, "N", &trainer->parts, NULL, 1, 65536,
         "With --reproducible: ranks times micro-batches, from which --accumulate follows; default: "
         "as they are, and a run that goes on keeps them."},
        {"optimizer", 0, FF_OPTION_STRING, "NAME", &trainer->optimizer, NULL, 0, 0,
         "sgd, adamw, lars or lamb, which adapt the step of every parameter but norms and biases to "
         "its norm, also without weight decay, where timm's do not; muon only in --groups; default: "
         "sgd."},
        {"lr", 0, FF_OPTION_REAL, "X", &trainer->hyper.learning_rate, NULL, 0, 1e6,
         "Peak learning rate; default for sgd: the model's, in proportion to --batch; else 0.001, "
         "of lars 1."},
        {"scale-lr", 0, FF_OPTION_FLAG, NULL, &trainer->scale_lr, NULL, 0, 0,
         "Multiply --lr and the rates of --groups by the number of ranks, once, when a run begins; a "
         "default follows the batch by itself."},
        {"sync-bn", 0, FF_OPTION_FLAG, NULL, &trainer->sync_bn, NULL, 0, 0,
         "Batch norms train with the statistics of the whole batch, over all ranks, as "
         "torch.nn.SyncBatchNorm; default: each rank's own, of its part."},
        {"schedule", 0, FF_OPTION_STRING, "NAME[=ARGUMENTS]", &trainer->schedule, NULL, 0, 0,
         schedule_help},
        {"warmup", 0, FF_OPTION_REAL, "EPOCHS", &trainer->warmup_epochs, NULL, 0, 1000000,
         "Epochs over which the learning rate rises, may be fractional; default: the model's."},
        {"momentum", 0, FF_OPTION_REAL, "X", &trainer->hyper.momentum, NULL, 0, 0.999999,
         "Momentum of sgd and lars; default: the model's, 0.9."},
        {"nesterov", 0, FF_OPTION_FLAG, NULL, &trainer->nesterov, NULL, 0, 0,
         "Nesterov momentum; this is the default of sgd."},
        {"no-nesterov", 0, FF_OPTION_FLAG, NULL, &trainer->no_nesterov, NULL, 0, 0,
         "Classical momentum."},
        {"beta1", 0, FF_OPTION_REAL, "X", &trainer->hyper.beta1, NULL, 0, 0.999999,
         "Of adamw's and lamb's mean of gradients; default 0.9."},
        {"beta2", 0, FF_OPTION_REAL, "X", &trainer->hyper.beta2, NULL, 0, 0.999999999,
         "Of adamw's and lamb's mean of their squares; default 0.999."},
        {"eps", 0, FF_OPTION_REAL, "X", &trainer->hyper.epsilon, NULL, 0, 1,
         "Added to the denominators of adamw, lars and lamb; default 1e-8, of lamb 1e-6."},
        {"trust", 0, FF_OPTION_REAL, "X", &trainer->hyper.trust, NULL, 0, 1000,
         "Trust coefficient of lars; default 0.001."},
        {"weight-decay", 0, FF_OPTION_REAL, "X", &trainer->hyper.weight_decay, NULL, 0, 1e6,
         "Weight decay; default: the model's, of adamw and lamb 0.01."},
        {"no-decay", 0, FF_OPTION_STRING, "NAMES", &trainer->no_decay, NULL, 0, 0,
         "Parameters without weight decay: a list of patterns of names, and of norm (batch norms) "
         "and bias (of other layers); default none, of lars and lamb norm,bias."},
        {"groups", 0, FF_OPTION_STRING, "NAMES:KEY=VALUE,...;...", &trainer->groups, NULL, 0, 0,
         "Parameters with numbers of their own: NAMES as of --no-decay, KEY one of optimizer, lr, "
         "momentum, weight-decay, beta1, beta2, eps and trust; the first match counts."},
        {"freeze", 0, FF_OPTION_STRING, "NAMES", &trainer->freeze, NULL, 0, 0,
         "Parameters that stay as they are, as in --groups: body = all but the last layer; they "
         "cost no gradient."},
        {"frozen-norms", 0, FF_OPTION_CHOICE, NULL, &out->frozen_norms, "eval|train", 0, 0,
         "Batch norms with frozen parameters keep and use their running statistics, as in Keras and "
         "timm (eval), or normalize by the batch and go on averaging, as torch does where only "
         "requires_grad is off (train); needs a --freeze that names batch norms; default eval."},
        {"clip-norm", 0, FF_OPTION_REAL, "X", &trainer->clip_norm, NULL, 0, 1e30,
         "Scale gradients down to this norm over all parameters; default 0: they are not."},
        {"ema", 0, FF_OPTION_REAL, "DECAY", &trainer->ema, NULL, 0, 0.999999999,
         "Also keep an average of the parameters and running statistics, DECAY * average + (1 - "
         "DECAY) * value after each update, and evaluate it; default: none is kept."},
        {"label-smoothing", 0, FF_OPTION_REAL, "X", &trainer->label_smoothing, NULL, 0, 0.999999,
         "Label smoothing of the training loss; default: the model's."},
        {"class-weights", 0, FF_OPTION_STRING, "FILE|balanced", &trainer->class_weights, NULL, 0, 0,
         "Weights of the classes in the training loss, whose mean divides by their sum over the "
         "batch, as in PyTorch: a line CLASS,WEIGHT for each class, or balanced = samples / "
         "(classes * samples of the class)."},
        {"views", 0, FF_OPTION_CHOICE, NULL, &out->views, "auto|1|2|6", 0, 0,
         "Views of each sample whose logits are averaged in evaluation: 1 the sample; 2 also its "
         "mirror image; 6 also both shifted by a pixel in two directions; default auto: the "
         "recipe's, usually 1."},
        {"seed", 's', FF_OPTION_INTEGER, "N", &trainer->seed, NULL, 0, most_seeds,
         "Seed of the initial parameters, the order and the augmentation; default 0."},

        {.kind = FF_OPTION_HEADING, .help = "Machine"},
        {"device", 0, FF_OPTION_STRING, "auto|cpu|cuda[:I]", &trainer->device, NULL, 0, 0,
         "Where to train; default auto: the first GPU, else the CPU, saying why."},
        {"dp", 0, FF_OPTION_STRING, "LIST", &out->dp, NULL, 0, 0,
         "Train on several devices of this machine, a replica of the model on each, which have equal "
         "parts of every batch: numbers of GPUs, as in 0,1,2, or cpu,cpu; 2x0 is two replicas that "
         "share GPU 0."},
        {"dp-balance", 0, FF_OPTION_STRING, "LIST", &out->dp_balance, NULL, 0, 0,
         "The replicas' parts of a batch, as in 2,3,3; auto: by the speed and the free memory of "
         "each, measured first, also of the ranks that --ranks or a launcher starts; default: equal "
         "ones."},
        {"memory", 0, FF_OPTION_BYTES, "BYTES", &trainer->memory_bytes, NULL, 1, 1e18,
         "Memory for keeping the sets and reading them ahead, shared by the ranks on this machine; a "
         "larger set is read directly; default: what the machine and the limits of the process leave, "
         "at most the environment's FFLOAD_MEMORY."},
        {"ranks", 0, FF_OPTION_INTEGER, "N", &out->ranks, NULL, 1, 64,
         "Start N ranks on this machine, a process each, which have equal parts of every batch; "
         "torchrun, mpirun and srun start them on several machines."},
        {"reduce-dtype", 0, FF_OPTION_CHOICE, NULL, &out->reduce_dtype, "f32|f16|bf16", 0, 0,
         "Of gradients that ranks send to each other: 16 bits are half the bytes on a slow network, "
         "and round each rank's sums; default f32."},
        {"rank-timeout", 0, FF_OPTION_INTEGER, "SECONDS", &out->rank_timeout, NULL, 1, 86400,
         "A rank that is silent for longer is lost, and ends the job; default 60."},
        {"device-json", 0, FF_OPTION_STRING, "FILE", &out->device_json, NULL, 0, 0,
         "With --dry-run: plan for the GPU described by FILE, which this machine need not have, "
         "and print its engines and memory."},
        {"plan-cache", 0, FF_OPTION_STRING, "DIR", &trainer->plan_cache, NULL, 0, 0,
         "Folder of chosen and compiled engines of GPUs, for the next run; with --device-json all "
         "engines that the GPU will time are compiled into it; default $FFPACK_PLAN_CACHE, or "
         "ffpack/plans in $XDG_CACHE_HOME or ~/.cache."},
        {"tune", 0, FF_OPTION_REAL, "SECONDS", &trainer->tune_seconds, NULL, 0, 86400,
         "Limit for timing a GPU's engines that are not in the plan cache, without compiling, "
         "which may take three times as long; 0: no timing, and no batch norm folded into a "
         "convolution; default: by the net's convolutions, 5 to 60."},
        {"no-fold", 0, FF_OPTION_FLAG, NULL, &trainer->no_fold, NULL, 0, 0,
         "On a GPU, never fold batch norms into the convolutions after them."},
        {"precision", 0, FF_OPTION_STRING, FF_PRECISION_NAMES, &trainer->precision, NULL, 0, 0,
         "Of activations and working weights; master weights are f32; default f16 on a GPU; the "
         "CPU has f32 only."},
        {"placement", 0, FF_OPTION_STRING, "auto|resident|stream|host", &out->placement, NULL, 0, 0,
         "Where a GPU's data is: resident in its memory, streamed as stored, or augmented on the "
         "host; default auto, saying why."},
        {"loss-scale", 0, FF_OPTION_REAL, "X", &trainer->loss_scale, NULL, 0, 1e9,
         "Fixed loss scale for 16-bit gradients, 0 for none; default: for f16 the recipe's, "
         "usually dynamic; else none."},
        {"no-graph", 0, FF_OPTION_FLAG, NULL, &trainer->no_graph, NULL, 0, 0,
         "Launch a GPU's kernels one by one, without CUDA graphs; the same bits."},
        {"no-warm-up", 0, FF_OPTION_FLAG, NULL, &trainer->no_warm_up, NULL, 0, 0,
         "Start a GPU run's clock before kernels are loaded and graphs captured; the same bits."},
        {"deterministic", 0, FF_OPTION_FLAG, NULL, &trainer->deterministic, NULL, 0, 0,
         "Only algorithms whose results do not vary between runs, and none chosen by timing; "
         "always so on the CPU."},
        {"threads", 'j', FF_OPTION_INTEGER, "N", &trainer->threads, NULL, 0, 1024,
         "Compute threads; default 0: as many as there are CPUs."},
        {"compute", 0, FF_OPTION_CHOICE, NULL, &out->compute, "auto|onednn|reference", 0, 0,
         "Implementation of the layers; reference is plain, slow loops, for comparison; default "
         "auto: the fastest."},

        {.kind = FF_OPTION_HEADING, .help = "Runs"},
        {"out", 'o', FF_OPTION_STRING, "DIR", &out->session.out, NULL, 0, 0,
         "New folder for the run's recipe, log and checkpoints; none keeps nothing; default: "
         "runs/MODEL-1, -2, ..."},
        {"name", 0, FF_OPTION_STRING, "NAME", &out->session.name, NULL, 0, 0,
         "The run's folder is runs/NAME, in place of --out."},
        {"resume", 0, FF_OPTION_STRING, "[DIR|auto]", &out->session.resume, FF_SESSION_NEWEST, 0, 0,
         "Go on with the run in this folder from its newest checkpoint, or from the checkpoint DIR, "
         "to the same bits, also where its sets were appended to since: they are used as they were "
         "when it began; options given beside it replace the run's; without DIR: with the newest "
         "run in runs, the one whose last checkpoint was written last; auto: with that in --out, "
         "where there is one, so that the same command begins a run and goes on with it."},
        {"checkpoint-every", 0, FF_OPTION_STRING, "N UNIT", &out->session.every, NULL, 0, 0,
         "Write a checkpoint every N epochs, steps or minutes; default: after an epoch that ends 30 "
         "s after the last one, or 100 times what a checkpoint takes where that is less. Written "
         "besides: after the best evaluation so far, and at the end."},
        {"keep", 0, FF_OPTION_INTEGER, "N", &out->session.keep, NULL, 1, 1000000,
         "Newest checkpoints that stay, beside the best; default 3."},
        {"hash-every", 0, FF_OPTION_INTEGER, "N", &out->session.hash_every, NULL, 0, 1e9,
         "Keep hashes of the batch and the parameters after every Nth step and the last, on the CPU "
         "also of each layer's output and gradients, for fftrain diff; 0 = none; default: after an "
         "epoch, where that takes less than a ten-thousandth of it, and after the last, without "
         "outputs and gradients."},
        {"best-by", 0, FF_OPTION_CHOICE, NULL, &out->session.best_by, "accuracy|loss", 0, 0,
         "Evaluation that makes a checkpoint the best; default accuracy."},
        {"set", 0, FF_OPTION_LIST, "NAME=VALUE", &out->set, NULL, 0, 0,
         "Set an option, as a line of a recipe does; may be given several times. The option itself "
         "on the command line replaces it."},

        {.kind = FF_OPTION_HEADING, .help = "Reports"},
        {"log-json", 0, FF_OPTION_STRING, "FILE", &out->log_json, NULL, 0, 0,
         "Append JSON lines to this file."},
        {"log-every", 0, FF_OPTION_INTEGER, "N", &out->log_every, NULL, 0, 1e9,
         "Write the training loss to log and event files every N steps of an epoch; 0 = after the "
         "epoch alone; default: 50 times an epoch, at least 10 steps apart."},
        {"tensorboard", 0, FF_OPTION_STRING, "DIR", &out->tensorboard, NULL, 0, 0,
         "Write TensorBoard's event files into this folder, a new one for each run; default: "
         "events in the run's folder."},
        {"top5", 0, FF_OPTION_FLAG, NULL, &out->top5, NULL, 0, 0,
         "Show top-5 accuracy in the table, where there are more than 5 classes."},
        {"show-batch", 0, FF_OPTION_STRING, "FILE", &out->show_batch, NULL, 0, 0,
         "Write a PNG of the first samples as they enter the net, augmented; do not train."},
        {"dry-run", 'n', FF_OPTION_FLAG, NULL, &out->dry_run, NULL, 0, 0,
         "Check everything and print layers, shapes, parameters, memory, batches and learning "
         "rates; do not train."},
        {"json", 0, FF_OPTION_FLAG, NULL, &out->json, NULL, 0, 0,
         "With --dry-run: print one JSON document with the model, its layers and its memory."},
        {"world", 0, FF_OPTION_INTEGER, "N", &out->world, NULL, 2, 1000000,
         "With --dry-run: predict a step on N devices like this one, each with 1/N of --batch, from "
         "a rank's step, which is measured here for some seconds (with --device-json: estimated)."},
        {"net", 0, FF_OPTION_STRING, "NAME|FILE", &out->net, NULL, 0, 0,
         "Network of --world: " FF_NET_NAMES ", or a file of fftrain measure-net."},
        {"diagnose", 0, FF_OPTION_FLAG, NULL, &out->diagnose, NULL, 0, 0,
         "Measure each stage alone (storage, gather, augment, compute), name the bottleneck and "
         "what to change; do not train."},
        {"check-gradients", 0, FF_OPTION_FLAG, NULL, &out->check_gradients, NULL, 0, 0,
         "Compare the first batch's gradients with differences of its loss, a line for each parameter; "
         "fails where one is over 5 % off beyond rounding. A small --batch is quick; do not train."},
        {"overfit", 0, FF_OPTION_INTEGER, "N", &trainer->overfit, NULL, 1, 1000,
         "Learn the first N batches by heart, the same inputs over and over, without dropout, label "
         "smoothing, mixed labels and weight decay: ends where the loss is below 0.01, and fails "
         "after --epochs passes, default 1000 steps; keeps nothing."},
        {"quiet", 'q', FF_OPTION_FLAG, NULL, &out->quiet, NULL, 0, 0,
         "Print only the result, a line; notes go to the standard error."},
        {"verbose", 'v', FF_OPTION_FLAG, NULL, &trainer->verbose, NULL, 0, 0,
         "Print the whole reason why no GPU is used."},
        {.name = NULL},
    };
    const ff_command command = {
        .program = out->finds ? "fftrain lr-find" : "fftrain",
        .usage = out->finds
                     ? "fftrain lr-find --data DIR --model NAME | --recipe NAME [options]"
                     : "fftrain --data DIR [--val DIR] --model NAME | --recipe NAME [options]",
        .summary =
            out->finds
                ? find_summary
                : "Trains a model on a dataset packed by ffpack, and evaluates it on another.",
        .options = out->finds ? options : options + OF_SEARCH,
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
