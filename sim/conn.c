/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One connection as its client sees it: its life, its standing, and the calls on it. The rules are
 * those of src/net (conn.c, node.c, send.c).
 */
#include "conn.h"

#include <assert.h>

#define BACKOFF_MIN (20 * RL_MS)
#define BACKOFF_MAX (1000 * RL_MS)

#define CONN_OF(timer, member)                                                                     \
    ((struct conn *)(void *)((char *)(timer)-offsetof(struct conn, member)))

/* ---- calls ---- */

static void calls_push(struct calls *queue, struct net_call *call) {
    call->next = NULL;
    if (queue->tail)
        queue->tail->next = call;
    else
        queue->head = call;
    queue->tail = call;
}

struct net_call *calls_pop(struct calls *queue) {
    struct net_call *call = queue->head;
    if (!call) return NULL;
    queue->head = call->next;
    if (!queue->head) queue->tail = NULL;
    call->next = NULL;
    return call;
}

void calls_append(struct calls *queue, struct calls *more) {
    struct net_call *call;
    while ((call = calls_pop(more))) calls_push(queue, call);
}

/* Answers come in order: before one that is due, all those ahead of it are. */
static void calls_hurry(struct calls *queue, rl_ns due) {
    if (!queue->tail || queue->tail->due <= due) return;
    for (struct net_call *call = queue->head; call; call = call->next)
        if (call->due > due) call->due = due;
}

bool call_is_write(const struct net_call *call) { return net_op_is_write(call->request->op); }

/* What a release finds the second time may be its own first time's doing: it says nothing. */
void call_done(struct net *net, struct net_call *call, const struct net_reply *reply) {
    struct net_reply told = *reply;
    bool empty_handed =
        reply->verdict == REDLOCK_VERDICT_ABSENT || reply->verdict == REDLOCK_VERDICT_DENIED;
    if (call->state == CALL_SENT_BEFORE && empty_handed)
        told.verdict = REDLOCK_VERDICT_DISCONNECTED;
    call->busy = false;
    call->next = NULL;
    net->handlers.reply(net->handlers.context, call, &told);
}

void calls_fail(struct net *net, struct calls *queue, int verdict) {
    const struct net_reply reply = {.verdict = verdict, .remaining_ms = -2};
    struct net_call *call;
    while ((call = calls_pop(queue))) call_done(net, call, &reply);
}

/* ---- kept releases ---- */

static void watch_kept(struct conn *conn) {
    rl_ns at = RL_NEVER;
    for (const struct net_call *call = conn->kept.head; call; call = call->next)
        if (call->keep_until < at) at = call->keep_until;
    net_timer_set(conn->net, &conn->keep, at);
}

static void keep_fired(struct net_timer *timer) {
    struct conn *conn = CONN_OF(timer, keep);
    struct calls all = conn->kept, over = {NULL, NULL};
    struct net_call *call;
    rl_ns now = net_now(conn->net);
    conn->kept = (struct calls){NULL, NULL};
    while ((call = calls_pop(&all)))
        calls_push(call->keep_until <= now ? &over : &conn->kept, call);
    watch_kept(conn);
    calls_fail(conn->net, &over, REDLOCK_VERDICT_DISCONNECTED);
}

void conn_keep(struct conn *conn, struct net_call *call) {
    calls_push(&conn->kept, call);
    if (!conn->keep.index || call->keep_until < conn->keep.at)
        net_timer_set(conn->net, &conn->keep, call->keep_until);
}

static void lose_calls(struct conn *conn, struct calls *lost) {
    struct calls kept = {NULL, NULL}, over = {NULL, NULL};
    struct net_call *call;
    rl_ns now = net_now(conn->net);
    while ((call = calls_pop(lost))) {
        call->state = CALL_SENT_BEFORE;
        calls_push(call->request->op == NET_RELEASE && call->keep_until > now ? &kept : &over,
                   call);
    }
    calls_append(&kept, &conn->kept);
    conn->kept = kept;
    watch_kept(conn);
    calls_fail(conn->net, &over, REDLOCK_VERDICT_DISCONNECTED);
}

/* ---- the connection's life ---- */

void conn_record(const struct conn *conn, enum history_kind kind, int64_t value) {
    struct world *world = conn->net->world;
    if (!world->options.record_messages) return;
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)conn->net->client;
    record.node = (int8_t)link_at(conn)->node;
    record.value = value;
    world_write(world, &record);
}

