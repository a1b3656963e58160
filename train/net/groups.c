#include "train/net/groups.h"

#include "format/base/memory.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const ff_graph *graph, const ff_graph_parameter *p, const char *pattern) {
    const bool norm = graph->layers[p->layer].kind == FF_LAYER_NORM;
    if (strcmp(pattern, "norm") == 0) return norm;
    if (strcmp(pattern, "bias") == 0) return !norm && p->rank == 1;
    if (strcmp(pattern, "head") == 0) return p->layer == graph->output;
    if (strcmp(pattern, "body") == 0) return p->layer != graph->output;
    return fnmatch(pattern, p->name, 0) == 0;
}

/* Takes the next pattern of a list, without the blanks around it; false: the list has ended. */
static bool take_pattern(const char **at, char pattern[FF_GROUPS_PATTERN]) {
    if (!*at) return false;
    const char *from = *at + strspn(*at, " \t");
    size_t length = strcspn(*at, ",");
    *at = (*at)[length] ? *at + length + 1 : NULL;
    length = strcspn(from, ",");
    while (length && strchr(" \t", from[length - 1])) length--;
    snprintf(pattern, FF_GROUPS_PATTERN, "%.*s", (int)length, from);
    return true;
}

/* Whether the parameter matches one of the list's patterns. */
static bool matches(const ff_graph *graph, const ff_graph_parameter *p, const char *list) {
    char pattern[FF_GROUPS_PATTERN];
    while (take_pattern(&list, pattern))
        if (is_of(graph, p, pattern)) return true;
    return false;
}

bool ff_groups_match_norm(const ff_graph *graph, const ff_layer *norm, const char *list) {
    for (int p = norm->parameter; p < norm->parameter + 2; p++)
        if (graph->parameters[p].trained && !matches(graph, &graph->parameters[p], list))
            return false;
    return true;
}

bool ff_groups_unmatched(const ff_graph *graph, const char *list, bool kinds,
                         char pattern[FF_GROUPS_PATTERN]) {
    while (take_pattern(&list, pattern)) {
        bool found = !kinds && (!strcmp(pattern, "norm") || !strcmp(pattern, "bias"));
        for (int i = 0; i < graph->parameter_count && !found; i++)
            found = graph->parameters[i].trained && is_of(graph, &graph->parameters[i], pattern);
        if (!found) return true;
    }
    return false;
}

static ff_status group_of(const ff_graph *graph, const ff_graph_parameter *p, const ff_group *list,
                          int count, int *group, ff_error *error) {
    *group = -1;
    if (!p->trained) return FF_OK;
    for (int g = 0; g < count; g++) {
        if (!matches(graph, p, list[g].names)) continue;
        if (list[g].within && !matches(graph, p, list[g].within)) continue;
        if (list[g].rule == FF_RULE_MUON && p->rank != 4)
            return ff_fail(error, FF_USAGE, "%s: Muon updates filters of convolutions only",
                           p->name);
        if (list[g].rule == FF_RULE_MUON && graph->layers[p->layer].groups > 1)
            return ff_fail(error, FF_USAGE,
                           "%s: Muon updates filters over all channels, not of %d groups", p->name,
                           graph->layers[p->layer].groups);
        *group = g;
        return FF_OK;
    }
    return ff_fail(error, FF_USAGE, "%s: belongs to no group of the optimizer", p->name);
}

static int by_offset(const void *a, const void *b) {
    const ff_span *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* One span per parameter, in the store's order, each up to the start of the next. */
static void list_spans(ff_groups *groups, const ff_store *store, const ff_group *list) {
    for (int i = 0; i < store->graph->parameter_count; i++)
        if (groups->of[i] >= 0)
            groups->spans[groups->span_count++] =
                (ff_span){groups->of[i], list[groups->of[i]].rule, i, store->offsets[i], 0};
    qsort(groups->spans, (size_t)groups->span_count, sizeof(ff_span), by_offset);
    for (int i = 0; i < groups->span_count; i++) {
        ff_span *span = &groups->spans[i];
        bool last = i + 1 == groups->span_count;
        span->count = (last ? store->trained_count : span[1].offset) - span->offset;
    }
}

/* Whether the gradients of both form one array: gradients of weights and of channels may differ in
 * dtype. */
static bool same_part(const ff_store *store, size_t a, size_t b) {
    return (a < store->weight_count) == (b < store->weight_count);
}

/* Merges adjacent spans of the same group, if the group's optimizer needs no norms. */
static void join_spans(ff_groups *groups, const ff_store *store) {
    int kept = 0;
    for (int i = 1; i < groups->span_count; i++) {
        ff_span *last = &groups->spans[kept];
        const ff_span *next = &groups->spans[i];
        if (next->group == last->group && !ff_optimizer_at(next->rule)->norms &&
            same_part(store, last->offset, next->offset))
            last->count += next->count;
        else
            groups->spans[++kept] = *next;
    }
    groups->span_count = groups->span_count ? kept + 1 : 0;
}

ff_status ff_groups_create(ff_groups *groups, const ff_store *store, const ff_group *list,
                           int count, ff_error *error) {
    ff_status status;
    const ff_graph *graph = store->graph;
    const uint64_t parameters = (uint64_t)graph->parameter_count;
    *groups = (ff_groups){.count = count};
    FF_TRY_DONE(ff_alloc(&groups->of, parameters, sizeof(int), "parameter groups", error));
    FF_TRY_DONE(ff_alloc(&groups->spans, parameters, sizeof(ff_span), "parameter groups", error));
    for (int i = 0; i < graph->parameter_count; i++)
        FF_TRY_DONE(group_of(graph, &graph->parameters[i], list, count, &groups->of[i], error));
    list_spans(groups, store, list);
    join_spans(groups, store);
    return FF_OK;
done:
    ff_groups_destroy(groups);
    return status;
}

void ff_groups_destroy(ff_groups *groups) {
    free(groups->of);
    free(groups->spans);
    *groups = (ff_groups){0};
}
