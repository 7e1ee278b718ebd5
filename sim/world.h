/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The deterministic world: virtual time, N nodes, a network, clients that are the unchanged
 * library, and everything that can befall them. One seed (or one scenario) determines all of it;
 * nothing here reads a clock, the kernel's randomness, an address or a hash order. sim/net.c
 * implements src/net/net.h on top of it.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "history.h"
#include "node/table.h"
#include "redlock.h"

#define WORLD_CLIENTS_MAX 8
#define WORLD_RESOURCES_MAX 4
#define WORLD_LISTS_MAX 128

struct world;

/* How the network behaves between one client and one node, each way drawn afresh for each
 * message. */
struct world_link {
    rl_ns delay_min, delay_max; /* one way, uniform ... */
    uint32_t tail_ppm;          /* ... and so often a delay up to tail_max instead */
    rl_ns tail_max;
    uint32_t request_loss_ppm; /* the connection breaks before the request arrives */
    uint32_t reply_loss_ppm;   /* ... or after the effect, before the answer does */
};

/* How nodes tell of changes, and whose turn it is, to those who wait: hints, which nothing that is
 * promised rests on. So what is wrong with them goes on when all faults have ended. */
struct world_wakes {
    bool on;                      /* else they tell nothing, as before Redis 6.0 */
    uint32_t lost_ppm, twice_ppm; /* so often one is lost, or told twice ... */
    uint32_t late_ppm;            /* ... or late, by up to late_max */
    rl_ns late_max;
    uint32_t false_ppm; /* so often who has asked is told one that is not true */
    rl_mask deaf;       /* what these nodes tell is always lost, and nobody is told of that */
};

struct world_client_options {
    struct redlock_client_options client;
    struct redlock_lock_options lock;
    rl_mask nodes;      /* which nodes its configuration lists; 0: all */
    uint32_t clock_ppm; /* rate of its CLOCK_BOOTTIME: 1000000 is true */
    int twice_listed;   /* a node that it lists once more under another name; -1: none */
    rl_ns wall_off;     /* how far its wall clock is off those of the others */
    bool short_lived;   /* a program of one lock: each acquisition is a new process's */
    bool refused;       /* its configuration is wrong: it must not be granted a lock */
};

struct world_options {
    uint64_t seed;
    unsigned nodes, clients, resources;
    bool fenced;         /* the register checks fences (guarded mode) */
    bool guarded;        /* nodes carry records; the clients' mode is their own options' */
    int64_t ttl_ms_max;  /* of the quorum */
    rl_mask may_evict;   /* these nodes' policy is not noeviction, from the beginning */
    rl_mask replicas;    /* these nodes have a replica each, from the beginning */
    rl_mask unannounced; /* guarded: these nodes announce no changes of their record and data (an
                            old server, an ACL) */
    rl_mask others;      /* guarded: these nodes are a second quorum */
    rl_mask spare;       /* guarded: these nodes have no record, and are members of nothing */
    bool changes;        /* guarded: operators change the quorum */
    bool together;       /* renewals that may wait for each other do */
    uint32_t
        split_ppm; /* guarded: so often SET and ZADD of one acquisition do not arrive together */
    struct world_link link;
    struct world_wakes wakes;
    struct world_client_options client[WORLD_CLIENTS_MAX];
    rl_ns record_messages; /* 0: SENT/ARRIVED/ANSWERED are left out of the history (exploration);
                              else recorded */
};

/* What options.client[].client.quorum names: the quorum of most nodes, or that of
 * options.others. */
const char *world_quorum_name(bool other);

void world_options_init(struct world_options *options); /* 5 nodes, 2 clients, 1 resource, 0.5..1.5
                                                           ms, TTL 10 s, no renewal */
/* A world is reused: begin again with other options; memory is kept. */
struct world *world_new(void);
void world_free(struct world *world);
void world_begin(struct world *world, const struct world_options *options, struct history *history);
/* Ends clients and forgets everything under way; writes END. The history stays. */
void world_end(struct world *world);

