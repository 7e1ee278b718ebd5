/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How fast the nodes' clocks run, measured by ours. A guarded client samples them with each look at
 * a node's state. Others ask for TIME about once a second, but only while a lock is held or being
 * acquired. (A native node ends locks by its CLOCK_BOOTTIME, which is slewed with its wall clock.)
 */
#include <stdlib.h>

#include "guarding.h"

struct clock_rates {
    struct rl_clocks clocks;
    rl_mask logged;  /* nodes of which the log has that they are fast */
    rl_mask refused; /* nodes that refused TIME: not asked again on this connection */
    rl_ns asked[RL_NODES_MAX];
    uint64_t reconnects[RL_NODES_MAX]; /* of the connection that answered last */
    struct poll poll;                  /* not used by a guarded client */
};

struct rl_clocks *rates_clocks(const struct redlock_client *client) {
    return &client->clock_rates->clocks;
}

static void report_fast(struct redlock_client *client, unsigned node, uint32_t ppm) {
    struct clock_rates *rates = client->clock_rates;
    if (rates->logged & rl_bit(node)) return;
    rates->logged |= rl_bit(node);
    client_log(
        client, REDLOCK_LOG_WARNING,
        "%s: its clock runs faster than ours, by more than the %.4g %% that locks allow for: %.4g %% of each TTL is "
        "subtracted from validity from now on. Keep the clocks in step: with chrony, set maxslewrate 500 on "
        "all machines",
        client_status(client, node).url, client->options.drift_ppm / 1e4, ppm / 1e4);
}

void rates_sample(struct redlock_client *client, unsigned node, int64_t wall_us, rl_ns asked) {
    struct clock_rates *rates = client->clock_rates;
    const struct rl_clock_sample sample = {wall_us, asked, net_now(client->net)};
    rl_clocks_sample(&rates->clocks, node, &sample);
    const uint32_t ppm = rl_clocks_fast(&rates->clocks, node);
    const bool grown = ppm > client->rates.ppm[node];
    client->rates.ppm[node] = ppm;
    client->rates.fast &= (rl_mask)~rl_bit(node);
    if (ppm != 0) client->rates.fast |= rl_bit(node);
    if (!grown) return;
    report_fast(client, node, ppm);
    client->rates_grown(client);
}

/* ---- asking, while no guard does ---- */

int64_t rates_wall_us(const struct net_reply *reply) {
    return reply->items_count == 2 ? net_time_us(reply->items[0], reply->items[1]) : -1;
}

/* Another server may answer on another connection. */
static void note_connection(struct redlock_client *client, unsigned node) {
    struct clock_rates *rates = client->clock_rates;
    const uint64_t reconnects = client_status(client, node).reconnects;
    if (reconnects == rates->reconnects[node]) return;
    rl_clocks_forget(&rates->clocks, node);
    rates->refused &= (rl_mask)~rl_bit(node);
    rates->reconnects[node] = reconnects;
}

static void refuse(struct redlock_client *client, unsigned node) {
    note_connection(client, node);
    client->clock_rates->refused |= rl_bit(node);
    client_log(client, REDLOCK_LOG_INFO,
               "%s: it refuses TIME, so it is not measured whether its clock runs fast: allow this "
               "user +time",
               client_status(client, node).url);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct redlock_client *client = call->owner;
    struct clock_rates *rates = client->clock_rates;
    const unsigned node = call->node;
    const int verdict = reply->verdict;
    const bool refused = verdict == REDLOCK_VERDICT_NOPERM || verdict == REDLOCK_VERDICT_ERROR;
    if (client->closing || client->guard) return;
    if (refused) refuse(client, node);
    const int64_t wall_us = verdict == REDLOCK_VERDICT_GRANTED ? rates_wall_us(reply) : -1;
    if (wall_us < 0) return;
    note_connection(client, node);
    rates_sample(client, node, wall_us, rates->asked[node]);
}

/* The time is taken before the question is sent. */
void rates_ask(struct redlock_client *client, rl_mask nodes) {
    struct clock_rates *rates = client->clock_rates;
    const rl_ns now = net_now(client->net);
    for (unsigned i = 0; rates->refused >> i; i++)
        if (rates->refused & rl_bit(i)) note_connection(client, i);
    const rl_mask asked = poll_ask(&rates->poll, nodes & (rl_mask)~rates->refused);
    for (unsigned i = 0; asked >> i; i++)
        if (asked & rl_bit(i)) rates->asked[i] = now;
}

static rl_mask ask(struct poll *poll, rl_mask nodes) {
    rates_ask(poll->client, nodes);
    return nodes;
}

/* ---- opening and closing ---- */

bool rates_start(struct redlock_client *client) {
    const struct redlock_client_options *options = &client->options;
    const struct net_request question = {.op = NET_SERVER_INFO, .question = NET_ASK_TIME};
    struct clock_rates *rates = client->clock_rates = calloc(1, sizeof *rates);
    if (!rates) return false;
    rl_clocks_init(&rates->clocks, client->nodes, options->drift_ppm, options->drift_ms * RL_MS);
    poll_init(&rates->poll, client, &question, on_answer, client, ask);
    /* Mode auto asks together with its own question. */
    rates->poll.rests = rates->poll.resting = options->mode == REDLOCK_MODE_CLASSIC;
    return true;
}

void rates_free(struct redlock_client *client) { free(client->clock_rates); }

void client_engaged(struct redlock_client *client) {
    if (client->engaged++ == 0) poll_wake(&client->clock_rates->poll);
}
void client_disengaged(struct redlock_client *client) { client->engaged--; }
