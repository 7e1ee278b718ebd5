/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether the expected things happened: broken rules from the checkers, everything else from the
 * history's records.
 */
#include "scene.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "judges/lists.h"
#include "net/net.h"
#include "pictures/phrase.h"

struct judge {
    const struct scene *scene;
    const struct scene_expectation *expects;
    const struct history *history;
    struct phrase unmet;
};

/* ---- queries -------------------------------------------------------------------------------- */

static bool about(const struct history_record *record, const struct scene_line *claim,
                  enum history_kind kind) {
    return record->kind == kind && record->client >= 0 && (claim->clients >> record->client & 1);
}

/* The first such record after index `from`, or NULL. */
static const struct history_record *find(const struct history *history,
                                         const struct scene_line *claim, enum history_kind kind) {
    for (size_t i = 0; i < history->count; i++) {
        if (about(&history->records[i], claim, kind)) return &history->records[i];
    }
    return NULL;
}

static bool any_between(const struct history *history, const struct scene_line *claim,
                        enum history_kind kind, rl_ns from, rl_ns before) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (about(record, claim, kind) && record->at >= from && record->at < before) return true;
    }
    return false;
}

static bool any_result(const struct history *history, const struct scene_line *claim,
                       enum history_kind kind, rl_ns from) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (about(record, claim, kind) && record->at >= from && record->result == claim->number)
            return true;
    }
    return false;
}

/* Whether the client believes that it holds the lock at this time. */
static bool holds_at(const struct history *history, const struct scene_line *claim) {
    rl_ns until = 0;
    for (size_t i = 0; i < history->count && history->records[i].at <= claim->span; i++) {
        const struct history_record *record = &history->records[i];
        if (record->client < 0 || !(claim->clients >> record->client & 1)) continue;
        bool reaches = record->kind == HISTORY_ACQUIRED || record->kind == HISTORY_RENEWED ||
                       (record->kind == HISTORY_EXTENDED && record->result == REDLOCK_OK);
        bool ends = record->kind == HISTORY_LOST || record->kind == HISTORY_RELEASE ||
                    record->kind == HISTORY_CLIENT_CRASH;
        if (reaches) until = record->until;
        if (ends) until = 0;
    }
    return until > claim->span;
}

static bool is_token_of(const struct history *history, uint32_t token, unsigned clients) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        bool owns =
            record->kind == HISTORY_SENT && record->op == NET_ACQUIRE && record->token == token;
        if (owns) return record->client >= 0 && (clients >> record->client & 1);
    }
    return false;
}

/* The number of the claim's nodes that have a key of the client, at that time. */
static unsigned keys_at(const struct history *history, const struct scene_line *claim) {
    uint32_t held[RL_NODES_MAX] = {0};
    for (size_t i = 0; i < history->count && history->records[i].at <= claim->span; i++) {
        const struct history_record *record = &history->records[i];
        if (record->node < 0 || record->resource > 0) continue;
        bool gone = record->kind == HISTORY_KEY_DELETED || record->kind == HISTORY_KEY_EXPIRED ||
                    record->kind == HISTORY_KEY_LOST;
        if (record->kind == HISTORY_KEY_SET) held[record->node] = record->token;
        if (gone) held[record->node] = 0;
    }
    unsigned count = 0;
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        bool asked = (claim->nodes & rl_bit(node)) != 0 && held[node] != 0;
        if (asked && is_token_of(history, held[node], claim->clients)) count++;
    }
    return count;
}

static bool last_write_is(const struct history *history, int64_t value) {
    int64_t last = 0;
    for (size_t i = 0; i < history->count; i++) {
        if (history->records[i].kind == HISTORY_WRITE) last = history->records[i].value;
    }
    return last == value;
}

static bool writes(const struct history *history, const struct scene_line *claim) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (about(record, claim, HISTORY_WRITE) && record->value == claim->number) return true;
    }
    return false;
}

static bool fenced_off(const struct history *history, const struct scene_line *claim) {
    return find(history, claim, HISTORY_WRITE_REFUSED) != NULL ||
           find(history, claim, HISTORY_READ_REFUSED) != NULL;
}

