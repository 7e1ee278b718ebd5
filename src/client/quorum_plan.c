/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What an init finds on the nodes, whether it may be written over, and what is to be there instead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quorum.h"

/* ---- what is there? ---- */

/* Names an init in the records that it writes as recovering: nobody else writes this loss. */
uint64_t quorum_loss_of_init(uint64_t quorum_id, uint32_t epoch) {
    uint64_t z = quorum_id + epoch * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z ^= z >> 27;
    return z ? z : 1;
}

bool quorum_is_of_init(const struct rl_record *record) {
    return record->standing == RL_RECORD_RECOVERING &&
           record->loss == quorum_loss_of_init(record->quorum_id, record->epoch);
}

/* By the first init of its quorum, and never intact since. */
static bool is_of_first_init(const struct rl_record *record) {
    return record->epoch == 1 && quorum_is_of_init(record);
}

const struct rl_record *quorum_record_at(const struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    return seat->heard && !seat->empty && !seat->unreadable ? &seat->record : NULL;
}

static bool is_listed(const struct quorum_work *work, const struct rl_record *record,
                      const struct rl_member *member) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *at = quorum_record_at(work, i);
        if (at && at->quorum_id == record->quorum_id && at->node_id == member->id) return true;
        if (strcmp(work->seat[i].url, member->url) == 0) return true;
    }
    return false;
}

static const struct rl_member *unlisted_member(const struct quorum_work *work,
                                               const struct rl_record *record, unsigned *count) {
    const struct rl_member *first = NULL;
    *count = 0;
    for (unsigned m = 0; m < record->members_count; m++) {
        if (is_listed(work, record, &record->members[m])) continue;
        if (!first) first = &record->members[m];
        ++*count;
    }
    return first;
}

const struct rl_member *quorum_member_at(const struct quorum_work *work, const char *url) {
    const struct rl_record *quorum = &work->view.quorum;
    for (unsigned m = 0; m < quorum->members_count; m++)
        if (strcmp(quorum->members[m].url, url) == 0) return &quorum->members[m];
    return NULL;
}

/* Another init, at the same moment, was the faster one there, and came to nothing. All its members
 * are in our list, so its quorum has no majority elsewhere. */
uint64_t quorum_left_by_other(const struct quorum_work *work, unsigned node) {
    const struct rl_record *record = quorum_record_at(work, node), *quorum = &work->view.quorum;
    const struct rl_member *place = quorum_member_at(work, work->seat[node].url);
    unsigned count;
    if (!place || !record || work->seat[node].run_id[0] == '\0') return 0;
    if (record->quorum_id == quorum->quorum_id || !is_of_first_init(record)) return 0;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *other = quorum_record_at(work, i);
        if (other && other->quorum_id == quorum->quorum_id && other->node_id == place->id) return 0;
    }
    return unlisted_member(work, record, &count) ? 0 : place->id;
}

static bool is_newest(const struct quorum_work *work, const struct rl_record *record) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *other = quorum_record_at(work, i);
        if (other && other->quorum_id == record->quorum_id && other->epoch > record->epoch)
            return false;
    }
    return true;
}

/* A majority that is not in our list may be alive, and would not hear of what we do. */
static int check_unlisted(struct quorum_work *work) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        unsigned count;
        if (!record ||
            (!is_newest(work, record) && work->view.node[i].standing != RL_STANDING_INTACT))
            continue;
        const struct rl_member *first = unlisted_member(work, record, &count);
        if (2 * count < record->members_count)
            continue; /* of an even number, half may be a majority without one of ours */
        return quorum_fail(
            work, REDLOCK_BAD_ARGUMENT,
            "%s belongs to quorum %016" PRIx64
            ", and %u of its %u members are not in the list (%s, ...): "
            "list them too; or take %s out of that quorum, or if that is gone for good, DEL " NET_KEY_RECORD
            " there",
            work->seat[i].url, record->quorum_id, count, record->members_count, first->url,
            work->seat[i].url);
    }
    return REDLOCK_OK;
}

/* The operator has named the quorum: what another one has left is taken into it, but not what votes
 * there. */
static bool may_take(const struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    return work->pinned && !(seat->record.standing == RL_RECORD_INTACT && quorum_same_server(seat));
}

/* Nodes of two quorums cannot be one. What an init left that never came to anything does not
 * count. */
static int check_one_quorum(struct quorum_work *work, struct quorum_plan *plan) {
    uint64_t meant = work->quorum_id;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (!record || is_of_first_init(record)) continue;
        plan->never_intact = false;
        if (!meant) meant = record->quorum_id;
        if (record->quorum_id != meant && !may_take(work, i))
            return quorum_fail_other(work, i, meant);
    }
    plan->record.quorum_id = meant;
    return REDLOCK_OK;
}

