/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How one thread sleeps until another wakes it: a word of its own, and a futex. A condition
 * variable must be signalled with the mutex held, because the waiter's memory may be gone once the
 * mutex is released; then each thread would wake only to wait for the mutex. Here the word changes
 * first, and the waking thread uses only the waiter's address afterwards.
 *
 * A driver mostly wakes several threads. So the first 32 sleep on one futex, the bell, each with a
 * bit of its own, its slot, and one system call wakes those that are meant. A thread that finds no
 * free slot sleeps on its own word.
 *
 * To sleep and be woken costs two system calls and, on an idle processor, the time to wake it up.
 * For a few callers on one client that was most of the time of a turn, apart from the servers. So a
 * thread first yields its processor a few times (sched_yield) before it sleeps. Servers on this
 * machine, or the other callers, do their work then, and have mostly finished when the thread runs
 * again: the driver finds it awake and needs no system call. If no other thread needs the
 * processor, the few yields take less time than a sleep. Yielding does not always pay:
 *
 * - Where waits last longer, as on a slow network or for a lock that another client holds, it is
 *   wasted. Then it is tried less and less often, until it pays again.
 * - A thread that yields queues behind all others that can run, and those that compute keep the
 *   processor for milliseconds. A thread that sleeps goes before them when it is woken. With two
 *   busy loops on the machine, rates fell to a seventh. So the waking thread notes the time. When
 *   the woken one sees it much later, no thread yields for a while.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "turn.h"

enum { UP, ASLEEP, WOKEN };
enum { YIELDS_MAX = 4, VAIN_MAX = 6 };
/* Longer than other threads work in a turn, shorter than the slice of a thread that computes. */
#define LATE (RL_MS / 2)
#define REST (100 * RL_MS) /* many such slices */

_Static_assert(sizeof(atomic_uint) == 4, "a futex is a word of 32 bits");

/* The kernel's form of a timespec, whatever the C library's form is on a 32-bit machine. */
struct span {
    long seconds, nanoseconds;
};

/* `until`: on CLOCK_MONOTONIC. */
static long futex(atomic_uint *word, int operation, unsigned value, const struct span *until,
                  unsigned bits) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, NULL, bits);
}

static rl_ns monotonic_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (rl_ns)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* True: woken already. After n wasted tries, only each 2^n-th wait tries it. Threads may overwrite
 * each other's values here, because they are only an estimate. */
static bool woken_while_others_run(struct waiter *waiter) {
    struct sleepers *sleepers = &waiter->schedule->sleepers;
    unsigned vain = atomic_load_explicit(&sleepers->vain, memory_order_relaxed);
    unsigned nth = atomic_fetch_add_explicit(&sleepers->waits, 1, memory_order_relaxed);
    if (nth & ((1U << vain) - 1)) return false;
    if (monotonic_now() < atomic_load_explicit(&sleepers->not_before, memory_order_relaxed))
        return false;
    bool woken = false;
    for (int i = 0; i < YIELDS_MAX && !woken; i++) {
        sched_yield();
        woken = atomic_load(&waiter->word) == WOKEN;
    }
    vain = atomic_load_explicit(&sleepers->vain, memory_order_relaxed);
    unsigned then = woken ? vain - (vain > 0) : vain + (vain < VAIN_MAX);
    if (then != vain) atomic_store_explicit(&sleepers->vain, then, memory_order_relaxed);
    if (!woken) return false;
    const rl_ns now = monotonic_now();
    if (now - waiter->woken_at >= LATE)
        atomic_store_explicit(&sleepers->not_before, now + REST, memory_order_relaxed);
    return true;
}

void waiter_take_slot(struct waiter *waiter) {
    struct sleepers *sleepers = &waiter->schedule->sleepers;
    unsigned vacant = ~sleepers->slots;
    waiter->slot = vacant & -vacant; /* the lowest */
    sleepers->slots |= waiter->slot;
    atomic_store(&waiter->word, UP);
}

/* A wake may still reach the next thread with this slot, which then checks its own word. */
void waiter_free_slot(struct waiter *waiter) { waiter->schedule->sleepers.slots &= ~waiter->slot; }

bool waiter_sleep(struct waiter *waiter, rl_ns span) {
    unsigned up = UP;
    if (atomic_load(&waiter->word) == UP && woken_while_others_run(waiter)) return true;
    atomic_compare_exchange_strong(&waiter->word, &up, ASLEEP);
    const rl_ns until = span == RL_NEVER ? 0 : monotonic_now() + span;
    const struct span at = {(long)(until / 1000000000), (long)(until % 1000000000)};
    atomic_uint *on = waiter->slot ? &waiter->schedule->sleepers.bell : &waiter->word;
    const unsigned bits = waiter->slot ? waiter->slot : FUTEX_BITSET_MATCH_ANY;
    for (;;) {
        unsigned seen = atomic_load(on); /* first, so that it does not miss a ring after this */
        if (atomic_load(&waiter->word) == WOKEN) return true;
        long failed = futex(on, FUTEX_WAIT_BITSET, seen, span == RL_NEVER ? NULL : &at, bits);
        if (failed && errno == ETIMEDOUT) return atomic_load(&waiter->word) == WOKEN;
    }
}

void waiters_wake(struct schedule *schedule, struct waiter *first) {
    const rl_ns now = first ? monotonic_now() : 0;
    unsigned bits = 0;
    while (first) {
        struct waiter *waiter = first;
        atomic_uint *word = &waiter->word;
        unsigned slot = waiter->slot;
        first = waiter->next;
        waiter->woken_at = now;
        if (atomic_exchange(word, WOKEN) != ASLEEP) continue;
        if (!slot) futex(word, FUTEX_WAKE_BITSET, 1, NULL, FUTEX_BITSET_MATCH_ANY);
        bits |= slot;
    }
    if (!bits) return;
    atomic_fetch_add(&schedule->sleepers.bell, 1);
    futex(&schedule->sleepers.bell, FUTEX_WAKE_BITSET, INT_MAX, NULL, bits);
}