void messages_drop(struct world *world, struct messages *queue) {
    struct message *message;
    while ((message = messages_pop(queue))) message_free(world, message);
}

static void conn_start(struct conn *conn) {
    struct net *net = conn->net;
    net_timer_set(net, &conn->deadline, net_now(net) + net->connect_timeout);
    conn->state = CONN_CONNECTING;
    wire_connect(net->world, net->client, conn->slot);
}

/* Full jitter, as in src/net, but in integers. */
static void plan_retry(struct conn *conn) {
    unsigned char random[2] = {0};
    conn->backoff = conn->backoff == 0 ? BACKOFF_MIN : conn->backoff * 2;
    if (conn->backoff > BACKOFF_MAX) conn->backoff = BACKOFF_MAX;
    (void)net_random(conn->net, random, sizeof(random));
    rl_ns delay = conn->backoff * (random[0] + random[1] * 256) / 65536;
    net_timer_set(conn->net, &conn->retry, net_now(conn->net) + delay);
}

void conn_fail(struct conn *conn, int verdict) {
    struct net *net = conn->net;
    if (!conn->leaving) conn->text[0] = '\0';
    bool was_up = conn->state == CONN_READY;
    if (was_up) conn_record(conn, HISTORY_DISCONNECTED, 0);
    wire_reset(net->world, net->client, conn->slot);
    messages_drop(net->world, &conn->in);
    messages_drop(net->world, &conn->out);
    net_timer_set(net, &conn->deadline, RL_NEVER);
    conn->state = CONN_DOWN;
    conn->leaving = 0;
    conn->process = 0;
    plan_retry(conn);
    struct calls lost = conn->calls;
    conn->calls = (struct calls){NULL, NULL};
    conn->writes = 0;
    conn->failed = !was_up || verdict == REDLOCK_VERDICT_TWICE_LISTED;
    conn->verdict = verdict;
    lose_calls(conn, &lost);
    watch_down(conn);
}

static void retry_fired(struct net_timer *timer) { conn_start(CONN_OF(timer, retry)); }

/* Lazily: the deadline is not moved with each answer, it looks again when it fires. */
static void watch_calls(struct conn *conn) {
    const struct net_call *oldest = conn->calls.head;
    if (!oldest || conn->state != CONN_READY) return;
    if (conn->deadline.index && conn->deadline.at <= oldest->due) return;
    rl_ns at = oldest->due;
    if (at <= net_now(conn->net)) at += conn->net->stall_timeout;
    net_timer_set(conn->net, &conn->deadline, at);
}

static void deadline_fired(struct net_timer *timer) {
    struct conn *conn = CONN_OF(timer, deadline);
    struct net *net = conn->net;
    const struct net_call *oldest = conn->calls.head;
    if (conn->state != CONN_READY || (oldest && net_now(net) >= oldest->due + net->stall_timeout)) {
        conn_fail(conn, REDLOCK_VERDICT_TIMEOUT);
        return;
    }
    watch_calls(conn);
}

/* ---- sending ---- */

/* The whole new record, and what is to become of the fences. */
static void post_record(struct world *world, const struct net_request *request,
                        struct message *message) {
    message->nonce = request->nonce;
    message->expected = request->expected;
    message->was_kept = request->was_kept;
    message->keep = request->keep;
    message->body = body_new(world);
    for (size_t i = 0; i < request->fields_count; i++)
        body_add(message->body, request->fields[i].data, request->fields[i].bytes);
    if (request->floor) body_set_fences(message->body, request->floor);
}

static void post_guarded(const struct conn *conn, const struct net_request *request,
                         struct message *message) {
    message->question = (uint8_t)request->question;
    message->guarded = request->nonces != NULL;
    if (request->nonces) message->nonce = request->nonces[conn->slot];
    message->fence = request->fence;
    for (size_t i = 0; i < request->stripes_count; i++) {
        assert(i < WORLD_RESOURCES_MAX);
        message->stripes[message->stripes_count++] = request->stripes[i];
    }
    if (request->op == NET_RECORD_WRITE) post_record(conn->net->world, request, message);
}

static int resource_of_key(const struct net_request *request, size_t i) {
    const struct net_bytes *key = &request->keys[i];
    bool line = request->op == NET_STAND || request->op == NET_LEAVE;
    size_t prefix = line ? sizeof(NET_KEY_WAITING) - 1 : 0;
    return resource_of((const char *)key->data + prefix, key->bytes - prefix);
}

