/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads what nodes hold. */
#include <stdlib.h>
#include <string.h>

#include "client/guarding/guarding.h"
#include "client/locks/locks.h"
#include "operator.h"

/* ---- one question to some nodes ---- */

struct peek {
    struct inquiry inquiry;
    bool decided;               /* a callback does not wait for the rest */
    struct redlock_lock *lock;  /* the callback is an operation of this lock */
    struct redlock_view *views; /* the callback's, while the lock exists */
    struct net_request request;
    struct net_bytes key;
    struct {
        bool answered;
        struct redlock_view view;
    } seen[REDLOCK_NODES_MAX];
    uint64_t cursor;         /* SCAN */
    struct net_bytes *items; /* SCAN: copies in one block, owned by the asker */
    size_t items_count;
    struct net_call calls[REDLOCK_NODES_MAX];
    unsigned char key_bytes[];
};

static void copy_items(struct peek *peek, const struct net_reply *reply) {
    size_t bytes = 0;
    for (size_t i = 0; i < reply->items_count; i++) bytes += reply->items[i].bytes;
    peek->items = malloc(reply->items_count * sizeof peek->items[0] + bytes + 1);
    if (!peek->items) return;
    unsigned char *at = (unsigned char *)(peek->items + reply->items_count);
    for (size_t i = 0; i < reply->items_count; i++) {
        peek->items[i] = (struct net_bytes){at, reply->items[i].bytes};
        memcpy(at, reply->items[i].data, reply->items[i].bytes);
        at += reply->items[i].bytes;
    }
    peek->items_count = reply->items_count;
}

static bool has_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_WRONGTYPE;
}

/* Nothing more is waited for. A node that did not answer has a verdict with the reason. */
static void peek_end(struct peek *peek) {
    struct redlock_client *client = peek->inquiry.client;
    net_timer_set(client->net, &peek->inquiry.timer, RL_NEVER);
    for (unsigned i = 0; i < client->nodes; i++) {
        if (peek->seen[i].answered) continue;
        int verdict = client_status(client, i).verdict;
        if (verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_CONNECTING)
            verdict = peek->decided ? REDLOCK_VERDICT_NONE : REDLOCK_VERDICT_TIMEOUT;
        peek->seen[i].view.verdict = verdict;
    }
}

