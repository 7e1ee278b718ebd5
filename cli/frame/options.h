/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options of a program as a table: their names, the commands that take each, and its line in
 * --help. The settings are a struct of the program's own.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "config/values.h"

struct option_entry {
    const char *name;     /* without dashes */
    int letter;           /* 0: none */
    const char *argument; /* NULL: a flag; "[VALUE]": optional */
    unsigned commands;
    /* 0, or below with the reason. `value` is NULL for a flag, and where the argument was left
     * out. */
    int (*set)(void *settings, const char *value, char *error, size_t error_size);
    const char *help; /* "VERB: ...": for that verb of the command alone (verbs.h) */
};
struct option_table {
    const struct option_entry *entries;
    size_t count;
};

#endif
