/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What attempts and leases of src/core do with events, for proof/extracted/lease.ml to compare: all
 * sequences of events up to a depth for a few nodes, then random ones.
 * usage: lease COUNT SEED DEPTH1 DEPTH2 DEPTH3, with a depth for one, two and three nodes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/mix.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One record, as it is written: 64 bits each. */
enum kind { NEW_ATTEMPT, ATTEMPT, NEW_LEASE, LEASE, VOIDED, DISOWNED, NEXT_LEVEL };
enum { IN = 14, OUT = 46 };
struct record {
    int64_t in[IN], out[OUT];
    unsigned outs;
};

static void put(struct record *record, int64_t number) {
    if (record->outs == OUT) abort();
    record->out[record->outs++] = number == RL_NEVER ? -1 : number;
}

static unsigned long written;

static void write_record(const struct record *record) {
    if (fwrite(record->in, sizeof record->in, 1, stdout) != 1 ||
        fwrite(record->out, sizeof record->out, 1, stdout) != 1)
        exit(1); /* the reader has seen enough */
    written++;
}

/* A state, with what belongs to it. */
struct machine {
    struct rl_attempt attempt;
    struct rl_lease lease;
    struct rl_lease_work work;
    rl_ns now;
    rl_ns wake_at;
    bool leased;
};

struct settings {
    struct rl_terms terms;
    struct rl_lease_rules rules;
};

/* ---- what is compared ---- */

static void put_tally(struct record *record, const struct rl_tally *tally) {
    put(record, tally ? tally->asked : 0);
    put(record, tally ? tally->granted : 0);
    put(record, tally ? tally->denied : 0);
    put(record, tally ? tally->absent : 0);
    put(record, tally ? tally->failed : 0);
}

/* Actions that an ordinary lock in classic mode never has. */
static int64_t others(const struct rl_actions *actions) {
    return actions->slot | actions->leave | actions->peek | actions->watch | actions->enter_queue |
           actions->queue | actions->fence | actions->raise | actions->confirm | actions->announce;
}

static void put_attempt(struct record *record, const struct rl_attempt *attempt,
                        const struct rl_actions *actions) {
    put(record, attempt->state);
    put(record, attempt->outcome);
    put_tally(record, &attempt->tally);
    put(record, attempt->t1);
    put(record, attempt->validity_end);
    put(record, actions->fresh_token);
    put(record, actions->acquire);
    put(record, actions->release);
    put(record, actions->outcome);
    put(record, actions->wake_at);
    put(record, others(actions) | actions->repair | actions->extend | actions->catch_up |
                    actions->notices | (int64_t)actions->extend_outcome);
}

static void put_round(struct record *record, const struct rl_lease *lease) {
    put(record, lease->round_open);
    put(record, lease->round_by_caller);
    put(record, lease->round_proven);
    put(record, lease->round_t1);
    put(record, lease->round_open ? lease->work->round_ttl : 0);
    put_tally(record, lease->round_open ? &lease->work->round : NULL);
    put(record, lease->work->want_ttl);
    const bool releases = lease->state == RL_LEASE_RELEASING;
    put_tally(record, releases ? &lease->work->unlocking : NULL);
    put(record, releases ? lease->unlocking_since : 0);
}

static void put_lease(struct record *record, const struct rl_lease *lease, rl_ns now,
                      const struct rl_actions *actions) {
    put(record, lease->state);
    put(record, lease->began);
    put(record, lease->validity_end);
    put(record, lease->keys_end);
    put(record, lease->renew_at);
    put(record, lease->renewals);
    put(record, lease->disowned | (lease->proven_members != 0) << 1);
    put(record, lease->asked);
    put(record, lease->kept);
    put(record, lease->late);
    put(record, lease->behind);
    put(record, lease->repaired);
    put(record, lease->set);
    put(record, lease->gone);
    put_round(record, lease);
    put(record, actions->extend);
    put(record, actions->extend_ttl);
    put(record, actions->repair);
    put(record, actions->catch_up);
    put(record, actions->repair_ttl);
    put(record, actions->release);
    put(record, actions->notices);
    put(record, actions->outcome);
    put(record, actions->extend_outcome);
    put(record, actions->renewal_waits);
    put(record, actions->wake_at);
    put(record, rl_lease_validity(lease, now));
    put(record, rl_lease_validity(lease, now + 1));
    put(record, others(actions) | actions->acquire | actions->fresh_token);
}

