/* SPDX-License-Identifier: BSD-2-Clause
 *
 * EXCLUSION, RESURRECTED, LATE_LOSS: what clients may believe, and when a loss must be reported to
 * them.
 *
 * A client is inside its validity in [ACQUIRED, end), where end is the least of `until` as RENEWED
 * and EXTENDED have moved it, RELEASE, LOST and CLIENT_CRASH. Ends are open: a client that acquires
 * in the very nanosecond in which another's validity ends overlaps no other. Readers (of a shared
 * lock) may overlap each other, and no writer; a writer is a reader from DOWNGRADE on. A validity
 * that is renewed after it has expired is RESURRECTED and counts as a new interval from there on,
 * so that a resurrected lock can also break exclusion.
 *
 * A lock that an operator breaks is lost at its next renewal, and its holder believes until then:
 * its validity breaks no exclusion with clients that acquire after the break began (breaks.c).
 *
 * Keys that end early because a stock node's clock stepped, or because it evicted, may let another
 * client in until all clients can know. So a lock that is granted meanwhile (NODE_UNSEEN) breaks no
 * exclusion, neither with an earlier one nor with a later one.
 *
 * A pause does not end validity: the client that resumes believes what it believed before. A late
 * report is not a fault of the library while the client is stopped; once it runs, the report must
 * come in the same instant. A client whose clock stood still during its pause (VM-STOP) gets no
 * report, and that is LATE_LOSS as it should be.
 */
#include "judges.h"

struct hold {
    bool held, shared;
    bool unseen; /* granted while keys may have ended early unnoticed */
    uint32_t token;
    size_t since; /* the record that began it */
    size_t moved; /* the record that last said `until` */
    rl_ns until;
    /* LOST or RELEASE must come by now: `until`, or the time when the client resumes if it was
     * stopped then */
    rl_ns due;
};

struct leases {
    struct report *report;
    const struct history_record *records;
    size_t count;
    rl_ns paused_since[JUDGE_CLIENTS]; /* RL_NEVER: it runs */
    uint32_t unseen;                   /* bits: nodes */
    struct hold holds[JUDGE_RESOURCES][JUDGE_CLIENTS];
};

static bool is_extension(const struct history_record *record) {
    return record->kind == HISTORY_RENEWED ||
           (record->kind == HISTORY_EXTENDED && record->result == JUDGE_OK);
}

/* ---- EXCLUSION ------------------------------------------------------------------------------ */

/* When the validity that record `index` reports ends. Walks on, so only for suspected violations.
 */
static rl_ns validity_end(const struct leases *leases, size_t index) {
    const struct history_record *start = &leases->records[index];
    rl_ns until = start->until;
    for (size_t i = index + 1; i < leases->count; i++) {
        const struct history_record *record = &leases->records[i];
        if (record->at >= until) break;
        if (record->client != start->client) continue;
        if (record->kind == HISTORY_CLIENT_CRASH) return record->at;
        if (record->resource != start->resource) continue;
        if (record->kind == HISTORY_LOST || record->kind == HISTORY_RELEASE) return record->at;
        if (is_extension(record)) until = record->until;
    }
    return until;
}

static void judge_overlap(struct leases *leases, const struct hold *earlier, size_t index) {
    const struct history_record *record = &leases->records[index],
                                *other = &leases->records[earlier->since];
    rl_ns earlier_end = validity_end(leases, earlier->moved), end = validity_end(leases, index);
    if (end > earlier_end) end = earlier_end;
    const struct history *history = leases->report->history;
    if (judge_was_broken(history, earlier->token, index)) return;
    if (judge_was_broken(history, record->token, index)) return; /* before its grant was reported */
    if (end <= record->at) return; /* they meet in one instant and share none */
    judge_found(
        leases->report, CHECK_EXCLUSION, earlier->since, index, record->at, end,
        "%s %s %s at %s while %s's validity%s ran until %s", judge_client(record->client).text,
        record->kind == HISTORY_ACQUIRED ? "acquired" : "took back",
        judge_resource(record->resource).text, judge_ms(record->at).text,
        judge_client(other->client).text,
        record->client == other->client ? " by an earlier token" : "", judge_ms(earlier_end).text);
}

