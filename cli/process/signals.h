/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The main loop reads signals from a descriptor and never handles them asynchronously, so no
 * handler can run while a lock is half taken. The inherited signal state is kept, for the commands
 * that this process starts.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

struct inherited_signals {
    sigset_t mask;
    struct sigaction pipe, file_size, child;
    /* without the signals that the parent ignores, as nohup(1) does with HUP: they stay ignored */
    sigset_t watched;
};

/* The program begins: ignores SIGXFSZ. */
void signals_begin(void);
/* What SIGXFSZ did before: commands that the program starts get that back. */
const struct sigaction *signals_inherited_xfsz(void);
/* Blocks every signal that is passed on or waited for, ignores SIGPIPE, and sets SIGCHLD to its
 * default: a shell that ignored it would have discarded the status of our children.
 */
void signals_take(struct inherited_signals *inherited);
/* For a child before exec: restores the state in which this program was started. Async-signal-safe.
 */
void signals_restore(const struct inherited_signals *inherited);
/* A signalfd(2) of the signals that signals_take() blocked; -1 after a message. */
int signals_open(const struct inherited_signals *inherited);
/* Returns the next signal, 0 when there is none. */
int signals_next(int fd);
/* Sends a signal, as kill(2) does, to this process or to a group that it is in, and takes it with
 * the default action, although it is blocked. */
void signals_let_through(pid_t to, int signal);
/* Ends this process by the signal, when all messages are written. Leaves no core file: the memory
 * holds passwords. */
void signals_end_by(int signal);
/* Does what ^Z would have done, had signals_take() not blocked it: stops this process, unless no
 * shell could continue it (an orphaned process group, as of ssh -t). */
void signals_suspend(void);
/* Whether it is one of TERM, INT, HUP, QUIT, USR1, USR2, which are passed to a command. */
int signal_is_passed_on(int signal);

#endif
