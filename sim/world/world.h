/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The deterministic world: virtual time, N nodes, a network, clients that are the unchanged
 * library, and every fault that can happen to them. One seed (or one scenario) determines all of
 * it: no code here reads a clock, the kernel's randomness, an address or a hash order.
 * sim/clients/net.c implements src/net/net.h on top of it.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "history/history.h"
#include "node/table.h"
#include "redlock.h"

#define WORLD_CLIENTS_MAX 8
#define WORLD_RESOURCES_MAX 4
/* In the history and in messages a slot of the first resource is a resource of its own: slot n is
 * number WORLD_SLOT_FIRST + n - 1. */
#define WORLD_SLOT_FIRST WORLD_RESOURCES_MAX
#define WORLD_SLOTS_MAX 4
#define WORLD_KEYS_MAX (WORLD_SLOT_FIRST + WORLD_SLOTS_MAX)
#define WORLD_LISTS_MAX 128
#define WORLD_FLEET_MAX 20000
#define WORLD_NAMES_MAX (WORLD_KEYS_MAX + WORLD_FLEET_MAX)

struct world;

/* How the network behaves between one client and one node. Each message draws its own values for
 * each direction. */
struct world_link {
    rl_ns delay_min, delay_max; /* one way, uniform ... */
    uint32_t tail_ppm;          /* ... and, with this probability, a delay up to tail_max instead */
    rl_ns tail_max;
    uint32_t request_loss_ppm; /* the connection breaks before the request arrives */
    uint32_t reply_loss_ppm;   /* ... or after the effect, before the answer arrives */
};

/* How nodes notify waiters of changes and of their turn. These are hints, and no guarantee depends
 * on them. Faults of hints therefore continue when all other faults have ended. */
struct world_wakes {
    bool on;                      /* else they send none, as before Redis 6.0 */
    uint32_t lost_ppm, twice_ppm; /* probability that one is lost, or sent twice ... */
    uint32_t late_ppm;            /* ... or late, by up to late_max */
    rl_ns late_max;
    uint32_t false_ppm; /* probability that a request is answered with a false one */
    rl_mask deaf;       /* hints of these nodes are always lost, and no client learns that */
};

struct world_client_options {
    struct redlock_client_options client;
    struct redlock_lock_options lock;
    rl_mask nodes;      /* which nodes its configuration lists; 0: all */
    uint32_t clock_ppm; /* rate of its CLOCK_BOOTTIME: 1000000 is true */
    int twice_listed;   /* a node that it lists again under another name; -1: none */
    rl_ns wall_off;     /* how far its wall clock differs from those of the others */
    bool short_lived;   /* a program of one lock: each acquisition is made by a new process */
    bool refused;       /* its configuration is wrong: it must not be granted a lock */
    uint8_t observes;   /* resources, by bits: it reports who leads them */
    bool stranger;      /* of another project: on native nodes too, its locks are plain keys */
    uint8_t reads;      /* resources, by bits: its locks on them are shared */
};

struct world_options {
    uint64_t seed;
    unsigned nodes, clients, resources;
    bool fenced;        /* the register checks fences (guarded mode) */
    bool guarded;       /* nodes carry records; each client's mode is in its own options */
    int64_t ttl_ms_max; /* of the quorum */
    rl_mask may_evict;  /* these nodes' policy is not noeviction, from the beginning */
    rl_mask replicas;   /* these nodes have a replica each, from the beginning */
    /* guarded: these nodes do not announce changes of their record and data (an old server, an ACL)
     */
    rl_mask unannounced;
    rl_mask others; /* guarded: these nodes are a second quorum */
    rl_mask spare;  /* guarded: these nodes have no record and belong to no quorum */
    rl_mask native; /* these nodes are native from the beginning */
    bool changes;   /* guarded: operators change the quorum */
    bool slots;     /* the clients' locks have slots; there is one resource */
    bool shared;    /* some locks are shared */
    /* Messages on a fresh connection may overtake those on the old one: what delays them is not the
     * way that both take. */
    bool paths_apart;
    /* At a cut, TCP sends again after ever longer pauses. So what waited there arrives within as
     * long again as it was cut, and tries to connect are lost. Else all arrives as it heals. */
    bool resent_late;
    bool together; /* renewals that may wait for each other do so */
    /* guarded: probability that SET and ZADD of one acquisition do not arrive together */
    uint32_t split_ppm;
    /* Guarded: so many more clients are counted by each node. They do nothing, not even look. */
    uint32_t clients_elsewhere;
    struct world_link link;
    struct world_wakes wakes;
    struct world_client_options client[WORLD_CLIENTS_MAX];
    /* A fleet: any number of clients, which take the options of `client` in turn and have one lock
     * each. The first `alone` of them have a name to themselves, the others share `hot` names. It
     * is beyond histories: nothing judges its run. 0: no fleet. */
    uint32_t alone, hot;
    /* 0: the history leaves out SENT/ARRIVED/ANSWERED (exploration); else it has them */
    rl_ns record_messages;
    FILE *steps; /* NULL: the steps of the run are not printed (steps.h) */
};

