/* SPDX-License-Identifier: BSD-2-Clause */
#include <redlock.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shim.h"

enum { BUCKETS = 1024, MANY = 256 };

struct place {
    struct shim *shim;
    struct redlock_lock *lock; /* or */
    struct redlock_observer *observer;
    struct place *next;           /* in its bucket */
    struct place *before, *after; /* of those with a note */
    bool noted;
    struct note note;
    struct leader leader;
};

struct shim {
    struct redlock_client *client;
    pid_t process;
    int stop;
    atomic_uint users;
    pthread_mutex_t mutex; /* of what is below */
    struct place *first, *last;
    struct place *buckets[BUCKETS]; /* by lock: a `done` of many has one context for all */
};

/* ---- notes ---- */

static struct place **bucket(struct shim *shim, const struct redlock_lock *lock) {
    return &shim->buckets[((uintptr_t)lock >> 5) % BUCKETS];
}

static struct place *find(struct shim *shim, const struct redlock_lock *lock) {
    struct place *place = *bucket(shim, lock);
    while (place && place->lock != lock) place = place->next;
    return place;
}

static void note(struct place *place) {
    struct shim *shim = place->shim;
    if (place->noted) return;
    place->noted = true;
    place->before = shim->last;
    place->after = NULL;
    *(shim->last ? &shim->last->after : &shim->first) = place;
    shim->last = place;
}

static void unnote(struct place *place) {
    struct shim *shim = place->shim;
    if (!place->noted) return;
    place->noted = false;
    *(place->before ? &place->before->after : &shim->first) = place->after;
    *(place->after ? &place->after->before : &shim->last) = place->before;
}

static void on_done(void *context, struct redlock_lock *lock, int result) {
    struct shim *shim = context;
    pthread_mutex_lock(&shim->mutex);
    struct place *place = find(shim, lock);
    if (place) {
        place->note.done = 1;
        place->note.result = result;
        note(place);
    }
    pthread_mutex_unlock(&shim->mutex);
}

static void on_change(void *context, struct redlock_lock *lock, int change) {
    struct place *place = context;
    (void)lock;
    if (change != REDLOCK_CHANGE_LOST) return;
    pthread_mutex_lock(&place->shim->mutex);
    place->note.lost = 1;
    note(place);
    pthread_mutex_unlock(&place->shim->mutex);
}

static void on_leader(void *context, const struct redlock_leader *leader) {
    struct place *place = context;
    pthread_mutex_lock(&place->shim->mutex);
    place->leader = (struct leader){.state = leader->state,
                                    .term = leader->term,
                                    .sure_until_ns = leader->sure_until_ns,
                                    .id_bytes = leader->id.bytes};
    if (place->leader.id_bytes > sizeof place->leader.id)
        place->leader.id_bytes = sizeof place->leader.id;
    if (leader->id.data) memcpy(place->leader.id, leader->id.data, place->leader.id_bytes);
    place->note.leader = 1;
    note(place);
    pthread_mutex_unlock(&place->shim->mutex);
}

size_t shim_process(struct shim *shim, struct note *notes, size_t count) {
    size_t taken = 0;
    (void)redlock_process(shim->client);
    pthread_mutex_lock(&shim->mutex);
    for (struct place *place = shim->first; place && taken < count; place = shim->first) {
        notes[taken++] = place->note;
        place->note = (struct note){.id = place->note.id};
        unnote(place);
    }
    pthread_mutex_unlock(&shim->mutex);
    return taken;
}

/* ---- the client ---- */

int shim_open(const char *nodes, struct redlock_client_options *options, struct shim **shim,
              struct redlock_error *error) {
    struct shim *opened = calloc(1, sizeof *opened);
    if (!opened) return REDLOCK_NO_MEMORY;
    options->queue = 1;
    opened->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int result = opened->stop < 0 ? REDLOCK_SYSTEM
                                  : redlock_client_open(nodes, options, &opened->client, error);
    if (result != REDLOCK_OK) {
        if (opened->stop >= 0) close(opened->stop);
        free(opened);
        return result;
    }
    opened->process = getpid();
    atomic_init(&opened->users, 1);
    pthread_mutex_init(&opened->mutex, NULL);
    *shim = opened;
    return REDLOCK_OK;
}

void shim_free(struct shim *shim) {
    if (atomic_fetch_sub(&shim->users, 1) != 1) return;
    redlock_client_free(shim->client);
    close(shim->stop);
    free(shim);
}

struct redlock_client *shim_client(struct shim *shim) {
    return shim->client;
}

