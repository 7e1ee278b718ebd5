/* SPDX-License-Identifier: BSD-2-Clause
 *
 * src/net/net.h on the simulated network, by the same rules as src/net but without its bytes. As
 * there, answers are read before timers fire: a client that was stopped first reads what is in its
 * sockets.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"

enum { TIMERS_PER_PROCESS = 1024 };

/* ---- timers: few, so a sorted list; of equal ones the first armed fires first ----
 *
 * The first one's `prev` is itself. */

void net_timer_set(struct net *net, struct net_timer *timer, rl_ns at) {
    if (net_timer_is_armed(timer)) {
        if (timer->at == at) return;
        const bool first = timer->prev == timer;
        *(first ? &net->timers : &timer->prev->next) = timer->next;
        if (timer->next) timer->next->prev = first ? timer->next : timer->prev;
    }
    timer->at = at;
    timer->prev = NULL;
    if (at == RL_NEVER) return;
    struct net_timer *before = NULL, *after = net->timers;
    while (after && after->at <= at) {
        before = after;
        after = after->next;
    }
    timer->prev = before ? before : timer;
    timer->next = after;
    if (after) after->prev = timer;
    *(before ? &before->next : &net->timers) = timer;
}

/* A client has few timers, so none is deferred. Timers that may wait for each other fire at the
 * next whole multiple. */
void net_timer_move(struct net *net, struct net_timer *timer, rl_ns at, rl_ns late) {
    bool waits = net->world->options.together && late > 0 && at != RL_NEVER;
    net_timer_set(net, timer, waits ? (at + late - 1) / late * late : at);
}

rl_ns net_next_timer(struct net *net) {
    if (net->pending) return 0;
    return net->timers ? net->timers->at : RL_NEVER;
}

/* ---- sending ---- */

rl_mask net_send(struct net *net, rl_mask nodes, const struct net_request *request,
                 struct net_call *calls, rl_ns due, rl_ns keep_until) {
    rl_mask taken = 0;
    if (net->closing) return 0;
    for (unsigned i = 0; i < net->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        struct net_call before = calls[i], *call = &calls[i];
        assert(!call->busy);
        call->request = request;
        call->due = due;
        call->keep_until = keep_until;
        call->node = (uint8_t)i;
        call->busy = true;
        call->state = 0;
        bool kept = net_op_is(request->op, NET_OP_KEPT);
        if (policy_takes(&net->policy, i)) {
            conn_post(&net->conn[i], call);
        } else if (kept) {
            policy_keep(&net->policy, i, call);
            conn_watch_kept(&net->conn[i]);
            conns_connect(net, policy_needed(&net->policy, net_now(net)));
        } else {
            *call = before;
            continue;
        }
        taken |= rl_bit(i);
    }
    return taken;
}

void net_flush(struct net *net) {
    struct message *message;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct conn *conn = &net->conn[i];
        while ((message = messages_pop(&conn->out))) wire_send(net->world, message);
    }
}

/* ---- answers ---- */

void net_receive(struct net *net, struct message *message) {
    struct conn *conn = &net->conn[message->slot % RL_NODES_MAX];
    messages_push(&conn->in, message);
    if (conn->unread) return;
    conn->unread = true;
    conn->next_unread = NULL;
    *net->unread_last = conn;
    net->unread_last = &conn->next_unread;
}

