/* SPDX-License-Identifier: BSD-2-Clause */
#include "guard_world.h"
#include "core/mix.h"

#include <stdio.h>
#include <string.h>

struct guard_world gw;

uint64_t world_draw(uint64_t below) { return rl_splitmix64(&gw.random) % below; }

static void new_incarnation(struct world_node *node) {
    snprintf(node->run_id, sizeof(node->run_id), "%040u", ++gw.incarnations);
    snprintf(node->replid, sizeof(node->replid), "%040u", ++gw.incarnations);
    node->evicted = 0;
}

void world_promote(unsigned node) {
    snprintf(gw.node[node].replid, sizeof(gw.node[node].replid), "%040u", ++gw.incarnations);
}

static void carry_out(struct agent *agent, const struct rl_guard_actions *actions) {
    agent->wake_at = actions->wake_at;
    agent->reconnect |= actions->reconnect;
    for (unsigned i = 0; i < gw.nodes; i++) {
        const struct rl_guard_node *node = &agent->guard.node[i];
        struct pending_op *pending_op = &agent->pending_op[i];
        unsigned asked = ((actions->read | actions->write | actions->fences) >> i) & 1u;
        if (!asked) continue;
        assert_int_equal(pending_op->what, RL_PENDING_NONE); /* one at a time */
        memset(pending_op, 0, offsetof(struct pending_op, fences));
        pending_op->what = node->pending_op;
        gw.node[i].reads += node->pending_op == RL_PENDING_READ;
        gw.node[i].fence_reads += node->pending_op == RL_PENDING_FENCES;
        pending_op->expected =
            node->pending_op == RL_PENDING_FENCES ? node->record.nonce : node->expected;
        if (node->pending_op != RL_PENDING_WRITE) continue;
        pending_op->record = node->writing;
        pending_op->with_floor = node->floor != NULL;
        if (node->floor) memcpy(pending_op->fences, node->floor, sizeof(pending_op->fences));
    }
}

uint64_t world_folded = RL_FNV_BASIS;

static void fold(int64_t number) { world_folded = rl_fnv1a_number(world_folded, (uint64_t)number); }

/* What the machine asks for, and what it makes of the nodes. */
static void fold_step(const struct rl_guard *guard, const struct rl_guard_actions *actions) {
    fold(actions->read | (int64_t)actions->write << 16 | (int64_t)actions->fences << 32);
    fold(actions->reconnect | actions->changed << 16);
    fold(actions->wake_at);
    fold(guard->quorum.epoch | (int64_t)guard->quorum.ttl_max_ms << 32);
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *node = &guard->node[i];
        fold((int64_t)node->eligibility | node->suspect << 8 | node->distrusted << 9);
        fold(rl_guard_left(guard, i, gw.now));
        if (!(actions->write & rl_bit(i))) continue;
        fold((int64_t)node->writing.nonce);
        fold((int64_t)node->writing.eligibility | (int64_t)node->writing.waited_ms << 8);
        fold((int64_t)node->expected);
        if (node->floor)
            for (unsigned s = 0; s < RL_STRIPES; s++) fold(node->floor[s]);
    }
}

void world_step(unsigned index, struct rl_guard_event event) {
    struct agent *agent = &gw.agent[index];
    struct rl_guard_actions actions;
    event.random = rl_splitmix64(&agent->random);
    rl_guard_step(&agent->guard, &event, gw.now, &actions);
    fold_step(&agent->guard, &actions);
    agent->changes += actions.changed;
    assert_true(actions.wake_at > gw.now); /* or it would spin */
    carry_out(agent, &actions);
}

void world_state(unsigned agent, unsigned index) {
    const struct world_node *node = &gw.node[index];
    world_step(agent, (struct rl_guard_event){.type = RL_GUARD_STATE,
                                              .node = (uint8_t)index,
                                              .replid = node->replid,
                                              .evicted = node->evicted,
                                              .unfit = node->unfit,
                                              .suspect = node->suspect});
}

void world_push(unsigned node) {
    for (unsigned a = 0; a < gw.agents; a++)
        world_step(a, (struct rl_guard_event){.type = RL_GUARD_CHANGED, .node = (uint8_t)node});
}

void world_connect(unsigned agent, unsigned node) {
    if (gw.agent[agent].guard.node[node].up || !gw.node[node].up) return;
    world_step(agent, (struct rl_guard_event){.type = RL_GUARD_UP,
                                              .node = (uint8_t)node,
                                              .run_id = gw.node[node].run_id});
}

