/* SPDX-License-Identifier: BSD-2-Clause
 *
 * BROKEN: what an operator who breaks a lock may rely on. BREAK says which token an operator begins
 * to delete, BROKEN that the break has succeeded.
 *
 *   - A break deletes the keys of the token that its BREAK names, and no other client's. If the
 *     operator has named a token (OPERATE), it is that one.
 *   - BROKEN is true: at one moment since BREAK, a majority of the nodes did not have the token.
 *   - The lock stays broken. If all members have reported (BROKEN without silent or unlisted
 *     nodes), no renewal counts a majority that has extended the token's keys afterwards. With such
 *     nodes, a repair that was under way may complete a majority: that is documented, and not
 *     judged.
 *   - The fence of the break is above that of the broken lock, and fences off no one else: no other
 *     client that holds the lock then, or acquires it later, has a lower one. (That tokens acquired
 *     after the break are higher is FENCE, register.c.) In guarded mode a break has a fence. One
 *     without promises none: in classic mode, and by a client in mode auto that has not met a
 *     record yet.
 *
 * A shared lock is broken by the marker that its key holds (BREAK with JUDGE_SHARED): with it, each
 * node drops the places of all readers. A reader that comes meanwhile sets the marker again. So
 * BROKEN is true if each node of a majority did not have it at some moment since BREAK. A reader
 * that acquired before BREAK is not listed on a majority after BROKEN. It counts as broken when a
 * break has dropped a place of it, and a downgraded writer does, too.
 *
 * What a break does not promise: in classic mode, that the broken holder stops at once. Until its
 * next renewal it believes that it holds the lock. EXCLUSION, LINEARIZABLE and LOST_UPDATE
 * therefore do not count a token against clients that acquire after its BREAK (judge_was_broken()),
 * nor if its own grant is reported only after that. A BREAK that fails may have deleted keys as
 * well.
 *
 * Where operators change the members, the majority is one of the newest list that an intact node
 * carries.
 */
#include <string.h>

#include "lists.h"

#define TOKENS 1024 /* how many acquired tokens are remembered */
#define BROKEN_MAX 64

struct hold {
    uint32_t token;
    rl_ns until;
    int64_t fence;
    size_t since;
};

/* A break under way. */
struct breaking {
    bool open, was_gone;
    bool shared;
    uint32_t named; /* by the operator; 0: any */
    uint32_t token;
    uint32_t gone; /* nodes that did not have it at some time since */
    int8_t resource;
    size_t began;
};

struct broken {
    uint32_t token;
    bool certain, shared;
    int64_t fence;
    size_t began, index;
    uint32_t extended; /* nodes that have extended the token since, by bits */
    size_t again;      /* when they were a majority; 0: not yet */
};

struct bench {
    struct report *report;
    const struct history_record *records;
    struct lists lists;
    uint32_t keys[JUDGE_NODES][JUDGE_RESOURCES];
    uint32_t split; /* nodes whose old master lives on: the history does not have its keys */
    struct hold holds[JUDGE_RESOURCES][JUDGE_CLIENTS];
    struct breaking breaking[JUDGE_CLIENTS];
    struct broken broken[JUDGE_RESOURCES][BROKEN_MAX];
    size_t broken_count[JUDGE_RESOURCES];
    struct {
        uint32_t token;
        int8_t client;
        bool shared;
        size_t since;
    } owners[TOKENS];
};

/* The delete of a key by an operator that breaks the shared lock behind it. */
static bool is_break_of_readers(const struct history *history, size_t index) {
    const struct history_record *record = &history->records[index];
    if (record->kind != HISTORY_KEY_DELETED) return false;
    for (size_t i = 0; i < index; i++) {
        const struct history_record *began = &history->records[i];
        if (began->kind == HISTORY_BREAK && began->result == JUDGE_SHARED &&
            began->client == record->client && began->resource == record->resource)
            return true;
    }
    return false;
}

/* -1: it has had no place. */
static int resource_of_reader(const struct history *history, uint32_t token, size_t before) {
    for (size_t i = 0; i < before && i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind == HISTORY_READER_LISTED && record->token == token)
            return record->resource;
    }
    return -1;
}

/* A break has dropped a place of the reader. Or it may have: a native node that restarts loses the
 * places and keeps the marker's copy, which goes on refusing writers until a break deletes it; the
 * history does not have the copy, nor the places on an old master that lives on. */
