/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue.h"

#include <string.h>

static void remove_at(struct queue *queue, unsigned at) {
    queue->count--;
    memmove(&queue->place[at], &queue->place[at + 1],
            (queue->count - at) * sizeof(queue->place[0]));
}

static unsigned find(const struct queue *queue, uint32_t waiter) {
    unsigned at = 0;
    while (at < queue->count && queue->place[at].waiter != waiter) at++;
    return at;
}

static bool comes_before(const struct queue_place *a, const struct queue_place *b) {
    return a->since_us != b->since_us ? a->since_us < b->since_us : a->waiter < b->waiter;
}

static void insert(struct queue *queue, const struct queue_place *place) {
    unsigned at = queue->count;
    for (; at > 0 && comes_before(place, &queue->place[at - 1]); at--)
        queue->place[at] = queue->place[at - 1];
    queue->place[at] = *place;
    queue->count++;
}

/* True: others have moved up. When all entries expire at once, no waiter is left to notify. */
static bool forget(struct queue *queue, int64_t now_us) {
    if (queue->count > 0 && now_us / 1000 > queue->ends_ms) queue->count = 0;
    unsigned before = queue->count;
    for (unsigned at = 0; at < queue->count;) {
        if (queue->place[at].until_us <= now_us)
            remove_at(queue, at);
        else
            at++;
    }
    return queue->count < before;
}

static int64_t enter(struct queue *queue, const struct queue_request *request, int64_t now_us) {
    unsigned at = find(queue, request->waiter);
    if (at == queue->count) {
        if (queue->count == QUEUE_MAX) return -1;
        insert(queue, &(struct queue_place){.waiter = request->waiter,
                                            .since_us = now_us - request->age_us});
        at = find(queue, request->waiter);
    }
    queue->place[at].address = request->address;
    queue->place[at].until_us = now_us + request->lease_ms * 1000;
    queue->ends_ms = now_us / 1000 + request->lease_ms * 4;
    return at;
}

/* Returns the first place whose rank has changed; -1: none. */
static int leave(struct queue *queue, const struct queue_request *request) {
    unsigned at = find(queue, request->waiter);
    if (at == queue->count) return -1;
    for (; request->passes && at > 0; at--) remove_at(queue, 0);
    remove_at(queue, at);
    return (int)at;
}

int64_t queue_ask(struct queue *queue, const struct queue_request *request, int64_t now_us,
                  unsigned armed, struct queue_news *news) {
    int moved = forget(queue, now_us) ? 0 : -1;
    int64_t answer;
    news->count = 0;
    if (request->lease_ms > 0) {
        answer = enter(queue, request, now_us);
    } else {
        int from = leave(queue, request);
        if (moved < 0) moved = from;
        answer = queue->count;
    }
    for (unsigned at = (unsigned)moved; moved >= 0 && at < armed && at < queue->count; at++) {
        if (queue->place[at].waiter == request->waiter) continue;
        news->notices[news->count++] = (struct queue_notice){queue->place[at], (int)at};
    }
    return answer;
}

int64_t queue_peek(const struct queue *queue, int64_t now_us, int64_t *age_us) {
    int64_t count = 0;
    *age_us = 0;
    if (now_us / 1000 > queue->ends_ms) return 0;
    for (unsigned at = 0; at < queue->count; at++) {
        const struct queue_place *place = &queue->place[at];
        if (place->until_us <= now_us) continue;
        if (count++ == 0 && place->since_us < now_us) *age_us = now_us - place->since_us;
    }
    return count;
}
