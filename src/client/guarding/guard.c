/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Carries out the requests of the guard's state machine (core/guard.h), and passes the answers to
 * it. Each node has at most one request of the machine under way, on the connection that the votes
 * use. So an answer never overtakes an earlier request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarding.h"

/* A node that does not vote is read from time to time: another client may have recovered it, or an
 * operator may have made its quorum. */
#define PEEK_EVERY (1000 * RL_MS)

static struct net *net_of(const struct guard *guard) { return guard->client->net; }

/* ---- opening and closing ---- */

static void on_timer(struct net_timer *timer);
static void on_peek(struct net_timer *timer);
static void on_put_off_end(struct net_timer *timer);
static net_answered_fn on_answer;

void guard_begin(struct redlock_client *client, struct guard *guard) {
    const struct redlock_client_options *options = &client->options;
    client->guard = guard;
    guard->client = client;
    guard->timer.fire = on_timer;
    guard->peek.fire = on_peek;
    guard->put_off_end.fire = on_put_off_end;
    guard->read = (struct net_request){.op = NET_RECORD};
    guard->fences = (struct net_request){.op = NET_FENCES, .nonces = guard->nonces};
    rl_guard_init(&guard->machine, client->nodes, options->drift_ppm, options->drift_ms * RL_MS);
    guard->machine.read_only = !options->recover;
    guard->machine.pinned = options->quorum ? strtoull(options->quorum, NULL, 16) : 0;
    for (unsigned i = 0; i < client->nodes; i++) {
        struct net_node_status status = client_status(client, i);
        record_place(guard->machine.node[i].url, status.url);
        guard->pending_ops[i].owner = guard;
        guard->pending_ops[i].answered = on_answer;
        guard->node[i].voided_at = INT64_MIN;
    }
    client->voters = 0;
    client->unread = rl_all(client->nodes);
    rates_stop(client);
    fitness_start(guard);
}

static bool start(struct redlock_client *client) {
    struct guard *guard = calloc(1, sizeof *guard);
    if (guard) guard_begin(client, guard);
    return guard != NULL;
}

/* ---- what the machine asks for ---- */

/* The machine learns after its step which requests could not be sent. */
static void post(struct guard *guard, rl_mask nodes, const struct net_request *request) {
    rl_ns now = net_now(net_of(guard));
    rl_mask free = nodes & (rl_mask)~client_busy(guard->client, guard->pending_ops);
    rl_ns due = now + guard->client->options.connect_timeout_ms * RL_MS;
    rl_mask taken = free ? net_send(net_of(guard), free, request, guard->pending_ops, due, now) : 0;
    guard->failed |= (rl_mask)(nodes & ~taken);
}

struct net_request guard_write_request(const struct rl_guard_node *node, struct record_text *text) {
    record_write(text, &node->writing);
    return (struct net_request){
        .op = NET_RECORD_WRITE,
        .expected = node->expected,
        .nonce = node->writing.nonce,
        .was_kept = node->was_kept,
        .keep = node->writing.eligibility == RL_RECORD_RECOVERING,
        .floor = node->floor,
        .fields = text->fields,
        .fields_count = text->fields_count,
    };
}

static void post_write(struct guard *guard, unsigned index) {
    const struct rl_guard_node *node = &guard->machine.node[index];
    struct guard_node *at = &guard->node[index];
    /* its request still belongs to another call and must not change */
    if (guard->pending_ops[index].busy) {
        guard->failed |= rl_bit(index);
        return;
    }
    at->write = guard_write_request(node, &at->text);
    post(guard, rl_bit(index), &at->write);
}

static void ask_for_records(struct guard *guard, rl_mask nodes) {
    if (!nodes) return;
    poll_ask(&guard->poll, nodes);
    post(guard, nodes, &guard->read);
}

/* A node pushes a change to all its clients, which must not all read it at one time. A client that
 * does not need the node just now reads it later: one that asks for no votes, and one that waits
 * while a majority of others may vote. Until then the node is unread, as in any read that takes
 * long. Returns the nodes to be read then. */
static rl_mask put_off(struct guard *guard, rl_mask reads) {
    struct net *net = net_of(guard);
    const rl_mask nodes = reads & guard->pushed;
    uint32_t random = 0;
    guard->pushed = 0;
    const bool needs_all = guard->client->trackers > 0 &&
                           rl_count(guard->client->voters) < guard->machine.votes_needed;
    if (!nodes || needs_all) return 0;
    const rl_ns spread = rl_freshness_spread(&guard->poll.freshness);
    if (spread == 0 || net_random(net, &random, sizeof random) != 0) return 0;
    if (!guard->put_off)
        net_timer_set(net, &guard->put_off_end,
                      net_now(net) + (rl_ns)((uint64_t)spread * random >> 32));
    guard->put_off |= nodes;
    return nodes;
}