static bool lost_its_place(const struct history *history, uint32_t token, size_t before) {
    uint32_t listed = 0, copied = 0, split = 0;
    uint32_t breaking = 0; /* clients, whose breaks are under way */
    const int resource = resource_of_reader(history, token, before);
    rl_ns restarted[JUDGE_NODES] = {0};
    for (size_t i = 0; i < before && i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        const uint32_t node = record->node >= 0 ? 1u << record->node : 0;
        if (record->kind == HISTORY_NODE_RESTART) {
            restarted[record->node] = record->at;
        } else if (record->kind == HISTORY_NODE_SPLIT) {
            split |= node;
        } else if (record->kind == HISTORY_NODE_OLD_ENDS) {
            split &= ~node;
        } else if (record->kind == HISTORY_READER_LISTED && record->token == token) {
            listed |= node;
            copied &= ~node;
        } else if (record->kind == HISTORY_READER_GONE && record->token == token) {
            if (restarted[record->node] == record->at) copied |= listed & node;
            listed &= ~node;
        } else if (record->resource == resource && (listed & node) != 0 &&
                   is_break_of_readers(history, i)) {
            return true;
        } else if (record->kind == HISTORY_BREAK && record->result == JUDGE_SHARED &&
                   record->resource == resource) {
            breaking |= 1u << record->client;
        } else if (record->kind == HISTORY_OPERATED) {
            breaking &= ~(1u << record->client);
        }
        if (breaking != 0 && resource >= 0 && (copied | split) != 0) return true;
    }
    return false;
}

bool judge_was_broken(const struct history *history, uint32_t token, size_t before) {
    for (size_t i = 0; i < before && i < history->count; i++)
        if (history->records[i].kind == HISTORY_BREAK && history->records[i].token == token)
            return true;
    return lost_its_place(history, token, before);
}

static uint32_t members_of(const struct bench *bench) {
    const struct history *history = bench->report->history;
    unsigned list = lists_newest(&bench->lists);
    uint32_t all = (1u << history->nodes) - 1;
    return list ? bench->lists.list[list].members : all & ~history->others;
}

static bool is_majority(const struct bench *bench, uint32_t nodes) {
    uint32_t members = members_of(bench);
    return lists_count(nodes & members) > lists_count(members) / 2;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Nodes that do not have this token, or may not: the eligible one may be the old master. */
static uint32_t without(const struct bench *bench, int resource, uint32_t token) {
    uint32_t nodes = bench->split;
    for (unsigned i = 0; i < bench->report->history->nodes; i++)
        if (bench->keys[i][resource] != token) nodes |= 1u << i;
    return nodes;
}

static void look(struct bench *bench, int resource) {
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++) {
        struct breaking *breaking = &bench->breaking[i];
        if (!breaking->open || breaking->resource != resource) continue;
        const uint32_t gone = without(bench, resource, breaking->token);
        breaking->gone |= gone;
        if (is_majority(bench, breaking->shared ? breaking->gone : gone)) breaking->was_gone = true;
    }
}

static void extended(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    for (size_t i = 0; i < bench->broken_count[record->resource]; i++) {
        struct broken *broken = &bench->broken[record->resource][i];
        if (broken->token != record->token || !broken->certain || broken->shared) continue;
        broken->extended |= 1u << record->node;
        if (broken->again == 0 && is_majority(bench, broken->extended)) broken->again = index;
    }
}

/* Its holder counts that majority. */
static void renewed(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    for (size_t i = 0; i < bench->broken_count[record->resource]; i++) {
        struct broken *broken = &bench->broken[record->resource][i];
        if (broken->token != record->token || !broken->certain || broken->again == 0) continue;
        const struct history_record *again = &bench->records[broken->again];
        judge_found(bench->report, CHECK_BROKEN, broken->index, broken->again, again->at, again->at,
                    "the lock on %s that was broken at %s was extended on a majority again by %s",
                    judge_resource(record->resource).text,
                    judge_ms(bench->records[broken->index].at).text, judge_ms(again->at).text);
        broken->certain = false; /* reported once */
    }
}

