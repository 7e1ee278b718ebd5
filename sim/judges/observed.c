/* SPDX-License-Identifier: BSD-2-Clause
 *
 * OBSERVED and SURE: what a client may rely on that observes leaders. OBSERVED is one report: token
 * leads under the term `value`, until `until`; or, with `value` 0, nobody is known to lead.
 *
 *   - The term is exact: before the report, a client has acquired the resource with this token and
 *     this fencing token. So two observers never report different leaders for one term.
 *   - The terms that one client reports never fall.
 *   - SURE, at most one leader: from the report until `until` no other client is inside its
 * validity of the resource, unless the leader that was reported had begun to release it, or an
 * operator to break it.
 *
 * A promise stands until its end, whatever the client reports meanwhile. Of each client the judge
 * keeps the last one for each resource.
 */
#include <string.h>

#include "judges.h"

struct promise {
    uint32_t token; /* 0: none yet */
    int64_t term;
    rl_ns until;
    size_t index;
};

struct hold {
    uint32_t token; /* 0: none */
    rl_ns until;
    size_t index;
};

struct bench {
    struct report *report;
    const struct history_record *records;
    struct promise promises[JUDGE_CLIENTS][JUDGE_RESOURCES];
    struct hold holds[JUDGE_CLIENTS][JUDGE_RESOURCES];
};

/* The record by which this token was acquired before `before`; its index, or `before`. */
static size_t grant_of(const struct bench *bench, uint32_t token, size_t before) {
    size_t i = 0;
    while (i < before &&
           !(bench->records[i].kind == HISTORY_ACQUIRED && bench->records[i].token == token))
        i++;
    return i;
}

/* Its holder, or an operator, had begun to end it before that record. */
static bool was_given_up(const struct bench *bench, uint32_t token, size_t before) {
    for (size_t i = 0; i < before; i++)
        if (bench->records[i].kind == HISTORY_RELEASE && bench->records[i].token == token)
            return true;
    return judge_was_broken(bench->report->history, token, before);
}

/* Another client's validity begins, or lasts, inside a promise. */
static void compare(struct bench *bench, const struct promise *promise, const struct hold *hold,
                    size_t index) {
    const struct history_record *record = &bench->records[index];
    if (promise->token == 0 || hold->token == 0) return;
    if (promise->token == hold->token || promise->until <= record->at || hold->until <= record->at)
        return;
    if (was_given_up(bench, promise->token, index)) return;
    /* its holder does not know yet, and its fence is below the promise's */
    if (judge_was_broken(bench->report->history, hold->token, index)) return;
    judge_found(bench->report, CHECK_SURE, promise->index, index, record->at, promise->until,
                "%s was sure until %s that nobody else leads %s, and at %s %s is inside its "
                "validity",
                judge_client(bench->records[promise->index].client).text,
                judge_ms(promise->until).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, judge_client(bench->records[hold->index].client).text);
}

static void observed(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    if (record->value == 0) return;
    const size_t grant = grant_of(bench, record->token, index);
    struct promise *promise = &bench->promises[record->client][record->resource];
    if (grant == index || bench->records[grant].value != record->value)
        judge_found(bench->report, CHECK_OBSERVED, index, index, record->at, record->at,
                    "%s reports a leader of %s whose token was not acquired under that term",
                    judge_client(record->client).text, judge_resource(record->resource).text);
    if (promise->term > record->value)
        judge_found(bench->report, CHECK_OBSERVED, promise->index, index, record->at, record->at,
                    "%s reports a lower term of %s than before", judge_client(record->client).text,
                    judge_resource(record->resource).text);
    *promise = (struct promise){record->token, record->value, record->until, index};
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
        compare(bench, promise, &bench->holds[i][record->resource], index);
}

static void acquired(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    struct hold *hold = &bench->holds[record->client][record->resource];
    *hold = (struct hold){record->token, record->until, index};
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
        compare(bench, &bench->promises[i][record->resource], hold, index);
}

void judge_observed(struct report *report) {
    static struct bench bench; /* too large for a stack */
    memset(&bench, 0, sizeof bench);
    bench.report = report;
    bench.records = report->history->records;
    for (size_t i = 0; i < report->history->count; i++) {
        const struct history_record *record = &bench.records[i];
        struct hold *hold = record->client >= 0 && record->resource >= 0
                                ? &bench.holds[record->client][record->resource]
                                : NULL;
        switch (record->kind) {
        case HISTORY_ACQUIRED: acquired(&bench, i); break;
        case HISTORY_RENEWED: hold->until = record->until; break;
        case HISTORY_EXTENDED:
            if (record->result == JUDGE_OK) hold->until = record->until;
            break;
        case HISTORY_LOST:
        case HISTORY_RELEASE: hold->token = 0; break;
        case HISTORY_OBSERVED: observed(&bench, i); break;
        default: break;
        }
    }
}
