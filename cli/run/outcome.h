/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The outcome of a `redlock run`. It distinguishes the command's own 69, 75 or 80 from redlock's.
 */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

enum outcome_kind {
    OUTCOME_COMMAND, /* it ran under the lock until it ended */
    OUTCOME_NOT_RUN, /* it could not be executed */
    OUTCOME_HELD,
    OUTCOME_NO_QUORUM,
    OUTCOME_LOST,
    OUTCOME_CANCELLED, /* by a signal, before the command ran */
    OUTCOME_USAGE,
    OUTCOME_CONFIG,
    OUTCOME_SYSTEM
};

struct outcome {
    enum outcome_kind kind;
    int exit;
    int command_status; /* -1: it did not exit by itself */
    int command_signal; /* 0: none */
    int left_running;   /* processes that the command started, and that could not be ended */
    char facts[2048];   /* --json: an object with what is known of the lock; "": nothing */
};

/* The outcome for one of redlock's exit statuses; `conflict` is the status for a lock that another
 * client holds. */
enum outcome_kind outcome_of_exit(int status, int conflict);
/* 0, or the exit status after a message: the outcome could not be written there. NULL: nowhere. */
int outcome_check(const char *path);
/* Makes the reason the only fact. */
void outcome_reason(struct outcome *outcome, const char *reason);
/* Writes the one-line JSON; a plain file is replaced completely or not at all. 0, or -1 after a
 * message. */
int outcome_write(const struct outcome *outcome, const char *path);
/* The same object in a line on standard error. */
void outcome_print(const struct outcome *outcome);

#endif
