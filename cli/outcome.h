/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a `redlock run` ended, so that the command's own 69, 75 or 80 can be told from ours.
 */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

enum outcome_kind {
    OUTCOME_COMMAND, /* it ran under the lock to its end */
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
};

/* What an exit status of ours says; `conflict` is the one for a lock held by another. */
enum outcome_kind outcome_of_exit(int status, int conflict);
/* Writes the one-line JSON; a plain file is replaced in full or not at all. 0, or -1 after a
 * message. */
int outcome_write(const struct outcome *outcome, const char *path);

#endif