/* A reader that acquired before the lock was broken, on as many nodes again as hold a lock. */
static void listed(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    const unsigned slot = record->token % TOKENS;
    if (bench->owners[slot].token != record->token || !bench->owners[slot].shared) return;
    for (size_t i = 0; i < bench->broken_count[record->resource]; i++) {
        struct broken *broken = &bench->broken[record->resource][i];
        if (!broken->shared || !broken->certain || bench->owners[slot].since > broken->began)
            continue;
        uint32_t nodes = 0;
        for (size_t j = broken->index; j <= index; j++) {
            const struct history_record *other = &bench->records[j];
            if (other->token != record->token) continue;
            if (other->kind == HISTORY_READER_LISTED) nodes |= 1u << other->node;
            if (other->kind == HISTORY_READER_GONE) nodes &= ~(1u << other->node);
        }
        if (!is_majority(bench, nodes)) continue;
        judge_found(bench->report, CHECK_BROKEN, broken->index, index, record->at, record->at,
                    "the shared lock on %s was broken at %s, and %s, who read before, was listed "
                    "on a majority again by %s",
                    judge_resource(record->resource).text,
                    judge_ms(bench->records[broken->index].at).text,
                    judge_client(bench->owners[slot].client).text, judge_ms(record->at).text);
        broken->certain = false; /* reported once */
    }
}

/* A client that has broken a lock deletes a key: by a break, or as the release of its own lock. */
static void deleted(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    if (record->client < 0 || record->token == 0) return;
    const unsigned slot = record->token % TOKENS;
    bool others =
        bench->owners[slot].token == record->token && bench->owners[slot].client != record->client;
    if (!others) return;
    for (size_t i = 0; i < index; i++) {
        const struct history_record *named = &bench->records[i];
        if (named->kind == HISTORY_BREAK && named->client == record->client &&
            named->token == record->token)
            return;
    }
    judge_found(bench->report, CHECK_BROKEN, index, index, record->at, record->at,
                "%s, breaking another lock, deleted %s's key of %s on node %d at %s",
                judge_client(record->client).text, judge_client(bench->owners[slot].client).text,
                judge_resource(record->resource).text, record->node + 1, judge_ms(record->at).text);
}

static void key_changed(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    bool there = record->kind == HISTORY_KEY_SET || record->kind == HISTORY_KEY_EXTENDED;
    if (record->kind == HISTORY_KEY_DELETED) deleted(bench, index);
    if (record->kind == HISTORY_KEY_EXTENDED) extended(bench, index);
    bench->keys[record->node][record->resource] = there ? record->token : 0;
    look(bench, record->resource);
}

/* The history does not have the keys that a native node is left with from before, nor a stock one.
 */
static void becomes(struct bench *bench, int node) {
    for (int i = 0; i < JUDGE_RESOURCES; i++) {
        bench->keys[node][i] = 0;
        look(bench, i);
    }
}

/* ---- breaks ---------------------------------------------------------------------------------- */

static void judge_fenced_off(struct bench *bench, const struct hold *hold, int64_t fence,
                             size_t broken, size_t index) {
    const struct history_record *record = &bench->records[hold->since];
    const bool below = hold->fence < fence;
    judge_found(bench->report, CHECK_BROKEN, broken, index, bench->records[index].at, hold->until,
                "the break at %s %s %s, which acquired %s at %s with fence %lld, %s %lld",
                judge_ms(bench->records[broken].at).text,
                below ? "fences off" : "does not fence off", judge_client(record->client).text,
                judge_resource(record->resource).text, judge_ms(record->at).text,
                (long long)hold->fence, below ? "below" : "not below", (long long)fence);
}

static void begin_break(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    struct breaking *breaking = &bench->breaking[record->client];
    *breaking = (struct breaking){.open = true,
                                  .shared = record->result == JUDGE_SHARED,
                                  .named = breaking->named,
                                  .token = record->token,
                                  .resource = record->resource,
                                  .began = index};
    if (breaking->named != 0 && breaking->named != record->token)
        judge_found(bench->report, CHECK_BROKEN, index, index, record->at, record->at,
                    "%s began at %s to break another lock on %s than the one that it had seen",
                    judge_client(record->client).text, judge_ms(record->at).text,
                    judge_resource(record->resource).text);
    look(bench, record->resource);
}

/* A break of readers has dropped a place of this one, or may have: the history does not have the
 * places on an old master. */
static bool may_be_broken(const struct bench *bench, uint32_t token, bool shared, size_t index) {
    const unsigned slot = token % TOKENS;
    const bool reads = bench->owners[slot].token == token && bench->owners[slot].shared;
    return judge_was_broken(bench->report->history, token, index) ||
           (shared && reads && bench->split != 0);
}

