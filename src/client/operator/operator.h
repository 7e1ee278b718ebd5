/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's side: what servers hold, and what they are. Nothing here takes a lock; a
 * break (break_task.c) ends one. */
#ifndef RL_CLIENT_OPERATOR_H
#define RL_CLIENT_OPERATOR_H

#include "redlock/admin.h"
#include "client/ask/ask.h"
#include "break_task.h"
#include "observe.h"
#include "task.h"

/* ---- await_free.c ---- */

/* A node notifies of a change: of that key, or, with key.data NULL, perhaps of any. */
void watchers_wake(struct redlock_client *client, struct net_bytes key);

#endif
