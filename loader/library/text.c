#include "loader/library/text.h"

#include <stdlib.h>

ff_status ff_library_keep_text(char **kept, json_t *json, const char **out, ff_error *error) {
    char *text = json ? json_dumps(json, JSON_ENSURE_ASCII) : NULL;
    json_decref(json);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the JSON document");
    free(*kept);
    *kept = text;
    *out = text;
    return FF_OK;
}