/* ---- LATE_LOSS ------------------------------------------------------------------------------ */

static void judge_late(struct leases *leases, const struct hold *hold, size_t index) {
    const struct history_record *record = &leases->records[index],
                                *holder = &leases->records[hold->moved];
    if (record->at <= hold->due) return;
    if (hold->due >= leases->paused_since[holder->client])
        return; /* it is stopped, so no report can reach it */
    judge_found(leases->report, CHECK_LATE_LOSS, hold->moved, index, hold->due, record->at,
                "%s ran when its validity of %s ended at %s and was not told by %s; %s at %s",
                judge_client(holder->client).text, judge_resource(holder->resource).text,
                judge_ms(hold->until).text, judge_ms(hold->due).text,
                record->kind == HISTORY_LOST      ? "told"
                : record->kind == HISTORY_RELEASE ? "it released"
                                                  : "still untold",
                judge_ms(record->at).text);
}

static void end(struct leases *leases, struct hold *hold, size_t index) {
    if (!hold->held) return;
    judge_late(leases, hold, index);
    hold->held = false;
}

/* At most as many holders as each of them was promised, whichever slots they hold. */
static void judge_slots(struct leases *leases, size_t index) {
    const struct history_record *record = &leases->records[index];
    unsigned holders = 1, allowed = record->message;
    size_t first = index;
    for (unsigned slot = JUDGE_SLOT_FIRST; slot < JUDGE_RESOURCES; slot++) {
        for (unsigned client = 0; client < JUDGE_CLIENTS; client++) {
            const struct hold *hold = &leases->holds[slot][client];
            if (!hold->held || hold->unseen || hold->until <= record->at) continue;
            if ((int)slot == record->resource && (int)client == record->client) continue;
            const struct history_record *other = &leases->records[hold->since];
            if (other->kind != HISTORY_ACQUIRED) continue; /* RESURRECTED reports it */
            holders++;
            if (other->message < allowed) allowed = other->message;
            if (hold->since < first) first = hold->since;
        }
    }
    if (record->message == 0 || leases->unseen || holders <= allowed || record->until <= record->at)
        return;
    judge_found(leases->report, CHECK_EXCLUSION, first, index, record->at, record->until,
                "%s acquired %s at %s: %u hold slots at once, and there are %u",
                judge_client(record->client).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, holders, allowed);
}

static void begin(struct leases *leases, size_t index) {
    const struct history_record *record = &leases->records[index];
    struct hold *holds = leases->holds[record->resource];
    const bool shared = record->kind == HISTORY_ACQUIRED ? record->result == JUDGE_SHARED
                                                         : holds[record->client].shared;
    for (unsigned client = 0; client < JUDGE_CLIENTS; client++) {
        if (holds[client].held && holds[client].until > record->at &&
            !(shared && holds[client].shared) && !holds[client].unseen && !leases->unseen)
            judge_overlap(leases, &holds[client], index);
    }
    end(leases, &holds[record->client], index); /* acquired anew without a release */
    holds[record->client] = (struct hold){.held = true,
                                          .shared = shared,
                                          .unseen = leases->unseen != 0,
                                          .token = record->token,
                                          .since = index,
                                          .moved = index,
                                          .until = record->until,
                                          .due = record->until};
}

static void each_end(struct leases *leases, int client, size_t index) { /* -1: every client's */
    for (unsigned resource = 0; resource < JUDGE_RESOURCES; resource++) {
        for (int i = 0; i < JUDGE_CLIENTS; i++) {
            if (client < 0 || client == i) end(leases, &leases->holds[resource][i], index);
        }
    }
}

