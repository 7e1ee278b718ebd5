/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ONE_LIST: two member lists of one epoch are never both in force, and epochs only grow. A list is
 * in force once a majority of its members carry it, intact. The judge remembers the newest list
 * that was in force as long as any node carries it: when all records are gone, an init has nothing
 * left to continue from.
 *
 * And, of LIVENESS: an operator that is alive ends the command that it began.
 */
#include "lists.h"

#include <string.h>

/* ---- what the nodes carry -------------------------------------------------------------------- */

unsigned lists_count(uint32_t nodes) {
    unsigned ones = 0;
    for (; nodes; nodes &= nodes - 1) ones++;
    return ones;
}

bool lists_read(struct lists *lists, const struct history_record *record) {
    if (record->kind == HISTORY_NODE_MEMBERS && record->message <= LISTS_MAX) {
        /* The old incarnation of a split node is not the node. */
        if (!record->result) lists->carries[record->node] = record->message;
        lists->list[record->message].epoch = record->value;
        lists->list[record->message].members = (uint32_t)record->until;
        return true;
    }
    if (record->kind != HISTORY_NODE_ELIGIBILITY) return false;
    lists->intact &= ~(1u << record->node);
    if (record->result) lists->intact |= 1u << record->node;
    return true;
}

unsigned lists_newest(const struct lists *lists) {
    unsigned newest = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++) {
        unsigned list = lists->carries[i];
        if (list != 0 && (lists->intact >> i & 1) &&
            (newest == 0 || lists->list[list].epoch > lists->list[newest].epoch))
            newest = list;
    }
    return newest;
}

/* ---- ONE_LIST -------------------------------------------------------------------------------- */

struct registry {
    struct report *report;
    struct lists lists;
    unsigned newest; /* that was in force; 0: none */
    size_t since;
    size_t operates[JUDGE_CLIENTS]; /* index of the record that shows it, plus one; 0: none */
};

static bool is_in_force(const struct lists *lists, unsigned list) {
    uint32_t carriers = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++)
        if (lists->carries[i] == list) carriers |= 1u << i;
    uint32_t members = lists->list[list].members;
    return list != 0 && lists_count(carriers & members & lists->intact) > lists_count(members) / 2;
}

static bool is_forgotten(const struct lists *lists, unsigned list) {
    for (unsigned i = 0; i < JUDGE_NODES; i++)
        if (lists->carries[i] == list) return false;
    return true;
}

static void look(struct registry *registry, unsigned list, size_t index) {
    const struct history_record *records = registry->report->history->records;
    const struct lists *lists = &registry->lists;
    int64_t epoch = lists->list[list].epoch, before = lists->list[registry->newest].epoch;
    if (list == registry->newest || !is_in_force(lists, list)) return;
    if (registry->newest != 0 && epoch <= before && !is_forgotten(lists, registry->newest))
        judge_found(registry->report, CHECK_ONE_LIST, registry->since, index, records[index].at,
                    records[index].at,
                    "list %u of epoch %lld was in force at %s, and list %u of epoch %lld had been",
                    list, (long long)epoch, judge_ms(records[index].at).text, registry->newest,
                    (long long)before);
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
        if (lists_read(&registry.lists, record)) {
            bool names_one = record->kind == HISTORY_NODE_MEMBERS;
            look(&registry, names_one ? record->message : registry.lists.carries[record->node], i);
            continue;
        }
        switch (record->kind) {
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
