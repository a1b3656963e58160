/* Chooses which files of a tree of folders are packed, and counts what is left out.
 *
 * Left out are folders and files whose names begin with a dot, folders called __MACOSX, what
 * --exclude names, and files that are not images: those with a known other ending (.txt, .json,
 * ...), and those with an unknown ending, or none, whose first bytes are not an image's.
 * torchvision's ImageFolder takes folders with a dot as classes, and checks only endings.
 *
 * --exclude: patterns of fnmatch(3), separated by commas. One without '/' matches the name of a
 * folder or file anywhere in the tree; one with n of them matches n + 1 consecutive names. Thread
 * rule: one thread at a time. */
#ifndef FF_FFPACK_SOURCE_CHOSEN_H
#define FF_FFPACK_SOURCE_CHOSEN_H

#include "tools/ffpack/source/class_set.h"
#include "tools/ffpack/source/left_out.h"
#include "tools/ffpack/source/names.h"

typedef struct ff_chosen {
    ff_left_out *left;    /* counts what is left out; not owned */
    ff_names pattern;     /* by --exclude */
    bool *used;           /* [pattern.count] */
    ff_class_set folders; /* that were left out */
    /* Images of kinds that are not read: how many, the first one's kind and name. */
    uint64_t unread_count;
    const char *unread_kind;
    char *unread_name;
} ff_chosen;

typedef enum ff_choice {
    FF_CHOICE_LEAVE,
    FF_CHOICE_TAKE,
    FF_CHOICE_LOOK, /* ff_chosen_content decides */
} ff_choice;

/* `exclude` may be NULL. FF_USAGE for an empty pattern. Freed also after a failure. */
FF_MUST_USE ff_status ff_chosen_open(ff_chosen *chosen, const char *exclude, ff_left_out *left,
                                     ff_error *error);
/* Whether no name on the path to a folder or file leaves it out. */
FF_MUST_USE ff_status ff_chosen_path(ff_chosen *chosen, const char *path, bool folder, bool *taken,
                                     ff_error *error);
/* The choice by a file's name. Counts nothing. */
ff_choice ff_chosen_name(const char *path);
FF_MUST_USE ff_status ff_chosen_content(ff_chosen *chosen, const char *path,
                                        const unsigned char *head, size_t head_bytes, bool *taken,
                                        ff_error *error);
/* Counts a file that is left out for its ending. */
FF_MUST_USE ff_status ff_chosen_leave(ff_chosen *chosen, const char *path, ff_error *error);
/* FF_BAD_DATA if there were images of kinds that are not read, unless `skip`; a line of `notes` for
 * every pattern that matched nothing. */
FF_MUST_USE ff_status ff_chosen_finish(const ff_chosen *chosen, const char *source, bool skip,
                                       ff_names *notes, ff_error *error);
void ff_chosen_free(ff_chosen *chosen);

#endif
