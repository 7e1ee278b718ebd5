/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A command in a process group of its own that dies with the process that started it.
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
    int terminal; /* the terminal's descriptor when the group is to be its foreground group; else -1
                   */
};

/* The process id, also the group's; or -1 with *failed the exit status (126, 127, 71) after a
 * message. */
pid_t child_start(const struct child_plan *plan, int *failed);

/* True while a member of the group lives, zombies included. */
bool group_lives(pid_t group);
void group_signal(pid_t group, int signal);
/* Ends it for good: TERM is also told to the stopped, which cannot act on it otherwise. */
void group_terminate(pid_t group);

/* environ with these "NAME=value" strings before it; NULL when out of memory. Free the array
 * only. */
char **environment_with(char *const *added, size_t count);

#endif
