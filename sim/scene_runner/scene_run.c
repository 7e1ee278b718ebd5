/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs a scene: its steps are events of the world.
 */
#include "net/net.h"
#include "scene.h"

#include <string.h>

#define JOB 0u

static void befall_node(struct world *world, unsigned node, const struct scene_line *step) {
    switch ((enum scene_step)step->kind) {
    case SCENE_STEP_NODE_CRASHES: node_crash(world, node); break;
    case SCENE_STEP_RESTARTS_EMPTY: node_restart(world, node, NODE_KEEPS_NOTHING); break;
    case SCENE_STEP_RESTARTS_WHOLE: node_restart(world, node, NODE_KEEPS_ALL); break;
    case SCENE_STEP_RESTARTS_LESS: node_restart(world, node, NODE_LOSES_LAST_SECOND); break;
    case SCENE_STEP_RESTARTS_NATIVE: node_restart_as(world, node, NODE_KEEPS_ALL, true); break;
    case SCENE_STEP_RESTARTS_STOCK: node_restart_as(world, node, NODE_KEEPS_ALL, false); break;
    case SCENE_STEP_FLUSHED: node_flush(world, node); break;
    case SCENE_STEP_EVICTS: node_evict(world, node, JOB); break;
    case SCENE_STEP_FAILS_OVER: node_failover(world, node, step->span); break;
    case SCENE_STEP_SPLITS: node_split(world, node, step->span); break;
    case SCENE_STEP_OLD_ENDS: node_old_ends(world, node); break;
    case SCENE_STEP_DEMOTED: node_demote(world, node, step->span, 0); break;
    case SCENE_STEP_FOLLOWS: node_follow(world, node); break;
    case SCENE_STEP_FOLLOWS_DELETION: node_follows_deletion(world, node, JOB); break;
    case SCENE_STEP_PROMOTED: node_promote(world, node); break;
    case SCENE_STEP_GETS_REPLICA: node_gets_replica(world, node); break;
    case SCENE_STEP_POLICY_EVICTS: node_policy(world, node, true); break;
    case SCENE_STEP_POLICY_KEEPS: node_policy(world, node, false); break;
    case SCENE_STEP_RECORD_DELETED: node_delete_record(world, node); break;
    case SCENE_STEP_CLOCK_STEPS: node_clock_step(world, node, step->span); break;
    case SCENE_STEP_CLOCK_FREEZES: node_clock_rate(world, node, 0); break;
    case SCENE_STEP_CLOCK_TRUE: node_clock_rate(world, node, 1000000); break;
    case SCENE_STEP_CLOCK_RUNS: node_clock_rate(world, node, (uint32_t)step->number); break;
    case SCENE_STEP_ANSWERS: node_mode(world, node, (int)step->number); break;
    case SCENE_STEP_ANSWERS_NORMALLY: node_mode(world, node, REDLOCK_VERDICT_GRANTED); break;
    case SCENE_STEP_NODE_PAUSED: node_pause(world, node); break;
    case SCENE_STEP_NODE_RESUMES: node_resume(world, node); break;
    case SCENE_STEP_STRANGER_DELETES: node_foreign(world, node, JOB, NULL, 0); break;
    case SCENE_STEP_STRANGER_SETS:
        node_foreign(world, node, JOB, "a stranger's token", step->span / RL_MS);
        break;
    default: break;
    }
}

static void befall_link(struct world *world, unsigned client, unsigned node,
                        const struct scene_line *step) {
    switch ((enum scene_step)step->kind) {
    case SCENE_STEP_CUT_BOTH: link_cut(world, client, node, LINK_BOTH); break;
    case SCENE_STEP_CUT_REQUESTS: link_cut(world, client, node, LINK_REQUESTS); break;
    case SCENE_STEP_CUT_ANSWERS: link_cut(world, client, node, LINK_ANSWERS); break;
    case SCENE_STEP_HEAL: link_heal(world, client, node); break;
    case SCENE_STEP_BREAK: link_break(world, client, node); break;
    case SCENE_STEP_BLACK_HOLE: link_becomes_hole(world, client, node); break;
    case SCENE_STEP_MOVES: link_moves(world, client, node, (unsigned)step->number - 1); break;
    case SCENE_STEP_DELAY_NEXT: link_delay(world, client, node, step->span); break;
    case SCENE_STEP_LOSE_ANSWER: link_lose_next_answer(world, client, node); break;
    case SCENE_STEP_WAKES_LOST: hints_lost(world, client, node); break;
    case SCENE_STEP_WAKES_AGAIN: hints_again(world, client, node); break;
    case SCENE_STEP_WAKES_FALSELY: hint_false(world, client, node, JOB, -1); break;
    case SCENE_STEP_CALLS_FALSELY: hint_false(world, client, node, JOB, 0); break;
    case SCENE_STEP_TURNS_FALSELY: hint_false(world, client, node, JOB, NET_WAKE_TURN); break;
    default: break;
    }
}

/* The first of the named nodes: one change concerns one node. */
static void do_operate(struct world *world, unsigned client, const struct scene_line *step) {
    struct world_operation what = {.kind = OPERATION_INIT};
    what.never_used = step->kind == SCENE_STEP_INITS_NEW;
    if (step->kind == SCENE_STEP_INITS) what.ttl_max_ms = step->span / RL_MS;
    if (step->kind == SCENE_STEP_ADDS) what.kind = OPERATION_ADD;
    if (step->kind == SCENE_STEP_REMOVES) what.kind = OPERATION_REMOVE;
    if (step->kind == SCENE_STEP_SETS_TTL_MAX) {
        what.kind = OPERATION_SET_TTL_MAX;
        what.ttl_max_ms = step->span / RL_MS;
    }
    if (step->kind == SCENE_STEP_BREAKS_LOCK) what.kind = OPERATION_BREAK;
    while (step->nodes >> what.node > 1 && !(step->nodes & rl_bit(what.node))) what.node++;
    actor_operate(world, client, what);
}

