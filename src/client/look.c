/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waiting for nodes, and looking at what they hold. Nothing here takes or changes a lock.
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "client/operator/task.h"

/* ---- waiting until every node is connected or known to have failed ---- */

struct gathering {
    struct gathering *next;
    struct waiter waiter;
    struct net_timer timer;
};

static void gathering_late(struct net_timer *timer) {
    waiter_finish(&RL_CONTAINER(timer, struct gathering, timer)->waiter);
}

void gatherings_check(struct redlock_client *client) {
    tasks_check(client);
    if (!client->gatherings || client_settled(client) != rl_all(client->nodes)) return;
    for (struct gathering *g = client->gatherings; g; g = g->next) waiter_finish(&g->waiter);
}

rl_mask gather(struct redlock_client *client, rl_ns until) {
    if (client_settled(client) != rl_all(client->nodes) && net_now(client->net) < until) {
        struct gathering gathering = {.next = client->gatherings,
                                      .timer = {.fire = gathering_late}};
        waiter_init(&gathering.waiter);
        client->gatherings = &gathering;
        net_timer_set(client->net, &gathering.timer, until);
        client_wait(client, &gathering.waiter);
        net_timer_set(client->net, &gathering.timer, RL_NEVER);
        struct gathering **at = &client->gatherings;
        while (*at != &gathering) at = &(*at)->next;
        *at = gathering.next;
    }
    return net_ready(client->net, net_now(client->net));
}

int redlock_client_wait_ready(struct redlock_client *client, int64_t wait_ms) {
    if (wait_ms < 0 || wait_ms > REDLOCK_TTL_MS_MAX) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather(client, net_now(client->net) + wait_ms * RL_MS);
    int ready = (int)rl_count(client_ready(client, net_now(client->net)));
    client_leave_telling(client);
    return ready;
}

/* ---- one question to some nodes ---- */

/* Lives until the last node has answered, which may be after whoever asked has gone. */
struct look {
    unsigned refs; /* the asker's, one for each busy call */
    struct redlock_client *client;
    unsigned pending;
    bool decided;               /* a callback is not kept waiting for the rest */
    struct waiter *waiter;      /* NULL: the asker has gone, or is a callback: */
    struct redlock_lock *lock;  /* whose operation this is; NULL: none, or told */
    struct redlock_view *views; /* the callback's, while the lock lives */
    struct net_timer timer;
    struct net_request request;
    struct net_bytes key;
    struct net_reply_seen {
        bool answered;
        struct redlock_view view;
    } seen[REDLOCK_NODES_MAX];
    uint64_t cursor;         /* SCAN */
    struct net_bytes *items; /* SCAN: copies in one block */
    size_t items_count;
    struct net_call calls[REDLOCK_NODES_MAX];
    unsigned char key_bytes[];
};

static void look_unref(struct look *look) {
    if (--look->refs > 0) return;
    free(look->items);
    free(look);
}

static struct look *look_new(struct redlock_client *client, enum net_op op, const void *resource,
                             size_t bytes) {
    size_t prefix = client->options.key_prefix_bytes;
    struct look *look = calloc(1, sizeof *look + prefix + bytes + 1);
    if (!look) return NULL;
    look->refs = 1;
    look->client = client;
    if (prefix) memcpy(look->key_bytes, client->key_prefix, prefix);
    if (bytes) memcpy(look->key_bytes + prefix, resource, bytes);
    look->key = (struct net_bytes){look->key_bytes, prefix + bytes};
    look->request = (struct net_request){
        .op = op, .keys = &look->key, .keys_count = 1, .scheme = client->scheme};
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) {
        look->calls[i].owner = look;
        look->calls[i].tag = CALL_LOOK;
    }
    return look;
}

static void copy_items(struct look *look, const struct net_reply *reply) {
    size_t bytes = 0;
    for (size_t i = 0; i < reply->items_count; i++) bytes += reply->items[i].bytes;
    look->items = malloc(reply->items_count * sizeof look->items[0] + bytes + 1);
    if (!look->items) return;
    unsigned char *at = (unsigned char *)(look->items + reply->items_count);
    for (size_t i = 0; i < reply->items_count; i++) {
        look->items[i] = (struct net_bytes){at, reply->items[i].bytes};
        memcpy(at, reply->items[i].data, reply->items[i].bytes);
        at += reply->items[i].bytes;
    }
    look->items_count = reply->items_count;
}

static bool tells(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_WRONGTYPE;
}

