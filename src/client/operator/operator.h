/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's side: what servers hold, and what they are. Nothing here takes a lock; a
 * break (break_task.c) ends one. */
#ifndef RL_CLIENT_OPERATOR_H
#define RL_CLIENT_OPERATOR_H

#include "redlock/admin.h"
#include "client/client.h"
#include "break_task.h"
#include "observe.h"
#include "task.h"

/* How long a look at the nodes waits for the others when a majority is connected. One that hangs
 * is left out; one that is far away has connected by then. */
#define LOOK_PATIENCE (250 * RL_MS)

/* ---- inquiry.c ----
 *
 * Questions to some nodes, and a thread or a callback that waits for the answers until a deadline.
 * An inquiry lives until the last node has answered, which may be after the asker has gone. The
 * caller holds the mutex. */

/* The memory of the questions and answers begins with this. */
struct inquiry {
    struct redlock_client *client;
    unsigned refs; /* one for the asker, one for each busy call */
    unsigned pending;
    struct waiter *waiter; /* NULL: the asker has gone, or it uses the callback: */
    /* all have answered, or the time is up; NULL: no callback */
    void (*ended)(struct inquiry *inquiry);
    struct net_timer timer;
};

/* The asker has one reference. `calls`: the number of calls that become its own. */
void inquiry_init(struct inquiry *inquiry, struct redlock_client *client, struct net_call *calls,
                  size_t count, net_answered_fn *answered);
void inquiry_unref(struct inquiry *inquiry); /* free()s it with the last reference */
/* Returns the nodes that were asked. `until`: an answer after this time is late. */
rl_mask inquiry_send(struct inquiry *inquiry, rl_mask nodes, const struct net_request *request,
                     struct net_call *calls, rl_ns until);
/* Waits for all that was sent. */
void inquiry_wait(struct inquiry *inquiry);
/* An answer has come and is recorded. `decided`: do not wait for the rest. */
void inquiry_answered(struct inquiry *inquiry, bool decided);

/* ---- await_free.c ---- */

/* A node notifies of a change: of that key, or, with key.data NULL, perhaps of any. */
void watchers_wake(struct redlock_client *client, struct net_bytes key);

#endif
