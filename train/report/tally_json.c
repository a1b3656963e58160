#include "train/report/tally_json.h"

/* Appends `item`, which is released; false when out of memory. */
static bool append(json_t *list, json_t *item) {
    return json_array_append_new(list, item) == 0;
}

static const ff_field *field_of(const ff_trainer *trainer) {
    size_t field;
    if (ff_dataset_field(trainer->splits.val, trainer->splits.label, &field, NULL) != FF_OK)
        return NULL;
    return &ff_dataset_metadata(trainer->splits.val)->field[field];
}

static json_t *classes(const ff_tally *tally, const ff_field *field) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (int c = 0; good && c < tally->classes; c++) {
        const bool named = field && (uint64_t)c < field->class_count;
        good = append(list, json_pack("{s:o, s:I, s:I}", "name",
                                      ff_json_text(named ? field->class_name[c] : NULL), "samples",
                                      (json_int_t)tally->class_count[c], "correct",
                                      (json_int_t)tally->class_correct[c]));
    }
    return good ? list : (json_decref(list), NULL);
}

static json_t *confusion(const ff_tally *tally) {
    if (!tally->confusion) return json_null();
    json_t *list = json_array();
    bool good = list != NULL;
    const uint32_t *count = tally->confusion;
    for (int label = 0; label < tally->classes; label++)
        for (int c = 0; c < tally->classes; c++, count++)
            if (good && *count)
                good = append(list, json_pack("[i,i,I]", label, c, (json_int_t)*count));
    return good ? list : (json_decref(list), NULL);
}

static json_t *worst(const ff_tally *tally) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (int i = 0; good && i < tally->worst_count; i++) {
        const ff_mistake *one = &tally->worst[i];
        good = append(
            list, json_pack("{s:I, s:i, s:i, s:o, s:o}", "sample", (json_int_t)one->sample, "label",
                            (int)one->label, "prediction", (int)one->predicted, "probability",
                            ff_json_number(one->probability), "loss", ff_json_number(one->loss)));
    }
    return good ? list : (json_decref(list), NULL);
}

json_t *ff_tally_json(const ff_trainer *trainer, uint32_t epoch) {
    const ff_tally *tally = trainer->tally;
    const double top = ff_tally_top(tally);
    json_t *object = json_pack("{s:i, s:o, s:I, s:I, s:f}", "epoch", (int)epoch, "data",
                               ff_json_text(ff_dataset_path(trainer->splits.val)), "samples",
                               (json_int_t)tally->count, "correct", (json_int_t)tally->correct,
                               "val_accuracy", (double)tally->correct / (double)tally->count);
    json_t *lists = json_pack("{s:o, s:o, s:o}", "classes", classes(tally, field_of(trainer)),
                              "confusion", confusion(tally), "worst", worst(tally));
    bool good = object && lists && json_object_update(object, lists) == 0;
    if (good && top >= 0)
        good = json_object_set_new(object, "val_top5_accuracy", json_real(top)) == 0;
    json_decref(lists);
    if (good) return object;
    json_decref(object);
    return NULL;
}