/* No more is waited for. What did not answer has a verdict that says why. */
static void look_end(struct look *look) {
    struct redlock_client *client = look->client;
    net_timer_set(client->net, &look->timer, RL_NEVER);
    for (unsigned i = 0; i < client->nodes; i++) {
        if (look->seen[i].answered) continue;
        struct net_node_status status;
        net_node(client->net, i, net_now(client->net), &status);
        int silent = look->decided ? REDLOCK_VERDICT_NONE : REDLOCK_VERDICT_TIMEOUT;
        look->seen[i].view.verdict =
            status.verdict == REDLOCK_VERDICT_GRANTED ? silent : status.verdict;
    }
}

static int look_result(const struct look *look, struct redlock_view *views) {
    unsigned told = 0;
    for (unsigned i = 0; i < look->client->nodes; i++) {
        views[i] = look->seen[i].view;
        told += tells(views[i].verdict);
    }
    return told >= rl_quorum(look->client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

/* Tells the callback, once. */
static void look_tell(struct look *look) {
    struct redlock_lock *lock = look->lock;
    look->lock = NULL;
    look_end(look);
    if (!lock->freed) op_finish(lock, &lock->op, look_result(look, look->views));
    lock_unref(lock);
    look_unref(look);
}

static bool same_view(const struct redlock_view *a, const struct redlock_view *b) {
    return a->verdict == b->verdict && a->token_truncated == b->token_truncated &&
           a->token_bytes == b->token_bytes && memcmp(a->token, b->token, a->token_bytes) == 0;
}

/* Whether a majority says what this node says. */
static bool is_decided(const struct look *look, unsigned node) {
    const struct redlock_view *view = &look->seen[node].view;
    unsigned same = 0;
    for (unsigned i = 0; tells(view->verdict) && i < look->client->nodes; i++)
        same += look->seen[i].answered && same_view(&look->seen[i].view, view);
    return same >= rl_quorum(look->client->nodes);
}

static void look_over(struct look *look) {
    if (look->waiter) waiter_finish(look->waiter);
    if (look->lock) look_tell(look);
}

void look_reply(struct net_call *call, const struct net_reply *reply) {
    struct look *look = call->owner;
    struct redlock_view *view = &look->seen[call->node].view;
    look->seen[call->node].answered = true;
    view->verdict = reply->verdict;
    view->remaining_ms = reply->remaining_ms;
    view->token_truncated = reply->truncated;
    view->token_bytes =
        reply->value.bytes < sizeof view->token ? reply->value.bytes : sizeof view->token;
    if (view->token_bytes) memcpy(view->token, reply->value.data, view->token_bytes);
    if (look->request.op == NET_SCAN && look->waiter && reply->verdict == REDLOCK_VERDICT_GRANTED) {
        look->cursor = reply->cursor;
        copy_items(look, reply);
    }
    look->pending--;
    look->decided = look->lock && is_decided(look, call->node);
    if (look->pending == 0 || look->decided) look_over(look);
    look_unref(look);
}

static void look_late(struct net_timer *timer) {
    look_over(RL_CONTAINER(timer, struct look, timer));
}

/* Asks. The mutex is held. False: no node was asked. */
static bool look_send(struct look *look, rl_mask nodes, rl_ns patience) {
    struct redlock_client *client = look->client;
    rl_ns now = net_now(client->net);
    rl_ns until = now + patience;
    look->timer.fire = look_late;
    rl_mask taken = net_send(client->net, nodes, &look->request, look->calls, until, now);
    look->pending = rl_count(taken);
    look->refs += look->pending;
    if (look->pending == 0) return false;
    net_timer_set(client->net, &look->timer, until);
    return true;
}

/* Asks and waits. The mutex is held. */
static void look_ask(struct look *look, rl_mask nodes) {
    if (look_send(look, nodes, look->client->options.connect_timeout_ms * RL_MS)) {
        struct waiter waiter;
        waiter_init(&waiter);
        look->waiter = &waiter;
        client_wait(look->client, &waiter);
        look->waiter = NULL;
    }
    look_end(look);
}

rl_ns gather_until(struct redlock_client *client) {
    return net_now(client->net) + client->options.connect_timeout_ms * RL_MS;
}

int redlock_look(struct redlock_client *client, const void *resource, size_t bytes,
                 struct redlock_view *views, size_t count) {
    if (!resource || bytes < 1 || !views || count < client->nodes) return REDLOCK_BAD_ARGUMENT;
    if (bytes > REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct look *look = look_new(client, NET_LOOK, resource, bytes);
    int result = REDLOCK_NO_MEMORY;
    if (look) {
        look_ask(look, gather(client, gather_until(client)));
        result = look_result(look, views);
        look_unref(look);
    }
    client_leave_telling(client);
    return result;
}

/* The mutex is held. */
static int look_begin(struct redlock_lock *lock, struct redlock_view *views, redlock_done_fn *done,
                      void *context) {
    struct redlock_client *client = lock->client;
    if (lock->phase != PHASE_FREE || lock->op.active || lock->op.finished) return REDLOCK_BUSY;
    size_t prefix = client->options.key_prefix_bytes;
    struct look *look = look_new(client, NET_LOOK, (const char *)lock->keys[0].data + prefix,
                                 lock->keys[0].bytes - prefix);
    if (!look) return REDLOCK_NO_MEMORY;
    lock->op = (struct op){.active = true, .done = done, .context = context};
    look->views = views;
    look->lock = lock;
    lock->refs++;
    rl_mask ready = net_ready(client->net, net_now(client->net));
    if (!look_send(look, ready, lock->kind->terms.node_timeout)) look_tell(look);
    return REDLOCK_OK;
}

int redlock_look_start(struct redlock_lock *lock, struct redlock_view *views, size_t count,
                       redlock_done_fn *done, void *context) {
    struct redlock_client *client = lock->client;
    if (!views || count < client->nodes || !done || lock->keys_count != 1)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = look_begin(lock, views, done, context);
    client_leave(client);
    return result;
}

/* ---- listing ---- */

enum { SCANS_MAX = 4000000 };

/* Whether one node holds a string with a TTL there. The mutex is held. */
static bool is_lock_at(struct redlock_client *client, unsigned node, struct net_bytes key) {
    size_t prefix = client->options.key_prefix_bytes;
    struct look *look =
        look_new(client, NET_LOOK, (const char *)key.data + prefix, key.bytes - prefix);
    if (!look) return false;
    look_ask(look, rl_bit(node));
    bool found = look->seen[node].view.verdict == REDLOCK_VERDICT_GRANTED &&
                 look->seen[node].view.remaining_ms >= 0;
    look_unref(look);
    return found;
}

static void tell_items(struct redlock_client *client, unsigned node, const struct look *scan,
                       redlock_resource_fn *each, void *context) {
    size_t prefix = client->options.key_prefix_bytes;
    for (size_t i = 0; i < scan->items_count; i++) {
        struct net_bytes key = scan->items[i];
        if (key.bytes <= prefix || !is_lock_at(client, node, key)) continue;
        pthread_mutex_unlock(&client->mutex);
        each(context, (const char *)key.data + prefix, key.bytes - prefix);
        pthread_mutex_lock(&client->mutex);
    }
}

/* A SCAN that works ends, and has no cursor twice. Cursors are compared with one that was kept a
 * while ago, and longer each time (Brent), so a circle of any size is found. A SCAN with ever new
 * cursors ends by their number: at 50 keys a cursor, no server has so many. */
struct scan_end {
    uint64_t kept, count, keep_at;
};

static bool is_endless(struct scan_end *end, uint64_t cursor) {
    if (cursor == end->kept || end->count >= SCANS_MAX) return true;
    if (++end->count >= end->keep_at) {
        end->kept = cursor;
        end->keep_at *= 2;
    }
    return false;
}

static int scan_node(struct redlock_client *client, unsigned node, redlock_resource_fn *each,
                     void *context) {
    uint64_t cursor = 0;
    struct scan_end end = {.keep_at = 1};
    do {
        struct look *scan = look_new(client, NET_SCAN, "", 0);
        if (!scan) return REDLOCK_NO_MEMORY;
        scan->request.cursor = cursor;
        look_ask(scan, rl_bit(node));
        bool told =
            scan->seen[node].answered && scan->seen[node].view.verdict == REDLOCK_VERDICT_GRANTED;
        if (told) tell_items(client, node, scan, each, context);
        cursor = scan->cursor;
        look_unref(scan);
        if (!told) return REDLOCK_NO_QUORUM;
        if (cursor != 0 && is_endless(&end, cursor)) {
            net_reconnect(client->net, node, REDLOCK_VERDICT_PROTOCOL,
                          "SCAN does not end: its cursor never returns to 0");
            return REDLOCK_NO_QUORUM;
        }
    } while (cursor != 0);
    return REDLOCK_OK;
}

int redlock_list(struct redlock_client *client, redlock_resource_fn *each, void *context) {
    if (!each) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    rl_mask ready = gather(client, gather_until(client));
    unsigned told = 0;
    int result = REDLOCK_OK;
    for (unsigned i = 0; i < client->nodes && result != REDLOCK_NO_MEMORY; i++) {
        if (!(ready & rl_bit(i))) continue;
        result = scan_node(client, i, each, context);
        told += result == REDLOCK_OK;
    }
    client_leave_telling(client);
    if (result == REDLOCK_NO_MEMORY) return result;
    return told >= rl_quorum(client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}
