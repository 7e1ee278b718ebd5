/* SPDX-License-Identifier: BSD-2-Clause */
#include "keep.h"

#include <redlock/metrics.h>

#include "process/boottime.h"

#define AGAIN (1000 * MS) /* after an extension that failed; renewals go on meanwhile */

static void extended(void *context, struct redlock_lock *lock, int result) {
    struct keep *keep = context;
    (void)lock;
    if (result == REDLOCK_OK) keep->proven = keep->asks_for;
    keep->asks_for = 0;
    keep->look_at = result == REDLOCK_OK ? now_ns() : now_ns() + AGAIN;
}

static int64_t ttl_max(const struct keep *keep) {
    struct redlock_stats stats;
    redlock_stats_init(&stats);
    redlock_client_stats(keep->client, &stats);
    return (stats.ttl_max_ms > 0 ? stats.ttl_max_ms : REDLOCK_TTL_MS_MAX) * MS;
}

static void extend(struct keep *keep, int64_t now, int64_t until) {
    keep->asks_for = until;
    keep->look_at = NEVER;
    const int result =
        redlock_extend_start(keep->lock, (until - now + MS - 1) / MS, extended, keep);
    if (result != REDLOCK_OK) extended(keep, keep->lock, result);
}

enum keep_next keep_step(struct keep *keep, bool hurries) {
    const int64_t now = now_ns();
    if (keep->asks_for != 0) return KEEP_STAYS;
    if (now >= keep->until) return KEEP_RELEASE;
    if (keep->proven >= keep->until) return KEEP_LEAVE;
    if (redlock_validity_end_ns(keep->lock) >= keep->until) {
        keep->look_at = keep->until;
        return hurries ? KEEP_LEAVE : KEEP_STAYS;
    }
    if (keep->asked_last) return KEEP_LEAVE;
    const int64_t longest = ttl_max(keep), most = now + longest;
    if (!hurries && most < keep->until) {
        keep->look_at = keep->until - longest;
        return KEEP_STAYS;
    }
    if (!hurries && now < keep->look_at) return KEEP_STAYS;
    keep->asked_last = hurries;
    extend(keep, now, most < keep->until ? most : keep->until);
    return KEEP_STAYS;
}
