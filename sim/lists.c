/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ONE_LIST: two member lists of one epoch are never both in force, and epochs only grow. A list is
 * in force once a majority of its members carry it, intact. The judge remembers the newest list
 * that was in force as long as any node carries it: when all records are gone, an init has nothing
 * left to continue from.
 *
 * And, of LIVENESS: an operator that is alive ends the command that it began.
 */
#include "judges.h"

#include <string.h>

#define LISTS 128

struct list {
    int64_t epoch;
    uint32_t members;
};

struct registry {
    struct report *report;
    struct list lists[LISTS + 1];
    unsigned carries[JUDGE_NODES]; /* which list; 0: none */
    bool intact[JUDGE_NODES];
    unsigned newest; /* that was in force; 0: none */
    size_t since;
    size_t operates[JUDGE_CLIENTS]; /* index of the record that shows it, plus one; 0: none */
};

static unsigned count(uint32_t mask) {
    unsigned ones = 0;
    for (; mask; mask &= mask - 1) ones++;
    return ones;
}

static bool is_in_force(const struct registry *registry, unsigned list) {
    uint32_t members = registry->lists[list].members;
    unsigned votes = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++)
        votes += (members >> i & 1) && registry->intact[i] && registry->carries[i] == list;
    return list != 0 && votes > count(members) / 2;
}

static bool is_forgotten(const struct registry *registry, unsigned list) {
    for (unsigned i = 0; i < JUDGE_NODES; i++)
        if (registry->carries[i] == list) return false;
    return true;
}

static void look(struct registry *registry, unsigned list, size_t index) {
    const struct history_record *records = registry->report->history->records;
    const struct list *now = &registry->lists[list], *before = &registry->lists[registry->newest];
    if (list == registry->newest || !is_in_force(registry, list)) return;
    if (registry->newest != 0 && now->epoch <= before->epoch &&
        !is_forgotten(registry, registry->newest))
        judge_found(registry->report, CHECK_ONE_LIST, registry->since, index, records[index].at,
                    records[index].at,
                    "list %u of epoch %lld was in force at %s, and list %u of epoch %lld had been",
                    list, (long long)now->epoch, judge_ms(records[index].at).text, registry->newest,
                    (long long)before->epoch);
    registry->newest = list;
    registry->since = index;
}

static void end(struct registry *registry, size_t index) {
    const struct history_record *records = registry->report->history->records;
    for (int i = 0; i < JUDGE_CLIENTS; i++) {
        if (registry->operates[i] == 0) continue;
        size_t began = registry->operates[i] - 1;
        judge_found(
            registry->report, CHECK_LIVENESS, began, index, records[began].at, records[index].at,
            "%s began to change the quorum at %s, and had not ended at %s", judge_client(i).text,
            judge_ms(records[began].at).text, judge_ms(records[index].at).text);
    }
}

void judge_lists(struct report *report) {
    struct registry registry;
    memset(&registry, 0, sizeof registry);
    registry.report = report;
    for (size_t i = 0; i < report->history->count; i++) {
        const struct history_record *record = &report->history->records[i];
        switch (record->kind) {
        case HISTORY_NODE_MEMBERS:
            if (record->message > LISTS) break;
            if (!record->result) registry.carries[record->node] = record->message;
            registry.lists[record->message] = (struct list){record->value, (uint32_t)record->until};
            look(&registry, record->message, i);
            break;
        case HISTORY_NODE_ELIGIBILITY:
            registry.intact[record->node] = record->result != 0;
            look(&registry, registry.carries[record->node], i);
            break;
        case HISTORY_OPERATE: registry.operates[record->client] = i + 1; break;
        case HISTORY_OPERATED:
        case HISTORY_CLIENT_CRASH: registry.operates[record->client] = 0; break;
        case HISTORY_END:
            if (report->history->liveness_bound > 0) end(&registry, i);
            break;
        default: break;
        }
    }
}
