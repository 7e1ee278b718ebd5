/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/conn/background.h"

#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static void let_go(struct background *background) {
    if (atomic_fetch_sub_explicit(&background->holders, 1, memory_order_acq_rel) > 1) return;
    pthread_mutex_destroy(&background->mutex);
    background->free(background);
}

static void *run(void *argument) {
    struct background *background = argument;
    const uint64_t one = 1;
    background->work(background);
    atomic_store_explicit(&background->done, true, memory_order_release);
    pthread_mutex_lock(&background->mutex);
    ssize_t written = background->kick_fd < 0 ? 0 : write(background->kick_fd, &one, sizeof(one));
    (void)written; /* fails only when the counter is full: then it is readable already */
    pthread_mutex_unlock(&background->mutex);
    let_go(background);
    return NULL;
}

/* The thread must not take signals of the host program: all are blocked while it is created, and it
 * inherits that. */
bool background_start(struct background *background, int kick_fd) {
    sigset_t all, before;
    background->kick_fd = kick_fd;
    atomic_init(&background->holders, 2);
    atomic_init(&background->done, false);
    pthread_mutex_init(&background->mutex, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&background->thread, NULL, run, background) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) pthread_mutex_destroy(&background->mutex);
    return started;
}

bool background_is_done(const struct background *background) {
    return atomic_load_explicit(&background->done, memory_order_acquire);
}

void background_drop(struct background *background, bool waits, bool forked) {
    if (forked) { /* the thread may have held the mutex at the fork */
        background->free(background);
        return;
    }
    pthread_mutex_lock(&background->mutex);
    background->kick_fd = -1;
    pthread_mutex_unlock(&background->mutex);
    if (waits)
        pthread_join(background->thread, NULL);
    else
        pthread_detach(background->thread);
    let_go(background);
}
