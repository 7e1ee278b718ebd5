/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The front of `redlock run`: the process that the shell has started.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <redlock.h>

#include "descent.h"
#include "frame/arguments.h"
#include "frame/commands.h"
#include "config/duration.h"
#include "frame/session.h"
#include "job.h"
#include "metrics_file.h"
#include "process/boottime.h"
#include "process/child.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "process/terminal.h"

#define KILL_TAKES_MOST (2000 * MS)
/* A holder that runs reports within this time. */
#define REPORT_WITHIN (500 * MS)

struct front {
    const struct settings *settings;
    const char *resource;
    struct run_watch *watch;
    struct terminal terminal;
    int socket, signal_fd;
    pid_t holder, group; /* group 0: the command does not run */
    unsigned passed;     /* bits: signals to this process that were passed on */
    int stopped_by;      /* the signal; 0: neither the command nor this job is stopped */
    int64_t complain_at; /* NEVER: the command was not ended by the front, or that is reported */
    bool holder_gone, socket_closed, has_result, start_reported, command_ended, stop_waits,
        passed_interrupt, lent_once, killed_holder;
    struct spared spared; /* children that this process had before: redlock was started by exec */
    struct outcome outcome;
};

static void continue_command(struct front *front) {
    if (front->group == 0) return;
    if (terminal_may_lend(&front->terminal)) terminal_lend(&front->terminal, front->group);
    note_send(front->socket, NOTE_SIGNAL, SIGCONT, NULL);
}

/* Orphans become children of this process when the holder has died. True: there were some. */
static bool reap(struct front *front) {
    bool any = false;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0; any = true)
        if (pid == front->holder) front->holder_gone = true;
    return any;
}

static void on_signal(struct front *front, int signal) {
    switch (signal) {
    case SIGCHLD: reap(front); break;
    case SIGCONT: continue_command(front); break;
    case SIGTSTP:
        /* Z while waiting: the command does not start before the job continues. While it starts, it
         * cannot be stopped yet. */
        if (front->group != 0)
            note_send(front->socket, NOTE_SIGNAL, SIGTSTP, NULL);
        else if (front->start_reported && !front->command_ended)
            front->stop_waits = true;
        else
            signals_suspend();
        break;
    default:
        if (signal == SIGINT) front->passed_interrupt = true;
        front->passed |= 1U << signal;
        note_send(front->socket, NOTE_SIGNAL, signal, NULL);
        break;
    }
}

static void on_note(struct front *front, const struct note *note) {
    switch (note->kind) {
    case NOTE_TAKEN:
        /* The command takes the terminal itself, before it runs; the front learns its group only
         * afterwards. */
        front->terminal.lent = terminal_may_lend(&front->terminal);
        front->lent_once = front->terminal.lent;
        front->start_reported = true;
        note_send(front->socket, NOTE_START, front->terminal.lent, NULL);
        break;
    case NOTE_STARTED:
        front->group = note->value;
        if (front->stop_waits) note_send(front->socket, NOTE_SIGNAL, SIGTSTP, NULL);
        front->stop_waits = false;
        break;
    case NOTE_STOPPED: front->stopped_by = note->value; break;
    case NOTE_ENDED:
        /* The lock is kept for what the command left running; ^C and ^Z are for this process. */
        terminal_take(&front->terminal, front->group);
        front->command_ended = true;
        front->group = 0;
        break;
    case NOTE_RESULT:
        front->outcome = note->outcome;
        front->has_result = true;
        break;
    case NOTE_START:
    case NOTE_SIGNAL: break;
    }
}

static void on_stop(struct front *front) {
    int signal = front->stopped_by;
    front->stopped_by = 0;
    if (signal == 0 || front->has_result || front->terminal.fd < 0) return;
    if (terminal_stop_job(&front->terminal, front->group, signal)) continue_command(front);
}

/* When the holder has died. What forks without a pause may escape all the looks, but it leaves
 * zombies: it is still there while some are found. */
static struct descent end_below_front(struct front *front, int64_t until) {
    struct descent left;
    do {
        left = descent_kill(getpid(), &front->spared, until);
    } while (reap(front) && now_ns() < until);
    return left;
}

