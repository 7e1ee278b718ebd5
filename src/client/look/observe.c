/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Carries out the questions of the machine that observes an election. */

#include <stdlib.h>
#include <string.h>

#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "client/locks/locks.h"
#include "core/mix.h"
#include "look.h"

/* One round of questions: the request to be notified, the announcement, and the key; or the proof,
 * in place of the key. */
enum { WATCH, TERM, KEY, QUESTIONS };

struct look {
    struct ask ask;
    uint32_t round;
    uint64_t nonces[RL_NODES_MAX];
    uint16_t stripe;
};

/* ---- asking ---- */

static ask_answered_fn on_answer;

static struct look *look_new(struct redlock_observer *observer, uint32_t round,
                             struct net_bytes token) {
    static const enum net_op ops[] = {
        [WATCH] = NET_WATCH, [TERM] = NET_TERM, [KEY] = NET_PEEK_VALUE};
    struct look *look = ask_new(observer->client, sizeof *look, QUESTIONS,
                                observer->keys[1].bytes + token.bytes, on_answer);
    if (!look) return NULL;
    ask_join(&look->ask, observer, &observer->asks);
    look->round = round;
    look->stripe = observer->stripe;
    memcpy(look->nonces, observer->nonces, sizeof look->nonces);
    struct question *questions = look->ask.questions;
    const struct net_bytes term = ask_copy(&look->ask, observer->keys[1]);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        /* the name of the announcement ends with that of the lock */
        questions[i].keys[0] =
            i == TERM ? term : bytes_after(term, term.bytes - observer->keys[0].bytes);
        questions[i].request =
            (struct net_request){.op = ops[i], .keys = questions[i].keys, .keys_count = 1};
    }
    questions[KEY].request.token = ask_copy(&look->ask, token);
    return look;
}

static rl_mask put(struct look *look, unsigned which, rl_mask nodes) {
    const struct redlock_observer *observer = look->ask.asker;
    struct question *question = &look->ask.questions[which];
    return ask_send(question, nodes, &question->request,
                    net_now(look->ask.client->net) + observer->machine.rules.answer_timeout);
}

/* The numbers of the tokens of an earlier look are free again. */
static void forget_tokens(struct redlock_observer *observer) {
    for (unsigned i = 1; i < OBSERVED_TOKENS; i++)
        if (i != observer->machine.known.token) observer->token[i].bytes = 0;
}

static void read_nodes(struct redlock_observer *observer, const struct rl_observer_actions *does) {
    struct redlock_client *client = observer->client;
    memcpy(observer->nonces, client->guard->nonces, sizeof observer->nonces);
    forget_tokens(observer);
    struct look *look = look_new(observer, does->round, (struct net_bytes){NULL, 0});
    observer->unsent = does->read;
    if (!look) return;
    /* first: a change after the read must be notified */
    put(look, WATCH, does->read & net_tracked(client->net));
    const rl_mask terms = put(look, TERM, does->read);
    observer->unsent &= (rl_mask)~put(look, KEY, terms);
    ask_unref(&look->ask);
}

/* As a confirmation (fenced.c): under the nonce of the record with which the node was read, and
 * only while that is still its record. */
static void prove(struct redlock_observer *observer, const struct rl_observer_actions *does) {
    const struct redlock_client *client = observer->client;
    const struct observed_token *token = &observer->token[does->token];
    struct look *look =
        look_new(observer, does->round, (struct net_bytes){token->data, token->bytes});
    rl_mask nodes = does->prove & client->voters;
    observer->unsent = does->prove;
    if (!look) return;
    struct net_request *request = &look->ask.questions[KEY].request;
    request->op = NET_CONFIRM;
    request->fence = does->term;
    request->nonces = look->nonces;
    request->stripes = &look->stripe;
    request->stripes_count = 1;
    for (unsigned i = 0; i < client->nodes; i++)
        if (client->guard->nonces[i] != observer->nonces[i]) nodes &= (rl_mask)~rl_bit(i);
    poll_before_votes(observer->client, nodes);
    observer->unsent &= (rl_mask)~put(look, KEY, nodes);
    ask_unref(&look->ask);
}

