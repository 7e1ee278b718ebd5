/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A random walk of one client over five truthful nodes: requests are executed in order at some time
 * later, answers are lost, other clients take and leave the key, nodes restart empty. After every
 * step the invariants are checked; the strongest of them looks into the nodes: while the lease says
 * that it is valid, a majority holds our key (as long as no node was restarted during this hold:
 * against that classic mode does not stand).
 *
 * The seed is printed; REDLOCK_WALK_SEED=N repeats a walk.
 */
#include "machine.h"
#include "core/mix.h"

#include <stdlib.h>

#define STEPS 200000
#define NODES 5
#define QUEUE 8

enum op { OP_SET, OP_REPAIR, OP_EXTEND, OP_RELEASE };

struct request {
    enum op op;
    unsigned token, hold, round;
    rl_ns ttl;
};

static struct world {
    uint64_t random;
    rl_ns now;
    struct node {
        unsigned token; /* 0: no key. 1: another's. Else one of ours */
        rl_ns ends;
        struct request queue[QUEUE];
        unsigned queued;
        bool down;
    } node[NODES];
    unsigned token, hold; /* of this client's present try; of its present hold */
    bool leased, restarted;
    unsigned round; /* of extensions, and who granted in it */
    rl_mask granted;
    rl_mask unreleased, asked;
    struct rl_terms terms;
    struct rl_retry_rules retry;
    struct rl_lease_rules rules;
    struct rl_lease_work work;
    struct rl_acquire acquire;
    struct rl_lease lease;
    rl_ns wake_at;
    unsigned won, lost, renewed, repaired, caught_up, unsure, over, released;
} w;

static uint64_t draw(uint64_t below) { return rl_splitmix64(&w.random) % below; }

static rl_mask ready(void) {
    rl_mask mask = 0;
    for (unsigned n = 0; n < NODES; n++)
        if (!w.node[n].down && w.node[n].queued == 0) mask |= rl_bit(n);
    return mask;
}

static void send(rl_mask mask, enum op op, rl_ns ttl) {
    assert_int_equal(mask & ~rl_all(NODES), 0);
    for (unsigned n = 0; n < NODES; n++) {
        if ((mask & rl_bit(n)) == 0) continue;
        assert_true(w.node[n].queued < QUEUE);
        w.node[n].queue[w.node[n].queued++] = (struct request){op, w.token, w.hold, w.round, ttl};
    }
}

static void check_actions(const struct rl_actions *actions, const struct rl_event *event) {
    if (actions->acquire != 0) {
        assert_int_equal(w.unreleased, 0); /* no try while a former one is not given back */
        assert_true(actions->fresh_token);
        assert_int_equal(actions->acquire & ~event->ready, 0);
        assert_true(rl_count(actions->acquire) >= rl_quorum(NODES));
        assert_false(w.leased);
        w.unreleased = w.asked = actions->acquire;
        w.token++;
    }
    if (actions->repair != 0) {
        assert_true(w.leased && rl_lease_validity(&w.lease, w.now) > 0);
        assert_true(rl_count(w.lease.set) < rl_quorum(NODES));
        w.unreleased |= actions->repair;
        w.asked |= actions->repair;
    }
    assert_int_equal(actions->extend & ~event->ready, 0);
    assert_int_equal(actions->extend & actions->repair, 0);
    assert_int_equal(actions->catch_up & (actions->extend | actions->repair), 0);
    assert_int_equal(actions->release & ~w.asked, 0); /* only where we asked */
    if (actions->release != 0)
        assert_int_equal(actions->release, w.asked); /* and everywhere we asked */
    w.unreleased &= (rl_mask)~actions->release;
    if (w.leased && w.lease.state == RL_LEASE_LOST) {
        assert_int_equal(actions->extend | actions->catch_up | actions->repair, 0);
        assert_int_equal(rl_lease_validity(&w.lease, w.now), 0);
    }
}

static void check_nodes(void) {
    if (!w.leased || w.restarted || rl_lease_validity(&w.lease, w.now) == 0) return;
    unsigned ours = 0;
    for (unsigned n = 0; n < NODES; n++)
        ours += w.node[n].token == w.token && w.node[n].ends > w.now;
    assert_true(ours >= rl_quorum(NODES));
}

