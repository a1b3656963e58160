/* The library's options, as parsed. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_OPTIONS_H
#define FF_LOADER_LIBRARY_OPTIONS_H

#include "loader/gpu/batches.h"
#include "loader/library/views.h"

#include <ffload/ffload.h>

/* An incomplete last batch is smaller than the others, or has padding (option last_batch). */
typedef enum ff_library_last { FF_LIBRARY_DROP, FF_LIBRARY_KEEP, FF_LIBRARY_PAD } ff_library_last;

enum { FF_LIBRARY_LABELS_MOST = 64, FF_LIBRARY_CPU = -1 };

/* Options in the loader's form. Owned strings. */
typedef struct ff_library_settings {
    ff_loader_options loader; /* points into this struct, which must not move */
    ff_library_last last;
    int ordinal; /* a GPU's number, or FF_LIBRARY_CPU */
    ff_placement placement;
    uint64_t reserve_bytes;
    ffload_check *check; /* NULL = none */
    void *context;
    char *names;                 /* what label points to */
    ff_selection selection;      /* loader.selection points to it; zeroed = all samples */
    ff_weights weights, classes; /* as loader.weights and loader.classes */
    ff_shares shares;            /* as loader.shares */
    const char *label[FF_LIBRARY_LABELS_MOST];
    ff_library_views views; /* loader.groups are its groups after the first */
} ff_library_settings;

/* For samples of `dataset`. NULL options: the defaults. On failure there is nothing to free. */
FF_MUST_USE ff_status ff_library_settings_init(ff_library_settings *settings,
                                               const ffload_options *options, ff_dataset *dataset,
                                               ff_error *error);
void ff_library_settings_free(ff_library_settings *settings);

ff_verify ff_library_options_verify(const ffload_options *options);
/* The storage options for the sets at these paths; the texts belong to the options. FF_USAGE if an
 * option has no effect. */
FF_MUST_USE ff_status ff_library_options_storage(const ffload_options *options,
                                                 const char *const *paths, size_t count,
                                                 ff_storage_options *storage, ff_error *error);

#endif