void world_disconnect(unsigned agent, unsigned node) {
    if (!gw.agent[agent].guard.node[node].up) return;
    gw.agent[agent].pending_op[node].what = RL_PENDING_NONE;
    world_step(agent, (struct rl_guard_event){.type = RL_GUARD_DOWN, .node = (uint8_t)node});
}

static void write_it(struct world_node *node, struct pending_op *pending_op) {
    uint64_t nonce = node->has_record ? node->record.nonce : 0;
    pending_op->done = nonce == pending_op->expected;
    if (!pending_op->done) return;
    bool was_intact = node->has_record && node->record.eligibility == RL_RECORD_INTACT;
    node->record = pending_op->record;
    node->has_record = true;
    for (unsigned i = 0; pending_op->with_floor && i < RL_STRIPES; i++)
        if (pending_op->fences[i] > node->fences[i]) node->fences[i] = pending_op->fences[i];
    if (pending_op->with_floor) node->has_fences = true;
    if (was_intact || node->record.eligibility != RL_RECORD_INTACT) return;
    if (!rl_record_fits(&node->record, node->run_id, node->replid, node->evicted))
        return; /* of before it went back */
    /* What all of this is for. */
    assert_true(pending_op->with_floor);
    assert_true(gw.now - node->lost_at >= rl_record_ttl_wait(&node->record) * RL_MS);
    node->installs++;
}

void world_execute(unsigned agent, unsigned index) {
    struct pending_op *pending_op = &gw.agent[agent].pending_op[index];
    struct world_node *node = &gw.node[index];
    if (pending_op->what == RL_PENDING_NONE || pending_op->executed) return;
    pending_op->executed = true;
    switch (pending_op->what) {
    case RL_PENDING_READ:
        pending_op->answered_record = node->has_record;
        pending_op->record = node->record;
        break;
    case RL_PENDING_WRITE: write_it(node, pending_op); break;
    case RL_PENDING_FENCES:
        pending_op->has_fences = node->has_record && node->has_fences &&
                                 node->record.eligibility == RL_RECORD_INTACT &&
                                 node->record.nonce == pending_op->expected;
        memcpy(pending_op->fences, node->fences, sizeof(pending_op->fences));
        break;
    case RL_PENDING_NONE: break;
    }
}

void world_answer(unsigned agent, unsigned node) {
    static struct pending_op pending_op;
    if (gw.agent[agent].pending_op[node].what == RL_PENDING_NONE) return;
    world_execute(agent, node);
    pending_op = gw.agent[agent].pending_op[node];
    gw.agent[agent].pending_op[node].what = RL_PENDING_NONE;
    struct rl_guard_event event = {.node = (uint8_t)node, .done = pending_op.done};
    if (pending_op.what == RL_PENDING_READ) {
        world_state(agent, node);
        event.type = RL_GUARD_RECORD;
        event.record = pending_op.answered_record ? &pending_op.record : NULL;
    } else if (pending_op.what == RL_PENDING_WRITE) {
        event.type = RL_GUARD_WRITTEN;
    } else {
        event.type = RL_GUARD_FENCES;
        event.fences = pending_op.has_fences ? pending_op.fences : NULL;
    }
    world_step(agent, event);
}

void world_fail(unsigned agent, unsigned node) {
    if (gw.agent[agent].pending_op[node].what == RL_PENDING_NONE) return;
    gw.agent[agent].pending_op[node].what = RL_PENDING_NONE;
    world_step(agent, (struct rl_guard_event){.type = RL_GUARD_FAILED, .node = (uint8_t)node});
}

void world_lose(unsigned index, bool restarted) {
    struct world_node *node = &gw.node[index];
    for (unsigned a = 0; a < gw.agents && restarted; a++) world_disconnect(a, index);
    node->has_record = node->has_fences = false;
    memset(&node->record, 0, sizeof(node->record));
    memset(node->fences, 0, sizeof(node->fences));
    node->lost_at = gw.now;
    node->losses++;
    if (restarted) new_incarnation(node);
}

void world_go_back(unsigned node, const struct world_node *then) {
    unsigned losses = gw.node[node].losses + 1, installs = gw.node[node].installs;
    uint64_t evicted = gw.node[node].evicted;
    gw.node[node] = *then;
    gw.node[node].losses = losses;
    gw.node[node].installs = installs;
    gw.node[node].evicted = evicted;
    gw.node[node].lost_at = gw.now;
    world_promote(node);
}