static void take_answer(struct conn *conn, const struct message *answer) {
    struct net *net = conn->net;
    struct net_call *call = policy_answered(&net->policy, &conn->calls);
    struct net_bytes items[BODY_WORDS];
    struct net_bytes value = token_bytes(&net->world->tokens, answer->reply.value);
    struct net_reply reply = {.verdict = answer->verdict,
                              .remaining_ms = answer->reply.remaining_ms,
                              .value = value,
                              .slot = answer->reply.slot,
                              .slots = answer->reply.other_slots,
                              .items = items};
    const struct message_body *body = answer->body;
    assert(call && call->request->op == answer->op);
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++) {
        struct node_bytes key = resource_key(i);
        if (answer->reply.present & (1u << i))
            items[reply.items_count++] = (struct net_bytes){key.data, key.bytes};
    }
    for (size_t i = 0; body && i < body->words_count; i++)
        items[reply.items_count++] = body_word(body, i);
    if (body && body->has_fences) reply.fences = body->fences;
    reply.count = answer->reply.count;
    reply.age_us = answer->reply.age_us;
    if (answer->verdict == REDLOCK_VERDICT_STALE &&
        (answer->op == NET_RAISE || answer->op == NET_BREAK))
        reply.fence = answer->fencing.fence;
    if (answer->verdict == REDLOCK_VERDICT_GRANTED && answer->op == NET_SHARE)
        reply.fence = answer->fencing.fence;
    struct net_state state;
    if (answer->op == NET_STATE && body) {
        memcpy(&state, body_word(body, 0).data, sizeof(state));
        reply.state = &state;
        reply.items_count = 0;
    }
    world_write_message(net->world, HISTORY_ANSWERED, answer);
    call_done(net, call, &reply);
}

static void take_fresh(struct conn *conn, struct message *message) {
    switch ((enum message_what)message->what) {
    case MESSAGE_CONNECT: fresh_answered(conn, message); break;
    case MESSAGE_BYE:
        if (conn->trying) fresh_failed(conn);
        break;
    case MESSAGE_HINT: watch_hear(conn, message); break;
    default: break; /* nothing else was asked for on it */
    }
}

static void take(struct conn *conn, struct message *message) {
    struct net *net = conn->net;
    switch ((enum message_what)message->what) {
    case MESSAGE_CONNECT:
        if (conn->state != CONN_CONNECTING) break;
        if (message->verdict == REDLOCK_VERDICT_GRANTED)
            conn_up(conn, message);
        else
            conn_fail(conn, message->verdict);
        break;
    case MESSAGE_REQUEST: take_answer(conn, message); break;
    case MESSAGE_BYE:
        if (conn->state != CONN_DOWN) conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED);
        break;
    case MESSAGE_TRACK: watch_answered(conn, message); break;
    case MESSAGE_HINT: watch_hear(conn, message); break;
    case MESSAGE_ANNOUNCEMENT:
        if (conn->state != CONN_READY || net->closing) break;
        conn_record(conn, HISTORY_ANNOUNCED, message->announcement.all);
        if (net->handlers.changed) net->handlers.changed(net->handlers.context, conn->slot);
        break;
    }
}

static void read_all(struct conn *conn) {
    struct message *message;
    conn->unread = false;
    /* What waits in the old connection's socket comes before the fresh one's. */
    struct messages fresh = {NULL, NULL};
    while ((message = messages_pop(&conn->in))) {
        if (message->slot != link_at(conn)->slot) {
            messages_push(&fresh, message);
            continue;
        }
        take(conn, message);
        message_free(conn->net->world, message);
    }
    while ((message = messages_pop(&fresh))) {
        if (message->slot != link_at(conn)->slot)
            take_fresh(conn, message);
        else
            take(conn, message);
        message_free(conn->net->world, message);
    }
}

void net_report(struct net *net) {
    rl_mask changed = policy_reports(&net->policy, net_now(net));
    for (unsigned i = 0; changed != 0; i++, changed >>= 1)
        if (changed & 1) net->handlers.node(net->handlers.context, i);
}

void net_process(struct net *net, const struct net_batch *batch) {
    const rl_ns now = net_now(net);
    struct conn *unread = net->unread_first, *next;
    (void)batch;
    net->pending = false;
    net->unread_first = NULL;
    net->unread_last = &net->unread_first;
    for (; unread; unread = next) {
        next = unread->next_unread;
        read_all(unread);
    }
    for (int i = 0; i < TIMERS_PER_PROCESS && net->timers && net->timers->at <= now; i++) {
        struct net_timer *timer = net->timers;
        net_timer_set(net, timer, RL_NEVER);
        timer->fire(timer);
    }
    for (unsigned i = 0; i < net->nodes; i++)
        if (net->conn[i].leaving) conn_fail(&net->conn[i], net->conn[i].leaving);
    for (unsigned i = 0; i < net->nodes; i++) fresh_pump(&net->conn[i]);
    net_report(net);
    for (unsigned i = 0; i < net->nodes; i++) watch_pump(&net->conn[i]);
    net_flush(net);
}

