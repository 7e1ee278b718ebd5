/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The holder of `redlock run`: the lock, the command, and the end of both. One thread, one loop.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock.h>
#include <redlock/metrics.h>

#include "explain/failure.h"
#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "explain/waiting.h"
#include "config/duration.h"
#include "frame/session.h"
#include "job.h"
#include "keep.h"
#include "metrics_file.h"
#include "process/boottime.h"
#include "process/child.h"
#include "process/diagnostics.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "run.h"

/* Reports that no node answers: an endless wait must show its cause. */
#define REPORT_ANYBODY_AFTER (2000 * MS)
#define REPORT_AFTER                                                                               \
    (500 * MS) /* with -v: reports the holder, if the lock is not acquired at once */
#define REPORT_AGAIN (10000 * MS)
#define CHECK_MS 2000          /* a question to nodes of which some are down */
#define FRONT_AGAIN (200 * MS) /* whether it is stopped */
#define KILL_TAKES (50 * MS)   /* to find all processes, and until they are gone */
#define REPORT_REST_AFTER (1000 * MS)

enum phase {
    PHASE_WAITING,  /* for the lock */
    PHASE_FAILED,   /* to take it: the reason is not reported yet */
    PHASE_TAKEN,    /* for the front's note to start */
    PHASE_ASIDE,    /* for the front to continue, without the lock */
    PHASE_STARTING, /* the child is there, exec has neither succeeded nor failed */
    PHASE_RUNNING,
    PHASE_ENDING,  /* the command has ended, others that it started have not */
    PHASE_KEEPING, /* all of them have, and --min-hold is not over */
    PHASE_RELEASING,
    PHASE_DONE
};

struct holder {
    const struct run_plan *plan;
    const struct settings *settings;
    struct session session;
    struct redlock_lock *lock;
    enum phase phase;
    int signal_fd;
    bool front_gone, lost, unsure, shut_out, stop_reported, warned, mode_checked, refusal_reported;
    bool never_ran;    /* the lock was lost while the command started */
    bool asked_to_end; /* by a signal that was passed on */
    int cancelled_by;  /* a signal, while no command ran */
    struct job job;
    struct keep keep;
    struct wait_line line;
    struct outcome outcome;
    int64_t validity_end; /* the last proved value; the library's is 0 once the lock is lost */
    int64_t report_at;    /* WAITING: on the wait; ENDING: on what has not ended */
    int64_t front_at;     /* TAKEN, ASIDE: the next look at the front */
    int64_t wait_until;   /* by CLOCK_BOOTTIME; NEVER: no limit */
    int64_t fence;
    char loss[600];                 /* why the lock was lost; "": it was not */
    int lost_by[REDLOCK_NODES_MAX]; /* the verdicts that `loss` tells of: the release has others */
    int failure;                    /* FAILED: enum redlock_result */
    int unsure_by[REDLOCK_NODES_MAX]; /* the verdicts of the renewal that failed last */
};

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static void set_outcome(struct holder *holder, enum outcome_kind kind, int status) {
    holder->outcome = (struct outcome){.kind = kind, .exit = status, .command_status = -1};
}

static void set_cancelled(struct holder *holder) {
    set_outcome(holder, OUTCOME_CANCELLED,
                EXIT_BY_SIGNAL + (holder->cancelled_by != 0 ? holder->cancelled_by : SIGKILL));
}

/* ---- the end ---------------------------------------------------------------------------- */

static void released(void *context, struct redlock_lock *lock, int result) {
    struct holder *holder = context;
    holder->phase = PHASE_DONE;
    if (result == REDLOCK_LOST && !holder->lost) {
        redlock_verdicts(lock, holder->lost_by, REDLOCK_NODES_MAX);
        session_loss(&holder->session, lock, holder->lost_by, holder->loss, sizeof holder->loss);
        complain("lost '%.100s': %s; noticed when it was released", holder->plan->resource,
                 holder->loss);
        if (!holder->settings->run.on_lost_ignore && holder->outcome.kind == OUTCOME_COMMAND) {
            holder->outcome.kind = OUTCOME_LOST;
            holder->outcome.exit = EXIT_LOST;
        }
    } else if (result == REDLOCK_NO_QUORUM && !holder->settings->quiet) {
        int verdicts[REDLOCK_NODES_MAX] = {0};
        const size_t count = redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX);
        char causes[600] = "";
        bool denied = false;
        for (size_t i = 0; i < count; i++) denied |= verdicts[i] == REDLOCK_VERDICT_NOPERM;
        if (denied) session_loss(&holder->session, lock, verdicts, causes, sizeof causes);
        complain("the lock could not be released on all nodes; what is left of it ends with its "
                 "TTL%s%s",
                 denied ? ": " : "", causes);
    }
}

