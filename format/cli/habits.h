/* Words that people know from other programs, with the words used here instead. If a command has
 * such a table (ff_command), its error for an unknown option names the word used here. Thread rule:
 * pure. */
#ifndef FF_BASE_HABITS_H
#define FF_BASE_HABITS_H

#include <stddef.h>

typedef struct ff_habit {
    const char *names; /* option names without dashes, also letters, separated by blanks */
    const char *here;  /* what follows "unknown option --NAME: "; "here it is --lr X" */
} ff_habit;

/* The table's text for the option name of `length` bytes, or NULL. An entry with names NULL ends
 * the table; `habits` may be NULL. */
const char *ff_habit_find(const ff_habit *habits, const char *name, size_t length);

/* Our word for a value of other programs (u8 for uint8), if it is among `choices` ("a|b|c"); else
 * NULL. */
const char *ff_habit_value(const char *value, const char *choices);

#endif
