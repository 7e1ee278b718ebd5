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

#define NET_OF(timer, member) ((struct net *)(void *)((char *)(timer)-offsetof(struct net, member)))

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

/* ---- the connection's life ---- */

void conn_record(const struct conn *conn, enum history_kind kind, int64_t value) {
    struct world *world = conn->net->world;
    if (world->options.record_messages)
        link_write(world, kind, conn->net->client, link_at(conn)->node, value);
}

/* 16 random bits are enough here. */
static uint32_t random_bits(struct net *net) {
    unsigned char random[2] = {0};
    (void)net_random(net, random, sizeof(random));
    return (uint32_t)random[0] << 16 | (uint32_t)random[1] << 24;
}

static void conn_pause(struct conn *conn, struct backoff *backoff, struct net_timer *timer) {
    struct net *net = conn->net;
    net_timer_set(net, timer, net_now(net) + backoff_next(backoff, random_bits(net)));
}

static void main_pause(struct conn *conn) {
    struct net *net = conn->net;
    const rl_ns now = net_now(net);
    net_timer_set(net, &conn->retry,
                  now + policy_pause(&net->policy, conn->slot, random_bits(net), now));
}

void conns_connect(struct net *net, rl_mask nodes) {
    for (unsigned i = 0; nodes >> i; i++)
        if (nodes & rl_bit(i))
            conn_pause(&net->conn[i], &net->policy.node[i].backoff, &net->conn[i].retry);
}

void conn_leave(struct conn *conn, int verdict, const char *text) {
    if (conn->leaving) return;
    conn->leaving = verdict;
    snprintf(conn->text, sizeof(conn->text), "%s", text);
    policy_leave(&conn->net->policy, conn->slot);
    conn->net->pending = true;
}

/* ---- notifications ---- */

/* As a client receives them: by the rules of src/policy, with the second connection to a node and
 * the request that names it in one message. A world whose nodes do not notify behaves as before
 * Redis 6.0. */
static bool reports(const struct net *net) { return net->world->options.wakes.on; }

static void hear(struct net *net, unsigned slot, struct net_bytes key, int rank) {
    if (!net->closing) net->handlers.wake(net->handlers.context, slot, key, rank);
}

static void hear_any(struct conn *conn) {
    hear(conn->net, conn->slot, (struct net_bytes){NULL, 0}, -1);
}

/* From any connection: a client that no longer waits, or has a new connection by now, must tolerate
 * it too. */
void watch_hear(struct conn *conn, const struct message *hint) {
    if (conn->net->closing) return;
    notify_record(conn->net->world, HISTORY_WOKEN, hint);
    if (hint->hint.resource < 0) {
        hear_any(conn);
        return;
    }
    struct node_bytes key = resource_key((unsigned)hint->hint.resource);
    hear(conn->net, conn->slot, (struct net_bytes){key.data, key.bytes}, hint->hint.rank);
}

static void forget(struct conn *conn) {
    net_timer_set(conn->net, &conn->track_again, RL_NEVER);
    conn->watch_asked = false;
}

static void unwatch_fired(struct net_timer *timer) {
    struct net *net = NET_OF(timer, unwatch);
    if (!policy_track_end(&net->policy)) return;
    for (unsigned i = 0; i < net->nodes; i++) {
        forget(&net->conn[i]);
        link_at(&net->conn[i])->tracks = 0; /* the other end is gone */
    }
}

void net_track(struct net *net, bool on) {
    if (on == net->policy.caller_waits || net->closing || !reports(net)) return;
    net_timer_set(net, &net->unwatch, policy_track(&net->policy, on, net_now(net)));
    if (on) net->pending = true; /* asked for by net_process() */
}

rl_mask net_tracked(struct net *net) { return policy_tracked(&net->policy); }

struct net_bytes net_waiter(struct net *net) {
    if (!reports(net)) return (struct net_bytes){NULL, 0};
    struct links *links = links_of(net);
    if (links->waiter == 0) links->waiter = ++net->world->waiters;
    snprintf(net->waiter, sizeof(net->waiter), "%08x", (unsigned)links->waiter);
    return (struct net_bytes){net->waiter, sizeof(net->waiter) - 1};
}

void watch_pump(struct conn *conn) {
    struct net *net = conn->net;
    if (conn->watch_asked || net_timer_is_armed(&conn->track_again) || net->closing) return;
    if (!policy_wants_tracking(&net->policy, conn->slot)) return;
    conn->watch_asked = true;
    messages_push(&conn->out, message_on(net->world, link_at(conn), MESSAGE_TRACK));
}

