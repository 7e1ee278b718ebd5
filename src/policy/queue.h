/* SPDX-License-Identifier: BSD-2-Clause
 * Queues of calls, whose answers come in order. See queue.c. No allocation. */
#ifndef RL_POLICY_QUEUE_H
#define RL_POLICY_QUEUE_H

#include "policy/request.h"

struct call_queue {
    struct net_call *head, *tail;
    /* the first call that is due sooner than the one before it; NULL: there is none */
    struct net_call *rest;
    rl_ns rest_due; /* the earliest due from `rest` to the tail */
};
/* for queues in which dues do not matter */
void calls_push(struct call_queue *queue, struct net_call *call);
/* the same for a whole queue; empties `more` */
void calls_append(struct call_queue *queue, struct call_queue *more);
/* used only by calls_await() */
void calls_pushed_to_rest(struct call_queue *queue, struct net_call *call);
void calls_popped_before_rest(struct call_queue *queue); /* used only by calls_pop() */

/* Appends a call. Afterwards the head is due no later than any call behind it. */
static inline void calls_await(struct call_queue *queue, struct net_call *call) {
    struct net_call *before = queue->tail;
    call->next = NULL;
    queue->tail = call;
    if (!before) {
        queue->head = call;
        return;
    }
    before->next = call;
    if (queue->rest || before->due > call->due) calls_pushed_to_rest(queue, call);
}

/* NULL: the queue is empty. The head's due stays the earliest. */
static inline struct net_call *calls_pop(struct call_queue *queue) {
    struct net_call *call = queue->head;
    if (!call) return NULL;
    queue->head = call->next;
    if (!queue->head) queue->tail = NULL;
    call->next = NULL;
    if (queue->rest) calls_popped_before_rest(queue);
    return call;
}

#endif
