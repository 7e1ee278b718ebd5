/* SPDX-License-Identifier: BSD-2-Clause
 *
 * UNFIT_VOTE, REFUSED and RECOVERED: which nodes may vote in guarded mode, and which clients may
 * use them.
 *
 * UNFIT_VOTE: a lock with a fencing token was granted by a majority of intact nodes. A node that
 * votes writes a VOTE record with the token, the fence, its list of members, and whether it was
 * intact: its record says so, and was written for the process that runs there and for its present
 * data. For each ACQUIRED with a fence, the judge counts the intact nodes that voted for this token
 * and this fence. A client that finds its fence too low proposes a higher one, while nodes still
 * answer the earlier proposal. So the judge keeps the last few proposals of each client apart.
 *
 * Where operators change the members, the majority is one of the newest list that any of these
 * voters carried: the client knew that list, because a vote names the record under which it is
 * given. Votes of nodes outside that list do not count. A voter may carry the list directly before:
 * a node that switches to the next list keeps its keys and fences, and so its vote. An older list
 * does not count.
 *
 * REFUSED: a client whose configuration is wrong gets no lock. The history names these clients.
 *
 * RECOVERED: at the end of the run, every node that lost its data is intact again. If members
 * change, this holds for the members of the newest list that an intact node carries, and it
 * includes the members that were added. A run goes on for as long as recovery may take. Nodes of
 * the second quorum, in which no client takes locks, do not count, since no client recovers them.
 */
#include "lists.h"

#include <string.h>

#define PROPOSALS 16

struct proposal {
    uint32_t token;
    int64_t fence;
    uint32_t nodes;            /* that voted for it while intact */
    uint8_t list[JUDGE_NODES]; /* the list that each carried when it voted; 0: there is but one */
};

struct ballot {
    struct proposal proposals[PROPOSALS];
    unsigned next;
};

struct booth {
    struct report *report;
    struct ballot ballots[JUDGE_RESOURCES][JUDGE_CLIENTS];
    size_t lost[JUDGE_NODES]; /* index of the record that shows it, plus one; 0: intact */
    struct lists lists;
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
        *proposal = (struct proposal){.token = record->token, .fence = record->value};
    }
    proposal->nodes |= 1u << record->node;
    proposal->list[record->node] = (uint8_t)record->message;
}

static unsigned members(const struct history *history) {
    unsigned count = 0;
    for (unsigned i = 0; i < history->nodes; i++) count += ~history->others >> i & 1;
    return count;
}

/* The newest list that a voter carried; 0: members never change in this world. */
static unsigned newest_list(const struct booth *booth, const struct proposal *proposal) {
    unsigned newest = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++) {
        unsigned list = proposal->list[i];
        if (list != 0 &&
            (newest == 0 || booth->lists.list[list].epoch > booth->lists.list[newest].epoch))
            newest = list;
    }
    return newest;
}

/* A change of ttl_max makes an epoch with the same members. So votes of all these epochs may count
 * together, while two changes of the members have a wait between them. */
static bool same_members_until(const struct booth *booth, unsigned from, unsigned list) {
    const struct lists *lists = &booth->lists;
    int64_t first = lists->list[from].epoch, last = lists->list[list].epoch;
    for (unsigned i = 1; from != 0 && i <= LISTS_MAX; i++)
        if (lists->list[i].epoch >= first && lists->list[i].epoch <= last &&
            lists->list[i].members != lists->list[list].members)
            return false;
    return from != 0;
}

static bool is_majority_of_list(const struct booth *booth, const struct proposal *proposal,
                                unsigned list, unsigned *votes, unsigned *needed) {
    int64_t epoch = booth->lists.list[list].epoch;
    uint32_t members = booth->lists.list[list].members, voters = 0;
    for (unsigned i = 0; i < JUDGE_NODES; i++)
        if (booth->lists.list[proposal->list[i]].epoch >= epoch - 1 ||
            same_members_until(booth, proposal->list[i], list))
            voters |= 1u << i;
    *votes = lists_count(voters & proposal->nodes & members);
    *needed = lists_count(members) / 2 + 1;
    return *votes >= *needed;
}

static bool is_granted(const struct booth *booth, const struct history_record *record,
                       unsigned *votes, unsigned *needed) {
    const struct ballot *ballot = &booth->ballots[record->resource][record->client];
    *needed = members(booth->report->history) / 2 + 1;
    for (unsigned i = 0; i < PROPOSALS; i++) {
        const struct proposal *proposal = &ballot->proposals[i];
        if (proposal->token != record->token || proposal->fence != record->value) continue;
        unsigned list = newest_list(booth, proposal);
        if (list != 0) return is_majority_of_list(booth, proposal, list, votes, needed);
        *votes = lists_count(proposal->nodes & ~booth->report->history->others);
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
    unsigned newest = lists_newest(&booth->lists);
    return newest ? booth->lists.list[newest].members : ~booth->report->history->others;
}

static void end(struct booth *booth, size_t index) {
    const struct history_record *records = booth->report->history->records;
    uint32_t nodes = wanted(booth);
    for (int node = 0; node < JUDGE_NODES; node++) {
        bool added = booth->lists.carries[node] != 0 && !(booth->lists.intact >> node & 1);
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
        lists_read(&booth.lists, record);
        switch (record->kind) {
        case HISTORY_VOTE: vote(&booth, record); break;
        case HISTORY_ACQUIRED: acquired(&booth, i); break;
        case HISTORY_NODE_ELIGIBILITY: booth.lost[record->node] = record->result ? 0 : i + 1; break;
        case HISTORY_END: end(&booth, i); break;
        default: break;
        }
    }
}