rl_ns world_now(const struct world *world);
uint64_t world_messages(const struct world *world);              /* requests made so far */
uint64_t world_random(struct world *world);                      /* of the world's own sequence */
rl_ns world_between(struct world *world, rl_ns low, rl_ns high); /* uniform, inclusive */
bool world_chance(struct world *world, uint32_t ppm);
typedef void world_fn(struct world *world, void *argument, int64_t number);
void world_at(struct world *world, rl_ns at, world_fn *fn, void *argument,
              int64_t number); /* same time: in order of calls */
void world_run_until(struct world *world,
                     rl_ns until); /* executes everything due up to and at `until` */

/* ---- what clients do. Each is done at once if the client runs, and when it resumes if it is
 * paused --------- */

void actor_acquire(struct world *world, unsigned client, unsigned resource, int64_t wait_ms);
void actor_extend(struct world *world, unsigned client, unsigned resource, int64_t ttl_ms);
void actor_release(struct world *world, unsigned client, unsigned resource);
void actor_cancel(struct world *world, unsigned client, unsigned resource);
/* Several locks in one call, each by itself: bit i is resource i. */
void actor_acquire_many(struct world *world, unsigned client, unsigned resources, int64_t wait_ms);
void actor_release_many(struct world *world, unsigned client, unsigned resources);
/* Reads the register, thinks for `think`, writes back one more; checks its validity before the
 * write as a careful program does, but cannot know of a pause between the check and the write
 * (`late`: how long the write travels; a release waits for it). One update at a time: another
 * meanwhile is left out. */
void actor_update(struct world *world, unsigned client, unsigned resource, rl_ns think, rl_ns late);
bool actor_believes(struct world *world, unsigned client,
                    unsigned resource); /* holds it with validity left */
bool actor_idle(struct world *world, unsigned client,
                unsigned resource);                     /* free, nothing under way */
bool actor_alive(struct world *world, unsigned client); /* has not crashed */
/* An operator's command, over the client's own connections. One at a time: another meanwhile is
 * left out. */
enum { OPERATION_INIT = 1, OPERATION_ADD, OPERATION_REMOVE }; /* enum rl_membership_kind */
struct world_operation {
    uint8_t kind, node;
    bool never_used;
    int64_t ttl_max_ms, ttl_max_before_ms; /* INIT; 0: not given */
    rl_ns floor; /* INIT: tokens begin above what a true wall clock would show then; 0: not given */
};
void actor_operate(struct world *world, unsigned client, struct world_operation operation);
bool actor_operates(const struct world *world, unsigned client); /* and is alive */
/* Called when an acquisition, extension or release of this client is over, so that a workload can
 * go on. */
typedef void world_client_fn(struct world *world, unsigned client, unsigned resource, int result);
void world_on_acquired(struct world *world, world_client_fn *fn);
void world_on_released(struct world *world, world_client_fn *fn);
void world_on_operated(struct world *world, world_client_fn *fn); /* OK, BAD_ARGUMENT: another try
                                                                     is in vain; else NO_QUORUM */
/* Whoever runs the world, for the functions that it calls. world_begin() forgets the two functions,
 * not the owner. */
void world_set_owner(struct world *world, void *owner);
void *world_owner(const struct world *world);

/* ---- what befalls clients -------------------------------------------------------------------- */

void actor_pause(struct world *world,
                 unsigned client); /* SIGSTOP, GC, a stopped VM whose clock runs on (SUSPEND) */
void actor_resume(struct world *world, unsigned client);
/* A VM that is stopped together with its clocks: CLOCK_BOOTTIME does not count it (VM-STOP). Until
 * actor_resume(). */
void actor_freeze(struct world *world, unsigned client);
void actor_crash(struct world *world, unsigned client);
void actor_clock_step(struct world *world, unsigned client,
                      rl_ns step); /* its wall clock: a hint, must not matter */

/* ---- what befalls nodes ---------------------------------------------------------------------- */

enum node_keeps { NODE_KEEPS_NOTHING, NODE_KEEPS_ALL, NODE_LOSES_LAST_SECOND };
void node_crash(struct world *world, unsigned node);
void node_restart(struct world *world, unsigned node, enum node_keeps keeps);
void node_flush(struct world *world, unsigned node);
void node_evict(struct world *world, unsigned node, unsigned resource);
/* Its asynchronous replica, `lag` behind, takes over under the same address; connections break. */
void node_failover(struct world *world, unsigned node, rl_ns lag);
/* The same, but the old master lives on, and with it the connections that clients have: only new
 * ones find the replica. Until node_old_ends(). */
