/* SPDX-License-Identifier: BSD-2-Clause */
#include "held_locks.h"

#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>

#include "explain/majority.h"
#include "process/boottime.h"
#include "process/message.h"

enum { EFFORT = 500 };

/* The names that one step of the walk has found; none is kept longer. */
struct names {
    struct redlock_bytes *list;
    size_t count;
    bool failed;
};

static void on_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    struct names *names = context;
    (void)node;
    if (what != REDLOCK_KEY_OTHER || bytes == 0 || names->failed) return;
    void *list = realloc(names->list, (names->count + 1) * sizeof *names->list);
    void *copy = malloc(bytes);
    if (list != NULL) names->list = list;
    if (list == NULL || copy == NULL) {
        free(copy);
        names->failed = true;
        return;
    }
    memcpy(copy, resource, bytes);
    names->list[names->count++] = (struct redlock_bytes){copy, bytes};
}

static void drop(struct names *names) {
    for (size_t i = 0; i < names->count; i++) free((void *)names->list[i].data);
    names->count = 0;
}

static void judge(const struct redlock_bytes *name, const struct redlock_view *views, size_t nodes,
                  struct held *held) {
    const struct majority majority = majority_of(views, nodes);
    if (majority.verdict != MAJORITY_HELD || !is_token(&views[majority.holder])) return;
    if (majority.remaining_ms <= held->remaining_ms) return;
    held->remaining_ms = majority.remaining_ms;
    printable(held->resource, sizeof held->resource, name->data, name->bytes);
}

static bool survey(struct session *session, const struct names *names, struct held *held) {
    const size_t nodes = redlock_client_nodes(session->client);
    enum { BATCH = 64 };
    struct redlock_view *views = calloc(BATCH * nodes, sizeof *views);
    bool done = views != NULL;
    for (size_t at = 0; done && at < names->count; at += BATCH) {
        const size_t count = names->count - at < BATCH ? names->count - at : BATCH;
        done = redlock_survey(session->client, names->list + at, count, views, NULL) == REDLOCK_OK;
        for (size_t i = 0; done && i < count; i++)
            judge(&names->list[at + i], views + i * nodes, nodes, held);
    }
    free(views);
    return done;
}

void held_longest(struct session *session, int64_t walk_ms, struct held *held) {
    const int64_t until = now_ns() + walk_ms * MS;
    const uint32_t all = (1U << redlock_client_nodes(session->client)) - 1;
    struct redlock_walk walk;
    struct names names = {0};
    *held = (struct held){.complete = false};
    redlock_walk_init(&walk);
    walk.effort = EFFORT;
    for (bool well = true; well && walk.ended != all && now_ns() < until; drop(&names)) {
        well = redlock_scan(session->client, &walk, on_key, &names) == REDLOCK_OK &&
               !names.failed && walk.failed == 0;
        well = well && survey(session, &names, held);
    }
    held->complete = walk.ended == all && !names.failed;
    free(names.list);
}
