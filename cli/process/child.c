/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boottime.h"
#include "exit_codes.h"
#include "message.h"
#include "path.h"

static void write_pid(char *variable, pid_t pid) {
    char digits[CHILD_PID_DIGITS], *to = strchr(variable, '=') + 1;
    size_t count = 0;
    for (; pid > 0 && count < sizeof digits; pid /= 10) digits[count++] = (char)('0' + pid % 10);
    while (count > 0) *to++ = digits[--count];
    *to = '\0';
}

/* Between fork and exec: async-signal-safe calls only. */
static _Noreturn void become(const struct child_plan *plan, pid_t parent, int report) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* the parent died before prctl() took effect */
    if (getppid() != parent) _exit(EXIT_CANNOT_RUN);
    if (plan->terminal >= 0)
        tcsetpgrp(plan->terminal, getpid()); /* SIGTTOU is still blocked here */
    const pid_t group = getpid();
    /* SIGPIPE is still ignored here: its reader may have been killed */
    ssize_t written = plan->group_to ? write(*plan->group_to, &group, sizeof group) : 0;
    signals_restore(plan->inherited);
    for (size_t i = 0; plan->own_pid != NULL && plan->own_pid[i] != NULL; i++)
        write_pid(plan->own_pid[i], group);
    int error = CHILD_TOO_LATE;
    if (plan->start_before == NULL || now_ns() < *plan->start_before) {
        execvpe(plan->argv[0], plan->argv, plan->environment);
        error = errno;
    }
    written = write(report, &error, sizeof error);
    (void)written;
    _exit(EXIT_CANNOT_RUN);
}

int child_look(const char *name) {
    char file[PATH_MAX];
    return find_in_path(name, file, sizeof file);
}

int child_failed(const char *name, int error) {
    complain("cannot run '%s': %s", name,
             error == ENOENT && child_look(name) == 0
                 ? "the interpreter that its first line names is missing"
                 : strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

pid_t child_fork(const struct child_plan *plan, int *report) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        complain("cannot start '%s': %s", plan->argv[0], strerror(errno));
        return -1;
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) become(plan, parent, ends[1]);
    int error = errno;
    close(ends[1]);
    if (child > 0) {
        /* both sides do this: whichever is first, it is done before either continues */
        setpgid(child, child);
        *report = ends[0];
        return child;
    }
    close(ends[0]);
    complain("cannot start '%s': %s", plan->argv[0], strerror(error));
    return -1;
}

int child_report(int *report) {
    int error = 0;
    ssize_t got;
    do {
        got = read(*report, &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) return CHILD_PENDING;
    close(*report);
    *report = -1;
    return got == (ssize_t)sizeof error ? error : 0; /* exec closed the pipe: nothing to read */
}

pid_t child_start(const struct child_plan *plan, int *failed) {
    int report, error;
    *failed = EXIT_SYSTEM;
    pid_t child = child_fork(plan, &report);
    if (child < 0) return -1;
    struct pollfd known = {.fd = report, .events = POLLIN};
    while ((error = child_report(&report)) == CHILD_PENDING) poll(&known, 1, -1);
    if (error == 0) return child;
    *failed = child_failed(plan->argv[0], error);
    waitpid(child, NULL, 0);
    return -1;
}

bool group_lives(pid_t group) { return group > 0 && (kill(-group, 0) == 0 || errno != ESRCH); }

bool group_signal(pid_t group, int signal) {
    return group <= 0 || kill(-group, signal) == 0 || errno == ESRCH;
}

void group_terminate(pid_t group) {
    group_signal(group, SIGTERM);
    group_signal(group, SIGCONT);
}

extern char **environ;

static bool is_replaced(const char *variable, char *const *added, size_t count) {
    size_t name = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(variable, added[i], name) == 0) return true;
    }
    return false;
}

char **environment_with(char *const *added, size_t count) {
    size_t kept = 0;
    for (char **variable = environ; *variable != NULL; variable++) kept++;
    char **all = calloc(kept + count + 1, sizeof *all);
    if (all == NULL) return NULL;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) all[used++] = added[i];
    for (char **variable = environ; *variable != NULL; variable++) {
        if (!is_replaced(*variable, added, count)) all[used++] = *variable;
    }
    return all;
}
