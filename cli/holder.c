/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The holder of `redlock run`: the lock, the command, and the end of both. One thread, one loop.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock.h>

#include "boottime.h"
#include "child.h"
#include "duration.h"
#include "exit_codes.h"
#include "message.h"
#include "run.h"
#include "session.h"
#include "verdict.h"

#define GROUP_TICK (20 * MS)   /* members of the group that are not our children die unseen */
#define AFTER_KILL (1000 * MS) /* KILL needs no longer, but for a process in a dead disk's arms */
#define TELL_AFTER (500 * MS)  /* with -v: who holds it, when it is not had at once */
#define TELL_AGAIN (10000 * MS)

enum phase {
    PHASE_WAITING, /* for the lock */
    PHASE_TAKEN,   /* for the front's word */
    PHASE_RUNNING,
    PHASE_ENDING, /* the command is gone, members of its group are not */
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
    bool front_gone, lost, unsure, shut_out;
    int cancelled_by; /* a signal, while no command ran */
    pid_t child;
    bool child_exited;
    int child_status;
    struct outcome outcome;
    int64_t validity_end; /* the last that was proved; the library's is 0 once it is lost */
    int64_t kill_at, give_up_at, tell_at;
};

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static void set_outcome(struct holder *holder, enum outcome_kind kind, int status) {
    holder->outcome = (struct outcome){.kind = kind, .exit = status, .command_status = -1};
}

/* ---- the end ---------------------------------------------------------------------------- */

static void released(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    struct holder *holder = context;
    holder->phase = PHASE_DONE;
    if (result == REDLOCK_LOST && !holder->lost) {
        complain("the lock was no longer ours when it was released: somebody or something removed it");
        if (!holder->settings->on_lost_ignore && holder->outcome.kind == OUTCOME_COMMAND) {
            holder->outcome.kind = OUTCOME_LOST;
            holder->outcome.exit = EXIT_LOST;
        }
    } else if (result == REDLOCK_NO_QUORUM && !holder->settings->quiet) {
        complain("the lock could not be released everywhere; what is left of it ends with its TTL");
    }
}

static void begin_release(struct holder *holder) {
    holder->phase = PHASE_RELEASING;
    holder->kill_at = holder->give_up_at = NEVER;
    int result = redlock_release_start(holder->lock, released, holder);
    if (result != REDLOCK_OK) released(holder, holder->lock, result);
}

/* TERM now, KILL later, but inside what is left of the validity; where nothing is left, --kill-after alone counts. */
static void end_group(struct holder *holder) {
    if (holder->kill_at != NEVER || holder->give_up_at != NEVER) return;
    int64_t now = now_ns(), wait = holder->settings->kill_after_ms * MS, left = holder->validity_end - now;
    holder->kill_at = now + (left > 0 ? lesser(wait, left) : wait);
    group_terminate(holder->child);
}

static void command_outcome(struct holder *holder) {
    int status = holder->child_status;
    struct outcome *outcome = &holder->outcome;
    outcome->command_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome->command_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    bool ended_for_loss = holder->lost && !holder->settings->on_lost_ignore;
    outcome->kind = ended_for_loss ? OUTCOME_LOST : OUTCOME_COMMAND;
    outcome->exit = ended_for_loss      ? EXIT_LOST
                    : WIFEXITED(status) ? outcome->command_status
                                        : EXIT_BY_SIGNAL + outcome->command_signal;
}

/* The lock is held until the last of the group is gone: what it protects is in use until then. */
static void check_group(struct holder *holder) {
    if (holder->phase != PHASE_RUNNING && holder->phase != PHASE_ENDING) return;
    int64_t now = now_ns();
    if (now >= holder->kill_at) {
        holder->kill_at = NEVER;
        holder->give_up_at = now + AFTER_KILL;
        group_signal(holder->child, SIGKILL);
    }
    if (!holder->child_exited) return;
    if (group_lives(holder->child) && now < holder->give_up_at) {
        holder->phase = PHASE_ENDING;
        end_group(holder);
        return;
    }
    command_outcome(holder);
    begin_release(holder);
}

/* ---- what happens ------------------------------------------------------------------------ */

static bool hold_is_over(struct holder *holder) {
    if (holder->settings->max_hold_ms == 0 || holder->unsure || holder->validity_end <= now_ns()) return false;
    int verdicts[REDLOCK_NODES_MAX] = {0};
    size_t count = redlock_verdicts(holder->lock, verdicts, REDLOCK_NODES_MAX), granted = 0;
    for (size_t i = 0; i < count && i < REDLOCK_NODES_MAX; i++) granted += verdicts[i] == REDLOCK_VERDICT_GRANTED;
    return granted >= quorum_of(count);
}

