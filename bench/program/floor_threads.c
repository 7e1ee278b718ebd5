/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor with blocking threads: the least work of N threads that share their connections and
 * block in each call. Of the threads that are answered in one turn, N - 1 sleep and are woken;
 * nothing else is added to the floor.
 *
 * The last thread that returns sends and reads for all. So only the N - 1 are woken, and each node
 * is written to once a turn. Left out: threads that do not come back at the same time; one that is
 * done before the others are.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor_turns.h"
#include "process/message.h"

struct team {
    struct floor *floor;
    pthread_mutex_t mutex;
    unsigned back;    /* with their next command */
    atomic_uint turn; /* the waiting threads sleep on it */
    int result;
};

struct member {
    pthread_t thread;
    struct team *team;
    unsigned slot;
};

static void sleep_through(atomic_uint *turn, unsigned now) {
    while (atomic_load(turn) == now)
        syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

/* One blocking call. False: there is no further one. */
static bool call(struct team *team, unsigned slot) {
    pthread_mutex_lock(&team->mutex);
    if (team->result != 0) { /* a thread could not be started */
        pthread_mutex_unlock(&team->mutex);
        return false;
    }
    const unsigned turn = atomic_load(&team->turn);
    floor_say(team->floor, slot);
    const bool last = ++team->back == floor_busy(team->floor);
    pthread_mutex_unlock(&team->mutex);
    if (last) {
        team->back = 0;
        team->result = floor_turn(team->floor);
        atomic_store(&team->turn, turn + 1);
        syscall(SYS_futex, &team->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    } else {
        sleep_through(&team->turn, turn);
    }
    return team->result == 0 && floor_busy(team->floor) > 0;
}

static void *work(void *context) {
    const struct member *member = context;
    while (call(member->team, member->slot)) continue;
    return NULL;
}

int floor_run_threads(struct floor *floor, const struct floor_work *plan, struct meter *meter) {
    struct team team = {.floor = floor, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct member *members = calloc(plan->in_flight, sizeof *members);
    unsigned started = 0;
    if (members == NULL || floor_begin(floor, plan, meter) != 0) {
        free(members);
        return -1;
    }
    pthread_mutex_lock(&team.mutex);
    for (; started < plan->in_flight && team.result == 0; started++) {
        members[started] = (struct member){.team = &team, .slot = started};
        if (pthread_create(&members[started].thread, NULL, work, &members[started]) != 0)
            team.result = -1;
    }
    if (team.result != 0) complain("cannot start thread %u", started--);
    pthread_mutex_unlock(&team.mutex);
    for (unsigned i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
    free(members);
    return floor_end(floor, team.result);
}
