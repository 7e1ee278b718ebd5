/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What all of the gateway needs of its loop: the time, the turns, and notices.
 */
#include "gateway.h"

#include <inttypes.h>
#include <time.h>

#include <event2/event.h>

int64_t gateway_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void gateway_soon(struct event *event) {
    if (!evtimer_pending(event, NULL)) event_active(event, 0, 0);
}

/* An event that is activated by itself would run again before the loop looks at its sockets. */
void gateway_next_turn(struct event *event) {
    static const struct timeval at_once = {0};
    event_del(event);
    event_add(event, &at_once);
}

void notice_say(struct notice *notice, const struct serve_options *options, const char *text) {
    const int64_t now = gateway_now_ns();
    if (now < notice->silent_until_ns) {
        notice->left_out++;
        return;
    }
    if (notice->left_out > 0)
        options->say("%s (and %" PRIu64 " times since this was last logged)", text,
                     notice->left_out);
    else
        options->say("%s", text);
    notice->left_out = 0;
    notice->silent_until_ns = now + NOTICE_PAUSE_NS;
}
