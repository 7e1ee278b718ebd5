/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The wait queue of a native node: src/node/queue.h, with the node's locks and CLOCK_BOOTTIME. What
 * it sends are hints, with the faults of all hints (notify.c). It ends with the process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"

#define RESERVED_MS (NODE_RESERVE_US / 1000)
_Static_assert(RL_RESERVED == NODE_RESERVE_US * (RL_MS / 1000), "what clients expect of a node");
enum { PORTION = 2 }; /* as the module, which must not stop the server for long */

static int64_t now_us(const struct server *server) {
    return clock_read(&server->boot, server->world->now) / 1000;
}

static void send_notice(void *context, struct node_bytes key, struct node_bytes waiter, size_t rank,
                        bool turn) {
    struct server *server = context;
    char name[WAITER_BYTES_MAX + 1] = "", *end;
    if (waiter.bytes > WAITER_BYTES_MAX) return;
    memcpy(name, waiter.data, waiter.bytes);
    const uint32_t number = (uint32_t)strtoul(name, &end, 16);
    if (*end == '\0')
        notify_waiter(server, number, resource_of(key.data, key.bytes),
                      turn ? NET_WAKE_TURN : (int)rank);
}

void turns_begin(struct server *server, bool on) {
    node_queue_free(server->turns);
    server->turns = NULL;
    server->turns_at = RL_NEVER;
    if (!on) return;
    server->turns = node_queue_new(&(struct node_queue_options){
        .seed = server->node,
        .reserve_us = NODE_RESERVE_US,
        .heads = 0, /* a waiter has nothing to do before its turn */
        .notify = send_notice,
        .context = server,
    });
    if (!server->turns) abort();
}

static struct node_waiter waiter_of(const struct server *server, const struct message *request) {
    int64_t wall_us = clock_read(&server->clock, server->world->now) / 1000;
    return (struct node_waiter){
        .name = {request->waiting.name, request->waiting.name_bytes},
        .waited_us = request->waiting.age_us,
        .since_us =
            node_queue_since(server->turns, request->waiting.since_us, wall_us, now_us(server)),
        .remember_us = request->waiting.remember_us,
        .reads = request->waiting.reads};
}

/* ---- time ---- */

static void look_at_turns(struct world *world, void *argument, int64_t number) {
    struct server *server = &world->server[number];
    (void)argument;
    if (world->now != server->turns_at) return;
    server->turns_at = RL_NEVER;
    if (!server->up || server->paused || !server->turns) return;
    while (node_queue_tick(server->turns, now_us(server), PORTION) == PORTION) continue;
    server_await_expiry(server);
}

rl_ns turns_next(const struct server *server, world_fn **look) {
    const int64_t next_us = server->turns ? node_queue_next(server->turns) : INT64_MAX;
    *look = look_at_turns;
    if (next_us >= RL_NEVER / 1000) return RL_NEVER;
    return clock_when(&server->boot, next_us * 1000);
}

/* ---- what changes a queue ---- */

/* A slot that becomes free is free for the waiters of all slots of its resource. */
void turns_freed(struct server *server, struct node_bytes key) {
    char text[NODE_SLOT_KEY_BYTES_MAX];
    struct node_bytes first;
    if (!server->turns) return;
    node_queue_freed(server->turns, key, now_us(server));
    if (node_slot_first(key, &first, text)) node_queue_freed(server->turns, first, now_us(server));
}

/* One millisecond too many is better than one too few. */
static int64_t round_up(int64_t left_us) { return left_us < 0 ? -1 : (left_us + 999) / 1000; }

enum node_answer turns_acquire(struct server *server, struct message *request,
                               const struct node_request *what,
                               const struct node_fence_request *fences) {
    struct node_turn turn = {.rank = -1};
    request->reply.count = -1;
    if (native_is_anothers(server, what)) return NODE_DENIED;
    if (!server->turns)
        return fences ? node_acquire_guarded(server->own, what->keys, what->count, what->token,
                                             request->ttl_ms, fences->nonce, fences->fence,
                                             fences->stripes, fences->stripes_count, what->now_ms)
                      : node_acquire(server->own, what->keys, what->count, what->token,
                                     request->ttl_ms, what->now_ms);
    const struct node_waiter waiter = waiter_of(server, request);
    enum node_answer answer =
        node_acquire_in_turn(server->own, server->turns, what->keys, what->count, what->token,
                             request->ttl_ms, fences, &waiter, now_us(server), &turn);
    if (answer == NODE_GRANTED) request->reply.count = turn.others;
    if (answer == NODE_DENIED) request->reply.count = turn.rank;
    if (answer == NODE_DENIED && turn.reserved)
        request->reply.remaining_ms = round_up(turn.left_us);
    return answer;
}