static void check_waiting(void) {
    bool waits = w.leased ? w.lease.state == RL_LEASE_HELD || w.lease.state == RL_LEASE_UNSURE ||
                                w.lease.state == RL_LEASE_RELEASING ||
                                (w.lease.round_open && !w.lease.round_proven)
                          : w.acquire.state >= RL_ACQUIRE_GATHERING &&
                                w.acquire.state <= RL_ACQUIRE_SLEEPING;
    if (waits) assert_true(w.wake_at != RL_NEVER);
    if (waits) assert_true(w.wake_at <= w.now + w.terms.ttl + w.retry.connect_timeout);
}

static void begin(void);

static void give(struct rl_event event) {
    struct rl_actions actions;
    event.ready = ready();
    event.settled = rl_all(NODES);
    /* while the lease rests, the memory for its work serves others */
    if (w.leased && rl_lease_rests(&w.lease)) rl_lease_lend(&w.lease, &w.work, &w.terms, &w.rules);
    if (w.leased)
        rl_lease_step(&w.lease, &event, w.now, &actions);
    else
        rl_acquire_step(&w.acquire, &event, w.now, &actions);
    check_actions(&actions, &event);
    send(actions.acquire, OP_SET, w.terms.ttl);
    if (actions.extend != 0) w.round++, w.granted = 0;
    send(actions.extend, OP_EXTEND, actions.extend_ttl);
    send(actions.catch_up, OP_EXTEND, actions.repair_ttl);
    w.caught_up += actions.catch_up != 0;
    send(actions.repair, OP_REPAIR, actions.repair_ttl);
    send(actions.release, OP_RELEASE, 0);
    w.wake_at = actions.wake_at;
    w.lost += (actions.notices & RL_NOTICE_LOST) != 0;
    w.unsure += (actions.notices & RL_NOTICE_UNSURE) != 0;
    w.renewed += (actions.notices & RL_NOTICE_RENEWED) != 0;
    w.repaired += actions.repair != 0;
    check_waiting();
    check_nodes();
    if (actions.outcome == RL_OUTCOME_NONE) return;
    if (w.leased || actions.outcome != RL_OUTCOME_OK) {
        assert_int_equal(w.unreleased, 0); /* the caller hears of the end when all is given back */
        w.released += w.leased;
        w.over += !w.leased;
        begin();
        return;
    }
    w.won++;
    assert_int_equal(w.acquire.attempt.tally.asked, w.asked);
    rl_lease_init(&w.lease, &w.work, &w.terms, &w.rules);
    w.leased = true;
    give(rl_lease_start(&w.acquire.attempt));
}

static void begin(void) {
    w.leased = w.restarted = false;
    w.granted = 0;
    w.hold++;
    w.retry.retries_max = (uint32_t)draw(4);
    w.retry.deadline = draw(2) ? RL_NEVER : w.now + (rl_ns)draw(300) * RL_MS;
    w.rules = (struct rl_lease_rules){.renew_every = draw(4) ? 300 * RL_MS : 0,
                                      .hold_max = draw(3) ? 0 : 2500 * RL_MS,
                                      .renewals_max = draw(3) ? 0 : 3,
                                      .lost_margin = (rl_ns)draw(100) * RL_MS};
    rl_acquire_init(&w.acquire, &w.terms, &w.retry);
    give((struct rl_event){.type = RL_EVENT_START, .seed = draw(UINT64_MAX)});
}

static enum rl_vote execute(struct node *node, const struct request *request) {
    bool mine = node->token == request->token;
    switch (request->op) {
    case OP_SET:
    case OP_REPAIR:
        /* Blocked by a key of a try of our own: what a retry must never meet. */
        assert_false(request->op == OP_SET && node->token > 1);
        if (node->token != 0) return RL_VOTE_DENIED;
        node->token = request->token;
        node->ends = w.now + request->ttl;
        return RL_VOTE_GRANTED;
    case OP_EXTEND:
        if (node->token == 0) return RL_VOTE_ABSENT;
        if (!mine) return RL_VOTE_DENIED;
        if (w.now + request->ttl > node->ends) node->ends = w.now + request->ttl;
        return RL_VOTE_GRANTED;
    case OP_RELEASE:
        if (node->token == 0) return RL_VOTE_ABSENT;
        if (!mine) return RL_VOTE_DENIED;
        node->token = 0;
        return RL_VOTE_GRANTED;
    }
    return RL_VOTE_NONE;
}

