/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The command of `redlock run` and all processes that it has started, from its start to the end of
 * the last of them: until then they may use what the lock protects. The holder is a subreaper, so
 * all of them stay below it.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <redlock.h>

#include "descent.h"
#include "outcome.h"
#include "run.h"

struct job {
    pid_t group; /* and the command's process id, until that has `exited`; 0: not started */
    int report;  /* readable when exec has succeeded or failed; -1: it has */
    bool exited; /* the command; others that it started may live */
    bool alone;  /* none of them lives */
    int status;  /* as waitpid(2) returned it */
    int64_t kill_after_ms;
    int64_t kill_at, killed_at;    /* NEVER: not yet */
    int64_t sweep_at, sweep_again; /* after KILL: the next look for what it has missed, and then */
    struct descent swept;          /* at the last signal */
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

/* Reports that the command could not be executed. Returns the exit status. */
int job_failed(const char *command, int error);
void job_init(struct job *job, int64_t kill_after_ms);
/* Forks the child that becomes the command, unless it comes to that at plan->watch->start_before or
 * later. 0, or -1 with *failed the exit status after a message. */
int job_start(struct job *job, const struct run_plan *plan, const struct grant *grant, bool lend,
              int *failed);
/* Reaps. Returns the signal that stopped the command, or 0. */
int job_reap(struct job *job);
/* Sends TERM now, and KILL --kill-after later, but not after `kill_before`: if that has passed, or
 * exec has not succeeded yet, KILL at once. Returns the signal. Once begun, it is not postponed. */
int job_end(struct job *job, int64_t kill_before);
bool job_is_ending(const struct job *job);
/* Whether the command has ended, and everything that it started. What survives KILL is given up
 * after `give_up`, when its lock is lost and its validity is over; NEVER: the lock is held. Sends
 * KILL when that is due. */
bool job_is_over(struct job *job, int64_t give_up);
/* The time of the next call of job_is_over(), if nothing happens before. */
int64_t job_due(const struct job *job);
/* The outcome of the command. `for_loss`: it was ended because the lock was lost. */
struct outcome job_outcome(const struct job *job, bool for_loss);

#endif
