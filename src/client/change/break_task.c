/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Carries out the requests of the machine that breaks a lock. */
#include <stdlib.h>
#include <string.h>

#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "core/mix.h"
#include "change.h"

/* One request to some nodes. */
struct break_round {
    struct ask ask;
    uint32_t number;
    uint64_t nonces[RL_NODES_MAX];
    uint16_t stripe;
};

const struct break_view *break_holder(const struct break_task *task) {
    for (unsigned i = 0; i < task->machine.wish.nodes && task->machine.token != 0; i++)
        if (task->machine.holder[i] == task->machine.token) return &task->view[i];
    return NULL;
}

rl_mask break_members(const struct break_task *task) {
    const rl_mask all = rl_all(task->client->nodes);
    const bool guarded = task->machine.wish.guarded && task->client->guard;
    return guarded ? all & (rl_mask)~task->client->guard->foreign : all;
}

unsigned break_unlisted(const struct break_task *task) {
    const struct rl_member *first;
    const bool guarded = task->machine.wish.guarded && task->client->guard;
    return guarded ? guard_unlisted(task->client->guard, &first) : 0;
}

/* ---- asking ---- */

static ask_answered_fn on_answer;

static struct break_round *round_new(struct break_task *task, enum net_op op, uint32_t number,
                                     struct net_bytes token) {
    const bool raises = op == NET_BREAK;
    struct break_round *round =
        ask_new(task->client, sizeof *round, 1, task->key.bytes + token.bytes, on_answer);
    if (!round) return NULL;
    ask_join(&round->ask, task, &task->asks);
    round->number = number;
    round->stripe = task->stripe;
    if (raises) memcpy(round->nonces, task->client->guard->nonces, sizeof round->nonces);
    struct question *question = round->ask.questions;
    question->keys[0] = ask_copy(&round->ask, task->key);
    question->request = (struct net_request){.op = op,
                                             .keys = question->keys,
                                             .keys_count = 1,
                                             .token = ask_copy(&round->ask, token),
                                             .nonces = raises ? round->nonces : NULL,
                                             .stripes = &round->stripe,
                                             .stripes_count = raises ? 1 : 0,
                                             .scheme = task->client->scheme,
                                             .tells_holder = true};
    return round;
}

static struct net_bytes token_of(const struct break_task *task) {
    const struct break_view *holder = break_holder(task);
    return holder ? (struct net_bytes){holder->token, holder->token_bytes}
                  : (struct net_bytes){NULL, 0};
}

/* Returns the nodes that could not be asked. */
static rl_mask ask(struct break_task *task, const struct rl_break_actions *actions) {
    struct net *net = task->client->net;
    const rl_ns until = net_now(net) + task->machine.wish.answer_timeout;
    const rl_mask nodes = actions->read | actions->raise | actions->remove;
    const enum net_op op = actions->read    ? NET_PEEK_VALUE
                           : actions->raise ? NET_BREAK
                                            : NET_RELEASE;
    if (nodes == 0) return 0;
    struct break_round *round = round_new(
        task, op, actions->round, actions->read ? (struct net_bytes){NULL, 0} : token_of(task));
    if (!round) {
        task->no_memory = task->over = true;
        return 0;
    }
    struct question *question = round->ask.questions;
    struct net_request *request = &question->request;
    if (actions->raise && net_random(net, &request->nonce, sizeof request->nonce) != 0) {
        ask_unref(&round->ask);
        return nodes;
    }
    for (unsigned i = 0; i < task->client->nodes; i++) { /* the reason, if it never answers */
        const int verdict = ask_silence(task->client, i);
        if (actions->read) task->view[i].read_verdict = task->view[i].verdict = verdict;
        if ((actions->raise || actions->remove) && !task->deletes) task->view[i].verdict = verdict;
    }
    if (actions->raise) {
        request->fence = actions->fence;
        guard_proposed_fence(task->client->guard, actions->fence);
    }
    const rl_mask taken = ask_send(question, nodes, request, until);
    ask_unref(&round->ask);
    return nodes & (rl_mask)~taken;
}

/* ---- steps ---- */

