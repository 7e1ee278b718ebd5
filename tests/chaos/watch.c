/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who leads, as observers report it: one for each election, in the worker's own client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

struct watch {
    struct worker *worker;
    struct redlock_observer *observer;
    uint32_t election;
};

static void on_report(void *context, const struct redlock_leader *leader) {
    const struct watch *watch = context;
    if (leader->state != REDLOCK_LEADER_KNOWN) return;
    const struct chaos_record record = {.at_ns = chaos_now_ns(),
                                        .end_ns = leader->sure_until_ns,
                                        .fence = leader->term,
                                        .asked_ns = chaos_id(leader->id.data, leader->id.bytes),
                                        .kind = CHAOS_OBSERVED,
                                        .resource = CHAOS_ELECTIONS + watch->election};
    chaos_log_write(watch->worker->log, &record);
}

struct watch *watch_begin(struct worker *worker) {
    struct watch *watches = calloc(worker->elections, sizeof *watches);
    if (!watches) die("observers", "no memory");
    for (uint32_t i = 0; i < worker->elections; i++) {
        struct watch *watch = &watches[i];
        struct redlock_error error = {0};
        char name[16];
        *watch = (struct watch){.worker = worker, .election = i};
        snprintf(name, sizeof name, "l%u", i);
        if (redlock_observe_start(worker->client, name, strlen(name), on_report, watch,
                                  &watch->observer, &error) != REDLOCK_OK)
            die(name, error.text);
    }
    return watches;
}

void watch_end(struct watch *watches) {
    if (!watches) return;
    for (uint32_t i = 0; i < watches->worker->elections; i++)
        redlock_observe_stop(watches[i].observer);
    free(watches);
}
