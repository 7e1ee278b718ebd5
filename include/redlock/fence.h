/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The resource's side of a lock. A gate stands before a resource and refuses an operation whose
 * fencing token is below the highest token seen for that resource. A holder that was paused past
 * its validity therefore does no harm when it continues. A gate needs no client and no lock server.
 * fencing.md shows it at work.
 *
 * A fencing token, or fence, is a number from 1 to REDLOCK_FENCE_MAX that grows from one holder of
 * a lock to the next. Every operation passes the gate, reads too: a read reserves, so that a client
 * that read before a newer holder came cannot write after it. A gate in memory forgets when its
 * process ends. Give it a file if the resource lives longer.
 *
 * A gate has constant size. If it sees more resources than fit, it drops the lowest fences into a
 * common floor. A holder whose fence is below the floor may then be refused although no other
 * client used its resource. It acquires the lock again and passes with the new fence. The gate
 * never admits an operation that it should refuse.
 *
 * All functions are thread-safe. A child after fork(2) cannot use its parent's gate (FORKED); it
 * opens its own.
 */
#ifndef REDLOCK_FENCE_H
#define REDLOCK_FENCE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_FENCE_RESOURCES_MAX 16777216

struct redlock_fence_gate;

struct redlock_fence_gate_options {
    size_t size; /* set by _init() */
    /* NULL: the gate is in memory. Else a file that processes of one machine may share; an
     * admission is on disk before the call returns. It is created with the mode that the umask
     * leaves; every process that shares it must be able to read and write it. Never copy, restore
     * or remove the file: the gate would forget. Copied. */
    const char *path;
    /* 4096. How many resources are told apart, 1 to REDLOCK_FENCE_RESOURCES_MAX, 32 bytes
     * each. An existing file keeps its own number. */
    size_t resources;
    /* 1: create the file if it is absent. 0: its absence is an error (SYSTEM). */
    int create;
};
/* Writes the defaults into a struct of `size` bytes. Call _init() instead. */
REDLOCK_API void redlock_fence_gate_options_fill(struct redlock_fence_gate_options *options,
                                                 size_t size);
static inline void redlock_fence_gate_options_init(struct redlock_fence_gate_options *options) {
    redlock_fence_gate_options_fill(options, sizeof *options);
}

/* Opens a gate. `options` NULL: in memory. On failure *gate is left alone, and *error (which may be
 * NULL) says why. OK, BAD_ARGUMENT, NO_MEMORY, SYSTEM (see errno; EBADMSG: the file is truncated,
 * damaged, or not a gate). */
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_fence_gate_open(const struct redlock_fence_gate_options *options,
                        struct redlock_fence_gate **gate, struct redlock_error *error);
/* Closes and frees a gate. No other call on it may be in progress. NULL is fine. */
REDLOCK_API void redlock_fence_gate_free(struct redlock_fence_gate *gate);

/* Admits `fence` to the resource (1 to REDLOCK_RESOURCE_BYTES_MAX bytes) unless the gate has seen a
 * higher one, and remembers it. The same fence passes any number of times. Use this for operations
 * that already follow one another, each admitted and done before the next is admitted; otherwise
 * use redlock_fence_do(). Blocks while another thread or process is inside the gate, and while a
 * file is synchronised. OK; FENCED: do not touch the resource, and consider your lock lost;
 * BAD_ARGUMENT; FORKED; SYSTEM (see errno; nothing is admitted: a gate whose file fails refuses
 * every operation). */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_admit(struct redlock_fence_gate *gate,
                                                       const void *resource, size_t bytes,
                                                       int64_t fence);

/* What redlock_fence_do() runs. It must not call a function of the same gate. NULL: nothing, so the
 * call is redlock_fence_admit(). */
typedef void redlock_fence_act_fn(void *context);
/* As redlock_fence_admit(), and runs `act` once, in this thread, while no other operation is inside
 * the gate: an operation that is admitted later finds it done. The fence is remembered whether or
 * not `act` succeeds; report that through `context`. Results as redlock_fence_admit(). */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_do(struct redlock_fence_gate *gate,
                                                    const void *resource, size_t bytes,
                                                    int64_t fence, redlock_fence_act_fn *act,
                                                    void *context);

/* The same for a holder of a shared lock (shared.md), which only reads. It passes unless a
 * writer with a higher fence was there; readers do not refuse each other. A writer passes after it
 * only with a fence above the reader's: the writer before may have the reader's fence. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_admit_shared(struct redlock_fence_gate *gate,
                                                              const void *resource, size_t bytes,
                                                              int64_t fence);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_do_shared(struct redlock_fence_gate *gate,
                                                           const void *resource, size_t bytes,
                                                           int64_t fence, redlock_fence_act_fn *act,
                                                           void *context);

/* Sets *fence to the least fence that the resource would admit to a writer now; 1 if it would admit
 * every fence. Use it for messages, not for decisions. OK, BAD_ARGUMENT, FORKED, SYSTEM. */
REDLOCK_API int redlock_fence_least(struct redlock_fence_gate *gate, const void *resource,
                                    size_t bytes, int64_t *fence);

#ifdef __cplusplus
}
#endif
#endif
