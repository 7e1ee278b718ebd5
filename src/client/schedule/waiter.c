/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How one thread sleeps until another wakes it: a word of its own, and a futex. A condition
 * variable would have to be signalled with the mutex held, since the waiter's memory may be gone
 * once the mutex is given back; and then each thread would wake up only to wait for the mutex. Here
 * the word changes first, and of the waiter the waking thread uses no more than the address.
 *
 * A driver mostly wakes several. So the first 32 sleep on one futex, the bell, each with a bit of
 * its own, its slot, and one system call wakes those that are meant. Those that find no slot sleep
 * on their own words.
 *
 * To sleep and be woken costs two system calls and, where a processor has nothing else to do, its
 * waking up: for a few callers on one client that was most of what their turns took beside the
 * servers. So a thread first gives its processor away a few times (sched_yield) without lying down.
 * While servers on this machine, or the other callers, have work they do it then, and are mostly
 * done when it comes back: the driver finds it up and needs no system call. Where nobody else wants
 * the processor the few times are over before a sleep would be. It is not for always:
 *
 * - Where waits last longer, as on a slow network or for a lock that another holds, it is in vain.
 *   Then it is tried less and less often, until it pays again.
 * - A thread that gives its processor away stands behind all others that can run, and those who
 *   compute keep it for milliseconds, while one who sleeps is let in before them when it is woken:
 *   with two busy loops beside, rates fell to a seventh. So the waking thread notes the time, and
 *   when the woken one sees it much later, nobody gives anything away for some times as long; four
 *   times that where it happens again soon (DEAR).
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
/* Longer than others work for a turn, shorter than a scheduler's slice for those who compute. */
#define LATE (RL_MS / 2)
#define LATE_MAX (10 * RL_MS)
enum {
    DEAR = 4
}; /* it saves a fifth of the time: more is lost if one is late again within so many times that */
enum { REST_MIN = 1, REST_MAX = 10 }; /* powers of two, times what was lost */

_Static_assert(sizeof(atomic_uint) == 4, "a futex is a word of 32 bits");

/* What the kernel takes as a timespec, whatever the C library's is on a machine of 32 bits. */
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

/* After n times in vain each 2^n-th wait tries it. What threads overwrite of each other's here is
 * but a guess. */
static bool may_yield(struct sleepers *sleepers, rl_ns now) {
    unsigned vain = atomic_load_explicit(&sleepers->vain, memory_order_relaxed);
    unsigned nth = atomic_fetch_add_explicit(&sleepers->waits, 1, memory_order_relaxed);
    if (nth & ((1U << vain) - 1)) return false;
    return now >= atomic_load_explicit(&sleepers->not_before, memory_order_relaxed);
}

static void learn(struct sleepers *sleepers, bool paid) {
    unsigned vain = atomic_load_explicit(&sleepers->vain, memory_order_relaxed);
    unsigned then = paid ? vain - (vain > 0) : vain + (vain < VAIN_MAX);
    if (then != vain) atomic_store_explicit(&sleepers->vain, then, memory_order_relaxed);
}

/* Who waited since `from` was up late. Several mostly see the same; the first of them tells it. */
static void rest(struct sleepers *sleepers, rl_ns from, rl_ns now, rl_ns late) {
    rl_ns before = atomic_load_explicit(&sleepers->not_before, memory_order_relaxed);
    unsigned times = atomic_load_explicit(&sleepers->rest, memory_order_relaxed);
    if (before > from) return;
    if (late > LATE_MAX) late = LATE_MAX; /* the process was stopped, perhaps */
    bool again = from - before < late * DEAR;
    if (again) times = times + 2 < REST_MAX ? times + 2 : REST_MAX;
    if (!again && times > 0) times--;
    if (times < REST_MIN) times = REST_MIN;
    atomic_store_explicit(&sleepers->rest, times, memory_order_relaxed);
    atomic_store_explicit(&sleepers->not_before, now + (late << times), memory_order_relaxed);
}

/* True: woken already. */
static bool woken_while_others_run(struct waiter *waiter) {
    struct sleepers *sleepers = &waiter->schedule->sleepers;
    rl_ns from = monotonic_now();
    if (!may_yield(sleepers, from)) return false;
    bool woken = false;
    for (int i = 0; i < YIELDS_MAX && !woken; i++) {
        sched_yield();
        woken = atomic_load(&waiter->word) == WOKEN;
    }
    learn(sleepers, woken);
    if (!woken) return false;
    rl_ns now = monotonic_now(), late = now - waiter->woken_at;
    if (late >= LATE) rest(sleepers, from, now, late);
    return true;
}

void waiter_lie_down(struct waiter *waiter) {
    struct sleepers *sleepers = &waiter->schedule->sleepers;
    unsigned vacant = ~sleepers->slots;
    waiter->slot = vacant & -vacant; /* the lowest */
    sleepers->slots |= waiter->slot;
    atomic_store(&waiter->word, UP);
}

/* The next thread with this slot may be woken in vain, and looks at its own word then. */
void waiter_get_up(struct waiter *waiter) { waiter->schedule->sleepers.slots &= ~waiter->slot; }

bool waiter_sleep(struct waiter *waiter, rl_ns span) {
    unsigned up = UP;
    if (atomic_load(&waiter->word) == UP && woken_while_others_run(waiter)) return true;
    atomic_compare_exchange_strong(&waiter->word, &up, ASLEEP);
    const rl_ns until = span == RL_NEVER ? 0 : monotonic_now() + span;
    const struct span at = {(long)(until / 1000000000), (long)(until % 1000000000)};
    atomic_uint *on = waiter->slot ? &waiter->schedule->sleepers.bell : &waiter->word;
    const unsigned bits = waiter->slot ? waiter->slot : FUTEX_BITSET_MATCH_ANY;
    for (;;) {
        unsigned seen = atomic_load(on); /* first: a ring after this is not slept through */
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
