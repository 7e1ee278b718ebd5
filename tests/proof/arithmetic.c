/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What src/core computes, for proof/extracted/arithmetic.ml to compare: an attempt that is voted
 * for and a lease that is extended, through the state machines, with all boundaries and then random
 * inputs. usage: arithmetic COUNT SEED */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/guard.h"
#include "core/mix.h"

/* One record, as it is written: 64 bits each. */
struct record {
    int64_t nodes, drift_ppm, drift_fixed, ttl, t1, voted_at, drift, votes, won, validity_end;
    int64_t extend_ttl, extend_t1, extended_at, extended, extended_end, probed_at, validity_left;
    int64_t quarantine_ms, quarantine;
};

#define DAY (86400000 * RL_MS)
#define READING_MAX (INT64_C(1) << 59)
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const rl_ns ttls[] = {2,
                             3,
                             999999,
                             1000000,
                             1000001,
                             10 * RL_MS,
                             10 * RL_MS + 1,
                             1000 * RL_MS - 1,
                             1000 * RL_MS,
                             30000 * RL_MS,
                             30000 * RL_MS + 999999,
                             DAY - 1,
                             DAY};
static const int64_t ppms[] = {0, 1, 2, 9999, 10000, 10001, 333333, 499999, 500000};
static const rl_ns fixeds[] = {0, 1, 2 * RL_MS - 1, 2 * RL_MS, 2 * RL_MS + 1, 60000 * RL_MS};
static const rl_ns readings[] = {0, 1, 999999, READING_MAX};

enum moment { AT_ONCE, LAST_MOMENT, TOO_LATE, LATER, SOMETIME };
#define MOMENTS 5

static rl_ns between(uint64_t *random, rl_ns low, rl_ns high) {
    return low + (rl_ns)(rl_splitmix64(random) % ((uint64_t)(high - low) + 1));
}

/* Small numbers as often as large ones. */
static rl_ns any(uint64_t *random, rl_ns low, rl_ns high) {
    rl_ns top = high >> (rl_splitmix64(random) % 48);
    return between(random, low, top < low ? low : top);
}

/* A moment after `from`, at one side of `end` or the other. */
static rl_ns moment(enum moment which, rl_ns from, rl_ns end, uint64_t *random) {
    rl_ns at = from;
    if (which == LAST_MOMENT) at = end - 1;
    if (which == TOO_LATE) at = end;
    if (which == LATER) at = end + 1;
    if (which == SOMETIME) at = between(random, from, end > from ? end + 1000 : from + 1000);
    return at < from ? from : at;
}

static rl_ns end_of(const struct rl_terms *terms, rl_ns t1, rl_ns ttl) {
    return t1 + ttl - rl_drift(terms, ttl);
}

static void vote(struct rl_event *event, unsigned node) {
    event->type = RL_EVENT_VOTE;
    event->node = (uint8_t)node;
    event->vote = RL_VOTE_GRANTED;
}

static void attempt(const struct rl_terms *terms, struct record *record) {
    struct rl_attempt attempt;
    struct rl_actions actions;
    struct rl_event event = {.type = RL_EVENT_START, .ready = rl_all(terms->nodes)};
    rl_attempt_init(&attempt, terms);
    rl_attempt_step(&attempt, &event, record->t1, &actions);
    for (unsigned node = 0; attempt.state == RL_ATTEMPT_VOTING && node < terms->nodes; node++) {
        vote(&event, node);
        rl_attempt_step(&attempt, &event, record->voted_at, &actions);
        record->votes++;
    }
    record->won = attempt.state == RL_ATTEMPT_WON;
    record->validity_end = attempt.validity_end;
}

/* The lease that was won is extended once. */
static void lease(const struct rl_terms *terms, struct record *record) {
    static const struct rl_lease_rules rules = {0};
    struct rl_lease lease;
    struct rl_lease_work work;
    struct rl_actions actions;
    const rl_mask all = rl_all(terms->nodes);
    struct rl_event event = {.type = RL_EVENT_START, .ready = all, .asked = all, .granted = all};
    event.validity_end = record->validity_end;
    rl_lease_init(&lease, &work, terms, &rules);
    rl_lease_step(&lease, &event, record->voted_at, &actions);
    event.type = RL_EVENT_EXTEND;
    event.ttl = record->extend_ttl;
    rl_lease_step(&lease, &event, record->extend_t1, &actions);
    for (unsigned node = 0; node < terms->nodes; node++) {
        vote(&event, node);
        rl_lease_step(&lease, &event, record->extended_at, &actions);
        if (actions.extend_outcome == RL_OUTCOME_OK) record->extended = 1;
    }
    record->extended_end = lease.validity_end;
    record->validity_left = rl_lease_validity(&lease, record->probed_at);
}

