/* SPDX-License-Identifier: BSD-2-Clause
 *
 * FENCE and LOST_UPDATE: the purpose of locks.
 *
 * FENCE. An acquisition whose ACQUIRE is recorded after another's ACQUIRED began after that one had
 * ended (the order of records is the order of the world, also within a nanosecond): its fence must
 * be higher. Acquisitions that overlap in time may end in either order, but never with the same
 * fence. A write has the fence with which its token was acquired; the fences that the register
 * accepts must never go down. Fence 0 means no fence (single, classic).
 *
 * FENCE_ORDER is stricter: the client whose grant is reported later has the higher fence, even if
 * its acquisition began before. A client breaks it that was stopped with the last votes in its
 * sockets while its keys ended. So the rule applies only where clocks keep their bounds and no
 * fault removes keys.
 *
 * Readers share a fence: it is at least as high as those acquired before the reader began, and a
 * writer that begins after a reader's ACQUIRED has a higher one. FENCE_ORDER compares a reader only
 * with writers.
 *
 * The fence of a break (BROKEN) counts as one that was acquired, and as one that the register has
 * accepted: tokens acquired afterwards are higher, and lower ones do not write. The grant of the
 * broken token may be reported after its break; its fence is lower then, as the break promises.
 *
 * LOST_UPDATE. Clients count the register up by one, so each accepted WRITE must be one above the
 * present value: a smaller value overwrites another client's write, which its writer had not read.
 * WRITE stands for a write that took effect; a write that the register refused is a WRITE_REFUSED
 * instead, or one directly after the WRITE with the same value. A reader that reads twice under one
 * lock reads the same value.
 */
#include "judges.h"

#define NOWHERE SIZE_MAX

struct highest {
    int64_t fence; /* acquired so far ... */
    size_t record; /* ... and the record of that acquisition */
};

struct resource_state {
    struct highest any, exclusive;
    int64_t value; /* of the register */
    size_t write_record;
    int64_t write_fence; /* the highest fence of an accepted write */
    size_t fenced_record;
    bool known; /* value is known, by a read or a write */
};

struct client_state {
    size_t began;         /* its last ACQUIRE */
    struct highest floor; /* when it began */
    uint32_t token;       /* its last acquisition's */
    int64_t fence;
    bool shared;
    size_t read; /* a reader's first read; NOWHERE: none */
};

struct ledger {
    struct report *report;
    const struct history_record *records;
    size_t count;
    struct resource_state resources[JUDGE_RESOURCES];
    struct client_state clients[JUDGE_RESOURCES][JUDGE_CLIENTS];
};

/* ---- FENCE ---------------------------------------------------------------------------------- */

static size_t same_fence_since(const struct ledger *ledger, size_t began, size_t index) {
    const struct history_record *record = &ledger->records[index];
    for (size_t i = index; i-- > began;) {
        const struct history_record *other = &ledger->records[i];
        if (other->kind == HISTORY_ACQUIRED && other->resource == record->resource &&
            other->value == record->value && other->result != JUDGE_SHARED)
            return i;
    }
    return NOWHERE;
}

static void judge_fence(struct ledger *ledger, enum check_rule rule, size_t index, size_t first,
                        const char *how) {
    const struct history_record *record = &ledger->records[index], *other = &ledger->records[first];
    judge_found(ledger->report, rule, first, index, record->at, record->at,
                "%s acquired %s at %s with fence %lld, %s fence %lld that %s got at %s",
                judge_client(record->client).text, judge_resource(record->resource).text,
                judge_ms(record->at).text, (long long)record->value, how, (long long)other->value,
                judge_client(other->client).text, judge_ms(other->at).text);
}

static void rise(struct highest *highest, int64_t fence, size_t index) {
    if (fence > highest->fence) *highest = (struct highest){fence, index};
}

static void judge_reader(struct ledger *ledger, const struct client_state *client, size_t index) {
    const struct history_record *record = &ledger->records[index];
    const struct highest *exclusive = &ledger->resources[record->resource].exclusive;
    if (record->value < client->floor.fence)
        judge_fence(ledger, CHECK_FENCE, index, client->floor.record, "below");
    else if (record->value < exclusive->fence &&
             !judge_was_broken(ledger->report->history, record->token, index))
        judge_fence(ledger, CHECK_FENCE_ORDER, index, exclusive->record, "below");
}

static void acquired(struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    struct resource_state *resource = &ledger->resources[record->resource];
    struct client_state *client = &ledger->clients[record->resource][record->client];
    client->token = record->token;
    client->fence = record->value;
    client->shared = record->result == JUDGE_SHARED;
    client->read = NOWHERE;
    if (record->value == 0) return;

    if (client->shared) {
        judge_reader(ledger, client, index);
    } else if (client->floor.fence != 0 && record->value <= client->floor.fence) {
        judge_fence(ledger, CHECK_FENCE, index, client->floor.record, "not above");
    } else {
        size_t twin = same_fence_since(ledger, client->began, index);
        if (twin == NOWHERE && record->value < resource->any.fence &&
            !judge_was_broken(ledger->report->history, record->token, index))
            judge_fence(ledger, CHECK_FENCE_ORDER, index, resource->any.record, "below");
        if (twin != NOWHERE) judge_fence(ledger, CHECK_FENCE, index, twin, "the same as");
    }
    rise(&resource->any, record->value, index);
    if (!client->shared) rise(&resource->exclusive, record->value, index);
}

