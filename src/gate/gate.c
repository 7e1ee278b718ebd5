/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_fence_gate: decides by fencing token which holder may use a resource. It needs no client,
 * lock or server. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <redlock/fence.h>

#include "abi/sized.h"
#include "gate/bucket.h"
#include "gate/file.h"

struct redlock_fence_gate {
    pthread_mutex_t mutex;
    /* A child of fork(2) shares the file's lock and has a copy of the memory: it is refused. */
    pid_t process;
    bool in_file;
    struct gate_file file;
    uint64_t salt, count;
    struct gate_bucket *buckets; /* in memory; NULL with a file */
};

/* Returns `result`, and leaves errno alone. */
__attribute__((format(printf, 3, 4))) static int fail(struct redlock_error *error, int result,
                                                      const char *format, ...) {
    int saved = errno;
    va_list args;
    if (!error) return result;
    error->result = result;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    errno = saved;
    return result;
}

void redlock_fence_gate_options_fill(struct redlock_fence_gate_options *options, size_t size) {
    const struct redlock_fence_gate_options defaults = {.resources = 4096, .create = 1};
    sized_fill(options, size, &defaults, sizeof defaults);
}

static int take_options(const struct redlock_fence_gate_options *given,
                        struct redlock_fence_gate_options *options, struct redlock_error *error) {
    redlock_fence_gate_options_init(options);
    if (given && !sized_take(options, sizeof *options, given, FIRST_FENCE_GATE_OPTIONS))
        return fail(
            error, REDLOCK_BAD_ARGUMENT,
            "gate options of an unknown size: fill them with redlock_fence_gate_options_init()");
    if (options->resources < 1 || options->resources > REDLOCK_FENCE_RESOURCES_MAX)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a gate is made for 1 to %d resources, not %zu",
                    REDLOCK_FENCE_RESOURCES_MAX, options->resources);
    if (options->create != 0 && options->create != 1)
        return fail(error, REDLOCK_BAD_ARGUMENT, "create is %d; it must be 0 or 1",
                    options->create);
    if (options->path && options->path[0] == '\0')
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "the path of the gate's file is empty; NULL means a gate in memory");
    return REDLOCK_OK;
}

static int open_file(struct redlock_fence_gate *gate,
                     const struct redlock_fence_gate_options *options,
                     struct redlock_error *error) {
    const char *failed = "";
    gate->in_file = true;
    if (gate_file_open(&gate->file, options->path, options->create, gate->count, &failed) == 0) {
        gate->salt = gate->file.salt;
        gate->count = gate->file.buckets;
        return REDLOCK_OK;
    }
    if (errno == EBADMSG)
        return fail(
            error, REDLOCK_SYSTEM,
            "%s is damaged or not a gate's file: the fences that it had seen are unknown; remove it only when every holder "
            "of an older fence is surely gone",
            options->path);
    return fail(error, REDLOCK_SYSTEM, "cannot %s the gate's file %s: %s", failed, options->path,
                strerror(errno));
}

static int open_memory(struct redlock_fence_gate *gate, struct redlock_error *error) {
    if (getrandom(&gate->salt, sizeof gate->salt, 0) != (ssize_t)sizeof gate->salt)
        return fail(error, REDLOCK_SYSTEM, "cannot get random bytes: %s", strerror(errno));
    gate->buckets = calloc((size_t)gate->count, sizeof *gate->buckets);
    return gate->buckets ? REDLOCK_OK : fail(error, REDLOCK_NO_MEMORY, "out of memory");
}

int redlock_fence_gate_open(const struct redlock_fence_gate_options *given,
                            struct redlock_fence_gate **out, struct redlock_error *error) {
    struct redlock_fence_gate_options options;
    if (!out)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "`gate` is NULL; it must point to the place for the gate");
    int result = take_options(given, &options, error);
    if (result != REDLOCK_OK) return result;
    struct redlock_fence_gate *gate = calloc(1, sizeof *gate);
    if (!gate) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    gate->file.fd = -1;
    gate->process = getpid();
    gate->count = (options.resources + GATE_WAYS - 1) / GATE_WAYS;
    result = options.path ? open_file(gate, &options, error) : open_memory(gate, error);
    if (result == REDLOCK_OK && pthread_mutex_init(&gate->mutex, NULL) != 0)
        result = fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (result == REDLOCK_OK) {
        *out = gate;
        return REDLOCK_OK;
    }
    gate_file_close(&gate->file);
    free(gate->buckets);
    free(gate);
    return result;
}

