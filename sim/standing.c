/* SPDX-License-Identifier: BSD-2-Clause
 *
 * UNFIT_VOTE, REFUSED and RECOVERED: guarded mode's nodes, and who may not use them.
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

struct proposal {
    uint32_t token;
    int64_t fence;
    unsigned nodes; /* that voted for it and were intact */
};

struct ballot {
    struct proposal proposals[PROPOSALS];
    unsigned next;
};

struct booth {
    struct report *report;
    struct ballot ballots[JUDGE_RESOURCES][JUDGE_CLIENTS];
    size_t lost[JUDGE_NODES]; /* the record that says so, and one; 0: intact */
};

static struct proposal *find(struct ballot *ballot, const struct history_record *record) {
    for (unsigned i = 0; i < PROPOSALS; i++) {
        struct proposal *proposal = &ballot->proposals[i];
        if (proposal->token == record->token && proposal->fence == record->value) return proposal;
    }
    return NULL;
}

static void vote(struct ballot *ballot, const struct history_record *record) {
    if (record->result != 1) return;
    struct proposal *proposal = find(ballot, record);
    if (!proposal) {
        proposal = &ballot->proposals[ballot->next++ % PROPOSALS];
        *proposal = (struct proposal){record->token, record->value, 0};
    }
    proposal->nodes |= 1u << record->node;
}

static unsigned members(const struct history *history) {
    unsigned count = 0;
    for (unsigned i = 0; i < history->nodes; i++) count += ~history->others >> i & 1;
    return count;
}

static void acquired(struct booth *booth, size_t index) {
    const struct history_record *record = &booth->report->history->records[index];
    if (booth->report->history->refused >> record->client & 1)
        judge_found(booth->report, CHECK_REFUSED, index, index, record->at, record->at,
                    "%s acquired %s at %s, and was to be refused",
                    judge_client(record->client).text, judge_resource(record->resource).text,
                    judge_ms(record->at).text);
    if (record->value == 0) return; /* no fence: classic */
    const struct proposal *proposal =
        find(&booth->ballots[record->resource][record->client], record);
    unsigned needed = members(booth->report->history) / 2 + 1, votes = 0;
    for (unsigned i = 0; proposal && i < JUDGE_NODES; i++)
        votes += proposal->nodes >> i & ~booth->report->history->others >> i & 1;
    if (votes >= needed) return;
    judge_found(booth->report, CHECK_UNFIT_VOTE, index, index, record->at, record->at,
                "%s acquired %s at %s with fence %lld, for which %u intact nodes voted, not %u",
                judge_client(record->client).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, (long long)record->value, votes, needed);
}

static void end(struct booth *booth, size_t index) {
    const struct history_record *records = booth->report->history->records;
    for (int node = 0; node < JUDGE_NODES; node++) {
        if (booth->lost[node] == 0 || booth->report->history->others >> node & 1) continue;
        size_t lost = booth->lost[node] - 1;
        judge_found(booth->report, CHECK_RECOVERED, lost, index, records[lost].at,
                    records[index].at, "n%d lost its data at %s, and was not intact again at %s",
                    node + 1, judge_ms(records[lost].at).text, judge_ms(records[index].at).text);
    }
}

void judge_standing(struct report *report) {
    struct booth booth;
    memset(&booth, 0, sizeof booth);
    booth.report = report;
    for (size_t i = 0; i < report->history->count; i++) {
        const struct history_record *record = &report->history->records[i];
        switch (record->kind) {
        case HISTORY_VOTE: vote(&booth.ballots[record->resource][record->client], record); break;
        case HISTORY_ACQUIRED: acquired(&booth, i); break;
        case HISTORY_NODE_STANDING: booth.lost[record->node] = record->result ? 0 : i + 1; break;
        case HISTORY_END: end(&booth, i); break;
        default: break;
        }
    }
}
