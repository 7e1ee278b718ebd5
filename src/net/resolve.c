/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The asker and the thread share the job, and the last one to release it frees it. getaddrinfo
 * cannot be interrupted, so a client that closes leaves the thread to end by itself. */
#include "net/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct resolve_job {
    atomic_int holders;
    atomic_bool done;
    pthread_mutex_t mutex; /* of kick_fd */
    int kick_fd;           /* the asker's; -1: dropped */
    const char *failure;
    struct addresses addresses;
    char *host;
    char port[6];
};

static int look_up(const char *host, const char *port, int flags, struct addresses *addresses) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV},
                    *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    addresses->count = 0;
    if (error != 0) return error;
    for (struct addrinfo *each = list; each && addresses->count < RESOLVE_ADDRESSES_MAX;
         each = each->ai_next) {
        if (each->ai_addrlen > sizeof(addresses->each[0].at)) continue;
        memcpy(&addresses->each[addresses->count].at, each->ai_addr, each->ai_addrlen);
        addresses->each[addresses->count++].bytes = each->ai_addrlen;
    }
    freeaddrinfo(list);
    return 0;
}

bool resolve_numeric(const char *host, const char *port, struct addresses *addresses) {
    return look_up(host, port, AI_NUMERICHOST, addresses) == 0 && addresses->count > 0;
}

static void let_go(struct resolve_job *job) {
    if (atomic_fetch_sub_explicit(&job->holders, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&job->mutex);
    free(job->host);
    free(job);
}

static void kick(struct resolve_job *job) {
    uint64_t one = 1;
    pthread_mutex_lock(&job->mutex);
    ssize_t written = job->kick_fd < 0 ? 0 : write(job->kick_fd, &one, sizeof(one));
    /* fails only when the counter is full: then the descriptor is readable already */
    (void)written;
    pthread_mutex_unlock(&job->mutex);
}

static void *run(void *argument) {
    struct resolve_job *job = argument;
    int error = look_up(job->host, job->port, 0, &job->addresses);
    if (error != 0)
        job->failure = gai_strerror(error);
    else if (job->addresses.count == 0)
        job->failure = "no address";
    atomic_store_explicit(&job->done, true, memory_order_release);
    kick(job);
    let_go(job);
    return NULL;
}

/* The thread must not take signals of the host program: all are blocked while it is created, and it
 * inherits that. */
static int start_thread(struct resolve_job *job) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

struct resolve_job *resolve_start(const char *host, const char *port, int kick_fd) {
    struct resolve_job *job = calloc(1, sizeof(*job));
    if (!job) return NULL;
    job->kick_fd = kick_fd;
    job->host = strdup(host);
    strncpy(job->port, port, sizeof(job->port) - 1);
    atomic_init(&job->holders, 2);
    pthread_mutex_init(&job->mutex, NULL);
    if (job->host && start_thread(job) == 0) return job;
    pthread_mutex_destroy(&job->mutex);
    free(job->host);
    free(job);
    return NULL;
}

bool resolve_done(const struct resolve_job *job, struct addresses *addresses,
                  const char **failure) {
    if (!atomic_load_explicit(&job->done, memory_order_acquire)) return false;
    *addresses = job->addresses;
    *failure = job->failure;
    return true;
}

void resolve_drop(struct resolve_job *job, bool forked) {
    if (forked) { /* the thread may have held the mutex at the fork */
        free(job->host);
        free(job);
        return;
    }
    pthread_mutex_lock(&job->mutex);
    job->kick_fd = -1;
    pthread_mutex_unlock(&job->mutex);
    let_go(job);
}
