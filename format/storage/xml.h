/* The elements of S3's answers. Private to format/storage. Thread rule: pure. */
#ifndef FF_STORAGE_XML_H
#define FF_STORAGE_XML_H

#include "format/base/memory.h"

/* A part of an answer; any bytes. */
typedef struct ff_xml {
    const char *at;
    size_t length;
} ff_xml;

/* *content = what stands between the tags of the next element NAME of *rest, and *rest begins after
 * the element. False, and *rest as it was: no such element. */
bool ff_xml_next(ff_xml *rest, const char *name, ff_xml *content);

/* The text of the first element NAME inside `within`, its references decoded, allocated; NULL: no
 * such element. FF_BAD_DATA for a zero byte in the text. */
FF_MUST_USE ff_status ff_xml_text(char **text, ff_xml within, const char *name, ff_error *error);

#endif
