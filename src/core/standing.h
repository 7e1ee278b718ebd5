/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of guard.h: who stands how, from what the records say.
 */
#ifndef RL_STANDING_H
#define RL_STANDING_H

#include "core/guard.h"

/* Works out quorum, ids and standings anew; true when something changed. */
bool standing_judge(struct rl_guard *guard);
/* Its record was written for the server that is there now, and the data that it has. */
bool standing_fits(const struct rl_guard_node *node);
/* Its record says that it recovers, written for the server that is there now. */
bool standing_is_claimed(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The body of a claimed node, as its own record has it; NULL: it is no member. */
const struct rl_body *standing_claimed_body(const struct rl_guard_node *node);
/* `other` is intact, not the node itself, and knows the claimed body as the newest. */
bool standing_has_registered(const struct rl_guard_node *other, const struct rl_guard_node *node);
/* A majority of the members, each intact, the node itself not among them, knows the claimed body as
 * the newest. */
bool standing_is_registered(const struct rl_guard *guard, const struct rl_guard_node *node);
/* Another body of the same member is newer than this node's. */
bool standing_is_superseded(const struct rl_guard *guard, const struct rl_guard_node *node);
/* Another node of this client stands for the same member, and before this one. */
bool standing_is_double(const struct rl_guard *guard, const struct rl_guard_node *node);
/* The newest body of a member in all that is known, those of claimed nodes included. False: it is
 * no member. */
bool standing_newest_body(const struct rl_guard *guard, uint64_t id, struct rl_body *body);

#endif