static void post_waiting(const struct conn *conn, const struct net_request *request,
                         struct message *message) {
    message->waiter = conn->net->waiter_number;
    message->age_us = request->age_us;
    message->passes = request->passes;
}

void conn_post(struct conn *conn, struct net_call *call) {
    const struct net_request *request = call->request;
    struct world *world = conn->net->world;
    struct message *message = message_new(world);
    message->what = MESSAGE_REQUEST;
    message->number = ++world->messages_count;
    message->client = (uint8_t)conn->net->client;
    message->slot = (uint8_t)conn->slot;
    message->op = (uint8_t)request->op;
    message->ttl_ms = request->ttl_ms;
    /* By value, as bytes on the wire are: the token may be another's before this arrives. */
    if (net_op_is_write(request->op) || request->op == NET_RAISE || request->op == NET_CONFIRM)
        message->token = token_number(&world->tokens, request->token);
    for (size_t i = 0; i < request->keys_count && request->op != NET_SCAN; i++) {
        int resource = resource_of_key(request, i);
        assert(resource >= 0 && i < WORLD_RESOURCES_MAX);
        message->keys[message->keys_count++] = (uint8_t)resource;
    }
    if (request->op >= NET_WATCH)
        post_waiting(conn, request, message);
    else if (request->nonces || request->op >= NET_SURVEY)
        post_guarded(conn, request, message);
    messages_push(&conn->out, message);
    conn->writes += call_is_write(call);
    calls_hurry(&conn->calls, call->due);
    calls_push(&conn->calls, call);
    watch_calls(conn);
}

/* Overdue from the start, so that no SET is sent before the answer; but the time to stall begins
 * anew. */
static void send_kept(struct conn *conn) {
    rl_ns now = net_now(conn->net);
    struct net_call *call;
    while ((call = calls_pop(&conn->kept))) {
        if (call->due < now) call->due = now;
        conn_post(conn, call);
    }
    watch_kept(conn);
}

/* ---- standing ---- */

bool conn_is_ready(const struct conn *conn, rl_ns now) {
    const struct net_call *oldest = conn->calls.head;
    if (conn->state != CONN_READY || conn->leaving || conn->kept.head) return false;
    return !(oldest && oldest->due < now);
}

bool conn_is_settled(const struct conn *conn) { return conn->state == CONN_READY || conn->failed; }

void conn_tell(struct conn *conn, rl_ns now) {
    struct net *net = conn->net;
    bool ready = conn_is_ready(conn, now), settled = conn_is_settled(conn);
    if (ready == conn->told_ready && settled == conn->told_settled) return;
    conn->told_ready = ready;
    conn->told_settled = settled;
    net->handlers.node(net->handlers.context, conn->slot);
}

/* One server under two addresses would vote twice. The first listed counts. */
static bool is_twice_listed(struct conn *conn) {
    struct net *net = conn->net;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct conn *other = &net->conn[i];
        if (other == conn || other->state != CONN_READY || other->process != conn->process)
            continue;
        if (i < conn->slot) {
            conn_fail(conn, REDLOCK_VERDICT_TWICE_LISTED);
            return true;
        }
        other->leaving = REDLOCK_VERDICT_TWICE_LISTED;
        net->pending = true;
    }
    return false;
}

void conn_up(struct conn *conn, const struct message *welcome) {
    conn->process = welcome->process;
    if (is_twice_listed(conn)) return;
    run_id_write(conn->net->world, welcome->process, conn->run_id);
    conn->announces = link_at(conn)->announces;
    conn->quorum = conn->net->asks_quorum ? welcome->quorum : 0;
    conn->text[0] = '\0';
    conn->state = CONN_READY;
    conn->backoff = 0;
    net_timer_set(conn->net, &conn->deadline, RL_NEVER);
    if (conn->was_ready) conn->reconnects++;
    conn->was_ready = true;
    conn->failed = false;
    conn->verdict = REDLOCK_VERDICT_GRANTED;
    conn_record(conn, HISTORY_CONNECTED, 0);
    send_kept(conn);
}

void conn_init(struct conn *conn, struct net *net, unsigned slot) {
    conn->net = net;
    conn->slot = slot;
    conn->verdict = REDLOCK_VERDICT_CONNECTING;
    conn->deadline.fire = deadline_fired;
    conn->retry.fire = retry_fired;
    conn->keep.fire = keep_fired;
}
