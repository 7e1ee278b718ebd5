/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operators: clients that change the quorum, by the library's own code.
 */
#include <string.h>

#include "client/change/change.h"
#include "clients.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Not from within a callback of the library. */
static void over(struct world *world, void *argument, int64_t number) {
    struct actor *actor = &world->actor[number];
    if (actor->task != argument) return;
    const enum rl_problem_kind problem = actor->task->machine.problem.kind;
    operator_drop(actor);
    if (actor->crashed) return;
    int result = task_problem_result(problem);
    struct history_record record = actor_record(world, HISTORY_OPERATED, (unsigned)number);
    record.result = (int16_t)result;
    record.value = problem;
    world_write(world, &record);
    if (result != REDLOCK_OK && result != REDLOCK_BAD_ARGUMENT) result = REDLOCK_NO_QUORUM;
    if (world->reports.operated) world->reports.operated(world, (unsigned)number, 0, result);
}

static void notified(struct quorum_task *task) {
    struct actor *actor = task->context;
    struct world *world = actor->world;
    task->reports_count = 0; /* no caller reads them */
    if (task->over) world_at(world, world->now, over, task, (int64_t)(actor - world->actor));
}

void operator_drop(struct actor *actor) {
    if (actor->task) task_free(actor->task);
    actor->task = NULL;
    breaking_drop(actor);
}

static uint64_t id_of(const struct world *world, unsigned node) {
    const struct member_list *list = world_newest_list(world);
    for (unsigned i = 0; list && i < list->count; i++)
        if (list->node[i] == node) return list->id[i];
    return 1; /* nobody's */
}

void operator_act(struct world *world, unsigned client, const struct world_operation *what) {
    struct actor *actor = &world->actor[client];
    if (actor->task || actor->breaking || actor->thinks || actor->crashed) return;
    if (what->kind == OPERATION_BREAK) {
        breaking_act(world, client, what);
        return;
    }
    if (!world->options.guarded) return;
    struct rl_membership_wish wish = {.kind = (enum rl_membership_kind)what->kind,
                                      .never_used = what->never_used,
                                      .ttl_max_ms = what->ttl_max_ms,
                                      .ttl_max_before_ms = what->ttl_max_before_ms};
    const struct links *links = &world->links[client];
    if (what->floor) wish.fence_floor = (WALL_BEGIN + what->floor) / 1000;
    while (wish.node + 1 < links->slots && links->link[wish.node].node != what->node) wish.node++;
    wish.id = id_of(world, what->node);
    struct history_record record = actor_record(world, HISTORY_OPERATE, client);
    if (what->kind == OPERATION_ADD || what->kind == OPERATION_REMOVE)
        record.node = (int8_t)what->node;
    if (what->kind == OPERATION_SET_TTL_MAX) record.until = what->ttl_max_ms * RL_MS;
    record.value = what->kind;
    world_write(world, &record);
    actor->task = task_start(actor->redlock, wish, notified, actor);
    if (actor->task && actor->task->over)
        world_at(world, world->now, over, actor->task, (int64_t)client);
    actor_rearm(world, client);
}

bool actor_operates(const struct world *world, unsigned client) {
    const struct actor *actor = &world->actor[client];
    return !actor->crashed && (actor->task || actor->breaking || actor->thinks);
}