/* How many terms the observer has reported. */
static unsigned terms_of(const struct history *history, const struct scene_line *claim) {
    unsigned count = 0;
    int64_t last = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (!about(record, claim, HISTORY_OBSERVED) || record->value == 0) continue;
        count += record->value != last;
        last = record->value;
    }
    return count;
}

static bool reports(const struct history *history, const struct scene_line *claim, rl_ns from,
                    rl_ns before, bool leader) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (about(record, claim, HISTORY_OBSERVED) && record->at >= from && record->at < before &&
            (record->value != 0) == leader)
            return true;
    }
    return false;
}

/* What the nodes carry at the claim's time. At the beginning these nodes are intact. */
static struct lists lists_at(const struct history *history, const struct scene_line *claim,
                             uint32_t intact) {
    struct lists lists = {.intact = intact};
    for (size_t i = 0; i < history->count && history->records[i].at <= claim->span; i++)
        lists_read(&lists, &history->records[i]);
    return lists;
}

/* The number of the claim's nodes that are intact at that time. */
static unsigned intact_at(const struct history *history, const struct scene_line *claim) {
    return rl_count((rl_mask)lists_at(history, claim, rl_all(RL_NODES_MAX)).intact & claim->nodes);
}

/* Whether the claim's nodes are the members of the newest list that an intact node carries then. */
static bool members_at(const struct history *history, const struct scene_line *claim) {
    struct lists lists = lists_at(history, claim, 0);
    unsigned newest = lists_newest(&lists);
    return newest != 0 && (rl_mask)lists.list[newest].members == claim->nodes;
}

static bool change_ends(const struct history *history, const struct scene_line *claim, rl_ns from,
                        rl_ns to) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind != HISTORY_OPERATED || !(claim->clients >> record->client & 1)) continue;
        if (record->result == claim->number && record->at >= from && record->at < to) return true;
    }
    return false;
}

