/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Questions of the operator's commands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum.h"

/* ---- one question to some nodes ---- */

struct answer {
    bool answered, has_record, readable;
    int verdict;
    char expected_run_id[RL_RUN_ID_BYTES]; /* "": whoever answers; else another server's answer does not count */
    char run_id[RL_RUN_ID_BYTES];
    struct rl_record record;
};

/* Lives until the last node has answered, which may be after whoever asked has gone. */
struct ask {
    unsigned refs; /* the asker's, one for each busy call */
    struct redlock_client *client;
    unsigned pending;
    struct waiter *waiter; /* NULL: the asker has gone */
    struct net_timer timer;
    struct answer answers[RL_NODES_MAX];
    struct net_request requests[RL_NODES_MAX];
    struct net_call calls[RL_NODES_MAX];
    uint64_t nonces[RL_NODES_MAX];
    struct record_text texts[RL_NODES_MAX];
    int64_t floor[RL_STRIPES];
};

static void ask_unref(struct ask *ask) {
    if (--ask->refs == 0) free(ask);
}

static void ask_late(struct net_timer *timer) {
    struct ask *ask = RL_CONTAINER(timer, struct ask, timer);
    if (ask->waiter) waiter_finish(ask->waiter);
}

static struct ask *ask_new(struct quorum_work *work, enum net_op op) {
    struct ask *ask = calloc(1, sizeof *ask);
    if (!ask) {
        work->no_memory = true;
        return NULL;
    }
    ask->refs = 1;
    ask->client = work->client;
    ask->timer.fire = ask_late;
    for (unsigned i = 0; i < work->nodes; i++) {
        ask->requests[i] = (struct net_request){.op = op, .nonces = ask->nonces};
        ask->calls[i].owner = ask;
        ask->calls[i].tag = CALL_QUORUM;
    }
    return ask;
}

static void take_fences(struct ask *ask, const int64_t *fences) {
    for (unsigned i = 0; i < RL_STRIPES; i++)
        if (fences[i] > ask->floor[i]) ask->floor[i] = fences[i];
}

static bool is_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_DENIED || verdict == REDLOCK_VERDICT_RECOVERING;
}

/* A server that has started anew under the same address may have an older record and older fences: its answer counts
 * only if it is the server that was meant. */
static void take_answer(struct ask *ask, struct answer *answer, unsigned node, const struct net_reply *reply) {
    struct net_node_status status;
    if (!is_answer(reply->verdict)) return;
    net_node(ask->client->net, node, net_now(ask->client->net), &status);
    memcpy(answer->run_id, status.run_id, sizeof answer->run_id);
    if (answer->expected_run_id[0] != '\0' && strcmp(answer->expected_run_id, answer->run_id) != 0) {
        answer->verdict = REDLOCK_VERDICT_DISCONNECTED;
        return;
    }
    if (reply->verdict != REDLOCK_VERDICT_GRANTED) return;
    if (ask->requests[node].op == NET_FENCES) take_fences(ask, reply->fences);
    if (ask->requests[node].op != NET_RECORD) return;
    answer->has_record = true;
    answer->readable = record_read(&answer->record, reply->items, reply->items_count);
}

void quorum_reply(struct net_call *call, const struct net_reply *reply) {
    struct ask *ask = call->owner;
    struct answer *answer = &ask->answers[call->node];
    if (ask->waiter) {
        answer->answered = true;
        answer->verdict = reply->verdict;
        take_answer(ask, answer, call->node, reply);
    }
    ask->pending--;
    if (ask->pending == 0 && ask->waiter) waiter_finish(ask->waiter);
    ask_unref(ask);
}

/* The mutex is held. What did not answer has a verdict that says why. */
static void ask_and_wait(struct ask *ask, rl_mask nodes) {
    struct redlock_client *client = ask->client;
    struct waiter waiter;
    waiter_init(&waiter);
    rl_ns now = net_now(client->net), until = now + client->options.connect_timeout_ms * RL_MS;
    for (unsigned i = 0; i < client->nodes; i++) {
        if (!(nodes & rl_bit(i)) || !net_send(client->net, rl_bit(i), &ask->requests[i], ask->calls, until, now))
            continue;
        ask->pending++;
        ask->refs++;
    }
    if (ask->pending > 0) {
        ask->waiter = &waiter;
        net_timer_set(client->net, &ask->timer, until);
        client_wait(client, &waiter);
        net_timer_set(client->net, &ask->timer, RL_NEVER);
        ask->waiter = NULL;
    }
    for (unsigned i = 0; i < client->nodes; i++) {
        if (ask->answers[i].answered) continue;
        struct net_node_status status;
        net_node(client->net, i, net_now(client->net), &status);
        ask->answers[i].verdict = status.verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : status.verdict;
    }
}

/* The answers are in ask->answers; false: after fork(2) nothing can be asked. */
static bool ask_all(struct quorum_work *work, struct ask *ask, rl_mask nodes) {
    if (client_enter(work->client) != REDLOCK_OK) return false;
    ask_and_wait(ask, nodes);
    client_leave_telling(work->client);
    return true;
}

/* The last reference may be an answer's that is still to come: it falls under the mutex, as those do. */
static void ask_end(struct quorum_work *work, struct ask *ask) {
    if (client_enter(work->client) != REDLOCK_OK) return;
    ask_unref(ask);
    client_leave(work->client);
}

/* ---- the questions ---- */

