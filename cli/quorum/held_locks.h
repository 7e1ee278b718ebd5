/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The locks that are held on the nodes now, by any client, as far as a walk over the keys finds
 * them.
 */
#ifndef CLI_HELD_LOCKS_H
#define CLI_HELD_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "frame/session.h"

struct held {
    char resource[200];   /* printable; "": no lock was found */
    int64_t remaining_ms; /* until it ends by itself: the latest of all locks that end */
    bool complete;        /* every key was looked at */
};

/* Walks for at most that long. A key counts whose value has the form of a token (is_token()) on a
 * majority of the nodes. */
void held_longest(struct session *session, int64_t walk_ms, struct held *held);

#endif
