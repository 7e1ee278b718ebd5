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

bool rl_record_same_members(const struct rl_record *a, const struct rl_record *b) {
    if (a->members_count != b->members_count) return false;
    for (unsigned i = 0; i < a->members_count; i++)
        if (a->members[i].id != b->members[i].id && !rl_record_member(b, a->members[i].id))
            return false;
    return true;
}

bool rl_record_ttl_pending(const struct rl_record *record) {
    return record->ttl_max_ms != record->ttl_next_ms;
}

int64_t rl_record_ttl_allowed(const struct rl_record *record) {
    return record->ttl_max_ms < record->ttl_next_ms ? record->ttl_max_ms : record->ttl_next_ms;
}

int64_t rl_record_ttl_wait(const struct rl_record *record) {
    return record->ttl_max_ms > record->ttl_next_ms ? record->ttl_max_ms : record->ttl_next_ms;
}

bool rl_change_same(const struct rl_change *a, const struct rl_change *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case RL_CHANGE_NONE: break;
    case RL_CHANGE_ADD: return strcmp(a->url, b->url) == 0;
    case RL_CHANGE_REMOVE: return a->id == b->id;
    case RL_CHANGE_TTL_MAX: return a->ttl_ms == b->ttl_ms;
    }
    return true;
}

/* Consecutive majorities share a node because a change adds or removes only one member. */
static bool change_members(struct rl_record *record, const struct rl_change *change) {
    struct rl_member *member = (struct rl_member *)rl_record_member(record, change->id);
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
    return true;
}

/* "e + 1 announces the new value; e + 2 makes it the only one." */
static bool change_ttl_max(struct rl_record *record, int64_t ttl_ms) {
    bool begins = !rl_record_ttl_pending(record);
    if (begins == (ttl_ms == record->ttl_next_ms)) return false;
    if (begins)
        record->ttl_next_ms = ttl_ms;
    else
        record->ttl_max_ms = ttl_ms;
    return true;
}

bool rl_record_change(struct rl_record *record, const struct rl_change *change) {
    assert(change->kind != RL_CHANGE_NONE);
    if (record->epoch == UINT32_MAX) return false;
    if (change->kind == RL_CHANGE_TTL_MAX) {
        if (!change_ttl_max(record, change->ttl_ms)) return false;
    } else if (rl_record_ttl_pending(record) || !change_members(record, change)) {
        return false;
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