static void do_client(struct world *world, unsigned client, const struct scene_line *step) {
    switch ((enum scene_step)step->kind) {
    case SCENE_STEP_ACQUIRES: actor_act(world, client, ACTION_ACQUIRE, JOB, 0); break;
    case SCENE_STEP_ACQUIRES_WAITING:
        actor_act(world, client, ACTION_ACQUIRE, JOB, step->span / RL_MS);
        break;
    case SCENE_STEP_EXTENDS: actor_act(world, client, ACTION_EXTEND, JOB, 0); break;
    case SCENE_STEP_ADOPTS: actor_act(world, client, ACTION_ADOPT, JOB, 0); break;
    case SCENE_STEP_RELEASES: actor_act(world, client, ACTION_RELEASE, JOB, 0); break;
    case SCENE_STEP_CANCELS: actor_act(world, client, ACTION_CANCEL, JOB, 0); break;
    case SCENE_STEP_UPDATES: actor_update(world, client, JOB, step->span, 0); break;
    case SCENE_STEP_UPDATES_LATE: actor_update(world, client, JOB, step->span2, step->span); break;
    case SCENE_STEP_INITS:
    case SCENE_STEP_INITS_NEW:
    case SCENE_STEP_ADDS:
    case SCENE_STEP_REMOVES:
    case SCENE_STEP_SETS_TTL_MAX:
    case SCENE_STEP_BREAKS_LOCK: do_operate(world, client, step); break;
    case SCENE_STEP_PAUSED: actor_pause(world, client); break;
    case SCENE_STEP_FROZEN: actor_freeze(world, client); break;
    case SCENE_STEP_RESUMES: actor_resume(world, client); break;
    case SCENE_STEP_CRASHES: actor_crash(world, client); break;
    case SCENE_STEP_WALL_CLOCK: actor_clock_step(world, client, step->span); break;
    default:
        for (unsigned node = 0; node < RL_NODES_MAX; node++)
            if (step->nodes & rl_bit(node)) befall_link(world, client, node, step);
        break;
    }
}

static void do_step(struct world *world, void *argument, int64_t number) {
    const struct scene *scene = argument;
    const struct scene_line *step = &scene->steps[number];
    if (step->kind == SCENE_STEP_FAULTS_END) world_heal(world);
    for (unsigned node = 0; node < RL_NODES_MAX && step->clients == 0; node++)
        if (step->nodes & rl_bit(node)) befall_node(world, node, step);
    for (unsigned client = 0; client < scene->options.clients; client++)
        if (step->clients >> client & 1) do_client(world, client, step);
}

/* A client that lists nodes of two quorums and names neither must be refused. */
static void guard_client(struct scene *scene, unsigned index) {
    struct world_client_options *client = &scene->options.client[index];
    bool forgets = scene->forgets_mode >> index & 1;
    rl_mask others = scene->options.others,
            nodes = client->nodes ? client->nodes : rl_all(scene->options.nodes);
    bool two_quorums =
        (nodes & others) != 0 && (nodes & (rl_mask)~others) != 0 && !client->client.quorum;
    if (scene->classic >> index & 1 || forgets) client->client.confirm = 0;
    if (scene->classic >> index & 1) return;
    client->client.mode = forgets ? REDLOCK_MODE_AUTO : REDLOCK_MODE_GUARDED;
    client->refused = two_quorums;
}

static void guard(struct scene *scene) {
    struct world_options *options = &scene->options;
    options->guarded = options->fenced = true;
    if (options->ttl_ms_max == 0) options->ttl_ms_max = options->client[0].lock.ttl_ms;
    for (unsigned i = 0; i < options->clients; i++) guard_client(scene, i);
    bool observed = false;
    for (unsigned i = 0; i < options->clients; i++)
        observed = observed || options->client[i].observes != 0;
    for (unsigned i = 0; i < options->clients; i++) options->client[i].lock.leader = observed;
    for (size_t i = 0; i < scene->steps_count; i++) {
        int kind = scene->steps[i].kind;
        options->changes |= kind >= SCENE_STEP_INITS && kind <= SCENE_STEP_SETS_TTL_MAX;
    }
}

void scene_run(const struct scene *scene, enum scene_mode mode, struct scene_result *result) {
    memset(result, 0, sizeof *result);
    result->mode = mode;
    static struct scene copy; /* the world calls back with a pointer that is not const */
    copy = *scene;
    if (mode != SCENE_CLASSIC) guard(&copy);
    if (mode == SCENE_NATIVE) copy.options.native = rl_all(copy.options.nodes);
    for (unsigned i = 0; i < copy.options.clients && mode == SCENE_CLASSIC; i++) {
        struct redlock_client_options *client = &copy.options.client[i].client;
        client->quorum = NULL;
        client->allow_replicas = client->confirm = 0;
    }
    if (mode == SCENE_CLASSIC) copy.options.others = 0; /* the same nodes without their records */
    history_init(&result->history, scene->options.clients, scene->options.nodes,
                 scene->options.resources);
    struct world *world = world_new();
    world_begin(world, &copy.options, &result->history);
    for (size_t i = 0; i < copy.steps_count; i++)
        world_at(world, copy.steps[i].at, do_step, &copy, (int64_t)i);
    world_run_until(world, copy.ends);
    world_end(world);
    world_free(world);
    scene_judge(scene, result);
}

void scene_result_free(struct scene_result *result) { history_free(&result->history); }
