/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A run of the world (world.h): its options, its beginning and its end.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "world/world.h"

void world_options_init(struct world_options *options); /* 5 nodes, 2 clients, 1 resource, 0.5..1.5
                                                           ms, TTL 10 s, no renewal */
/* A world can be reused: it begins again with other options and keeps its memory. */
struct world *world_new(void);
void world_free(struct world *world);
void world_begin(struct world *world, const struct world_options *options, struct history *history);
/* Ends all clients and drops everything under way; writes END. The history stays. */
void world_end(struct world *world);

/* After this: no loss, no cut, nodes up, clocks true, modes normal, clients running; writes
 * FAULTS_END. */
void world_heal(struct world *world);

#endif
