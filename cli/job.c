/* SPDX-License-Identifier: BSD-2-Clause */
#include "job.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "boottime.h"
#include "child.h"
#include "session.h"
#include "exit_codes.h"

/* members of the group that are not children of this process die without a signal */
#define GROUP_TICK (20 * MS)
#define AFTER_KILL (1000 * MS) /* KILL needs no longer, unless a dead disk blocks a process */

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

void job_init(struct job *job, int64_t kill_after_ms) {
    *job = (struct job){.kill_after_ms = kill_after_ms, .kill_at = NEVER, .give_up_at = NEVER};
}

/* "NAME=bytes". Our tokens contain no NUL: only digits, and an owner that came as a string. */
static char *variable(const char *name, const void *bytes, size_t count) {
    size_t head = strlen(name);
    char *text = malloc(head + count + 2);
    if (text == NULL) return NULL;
    memcpy(text, name, head);
    text[head] = '=';
    memcpy(text + head + 1, bytes, count);
    text[head + 1 + count] = '\0';
    return text;
}

struct variables {
    char *text[8];
    size_t count;
    bool lacks_memory;
};

static void put(struct variables *to, const char *name, const void *bytes, size_t count) {
    char *text = variable(name, bytes, count);
    if (text == NULL)
        to->lacks_memory = true;
    else
        to->text[to->count++] = text;
}

/* Inherited values would belong to another lock, or to another quorum. */
static void put_or_unset(struct variables *to, const char *name, const char *value) {
    if (value != NULL)
        put(to, name, value, strlen(value));
    else
        unsetenv(name);
}

static pid_t start_with(const struct run_plan *plan, bool lend, char *const *added, size_t count,
                        int *failed) {
    char **environment = environment_with(added, count);
    if (environment == NULL) return -1;
    struct child_plan child_plan = {.argv = plan->argv,
                                    .environment = environment,
                                    .inherited = plan->inherited,
                                    .terminal = lend ? plan->terminal : -1};
    pid_t child = child_start(&child_plan, failed);
    free(environment);
    return child;
}

int job_start(struct job *job, const struct run_plan *plan, const struct grant *grant, bool lend,
              int *failed) {
    char fence[24], slot[24], *name = slot_name(plan->resource, grant->slot);
    struct variables added = {.count = 0};
    snprintf(fence, sizeof fence, "%" PRId64, grant->fence);
    snprintf(slot, sizeof slot, "%u", grant->slot);
    added.lacks_memory = name == NULL;
    if (name != NULL) put(&added, "REDLOCK_RESOURCE", name, strlen(name));
    free(name);
    put(&added, "REDLOCK_TOKEN", grant->token.data,
        grant->token.data != NULL ? grant->token.bytes : 0);
    put(&added, "REDLOCK_NODES", grant->nodes, strlen(grant->nodes));
    put(&added, "REDLOCK_MODE", mode_name(grant->mode), strlen(mode_name(grant->mode)));
    put_or_unset(&added, "REDLOCK_SLOT", grant->slot > 0 ? slot : NULL);
    put_or_unset(&added, "REDLOCK_FENCE", grant->fence > 0 ? fence : NULL);
    /* a lock that a leader's command takes leaves the leader's term as it is */
    if (plan->elects) put_or_unset(&added, "REDLOCK_TERM", grant->fence > 0 ? fence : NULL);
    put_or_unset(&added, "REDLOCK_QUORUM", grant->quorum);
    put_or_unset(&added, "REDLOCK_PROFILE", plan->settings->profile);
    *failed = EXIT_SYSTEM;
    pid_t child = added.lacks_memory ? -1 : start_with(plan, lend, added.text, added.count, failed);
    for (size_t i = 0; i < added.count; i++) free(added.text[i]);
    if (child < 0) return -1;
    job->group = child;
    return 0;
}

int job_reaped(struct job *job, pid_t pid, int status) {
    if (pid != job->group) return 0;
    if (WIFSTOPPED(status)) return WSTOPSIG(status);
    job->exited = true;
    job->status = status;
    return 0;
}

int job_end(struct job *job, int64_t validity_end) {
    if (job->kill_at != NEVER || job->give_up_at != NEVER) return SIGTERM;
    const int64_t now = now_ns();
    job->kill_at = lesser(now + job->kill_after_ms * MS, validity_end);
    if (job->kill_at > now) {
        group_terminate(job->group);
        return SIGTERM;
    }
    group_signal(job->group, SIGKILL);
    job->kill_at = NEVER;
    job->give_up_at = now + AFTER_KILL;
    return SIGKILL;
}

bool job_is_over(struct job *job) {
    int64_t now = now_ns();
    if (now >= job->kill_at) {
        job->kill_at = NEVER;
        job->give_up_at = now + AFTER_KILL;
        group_signal(job->group, SIGKILL);
    }
    return job->exited && (!group_lives(job->group) || now >= job->give_up_at);
}

int64_t job_due(const struct job *job) {
    /* SIGCHLD reports the late end of a command that KILL did not end at once; the others are not
     * given up sooner. */
    if (!job->exited) return job->kill_at;
    return lesser(lesser(job->kill_at, job->give_up_at), now_ns() + GROUP_TICK);
}

struct outcome job_outcome(const struct job *job, bool for_loss) {
    struct outcome outcome = {.kind = OUTCOME_COMMAND, .command_status = -1};
    if (WIFEXITED(job->status)) outcome.exit = outcome.command_status = WEXITSTATUS(job->status);
    if (WIFSIGNALED(job->status)) {
        outcome.command_signal = WTERMSIG(job->status);
        outcome.exit = EXIT_BY_SIGNAL + outcome.command_signal;
    }
    if (for_loss) {
        outcome.kind = OUTCOME_LOST;
        outcome.exit = EXIT_LOST;
    }
    return outcome;
}
