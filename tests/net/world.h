/* SPDX-License-Identifier: BSD-2-Clause
 * A net with handlers that remember, and a loop that turns until something is so. */
#ifndef TESTS_NET_WORLD_H
#define TESTS_NET_WORLD_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/guard.h"
#include "net/net.h"
#include "redlock.h"

#define WORLD_VALUE_MAX 2048

/* One request at every node of a world, and what came back. */
struct ask {
    struct net_bytes keys[8];
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
    int verdicts[RL_NODES_MAX];
    unsigned done;                      /* how many handlers ran */
    unsigned order[RL_NODES_MAX];       /* the world's count of replies when this one came */
    unsigned lost_before[RL_NODES_MAX]; /* and its count of losses */
    int64_t remaining_ms;
    unsigned char
        value[WORLD_VALUE_MAX]; /* of RECORD and SURVEY: items, each with a space behind */
    size_t value_bytes;
    bool truncated;
    unsigned items;
    uint64_t cursor;
    int64_t fence, count;
    int64_t *fences; /* the test's; where to copy those that are told, NULL: nowhere */
    bool has_fences;
    struct ask *then;          /* sent to the same node by the handler */
    struct net_state reported; /* of STATE */
    bool has_state;
};

struct world {
    struct net *net;
    unsigned replies, turns;
    unsigned reported[RL_NODES_MAX];
    unsigned losses;         /* how often we were told that a record or all data may have changed */
    unsigned changes, ranks; /* hints: of changes, and of our rank in a line */
    int rank;                /* the last */
    char key[64];            /* which the last hint was about; "": any */
    char log[16384];
};

struct net_options world_options(const char *nodes);
void world_open(struct world *world,
                const struct net_options *options); /* fails the test when it cannot */
void world_open_urls(struct world *world, const char *nodes);
void world_close(struct world *world);
void world_turn(struct world *world, rl_ns until);
/* Turns the loop until `so` is true; fails the test after five seconds. */
void world_until(struct world *world, bool (*so)(struct world *, void *), void *context,
                 const char *what);
void world_until_ready(struct world *world, rl_mask nodes);
void world_until_verdict(struct world *world, unsigned node, int verdict);
void world_until_done(struct world *world, struct ask *ask, unsigned count);
void world_for(struct world *world,
               int64_t ms); /* turns the loop for a while, to see that nothing happens */
struct net_node_status world_node(struct world *world, unsigned node);
/* The text of redlock_verdict_text(), which belongs to the client. */
const char *verdict_text(int verdict);

/* One key, or up to 8 separated by spaces. */
void ask_init(struct ask *ask, enum net_op op, const char *keys, const char *token, int64_t ttl_ms);
/* Makes it a guarded one. */
void ask_guard(struct ask *ask, const uint64_t *nonces, int64_t fence, const uint16_t *stripes,
               size_t count);
rl_mask ask_send(struct world *world, struct ask *ask, rl_mask nodes, int64_t due_ms,
                 int64_t keep_ms);
/* Sends to node 0 and waits for the verdict. */
int ask_and_wait(struct world *world, struct ask *ask);
int ask_one(struct world *world, enum net_op op, const char *keys, const char *token,
            int64_t ttl_ms);

#endif
