/* The files of the AWS tools, read as these read them: by Python's configparser. A setting's name
 * has any case and ends with = or :; lines may be indented, all of a section alike; what is
 * indented further belongs to the setting before. Private to format/storage. Thread rule: pure. */
#ifndef FF_STORAGE_PROFILE_H
#define FF_STORAGE_PROFILE_H

#include "format/base/memory.h"

typedef struct ff_profile {
    const char *kind; /* of the section: "profile", "services" */
    const char *name;
    bool bare; /* [NAME] is such a section, too */
} ff_profile;

/* Finds the setting `name` of a section in a file's text. *value is a copy, or NULL if the section
 * lacks the setting. `within` names the setting below which `name` is indented; NULL = the section
 * itself. *there becomes true if the text has the section, and else stays. */
FF_MUST_USE ff_status ff_profile_value(char **value, const char *text, const ff_profile *section,
                                       const char *within, const char *name, bool *there,
                                       ff_error *error);

#endif