/* A lock that must end sooner than its TTL is taken for that time only: no renewal could shorten
 * it. */
static int64_t ttl_ms(const struct settings *settings) {
    return settings->run.max_hold_ms > 0 ? lesser(settings->ttl_ms, settings->run.max_hold_ms)
                                         : settings->ttl_ms;
}

static bool has_job(const struct holder *holder) {
    return holder->phase == PHASE_STARTING || holder->phase == PHASE_RUNNING ||
           holder->phase == PHASE_ENDING;
}

/* TERM comes early enough that KILL, --kill-after later, still falls inside the validity; half the
 * TTL is for renewal. */
static int64_t lost_margin_ms(const struct settings *settings) {
    int64_t grace =
        settings->run.grace_ms >= 0 ? settings->run.grace_ms : settings->kill_after_ms + 1000;
    int64_t margin = grace > settings->kill_after_ms ? grace : settings->kill_after_ms;
    return lesser(margin, ttl_ms(settings) / 2);
}

/* When KILL is sent at the latest: what it ends has ended when the validity does. */
static int64_t kill_before(const struct holder *holder) {
    return holder->validity_end - lesser(KILL_TAKES, ttl_ms(holder->settings) * MS / 20);
}

/* For the front, which ends the command if this process cannot, and for the child, which starts it.
 */
static void show_validity(const struct holder *holder) {
    struct run_watch *watch = holder->plan->watch;
    /* From the first note to the front on: this process may stand still before the next one. */
    const bool watches = (has_job(holder) || holder->phase == PHASE_TAKEN) &&
                         !holder->settings->run.on_lost_ignore && holder->job.killed_at == NEVER;
    watch->kill_at = watches ? kill_before(holder) : NEVER;
    watch->kill_stopped_at =
        watches ? holder->validity_end - ttl_ms(holder->settings) * MS / 10 : NEVER;
    watch->start_before =
        holder->lost ? 0 : holder->validity_end - lost_margin_ms(holder->settings) * MS;
}

static void begin_release(struct holder *holder) {
    holder->phase = PHASE_RELEASING;
    show_validity(holder);
    int result = redlock_release_start(holder->lock, released, holder);
    if (result != REDLOCK_OK) released(holder, holder->lock, result);
}

/* Of a lock that the command may do without, an end that is past ends nothing. */
static void end_job(struct holder *holder) {
    const bool past = holder->settings->run.on_lost_ignore && holder->validity_end <= now_ns();
    job_end(&holder->job, past ? NEVER : kill_before(holder));
}

/* What a signal was refused for is never reported as ended. */
static void report_refused(struct holder *holder) {
    const struct descent *swept = &holder->job.swept;
    char whom[100];
    if (swept->refused == 0 || holder->refusal_reported) return;
    holder->refusal_reported = true;
    complain("cannot end %s: %s; %s", descent_text(swept, swept->refused, whom, sizeof whom),
             strerror(swept->error),
             holder->lost ? "it goes on without the lock" : "the lock is kept until it ends");
}

/* As with flock(1), what a command leaves running keeps the lock; but it ends with a command that
 * was ended. */
static void on_command_ended(struct holder *holder) {
    holder->phase = PHASE_ENDING;
    holder->plan->watch->group = 0;
    holder->report_at = now_ns() + REPORT_REST_AFTER;
    note_send(holder->plan->socket, NOTE_ENDED, 0, NULL);
    if (holder->asked_to_end || WIFSIGNALED(holder->job.status)) end_job(holder);
}

static void report_rest(struct holder *holder) {
    char whom[100];
    if (now_ns() < holder->report_at) return;
    holder->report_at = NEVER;
    if (job_is_ending(&holder->job) || holder->lost || holder->settings->quiet) return;
    const struct descent rest = descent_signal(getpid(), 0, 0, NULL);
    if (rest.living > 0)
        complain("the command has ended; the lock is kept for what it left running: %s (see "
                 "--leave-behind)",
                 descent_text(&rest, rest.living, whom, sizeof whom));
}

static void begin_keep(struct holder *holder) {
    if (holder->phase != PHASE_ENDING) note_send(holder->plan->socket, NOTE_ENDED, 0, NULL);
    /* it counts, whatever becomes of this process and the lock */
    note_send(holder->plan->socket, NOTE_RESULT, 0, &holder->outcome);
    holder->phase = PHASE_KEEPING;
    holder->plan->watch->group = 0;
    holder->report_at = now_ns() + REPORT_REST_AFTER;
    show_validity(holder);
}

