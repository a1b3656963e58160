/* The options of ffpack's commands in groups; a command's table consists of the groups that it
 * takes. Each group writes into the arguments with which it is added. */
#ifndef FF_FFPACK_OPTIONS_H
#define FF_FFPACK_OPTIONS_H

#include "format/cli/options.h"
#include "tools/ffpack/settings/settings.h"

#define FF_OPTION_TABLE_LIMIT 96

/* Zero-initialised; always ended by an empty entry. */
typedef struct ff_option_table {
    ff_option option[FF_OPTION_TABLE_LIMIT];
    size_t count;
} ff_option_table;

/* The defaults. */
ff_arguments ff_arguments_default(void);

void ff_options_add_output(ff_option_table *table, ff_arguments *arguments);
/* The heading of a command that has no output. */
void ff_options_add_check(ff_option_table *table);
void ff_options_add_append(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_source(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_split(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_samples(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_like(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_statistics(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_storage(ff_option_table *table, ff_arguments *arguments);
/* For sets behind URLs. */
void ff_options_add_remote(ff_option_table *table, ff_arguments *arguments);
void ff_options_add_shards(ff_option_table *table, ff_arguments *arguments);
/* `packs`: the command can leave out items. */
void ff_options_add_running(ff_option_table *table, ff_arguments *arguments, bool packs);
void ff_options_add_dry_run(ff_option_table *table, ff_arguments *arguments);

#endif
