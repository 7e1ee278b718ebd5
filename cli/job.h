/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The command of `redlock run` and its process group: from its start to the end of the last of the
 * group, for what the lock protects is in use until then.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <redlock.h>

#include "outcome.h"
#include "run.h"

struct job {
    pid_t group; /* and the command's process id; 0: not started */
    bool exited; /* the command; others of its group may live */
    int status;  /* as waitpid(2) told it */
    int64_t kill_after_ms;
    int64_t kill_at, give_up_at; /* NEVER: not yet */
};

/* What the command is told of its lock, by its environment. */
struct grant {
    const char *nodes;
    int mode;           /* enum redlock_mode */
    const char *quorum; /* the one that is pinned; NULL: none */
    struct redlock_bytes token;
    int64_t fence; /* 0: there is none */
};

void job_init(struct job *job, int64_t kill_after_ms);
/* 0, or -1 with *failed the exit status after a message. */
int job_start(struct job *job, const struct run_plan *plan, const struct grant *grant, bool lend,
              int *failed);
/* What waitpid(2) says; the signal that stopped the command, or 0. */
int job_reaped(struct job *job, pid_t pid, int status);
/* TERM now, KILL --kill-after later, but inside what is left of the validity; where nothing is
 * left, --kill-after alone counts. Once begun it is not put off. */
void job_end(struct job *job, int64_t validity_end);
/* Whether the last of the group is gone, or is beyond KILL. Kills when that is due. */
bool job_is_over(struct job *job);
/* When job_is_over() is next to be asked, if nothing happens before. */
int64_t job_due(const struct job *job);
/* How the command ended. `for_loss`: because of the lock. */
struct outcome job_outcome(const struct job *job, bool for_loss);

#endif
