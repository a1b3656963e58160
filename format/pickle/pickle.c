/* The stack machine: every opcode. */
#include "format/pickle/pickle.h"

#include "format/base/read.h"
#include "format/base/real.h"
#include "format/pickle/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 64 * 1024, PROTOCOL_LIMIT = 5 };

ff_status ff_pickle_fail(const ff_pickle *pickle, ff_error *error, const char *format, ...) {
    char reason[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    for (char *at = reason; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?'; /* names come from the file */
    ff_fail(error, FF_BAD_DATA, "%s: its pickle at byte %" PRIu64 ": %s", pickle->path,
            pickle->opcode_at, reason);
    return FF_BAD_DATA;
}

/* ---- operands ------------------------------------------------------------------------------ */

/* A little-endian number of `size` bytes after the opcode. */
static ff_status take_number(ff_pickle *pickle, size_t size, uint64_t *value, ff_error *error) {
    const unsigned char *bytes = NULL;
    FF_TRY(ff_pickle_take(pickle, size, &bytes, error));
    *value = 0;
    while (size--) *value = *value << 8 | bytes[size];
    return FF_OK;
}

/* A number written as a line: "12", "-3", "12L". */
static ff_status line_number(ff_pickle *pickle, int64_t *value, ff_error *error) {
    char line[256], *end;
    FF_TRY(ff_pickle_line(pickle, line, error));
    errno = 0;
    *value = strtoll(line, &end, 10);
    if (*end == 'L') end++;
    if (end == line || *end || errno)
        return ff_pickle_fail(pickle, error, "'%s' is not a whole number of at most 64 bits", line);
    return FF_OK;
}

static ff_status push_integer(ff_pickle *pickle, ff_pickle_kind kind, int64_t value,
                              ff_error *error) {
    return ff_pickle_push_node(pickle, (ff_pickle_node){.kind = kind, .integer = value}, error);
}

/* "01" and "00" mean True and False. */
static ff_status push_line_integer(ff_pickle *pickle, ff_error *error) {
    const unsigned char *line = NULL;
    uint64_t at = pickle->at;
    int64_t value;
    FF_TRY(ff_pickle_take(pickle, 3, &line, error));
    bool truth = line[0] == '0' && (line[1] == '0' || line[1] == '1') && line[2] == '\n';
    pickle->at = at;
    FF_TRY(line_number(pickle, &value, error));
    return push_integer(pickle, truth ? FF_PICKLE_BOOL : FF_PICKLE_INTEGER, value, error);
}

static ff_status push_long(ff_pickle *pickle, size_t length_bytes, ff_error *error) {
    uint64_t length, value = 0;
    FF_TRY(take_number(pickle, length_bytes, &length, error));
    if (length > 8 && pickle->reader->skips) {
        ff_pickle_place place;
        FF_TRY(ff_pickle_skip(pickle, length, &place, error));
        return push_integer(pickle, FF_PICKLE_OTHER, -1, error);
    }
    if (length > 8)
        return ff_pickle_fail(pickle, error, "a number of %" PRIu64 " bytes, wanted at most 8",
                              length);
    FF_TRY(take_number(pickle, (size_t)length, &value, error));
    if (length && length < 8 && value >> (8 * length - 1)) value |= UINT64_MAX << 8 * length;
    return push_integer(pickle, FF_PICKLE_INTEGER, (int64_t)value, error);
}

static ff_status push_float(ff_pickle *pickle, bool line, ff_error *error) {
    double real;
    if (line) {
        char text[256], *end;
        FF_TRY(ff_pickle_line(pickle, text, error));
        real = ff_real_read(text, &end);
        if (end == text || *end) return ff_pickle_fail(pickle, error, "'%s' is not a number", text);
    } else {
        uint64_t bits;
        FF_TRY(take_number(pickle, 8, &bits, error));
        bits = __builtin_bswap64(bits);
        memcpy(&real, &bits, sizeof real);
    }
    return ff_pickle_push_node(pickle, (ff_pickle_node){.kind = FF_PICKLE_FLOAT, .real = real},
                               error);
}

static ff_status push_string(ff_pickle *pickle, ff_pickle_kind kind, size_t length_bytes,
                             ff_error *error) {
    uint64_t length;
    ff_pickle_place place;
    FF_TRY(take_number(pickle, length_bytes, &length, error));
    FF_TRY(ff_pickle_skip(pickle, length, &place, error));
    return ff_pickle_push_node(pickle, (ff_pickle_node){.kind = kind, .place = place}, error);
}

ff_status ff_pickle_short(ff_pickle *pickle, ff_pickle_value value, char text[256],
                          ff_error *error) {
    const ff_pickle_node *node = &pickle->node[value];
    if (node->kind != FF_PICKLE_TEXT && node->kind != FF_PICKLE_BYTES)
        return ff_pickle_fail(pickle, error, "%s, wanted a string",
                              ff_pickle_kind_name(pickle, node->kind));
    if (node->place.bytes > 255)
        return ff_pickle_fail(pickle, error, "a string of %" PRIu64 " bytes, wanted at most 255",
                              (uint64_t)node->place.bytes);
    FF_TRY(ff_pickle_fetch(pickle, node->place, text, node->place.bytes, error));
    text[node->place.bytes] = 0;
    if (memchr(text, 0, node->place.bytes))
        return ff_pickle_fail(pickle, error, "a zero byte in a string");
    return FF_OK;
}

/* ---- opcodes ------------------------------------------------------------------------------- */

static ff_status import(ff_pickle *pickle, bool from_stack, ff_error *error) {
    char module[256], name[256];
    if (from_stack) {
        const ff_pickle_value *two = NULL;
        FF_TRY(ff_pickle_pop(pickle, 2, &two, error));
        ff_pickle_value first = two[0], second = two[1];
        FF_TRY(ff_pickle_short(pickle, first, module, error));
        FF_TRY(ff_pickle_short(pickle, second, name, error));
    } else {
        FF_TRY(ff_pickle_line(pickle, module, error));
        FF_TRY(ff_pickle_line(pickle, name, error));
    }
    ff_pickle_value value = 0;
    FF_TRY(pickle->reader->import(pickle, module, name, &value, error));
    return ff_pickle_push(pickle, value, error);
}

static ff_status call(ff_pickle *pickle, bool build, ff_error *error) {
    const ff_pickle_value *two = NULL;
    FF_TRY(ff_pickle_pop(pickle, 2, &two, error));
    ff_pickle_value first = two[0], second = two[1], result = first;
    FF_TRY(build ? pickle->reader->build(pickle, first, second, error)
                 : pickle->reader->call(pickle, first, second, &result, error));
    return ff_pickle_push(pickle, result, error);
}

static ff_status run_persistent(ff_pickle *pickle, ff_error *error) {
    const ff_pickle_value *id = NULL;
    ff_pickle_value result = 0;
    FF_TRY(ff_pickle_pop(pickle, 1, &id, error));
    FF_TRY(pickle->reader->persistent(pickle, *id, &result, error));
    return ff_pickle_push(pickle, result, error);
}

static ff_status set_mark(ff_pickle *pickle, ff_error *error) {
    if (pickle->mark_count == FF_PICKLE_MARKS_LIMIT)
        return ff_pickle_fail(pickle, error, "more than %" PRIu32 " marks in one another",
                              FF_PICKLE_MARKS_LIMIT);
    pickle->mark[pickle->mark_count++] = (uint32_t)pickle->stack_count;
    return FF_OK;
}

/* Opcodes that only move values. */
static ff_status run_stack(ff_pickle *pickle, unsigned char opcode, bool *known, ff_error *error) {
    const ff_pickle_value *values = NULL;
    uint32_t count = 0;
    *known = true;
    switch (opcode) {
    case '(': return set_mark(pickle, error);
    case '0':
        /* If a mark is on top, the mark is popped, as in Python. */
        if (pickle->mark_count && ff_pickle_bottom(pickle) == pickle->stack_count)
            return ff_pickle_pop_mark(pickle, &values, &count, error);
        return ff_pickle_pop(pickle, 1, &values, error);
    case '1': return ff_pickle_pop_mark(pickle, &values, &count, error);
    case '2':
        FF_TRY(ff_pickle_pop(pickle, 1, &values, error));
        pickle->stack_count++;
        return ff_pickle_push(pickle, pickle->stack[pickle->stack_count - 1], error);
    case ']': return ff_pickle_push_list(pickle, FF_PICKLE_LIST, NULL, 0, error);
    case ')': return ff_pickle_push_list(pickle, FF_PICKLE_LIST, NULL, 0, error);
    case '}': return ff_pickle_push_list(pickle, FF_PICKLE_DICT, NULL, 0, error);
    case 'l':
    case 't':
        FF_TRY(ff_pickle_pop_mark(pickle, &values, &count, error));
        return ff_pickle_push_list(pickle, FF_PICKLE_LIST, values, count, error);
    case 'd':
        FF_TRY(ff_pickle_pop_mark(pickle, &values, &count, error));
        if (count % 2) return ff_pickle_fail(pickle, error, "a dict with a key without a value");
        return ff_pickle_push_list(pickle, FF_PICKLE_DICT, values, count, error);
    case 0x85:
    case 0x86:
    case 0x87:
        FF_TRY(ff_pickle_pop(pickle, opcode - 0x84u, &values, error));
        return ff_pickle_push_list(pickle, FF_PICKLE_LIST, values, opcode - 0x84u, error);
    case 'a':
        FF_TRY(ff_pickle_pop(pickle, 1, &values, error));
        return ff_pickle_extend(pickle, FF_PICKLE_LIST, values, 1, error);
    case 's':
        FF_TRY(ff_pickle_pop(pickle, 2, &values, error));
        return ff_pickle_extend(pickle, FF_PICKLE_DICT, values, 2, error);
    case 'e':
    case 'u':
        FF_TRY(ff_pickle_pop_mark(pickle, &values, &count, error));
        return ff_pickle_extend(pickle, opcode == 'e' ? FF_PICKLE_LIST : FF_PICKLE_DICT, values,
                                count, error);
    default: *known = false; return FF_OK;
    }
}

/* Opcodes that use the memo. */
static ff_status run_memo(ff_pickle *pickle, unsigned char opcode, bool *known, ff_error *error) {
    uint64_t index = 0;
    int64_t written;
    *known = true;
    switch (opcode) {
    case 'p':
    case 'g':
        FF_TRY(line_number(pickle, &written, error));
        index = (uint64_t)written;
        break;
    case 'q':
    case 'h': FF_TRY(take_number(pickle, 1, &index, error)); break;
    case 'r':
    case 'j': FF_TRY(take_number(pickle, 4, &index, error)); break;
    case 0x94: index = pickle->memo_count; break;
    default: *known = false; return FF_OK;
    }
    return strchr("ghj", opcode) ? ff_pickle_get(pickle, index, error)
                                 : ff_pickle_put(pickle, index, error);
}

/* Opcodes with a literal value. */
static ff_status run_value(ff_pickle *pickle, unsigned char opcode, bool *known, ff_error *error) {
    uint64_t number;
    int64_t written;
    ff_pickle_place place;
    *known = true;
    switch (opcode) {
    case 'N': return push_integer(pickle, FF_PICKLE_NONE, 0, error);
    case 0x88: return push_integer(pickle, FF_PICKLE_BOOL, 1, error);
    case 0x89: return push_integer(pickle, FF_PICKLE_BOOL, 0, error);
    case 'I': return push_line_integer(pickle, error);
    case 'L':
        FF_TRY(line_number(pickle, &written, error));
        return push_integer(pickle, FF_PICKLE_INTEGER, written, error);
    case 'J':
        FF_TRY(take_number(pickle, 4, &number, error));
        return push_integer(pickle, FF_PICKLE_INTEGER, (int32_t)number, error);
    case 'K':
    case 'M':
        FF_TRY(take_number(pickle, opcode == 'K' ? 1 : 2, &number, error));
        return push_integer(pickle, FF_PICKLE_INTEGER, (int64_t)number, error);
    case 0x8a: return push_long(pickle, 1, error);
    case 0x8b: return push_long(pickle, 4, error);
    case 'F': return push_float(pickle, true, error);
    case 'G': return push_float(pickle, false, error);
    case 'S':
        FF_TRY(ff_pickle_quoted(pickle, &place, error));
        return ff_pickle_push_node(
            pickle, (ff_pickle_node){.kind = FF_PICKLE_BYTES, .place = place}, error);
    case 'V':
        FF_TRY(ff_pickle_unicode(pickle, &place, error));
        return ff_pickle_push_node(pickle, (ff_pickle_node){.kind = FF_PICKLE_TEXT, .place = place},
                                   error);
    case 'U':
    case 'C': return push_string(pickle, FF_PICKLE_BYTES, 1, error);
    case 'T':
    case 'B': return push_string(pickle, FF_PICKLE_BYTES, 4, error);
    case 0x8e:
    case 0x96: return push_string(pickle, FF_PICKLE_BYTES, 8, error);
    case 0x8c: return push_string(pickle, FF_PICKLE_TEXT, 1, error);
    case 'X': return push_string(pickle, FF_PICKLE_TEXT, 4, error);
    case 0x8d: return push_string(pickle, FF_PICKLE_TEXT, 8, error);
    default: *known = false; return FF_OK;
    }
}

/* Opcodes of sets and objects, for a reader that skips them. */
static ff_status run_object(ff_pickle *pickle, unsigned char opcode, bool *known, ff_error *error) {
    const ff_pickle_value *values = NULL;
    uint32_t count = 0;
    *known = true;
    switch (opcode) {
    case 0x8f: return push_integer(pickle, FF_PICKLE_OTHER, -1, error);
    case 0x90:
        FF_TRY(ff_pickle_pop_mark(pickle, &values, &count, error));
        return ff_pickle_extend(pickle, FF_PICKLE_OTHER, values, count, error);
    case 0x91:
        FF_TRY(ff_pickle_pop_mark(pickle, &values, &count, error));
        return push_integer(pickle, FF_PICKLE_OTHER, -1, error);
    case 0x92: /* with arguments by name, which are dropped */
        FF_TRY(ff_pickle_pop(pickle, 1, &values, error));
        return call(pickle, false, error);
    case 0x81: return call(pickle, false, error);
    default: *known = false; return FF_OK;
    }
}

/* Opcodes that are refused. */
static ff_status refuse(ff_pickle *pickle, unsigned char opcode, ff_error *error) {
    static const struct {
        unsigned char opcode;
        const char *what;
    } known[] = {{'P', "a persistent id"},
                 {'Q', "a persistent id"},
                 {'o', "an object of a class"},
                 {0x81, "an object of a class"},
                 {0x92, "an object of a class"},
                 {0x82, "an extension code"},
                 {0x83, "an extension code"},
                 {0x84, "an extension code"},
                 {0x8f, "a set"},
                 {0x90, "a set"},
                 {0x91, "a frozen set"},
                 {0x97, "a buffer outside of the pickle"},
                 {0x98, "a buffer outside of the pickle"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (opcode == known[i].opcode)
            return ff_pickle_fail(pickle, error, "holds %s; only %s are read", known[i].what,
                                  pickle->reader->holds);
    return ff_pickle_fail(pickle, error, "0x%02x is not an opcode of a pickle", opcode);
}

static ff_status step(ff_pickle *pickle, bool *stopped, ff_error *error) {
    const unsigned char *byte = NULL;
    uint64_t number;
    pickle->opcode_at = pickle->at - pickle->begin;
    FF_TRY(ff_pickle_take(pickle, 1, &byte, error));
    unsigned char opcode = *byte;
    bool known;
    FF_TRY(run_stack(pickle, opcode, &known, error));
    if (!known) FF_TRY(run_memo(pickle, opcode, &known, error));
    if (!known) FF_TRY(run_value(pickle, opcode, &known, error));
    if (!known && pickle->reader->skips) FF_TRY(run_object(pickle, opcode, &known, error));
    if (known) return FF_OK;
    char module[256], name[256];
    ff_pickle_value value = 0;
    switch (opcode) {
    case 0x80:
        FF_TRY(take_number(pickle, 1, &number, error));
        if (number > PROTOCOL_LIMIT)
            return ff_pickle_fail(pickle, error, "is of protocol %" PRIu64 ", wanted at most %d",
                                  number, PROTOCOL_LIMIT);
        return FF_OK;
    case 0x95:
        return take_number(pickle, 8, &number, error); /* a frame: only a hint for reading ahead */
    case 'c':
    case 0x93: return import(pickle, opcode == 0x93, error);
    case 'i':
        /* An object of a class: refused by the class's name. */
        FF_TRY(ff_pickle_line(pickle, module, error));
        FF_TRY(ff_pickle_line(pickle, name, error));
        FF_TRY(pickle->reader->import(pickle, module, name, &value, error));
        return refuse(pickle, 'o', error);
    case 'Q':
        if (!pickle->reader->persistent) return refuse(pickle, opcode, error);
        return run_persistent(pickle, error);
    case 'R':
    case 'b': return call(pickle, opcode == 'b', error);
    case '.':
        if (pickle->stack_count != 1 || pickle->mark_count)
            return ff_pickle_fail(pickle, error, "stops with %zu values on its stack, wanted 1",
                                  pickle->stack_count);
        *stopped = true;
        return FF_OK;
    default: return refuse(pickle, opcode, error);
    }
}

ff_status ff_pickle_read(ff_pickle **out, const ff_pickle_reader *reader, void *context,
                         const ff_pickle_file *at, ff_error *error) {
    *out = NULL;
    ff_pickle *pickle;
    FF_TRY(ff_alloc(&pickle, 1, sizeof *pickle, "a pickle", error));
    pickle->reader = reader;
    pickle->context = context;
    pickle->fd = at->fd;
    pickle->path = at->path;
    pickle->temporary = at->temporary;
    pickle->begin = pickle->at = at->offset;
    pickle->end = at->offset + at->bytes;
    pickle->decoded_fd = -1;
    ff_status status = ff_alloc(&pickle->window, WINDOW_BYTES, 1, "a pickle", error);
    for (bool stopped = false; status == FF_OK && !stopped;) status = step(pickle, &stopped, error);
    if (status == FF_OK)
        *out = pickle;
    else
        ff_pickle_destroy(&pickle);
    return status;
}

void ff_pickle_destroy(ff_pickle **out) {
    ff_pickle *pickle = *out;
    if (!pickle) return;
    for (size_t i = 0; i < pickle->node_count; i++)
        if (pickle->node[i].kind == FF_PICKLE_LIST || pickle->node[i].kind == FF_PICKLE_DICT)
            free(pickle->node[i].list.item);
    ff_close_file(&pickle->decoded_fd);
    ff_buffer_free(&pickle->decoding);
    free(pickle->window);
    free(pickle->node);
    free(pickle->stack);
    free(pickle->memo);
    free(pickle->made);
    free(pickle);
    *out = NULL;
}
