/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Signals are read from a descriptor, in a loop, and never handled asynchronously: there is no
 * moment at which a handler could find a lock half taken. What the process inherited is kept, for
 * the commands it starts.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

struct inherited_signals {
    sigset_t mask;
    struct sigaction pipe, file_size, child;
    sigset_t
        watched; /* not what our caller ignores, as nohup(1) does with HUP: that stays ignored */
};

/* Blocks all that is passed on or waited for, SIGPIPE and SIGXFSZ ignored, SIGCHLD as by default (a
 * shell that ignored it would have taken our children's status away). */
void signals_take(struct inherited_signals *inherited);
/* For a child about to exec: everything as it was before signals_take(). Async-signal-safe. */
void signals_restore(const struct inherited_signals *inherited);
/* A signalfd(2) of what signals_take() blocked; -1 after a message. */
int signals_open(const struct inherited_signals *inherited);
/* The next signal, 0 when there is none. */
int signals_next(int fd);
/* Of TERM, INT, HUP, QUIT, USR1, USR2: those a command is passed. */
int signal_is_passed_on(int signal);

#endif
