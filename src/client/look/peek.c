/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads what nodes hold. */

#include "client/ask/ask.h"
#include "client/locks/locks.h"
#include "look.h"

/* ---- one question to some nodes ---- */

/* A question for each resource. */
static struct ask *peek_new(struct redlock_client *client, size_t size, enum net_op op,
                            const struct net_bytes *resources, size_t count) {
    size_t bytes = count * client->options.key_prefix_bytes;
    for (size_t i = 0; i < count; i++) bytes += resources[i].bytes;
    struct ask *ask = ask_new(client, size, count, bytes, NULL);
    for (size_t i = 0; ask && i < count; i++) {
        struct question *question = &ask->questions[i];
        question->keys[0] = ask_key(ask, "", resources[i]);
        question->request = (struct net_request){
            .op = op, .keys = question->keys, .keys_count = 1, .scheme = client->scheme};
    }
    return ask;
}

static struct ask *peek_one(struct redlock_client *client, enum net_op op, const void *resource,
                            size_t bytes) {
    const struct net_bytes one = {resource, bytes};
    return peek_new(client, sizeof(struct ask), op, &one, 1);
}

/* The verdict of a node that did not answer is the reason, or `late` if no reason is known. */
static int peek_result(const struct question *peek, int late, struct redlock_view *views) {
    struct redlock_client *client = peek->ask->client;
    unsigned reported = 0;
    for (unsigned i = 0; i < client->nodes; i++) {
        int silent = client_status(client, i).verdict;
        if (silent == REDLOCK_VERDICT_GRANTED || silent == REDLOCK_VERDICT_CONNECTING)
            silent = late;
        reported += ask_view(&peek->answers[i], silent, &views[i]);
    }
    return reported >= rl_quorum(client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

/* Asks and waits. The mutex is held. */
static void peek_ask(struct ask *peek, rl_mask nodes) {
    const rl_ns until = gather_until(peek->client);
    for (size_t i = 0; i < peek->questions_count; i++)
        ask_send(&peek->questions[i], nodes, &peek->questions[i].request, until);
    ask_wait(peek);
}

/* The nodes that can be asked. Of a minority that hangs, the verdict is the answer. */
static rl_mask nodes_to_ask(struct redlock_client *client) {
    gather_majority(client, rl_quorum(client->nodes), LOOK_PATIENCE);
    return net_ready(client->net, net_now(client->net));
}

int redlock_peek(struct redlock_client *client, const void *resource, size_t bytes,
                 struct redlock_view *views, size_t count) {
    if (!client || !ask_fits(client, resource, bytes) || !views || count < client->nodes)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct ask *peek = peek_one(client, NET_PEEK_VALUE, resource, bytes);
    int result = REDLOCK_NO_MEMORY;
    if (peek) {
        peek_ask(peek, nodes_to_ask(client));
        result = peek_result(peek->questions, REDLOCK_VERDICT_TIMEOUT, views);
        ask_unref(peek);
    }
    return client_leave_notifying(client, result);
}

/* ---- with a callback, as an operation of a lock ---- */

struct started_peek {
    struct ask ask;
    struct net_timer timer;
    struct redlock_lock *lock;
    struct redlock_view *views; /* not used once the lock is freed */
};

/* Finishes the operation, once. `late`: the verdict of nodes that have not answered. */
static void finish(struct started_peek *started, int late) {
    struct redlock_lock *lock = started->lock;
    net_timer_set(started->ask.client->net, &started->timer, RL_NEVER);
    started->ask.asker = NULL;
    lock_give_back(lock, lock_is_freed(lock)
                             ? REDLOCK_OK
                             : peek_result(started->ask.questions, late, started->views));
    ask_unref(&started->ask);
}

static void on_late(struct net_timer *timer) {
    finish(RL_CONTAINER(timer, struct started_peek, timer), REDLOCK_VERDICT_TIMEOUT);
}

/* Whether a majority gave the same answer as this node. */
static bool is_decided(const struct question *peek, unsigned node) {
    const struct net_reply *answer = &peek->answers[node];
    unsigned same = 0;
    for (unsigned i = 0; is_answer(answer->verdict) && i < peek->ask->client->nodes; i++) {
        const struct net_reply *other = &peek->answers[i];
        same += other->verdict == answer->verdict && other->truncated == answer->truncated &&
                bytes_equal(other->value, answer->value);
    }
    return same >= rl_quorum(peek->ask->client->nodes);
}

static bool on_answer(struct question *peek, unsigned node, const struct net_reply *reply) {
    struct started_peek *started = RL_CONTAINER(peek->ask, struct started_peek, ask);
    if (!peek->ask->asker) return false;
    ask_keep(peek, node, reply);
    if (is_decided(peek, node))
        finish(started, REDLOCK_VERDICT_NONE);
    else if (peek->ask->pending == 0)
        finish(started, REDLOCK_VERDICT_TIMEOUT);
    return false;
}

int redlock_peek_start(struct redlock_lock *lock, struct redlock_view *views, size_t count,
                       redlock_done_fn *done, void *context) {
    if (!lock) return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = lock_client(lock);
    const struct net_bytes *key = lock_key(lock);
    if (!views || count < client->nodes || !done || !key) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    const struct net_bytes resource = bytes_after(*key, client->options.key_prefix_bytes);
    struct ask *ask = peek_new(client, sizeof(struct started_peek), NET_PEEK_VALUE, &resource, 1);
    int result = ask ? lock_borrow(lock, done, context, NULL) : REDLOCK_NO_MEMORY;
    if (result == REDLOCK_OK) {
        struct started_peek *started = RL_CONTAINER(ask, struct started_peek, ask);
        const rl_ns now = net_now(client->net), until = now + lock_node_timeout(lock);
        started->views = views;
        started->lock = lock;
        started->timer.fire = on_late;
        ask->answered = on_answer;
        if (ask_send(ask->questions, net_ready(client->net, now), &ask->questions->request, until))
            net_timer_set(client->net, &started->timer, until);
        else
            finish(started, REDLOCK_VERDICT_TIMEOUT);
    } else if (ask) {
        ask_unref(ask);
    }
    client_leave(client);
    return result;
}

/* ---- types ---- */

/* What is asked for is foreign data, and becomes a C string. */
static bool copy_type(const struct net_reply *answer, char *type, size_t size) {
    const bool is_foreign = answer->verdict == REDLOCK_VERDICT_GRANTED && answer->value.bytes > 0 &&
                            !net_is_text(answer->value, "string");
    if (is_foreign) copy_text(answer->value, type, size);
    return is_foreign;
}

int redlock_key_type(struct redlock_client *client, const void *resource, size_t bytes, char *type,
                     size_t size) {
    if (!client || !ask_fits(client, resource, bytes) || !type || size < 1)
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct ask *peek = peek_one(client, NET_TYPE, resource, bytes);
    int result = REDLOCK_NO_MEMORY;
    if (peek) {
        peek_ask(peek, nodes_to_ask(client));
        type[0] = '\0';
        for (unsigned i = 0; i < client->nodes; i++)
            if (copy_type(&peek->questions->answers[i], type, size)) break;
        result = REDLOCK_OK;
        ask_unref(peek);
    }
    return client_leave_notifying(client, result);
}

/* ---- listing ---- */

enum { SCANS_MAX = 4000000, KEYS_TOGETHER = 256 };

/* The walk over one node. */
struct listing {
    struct redlock_client *client;
    unsigned node;
    redlock_resource_fn *each;
    void *context;
    rl_mask *endless; /* nodes whose SCAN does not end */
    /* names to ask for, and the pages that they are in */
    struct net_bytes resources[KEYS_TOGETHER];
    struct ask *pages[KEYS_TOGETHER];
    size_t count, pages_count;
};

/* Reports the keys that are strings with a TTL there. The mutex is held. False: no memory. */
static bool report_keys(struct listing *list) {
    struct redlock_client *client = list->client;
    const size_t count = list->count;
    if (count == 0) return true;
    struct ask *peek = peek_new(client, sizeof *peek, NET_PEEK_VALUE, list->resources, count);
    if (!peek) return false;
    peek_ask(peek, rl_bit(list->node));
    schedule_unlock(&client->schedule);
    for (size_t i = 0; i < count; i++) {
        const struct net_reply *answer = &peek->questions[i].answers[list->node];
        if (answer->verdict == REDLOCK_VERDICT_GRANTED && answer->remaining_ms >= 0)
            list->each(list->context, list->resources[i].data, list->resources[i].bytes);
    }
    schedule_relock(&client->schedule);
    ask_unref(peek);
    list->count = 0;
    return true;
}

static void drop_pages(struct listing *list) {
    while (list->pages_count > 0) ask_unref(list->pages[--list->pages_count]);
}

/* Takes the page. False: no memory. */
static bool add_page(struct listing *list, struct ask *page) {
    const struct net_reply *answer = &page->questions->answers[list->node];
    const size_t prefix = list->client->options.key_prefix_bytes;
    bool done = true, needed = false;
    for (size_t i = 0; i < answer->items_count && done; i++) {
        const struct net_bytes key = answer->items[i];
        /* an announcement of a leader is next to its lock */
        if (key.bytes <= prefix || begins_with(key, NET_KEY_TERM)) continue;
        list->resources[list->count++] = bytes_after(key, prefix);
        needed = list->count < KEYS_TOGETHER;
        if (needed) continue;
        done = report_keys(list);
        drop_pages(list);
    }
    if (needed)
        list->pages[list->pages_count++] = page;
    else
        ask_unref(page);
    return done;
}

/* A SCAN of a correct server ends, and never repeats a cursor. Each cursor is compared with an
 * earlier one, which is replaced at growing intervals (Brent), so a circle of any size is found. A
 * SCAN with ever new cursors ends by their number: at 50 keys a cursor, no server has that many. */
static int scan_node(struct listing *list) {
    uint64_t cursor = 0, earlier = 0, count = 0, keep_at = 1;
    bool answered, endless;
    do {
        struct ask *scan = peek_one(list->client, NET_SCAN, "", 0);
        if (!scan) return REDLOCK_NO_MEMORY;
        scan->questions->request.cursor = cursor;
        peek_ask(scan, rl_bit(list->node));
        const struct net_reply *page = &scan->questions->answers[list->node];
        answered = page->verdict == REDLOCK_VERDICT_GRANTED;
        cursor = page->cursor;
        endless = cursor != 0 && (cursor == earlier || count >= SCANS_MAX);
        if (!add_page(list, scan)) return REDLOCK_NO_MEMORY;
        if (++count >= keep_at) {
            earlier = cursor;
            keep_at *= 2;
        }
    } while (answered && cursor != 0 && !endless);
    if (!report_keys(list)) return REDLOCK_NO_MEMORY;
    if (endless) *list->endless |= rl_bit(list->node);
    return answered && !endless ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

int redlock_list(struct redlock_client *client, redlock_resource_fn *each, void *context) {
    if (!client || !each) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    rl_mask ready = nodes_to_ask(client);
    rl_mask endless = 0;
    unsigned reported = 0;
    int result = REDLOCK_OK;
    for (unsigned i = 0; i < client->nodes && result != REDLOCK_NO_MEMORY; i++) {
        if (!(ready & rl_bit(i))) continue;
        struct listing list = {
            .client = client, .node = i, .each = each, .context = context, .endless = &endless};
        result = scan_node(&list);
        drop_pages(&list);
        reported += result == REDLOCK_OK;
    }
    /* at the end: the node's status has the reason until it is connected again */
    for (unsigned i = 0; endless >> i; i++)
        if (endless & rl_bit(i))
            net_reconnect(client->net, i, REDLOCK_VERDICT_PROTOCOL,
                          "SCAN does not end: its cursor never returns to 0");
    if (result != REDLOCK_NO_MEMORY)
        result = reported >= rl_quorum(client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
    return client_leave_notifying(client, result);
}
