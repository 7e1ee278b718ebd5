/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waits until a majority holds no key. It only reads: it takes nothing and has no place in a
 * queue. */

#include "client/ask/ask.h"
#include "client/locks/locks.h"
#include "core/mix.h"
#include "look.h"

/* The nodes notify of one change one after the other, and a busy lock changes often. */
#define SETTLE_MIN (5 * RL_MS)
#define SETTLE_MAX (15 * RL_MS)
#define EXPIRY_LATE (1 * RL_MS) /* a key's PTTL is in whole milliseconds */

struct watcher {
    struct watcher *next;
    struct net_bytes key;
    void (*changed)(struct watcher *watcher);
};

/* Two questions: to nodes that notify of a change after it, and to the others. */
enum { WATCH, PEEK, QUESTIONS };

/* SETTLING: a change was notified, and others may follow. */
enum phase { LOOKING, RESTING, SETTLING };

struct look {
    struct ask ask;
    struct watcher watcher;
    struct net_timer timer; /* the end of the phase */
    enum phase phase;
    bool watches;
    bool changed; /* since the last look began */
    uint64_t random;
    rl_mask absent, held; /* in neither: unknown */
    rl_ns ends[REDLOCK_NODES_MAX];
    rl_ns deadline;
    struct waiter *waiter;     /* the thread that waits for the end; ... */
    struct redlock_lock *lock; /* ... or the lock whose operation this is */
};

void watchers_wake(struct redlock_client *client, struct net_bytes key) {
    for (struct watcher *each = client->watchers; each; each = each->next)
        if (!key.data || bytes_equal(key, each->key)) each->changed(each);
}

static unsigned quorum_of(const struct look *look) { return rl_quorum(look->ask.client->nodes); }
static bool is_free(const struct look *look) { return rl_count(look->absent) >= quorum_of(look); }

/* The end of the phase: then, or at the deadline. */
static void enter_phase(struct look *look, enum phase phase, rl_ns until) {
    look->phase = phase;
    net_timer_set(look->ask.client->net, &look->timer,
                  until < look->deadline || phase == LOOKING ? until : look->deadline);
}

/* ---- the beginning and the end ---- */

static void watch_begin(struct look *look) {
    struct redlock_client *client = look->ask.client;
    look->watches = true;
    look->watcher.next = client->watchers;
    client->watchers = &look->watcher;
    client_track(client, true);
}

static void watch_end(struct look *look) {
    struct redlock_client *client = look->ask.client;
    struct watcher **at = &client->watchers;
    while (*at != &look->watcher) at = &(*at)->next;
    *at = look->watcher.next;
    client_track(client, false);
}

static void finish(struct look *look, int result) {
    net_timer_set(look->ask.client->net, &look->timer, RL_NEVER);
    look->ask.asker = NULL;
    if (look->watches) watch_end(look);
    if (look->waiter) {
        look->waiter->result = result;
        waiter_finish(look->waiter);
    } else {
        lock_give_back(look->lock, result);
    }
    ask_unref(&look->ask);
}

/* ---- between looks ---- */

/* When a majority is free because the keys end; RL_NEVER: unknown. */
static rl_ns ends_at(struct look *look) {
    const unsigned missing = quorum_of(look) - rl_count(look->absent);
    const rl_ns at = rl_nth_time(look->ends, look->held, missing);
    return at == RL_NEVER ? at : at + EXPIRY_LATE;
}

static rl_ns next_look(struct look *look, rl_ns now) {
    struct redlock_client *client = look->ask.client;
    const rl_mask tracked = net_tracked(client->net) & client->voters;
    const bool notified = rl_count(tracked & rl_all(client->nodes)) >= quorum_of(look);
    rl_ns at =
        now + (notified ? rl_draw_between(&look->random, NOTIFIED_POLL_MIN, NOTIFIED_POLL_MAX)
                        : rl_draw_between(&look->random, POLL_MIN, POLL_MAX));
    const rl_ns ends = ends_at(look);
    return ends < at ? (ends > now + RL_MS ? ends : now + RL_MS) : at;
}

static void settle(struct look *look, rl_ns now) {
    enter_phase(look, SETTLING, now + rl_draw_between(&look->random, SETTLE_MIN, SETTLE_MAX));
}

static void on_change(struct watcher *watcher) {
    struct look *look = RL_CONTAINER(watcher, struct look, watcher);
    look->changed = true;
    if (look->phase == RESTING) settle(look, net_now(look->ask.client->net));
}

/* A majority has answered alike, or no more answers are waited for. */
static void looked(struct look *look) {
    const rl_ns now = net_now(look->ask.client->net);
    const bool known = rl_count(look->absent | look->held) >= quorum_of(look);
    if (is_free(look)) {
        finish(look, REDLOCK_OK);
    } else if (now >= look->deadline) {
        finish(look, known ? REDLOCK_HELD : REDLOCK_NO_QUORUM);
    } else {
        if (!look->watches) watch_begin(look);
        if (look->changed)
            settle(look, now);
        else
            enter_phase(look, RESTING, next_look(look, now));
    }
}