static void expire(void) {
    for (unsigned n = 0; n < NODES; n++)
        if (w.node[n].token != 0 && w.node[n].ends <= w.now) w.node[n].token = 0;
}

static void answer(unsigned n) {
    struct node *node = &w.node[n];
    if (node->queued == 0) return;
    struct request request = node->queue[0];
    memmove(node->queue, node->queue + 1, --node->queued * sizeof request);
    bool never_came = request.op != OP_RELEASE && draw(40) == 0;
    enum rl_vote vote = never_came ? RL_VOTE_FAILED : execute(node, &request);
    if (draw(40) == 0) vote = RL_VOTE_FAILED; /* done, and the answer lost */
    if (request.hold != w.hold) return;       /* of a hold that is over for the caller */
    if (request.op == OP_SET && w.leased) return;
    if (request.op == OP_EXTEND && request.round == w.round && vote == RL_VOTE_GRANTED)
        w.granted |= rl_bit(n);
    give((struct rl_event){.type = request.op == OP_RELEASE ? RL_EVENT_UNLOCKED : RL_EVENT_VOTE,
                           .node = (uint8_t)n,
                           .vote = vote});
}

static void disturb(void) {
    struct node *node = &w.node[draw(NODES)];
    switch (draw(4)) {
    case 0: node->down = draw(3) == 0; break;
    case 1: /* another client comes, if it is free */
        if (node->token == 0) node->token = 1, node->ends = w.now + (rl_ns)draw(400) * RL_MS;
        break;
    case 2:
        if (node->token == 1) node->token = 0;
        break;
    default:
        if (draw(20) != 0) break;
        w.restarted = true; /* empty */
        node->token = 0;
    }
}

static void caller(void) {
    bool busy = w.work.want_ttl != 0 ||
                (w.lease.round_open && w.lease.round_by_caller && !w.lease.round_proven);
    if (!w.leased) {
        if (draw(40) == 0)
            give((struct rl_event){.type = RL_EVENT_CANCEL});
        else if (draw(10) == 0)
            give((struct rl_event){.type = RL_EVENT_WAKE});
        else if (draw(5) == 0)
            give((struct rl_event){.type = RL_EVENT_HINT,
                                   .node = (uint8_t)draw(NODES),
                                   .remaining = (rl_ns)draw(100) * RL_MS});
    } else if (w.lease.state == RL_LEASE_LOST || draw(30) == 0) {
        give((struct rl_event){.type = RL_EVENT_RELEASE});
    } else if (!busy && draw(6) == 0) {
        give((struct rl_event){.type = RL_EVENT_EXTEND, .ttl = (rl_ns)(1 + draw(1000)) * RL_MS});
    }
}

static void pass_time(void) {
    if (draw(200) == 0)
        w.now += (rl_ns)draw(2000) * RL_MS; /* stopped */
    else if (draw(3) == 0 && w.wake_at != RL_NEVER && w.wake_at > w.now)
        w.now = w.wake_at;
    else
        w.now += (rl_ns)draw(2 * RL_MS);
    expire();
    check_nodes();
    if (w.now >= w.wake_at || draw(10) == 0) give((struct rl_event){.type = RL_EVENT_TICK});
}

static void test_walk(void **state) {
    (void)state;
    const char *wanted = getenv("REDLOCK_WALK_SEED");
    w.random = wanted ? strtoull(wanted, NULL, 0) : 20240229;
    printf("REDLOCK_WALK_SEED=%llu\n", (unsigned long long)w.random);
    w.terms = test_terms(NODES);
    w.retry = (struct rl_retry_rules){
        .delay_min = 5 * RL_MS, .delay_max = 25 * RL_MS, .connect_timeout = 100 * RL_MS};
    w.token = 1;
    begin();
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t choice = draw(100);
        if (choice < 62)
            answer((unsigned)draw(NODES));
        else if (choice < 85)
            pass_time();
        else if (choice < 95)
            caller();
        else
            disturb();
    }
    printf(
        "won %u, over %u, renewed %u, repaired %u, caught up %u, unsure %u, lost %u, released %u\n",
        w.won, w.over, w.renewed, w.repaired, w.caught_up, w.unsure, w.lost, w.released);
    /* A walk that never came by proves nothing. */
    assert_true(w.won > 100 && w.over > 100 && w.renewed > 100 && w.unsure > 100);
    assert_true(w.repaired > 10 && w.caught_up > 10 && w.lost > 20 && w.released > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walk)};
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