/* ---- opening and closing ---- */

static struct world *current; /* net_open() has no argument for the world */

void net_opens_in(struct world *world) { current = world; }

int net_open(struct net **out, const struct net_options *options,
             const struct net_handlers *handlers, struct net_error *error) {
    struct world *world = current;
    struct net *net = memory_new(sizeof(*net));
    (void)error;
    net->handlers = *handlers;
    net->connect_timeout = options->connect_timeout;
    net->stall_timeout = options->stall_timeout;
    net->world = world;
    net->client = world->opening;
    net->nodes = world->links[world->opening].slots;
    net->asks_quorum = options->asks_quorum;
    net->unread_last = &net->unread_first;
    policy_init(&net->policy, net->nodes);
    for (unsigned i = 0; i < net->nodes; i++) {
        conn_init(&net->conn[i], net, i);
        link_at(&net->conn[i])->guarded = fresh_link(&net->conn[i])->guarded = options->guarded;
        /* in an earlier process of this client they may have changed places */
        link_at(&net->conn[i])->fresh = false;
        fresh_link(&net->conn[i])->fresh = true;
        link_at(&net->conn[i])->asks_quorum = fresh_link(&net->conn[i])->asks_quorum =
            options->asks_quorum;
        /* by the timer: no handler runs in here */
        net_timer_set(net, &net->conn[i].retry, net_now(net));
    }
    net->pending = true;
    world->actor[world->opening].net = net;
    *out = net;
    return REDLOCK_OK;
}

void net_become_guarded(struct net *net) {
    for (unsigned i = 0; i < net->nodes; i++) {
        struct conn *conn = &net->conn[i];
        bool again = conn->state == CONN_READY && !link_at(conn)->guarded;
        link_at(conn)->guarded = fresh_link(conn)->guarded = true;
        if (!again) continue;
        policy_again(&net->policy, i);
        conn_leave(conn, REDLOCK_VERDICT_DISCONNECTED, "");
    }
}

/* The simulator has no TLS, so there are no files to read. */
int net_read_tls(const struct net *net, struct tls_context **fresh, struct net_error *error) {
    (void)net;
    (void)error;
    *fresh = NULL;
    return REDLOCK_OK;
}

/* Nor passwords. */
bool net_check_passwords(const struct net *net, struct net_error *error) {
    (void)net;
    (void)error;
    return true;
}

void net_use_tls(struct net *net, struct tls_context *fresh) {
    (void)net;
    (void)fresh;
}

void net_spread(struct net *net, rl_ns spread) { net->policy.spread = spread; }

void net_hurry(struct net *net) { conns_connect(net, policy_hurry(&net->policy)); }

void net_abandon(struct net *net) { net->closing = net->abandoned = true; }

void net_close(struct net *net, bool forked) {
    if (!net) return;
    net->closing = true;
    for (unsigned i = 0; i < net->nodes; i++) {
        struct conn *conn = &net->conn[i];
        if (!net->abandoned) wire_reset(net->world, link_at(conn));
        if (!net->abandoned) wire_reset(net->world, fresh_link(conn));
        messages_drop(net->world, &conn->in);
        messages_drop(net->world, &conn->out);
        if (forked) continue;
        struct call_queue all = conn->calls;
        conn->calls = (struct call_queue){.head = NULL};
        policy_down(&net->policy, i, REDLOCK_VERDICT_DISCONNECTED);
        calls_append(&all, &policy_at(conn)->kept);
        calls_fail(net, &all, REDLOCK_VERDICT_DISCONNECTED);
    }
    free(net);
}

