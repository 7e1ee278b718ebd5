/* SPDX-License-Identifier: BSD-2-Clause
 *
 * WATCH, MULTI, EXEC: a compare-and-delete, or a compare-and-expire, as clients without scripts
 * send it. On one key.
 */
#ifndef SERVE_TRANSACTION_H
#define SERVE_TRANSACTION_H

#include <stdbool.h>

#include "plan.h"

struct connection;

/* Whether MULTI was said. */
bool transaction_is_open(const struct connection *connection);
/* Keeps the plan for EXEC, and answers. */
void transaction_queue(struct connection *connection, const struct plan *plan);
/* A command between MULTI and EXEC was refused: EXEC will do nothing. */
void transaction_break(struct connection *connection);
/* Bytes that it has taken, about; 0: there is none. */
size_t transaction_weight(const struct connection *connection);
void transaction_free(struct connection *connection);

void command_watch(struct connection *connection);
void command_unwatch(struct connection *connection);
void command_multi(struct connection *connection);
void command_exec(struct connection *connection);
void command_discard(struct connection *connection);

#endif
