/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of membership.h: what the files of the machine share. */
#ifndef RL_MEMBERSHIP_INSIDE_H
#define RL_MEMBERSHIP_INSIDE_H

#include "core/membership.h"
#include "core/eligibility.h"

/* ---- membership.c: questions. Each ends in the handler of its state, in this step or a later
 * one. */

/* Reads all nodes after a pause, and computes `view`. */
void membership_peek(struct rl_membership *m, enum rl_membership_state state, rl_ns pause);
/* The same after a random pause, which is longer with each try, because other operators may be at
 * work. */
void membership_peek_again(struct rl_membership *m, enum rl_membership_state state, unsigned tries);
/* Writes view.node[].writing with a fresh nonce over the record that was read, only for the server
 * and the data of that read. `floor`: raises all stripes to view.floor. Afterwards `written` holds
 * the nodes that are known to have taken the write, and node[].record is the new one. */
void membership_write(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                      bool floor);
/* Raises view.floor to the fences of the intact nodes, or to the kept ones. Afterwards `reported`
 * holds the nodes that answered. A node whose data are not those of its record's read counts as not
 * having answered. `without` holds those that have no fences of that name. */
void membership_fences(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                       bool kept);
void membership_judge(struct rl_membership *m); /* computes `view` again from what was read */

void membership_report(struct rl_membership *m, enum rl_membership_report report, rl_ns left);
uint64_t membership_random(struct rl_membership *m); /* an id, a nonce or a loss; not 0 */
/* The result, for a caller that fills in the fields of its kind. */
struct rl_problem *membership_problem(struct rl_membership *m, enum rl_problem_kind kind);
/* Returns false, so that a check can return its result. */
bool membership_refuse(struct rl_membership *m, enum rl_problem_kind kind, unsigned node);
void membership_end(struct rl_membership *m); /* ends with `problem` */
/* Ends with this one, of `node`; -1: of none. */
void membership_fail(struct rl_membership *m, enum rl_problem_kind kind, int node);
void membership_ok(struct rl_membership *m); /* ends without a problem */

/* ---- membership_check.c: conditions. False: `problem` has the reason. */
bool membership_check_fit(struct rl_membership *m, rl_mask nodes);
/* A majority is intact, and no node belongs to another quorum, except the one to be added. */
bool membership_check_members(struct rl_membership *m);
bool membership_check_change(struct rl_membership *m);
/* Enough members are intact for the epoch that this change makes. */
bool membership_check_intact_after(struct rl_membership *m, const struct rl_change *change);

/* ---- what was read */
static inline rl_mask membership_intact(const struct rl_membership *m) {
    return rl_guard_intact(&m->view);
}
/* NULL: no record was read now, or it is unreadable. */
static inline const struct rl_record *membership_record_at(const struct rl_membership *m,
                                                           unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    return at->up && at->has_record ? &at->record : NULL;
}
/* The node answered, and its record is for the server that runs there and for its present data. */
static inline bool membership_same_server(const struct rl_membership *m, unsigned node) {
    return membership_record_at(m, node) != NULL && eligibility_fits(&m->view.node[node]);
}
/* The first node that did not answer; -1: all did. */
int membership_unheard(const struct rl_membership *m);
/* The nodes of `nodes` that still carry the record that this run wrote, unchanged. */
rl_mask membership_unchanged(const struct rl_membership *m, rl_mask nodes);
void membership_remember(struct rl_membership *m, rl_mask nodes);
/* Prepares the node's record for that member, as one that lost its data. Clients then recover the
 * node. */
void membership_claim(struct rl_membership *m, unsigned node, uint64_t id);

/* ---- membership_plan.c: what an init finds, and what it will write instead */
/* may the records that were found be overwritten? */
bool membership_plan_begin(struct rl_membership *m);
void membership_plan_records(struct rl_membership *m);
/* The member that the node will be. 0: its record must not be overwritten, or it is not a
 * member. */
uint64_t membership_left_by_other(const struct rl_membership *m, unsigned node);

/* ---- the handlers: what happens when the question of a state is answered */
typedef void membership_answered_fn(struct rl_membership *m);
/* membership_init.c */
membership_answered_fn membership_init_read, membership_init_proven, membership_init_claimed,
    membership_init_watched, membership_init_floored, membership_init_installed,
    membership_init_reviewed, membership_finish_taken, membership_finish_fenced,
    membership_finish_installed, membership_finish_reviewed, membership_finish_read;
/* membership_change.c */
membership_answered_fn membership_change_read, membership_change_written,
    membership_change_promised, membership_change_accepted, membership_switch_read,
    membership_switch_written, membership_switch_seen, membership_switch_claimed,
    membership_added_read, membership_added_claimed, membership_added_seen;
/* membership_settle.c */
membership_answered_fn membership_settle_gathered, membership_settle_waited, membership_settle_read,
    membership_settle_fenced, membership_raise_read, membership_raise_written, membership_mark_read,
    membership_mark_written;

/* membership_settle.c: settles the present epoch, then calls membership_settled(). `last`: the
 * change that made it; NONE: unknown. */
void membership_settle(struct rl_membership *m, const struct rl_change *last);
/* membership_change.c: the epoch is settled. */
void membership_settled(struct rl_membership *m);

#endif