void guard_hurry(struct redlock_client *client) {
    struct guard *guard = client->guard;
    const rl_mask nodes = guard->put_off;
    struct net *net = net_of(guard);
    if (!nodes) return;
    guard->put_off = 0;
    net_timer_set(net, &guard->put_off_end, RL_NEVER);
    ask_for_records(guard, nodes);
    if (guard->failed) net_timer_set(net, &guard->timer, net_now(net));
}

static void on_put_off_end(struct net_timer *timer) {
    guard_hurry(RL_CONTAINER(timer, struct guard, put_off_end)->client);
}

static void carry_out(struct guard *guard, const struct rl_guard_actions *actions) {
    ask_for_records(guard, actions->read & (rl_mask)~put_off(guard, actions->read));
    if (actions->fences) post(guard, actions->fences, &guard->fences);
    for (unsigned i = 0; (actions->write | actions->reconnect) >> i; i++) {
        if (actions->write & rl_bit(i)) post_write(guard, i);
        if (actions->reconnect & rl_bit(i))
            net_reconnect(net_of(guard), i, REDLOCK_VERDICT_FOREIGN,
                          "another server is now this member of the quorum: connecting again; if "
                          "this one is listed on purpose, take it out of the list of nodes");
    }
    net_timer_set(net_of(guard), &guard->timer, actions->wake_at);
}

/* ---- steps ---- */

/* It announces no changes. While it is not asked for votes, nothing but a read shows that it has
 * lost its data, or that it votes again, or allows longer TTLs. */
static bool needs_peeks(const struct guard *guard, unsigned index) {
    const struct rl_guard_node *node = &guard->machine.node[index];
    return node->up && !node->unfit && node->eligibility != RL_ELIGIBILITY_UNKNOWN &&
           !guard->node[index].announces;
}

static void keep_peeking(struct guard *guard) {
    struct net *net = net_of(guard);
    bool peek = false;
    for (unsigned i = 0; i < guard->machine.nodes; i++) peek = peek || needs_peeks(guard, i);
    if (!peek)
        net_timer_set(net, &guard->peek, RL_NEVER);
    else if (!net_timer_is_armed(&guard->peek))
        net_timer_set(net, &guard->peek, net_now(net) + PEEK_EVERY);
}

/* Its record is being brought up to the newest epoch: it votes as soon as that is written. */
static bool is_catching_up(const struct guard *guard, unsigned index) {
    const struct rl_guard_node *node = &guard->machine.node[index];
    return node->eligibility == RL_ELIGIBILITY_BEHIND && node->pending_op != RL_PENDING_NONE &&
           !guard->machine.read_only;
}

/* Values that the rest of the client needs often. */
static void note_eligibilities(struct guard *guard) {
    struct redlock_client *client = guard->client;
    struct net *net = client->net;
    rl_ns now = net_now(net);
    rl_mask voided = rl_guard_voided(&guard->machine);
    for (unsigned i = 0; i < guard->machine.nodes; i++)
        if ((guard->voided | voided) & rl_bit(i))
            guard->node[i].voided_at = now; /* until now, or from now on */
    client->voters = guard->intact = rl_guard_voters(&guard->machine);
    client->refusal = guard->machine.other_quorum != 0 ? REDLOCK_TWO_QUORUMS : REDLOCK_OK;
    guard->voided = voided;
    guard->foreign = rl_guard_foreign(&guard->machine);
    client->unread = guard->reread = 0;
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        const struct rl_guard_node *node = &guard->machine.node[i];
        bool unknown = node->eligibility == RL_ELIGIBILITY_UNKNOWN;
        if (node->eligibility == RL_ELIGIBILITY_INTACT)
            guard->nonces[i] = node->record.nonce;
        else if (!unknown)
            guard->nonces[i] = 0;
        bool unread = unknown && guard->node[i].trouble == 0;
        const bool catches_up = is_catching_up(guard, i) && guard->node[i].trouble == 0;
        if (unread || catches_up) client->unread |= rl_bit(i);
        bool voted = guard->nonces[i] != 0 && rl_record_member(&guard->machine.quorum, node->id);
        if (unread && node->up && voted) guard->reread |= rl_bit(i);
        /* The node's wait covers every earlier jump of its clock. A node that is only behind does
         * not wait. */
        if (node->eligibility == RL_ELIGIBILITY_RECOVERING)
            rl_clocks_acted_on(rates_clocks(client), i);
    }
    keep_peeking(guard);
}

/* Settled and not connected, or connected and its record was refused (NOPERM). The machine may not
 * know yet that a settled node is connected. */