static int peek_result(const struct peek *peek, struct redlock_view *views) {
    unsigned reported = 0;
    for (unsigned i = 0; i < peek->inquiry.client->nodes; i++) {
        views[i] = peek->seen[i].view;
        reported += has_answer(views[i].verdict);
    }
    return reported >= rl_quorum(peek->inquiry.client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

/* Finishes the callback's operation, once. */
static void on_ended(struct inquiry *inquiry) {
    struct peek *peek = RL_CONTAINER(inquiry, struct peek, inquiry);
    inquiry->ended = NULL;
    peek_end(peek);
    lock_give_back(peek->lock,
                   lock_is_freed(peek->lock) ? REDLOCK_OK : peek_result(peek, peek->views));
    inquiry_unref(inquiry);
}

/* Whether a majority gave the same answer as this node. */
static bool is_decided(const struct peek *peek, unsigned node) {
    const struct redlock_view *view = &peek->seen[node].view;
    unsigned same = 0;
    for (unsigned i = 0; has_answer(view->verdict) && i < peek->inquiry.client->nodes; i++) {
        const struct redlock_view *other = &peek->seen[i].view;
        same += peek->seen[i].answered && other->verdict == view->verdict &&
                other->token_truncated == view->token_truncated &&
                other->token_bytes == view->token_bytes &&
                memcmp(other->token, view->token, view->token_bytes) == 0;
    }
    return same >= rl_quorum(peek->inquiry.client->nodes);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct peek *peek = call->owner;
    struct redlock_view *view = &peek->seen[call->node].view;
    peek->seen[call->node].answered = true;
    view->verdict = reply->verdict;
    view->remaining_ms = reply->remaining_ms;
    view->token_truncated = reply->truncated;
    view->token_bytes =
        reply->value.bytes < sizeof view->token ? reply->value.bytes : sizeof view->token;
    if (view->token_bytes) memcpy(view->token, reply->value.data, view->token_bytes);
    if (peek->request.op == NET_SCAN && peek->inquiry.waiter &&
        reply->verdict == REDLOCK_VERDICT_GRANTED) {
        peek->cursor = reply->cursor;
        copy_items(peek, reply);
    }
    peek->decided = peek->inquiry.ended && is_decided(peek, call->node);
    inquiry_answered(&peek->inquiry, peek->decided);
}

static struct peek *peek_new(struct redlock_client *client, enum net_op op, const void *resource,
                             size_t bytes) {
    size_t prefix = client->options.key_prefix_bytes;
    struct peek *peek = calloc(1, sizeof *peek + prefix + bytes + 1);
    if (!peek) return NULL;
    inquiry_init(&peek->inquiry, client, peek->calls, REDLOCK_NODES_MAX, on_answer);
    if (prefix) memcpy(peek->key_bytes, client->key_prefix, prefix);
    if (bytes) memcpy(peek->key_bytes + prefix, resource, bytes);
    peek->key = (struct net_bytes){peek->key_bytes, prefix + bytes};
    peek->request = (struct net_request){
        .op = op, .keys = &peek->key, .keys_count = 1, .scheme = client->scheme};
    return peek;
}

/* `key`: the prefix included. */
static struct peek *peek_new_whole(struct redlock_client *client, struct net_bytes key) {
    size_t prefix = client->options.key_prefix_bytes;
    return peek_new(client, NET_PEEK_VALUE, (const char *)key.data + prefix, key.bytes - prefix);
}

/* Asks and waits. The mutex is held. */
static void peek_ask(struct peek *peek, rl_mask nodes) {
    inquiry_send(&peek->inquiry, nodes, &peek->request, peek->calls,
                 gather_until(peek->inquiry.client));
    inquiry_wait(&peek->inquiry);
    peek_end(peek);
}

/* The nodes that can be asked. Of a minority that hangs, the verdict is the answer. */
static rl_mask nodes_to_ask(struct redlock_client *client) {
    gather_majority(client, rl_quorum(client->nodes), LOOK_PATIENCE);
    return net_ready(client->net, net_now(client->net));
}

int redlock_peek(struct redlock_client *client, const void *resource, size_t bytes,
                 struct redlock_view *views, size_t count) {
    if (!client || !resource || bytes < 1 || !views || count < client->nodes)
        return REDLOCK_BAD_ARGUMENT;
    if (bytes > REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct peek *peek = peek_new(client, NET_PEEK_VALUE, resource, bytes);
    int result = REDLOCK_NO_MEMORY;
    if (peek) {
        peek_ask(peek, nodes_to_ask(client));
        result = peek_result(peek, views);
        inquiry_unref(&peek->inquiry);
    }
    return client_leave_notifying(client, result);
}

int redlock_peek_start(struct redlock_lock *lock, struct redlock_view *views, size_t count,
                       redlock_done_fn *done, void *context) {
    if (!lock) return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = lock_client(lock);
    const struct net_bytes *key = lock_key(lock);
    if (!views || count < client->nodes || !done || !key) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct peek *peek = peek_new_whole(client, *key);
    int result = peek ? lock_borrow(lock, done, context) : REDLOCK_NO_MEMORY;
    if (result == REDLOCK_OK) {
        peek->views = views;
        peek->lock = lock;
        peek->inquiry.ended = on_ended;
        rl_ns now = net_now(client->net);
        if (!inquiry_send(&peek->inquiry, net_ready(client->net, now), &peek->request, peek->calls,
                          now + lock_node_timeout(lock)))
            on_ended(&peek->inquiry);
    } else if (peek) {
        inquiry_unref(&peek->inquiry);
    }
    client_leave(client);
    return result;
}

/* What is asked for is foreign data, and becomes a C string. */
static bool copy_type(const struct redlock_view *view, char *type, size_t size) {
    const size_t bytes = view->token_bytes < size ? view->token_bytes : size - 1;
    const bool is_foreign = view->verdict == REDLOCK_VERDICT_GRANTED && bytes > 0 &&
                            !(bytes == 6 && memcmp(view->token, "string", 6) == 0);
    if (!is_foreign) return false;
    memcpy(type, view->token, bytes);
    type[bytes] = '\0';
    return true;
}

int redlock_key_type(struct redlock_client *client, const void *resource, size_t bytes, char *type,
                     size_t size) {
    if (!client || !resource || bytes < 1 || !type || size < 1) return REDLOCK_BAD_ARGUMENT;
    if (bytes > REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct peek *peek = peek_new(client, NET_TYPE, resource, bytes);
    int result = REDLOCK_NO_MEMORY;
    if (peek) {
        peek_ask(peek, nodes_to_ask(client));
        type[0] = '\0';
        for (unsigned i = 0; i < client->nodes; i++)
            if (copy_type(&peek->seen[i].view, type, size)) break;
        result = REDLOCK_OK;
        inquiry_unref(&peek->inquiry);
    }
    return client_leave_notifying(client, result);
}

/* ---- listing ---- */

enum { SCANS_MAX = 4000000 };

/* The announcement of a leader, next to its lock. */
static bool is_term(struct net_bytes key) {
    const size_t head = sizeof NET_KEY_TERM - 1;
    return key.bytes > head && memcmp(key.data, NET_KEY_TERM, head) == 0;
}

/* Reports the keys that are strings with a TTL there. The mutex is held. */
static void report_items(struct redlock_client *client, unsigned node, const struct peek *scan,
                         redlock_resource_fn *each, void *context) {
    size_t prefix = client->options.key_prefix_bytes;
    for (size_t i = 0; i < scan->items_count; i++) {
        struct net_bytes key = scan->items[i];
        struct peek *peek =
            key.bytes > prefix && !is_term(key) ? peek_new_whole(client, key) : NULL;
        if (!peek) continue;
        peek_ask(peek, rl_bit(node));
        const struct redlock_view *view = &peek->seen[node].view;
        bool is_lock = view->verdict == REDLOCK_VERDICT_GRANTED && view->remaining_ms >= 0;
        inquiry_unref(&peek->inquiry);
        if (!is_lock) continue;
        schedule_unlock(&client->schedule);
        each(context, (const char *)key.data + prefix, key.bytes - prefix);
        schedule_relock(&client->schedule);
    }
}

/* A SCAN of a correct server ends, and never repeats a cursor. Each cursor is compared with an
 * earlier one, which is replaced at growing intervals (Brent), so a circle of any size is found. A
 * SCAN with ever new cursors ends by their number: at 50 keys a cursor, no server has that many. */
static int scan_node(struct redlock_client *client, unsigned node, redlock_resource_fn *each,
                     void *context) {
    uint64_t cursor = 0, earlier = 0, count = 0, keep_at = 1;
    do {
        struct peek *scan = peek_new(client, NET_SCAN, "", 0);
        if (!scan) return REDLOCK_NO_MEMORY;
        scan->request.cursor = cursor;
        peek_ask(scan, rl_bit(node));
        bool reported =
            scan->seen[node].answered && scan->seen[node].view.verdict == REDLOCK_VERDICT_GRANTED;
        if (reported) report_items(client, node, scan, each, context);
        cursor = scan->cursor;
        free(scan->items);
        inquiry_unref(&scan->inquiry);
        if (!reported) return REDLOCK_NO_QUORUM;
        if (cursor != 0 && (cursor == earlier || count >= SCANS_MAX)) {
            net_reconnect(client->net, node, REDLOCK_VERDICT_PROTOCOL,
                          "SCAN does not end: its cursor never returns to 0");
            return REDLOCK_NO_QUORUM;
        }
        if (++count >= keep_at) {
            earlier = cursor;
            keep_at *= 2;
        }
    } while (cursor != 0);
    return REDLOCK_OK;
}

int redlock_list(struct redlock_client *client, redlock_resource_fn *each, void *context) {
    if (!client || !each) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    rl_mask ready = nodes_to_ask(client);
    unsigned reported = 0;
    int result = REDLOCK_OK;
    for (unsigned i = 0; i < client->nodes && result != REDLOCK_NO_MEMORY; i++) {
        if (!(ready & rl_bit(i))) continue;
        result = scan_node(client, i, each, context);
        reported += result == REDLOCK_OK;
    }
    if (result != REDLOCK_NO_MEMORY)
        result = reported >= rl_quorum(client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
    return client_leave_notifying(client, result);
}