static void write_record(struct record *record, enum moment votes, enum moment extends,
                         uint64_t *random) {
    static struct rl_guard guard; /* large; only what the quarantine depends on is set */
    const struct rl_terms terms = {.nodes = (uint8_t)record->nodes,
                                   .quorum = (uint8_t)rl_quorum((unsigned)record->nodes),
                                   .ttl = record->ttl,
                                   .drift_ppm = (uint32_t)record->drift_ppm,
                                   .drift_fixed = record->drift_fixed,
                                   .node_timeout = record->ttl - 1};
    rl_ns end = end_of(&terms, record->t1, record->ttl);
    record->drift = rl_drift(&terms, record->ttl);
    record->voted_at = moment(votes, record->t1, end, random);
    attempt(&terms, record);
    record->extend_t1 =
        between(random, record->voted_at, end > record->voted_at ? end - 1 : record->voted_at);
    record->extended_at = moment(extends, record->extend_t1, end, random);
    rl_ns extended_end = end_of(&terms, record->extend_t1, record->extend_ttl);
    if (extended_end < end) extended_end = end;
    record->probed_at = moment((enum moment)(rl_splitmix64(random) % MOMENTS), record->extended_at,
                               extended_end, random);
    if (record->won) lease(&terms, record);
    guard.drift_ppm = terms.drift_ppm;
    guard.drift_fixed = terms.drift_fixed;
    guard.quorum.ttl_max_ms = record->quarantine_ms;
    record->quarantine = rl_guard_quarantine(&guard);
    if (fwrite(record, sizeof *record, 1, stdout) != 1) exit(1); /* the reader has seen enough */
}

static unsigned long boundaries(uint64_t *random) {
    unsigned long written = 0;
    for (size_t i = 0; i < COUNT(ttls) * COUNT(ppms) * COUNT(fixeds) * COUNT(readings); i++) {
        for (unsigned m = 0; m < MOMENTS * MOMENTS; m++) {
            size_t rest = i;
            struct record record = {.nodes = 1 + (int64_t)(i % RL_NODES_MAX)};
            record.ttl = ttls[rest % COUNT(ttls)], rest /= COUNT(ttls);
            record.drift_ppm = ppms[rest % COUNT(ppms)], rest /= COUNT(ppms);
            record.drift_fixed = fixeds[rest % COUNT(fixeds)], rest /= COUNT(fixeds);
            record.t1 = readings[rest];
            record.extend_ttl = ttls[rl_splitmix64(random) % COUNT(ttls)];
            record.quarantine_ms = record.ttl / RL_MS > 0 ? record.ttl / RL_MS : 1;
            write_record(&record, (enum moment)(m % MOMENTS), (enum moment)(m / MOMENTS), random);
            written++;
        }
    }
    return written;
}

int main(int argc, char **argv) {
    if (argc != 3) return 64;
    const unsigned long count = strtoul(argv[1], NULL, 10);
    uint64_t random = strtoull(argv[2], NULL, 10);
    for (unsigned long i = boundaries(&random); i < count; i++) {
        struct record record = {
            /* mostly three: it is the arithmetic that varies */
            .nodes = i % 16 == 0 ? between(&random, 1, RL_NODES_MAX) : 3,
            .drift_ppm = any(&random, 0, 500000),
            .drift_fixed = any(&random, 0, 60000 * RL_MS),
            .ttl = any(&random, 2, DAY),
            .t1 = any(&random, 0, READING_MAX),
            .extend_ttl = any(&random, 1, DAY),
            .quarantine_ms = any(&random, 1, 86400000),
        };
        write_record(&record, (enum moment)(rl_splitmix64(&random) % MOMENTS),
                     (enum moment)(rl_splitmix64(&random) % MOMENTS), &random);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
