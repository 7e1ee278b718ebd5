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
    struct waiter *sleeper; /* NULL: the thread does not sleep */
    bool changed;           /* since the last look began */
};

/* Two questions: to nodes that notify of a change after it, and to the others. */
enum { WATCH, PEEK, QUESTIONS };

struct look {
    struct ask ask;
    struct watcher watcher;
    uint64_t random;
    rl_mask absent, held; /* in neither: unknown */
    rl_ns ends[REDLOCK_NODES_MAX];
};

void watchers_wake(struct redlock_client *client, struct net_bytes key) {
    for (struct watcher *each = client->watchers; each; each = each->next) {
        const bool meant = !key.data || bytes_equal(key, each->key);
        if (!meant) continue;
        each->changed = true;
        if (each->sleeper) waiter_finish(each->sleeper);
        each->sleeper = NULL;
    }
}

static unsigned quorum_of(const struct look *look) { return rl_quorum(look->ask.client->nodes); }
static bool is_free(const struct look *look) { return rl_count(look->absent) >= quorum_of(look); }

/* ---- one look ---- */

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    struct look *look = RL_CONTAINER(question->ask, struct look, ask);
    if (reply->verdict == REDLOCK_VERDICT_ABSENT) look->absent |= rl_bit(node);
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
        look->held |= rl_bit(node);
        look->ends[node] = reports_end(reply)
                               ? net_now(look->ask.client->net) + reply->remaining_ms * RL_MS
                               : RL_NEVER;
    }
    const unsigned others = look->ask.client->nodes - rl_count(look->held);
    return is_free(look) || others < quorum_of(look);
}

/* A node that has not answered the look before is not asked again. */
static void look_now(struct look *look) {
    struct redlock_client *client = look->ask.client;
    const rl_ns now = net_now(client->net), until = now + client_node_timeout(client);
    struct question *watch = &look->ask.questions[WATCH], *peek = &look->ask.questions[PEEK];
    const rl_mask busy = client_busy(client, watch->calls) | client_busy(client, peek->calls);
    const rl_mask nodes = client_ready(client, now) & (rl_mask)~busy;
    const rl_mask tracked = nodes & net_tracked(client->net);
    look->watcher.changed = false;
    look->absent = look->held = 0;
    ask_send(watch, tracked, &watch->request, until);
    ask_send(peek, nodes & (rl_mask)~tracked, &peek->request, until);
    ask_wait(&look->ask);
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

static void sleep_until(struct look *look, rl_ns until, bool wakes) {
    struct waiter waiter;
    waiter_init(&waiter);
    if (wakes) look->watcher.sleeper = &waiter;
    schedule_wait_until(&look->ask.client->schedule, &waiter, until);
    look->watcher.sleeper = NULL;
}

static void rest(struct look *look, rl_ns deadline) {
    struct net *net = look->ask.client->net;
    rl_ns now = net_now(net), until = next_look(look, now);
    if (!look->watcher.changed) sleep_until(look, until < deadline ? until : deadline, true);
    if (!look->watcher.changed) return;
    now = net_now(net);
    until = now + rl_draw_between(&look->random, SETTLE_MIN, SETTLE_MAX);
    if (now < deadline) sleep_until(look, until < deadline ? until : deadline, false);
}

/* ---- the call ---- */

static struct look *look_new(struct redlock_client *client, const void *resource, size_t bytes) {
    struct look *look = ask_new(client, sizeof *look, QUESTIONS,
                                client->options.key_prefix_bytes + bytes, on_answer);
    if (!look) return NULL;
    look->watcher.key = ask_key(&look->ask, "", (struct net_bytes){resource, bytes});
    for (int i = 0; i < QUESTIONS; i++)
        look->ask.questions[i].request =
            (struct net_request){.op = i == WATCH ? NET_WATCH : NET_PEEK,
                                 .keys = &look->watcher.key,
                                 .keys_count = 1,
                                 .scheme = client->scheme};
    return look;
}

static void watch_begin(struct look *look) {
    struct redlock_client *client = look->ask.client;
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

static int await_free(struct look *look, rl_ns deadline) {
    struct redlock_client *client = look->ask.client;
    bool watches = false;
    int result = REDLOCK_OK;
    while ((result = client_refusal(client)) == REDLOCK_OK) {
        look_now(look);
        if (is_free(look)) break;
        const bool known = rl_count(look->absent | look->held) >= quorum_of(look);
        result = known ? REDLOCK_HELD : REDLOCK_NO_QUORUM;
        if (net_now(client->net) >= deadline) break;
        if (!watches) watch_begin(look);
        watches = true;
        rest(look, deadline);
    }
    if (watches) watch_end(look);
    return result;
}

int redlock_await_free(struct redlock_client *client, const void *resource, size_t bytes,
                       int64_t wait_ms) {
    if (!client || !ask_fits(client, resource, bytes) || wait_ms < REDLOCK_WAIT_FOREVER)
        return REDLOCK_BAD_ARGUMENT;
    if (!resource_permitted(client, (struct redlock_bytes){resource, bytes}, NULL))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct look *look = look_new(client, resource, bytes);
    int result = look ? REDLOCK_OK : REDLOCK_NO_MEMORY;
    if (look && net_random(client->net, &look->random, sizeof look->random) != 0)
        result = REDLOCK_SYSTEM;
    if (result == REDLOCK_OK) {
        gather_majority(client, quorum_of(look), client_node_timeout(client));
        const rl_ns now = net_now(client->net);
        const bool endless = wait_ms == REDLOCK_WAIT_FOREVER || wait_ms > (RL_NEVER - now) / RL_MS;
        result = await_free(look, endless ? RL_NEVER : now + wait_ms * RL_MS);
    }
    if (look) ask_unref(&look->ask);
    return client_leave_notifying(client, result);
}