static void report_keep(struct holder *holder) {
    char left[64];
    if (now_ns() < holder->report_at) return;
    holder->report_at = NEVER;
    duration_text(left, sizeof left, (holder->keep.until - now_ns()) / MS);
    if (holder->settings->verbose)
        complain("the command has ended; the lock stays held for %s more (--min-hold)", left);
    else if (wait_line_may(holder->settings, getpgid(holder->plan->front)))
        report_passing("the lock stays held for %s more (--min-hold)", left);
}

/* To the one who sent the signal: it did not free the lock. */
static void report_left(const struct holder *holder) {
    char left[64];
    const int64_t proven = holder->keep.proven, validity = redlock_validity_end_ns(holder->lock),
                  until = proven > validity ? proven : validity;
    if (!holder->asked_to_end || holder->settings->quiet) return;
    complain("'%.100s' is not released (--min-hold): its keys last for %s more",
             holder->plan->resource, duration_text(left, sizeof left, (until - now_ns()) / MS));
}

/* The keys last as they are. */
static void leave_keys(struct holder *holder) {
    redlock_lock_disown(holder->lock);
    holder->phase = PHASE_DONE;
}

/* After a signal to end, and for a front that is gone, it does not stay. */
static void check_keep(struct holder *holder) {
    if (holder->phase != PHASE_KEEPING) return;
    if (holder->lost) {
        leave_keys(holder);
        return;
    }
    const bool hurries =
        holder->asked_to_end || holder->front_gone || WIFSIGNALED(holder->job.status);
    switch (keep_step(&holder->keep, hurries)) {
    case KEEP_STAYS: report_keep(holder); return;
    case KEEP_RELEASE: begin_release(holder); return;
    case KEEP_LEAVE:
        report_left(holder);
        leave_keys(holder);
        return;
    }
}

static void on_end(struct holder *holder, bool given_up) {
    const bool ignores = holder->settings->run.on_lost_ignore && !holder->never_ran,
               lost = (holder->lost && !ignores) || holder->plan->watch->ended;
    holder->outcome = job_outcome(&holder->job, lost);
    if (given_up) {
        char whom[100];
        const struct descent left = descent_signal(getpid(), 0, 0, NULL);
        holder->outcome.left_running = (int)left.living;
        if (left.living > 0)
            complain("still running, without the lock: %s",
                     descent_text(&left, left.living, whom, sizeof whom));
    }
    if (now_ns() >= holder->keep.until || holder->never_ran)
        begin_release(holder);
    else if (holder->lost) /* also by --max-hold */
        leave_keys(holder);
    else
        begin_keep(holder);
}

static void check_job(struct holder *holder) {
    struct job *job = &holder->job;
    if (!has_job(holder)) return;
    const bool leaves = job->exited && holder->settings->run.leave_behind && !job_is_ending(job);
    if (leaves || job_is_over(job, holder->lost || holder->plan->watch->ended ? holder->validity_end
                                                                              : NEVER)) {
        on_end(holder, !leaves && !job->alone);
    } else if (job->exited && holder->phase != PHASE_ENDING) {
        on_command_ended(holder);
    } else if (job->exited) {
        report_rest(holder);
    }
    if (job->killed_at != NEVER) show_validity(holder);
    report_refused(holder);
}

/* ---- events --------------------------------------------------------------------------------- */

static bool hold_is_over(struct holder *holder) {
    if (holder->settings->run.max_hold_ms == 0 || holder->unsure ||
        holder->validity_end <= now_ns())
        return false;
    int verdicts[REDLOCK_NODES_MAX] = {0};
    size_t count = redlock_verdicts(holder->lock, verdicts, REDLOCK_NODES_MAX), granted = 0;
    for (size_t i = 0; i < count && i < REDLOCK_NODES_MAX; i++)
        granted += verdicts[i] == REDLOCK_VERDICT_GRANTED;
    return granted >= quorum_of(count);
}

/* A renewal that is under way when the lock is lost has no verdict of a slow node: that of the
 * renewal before it counts. If all of them do not explain the loss, the nodes that have not
 * answered do, unless none has failed before: this renewal has only just begun. */
