/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Nodes that carry a record and fences, and agents (guard machines) that keep them: what the tests
 * of the guard share. Time moves by hand. A request is executed when it is sent or later, its
 * answer comes when the test lets it.
 */
#ifndef TESTS_GUARD_WORLD_H
#define TESTS_GUARD_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/guard.h"

#define WORLD_NODES_MAX 7
#define WORLD_AGENTS_MAX 3
#define WORLD_QUARANTINE ((1000 + 10 + 2) * RL_MS) /* of ttl_max, with the drift */

struct world_node {
    bool up, has_record, has_fences;
    char run_id[RL_RUN_ID_BYTES], replid[RL_RUN_ID_BYTES];
    uint64_t evicted;
    bool unfit, suspect; /* as it says of itself */
    struct rl_record record;
    int64_t fences[RL_STRIPES];
    rl_ns lost_at; /* its last loss */
    unsigned losses, installs, reads, fence_reads;
};

/* One request of one agent at one node. */
struct pending_op {
    enum rl_pending_op what; /* NONE: none under way */
    bool executed, connected_since;
    bool answered_record, done;
    struct rl_record record; /* WRITE: to be written. READ: the answer */
    uint64_t expected;
    bool with_floor, has_fences;
    int64_t fences[RL_STRIPES]; /* WRITE: floor. FENCES: the answer */
};

struct agent {
    struct rl_guard guard;
    struct pending_op pending_op[WORLD_NODES_MAX];
    rl_ns wake_at;
    unsigned changes;  /* how many steps have reported one */
    rl_mask reconnect; /* asked for; world_run() does it, if `reconnects` */
    uint64_t random;
};

struct guard_world {
    unsigned nodes, agents, members;
    bool reconnects;
    rl_ns now;
    uint64_t random;
    unsigned incarnations; /* run_ids given out */
    struct world_node node[WORLD_NODES_MAX];
    struct agent agent[WORLD_AGENTS_MAX];
};

extern struct guard_world gw;
/* Of all steps: another number is another behaviour. */
extern uint64_t world_folded;

uint64_t world_draw(uint64_t below);
/* `nodes` intact members of one quorum, ttl_max 1000 ms; agents connected to all, having read
 * nothing yet. */
void world_begin(unsigned nodes, unsigned agents, uint64_t seed);
/* The same, of seed 1, and every agent has read every node. */
void world_begin_read(unsigned nodes, unsigned agents);
void world_lose(unsigned node,
                bool new_incarnation); /* all data; with a new incarnation it was a restart */
void world_promote(unsigned node);     /* another replication id */
/* A round trip: its replica, which lags, is promoted; it becomes that one's replica and is promoted
 * back. */
void world_go_back(unsigned node, const struct world_node *then);
void world_step(unsigned agent, struct rl_guard_event event);
void world_state(
    unsigned agent,
    unsigned node); /* the node says what it is now, as ahead of each answer to a read */
void world_push(unsigned node); /* every agent that is connected hears of a change */
void world_execute(unsigned agent, unsigned node); /* the request under way, if any */
void world_answer(unsigned agent, unsigned node);  /* executes it if it was not, and answers */
void world_fail(unsigned agent, unsigned node);    /* no answer */
void world_connect(unsigned agent, unsigned node);
void world_disconnect(unsigned agent, unsigned node);
/* Answers everything and fires timers until nothing happens before `until`; then it is `until`. */
void world_run(rl_ns until);
void world_peek(unsigned node); /* every agent reads the node again */
/* Node 0 loses its data and has waited. Agent 0 installs it, and lacks sources, because it is not
 * connected to `away` any more. */
void world_lack_sources(rl_mask away);
rl_mask world_intact(unsigned agent);

#endif
