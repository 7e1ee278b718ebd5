/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Asks nodes what votes rest on, when core/freshness.h says so. */
#include "guarding.h"

/* Not sooner than this after a lock was taken: most are given back before. A node that is down, or
 * owes an answer, is looked for again after this time. */
#define AFTER (1000 * RL_MS)

/* Nodes that can be asked, and do not owe an answer already. */
static rl_mask askable(const struct poll *poll, rl_ns now) {
    return net_ready(poll->client->net, now) &
           (rl_mask) ~(poll->refused | client_busy(poll->client, poll->calls));
}

static void plan(struct poll *poll) {
    struct net *net = poll->client->net;
    const rl_ns now = net_now(net);
    const rl_mask nodes = askable(poll, now), all = rl_all(poll->freshness.nodes);
    rl_ns at = rl_freshness_wake_at(&poll->freshness, nodes);
    if (at < now + AFTER || (nodes | poll->refused) != all) at = now + AFTER;
    if (poll->rests && poll->client->engaged == 0) at = RL_NEVER;
    if (at >= poll->wake_at) return; /* or a node that comes and goes would postpone the others */
    poll->wake_at = at;
    net_timer_set(net, &poll->timer, at);
}

static void on_timer(struct net_timer *timer) {
    struct poll *poll = RL_CONTAINER(timer, struct poll, timer);
    const bool engaged = poll->client->engaged > 0;
    poll->wake_at = RL_NEVER;
    if (!engaged) poll->freshness.ttl_least = RL_NEVER;
    if (engaged || !poll->rests) {
        const rl_ns now = net_now(poll->client->net);
        const rl_mask due = rl_freshness_due(&poll->freshness, askable(poll, now), now);
        if (due) poll_ask(poll, due);
    }
    plan(poll);
}

void poll_begin(struct poll *poll) {
    struct redlock_client *client = poll->client;
    if (client->poll) poll->freshness.ttl_least = client->poll->freshness.ttl_least;
    client->poll = poll;
    plan(poll);
}

void poll_stop(struct poll *poll) {
    poll->wake_at = RL_NEVER;
    net_timer_set(poll->client->net, &poll->timer, RL_NEVER);
}

void poll_engaged(struct poll *poll, rl_ns ttl) {
    if (rl_freshness_engaged(&poll->freshness, ttl)) plan(poll);
}

void poll_connected(struct poll *poll, unsigned node, bool asked) {
    poll->refused &= (rl_mask)~rl_bit(node);
    rl_freshness_connected(&poll->freshness, node);
    if (asked) rl_freshness_asked(&poll->freshness, rl_bit(node), net_now(poll->client->net));
    plan(poll);
}

void poll_counted(struct poll *poll, unsigned node, uint32_t clients) {
    if (poll->freshness.clients[node] == clients) return;
    poll->freshness.clients[node] = clients;
    net_spread(poll->client->net, rl_freshness_spread(&poll->freshness));
    plan(poll);
}

void poll_before_votes(struct redlock_client *client, rl_mask votes) {
    const rl_ns now = net_now(client->net);
    struct poll *poll = client->poll;
    /* All nodes together: a step of one clock shows only next to the others. */
    if (poll && rl_freshness_is_over(&poll->freshness, votes, now))
        poll_ask(poll, askable(poll, now));
}

void poll_init(struct poll *poll, struct redlock_client *client, const struct net_request *request,
               net_answered_fn *answered, void *owner, uint32_t clients) {
    uint64_t random = 0;
    (void)net_random(client->net, &random, sizeof random); /* without it, all ask at one time */
    *poll = (struct poll){
        .client = client, .timer.fire = on_timer, .request = *request, .wake_at = RL_NEVER};
    rl_freshness_init(&poll->freshness, client->nodes, clients, random);
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        poll->calls[i].owner = owner;
        poll->calls[i].answered = answered;
    }
}

void poll_ask(struct poll *poll, rl_mask nodes) {
    struct net *net = poll->client->net;
    rl_ns now = net_now(net), due = now + poll->client->options.connect_timeout_ms * RL_MS;
    nodes &= (rl_mask)~client_busy(poll->client, poll->calls); /* their answers come first anyway */
    const rl_mask asked = nodes ? net_send(net, nodes, &poll->request, poll->calls, due, now) : 0;
    /* The time was taken before the question was sent: an answer counts as older, not as newer. */
    rl_freshness_asked(&poll->freshness, asked, now);
    poll->stale &= (rl_mask)~asked;
}
