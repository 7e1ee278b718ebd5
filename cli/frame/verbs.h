/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Commands that have commands of their own, as redlock quorum has: the help of each.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stdbool.h>

#include "arguments.h"

struct verb {
    unsigned command; /* enum command_bit */
    const char *name;
    const char *synopsis; /* after "redlock COMMAND NAME [options]"; "": no operands */
    const char *summary;
    const char *example; /* a test types it */
};

/* NULL: the command has no verb of that name. */
const struct verb *verb_named(const struct command *command, const char *name);
/* The same, after a message. */
const struct verb *verb_wanted(const struct command *command, const char *name);
/* Whether the command has verbs at all. */
bool has_verbs(const struct command *command);
/* An option whose help begins with a verb and a colon is for that verb alone. Returns the help
 * without it; NULL: the option is for another verb. `verb` NULL: any. */
const char *option_help_for(const struct command *command, const struct verb *verb,
                            const char *help);
/* A line for each. */
void verbs_print(const struct command *command);

#endif
