/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which nodes answer, which of them vote, and which must be corrected before they can.
 */
#ifndef CLI_VOTES_H
#define CLI_VOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock.h>

#include "frame/session.h"

/* redlock_why(): `lock` and `verdicts` may be NULL. */
void session_why(struct session *session, struct redlock_lock *lock, const int *verdicts,
                 int result, struct redlock_why_report *why);
/* What each node answered to a peek. */
void verdicts_of(struct session *session, const struct redlock_view *views, int *verdicts);
/* Why a node with this verdict does not vote, in the words that the client has for it now. Returns
 * `out`. */
char *node_reason(struct session *session, size_t node, int verdict, char *out, size_t size);
/* How the lock was lost: "db2:6379 and db3:6379 timed out". Returns how many nodes it names. */
size_t session_loss(struct session *session, struct redlock_lock *lock, const int *verdicts,
                    char *out, size_t size);
/* Whether a majority cannot be read because this user may not, though the nodes take its locks. */
bool session_reads_refused(struct session *session, const int *verdicts);

/* Whether any node refuses the password. */
bool session_is_refused(struct session *session);
/* Whether so many nodes answered the last try with an error that a majority was impossible: out of
 * memory, say. That may pass. */
bool session_writes_refused(struct session *session, struct redlock_lock *lock);
/* True when so many nodes must be corrected (a password, a certificate, a permission, a setting,
 * the list) that a majority is impossible, however long the command waits. `lock`, which may be
 * NULL, knows the last votes. */
bool session_shut_out(struct session *session, struct redlock_lock *lock);
/* The same, of what a majority lacks whatever the records say. */
bool session_must_be_corrected(struct session *session);
/* The same for a command that waits: records must have been wrong for a second, because they are
 * for a short time while quorum init writes them. */
bool session_waits_in_vain(struct session *session, struct redlock_lock *lock);
/* When to ask this again, at the latest; NEVER. */
int64_t session_shut_out_due(const struct session *session);
/* Warns in one line of the nodes that must be corrected; returns how many there are. Nodes that are
 * merely down do not count. */
size_t session_warn(struct session *session);
/* Warns if mode classic was named for nodes of a guarded quorum. Asks the nodes. */
void session_warn_classic(struct session *session);
/* Whether a node refused the operation, though it may vote. */
bool node_denies(struct session *session, size_t node, int verdict);
/* Of how many nodes it is known whether they carry a record. */
enum reach { REACH_NONE, REACH_SOME, REACH_ALL };
/* NONE: no node answers at all. */
enum reach session_reach(struct session *session);
/* The same for the nodes' records: a server that is unfit answers, but its record is unknown. */
enum reach session_reach_of_records(struct session *session);
/* Guarded mode: what a node that does not vote answered is replaced with why it does not. A key
 * there is not a lock, and no key there proves nothing. */
void session_drop_nonvoters(struct session *session, struct redlock_view *views);

/* How many votes a lock needs: of the members in guarded mode, else of the listed nodes. */
size_t session_votes_needed(struct session *session);
/* "granted", "no_quorum", ...: names for machines. */
const char *verdict_name(int verdict);
const char *result_name(int result);

#endif