/* ---- steps ---- */

static void step_once(struct redlock_observer *observer, struct rl_observer_event event) {
    struct redlock_client *client = observer->client;
    const struct guard *guard = client->guard;
    const rl_ns now = net_now(client->net);
    struct rl_observer_actions actions;
    event.ready = client_ready(client, now);
    event.voided = guard_voided_since(guard, observer->machine.asked_at);
    event.notified = net_tracked(client->net);
    event.members = rl_all(client->nodes) & (rl_mask)~guard->foreign;
    event.quorum = (uint8_t)guard_votes_needed(guard);
    rl_observer_step(&observer->machine, &event, now, &actions);
    if (actions.report && !observer->stopped)
        observer->refs += schedule_report(&client->schedule, &observer->notified);
    if (actions.read) read_nodes(observer, &actions);
    if (actions.prove) prove(observer, &actions);
    net_timer_set(client->net, &observer->timer, actions.wake_at);
}

/* What could not be sent is a failed answer, not inside the machine's own step. */
static void step(struct redlock_observer *observer, struct rl_observer_event event) {
    if (observer->stopped || observer->client->closing || !observer->client->guard) return;
    step_once(observer, event);
    if (observer->stepping) return;
    observer->stepping = true;
    while (observer->unsent) {
        const unsigned node = first_of(observer->unsent);
        const uint32_t round = observer->machine.round;
        observer->unsent &= (rl_mask)~rl_bit(node);
        step_once(observer, (struct rl_observer_event){.type = RL_OBSERVER_TERM,
                                                       .node = (uint8_t)node,
                                                       .vote = RL_VOTE_FAILED,
                                                       .round = round});
        if (observer->machine.round != round) continue;
        step_once(observer,
                  (struct rl_observer_event){.type = observer->machine.state == RL_OBSERVER_PROVING
                                                         ? RL_OBSERVER_PROVEN
                                                         : RL_OBSERVER_KEY,
                                             .node = (uint8_t)node,
                                             .vote = RL_VOTE_FAILED,
                                             .round = round});
    }
    observer->stepping = false;
}

static void begin(struct redlock_observer *observer) {
    struct rl_observer_event event = {.type = RL_OBSERVER_BEGIN};
    if (net_random(observer->client->net, &event.seed, sizeof event.seed) != 0) event.seed = 1;
    step(observer, event);
}

static void on_timer(struct net_timer *timer) {
    step(RL_CONTAINER(timer, struct redlock_observer, timer),
         (struct rl_observer_event){.type = RL_OBSERVER_TICK});
}

/* In mode auto an observer begins when a record is seen. */
void observers_check(struct redlock_client *client) {
    for (struct redlock_observer *each = client->observers; each; each = each->next) {
        if (each->machine.state == RL_OBSERVER_IDLE)
            begin(each);
        else
            step(each, (struct rl_observer_event){.type = RL_OBSERVER_NODES});
    }
}

void observers_wake(struct redlock_client *client, struct net_bytes key) {
    for (struct redlock_observer *each = client->observers; each; each = each->next) {
        const bool meant = !key.data || bytes_equal(key, each->keys[0]);
        if (meant && each->machine.state != RL_OBSERVER_IDLE)
            step(each, (struct rl_observer_event){.type = RL_OBSERVER_WAKE});
    }
}

/* ---- answers ---- */

/* Equal tokens have equal numbers; 0: it is too long to be one of ours, or there is no room. */
static uint8_t number_of(struct redlock_observer *observer, struct net_bytes token) {
    unsigned room = 0;
    if (token.bytes == 0 || token.bytes > REDLOCK_TOKEN_BYTES_MAX) return 0;
    for (unsigned i = 1; i < OBSERVED_TOKENS; i++) {
        const struct observed_token *at = &observer->token[i];
        if (at->bytes == 0 && room == 0) room = i;
        if (at->bytes == token.bytes && memcmp(at->data, token.data, token.bytes) == 0)
            return (uint8_t)i;
    }
    if (room == 0) return 0;
    observer->token[room].bytes = token.bytes;
    memcpy(observer->token[room].data, token.data, token.bytes);
    return (uint8_t)room;
}

