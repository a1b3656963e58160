#include "train/commands/habits.h"

#include "train/compute/precision.h"

#include <stdbool.h>
#include <string.h>

const ff_habit ff_train_habits[] = {
    {"start-epoch checkpoint load", "here it is --resume DIR, the folder of a run or a checkpoint"},
    {"continue resume-from resume-from-checkpoint auto-resume",
     "here it is --resume DIR, the folder of a run; without DIR the newest run continues"},
    {"checkpoint-dir save save-dir output output-dir", "here it is --out DIR, the folder of a run"},
    {"save-every save-freq", "here it is --checkpoint-every N epochs, steps or minutes"},
    {"finetune init-checkpoint",
     "here it is --weights FILE, a file of torch.save or safetensors, or a run"},
    {"test-only evaluate eval eval-only",
     "here it is fftrain evaluate --checkpoint RUN DIR; a run evaluates on --val while it trains"},
    {"no-val no-eval no-evaluate no-validation skip-val skip-eval skip-validation no-test",
     "here it is --val none"},
    {"lr-scheduler scheduler sched",
     "here it is --schedule NAME[=ARGUMENTS], with --warmup EPOCHS"},
    {"lr-step-size lr-gamma lr-milestones decay-epochs",
     "here they are of --schedule: step=EPOCHS:FACTOR, multi-step=EPOCH,EPOCH:FACTOR"},
    {"lr-warmup-epochs warmup-epochs warmup-steps", "here it is --warmup EPOCHS"},
    {"learning-rate base-lr", "here it is --lr X"},
    {"wd", "here it is --weight-decay X"},
    {"opt adam adamw", "here it is --optimizer sgd, adamw, lars or lamb"},
    {"betas opt-betas", "here they are --beta1 X and --beta2 X"},
    {"opt-eps", "here it is --eps X"},
    {"norm-weight-decay bias-weight-decay",
     "here it is --no-decay norm,bias, or --groups 'norm:weight-decay=X'"},
    {"amp fp16 half bf16 mixed-precision dtype",
     "here it is --precision " FF_PRECISION_NAMES "; on a GPU f16 is the default"},
    {"num-workers", "here it is --workers N"},
    {"batch-size train-batch-size", "here it is --batch N"},
    {"num-epochs max-epochs", "here it is --epochs N"},
    {"accumulation-steps grad-accum-steps gradient-accumulation-steps",
     "here it is --accumulate N, which cuts a batch of --batch samples into N parts"},
    {"clip-grad clip-grad-norm", "here it is --clip-norm X"},
    {"model-ema ema-decay model-ema-decay", "here it is --ema DECAY"},
    {"gpu gpus gpu-id cuda", "here it is --device cuda, or --device cuda:1 for the second GPU"},
    {"world-size rank local-rank dist-url dist-backend distributed nproc-per-node nnodes "
     "multiprocessing-distributed ddp",
     "here ranks are started by --dp LIST, --ranks N, torchrun, mpirun or srun"},
    {"sync-batchnorm sync-batch-norm syncbn", "here it is --sync-bn"},
    {"data-path data-dir dataset train-dir", "here it is --data DIR, a set packed by ffpack"},
    {"val-dir", "here it is --val DIR, a set packed by ffpack"},
    {"arch", "here it is --model NAME"},
    {"mixup mixup-alpha cutmix cutmix-alpha random-erase auto-augment color-jitter hflip "
     "train-crop-size transforms",
     "here augmentations are one list: --augment rrc=224,flip,mixup=0.2 (--help lists all)"},
    {"val-crop-size", "here it is --crop N, as for training"},
    {"val-resize-size", "here it is --val-resize N"},
    {"class-weight weighted-loss", "here it is --class-weights FILE, or --class-weights balanced"},
    {"smoothing", "here it is --label-smoothing X"},
    {"bce-loss bce-sum bce-target-thresh criterion loss-fn",
     "here it is --loss bce, bce-sum, or bce=THRESHOLD"},
    {"log-dir logdir", "here it is --tensorboard DIR"},
    {"print-freq log-interval", "here it is --log-every N, steps of an epoch"},
    {"wandb", "here it is --log-json FILE, a JSON line per epoch"},
    {"compile channels-last pin-memory", "nothing to set: done automatically if it is faster"},
    {NULL, NULL},
};

static const ff_habit command_words[] = {
    {"help", "here it is fftrain --help"},
    {"train fit", "here it is fftrain --data SET, without a word before it"},
    {"resume", "here it is fftrain --resume RUN"},
    {"evaluate eval test val validate", "here it is fftrain evaluate RUN"},
    {"predict infer inference", "here it is fftrain predict RUN FOLDER"},
    {"list ls", "here it is fftrain runs"},
    {"export report lr-find diff replay measure-net runs", "a command is the first word"},
    {NULL, NULL},
};

ff_status ff_habits_refuse_word(const char *word, ff_error *error) {
    const char *here = ff_habit_find(command_words, word, strlen(word));
    return ff_fail(error, FF_USAGE, "unexpected argument '%s'%s%s", word, here ? ": " : "; ",
                   here ? here : "name the training set with --data");
}

/* The value of --model or -m; NULL if the option is absent. */
static const char *model_of(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--model=", 8)) return argv[i] + 8;
        if (i + 1 < argc && (!strcmp(argv[i], "--model") || !strcmp(argv[i], "-m")))
            return argv[i + 1];
    }
    return NULL;
}

/* Nothing is downloaded here: the message has the commands that do. */
ff_status ff_habits_check_pretrained(int argc, char **argv, ff_error *error) {
    bool given = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        given |= !strcmp(argv[i], "--pretrained") || !strncmp(argv[i], "--pretrained=", 13);
    if (!given) return FF_OK;
    const char *model = model_of(argc, argv);
    if (!model) model = "resnet18";
    return ff_fail(error, FF_USAGE,
                   "unknown option --pretrained: here it is --weights FILE; these two commands get "
                   "torchvision's and start from them: python3 -c 'import torch, torchvision; "
                   "torch.save(torchvision.models.%s(weights=\"DEFAULT\").state_dict(), "
                   "\"%s.pth\")' and fftrain ... --weights %s.pth",
                   model, model, model);
}