static rl_mask unreadable_now(const struct guard *guard) {
    rl_mask nodes = net_settled(net_of(guard));
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        if (!client_status(guard->client, i).connected) continue;
        if (guard->node[i].trouble != 0)
            nodes |= rl_bit(i);
        else
            nodes &= (rl_mask)~rl_bit(i);
    }
    return nodes;
}

static void step_once(struct guard *guard, struct rl_guard_event event) {
    struct net *net = net_of(guard);
    struct rl_guard *machine = &guard->machine;
    struct rl_guard_actions actions;
    bool read_only = machine->read_only;
    /* Writes need random numbers; reads do not. */
    if (net_random(net, &event.random, sizeof event.random) != 0) machine->read_only = true;
    rl_mask unread = guard->client->unread;
    if (!machine->decided) machine->unreadable_now = unreadable_now(guard);
    rl_guard_step(machine, &event, net_now(net), &actions);
    machine->read_only = read_only;
    note_eligibilities(guard);
    carry_out(guard, &actions);
    if (actions.changed || unread != guard->client->unread) guard->changed = true;
}

static void step(struct guard *guard, struct rl_guard_event event) {
    if (guard->client->closing) return;
    guard->stepping = true;
    step_once(guard, event);
    while (guard->failed) {
        unsigned node = first_of(guard->failed);
        guard->failed &= (rl_mask)~rl_bit(node);
        if (guard->node[node].trouble == 0)
            guard->node[node].trouble = REDLOCK_VERDICT_DISCONNECTED;
        step_once(guard, (struct rl_guard_event){.type = RL_GUARD_FAILED, .node = (uint8_t)node});
    }
    guard->stepping = false;
    if (!guard->changed) return;
    guard->changed = false;
    guard_report(guard);
    guard->client->voters_changed(guard->client);
}

static void step_node(struct guard *guard, enum rl_guard_event_type type, unsigned node) {
    step(guard, (struct rl_guard_event){.type = type, .node = (uint8_t)node});
}

static void on_timer(struct net_timer *timer) {
    step_node(RL_CONTAINER(timer, struct guard, timer), RL_GUARD_TICK, 0);
}

static void on_peek(struct net_timer *timer) {
    struct guard *guard = RL_CONTAINER(timer, struct guard, peek);
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        if (needs_peeks(guard, i)) step_node(guard, RL_GUARD_PEEK, i);
    }
    note_eligibilities(guard);
}

void guard_no_fences(struct guard *guard, unsigned node, uint64_t nonce) {
    /* The record is being read again because of another vote, or a newer one was read: nothing to
     * learn. */
    if (!(guard->client->voters & rl_bit(node)) || guard->nonces[node] != nonce) return;
    step_node(guard, RL_GUARD_NO_FENCES, node);
}

void guard_renamed(struct guard *guard, unsigned node, uint64_t expected, uint64_t nonce) {
    step(guard, (struct rl_guard_event){.type = RL_GUARD_RENAMED,
                                        .node = (uint8_t)node,
                                        .expected = expected,
                                        .nonce = nonce});
}

void guard_jumped(struct guard *guard, unsigned node) {
    client_log(guard->client, REDLOCK_LOG_WARNING,
               "%s: its wall clock moved forward alone, so locks may have ended there too early: "
               "check its time service",
               client_status(guard->client, node).url);
    step_node(guard, RL_GUARD_JUMPED, node);
}

void guard_stated(struct guard *guard, unsigned node, const struct net_state *state,
                  const char *unfit) {
    snprintf(guard->node[node].unfit, sizeof guard->node[node].unfit, "%s", unfit);
    step(guard, (struct rl_guard_event){.type = RL_GUARD_STATE,
                                        .node = (uint8_t)node,
                                        .replid = state->replid,
                                        .evicted = state->evicted,
                                        .unfit = unfit[0] != '\0',
                                        .suspect = state->may_evict});
}

void guard_changed(struct redlock_client *client, unsigned node) {
    struct poll *poll = &client->guard->poll;
    struct guard *guard = client->guard;
    if (poll->calls[node].busy) poll->stale |= rl_bit(node);
    guard->pushed = rl_bit(node);
    step(guard, (struct rl_guard_event){.type = RL_GUARD_CHANGED,
                                        .node = (uint8_t)node,
                                        .unsent = (guard->put_off & rl_bit(node)) != 0});
}

void guard_peek(struct guard *guard, unsigned node) { step_node(guard, RL_GUARD_PEEK, node); }

/* The time that was waited for recovering nodes is handed on. Otherwise short-lived clients would
 * never recover a node. No code needs the answers: client->closing is set before the net is
 * closed. */
