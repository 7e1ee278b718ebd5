/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs a scene: its steps are events of the world.
 */
#include "scene.h"

#include <string.h>

#define JOB 0u

static const char stranger[] = "a stranger's token";

typedef void node_step(struct world *world, unsigned node, const struct scene_line *step);
typedef void link_step(struct world *world, unsigned client, unsigned node,
                       const struct scene_line *step);

static void do_crash(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_crash(world, node);
}
static void do_restart(struct world *world, unsigned node, const struct scene_line *step) {
    node_restart(world, node,
                 step->kind == SCENE_STEP_RESTARTS_EMPTY   ? NODE_KEEPS_NOTHING
                 : step->kind == SCENE_STEP_RESTARTS_WHOLE ? NODE_KEEPS_ALL
                                                           : NODE_LOSES_LAST_SECOND);
}
static void do_flush(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_flush(world, node);
}
static void do_evict(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_evict(world, node, JOB);
}
static void do_failover(struct world *world, unsigned node, const struct scene_line *step) {
    node_failover(world, node, step->span);
}
static void do_split(struct world *world, unsigned node, const struct scene_line *step) {
    node_split(world, node, step->span);
}
static void do_old_ends(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_old_ends(world, node);
}
static void do_demote(struct world *world, unsigned node, const struct scene_line *step) {
    node_demote(world, node, step->span, 0);
}
static void do_follow(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_follow(world, node);
}
static void do_follow_deletion(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_follows_deletion(world, node, JOB);
}
static void do_promote(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_promote(world, node);
}
static void do_gets_replica(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_gets_replica(world, node);
}
static void do_policy(struct world *world, unsigned node, const struct scene_line *step) {
    node_policy(world, node, step->kind == SCENE_STEP_POLICY_EVICTS);
}
static void do_delete_record(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_delete_record(world, node);
}
static void do_clock_step(struct world *world, unsigned node, const struct scene_line *step) {
    node_clock_step(world, node, step->span);
}
static void do_clock_rate(struct world *world, unsigned node, const struct scene_line *step) {
    node_clock_rate(world, node,
                    step->kind == SCENE_STEP_CLOCK_FREEZES ? 0
                    : step->kind == SCENE_STEP_CLOCK_TRUE  ? 1000000
                                                           : (uint32_t)step->number);
}
static void do_mode(struct world *world, unsigned node, const struct scene_line *step) {
    node_mode(world, node,
              step->kind == SCENE_STEP_ANSWERS_NORMALLY ? REDLOCK_VERDICT_GRANTED
                                                        : (int)step->number);
}
static void do_node_pause(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_pause(world, node);
}
static void do_node_resume(struct world *world, unsigned node, const struct scene_line *step) {
    (void)step;
    node_resume(world, node);
}
static void do_stranger(struct world *world, unsigned node, const struct scene_line *step) {
    bool sets = step->kind == SCENE_STEP_STRANGER_SETS;
    node_foreign(world, node, JOB, sets ? stranger : NULL, sets ? step->span / RL_MS : 0);
}
static void do_cut(struct world *world, unsigned client, unsigned node,
                   const struct scene_line *step) {
    link_cut(world, client, node,
             step->kind == SCENE_STEP_CUT_BOTH       ? LINK_BOTH
             : step->kind == SCENE_STEP_CUT_REQUESTS ? LINK_REQUESTS
                                                     : LINK_ANSWERS);
}
static void do_heal(struct world *world, unsigned client, unsigned node,
                    const struct scene_line *step) {
    (void)step;
    link_heal(world, client, node);
}
static void do_break(struct world *world, unsigned client, unsigned node,
                     const struct scene_line *step) {
    (void)step;
    link_break(world, client, node);
}
static void do_delay(struct world *world, unsigned client, unsigned node,
                     const struct scene_line *step) {
    link_delay(world, client, node, step->span);
}
static void do_lose_answer(struct world *world, unsigned client, unsigned node,
                           const struct scene_line *step) {
    (void)step;
    link_lose_next_answer(world, client, node);
}
static void do_wakes_lost(struct world *world, unsigned client, unsigned node,
                          const struct scene_line *step) {
    (void)step;
    hints_lost(world, client, node);
}
static void do_wakes_again(struct world *world, unsigned client, unsigned node,
                           const struct scene_line *step) {
    (void)step;
    hints_again(world, client, node);
}
static void do_wake_falsely(struct world *world, unsigned client, unsigned node,
                            const struct scene_line *step) {
    hint_false(world, client, node, JOB, step->kind == SCENE_STEP_CALLS_FALSELY ? 0 : -1);
}