void node_split(struct world *world, unsigned node, rl_ns lag);
void node_old_ends(struct world *world, unsigned node);
/* Its asynchronous replica, `lag` behind, is promoted, and the node becomes the replica of that
 * one: `sync` later its data are those of the replica. The process and its connections stay. Until
 * node_promote(). */
void node_demote(struct world *world, unsigned node, rl_ns lag, rl_ns sync);
/* The same with a replica that does not lag: nothing is taken over but what is done there from now
 * on, and no announcement says so. One such thing: a key is deleted there, by a client that the
 * promoted replica has found. */
void node_follow(struct world *world, unsigned node);
void node_follows_deletion(struct world *world, unsigned node, unsigned resource);
void node_promote(struct world *world, unsigned node);
void node_gets_replica(struct world *world, unsigned node); /* its first one */
void node_policy(struct world *world, unsigned node,
                 bool may_evict);                            /* CONFIG SET maxmemory-policy */
void node_delete_record(struct world *world, unsigned node); /* somebody's DEL */
/* Guarded: its record is intact, was written for the process, the data and the replication id that
 * are there, it is a master that keeps its keys, and no other node's record names a newer
 * incarnation. */
bool node_is_intact(const struct world *world, unsigned node);
/* With `changes`: the members of the newest list that an intact node carries. */
rl_mask world_members(const struct world *world);
/* As node_is_intact(), and a member is not intact as the member that it was before. */
bool world_is_intact(const struct world *world, unsigned node);
/* A majority of these is intact, and no node carries a record of another quorum. */
bool world_is_usable(const struct world *world);
/* A member that carries the record of the member that it was before; -1: none. The add that made it
 * a member again is to be run again. */
int world_unclaimed(const struct world *world);
bool node_is_up(const struct world *world, unsigned node);
bool node_may_lose(const struct world *world,
                   unsigned node); /* keys: by its policy, or as a replica */
/* It works, and so does every client that is alive, and nothing delays what they say to each
 * other. */
bool node_is_in_touch(const struct world *world, unsigned node);
void node_clock_step(struct world *world, unsigned node, rl_ns step);
void node_clock_rate(struct world *world, unsigned node, uint32_t ppm);
void node_mode(struct world *world, unsigned node,
               int verdict); /* READONLY, OOM, LOADING, MISCONF...; GRANTED: normal */
void node_pause(struct world *world, unsigned node);
void node_resume(struct world *world, unsigned node);
/* Somebody outside the protocol: DEL, or SET of his own (token NULL: DEL). */
void node_foreign(struct world *world, unsigned node, unsigned resource, const char *token,
                  int64_t ttl_ms);

/* ---- what befalls the network ---------------------------------------------------------------- */

enum link_way { LINK_REQUESTS = 1, LINK_ANSWERS = 2, LINK_BOTH = 3 };
void link_cut(struct world *world, unsigned client, unsigned node,
              enum link_way way); /* packets vanish; nobody is told */
void link_heal(struct world *world, unsigned client,
               unsigned node); /* what TCP still holds arrives now, unless given up */
void link_break(struct world *world, unsigned client,
                unsigned node); /* both ends learn that the connection is gone */
void link_delay(struct world *world, unsigned client, unsigned node,
                rl_ns delay); /* of the next request only */
void link_lose_next_answer(struct world *world, unsigned client, unsigned node);

/* All that node tells client from now on is lost, or told twice; and one hint that is not true
 * (rank -1: of a change). */
void hints_lost(struct world *world, unsigned client, unsigned node);
void hints_again(struct world *world, unsigned client, unsigned node);
void hint_false(struct world *world, unsigned client, unsigned node, unsigned resource, int rank);

/* After this: no loss, no cut, nodes up, clocks true, modes normal, clients running; writes
 * FAULTS_END. */
void world_heal(struct world *world);

/* The world that sim/net.c serves, and the client that it is asked for next: set by world_begin()
 * around redlock_client_open(). */
struct world *world_current(void);

#endif
