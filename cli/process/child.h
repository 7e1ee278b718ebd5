/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A command in a process group of its own, which dies with the process that started it.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "signals.h"

enum { CHILD_PID_DIGITS = 10 }; /* room for a process id */

struct child_plan {
    char *const *argv;
    char *const *environment;
    const struct inherited_signals *inherited;
    int terminal; /* the terminal's descriptor if the group becomes its foreground group; else -1 */
    /* Variables of the environment: the child puts its process id after the '='. NULL ends them. */
    char *const *own_pid;
    /* In shared memory: from this time on (now_ns()) the child does not start; NULL: any time. */
    const _Atomic int64_t *start_before;
    /* A pipe; NULL: none. The child writes its group's number to it before the command starts. So
     * the reader can end the command even if this process is killed at once. */
    const int *group_to;
};

enum {
    CHILD_PENDING = -1, /* exec has neither succeeded nor failed yet: it may take long */
    CHILD_TOO_LATE = -2 /* `start_before` had passed */
};

/* Returns the process id, which is also the group's, before exec; *report is for child_report().
 * Or -1 after a message. */
pid_t child_fork(const struct child_plan *plan, int *report);
/* 0: the command runs, or the child was killed before it did; else CHILD_... or the errno of exec.
 * Never waits. The descriptor becomes readable when it is known; then it is closed and -1. */
int child_report(int *report);
/* 0, or the errno that exec would have for this program: the file is not there, say. What it needs
 * to start, such as an interpreter, is not looked for. */
int child_look(const char *name);
/* "cannot run 'NAME': CAUSE". Returns the exit status: 126 or 127. */
int child_failed(const char *name, int error);

/* Both, for a caller that can wait. Returns the process id, or -1 after a message, with the exit
 * status (126, 127, 71) in *failed. */
pid_t child_start(const struct child_plan *plan, int *failed);

/* True while a member of the group lives, zombies included. */
bool group_lives(pid_t group);
/* False: no member may be signalled. */
bool group_signal(pid_t group, int signal);
/* Ends the group with the signal. A stopped process cannot act on TERM, so it is continued. */
void group_terminate(pid_t group);

/* Returns environ with these "NAME=value" strings before it; NULL when out of memory. Free only the
 * array. */
char **environment_with(char *const *added, size_t count);

#endif
