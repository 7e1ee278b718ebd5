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
    bool stated; /* `state` is known: asked ahead of a record, and behind fences */
    int verdict, state_verdict;
    char expected_run_id[RL_RUN_ID_BYTES]; /* "": whoever answers; else another server's answer does
                                              not count */
    char run_id[RL_RUN_ID_BYTES];
    struct net_state state;
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
    struct net_request state;
    struct net_call states[RL_NODES_MAX];
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
    ask->state = (struct net_request){.op = NET_STATE};
    for (unsigned i = 0; i < work->nodes; i++) {
        ask->requests[i] = (struct net_request){.op = op, .nonces = ask->nonces};
        ask->calls[i].owner = ask->states[i].owner = ask;
        ask->calls[i].tag = ask->states[i].tag = CALL_QUORUM;
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

/* A server that has started anew under the same address may have an older record and older fences:
 * its answer counts only if it is the server that was meant. */
static void take_answer(struct ask *ask, struct answer *answer, unsigned node,
                        const struct net_reply *reply) {
    struct net_node_status status;
    if (!is_answer(reply->verdict)) return;
    net_node(ask->client->net, node, net_now(ask->client->net), &status);
    memcpy(answer->run_id, status.run_id, sizeof answer->run_id);
    if (answer->expected_run_id[0] != '\0' &&
        strcmp(answer->expected_run_id, answer->run_id) != 0) {
        answer->verdict = REDLOCK_VERDICT_DISCONNECTED;
        return;
    }
    if (reply->verdict != REDLOCK_VERDICT_GRANTED) return;
    if (ask->requests[node].op == NET_FENCES) take_fences(ask, reply->fences);
    if (ask->requests[node].op != NET_RECORD) return;
    answer->has_record = true;
    answer->readable = record_read(&answer->record, reply->items, reply->items_count);
}

static void take_state(struct answer *answer, const struct net_reply *reply) {
    answer->state_verdict = reply->verdict;
    answer->stated = reply->verdict == REDLOCK_VERDICT_GRANTED;
    if (answer->stated) answer->state = *reply->state;
}

void quorum_reply(struct net_call *call, const struct net_reply *reply) {
    struct ask *ask = call->owner;
    struct answer *answer = &ask->answers[call->node];
    if (ask->waiter && call->request == &ask->state) {
        take_state(answer, reply);
    } else if (ask->waiter) {
        answer->answered = true;
        answer->verdict = reply->verdict;
        take_answer(ask, answer, call->node, reply);
    }
    ask->pending--;
    if (ask->pending == 0 && ask->waiter) waiter_finish(ask->waiter);
    ask_unref(ask);
}

static bool post(struct ask *ask, unsigned node, const struct net_request *request,
                 struct net_call *calls, rl_ns until) {
    struct net *net = ask->client->net;
    if (!net_send(net, rl_bit(node), request, calls, until, net_now(net))) return false;
    ask->pending++;
    ask->refs++;
    return true;
}

/* What a record and fences are worth depends on the server's data. A change of these between the
 * two questions is noticed where the state comes first and the record is compared with it, or where
 * the state comes behind the fences. */
static void post_all(struct ask *ask, rl_mask nodes, rl_ns until) {
    for (unsigned i = 0; i < ask->client->nodes; i++) {
        const struct net_request *request = &ask->requests[i];
        if (!(nodes & rl_bit(i))) continue;
        if (request->op == NET_RECORD && !post(ask, i, &ask->state, ask->states, until)) continue;
        if (!post(ask, i, request, ask->calls, until)) continue;
        if (request->op == NET_FENCES) (void)post(ask, i, &ask->state, ask->states, until);
    }
}

/* The mutex is held. What did not answer has a verdict that says why. */
static void ask_and_wait(struct ask *ask, rl_mask nodes) {
    struct redlock_client *client = ask->client;
    struct waiter waiter;
    waiter_init(&waiter);
    rl_ns now = net_now(client->net), until = now + client->options.connect_timeout_ms * RL_MS;
    post_all(ask, nodes, until);
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
        ask->answers[i].verdict =
            status.verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_TIMEOUT : status.verdict;
    }
}

/* The answers are in ask->answers; false: after fork(2) nothing can be asked. */
static bool ask_all(struct quorum_work *work, struct ask *ask, rl_mask nodes) {
    if (client_enter(work->client) != REDLOCK_OK) return false;
    ask_and_wait(ask, nodes);
    client_leave_telling(work->client);
    return true;
}

/* The last reference may be an answer's that is still to come: it falls under the mutex, as those
 * do. */
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
    seat->heard = answer->stated && (seat->empty || answer->has_record);
    if (!answer->stated && answer->state_verdict != REDLOCK_VERDICT_NONE)
        seat->verdict = answer->state_verdict;
    if (!seat->heard) return;
    memcpy(seat->run_id, answer->run_id, sizeof seat->run_id);
    seat->state = answer->state;
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

/* The only one that the records name; 0: none, or there are two. */
static uint64_t only_quorum(const struct quorum_work *work) {
    uint64_t id = 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = (int)i == work->adding ? NULL : quorum_record_at(work, i);
        if (record && id != 0 && record->quorum_id != id) return 0;
        if (record) id = record->quorum_id;
    }
    return id;
}

