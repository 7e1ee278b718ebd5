/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's side: what servers hold and what they are. Nothing here takes or changes a lock.
 */
#ifndef RL_CLIENT_OPERATOR_H
#define RL_CLIENT_OPERATOR_H

#include "redlock/admin.h"
#include "client/client.h"
#include "task.h"

/* ---- inquiry.c ----
 *
 * Questions to some nodes, and a thread or a callback that waits for the answers, at most so long.
 * It lives until the last node has answered, which may be after the asker has gone. The mutex is
 * held. */

/* What is allocated for the questions and answers begins with it. */
struct inquiry {
    struct redlock_client *client;
    unsigned refs; /* the asker's, one for each busy call */
    unsigned pending;
    struct waiter *waiter; /* NULL: the asker has gone, or is a callback: */
    void (*ended)(
        struct inquiry *inquiry); /* all have answered, or it is late; NULL: no callback */
    struct net_timer timer;
};

/* The asker has one reference. `calls`: so many are made to be its own. */
void inquiry_init(struct inquiry *inquiry, struct redlock_client *client, struct net_call *calls,
                  size_t count, enum call_tag tag);
void inquiry_unref(struct inquiry *inquiry); /* free()s it with the last one */
/* Returns the nodes that were asked. An answer after `until` is late. */
rl_mask inquiry_send(struct inquiry *inquiry, rl_mask nodes, const struct net_request *request,
                     struct net_call *calls, rl_ns until);
/* Waits for all that was sent. */
void inquiry_wait(struct inquiry *inquiry);
/* An answer has come and is noted. `decided`: the rest is not waited for. */
void inquiry_answered(struct inquiry *inquiry, bool decided);

/* ---- answers ---- */

void peek_reply(struct net_call *call, const struct net_reply *reply);
void server_info_reply(struct net_call *call, const struct net_reply *reply);

#endif
