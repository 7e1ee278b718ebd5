/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The contents of a node's record, and the record of the next epoch. */
#include <assert.h>
#include <string.h>

#include "core/guard.h"

int rl_incarnation_compare(const struct rl_incarnation *a, const struct rl_incarnation *b) {
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return strcmp(a->run_id, b->run_id);
}

void rl_incarnation_follow(struct rl_incarnation *incarnation, const char *run_id) {
    size_t bytes = strlen(run_id);
    assert(bytes < sizeof incarnation->run_id);
    if (incarnation->number < UINT32_MAX) incarnation->number++;
    memcpy(incarnation->run_id, run_id, bytes + 1);
}

bool rl_record_fits(const struct rl_record *record, const char *run_id, const char *replid,
                    uint64_t evicted) {
    if (record->format == 1 || strcmp(record->run_id, run_id) != 0) return false;
    return strcmp(record->replid, replid) == 0 && record->evicted == evicted;
}

const struct rl_member *rl_record_member(const struct rl_record *record, uint64_t id) {
    for (unsigned i = 0; i < record->members_count; i++)
        if (record->members[i].id == id) return &record->members[i];
    return NULL;
}

/* Consecutive majorities share a node because a change adds or removes only one member. */
bool rl_record_change(struct rl_record *record, const struct rl_change *change) {
    assert(change->kind == RL_CHANGE_ADD || change->kind == RL_CHANGE_REMOVE);
    struct rl_member *member = (struct rl_member *)rl_record_member(record, change->id);
    if (record->epoch == UINT32_MAX) return false;
    if (change->kind == RL_CHANGE_ADD) {
        if (member || record->members_count == RL_MEMBERS_MAX) return false;
        member = &record->members[record->members_count++];
        memset(member, 0, sizeof *member);
        member->id = change->id;
        memcpy(member->url, change->url, sizeof member->url);
    } else {
        if (!member || record->members_count == 1) return false;
        size_t behind = (size_t)(record->members + record->members_count - (member + 1));
        memmove(member, member + 1, behind * sizeof *member);
        record->members_count--;
    }
    record->epoch++;
    record->settled = false;
    record->ballot = record->accepted_ballot = 0;
    memset(&record->accepted, 0, sizeof record->accepted);
    return true;
}

uint64_t rl_loss_of_init(uint64_t quorum_id, uint32_t epoch) {
    uint64_t z = quorum_id + epoch * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z ^= z >> 27;
    return z ? z : 1;
}

bool rl_record_of_init(const struct rl_record *record) {
    return record->eligibility == RL_RECORD_RECOVERING &&
           record->loss == rl_loss_of_init(record->quorum_id, record->epoch);
}

bool rl_record_of_first_init(const struct rl_record *record) {
    return record->epoch == 1 && rl_record_of_init(record);
}