static void on_lost(struct holder *holder) {
    holder->lost = true;
    char hold[64];
    const char *then = holder->phase != PHASE_RUNNING     ? ""
                       : holder->settings->on_lost_ignore ? "; the command goes on without it"
                                                          : "; the command is ended";
    if (hold_is_over(holder)) {
        complain("the maximum hold of %s is over%s", duration_text(hold, sizeof hold, holder->settings->max_hold_ms),
                 then);
    } else {
        complain("the lock on '%.100s' is lost%s", holder->plan->resource, then);
    }
    if (holder->phase == PHASE_RUNNING && !holder->settings->on_lost_ignore) end_group(holder);
}

static void on_change(void *context, struct redlock_lock *lock, enum redlock_change change) {
    struct holder *holder = context;
    switch (change) {
    case REDLOCK_CHANGE_SURE:
    case REDLOCK_CHANGE_RENEWED:
        if (holder->unsure && holder->settings->verbose) complain("the lock is renewed again");
        holder->unsure = false;
        holder->validity_end = redlock_validity_end_ns(lock);
        break;
    case REDLOCK_CHANGE_UNSURE:
        holder->unsure = true;
        if (holder->settings->verbose) complain("the lock could not be renewed; trying again");
        break;
    case REDLOCK_CHANGE_LOST: on_lost(holder); break;
    }
}

static void on_failure(struct holder *holder, int result) {
    holder->phase = PHASE_DONE;
    if (holder->cancelled_by != 0 || holder->front_gone) {
        set_outcome(holder, OUTCOME_CANCELLED,
                    EXIT_BY_SIGNAL + (holder->cancelled_by != 0 ? holder->cancelled_by : SIGKILL));
        return;
    }
    if (result == REDLOCK_CANCELLED && holder->shut_out) result = REDLOCK_NO_QUORUM;
    int status = session_failure(&holder->session, holder->lock, holder->plan->resource, result);
    enum outcome_kind kind = result == REDLOCK_HELD ? OUTCOME_HELD : outcome_of_exit(status, -1);
    set_outcome(holder, kind, status);
}

static void on_taken(void *context, struct redlock_lock *lock, int result) {
    struct holder *holder = context;
    if (result != REDLOCK_OK) {
        on_failure(holder, result);
        return;
    }
    holder->validity_end = redlock_validity_end_ns(lock);
    holder->phase = PHASE_TAKEN;
    if (holder->settings->verbose) complain("the lock is ours");
    note_send(holder->plan->socket, NOTE_TAKEN, 0, NULL);
}

/* "NAME=bytes". A token of ours holds no NUL: digits, and an owner that came as a string. */
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

static pid_t start_with(struct holder *holder, bool lend, char *const *added, size_t count, int *failed) {
    char **environment = environment_with(added, count);
    if (environment == NULL) return -1;
    struct child_plan plan = {.argv = holder->plan->argv,
                              .environment = environment,
                              .inherited = holder->plan->inherited,
                              .terminal = lend ? holder->plan->terminal : -1};
    pid_t child = child_start(&plan, failed);
    free(environment);
    return child;
}

