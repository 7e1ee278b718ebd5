/* SPDX-License-Identifier: BSD-2-Clause
 *
 * WATCH, MULTI, EXEC on one key: clients without scripts send a compare-and-delete or a
 * compare-and-expire this way.
 */
#ifndef SERVE_TRANSACTION_H
#define SERVE_TRANSACTION_H

#include <stdbool.h>

#include "plan.h"

struct connection;

/* Whether the client has sent MULTI. */
bool transaction_is_open(const struct connection *connection);
/* Keeps the plan for EXEC, and answers. */
void transaction_queue(struct connection *connection, const struct plan *plan);
/* A command between MULTI and EXEC was refused: EXEC will do nothing. */
void transaction_break(struct connection *connection);
/* The memory that it takes, approximate; 0: no transaction. */
size_t transaction_weight(const struct connection *connection);
void transaction_free(struct connection *connection);

void command_watch(struct connection *connection);
void command_unwatch(struct connection *connection);
void command_multi(struct connection *connection);
void command_exec(struct connection *connection);
void command_discard(struct connection *connection);

#endif