static uint64_t id_of_any_record(const struct quorum_work *work) {
    for (unsigned i = 0; i < work->nodes; i++)
        if (quorum_record_at(work, i)) return work->seat[i].record.quorum_id;
    return 0;
}

/* All that follows sees the nodes as those of this quorum. */
static int choose_quorum(struct quorum_work *work, struct quorum_plan *plan) {
    int result = check_one_quorum(work, plan);
    if (result != REDLOCK_OK) return result;
    if (!plan->record.quorum_id) plan->record.quorum_id = id_of_any_record(work);
    if (!plan->record.quorum_id) plan->record.quorum_id = quorum_random(work);
    if (work->no_random) return quorum_fail_random(work);
    work->quorum_id = plan->record.quorum_id;
    quorum_judge(work);
    return REDLOCK_OK;
}

int quorum_plan_begin(struct quorum_work *work, struct quorum_plan *plan) {
    *plan = (struct quorum_plan){.never_intact = true};
    int result = choose_quorum(work, plan);
    return result == REDLOCK_OK ? check_unlisted(work) : result;
}

/* ---- what is to be there ---- */

static bool is_id_taken(const struct rl_record *record, uint64_t id) {
    return rl_record_member(record, id) != NULL;
}

/* "ids kept for nodes whose record is readable". The number of its body: above all that is told of
 * the member. */
static void plan_member(struct quorum_work *work, struct quorum_plan *plan, unsigned node) {
    struct rl_record *to = &plan->record;
    struct rl_member *member = &to->members[node];
    const struct rl_record *own = quorum_record_at(work, node);
    bool keep = own && own->quorum_id == to->quorum_id && !is_id_taken(to, own->node_id);
    member->id = keep ? own->node_id : quorum_random(work);
    snprintf(member->url, sizeof member->url, "%s", work->seat[node].url);
    member->body.number = 0;
    for (unsigned i = 0; i < work->nodes && !plan->never_intact; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        const struct rl_member *told = record && record->quorum_id == to->quorum_id
                                           ? rl_record_member(record, member->id)
                                           : NULL;
        if (told && told->body.number > member->body.number)
            member->body.number = told->body.number;
    }
    rl_body_follow(&member->body, work->seat[node].run_id);
    to->members_count = (uint8_t)(node + 1);
}

/* How long locks of before may last: whatever anybody says of it, of whichever quorum. */
static int64_t longest_ttl_max(const struct quorum_work *work) {
    const struct redlock_quorum_options *options = &work->options;
    int64_t longest = options->ttl_ms_max > options->ttl_ms_max_before ? options->ttl_ms_max
                                                                       : options->ttl_ms_max_before;
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (record && record->ttl_max_ms > longest) longest = record->ttl_max_ms;
    }
    return longest;
}

static int64_t ttl_max_of_new(const struct quorum_work *work, const struct quorum_plan *plan) {
    if (work->options.ttl_ms_max > 0) return work->options.ttl_ms_max;
    return plan->ttl_max_ms_longest > 0 ? plan->ttl_max_ms_longest : REDLOCK_QUORUM_TTL_MS_MAX;
}

int64_t quorum_wall_us(struct quorum_work *work) {
    if (client_enter(work->client) != REDLOCK_OK) return 0;
    int64_t now = net_wall_us(work->client->net);
    client_leave(work->client);
    return now < REDLOCK_FENCE_MAX ? now : 0;
}

/* Members that are not listed, or whose record is gone, may know of epochs that nobody here does,
 * and what they know must not outrank what is written now. The wall clock counts on where nothing
 * else can; if it is wrong, a former member that comes back may stop clients that list it, but
 * never votes (standing.c, is_newer()). */
static uint32_t epoch_after(struct quorum_work *work, uint32_t seen) {
    int64_t wall_s = quorum_wall_us(work) / 1000000;
    return wall_s > (int64_t)seen && wall_s < (int64_t)UINT32_MAX ? (uint32_t)wall_s
                                                                  : seen + (seen < UINT32_MAX);
}

void quorum_plan_records(struct quorum_work *work, struct quorum_plan *plan) {
    struct rl_record *to = &plan->record;
    uint32_t epoch = 0;
    plan->ttl_max_ms_longest = longest_ttl_max(work);
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (!record) continue;
        if (record->epoch > epoch && !plan->never_intact) epoch = record->epoch;
    }
    to->epoch = plan->never_intact && !work->pinned ? epoch + 1 : epoch_after(work, epoch);
    to->begun = to->epoch;
    to->format = RL_RECORD_FORMAT;
    to->settled = true;
    to->ttl_max_ms = ttl_max_of_new(work, plan);
    to->members_count = 0;
    for (unsigned i = 0; i < work->nodes; i++) plan_member(work, plan, i);
}