static void resume(struct leases *leases, const struct history_record *record) {
    rl_ns since = leases->paused_since[record->client];
    leases->paused_since[record->client] = RL_NEVER;
    for (unsigned resource = 0; resource < JUDGE_RESOURCES; resource++) {
        struct hold *hold = &leases->holds[resource][record->client];
        if (hold->held && hold->due >= since && hold->due < record->at) hold->due = record->at;
    }
}

/* ---- RESURRECTED ---------------------------------------------------------------------------- */

static size_t last_word(const struct leases *leases, size_t index) {
    for (size_t i = index; i-- > 0;) {
        const struct history_record *record = &leases->records[i];
        bool ends = record->kind == HISTORY_LOST || record->kind == HISTORY_RELEASE;
        if (record->client != leases->records[index].client) continue;
        if (record->kind == HISTORY_CLIENT_CRASH) return i;
        if (ends && record->resource == leases->records[index].resource) return i;
    }
    return index;
}

static void judge_revival(struct leases *leases, size_t index) {
    const struct history_record *record = &leases->records[index];
    const struct hold *hold = &leases->holds[record->resource][record->client];
    size_t first = hold->held ? hold->moved : last_word(leases, index);
    const struct history_record *death = &leases->records[first];
    const char *why = hold->held                            ? "its validity was over"
                      : death->kind == HISTORY_LOST         ? "it was told lost"
                      : death->kind == HISTORY_RELEASE      ? "it was given back"
                      : death->kind == HISTORY_CLIENT_CRASH ? "its holder crashed"
                                                            : "it was never acquired";
    rl_ns since = hold->held ? hold->until : death->at;
    judge_found(leases->report, CHECK_RESURRECTED, first, index, record->at, record->until,
                "%s's lease of %s was made valid again at %s, until %s, but %s at %s",
                judge_client(record->client).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, judge_ms(record->until).text, why, judge_ms(since).text);
}

static void extend(struct leases *leases, size_t index) {
    const struct history_record *record = &leases->records[index];
    struct hold *hold = &leases->holds[record->resource][record->client];
    if (hold->held && record->at < hold->until) {
        hold->until = hold->due = record->until;
        hold->moved = index;
        return;
    }
    if (!hold->held) {
        /* A report of a renewal that the release overtook in the same instant is old news, not a
         * new lease. */
        const struct history_record *before = &leases->records[last_word(leases, index)];
        if (before->kind == HISTORY_RELEASE && before->at == record->at) return;
    }
    judge_revival(leases, index);
    end(leases, hold, index);
    begin(leases, index);
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void step(struct leases *leases, size_t index) {
    const struct history_record *record = &leases->records[index];
    switch (record->kind) {
    case HISTORY_ACQUIRED:
        begin(leases, index);
        judge_slots(leases, index);
        break;
    case HISTORY_EXTENDED:
        if (record->result == JUDGE_OK) extend(leases, index);
        break;
    case HISTORY_RENEWED: extend(leases, index); break;
    case HISTORY_DOWNGRADE: leases->holds[record->resource][record->client].shared = true; break;
    case HISTORY_LOST:
    case HISTORY_RELEASE:
        end(leases, &leases->holds[record->resource][record->client], index);
        break;
    case HISTORY_PAUSE:
        if (leases->paused_since[record->client] == RL_NEVER)
            leases->paused_since[record->client] = record->at;
        break;
    case HISTORY_RESUME: resume(leases, record); break;
    case HISTORY_NODE_UNSEEN:
        leases->unseen &= ~(1u << record->node);
        leases->unseen |= (uint32_t)record->value << record->node;
        break;
    case HISTORY_CLIENT_CRASH: each_end(leases, record->client, index); break;
    default: break;
    }
}

void judge_leases(struct report *report) {
    struct leases leases = {
        .report = report, .records = report->history->records, .count = report->history->count};
    for (unsigned client = 0; client < JUDGE_CLIENTS; client++)
        leases.paused_since[client] = RL_NEVER;
    for (size_t i = 0; i < leases.count; i++) step(&leases, i);
    each_end(&leases, -1, leases.count - 1); /* END, or as far as the history goes */
}
