/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The counting that both ways of failing.h share; each includes it once.
 */
#include <stdatomic.h>

#include "failing.h"

static atomic_bool armed, all_later;
static atomic_ulong until_failure, hits;
static atomic_long live;

void failing_begin(unsigned long nth, enum failing_how how) {
    atomic_store(&until_failure, nth);
    atomic_store(&all_later, how == FAIL_ALL_LATER);
    atomic_store(&hits, 0);
    atomic_store(&armed, true);
}

void failing_end(void) { atomic_store(&armed, false); }
bool failing_hit(void) { return atomic_load(&hits) > 0; }
long failing_live(void) { return atomic_load(&live); }

/* Called once for each allocation that is about to be made. */
static bool fails(void) {
    if (!atomic_load(&armed)) return false;
    unsigned long left = atomic_load(&until_failure);
    while (left > 0 && !atomic_compare_exchange_weak(&until_failure, &left, left - 1)) continue;
    bool now = left == 1 || (left == 0 && atomic_load(&all_later));
    if (now) atomic_fetch_add(&hits, 1);
    return now;
}

static void *counted(void *block) {
    if (block) atomic_fetch_add(&live, 1);
    return block;
}
