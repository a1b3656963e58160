/* How the log's start line has the options. */
#include "format/base/json.h"
#include "train/commands/settings_table.h"

#include <string.h>

static const ff_trainer_update *main_update(const ff_trainer *trainer) {
    return &trainer->groups[trainer->main_group];
}

json_t *ff_log_data(const ff_trainer *trainer) {
    return ff_json_text(ff_dataset_path(trainer->splits.train));
}

json_t *ff_log_val(const ff_trainer *trainer) {
    const ff_dataset *val = trainer->splits.val;
    return ff_json_text(val ? ff_dataset_path(val) : NULL);
}

json_t *ff_log_label(const ff_trainer *trainer) {
    return ff_json_text(trainer->splits.label);
}

json_t *ff_log_device(const ff_trainer *trainer) {
    const bool device = ff_machine_device(trainer->machine) != NULL;
    return json_string(device ? ff_machine_text(trainer->machine) : "cpu");
}

json_t *ff_log_precision(const ff_trainer *trainer) {
    return json_string(ff_precision_name(trainer->precision));
}

json_t *ff_log_placement(const ff_trainer *trainer) {
    return ff_json_text(ff_feed_describe(trainer->train_feed).placement);
}

json_t *ff_log_compute(const ff_trainer *trainer) {
    return json_string(ff_model_compute_name(trainer->model));
}

json_t *ff_log_threads(const ff_trainer *trainer) {
    return json_integer(ff_model_threads(trainer->model));
}

json_t *ff_log_workers(const ff_trainer *trainer) {
    return json_integer(trainer->workers);
}

json_t *ff_log_batch(const ff_trainer *trainer) {
    return json_integer(trainer->batch);
}

json_t *ff_log_val_resize(const ff_trainer *trainer) {
    const uint32_t size = trainer->splits.val_resize;
    return size ? json_integer(size) : json_null();
}

json_t *ff_log_rate(const ff_trainer *trainer) {
    return ff_json_number(main_update(trainer)->schedule.peak);
}

json_t *ff_log_schedule(const ff_trainer *trainer) {
    return json_string(main_update(trainer)->schedule.text);
}

json_t *ff_log_warmup(const ff_trainer *trainer) {
    return json_integer((json_int_t)main_update(trainer)->schedule.warmup_steps);
}

json_t *ff_log_momentum(const ff_trainer *trainer) {
    return ff_json_number(main_update(trainer)->hyper.momentum);
}

json_t *ff_log_nesterov(const ff_trainer *trainer) {
    return json_boolean(main_update(trainer)->hyper.nesterov);
}

json_t *ff_log_weight_decay(const ff_trainer *trainer) {
    return ff_json_number(main_update(trainer)->hyper.weight_decay);
}

json_t *ff_log_recipe(const ff_trainer *trainer) {
    return ff_json_text(trainer->recipe_name);
}

json_t *ff_log_views(const ff_trainer *trainer) {
    return json_integer(trainer->views);
}

json_t *ff_log_optimizer(const ff_trainer *trainer) {
    return json_string(ff_optimizer_at(main_update(trainer)->rule)->name);
}

json_t *ff_log_loss(const ff_trainer *trainer) {
    char text[FF_LOSS_TEXT_BYTES];
    return json_string(ff_loss_text(&trainer->loss, text));
}

json_t *ff_log_clip_norm(const ff_trainer *trainer) {
    return trainer->clip_norm > 0 ? ff_json_number(trainer->clip_norm) : json_null();
}

json_t *ff_log_ema(const ff_trainer *trainer) {
    return trainer->ema_decay >= 0 ? ff_json_number(trainer->ema_decay) : json_null();
}

json_t *ff_log_accumulate(const ff_trainer *trainer) {
    return json_integer(trainer->accumulate);
}

json_t *ff_log_machines(const ff_trainer *trainer) {
    return json_integer((json_int_t)trainer->machines);
}

json_t *ff_log_block(const ff_trainer *trainer) {
    return json_integer((json_int_t)trainer->block);
}

json_t *ff_log_group(const ff_trainer *trainer) {
    return json_integer((json_int_t)trainer->group);
}

json_t *ff_log_groups(const ff_trainer *trainer) {
    json_t *list = json_array();
    for (int i = 0; list && i < trainer->group_count; i++) {
        const ff_trainer_update *group = &trainer->groups[i];
        json_t *object =
            json_pack("{s:s, s:s, s:o, s:o, s:b, s:o, s:I}", "names", group->names, "optimizer",
                      ff_optimizer_at(group->rule)->name, "learning_rate",
                      ff_json_number(group->schedule.peak), "momentum",
                      ff_json_number(group->hyper.momentum), "nesterov", (int)group->hyper.nesterov,
                      "weight_decay", ff_json_number(group->hyper.weight_decay), "steps",
                      (json_int_t)group->schedule.total_steps);
        if (group->within) json_object_set_new(object, "within", json_string(group->within));
        for (int k = FF_HYPER_BETA1; ff_hyper_name(k); k++)
            if (*ff_hyper_at(&ff_optimizer_at(group->rule)->defaults, k) != FF_UNREAD)
                json_object_set_new(object, ff_hyper_name(k),
                                    ff_json_number(*ff_hyper_at(&group->hyper, k)));
        ff_json_append(&list, object);
    }
    return list;
}

/* The option's own value. */
static json_t *value_of(const ff_option *option) {
    const char *word = option->choices;
    switch (option->kind) {
    case FF_OPTION_FLAG: return json_boolean(*(const bool *)option->target);
    case FF_OPTION_STRING: return ff_json_text(*(const char *const *)option->target);
    case FF_OPTION_INTEGER:
    case FF_OPTION_BYTES: return json_integer(*(const int64_t *)option->target);
    case FF_OPTION_REAL: return ff_json_number(*(const double *)option->target);
    case FF_OPTION_CHOICE:
        for (int i = *(const int *)option->target; i > 0; i--) word = strchr(word, '|') + 1;
        return json_stringn(word, strcspn(word, "|"));
    case FF_OPTION_LIST:
    case FF_OPTION_HEADING: break;
    }
    return json_null();
}

json_t *ff_settings_log(ff_settings *settings, const ff_trainer *trainer) {
    json_t *object = json_object();
    for (const ff_setting *row = ff_settings_table; object && !ff_setting_is_last(row); row++) {
        const ff_option option = ff_setting_in(row, settings);
        if (!row->log.key) continue;
        json_t *value = row->log.value ? row->log.value(trainer) : value_of(&option);
        if (json_object_set_new(object, row->log.key, value) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}
