/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The plan of a seed: the options of a world, and all actions in it, drawn before the world begins.
 * Each action has an index and its own random numbers, so that a run can be repeated without some
 * of its actions (explore.c).
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdio.h>

#include "world/random.h"
#include "run/run.h"

/* Assumptions, which can be switched off one at a time. Guarded mode has two: at most a minority
 * has lost its data at a time, and the clients' clocks run, which tokens do not need if clients
 * confirm. The others are those of classic mode. X(name, word, sentence) */
#define PLAN_BREAKS(X)                                                                             \
    X(NOTHING, "nothing", "classic mode's assumptions hold")                                       \
    X(DATA_LOSS, "data-loss",                                                                      \
      "nodes restart empty or without their last second, are flushed, evict, fail over")           \
    X(CLOCK_STEP, "clock-step", "nodes' wall clocks step, stand still and run false")              \
    X(PAUSE_WRITE, "pause-write",                                                                  \
      "a client is stopped between the look at its validity and its write")                        \
    X(MIXED_CONFIG, "mixed-config", "clients list different nodes")                                \
    X(VM_STOP, "vm-stop", "clients' machines stop together with their clocks; all confirm")

/* X(name, sentence) */
#define PLAN_KINDS(X)                                                                              \
    X(SESSION, "acquires")                                                                         \
    X(NODE_CRASH, "crashes and restarts")                                                          \
    X(NODE_PAUSE, "is stopped")                                                                    \
    X(NODE_MODE, "answers writes with an error")                                                   \
    X(NODE_RATE, "runs its wall clock at another rate")                                            \
    X(NODE_STEP, "has its wall clock stepped")                                                     \
    X(NODE_FLUSH, "is flushed")                                                                    \
    X(NODE_EVICT, "evicts the key")                                                                \
    X(NODE_FAILOVER, "is replaced by its replica")                                                 \
    X(NODE_SPLIT, "is replaced by its replica, and lives on")                                      \
    X(NODE_TRIP, "becomes the replica of its replica, which lags, and is promoted again")          \
    X(NODE_REPLICA, "gets its first replica")                                                      \
    X(NODE_POLICY,                                                                                 \
      "has its policy switched, and evicts the key if clients have had time to see it")            \
    X(NODE_EVICT_APART, "loses its connections, and evicts the key before anybody is back")        \
    X(NODE_KIND, "is restarted as a native node (1), or as a stock one (0)")                       \
    X(NODE_STRANGER,                                                                               \
      "is touched by a stranger (0 deletes the key, 1 sets it, 2: the record, 3 swaps)")           \
    X(CUT, "is cut off silently")                                                                  \
    X(BREAK, "has its connection broken")                                                          \
    X(LOSE_ANSWER, "loses the next answer")                                                        \
    X(DELAY, "has its next request delayed")                                                       \
    X(BLACK_HOLE, "has its connection turned into a black hole")                                   \
    X(CLIENT_PAUSE, "is stopped")                                                                  \
    X(CLIENT_FREEZE, "is stopped together with its clocks")                                        \
    X(CLIENT_CRASH, "is killed")                                                                   \
    X(CLIENT_CLOCK, "has its wall clock stepped")                                                  \
    X(POWER_CUT, "loses power, as all others, and its data")                                       \
    X(OPERATE, "changes the quorum")                                                               \
    X(BREAKS_LOCK, "breaks a lock")

enum plan_break {
#define PLAN_ENUM(name, word, text) PLAN_BREAK_##name,
    PLAN_BREAKS(PLAN_ENUM)
#undef PLAN_ENUM
        PLAN_BREAK_COUNT
};

enum plan_kind {
#define PLAN_ENUM(name, text) PLAN_##name,
    PLAN_KINDS(PLAN_ENUM)
#undef PLAN_ENUM
        PLAN_KIND_COUNT
};

