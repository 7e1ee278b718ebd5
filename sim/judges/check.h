/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Judges of a history. They know the invariants, and nothing of the code that made the history: of
 * src/, they include only core/core.h, for its units.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "history/history.h"

/* X(name, sentence) */
/* clang-format off */
#define CHECK_RULES(X) \
    X(EXCLUSION, "at most one client is inside its validity of a resource") \
    X(FENCE, "fencing tokens are unique and grow in real time") \
    X(FENCE_ORDER, "fencing tokens grow in the order in which the grants are told") \
    X(UNFIT_VOTE, "a lock with a fencing token is granted by a majority of nodes that are intact") \
    X(REFUSED, "a client whose list names two quorums, or that chose no mode on guarded nodes, gets no lock") \
    X(RECOVERED, "once faults stop, every node is intact again within the bound") \
    X(LOST_UPDATE, "no write to a resource's register is lost or made from a stale read") \
    X(ORPHAN, "no key outlives its client's interest by more than one TTL") \
    X(RESURRECTED, "a lease told lost, or past its validity, is never valid again") \
    X(LATE_LOSS, "a client that runs is told of a loss before its validity ends") \
    X(LINEARIZABLE, "acquire only if free, release by the owner only: some order of the operations explains them") \
    X(ONE_LIST, "two member lists of one epoch are never both in force, and epochs only grow") \
    X(BROKEN, "a broken lock stays broken, and a break touches no other client's lock") \
    X(STORM, "clients ask a node about its record and state only so often as something happens") \
    X(LIVENESS, "once faults stop, somebody acquires within the bound") \
    X(OBSERVED, "a leader that is reported is the one of its term, and terms never fall") \
    X(SURE, "nobody else leads before the sure time of a report, unless the leader resigned")
/* clang-format on */

enum check_rule {
#define CHECK_ENUM(name, text) CHECK_##name,
    CHECK_RULES(CHECK_ENUM)
#undef CHECK_ENUM
        CHECK_RULE_COUNT
};

struct check_violation {
    enum check_rule rule;
    /* indexes of the records that contradict each other; second may equal first */
    size_t first, second;
    rl_ns from, until; /* the span of the overlap, where there is one */
    char text[256];    /* a plain sentence */
};

/* Judges by the rules whose bits are set in `rules`. Returns the number of violations; writes at
 * most `count` of them, in order of time. */
size_t check_history(const struct history *history, unsigned rules,
                     struct check_violation *violations, size_t count);
const char *check_rule_name(enum check_rule rule);

#endif
