/* SPDX-License-Identifier: BSD-2-Clause
 *
 * chaos_mark LOG REGISTER RESOURCE SLOT MS: the command that `redlock run` runs under its lock. It
 * is inside for as long as it lives, and says so every two milliseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "record.h"

int main(int count, char **words) {
    if (count != 6) return 64;
    int log = chaos_log_open(words[1]);
    struct chaos_cell *cells = chaos_register_open(words[2]);
    const char *fence = getenv("REDLOCK_FENCE");
    struct chaos_record record = {.kind = CHAOS_GRANT,
                                  .end_ns = INT64_MAX,
                                  .fence = fence ? atoll(fence) : 0,
                                  .resource = (uint32_t)atoi(words[3]),
                                  .slot = (uint32_t)atoi(words[4]),
                                  .turn = (uint32_t)getpid()};
    if (record.resource >= CHAOS_CELLS) return 64;
    int64_t began_ns = chaos_now_ns(), until_ns = began_ns + atoll(words[5]) * 1000000;
    record.at_ns = began_ns;
    record.asked_ns = began_ns; /* it asked earlier; only the judge of fences looks at this */
    chaos_log_write(log, &record);
    while (record.at_ns < until_ns) {
        const struct timespec nap = {0, 2000000};
        if (record.fence > 0) {
            record.asked_ns = chaos_register_write(&cells[record.resource], record.fence);
            record.kind = CHAOS_REFUSED;
            record.end_ns = 0; /* it cannot know whether it was still inside */
            if (record.asked_ns) chaos_log_write(log, &record);
        }
        nanosleep(&nap, NULL);
        record.kind = CHAOS_TICK;
        record.at_ns = chaos_now_ns();
        chaos_log_write(log, &record);
    }
    record.kind = CHAOS_LEAVE;
    record.at_ns = chaos_now_ns();
    chaos_log_write(log, &record);
    return 0;
}