static void start_command(struct holder *holder, bool lend) {
    struct redlock_bytes token = redlock_token(holder->lock);
    const char *resource = holder->plan->resource, *nodes = holder->session.nodes;
    char *added[] = {variable("REDLOCK_RESOURCE", resource, strlen(resource)),
                     variable("REDLOCK_TOKEN", token.data, token.data != NULL ? token.bytes : 0),
                     variable("REDLOCK_NODES", nodes, strlen(nodes))};
    int failed = EXIT_SYSTEM;
    bool whole = added[0] != NULL && added[1] != NULL && added[2] != NULL;
    pid_t child = whole ? start_with(holder, lend, added, 3, &failed) : -1;
    for (size_t i = 0; i < 3; i++) free(added[i]);
    if (child < 0) {
        set_outcome(holder, failed == EXIT_SYSTEM ? OUTCOME_SYSTEM : OUTCOME_NOT_RUN, failed);
        begin_release(holder);
        return;
    }
    holder->child = child;
    holder->phase = PHASE_RUNNING;
    note_send(holder->plan->socket, NOTE_STARTED, child, NULL);
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

/* The command has not started: nothing but the lock is to be given back. */
static void cancel(struct holder *holder) {
    if (holder->phase == PHASE_WAITING) redlock_cancel(holder->lock);
    if (holder->phase != PHASE_TAKEN) return;
    set_outcome(holder, OUTCOME_CANCELLED,
                EXIT_BY_SIGNAL + (holder->cancelled_by != 0 ? holder->cancelled_by : SIGKILL));
    begin_release(holder);
}

static void on_signal(struct holder *holder, int signal) {
    if (holder->phase == PHASE_RUNNING || holder->phase == PHASE_ENDING) {
        group_signal(holder->child, signal);
    } else if (signal_is_passed_on(signal) && holder->cancelled_by == 0) {
        holder->cancelled_by = signal;
        cancel(holder);
    }
}

static void on_front_gone(struct holder *holder) {
    holder->front_gone = true;
    if (holder->phase == PHASE_RUNNING) {
        end_group(holder);
    } else {
        cancel(holder);
    }
}

static void reap(struct holder *holder) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (pid != holder->child) continue;
        if (WIFSTOPPED(status)) {
            note_send(holder->plan->socket, NOTE_STOPPED, WSTOPSIG(status), NULL);
            continue;
        }
        holder->child_exited = true;
        holder->child_status = status;
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void check_waiting(struct holder *holder) {
    if (holder->phase != PHASE_WAITING) return;
    if (!holder->shut_out && session_shut_out(&holder->session)) {
        holder->shut_out = true;
        redlock_cancel(holder->lock);
    } else if (now_ns() >= holder->tell_at) {
        holder->tell_at = now_ns() + TELL_AGAIN;
        tell_waiting(&holder->session, holder->lock, holder->plan->resource);
    }
}

static int timeout_ms(const struct holder *holder) {
    int64_t at = lesser(holder->kill_at, holder->give_up_at), now = now_ns();
    if (holder->phase == PHASE_ENDING) at = lesser(at, now + GROUP_TICK);
    if (holder->phase == PHASE_WAITING) at = lesser(at, holder->tell_at);
    if (at == NEVER) return -1;
    return at <= now ? 0 : (int)lesser((at - now + MS - 1) / MS, 60000);
}

static void step(struct holder *holder) {
    int socket = holder->plan->socket;
    struct pollfd fds[] = {{.fd = holder->signal_fd, .events = POLLIN},
                           {.fd = holder->front_gone ? -1 : socket, .events = POLLIN},
                           {.fd = redlock_client_fd(holder->session.client), .events = POLLIN}};
    poll(fds, 3, timeout_ms(holder));
    for (int signal; (signal = signals_next(holder->signal_fd)) != 0;) {
        /* Whoever signals the holder means the command; what stops or continues us is not for it. */
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
    if (redlock_process(holder->session.client) != REDLOCK_OK) complain("the client failed");
    check_waiting(holder);
    check_group(holder);
}

/* ---- birth ------------------------------------------------------------------------------- */

/* TERM comes so early that KILL, --kill-after later, still falls inside the validity; half the TTL is renewal's. */
static int64_t lost_margin_ms(const struct settings *settings) {
    int64_t grace = settings->grace_ms >= 0 ? settings->grace_ms : settings->kill_after_ms + 1000;
    int64_t margin = grace > settings->kill_after_ms ? grace : settings->kill_after_ms;
    return lesser(margin, settings->ttl_ms / 2);
}

static void lock_options(void *context, struct redlock_lock_options *options) {
    struct holder *holder = context;
    options->owner = holder->plan->owner;
    options->owner_bytes = strlen(holder->plan->owner);
    options->hold_ms_max = holder->settings->max_hold_ms;
    options->on_change = on_change;
    options->on_change_context = holder;
    if (!holder->settings->on_lost_ignore) options->lost_margin_ms = lost_margin_ms(holder->settings);
}

static int open_lock(struct holder *holder) {
    int status = session_open(&holder->session, holder->settings);
    if (status != 0) return status;
    status = session_lock(&holder->session, holder->plan->resource, lock_options, holder, &holder->lock);
    if (status != 0) return status;
    int64_t wait_ms = holder->settings->wait_ms == WAIT_UNSET ? REDLOCK_WAIT_FOREVER : holder->settings->wait_ms;
    int result = redlock_acquire_start(holder->lock, wait_ms, on_taken, holder);
    if (result != REDLOCK_OK) return session_failure(&holder->session, holder->lock, holder->plan->resource, result);
    return 0;
}

int holder_main(const struct run_plan *plan) {
    struct holder holder = {
        .plan = plan, .settings = plan->settings, .kill_at = NEVER, .give_up_at = NEVER, .tell_at = NEVER};
    prctl(PR_SET_NAME, "redlock-holder");
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* not inherited by fork: orphans of the command come to us, not to the front */
    holder.signal_fd = signals_open(plan->inherited);
    int status = holder.signal_fd < 0 ? EXIT_SYSTEM : open_lock(&holder);
    if (status != 0) {
        set_outcome(&holder, outcome_of_exit(status, -1), status);
        holder.phase = PHASE_DONE;
    }
    if (plan->settings->verbose) holder.tell_at = now_ns() + TELL_AFTER;
    while (holder.phase != PHASE_DONE) step(&holder);
    redlock_lock_free(holder.lock);
    session_close(&holder.session);
    note_send(plan->socket, NOTE_RESULT, 0, &holder.outcome);
    close(holder.signal_fd);
    return 0;
}
