/* Words that people know from other programs, and ours in their place. A command that has a table
 * of them (ff_command) refuses an unknown option with what it is called here. Thread rule: pure. */
#ifndef FF_BASE_HABITS_H
#define FF_BASE_HABITS_H

#include <stddef.h>

typedef struct ff_habit {
    const char *names; /* options without their dashes, also letters, with blanks between */
    const char *here;  /* what follows "unknown option --NAME: "; "here it is --lr X" */
} ff_habit;

/* The text that the table has for the option name of `length` bytes, or NULL. An entry of names
 * NULL ends the table; `habits` may be NULL. */
const char *ff_habit_find(const ff_habit *habits, const char *name, size_t length);

/* Our word for a value of other programs, where `choices` ("a|b|c") has it: u8 for uint8; else
 * NULL. */
const char *ff_habit_value(const char *value, const char *choices);

#endif
