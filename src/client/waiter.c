/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How one thread sleeps until another wakes it: a futex of its own. A condition variable would have to be signalled
 * with the mutex held, since the waiter's memory may be gone once the mutex is given back; and then each thread would
 * wake up only to wait for the mutex. Here the word changes first, and of the waiter the waking thread uses no more
 * than the address.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

enum { ASLEEP, WOKEN };

_Static_assert(sizeof(atomic_uint) == 4, "a futex is a word of 32 bits");

/* What the kernel takes as a timespec, whatever the C library's is on a machine of 32 bits. */
struct span {
    long seconds, nanoseconds;
};

static long futex(atomic_uint *word, int operation, unsigned value, const struct span *span) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, span, NULL, 0);
}

void waiter_lie_down(struct waiter *waiter) { atomic_store(&waiter->word, ASLEEP); }

bool waiter_sleep(struct waiter *waiter, rl_ns span) {
    const struct span relative = {(long)(span / 1000000000), (long)(span % 1000000000)};
    while (atomic_load(&waiter->word) == ASLEEP) {
        long failed = futex(&waiter->word, FUTEX_WAIT, ASLEEP, span == RL_NEVER ? NULL : &relative);
        if (failed && errno == ETIMEDOUT) return atomic_load(&waiter->word) == WOKEN;
    }
    return true;
}

void waiter_wake(struct waiter *waiter) {
    atomic_uint *word = &waiter->word;
    atomic_store(word, WOKEN);
    futex(word, FUTEX_WAKE, 1, NULL);
}