/* The name in options.client[].client.quorum: the quorum of most nodes, or that of options.others.
 */
const char *world_quorum_name(bool other);

rl_ns world_now(const struct world *world);
uint64_t world_messages(const struct world *world); /* requests made so far */
typedef void world_fn(struct world *world, void *argument, int64_t number);
/* at the same time: in order of calls */
void world_at(struct world *world, rl_ns at, world_fn *fn, void *argument, int64_t number);
/* executes everything due up to and at `until` */
void world_run_until(struct world *world, rl_ns until);

/* ---- actions of clients: each is done at once if the client runs, and when it resumes if it is
 * paused ---- */

enum client_action_kind {
    ACTION_ACQUIRE, /* `number`: wait_ms */
    ACTION_EXTEND,  /* `number`: ttl_ms */
    /* Forgets the lock, if it is held, and takes over the last one by its token; `number`: ttl_ms.
     */
    ACTION_ADOPT,
    ACTION_DOWNGRADE,
    ACTION_RELEASE,
    ACTION_CANCEL,
    ACTION_UPDATE,       /* by actor_update(); */
    ACTION_WRITE,        /* its second half */
    ACTION_ACQUIRE_MANY, /* several locks in one call, each by itself: */
    ACTION_RELEASE_MANY, /* bit i of `resource` is resource i */
    ACTION_OPERATE       /* by actor_operate() */
};
void actor_act(struct world *world, unsigned client, enum client_action_kind kind,
               unsigned resource, int64_t number);
/* Reads the register, thinks for `think`, and writes back the value plus one. It checks its
 * validity before the write as a careful program does, but cannot notice a pause between the check
 * and the write. `late` is the time that the write takes to arrive; a release waits for it. One
 * update at a time: a second one meanwhile is left out. */
void actor_update(struct world *world, unsigned client, unsigned resource, rl_ns think, rl_ns late);
/* holds it with validity left */
bool actor_believes(struct world *world, unsigned client, unsigned resource);
/* free, no call under way */
bool actor_idle(struct world *world, unsigned client, unsigned resource);
bool actor_alive(struct world *world, unsigned client); /* has not crashed */
/* An operator's command, over the client's own connections. One at a time: a second one meanwhile
 * is left out. */
/* All but the last are enum rl_membership_kind. */
enum {
    OPERATION_INIT = 1,
    OPERATION_ADD,
    OPERATION_REMOVE,
    OPERATION_SET_TTL_MAX,
    OPERATION_BREAK
};
struct world_operation {
    uint8_t kind, node;
    bool never_used;
    int64_t ttl_max_ms;        /* SET_TTL_MAX; INIT, 0: not given */
    int64_t ttl_max_before_ms; /* INIT; 0: not given */
    /* INIT: tokens begin above the value of a true wall clock at this time; 0: not given */
    rl_ns floor;
    /* BREAK. With `think` the operator looks at the lock now, breaks it that much later, and only
     * if the same token holds it. */
    uint8_t resource;
    rl_ns think;
    uint32_t token; /* the world's own: the token that the operator has seen; 0: any */
};
void actor_operate(struct world *world, unsigned client, struct world_operation operation);
bool actor_operates(const struct world *world, unsigned client); /* and is alive */
/* Called when an operation of a client has ended, so that a workload can continue. */
typedef void world_client_fn(struct world *world, unsigned client, unsigned resource, int result);
struct world_reports {
    world_client_fn *acquired, *released;
    world_client_fn *operated; /* OK, BAD_ARGUMENT: another try cannot help; else NO_QUORUM */
};
/* The functions that the world calls, and its owner, for them. world_begin() forgets the functions,
 * not the owner. */
void world_report_to(struct world *world, void *owner, const struct world_reports *reports);
void *world_owner(const struct world *world);
/* The number of a client's first resource. */
unsigned world_first_resource(const struct world *world, unsigned client);
uint64_t node_received(const struct world *world, unsigned node); /* messages, while it was up */

/* ---- faults of clients ---------------------------------------------------------------------- */

/* SIGSTOP, GC, a stopped VM whose clock runs on (SUSPEND) */
void actor_pause(struct world *world, unsigned client);
void actor_resume(struct world *world, unsigned client);
/* Stops a VM together with its clocks: CLOCK_BOOTTIME does not count the pause (VM-STOP). Until
 * actor_resume(). */
void actor_freeze(struct world *world, unsigned client);
void actor_crash(struct world *world, unsigned client);
/* its wall clock: a hint, must not matter */
void actor_clock_step(struct world *world, unsigned client, rl_ns step);

/* ---- faults of nodes ------------------------------------------------------------------------ */

enum node_keeps { NODE_KEEPS_NOTHING, NODE_KEEPS_ALL, NODE_LOSES_LAST_SECOND };
void node_crash(struct world *world, unsigned node);
void node_restart(struct world *world, unsigned node, enum node_keeps keeps);
/* The server is started with the module, or without it: a native node, or a stock one. */
void node_restart_as(struct world *world, unsigned node, enum node_keeps keeps, bool native);
bool node_is_native(const struct world *world, unsigned node);
void node_flush(struct world *world, unsigned node);
void node_evict(struct world *world, unsigned node, unsigned resource);
/* Its asynchronous replica, `lag` behind, takes over under the same address; connections break. */
void node_failover(struct world *world, unsigned node, rl_ns lag);
/* The same, but the old master lives on, and the clients' connections to it stay open; only new
 * connections reach the replica. Until node_old_ends(). */
