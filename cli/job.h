/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The command of `redlock run` and its process group, from its start to the end of the group's last
 * process: until then the group may use what the lock protects.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <redlock.h>

#include "outcome.h"
#include "run.h"

struct job {
    pid_t group; /* and the command's process id; 0: not started */
    bool exited; /* the command; other processes of its group may live */
    int status;  /* as waitpid(2) returned it */
    int64_t kill_after_ms;
    int64_t kill_at, give_up_at; /* NEVER: not yet */
};

/* What the environment of the command shows of its lock. */
struct grant {
    const char *nodes;
    int mode;           /* enum redlock_mode */
    const char *quorum; /* the pinned quorum; NULL: none */
    struct redlock_bytes token;
    int64_t fence; /* 0: none */
    unsigned slot; /* 0: none */
};

void job_init(struct job *job, int64_t kill_after_ms);
/* 0, or -1 with *failed the exit status after a message. */
int job_start(struct job *job, const struct run_plan *plan, const struct grant *grant, bool lend,
              int *failed);
/* Takes the status of waitpid(2). Returns the signal that stopped the command, or 0. */
int job_reaped(struct job *job, pid_t pid, int status);
/* Sends TERM now, and KILL --kill-after later, but within the remaining validity: if none is left,
 * KILL at once. Returns the signal. Once begun, it is not postponed. */
int job_end(struct job *job, int64_t validity_end);
/* Whether the last process of the group has ended, or survives KILL. Sends KILL when that is due.
 */
bool job_is_over(struct job *job);
/* The time of the next call of job_is_over(), if nothing happens before. */
int64_t job_due(const struct job *job);
/* The outcome of the command. `for_loss`: it was ended because the lock was lost. */
struct outcome job_outcome(const struct job *job, bool for_loss);

#endif