static void judge_node(struct quorum_work *work, unsigned node) {
    struct rl_guard *view = &work->view;
    const struct quorum_seat *seat = &work->seat[node];
    struct rl_guard_actions actions;
    char why[FITNESS_TEXT_BYTES];
    fitness_judge(work->client, &seat->state, why, sizeof why);
    snprintf(view->node[node].url, sizeof view->node[node].url, "%s", seat->url);
    struct rl_guard_event event = {
        .type = RL_GUARD_UP, .node = (uint8_t)node, .run_id = seat->run_id, .random = 1};
    rl_guard_step(view, &event, 0, &actions);
    event = (struct rl_guard_event){.type = RL_GUARD_STATE,
                                    .node = (uint8_t)node,
                                    .replid = seat->state.replid,
                                    .evicted = seat->state.evicted,
                                    .unfit = why[0] != '\0',
                                    .random = 1};
    rl_guard_step(view, &event, 0, &actions);
    event.type = seat->unreadable ? RL_GUARD_UNREADABLE : RL_GUARD_RECORD;
    event.record = seat->empty || seat->unreadable ? NULL : &seat->record;
    rl_guard_step(view, &event, 0, &actions);
}

void quorum_judge(struct quorum_work *work) {
    struct rl_guard *view = &work->view;
    rl_guard_init(view, work->nodes, work->client->options.drift_ppm,
                  work->client->options.drift_ms * RL_MS);
    view->watch_only = true;
    view->pinned = work->quorum_id ? work->quorum_id : only_quorum(work);
    for (unsigned i = 0; i < work->nodes; i++)
        if (work->seat[i].heard) judge_node(work, i);
}

rl_mask quorum_look(struct quorum_work *work) {
    rl_mask heard = quorum_read(work, quorum_connect(work));
    quorum_judge(work);
    return heard;
}

/* The server, and the data, that a record is read of and written for. */
static void take_identity(struct rl_record *to, const struct quorum_seat *seat) {
    to->format = RL_RECORD_FORMAT;
    memcpy(to->run_id, seat->run_id, sizeof to->run_id);
    memcpy(to->replid, seat->state.replid, sizeof to->replid);
    to->evicted = seat->state.evicted;
}

/* What lost its data must not be written down as intact, under whichever identity it has now. */
static bool may_write(const struct quorum_seat *seat) {
    return seat->writing.standing == RL_RECORD_RECOVERING || quorum_same_server(seat);
}

static void prepare_write(struct quorum_work *work, struct ask *ask, unsigned node, bool floor) {
    struct quorum_seat *seat = &work->seat[node];
    struct net_request *request = &ask->requests[node];
    seat->writing.nonce = quorum_random(work);
    take_identity(&seat->writing, seat);
    record_write(&ask->texts[node], &seat->writing);
    request->expected = seat->empty ? 0 : seat->record.nonce;
    request->nonce = seat->writing.nonce;
    request->was_kept = seat->empty || seat->record.standing == RL_RECORD_RECOVERING;
    request->keep = seat->writing.standing == RL_RECORD_RECOVERING;
    request->floor = floor ? ask->floor : NULL;
    request->fields = ask->texts[node].fields;
    request->fields_count = ask->texts[node].fields_count;
    memcpy(ask->answers[node].expected_run_id, seat->writing.run_id,
           sizeof ask->answers[node].expected_run_id);
}

rl_mask quorum_write(struct quorum_work *work, rl_mask nodes, bool floor) {
    rl_mask written = 0;
    struct ask *ask = ask_new(work, NET_RECORD_WRITE);
    if (!ask) return 0;
    memcpy(ask->floor, work->floor, sizeof ask->floor);
    for (unsigned i = 0; i < work->nodes; i++) {
        if ((nodes & rl_bit(i)) && !may_write(&work->seat[i])) nodes &= (rl_mask)~rl_bit(i);
        if (nodes & rl_bit(i)) prepare_write(work, ask, i, floor);
    }
    bool asked = !work->no_random && ask_all(work, ask, nodes);
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

/* Its data are still those that its record was read of. */
static bool is_unchanged(const struct quorum_seat *seat, const struct answer *answer) {
    return answer->stated && strcmp(answer->state.replid, seat->state.replid) == 0 &&
           answer->state.evicted == seat->state.evicted;
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
        memcpy(ask->answers[i].expected_run_id, work->seat[i].run_id,
               sizeof ask->answers[i].expected_run_id);
    }
    bool asked = ask_all(work, ask, nodes);
    for (unsigned i = 0; asked && i < work->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        work->seat[i].verdict = ask->answers[i].verdict;
        if (!ask->answers[i].answered || !is_unchanged(&work->seat[i], &ask->answers[i])) continue;
        if (ask->answers[i].verdict == REDLOCK_VERDICT_GRANTED) told |= rl_bit(i);
        if (ask->answers[i].verdict == REDLOCK_VERDICT_RECOVERING) *without |= rl_bit(i);
    }
    if (asked) memcpy(work->floor, ask->floor, sizeof work->floor);
    ask_end(work, ask);
    return told;
}