/* Each try has its own token. */
static unsigned tries_of(const struct history *history, const struct scene_line *claim) {
    unsigned count = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (!about(record, claim, HISTORY_SENT) || record->op != NET_ACQUIRE ||
            record->token == last)
            continue;
        last = record->token;
        count++;
    }
    return count;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static bool is_met(const struct history *history, const struct scene_line *claim) {
    switch ((enum scene_claim)claim->kind) {
    case SCENE_CLAIM_ACQUIRES: return find(history, claim, HISTORY_ACQUIRED) != NULL;
    case SCENE_CLAIM_ACQUIRES_BEFORE:
        return any_between(history, claim, HISTORY_ACQUIRED, 0, claim->span);
    case SCENE_CLAIM_ACQUIRES_AFTER:
        return any_between(history, claim, HISTORY_ACQUIRED, claim->span, RL_NEVER) &&
               !any_between(history, claim, HISTORY_ACQUIRED, 0, claim->span);
    case SCENE_CLAIM_TRIES: return tries_of(history, claim) <= (unsigned)claim->number;
    case SCENE_CLAIM_WOKEN_AFTER:
        return any_between(history, claim, HISTORY_WOKEN, claim->span, RL_NEVER);
    case SCENE_CLAIM_FAILS: return any_result(history, claim, HISTORY_NOT_ACQUIRED, 0);
    case SCENE_CLAIM_FAILS_AFTER:
        return any_result(history, claim, HISTORY_NOT_ACQUIRED, claim->span);
    case SCENE_CLAIM_NEVER_ACQUIRES: return find(history, claim, HISTORY_ACQUIRED) == NULL;
    case SCENE_CLAIM_HOLDS_AT: return holds_at(history, claim);
    case SCENE_CLAIM_NOT_HOLDS_AT: return !holds_at(history, claim);
    case SCENE_CLAIM_TOLD_LOST: return any_between(history, claim, HISTORY_LOST, 0, claim->span);
    case SCENE_CLAIM_TOLD_LOST_AFTER:
        return any_between(history, claim, HISTORY_LOST, claim->span, RL_NEVER) &&
               !any_between(history, claim, HISTORY_LOST, 0, claim->span);
    case SCENE_CLAIM_NEVER_TOLD_LOST: return find(history, claim, HISTORY_LOST) == NULL;
    case SCENE_CLAIM_EXTENSION: return any_result(history, claim, HISTORY_EXTENDED, 0);
    case SCENE_CLAIM_RELEASE: return any_result(history, claim, HISTORY_RELEASED, 0);
    case SCENE_CLAIM_KEY_THERE: return keys_at(history, claim) == rl_count(claim->nodes);
    case SCENE_CLAIM_KEY_GONE: return keys_at(history, claim) == 0;
    case SCENE_CLAIM_WRITES: return writes(history, claim);
    case SCENE_CLAIM_NEVER_WRITES: return find(history, claim, HISTORY_WRITE) == NULL;
    case SCENE_CLAIM_REGISTER: return last_write_is(history, claim->number);
    case SCENE_CLAIM_FENCED_OFF: return fenced_off(history, claim);
    case SCENE_CLAIM_BREAKS: return find(history, claim, HISTORY_BROKEN) != NULL;
    case SCENE_CLAIM_BREAK_ENDS:
    case SCENE_CLAIM_CHANGE: return change_ends(history, claim, 0, RL_NEVER);
    case SCENE_CLAIM_CHANGE_BEFORE: return change_ends(history, claim, 0, claim->span);
    case SCENE_CLAIM_CHANGE_AFTER: return change_ends(history, claim, claim->span, RL_NEVER);
    case SCENE_CLAIM_REPORTS: return terms_of(history, claim) == (unsigned)claim->number;
    case SCENE_CLAIM_REPORTS_BEFORE: return reports(history, claim, 0, claim->span, true);
    case SCENE_CLAIM_REPORTS_NONE: return reports(history, claim, claim->span, RL_NEVER, false);
    case SCENE_CLAIM_MEMBERS_AT: return members_at(history, claim);
    case SCENE_CLAIM_INTACT_AT: return intact_at(history, claim) == rl_count(claim->nodes);
    case SCENE_CLAIM_LOST_AT: return intact_at(history, claim) == 0;
    case SCENE_CLAIM_COUNT: break;
    }
    return false;
}

