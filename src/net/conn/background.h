/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Work that may block, in a thread of its own, while the net goes on. The net and the thread share
 * it, and the last one to release it frees it. */
#ifndef RL_NET_BACKGROUND_H
#define RL_NET_BACKGROUND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The first field of a struct that holds what the work needs and what comes of it. */
struct background {
    void (*work)(struct background *background); /* uses only memory of its own */
    void (*free)(struct background *background);
    atomic_int holders;
    atomic_bool done;
    pthread_mutex_t mutex; /* of kick_fd */
    int kick_fd;           /* the net's, which `done` wakes; -1: dropped */
    pthread_t thread;
};

/* `work` and `free` are set, the rest is zero. False: no thread could be started. */
bool background_start(struct background *background, int kick_fd);
/* What came of it may be read. */
bool background_is_done(const struct background *background);
/* With `waits` it returns when the work has ended; else it never waits, and the thread ends by
 * itself. `forked`: in a child, where the thread does not exist. */
void background_drop(struct background *background, bool waits, bool forked);

#endif
