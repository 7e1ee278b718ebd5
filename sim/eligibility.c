/* SPDX-License-Identifier: BSD-2-Clause
 *
 * UNFIT_VOTE, REFUSED and RECOVERED: guarded mode's nodes, and who may not use them.
 *
 * Where operators change the members, a node says which list its record has. The majority is one of
 * the newest list that a voter carried, for a node that switches keeps key and fence, and its vote;
 * or one of the list before, for that meets each majority of the next. At the end, those of the
 * newest list that is intact anywhere must be intact.
 *
 * UNFIT_VOTE. A node that votes writes VOTE with token and fence, and whether its record was intact
 * and written for the process that ran and the data that it had. Who holds a lock with a fence was
 * voted for, with this token and this fence, by a majority of all nodes that were so. Votes of an
 * attempt come in on several nodes at once, and a fence that was too low is raised by another
 * round: the last few proposals of a client are kept apart.
 *
 * REFUSED. History says which clients are not to be granted anything.
 *
 * RECOVERED. Every node that lost its data is intact when the run ends, and a run ends when it has
 * gone on for as long as that may take. Nodes of another quorum than the one in which locks are
 * granted have nobody who does it.
 */
#include "judges.h"

#include <string.h>

#define PROPOSALS 16
#define LISTS 128

struct proposal {
    uint32_t token;
    int64_t fence;
    uint32_t list, oldest; /* the newest and the oldest that a voter carried; 0: there is but one */
    unsigned nodes;        /* that voted for it while intact */
};

struct ballot {
    struct proposal proposals[PROPOSALS];
    unsigned next;
};

struct booth {
    struct report *report;
    struct ballot ballots[JUDGE_RESOURCES][JUDGE_CLIENTS];
    size_t lost[JUDGE_NODES]; /* index of the record that shows it, plus one; 0: intact */
    /* where operators change the members: the node's last known state ... */
    bool intact[JUDGE_NODES];
    uint32_t carries[JUDGE_NODES]; /* ... and its list; 0: none */
    struct {
        int64_t epoch;
        uint32_t members;
    } lists[LISTS + 1];
};

static struct proposal *find(struct ballot *ballot, const struct history_record *record) {
    for (unsigned i = 0; i < PROPOSALS; i++) {
        struct proposal *proposal = &ballot->proposals[i];
        if (proposal->token == record->token && proposal->fence == record->value) return proposal;
    }
    return NULL;
}

static void vote(struct booth *booth, const struct history_record *record) {
    struct ballot *ballot = &booth->ballots[record->resource][record->client];
    if (record->result != 1) return;
    struct proposal *proposal = find(ballot, record);
    if (!proposal) {
        proposal = &ballot->proposals[ballot->next++ % PROPOSALS];
        *proposal = (struct proposal){.token = record->token,
                                      .fence = record->value,
                                      .list = record->message,
                                      .oldest = record->message};
    }
    proposal->nodes |= 1u << record->node;
    if (booth->lists[record->message].epoch > booth->lists[proposal->list].epoch)
        proposal->list = record->message;
    if (booth->lists[record->message].epoch < booth->lists[proposal->oldest].epoch)
        proposal->oldest = record->message;
}

static unsigned members(const struct history *history) {
    unsigned count = 0;
    for (unsigned i = 0; i < history->nodes; i++) count += ~history->others >> i & 1;
    return count;
}

static unsigned count(uint32_t nodes) {
    unsigned ones = 0;
    for (; nodes; nodes &= nodes - 1) ones++;
    return ones;
}

static bool is_majority_of_list(const struct booth *booth, const struct proposal *proposal,
                                unsigned *votes, unsigned *needed) {
    uint32_t before = booth->lists[proposal->oldest].members;
    uint32_t members_now = booth->lists[proposal->list].members;
    int64_t apart = booth->lists[proposal->list].epoch - booth->lists[proposal->oldest].epoch;
    *votes = count(proposal->nodes & members_now);
    *needed = count(members_now) / 2 + 1;
    if (*votes >= *needed) return true;
    return apart <= 1 && count(proposal->nodes & before) > count(before) / 2;
}

