/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Queues of calls whose answers come in order. When a call is overdue, so are all calls before it.
 * So the first call's due stands for all: it is the earliest in the queue.
 *
 * Mostly each call is due no sooner than the one before it, and then the first is the earliest
 * anyway. From the first call that is due sooner, the queue has two parts. In the rising part, at
 * the head, each call's due is the earliest of itself and of the later calls in that part. Of the
 * rest only the earliest due is known. When the rising part is used up, the rest becomes the rising
 * part, by one walk from its end to its beginning. So each call is walked over once, whatever the
 * order of the dues. */
#include "policy/policy.h"

void calls_push(struct call_queue *queue, struct net_call *call) {
    call->next = NULL;
    if (queue->tail)
        queue->tail->next = call;
    else
        queue->head = call;
    queue->tail = call;
}

void calls_append(struct call_queue *queue, struct call_queue *more) {
    if (!more->head) return;
    if (queue->tail)
        queue->tail->next = more->head;
    else
        queue->head = more->head;
    queue->tail = more->tail;
    *more = (struct call_queue){.head = NULL};
}

static struct net_call *reversed(struct net_call *first) {
    struct net_call *before = NULL;
    while (first) {
        struct net_call *next = first->next;
        first->next = before;
        before = first;
        first = next;
    }
    return before;
}

/* The whole queue is the rest. */
static void rest_rises(struct call_queue *queue) {
    rl_ns earliest = RL_NEVER;
    struct net_call *backwards = reversed(queue->head);
    for (struct net_call *call = backwards; call; call = call->next) {
        if (call->due < earliest) earliest = call->due;
        call->due = earliest;
    }
    reversed(backwards);
    queue->rest = NULL;
}

void calls_pushed_to_rest(struct call_queue *queue, struct net_call *call) {
    if (!queue->rest || call->due < queue->rest_due) queue->rest_due = call->due;
    if (!queue->rest) queue->rest = call;
    if (queue->head->due > call->due) queue->head->due = call->due;
}

void calls_popped_before_rest(struct call_queue *queue) {
    if (queue->head == queue->rest)
        rest_rises(queue);
    else if (queue->head->due > queue->rest_due)
        queue->head->due = queue->rest_due;
}
