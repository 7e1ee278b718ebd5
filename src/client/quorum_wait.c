/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waiting, chance, and saying why not, for the operator's commands.
 */
#include <stdarg.h>
#include <stdio.h>

#include "quorum.h"

#define LOOK_EVERY (1000 * RL_MS)

/* ---- time and chance ---- */

/* 0: the kernel gives none. */
static uint64_t draw(struct quorum_work *work) {
    uint64_t random = 0;
    if (client_enter(work->client) != REDLOCK_OK) return 0;
    int failed = 0;
    while (random == 0 && failed == 0)
        failed = net_random(work->client->net, &random, sizeof random);
    client_leave(work->client);
    return failed ? 0 : random;
}

uint64_t quorum_random(struct quorum_work *work) {
    uint64_t random = draw(work);
    if (random == 0) work->no_random = true;
    return random;
}

rl_ns quorum_now(struct quorum_work *work) {
    if (client_enter(work->client) != REDLOCK_OK) return 0;
    rl_ns now = net_now(work->client->net);
    client_leave(work->client);
    return now;
}

rl_ns quorum_quarantine(const struct quorum_work *work, int64_t ttl_ms) {
    const struct redlock_client_options *options = &work->client->options;
    const struct rl_terms terms = {.drift_ppm = options->drift_ppm,
                                   .drift_fixed = options->drift_ms * RL_MS};
    return ttl_ms * RL_MS + rl_drift(&terms, ttl_ms * RL_MS);
}

struct pause {
    struct net_timer timer;
    struct waiter waiter;
};

static void pause_over(struct net_timer *timer) {
    waiter_finish(&RL_CONTAINER(timer, struct pause, timer)->waiter);
}

void quorum_pause(struct quorum_work *work, rl_ns span) {
    struct pause pause = {.timer = {.fire = pause_over}};
    if (span <= 0 || client_enter(work->client) != REDLOCK_OK) return;
    waiter_init(&pause.waiter);
    net_timer_set(work->client->net, &pause.timer, net_now(work->client->net) + span);
    client_wait(work->client, &pause.waiter);
    net_timer_set(work->client->net, &pause.timer, RL_NEVER);
    client_leave_telling(work->client);
}

void quorum_pause_randomly(struct quorum_work *work, unsigned tries) {
    rl_ns most = (rl_ns)(tries < 10 ? tries : 10) * 20 * RL_MS;
    quorum_pause(work, (rl_ns)(draw(work) % (uint64_t)(most + 1)));
}

void quorum_tell(struct quorum_work *work, const char *text, rl_ns left) {
    if (work->options.progress)
        work->options.progress(work->options.progress_context, text,
                               left < 0 ? -1 : (left + RL_MS - 1) / RL_MS);
}

bool quorum_wait(struct quorum_work *work, rl_ns span, const char *text,
                 bool (*unbroken)(struct quorum_work *, void *), void *context) {
    rl_ns end = quorum_now(work) + span, left = span;
    while (left > 0) {
        quorum_tell(work, text, left);
        quorum_pause(work, left < LOOK_EVERY ? left : LOOK_EVERY);
        if (!unbroken(work, context)) return false;
        left = end - quorum_now(work);
    }
    return true;
}

/* ---- why not ---- */

int quorum_fail_random(struct quorum_work *work) {
    return fail(
        &work->error, REDLOCK_SYSTEM,
        "the kernel gives no random bytes (getrandom), and without them two records could look like one: nothing "
        "more was written");
}

int quorum_fail(struct quorum_work *work, int result, const char *format, ...) {
    char text[sizeof work->error.text];
    va_list args;
    if (work->no_memory) return fail(&work->error, REDLOCK_NO_MEMORY, "out of memory");
    if (work->no_random) return quorum_fail_random(work);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail(&work->error, result, "%s", text);
}

int quorum_fail_node(struct quorum_work *work, unsigned node, const char *cure) {
    struct redlock_node_status status = {.size = sizeof status};
    const struct quorum_seat *seat = &work->seat[node];
    bool told = redlock_client_node(work->client, node, &status) == REDLOCK_OK &&
                status.text[0] != '\0' && status.verdict == seat->verdict;
    if (seat->verdict == REDLOCK_VERDICT_NOPERM)
        cure =
            "Allow its user what docs/acl.md lists under guarded mode, and run the command again";
    return quorum_fail(work, REDLOCK_NO_QUORUM, "%s: %s%s%s%s. %s", seat->url,
                       redlock_verdict_text(seat->verdict), told ? " (" : "",
                       told ? status.text : "", told ? ")" : "", cure);
}