/* The same for a reader. */
enum node_answer turns_share(struct server *server, struct message *request,
                             const struct node_share *share) {
    struct node_turn turn = {.rank = -1};
    request->reply.count = -1;
    if (!server->turns)
        return node_share(server->own, share, server_now_ms(server), &request->fencing.fence);
    const struct node_waiter waiter = waiter_of(server, request);
    enum node_answer answer = node_share_in_turn(server->own, server->turns, share, &waiter,
                                                 now_us(server), &request->fencing.fence, &turn);
    if (answer == NODE_DENIED) request->reply.count = turn.rank;
    if (answer == NODE_DENIED && turn.reserved)
        request->reply.remaining_ms = round_up(turn.left_us);
    return answer;
}

static int64_t sooner(int64_t a_ms, int64_t b_ms) {
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

enum node_answer turns_share_extend(struct server *server, const struct node_share *share) {
    return server->turns
               ? node_share_extend_in_turn(server->own, server->turns, share, now_us(server))
               : node_share_extend(server->own, share, server_now_ms(server));
}

struct node_slot_answer turns_acquire_slot(struct server *server, struct message *request,
                                           struct node_slot_request *what) {
    struct node_slot_answer answer = {.answer = NODE_DENIED, .remaining_ms = -1};
    struct node_turn turn = {.rank = -1};
    int64_t outside_ms;
    request->reply.count = -1;
    answer.other_count = native_bar_slots(server, what, &outside_ms);
    if (answer.other_count != 0) return answer;
    if (!server->turns) {
        answer = node_acquire_slot(server->own, what, server_now_ms(server));
    } else {
        const struct node_waiter waiter = waiter_of(server, request);
        answer = node_acquire_slot_in_turn(server->own, server->turns, what, &waiter,
                                           now_us(server), &turn);
    }
    if (answer.answer == NODE_DENIED) {
        answer.remaining_ms =
            turn.reserved ? round_up(turn.left_us) : sooner(answer.remaining_ms, outside_ms);
        request->reply.count = turn.rank;
    } else {
        request->reply.count = turn.others;
    }
    return answer;
}

/* For any of several slots. */
static void wait_for_slot(struct server *server, struct message *request) {
    const struct node_waiter waiter = waiter_of(server, request);
    struct node_slot_request what = {.names = server_slot_names(), .count = request->slots.count};
    int64_t outside_ms;
    (void)native_bar_slots(server, &what, &outside_ms);
    request->reply.remaining_ms = node_await_slot(server->own, server->turns, &what, &waiter,
                                                  now_us(server), &request->reply.count);
    if (request->reply.remaining_ms == -1) request->reply.remaining_ms = outside_ms;
    request->verdict =
        request->reply.remaining_ms == -2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
}

static void wait(struct server *server, struct message *request) {
    const struct node_bytes key = resource_key(request->keys[0]);
    const struct node_waiter waiter = waiter_of(server, request);
    int64_t left_us = 0;
    node_expire_key(server->own, key, server_now_ms(server));
    request->reply.count = node_queue_enter(server->turns, key, &waiter, now_us(server));
    request->reply.remaining_ms = native_pttl(server, key);
    request->verdict = REDLOCK_VERDICT_GRANTED;
    const bool joins = request->waiting.reads &&
                       node_is_shared(server->own, key, server_now_ms(server)) &&
                       node_queue_is_first(server->turns, key, &waiter, now_us(server));
    if (joins) request->reply.remaining_ms = -2;
    if (request->reply.remaining_ms != -2) return;
    if (joins || node_queue_admits(server->turns, key, &waiter, now_us(server), &left_us))
        request->verdict = REDLOCK_VERDICT_ABSENT;
    else
        request->reply.remaining_ms = round_up(left_us);
}

void turns_serve(struct server *server, struct message *request) {
    if (!server->turns) {
        request->verdict = REDLOCK_VERDICT_ERROR;
    } else if (request->op == NET_TURN_WAIT && request->slots.count > 0) {
        wait_for_slot(server, request);
    } else if (request->op == NET_TURN_WAIT) {
        wait(server, request);
    } else {
        request->reply.count = (int64_t)node_leave_turn(
            server->own, server->turns, resource_key(request->keys[0]),
            (struct node_bytes){request->waiting.name, request->waiting.name_bytes},
            request->waiting.passes, now_us(server));
        request->verdict = REDLOCK_VERDICT_GRANTED;
    }
    server_await_expiry(server);
}
