#include "train/comm/job/node_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_nodes = 1 << 20;
static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:";

/* Reads up to 9 digits at *at and moves *at past them; returns the number of digits, 0 if there is
 * no such number. */
static int read_number(const char **at, uint64_t *number) {
    const size_t digits = strspn(*at, "0123456789");
    if (digits > 9) return 0;
    *number = strtoul(*at, NULL, 10);
    *at += digits;
    return (int)digits;
}

/* Reads "[01-03,7]" at *at and moves *at past it. *count = how many numbers it lists. Appends
 * number `pick` of these to `to`, unless `to` is NULL. */
static bool read_brackets(const char **at, uint64_t pick, ff_buffer *to, uint64_t *count,
                          ff_error *error) {
    *count = 0;
    do {
        uint64_t first, last;
        ++*at;
        const int digits = read_number(at, &first);
        if (!digits) return false;
        last = first;
        if (**at == '-' && (++*at, !read_number(at, &last))) return false;
        if (last < first) return false;
        if (to && pick >= *count && pick - *count <= last - first &&
            ff_buffer_printf(to, error, "%0*llu", digits,
                             (unsigned long long)(first + pick - *count)) != FF_OK)
            return false;
        *count += last - first + 1;
    } while (**at == ',');
    if (**at != ']' || *count > most_nodes) return false;
    ++*at;
    return true;
}

/* Reads one element of a list, up to its comma, as read_brackets does. If `to` is NULL, sets *count
 * to the product of the counts of its brackets; else *count must be this product. */
static bool read_element(const char **at, uint64_t pick, ff_buffer *to, uint64_t *count,
                         ff_error *error) {
    const char *const begin = *at;
    uint64_t below = to ? *count : 1; /* hosts for each number of the brackets */
    while (**at && **at != ',') {
        const size_t text = strspn(*at, in_names);
        if (text) {
            if (to && ff_buffer_add(to, *at, text, error) != FF_OK) return false;
            *at += text;
            continue;
        }
        const char *again = *at;
        uint64_t numbers;
        if (**at != '[' || !read_brackets(at, 0, NULL, &numbers, error)) return false;
        if (!to) {
            below *= numbers;
            if (below > most_nodes) return false;
            continue;
        }
        below /= numbers;
        if (!read_brackets(&again, pick / below, to, &numbers, error)) return false;
        pick %= below;
    }
    if (!to) *count = below;
    return *at > begin;
}

ff_status ff_node_list_host(const char *variable, const char *list, uint64_t index, ff_buffer *host,
                            uint64_t *count, ff_error *error) {
    const char *at = list;
    ff_error memory = {0};
    bool found = false;
    *count = 0;
    for (bool more = true; more;) {
        const char *element = at;
        uint64_t hosts;
        if (!read_element(&at, 0, NULL, &hosts, &memory) || *count + hosts > most_nodes)
            return ff_fail(error, FF_USAGE,
                           "%s is '%.200s': no list of nodes such as a[01-03,7],b, from character "
                           "%zu on",
                           variable, list, (size_t)(at - list) + 1);
        if (!found && index < *count + hosts) {
            found = true;
            if (!read_element(&element, index - *count, host, &hosts, &memory))
                return ff_fail(error, FF_NO_MEMORY, "no memory for the name of a node");
        }
        *count += hosts;
        more = *at == ',';
        at += more;
    }
    if (found) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s is '%.200s': it has no node %llu", variable, list,
                   (unsigned long long)index);
}

ff_status ff_node_list_tasks(const char *variable, const char *list, uint64_t index,
                             uint64_t *tasks, ff_error *error) {
    const char *at = list;
    for (uint64_t node = 0;;) {
        uint64_t nodes = 1;
        if (!read_number(&at, tasks)) break;
        if (*at == '(' && (at[1] != 'x' || (at += 2, !read_number(&at, &nodes)) || *at++ != ')'))
            break;
        if (index - node < nodes) return FF_OK;
        node += nodes;
        if (*at++ != ',') break;
    }
    return ff_fail(error, FF_USAGE,
                   "%s is '%.200s': it has no tasks for node %llu, as 2(x3),1 has for four nodes",
                   variable, list, (unsigned long long)index);
}
