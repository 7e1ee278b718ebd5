/* SPDX-License-Identifier: BSD-2-Clause
 *
 * REDLOCK_TRACE=1: every step of a lock goes to the client's log, in the words of the golden traces
 * (tests/core/traces). Times count from the opening of the client. The log has no tokens. */
#include <stdlib.h>
#include <string.h>

#include "lock.h"
#include "trace/words.h"

void lock_trace(const struct redlock_lock *lock, const struct rl_event *event,
                const struct rl_actions *actions, rl_ns now) {
    enum { NAME_BYTES_MAX = 64 };
    const bool acquiring = lock->phase == PHASE_ACQUIRING;
    struct redlock_client *client = lock->client;
    const struct trace_context context = {
        .tries = acquiring ? lock->extra->acquisition->machine.tries : 0,
        .guarded = lock->config->mode->fenced,
        .validity = acquiring ? 0 : rl_lease_validity(&lock->lease, now),
        .left = acquiring ? 0 : lock->lease.validity_end - now,
    };
    struct text *text = calloc(1, sizeof *text);
    if (!text) return;
    /* "12.3ms nightly: node2 granted" */
    text_ms(text, now - client->opened_at);
    text_add(text, " ");
    for (size_t i = 0; i < lock->keys[0].bytes && i < NAME_BYTES_MAX; i++) {
        unsigned char c = ((const unsigned char *)lock->keys[0].data)[i];
        text_add(text, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    text_add(text, ": ");
    trace_event(text, event);
    text_add(text, "\n");
    trace_actions(text, actions, &context);
    if (actions->outcome == RL_OUTCOME_OK && acquiring) {
        text_add(text, "    == won with ");
        text_nodes(text, lock->extra->acquisition->machine.attempt.tally.granted);
        text_add(text, "\n");
    } else if (actions->outcome != RL_OUTCOME_NONE) {
        text_add(text, "    == %s: %s\n", acquiring ? "over" : "release",
                 rl_outcome_name(actions->outcome));
    }
    const char *state = acquiring ? rl_acquire_state_name(lock->extra->acquisition->machine.state)
                                  : rl_lease_state_name(lock->lease.state);
    rl_ns wake_at = actions->wake_at;
    trace_state(text, state, wake_at == RL_NEVER ? wake_at : wake_at - client->opened_at);
    for (char *line = text->data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        client->options.log(client->options.log_context, REDLOCK_LOG_DEBUG, line);
    }
    free(text);
}