/* ---- steps, in the state `from` of this level, that lead to the state `to` of the next ---- */

#define SEEN (-1)     /* `to`: a state that was reached before */
#define IN_PLACE (-2) /* `to`: there are no levels; it replaces `from` */

static void write_step(const struct machine *machine, enum kind kind, const struct rl_event *event,
                       int64_t from, int64_t to, const struct rl_actions *actions) {
    struct record record = {.in = {kind, from, to, machine->now, event->type, event->node,
                                   event->vote, event->ready, event->busy, event->full,
                                   event->type == RL_EVENT_START ? event->validity_end : event->ttl,
                                   event->asked, event->granted, event->denied}};
    if (kind == ATTEMPT)
        put_attempt(&record, &machine->attempt, actions);
    else
        put_lease(&record, &machine->lease, machine->now, actions);
    write_record(&record);
}

static void write_new(const struct settings *settings, enum kind kind, int64_t to) {
    const struct rl_terms *terms = &settings->terms;
    const struct rl_lease_rules *rules = &settings->rules;
    struct record record = {.in = {kind, 0, to, terms->nodes, terms->ttl, terms->drift_ppm,
                                   terms->drift_fixed, terms->node_timeout, terms->validity_min,
                                   rules->renew_every, rules->hold_max, rules->renewals_max,
                                   rules->lost_margin}};
    write_record(&record);
}

static void step(struct machine *machine, const struct rl_event *event,
                 struct rl_actions *actions) {
    if (machine->leased) {
        machine->lease.work = &machine->work;
        rl_lease_step(&machine->lease, event, machine->now, actions);
    } else {
        rl_attempt_step(&machine->attempt, event, machine->now, actions);
    }
    machine->wake_at = actions->wake_at;
}

/* The lease that was won. */
static struct rl_event become_lease(struct machine *machine, const struct settings *settings) {
    machine->leased = true;
    rl_lease_init(&machine->lease, &machine->work, &settings->terms, &settings->rules);
    return rl_lease_start(&machine->attempt);
}

static bool may_extend(const struct rl_lease *lease) {
    return lease->work->want_ttl == 0 &&
           (!lease->round_open || !lease->round_by_caller || lease->round_proven);
}

/* ---- all sequences of events, breadth first: each state once ---- */

struct level {
    struct machine *states;
    size_t length, room;
};
static struct level level, next;
static uint64_t *seen; /* hashes of the states */
static size_t seen_length, seen_room;

static size_t place_of(uint64_t hash) {
    size_t at = hash & (seen_room - 1);
    while (seen[at] != 0 && seen[at] != hash) at = (at + 1) & (seen_room - 1);
    return at;
}

static void grow_seen(void) {
    uint64_t *const before = seen;
    const size_t room = seen_room;
    seen_room = room ? 2 * room : 1 << 16;
    seen = calloc(seen_room, sizeof *seen);
    if (!seen) abort();
    for (size_t i = 0; i < room; i++)
        if (before[i]) seen[place_of(before[i])] = before[i];
    free(before);
}

static uint64_t hash_of(const struct machine *machine) {
    uint64_t hash = RL_FNV_BASIS;
    const unsigned char *bytes = (const unsigned char *)machine;
    for (size_t i = 0; i + sizeof hash <= sizeof *machine; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        hash = rl_scatter(hash ^ word);
    }
    return hash | 1;
}

/* Its number in the next level. */
static int64_t keep(struct machine *machine) {
    machine->lease.work = NULL;
    if (2 * seen_length >= seen_room) grow_seen();
    const size_t at = place_of(hash_of(machine));
    if (seen[at]) return SEEN;
    seen[at] = hash_of(machine);
    seen_length++;
    if (next.length == next.room) {
        next.room = next.room ? 2 * next.room : 1024;
        next.states = realloc(next.states, next.room * sizeof *next.states);
        if (!next.states) abort();
    }
    next.states[next.length] = *machine;
    return (int64_t)next.length++;
}

