/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of membership.h: what the files of the machine share.
 */
#ifndef RL_MEMBERSHIP_INSIDE_H
#define RL_MEMBERSHIP_INSIDE_H

#include "core/membership.h"
#include "core/eligibility.h"

/* ---- membership.c: questions. Each ends in the handler of its state, in this step or a later one.
 */

/* Reads all nodes, after a pause, and works out `view`. */
void membership_peek(struct rl_membership *m, enum rl_membership_state state, rl_ns pause);
/* Above it a random pause, longer with each try: others are at it as well. */
void membership_peek_again(struct rl_membership *m, enum rl_membership_state state, unsigned tries);
/* Writes view.node[].writing with a fresh nonce over what was read, for the server and the data
 * that it was read of; `floor`: raises all stripes to view.floor. `written` are then the nodes of
 * which it is known that they took it; node[].record is the new one. */
void membership_write(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                      bool floor);
/* Raises view.floor to the fences of those intact, or to the kept ones. `reported` are then the
 * nodes that answered. One whose data are not those that its record was read of has not answered.
 */
void membership_fences(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                       bool kept);
void membership_judge(struct rl_membership *m); /* `view` again, of what was read */

void membership_report(struct rl_membership *m, enum rl_membership_report report, rl_ns left);
uint64_t membership_random(struct rl_membership *m); /* an id, a nonce, a loss; not 0 */
/* The result, when it is to be filled in with what its kind has. */
struct rl_problem *membership_problem(struct rl_membership *m, enum rl_problem_kind kind);
/* False, so that a check can end with it. */
bool membership_refuse(struct rl_membership *m, enum rl_problem_kind kind, unsigned node);
void membership_end(struct rl_membership *m); /* with `problem` */
void membership_ok(struct rl_membership *m);  /* with none */

/* ---- membership_check.c: what is refused. False: `problem` says why. */
bool membership_check_fit(struct rl_membership *m, rl_mask nodes);
/* A majority is intact, and none belongs to another quorum but the one that is to be added. */
bool membership_check_members(struct rl_membership *m);
bool membership_check_change(struct rl_membership *m);

/* ---- what was read */
static inline rl_mask membership_intact(const struct rl_membership *m) {
    return rl_guard_intact(&m->view);
}
/* NULL: none that was read now, or can be read. */
static inline const struct rl_record *membership_record_at(const struct rl_membership *m,
                                                           unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    return at->up && at->has_record ? &at->record : NULL;
}
/* Heard, and its record is for the server that is there, and for the data that it has. */
static inline bool membership_same_server(const struct rl_membership *m, unsigned node) {
    return membership_record_at(m, node) != NULL && eligibility_fits(&m->view.node[node]);
}
/* The first node that was not heard; -1: all were. */
int membership_unheard(const struct rl_membership *m);
/* Of `nodes`, those that carry the record that this run has written, unchanged since. */
rl_mask membership_unchanged(const struct rl_membership *m, rl_mask nodes);
void membership_remember(struct rl_membership *m, rl_mask nodes);
const struct rl_member *membership_member_at(const struct rl_membership *m, const char *url);
/* What a lease may last under a quorum of this ttl_max, and drift. */
rl_ns membership_quarantine(const struct rl_membership *m, int64_t ttl_ms);
/* Prepares to write the node down as that member, as one that lost its data: clients bring it
 * back. */
void membership_claim(struct rl_membership *m, unsigned node, uint64_t id);

/* ---- membership_plan.c: what an init finds, and what is to be there instead */
bool membership_plan_begin(struct rl_membership *m); /* may what was found be written over? */
void membership_plan_records(struct rl_membership *m);
uint64_t membership_loss_of_init(uint64_t quorum_id, uint32_t epoch);
bool membership_is_of_init(const struct rl_record *record);
/* The member that the node is to be; 0: it has a record that is not to be written over, or is no
 * member. */
uint64_t membership_left_by_other(const struct rl_membership *m, unsigned node);

/* ---- the handlers: what is done when the question of a state has been answered */
#define MEMBERSHIP_HANDLERS(X)                                                                     \
    X(init_looked)                                                                                 \
    X(init_claimed)                                                                                \
    X(init_watched)                                                                                \
    X(init_floored)                                                                                \
    X(init_installed)                                                                              \
    X(init_reviewed)                                                                               \
    X(finish_taken)                                                                                \
    X(finish_fenced)                                                                               \
    X(finish_installed)                                                                            \
    X(finish_reviewed)                                                                             \
    X(finish_looked)                                                                               \
    X(change_looked)                                                                               \
    X(change_written)                                                                              \
    X(change_promised)                                                                             \
    X(change_accepted)                                                                             \
    X(switch_looked)                                                                               \
    X(switch_written)                                                                              \
    X(switch_seen)                                                                                 \
    X(switch_claimed)                                                                              \
    X(added_looked)                                                                                \
    X(added_claimed)                                                                               \
    X(added_seen)                                                                                  \
    X(settle_gathered)                                                                             \
    X(settle_waited)                                                                               \
    X(settle_looked)                                                                               \
    X(settle_fenced)                                                                               \
    X(raise_looked)                                                                                \
    X(raise_written)                                                                               \
    X(mark_looked)                                                                                 \
    X(mark_written)
#define MEMBERSHIP_DECLARE(name) void membership_##name(struct rl_membership *m);
MEMBERSHIP_HANDLERS(MEMBERSHIP_DECLARE)
#undef MEMBERSHIP_DECLARE

/* membership_settle.c: brings the epoch that is there to its end; then membership_settled().
 * `last`: the change that made it; NULL: not known. */
void membership_settle(struct rl_membership *m, const struct rl_change *last);
/* membership_change.c: the epoch is settled. */
void membership_settled(struct rl_membership *m);

#endif
