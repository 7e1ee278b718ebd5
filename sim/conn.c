/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One connection as its client sees it: its life, and the calls on it. src/policy decides about it,
 * as in src/net; this file only carries that out in a world without sockets.
 */
#include "conn.h"

#include <assert.h>
#include <stdio.h>

#define CONN_OF(timer, member)                                                                     \
    ((struct conn *)(void *)((char *)(timer)-offsetof(struct conn, member)))

/* ---- calls ---- */

void call_done(struct net *net, struct net_call *call, const struct net_reply *reply) {
    struct net_reply reported = *reply;
    reported.verdict = policy_verdict(call, reply->verdict);
    call->busy = false;
    call->next = NULL;
    net->handlers.reply(net->handlers.context, call, &reported);
}

void calls_fail(struct net *net, struct call_queue *queue, int verdict) {
    const struct net_reply reply = {.verdict = verdict, .remaining_ms = -2};
    struct net_call *call;
    while ((call = calls_pop(queue))) call_done(net, call, &reply);
}

void conn_watch_kept(struct conn *conn) {
    net_timer_set(conn->net, &conn->keep, policy_at(conn)->kept_at);
}

static void keep_fired(struct net_timer *timer) {
    struct conn *conn = CONN_OF(timer, keep);
    struct net *net = conn->net;
    struct call_queue over = policy_expire(&net->policy, conn->slot, net_now(net));
    conn_watch_kept(conn);
    calls_fail(net, &over, REDLOCK_VERDICT_DISCONNECTED);
}

static void lose_calls(struct conn *conn, struct call_queue *lost) {
    struct net *net = conn->net;
    struct call_queue over = policy_lose(&net->policy, conn->slot, lost, net_now(net));
    conn_watch_kept(conn);
    calls_fail(net, &over, REDLOCK_VERDICT_DISCONNECTED);
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
    wire_connect(net->world, link_at(conn));
}

/* 16 random bits are enough here. */
void conn_pause(struct conn *conn, struct backoff *backoff, struct net_timer *timer) {
    struct net *net = conn->net;
    unsigned char random[2] = {0};
    (void)net_random(net, random, sizeof(random));
    uint32_t bits = (uint32_t)random[0] << 16 | (uint32_t)random[1] << 24;
    net_timer_set(net, timer, net_now(net) + backoff_next(backoff, bits));
}

void conn_leave(struct conn *conn, int verdict, const char *text) {
    if (conn->leaving) return;
    conn->leaving = verdict;
    snprintf(conn->text, sizeof(conn->text), "%s", text);
    policy_leave(&conn->net->policy, conn->slot);
    conn->net->pending = true;
}

void conn_fail(struct conn *conn, int verdict) {
    struct net *net = conn->net;
    if (!conn->leaving) conn->text[0] = '\0';
    if (conn->state == CONN_READY) conn_record(conn, HISTORY_DISCONNECTED, 0);
    wire_reset(net->world, link_at(conn));
    messages_drop(net->world, &conn->in);
    messages_drop(net->world, &conn->out);
    net_timer_set(net, &conn->deadline, RL_NEVER);
    conn->state = CONN_DOWN;
    conn->leaving = 0;
    conn_pause(conn, &policy_at(conn)->backoff, &conn->retry);
    struct call_queue lost = conn->calls;
    conn->calls = (struct call_queue){.head = NULL};
    policy_down(&net->policy, conn->slot, verdict);
    lose_calls(conn, &lost);
    watch_down(conn);
}

static void retry_fired(struct net_timer *timer) { conn_start(CONN_OF(timer, retry)); }

static void watch_calls(struct conn *conn) {
    struct net *net = conn->net;
    const struct net_call *oldest = conn->calls.head;
    rl_ns armed = conn->deadline.index ? conn->deadline.at : RL_NEVER;
    if (conn->state != CONN_READY || policy_looks_in_time(oldest, armed)) return;
    net_timer_set(net, &conn->deadline,
                  policy_deadline(oldest, armed, net_now(net), net->stall_timeout));
}

static void deadline_fired(struct net_timer *timer) {
    struct conn *conn = CONN_OF(timer, deadline);
    struct net *net = conn->net;
    if (conn->state != CONN_READY ||
        policy_is_stalled(conn->calls.head, net_now(net), net->stall_timeout))
        conn_fail(conn, REDLOCK_VERDICT_TIMEOUT);
    else
        watch_calls(conn);
}

/* ---- sending ---- */

/* The whole new record, and the change of the fences. */
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
    bool line = request->op == NET_WAIT_QUEUE_ENTER || request->op == NET_WAIT_QUEUE_LEAVE;
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
    struct message *message = message_on(world, link_at(conn), MESSAGE_REQUEST);
    message->number = ++world->messages_count;
    message->op = (uint8_t)request->op;
    message->ttl_ms = request->ttl_ms;
    /* By value, like bytes on the wire: the token may have changed before this arrives. */
    if (net_op_is(request->op, NET_OP_TOKEN))
        message->token = token_number(&world->tokens, request->token);
    for (size_t i = 0; i < request->keys_count && request->op != NET_SCAN; i++) {
        int resource = resource_of_key(request, i);
        assert(resource >= 0 && i < WORLD_RESOURCES_MAX);
        message->keys[message->keys_count++] = (uint8_t)resource;
    }
    enum net_subject subject = net_op_subject(request->op);
    if (subject == NET_OF_WAITERS)
        post_waiting(conn, request, message);
    else if (request->nonces || subject == NET_OF_SERVER || subject == NET_OF_RECORD)
        post_guarded(conn, request, message);
    messages_push(&conn->out, message);
    policy_asked(&conn->net->policy, &conn->calls, call);
    watch_calls(conn);
}

static void send_kept(struct conn *conn) {
    struct net *net = conn->net;
    struct net_call *call;
    while ((call = policy_take_kept(&net->policy, conn->slot, net_now(net)))) conn_post(conn, call);
    conn_watch_kept(conn);
}

/* ---- when it is up ---- */

static bool is_twice_listed(struct conn *conn, const char *run_id) {
    struct net *net = conn->net;
    if (policy_listed_before(&net->policy, conn->slot, run_id) >= 0) {
        conn_fail(conn, REDLOCK_VERDICT_TWICE_LISTED);
        return true;
    }
    rl_mask again = policy_listed_again(&net->policy, conn->slot, run_id);
    for (unsigned i = 0; i < net->nodes; i++)
        if (again & rl_bit(i)) conn_leave(&net->conn[i], REDLOCK_VERDICT_TWICE_LISTED, "");
    return false;
}

void conn_up(struct conn *conn, const struct message *welcome) {
    struct net *net = conn->net;
    char run_id[41];
    run_id_write(net->world, welcome->process, run_id);
    if (is_twice_listed(conn, run_id)) return;
    conn->announces = link_at(conn)->announces;
    conn->quorum = net->asks_quorum ? welcome->quorum : 0;
    conn->text[0] = '\0';
    conn->state = CONN_READY;
    net_timer_set(net, &conn->deadline, RL_NEVER);
    policy_up(&net->policy, conn->slot, run_id, net_now(net));
    conn_record(conn, HISTORY_CONNECTED, 0);
    send_kept(conn);
}

void conn_init(struct conn *conn, struct net *net, unsigned slot) {
    conn->net = net;
    conn->slot = slot;
    policy_at(conn)->calls = &conn->calls;
    conn->deadline.fire = deadline_fired;
    conn->retry.fire = retry_fired;
    conn->keep.fire = keep_fired;
}