static void try_event(size_t from, rl_ns now, const struct rl_event *event) {
    struct machine machine = level.states[from];
    struct rl_actions actions;
    machine.now = now;
    step(&machine, event, &actions);
    const struct machine after = machine;
    const int64_t to = keep(&machine);
    write_step(&after, after.leased ? LEASE : ATTEMPT, event, (int64_t)from, to, &actions);
}

/* A node's vote; the nodes that are ready: all, none, it alone, or all others. */
static void try_votes(size_t from, rl_ns now, unsigned nodes, enum rl_event_type type) {
    const rl_mask all = rl_all(nodes);
    const bool is_vote = type == RL_EVENT_VOTE;
    for (unsigned node = 0; node < nodes; node++) {
        const rl_mask bit = rl_bit(node);
        const rl_mask readies[] = {all, 0, bit, all & (rl_mask)~bit};
        for (int vote = RL_VOTE_GRANTED; vote <= RL_VOTE_FAILED; vote++)
            for (unsigned i = 0; i < (is_vote && level.states[from].leased ? 4 : 1); i++)
                try_event(from, now,
                          &(struct rl_event){.type = type,
                                             .node = (uint8_t)node,
                                             .vote = (enum rl_vote)vote,
                                             .ready = readies[i]});
    }
}

static void try_others(size_t from, rl_ns now, const struct rl_terms *terms) {
    const rl_mask all = rl_all(terms->nodes);
    const struct machine *machine = &level.states[from];
    struct rl_lease lease = machine->lease;
    struct rl_lease_work work = machine->work;
    lease.work = &work;
    for (rl_mask ready = 0; ready <= all; ready++) {
        struct rl_event event = {.ready = ready};
        if (!machine->leased && machine->attempt.state == RL_ATTEMPT_IDLE) {
            event.type = RL_EVENT_START;
            try_event(from, now, &event);
        }
        if (!machine->leased && ready != all) continue;
        event.busy = all & (rl_mask)~ready;
        for (unsigned full = 0; full < 2; full++) {
            event.type = full ? RL_EVENT_TICK : RL_EVENT_NODES;
            event.full = full;
            try_event(from, now, &event);
        }
        event = (struct rl_event){.type = RL_EVENT_EXTEND, .ready = ready, .ttl = terms->ttl / 2};
        for (unsigned i = 0; machine->leased && may_extend(&lease) && i < 2; i++) {
            try_event(from, now, &event);
            event.ttl = terms->ttl;
        }
    }
    try_event(from, now,
              &(struct rl_event){.type = machine->leased ? RL_EVENT_RELEASE : RL_EVENT_CANCEL});
}

/* The lease of an attempt that asked these nodes and was granted by a majority of them. */
static void try_starts(size_t from, const struct settings *settings) {
    const struct rl_terms *terms = &settings->terms;
    const rl_mask all = rl_all(terms->nodes);
    for (rl_mask asked = 0; asked <= all; asked++)
        for (rl_mask granted = 0; granted <= asked; granted++) {
            const rl_mask rest = asked & (rl_mask)~granted;
            if ((granted & ~asked) != 0 || rl_count(granted) < terms->quorum) continue;
            for (unsigned i = 0; i < 4; i++)
                try_event(from, 0,
                          &(struct rl_event){.type = RL_EVENT_START,
                                             .validity_end = terms->ttl - (i & 1 ? 70 : 3) * RL_MS,
                                             .asked = asked,
                                             .granted = granted,
                                             .denied = i & 2 ? rest : 0,
                                             .ready = all & (rl_mask)~rest});
        }
}