void redlock_fence_gate_free(struct redlock_fence_gate *gate) {
    if (!gate) return;
    /* In a fork's child a thread that does not exist there may hold the mutex. */
    if (gate->process == getpid()) pthread_mutex_destroy(&gate->mutex);
    gate_file_close(&gate->file);
    free(gate->buckets);
    free(gate);
}

/* What one call works on, between enter() and leave(). */
struct visit {
    struct redlock_fence_gate *gate;
    uint64_t print;
    struct gate_bucket *bucket;
    struct gate_bucket copy; /* of the file's */
    int cancelling;          /* whether this thread could be cancelled before */
};

static int enter(struct visit *visit, struct redlock_fence_gate *gate, const void *resource,
                 size_t bytes) {
    if (!gate || !resource || bytes < 1 || bytes > REDLOCK_RESOURCE_BYTES_MAX)
        return REDLOCK_BAD_ARGUMENT;
    if (gate->process != getpid()) return REDLOCK_FORKED;
    visit->gate = gate;
    visit->print = gate_hash(gate->salt, resource, bytes);
    uint64_t index = (visit->print >> 32) % gate->count;
    /* The calls of the file are cancellation points, and the mutex is held. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &visit->cancelling);
    pthread_mutex_lock(&gate->mutex);
    if (!gate->in_file) {
        visit->bucket = &gate->buckets[index];
        return REDLOCK_OK;
    }
    visit->bucket = &visit->copy;
    if (gate_file_lock(&gate->file) == 0) {
        if (gate_file_load(&gate->file, index, &visit->copy) == 0) return REDLOCK_OK;
        int error = errno;
        gate_file_unlock(&gate->file);
        errno = error;
    }
    pthread_mutex_unlock(&gate->mutex);
    pthread_setcancelstate(visit->cancelling, NULL);
    return REDLOCK_SYSTEM;
}

static void leave(struct visit *visit) {
    int error = errno;
    if (visit->gate->in_file) gate_file_unlock(&visit->gate->file);
    pthread_mutex_unlock(&visit->gate->mutex);
    pthread_setcancelstate(visit->cancelling, NULL);
    errno = error;
}

/* A fence is remembered, and in a file durably, before anything is done under it. */
static int judge(struct visit *visit, int64_t fence, bool reads) {
    const struct gate_least least = gate_bucket_least(visit->bucket, visit->print);
    if (fence < (reads ? least.reader : least.writer)) return REDLOCK_FENCED;
    bool changed = gate_bucket_raise(visit->bucket, visit->print, fence, reads);
    if (!changed || !visit->gate->in_file) return REDLOCK_OK;
    return gate_file_store(&visit->gate->file, visit->bucket) == 0 ? REDLOCK_OK : REDLOCK_SYSTEM;
}

static int pass(struct redlock_fence_gate *gate, const void *resource, size_t bytes, int64_t fence,
                bool reads, redlock_fence_act_fn *act, void *context) {
    struct visit visit;
    if (fence < 1 || fence > REDLOCK_FENCE_MAX) return REDLOCK_BAD_ARGUMENT;
    int result = enter(&visit, gate, resource, bytes);
    if (result != REDLOCK_OK) return result;
    result = judge(&visit, fence, reads);
    if (result == REDLOCK_OK && act) act(context);
    leave(&visit);
    return result;
}

int redlock_fence_do(struct redlock_fence_gate *gate, const void *resource, size_t bytes,
                     int64_t fence, redlock_fence_act_fn *act, void *context) {
    return pass(gate, resource, bytes, fence, false, act, context);
}

int redlock_fence_do_shared(struct redlock_fence_gate *gate, const void *resource, size_t bytes,
                            int64_t fence, redlock_fence_act_fn *act, void *context) {
    return pass(gate, resource, bytes, fence, true, act, context);
}

int redlock_fence_admit(struct redlock_fence_gate *gate, const void *resource, size_t bytes,
                        int64_t fence) {
    return redlock_fence_do(gate, resource, bytes, fence, NULL, NULL);
}

int redlock_fence_admit_shared(struct redlock_fence_gate *gate, const void *resource, size_t bytes,
                               int64_t fence) {
    return redlock_fence_do_shared(gate, resource, bytes, fence, NULL, NULL);
}

int redlock_fence_least(struct redlock_fence_gate *gate, const void *resource, size_t bytes,
                        int64_t *fence) {
    struct visit visit;
    if (!fence) return REDLOCK_BAD_ARGUMENT;
    int result = enter(&visit, gate, resource, bytes);
    if (result != REDLOCK_OK) return result;
    int64_t least = gate_bucket_least(visit.bucket, visit.print).writer;
    leave(&visit);
    *fence = least > 1 ? least : 1;
    return REDLOCK_OK;
}
