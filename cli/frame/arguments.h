/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of commands; getopt_long() reads their command lines from a table of options.
 */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "settings.h"

struct command {
    const char *name;
    unsigned bit;
    const char *synopsis; /* after "redlock NAME" */
    const char *summary;
    const char *example; /* a test types it */
    /* options end at the first operand: the rest is the command line of another program */
    bool runs_another;
    /* argv[0..argc) are the operands. Returns the exit status. */
    int (*main)(struct settings *settings, int argc, char **argv);
    /* With --json: reports that the configuration keeps main from being called. NULL: it has no
     * JSON. */
    void (*refuse)(const struct settings *settings, int status, int argc, char **argv);
};

/* Reads the options after the command's name into the settings that the table is for. Returns the
 * index of the first operand, or -1 after a message. */
int arguments_read(const struct command *command, const struct option_table *table, void *settings,
                   int argc, char **argv);
/* The command line of another program, which follows operands[0], the `what` of the command
 * `name`. NULL after a message. */
char **arguments_command(const struct settings *settings, const char *name, const char *what,
                         char **operands);
/* `verb` NULL: of the command as a whole; else the name of one of its verbs (verbs.h). An unknown
 * one counts as NULL. */
void arguments_help(const struct command *command, const struct option_table *table,
                    const char *verb);

#endif
