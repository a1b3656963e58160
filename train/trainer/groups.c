/* Checks which parameters the groups of a run have. */
#include "train/net/groups.h"
#include "train/trainer/updates.h"

#include <string.h>

/* Whether a parameter is in a group, or in its part without weight decay. */
static bool is_used(const ff_trainer *trainer, int group, const ff_group *groups) {
    const bool parted =
        group && groups[group - 1].within && groups[group - 1].within == groups[group].names;
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++) {
        const int of = ff_model_group(trainer->model, i);
        if (of == group || (parted && of == group - 1)) return true;
    }
    return false;
}

/* Checks that some parameter is frozen, and some is not. */
static ff_status check_frozen(const ff_trainer *trainer, const ff_group *groups, ff_error *error) {
    bool learns = false;
    if (!trainer->groups[0].frozen) return FF_OK;
    if (!is_used(trainer, 0, groups))
        return ff_fail(error, FF_USAGE, "--freeze: no trained parameter of %s is called %s",
                       trainer->model_name, groups[0].names);
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++)
        learns |= ff_model_group(trainer->model, i) > 0;
    if (learns) return FF_OK;
    return ff_fail(error, FF_USAGE, "--freeze %s: leaves nothing of %s to learn", groups[0].names,
                   trainer->model_name);
}

/* --frozen-norms is about the batch norms that --freeze names. */
static ff_status check_frozen_norms(const ff_trainer *trainer, ff_error *error) {
    const ff_graph *graph = ff_model_store(trainer->model)->graph;
    const char *freeze = trainer->options->freeze;
    bool has_norms = false;
    if (!trainer->options->frozen_norms_given) return FF_OK;
    for (int i = 0; i < graph->layer_count; i++) {
        if (graph->layers[i].kind != FF_LAYER_NORM) continue;
        if (freeze && ff_groups_match_norm(graph, &graph->layers[i], freeze)) return FF_OK;
        has_norms = true;
    }
    if (!has_norms)
        return ff_fail(error, FF_USAGE, "--frozen-norms: %s has no batch norms; leave it out",
                       trainer->model_name);
    return ff_fail(error, FF_USAGE,
                   "--frozen-norms: no batch norm of %s is frozen; --freeze norm freezes all of "
                   "them, and they keep and use their running statistics",
                   trainer->model_name);
}

/* Whether a group is one of --groups, and not a part of one. */
static bool is_given(const ff_trainer *trainer, int group) {
    const char *names = trainer->groups[group].names, *given = trainer->groups_given;
    return given && names >= given && names < given + strlen(trainer->groups_text) &&
           !trainer->groups[group].within;
}

/* Checks that each pattern of an option matches a parameter. */
static ff_status check_patterns(const ff_trainer *trainer, const char *option, const char *list,
                                bool kinds, ff_error *error) {
    const ff_graph *graph = ff_model_store(trainer->model)->graph;
    char pattern[FF_GROUPS_PATTERN];
    if (!list || !ff_groups_unmatched(graph, list, kinds, pattern)) return FF_OK;
    return ff_fail(error, FF_USAGE, "--%s: no trained parameter of %s is called %s", option,
                   trainer->model_name, *pattern ? pattern : "'', a name that was left out");
}

ff_status ff_trainer_set_groups(const ff_trainer *trainer, ff_error *error) {
    ff_group groups[FF_TRAINER_GROUPS];
    for (int i = 0; i < trainer->group_count; i++)
        groups[i] = (ff_group){trainer->groups[i].names, trainer->groups[i].rule,
                               trainer->groups[i].within};
    FF_TRY(ff_model_set_groups(trainer->model, groups, trainer->group_count, error));
    FF_TRY(check_frozen(trainer, groups, error));
    FF_TRY(check_frozen_norms(trainer, error));
    for (int i = 0; i < trainer->main_group; i++)
        if (is_given(trainer, i) && !is_used(trainer, i, groups))
            return ff_fail(error, FF_USAGE,
                           "--groups: no trained parameter of %s that is in no group before is "
                           "called %s",
                           trainer->model_name, groups[i].names);
    for (int i = 0; i < trainer->main_group; i++)
        if (is_given(trainer, i))
            FF_TRY(check_patterns(trainer, "groups", groups[i].names, true, error));
    const ff_trainer_options *options = trainer->options;
    FF_TRY(check_patterns(trainer, "freeze", options->freeze, true, error));
    if (options->no_decay && !strcmp(options->no_decay, "none")) return FF_OK;
    return check_patterns(trainer, "no-decay", options->no_decay, false, error);
}