/* ---- clock, randomness, requests ---- */

rl_ns net_now(struct net *net) { return clock_read(&actor_of(net)->clock, net->world->now); }

int net_random(struct net *net, void *buf, size_t n) {
    unsigned char *to = buf;
    uint64_t bits = random_next(&actor_of(net)->random);
    const uint32_t low = (uint32_t)bits;
    /* Who asks for this many bytes asks for a number, and draws the same one on every machine. */
    if (n == sizeof low) return memcpy(buf, &low, n), 0;
    if (n == sizeof bits) return memcpy(buf, &bits, n), 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i % 8 == 0) bits = random_next(&actor_of(net)->random);
        to[i] = (unsigned char)(bits >> i % 8 * 8);
    }
    return 0;
}

int64_t net_wall_us(struct net *net) { return (actor_of(net)->wall + net_now(net)) / 1000; }

bool net_is_bereft(const struct net *net) { return (void)net, false; }
bool net_uses_tls(const struct net *net) { return (void)net, false; }
void net_detach(struct net *net) { (void)net; }
unsigned net_process_number(void) { return 1; }
bool net_is_forked(const struct net *net) { return (void)net, false; } /* no world forks */
unsigned net_nodes(const struct net *net) { return net->nodes; }

rl_mask net_ready(struct net *net, rl_ns now) { return policy_ready(&net->policy, now); }

rl_mask net_settled(struct net *net) { return policy_settled(&net->policy); }

/* A client that has ended waits for nothing. */
rl_mask net_busy_writes(struct net *net) {
    return net->abandoned ? 0 : policy_busy_writes(&net->policy);
}

void net_node(struct net *net, unsigned node, rl_ns now, struct net_node_status *status) {
    assert(node < net->nodes);
    const struct conn *conn = &net->conn[node];
    const struct policy_node *policy = policy_at(conn);
    memset(status, 0, sizeof(*status));
    status->url = net->world->server[link_at(conn)->node].url;
    status->verdict = policy_shown_verdict(&net->policy, node, now);
    status->connected = policy->up && !policy->leaving;
    status->reconnects = policy->reconnects;
    memcpy(status->text, conn->text, sizeof(status->text));
    if (conn->state != CONN_READY) return;
    memcpy(status->run_id, policy->run_id, sizeof(status->run_id));
    status->announces = conn->announces;
    status->native = status->mirror = conn->native;
    status->keeps_readers = status->keeps_slots = true;
    if (conn->quorum)
        snprintf(status->quorum, sizeof(status->quorum), "%016llx",
                 (unsigned long long)conn->quorum);
}

/* The next net_process() closes it: no handler runs in here. */
void net_reconnect(struct net *net, unsigned node, int verdict, const char *text) {
    struct conn *conn = &net->conn[node];
    if (!policy_refuse(&net->policy, node, verdict, net_now(net))) return;
    snprintf(conn->text, sizeof(conn->text), "%s", text);
    if (conn->state != CONN_DOWN) conn_leave(conn, verdict, text);
}

void net_kick(struct net *net) { net->pending = true; }

int net_fd(struct net *net) {
    (void)net;
    return -1; /* there is nothing to poll: the world drives its clients */
}

/* These have no service thread. */
bool net_make_bell(struct net *net) { return net_bell(net) >= 0; }
int net_bell(const struct net *net) {
    (void)net;
    return -1;
}
void net_bell_listen(struct net *net, bool on) { (void)net, (void)on; }
bool net_saw_sockets(const struct net_batch *batch) { return batch->count > 0; }
void net_ring(struct net *net) { (void)net; }
void net_hush(struct net *net) { (void)net; }

/* Time does not pass during a call: a blocking call would never return. */
void net_wait(struct net *net, rl_ns until, struct net_batch *batch) {
    (void)net;
    (void)until;
    (void)batch;
    fputs("redlock-sim: a blocking call in a simulated client\n", stderr);
    abort();
}