static void judge_claims(struct judge *judge) {
    for (size_t i = 0; i < judge->expects->claims_count; i++) {
        const struct scene_line *claim = &judge->expects->claims[i];
        if (is_met(judge->history, claim)) continue;
        phrase_add(&judge->unmet, "%s:%u: did not happen: %s\n", judge->scene->file, claim->line,
                   claim->words);
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const char *breach(const struct check_violation *violation, char *text, size_t size) {
    const struct phrase_time begin = phrase_time(violation->from),
                             end = phrase_time(violation->until);
    const char *from = begin.text, *until = end.text;
    switch (violation->rule) {
    case CHECK_EXCLUSION: snprintf(text, size, "two holders from %s to %s", from, until); break;
    case CHECK_LOST_UPDATE: snprintf(text, size, "an update is lost at %s", until); break;
    case CHECK_ORPHAN: snprintf(text, size, "a key outlives its owner, until %s", until); break;
    case CHECK_RESURRECTED: snprintf(text, size, "a lost lease is valid again at %s", from); break;
    case CHECK_LATE_LOSS: snprintf(text, size, "a loss is told too late, at %s", until); break;
    case CHECK_FENCE:
    case CHECK_FENCE_ORDER: snprintf(text, size, "fencing tokens out of order at %s", from); break;
    case CHECK_UNFIT_VOTE:
        snprintf(text, size, "a node that lost its data votes, at %s", from);
        break;
    case CHECK_REFUSED:
        snprintf(text, size, "a client that should be refused gets the lock at %s", from);
        break;
    case CHECK_BROKEN: snprintf(text, size, "a break goes wrong at %s", from); break;
    case CHECK_ONE_LIST: snprintf(text, size, "two lists of one epoch, at %s", from); break;
    case CHECK_STORM: snprintf(text, size, "a node is asked too often, from %s", from); break;
    case CHECK_RECOVERED: snprintf(text, size, "a node is not brought back in time"); break;
    case CHECK_SURE: snprintf(text, size, "two leaders are sure at %s", from); break;
    case CHECK_OBSERVED: snprintf(text, size, "an observer is wrong at %s", from); break;
    case CHECK_LIVENESS: snprintf(text, size, "nobody acquires in time"); break;
    default: snprintf(text, size, "no order of the operations explains them"); break;
    }
    return text;
}

/* When two clients hold at once, no order of the operations explains that either: it is not
 * reported separately. */
static unsigned implied(unsigned rules) {
    return rules & 1u << CHECK_EXCLUSION ? rules | 1u << CHECK_LINEARIZABLE : rules;
}

/* The subject of a scene comes first: exclusion before its consequences. Within one rule, in order
 * of time. */
static void order_by_rule(struct scene_result *result) {
    for (size_t i = 1; i < result->violations_count; i++) {
        struct check_violation violation = result->violations[i];
        size_t j = i;
        for (; j > 0 && result->violations[j - 1].rule > violation.rule; j--)
            result->violations[j] = result->violations[j - 1];
        result->violations[j] = violation;
    }
}

static void judge_rules(struct judge *judge, struct scene_result *result) {
    const struct scene *scene = judge->scene;
    /* A scene may end while a node is still waiting: the scene's expectations cover that. */
    const unsigned all = ((1u << CHECK_RULE_COUNT) - 1) & ~(1u << CHECK_RECOVERED),
                   breaks = judge->expects->breaks;
    size_t found = check_history(&result->history, all, result->violations, SCENE_VIOLATIONS_MAX);
    result->violations_count = found < SCENE_VIOLATIONS_MAX ? found : SCENE_VIOLATIONS_MAX;
    unsigned broken = 0, allowed = implied(breaks);
    size_t kept = 0;
    for (size_t i = 0; i < result->violations_count; i++) {
        const struct check_violation *violation = &result->violations[i];
        broken |= 1u << violation->rule;
        bool expected = allowed >> violation->rule & 1;
        if (!expected) {
            phrase_add(&judge->unmet, "%s: unexpected: %s: %s\n", scene->file,
                       check_rule_name(violation->rule), violation->text);
        }
        bool follows = expected && !(breaks >> violation->rule & 1);
        if (!follows) result->violations[kept++] = *violation;
    }
    result->violations_count = kept;
    order_by_rule(result);
    for (int rule = 0; rule < CHECK_RULE_COUNT; rule++) {
        if ((breaks & ~broken) >> rule & 1) {
            phrase_add(&judge->unmet, "%s: did not happen: breaks %s\n", scene->file,
                       check_rule_name((enum check_rule)rule));
        }
    }
}

static bool is_our_own(const struct scene *scene) {
    return strncmp(scene->source_text[0], "This project", 12) == 0;
}

static void write_verdict(const struct scene *scene, struct scene_result *result) {
    char words[160];
    const char *what = "holds";
    unsigned breaks = scene->expects[result->mode].breaks;
    for (size_t i = result->violations_count; i > 0; i--) {
        /* The rule that the scene is about comes first, else any broken rule. */
        bool wanted = breaks == 0 || breaks >> result->violations[i - 1].rule & 1;
        if (wanted) what = breach(&result->violations[i - 1], words, sizeof words);
    }
    const char *as = !result->as_expected                                 ? "NOT as expected"
                     : is_our_own(scene) || result->mode != SCENE_CLASSIC ? "as expected"
                                                                          : "as published";
    snprintf(result->verdict, sizeof result->verdict, "%s: %s, %s", scene_mode_names[result->mode],
             what, as);
}

void scene_judge(const struct scene *scene, struct scene_result *result) {
    struct judge judge = {
        .scene = scene, .expects = &scene->expects[result->mode], .history = &result->history};
    phrase_begin(&judge.unmet, result->unmet, sizeof result->unmet);
    judge_rules(&judge, result);
    judge_claims(&judge);
    result->as_expected = result->unmet[0] == '\0';
    write_verdict(scene, result);
}