void watch_answered(struct conn *conn, const struct message *answer) {
    struct net *net = conn->net;
    if (!conn->watch_asked) return;
    conn->watch_asked = false;
    if (answer->verdict == REDLOCK_VERDICT_GRANTED) {
        policy_tracking_live(&net->policy, conn->slot);
        hear_any(conn);
    } else if (!policy_tracking_refused(&net->policy, conn->slot, answer->verdict)) {
        conn_pause(conn, &policy_at(conn)->tracking_backoff, &conn->track_again);
    }
}

/* Notifications since then may be lost. */
static void watch_down(struct conn *conn) {
    forget(conn);
    if (policy_tracking_lost(&conn->net->policy, conn->slot)) hear_any(conn);
}

/* ---- the end of a connection ---- */

static void fresh_close(struct conn *conn) {
    if (conn->trying) wire_reset(conn->net->world, fresh_link(conn));
    conn->trying = false;
    net_timer_set(conn->net, &conn->fresh_deadline, RL_NEVER);
}

/* `end`: what becomes of its messages. */
static void go_down(struct conn *conn, int verdict,
                    void (*end)(struct world *world, struct link *link)) {
    struct net *net = conn->net;
    if (!conn->leaving) conn->text[0] = '\0';
    if (conn->state == CONN_READY) conn_record(conn, HISTORY_DISCONNECTED, 0);
    end(net->world, link_at(conn));
    fresh_close(conn);
    messages_drop(net->world, &conn->in);
    messages_drop(net->world, &conn->out);
    net_timer_set(net, &conn->deadline, RL_NEVER);
    conn->state = CONN_DOWN;
    conn->leaving = 0;
    main_pause(conn);
    struct call_queue lost = conn->calls;
    conn->calls = (struct call_queue){.head = NULL};
    policy_down(&net->policy, conn->slot, verdict);
    struct call_queue over = policy_lose(&net->policy, conn->slot, &lost, net_now(net));
    conn_watch_kept(conn);
    calls_fail(net, &over, REDLOCK_VERDICT_DISCONNECTED);
    watch_down(conn);
    conns_connect(net, policy_needed(&net->policy, net_now(net)));
}

void conn_fail(struct conn *conn, int verdict) { go_down(conn, verdict, wire_reset); }

static void retry_fired(struct net_timer *timer) {
    struct conn *conn = CONN_OF(timer, retry);
    struct net *net = conn->net;
    policy_tries(&net->policy, conn->slot);
    net_timer_set(net, &conn->deadline, net_now(net) + net->connect_timeout);
    conn->state = CONN_CONNECTING;
    wire_connect(net->world, link_at(conn));
}

