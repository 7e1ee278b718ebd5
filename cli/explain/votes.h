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

/* Whether a majority cannot be read because this user may not, though the nodes take its locks. */
bool session_reads_refused(struct session *session, const int *verdicts);
/* The verdict of a node on a try that gave it `verdict`, and its text in `reason`. */
int session_verdict(struct session *session, size_t node, int verdict, char *reason, size_t size);

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
/* As session_shut_out(), with the verdicts of the last try; NULL: there was none. */
bool votes_shut_out(struct session *session, const int *verdicts);
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
/* Whether a node with this verdict does not answer at all. */
bool node_is_silent(int verdict);
/* Whether a node with this verdict answered the try by the rules of locks. */
bool node_can_vote(int verdict);
/* Whether a node refused the operation, though it may vote. */
bool node_denies(struct session *session, size_t node, int verdict);
/* Of how many nodes it is known whether they carry a record. */
enum reach { REACH_NONE, REACH_SOME, REACH_ALL };
/* NONE: no node answers at all. */
enum reach session_reach(struct session *session);
/* The same for the nodes' records: a server that is unfit answers, but its record is unknown. */
enum reach session_reach_of_records(struct session *session);
/* Why a node does not vote, once: `detail` is the text of its status. Returns `out`. */
char *reason_text(int verdict, const char *detail, char *out, size_t size);

/* Guarded mode: what a node that does not vote answered is replaced with why it does not. A key
 * there is not a lock, and no key there proves nothing. */
void session_drop_nonvoters(struct session *session, struct redlock_view *views);

/* How many votes a lock needs: of the members in guarded mode, else of the listed nodes. */
size_t session_votes_needed(struct session *session);
/* "granted", "no_quorum", ...: names for machines. */
const char *verdict_name(int verdict);

#endif
