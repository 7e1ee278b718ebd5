/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why an operation failed: what the user reads, and the exit status.
 */
#ifndef CLI_FAILURE_H
#define CLI_FAILURE_H

#include <stddef.h>

#include "frame/session.h"

/* What a node refused. */
enum need {
    NEED_LOCK, /* to take, extend or end a lock */
    NEED_READ, /* to read what it holds under a name */
    NEED_LIST  /* to list the names */
};

/* Prints the cause of `result`, node by node unless -q, and returns its exit status. */
int session_failure(struct session *session, struct redlock_lock *lock, const char *resource,
                    int result);
/* The same for redlock_peek(); its views hold the answer of each node. */
int session_unseen(struct session *session, const struct redlock_view *views, const char *resource,
                   int result);
/* The same for a walk over the names: `verdicts` hold why nodes gave none. */
int session_unlisted(struct session *session, const int *verdicts, enum need need, int result);
/* A wait that ended for this reason, with a lock that another client holds. Returns the reason. */
const char *session_wait_is_over(struct session *session, const char *reason);
/* Whether the session's mode or node list makes every lock impossible on these nodes, whatever they
 * answer: the exit status after a message; else 0. For commands that take no lock; a command that
 * takes one gets this error anyway. Call it when nodes are connected. */
int session_check(struct session *session, const char *resource);

/* What the key of a lock holds that is not a string (foreign_text()). Asks the nodes. */
char *session_foreign(struct session *session, const char *resource, size_t bytes, char *out,
                      size_t size);

#endif
