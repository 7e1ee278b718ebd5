/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A command in a process group of its own, which dies with the process that started it.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "signals.h"

struct child_plan {
    char *const *argv;
    char *const *environment;
    const struct inherited_signals *inherited;
    int terminal; /* the terminal's descriptor if the group becomes its foreground group; else -1 */
};

/* Returns the process id, which is also the group's; or -1 after a message, with the exit status
 * (126, 127, 71) in *failed. */
pid_t child_start(const struct child_plan *plan, int *failed);

/* "cannot run 'NAME': CAUSE". ENOENT may also mean the interpreter of a script. */
void child_complain(const char *name, int error);

/* True while a member of the group lives, zombies included. */
bool group_lives(pid_t group);
void group_signal(pid_t group, int signal);
/* Ends the group with the signal. A stopped process cannot act on TERM, so it is continued. */
void group_terminate(pid_t group);

/* Returns environ with these "NAME=value" strings before it; NULL when out of memory. Free only the
 * array. */
char **environment_with(char *const *added, size_t count);

#endif
