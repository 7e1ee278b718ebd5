/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Looks at the nodes: what they hold, what they are, and who leads. Nothing here takes a lock or
 * changes a node. The mutex is held. */
#ifndef RL_CLIENT_LOOK_H
#define RL_CLIENT_LOOK_H

#include "client/schedule/schedule.h"
#include "core/observer.h"
#include "net/net.h"
#include "redlock/admin.h"

/* Between two looks at a key. Without notifications, as often as a waiting lock tries by default;
 * with them, only in case that one was lost. */
#define POLL_MIN (50 * RL_MS)
#define POLL_MAX (250 * RL_MS)
#define NOTIFIED_POLL_MIN (500 * RL_MS)
#define NOTIFIED_POLL_MAX (1000 * RL_MS)

/* ---- await_free.c ---- */

/* A node notifies of a change: of that key, or, with key.data NULL, perhaps of any. */
void watchers_wake(struct redlock_client *client, struct net_bytes key);

/* ---- observe.c ----
 *
 * One observer of an election: core/observer.h over a client's connections. It sends the machine's
 * questions to the nodes, and their answers to the machine, and decides nothing. */

/* Tokens by their numbers: those of one look, two for each node, and the one that is reported. */
enum { OBSERVED_TOKENS = 2 * RL_NODES_MAX + 2 };

struct redlock_observer {
    struct redlock_client *client;
    struct redlock_observer *next; /* in the client's list */
    unsigned refs;                 /* of the user, and of a callback that is due */
    bool stopped, stepping;
    struct rl_observer machine;
    struct net_timer timer;
    struct ask *asks;              /* whose answers may still come */
    rl_mask unsent;                /* nodes that could not be asked; for after the step */
    uint64_t nonces[RL_NODES_MAX]; /* of the records at the last look */
    uint16_t stripe;
    struct notified notified;
    redlock_observe_fn *each;
    void *context;
    struct observed_token {
        size_t bytes; /* 0: the number is free */
        unsigned char data[REDLOCK_TOKEN_BYTES_MAX];
    } token[OBSERVED_TOKENS]; /* [number]; 0 is none */
    struct net_bytes keys[2]; /* the lock's, and the announcement's */
    unsigned char bytes[];
};

/* The nodes, or what is known of them, have changed. */
void observers_check(struct redlock_client *client);
/* A node notifies of a change: of that key, or, with key.data NULL, perhaps of any. */
void observers_wake(struct redlock_client *client, struct net_bytes key);
/* A callback is due. False: it is not that of an observer. `drop`: do not call it. */
bool observers_report(struct redlock_client *client, const struct notified *notified, bool drop);

#endif