/* By a signal. A tracer may keep what is killed, so what it has stopped does not count. */
static bool is_stopped(pid_t child) {
    siginfo_t state = {.si_pid = 0};
    return waitid(P_PID, (id_t)child, &state, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           state.si_pid == child;
}

/* Nobody reaps below a holder that is stopped, so the looks take ever longer, and what forks
 * without a pause escapes them. That holder ends too, and all that was below it is below the front.
 */
static void end_below_holder(struct front *front, int64_t until) {
    if (!front->killed_holder) {
        descent_kill(front->holder, NULL, until);
        return;
    }
    kill(front->holder, SIGKILL);
    for (; !front->holder_gone && now_ns() < until; pause_ms(1)) reap(front);
    end_below_front(front, until);
}

static void complain_of_holder(const struct front *front, const struct descent *left) {
    char whom[100];
    complain(
        "lost '%.100s': the process that renews it is stopped or blocked, and the validity ends; %s%s",
        front->resource, left->living == 0 ? "sent KILL" : "still running without the lock: ",
        left->living == 0 ? "" : descent_text(left, left->living, whom, sizeof whom));
}

static int64_t front_kill_at(const struct front *front) {
    const struct run_watch *watch = front->watch;
    return is_stopped(front->holder) ? watch->kill_stopped_at : watch->kill_at;
}

/* When the validity ends, no time is left for TERM: a holder that runs would have sent it before.
 */
static void end_with_validity(struct front *front) {
    struct run_watch *watch = front->watch;
    const int64_t now = now_ns();
    if (!watch->ended && now >= front_kill_at(front)) {
        watch->ended = true;
        front->killed_holder = is_stopped(front->holder);
        front->complain_at = now + REPORT_WITHIN;
        group_signal(watch->group, SIGKILL);
        end_below_holder(front, now + KILL_TAKES_MOST);
    }
    if (now < front->complain_at) return;
    front->complain_at = NEVER;
    if (front->has_result || watch->kill_at == NEVER) return; /* the holder does run */
    const struct descent left = descent_kill(front->holder, NULL, now + KILL_TAKES_MOST);
    complain_of_holder(front, &left);
}

static int timeout_ms(const struct front *front) {
    const int64_t end = front->watch->ended ? NEVER : front_kill_at(front);
    const int64_t at = end < front->complain_at ? end : front->complain_at, now = now_ns();
    if (at == NEVER) return -1;
    return at <= now ? 0 : at - now > 60000 * MS ? 60000 : (int)((at - now + MS - 1) / MS);
}

static void follow(struct front *front) {
    while (!front->holder_gone) {
        struct pollfd fds[] = {{.fd = front->signal_fd, .events = POLLIN},
                               {.fd = front->socket_closed ? -1 : front->socket, .events = POLLIN}};
        poll(fds, 2, timeout_ms(front));
        end_with_validity(front);
        /* Notes first: the holder's last one comes before its SIGCHLD. */
        struct note note;
        int got;
        while (!front->socket_closed && (got = note_read(front->socket, &note)) != 0) {
            if (got > 0) on_note(front, &note);
            front->socket_closed = got < 0;
        }
        on_stop(front);
        for (int signal; (signal = signals_next(front->signal_fd)) != 0;) on_signal(front, signal);
    }
    struct note note;
    while (!front->socket_closed && note_read(front->socket, &note) > 0) on_note(front, &note);
}

/* The holder was killed: by another process, or stopped, by the front. The command died with it, by
 * PDEATHSIG; everything else that it started is now below the front, and ends here. */
static void end_orphans(struct front *front) {
    group_signal(front->watch->group, SIGKILL); /* also where /proc shows no descent */
    const struct descent left = end_below_front(front, now_ns() + KILL_TAKES_MOST);
    if (!front->start_reported) {
        complain(
            "the process that holds the lock was killed before the command ran; its lock ends with its TTL");
        front->outcome =
            (struct outcome){.kind = OUTCOME_SYSTEM, .exit = EXIT_SYSTEM, .command_status = -1};
        return;
    }
    char whom[100];
    if (!front->killed_holder)
        complain("the process that held the lock was killed: %s%s; the lock ends with its TTL",
                 left.living == 0 ? "the command is ended" : "still running: ",
                 left.living == 0 ? "" : descent_text(&left, left.living, whom, sizeof whom));
    else if (front->complain_at != NEVER)
        complain_of_holder(front, &left);
    front->outcome = (struct outcome){.kind = OUTCOME_LOST,
                                      .exit = EXIT_LOST,
                                      .command_status = -1,
                                      .command_signal = front->command_ended ? 0 : SIGKILL,
                                      .left_running = (int)left.living};
}

/* ^C went to the command's group alone. A script that called redlock must see it as well, or it
 * would continue with its next line: so it is sent to the whole job, as the terminal would have
 * done. */
static void share_interrupt(const struct front *front) {
    if (!front->lent_once || front->passed_interrupt) return;
    if (front->outcome.kind != OUTCOME_COMMAND || front->outcome.command_signal != SIGINT) return;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGINT);
    sigaction(SIGINT, &plain, NULL);
    kill(0, SIGINT);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* The signal that was sent to this process, and ended the command or the wait; 0: none did. Then
 * this process ends by it as well: a shell sees the same status, and a service manager sees that it
 * was stopped as it asked. */
static int ended_by(const struct front *front) {
    const struct outcome *outcome = &front->outcome;
    const int signal = outcome->kind == OUTCOME_COMMAND     ? outcome->command_signal
                       : outcome->kind == OUTCOME_CANCELLED ? outcome->exit - EXIT_BY_SIGNAL
                                                            : 0;
    return signal > 0 && (front->passed & 1U << signal) != 0 ? signal : 0;
}

static int finish(struct front *front) {
    if (!front->has_result) end_orphans(front);
    terminal_take(&front->terminal, front->group);
    const char *path = front->settings->run.status_file;
    if (front->settings->json && path == NULL) outcome_print(&front->outcome);
    if (path != NULL && outcome_write(&front->outcome, path) != 0 && front->outcome.exit == EXIT_OK)
        return EXIT_SYSTEM;
    share_interrupt(front);
    return front->outcome.exit;
}

static void warn_without_proc(const struct front *front) {
    static bool warned;
    if (warned || front->settings->quiet || access("/proc/thread-self/children", R_OK) == 0) return;
    warned = true;
    complain("warning: cannot read /proc/thread-self/children: %s; a process that leaves the "
             "command's process group is not found, and may outlive the lock: mount /proc",
             strerror(errno));
}

static int start(struct front *front, struct run_plan *plan) {
    int ends[2];
    warn_without_proc(front);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        complain("cannot start: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    plan->front = getpid();
    void *shared =
        mmap(NULL, sizeof *front->watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        complain("cannot start: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return EXIT_SYSTEM;
    }
    plan->watch = front->watch = shared;
    front->watch->kill_at = front->watch->kill_stopped_at = NEVER;
    siginfo_t child;
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0)
        front->spared = descent_children();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    terminal_open(&front->terminal);
    front->holder = fork();
    if (front->holder == 0) {
        close(ends[0]);
        close(front->signal_fd);
        plan->socket = ends[1];
        plan->terminal = front->terminal.fd;
        exit(holder_main(plan));
    }
    close(ends[1]);
    front->socket = ends[0];
    if (front->holder > 0) return 0;
    complain("cannot start: %s", strerror(errno));
    return EXIT_SYSTEM;
}

static int refused(const struct settings *settings, int status) {
    struct outcome outcome = {
        .kind = outcome_of_exit(status, -1), .exit = status, .command_status = -1};
    if (settings->json) outcome_reason(&outcome, last_complaint());
    if (settings->json && settings->run.status_file == NULL) outcome_print(&outcome);
    if (settings->run.status_file != NULL) outcome_write(&outcome, settings->run.status_file);
    return status;
}

/* A wait of hours must not end with a program that is not there. */
static int not_run(const struct settings *settings, const char *resource, int status) {
    const struct outcome outcome = {.kind = OUTCOME_NOT_RUN, .exit = status, .command_status = -1};
    metrics_file_outcome(settings, resource, &outcome);
    return refused(settings, status);
}

void refuse_run(const struct settings *settings, int status, int argc, char **argv) {
    (void)argc;
    (void)argv;
    refused(settings, status);
}

static char dash_c[] = "-c";

static char *shell_program(void) {
    static char plain[] = "/bin/sh";
    char *named = getenv("SHELL");
    return named != NULL && named[0] != '\0' ? named : plain;
}

/* What to run: the words after the resource, or the shell with the line of -c, which may also
 * follow the resource, as in flock(1). NULL after a message. */
static char **find_command(struct settings *settings, char **operands, char *shell[4]) {
    char **words = operands + 1;
    const bool follows = *words != NULL && strcmp(*words, dash_c) == 0;
    if (settings->run.command != NULL ? *words != NULL
                                      : follows && (words[1] == NULL || words[2] != NULL)) {
        complain(
            "redlock run takes one line after -c, and no other command: quote it, as in -c 'echo hi && date'");
        return NULL;
    }
    if (settings->run.command != NULL || follows) {
        shell[0] = shell_program();
        shell[1] = dash_c;
        shell[2] = follows ? words[1] : settings->run.command;
        shell[3] = NULL;
        return shell;
    }
    return arguments_command(settings, "run", "RESOURCE", operands);
}

/* One hold of the lock. *outcome: how it ended; *end_by: the signal by which to end, or 0. */
static int run_once(struct settings *settings, struct run_plan *plan, int signal_fd,
                    struct outcome *outcome, int *end_by) {
    struct front front = {.settings = settings,
                          .resource = plan->resource,
                          .complain_at = NEVER,
                          .signal_fd = signal_fd,
                          .socket = -1,
                          .terminal = {.fd = -1}};
    int status = front.signal_fd < 0 ? EXIT_SYSTEM : start(&front, plan);
    if (status == 0) {
        follow(&front);
        status = finish(&front);
        if (!front.has_result) metrics_file_outcome(settings, plan->resource, &front.outcome);
    } else {
        refused(settings, status);
    }
    *outcome = front.outcome;
    *end_by = ended_by(&front);
    terminal_close(&front.terminal);
    if (front.socket >= 0) close(front.socket);
    if (front.watch != NULL) munmap(front.watch, sizeof *front.watch);
    free(front.spared.list);
    return status;
}

/* A signal that comes in between ends the next campaign at its beginning. */
#define CAMPAIGN_AGAIN_AFTER_MS 200

int run_supervised(struct settings *settings, const char *resource, char **command, bool elects) {
    int status, end_by = 0;
    struct outcome outcome;
    struct inherited_signals inherited;
    /* after the job it would be too late to report that */
    if (outcome_check(settings->run.status_file) != 0) return EXIT_USAGE_ERROR;
    const int error = child_look(command[0]);
    if (error != 0) return not_run(settings, resource, job_failed(command[0], error));
    signals_take(&inherited);
    char owner[REDLOCK_OWNER_BYTES_MAX + 1];
    default_owner(settings, owner, sizeof owner);
    const int signal_fd = signals_open(&inherited);
    for (bool again = true; again;) {
        struct run_plan plan = {.settings = settings,
                                .resource = resource,
                                .argv = command,
                                .owner = owner,
                                .inherited = &inherited,
                                .elects = elects};
        status = run_once(settings, &plan, signal_fd, &outcome, &end_by);
        /* what is left of an earlier term would work next to the new one */
        again = elects && !settings->once && status == EXIT_LOST && outcome.kind == OUTCOME_LOST &&
                outcome.left_running == 0;
        if (!again) break;
        if (!settings->quiet) complain("campaigning for '%.100s' again", resource);
        pause_ms(CAMPAIGN_AGAIN_AFTER_MS);
    }
    if (signal_fd >= 0) close(signal_fd);
    if (end_by != 0) signals_end_by(end_by);
    return status;
}

/* 0, or the exit status after a message. */
static int check_hold(const struct settings *settings) {
    char least[64], most[64];
    const struct run_settings *run = &settings->run;
    if (run->max_hold_ms == 0 || run->min_hold_ms <= run->max_hold_ms) return 0;
    complain("--min-hold %s is longer than --max-hold %s: lower it, or raise --max-hold",
             duration_text(least, sizeof least, run->min_hold_ms),
             duration_text(most, sizeof most, run->max_hold_ms));
    return EXIT_USAGE_ERROR;
}

int command_run(struct settings *settings, int argc, char **argv) {
    int status = argc > 0 ? resource_check(settings, argv[0]) : EXIT_USAGE_ERROR;
    if (argc == 0) complain("redlock run needs a resource and a command; try 'redlock run --help'");
    if (status == 0) status = check_hold(settings);
    if (status == 0) status = metrics_file_check(settings);
    if (status != 0) return refused(settings, status);
    char *shell[4], **command = find_command(settings, argv, shell);
    if (command == NULL) return refused(settings, EXIT_USAGE_ERROR);
    return run_supervised(settings, argv[0], command, false);
}
