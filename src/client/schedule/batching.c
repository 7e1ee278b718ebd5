/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests of many threads go out together. Callers that were answered in one turn of the driver
 * are mostly back with their next calls within microseconds. If each of them sent its own request,
 * every node would be written to, would read and would answer once for each. So callers are counted
 * when they are answered. A caller that comes back before the last of them leaves its request in
 * the buffers and sleeps. The last one flushes for all, and drives. So N threads cost the sockets
 * and the nodes no more than N requests of one event loop. In addition, each turn has N - 1 sleeps
 * and wakes, which blocking threads cannot avoid. A single thread is always the last one.
 *
 * Not all come back: some now have a lock, and work to do under it. The first caller that holds its
 * request back is the flush leader. It sleeps only for a short time, and then flushes and drives.
 * Each time that happens the next turns are flushed at once, twice as many as the time before,
 * until callers come back together again. So threads that work independently are hardly ever
 * delayed. */
#include "turn.h"

/* How long to wait for callers that were answered together: each must get a processor. */
#define PATIENCE (RL_MS * 15 / 100)
#define PATIENCE_EACH (RL_MS * 25 / 1000)
enum { BACKOFF_MAX = 256 };

void push_out(struct schedule *schedule) {
    schedule->held_back = false;
    schedule->flush_leader = NULL;
    net_flush(schedule->net);
}

rl_ns patience(const struct schedule *schedule) {
    return PATIENCE + schedule->group * PATIENCE_EACH;
}

/* The wait was wasted: the next turns skip it, more of them each time. */
void not_back_in_time(struct schedule *schedule) {
    schedule->returning = 0;
    if (schedule->group < 2) return;
    schedule->backoff = 2 * schedule->backoff + 1;
    if (schedule->backoff > BACKOFF_MAX) schedule->backoff = BACKOFF_MAX;
    schedule->spared = schedule->backoff;
}

void expect_back(struct schedule *schedule) {
    if (schedule->finishes == 0) return;
    rl_ns now = net_now(schedule->net);
    if (schedule->returning > 0 && now - schedule->returning_since > patience(schedule))
        not_back_in_time(schedule);
    schedule->returning += schedule->finishes;
    schedule->group = schedule->returning;
    schedule->returning_since = now;
    schedule->finishes = 0;
    if (schedule->spared > 0) schedule->spared--;
}

/* A caller is back. True: others are expected, and the last one sends for all. */
bool hold_back(struct schedule *schedule) {
    if (schedule->returning == 0) return false;
    if (net_now(schedule->net) - schedule->returning_since > patience(schedule)) {
        not_back_in_time(schedule);
        return false;
    }
    if (--schedule->returning > 0) return schedule->spared == 0;
    if (schedule->group > 1) schedule->backoff /= 2;
    return false;
}
