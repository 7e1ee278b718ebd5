/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `redlock run --min-hold`: what becomes of the lock when the command has ended early. Where the
 * rest is longer than the keys still last, one extension makes them last for it, and nobody has to
 * stay. Where it is shorter, somebody must release the lock when the rest is over, because an
 * extension never shortens; that takes less than a TTL.
 */
#ifndef CLI_KEEP_H
#define CLI_KEEP_H

#include <redlock.h>

#include <stdbool.h>
#include <stdint.h>

struct keep {
    struct redlock_client *client;
    struct redlock_lock *lock;
    int64_t until;    /* now_ns(); 0: no minimum */
    int64_t proven;   /* until when the keys last by the last extension */
    int64_t look_at;  /* the next step, if nothing happens before */
    int64_t asks_for; /* of the extension under way; 0: there is none */
    bool asked_last;  /* the extension before leaving was tried */
};

enum keep_next {
    KEEP_STAYS,   /* call again at look_at, or after redlock_process() */
    KEEP_RELEASE, /* the minimum hold is over */
    KEEP_LEAVE    /* the keys last for as long as they must, or as can be had */
};

/* The lock is held. `hurries`: leaves as soon as it can. */
enum keep_next keep_step(struct keep *keep, bool hurries);

#endif
