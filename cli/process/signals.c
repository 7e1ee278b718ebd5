/* SPDX-License-Identifier: BSD-2-Clause */
#include "signals.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "diagnostics.h"
#include "message.h"

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
/* TTOU and TTIN are blocked so that a process in the background may give the terminal back and
 * write its messages. */
static const int watched[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGCHLD, SIGCONT, SIGTSTP};

static void watched_set(sigset_t *set) {
    struct sigaction action;
    sigemptyset(set);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        bool ignored = sigaction(watched[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN;
        if (!ignored || watched[i] == SIGCHLD || watched[i] == SIGCONT) sigaddset(set, watched[i]);
    }
}

static struct sigaction inherited_xfsz;

const struct sigaction *signals_inherited_xfsz(void) { return &inherited_xfsz; }

void signals_begin(void) {
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignored, &inherited_xfsz); /* write(2) reports the limit: EFBIG */
}

void signals_take(struct inherited_signals *inherited) {
    watched_set(&inherited->watched);
    sigset_t blocked = inherited->watched;
    sigaddset(&blocked, SIGTTOU);
    sigaddset(&blocked, SIGTTIN);
    sigprocmask(SIG_BLOCK, &blocked, &inherited->mask);
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, &inherited->pipe);
    inherited->file_size = *signals_inherited_xfsz();
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &inherited->child);
}

void signals_restore(const struct inherited_signals *inherited) {
    sigaction(SIGPIPE, &inherited->pipe, NULL);
    sigaction(SIGXFSZ, &inherited->file_size, NULL);
    sigaction(SIGCHLD, &inherited->child, NULL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

int signals_open(const struct inherited_signals *inherited) {
    int fd = signalfd(-1, &inherited->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) complain("cannot watch for signals: %s", strerror(errno));
    return fd;
}

int signals_next(int fd) {
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info) return 0;
    return (int)info.ssi_signo;
}

void signals_let_through(pid_t to, int signal) {
    sigset_t one, before;
    struct sigaction plain = {.sa_handler = SIG_DFL}, old;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigaction(signal, &plain, &old);
    kill(to, signal);
    sigprocmask(SIG_UNBLOCK, &one, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(signal, &old, NULL);
}

void signals_end_by(int signal) {
    diagnostics_flush();
    prctl(PR_SET_DUMPABLE, 0);
    signals_let_through(getpid(), signal);
}

/* In an orphaned process group, the kernel drops TSTP, but not STOP. */
void signals_suspend(void) { signals_let_through(getpid(), SIGTSTP); }

int signal_is_passed_on(int signal) {
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        if (passed_on[i] == signal) return 1;
    }
    return 0;
}