static int64_t fence_of_write(const struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    const struct client_state *client = &ledger->clients[record->resource][record->client];
    if (record->token == 0 || record->token == client->token) return client->fence;
    for (size_t i = index; i-- > 0;) { /* a write that travelled while its writer acquired again */
        const struct history_record *other = &ledger->records[i];
        if (other->kind == HISTORY_ACQUIRED && other->token == record->token) return other->value;
    }
    return 0;
}

static void judge_write_fence(struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    struct resource_state *resource = &ledger->resources[record->resource];
    int64_t fence = fence_of_write(ledger, index);
    if (fence == 0) return;
    if (fence < resource->write_fence) {
        const struct history_record *other = &ledger->records[resource->fenced_record];
        judge_found(
            ledger->report, CHECK_FENCE, resource->fenced_record, index, record->at, record->at,
            "%s's write to %s with fence %lld was accepted at %s after %s's with fence %lld at %s",
            judge_client(record->client).text, judge_resource(record->resource).text,
            (long long)fence, judge_ms(record->at).text, judge_client(other->client).text,
            (long long)resource->write_fence, judge_ms(other->at).text);
        return;
    }
    resource->write_fence = fence;
    resource->fenced_record = index;
}

/* ---- LOST_UPDATE ---------------------------------------------------------------------------- */

static bool refused(const struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index], *next = record + 1;
    return index + 1 < ledger->count && next->kind == HISTORY_WRITE_REFUSED &&
           next->at == record->at && next->client == record->client &&
           next->resource == record->resource && next->value == record->value;
}

/* Without fences, the holder of a lock that was broken works on until its next renewal, and it and
 * the next holder overwrite each other, or what the next holder reads. */
static bool is_by_broken(const struct ledger *ledger, size_t index) {
    const struct history *history = ledger->report->history;
    const struct history_record *record = &ledger->records[index];
    const size_t other = ledger->resources[record->resource].write_record;
    if (fence_of_write(ledger, index) != 0) return false;
    return judge_was_broken(history, record->token, index) ||
           (other != NOWHERE && judge_was_broken(history, ledger->records[other].token, index));
}

static void judge_update(struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    struct resource_state *resource = &ledger->resources[record->resource];
    bool based_on_it = !resource->known || record->value == resource->value + 1;
    if (!based_on_it && is_by_broken(ledger, index)) based_on_it = true;
    if (!based_on_it && resource->write_record != NOWHERE) {
        const struct history_record *other = &ledger->records[resource->write_record];
        judge_found(
            ledger->report, CHECK_LOST_UPDATE, resource->write_record, index, record->at,
            record->at, "%s wrote %lld to %s at %s over %s's %lld of %s, which it had not read",
            judge_client(record->client).text, (long long)record->value,
            judge_resource(record->resource).text, judge_ms(record->at).text,
            judge_client(other->client).text, (long long)resource->value, judge_ms(other->at).text);
    } else if (!based_on_it) {
        judge_found(ledger->report, CHECK_LOST_UPDATE, index, index, record->at, record->at,
                    "%s wrote %lld to %s at %s where %lld was read and nothing had been written",
                    judge_client(record->client).text, (long long)record->value,
                    judge_resource(record->resource).text, judge_ms(record->at).text,
                    (long long)resource->value);
    }
    resource->known = true;
    resource->value = record->value;
    resource->write_record = index;
}

/* What a reader reads does not change while it holds the lock. */
static void judge_read(struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    struct client_state *client = &ledger->clients[record->resource][record->client];
    if (!client->shared || record->token != client->token) return;
    if (client->read == NOWHERE) client->read = index;
    const struct history_record *first = &ledger->records[client->read];
    if (first->value == record->value) return;
    if (is_by_broken(ledger, index)) return;
    judge_found(ledger->report, CHECK_LOST_UPDATE, client->read, index, first->at, record->at,
                "%s, a reader of %s, read %lld at %s and %lld at %s under one lock",
                judge_client(record->client).text, judge_resource(record->resource).text,
                (long long)first->value, judge_ms(first->at).text, (long long)record->value,
                judge_ms(record->at).text);
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void step(struct ledger *ledger, size_t index) {
    const struct history_record *record = &ledger->records[index];
    if (record->resource < 0) return;
    struct resource_state *resource = &ledger->resources[record->resource];
    switch (record->kind) {
    case HISTORY_ACQUIRE: {
        struct client_state *client = &ledger->clients[record->resource][record->client];
        client->began = index;
        client->floor = resource->any;
        break;
    }
    case HISTORY_ACQUIRED: acquired(ledger, index); break;
    case HISTORY_DOWNGRADE: {
        struct client_state *client = &ledger->clients[record->resource][record->client];
        client->shared = true;
        client->read = NOWHERE;
        break;
    }
    case HISTORY_BROKEN: /* later grants are above its fence, which the register has seen */
        rise(&resource->any, record->value, index);
        rise(&resource->exclusive, record->value, index);
        if (record->value > resource->write_fence) {
            resource->write_fence = record->value;
            resource->fenced_record = index;
        }
        break;
    case HISTORY_READ:
        judge_read(ledger, index);
        if (resource->known) break; /* later reads are judged by the writes that depend on them */
        resource->known = true;
        resource->value = record->value;
        break;
    case HISTORY_WRITE:
        if (refused(ledger, index)) break;
        judge_write_fence(ledger, index);
        judge_update(ledger, index);
        break;
    default: break;
    }
}

void judge_register(struct report *report) {
    struct ledger ledger = {
        .report = report, .records = report->history->records, .count = report->history->count};
    for (unsigned i = 0; i < JUDGE_RESOURCES; i++) ledger.resources[i].write_record = NOWHERE;
    for (size_t i = 0; i < ledger.count; i++) step(&ledger, i);
}
