/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One break of a lock: core/break.h over a client's connections. It sends the machine's requests to
 * the nodes, and the nodes' answers to the machine. It decides nothing. The client's mutex protects
 * a task. */
#ifndef RL_CLIENT_OPERATOR_BREAK_TASK_H
#define RL_CLIENT_OPERATOR_BREAK_TASK_H

#include "core/break.h"
#include "net/net.h"
#include "redlock.h"

struct break_task {
    struct redlock_client *client;
    struct rl_break machine;
    struct net_timer timer;
    struct ask *asks; /* whose answers may still come */
    struct net_bytes key, named;
    uint16_t stripe;
    bool no_memory;
    bool turned;   /* the client has turned guarded meanwhile: the break was not */
    bool deletes;  /* the first requests that delete are sent; guarded: with the raise */
    bool confirms; /* ... and, guarded, a majority has raised the fence */
    bool over;
    struct break_task *next; /* of the client's */
    /* Called when the deletes begin, and at the end. It must not free the task. */
    void (*notify)(struct break_task *task);
    void *context; /* the owner's */
    /* What each node reported: its key, and the result of the last delete (or why there is
     * none). */
    struct break_view {
        int read_verdict, verdict;
        int64_t remaining_ms;
        bool truncated;
        size_t token_bytes;
        unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
    } view[RL_NODES_MAX];
    unsigned char bytes[]; /* the key, the named token */
};

/* These two take the mutex. `key` includes the prefix; `named`: the token that must hold the lock,
 * data NULL: any. The caller owns the task and may free it at any time. NULL: no memory, or the
 * process was forked. */
struct break_task *break_start(struct redlock_client *client, struct net_bytes key,
                               struct net_bytes named, rl_ns patience,
                               void (*notify)(struct break_task *task), void *context);
void break_free(struct break_task *task); /* stops it in any state */
/* What is known of the nodes has changed. */
void breaks_check(struct redlock_client *client);

/* The token that is, or was, to be deleted; NULL: none was found. */
const struct break_view *break_holder(const struct break_task *task);
/* Of the listed nodes, those that may be members. */
rl_mask break_members(const struct break_task *task);
/* The members that are not listed, and so were not asked. */
unsigned break_unlisted(const struct break_task *task);

#endif
