/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_history(): calls the judges. Each judge describes how it reads its rule: leases.c,
 * register.c, orphans.c, linear.c, liveness.c.
 */
#include "judges.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const rule_names[] = {
#define CHECK_NAME(name, text) #name,
    CHECK_RULES(CHECK_NAME)
#undef CHECK_NAME
};

const char *check_rule_name(enum check_rule rule) {
    return (unsigned)rule < CHECK_RULE_COUNT ? rule_names[rule] : "?";
}

/* The actors that a record of this kind must name; judges index their tables by them. */
enum { NAMES_CLIENT = 1, NAMES_NODE = 2, NAMES_RESOURCE = 4 };

static unsigned names(unsigned kind) {
    if (kind == HISTORY_OBSERVED) return NAMES_CLIENT | NAMES_RESOURCE;
    if (kind <= HISTORY_BROKEN) return NAMES_CLIENT | NAMES_RESOURCE;
    if (kind <= HISTORY_CLIENT_CLOCK) return NAMES_CLIENT;
    if (kind <= HISTORY_KEY_FOREIGN) return NAMES_NODE | NAMES_RESOURCE;
    if (kind <= HISTORY_NODE_ELIGIBILITY) return NAMES_NODE;
    if (kind == HISTORY_READER_LISTED || kind == HISTORY_READER_GONE)
        return NAMES_NODE | NAMES_RESOURCE;
    if (kind == HISTORY_VOTE) return NAMES_CLIENT | NAMES_NODE | NAMES_RESOURCE;
    return 0;
}

static bool is_whole(const struct history_record *record) {
    unsigned must = names(record->kind);
    if (record->client >= JUDGE_CLIENTS || record->node >= JUDGE_NODES ||
        record->resource >= JUDGE_RESOURCES)
        return false;
    if ((must & NAMES_CLIENT) != 0 && record->client < 0) return false;
    if ((must & NAMES_NODE) != 0 && record->node < 0) return false;
    return (must & NAMES_RESOURCE) == 0 || record->resource >= 0;
}

size_t check_history(const struct history *history, unsigned rules,
                     struct check_violation *violations, size_t count) {
    struct report report = {
        .history = history, .rules = rules, .violations = violations, .room = count};
    if (history->count == 0) return 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (is_whole(record) && (i == 0 || record->at >= record[-1].at)) continue;
        fprintf(stderr,
                "check: record %zu (kind %u, client %d, node %d, resource %d) cannot be judged\n",
                i, record->kind, record->client, record->node, record->resource);
        abort();
    }
    if (rules & (1u << CHECK_EXCLUSION | 1u << CHECK_RESURRECTED | 1u << CHECK_LATE_LOSS))
        judge_leases(&report);
    if (rules & (1u << CHECK_FENCE | 1u << CHECK_FENCE_ORDER | 1u << CHECK_LOST_UPDATE))
        judge_register(&report);
    if (rules & (1u << CHECK_UNFIT_VOTE | 1u << CHECK_REFUSED | 1u << CHECK_RECOVERED))
        judge_eligibility(&report);
    if (rules & (1u << CHECK_ONE_LIST | 1u << CHECK_LIVENESS)) judge_lists(&report);
    if (judged(&report, CHECK_BROKEN)) judge_breaks(&report);
    if (judged(&report, CHECK_STORM)) judge_storms(&report);
    if (judged(&report, CHECK_ORPHAN)) judge_orphans(&report);
    if (judged(&report, CHECK_LINEARIZABLE)) judge_order(&report);
    if (judged(&report, CHECK_LIVENESS)) judge_liveness(&report);
    if (rules & (1u << CHECK_OBSERVED | 1u << CHECK_SURE)) judge_observed(&report);
    return report.found;
}
