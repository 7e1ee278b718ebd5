/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The terminal of this job: it is lent to the command's process group, and taken back. A job that
 * is a pipeline keeps it: its other processes, such as a pager, would be stopped when they use it.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd;      /* the controlling terminal; -1: there is none */
    bool shared; /* with other processes of the job: it is lent only to a command that needs it */
    bool lent;
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);
/* Only the foreground group can lend the terminal. */
bool terminal_may_lend(const struct terminal *terminal);
void terminal_lend(struct terminal *terminal, pid_t group);
void terminal_take(struct terminal *terminal, pid_t group);
/* `signal` has stopped the command. A command that needs a shared terminal gets it, and goes on:
 * true. Else this takes the terminal back and stops the whole job with the same
 * signal, as the kernel would have done, so that the shell shows its prompt. Returns when the job
 * continues, or at once if no shell could continue it (ssh -t, docker run -t):
 * without redlock, the kernel would not have stopped the process there either. True: the command
 * goes on. False: it must not, since the same cause would stop it again. */
bool terminal_stop_job(struct terminal *terminal, pid_t group, int signal);

#endif
