/* SPDX-License-Identifier: BSD-2-Clause */
#include "stage.h"

#include <stdio.h>

void stage_open(struct stage *stage) {
    stage->world = world_new();
    world_options_init(&stage->options);
    stage->options.nodes = 3;
    stage->options.link.delay_min = stage->options.link.delay_max = RL_MS;
    history_init(&stage->history, 0, 0, 0);
}

void stage_begin(struct stage *stage) {
    world_begin(stage->world, &stage->options, &stage->history);
    stage_run(stage, 10);
}

void stage_close(struct stage *stage) {
    world_end(stage->world);
    world_free(stage->world);
    history_free(&stage->history);
}

void stage_run(struct stage *stage, int64_t until_ms) {
    world_run_until(stage->world, until_ms * RL_MS);
}

static bool fits(const struct history_record *record, enum history_kind kind, int client,
                 int node) {
    if (record->kind != kind) return false;
    return (client == ANYBODY || record->client == client) &&
           (node == ANYBODY || record->node == node);
}

const struct history_record *stage_find(const struct stage *stage, enum history_kind kind,
                                        int client, int node, unsigned nth) {
    for (size_t i = 0; i < stage->history.count; i++) {
        const struct history_record *record = &stage->history.records[i];
        if (fits(record, kind, client, node) && nth-- == 0) return record;
    }
    return NULL;
}

unsigned stage_count(const struct stage *stage, enum history_kind kind, int client, int node) {
    unsigned count = 0;
    while (stage_find(stage, kind, client, node, count)) count++;
    return count;
}

void stage_print(const struct stage *stage) { history_print_all(&stage->history, stderr); }

const struct history_record *stage_need(const struct stage *stage, enum history_kind kind,
                                        int client, int node, unsigned nth) {
    const struct history_record *record = stage_find(stage, kind, client, node, nth);
    if (record) return record;
    stage_print(stage);
    fail_msg("no %s number %u of client %d and node %d", history_kind_name(kind), nth, client,
             node);
    return NULL;
}

const struct history_record *stage_message(const struct stage *stage, enum history_kind kind,
                                           unsigned op, int client, int node, unsigned nth) {
    for (unsigned i = 0;; i++) {
        const struct history_record *record = stage_find(stage, kind, client, node, i);
        if (!record) return NULL;
        if (record->op == op && nth-- == 0) return record;
    }
}

void stage_open_guarded(struct stage *stage) {
    stage_open(stage);
    stage->options.guarded = stage->options.fenced = true;
    stage->options.ttl_ms_max = 10000;
    for (unsigned i = 0; i < 2; i++) {
        stage->options.client[i].client.mode = REDLOCK_MODE_GUARDED;
        stage->options.client[i].client.allow_replicas = 1;
        stage->options.client[i].client.recover = 0;
    }
}

void stage_begin_held_by_a(struct stage *stage) {
    stage_begin(stage);
    actor_act(stage->world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(stage, 100);
    assert_non_null(stage_find(stage, HISTORY_ACQUIRED, A, ANYBODY, 0));
}
