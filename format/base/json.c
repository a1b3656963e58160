#include "format/base/json.h"

#include "format/base/bytes.h"
#include "format/base/memory.h"
#include "format/base/read.h"
#include "format/base/readable.h"

#include <math.h>
#include <string.h>

json_t *ff_json_text(const char *text) {
    if (!text) return json_null();
    json_t *string = json_string(text);
    return string ? string : ff_json_bytes(text, strlen(text));
}

json_t *ff_json_bytes(const void *bytes, size_t length) {
    ff_buffer text = {0};
    json_t *string = NULL;
    if (ff_escape(&text, bytes, length, NULL) == FF_OK)
        string = json_stringn(text.length ? text.bytes : "", text.length);
    ff_buffer_free(&text);
    return string;
}

json_t *ff_json_key(const void *key, size_t length) {
    ff_buffer text = {0};
    json_t *string = NULL;
    if (ff_key_text(&text, key, length, false, NULL) == FF_OK)
        string = json_stringn(text.bytes, text.length);
    ff_buffer_free(&text);
    return string;
}

json_t *ff_json_number(double value) {
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

json_t *ff_json_id(const uint8_t id[16]) {
    char text[33];
    ff_hex(text, id, 16);
    return json_string(text);
}

void ff_json_append(json_t **array, json_t *item) {
    if (json_array_append_new(*array, item) == 0) return;
    json_decref(*array);
    *array = NULL;
}

ff_status ff_json_lines_read(const char *path, ff_json_taker *take, void *context, size_t *others,
                             ff_error *error) {
    ff_buffer all = {0};
    ff_status status = ff_read_whole(&all, path, UINT64_C(1) << 30, error);
    for (const char *line = all.bytes; status == FF_OK && line && *line;) {
        const size_t length = strcspn(line, "\n");
        json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(object))
            status = take(context, object, error);
        else if (others)
            *others += length > 0;
        json_decref(object);
        line += length + (line[length] == '\n');
    }
    ff_buffer_free(&all);
    return status;
}
