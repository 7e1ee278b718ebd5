/* SPDX-License-Identifier: BSD-2-Clause */
#include "terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "signals.h"

/* ksh93 makes its pipes of sockets. */
static bool is_pipe(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode));
}

void terminal_open(struct terminal *terminal) {
    /* Not standard input: that may be a pipe or a file although the job has a terminal. */
    *terminal = (struct terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY),
                                  .shared = is_pipe(STDIN_FILENO) || is_pipe(STDOUT_FILENO)};
}

void terminal_close(struct terminal *terminal) {
    if (terminal->fd >= 0) close(terminal->fd);
    terminal->fd = -1;
}

static bool is_ours(const struct terminal *terminal) {
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool terminal_may_lend(const struct terminal *terminal) {
    return !terminal->shared && is_ours(terminal);
}

void terminal_lend(struct terminal *terminal, pid_t group) {
    terminal->lent = tcsetpgrp(terminal->fd, group) == 0;
}

void terminal_take(struct terminal *terminal, pid_t group) {
    /* Only from the command: a shell that has moved on to another job keeps it. */
    if (terminal->lent && (group <= 0 || tcgetpgrp(terminal->fd) == group))
        tcsetpgrp(terminal->fd, getpgrp());
    terminal->lent = false;
}

bool terminal_stop_job(struct terminal *terminal, pid_t group, int signal) {
    if (terminal->shared && (signal == SIGTTIN || signal == SIGTTOU) && is_ours(terminal)) {
        terminal->shared = false;
        return true;
    }
    terminal_take(terminal, group);
    if (signal == SIGSTOP) {
        raise(SIGSTOP);
    } else {
        signals_let_through(0, signal);
    }
    /* The SIGCONT that ended the stop is blocked, so it is pending. In an orphaned process group
     * nothing stopped. */
    sigset_t resumed;
    sigemptyset(&resumed);
    sigaddset(&resumed, SIGCONT);
    const struct timespec at_once = {0};
    bool stopped = sigtimedwait(&resumed, NULL, &at_once) == SIGCONT;
    return stopped || signal == SIGTSTP;
}