static void end_break(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    struct breaking *breaking = &bench->breaking[record->client];
    const struct hold *holds = bench->holds[record->resource];
    if (!breaking->open || breaking->token != record->token || !breaking->was_gone)
        judge_found(bench->report, CHECK_BROKEN, breaking->began, index, record->at, record->at,
                    "%s reported at %s that the lock on %s is broken, but a majority had its key "
                    "all the time",
                    judge_client(record->client).text, judge_ms(record->at).text,
                    judge_resource(record->resource).text);
    breaking->open = false;
    if (record->value == 0 && (bench->report->history->guarded >> record->client & 1) != 0)
        judge_found(bench->report, CHECK_BROKEN, breaking->began, index, record->at, record->at,
                    "%s reported at %s that the lock on %s is broken, without a fence",
                    judge_client(record->client).text, judge_ms(record->at).text,
                    judge_resource(record->resource).text);
    for (unsigned i = 0; i < JUDGE_CLIENTS && record->value != 0; i++) {
        const struct hold *hold = &holds[i];
        if (hold->token == 0 || hold->until <= record->at || hold->fence == 0) continue;
        bool is_broken = may_be_broken(bench, hold->token, breaking->shared, index);
        bool wrong = is_broken ? hold->token == record->token && hold->fence >= record->value
                               : hold->fence < record->value;
        if (wrong) judge_fenced_off(bench, hold, record->value, index, index);
    }
    size_t *count = &bench->broken_count[record->resource];
    if (*count == BROKEN_MAX) return;
    bench->broken[record->resource][(*count)++] = (struct broken){.token = record->token,
                                                                  .certain = record->message == 0,
                                                                  .shared = breaking->shared,
                                                                  .began = breaking->began,
                                                                  .fence = record->value,
                                                                  .index = index};
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void acquired(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    struct hold *hold = &bench->holds[record->resource][record->client];
    *hold = (struct hold){record->token, record->until, record->value, index};
    bench->owners[record->token % TOKENS].token = record->token;
    bench->owners[record->token % TOKENS].client = record->client;
    bench->owners[record->token % TOKENS].shared = record->result == JUDGE_SHARED;
    bench->owners[record->token % TOKENS].since = index;
    for (size_t i = 0; i < bench->broken_count[record->resource]; i++) {
        const struct broken *broken = &bench->broken[record->resource][i];
        if (record->value == 0 || broken->fence == 0 || record->until <= record->at) continue;
        /* A grant of the broken token itself may be reported as late as this, and that of a reader
         * whose places were dropped. */
        bool wrong = broken->token == record->token ? record->value >= broken->fence
                                                    : record->value < broken->fence;
        if (wrong && broken->shared && may_be_broken(bench, record->token, true, index)) continue;
        if (wrong) judge_fenced_off(bench, hold, broken->fence, broken->index, index);
    }
}

static void step(struct bench *bench, size_t index) {
    const struct history_record *record = &bench->records[index];
    if (lists_read(&bench->lists, record)) return;
    switch (record->kind) {
    case HISTORY_ACQUIRED: acquired(bench, index); break;
    case HISTORY_RENEWED:
    case HISTORY_EXTENDED:
        if (record->kind == HISTORY_EXTENDED && record->result != JUDGE_OK) break;
        bench->holds[record->resource][record->client].until = record->until;
        renewed(bench, index);
        break;
    case HISTORY_LOST:
    case HISTORY_RELEASE: bench->holds[record->resource][record->client].token = 0; break;
    case HISTORY_CLIENT_CRASH:
        for (unsigned i = 0; i < JUDGE_RESOURCES; i++) bench->holds[i][record->client].token = 0;
        bench->breaking[record->client].open = false;
        break;
    case HISTORY_OPERATE: bench->breaking[record->client].named = record->token; break;
    case HISTORY_READER_LISTED: listed(bench, index); break;
    case HISTORY_BREAK: begin_break(bench, index); break;
    case HISTORY_BROKEN: end_break(bench, index); break;
    case HISTORY_NODE_SPLIT: bench->split |= 1u << record->node; break;
    case HISTORY_NODE_NATIVE: becomes(bench, record->node); break;
    case HISTORY_NODE_OLD_ENDS: bench->split &= ~(1u << record->node); break;
    case HISTORY_KEY_SET:
    case HISTORY_KEY_EXTENDED:
    case HISTORY_KEY_DELETED:
    case HISTORY_KEY_EXPIRED:
    case HISTORY_KEY_LOST:
    case HISTORY_KEY_FOREIGN: key_changed(bench, index); break;
    default: break;
    }
}

static bool any_break(const struct history *history) {
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].kind == HISTORY_BREAK) return true;
    return false;
}

void judge_breaks(struct report *report) {
    struct bench bench;
    if (!any_break(report->history)) return;
    memset(&bench, 0, sizeof bench);
    bench.report = report;
    bench.records = report->history->records;
    for (size_t i = 0; i < report->history->count; i++) step(&bench, i);
}
