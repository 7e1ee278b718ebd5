/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ORPHAN: what a client leaves on nodes ends by itself, soon.
 *
 * A client's interest in a token begins with the token and ends with RELEASED or CLIENT_CRASH when
 * the lock was acquired, else with NOT_ACQUIRED, with the client's crash, or with its next try,
 * which has a token of its own. From then on a key that holds the token is an orphan. It must end
 * within the TTL of its last effect (until - at of its KEY_SET or KEY_EXTENDED):
 *
 *   - counted from the end of the interest, when that effect was before it;
 *   - counted from the effect itself, when it came after. That is the ghost that docs/use/safety.md
 *     admits: a SET or an extension that was sent in time and arrived late makes a key of at most
 *     one TTL. But only if it was sent in time: where the history has messages, one that left its
 *     client after the interest had ended is a violation in itself. Where it has none, late effects
 *     get the benefit of the doubt for one TTL after the first of them (messages that waited in the
 *     network together arrive together), and later ones buy no more time: a client that goes on
 *     renewing a released lock is caught.
 *
 * A key without an end is a violation as soon as its token is known to be a client's.
 *
 * Keys end by their node's clock. The judge skips a key in two cases. Its node's clock ran false,
 * or stepped (which does not touch the locks of a native node), while the key existed, or its node
 * was stopped or down and could not let it end. Or its token's owner cannot be known (no messages
 * in the history, and never acquired): its SET gave it one TTL, and only its owner can extend it.
 */
#include "judges.h"

#define LATE 16     /* of readers that were listed late, the number remembered for each node */
#define TOKENS 1024 /* the number remembered; a late SET of an older token is not judged */
#define NOWHERE SIZE_MAX

enum phase { PHASE_IDLE, PHASE_ACQUIRING, PHASE_HOLDING };

struct interest {
    uint32_t token;
    bool over;
    size_t end; /* the record that ended it */
};

struct client_state {
    enum phase phase;
    uint32_t token; /* of the try or the lock; 0 none */
    size_t since;   /* the record that began this phase */
};

struct key {
    uint32_t token;              /* 0: none */
    size_t effect;               /* its last KEY_SET or KEY_EXTENDED */
    rl_ns ttl;                   /* of the last effect that counts */
    rl_ns late_first, late_last; /* effects after the interest's end; 0: none */
    bool excused;
};

struct late {
    uint32_t token;
    rl_ns until; /* one TTL after it was first listed late */
};

struct lookout {
    struct report *report;
    const struct history_record *records;
    struct interest interests[TOKENS];
    struct client_state clients[JUDGE_RESOURCES][JUDGE_CLIENTS];
    struct key keys[JUDGE_NODES][JUDGE_RESOURCES];
    struct late late[JUDGE_NODES][LATE];
    bool untrue[JUDGE_NODES];  /* its clock runs false */
    bool stopped[JUDGE_NODES]; /* or down */
    bool native[JUDGE_NODES];
};

/* ---- interests ------------------------------------------------------------------------------ */

static struct interest *interest_in(struct lookout *lookout, uint32_t token) {
    struct interest *interest = &lookout->interests[token % TOKENS];
    return token != 0 && interest->token == token ? interest : NULL;
}

static void end_interest(struct lookout *lookout, uint32_t token, size_t index) {
    struct interest *interest = interest_in(lookout, token);
    if (interest == NULL || interest->over) return;
    interest->over = true;
    interest->end = index;
}

static void begin_interest(struct lookout *lookout, uint32_t token) {
    lookout->interests[token % TOKENS] = (struct interest){.token = token, .end = NOWHERE};
}

/* A client uses a token for the first time. While the client acquires, that is a new try, which
 * ends the one before; else it is a late trace of a try that had ended when this phase began. */
static void token_seen(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    if (record->token == 0 || record->client < 0 || record->resource < 0) return;
    if (interest_in(lookout, record->token) != NULL) return;
    struct client_state *client = &lookout->clients[record->resource][record->client];
    begin_interest(lookout, record->token);
    if (client->token == record->token) return; /* held for so long that the table has dropped it */
    if (client->phase == PHASE_ACQUIRING) {
        end_interest(lookout, client->token, index);
        client->token = record->token;
    } else {
        end_interest(lookout, record->token, client->since);
    }
}

static void acquired(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    struct client_state *client = &lookout->clients[record->resource][record->client];
    if (client->token != record->token) end_interest(lookout, client->token, index);
    if (record->token != 0) begin_interest(lookout, record->token);
    *client = (struct client_state){PHASE_HOLDING, record->token, index};
}

