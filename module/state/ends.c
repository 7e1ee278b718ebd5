/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/ends.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "state/clock.h"
#include "state/mirror.h"

enum { AT_ONCE = 16, PORTION_US = 50, CRON_PORTIONS = 20, ASK_EVERY_MS = 1000, CRON_MS = 100 };

static int timer = -1;
static int64_t armed_ms = INT64_MAX; /* when the timer fires; INT64_MAX: never */
static struct server_ctx *own_ctx;   /* for what happens between commands */

static void arm(int64_t at_ms) {
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000 * 1000000)}};
    if (at_ms < 1) at.it_value.tv_nsec = 1; /* 0 would disarm it */
    if (at_ms == INT64_MAX) at.it_value = (struct timespec){0};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
    armed_ms = at_ms;
}

/* Of leases, of reservations, and of what the queue remembers; and memory is freed at once. */
static int64_t next_ms(void) {
    if (node_frees_more(node.table)) return 0;
    int64_t end_ms = node_next_expiry(node.table), turn_us = node_queue_next(node.queue);
    int64_t turn_ms = turn_us == INT64_MAX ? INT64_MAX : turn_us / 1000 + 1;
    return end_ms < turn_ms ? end_ms : turn_ms;
}

void ends_changed(void) {
    int64_t at_ms = next_ms();
    if (timer >= 0 && at_ms < armed_ms) arm(at_ms);
}

/* Nothing changes between commands while the server changes nothing itself. Paused (by CLIENT
 * PAUSE, FAILOVER, or a SHUTDOWN that waits for its replicas), it would end by a failed assertion
 * if there were something to pass on. A replica's keys are its master's. Keys must not change under
 * a slow script, during which the server serves others, or while data is loaded. Leases that have
 * ended are refused in any case. */
static bool may_change(void) {
    return !(server.GetContextFlags(own_ctx) &
             (SERVER_IN_SCRIPT | SERVER_IS_LOADING | SERVER_IS_REPLICA)) &&
           !server.AvoidReplicaTraffic();
}

/* Ends what is due, for at most PORTION_US; the rest waits until the server has served others. */
static void end_portion(enum running running) {
    int64_t begin_us = boottime_us();
    node.ctx = own_ctx;
    node.running = running;
    node.flags = server.GetContextFlags(own_ctx);
    node.now_us = begin_us;
    node.now_ms = begin_us / 1000;
    node.keys_count = 0;
    while (node_expire_some(node.table, node.now_ms, AT_ONCE) == AT_ONCE)
        if (boottime_us() - begin_us >= PORTION_US) break;
    while (node_queue_tick(node.queue, node.now_us, AT_ONCE) == AT_ONCE)
        if (boottime_us() - begin_us >= PORTION_US) break;
    while (node_free_some(node.table, AT_ONCE) == AT_ONCE)
        if (boottime_us() - begin_us >= PORTION_US) break;
    node.ctx = NULL;
    int64_t took_us = boottime_us() - begin_us;
    if (took_us > node.ending_us_max) node.ending_us_max = took_us;
}

void ends_all(void) {
    const enum running running = may_change() ? RUNS_CRON : RUNS_TIMER;
    while (node_next_expiry(node.table) <= boottime_ms()) end_portion(running);
}

static void on_timer(int fd, void *context, int mask) {
    uint64_t times;
    (void)context;
    (void)mask;
    if (read(fd, &times, sizeof times) < 0 && errno != EAGAIN) return;
    /* The server passes on what a module deletes (to replicas, to an append-only file) after a
     * command and after its cron, and not after this. Redis 7.0 ends with a failed assertion if
     * there is something left to pass on then. So after a backward step of the wall clock, when
     * copies must be deleted, the cron does it. */
    if (!may_change() || mirror_needs_cron()) {
        arm(boottime_ms() + CRON_MS);
        return;
    }
    end_portion(RUNS_TIMER);
    arm(next_ms()); /* in the past: it fires again at once */
}

/* Also where there is a timer: a wrong descriptor must not leave leases in the table for ever. */
static void on_cron(struct server_ctx *ctx, struct server_event event, uint64_t sub, void *data) {
    static int64_t asked_ms = INT64_MIN / 2;
    (void)event;
    (void)sub;
    (void)data;
    int64_t now_ms = boottime_ms();
    if (now_ms - asked_ms >= ASK_EVERY_MS) {
        asked_ms = now_ms;
        mirror_ask_for_replicas(ctx);
    }
    if (!may_change()) return;
    for (int i = 0; i < CRON_PORTIONS && next_ms() <= now_ms; i++) end_portion(RUNS_CRON);
}

int ends_begin(struct server_ctx *ctx) {
    own_ctx = server.GetDetachedThreadSafeContext(ctx);
    if (server.SelectDb(own_ctx, node.db) != SERVER_OK) {
        server.Log(ctx, "warning", "there is no database %d", node.db);
        ends_stop();
        return SERVER_ERR;
    }
    mirror_ask_for_replicas(ctx);
    if (server.SubscribeToServerEvent(ctx, (struct server_event){SERVER_EVENT_CRON, 1}, on_cron) !=
        SERVER_OK) {
        server.Log(ctx, "warning", "the server does not announce its cron");
        return SERVER_ERR;
    }
    if (!server.EventLoopAdd) return SERVER_OK;
    timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer >= 0 && server.EventLoopAdd(timer, SERVER_READABLE, on_timer, NULL) == SERVER_OK)
        return SERVER_OK;
    server.Log(ctx, "warning", "no timer: %s",
               timer < 0 ? strerror(errno) : "the event loop refused it");
    ends_stop();
    return SERVER_ERR;
}

void ends_stop(void) {
    if (timer >= 0) {
        server.EventLoopDel(timer, SERVER_READABLE);
        close(timer);
    }
    timer = -1;
    armed_ms = INT64_MAX;
    if (own_ctx) server.FreeThreadSafeContext(own_ctx);
    own_ctx = NULL;
}
