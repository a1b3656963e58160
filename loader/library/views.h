/* The option views. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_VIEWS_H
#define FF_LOADER_LIBRARY_VIEWS_H

#include "loader/gpu/batches.h"

enum { FF_LIBRARY_NAME_MOST = 64 };

/* Groups of views. Zeroed: the option is not set. */
typedef struct ff_library_views {
    char *words; /* what the next two point to; NULL: the option is a number, and both are NULL */
    size_t count;
    const char *name[FF_VIEWS_MOST], *augment[FF_VIEWS_MOST];
    ff_loader_group group[FF_VIEWS_MOST];
} ff_library_views;

/* Reads "2", or groups as in "global 2 rrc=224,flip; local 6 rrc=96:0.05-0.4,flip": after the name
 * and the number of views their augmentation, and if wanted their size HxW. text NULL: zeroed. */
FF_MUST_USE ff_status ff_library_views_parse(ff_library_views *views, const char *text,
                                             ff_error *error);
void ff_library_views_free(ff_library_views *views);

/* "224x224" as two sides; both 0 for NULL. option: for the message. */
FF_MUST_USE ff_status ff_library_parse_size(const char *option, const char *text, uint32_t *height,
                                            uint32_t *width, ff_error *error);
/* Whole numbers up to `most`, with `mark` between them. */
bool ff_library_parse_numbers(const char *text, char mark, unsigned long most,
                              unsigned long *number, int count);

#endif
