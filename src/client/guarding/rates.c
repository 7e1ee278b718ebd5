/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How fast the nodes' clocks run, measured by ours. A guarded client samples them with each look at
 * a node's state. Others ask for TIME, but only while a lock is held or being acquired. (A native
 * node ends locks by its CLOCK_BOOTTIME, which is slewed with its wall clock.)
 */
#include <stdlib.h>

#include "guarding.h"

struct clock_rates {
    struct rl_clocks clocks;
    rl_mask logged; /* nodes of which the log has that they are fast */
    uint64_t reconnects[RL_NODES_MAX];
    struct poll poll; /* not used by a guarded client */
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
void rates_node(struct redlock_client *client, unsigned node,
                const struct net_node_status *status) {
    struct clock_rates *rates = client->clock_rates;
    if (!status->connected || status->reconnects == rates->reconnects[node]) return;
    rl_clocks_forget(&rates->clocks, node);
    rates->reconnects[node] = status->reconnects;
    poll_connected(&rates->poll, node, false);
    if (client->poll) poll_connected(client->poll, node, true);
}

static void refuse(struct redlock_client *client, unsigned node) {
    client->clock_rates->poll.refused |= rl_bit(node);
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
    rates_sample(client, node, wall_us, rates->poll.freshness.asked[node]);
}

void rates_stop(struct redlock_client *client) { poll_stop(&client->clock_rates->poll); }

/* ---- opening and closing ---- */

bool rates_start(struct redlock_client *client) {
    const struct redlock_client_options *options = &client->options;
    const struct net_request question = {.op = NET_SERVER_INFO, .question = NET_ASK_TIME};
    struct clock_rates *rates = client->clock_rates = calloc(1, sizeof *rates);
    if (!rates) return false;
    rl_clocks_init(&rates->clocks, client->nodes, options->drift_ppm, options->drift_ms * RL_MS);
    poll_init(&rates->poll, client, &question, on_answer, client, RL_CLIENTS_MANY);
    rates->poll.rests = true;
    for (unsigned i = 0; i < RL_NODES_MAX; i++) rates->reconnects[i] = UINT64_MAX; /* none yet */
    return true;
}

void rates_free(struct redlock_client *client) { free(client->clock_rates); }

void client_engaged(struct redlock_client *client, int64_t ttl_ms) {
    client->engaged++;
    if (client->poll) poll_engaged(client->poll, ttl_ms * RL_MS);
    if (!client->guard) poll_engaged(&client->clock_rates->poll, ttl_ms * RL_MS);
}

void client_disengaged(struct redlock_client *client) { client->engaged--; }