static void take_key(struct redlock_observer *observer, const struct net_reply *reply,
                     struct rl_observer_event *event) {
    event->type = RL_OBSERVER_KEY;
    event->remaining = reports_end(reply) && !reply->truncated ? reply->remaining_ms * RL_MS : -1;
    if (event->vote == RL_VOTE_GRANTED) event->token = number_of(observer, reply->value);
}

/* "TERM TOKEN". Anything else is not an announcement. */
static void take_term(struct redlock_observer *observer, const struct net_reply *reply,
                      struct rl_observer_event *event) {
    const struct net_bytes text = reply->value;
    const char *space = text.bytes ? memchr(text.data, ' ', text.bytes) : NULL;
    uint64_t term = 0;
    event->type = RL_OBSERVER_TERM;
    if (event->vote != RL_VOTE_GRANTED) return;
    event->vote = RL_VOTE_ABSENT;
    if (!space || reply->truncated) return;
    const size_t digits = (size_t)(space - (const char *)text.data);
    if (!net_read_number((struct net_bytes){text.data, digits}, RL_FENCE_MAX, &term)) return;
    event->token = number_of(observer, (struct net_bytes){space + 1, text.bytes - digits - 1});
    event->term = (int64_t)term;
    if (event->token != 0) event->vote = RL_VOTE_GRANTED;
}

static bool on_answer(struct question *question, unsigned node, const struct net_reply *reply) {
    const struct look *look = RL_CONTAINER(question->ask, struct look, ask);
    const struct net_request *request = &question->request;
    struct redlock_observer *observer = look->ask.asker;
    if (!observer || observer->client->closing || !observer->client->guard ||
        request->op == NET_WATCH || look->round != observer->machine.round)
        return false;
    struct guard *guard = observer->client->guard;
    struct rl_observer_event event = {
        .node = (uint8_t)node, .vote = vote_of(reply->verdict), .round = look->round};
    if (reply->verdict == REDLOCK_VERDICT_RECOVERING && request->nonces)
        guard_no_fences(guard, node, look->nonces[node]);
    /* after a push it proves nothing: the data may have gone back to an earlier state */
    const bool unread = guard_is_unread(guard, node);
    switch (request->op) {
    case NET_CONFIRM: event.type = RL_OBSERVER_PROVEN; break;
    case NET_TERM: take_term(observer, reply, &event); break;
    default: take_key(observer, reply, &event); break;
    }
    if (unread && event.type != RL_OBSERVER_TERM) event.vote = RL_VOTE_FAILED;
    step(observer, event);
    return false;
}

/* ---- reports ---- */

static void unref(struct redlock_observer *observer) {
    if (--observer->refs > 0) return;
    struct redlock_observer **at = &observer->client->observers;
    while (*at != observer) at = &(*at)->next;
    *at = observer->next;
    free(observer);
}

bool observers_report(struct redlock_client *client, const struct notified *notified, bool drop) {
    struct redlock_observer *observer = client->observers;
    while (observer && &observer->notified != notified) observer = observer->next;
    if (!observer) return false;
    const struct rl_observation *known = &observer->machine.known;
    unsigned char id[REDLOCK_OWNER_BYTES_MAX];
    struct redlock_leader leader = {.size = sizeof leader, .state = (int)known->state};
    if (known->state == RL_OBSERVED_LEADER) {
        const struct observed_token *token = &observer->token[known->token];
        const struct net_bytes owner = token_owner(token->data, token->bytes);
        leader.id.bytes = owner.bytes < sizeof id ? owner.bytes : sizeof id;
        if (leader.id.bytes) memcpy(id, owner.data, leader.id.bytes);
        leader.id.data = id;
        leader.term = known->term;
        leader.sure_until_ns = known->sure_until;
    }
    if (!observer->stopped && !drop) {
        schedule_out(&client->schedule, &observer->notified);
        observer->each(observer->context, &leader);
        schedule_in(&client->schedule);
    }
    unref(observer);
    return true;
}

