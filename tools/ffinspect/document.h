/* --json: one document with everything requested. */
#ifndef FF_FFINSPECT_DOCUMENT_H
#define FF_FFINSPECT_DOCUMENT_H

#include "format/disk/set.h"
#include "tools/ffinspect/facts/inspect.h"
#include "tools/ffinspect/facts/splits.h"

/* Prints {"ffinspect": version, "path", "splits": [{"path", ...}]} to standard output. If --verify
 * finds problems in a split, the split is listed with them, and FF_BAD_DATA or FF_IO is
 * returned. */
FF_MUST_USE ff_status ff_inspect_document(const ff_inspect_options *options, const ff_set *list,
                                          ff_error *error);

#endif
