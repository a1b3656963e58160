#include "tools/ffpack/copy/labels.h"

#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "tools/ffpack/source/list/table.h"

#include <stdlib.h>
#include <string.h>

/* Reads the list, in which paths may begin with the split's name. */
static ff_status read_list(ff_label_list *list, const char *path, const char *name,
                           const char *column, ff_error *error) {
    ff_table *table;
    char *root;
    FF_TRY(ff_format(&root, error, "%s/", name));
    ff_status status = *name ? ff_names_add(&list->roots, root, strlen(root), error) : FF_OK;
    free(root);
    FF_TRY(status);
    FF_TRY(ff_table_open(&table, path, error));
    return ff_label_list_read(list, path, column, NULL, table, error);
}

typedef ff_status visitor(void *context, uint64_t place, const char *key, size_t bytes,
                          ff_error *error);

/* Calls visit with the key of each sample that the copy has. */
static ff_status for_each(const ff_choice *choice, ff_dataset *dataset, visitor *visit,
                          void *context, ff_error *error) {
    char key[FF_KEY_LIMIT_BYTES];
    size_t bytes;
    for (uint64_t place = 0; place < choice->count; place++) {
        if (place % FF_SCAN_WINDOW == 0) FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_dataset_key(dataset, choice->number[place], key, &bytes, error));
        FF_TRY(visit(context, place, key, bytes, error));
    }
    return FF_OK;
}

static ff_status mark_key(void *context, uint64_t place, const char *key, size_t bytes,
                          ff_error *error) {
    (void)place;
    return ff_label_list_mark(context, key, bytes, error);
}

typedef struct given {
    const ff_label_list *list;
    int64_t *label;
} given;

static ff_status give_label(void *context, uint64_t place, const char *key, size_t bytes,
                            ff_error *error) {
    const given *labels = context;
    int32_t label;
    bool found;
    FF_TRY(ff_label_list_label(labels->list, key, bytes, &label, &found, error));
    labels->label[place] = found ? label : FF_LABEL_STAYS;
    return FF_OK;
}

/* Notes the split to whose samples the lines belong. */
static ff_status claim(ff_relabel *relabel, const ff_label_list *list, const char *name,
                       ff_error *error) {
    for (size_t i = 0; i < list->name.count; i++) {
        const char *first = relabel->split[i];
        if (!list->used[i]) continue;
        if (first)
            return ff_fail(error, FF_USAGE,
                           "%s: line %zu: both %s and %s have a sample '%s'; wanted %s/%s or %s/%s",
                           relabel->path, (size_t)list->line[i], first, name,
                           ff_names_at(&list->name, i), first, ff_names_at(&list->name, i), name,
                           ff_names_at(&list->name, i));
        relabel->split[i] = name;
    }
    return FF_OK;
}

/* Decides which classes the cells mean. */
static ff_status decide(ff_label_list *list, ff_metadata *copy, size_t field, const char *set,
                        char **said, ff_error *error) {
    const bool named = copy->field[field].class_count > 0;
    FF_TRY(ff_label_list_decide(list, FF_LABEL_GUESS, copy, field, set, false, said, error));
    if (named || !list->column.named) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: names classes, but the classes of %s in its field %s are numbers without "
                   "names",
                   list->path, set, copy->field[field].name);
}

static ff_status relabel_with(ff_relabel *relabel, ff_label_list *list, const ff_choice *choice,
                              ff_dataset *dataset, ff_metadata *copy, size_t field,
                              const char *name, int64_t **label, char **said, ff_error *error) {
    FF_TRY(for_each(choice, dataset, mark_key, list, error));
    FF_TRY(claim(relabel, list, name, error));
    FF_TRY(ff_alloc(label, choice->count, sizeof **label, "labels", error));
    if (list->marked) FF_TRY(decide(list, copy, field, ff_dataset_path(dataset), said, error));
    given labels = {.list = list, .label = *label};
    return for_each(choice, dataset, give_label, &labels, error);
}

ff_status ff_relabel_split(ff_relabel *relabel, const ff_choice *choice, ff_dataset *dataset,
                           ff_metadata *copy, size_t field, const char *name, const char *column,
                           int64_t **label, char **said, ff_error *error) {
    ff_label_list own = {0};
    ff_status status;
    FF_TRY_DONE(read_list(&own, relabel->path, name, column, error));
    if (!relabel->split)
        FF_TRY_DONE(
            ff_alloc(&relabel->split, own.name.count, sizeof *relabel->split, "labels", error));
    FF_TRY_DONE(
        relabel_with(relabel, &own, choice, dataset, copy, field, name, label, said, error));
done:
    if (relabel->list.path) {
        ff_label_list_free(&own);
    } else {
        relabel->list = own;
    }
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--labels");
}

ff_status ff_relabel_check(const ff_relabel *relabel, const char *set, ff_error *error) {
    const ff_label_list *list = &relabel->list;
    const char *example;
    for (size_t i = 0; i < list->name.count; i++) list->used[i] = relabel->split[i] != NULL;
    const uint64_t count = ff_label_list_unused(list, &example);
    if (!count) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--labels: %s: %s no sample of the copy of %s; the first is '%s'", relabel->path,
                   ff_say_count(count, "line names", "lines name").text, set, example);
}

void ff_relabel_free(ff_relabel *relabel) {
    ff_label_list_free(&relabel->list);
    free(relabel->split);
    *relabel = (ff_relabel){0};
}
