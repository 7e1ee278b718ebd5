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

enum { MANY = 256 };

struct place {
    struct shim *shim;
    struct redlock_lock *lock; /* or */
    struct redlock_observer *observer;
    struct place *before, *after; /* of those with a note */
    bool noted, freeing;
    struct note note;
    struct leader leader;
};

struct shim {
    struct redlock_client *client;
    pid_t process;
    int stop;
    atomic_uint users;
    pthread_mutex_t mutex; /* of notes */
    struct place *first, *last;
};

/* ---- notes ---- */

static void note(struct place *place) {
    struct shim *shim = place->shim;
    if (place->noted || place->freeing) return;
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
    struct place *place = redlock_lock_context(lock);
    (void)context;
    pthread_mutex_lock(&place->shim->mutex);
    place->note.done = 1;
    place->note.result = result;
    note(place);
    pthread_mutex_unlock(&place->shim->mutex);
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

static bool here(const struct shim *shim) { return getpid() == shim->process; }

/* A forked child may have closed what it inherited, and opened others under these numbers. */
static void shim_close(struct shim *shim) {
    redlock_client_free(shim->client);
    if (shim->stop >= 0 && here(shim)) close(shim->stop);
    pthread_mutex_destroy(&shim->mutex);
    free(shim);
}

int shim_open(const char *nodes, struct redlock_client_options *options, struct shim **made,
              struct redlock_error *error) {
    struct shim *shim = calloc(1, sizeof *shim);
    if (!shim) return REDLOCK_NO_MEMORY;
    options->queue = 1;
    shim->process = getpid();
    atomic_init(&shim->users, 1);
    pthread_mutex_init(&shim->mutex, NULL);
    shim->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int result =
        shim->stop < 0 ? REDLOCK_SYSTEM : redlock_client_open(nodes, options, &shim->client, error);
    if (result == REDLOCK_OK)
        *made = shim;
    else
        shim_close(shim);
    return result;
}

void shim_free(struct shim *shim) {
    if (atomic_fetch_sub(&shim->users, 1) != 1) return;
    shim_stop(shim);
    shim_close(shim);
}

size_t shim_nodes(struct shim *shim) { return redlock_client_nodes(shim->client); }

int shim_fd(struct shim *shim) { return redlock_client_fd(shim->client); }

int shim_wait(struct shim *shim) {
    struct pollfd fds[] = {{.fd = shim->stop, .events = POLLIN},
                           {.fd = shim_fd(shim), .events = POLLIN}};
    while (poll(fds, 2, -1) < 0) continue;
    return fds[0].revents == 0 && fds[1].revents != 0;
}

/* A child shares the descriptor with its parent. */
void shim_stop(struct shim *shim) {
    if (here(shim)) eventfd_write(shim->stop, 1);
}

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
    if (watched) options->on_change = on_change;
    options->on_change_context = place;
    int result = count == 1 ? redlock_lock_new(shim->client, resources->data, resources->bytes,
                                               options, &place->lock, error)
                            : redlock_lock_new_multi(shim->client, resources, count, options,
                                                     &place->lock, error);
    if (result != REDLOCK_OK) {
        shim_place_free(place);
        return result;
    }
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

/* From here on nothing is noted of it. */
static void forget(struct place *place) {
    pthread_mutex_lock(&place->shim->mutex);
    place->freeing = true;
    unnote(place);
    pthread_mutex_unlock(&place->shim->mutex);
}

static void place_end(struct place *place) {
    redlock_lock_free(place->lock);
    redlock_observe_stop(place->observer);
}

/* In a child a mutex may be held for ever, by a thread that exists in the parent only. */
void shim_place_free(struct place *place) {
    struct shim *shim = place->shim;
    if (!here(shim)) {
        place_end(place);
    } else {
        forget(place);
        place_end(place);
    }
    free(place);
    shim_free(shim);
}

/* ---- operations ---- */

int shim_try(struct place *place, int quorum) {
    if (redlock_client_wait_ready(place->shim->client, 0) < quorum) return SHIM_NOT_READY;
    return redlock_try(place->lock);
}

int shim_start(struct place *place, int operation, int64_t amount) {
    struct redlock_lock *lock = place->lock;
    if (operation == SHIM_ACQUIRE) return redlock_acquire_start(lock, amount, on_done, NULL);
    if (operation == SHIM_RELEASE) return redlock_release_start(lock, on_done, NULL);
    if (operation == SHIM_EXTEND) return redlock_extend_start(lock, amount, on_done, NULL);
    return redlock_downgrade_start(lock, on_done, NULL);
}

static int start_some(struct redlock_lock **locks, size_t count, int operation, int64_t amount,
                      int *results) {
    if (operation == SHIM_ACQUIRE)
        return redlock_acquire_many_start(locks, count, amount, results, on_done, NULL);
    return redlock_release_many_start(locks, count, results, on_done, NULL);
}

void shim_start_many(struct place **places, size_t count, int operation, int64_t amount,
                     int *results) {
    struct redlock_lock *locks[MANY];
    for (size_t done = 0, some; done < count; done += some) {
        some = count - done < MANY ? count - done : MANY;
        for (size_t i = 0; i < some; i++) locks[i] = places[done + i]->lock;
        (void)start_some(locks, some, operation, amount, results + done); /* each has its own */
    }
}

int shim_extend(struct place *place, int64_t ttl_ms) { return redlock_extend(place->lock, ttl_ms); }

int shim_downgrade(struct place *place) { return redlock_downgrade(place->lock); }

int shim_release(struct place *place) { return redlock_release(place->lock); }

/* ---- what the lock is ---- */

int64_t shim_validity_ms(struct place *place) { return redlock_validity_ms(place->lock); }

int64_t shim_fence(struct place *place) { return redlock_fence(place->lock); }

uint32_t shim_slot(struct place *place) { return redlock_slot(place->lock); }

size_t shim_token(struct place *place, void *to, size_t size) {
    return redlock_token_copy(place->lock, to, size);
}

int shim_why(struct place *place, int result, struct redlock_why_report *why) {
    return redlock_why(place->shim->client, place->lock, result, NULL, why);
}

void shim_leader(struct place *place, struct leader *leader) {
    pthread_mutex_lock(&place->shim->mutex);
    *leader = place->leader;
    pthread_mutex_unlock(&place->shim->mutex);
}