static void watch_calls(struct conn *conn) {
    struct net *net = conn->net;
    const struct net_call *oldest = conn->calls.head;
    rl_ns armed = net_timer_is_armed(&conn->deadline) ? conn->deadline.at : RL_NEVER;
    const rl_ns now = net_now(net);
    if (conn->state != CONN_READY || policy_looks_in_time(oldest, armed)) return;
    net_timer_set(net, &conn->deadline,
                  policy_deadline(oldest, armed, policy_fresh_at(&net->policy, conn->slot, now),
                                  now, net->stall_timeout));
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

static void post_guarded(const struct conn *conn, const struct net_request *request,
                         struct message *message) {
    message->question = (uint8_t)request->question;
    message->guarded = request->nonces != NULL;
    if (request->nonces) message->fencing.nonce = request->nonces[conn->slot];
    message->fencing.fence = request->fence;
    if (request->op == NET_BREAK) message->fencing.added = request->nonce;
    for (size_t i = 0; i < request->stripes_count; i++) {
        assert(i < WORLD_RESOURCES_MAX);
        message->fencing.stripes[message->fencing.stripes_count++] = request->stripes[i];
    }
    if (request->op != NET_RECORD_WRITE) return;
    /* The whole new record, and the change of the fences. */
    message->record.nonce = request->nonce;
    message->record.expected = request->expected;
    message->record.was_kept = request->was_kept;
    message->record.keep = request->keep;
    message->body = body_new(conn->net->world);
    for (size_t i = 0; i < request->fields_count; i++)
        body_add(message->body, request->fields[i].data, request->fields[i].bytes);
    if (request->floor) body_set_fences(message->body, request->floor);
}

/* Every so many of one second are a record. A sound run has few such seconds. */
enum { ASKED_EACH = 500 };

static void count_asked(struct world *world, int client, unsigned node) {
    struct asked *asked = &world->asked[client + 1][node];
    if (asked->count == 0 || world->now >= asked->since + 1000 * RL_MS)
        *asked = (struct asked){.since = world->now};
    if (++asked->count % ASKED_EACH != 0) return;
    struct history_record record = world_record(world, HISTORY_ASKED);
    record.client = (int8_t)client;
    record.node = (int8_t)node;
    record.value = asked->count;
    record.until = asked->since;
    world_write(world, &record);
}

/* What clients ask to know which nodes may vote, and write to change it. Votes are not part of it:
 * callers decide how often they acquire. */
static void count_question(const struct conn *conn, enum net_op op) {
    const unsigned node = link_at(conn)->node;
    switch (op) {
    case NET_SERVER_INFO:
    case NET_STATE:
    case NET_RECORD:
    case NET_RECORD_WRITE:
    case NET_FENCES:
        count_asked(conn->net->world, (int)conn->net->client, node);
        count_asked(conn->net->world, -1, node);
        break;
    default: break;
    }
}

/* A request for a slot names the resource, whose slots are the keys. */
static void post_slots(const struct net_request *request, struct message *message) {
    const char *text = request->slot_order.data;
    unsigned slot = 0;
    message->slots.count = request->slots;
    for (size_t i = 0; i <= request->slot_order.bytes; i++) {
        if (i < request->slot_order.bytes && text[i] != ' ') {
            slot = slot * 10 + (unsigned)(text[i] - '0');
            continue;
        }
        assert(slot >= 1 && slot <= WORLD_SLOTS_MAX &&
               message->slots.order_count < WORLD_SLOTS_MAX);
        message->slots.order[message->slots.order_count++] = (uint8_t)slot;
        slot = 0;
    }
    message->keys[0] = (uint16_t)(WORLD_SLOT_FIRST + message->slots.order[0] - 1);
}

static void post_waiter(const struct net_request *request, struct message *message) {
    assert(request->waiter.bytes <= WAITER_BYTES_MAX);
    message->waiting.name_bytes = (uint8_t)request->waiter.bytes;
    memcpy(message->waiting.name, request->waiter.data, request->waiter.bytes);
    message->waiting.since_us = request->since_us;
    message->waiting.age_us = request->waited_us;
    message->waiting.remember_us = request->remember_us;
    message->waiting.reads = request->reads || request->op == NET_SHARE;
}

void conn_post(struct conn *conn, struct net_call *call) {
    const struct net_request *request = call->request;
    struct world *world = conn->net->world;
    struct message *message = message_on(world, link_at(conn), MESSAGE_REQUEST);
    count_question(conn, request->op);
    message->number = ++world->messages_count;
    message->op = (uint8_t)request->op;
    message->stranger = world_client_options(world, conn->net->client)->stranger;
    message->ttl_ms = request->ttl_ms;
    /* By value, like bytes on the wire: the token may have changed before this arrives. */
    if (net_op_is(request->op, NET_OP_TOKEN))
        message->token = token_number(&world->tokens, request->token);
    enum net_subject subject = net_op_subject(request->op);
    bool queued = request->op == NET_WAIT_QUEUE_ENTER || request->op == NET_WAIT_QUEUE_LEAVE ||
                  request->op == NET_WAIT_QUEUE_PEEK;
    size_t prefix = queued ? sizeof(NET_KEY_WAITING) - 1 : 0;
    if (subject == NET_OF_OBSERVERS) prefix = sizeof(NET_KEY_TERM) - 1;
    /* Of a shared lock, the second key is the name of the list. */
    const size_t keys = request->op == NET_SCAN                  ? 0
                        : net_op_is(request->op, NET_OP_READERS) ? 1
                                                                 : request->keys_count;
    for (size_t i = 0; i < keys; i++) {
        const struct net_bytes *key = &request->keys[i];
        int resource = resource_of((const char *)key->data + prefix, key->bytes - prefix);
        assert(resource >= 0 && i < WORLD_RESOURCES_MAX);
        message->keys[message->keys_count++] = (uint16_t)resource;
    }
    if (subject == NET_OF_WAITERS) {
        message->waiting.waiter = links_of(conn->net)->waiter;
        message->waiting.age_us = request->age_us;
        message->waiting.passes = request->passes;
    } else if (request->nonces || subject == NET_OF_SERVER || subject == NET_OF_RECORD) {
        post_guarded(conn, request, message);
    }
    if (request->waiter.data) post_waiter(request, message);
    if (request->op == NET_ACQUIRE_SLOT) post_slots(request, message);
    if (request->op == NET_WATCH || request->op == NET_TURN_WAIT)
        message->slots.count = request->slots;
    messages_push(&conn->out, message);
    policy_asked(&conn->net->policy, &conn->calls, call);
    watch_calls(conn);
}

static void set_up(struct conn *conn, const struct message *welcome, const char *run_id) {
    struct net *net = conn->net;
    conn->announces = link_at(conn)->announces;
    conn->quorum = net->asks_quorum ? welcome->welcome.quorum : 0;
    conn->native = welcome->welcome.native;
    conn->text[0] = '\0';
    conn->state = CONN_READY;
    net_timer_set(net, &conn->deadline, RL_NEVER);
    policy_up(&net->policy, conn->slot, run_id, net_now(net));
    conn_record(conn, HISTORY_CONNECTED, 0);
    struct net_call *call;
    while ((call = policy_take_kept(&net->policy, conn->slot, net_now(net)))) conn_post(conn, call);
    conn_watch_kept(conn);
}

void conn_up(struct conn *conn, const struct message *welcome) {
    struct net *net = conn->net;
    char run_id[41];
    run_id_write(net->world, welcome->welcome.process, run_id);
    if (policy_reached(&net->policy, conn->slot, run_id, net_now(net))) {
        conn_fail(conn, REDLOCK_VERDICT_UNFIT);
        return;
    }
    if (policy_listed_before(&net->policy, conn->slot, run_id) >= 0) {
        conn_fail(conn, REDLOCK_VERDICT_TWICE_LISTED);
        return;
    }
    rl_mask again = policy_listed_again(&net->policy, conn->slot, run_id);
    for (unsigned i = 0; i < net->nodes; i++)
        if (again & rl_bit(i)) conn_leave(&net->conn[i], REDLOCK_VERDICT_TWICE_LISTED, "");
    set_up(conn, welcome, run_id);
}

/* ---- a fresh connection ---- */

static void fresh_pause(struct conn *conn) {
    conn_pause(conn, &policy_at(conn)->fresh_backoff, &conn->fresh_retry);
}

void fresh_failed(struct conn *conn) {
    fresh_close(conn);
    fresh_pause(conn);
}

static void fresh_deadline_fired(struct net_timer *timer) {
    fresh_failed(CONN_OF(timer, fresh_deadline));
}

/* net_process() asks after the timers. */
static void fresh_retry_fired(struct net_timer *timer) { (void)timer; }

void fresh_pump(struct conn *conn) {
    struct net *net = conn->net;
    const rl_ns now = net_now(net);
    if (conn->trying) {
        if (policy_fresh_goes_on(&net->policy, conn->slot, now)) return;
        policy_fresh_beaten(&net->policy, conn->slot);
        fresh_failed(conn);
    } else if (!net_timer_is_armed(&conn->fresh_retry) &&
               now >= policy_fresh_at(&net->policy, conn->slot, now)) {
        policy_fresh_tried(&net->policy, conn->slot, now);
        conn->trying = true;
        net_timer_set(net, &conn->fresh_deadline, now + net->connect_timeout);
        wire_connect(net->world, fresh_link(conn));
    }
}

void fresh_answered(struct conn *conn, const struct message *welcome) {
    struct net *net = conn->net;
    char run_id[41];
    run_id_write(net->world, welcome->welcome.process, run_id);
    if (!conn->trying) return;
    if (welcome->verdict == REDLOCK_VERDICT_GRANTED &&
        policy_reached(&net->policy, conn->slot, run_id, net_now(net))) {
        fresh_failed(conn);
        conn_fail(conn, REDLOCK_VERDICT_UNFIT);
        return;
    }
    if (welcome->verdict != REDLOCK_VERDICT_GRANTED ||
        !policy_takes_over(&net->policy, conn->slot, run_id, net_now(net))) {
        fresh_failed(conn);
        return;
    }
    conn->trying = false; /* the end of the old connection is not the end of this one */
    net_timer_set(net, &conn->fresh_deadline, RL_NEVER);
    go_down(conn, REDLOCK_VERDICT_TIMEOUT, wire_leave);
    net_report(net);
    link_at(conn)->fresh = true;
    fresh_link(conn)->fresh = false;
    conn->swapped = !conn->swapped;
    net_timer_set(net, &conn->retry, RL_NEVER);
    fresh_pause(conn);
    set_up(conn, welcome, run_id);
}

/* net_process() asks after the timers. */
static void track_again_fired(struct net_timer *timer) { (void)timer; }

void conn_init(struct conn *conn, struct net *net, unsigned slot) {
    conn->net = net;
    conn->slot = slot;
    policy_at(conn)->calls = &conn->calls;
    conn->deadline.fire = deadline_fired;
    conn->retry.fire = retry_fired;
    conn->keep.fire = keep_fired;
    conn->track_again.fire = track_again_fired;
    conn->fresh_deadline.fire = fresh_deadline_fired;
    conn->fresh_retry.fire = fresh_retry_fired;
    net->unwatch.fire = unwatch_fired;
}
