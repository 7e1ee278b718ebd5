/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The terminal of the job we are: lent to the command's process group, and taken back.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int fd; /* the controlling terminal; -1: there is none */
    bool lent;
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);
/* Whether our own group is the foreground group: only then is the terminal ours to lend. */
bool terminal_is_ours(const struct terminal *terminal);
void terminal_lend(struct terminal *terminal, pid_t group);
void terminal_take(struct terminal *terminal, pid_t group);
/* The command was stopped by `signal`: takes the terminal back and stops our whole job with the
 * same signal, as the kernel would have done, so that the shell gives its prompt. Returns when
 * continued, or at once when there is no shell that could continue us (ssh -t, docker run -t):
 * there a process without us would not have been stopped either. True when the command is to go on;
 * false when it must not, since it would be stopped for the same reason again. */
bool terminal_stop_job(struct terminal *terminal, pid_t group, int signal);

#endif
