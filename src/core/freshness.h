/* SPDX-License-Identifier: BSD-2-Clause
 *
 * When a node is asked again about what votes rest on: its state, its clock, its record.
 *
 * The question goes out with the votes, before them on the same connection, unless the node was
 * asked within the last second. So a vote counts on the answer to such a question, however rarely a
 * client asks that takes no lock just now.
 *
 * Apart from votes, all clients of a node together ask it a few times a second, so that one of them
 * notices a step of its clock. Each asks in proportion to the number of clients, which the node
 * itself counts: no client relies on another one. And each asks at least twice in its own shortest
 * TTL, and twice at the beginning, since a clock that runs fast shortens its validity. */
#ifndef RL_FRESHNESS_H
#define RL_FRESHNESS_H

#include "core/core.h"

#define RL_CLIENTS_MANY UINT32_MAX

struct rl_freshness {
    unsigned nodes;
    rl_ns asked[RL_NODES_MAX];
    /* Clients that ask this node. MANY: other clients' interest does not matter. */
    uint32_t clients[RL_NODES_MAX];
    uint8_t asks[RL_NODES_MAX]; /* so many are still due at the beginning */
    rl_ns ttl_least;            /* of the locks that are acquired or held; RL_NEVER: none is */
    uint64_t random;
};

void rl_freshness_init(struct rl_freshness *freshness, unsigned nodes, uint32_t clients,
                       uint64_t random);
/* Another connection, perhaps with another server. */
void rl_freshness_connected(struct rl_freshness *freshness, unsigned node);
/* A lock with this TTL is acquired or held. True: earlier times than before are due. */
bool rl_freshness_engaged(struct rl_freshness *freshness, rl_ns ttl);
void rl_freshness_asked(struct rl_freshness *freshness, rl_mask nodes, rl_ns now);
/* The question must go out before one of these nodes is asked for its vote. */
bool rl_freshness_is_over(const struct rl_freshness *freshness, rl_mask votes, rl_ns now);
/* Those of the nodes that it is time to ask, votes or not. */
rl_mask rl_freshness_due(const struct rl_freshness *freshness, rl_mask nodes, rl_ns now);
/* When these nodes are due, or the first of them; RL_NEVER: there are none. */
rl_ns rl_freshness_wake_at(struct rl_freshness *freshness, rl_mask nodes);
/* A change that a node reports reaches all its clients together. What such a client does next, and
 * nothing waits for, it does at a random time within this one: all of them together do it a few
 * hundred times a second. (A server that has just started does not count all of them yet; other
 * nodes do.) 0: it is not known how many they are. */
rl_ns rl_freshness_spread(const struct rl_freshness *freshness);

#endif