/* What can happen next: now, when the machine wants to be woken, and around the end of validity. */
static void expand(size_t from, const struct settings *settings) {
    const struct machine before = level.states[from];
    const struct rl_terms *terms = &settings->terms;
    const rl_ns end = before.leased ? before.lease.validity_end
                                    : before.attempt.t1 + terms->ttl - rl_drift(terms, terms->ttl);
    const rl_ns times[] = {before.now, before.wake_at, end - 1, end};
    const bool sleeps = before.wake_at != RL_NEVER && before.wake_at > before.now;
    if (before.leased && before.lease.state == RL_LEASE_NONE) {
        try_starts(from, settings);
        return;
    }
    for (unsigned i = 0; i < COUNT(times); i++) {
        if ((i == 1 && !sleeps) || (i > 1 && times[i] <= before.now)) continue;
        try_votes(from, times[i], terms->nodes, RL_EVENT_VOTE);
        if (before.leased && before.lease.state == RL_LEASE_RELEASING)
            try_votes(from, times[i], terms->nodes, RL_EVENT_UNLOCKED);
        try_others(from, times[i], terms);
    }
}

/* Returns false if there are longer ones. */
static bool all_sequences(const struct settings *settings, bool leased, unsigned depth) {
    struct machine machine;
    memset(&machine, 0, sizeof machine);
    machine.wake_at = RL_NEVER;
    machine.leased = leased;
    if (leased)
        rl_lease_init(&machine.lease, &machine.work, &settings->terms, &settings->rules);
    else
        rl_attempt_init(&machine.attempt, &settings->terms);
    if (seen) memset(seen, 0, seen_room * sizeof *seen);
    seen_length = next.length = 0;
    write_new(settings, leased ? NEW_LEASE : NEW_ATTEMPT, keep(&machine));
    for (unsigned i = 0; i < depth && next.length != 0; i++) {
        const struct level done = level;
        level = next, next = done;
        next.length = 0;
        write_record(&(struct record){.in = {NEXT_LEVEL}});
        for (size_t from = 0; from < level.length; from++) expand(from, settings);
    }
    return next.length == 0;
}

/* All that an attempt can come to; and a lease, with its beginning, after as many events. */
static void small_states(const unsigned depths[3]) {
    static const struct rl_lease_rules rules[] = {
        {.renew_every = 0},
        {.renew_every = 40 * RL_MS, .lost_margin = 5 * RL_MS},
        {.renew_every = 40 * RL_MS, .hold_max = 150 * RL_MS, .renewals_max = 2}};
    for (unsigned nodes = 1; nodes <= 3; nodes++)
        for (size_t i = 0; i < COUNT(rules); i++) {
            const struct settings settings = {.terms = {.nodes = (uint8_t)nodes,
                                                        .quorum = (uint8_t)rl_quorum(nodes),
                                                        .ttl = 100 * RL_MS,
                                                        .drift_ppm = 10000,
                                                        .drift_fixed = 2 * RL_MS,
                                                        .node_timeout = 20 * RL_MS,
                                                        .validity_min = i == 1 ? 6 * RL_MS : 0},
                                              .rules = rules[i]};
            if (i < 2 && !all_sequences(&settings, false, 100)) abort(); /* it has no rules */
            all_sequences(&settings, true, depths[nodes - 1]);
        }
}

/* ---- random sequences ---- */

static uint64_t random_state;
static uint64_t draw(uint64_t below) { return rl_splitmix64(&random_state) % below; }
static bool one_in(unsigned n) { return draw(n) == 0; }
static rl_mask any_nodes(void) { return (rl_mask)draw(1 << 16); }
/* Most nodes, in a third of the cases; else all. */
static rl_mask most(unsigned nodes) {
    return one_in(3) ? rl_all(nodes) & (any_nodes() | any_nodes() | any_nodes()) : rl_all(nodes);
}