static void fill_in_silent(const struct holder *holder, int *verdicts, size_t count) {
    size_t granted = 0, silent = 0;
    for (size_t i = 0; i < count; i++) {
        if (verdicts[i] == REDLOCK_VERDICT_NONE) verdicts[i] = holder->unsure_by[i];
        granted += verdicts[i] == REDLOCK_VERDICT_GRANTED;
        silent += verdicts[i] == REDLOCK_VERDICT_NONE;
    }
    if (granted >= quorum_of(count) || granted + silent < quorum_of(count)) return;
    for (size_t i = 0; i < count; i++)
        if (verdicts[i] == REDLOCK_VERDICT_NONE)
            verdicts[i] = holder->unsure ? REDLOCK_VERDICT_TIMEOUT : REDLOCK_VERDICT_GRANTED;
}

static void loss_text(struct holder *holder, size_t count, char *out, size_t size) {
    if (holder->fence == 0 && redlock_client_mode(holder->session.client) == REDLOCK_MODE_GUARDED) {
        snprintf(out, size,
                 "its nodes were made a guarded quorum, and locks that were taken as classic end; "
                 "take it again");
        return;
    }
    if (count - session_loss(&holder->session, holder->lock, holder->lost_by, out, size) <
        quorum_of(count))
        return;
    struct redlock_stats stats;
    redlock_stats_init(&stats);
    redlock_client_stats(holder->session.client, &stats);
    const bool stood_still = now_ns() >= holder->validity_end;
    /* A TTL above ttl_max is refused: it was lowered since. */
    if (!stood_still && stats.ttl_max_ms > 0 && stats.ttl_max_ms < ttl_ms(holder->settings)) {
        char most[64], margin[64];
        snprintf(out, size,
                 "ttl_max was lowered to %s, and TERM comes %s before the lock ends (--grace)",
                 duration_text(most, sizeof most, stats.ttl_max_ms),
                 duration_text(margin, sizeof margin, lost_margin_ms(holder->settings)));
        return;
    }
    snprintf(out, size, "%s",
             stood_still ? "its validity ended while this process, or the machine, stood still"
                         : "it could not be renewed in time, although no node refused it: answers "
                           "came too late, or this process, or the machine, stood still");
}

static void on_lost(struct holder *holder) {
    holder->lost = true;
    char hold[64];
    const bool over = hold_is_over(holder);
    const size_t count = redlock_verdicts(holder->lock, holder->lost_by, REDLOCK_NODES_MAX);
    fill_in_silent(holder, holder->lost_by, count);
    holder->never_ran = holder->phase == PHASE_STARTING;
    const bool ends =
        holder->never_ran || (has_job(holder) && !holder->settings->run.on_lost_ignore);
    show_validity(holder);
    /* The job comes first, its messages afterwards. */
    const int sent = ends ? job_end(&holder->job, kill_before(holder)) : 0;
    const struct descent *swept = &holder->job.swept;
    const char *then = !has_job(holder) ? ""
                       : !ends          ? "; the command goes on without it"
                       : swept->living > 0 && swept->refused == swept->living ? ""
                       : sent == SIGKILL                                      ? "; sent KILL"
                                                                              : "; sent TERM";
    if (over) {
        snprintf(holder->loss, sizeof holder->loss, "the maximum hold of %s is over",
                 duration_text(hold, sizeof hold, holder->settings->run.max_hold_ms));
        complain("%s%s", holder->loss, then);
    } else {
        loss_text(holder, count, holder->loss, sizeof holder->loss);
        complain("lost '%.100s': %s%s", holder->plan->resource, holder->loss, then);
    }
    if (ends) report_refused(holder);
}

static void on_change(void *context, struct redlock_lock *lock, int change) {
    struct holder *holder = context;
    switch (change) {
    case REDLOCK_CHANGE_SURE:
    case REDLOCK_CHANGE_RENEWED:
        if (holder->unsure && holder->settings->verbose) complain("the lock is renewed again");
        holder->unsure = false;
        memset(holder->unsure_by, 0, sizeof holder->unsure_by);
        holder->validity_end = redlock_validity_end_ns(lock);
        show_validity(holder);
        break;
    case REDLOCK_CHANGE_UNSURE:
        holder->unsure = true;
        redlock_verdicts(lock, holder->unsure_by, REDLOCK_NODES_MAX);
        if (holder->settings->verbose) complain("the lock could not be renewed; trying again");
        break;
    case REDLOCK_CHANGE_LOST: on_lost(holder); break;
    }
}

static int begin_wait(struct holder *holder);