static void leave(struct redlock_client *client) { step_node(client->guard, RL_GUARD_LEAVE, 0); }

/* ---- nodes that come and go ---- */

static void came_up(struct guard *guard, unsigned node, const struct net_node_status *status) {
    struct guard_node *at = &guard->node[node];
    at->up = true;
    at->reconnects = status->reconnects;
    at->announces = status->announces;
    at->trouble = 0;
    at->unfit[0] = '\0';
    if (strcmp(status->run_id, guard->machine.node[node].run_id) != 0)
        rl_clocks_forget(rates_clocks(guard->client), node);
    poll_connected(&guard->poll, node, false);
    step(guard, (struct rl_guard_event){
                    .type = RL_GUARD_UP, .node = (uint8_t)node, .run_id = status->run_id});
}

static void came_or_went(struct redlock_client *client, unsigned node,
                         const struct net_node_status *status) {
    struct guard *guard = client->guard;
    struct guard_node *at = &guard->node[node];
    if (at->up && (!status->connected || status->reconnects != at->reconnects)) {
        at->up = false;
        at->trouble = 0;
        guard->put_off &= (rl_mask)~rl_bit(node);
        step_node(guard, RL_GUARD_DOWN, node);
    }
    if (!at->up && status->connected)
        came_up(guard, node, status);
    else if (!at->up && !guard->machine.decided)
        step_node(guard, RL_GUARD_TICK, node);
    guard_report(guard);
}

/* ---- answers ---- */

/* A read that succeeds in between clears `trouble`, and changes nothing about these. */
static void note_denial(struct guard_denial *denial, const struct net_reply *reply) {
    if (reply->verdict != REDLOCK_VERDICT_NOPERM) {
        denial->denied = denial->logged = false;
        return;
    }
    denial->denied = true;
    memcpy(denial->command, reply->denied, sizeof denial->command);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct guard *guard = call->owner;
    const unsigned node = call->node;
    const int verdict = reply->verdict;
    const bool granted = verdict == REDLOCK_VERDICT_GRANTED;
    const bool answered = granted || verdict == REDLOCK_VERDICT_ABSENT;
    struct rl_guard_event event = {.type = RL_GUARD_FAILED, .node = (uint8_t)node};
    if (guard->client->closing) return;
    if (call->request->op == NET_RECORD_WRITE) note_denial(&guard->node[node].write_denied, reply);
    if (call->request->op == NET_RECORD) note_denial(&guard->node[node].read_denied, reply);
    if (call->request->op == NET_FENCES) note_denial(&guard->node[node].fences_denied, reply);
    if (call->request->op == NET_RECORD) {
        /* A record does not count before its server's state is known. Where a push has made it
         * stale, the machine reads it again at once; else after a pause. */
        const struct rl_guard_node *at = &guard->machine.node[node];
        if (answered && (at->stated || at->stale)) event.type = RL_GUARD_RECORD;
        if (granted && event.type == RL_GUARD_RECORD) event.record = &guard->heard;
        if (verdict == REDLOCK_VERDICT_WRONGTYPE ||
            (event.record && !record_read(&guard->heard, reply->items, reply->items_count))) {
            event.type = RL_GUARD_UNREADABLE;
            guard->node[node].fault =
                record_fault(reply->items, event.record ? reply->items_count : 0);
        }
    } else if (call->request->op == NET_RECORD_WRITE) {
        if (granted || verdict == REDLOCK_VERDICT_DENIED) event.type = RL_GUARD_WRITTEN;
        event.done = granted;
    } else {
        if (granted || verdict == REDLOCK_VERDICT_RECOVERING) event.type = RL_GUARD_FENCES;
        event.fences = granted ? reply->fences : NULL;
    }
    /* A record that came too early is asked for again: that is no trouble. */
    const bool early = call->request->op == NET_RECORD && !guard->machine.node[node].stated;
    guard->node[node].trouble = event.type != RL_GUARD_FAILED ? 0
                                : !answered                   ? verdict
                                : early                       ? 0
                                                              : REDLOCK_VERDICT_ERROR;
    if (guard->stepping) /* a connection that was closed during a step */
        guard->failed |= rl_bit(node);
    else
        step(guard, event);
    if (verdict == REDLOCK_VERDICT_NOPERM) guard_report(guard);
}

bool guard_ttl_too_long(const struct guard *guard, int64_t ttl_ms) {
    return guard->machine.known && ttl_ms > guard_ttl_max_ms(guard);
}

const struct node_mode guarded_nodes = {.start = start,
                                        .node = came_or_went,
                                        .verdict = guard_verdict,
                                        .status = guard_status,
                                        .hurry = guard_hurry,
                                        .leave = leave};
