/* SPDX-License-Identifier: BSD-2-Clause */
#include "janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/boottime.h"
#include "process/diagnostics.h"
#include "process/message.h"

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status;
    (void)type;
    (void)walk;
    remove(path);
    return 0; /* continue: the next pass retries files still in use */
}

/* A server that is being killed may still create its log: so there are several passes. */
static void remove_tree(const char *directory) {
    for (int i = 0; i < 200; i++) {
        nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        if (access(directory, F_OK) != 0) return;
        pause_ms(10);
    }
    complain("cannot remove %s", directory);
}

static _Noreturn void watch(int pipe, const char *directory, bool remove) {
    prctl(PR_SET_NAME, "redlock-janitor");
    setpgid(0, 0);
    sigset_t all;
    sigfillset(&all);
    /* C ends the others; the janitor must outlive them */
    sigprocmask(SIG_BLOCK, &all, NULL);
    /* A pipe on standard output must close when `redlock up` dies, not when the janitor does. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    pid_t group = 0, reported;
    ssize_t got;
    while ((got = read(pipe, &reported, sizeof reported)) != 0) {
        if (got == (ssize_t)sizeof reported) group = reported;
        if (got < 0 && errno != EINTR) break;
    }
    if (group > 0) kill(-group, SIGKILL);
    kill(0, SIGTERM); /* our group: the servers. They have PDEATHSIG as well; this one is blocked
                         here */
    if (remove) remove_tree(directory);
    diagnostics_flush();
    _exit(0);
}

int janitor_start(struct janitor *janitor, const char *directory, bool remove) {
    int ends[2];
    janitor->directory = directory;
    janitor->removes = remove;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        complain("cannot start: %s", strerror(errno));
        return -1;
    }
    janitor->pid = fork();
    if (janitor->pid == 0) {
        close(ends[1]);
        watch(ends[0], directory, remove);
    }
    int error = errno;
    close(ends[0]);
    janitor->pipe = ends[1];
    if (janitor->pid > 0) {
        setpgid(janitor->pid, janitor->pid);
        return 0;
    }
    close(ends[1]);
    complain("cannot start: %s", strerror(error));
    return -1;
}

void janitor_finish(struct janitor *janitor) {
    int status = -1; /* reaped before: it was killed */
    const pid_t none = 0;
    ssize_t written = write(janitor->pipe, &none, sizeof none);
    (void)written; /* it fails only if the janitor was killed */
    close(janitor->pipe);
    while (waitpid(janitor->pid, &status, 0) < 0 && errno == EINTR) continue;
    if (status == 0) return;
    kill(-janitor->pid, SIGTERM);
    if (janitor->removes) remove_tree(janitor->directory);
}