struct plan_action {
    rl_ns at;
    uint8_t kind;
    uint8_t client, node, resource;
    rl_ns span;     /* how long the fault lasts; SESSION: how long the lock is held */
    int64_t number; /* enum node_keeps, a verdict, ppm, a step, a lag, enum link_way, a delay;
                       SESSION: wait_ms */
    /* SESSION. OPERATE: `updates` more tries, `think` after a failed one; `many`: a remove follows
     * an add; `extend_ms`: ttl_max. POWER_CUT: `many` keep their data. BREAKS_LOCK: `think`
     * between the look and the break; 0: breaks whatever lock is there */
    /* acquires these resources, by bits, in one call; 0: the one. NODE_TRIP: the replica does not
     * lag */
    uint8_t many;
    bool native; /* only if the node is a native one by then: it does not matter to those */
    uint32_t updates;
    rl_ns think, late;
    rl_ns extend_at, cancel_at; /* measured from the acquisition, from its begin; 0: never */
    int64_t extend_ms;
    rl_ns downgrade_at; /* SESSION, shared locks; 0: never */
    /* SESSION: it begins with the client's last lock, by its token; or hands its own over to itself
     * then. */
    bool adopts;
    rl_ns adopt_at; /* measured from the acquisition; 0: never */
};

#define PLAN_ACTIONS_MAX 192

/* The nodes of a world. STOCK: unmodified servers; NATIVE: servers with the module; MIXED: some
 * have it, and it comes and goes with restarts. */
enum plan_nodes { PLAN_NODES_DRAWN, PLAN_NODES_STOCK, PLAN_NODES_MIXED, PLAN_NODES_NATIVE };

struct plan {
    uint64_t seed;
    struct random random; /* the sequence that is drawn from */
    enum plan_break broken;
    enum plan_nodes nodes; /* of a plan: not DRAWN */
    bool guarded;
    /* guarded: the clients' wall clocks differ by minutes: tokens must grow all the same */
    bool clocks_apart;
    unsigned operators;      /* guarded: the last ones of the clients; they change the quorum */
    bool fresh;              /* guarded: no node has a record until an operator makes them */
    unsigned may_be_refused; /* guarded: these clients' configurations are wrong; by bits */
    int64_t ttl_ms_longest;  /* guarded: that ttl_max ever is */
    /* guarded: clients wait long for an answer, so that votes are old when they count */
    bool patient;
    bool biased; /* corner cases, and faults at the moments that matter to each other: bias.c */
    struct world_options options;
    struct plan_action actions[PLAN_ACTIONS_MAX]; /* by time */
    size_t count;
    uint32_t node_ppm[RL_NODES_MAX];
    rl_ns faults_end;
    rl_ns liveness_bound;
    /* how much longer keys live that clocks or strangers keep alive on native nodes */
    rl_ns keys_late;
};

/* What the caller asks for, in addition to the seed. */
struct plan_wish {
    enum plan_break broken;
    bool guarded;
    enum plan_nodes nodes; /* DRAWN: classic mode has stock nodes */
    bool operators;        /* in every world that can have operators; they also break locks */
    bool biased;           /* corner cases: bias.c */
    bool shared;           /* in every world that can have shared locks */
    bool slots;            /* in every world that can have slots */
    bool adopt;            /* clients take over locks, in every world that can have it */
};
void plan_draw(struct plan *plan, uint64_t seed, const struct plan_wish *wish);
void plan_print(const struct plan *plan, FILE *out); /* the options that were drawn */
void plan_print_action(const struct plan *plan, size_t index, FILE *out);
const char *plan_break_word(enum plan_break broken);
const char *plan_nodes_word(enum plan_nodes nodes);

bool plan_has_breaks(const struct plan *plan);    /* of locks */
rl_ns plan_node_timeout(const struct plan *plan); /* long enough for an attempt */
void plan_sort(struct plan *plan);                /* the actions, by time */

/* bias.c. Its draws are of its own: nothing else in a seed changes with them. */
void bias_actions(struct plan *plan);

/* plan_text.c: which actions take part */
struct plan_mask {
    uint64_t words[PLAN_ACTIONS_MAX / 64];
};
void plan_mask_all(struct plan_mask *mask, size_t count);
bool plan_mask_has(const struct plan_mask *mask, size_t index);
void plan_mask_set(struct plan_mask *mask, size_t index, bool on);
/* "3,7,10-12", or "none"; false: not a list of that form. */
bool plan_mask_read(struct plan_mask *mask, const char *text);
void plan_mask_print(const struct plan_mask *mask, size_t count, FILE *out);

#endif