/* What the machine must know at every event. */
static void fill_in(struct break_task *task, struct rl_break_event *event) {
    struct redlock_client *client = task->client;
    struct guard *guard = task->machine.wish.guarded ? client->guard : NULL;
    event->ready = net_ready(client->net, net_now(client->net));
    event->voters = event->ready;
    event->members = break_members(task);
    event->quorum = (uint8_t)rl_quorum(client->nodes);
    if (!guard) return;
    event->voters = client_ready(client, net_now(client->net));
    event->voided = guard_voided_since(guard, task->machine.raised_at);
    for (unsigned i = 0; i < client->nodes; i++)
        if (guard_is_unread(guard, i)) event->unread |= rl_bit(i);
    event->quorum = (uint8_t)guard_votes_needed(guard);
    event->fence_hint = guard_fence_hint(guard);
}

/* Too few nodes are connected for a first question. */
static void note_unasked(struct break_task *task) {
    for (unsigned i = 0; i < task->client->nodes; i++) {
        const int verdict = client_status(task->client, i).verdict;
        task->view[i].verdict = verdict == REDLOCK_VERDICT_GRANTED ? REDLOCK_VERDICT_NONE : verdict;
    }
}

static rl_mask step_once(struct break_task *task, struct rl_break_event event) {
    struct net *net = task->client->net;
    struct rl_break_actions actions;
    rl_mask failed = 0;
    task->turned = task->machine.wish.guarded != (task->client->guard != NULL);
    if (task->turned) {
        task->over = true;
        net_timer_set(net, &task->timer, RL_NEVER);
        return 0;
    }
    fill_in(task, &event);
    rl_break_step(&task->machine, &event, net_now(net), &actions);
    const struct break_view *holder = break_holder(task);
    /* a longer token cannot be compared */
    task->over = actions.over || (holder && holder->truncated);
    if (task->over && task->machine.round == 0) note_unasked(task);
    if (!task->over) failed = ask(task, &actions);
    task->deletes = task->deletes || actions.raise != 0 || actions.remove != 0;
    task->confirms = task->confirms || actions.remove != 0;
    net_timer_set(net, &task->timer, task->over ? RL_NEVER : actions.wake_at);
    return failed;
}

static void step(struct break_task *task, struct rl_break_event event) {
    const bool deleted = task->deletes;
    if (task->over) return;
    rl_mask failed = step_once(task, event);
    while (failed && !task->over) {
        static const enum rl_break_event_type types[] = {[RL_BREAK_READING] = RL_BREAK_READ,
                                                         [RL_BREAK_RAISING] = RL_BREAK_RAISED,
                                                         [RL_BREAK_DELETING] = RL_BREAK_DELETED};
        const unsigned node = first_of(failed);
        struct rl_break_event none = {.type = types[task->machine.state],
                                      .node = (uint8_t)node,
                                      .vote = RL_VOTE_FAILED,
                                      .round = task->machine.round};
        /* a new round has its own */
        const uint32_t round = task->machine.round;
        rl_mask next = step_once(task, none);
        failed = task->machine.round == round ? failed & (rl_mask)~rl_bit(node) : next;
    }
    if ((task->over || task->deletes != deleted) && task->notify) task->notify(task);
}

static void on_timer(struct net_timer *timer) {
    step(RL_CONTAINER(timer, struct break_task, timer),
         (struct rl_break_event){.type = RL_BREAK_TICK});
}

/* ---- answers ---- */

static bool is_same(const struct break_view *view, struct net_bytes token) {
    return !view->truncated && view->token_bytes == token.bytes &&
           (token.bytes == 0 || memcmp(view->token, token.data, token.bytes) == 0);
}

/* Equal tokens have equal numbers. Those that are too long to be compared have one of their own. */
static uint8_t number_of(const struct break_task *task, unsigned node) {
    const struct break_view *view = &task->view[node];
    struct net_bytes token = {view->token, view->token_bytes};
    if (view->truncated) return RL_BREAK_WISHED + 1 + RL_NODES_MAX;
    if (task->named.data && is_same(view, task->named)) return RL_BREAK_WISHED;
    for (unsigned i = 0; i < task->client->nodes; i++)
        if (i != node && task->machine.holder[i] != 0 && is_same(&task->view[i], token))
            return task->machine.holder[i];
    return (uint8_t)(RL_BREAK_WISHED + 1 + node);
}

static void take_key(struct break_task *task, unsigned node, const struct net_reply *reply,
                     struct rl_break_event *event) {
    struct break_view *view = &task->view[node];
    view->read_verdict = view->verdict = reply->verdict;
    view->remaining_ms = reply->remaining_ms;
    view->truncated = reply->truncated;
    view->token_bytes =
        reply->value.bytes < sizeof view->token ? reply->value.bytes : sizeof view->token;
    if (view->token_bytes) memcpy(view->token, reply->value.data, view->token_bytes);
    event->type = RL_BREAK_READ;
    if (event->vote == RL_VOTE_GRANTED) event->token = number_of(task, node);
}

