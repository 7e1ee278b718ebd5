/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The lines of a configuration file. `[NAME]` begins a section; `name = value` (or `name: value`)
 * is a value, and an indented line gives its name another one. A line that begins with '#' or ';'
 * is a comment, and so is the rest of a line from a blank and '#' or ';' on. A value may stand in
 * quotes.
 */
#ifndef RL_CONFIG_LINES_H
#define RL_CONFIG_LINES_H

#include <stdbool.h>
#include <stdio.h>

#define CONFIG_LINE_BYTES_MAX 65536 /* without its end */
#define CONFIG_NAME_BYTES_MAX 63    /* of a name that may have further values */

struct config_lines {
    FILE *file;
    int number; /* of the last line, from 1 */
    char *line; /* wiped at the end: it may hold a password */
    char name[CONFIG_NAME_BYTES_MAX + 1];
    char why[CONFIG_NAME_BYTES_MAX + 64];
};
enum config_item {
    CONFIG_END,
    CONFIG_SECTION, /* `name` */
    CONFIG_VALUE,   /* `name` and `value` */
    CONFIG_WRONG    /* `value`: why */
};

/* False: no memory. */
bool config_lines_open(struct config_lines *lines, FILE *file);
/* The texts are valid until the next call. */
enum config_item config_lines_next(struct config_lines *lines, const char **name,
                                   const char **value);
void config_lines_close(struct config_lines *lines);

#endif