static void on_nodes(struct world *world, const struct scene_line *step, node_step *fn) {
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        if (step->nodes & rl_bit(node)) fn(world, node, step);
    }
}

static void on_links(struct world *world, const struct scene_line *step, unsigned client,
                     link_step *fn) {
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        if (step->nodes & rl_bit(node)) fn(world, client, node, step);
    }
}

static void befall_nodes(struct world *world, const struct scene_line *step) {
    switch ((enum scene_step)step->kind) {
    case SCENE_STEP_NODE_CRASHES: on_nodes(world, step, do_crash); break;
    case SCENE_STEP_RESTARTS_EMPTY:
    case SCENE_STEP_RESTARTS_WHOLE:
    case SCENE_STEP_RESTARTS_LESS: on_nodes(world, step, do_restart); break;
    case SCENE_STEP_FLUSHED: on_nodes(world, step, do_flush); break;
    case SCENE_STEP_EVICTS: on_nodes(world, step, do_evict); break;
    case SCENE_STEP_FAILS_OVER: on_nodes(world, step, do_failover); break;
    case SCENE_STEP_SPLITS: on_nodes(world, step, do_split); break;
    case SCENE_STEP_OLD_ENDS: on_nodes(world, step, do_old_ends); break;
    case SCENE_STEP_DEMOTED: on_nodes(world, step, do_demote); break;
    case SCENE_STEP_FOLLOWS: on_nodes(world, step, do_follow); break;
    case SCENE_STEP_FOLLOWS_DELETION: on_nodes(world, step, do_follow_deletion); break;
    case SCENE_STEP_PROMOTED: on_nodes(world, step, do_promote); break;
    case SCENE_STEP_GETS_REPLICA: on_nodes(world, step, do_gets_replica); break;
    case SCENE_STEP_POLICY_EVICTS:
    case SCENE_STEP_POLICY_KEEPS: on_nodes(world, step, do_policy); break;
    case SCENE_STEP_RECORD_DELETED: on_nodes(world, step, do_delete_record); break;
    case SCENE_STEP_CLOCK_STEPS: on_nodes(world, step, do_clock_step); break;
    case SCENE_STEP_CLOCK_FREEZES:
    case SCENE_STEP_CLOCK_TRUE:
    case SCENE_STEP_CLOCK_RUNS: on_nodes(world, step, do_clock_rate); break;
    case SCENE_STEP_ANSWERS:
    case SCENE_STEP_ANSWERS_NORMALLY: on_nodes(world, step, do_mode); break;
    case SCENE_STEP_NODE_PAUSED: on_nodes(world, step, do_node_pause); break;
    case SCENE_STEP_NODE_RESUMES: on_nodes(world, step, do_node_resume); break;
    case SCENE_STEP_STRANGER_DELETES:
    case SCENE_STEP_STRANGER_SETS: on_nodes(world, step, do_stranger); break;
    case SCENE_STEP_FAULTS_END: world_heal(world); break;
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
    while (step->nodes >> what.node > 1 && !(step->nodes & rl_bit(what.node))) what.node++;
    actor_operate(world, client, what);
}

static bool operates(const struct scene_line *step) {
    return step->kind >= SCENE_STEP_INITS && step->kind <= SCENE_STEP_REMOVES;
}

static void do_client(struct world *world, unsigned client, const struct scene_line *step) {
    switch ((enum scene_step)step->kind) {
    case SCENE_STEP_ACQUIRES: actor_acquire(world, client, JOB, 0); break;
    case SCENE_STEP_ACQUIRES_WAITING: actor_acquire(world, client, JOB, step->span / RL_MS); break;
    case SCENE_STEP_EXTENDS: actor_extend(world, client, JOB, 0); break;
    case SCENE_STEP_RELEASES: actor_release(world, client, JOB); break;
    case SCENE_STEP_CANCELS: actor_cancel(world, client, JOB); break;
    case SCENE_STEP_UPDATES: actor_update(world, client, JOB, step->span, 0); break;
    case SCENE_STEP_UPDATES_LATE: actor_update(world, client, JOB, step->span2, step->span); break;
    case SCENE_STEP_INITS:
    case SCENE_STEP_INITS_NEW:
    case SCENE_STEP_ADDS:
    case SCENE_STEP_REMOVES: do_operate(world, client, step); break;
    case SCENE_STEP_PAUSED: actor_pause(world, client); break;
    case SCENE_STEP_FROZEN: actor_freeze(world, client); break;
    case SCENE_STEP_RESUMES: actor_resume(world, client); break;
    case SCENE_STEP_CRASHES: actor_crash(world, client); break;
    case SCENE_STEP_WALL_CLOCK: actor_clock_step(world, client, step->span); break;
    case SCENE_STEP_CUT_BOTH:
    case SCENE_STEP_CUT_REQUESTS:
    case SCENE_STEP_CUT_ANSWERS: on_links(world, step, client, do_cut); break;
    case SCENE_STEP_HEAL: on_links(world, step, client, do_heal); break;
    case SCENE_STEP_BREAK: on_links(world, step, client, do_break); break;
    case SCENE_STEP_DELAY_NEXT: on_links(world, step, client, do_delay); break;
    case SCENE_STEP_LOSE_ANSWER: on_links(world, step, client, do_lose_answer); break;
    case SCENE_STEP_WAKES_LOST: on_links(world, step, client, do_wakes_lost); break;
    case SCENE_STEP_WAKES_AGAIN: on_links(world, step, client, do_wakes_again); break;
    case SCENE_STEP_WAKES_FALSELY:
    case SCENE_STEP_CALLS_FALSELY: on_links(world, step, client, do_wake_falsely); break;
    default: break;
    }
}

static void do_step(struct world *world, void *argument, int64_t number) {
    const struct scene *scene = argument;
    const struct scene_line *step = &scene->steps[number];
    if (step->clients == 0) {
        befall_nodes(world, step);
        return;
    }
    for (unsigned client = 0; client < scene->options.clients; client++) {
        if (step->clients >> client & 1) do_client(world, client, step);
    }
}

/* A client that lists nodes of two quorums and names neither must be refused; so must one that
 * names no mode on guarded nodes. */
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
    client->refused = forgets || two_quorums;
}

static void guard(struct scene *scene) {
    struct world_options *options = &scene->options;
    options->guarded = options->fenced = true;
    if (options->ttl_ms_max == 0) options->ttl_ms_max = options->client[0].lock.ttl_ms;
    for (unsigned i = 0; i < options->clients; i++) guard_client(scene, i);
    for (size_t i = 0; i < scene->steps_count; i++)
        options->changes = options->changes || operates(&scene->steps[i]);
}

/* The same nodes without their records. */
static void make_classic(struct scene *scene) {
    scene->options.others = 0;
    for (unsigned i = 0; i < scene->options.clients; i++) {
        scene->options.client[i].client.quorum = NULL;
        scene->options.client[i].client.allow_replicas = 0;
        scene->options.client[i].client.confirm = 0;
    }
}

void scene_run(const struct scene *scene, enum scene_mode mode, struct scene_result *result) {
    memset(result, 0, sizeof *result);
    result->mode = mode;
    static struct scene copy; /* the world calls back with a pointer that is not const */
    copy = *scene;
    if (mode == SCENE_GUARDED)
        guard(&copy);
    else
        make_classic(&copy);
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