/* The wait was given up, and while the keys were released the nodes came back. */
static bool waits_again(struct holder *holder) {
    if (!holder->shut_out || holder->failure != REDLOCK_CANCELLED) return false;
    if (now_ns() >= holder->wait_until || session_shut_out(&holder->session, holder->lock))
        return false;
    holder->shut_out = false;
    return begin_wait(holder) == REDLOCK_OK;
}

/* Outside of the library's callback: it asks the nodes who holds the lock. */
static void on_failure(struct holder *holder) {
    int result = holder->failure;
    const bool cancelled = holder->cancelled_by != 0 || holder->front_gone;
    if (!cancelled && waits_again(holder)) return;
    holder->phase = PHASE_DONE;
    if (cancelled) {
        set_cancelled(holder);
        return;
    }
    if (result == REDLOCK_CANCELLED && holder->shut_out) result = REDLOCK_NO_QUORUM;
    int status = session_failure(&holder->session, holder->lock, holder->plan->resource, result);
    enum outcome_kind kind = result == REDLOCK_HELD ? OUTCOME_HELD : outcome_of_exit(status, -1);
    set_outcome(holder, kind, status);
}

/* Without records no later leader has a higher term: a mode without terms is chosen by its name. */
static bool needs_terms(const struct holder *holder) {
    return holder->plan->elects && holder->session.mode != REDLOCK_MODE_CLASSIC;
}

static int refuse_without_terms(void) {
    complain(
        "the nodes carry no record, so a leader has no term: make them a guarded quorum ('redlock quorum init'), or elect without terms by --mode classic");
    return EXIT_CONFIG;
}

/* ---- a front that is stopped while it waits ---------------------------------------------------
 */

/* Of a job that was stopped, nobody knows when it continues. It must not keep the lock until then.
 */
static bool front_is_stopped(const struct holder *holder) {
    char path[40], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)holder->plan->front);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *name_end = strrchr(line, ')');
    return read && name_end != NULL && name_end[1] == ' ' &&
           (name_end[2] == 'T' || name_end[2] == 't');
}

static void left_aside(void *context, struct redlock_lock *lock, int result) {
    struct holder *holder = context;
    (void)lock;
    (void)result; /* what could not be released ends with its TTL */
    holder->lost = holder->unsure = false;
    holder->loss[0] = '\0';
    holder->fence = 0;
    holder->front_at = now_ns();
    if (holder->cancelled_by == 0 && !holder->front_gone) return;
    set_cancelled(holder);
    holder->phase = PHASE_DONE;
}

static void step_aside(struct holder *holder) {
    holder->phase = PHASE_ASIDE;
    show_validity(holder);
    holder->front_at = NEVER; /* until the lock is released */
    const int result = redlock_release_start(holder->lock, left_aside, holder);
    if (result != REDLOCK_OK) left_aside(holder, holder->lock, result);
}

static void on_taken(void *context, struct redlock_lock *lock, int result);

static int begin_wait(struct holder *holder) {
    int64_t wait_ms = REDLOCK_WAIT_FOREVER;
    if (holder->wait_until != NEVER) {
        const int64_t left = holder->wait_until - now_ns();
        wait_ms = left > 0 ? (left + MS - 1) / MS : 0;
    }
    holder->phase = PHASE_WAITING;
    const int result = redlock_acquire_start(holder->lock, wait_ms, on_taken, holder);
    wait_line_begin(&holder->line, &holder->session, holder->lock, holder->plan->resource, wait_ms,
                    getpgid(holder->plan->front));
    return result;
}

static void check_front(struct holder *holder) {
    const int64_t now = now_ns();
    if ((holder->phase != PHASE_TAKEN && holder->phase != PHASE_ASIDE) || now < holder->front_at)
        return;
    holder->front_at = now + FRONT_AGAIN;
    if (front_is_stopped(holder)) {
        if (holder->phase == PHASE_TAKEN) {
            step_aside(holder);
        } else if (now >= holder->wait_until) {
            complain("%s: %s", holder->plan->resource,
                     session_wait_is_over(&holder->session, "its wait ended while it was stopped"));
            set_outcome(holder, OUTCOME_HELD, (int)holder->settings->conflict_exit_code);
            holder->phase = PHASE_DONE;
        }
    } else if (holder->phase == PHASE_ASIDE) {
        const int result = begin_wait(holder);
        if (result == REDLOCK_OK) return;
        holder->failure = result;
        holder->phase = PHASE_FAILED;
    }
}

/* ---- the lock and the command -----------------------------------------------------------------
 */