static bool reconnect_all(void) {
    bool any = false;
    for (unsigned a = 0; a < gw.agents; a++)
        for (unsigned n = 0; n < gw.nodes; n++) {
            if (!(gw.agent[a].reconnect & rl_bit(n))) continue;
            gw.agent[a].reconnect &= (rl_mask)~rl_bit(n);
            world_disconnect(a, n);
            world_connect(a, n);
            any = true;
        }
    return any;
}

static bool answer_all(void) {
    bool any = gw.reconnects && reconnect_all();
    for (unsigned a = 0; a < gw.agents; a++)
        for (unsigned n = 0; n < gw.nodes; n++) {
            if (gw.agent[a].pending_op[n].what == RL_PENDING_NONE) continue;
            world_answer(a, n);
            any = true;
        }
    return any;
}

void world_run(rl_ns until) {
    for (;;) {
        while (answer_all()) continue;
        rl_ns next = RL_NEVER;
        for (unsigned a = 0; a < gw.agents; a++)
            if (gw.agent[a].wake_at < next) next = gw.agent[a].wake_at;
        if (next > until) break;
        if (next > gw.now) gw.now = next;
        for (unsigned a = 0; a < gw.agents; a++)
            if (gw.agent[a].wake_at <= gw.now)
                world_step(a, (struct rl_guard_event){.type = RL_GUARD_TICK});
    }
    gw.now = until;
}

rl_mask world_intact(unsigned agent) { return rl_guard_voters(&gw.agent[agent].guard); }

static void make_record(unsigned index) {
    struct world_node *node = &gw.node[index];
    struct rl_record *record = &node->record;
    *record = (struct rl_record){.format = RL_RECORD_FORMAT,
                                 .quorum_id = 77,
                                 .node_id = 100 + index,
                                 .epoch = 1,
                                 .settled = true,
                                 .members_count = (uint8_t)gw.nodes,
                                 .eligibility = RL_RECORD_INTACT,
                                 .nonce = 1000 + index,
                                 .ttl_max_ms = 1000,
                                 .ttl_next_ms = 1000};
    memcpy(record->run_id, node->run_id, sizeof(record->run_id));
    memcpy(record->replid, node->replid, sizeof(record->replid));
    for (unsigned i = 0; i < gw.nodes; i++) {
        struct rl_member *member = &record->members[i];
        member->id = 100 + i;
        snprintf(member->url, sizeof(member->url), "redis://n%u", i);
        member->incarnation.number = 1;
        memcpy(member->incarnation.run_id, gw.node[i].run_id, sizeof(member->incarnation.run_id));
    }
    node->has_record = node->has_fences = true;
}

void world_begin(unsigned nodes, unsigned agents, uint64_t seed) {
    memset(&gw, 0, sizeof(gw));
    gw.nodes = nodes;
    gw.agents = agents;
    gw.now = 1000000 * RL_MS;
    gw.random = seed;
    for (unsigned i = 0; i < nodes; i++) {
        gw.node[i].up = true;
        new_incarnation(&gw.node[i]);
    }
    for (unsigned i = 0; i < nodes; i++) make_record(i);
    for (unsigned a = 0; a < agents; a++) {
        rl_guard_init(&gw.agent[a].guard, nodes, 10000, 2 * RL_MS);
        gw.agent[a].random = seed + a + 1;
        gw.agent[a].wake_at = RL_NEVER;
        for (unsigned i = 0; i < nodes; i++)
            snprintf(gw.agent[a].guard.node[i].url, RL_URL_BYTES, "redis://n%u", i);
        for (unsigned i = 0; i < nodes; i++) world_connect(a, i);
    }
}

void world_begin_read(unsigned nodes, unsigned agents) {
    world_begin(nodes, agents, 1);
    world_run(gw.now);
}

void world_peek(unsigned node) {
    for (unsigned a = 0; a < gw.agents; a++)
        world_step(a, (struct rl_guard_event){.type = RL_GUARD_PEEK, .node = (uint8_t)node});
    world_run(gw.now);
}

void world_lack_sources(rl_mask away) {
    world_lose(0, false);
    world_peek(0);
    world_run(gw.now + WORLD_QUARANTINE / 2);
    for (unsigned i = 0; i < gw.nodes; i++)
        if (away & rl_bit(i)) world_disconnect(0, i);
    world_run(gw.now + WORLD_QUARANTINE);
    assert_int_equal(gw.agent[0].guard.installing, 0);
}