/* ---- one look ---- */

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    struct look *look = RL_CONTAINER(question->ask, struct look, ask);
    if (!look->ask.asker) return false;
    if (reply->verdict == REDLOCK_VERDICT_ABSENT) look->absent |= rl_bit(node);
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
        look->held |= rl_bit(node);
        look->ends[node] = reports_end(reply)
                               ? net_now(look->ask.client->net) + reply->remaining_ms * RL_MS
                               : RL_NEVER;
    }
    const unsigned others = look->ask.client->nodes - rl_count(look->held);
    const bool decided = is_free(look) || others < quorum_of(look) || look->ask.pending == 0;
    if (look->phase == LOOKING && decided) looked(look);
    return false;
}

/* A node that has not answered the look before is not asked again. */
static void look_now(struct look *look) {
    struct redlock_client *client = look->ask.client;
    const int refusal = client_refusal(client);
    if (refusal != REDLOCK_OK) {
        finish(look, refusal);
        return;
    }
    const rl_ns now = net_now(client->net), until = now + client_node_timeout(client);
    struct question *watch = &look->ask.questions[WATCH], *peek = &look->ask.questions[PEEK];
    const rl_mask busy = client_busy(client, watch->calls) | client_busy(client, peek->calls);
    const rl_mask nodes = client_ready(client, now) & (rl_mask)~busy;
    const rl_mask tracked = nodes & net_tracked(client->net);
    look->changed = false;
    look->absent = look->held = 0;
    enter_phase(look, LOOKING, until);
    ask_send(watch, tracked, &watch->request, until);
    ask_send(peek, nodes & (rl_mask)~tracked, &peek->request, until);
    if (look->ask.pending == 0) looked(look);
}

static void on_timer(struct net_timer *timer) {
    struct look *look = RL_CONTAINER(timer, struct look, timer);
    if (look->lock && lock_is_stopped(look->lock))
        finish(look, REDLOCK_CANCELLED);
    else if (look->phase == LOOKING)
        looked(look);
    else
        look_now(look);
}

/* ---- the calls ---- */

/* An enum redlock_result. */
static int look_new(struct redlock_client *client, struct net_bytes resource, int64_t wait_ms,
                    struct look **made) {
    struct look *look = ask_new(client, sizeof *look, QUESTIONS,
                                client->options.key_prefix_bytes + resource.bytes, on_answer);
    if (!look) return REDLOCK_NO_MEMORY;
    if (net_random(client->net, &look->random, sizeof look->random) != 0) {
        ask_unref(&look->ask);
        return REDLOCK_SYSTEM;
    }
    look->deadline = wait_deadline(wait_ms, net_now(client->net));
    look->timer.fire = on_timer;
    look->watcher.changed = on_change;
    look->watcher.key = ask_key(&look->ask, "", resource);
    for (int i = 0; i < QUESTIONS; i++)
        look->ask.questions[i].request =
            (struct net_request){.op = i == WATCH ? NET_WATCH : NET_PEEK,
                                 .keys = &look->watcher.key,
                                 .keys_count = 1,
                                 .scheme = client->scheme};
    *made = look;
    return REDLOCK_OK;
}

int redlock_await_free(struct redlock_client *client, const void *resource, size_t bytes,
                       int64_t wait_ms) {
    if (!client || !ask_fits(client, resource, bytes) || wait_ms < REDLOCK_WAIT_FOREVER)
        return REDLOCK_BAD_ARGUMENT;
    if (!resource_permitted(client, (struct redlock_bytes){resource, bytes}, NULL))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct look *look = NULL;
    gather_majority(client, rl_quorum(client->nodes), client_node_timeout(client));
    const int result = look_new(client, (struct net_bytes){resource, bytes}, wait_ms, &look);
    if (result != REDLOCK_OK) return client_leave_notifying(client, result);
    struct waiter waiter;
    waiter_init(&waiter);
    look->waiter = &waiter;
    look_now(look);
    if (!waiter.done) return schedule_await(&client->schedule, &waiter);
    return client_leave_notifying(client, waiter.result);
}

int redlock_await_free_start(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done,
                             void *context) {
    if (!lock || !done || wait_ms < REDLOCK_WAIT_FOREVER) return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = lock_client(lock);
    const struct net_bytes *key = lock_key(lock);
    if (!key) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct look *look = NULL;
    int result =
        look_new(client, bytes_after(*key, client->options.key_prefix_bytes), wait_ms, &look);
    if (result == REDLOCK_OK) result = lock_borrow(lock, done, context, &look->timer);
    if (result == REDLOCK_OK) {
        look->lock = lock;
        look_now(look);
    } else if (look) {
        ask_unref(&look->ask);
    }
    client_leave(client);
    return result;
}