static void on_taken(void *context, struct redlock_lock *lock, int result) {
    struct holder *holder = context;
    if (result != REDLOCK_OK) {
        holder->failure = result;
        holder->phase = PHASE_FAILED;
        return;
    }
    holder->validity_end = redlock_validity_end_ns(lock);
    holder->phase = PHASE_TAKEN;
    holder->fence = redlock_fence(lock);
    if (front_is_stopped(holder)) {
        step_aside(holder);
        return;
    }
    show_validity(holder);
    holder->front_at = now_ns() + FRONT_AGAIN;
    if (holder->settings->run.min_hold_ms > 0 && !holder->plan->elects)
        holder->keep = (struct keep){.client = holder->session.client,
                                     .lock = lock,
                                     .until = now_ns() + holder->settings->run.min_hold_ms * MS};
    if (holder->settings->verbose && holder->plan->elects && holder->fence > 0)
        complain("leading '%.100s', term %" PRId64, holder->plan->resource, holder->fence);
    else if (holder->settings->verbose)
        complain("the lock is ours");
    note_send(holder->plan->socket, NOTE_TAKEN, 0, NULL);
}

static void start_command(struct holder *holder, bool lend) {
    int failed;
    /* the loss of the lock is handled even if standard error has no reader */
    diagnostics_never_wait();
    const struct grant grant = {.nodes = holder->session.nodes,
                                .mode = session_mode(&holder->session),
                                .quorum = holder->session.quorum,
                                .token = redlock_token(holder->lock),
                                .fence = redlock_fence(holder->lock),
                                .slot = redlock_slot(holder->lock)};
    holder->phase = PHASE_STARTING;
    show_validity(holder);
    if (job_start(&holder->job, holder->plan, &grant, lend, &failed) != 0) {
        set_outcome(holder, OUTCOME_SYSTEM, failed);
        begin_release(holder);
        return;
    }
    holder->plan->watch->group = holder->job.group;
    note_send(holder->plan->socket, NOTE_STARTED, holder->job.group, NULL);
}

/* exec may take long (a scanner, a file system that hangs), and the lock is renewed meanwhile. */
static void check_exec(struct holder *holder) {
    if (holder->phase != PHASE_STARTING) return;
    const int error = child_report(&holder->job.report);
    if (error == CHILD_PENDING) return;
    holder->phase = PHASE_RUNNING;
    if (error == 0) return;
    if (error == CHILD_TOO_LATE) {
        set_outcome(holder, OUTCOME_LOST, EXIT_LOST);
        if (!holder->lost)
            complain("'%.100s': its validity was over before the command could start",
                     holder->plan->resource);
    } else {
        set_outcome(holder, OUTCOME_NOT_RUN, job_failed(holder->plan->argv[0], error));
    }
    begin_release(holder);
}

static void on_start(struct holder *holder, bool lend) {
    if (holder->phase != PHASE_TAKEN) return;
    if (!holder->lost) {
        start_command(holder, lend);
        return;
    }
    set_outcome(holder, OUTCOME_LOST, EXIT_LOST);
    begin_release(holder);
}

/* The command has not started: only the lock is released. */
static void cancel(struct holder *holder) {
    if (holder->phase == PHASE_WAITING) redlock_cancel(holder->lock);
    if (holder->phase == PHASE_ASIDE && holder->front_at != NEVER) {
        set_cancelled(holder);
        holder->phase = PHASE_DONE;
    }
    if (holder->phase != PHASE_TAKEN) return;
    set_cancelled(holder);
    begin_release(holder);
}