static void draw_settings(struct settings *settings) {
    static const uint8_t sizes[] = {1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7, 15};
    const unsigned nodes = sizes[draw(COUNT(sizes))];
    const rl_ns ttl = (rl_ns)(10 + draw(one_in(3) ? 100 : 5000)) * RL_MS;
    *settings =
        (struct settings){.terms = {.nodes = (uint8_t)nodes,
                                    .quorum = (uint8_t)rl_quorum(nodes),
                                    .ttl = ttl,
                                    .drift_ppm = (uint32_t)draw(50000),
                                    .drift_fixed = (rl_ns)draw(3 * RL_MS),
                                    .node_timeout = 1 + (rl_ns)draw((uint64_t)ttl / 4),
                                    .validity_min = one_in(2) ? 0 : (rl_ns)draw((uint64_t)ttl)}};
    struct rl_lease_rules *rules = &settings->rules;
    if (!one_in(4)) rules->renew_every = ttl / (rl_ns)(1 + draw(4)) + (rl_ns)draw(3);
    if (one_in(4)) rules->hold_max = ttl / 2 + (rl_ns)draw(4 * (uint64_t)ttl);
    if (one_in(4)) rules->renewals_max = 1 + (uint32_t)draw(3);
    if (one_in(2)) rules->lost_margin = (rl_ns)draw((uint64_t)ttl / 4);
}

static rl_ns draw_time(const struct machine *machine, const struct settings *settings) {
    const rl_ns now = machine->now, timeout = settings->terms.node_timeout;
    const rl_ns end = machine->leased ? machine->lease.validity_end
                                      : machine->attempt.t1 + settings->terms.ttl -
                                            rl_drift(&settings->terms, settings->terms.ttl);
    rl_ns at = now;
    switch (draw(24)) {
    case 0:
    case 1:
        if (machine->wake_at != RL_NEVER) at = machine->wake_at - 1 + (rl_ns)draw(3);
        break;
    case 2:
        if (one_in(8)) at = end - 1 + (rl_ns)draw(3);
        break;
    case 3: at = now + (rl_ns)draw((uint64_t)timeout * 2); break;
    case 4:
    case 5:
    case 6: at = now + (rl_ns)draw((uint64_t)timeout / 4 + 1); break;
    default: break;
    }
    return at > now ? at : now;
}

static enum rl_vote draw_vote(void) {
    static const enum rl_vote rare[] = {RL_VOTE_NONE, RL_VOTE_STALE};
    static const enum rl_vote some[] = {RL_VOTE_DENIED, RL_VOTE_ABSENT, RL_VOTE_ABSENT,
                                        RL_VOTE_FAILED};
    if (one_in(50)) return rare[draw(2)];
    return one_in(4) ? some[draw(COUNT(some))] : RL_VOTE_GRANTED;
}

/* Mostly one that has not answered yet. */
static uint8_t draw_node(const struct machine *machine, unsigned nodes) {
    const struct rl_tally *tally = &machine->attempt.tally;
    if (machine->leased)
        tally = machine->lease.state >= RL_LEASE_RELEASING ? &machine->work.unlocking
                                                           : &machine->work.round;
    const rl_mask left = rl_tally_pending(tally);
    for (unsigned node = (unsigned)draw(nodes), i = 0; i < nodes && !one_in(12); i++)
        if (left & rl_bit((node + i) % nodes)) return (uint8_t)((node + i) % nodes);
    return (uint8_t)draw(nodes + one_in(20));
}

static struct rl_event draw_event(const struct machine *machine, const struct settings *settings) {
    const unsigned nodes = settings->terms.nodes;
    struct rl_event event = {.type = RL_EVENT_VOTE, .ready = most(nodes), .full = one_in(16)};
    event.busy = rl_all(nodes) & (rl_mask)~event.ready & (one_in(2) ? any_nodes() : 0);
    event.node = draw_node(machine, nodes);
    event.vote = draw_vote();
    if (machine->leased && machine->lease.state == RL_LEASE_RELEASING)
        event.type = RL_EVENT_UNLOCKED;
    switch (draw(16)) {
    case 0:
    case 1: event.type = RL_EVENT_TICK; break;
    case 2: event.type = RL_EVENT_NODES; break;
    case 3: event.type = machine->leased ? RL_EVENT_UNLOCKED : RL_EVENT_NODES; break;
    case 4:
        if (!machine->leased || !may_extend(&machine->lease)) break;
        event.type = RL_EVENT_EXTEND;
        event.ttl = (rl_ns)(1 + draw(2 * (uint64_t)settings->terms.ttl / RL_MS)) * RL_MS;
        break;
    case 5:
        if (one_in(8)) event.type = machine->leased ? RL_EVENT_RELEASE : RL_EVENT_CANCEL;
        break;
    default: break;
    }
    return event;
}