static void over(struct lookout *lookout, int client, int resource, size_t index) {
    struct client_state *state = &lookout->clients[resource][client];
    end_interest(lookout, state->token, index);
    *state = (struct client_state){PHASE_IDLE, 0, index};
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* A request that makes a key, or a place among readers, or prolongs it. */
static bool is_for_key(const struct history_record *sent) {
    return sent->op == JUDGE_OP_ACQUIRE || sent->op == JUDGE_OP_EXTEND;
}

/* Whether the SET or extension behind a late effect left its client after the interest's end.
 * NOWHERE: not known. */
static size_t sent_too_late(const struct lookout *lookout, size_t end, size_t effect) {
    const struct history_record *key = &lookout->records[effect];
    for (size_t i = end + 1; i < effect; i++) {
        const struct history_record *record = &lookout->records[i];
        if (record->kind == HISTORY_SENT && record->node == key->node &&
            record->token == key->token && record->resource == key->resource && is_for_key(record))
            return i;
    }
    return NOWHERE;
}

static void judge_sent(struct lookout *lookout, const struct interest *interest, size_t effect,
                       size_t sent) {
    const struct history_record *key = &lookout->records[effect],
                                *request = &lookout->records[sent];
    judge_found(
        lookout->report, CHECK_ORPHAN, interest->end, effect, key->at, key->until,
        "%s's key of %s was %s on node %d at %s by a request of %s, when its client had no more interest in it "
        "since %s",
        judge_client(request->client).text, judge_resource(key->resource).text,
        key->kind == HISTORY_KEY_EXTENDED ? "extended" : "set", key->node + 1,
        judge_ms(key->at).text, judge_ms(request->at).text,
        judge_ms(lookout->records[interest->end].at).text);
}

/* RL_NEVER: without a limit. */
static rl_ns deadline_of(struct lookout *lookout, const struct key *key) {
    const struct interest *interest = interest_in(lookout, key->token);
    if (interest == NULL || !interest->over) return RL_NEVER;
    if (key->late_last != 0) return key->late_last + key->ttl;
    return lookout->records[interest->end].at + key->ttl;
}

static void gone(struct lookout *lookout, struct key *key, size_t index) {
    const struct history_record *record = &lookout->records[index];
    rl_ns deadline = key->token == 0 || key->excused ? RL_NEVER : deadline_of(lookout, key);
    if (record->at > deadline) {
        const struct history_record *effect = &lookout->records[key->effect];
        size_t end = interest_in(lookout, key->token)->end;
        judge_found(
            lookout->report, CHECK_ORPHAN, end, index, deadline, record->at,
            "a key of %s on node %d that nobody wanted since %s was there until %s, longer than one TTL (%s)",
            judge_resource(effect->resource).text, effect->node + 1,
            judge_ms(lookout->records[end].at).text, judge_ms(record->at).text,
            judge_ms(key->ttl).text);
    }
    key->token = 0;
}

/* Data from before a restart may restore a key that has expired: it is removed in the same instant.
 */
static rl_ns ttl_of(const struct history_record *effect) {
    return effect->until > effect->at ? effect->until - effect->at : 0;
}

static void late_effect(struct lookout *lookout, struct key *key, const struct interest *interest,
                        size_t index) {
    const struct history_record *record = &lookout->records[index];
    size_t sent = sent_too_late(lookout, interest->end, index);
    if (sent != NOWHERE) judge_sent(lookout, interest, index, sent);
    if (key->late_first == 0) key->late_first = record->at;
    if (record->at > key->late_first + key->ttl) return; /* buys no more time */
    key->late_last = record->at;
    key->ttl = ttl_of(record);
}

static void effect(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    struct key *key = &lookout->keys[record->node][record->resource];
    token_seen(lookout, index);
    if (key->token != record->token) {
        *key = (struct key){.token = record->token,
                            .ttl = ttl_of(record),
                            .excused =
                                lookout->untrue[record->node] || lookout->stopped[record->node]};
    }
    key->effect = index;
    const struct interest *interest = interest_in(lookout, record->token);
    if (record->until == RL_NEVER) {
        /* By a clock that stands still, no key has an end: the request is not at fault. */
        if (interest != NULL && !lookout->untrue[record->node])
            judge_found(lookout->report, CHECK_ORPHAN, index, index, record->at, RL_NEVER,
                        "node %d was told at %s to keep a key of %s without an end",
                        record->node + 1, judge_ms(record->at).text,
                        judge_resource(record->resource).text);
        key->excused = true; /* reported once */
    } else if (interest != NULL && interest->over) {
        late_effect(lookout, key, interest, index);
    } else {
        key->ttl = ttl_of(record);
        key->late_first = key->late_last = 0; /* of an interest that was taken up again */
    }
}

static void excuse(struct lookout *lookout, int node) {
    for (unsigned i = 0; i < JUDGE_RESOURCES; i++) lookout->keys[node][i].excused = true;
}

/* A reader's place ends when its last request said, so only late requests can keep it too long. */
static void listed(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    token_seen(lookout, index);
    const struct interest *interest = interest_in(lookout, record->token);
    if (interest == NULL || !interest->over) return;
    const size_t sent = sent_too_late(lookout, interest->end, index);
    if (sent != NOWHERE) judge_sent(lookout, interest, index, sent);
    struct late *late = &lookout->late[record->node][record->token % LATE];
    if (late->token != record->token)
        *late = (struct late){record->token, record->at + ttl_of(record)};
    if (record->at <= late->until) return;
    judge_found(lookout->report, CHECK_ORPHAN, interest->end, index, late->until, record->at,
                "a reader of %s that nobody wanted since %s was still prolonged on node %d at %s",
                judge_resource(record->resource).text,
                judge_ms(lookout->records[interest->end].at).text, record->node + 1,
                judge_ms(record->at).text);
}

/* What was a lock before is a key of another project for a native node, and the other way round. */
static void becomes(struct lookout *lookout, int node, bool native) {
    lookout->native[node] = native;
    for (unsigned i = 0; i < JUDGE_RESOURCES; i++) lookout->keys[node][i].token = 0;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void step_of_node(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    switch (record->kind) {
    case HISTORY_KEY_SET:
    case HISTORY_KEY_EXTENDED: effect(lookout, index); break;
    case HISTORY_READER_LISTED: listed(lookout, index); break;
    case HISTORY_READER_GONE: /* old data may bring it back */
        if (lookout->late[record->node][record->token % LATE].token == record->token)
            lookout->late[record->node][record->token % LATE].token = 0;
        break;
    case HISTORY_KEY_FOREIGN:
        if (lookout->native[record->node]) break; /* a key of that name, and not the lock */
        gone(lookout, &lookout->keys[record->node][record->resource], index);
        break;
    case HISTORY_KEY_DELETED:
    case HISTORY_KEY_EXPIRED:
    case HISTORY_KEY_LOST:
        gone(lookout, &lookout->keys[record->node][record->resource], index);
        break;
    case HISTORY_NODE_RATE:
        lookout->untrue[record->node] = record->value != 1000000;
        excuse(lookout, record->node);
        break;
    case HISTORY_NODE_CLOCK:
        if (!lookout->native[record->node]) excuse(lookout, record->node);
        break;
    case HISTORY_NODE_NATIVE: becomes(lookout, record->node, record->value != 0); break;
    case HISTORY_NODE_CRASH:
    case HISTORY_NODE_PAUSE:
        lookout->stopped[record->node] = true;
        excuse(lookout, record->node);
        break;
    case HISTORY_NODE_RESTART:
    case HISTORY_NODE_FAILOVER:
    case HISTORY_NODE_RESUME: lookout->stopped[record->node] = false; break;
    default: break;
    }
}

/* It takes over a lock by its token, which it is interested in again. */
static void adopts(struct lookout *lookout, const struct history_record *record) {
    begin_interest(lookout, record->token);
    lookout->clients[record->resource][record->client].token = record->token;
}

static void step(struct lookout *lookout, size_t index) {
    const struct history_record *record = &lookout->records[index];
    switch (record->kind) {
    case HISTORY_ACQUIRE:
        over(lookout, record->client, record->resource, index);
        lookout->clients[record->resource][record->client].phase = PHASE_ACQUIRING;
        if (record->token != 0) adopts(lookout, record);
        break;
    case HISTORY_ACQUIRED: acquired(lookout, index); break;
    case HISTORY_NOT_ACQUIRED:
    case HISTORY_RELEASED: over(lookout, record->client, record->resource, index); break;
    case HISTORY_CLIENT_CRASH:
        for (int resource = 0; resource < JUDGE_RESOURCES; resource++)
            over(lookout, record->client, resource, index);
        break;
    case HISTORY_SENT:
        if (is_for_key(record)) token_seen(lookout, index);
        break;
    default: step_of_node(lookout, index); break;
    }
}

void judge_orphans(struct report *report) {
    struct lookout lookout = {.report = report, .records = report->history->records};
    for (size_t i = 0; i < report->history->count; i++) step(&lookout, i);
    for (unsigned node = 0; node < JUDGE_NODES; node++)
        for (unsigned i = 0; i < JUDGE_RESOURCES; i++) /* END, or as far as the history goes */
            gone(&lookout, &lookout.keys[node][i], report->history->count - 1);
}
