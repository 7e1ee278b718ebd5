/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a command that waits for a lock reports, and what it shows on a terminal: one line on
 * standard error, rewritten in place. The line names the holder, the holder's time left, the place
 * in the queue and how long the wait lasts. It is a diagnostic: nothing waits for it, and it shows
 * nothing that is not known already, except that it asks the nodes for the holder once a second.
 */
#ifndef CLI_WAITING_H
#define CLI_WAITING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame/session.h"
#include "majority.h"

/* The holder, as the nodes reported it last. */
struct wait_holder {
    bool known;
    enum majority_verdict verdict;
    char owner[REDLOCK_OWNER_BYTES_MAX * 4 + 1]; /* printable; "": unknown */
    bool shared;                                 /* by readers */
    int64_t ends_ns;                             /* unless renewed; NEVER: the key has no TTL */
    size_t nodes, answered;
};

struct wait_line {
    struct session *session;
    struct redlock_lock *lock; /* the one that is waited for */
    struct redlock_lock *look; /* for questions about the holder */
    const char *resource;
    pid_t job;        /* the process group that the shell knows */
    int64_t begun_ns; /* the wait */
    int64_t next_ns;  /* NEVER: no line is shown, or a question is under way */
    bool shown;
    struct wait_holder holder;
    struct redlock_view views[REDLOCK_NODES_MAX];
};

/* Shows nothing yet; and nothing at all with -q, without a terminal, and if the command tries only
 * once. `job` is the process group of the job: a job in the background shows nothing. */
void wait_line_begin(struct wait_line *line, struct session *session, struct redlock_lock *lock,
                     const char *resource, int64_t wait_ms, pid_t job);
/* When wait_line_step() has work; NEVER: not by itself. */
int64_t wait_line_due(const struct wait_line *line);
/* Call it from the loop. Sends one question to the nodes when it is due; the line is written in
 * redlock_process(). */
void wait_line_step(struct wait_line *line);
/* The wait is over: erases the line. May be called again, and for a line that is all zeros. */
void wait_line_end(struct wait_line *line);

/* The two parts, for commands that have no lock. */
void wait_holder_set(struct wait_holder *holder, const struct redlock_view *views, size_t count);
/* `ahead`: -1: unknown. */
void wait_line_write(const struct wait_holder *holder, const char *resource, int64_t ahead,
                     int64_t begun_ns);
/* Whether a line may be written now: standard error is a terminal, and the job `job` is in its
 * foreground. */
bool wait_line_may(const struct settings *settings, pid_t job);

/* Prints who waits for the resource when no majority answers; with -v, also who holds it. True when
 * it printed something. `lock` NULL: the command takes none. `limit`: the next text, or "" for a
 * command without the option. */
#define WAIT_SETS_LIMIT "; --wait sets a limit"
bool report_waiting(struct session *session, struct redlock_lock *lock, const char *resource,
                    const char *limit);

#endif
