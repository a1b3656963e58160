/* The options of sets behind URLs, for a program's table (format/cli/options.h, which the program
 * includes): each is a row called `name` whose target is a field of `to`, an ff_storage_options.
 * `says` is FF_SAYS_SENTENCE or FF_SAYS_PHRASE, as the other helps of the table are. */
#ifndef FF_STORAGE_OPTIONS_H
#define FF_STORAGE_OPTIONS_H

#include "format/storage/storage.h"

#define FF_SAYS_SENTENCE(big, small, rest) big rest "."
#define FF_SAYS_PHRASE(big, small, rest)   small rest

#define FF_STORAGE_HEADING "Sets behind URLs"
#define FF_STORAGE_CACHE(name, to, says)                                                           \
    {                                                                                              \
        name, 0, FF_OPTION_STRING, "DIR", &(to).cache, NULL, 0, 0,                                 \
            says("F", "f",                                                                         \
                 "older of what is fetched from URLs, on a local disk, shared by all runs of the " \
                 "machine (default: FFPACK_CACHE, or ffpack in $XDG_CACHE_HOME or ~/.cache)")      \
    }
#define FF_STORAGE_CACHE_SIZE(name, to, says)                                                      \
    {                                                                                              \
        name, 0, FF_OPTION_BYTES, "SIZE", &(to).cache_bytes, NULL, 4 << 20, 1e18,                  \
            says("M", "m",                                                                         \
                 "ost that --cache may have, as in 200G (default: FFPACK_CACHE_SIZE, or half of "  \
                 "the space that is free or that the cache has)")                                  \
    }
#define FF_STORAGE_TIMEOUT(name, to, says)                                                         \
    {                                                                                              \
        name, 0, FF_OPTION_INTEGER, "SECONDS", &(to).timeout_s, NULL, 1, 1e6,                      \
            says(                                                                                  \
                "S", "s",                                                                          \
                "econds without a byte from a server, after which a request fails (default: 300; " \
                "15 if the server has never answered)")                                            \
    }
#define FF_STORAGE_ENDPOINT(name, to, says)                                                        \
    {                                                                                              \
        name, 0, FF_OPTION_STRING, "URL", &(to).endpoint, NULL, 0, 0,                              \
            says("S", "s",                                                                         \
                 "erver of s3:// and gs:// URLs, as http://127.0.0.1:9000 of MinIO (default: "     \
                 "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, or the cloud's own)")      \
    }

/* All of them, for a program that needs nothing else of a row. */
#define FF_STORAGE_ROWS(to, says)                                                                  \
    FF_STORAGE_CACHE("cache", to, says), FF_STORAGE_CACHE_SIZE("cache-size", to, says),            \
        FF_STORAGE_TIMEOUT("storage-timeout", to, says), FF_STORAGE_ENDPOINT("endpoint", to, says)

#endif