rl_mask quorum_connect(struct quorum_work *work) {
    if (client_enter(work->client) != REDLOCK_OK) return 0;
    gather(work->client, gather_until(work->client));
    rl_mask ready = net_ready(work->client->net, net_now(work->client->net));
    for (unsigned i = 0; i < work->nodes; i++) {
        struct net_node_status status;
        net_node(work->client->net, i, net_now(work->client->net), &status);
        work->seat[i].url = status.url;
        work->seat[i].verdict = status.verdict;
    }
    client_leave_telling(work->client);
    return ready;
}

static void sit(struct quorum_seat *seat, const struct answer *answer) {
    seat->verdict = answer->verdict;
    seat->empty = answer->answered && answer->verdict == REDLOCK_VERDICT_ABSENT;
    seat->unreadable = answer->has_record && !answer->readable;
    seat->heard = seat->empty || answer->has_record;
    if (!seat->heard) return;
    memcpy(seat->run_id, answer->run_id, sizeof seat->run_id);
    if (answer->has_record && answer->readable) seat->record = answer->record;
}

rl_mask quorum_read(struct quorum_work *work, rl_mask nodes) {
    rl_mask heard = 0;
    for (unsigned i = 0; i < work->nodes; i++)
        if (nodes & rl_bit(i)) work->seat[i].heard = false;
    struct ask *ask = ask_new(work, NET_RECORD);
    if (!ask) return 0;
    bool asked = ask_all(work, ask, nodes);
    for (unsigned i = 0; asked && i < work->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        sit(&work->seat[i], &ask->answers[i]);
        if (work->seat[i].heard) heard |= rl_bit(i);
    }
    ask_end(work, ask);
    return heard;
}

static void judge(struct quorum_work *work) {
    struct rl_guard *view = &work->view;
    struct rl_guard_actions actions;
    rl_guard_init(view, work->nodes, work->client->options.drift_ppm, work->client->options.drift_ms * RL_MS);
    view->watch_only = true;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!seat->heard) continue;
        snprintf(view->node[i].url, sizeof view->node[i].url, "%s", seat->url);
        struct rl_guard_event event = {.type = RL_GUARD_UP, .node = (uint8_t)i, .run_id = seat->run_id, .random = 1};
        rl_guard_step(view, &event, 0, &actions);
        event.type = seat->unreadable ? RL_GUARD_UNREADABLE : RL_GUARD_RECORD;
        event.record = seat->empty || seat->unreadable ? NULL : &seat->record;
        rl_guard_step(view, &event, 0, &actions);
    }
}

rl_mask quorum_look(struct quorum_work *work) {
    rl_mask heard = quorum_read(work, quorum_connect(work));
    judge(work);
    return heard;
}

static void prepare_write(struct quorum_work *work, struct ask *ask, unsigned node, bool floor) {
    struct quorum_seat *seat = &work->seat[node];
    struct net_request *request = &ask->requests[node];
    seat->writing.nonce = quorum_random(work);
    record_write(&ask->texts[node], &seat->writing);
    request->expected = seat->empty ? 0 : seat->record.nonce;
    request->nonce = seat->writing.nonce;
    request->was_kept = seat->empty || seat->record.standing == RL_RECORD_RECOVERING;
    request->keep = seat->writing.standing == RL_RECORD_RECOVERING;
    request->floor = floor ? ask->floor : NULL;
    request->fields = ask->texts[node].fields;
    request->fields_count = ask->texts[node].fields_count;
    memcpy(ask->answers[node].expected_run_id, seat->writing.run_id, sizeof ask->answers[node].expected_run_id);
}

rl_mask quorum_write(struct quorum_work *work, rl_mask nodes, bool floor) {
    rl_mask written = 0;
    struct ask *ask = ask_new(work, NET_RECORD_WRITE);
    if (!ask) return 0;
    memcpy(ask->floor, work->floor, sizeof ask->floor);
    for (unsigned i = 0; i < work->nodes; i++)
        if (nodes & rl_bit(i)) prepare_write(work, ask, i, floor);
    bool asked = ask_all(work, ask, nodes);
    for (unsigned i = 0; asked && i < work->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        struct quorum_seat *seat = &work->seat[i];
        seat->verdict = ask->answers[i].verdict;
        if (!ask->answers[i].answered || seat->verdict != REDLOCK_VERDICT_GRANTED) continue;
        seat->record = seat->writing;
        seat->empty = false;
        written |= rl_bit(i);
    }
    ask_end(work, ask);
    return written;
}

rl_mask quorum_fences(struct quorum_work *work, rl_mask nodes, bool kept, rl_mask *without) {
    rl_mask told = 0;
    *without = 0;
    struct ask *ask = ask_new(work, NET_FENCES);
    if (!ask) return 0;
    memcpy(ask->floor, work->floor, sizeof ask->floor);
    for (unsigned i = 0; i < work->nodes; i++) {
        ask->requests[i].was_kept = kept;
        ask->nonces[i] = work->seat[i].record.nonce;
        memcpy(ask->answers[i].expected_run_id, work->seat[i].run_id, sizeof ask->answers[i].expected_run_id);
    }
    bool asked = ask_all(work, ask, nodes);
    for (unsigned i = 0; asked && i < work->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        work->seat[i].verdict = ask->answers[i].verdict;
        if (!ask->answers[i].answered) continue;
        if (ask->answers[i].verdict == REDLOCK_VERDICT_GRANTED) told |= rl_bit(i);
        if (ask->answers[i].verdict == REDLOCK_VERDICT_RECOVERING) *without |= rl_bit(i);
    }
    if (asked) memcpy(work->floor, ask->floor, sizeof work->floor);
    ask_end(work, ask);
    return told;
}