static bool is_granted(const struct booth *booth, const struct history_record *record,
                       unsigned *votes, unsigned *needed) {
    const struct ballot *ballot = &booth->ballots[record->resource][record->client];
    *needed = members(booth->report->history) / 2 + 1;
    for (unsigned i = 0; i < PROPOSALS; i++) {
        const struct proposal *proposal = &ballot->proposals[i];
        if (proposal->token != record->token || proposal->fence != record->value) continue;
        if (proposal->list) return is_majority_of_list(booth, proposal, votes, needed);
        *votes = count(proposal->nodes & ~booth->report->history->others);
        if (*votes >= *needed) return true;
    }
    return false;
}

static void acquired(struct booth *booth, size_t index) {
    const struct history_record *record = &booth->report->history->records[index];
    if (booth->report->history->refused >> record->client & 1)
        judge_found(booth->report, CHECK_REFUSED, index, index, record->at, record->at,
                    "%s acquired %s at %s, and was to be refused",
                    judge_client(record->client).text, judge_resource(record->resource).text,
                    judge_ms(record->at).text);
    if (record->value == 0) return; /* no fence: classic */
    unsigned needed = 0, votes = 0;
    if (is_granted(booth, record, &votes, &needed)) return;
    judge_found(booth->report, CHECK_UNFIT_VOTE, index, index, record->at, record->at,
                "%s acquired %s at %s with fence %lld, for which %u intact nodes voted, not %u",
                judge_client(record->client).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, (long long)record->value, votes, needed);
}

/* Nodes that must be intact at the end: those that lost their data, and those that were added. */
static uint32_t wanted(const struct booth *booth) {
    uint32_t newest = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++) {
        uint32_t list = booth->carries[i];
        if (list != 0 && booth->intact[i] &&
            (newest == 0 || booth->lists[list].epoch > booth->lists[newest].epoch))
            newest = list;
    }
    return newest ? booth->lists[newest].members : ~booth->report->history->others;
}

static void end(struct booth *booth, size_t index) {
    const struct history_record *records = booth->report->history->records;
    uint32_t nodes = wanted(booth);
    for (int node = 0; node < JUDGE_NODES; node++) {
        bool added = booth->carries[node] != 0 && !booth->intact[node];
        if ((booth->lost[node] == 0 && !added) || !(nodes >> node & 1)) continue;
        size_t lost = booth->lost[node] ? booth->lost[node] - 1 : index;
        judge_found(booth->report, CHECK_RECOVERED, lost, index, records[lost].at,
                    records[index].at, "n%d lost its data at %s, and was not intact again at %s",
                    node + 1, judge_ms(records[lost].at).text, judge_ms(records[index].at).text);
    }
}

void judge_eligibility(struct report *report) {
    struct booth booth;
    memset(&booth, 0, sizeof booth);
    booth.report = report;
    for (size_t i = 0; i < report->history->count; i++) {
        const struct history_record *record = &report->history->records[i];
        switch (record->kind) {
        case HISTORY_VOTE: vote(&booth, record); break;
        case HISTORY_ACQUIRED: acquired(&booth, i); break;
        case HISTORY_NODE_MEMBERS:
            if (record->message > LISTS) break;
            if (!record->result) booth.carries[record->node] = record->message;
            booth.lists[record->message].epoch = record->value;
            booth.lists[record->message].members = (uint32_t)record->until;
            break;
        case HISTORY_NODE_ELIGIBILITY:
            booth.lost[record->node] = record->result ? 0 : i + 1;
            booth.intact[record->node] = record->result != 0;
            break;
        case HISTORY_END: end(&booth, i); break;
        default: break;
        }
    }
}