/* What a caller does between steps. */
static void interfere(struct machine *machine, const struct settings *settings) {
    static const struct rl_actions nothing;
    static const struct rl_event no_event;
    if (one_in(4) && rl_lease_rests(&machine->lease)) {
        rl_lease_lend(&machine->lease, &machine->work, &settings->terms, &settings->rules);
    }
    if (one_in(500)) {
        rl_lease_void(&machine->lease, machine->now);
        write_step(machine, VOIDED, &no_event, 0, IN_PLACE, &nothing);
    }
    if (one_in(500)) {
        rl_lease_disown(&machine->lease);
        write_step(machine, DISOWNED, &no_event, 0, IN_PLACE, &nothing);
    }
}

static struct rl_event draw_start(const struct machine *machine, const struct settings *settings) {
    const rl_mask all = rl_all(settings->terms.nodes);
    const rl_mask asked = most(settings->terms.nodes), granted = asked & any_nodes();
    return (struct rl_event){.type = RL_EVENT_START,
                             .ready = most(settings->terms.nodes),
                             .asked = asked,
                             .granted = granted,
                             .denied = asked & (rl_mask)~granted & any_nodes() & all,
                             .validity_end =
                                 machine->now + 1 + (rl_ns)draw((uint64_t)settings->terms.ttl)};
}

/* An attempt, and its lease if it is won; or a lease that begins in any way. */
static void walk(void) {
    struct settings settings;
    struct machine machine;
    struct rl_actions actions;
    memset(&machine, 0, sizeof machine);
    draw_settings(&settings);
    machine.now = (rl_ns)draw(one_in(2) ? 3 : UINT64_C(1) << 58);
    machine.wake_at = RL_NEVER;
    rl_attempt_init(&machine.attempt, &settings.terms);
    write_new(&settings, NEW_ATTEMPT, 0);
    struct rl_event event = {.type = RL_EVENT_START, .ready = most(settings.terms.nodes)};
    if (one_in(8)) {
        become_lease(&machine, &settings);
        write_new(&settings, NEW_LEASE, 0);
        event = draw_start(&machine, &settings);
    }
    for (unsigned i = 0; i < 300; i++) {
        if (machine.leased && i > 0 && machine.lease.state != RL_LEASE_NONE)
            interfere(&machine, &settings);
        step(&machine, &event, &actions);
        write_step(&machine, machine.leased ? LEASE : ATTEMPT, &event, 0, IN_PLACE, &actions);
        if (!machine.leased && machine.attempt.state == RL_ATTEMPT_LOST && one_in(3)) return;
        if (machine.leased && machine.lease.state == RL_LEASE_RELEASED && one_in(3)) return;
        if (machine.leased && machine.lease.state == RL_LEASE_LOST && one_in(10)) return;
        machine.now = draw_time(&machine, &settings);
        const bool won = !machine.leased && machine.attempt.state == RL_ATTEMPT_WON && !one_in(4);
        event = won ? become_lease(&machine, &settings) : draw_event(&machine, &settings);
        if (won) event.ready = most(settings.terms.nodes);
    }
}

int main(int argc, char **argv) {
    unsigned depths[3];
    if (argc != 6) return 64;
    const unsigned long count = strtoul(argv[1], NULL, 10);
    random_state = strtoull(argv[2], NULL, 10);
    for (int i = 0; i < 3; i++) depths[i] = (unsigned)strtoul(argv[3 + i], NULL, 10);
    small_states(depths);
    for (const unsigned long all = written; written - all < count;) walk();
    free(level.states);
    free(next.states);
    free(seen);
    return fflush(stdout) == 0 ? 0 : 1;
}
