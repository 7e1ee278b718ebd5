/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of guard.h: which nodes may vote, from what the records say.
 */
#ifndef RL_ELIGIBILITY_H
#define RL_ELIGIBILITY_H

#include "core/guard.h"

/* Works out quorum, ids and eligibilities anew; true when something changed. */
bool eligibility_judge(struct rl_guard *guard);
/* Its record was written for the server that is there now, and the data that it has. */
bool eligibility_fits(const struct rl_guard_node *node);
/* Its record says that it recovers, written for the server that is there now. */
bool eligibility_is_claimed(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The incarnation of a claimed node, as its own record has it; NULL: it is no member. */
const struct rl_incarnation *eligibility_claimed_incarnation(const struct rl_guard_node *node);
/* `other` is intact, not the node itself, and knows the claimed incarnation as the newest. */
bool eligibility_has_registered(const struct rl_guard_node *other,
                                const struct rl_guard_node *node);
/* A majority of the members, each intact, the node itself not among them, knows the claimed
 * incarnation as the newest. */
bool eligibility_is_registered(const struct rl_guard *guard, const struct rl_guard_node *node);
/* Another incarnation of the same member is newer than this node's. */
bool eligibility_is_superseded(const struct rl_guard *guard, const struct rl_guard_node *node);
/* Another node of this client stands for the same member, and before this one. */
bool eligibility_is_double(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The newest incarnation of a member in all that is known, those of claimed nodes included. False:
 * it is no member. */
bool eligibility_newest_incarnation(const struct rl_guard *guard, uint64_t id,
                                    struct rl_incarnation *incarnation);

#endif
