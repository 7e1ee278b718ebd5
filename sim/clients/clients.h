/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clients of the world: programs that use the unchanged library, on net.c, which is its
 * src/net/net.h.
 */
#ifndef SIM_CLIENTS_H
#define SIM_CLIENTS_H

#include "nodes/nodes.h"

/* What a client's program does: at once, or when it resumes. */
struct client_action {
    enum client_action_kind kind;
    uint8_t resource; /* of the client's own; MANY: by bits */
    int64_t number;
    rl_ns think, late;
    struct world_operation operation;
};

/* An update under way: from its read to its write. */
struct update {
    uint16_t client;
    uint8_t resource;
    bool active, sent;
    uint32_t hold, token;
    int64_t value, fence;
    rl_ns late;
};

struct hold { /* one lock of one client */
    struct world *world;
    uint16_t client, resource;
    uint8_t slots;    /* of the lock; 0: it has none */
    uint8_t slot;     /* that it holds, or held last */
    bool shared;      /* it is one of readers, since it was made ... */
    bool made_shared; /* ... or since its holder downgraded it */
    bool reads;       /* for the steps: what it holds now is a reader's */
    struct redlock_lock *lock;
    uint32_t tries;
    uint32_t count; /* numbers the acquisitions: an update of an earlier one must not write */
    uint32_t token;
    bool acquiring, extending, releasing;
    bool release_waits; /* until a write that is under way arrives */
    int64_t fence;
    bool adopting, had; /* had: it was held when the adoption began */
    struct {            /* the last that was acquired */
        uint8_t token[REDLOCK_TOKEN_HEX_BYTES];
        size_t bytes; /* 0: there was none */
        uint32_t number;
        int64_t fence;
    } last;
};

struct actor {
    struct world *world;
    struct quorum_task *task; /* its command as an operator; NULL: none */
    struct break_task *breaking;
    struct world_operation decided; /* a break, once the operator has thought */
    bool thinks;
    uint8_t breaks; /* the resource of that break */
    struct redlock_client *redlock;
    struct net *net;
    struct sim_clock clock; /* BOOTTIME */
    rl_ns wall;             /* what its wall clock shows when BOOTTIME is 0 */
    uint32_t rate;          /* while it is not frozen */
    bool paused, frozen, crashed;
    bool ends;     /* its program has ended, and notices no result any more */
    rl_ns wake_at; /* the event that drives the client; RL_NEVER: none */
    struct random random;
    struct hold hold[WORLD_RESOURCES_MAX];
    struct redlock_observer *observers[WORLD_RESOURCES_MAX]; /* NULL: it does not observe */
    struct client_action *actions;                           /* that wait until it resumes */
    size_t actions_count, actions_capacity;
};

struct history_record actor_record(const struct world *world, enum history_kind kind,
                                   unsigned client);

/* hold.c */
void hold_acquire(struct hold *hold, int64_t wait_ms);
void hold_extend(struct hold *hold, int64_t ttl_ms);
void hold_adopt(struct hold *hold, int64_t ttl_ms);
void hold_downgrade(struct hold *hold);
void hold_release(struct hold *hold);
void hold_cancel(struct hold *hold);
/* The locks of one client, by bits. */
void holds_acquire(struct world *world, unsigned client, unsigned resources, int64_t wait_ms);
void holds_release(struct world *world, unsigned client, unsigned resources);
/* a record that says when validity ends */
void hold_write_until(const struct hold *hold, enum history_kind kind);
/* What the library says of it now, for the steps; nothing unless they are printed. */
void hold_print_answers(const struct hold *hold);
void hold_on_change(void *context, struct redlock_lock *lock, int change);

void update_begin(struct world *world, struct hold *hold, rl_ns think, rl_ns late);
void update_write(struct world *world, size_t number);
/* actor.c: writes, if the client runs */
void update_thought(struct world *world, void *argument, int64_t number);
/* breaking.c */
void breaking_act(struct world *world, unsigned client, const struct world_operation *what);
void breaking_drop(struct actor *actor);
/* observing.c */
void observers_begin(struct actor *actor, unsigned client);
void observers_end(struct actor *actor);
/* operator.c */
void operator_act(struct world *world, unsigned client, const struct world_operation *what);
void operator_drop(struct actor *actor); /* the change stays as far as it got */

/* actor.c */
void actors_begin(struct world *world);
void actors_end(struct world *world);
void actor_drive(struct world *world, unsigned client); /* its sockets or timers have work */
/* the message is its own from now on */
void actor_receive(struct world *world, unsigned client, struct message *message);
void actor_rearm(struct world *world, unsigned client);

/* net.c: a message arrives at a client; net owns it from now on */
void net_receive(struct net *net, struct message *message);
/* The world that the network serves from now on; its `opening` is the client that opens next. */
void net_opens_in(struct world *world);
/* The client has ended: it sends nothing, receives nothing and waits for nothing from now on. */
void net_abandon(struct net *net);

#endif
