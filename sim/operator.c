/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operators: clients that change the quorum, by the library's own code; and the member lists that
 * the world itself knows.
 */
#include <string.h>

#include "client/operator/task.h"
#include "inside.h"

/* ---- lists ----------------------------------------------------------------------------------- */

static int node_of(const struct world *world, const char *url) {
    for (unsigned i = 0; i < world->options.nodes; i++)
        if (strcmp(world->server[i].url, url) == 0) return (int)i;
    return -1;
}

static bool is_list(const struct member_list *list, const struct rl_record *record) {
    if (list->quorum_id != record->quorum_id || list->epoch != record->epoch ||
        list->count != record->members_count)
        return false;
    for (unsigned i = 0; i < list->count; i++)
        if (!rl_record_member(record, list->id[i])) return false;
    return true;
}

/* Numbers them in the order of their appearance; 0: there are too many, or the record is NULL. */
unsigned world_list_of(struct world *world, const struct rl_record *record) {
    unsigned i = 0;
    if (!record) return 0;
    while (i < world->lists_count && !is_list(&world->lists[i], record)) i++;
    if (i == WORLD_LISTS_MAX) return 0;
    if (i < world->lists_count) return i + 1;
    struct member_list *list = &world->lists[world->lists_count++];
    *list = (struct member_list){
        .quorum_id = record->quorum_id, .epoch = record->epoch, .count = record->members_count};
    for (unsigned m = 0; m < list->count && m < RL_NODES_MAX; m++) {
        int node = node_of(world, record->members[m].url);
        list->id[m] = record->members[m].id;
        list->node[m] = (uint8_t)(node < 0 ? RL_NODES_MAX : node);
        if (node >= 0) list->nodes |= rl_bit((unsigned)node);
    }
    return world->lists_count;
}

/* The list of the newest epoch that an intact node carries. */
static const struct member_list *newest(const struct world *world) {
    const struct member_list *best = NULL;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (!server->intact || server->list == 0) continue;
        const struct member_list *list = &world->lists[server->list - 1];
        if (!best || list->epoch > best->epoch) best = list;
    }
    return best;
}

rl_mask world_members(const struct world *world) {
    const struct member_list *list = newest(world);
    return list ? list->nodes : 0;
}

int64_t world_ttl_allowed(const struct world *world) {
    const struct member_list *list = newest(world);
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (server->intact && server->list && &world->lists[server->list - 1] == list)
            return server->ttl_allowed;
    }
    return 0;
}

static bool is_identity(const struct member_list *list, uint64_t id) {
    for (unsigned i = 0; i < list->count; i++)
        if (list->id[i] == id) return true;
    return false;
}

bool world_is_intact(const struct world *world, unsigned node) {
    const struct member_list *list = newest(world);
    if (!node_is_intact(world, node)) return false;
    bool member = list && (list->nodes & rl_bit(node));
    return !member || is_identity(list, world->server[node].identity);
}

/* No node carries a record of another quorum, which clients would refuse. */
bool world_is_usable(const struct world *world) {
    const struct member_list *list = newest(world);
    unsigned intact = 0;
    if (!list) return false;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (server->list && world->lists[server->list - 1].quorum_id != list->quorum_id)
            return false;
        intact += (list->nodes & rl_bit(i)) && world_is_intact(world, i);
    }
    return intact >= rl_quorum(list->count);
}

rl_mask world_strays(const struct world *world) {
    const struct member_list *list = newest(world);
    rl_mask strays = 0;
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const unsigned carried = world->server[i].list;
        const bool other = carried && world->lists[carried - 1].quorum_id != list->quorum_id;
        if (other && !(list->nodes & rl_bit(i))) strays |= rl_bit(i);
    }
    return strays;
}

int world_unclaimed(const struct world *world) {
    const struct member_list *list = newest(world);
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        bool known = server->list == 0 || is_identity(list, server->identity);
        if ((list->nodes & rl_bit(i)) && !known) return (int)i;
    }
    return -1;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Not from within a callback of the library. */
static void over(struct world *world, void *argument, int64_t number) {
    static const int16_t results[] = {
        [RL_CLASS_NONE] = REDLOCK_OK,
        [RL_CLASS_BAD_ARGUMENT] = REDLOCK_BAD_ARGUMENT,
        [RL_CLASS_CONFLICT] = REDLOCK_CONFLICT,
        [RL_CLASS_NO_QUORUM] = REDLOCK_NO_QUORUM,
        [RL_CLASS_TWICE_LISTED] = REDLOCK_TWICE_LISTED,
        [RL_CLASS_TWO_QUORUMS] = REDLOCK_TWO_QUORUMS,
        [RL_CLASS_SYSTEM] = REDLOCK_SYSTEM,
    };
    struct actor *actor = &world->actor[number];
    if (actor->task != argument) return;
    const enum rl_problem_kind problem = actor->task->machine.problem.kind;
    operator_drop(actor);
    if (actor->crashed) return;
    int result = results[rl_problem_class(problem)];
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
    const struct member_list *list = newest(world);
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
    if (what->floor) wish.fence_floor = (WALL_BEGIN + what->floor) / 1000;
    while (wish.node + 1 < actor->slots && actor->link[wish.node].node != what->node) wish.node++;
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
