/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Mode auto: classic, but never on nodes that carry a record. To lock there as classic clients do
 * would be to lock without what the quorum was made for, because an option was forgotten. Each
 * connection begins with the question, and it is asked again about once a second, for a quorum may
 * be made while clients are connected.
 */
#ifndef RL_CLIENT_AUTOMODE_H
#define RL_CLIENT_AUTOMODE_H

#include "net/net.h"

struct redlock_client;
struct redlock_node_status;

struct automode {
    struct redlock_client *client;
    struct net_timer timer;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
    rl_mask found; /* nodes that carried a record; one is enough for the client's whole life */
    bool closing;
    char quorum[17];
};

struct automode *automode_new(struct redlock_client *client); /* NULL: no memory. free() frees it */
void automode_start(struct automode *automode);
void automode_found(struct automode *automode, unsigned node, const char *quorum);
void automode_reply(struct net_call *call, const struct net_reply *reply);
static inline bool automode_refuses(const struct automode *automode) {
    return automode->found != 0;
}
static inline bool automode_names(const struct automode *automode, unsigned node) {
    return (automode->found & rl_bit(node)) != 0;
}
void automode_status(const struct automode *automode, unsigned node,
                     struct redlock_node_status *status);

#endif
