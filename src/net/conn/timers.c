/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A pairing heap (a tree in which no timer is later than its children), ordered by `at`. `child` is
 * a timer's first child, and `next` its next sibling. `prev` is the previous sibling, for a first
 * child the parent, and for the root the root itself: a timer with `prev` is armed.
 *
 * A lock sets its timer at every step, nearly always to a later time, and seldom lets it fire. So
 * timers_move() to a later time only sets `later`, and the timer keeps its place in the heap. When
 * `at` has come, timers_due() moves it to `later` instead of returning it. */
#include "net/conn/timers.h"

static struct net_timer *join(struct net_timer *a, struct net_timer *b) {
    if (!a) return b;
    if (!b) return a;
    if (b->at < a->at) {
        struct net_timer *later = a;
        a = b;
        b = later;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child) a->child->prev = b;
    a->child = b;
    a->next = a->prev = NULL;
    return a;
}

/* Joins a list of siblings: first in pairs, then the pairs, from the last to the first. Both passes
 * are loops, because a list may be too long for recursion. */
static struct net_timer *join_all(struct net_timer *first) {
    struct net_timer *pairs = NULL;
    while (first) {
        struct net_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b) b->next = b->prev = NULL;
        struct net_timer *pair = join(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct net_timer *root = NULL;
    while (pairs) {
        struct net_timer *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = join(root, pair);
    }
    return root;
}

static void set_root(struct timers *timers, struct net_timer *root) {
    timers->root = root;
    if (root) root->prev = root;
}

static void take_out(struct timers *timers, struct net_timer *timer) {
    struct net_timer *below = join_all(timer->child);
    if (timers->root == timer) {
        set_root(timers, below);
    } else {
        if (timer->prev->child == timer)
            timer->prev->child = timer->next;
        else
            timer->prev->next = timer->next;
        if (timer->next) timer->next->prev = timer->prev;
        set_root(timers, join(timers->root, below));
    }
    timer->child = timer->next = timer->prev = NULL;
}

void timers_set(struct timers *timers, struct net_timer *timer, rl_ns at) {
    if (timer->prev) {
        timer->later = at;
        if (timer->at == at) return;
        take_out(timers, timer);
    }
    timer->at = timer->later = at;
    if (at == RL_NEVER) return;
    timer->child = timer->next = NULL;
    set_root(timers, join(timers->root, timer));
}

void timers_move(struct timers *timers, struct net_timer *timer, rl_ns at) {
    if (timer->prev && timer->at <= at)
        timer->later = at;
    else
        timers_set(timers, timer, at);
}

rl_ns timers_together(rl_ns at, rl_ns late) {
    if (late <= 0 || at < 0 || at > RL_NEVER - late) return at;
    return (at + late - 1) / late * late;
}

rl_ns timers_next(const struct timers *timers) {
    return timers->root ? timers->root->at : RL_NEVER;
}

struct net_timer *timers_due(struct timers *timers, rl_ns now) {
    for (struct net_timer *timer; (timer = timers->root) && timer->at <= now;) {
        take_out(timers, timer);
        if (timer->later <= now) return timer;
        timers_set(timers, timer, timer->later);
    }
    return NULL;
}
