/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top on a terminal. One thread looks; the calling one draws and reads keys, so that a node
 * that does not answer never delays a key.
 */
#ifndef TOP_LIVE_H
#define TOP_LIVE_H

#include "look.h"

/* Until the user quits. Returns the exit status. */
int top_live(struct top_observer *observer, int64_t interval_ms);

#endif
