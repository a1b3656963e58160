/* Options of other packers, torchvision and shells, and ffpack's equivalents. */
#ifndef FF_FFPACK_HABITS_H
#define FF_FFPACK_HABITS_H

#include "format/cli/habits.h"

/* For packing, and for `ffpack append`; each ends with an entry of names NULL. */
extern const ff_habit ff_pack_habits[];
extern const ff_habit ff_append_habits[];

#endif
