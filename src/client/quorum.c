/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's commands: what is asked for, and coming back.
 */
#include "abi/sized.h"
#include "quorum.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redlock_quorum_options_fill(struct redlock_quorum_options *options, size_t size) {
    const struct redlock_quorum_options defaults = {0};
    sized_fill(options, size, &defaults, sizeof defaults);
}

bool quorum_same_server(const struct quorum_seat *seat) {
    return seat->heard && !seat->empty && !seat->unreadable &&
           rl_record_fits(&seat->record, seat->run_id, seat->state.replid, seat->state.evicted);
}

/* ---- coming back ---- */

/* Not intact in the guard's eyes, or not known to be. */
static rl_mask behind_in(const struct guard *guard, rl_mask intact) {
    rl_mask behind = intact & (rl_mask)~guard->intact;
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        const struct rl_guard_node *node = &guard->machine.node[i];
        if ((intact & rl_bit(i)) && (!node->read || node->reread || node->errand == RL_ERRAND_READ))
            behind |= rl_bit(i);
    }
    return behind;
}

/* This client's own guard learns what was written: locks can be had through it when we return. */
static void hand_over(struct quorum_work *work, rl_mask intact) {
    struct redlock_client *client = work->client;
    rl_mask look = rl_all(work->nodes);
    rl_ns end = quorum_now(work) + client->options.connect_timeout_ms * RL_MS;
    for (rl_ns pause = RL_MS; quorum_now(work) < end;
         pause = pause < 64 * RL_MS ? 2 * pause : pause) {
        if (client_enter(client) != REDLOCK_OK) return;
        for (unsigned i = 0; i < work->nodes; i++)
            if (look & rl_bit(i)) guard_look(client->guard, i);
        client_leave_telling(client);
        quorum_pause(work, pause);
        if (client_enter(client) != REDLOCK_OK) return;
        look = behind_in(client->guard, intact & net_ready(client->net, net_now(client->net)));
        client_leave_telling(client);
        if (!look) return;
    }
}

/* ---- what is asked for ---- */

static int check_ttl_max(struct redlock_error *error, const char *name, int64_t ttl_ms) {
    if (ttl_ms == 0 || (ttl_ms >= REDLOCK_TTL_MS_MIN && ttl_ms <= REDLOCK_TTL_MS_MAX))
        return REDLOCK_OK;
    return fail(error, REDLOCK_BAD_ARGUMENT,
                "%s is %lld; it must be between %d and %d, or 0: not given", name,
                (long long)ttl_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX);
}

static int copy_options(struct redlock_quorum_options *to,
                        const struct redlock_quorum_options *from, struct redlock_error *error) {
    redlock_quorum_options_init(to);
    if (!from) return REDLOCK_OK;
    if (!sized_take(to, sizeof *to, from, FIRST_QUORUM_OPTIONS))
        return fail(
            error, REDLOCK_BAD_ARGUMENT,
            "quorum options of an unknown size: fill them with redlock_quorum_options_init()");
    int result = check_ttl_max(error, "ttl_ms_max", to->ttl_ms_max);
    if (result == REDLOCK_OK)
        result = check_ttl_max(error, "ttl_ms_max_before", to->ttl_ms_max_before);
    if (result != REDLOCK_OK || (to->fence_floor >= 0 && to->fence_floor < REDLOCK_FENCE_MAX))
        return result;
    return fail(error, REDLOCK_BAD_ARGUMENT, "fence_floor is %lld; it must be between 0 and %lld",
                (long long)to->fence_floor, (long long)REDLOCK_FENCE_MAX - 1);
}

static int begin(struct redlock_client *client, const struct redlock_quorum_options *options,
                 struct redlock_error *error, struct quorum_work **out) {
    struct redlock_quorum_options own;
    int result = copy_options(&own, options, error);
    if (result != REDLOCK_OK) return result;
    if (client->options.mode != REDLOCK_MODE_GUARDED)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "the client was opened in classic mode: a quorum needs mode GUARDED");
    struct quorum_work *work = calloc(1, sizeof *work);
    if (!work) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    work->client = client;
    work->options = own;
    work->nodes = client->nodes;
    if (client_enter(client) != REDLOCK_OK) {
        free(work);
        return fail(error, REDLOCK_FORKED, "%s", redlock_result_text(REDLOCK_FORKED));
    }
    const struct rl_guard *machine = &client->guard->machine;
    work->adding = -1;
    work->pinned = machine->pinned != 0;
    work->quorum_id = machine->pinned    ? machine->pinned
                      : machine->decided ? machine->quorum.quorum_id
                                         : 0;
    client_leave(client);
    *out = work;
    return REDLOCK_OK;
}

static int end(struct quorum_work *work, int result, struct redlock_error *error) {
    hand_over(work, rl_guard_intact(&work->view));
    if (result != REDLOCK_OK && error) *error = work->error;
    free(work);
    return result;
}

int redlock_quorum_init(struct redlock_client *client, const struct redlock_quorum_options *options,
                        struct redlock_error *error) {
    struct quorum_work *work = NULL;
    int result = begin(client, options, error, &work);
    if (result != REDLOCK_OK) return result;
    return end(work, quorum_init(work), error);
}

int redlock_quorum_add(struct redlock_client *client, size_t node,
                       const struct redlock_quorum_options *options, struct redlock_error *error) {
    struct quorum_work *work = NULL;
    struct rl_change change = {.kind = RL_CHANGE_ADD};
    if (node >= redlock_client_nodes(client))
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "node %zu is to be added; the client has %zu nodes", node,
                    redlock_client_nodes(client));
    int result = begin(client, options, error, &work);
    if (result != REDLOCK_OK) return result;
    return end(work, quorum_change(work, &change, (int)node), error);
}

static bool parse_id(const char *text, uint64_t *id) {
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdefABCDEF") != 16) return false;
    return sscanf(text, "%16" SCNx64, id) == 1 && *id != 0;
}

int redlock_quorum_remove(struct redlock_client *client, const char *id,
                          const struct redlock_quorum_options *options,
                          struct redlock_error *error) {
    struct quorum_work *work = NULL;
    struct rl_change change = {.kind = RL_CHANGE_REMOVE};
    if (!parse_id(id, &change.id))
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "the member to be removed is named by its id, 16 hexadecimal digits");
    int result = begin(client, options, error, &work);
    if (result != REDLOCK_OK) return result;
    return end(work, quorum_change(work, &change, -1), error);
}
