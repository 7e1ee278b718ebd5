/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Callbacks: queued under the mutex, run outside it by one thread at a time.
 */
#include "turn.h"

/* So many callbacks hold up what the first of them asked for. */
enum { TOLD_PER_FLUSH = 256 };

bool schedule_is_queued(const struct told *told) { return told->next != NULL; }

void schedule_tell(struct schedule *schedule, struct told *told) {
    if (!told->next) {
        if (schedule->told_first)
            schedule->told_last->next = told;
        else
            schedule->told_first = told;
        schedule->told_last = told->next = told;
    }
    if (schedule->service_runs) wake_service(schedule);
}

struct told *schedule_next_told(struct schedule *schedule) {
    struct told *told = schedule->told_first;
    if (!told) return NULL;
    schedule->told_first = told->next == told ? NULL : told->next;
    told->next = NULL;
    return told;
}

void schedule_out(struct schedule *schedule, struct told *told) {
    schedule->telling = told;
    schedule->telling_thread = pthread_self();
    unlock(schedule);
}

void schedule_in(struct schedule *schedule) {
    pthread_mutex_lock(&schedule->mutex);
    schedule->telling = NULL;
    pthread_cond_broadcast(&schedule->told_cond);
}

/* What callbacks ask for goes out together: one write for each node, not one for each lock. */
void tell_all(struct schedule *schedule) {
    for (unsigned count = 1; schedule->told_first && !schedule->telling; count++) {
        schedule->tell(schedule_next_told(schedule));
        if (count % TOLD_PER_FLUSH != 0 && schedule->told_first) continue;
        push_out(schedule);
        if (schedule->driver == DRIVER_NONE) wake_successor(schedule);
    }
}

void schedule_hush(struct schedule *schedule, const struct told *told) {
    while (schedule->telling == told && !pthread_equal(schedule->telling_thread, pthread_self()))
        pthread_cond_wait(&schedule->told_cond, &schedule->mutex);
}
