/* SPDX-License-Identifier: BSD-2-Clause */
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frame/session.h"
#include "process/boottime.h"
#include "process/child.h"
#include "process/exit_codes.h"
#include "process/message.h"

#define AFTER_KILL (1000 * MS) /* KILL needs no longer, unless a dead disk blocks a process */
#define SWEEP_TAKES (50 * MS)
#define SWEEP_FIRST (5 * MS)
#define SWEEP_MOST (1000 * MS)

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

int job_failed(const char *command, int error) {
    const int status = child_failed(command, error);
    if (error == ENOENT && strpbrk(command, " \t;&|<>$") != NULL)
        complain("run starts no shell; for a line of the shell: -c '%.200s'", command);
    return status;
}

void job_init(struct job *job, int64_t kill_after_ms) {
    *job = (struct job){.report = -1,
                        .kill_after_ms = kill_after_ms,
                        .kill_at = NEVER,
                        .killed_at = NEVER,
                        .sweep_at = NEVER};
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
    char *text[12];
    char *own_pid[3]; /* of these, those that the child completes */
    size_t count, own_pids;
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

/* A service manager names the process that may use its watchdog, or its sockets. If that is the
 * one which it has started, it is the command that is meant. */
static void put_own_pid(struct variables *to, const char *name, pid_t front) {
    static const char room[CHILD_PID_DIGITS] = "0000000000";
    const char *value = getenv(name);
    char own[24];
    snprintf(own, sizeof own, "%ld", (long)front);
    if (value == NULL || strcmp(value, own) != 0) return;
    put(to, name, room, sizeof room);
    if (!to->lacks_memory) to->own_pid[to->own_pids++] = to->text[to->count - 1];
}

static pid_t start_with(const struct run_plan *plan, bool lend, const struct variables *added,
                        int *report) {
    char **environment = environment_with(added->text, added->count);
    if (environment == NULL) return -1;
    struct child_plan child_plan = {.argv = plan->argv,
                                    .environment = environment,
                                    .inherited = plan->inherited,
                                    .terminal = lend ? plan->terminal : -1,
                                    .own_pid = added->own_pid,
                                    .start_before = &plan->watch->start_before};
    pid_t child = child_fork(&child_plan, report);
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
    put_own_pid(&added, "WATCHDOG_PID", plan->front);
    put_own_pid(&added, "LISTEN_PID", plan->front);
    *failed = EXIT_SYSTEM;
    pid_t child = added.lacks_memory ? -1 : start_with(plan, lend, &added, &job->report);
    for (size_t i = 0; i < added.count; i++) free(added.text[i]);
    if (child < 0) return -1;
    job->group = child;
    return 0;
}

int job_reap(struct job *job) {
    int status, stopped_by = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
        if (pid != job->group) continue;
        if (WIFSTOPPED(status)) {
            stopped_by = WSTOPSIG(status);
        } else {
            job->exited = true;
            job->status = status;
        }
    }
    job->alone = pid < 0 && errno == ECHILD;
    return stopped_by;
}

/* The group at once, so that none of it gets away by a fork; then the others. When the command has
 * been reaped, another group may have its number. */
static void send(struct job *job, int signal, int64_t now) {
    const pid_t group = job->exited ? 0 : job->group;
    if (signal == SIGTERM) {
        group_terminate(group);
        job->swept = descent_signal(getpid(), SIGTERM, group, NULL);
    } else {
        group_signal(group, SIGKILL);
        job->swept = descent_kill(getpid(), NULL, now + SWEEP_TAKES);
    }
}

static void send_kill(struct job *job, int64_t now) {
    job->kill_at = NEVER;
    job->killed_at = now;
    job->sweep_again = SWEEP_FIRST;
    job->sweep_at = now + job->sweep_again;
    send(job, SIGKILL, now);
}

bool job_is_ending(const struct job *job) {
    return job->kill_at != NEVER || job->killed_at != NEVER;
}

int job_end(struct job *job, int64_t kill_before) {
    if (job_is_ending(job)) return SIGTERM;
    const int64_t now = now_ns();
    job->kill_at = lesser(now + job->kill_after_ms * MS, kill_before);
    if (job->kill_at > now && job->report < 0) {
        send(job, SIGTERM, now);
        return SIGTERM;
    }
    send_kill(job, now);
    return SIGKILL;
}

bool job_is_over(struct job *job, int64_t give_up) {
    const int64_t now = now_ns();
    if (job->exited && job->alone) return true;
    if (now >= job->kill_at) send_kill(job, now);
    if (now >= job->sweep_at) {
        job->sweep_again = lesser(2 * job->sweep_again, SWEEP_MOST);
        job->sweep_at = now + job->sweep_again;
        send(job, SIGKILL, now);
    }
    return now >= give_up && job->killed_at != NEVER && now >= job->killed_at + AFTER_KILL;
}

/* SIGCHLD reports every end. */
int64_t job_due(const struct job *job) { return lesser(job->kill_at, job->sweep_at); }

struct outcome job_outcome(const struct job *job, bool for_loss) {
    struct outcome outcome = {.kind = OUTCOME_COMMAND, .command_status = -1};
    if (job->exited && WIFEXITED(job->status))
        outcome.exit = outcome.command_status = WEXITSTATUS(job->status);
    if (job->exited && WIFSIGNALED(job->status)) {
        outcome.command_signal = WTERMSIG(job->status);
        outcome.exit = EXIT_BY_SIGNAL + outcome.command_signal;
    }
    if (for_loss) {
        outcome.kind = OUTCOME_LOST;
        outcome.exit = EXIT_LOST;
    }
    return outcome;
}