static bool asks_to_end(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

static void pass_on(const struct holder *holder, int signal) {
    char whom[100];
    const bool passed = group_signal(holder->job.group, signal);
    if (signal == SIGTERM)
        group_signal(holder->job.group, SIGCONT); /* it may have stopped itself */
    if (passed) return;
    const struct descent all = descent_signal(getpid(), 0, 0, NULL);
    complain("cannot pass signal %d (%s) on to %s: %s", signal, strsignal(signal),
             descent_text(&all, all.refused, whom, sizeof whom), strerror(all.error));
}

static void on_signal(struct holder *holder, int signal) {
    if (signal == SIGCONT) holder->stop_reported = false;
    if (holder->phase == PHASE_ENDING) {
        if (asks_to_end(signal)) end_job(holder);
    } else if (holder->phase == PHASE_KEEPING) {
        holder->asked_to_end |= asks_to_end(signal);
    } else if (has_job(holder)) {
        holder->asked_to_end |= asks_to_end(signal);
        pass_on(holder, signal);
    } else if (signal_is_passed_on(signal) && holder->cancelled_by == 0) {
        holder->cancelled_by = signal;
        cancel(holder);
    }
}

static void on_front_gone(struct holder *holder) {
    holder->front_gone = true;
    if (has_job(holder)) {
        end_job(holder);
    } else {
        cancel(holder);
    }
}

static void reap(struct holder *holder) {
    const int stopped_by = job_reap(&holder->job);
    /* Sent once until the front continues: in a stopped job the front does not read, and would stop
     * again for an old note. */
    if (stopped_by == 0 || holder->stop_reported) return;
    holder->stop_reported = true;
    note_send(holder->plan->socket, NOTE_STOPPED, stopped_by, NULL);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void check_waiting(struct holder *holder) {
    if (holder->phase != PHASE_WAITING) return;
    if (!holder->shut_out && session_waits_in_vain(&holder->session, holder->lock)) {
        holder->shut_out = true;
        redlock_cancel(holder->lock);
    } else if (now_ns() >= holder->report_at) {
        holder->report_at = now_ns() + REPORT_AGAIN;
        const char *limit = holder->plan->elects ? "" : WAIT_SETS_LIMIT;
        bool reported =
            report_waiting(&holder->session, holder->lock, holder->plan->resource, limit);
        if (reported && !holder->settings->verbose) holder->report_at = NEVER;
    }
}

/* A lock that is held with a majority does not show that a node is configured wrongly, nor that its
 * mode is. The mode is asked of the nodes, and a node that is down takes a second to say nothing:
 * so this waits until the lock cannot be lost meanwhile. */
static void check_nodes(struct holder *holder) {
    if (holder->settings->quiet || holder->job.group == 0) return;
    if (!holder->mode_checked &&
        redlock_validity_ms(holder->lock) > lost_margin_ms(holder->settings) + CHECK_MS) {
        session_warn_classic(&holder->session);
        holder->mode_checked = true;
    }
    if (!holder->warned) holder->warned = session_warn(&holder->session) > 0;
}

static int timeout_ms(const struct holder *holder) {
    int64_t at = NEVER, now = now_ns();
    if (holder->phase == PHASE_WAITING)
        at = lesser(lesser(holder->report_at, session_shut_out_due(&holder->session)),
                    wait_line_due(&holder->line));
    if (has_job(holder)) at = job_due(&holder->job);
    if (holder->phase == PHASE_ENDING) at = lesser(at, holder->report_at);
    if (holder->phase == PHASE_TAKEN || holder->phase == PHASE_ASIDE) at = holder->front_at;
    if (holder->phase == PHASE_KEEPING) at = lesser(holder->keep.look_at, holder->report_at);
    if (at == NEVER) return -1;
    return at <= now ? 0 : (int)lesser((at - now + MS - 1) / MS, 60000);
}

static void step(struct holder *holder) {
    int socket = holder->plan->socket;
    struct pollfd fds[] = {{.fd = holder->signal_fd, .events = POLLIN},
                           {.fd = holder->front_gone ? -1 : socket, .events = POLLIN},
                           {.fd = redlock_client_fd(holder->session.client), .events = POLLIN},
                           {.fd = holder->job.report, .events = POLLIN}};
    poll(fds, 4, timeout_ms(holder));
    for (int signal; (signal = signals_next(holder->signal_fd)) != 0;) {
        /* A signal to the holder is meant for the command, except those that stop or continue a
         * process. */
        if (signal_is_passed_on(signal)) on_signal(holder, signal);
    }
    reap(holder);
    struct note note;
    int got;
    while (!holder->front_gone && (got = note_read(socket, &note)) != 0) {
        if (got < 0) on_front_gone(holder);
        if (got > 0 && note.kind == NOTE_START) on_start(holder, note.value != 0);
        if (got > 0 && note.kind == NOTE_SIGNAL) on_signal(holder, note.value);
    }
    check_exec(holder);
    if (redlock_process(holder->session.client) != REDLOCK_OK) complain("the client failed");
    if (holder->phase == PHASE_WAITING) {
        wait_line_step(&holder->line);
    } else {
        wait_line_end(&holder->line);
    }
    if (holder->phase == PHASE_FAILED) on_failure(holder);
    check_waiting(holder);
    check_front(holder);
    check_nodes(holder);
    check_job(holder);
    check_keep(holder);
    metrics_file_warn();
}

/* ---- start ---------------------------------------------------------------------------------- */

static void lock_options(void *context, struct redlock_lock_options *options) {
    struct holder *holder = context;
    options->owner = holder->plan->owner;
    options->owner_bytes = strlen(holder->plan->owner);
    options->ttl_ms = ttl_ms(holder->settings);
    options->hold_ms_max = holder->settings->run.max_hold_ms;
    options->leader = holder->plan->elects;
    options->slots = (uint32_t)holder->settings->slots;
    options->on_change = on_change;
    options->on_change_context = holder;
    if (!holder->settings->run.on_lost_ignore)
        options->lost_margin_ms = lost_margin_ms(holder->settings);
}

static int open_lock(struct holder *holder) {
    int status = session_open(&holder->session, holder->settings);
    if (status != 0) return status;
    if (needs_terms(holder)) {
        session_connect(&holder->session);
        if (session_mode(&holder->session) != REDLOCK_MODE_GUARDED &&
            session_reach_of_records(&holder->session) == REACH_ALL)
            return refuse_without_terms();
    }
    metrics_file_follow(holder->session.client);
    status =
        session_lock(&holder->session, holder->plan->resource, lock_options, holder, &holder->lock);
    if (status != 0) return status;
    const int64_t wait_ms =
        holder->settings->wait_ms == WAIT_UNSET ? REDLOCK_WAIT_FOREVER : holder->settings->wait_ms;
    holder->wait_until = wait_ms == REDLOCK_WAIT_FOREVER ? NEVER : now_ns() + wait_ms * MS;
    const int result = begin_wait(holder);
    if (result != REDLOCK_OK)
        return session_failure(&holder->session, holder->lock, holder->plan->resource, result);
    return 0;
}

/* What --json reports: the lock, or why it was not taken, or how it was lost. Of a lock with long
 * names the nodes are left out. */
static void set_facts(struct holder *holder) {
    struct outcome *outcome = &holder->outcome;
    const char *resource = holder->plan->resource;
    if (!holder->settings->json) return;
    if (holder->loss[0] != '\0') holder->session.failed.verdicts = holder->lost_by;
    json_t *facts = outcome->kind == OUTCOME_COMMAND || outcome->kind == OUTCOME_NOT_RUN
                        ? lock_json(&holder->session, holder->lock, resource)
                        : failure_json(&holder->session, holder->lock, resource, outcome->exit);
    if (holder->fence > 0) json_object_set_new(facts, "fence", json_integer(holder->fence));
    if (holder->loss[0] != '\0') {
        json_object_set_new(facts, "result", json_string("lost"));
        json_object_set_new(facts, "reason", json_string(holder->loss));
    }
    for (int tries = 0; tries < 2; tries++) {
        char *text = json_dumps(facts, JSON_COMPACT);
        if (text != NULL && strlen(text) < sizeof outcome->facts) strcpy(outcome->facts, text);
        free(text);
        if (outcome->facts[0] != '\0') break;
        json_object_del(facts, "nodes");
    }
    json_decref(facts);
}

int holder_main(const struct run_plan *plan) {
    struct holder holder = {.plan = plan, .settings = plan->settings, .report_at = NEVER};
    job_init(&holder.job, plan->settings->kill_after_ms);
    prctl(PR_SET_NAME, "redlock-holder");
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG,
          SIGCONT); /* a stopped holder, too, ends the command if the front dies */
    prctl(
        PR_SET_CHILD_SUBREAPER,
        /* fork does not inherit it: orphans of the command come to the holder, not to the front */
        1);
    holder.signal_fd = signals_open(plan->inherited);
    metrics_file_begin(plan->settings, plan->resource);
    int status = holder.signal_fd < 0 ? EXIT_SYSTEM : open_lock(&holder);
    if (status != 0) {
        set_outcome(&holder, outcome_of_exit(status, -1), status);
        holder.phase = PHASE_DONE;
    }
    if (!plan->settings->quiet) holder.report_at = now_ns() + REPORT_ANYBODY_AFTER;
    if (plan->settings->verbose) holder.report_at = now_ns() + REPORT_AFTER;
    while (holder.phase != PHASE_DONE) step(&holder);
    set_facts(&holder);
    wait_line_end(&holder.line);
    end_passing();
    redlock_lock_free(holder.lock);
    session_close(&holder.session);
    metrics_file_end(&holder.outcome);
    /* A stopped job no longer needs the lock: it ends, and its shell reports that. */
    if (!holder.front_gone && getppid() == plan->front) kill(plan->front, SIGCONT);
    note_send(plan->socket, NOTE_RESULT, 0, &holder.outcome);
    close(holder.signal_fd);
    return 0;
}
