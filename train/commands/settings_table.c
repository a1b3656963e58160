#include "train/commands/settings_table.h"

#include "format/storage/options.h"
#include "train/debug/hashes.h"
#include "train/predict/predict.h"
#include "train/report/events/step_points.h"

/* Where the rows' targets are; never written. */
static ff_settings at;

#define MOST_SEED 9007199254740992.0 /* whole numbers that a double holds */

/* The helps of augment and schedule are made where the table is used (ff_settings_use). */
const ff_setting ff_settings_table[] = {
    {.option = {.kind = FF_OPTION_HEADING, .help = "Search"}, .is = FF_SETTING_SEARCH},
    {.option = {"steps", 0, FF_OPTION_INTEGER, "N", &at.trainer.sweep.steps, NULL, 20, 10000,
                "Steps at most; default 200."},
     .is = FF_SETTING_SEARCH,
     .initial = 200},
    {.option = {"from", 0, FF_OPTION_REAL, "X", &at.trainer.sweep.from, NULL, 1e-30, 1e6,
                "First rate; default 1e-6."},
     .is = FF_SETTING_SEARCH,
     .initial = 1e-6},
    {.option = {"to", 0, FF_OPTION_REAL, "X", &at.trainer.sweep.to, NULL, 1e-30, 1e6,
                "Last rate; default 10."},
     .is = FF_SETTING_SEARCH,
     .initial = 10},
    {.option = {"png", 0, FF_OPTION_STRING, "FILE", &at.png, NULL, 0, 0,
                "Draw the curve into this file, too."},
     .is = FF_SETTING_SEARCH},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Data"}},
    {.option = {"data", 'd', FF_OPTION_STRING, "DIR", &at.trainer.data, NULL, 0, 0,
                "Packed training set, or a folder of splits with 'train', or the URL of one, as in "
                "s3://bucket/OUT and https://host/OUT; several with commas between "
                "them are one set, with their classes united by name."},
     .is = FF_SETTING_RANK,
     .log = {"data", ff_log_data}},
    {.option =
         {"val", 0, FF_OPTION_STRING, "DIR|none", &at.trainer.val, NULL, 0, 0,
          "Packed set to evaluate on; none: train without evaluation (a folder with that name is "
          "./none); default: the first of 'val', 'valid' and 'test' next to 'train' in --data, if "
          "any."},
     .is = FF_SETTING_RANK,
     .log = {"val", ff_log_val}},
    {.option =
         {"subset", 0, FF_OPTION_STRING, "EXPR|FILE", &at.trainer.subset, NULL, 0, 0,
          "Train on these samples of --data alone: an expression over label fields, key, height and "
          "width, as of ffpack copy --where, such as \"label in ('cat', 'dog')\"; or a file with a "
          "key or a number a line (keys:FILE and numbers:FILE, where both fit)."},
     .is = FF_SETTING_COMPARED | FF_SETTING_RANK},
    {.option =
         {"fold", 0, FF_OPTION_STRING, "K/N", &at.trainer.fold, NULL, 0, 0,
          "Evaluate on the Kth of N equal parts of --data, divided by the hash of keys, and train on "
          "the others; in quotes may follow seed=N, stratified (each class is divided) and "
          "group-by=REGEX (keys in which it matches the same text stay together): \"2/5 "
          "stratified\"."},
     .is = FF_SETTING_COMPARED},
    {.option =
         {"sample-weights", 0, FF_OPTION_STRING, "balanced|FIELD|FILE", &at.trainer.sample_weights,
          NULL, 0, 0,
          "Draw each training sample with a probability in proportion to its weight: balanced (all classes alike), a label field of one number a sample, or a "
          "file with a number a line, for each sample of --data, or of --subset and --fold."},
     .is = FF_SETTING_COMPARED | FF_SETTING_RANK},
    {.option =
         {"no-replacement", 0, FF_OPTION_FLAG, NULL, &at.trainer.no_replacement, NULL, 0, 0,
          "With --sample-weights: an epoch has each sample at most once, with a probability in "
          "proportion to its weight, up to 1."},
     .is = FF_SETTING_COMPARED},
    {.option =
         {"shares", 0, FF_OPTION_STRING, "X,X,...", &at.trainer.shares, NULL, 0, 0,
          "What each set of --data contributes, in their order, as in 0.8,0.2 or 4,1; a set that is "
          "smaller than its share comes again. Other shares from an epoch on, counted from 0, may "
          "follow: 0.8,0.2;10:0.5,0.5."},
     .is = FF_SETTING_COMPARED,
     .log = {"shares"}},
    {.option = {"shares-of", 0, FF_OPTION_CHOICE, NULL, &at.trainer.shares_of, "epoch|batch", 0, 0,
                "Whether an epoch has these shares, or each batch; default epoch."},
     .is = FF_SETTING_COMPARED},
    {.option =
         {"samples-per-epoch", 0, FF_OPTION_INTEGER, "N", &at.trainer.samples_per_epoch, NULL, 0,
          1e15,
          "Training samples of an epoch; without --sample-weights and --shares at most the number of "
          "training samples; default 0: this number."},
     .is = FF_SETTING_COMPARED},
    {.option =
         {"repeats", 0, FF_OPTION_INTEGER, "N", &at.trainer.repeats, NULL, 0, 65536,
          "Times that each sample of a batch comes, differently augmented (repeated augmentation); "
          "an epoch stays as long, with fewer samples; default 0: once."},
     .is = FF_SETTING_COMPARED},
    {.option =
         {"val-every", 0, FF_OPTION_INTEGER, "N", &at.trainer.val_every, NULL, 0, 1000000,
          "Evaluate after every Nth epoch, and after the last; 0 = after the last only; default: "
          "the recipe's, usually 1."},
     .is = FF_SETTING_VALIDATION,
     .resolve = ff_resolve_val_every,
     .initial = -1},
    {.option =
         {"patience", 0, FF_OPTION_INTEGER, "N", &at.trainer.patience, NULL, 0, 1000000,
          "Stop early, after N evaluations in a row without a better one by --best-by; the "
          "learning rate follows all --epochs, and a stopped run continues with a larger N, or 0; "
          "default 0: never."},
     .log = {"patience"}},
    {.option = {"label", 0, FF_OPTION_STRING, "FIELD", &at.trainer.label, NULL, 0, 0,
                "Label field to learn; default: the first."},
     .is = FF_SETTING_COMPARED,
     .log = {"label", ff_log_label}},
    {.option = {"augment", 0, FF_OPTION_STRING, "LIST", &at.trainer.augment, NULL, 0, 0, ""},
     .resolve = ff_resolve_augment,
     .log = {"augment"}},
    {.option =
         {"crop", 0, FF_OPTION_INTEGER, "N", &at.trainer.crop, NULL, 1, 65536,
          "Crop samples to N x N: at random with crop in --augment, else and for evaluation at the "
          "centre; default: the SIZE of rrc, else whole samples."},
     .is = FF_SETTING_FIXED},
    {.option =
         {"sizes", 0, FF_OPTION_STRING, "EPOCH:SIZE,...", &at.trainer.sizes, NULL, 0, 0,
          "Train on images whose short side is SIZE from that epoch on, as in 0:128,30:160,60:192; "
          "35-76:192 goes there in steps of 32 pixels; evaluation keeps the whole size; default: the "
          "whole size."}},
    {.option = {"val-resize", 0, FF_OPTION_INTEGER, "N", &at.trainer.val_resize, NULL, 1, 65536,
                "Resize the short side to N before the central crop for evaluation; default, if "
                "needed: resize in --augment, else 8/7 of the crop, 256 for 224."},
     .log = {"val_resize", ff_log_val_resize}},
    {.option = {"order", 0, FF_OPTION_CHOICE, NULL, &at.order, "random|block|sequential", 0, 0,
                "Order of an epoch; block suits data larger than memory; default random."},
     .is = FF_SETTING_FIXED,
     .log = {"order"}},
    {.option =
         {"block", 0, FF_OPTION_INTEGER, "N", &at.trainer.block, NULL, 1, MOST_SEED,
          "With --order block: samples that are stored together; default: about 1 MiB of samples; "
          "for a set larger than memory 320 KiB to 4 MiB, or less if memory is too small for 64 "
          "such blocks; a resumed run keeps its own."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_block,
     .log = {"block", ff_log_block}},
    {.option =
         {"group", 0, FF_OPTION_INTEGER, "N", &at.trainer.group, NULL, 1, MOST_SEED,
          "With --order block: blocks that are mixed with each other; default 2048; for a set "
          "larger than memory the number that memory can keep, at least 64; a resumed run keeps "
          "its own."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_group,
     .log = {"group", ff_log_group}},
    {.option = {"last-batch", 0, FF_OPTION_CHOICE, NULL, &at.last_batch, "drop|keep", 0, 0,
                "Whether an incomplete last batch of an epoch is dropped or kept; default drop."},
     .is = FF_SETTING_FIXED},
    {.option =
         {"verify-data", 0, FF_OPTION_CHOICE, NULL, &at.verify, "off|first|always", 0, 0,
          "When samples are checked against their checksums; default first, once per sample."},
     .initial = FF_VERIFY_FIRST},
    {.option =
         {"workers", 0, FF_OPTION_INTEGER, "N", &at.trainer.workers, NULL, 0, 256,
          "Threads that fill batches ahead; 0 fills them between steps; default 1, plus 1 per 8 "
          "--threads; on a GPU the number of --threads, at most 8."},
     .is = FF_SETTING_RANK,
     .initial = -1,
     .log = {"workers", ff_log_workers}},
    {.option = {.kind = FF_OPTION_HEADING, .help = FF_STORAGE_HEADING}},
    {.option = FF_STORAGE_CACHE("cache", at.storage, FF_SAYS_SENTENCE), .is = FF_SETTING_RANK},
    {.option = FF_STORAGE_CACHE_SIZE("cache-size", at.storage, FF_SAYS_SENTENCE),
     .is = FF_SETTING_RANK},
    {.option = FF_STORAGE_TIMEOUT("storage-timeout", at.storage, FF_SAYS_SENTENCE),
     .is = FF_SETTING_RANK},
    {.option = FF_STORAGE_ENDPOINT("endpoint", at.storage, FF_SAYS_SENTENCE),
     .is = FF_SETTING_RANK},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Model"}},
    {.option =
         {"recipe", 0, FF_OPTION_STRING, "NAME|FILE", &at.trainer.recipe, NULL, 0, 0,
          "A model with all settings to train it: quickstart, cifar10-resnet18, cifar-speed, "
          "imagenet-resnet50-short, -long, -v2 and -a3, finetune, or a model's name; or a file "
          "with a line NAME = VALUE for each option; default: by --model."},
     .is = FF_SETTING_FIXED,
     .log = {"recipe", ff_log_recipe}},
    {.option =
         {"model", 'm', FF_OPTION_STRING, "NAME", &at.trainer.model, NULL, 0, 0,
          "smallnet, cifarnet, resnet18, 34, 50, 101 or 152, vgg11, 13, 16 or 19, also with _bn, "
          "mobilenet_v2."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_model,
     .log = {"model"}},
    {.option =
         {"weights", 0, FF_OPTION_STRING, "FILE", &at.trainer.weights, NULL, 0, 0,
          "Start from these weights: a run or a checkpoint, a safetensors file, or a file of "
          "torch.save (.pth), with torchvision's or timm's names; a head for other classes keeps its "
          "initial values."},
     .is = FF_SETTING_FIXED | FF_SETTING_RANK},
    {.option = {"any-normalization", 0, FF_OPTION_FLAG, NULL, &at.trainer.any_normalization, NULL,
                0, 0,
                "Take --weights even where their images were normalized with other numbers."}},
    {.option = {"stem", 0, FF_OPTION_CHOICE, NULL, &at.stem, "auto|cifar|imagenet", 0, 0,
                "First layers of a resnet or mobilenet_v2, last layers of a vgg; default auto: by "
                "--weights, else cifar up to 64 pixels."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_stem},
    {.option = {"dropout", 0, FF_OPTION_REAL, "P", &at.trainer.dropout, NULL, 0, 0.99,
                "Dropout of nets that have it; default: the model's."},
     .initial = -1},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Training"}},
    {.option = {"epochs", 'e', FF_OPTION_INTEGER, "N", &at.trainer.epochs, NULL, 1, 1000000,
                "Passes over the training set; default: the model's."},
     .resolve = ff_resolve_epochs,
     .initial = -1,
     .log = {"epochs"}},
    {.option =
         {"batch", 'b', FF_OPTION_INTEGER, "N|auto", &at.trainer.batch, "auto", 1, 1048576,
          "Samples per step; auto: the largest power of two with 32 steps an epoch and at most 32 "
          "times the model's, or the largest that needs at most 90 % of the memory; default, and "
          "auto's for shorter epochs: the model's; a smaller set is one batch."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_batch,
     .initial = -1,
     .log = {"batch", ff_log_batch}},
    {.option =
         {"accumulate", 0, FF_OPTION_INTEGER, "N", &at.trainer.accumulate, NULL, 1, 65536,
          "Cut each batch into N micro-batches whose gradients are added up, in the memory of one; "
          "batch norms see one at a time; default 1."},
     .resolve = ff_resolve_accumulate,
     .log = {"accumulate", ff_log_accumulate}},
    {.option =
         {"reproducible", 0, FF_OPTION_FLAG, NULL, &at.trainer.reproducible, NULL, 0, 0,
          "On the CPU: end in the same bits on any number of ranks, where ranks times --accumulate and "
          "--threads (default 1) stay the same; gradients, losses and running statistics are summed in "
          "a fixed tree. Several ranks have a power of two micro-batches each."}},
    {.option = {"parts", 0, FF_OPTION_INTEGER, "N", &at.trainer.parts, NULL, 1, 65536,
                "With --reproducible: ranks times micro-batches, from which --accumulate follows; "
                "default: as they are, and a resumed run keeps them."},
     .resolve = ff_resolve_parts},
    {.option =
         {"optimizer", 0, FF_OPTION_STRING, "NAME", &at.trainer.optimizer, NULL, 0, 0,
          "sgd, adamw, lars or lamb, which adapt the step of every parameter but norms and biases to "
          "its norm, also without weight decay, where timm's do not; muon only in --groups; default: "
          "sgd."},
     .is = FF_SETTING_FIXED,
     .resolve = ff_resolve_optimizer,
     .log = {"optimizer", ff_log_optimizer}},
    {.option =
         {"lr", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.learning_rate, NULL, 0, 1e6,
          "Peak learning rate; default for sgd: the model's, in proportion to --batch; else 0.001, "
          "of lars 1."},
     .resolve = ff_resolve_numbers,
     .initial = -1,
     .log = {"learning_rate", ff_log_rate}},
    {.option =
         {"scale-lr", 0, FF_OPTION_FLAG, NULL, &at.trainer.scale_lr, NULL, 0, 0,
          "Multiply --lr and the rates of --groups by the number of ranks, once, when a run begins; a "
          "default follows the batch by itself."},
     .is = FF_SETTING_HERE},
    {.option = {"sync-bn", 0, FF_OPTION_FLAG, NULL, &at.trainer.sync_bn, NULL, 0, 0,
                "Batch norms train with the statistics of the whole batch, over all ranks, as "
                "torch.nn.SyncBatchNorm; default: each rank's own, of its part."}},
    {.option = {"schedule", 0, FF_OPTION_STRING, "NAME[=ARGUMENTS]", &at.trainer.schedule, NULL, 0,
                0, ""},
     .resolve = ff_resolve_schedule,
     .log = {"schedule", ff_log_schedule}},
    {.option =
         {"warmup", 0, FF_OPTION_REAL, "EPOCHS", &at.trainer.warmup_epochs, NULL, 0, 1000000,
          "Epochs over which the learning rate rises, may be fractional; default: the model's."},
     .resolve = ff_resolve_warmup,
     .initial = -1,
     .log = {"warmup_steps", ff_log_warmup}},
    {.option = {"momentum", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.momentum, NULL, 0, 0.999999,
                "Momentum of sgd and lars; default: the model's, 0.9."},
     .resolve = ff_resolve_numbers,
     .initial = -1,
     .log = {"momentum", ff_log_momentum}},
    {.option = {"nesterov", 0, FF_OPTION_FLAG, NULL, &at.trainer.nesterov, NULL, 0, 0,
                "Nesterov momentum; this is the default of sgd."},
     .resolve = ff_resolve_nesterov,
     .log = {"nesterov", ff_log_nesterov}},
    {.option = {"no-nesterov", 0, FF_OPTION_FLAG, NULL, &at.trainer.no_nesterov, NULL, 0, 0,
                "Classical momentum."},
     .resolve = ff_resolve_no_nesterov},
    {.option = {"beta1", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.beta1, NULL, 0, 0.999999,
                "Decay of adamw's and lamb's mean of gradients; default 0.9."},
     .resolve = ff_resolve_numbers,
     .initial = -1},
    {.option = {"beta2", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.beta2, NULL, 0, 0.999999999,
                "Decay of adamw's and lamb's mean of squared gradients; default 0.999."},
     .resolve = ff_resolve_numbers,
     .initial = -1},
    {.option = {"eps", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.epsilon, NULL, 0, 1,
                "Added to the denominators of adamw, lars and lamb; default 1e-8, of lamb 1e-6."},
     .resolve = ff_resolve_numbers,
     .initial = -1},
    {.option = {"trust", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.trust, NULL, 0, 1000,
                "Trust coefficient of lars; default 0.001."},
     .resolve = ff_resolve_numbers,
     .initial = -1},
    {.option = {"weight-decay", 0, FF_OPTION_REAL, "X", &at.trainer.hyper.weight_decay, NULL, 0,
                1e6, "Weight decay; default: the model's, of adamw and lamb 0.01."},
     .resolve = ff_resolve_numbers,
     .initial = -1,
     .log = {"weight_decay", ff_log_weight_decay}},
    {.option =
         {"no-decay", 0, FF_OPTION_STRING, "NAMES", &at.trainer.no_decay, NULL, 0, 0,
          "Parameters without weight decay: a list of patterns of names, norm (batch norms) and "
          "bias (other layers' biases); default none, for lars and lamb norm,bias."}},
    {.option =
         {"groups", 0, FF_OPTION_STRING, "NAMES:KEY=VALUE,...;...", &at.trainer.groups, NULL, 0, 0,
          "Parameters with numbers of their own: NAMES as of --no-decay, KEY one of optimizer, lr, "
          "momentum, weight-decay, beta1, beta2, eps and trust; the first match counts."},
     .resolve = ff_resolve_groups,
     .log = {"groups", ff_log_groups}},
    {.option =
         {"freeze", 0, FF_OPTION_STRING, "NAMES", &at.trainer.freeze, NULL, 0, 0,
          "Parameters that stay as they are, as in --groups: body = all but the last layer; they "
          "cost no gradient."}},
    {.option =
         {"frozen-norms", 0, FF_OPTION_CHOICE, NULL, &at.frozen_norms, "eval|train", 0, 0,
          "Batch norms with frozen parameters keep and use their running statistics, as in Keras "
          "and timm (eval), or normalize by the batch and continue averaging, as torch does if "
          "only requires_grad is off (train); needs a --freeze that names batch norms; default "
          "eval."},
     .initial = -1},
    {.option = {"clip-norm", 0, FF_OPTION_REAL, "X", &at.trainer.clip_norm, NULL, 0, 1e30,
                "Scale gradients down to this norm over all parameters; default 0: they are not."},
     .log = {"clip_norm", ff_log_clip_norm}},
    {.option =
         {"ema", 0, FF_OPTION_REAL, "DECAY", &at.trainer.ema, NULL, 0, 0.999999999,
          "Also keep an average of the parameters and running statistics, DECAY * average + (1 - "
          "DECAY) * value after each update, and evaluate it; default: no average."},
     .initial = -1,
     .log = {"ema", ff_log_ema}},
    {.option =
         {"loss", 0, FF_OPTION_STRING, "NAME", &at.trainer.loss, NULL, 0, 0,
          "Training loss: cross-entropy; bce, the mean over the classes of the binary cross entropy "
          "of each one's logit, as in timm; or bce-sum, their sum. With bce=0.2, targets that mixing "
          "and smoothing leave above 0.2 become 1, others 0. Evaluation has cross-entropy; "
          "default: cross-entropy."},
     .log = {"loss", ff_log_loss}},
    {.option = {"label-smoothing", 0, FF_OPTION_REAL, "X", &at.trainer.label_smoothing, NULL, 0,
                0.999999, "Label smoothing of the training loss; default: the model's."},
     .resolve = ff_resolve_label_smoothing,
     .initial = -1,
     .log = {"label_smoothing"}},
    {.option =
         {"class-weights", 0, FF_OPTION_STRING, "FILE|balanced", &at.trainer.class_weights, NULL, 0,
          0,
          "Weights of the classes in the training loss, whose mean divides by their sum over the "
          "batch, as in PyTorch: a line CLASS,WEIGHT for each class, or balanced = samples / "
          "(classes * samples of the class)."},
     .is = FF_SETTING_RANK},
    {.option =
         {"views", 0, FF_OPTION_CHOICE, NULL, &at.views, "auto|1|2|6", 0, 0,
          "Views of each sample whose logits are averaged in evaluation: 1 the sample; 2 also its "
          "mirror image; 6 also both shifted by a pixel in two directions; default auto: the "
          "recipe's, usually 1."},
     .resolve = ff_resolve_views,
     .log = {"views", ff_log_views}},
    {.option = {"seed", 's', FF_OPTION_INTEGER, "N", &at.trainer.seed, NULL, 0, MOST_SEED,
                "Seed of the initial parameters, the order and the augmentation; default 0."},
     .is = FF_SETTING_FIXED,
     .log = {"seed"}},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Machine"}},
    {.option = {"device", 0, FF_OPTION_STRING, "auto|cpu|cuda[:I]", &at.trainer.device, NULL, 0, 0,
                "Where to train; default auto: the first GPU, else the CPU, saying why."},
     .is = FF_SETTING_RANK,
     .log = {"device", ff_log_device}},
    {.option =
         {"dp", 0, FF_OPTION_STRING, "LIST", &at.dp, NULL, 0, 0,
          "Train on several devices of this machine, a replica of the model on each, which have equal "
          "parts of every batch: numbers of GPUs, as in 0,1,2, or cpu,cpu; 2x0 is two replicas that "
          "share GPU 0."},
     .is = FF_SETTING_HERE},
    {.option =
         {"dp-balance", 0, FF_OPTION_STRING, "LIST", &at.dp_balance, NULL, 0, 0,
          "The replicas' parts of a batch, as in 2,3,3; auto: by the speed and the free memory of "
          "each, measured first, also of the ranks that --ranks or a launcher starts; default: equal "
          "ones."},
     .resolve = ff_resolve_dp_balance},
    {.option =
         {"memory", 0, FF_OPTION_BYTES, "BYTES", &at.trainer.memory_bytes, NULL, 1, 1e18,
          "Memory for keeping the sets and reading them ahead, shared by the ranks on this machine; a "
          "larger set is read directly; default: what the machine and the limits of the process leave, "
          "at most the environment's FFLOAD_MEMORY."},
     .is = FF_SETTING_HERE},
    {.option =
         {"ranks", 0, FF_OPTION_INTEGER, "N", &at.ranks, NULL, 1, 64,
          "Start N ranks on this machine, a process each, which have equal parts of every batch; "
          "torchrun, mpirun and srun start them on several machines."},
     .is = FF_SETTING_HERE},
    {.option =
         {"reduce-dtype", 0, FF_OPTION_CHOICE, NULL, &at.reduce_dtype, "f32|f16|bf16", 0, 0,
          "Dtype of gradients that ranks send to each other: 16 bits halve the bytes on a slow "
          "network, and round each rank's sums; default f32."}},
    {.option = {"rank-timeout", 0, FF_OPTION_INTEGER, "SECONDS", &at.rank_timeout, NULL, 1, 86400,
                "A rank that is silent for longer is lost, and ends the job; default 60."},
     .is = FF_SETTING_HERE,
     .initial = 60},
    {.option =
         {"device-json", 0, FF_OPTION_STRING, "FILE", &at.device_json, NULL, 0, 0,
          "With --dry-run: plan for the GPU described by FILE, which this machine need not have, "
          "and print its engines and memory."},
     .is = FF_SETTING_HERE},
    {.option =
         {"plan-cache", 0, FF_OPTION_STRING, "DIR", &at.trainer.plan_cache, NULL, 0, 0,
          "Folder of chosen and compiled engines of GPUs, for the next run; with --device-json all "
          "engines that the GPU will time are compiled into it; default $FFPACK_PLAN_CACHE, or "
          "ffpack/plans in $XDG_CACHE_HOME or ~/.cache."},
     .is = FF_SETTING_RANK},
    {.option =
         {"tune", 0, FF_OPTION_REAL, "SECONDS", &at.trainer.tune_seconds, NULL, 0, 86400,
          "Limit for timing a GPU's engines that are not in the plan cache, without compiling, "
          "which may take three times as long; 0: no timing, and no batch norm folded into a "
          "convolution; default: by the net's convolutions, 5 to 60."},
     .initial = -1},
    {.option = {"no-fold", 0, FF_OPTION_FLAG, NULL, &at.trainer.no_fold, NULL, 0, 0,
                "On a GPU, never fold batch norms into the convolutions after them."}},
    {.option =
         {"precision", 0, FF_OPTION_STRING, FF_PRECISION_NAMES, &at.trainer.precision, NULL, 0, 0,
          "Precision of activations and working weights; master weights are f32; default f16 on a "
          "GPU, f32 on a CPU. A CPU has f32 and, with AMX or avx512_bf16, bf16; auto takes some steps "
          "of both first and chooses the faster."},
     .resolve = ff_resolve_precision,
     .log = {"precision", ff_log_precision}},
    {.option =
         {"placement", 0, FF_OPTION_STRING, "auto|resident|stream|host", &at.placement, NULL, 0, 0,
          "Where a GPU's data is: resident in its memory, streamed as stored, or augmented on the "
          "host; default auto, saying why."},
     .log = {"placement", ff_log_placement}},
    {.option = {"loss-scale", 0, FF_OPTION_REAL, "X", &at.trainer.loss_scale, NULL, 0, 1e9,
                "Fixed loss scale for 16-bit gradients, 0 for none; default: for f16 the recipe's, "
                "usually dynamic; else none."},
     .initial = -1},
    {.option = {"no-graph", 0, FF_OPTION_FLAG, NULL, &at.trainer.no_graph, NULL, 0, 0,
                "Launch a GPU's kernels one by one, without CUDA graphs; the same bits."}},
    {.option =
         {"no-warm-up", 0, FF_OPTION_FLAG, NULL, &at.trainer.no_warm_up, NULL, 0, 0,
          "Start a GPU run's clock before kernels are loaded and graphs captured; the same bits."}},
    {.option =
         {"deterministic", 0, FF_OPTION_FLAG, NULL, &at.trainer.deterministic, NULL, 0, 0,
          "Only algorithms whose results do not vary between runs, chosen without timing; always "
          "so on the CPU."}},
    {.option = {"threads", 'j', FF_OPTION_INTEGER, "N", &at.trainer.threads, NULL, 0, 1024,
                "Compute threads; default 0: one for each CPU."},
     .is = FF_SETTING_RANK,
     .log = {"threads", ff_log_threads}},
    {.option =
         {"compute", 0, FF_OPTION_CHOICE, NULL, &at.compute, "auto|onednn|reference", 0, 0,
          "Implementation of the layers; reference is plain, slow loops, for comparison; default "
          "auto: the fastest."},
     .log = {"compute", ff_log_compute}},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Runs"}},
    {.option =
         {"out", 'o', FF_OPTION_STRING, "DIR", &at.session.out, NULL, 0, 0,
          "New folder for the run's recipe, log and checkpoints; none keeps nothing; default: "
          "runs/MODEL-1, -2, ..."},
     .is = FF_SETTING_HERE | FF_SETTING_RANK},
    {.option = {"name", 0, FF_OPTION_STRING, "NAME", &at.session.name, NULL, 0, 0,
                "The run's folder is runs/NAME, in place of --out."},
     .is = FF_SETTING_HERE | FF_SETTING_RANK},
    {.option =
         {"resume", 0, FF_OPTION_STRING, "[DIR|auto]", &at.session.resume, FF_SESSION_NEWEST, 0, 0,
          "Continue the run in this folder from its newest checkpoint, or from the checkpoint DIR, "
          "to the same bits, even if its sets were appended to since: they are used as they were "
          "when it began; other options on the command line replace the run's; without DIR: the run "
          "in runs whose last checkpoint is the newest; auto: the run in --out, if there is one, so "
          "that the same command begins a run and continues it."},
     .is = FF_SETTING_HERE | FF_SETTING_RANK},
    {.option =
         {"checkpoint-every", 0, FF_OPTION_STRING, "N UNIT", &at.session.every, NULL, 0, 0,
          "Write a checkpoint every N epochs, steps or minutes; default: after an epoch that ends 30 "
          "s after the last one, or 100 times the time of a checkpoint if that is less. Also "
          "written after the best evaluation so far, and at the end."},
     .is = FF_SETTING_RANK | FF_SETTING_FOLDER},
    {.option = {"keep", 0, FF_OPTION_INTEGER, "N", &at.session.keep, NULL, 1, 1000000,
                "Newest checkpoints that stay, in addition to the best; default 3."},
     .is = FF_SETTING_RANK | FF_SETTING_FOLDER,
     .initial = 3},
    {.option =
         {"hash-every", 0, FF_OPTION_INTEGER, "N", &at.session.hash_every, NULL, 0, 1e9,
          "Keep hashes of the batch and the parameters after every Nth step and the last, on the "
          "CPU also of each layer's output and gradients, for fftrain diff; 0 = none; default: "
          "after an epoch, if that takes less than a ten-thousandth of it, and after the last, "
          "without outputs and gradients."},
     .is = FF_SETTING_OFF_AT_0 | FF_SETTING_RANK | FF_SETTING_FOLDER,
     .initial = FF_HASHES_CHOSEN},
    {.option = {"best-by", 0, FF_OPTION_CHOICE, NULL, &at.session.best_by, "accuracy|loss", 0, 0,
                "Evaluation that makes a checkpoint the best; default accuracy."},
     .is = FF_SETTING_RANK | FF_SETTING_VALIDATION,
     .log = {"best_by"}},
    {.option = {"set", 0, FF_OPTION_LIST, "NAME=VALUE", &at.set, NULL, 0, 0,
                "Set an option, as a line of a recipe does; may be repeated. The option itself "
                "on the command line replaces it."}},
    {.option = {.kind = FF_OPTION_HEADING, .help = "Reports"}},
    {.option = {"log-json", 0, FF_OPTION_STRING, "FILE", &at.log_json, NULL, 0, 0,
                "Append JSON lines to this file."},
     .is = FF_SETTING_HERE},
    {.option =
         {"log-every", 0, FF_OPTION_INTEGER, "N", &at.log_every, NULL, 0, 1e9,
          "Write the training loss to log and event files every N steps of an epoch; 0 = after the "
          "epoch alone; default: 50 times an epoch, at least 10 steps apart."},
     .initial = FF_STEP_POINTS_CHOSEN},
    {.option =
         {"tensorboard", 0, FF_OPTION_STRING, "DIR", &at.tensorboard, NULL, 0, 0,
          "Write TensorBoard's event files into this folder, a new one for each run; default: "
          "events in the run's folder."},
     .is = FF_SETTING_HERE},
    {.option = {"top5", 0, FF_OPTION_FLAG, NULL, &at.top5, NULL, 0, 0,
                "Show top-5 accuracy in the table, if there are more than 5 classes."},
     .is = FF_SETTING_HERE | FF_SETTING_VALIDATION},
    {.option = {"show-batch", 0, FF_OPTION_STRING, "FILE", &at.show_batch, NULL, 0, 0,
                "Write a PNG of the first samples as they enter the net, augmented; do not train."},
     .is = FF_SETTING_HERE},
    {.option =
         {"dry-run", 'n', FF_OPTION_FLAG, NULL, &at.dry_run, NULL, 0, 0,
          "Check everything and print layers, shapes, parameters, memory, batches and learning "
          "rates; do not train."}},
    {.option =
         {"json", 0, FF_OPTION_FLAG, NULL, &at.json, NULL, 0, 0,
          "With --dry-run: print one JSON document with the model, its layers and its memory."}},
    {.option =
         {"world", 0, FF_OPTION_INTEGER, "N", &at.world, NULL, 2, 1000000,
          "With --dry-run: predict a step on N devices like this one, each with 1/N of --batch, from "
          "a rank's step, which is measured here for some seconds (with --device-json: estimated)."}},
    {.option = {"net", 0, FF_OPTION_STRING, "NAME|FILE", &at.net, NULL, 0, 0,
                "Network of --world: " FF_NET_NAMES ", or a file of fftrain measure-net."}},
    {.option =
         {"diagnose", 0, FF_OPTION_FLAG, NULL, &at.diagnose, NULL, 0, 0,
          "Measure each stage alone (storage, gather, augment, compute), name the bottleneck and "
          "what to change; do not train."}},
    {.option =
         {"check-gradients", 0, FF_OPTION_FLAG, NULL, &at.check_gradients, NULL, 0, 0,
          "Compare the first batch's gradients with differences of its loss, a line for each "
          "parameter; fails if one is over 5 % off beyond rounding. A small --batch is quick; do "
          "not train."}},
    {.option =
         {"overfit", 0, FF_OPTION_INTEGER, "N", &at.trainer.overfit, NULL, 1, 1000,
          "Overfit the first N batches, as a check that the model can learn: the same inputs over "
          "and over, without dropout, label smoothing, mixed labels and weight decay. Ends when "
          "the loss is below 0.01, and fails after --epochs passes, default 1000 steps; keeps "
          "nothing."}},
    {.option = {"quiet", 'q', FF_OPTION_FLAG, NULL, &at.quiet, NULL, 0, 0,
                "Print only the result, a line; notes go to the standard error."},
     .is = FF_SETTING_HERE},
    {.option = {"verbose", 'v', FF_OPTION_FLAG, NULL, &at.trainer.verbose, NULL, 0, 0,
                "Print the whole reason why no GPU is used."},
     .is = FF_SETTING_HERE},
    {.option = {.name = NULL}},
};

ff_option ff_setting_in(const ff_setting *row, ff_settings *settings) {
    ff_option option = row->option;
    if (option.target)
        option.target = (char *)settings + ((const char *)option.target - (const char *)&at);
    return option;
}