void node_split(struct world *world, unsigned node, rl_ns lag);
void node_old_ends(struct world *world, unsigned node);
/* Its asynchronous replica, `lag` behind, is promoted, and the node becomes the replica of that
 * one: after `sync`, its data are those of the replica. The process and its connections stay. Until
 * node_promote(). */
void node_demote(struct world *world, unsigned node, rl_ns lag, rl_ns sync);
/* The same with a replica that does not lag: the node takes over only later changes, which no
 * announcement reports. One such change happens: a client that has found the promoted replica
 * deletes a key there. */
void node_follow(struct world *world, unsigned node);
void node_follows_deletion(struct world *world, unsigned node, unsigned resource);
void node_promote(struct world *world, unsigned node);
void node_gets_replica(struct world *world, unsigned node); /* its first replica */
/* CONFIG SET maxmemory-policy */
void node_policy(struct world *world, unsigned node, bool may_evict);
void node_delete_record(struct world *world, unsigned node); /* a stranger's DEL */
/* Guarded: the node's record is intact. It was written for its present process, data and
 * replication id, the node is a master that keeps its keys, and no other node's record names a
 * newer incarnation. */
bool node_is_intact(const struct world *world, unsigned node);
/* Clients still reach what was left of it before it was replaced. */
bool node_lives_on(const struct world *world, unsigned node);
/* With `changes`: the members of the newest list that an intact node carries. */
rl_mask world_members(const struct world *world);
/* As node_is_intact(), and the member carries its current identity, not that of the member it was
 * before. */
bool world_is_intact(const struct world *world, unsigned node);
/* The longest TTL that the newest record on an intact node allows; 0: there is none. */
int64_t world_ttl_allowed(const struct world *world);
/* A majority of these is intact, and no node carries a record of another quorum. */
bool world_is_usable(const struct world *world);
/* The nodes that carry a record. */
rl_mask world_carriers(const struct world *world);
/* Those that carry a record of another quorum, and are no members. */
rl_mask world_strays(const struct world *world);
/* A member that still carries the identity of the member it was before; -1: none. The add that made
 * it a member again must be run again. */
int world_unclaimed(const struct world *world);
bool node_is_up(const struct world *world, unsigned node);
/* evicts keys, or replaces them as a replica */
bool node_may_lose(const struct world *world, unsigned node);
/* The node works, every living client runs, and no fault delays their messages. */
bool node_is_in_touch(struct world *world, unsigned node);
/* The wall clock. The locks of a native node end by CLOCK_BOOTTIME, which follows only rates that
 * drift allows for. */
/* Notes that its keys end early and clients may not know, or that they do. */
void node_note_unseen(struct world *world, unsigned node, bool unseen);
void node_clock_step(struct world *world, unsigned node, rl_ns step);
void node_clock_rate(struct world *world, unsigned node, uint32_t ppm);
/* READONLY, OOM, LOADING, MISCONF...; GRANTED: normal */
void node_mode(struct world *world, unsigned node, int verdict);
void node_pause(struct world *world, unsigned node);
void node_resume(struct world *world, unsigned node);
/* A stranger to the protocol: DEL, or SET of its own token (token NULL: DEL). */
void node_foreign(struct world *world, unsigned node, unsigned resource, const char *token,
                  int64_t ttl_ms);
/* SWAPDB with an empty database: all keys are gone, and the server does not announce it. */
void node_swap_db(struct world *world, unsigned node);

/* ---- faults of the network ------------------------------------------------------------------ */

enum link_way { LINK_REQUESTS = 1, LINK_ANSWERS = 2, LINK_BOTH = 3 };
/* packets vanish without a notice */
void link_cut(struct world *world, unsigned client, unsigned node, enum link_way way);
void link_heal(struct world *world, unsigned client,
               /* data that TCP still holds arrives now, unless the connection was closed */
               unsigned node);
/* both ends learn that the connection is closed */
void link_break(struct world *world, unsigned client, unsigned node);
/* The connection becomes a black hole: nothing passes any more, and neither end learns that. New
 * connections work. */
void link_becomes_hole(struct world *world, unsigned client, unsigned node);
/* The next connections of the client to that node reach the other one. */
void link_moves(struct world *world, unsigned client, unsigned node, unsigned to);
/* of the next request only */
void link_delay(struct world *world, unsigned client, unsigned node, rl_ns delay);
void link_lose_next_answer(struct world *world, unsigned client, unsigned node);

/* From now on, all hints of the node to the client are lost, or sent twice; and one false hint
 * (rank -1: of a change). */
void hints_lost(struct world *world, unsigned client, unsigned node);
void hints_again(struct world *world, unsigned client, unsigned node);
void hint_false(struct world *world, unsigned client, unsigned node, unsigned resource, int rank);

#endif