static void learn(struct guard *guard, const struct net_request *request, unsigned node,
                  const struct net_reply *reply) {
    if (reply->verdict == REDLOCK_VERDICT_STALE) guard_saw_fence(guard, reply->fence);
    if (reply->verdict == REDLOCK_VERDICT_RECOVERING)
        guard_no_fences(guard, node, request->nonces[node]);
}

void breaks_check(struct redlock_client *client) {
    for (struct break_task *task = client->breaks, *next; task; task = next) {
        next = task->next;
        step(task, (struct rl_break_event){.type = RL_BREAK_NODES, .node = RL_NODES_MAX});
    }
}

/* The server does not announce our own change of its record, also if its answer is lost. */
static void note_nonce(struct guard *guard, const struct net_request *request, unsigned node,
                       int verdict) {
    const uint64_t nonce = request->nonces[node];
    if (client_status(guard->client, node).native || verdict == REDLOCK_VERDICT_STALE) return;
    if (vote_of(verdict) != RL_VOTE_FAILED)
        guard_renamed(guard, node, nonce, rl_nonce_sum(nonce, request->nonce));
    else
        guard_peek(guard, node);
}

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    const struct break_round *round = RL_CONTAINER(question->ask, struct break_round, ask);
    struct redlock_client *client = round->ask.client;
    struct break_task *task = round->ask.asker;
    const struct net_request *request = &question->request;
    struct guard *guard = client->closing ? NULL : client->guard;
    if (guard && request->op == NET_BREAK) note_nonce(guard, request, node, reply->verdict);
    if (!task || task->over || client->closing) return false;
    struct rl_break_event event = {
        .node = (uint8_t)node, .vote = vote_of(reply->verdict), .round = round->number};
    if (guard) learn(guard, request, node, reply);
    if (request->op == NET_PEEK_VALUE) {
        take_key(task, node, reply, &event);
    } else {
        const bool raises = request->op == NET_BREAK;
        event.type = raises ? RL_BREAK_RAISED : RL_BREAK_DELETED;
        if (raises && reply->verdict == REDLOCK_VERDICT_STALE) event.fence = reply->fence;
        /* A delete that was kept for the next connection ends so; the reason why the node did not
         * answer is known already. */
        if (reply->verdict != REDLOCK_VERDICT_DISCONNECTED)
            task->view[node].verdict = reply->verdict;
    }
    step(task, event);
    return false;
}

/* ---- beginning and end ---- */

struct break_task *break_start(struct redlock_client *client, struct net_bytes key,
                               struct net_bytes named, rl_ns patience,
                               void (*notify)(struct break_task *task), void *context) {
    struct break_task *task = calloc(1, sizeof *task + key.bytes + named.bytes + 1);
    if (!task) return NULL;
    if (client_enter(client) != REDLOCK_OK) {
        free(task);
        return NULL;
    }
    task->client = client;
    task->next = client->breaks;
    client->breaks = task;
    task->timer.fire = on_timer;
    task->notify = notify;
    task->context = context;
    memcpy(task->bytes, key.data, key.bytes);
    task->key = (struct net_bytes){task->bytes, key.bytes};
    if (named.data) {
        memcpy(task->bytes + key.bytes, named.data, named.bytes);
        task->named = (struct net_bytes){task->bytes + key.bytes, named.bytes};
    }
    task->stripe = rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % RL_STRIPES;
    rl_break_init(&task->machine, &(struct rl_break_wish){
                                      .nodes = (uint8_t)client->nodes,
                                      .guarded = client->guard != NULL,
                                      .named = named.data != NULL,
                                      .answer_timeout = client->options.connect_timeout_ms * RL_MS,
                                      .patience = patience});
    step(task, (struct rl_break_event){.type = RL_BREAK_BEGIN});
    client_leave(client);
    return task;
}

void break_free(struct break_task *task) {
    struct redlock_client *client = task->client;
    if (client_enter(client) != REDLOCK_OK) return;
    net_timer_set(client->net, &task->timer, RL_NEVER);
    struct break_task **at = &client->breaks;
    while (*at != task) at = &(*at)->next;
    *at = task->next;
    asks_leave(&task->asks);
    client_leave(client);
    free(task);
}