int shim_wait(struct shim *shim) {
    struct pollfd fds[] = {{.fd = shim->stop, .events = POLLIN},
                           {.fd = redlock_client_fd(shim->client), .events = POLLIN}};
    while (poll(fds, 2, -1) < 0) continue;
    return fds[0].revents == 0;
}

void shim_stop(struct shim *shim) { eventfd_write(shim->stop, 1); }

/* ---- places ---- */

static struct place *place_new(struct shim *shim, uint64_t id) {
    struct place *place = calloc(1, sizeof *place);
    if (!place) return NULL;
    place->shim = shim;
    place->note.id = id;
    atomic_fetch_add(&shim->users, 1);
    return place;
}

int shim_lock_new(struct shim *shim, uint64_t id, const struct redlock_bytes *resources,
                  size_t count, struct redlock_lock_options *options, int watched,
                  struct place **made, struct redlock_error *error) {
    struct place *place = place_new(shim, id);
    if (!place) return REDLOCK_NO_MEMORY;
    if (watched) {
        options->on_change = on_change;
        options->on_change_context = place;
    }
    int result = count == 1 ? redlock_lock_new(shim->client, resources->data, resources->bytes,
                                               options, &place->lock, error)
                            : redlock_lock_new_multi(shim->client, resources, count, options,
                                                     &place->lock, error);
    if (result != REDLOCK_OK) {
        shim_place_free(place);
        return result;
    }
    pthread_mutex_lock(&shim->mutex);
    place->next = *bucket(shim, place->lock);
    *bucket(shim, place->lock) = place;
    pthread_mutex_unlock(&shim->mutex);
    *made = place;
    return REDLOCK_OK;
}

int shim_observe(struct shim *shim, uint64_t id, const void *resource, size_t bytes,
                 struct place **made, struct redlock_error *error) {
    struct place *place = place_new(shim, id);
    if (!place) return REDLOCK_NO_MEMORY;
    int result = redlock_observe_start(shim->client, resource, bytes, on_leader, place,
                                       &place->observer, error);
    if (result == REDLOCK_OK)
        *made = place;
    else
        shim_place_free(place);
    return result;
}

/* In a child the mutex may be held for ever, by a thread that exists in the parent only. */
static void forget(struct place *place) {
    struct shim *shim = place->shim;
    pthread_mutex_lock(&shim->mutex);
    unnote(place);
    for (struct place **at = bucket(shim, place->lock); *at; at = &(*at)->next) {
        if (*at != place) continue;
        *at = place->next;
        break;
    }
    pthread_mutex_unlock(&shim->mutex);
}

void shim_place_free(struct place *place) {
    struct shim *shim = place->shim;
    const bool here = getpid() == shim->process;
    if (here) forget(place); /* another lock may have its address as soon as it is free */
    redlock_lock_free(place->lock);
    redlock_observe_stop(place->observer);
    if (here) forget(place);
    free(place);
    shim_free(shim);
}

struct redlock_lock *shim_lock(struct place *place) {
    return place->lock;
}

int shim_try(struct place *place, int quorum) {
    if (redlock_client_wait_ready(place->shim->client, 0) < quorum) return SHIM_NOT_READY;
    return redlock_try(place->lock);
}

int shim_start(struct place *place, int operation, int64_t amount) {
    struct redlock_lock *lock = place->lock;
    struct shim *shim = place->shim;
    if (operation == SHIM_ACQUIRE) return redlock_acquire_start(lock, amount, on_done, shim);
    if (operation == SHIM_RELEASE) return redlock_release_start(lock, on_done, shim);
    if (operation == SHIM_EXTEND) return redlock_extend_start(lock, amount, on_done, shim);
    return redlock_downgrade_start(lock, on_done, shim);
}

void shim_start_many(struct place **places, size_t count, int operation, int64_t amount,
                     int *results) {
    struct redlock_lock *locks[MANY];
    for (size_t done = 0, some; done < count; done += some) {
        struct shim *shim = places[done]->shim;
        some = count - done < MANY ? count - done : MANY;
        for (size_t i = 0; i < some; i++) locks[i] = places[done + i]->lock;
        int result =
            operation == SHIM_ACQUIRE
                ? redlock_acquire_many_start(locks, some, amount, results + done, on_done, shim)
                : redlock_release_many_start(locks, some, results + done, on_done, shim);
        (void)result; /* each has its own */
    }
}

void shim_leader(struct place *place, struct leader *leader) {
    pthread_mutex_lock(&place->shim->mutex);
    *leader = place->leader;
    pthread_mutex_unlock(&place->shim->mutex);
}