/* ---- beginning and end ---- */

static struct redlock_observer *observer_new(struct redlock_client *client, const void *resource,
                                             size_t bytes) {
    const size_t prefix = client->options.key_prefix_bytes, head = sizeof NET_KEY_TERM - 1;
    struct redlock_observer *observer = calloc(1, sizeof *observer + head + prefix + bytes);
    if (!observer) return NULL;
    unsigned char *key = observer->bytes + head;
    memcpy(observer->bytes, NET_KEY_TERM, head);
    if (prefix) memcpy(key, client->key_prefix, prefix);
    memcpy(key + prefix, resource, bytes);
    observer->keys[0] = (struct net_bytes){key, prefix + bytes};
    observer->keys[1] = (struct net_bytes){observer->bytes, head + prefix + bytes};
    observer->stripe = rl_fnv1a(RL_FNV_BASIS, key, prefix + bytes) % RL_STRIPES;
    observer->client = client;
    observer->refs = 1;
    observer->timer.fire = on_timer;
    rl_observer_init(&observer->machine,
                     &(struct rl_observer_rules){.nodes = (uint8_t)client->nodes,
                                                 .answer_timeout = client_node_timeout(client),
                                                 .drift_ppm = client->options.drift_ppm,
                                                 .drift_fixed = client->options.drift_ms * RL_MS,
                                                 .rates = &client->rates,
                                                 .poll_min = POLL_MIN,
                                                 .poll_max = POLL_MAX,
                                                 .notified_poll_min = NOTIFIED_POLL_MIN,
                                                 .notified_poll_max = NOTIFIED_POLL_MAX});
    return observer;
}

int redlock_observe_start(struct redlock_client *client, const void *resource, size_t bytes,
                          redlock_observe_fn *each, void *context, struct redlock_observer **out,
                          struct redlock_error *error) {
    if (!client || !resource || !each || !out || bytes < 1)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "redlock_observe_start: give a client, a resource, a function and an observer");
    if (bytes > REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes)
        return fail(error, REDLOCK_BAD_ARGUMENT, "the resource has more than %d bytes",
                    REDLOCK_RESOURCE_BYTES_MAX);
    if (!resource_permitted(client, (struct redlock_bytes){resource, bytes}, error))
        return REDLOCK_BAD_ARGUMENT;
    if (client->options.mode == REDLOCK_MODE_CLASSIC || client->scheme != REDLOCK_SCHEME_SET)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "a client in mode classic cannot observe leaders: without records there are no "
                    "terms");
    if (client_enter(client) != REDLOCK_OK) return fail_forked(error);
    struct redlock_observer *observer = observer_new(client, resource, bytes);
    if (observer) {
        observer->each = each;
        observer->context = context;
        observer->next = client->observers;
        client->observers = observer;
        client_track(client, true);
        client_ref(client);
        *out = observer;
        begin(observer);
    }
    client_leave(client);
    return observer ? REDLOCK_OK : fail(error, REDLOCK_NO_MEMORY, "out of memory");
}

void redlock_observe_stop(struct redlock_observer *observer) {
    if (!observer) return;
    struct redlock_client *client = observer->client;
    if (client_enter(client) != REDLOCK_OK) {
        client_unref(client);
        return;
    }
    observer->stopped = true;
    schedule_stop_callbacks(&client->schedule, &observer->notified);
    net_timer_set(client->net, &observer->timer, RL_NEVER);
    asks_leave(&observer->asks);
    client_track(client, false);
    unref(observer);
    client_leave(client);
    client_unref(client);
}
