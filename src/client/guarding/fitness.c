/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "guarding.h"

void fitness_judge(const struct redlock_client *client, const struct net_state *state, char *why,
                   size_t size) {
    why[0] = '\0';
    if (state->replica)
        snprintf(why, size,
                 "it is a replica: list its master, or take it out of the list of nodes");
    else if (state->may_evict)
        snprintf(why, size,
                 "it may evict locks when memory is short: set maxmemory-policy to noeviction");
    else if (state->replicas > 0 && !client->options.allow_replicas)
        snprintf(
            why, size,
            "it has %u replica%s, and a promoted replica may lack locks: detach them, or allow replicas",
            (unsigned)state->replicas, state->replicas == 1 ? "" : "s");
}

static void take_sample(struct guard *guard, unsigned node, int64_t wall_us, rl_ns asked) {
    struct rl_clocks *clocks = rates_clocks(guard->client);
    rates_sample(guard->client, node, wall_us, asked);
    rl_mask stepped =
        rl_clocks_stepped(clocks, guard->machine.votes_needed, rl_guard_quarantine(&guard->machine),
                          net_now(guard->client->net));
    for (unsigned i = 0; stepped >> i; i++) {
        if (!(stepped & rl_bit(i))) continue;
        rl_clocks_acted_on(clocks, i);
        guard_jumped(guard, i);
    }
}

/* Not all servers name the command; a proxy may refuse it without a word about permissions. */
static void refusal_text(bool native, const struct net_reply *reply, char *text, size_t size) {
    if (reply->denied[0] != '\0')
        snprintf(text, size, "its state cannot be read: no permission (ACL): allow this user +%s",
                 reply->denied);
    else if (reply->unknown[0] != '\0')
        snprintf(text, size,
                 "its state cannot be read: the server does not know %s (renamed or "
                 "disabled)",
                 reply->unknown);
    else if (native)
        snprintf(text, size, "REDLOCK.STATE is refused: allow this user +redlock.state");
    else
        snprintf(text, size, "INFO or TIME is refused: allow this user +info and +time");
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct poll *poll = call->owner;
    struct guard *guard = RL_CONTAINER(poll, struct guard, poll);
    const unsigned node = call->node;
    const rl_ns asked = poll->freshness.asked[node]; /* the code below may ask again */
    if (guard->client->closing) return;
    if (poll->stale & rl_bit(node)) {
        poll->stale &= (rl_mask)~rl_bit(node);
        if (reply->verdict == REDLOCK_VERDICT_GRANTED) poll_ask(poll, rl_bit(node));
        return;
    }
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
        char why[sizeof guard->node[node].unfit];
        fitness_judge(guard->client, reply->state, why, sizeof why);
        /* A native node's clock does not step. A node that is not fit gets no votes, so nothing
         * else shows when it is fit again. */
        const bool native = client_status(guard->client, node).native;
        poll_counted(poll, node,
                     why[0] != '\0' ? 0
                     : native       ? RL_CLIENTS_MANY
                                    : reply->state->clients);
        guard_stated(guard, node, reply->state, why);
        take_sample(guard, node, reply->state->wall_us, asked);
    } else if (reply->verdict == REDLOCK_VERDICT_NOPERM ||
               reply->verdict == REDLOCK_VERDICT_ERROR) {
        char why[sizeof guard->node[node].unfit];
        refusal_text(client_status(guard->client, node).native, reply, why, sizeof why);
        guard_stated(guard, node, &(struct net_state){.wall_us = 0}, why);
    }
}

void fitness_start(struct guard *guard) {
    const struct net_request question = {.op = NET_STATE};
    poll_init(&guard->poll, guard->client, &question, on_answer, &guard->poll, 0);
    poll_begin(&guard->poll);
}
