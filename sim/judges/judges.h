/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The judges behind check_history(), one a file. Each walks the history once, keeps its state in
 * fixed tables on its stack, and looks further (scans, sentences) only where something is wrong. A
 * judge learns about other records only from the history itself: a judge that shared a formula with
 * the code it judges would share its mistakes.
 */
#ifndef SIM_JUDGES_H
#define SIM_JUDGES_H

#include "check.h"

/* A history that exceeds one of these limits is refused, never judged in part. */
#define JUDGE_CLIENTS 16
#define JUDGE_NODES 16
#define JUDGE_RESOURCES 8
#define JUDGE_SLOT_FIRST 4 /* from here on, a resource is a slot of the first one */

/* enum redlock_result and enum net_op as in history.h's `result` and `op`: the public numbers,
 * which are never renumbered, written down a second time. */
enum { JUDGE_OK = 0, JUDGE_LOST = -4, JUDGE_TWO_QUORUMS = -16 };
enum { JUDGE_OP_ACQUIRE = 0, JUDGE_OP_EXTEND = 1 };
/* `result` of ACQUIRED */
enum { JUDGE_SHARED = 1 };

struct report {
    const struct history *history;
    unsigned rules;
    struct check_violation *violations;
    size_t room, written, found;
};

static inline bool judged(const struct report *report, enum check_rule rule) {
    return (report->rules >> rule & 1) != 0;
}

#if defined(__GNUC__)
__attribute__((format(printf, 7, 8)))
#endif
void judge_found(struct report *report, enum check_rule rule, size_t first, size_t second, rl_ns from, rl_ns until,
                 const char *format, ...);

/* Text of a sentence. Returned by value, so that several fit into one call. */
struct words {
    char text[48];
};
/* "301.2 ms": exact, with as many digits as necessary, at least one */
struct words judge_ms(rl_ns at);
struct words judge_client(int client);     /* A, B, ... */
struct words judge_resource(int resource); /* job, r2, r3, ... */

/* An operator had begun to break the lock with this token before record `before`: from then on its
 * holder may be one of two. */
bool judge_was_broken(const struct history *history, uint32_t token, size_t before);

void judge_leases(struct report *report);      /* EXCLUSION, RESURRECTED, LATE_LOSS */
void judge_register(struct report *report);    /* FENCE, LOST_UPDATE */
void judge_eligibility(struct report *report); /* UNFIT_VOTE, REFUSED, RECOVERED */
void judge_lists(struct report *report);       /* ONE_LIST; LIVENESS of operators */
void judge_breaks(struct report *report);      /* BROKEN */
void judge_storms(struct report *report);      /* STORM */
void judge_orphans(struct report *report);
void judge_order(struct report *report); /* LINEARIZABLE */
void judge_liveness(struct report *report);
void judge_observed(struct report *report); /* OBSERVED, SURE */

#endif
