/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of guard.h: derives from the records which nodes may vote. */
#ifndef RL_ELIGIBILITY_H
#define RL_ELIGIBILITY_H

#include "core/guard.h"

/* Recomputes quorum, ids and eligibilities. True: something changed. */
bool eligibility_judge(struct rl_guard *guard);
/* The quorum's member whose URL this is; NULL: none. */
const struct rl_member *eligibility_member_at(const struct rl_guard *guard, const char *url);
/* The record was written for the server that runs there now and for its present data. */
bool eligibility_fits(const struct rl_guard_node *node);
/* The record is in state recovering, and was written for the server that runs there now. */
bool eligibility_is_claimed(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The incarnation of a claimed node, as its own record has it. NULL: it is not a member. */
const struct rl_incarnation *eligibility_claimed_incarnation(const struct rl_guard_node *node);
/* `other` is intact, is another node, and knows the claimed incarnation as the newest. */
bool eligibility_has_registered(const struct rl_guard_node *other,
                                const struct rl_guard_node *node);
/* A majority of the members knows the claimed incarnation as the newest. Each of them is intact,
 * and the node itself does not count. */
bool eligibility_is_registered(const struct rl_guard *guard, const struct rl_guard_node *node);
/* A newer incarnation of the same member exists. */
bool eligibility_is_superseded(const struct rl_guard *guard, const struct rl_guard_node *node);
/* Another node of this client, listed before this one, stands for the same member. */
bool eligibility_is_double(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The newest incarnation of a member in all known records, those of claimed nodes included. False:
 * it is not a member. */
bool eligibility_newest_incarnation(const struct rl_guard *guard, uint64_t id,
                                    struct rl_incarnation *incarnation);

#endif
