/* Texts that the library returns. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_TEXT_H
#define FF_LOADER_LIBRARY_TEXT_H

#include "format/base/json.h"
#include "format/base/status.h"

/* Replaces *kept by the text of a document, which is released; *out = the text. FF_NO_MEMORY, also
 * if the document is NULL. */
FF_MUST_USE ff_status ff_library_keep_text(char **kept, json_t *json, const char **out,
                                           ff_error *error);

#endif
