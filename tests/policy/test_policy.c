/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules about connections, one by one, and a walk that compares what is remembered of readiness
 * with what is so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "policy/policy.h"

#define MS RL_MS
enum { NODES = 3 };

static struct policy policy;
static struct call_queue calls[NODES], turn[NODES];
static const struct net_request set = {.op = NET_ACQUIRE}, release = {.op = NET_RELEASE},
                                peek = {.op = NET_PEEK};

static void begin(void) {
    memset(calls, 0, sizeof(calls));
    memset(turn, 0, sizeof(turn));
    policy_init(&policy, NODES);
    for (unsigned i = 0; i < NODES; i++) {
        policy.node[i].calls = &calls[i];
        policy.node[i].turn = &turn[i];
    }
}

static void ask(unsigned node, const struct net_request *request, struct net_call *call, rl_ns due,
                rl_ns keep_until) {
    *call = (struct net_call){
        .request = request, .node = (uint8_t)node, .due = due, .keep_until = keep_until};
    policy_asked(&policy, &calls[node], call);
}

static struct net_call kept_call(rl_ns due, rl_ns keep_until) {
    return (struct net_call){.request = &release, .due = due, .keep_until = keep_until};
}

/* What the owner does when a connection is lost. */
static struct call_queue lose(unsigned node, int verdict, rl_ns now) {
    struct call_queue lost = calls[node];
    calls[node] = (struct call_queue){.head = NULL};
    policy_down(&policy, node, verdict);
    return policy_lose(&policy, node, &lost, now);
}

static void up(unsigned node, rl_ns now) {
    static const char *const run_ids[NODES] = {"one", "two", "three"};
    policy_up(&policy, node, run_ids[node], now);
}

/* ---- pauses ---- */

static void test_pauses_double(void **state) {
    (void)state;
    struct backoff backoff = {.pause = 0};
    rl_ns most = BACKOFF_MIN;
    for (unsigned i = 0; i < 12; i++) {
        struct backoff other = backoff;
        assert_int_equal(backoff_next(&other, 0), 0);
        assert_int_equal(other.pause, most);
        rl_ns half = backoff_next(&backoff, UINT32_C(1) << 31);
        assert_int_equal(half, most / 2);
        assert_in_range(most - backoff_next(&(struct backoff){.pause = most / 2}, UINT32_MAX), 0,
                        i == 0 ? BACKOFF_MIN : 1);
        most = 2 * most < BACKOFF_MAX ? 2 * most : BACKOFF_MAX;
    }
    assert_int_equal(backoff.pause, BACKOFF_MAX);
}

static void test_up_forgets_the_pause(void **state) {
    (void)state;
    begin();
    for (unsigned i = 0; i < 5; i++) (void)backoff_next(&policy.node[0].backoff, 1);
    up(0, 0);
    assert_int_equal(policy.node[0].backoff.pause, 0);
}

/* A server that is refused again and again comes up each time: the pause grows all the same. */
static void test_refused_again_and_again(void **state) {
    (void)state;
    begin();
    rl_ns now = 0, most = BACKOFF_MIN;
    for (unsigned i = 0; i < 10; i++) {
        up(0, now);
        assert_true(policy_refuse(&policy, 0, REDLOCK_VERDICT_PROTOCOL, now + MS));
        policy_leave(&policy, 0);
        assert_false(policy_refuse(&policy, 0, REDLOCK_VERDICT_PROTOCOL, now + MS));
        (void)lose(0, REDLOCK_VERDICT_PROTOCOL, now + MS);
        (void)backoff_next(&policy.node[0].backoff, 0);
        assert_int_equal(policy.node[0].backoff.pause, most);
        most = 2 * most < BACKOFF_MAX ? 2 * most : BACKOFF_MAX;
        now += 100 * MS;
    }
    up(0, now);
    now += BACKOFF_FORGIVEN + 1;
    assert_true(policy_refuse(&policy, 0, REDLOCK_VERDICT_PROTOCOL, now));
    assert_int_equal(backoff_next(&policy.node[0].backoff, 0), 0);
    assert_int_equal(policy.node[0].backoff.pause, BACKOFF_MIN);
}

/* ---- connections that nothing needs ---- */

#define SPREAD (5000 * MS)

static rl_ns pause_of(unsigned node, rl_ns now) {
    return policy_pause(&policy, node, UINT32_C(1) << 31, now);
}

/* All three are up, and the connection to the last one ends. */
static void lose_one(rl_ns spread) {
    begin();
    policy.spread = spread;
    for (unsigned i = 0; i < NODES; i++) up(i, 0);
}

static void test_a_node_that_nothing_needs_waits(void **state) {
    (void)state;
    lose_one(SPREAD);
    assert_int_equal(pause_of(2, 0), SPREAD / 2);
    (void)lose(2, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_int_equal(policy_needed(&policy, 0), 0);
    assert_int_equal(policy_hurry(&policy), 4);
    assert_int_equal(policy_hurry(&policy), 0);
    lose_one(0);
    assert_int_equal(pause_of(2, 0), BACKOFF_MIN / 2);
    assert_int_equal(policy_hurry(&policy), 0);
}

static void test_a_node_is_needed_when_another_is_lost(void **state) {
    (void)state;
    lose_one(SPREAD);
    assert_int_equal(pause_of(2, 0), SPREAD / 2);
    (void)lose(2, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_int_equal(pause_of(1, 0), BACKOFF_MIN / 2);
    (void)lose(1, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_int_equal(policy_needed(&policy, 0), 4);
    assert_int_equal(policy_needed(&policy, 0), 0);
}

static void test_a_node_is_needed_for_a_kept_release(void **state) {
    (void)state;
    lose_one(SPREAD);
    assert_int_equal(pause_of(2, 0), SPREAD / 2);
    (void)lose(2, REDLOCK_VERDICT_DISCONNECTED, 0);
    struct net_call call = kept_call(0, RL_NEVER);
    policy_keep(&policy, 2, &call);
    assert_int_equal(policy_needed(&policy, 0), 4);
    assert_int_equal(pause_of(2, 0), BACKOFF_MIN / 2);
    /* a client that ends waits for it, unless the connection fails */
    assert_int_equal(policy_busy_writes(&policy), 4);
    (void)lose(2, REDLOCK_VERDICT_REFUSED, 0);
    assert_int_equal(policy_busy_writes(&policy), 0);
}

/* It is connected again on purpose, and acquisitions wait for it. */
static void test_a_node_that_is_made_again_does_not_wait(void **state) {
    (void)state;
    lose_one(SPREAD);
    policy_again(&policy, 2);
    assert_int_equal(pause_of(2, 0), BACKOFF_MIN / 2);
}

static void test_a_node_that_is_tried_is_not_put_off(void **state) {
    (void)state;
    lose_one(SPREAD);
    assert_int_equal(pause_of(2, 0), SPREAD / 2);
    policy_tries(&policy, 2);
    assert_int_equal(policy_hurry(&policy), 0);
    assert_int_equal(pause_of(2, 0), SPREAD / 2);
    up(2, 0);
    assert_int_equal(policy_hurry(&policy), 0);
}

/* ---- standing ---- */

static void test_settled(void **state) {
    (void)state;
    begin();
    assert_int_equal(policy_settled(&policy), 0);
    assert_int_equal(policy_shown_verdict(&policy, 0, 0), REDLOCK_VERDICT_CONNECTING);
    (void)lose(0, REDLOCK_VERDICT_REFUSED, 0); /* the first try has failed */
    assert_int_equal(policy_settled(&policy), 1);
    up(1, 0);
    assert_int_equal(policy_settled(&policy), 3);
    (void)lose(1, REDLOCK_VERDICT_DISCONNECTED, 0); /* lost: the next try may well come up */
    assert_int_equal(policy_settled(&policy), 1);
    (void)lose(1, REDLOCK_VERDICT_REFUSED, 0);
    assert_int_equal(policy_settled(&policy), 3);
    up(0, 0);
    policy_refuse(&policy, 0, REDLOCK_VERDICT_PROTOCOL, 0);
    policy_leave(&policy, 0);
    assert_int_equal(policy_shown_verdict(&policy, 0, 0), REDLOCK_VERDICT_PROTOCOL);
    (void)lose(0, REDLOCK_VERDICT_PROTOCOL, 0); /* nothing waits for a node that is refused */
    assert_int_equal(policy_settled(&policy), 3);
    up(0, 0);
    (void)lose(0, REDLOCK_VERDICT_TWICE_LISTED, 0);
    assert_int_equal(policy_settled(&policy), 3);
    assert_int_equal(policy.node[0].reconnects, 1);
}

static void test_overdue_is_not_ready(void **state) {
    (void)state;
    struct net_call early, late;
    begin();
    up(0, 0);
    assert_int_equal(policy_ready(&policy, 0), 1);
    ask(0, &set, &late, 20 * MS, 0);
    ask(0, &set, &early, 10 * MS, 0);
    assert_int_equal(policy_ready(&policy, 10 * MS), 1);
    assert_int_equal(policy_ready(&policy, 10 * MS + 1), 0); /* behind a patient one, and speaks */
    assert_int_equal(policy_shown_verdict(&policy, 0, 10 * MS + 1), REDLOCK_VERDICT_TIMEOUT);
    assert_ptr_equal(policy_answered(&policy, &calls[0]), &late);
    assert_int_equal(policy_ready(&policy, 10 * MS + 1), 0);
    assert_ptr_equal(policy_answered(&policy, &calls[0]), &early);
    assert_int_equal(policy_ready(&policy, 10 * MS + 1), 1);
    assert_null(policy_answered(&policy, &calls[0]));
    ask(0, &release, &early, 30 * MS, 0);
    calls_pop(&calls[0]);
    calls_await(&turn[0], &early);
    policy_changed(&policy);
    assert_int_equal(policy_ready(&policy, 30 * MS + 1), 0); /* nor one that waits its turn */
}

static void test_reported_once(void **state) {
    (void)state;
    begin();
    assert_int_equal(policy_reports(&policy, 0), 0);
    up(0, 0);
    assert_int_equal(policy_reports(&policy, 0), 1);
    assert_int_equal(policy_reports(&policy, 0), 0);
    policy_leave(&policy, 0);
    assert_int_equal(policy_reports(&policy, 0), 1); /* not ready, still settled */
    (void)lose(0, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_int_equal(policy_reports(&policy, 0), 1);
}

static void test_leaving(void **state) {
    (void)state;
    begin();
    policy_leave(&policy, 0); /* it broke during the handshake, whose last reply was read yet */
    up(0, 0);
    assert_false(policy_takes(&policy, 0));
    assert_int_equal(policy_ready(&policy, 0), 0);
    (void)lose(0, REDLOCK_VERDICT_DISCONNECTED, 0);
    up(0, 0);
    assert_true(policy_takes(&policy, 0));
}

static void test_busy_writes(void **state) {
    (void)state;
    struct net_call one, other, waits = kept_call(0, 100 * MS);
    begin();
    up(0, 0);
    ask(0, &peek, &one, 10 * MS, 0);
    assert_int_equal(policy_busy_writes(&policy), 0);
    ask(0, &set, &other, 10 * MS, 0);
    assert_int_equal(policy_busy_writes(&policy), 1);
    policy_answered(&policy, &calls[0]);
    assert_int_equal(policy_busy_writes(&policy), 1);
    policy_answered(&policy, &calls[0]);
    assert_int_equal(policy_busy_writes(&policy), 0);
    up(1, 0);
    policy_keep(&policy, 1, &waits); /* for memory */
    assert_int_equal(policy_busy_writes(&policy), 2);
    (void)lose(1, REDLOCK_VERDICT_DISCONNECTED, 0); /* now for the connection, ... */
    assert_int_equal(policy_busy_writes(&policy), 2);
    (void)lose(1, REDLOCK_VERDICT_REFUSED, 0); /* ... which fails */
    assert_int_equal(policy_busy_writes(&policy), 0);
    struct net_call later = {.request = &set, .node = 0};
    calls_push(&turn[0], &later); /* a script that waits for the other connection is not sent yet */
    assert_int_equal(policy_busy_writes(&policy), 1);
}

static void test_listed_twice(void **state) {
    (void)state;
    begin();
    policy_up(&policy, 1, "same", 0);
    assert_int_equal(policy_listed_before(&policy, 2, "same"), 1);
    assert_int_equal(policy_listed_before(&policy, 1, "same"), -1);
    assert_int_equal(policy_listed_again(&policy, 0, "same"), 2);
    assert_int_equal(policy_listed_again(&policy, 0, "other"), 0);
    (void)lose(1, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_int_equal(policy_listed_before(&policy, 2, "same"), -1);
    policy_up(&policy, 1, "", 0); /* a server that does not say which it is */
    assert_int_equal(policy_listed_before(&policy, 2, ""), -1);
}

/* A run_id is drawn when the process starts. */
static void test_an_address_of_several_servers(void **state) {
    (void)state;
    begin();
    assert_false(policy_reached(&policy, 0, "a", 0));
    assert_false(policy_reached(&policy, 0, "", 1));  /* it does not say */
    assert_false(policy_reached(&policy, 0, "a", 2)); /* connected again */
    assert_false(policy_reached(&policy, 0, "b", 3)); /* restarted, or moved */
    assert_false(policy_reached(&policy, 1, "a", 4)); /* another address */
    assert_true(policy_reached(&policy, 0, "a", 5));
    assert_true(policy_reached(&policy, 0, "a", 4 + POLICY_COMES_BACK));
    assert_true(policy_reached(&policy, 0, "", 4 + POLICY_COMES_BACK));
    assert_false(policy_reached(&policy, 0, "a", 5 + POLICY_COMES_BACK));
}

static void test_an_address_that_moves_and_returns_later(void **state) {
    (void)state;
    begin();
    assert_false(policy_reached(&policy, 0, "a", 0));
    assert_false(policy_reached(&policy, 0, "b", 10));
    assert_false(policy_reached(&policy, 0, "a", 10 + POLICY_COMES_BACK));
    assert_true(policy_reached(&policy, 0, "b", 11 + POLICY_COMES_BACK)); /* and back at once */
}

static void test_an_address_of_many_servers(void **state) {
    static const char *const order[] = {"a", "b", "c", "d", "e", "b"};
    (void)state;
    begin();
    for (int i = 0; i < 5; i++) assert_false(policy_reached(&policy, 0, order[i], i));
    assert_true(policy_reached(&policy, 0, order[5], 5)); /* the last few are known */
}

/* ---- calls ---- */

static void test_deadline(void **state) {
    (void)state;
    struct net_call call = {.request = &set, .due = 50 * MS};
    const rl_ns stall = 1000 * MS;
    assert_int_equal(policy_deadline(NULL, RL_NEVER, 50 * MS, 0, stall), RL_NEVER);
    assert_int_equal(policy_deadline(&call, RL_NEVER, 50 * MS, 0, stall), 50 * MS);
    assert_int_equal(policy_deadline(&call, 60 * MS, 50 * MS, 0, stall), 50 * MS);
    assert_int_equal(policy_deadline(&call, 40 * MS, 50 * MS, 0, stall), 40 * MS); /* lazily */
    assert_int_equal(policy_deadline(&call, RL_NEVER, 50 * MS, 50 * MS, stall), 1050 * MS);
    /* a fresh connection is tried later than the answer is due */
    assert_int_equal(policy_deadline(&call, RL_NEVER, 70 * MS, 50 * MS, stall), 70 * MS);
    assert_int_equal(policy_deadline(&call, RL_NEVER, 1070 * MS, 50 * MS, stall), 1050 * MS);
    assert_int_equal(policy_deadline(&call, RL_NEVER, RL_NEVER, 50 * MS, stall), 1050 * MS);
    assert_false(policy_is_stalled(NULL, 5000 * MS, stall));
    assert_false(policy_is_stalled(&call, 1050 * MS - 1, stall));
    assert_true(policy_is_stalled(&call, 1050 * MS, stall));
}

/* ---- a fresh connection ---- */

static void test_fresh_when_overdue(void **state) {
    (void)state;
    struct net_call call, later;
    begin();
    assert_int_equal(policy_fresh_at(&policy, 0, 0), RL_NEVER);
    up(0, 0);
    assert_int_equal(policy_fresh_at(&policy, 0, 0), RL_NEVER);
    ask(0, &set, &call, 50 * MS, 0);
    ask(0, &set, &later, 80 * MS, 0);
    assert_int_equal(policy_fresh_at(&policy, 0, 0), 50 * MS);
    policy_fresh_tried(&policy, 0, 50 * MS);
    assert_true(policy_fresh_goes_on(&policy, 0, 50 * MS));
    assert_true(policy_takes_over(&policy, 0, "one", 60 * MS));
    (void)policy_answered(&policy, &calls[0]); /* the first answer wins, */
    assert_false(policy_fresh_goes_on(&policy, 0, 60 * MS));
    assert_false(policy_fresh_goes_on(&policy, 0, 90 * MS)); /* also where the next one is late */
    assert_false(policy_takes_over(&policy, 0, "one", 90 * MS));
    policy_fresh_tried(&policy, 0, 90 * MS);
    assert_true(policy_takes_over(&policy, 0, "one", 90 * MS));
    policy_heard(&policy, 0); /* and so does a part of it */
    assert_false(policy_takes_over(&policy, 0, "one", 90 * MS));
    policy_leave(&policy, 0);
    assert_int_equal(policy_fresh_at(&policy, 0, 90 * MS), RL_NEVER);
}

/* The main connection answers, and the one for transactions is a black hole. */
static void test_fresh_for_the_turn(void **state) {
    (void)state;
    struct net_call call, read;
    begin();
    up(0, 0);
    call = (struct net_call){.request = &set, .due = 50 * MS};
    calls_await(&turn[0], &call);
    ask(0, &peek, &read, 100 * MS, 0);
    assert_int_equal(policy_fresh_at(&policy, 0, 0), 50 * MS);
    policy_fresh_tried(&policy, 0, 50 * MS);
    (void)policy_answered(&policy, &calls[0]);
    assert_true(policy_takes_over(&policy, 0, "one", 60 * MS));
    policy_turn_heard(&policy, 0);
    assert_false(policy_takes_over(&policy, 0, "one", 60 * MS));
}

/* Two connections of a client to one server would vote twice. */
static void test_fresh_at_the_server_of_another_node(void **state) {
    (void)state;
    struct net_call call;
    begin();
    for (unsigned i = 0; i < NODES; i++) up(i, 0);
    ask(1, &set, &call, 50 * MS, 0);
    policy_fresh_tried(&policy, 1, 50 * MS);
    assert_true(policy_takes_over(&policy, 1, "two", 60 * MS));
    assert_false(policy_takes_over(&policy, 1, "one", 60 * MS));
    assert_false(policy_takes_over(&policy, 1, "three", 60 * MS));
    assert_true(policy_takes_over(&policy, 1, "four", 60 * MS)); /* as after a failover */
    (void)lose(2, REDLOCK_VERDICT_DISCONNECTED, 60 * MS);
    assert_true(policy_takes_over(&policy, 1, "three", 60 * MS));
}

/* A node that is only slow is not asked to serve a second connection for each late answer. */
static void test_patience(void **state) {
    (void)state;
    static const rl_ns patience[] = {0, 20, 40, 80, 160, 320, 640, 1000, 1000};
    struct net_call call;
    rl_ns now = 0;
    begin();
    up(0, 0);
    for (size_t i = 0; i < sizeof patience / sizeof patience[0]; i++, now += 5000 * MS) {
        ask(0, &set, &call, now, 0);
        assert_int_equal(policy_fresh_at(&policy, 0, now), now + patience[i] * MS);
        policy_fresh_tried(&policy, 0, now);
        policy_fresh_beaten(&policy, 0);
        (void)policy_answered(&policy, &calls[0]);
    }
    now += 60000 * MS; /* forgotten */
    ask(0, &set, &call, now, 0);
    assert_int_equal(policy_fresh_at(&policy, 0, now), now);
    policy_fresh_tried(&policy, 0, now);
    assert_int_equal(policy_fresh_at(&policy, 0, now), now);
}

static void test_second_time_says_nothing(void **state) {
    (void)state;
    struct net_call call = {.request = &release};
    assert_int_equal(policy_verdict(&call, REDLOCK_VERDICT_ABSENT), REDLOCK_VERDICT_ABSENT);
    call.state = CALL_SENT_BEFORE;
    assert_int_equal(policy_verdict(&call, REDLOCK_VERDICT_ABSENT), REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(policy_verdict(&call, REDLOCK_VERDICT_DENIED), REDLOCK_VERDICT_DISCONNECTED);
    assert_int_equal(policy_verdict(&call, REDLOCK_VERDICT_GRANTED), REDLOCK_VERDICT_GRANTED);
}

/* ---- kept releases ---- */

static void test_lost_releases_are_kept_in_order(void **state) {
    (void)state;
    struct net_call a, b, c, ended, later = kept_call(0, 900 * MS);
    begin();
    up(0, 0);
    ask(0, &release, &a, 10 * MS, 500 * MS);
    ask(0, &set, &b, 10 * MS, 500 * MS);
    ask(0, &release, &ended, 10 * MS, 20 * MS);
    ask(0, &release, &c, 100 * MS, 600 * MS);
    policy_keep(&policy, 0, &later);
    struct call_queue over = lose(0, REDLOCK_VERDICT_DISCONNECTED, 20 * MS);
    assert_ptr_equal(calls_pop(&over), &b);
    assert_ptr_equal(calls_pop(&over), &ended);
    assert_null(calls_pop(&over));
    assert_int_equal(policy.node[0].kept_at, 500 * MS);
    assert_int_equal(policy.node[0].writes, 0);
    up(0, 30 * MS);
    assert_false(policy_takes(&policy, 0)); /* a SET must not overtake them */
    assert_ptr_equal(policy_take_kept(&policy, 0, 30 * MS), &a);
    assert_int_equal(a.due, 30 * MS - 1); /* overdue from the start, and the stall begins anew */
    assert_int_equal(a.state, CALL_SENT_BEFORE);
    calls_await(&calls[0], &a);
    assert_ptr_equal(policy_take_kept(&policy, 0, 30 * MS), &c);
    assert_int_equal(c.due, 100 * MS);
    policy_put_back(&policy, 0, &c); /* no memory */
    assert_false(policy_takes(&policy, 0));
    assert_ptr_equal(policy_take_kept(&policy, 0, 30 * MS), &c);
    assert_ptr_equal(policy_take_kept(&policy, 0, 30 * MS), &later);
    assert_int_equal(later.state, 0); /* it was never sent */
    assert_null(policy_take_kept(&policy, 0, 30 * MS));
    assert_int_equal(policy.node[0].kept_at, RL_NEVER);
    assert_true(policy_takes(&policy, 0));
    assert_int_equal(policy_ready(&policy, 30 * MS), 0); /* until the first is answered */
    policy_answered(&policy, &calls[0]);
    assert_int_equal(policy_ready(&policy, 30 * MS), 1);
}

static void test_kept_until(void **state) {
    (void)state;
    struct net_call early = kept_call(0, 100 * MS), late = kept_call(0, 200 * MS);
    begin();
    policy_keep(&policy, 0, &late);
    assert_int_equal(policy.node[0].kept_at, 200 * MS);
    policy_keep(&policy, 0, &early);
    assert_int_equal(policy.node[0].kept_at, 100 * MS);
    struct call_queue over = policy_expire(&policy, 0, 100 * MS);
    assert_ptr_equal(calls_pop(&over), &early);
    assert_null(calls_pop(&over));
    assert_int_equal(policy.node[0].kept_at, 200 * MS);
    over = policy_expire(&policy, 0, 300 * MS);
    assert_ptr_equal(calls_pop(&over), &late);
    assert_int_equal(policy.node[0].kept_at, RL_NEVER);
    assert_null(policy.node[0].kept.head);
}

/* Many that end one by one must not be looked through each time. */
static void test_many_kept(void **state) {
    (void)state;
    enum { MANY = 10000 };
    static struct net_call many[MANY];
    unsigned looks = 0, ended = 0;
    begin();
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = kept_call(0, MS + i);
        policy_keep(&policy, 0, &many[i]);
    }
    for (rl_ns now; (now = policy.node[0].kept_at) != RL_NEVER; looks++) {
        assert_true(looks < 100);
        struct call_queue over = policy_expire(&policy, 0, now);
        for (const struct net_call *call; (call = calls_pop(&over)); ended++)
            assert_true(call->keep_until <= now);
    }
    assert_int_equal(ended, MANY);
}

/* ---- being notified ---- */

static void test_watching(void **state) {
    (void)state;
    begin();
    up(0, 0);
    assert_false(policy_wants_tracking(&policy, 0));
    assert_int_equal(policy_track(&policy, true, 5 * MS), RL_NEVER);
    assert_true(policy_wants_tracking(&policy, 0));
    assert_false(policy_wants_tracking(&policy, 1)); /* not up */
    policy_tracking_live(&policy, 0);
    assert_false(policy_wants_tracking(&policy, 0));
    assert_int_equal(policy_tracked(&policy), 1);
    assert_int_equal(policy_track(&policy, false, 5 * MS), 5 * MS + TRACKING_LINGER);
    assert_int_equal(policy_tracked(&policy), 0);
    assert_int_equal(policy_track(&policy, true, 6 * MS), RL_NEVER);
    assert_false(policy_track_end(&policy)); /* somebody waits again, and finds it notifying */
    assert_int_equal(policy_tracked(&policy), 1);
    policy_track(&policy, false, 5 * MS);
    assert_true(policy_track_end(&policy));
    policy_track(&policy, true, 30000 * MS);
    assert_int_equal(policy_tracked(&policy), 0);
    assert_true(policy_wants_tracking(&policy, 0));
}

static void test_watch_refused(void **state) {
    (void)state;
    begin();
    up(0, 0);
    policy_track(&policy, true, 0);
    assert_false(policy_tracking_refused(&policy, 0, REDLOCK_VERDICT_LOADING)); /* it passes */
    assert_true(policy_wants_tracking(&policy, 0));
    assert_true(policy_tracking_refused(&policy, 0, REDLOCK_VERDICT_NOPERM));
    assert_false(policy_wants_tracking(&policy, 0));
    (void)lose(0, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_false(policy_tracking_lost(&policy, 0));
    up(0, 0);
    assert_true(policy_wants_tracking(&policy, 0)); /* another server may be there by now */
    policy_tracking_live(&policy, 0);
    (void)lose(0, REDLOCK_VERDICT_DISCONNECTED, 0);
    assert_true(policy_tracking_lost(&policy, 0));
    assert_false(policy_tracking_lost(&policy, 0));
}

/* ---- what is remembered is so ---- */

static uint64_t random_state = 11;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static void step(unsigned node, struct net_call *call, rl_ns now) {
    const struct net_request *request = draw(3) == 0 ? &release : draw(2) == 0 ? &set : &peek;
    struct net_call *kept;
    struct policy_node *at = &policy.node[node];
    switch (draw(8)) {
    case 0:
        if (at->up) break;
        up(node, now);
        while ((kept = policy_take_kept(&policy, node, now)))
            policy_asked(&policy, &calls[node], kept);
        break;
    case 1:
        if (draw(4) == 0) (void)lose(node, REDLOCK_VERDICT_DISCONNECTED, now);
        break;
    case 2:
        if (draw(8) == 0) policy_leave(&policy, node);
        break;
    case 3:
        if (at->kept.head && now >= at->kept_at) (void)policy_expire(&policy, node, now);
        break;
    case 4:
    case 5: (void)policy_answered(&policy, &calls[node]); break;
    default:
        if (policy_takes(&policy, node)) {
            ask(node, request, call, now + draw(10), now + draw(50));
        } else {
            *call = kept_call(now + draw(10), now + draw(50));
            call->node = (uint8_t)node;
            policy_keep(&policy, node, call);
        }
    }
}

static void test_walk(void **state) {
    (void)state;
    enum { STEPS = 100000 };
    static struct net_call each[STEPS];
    rl_ns now = 0;
    begin();
    for (unsigned i = 0; i < STEPS; i++) {
        now += draw(6);
        step(draw(NODES), &each[i], now);
        rl_mask ready = 0, settled = 0, writes = 0;
        for (unsigned node = 0; node < NODES; node++) {
            if (policy_is_ready(&policy, node, now)) ready |= rl_bit(node);
            if (policy_is_settled(&policy, node)) settled |= rl_bit(node);
            for (const struct net_call *call = calls[node].head; call; call = call->next)
                if (net_op_is_write(call->request->op)) writes |= rl_bit(node);
            const bool connects = !policy_is_settled(&policy, node);
            if (policy.node[node].kept.head && connects) writes |= rl_bit(node);
        }
        assert_int_equal(policy_ready(&policy, now), ready);
        assert_int_equal(policy_settled(&policy), settled);
        assert_int_equal(policy_busy_writes(&policy), writes);
        if (draw(2) == 0) assert_int_equal(policy_ready(&policy, now), ready);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_double),
        cmocka_unit_test(test_up_forgets_the_pause),
        cmocka_unit_test(test_refused_again_and_again),
        cmocka_unit_test(test_a_node_that_nothing_needs_waits),
        cmocka_unit_test(test_a_node_is_needed_when_another_is_lost),
        cmocka_unit_test(test_a_node_is_needed_for_a_kept_release),
        cmocka_unit_test(test_a_node_that_is_made_again_does_not_wait),
        cmocka_unit_test(test_a_node_that_is_tried_is_not_put_off),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_overdue_is_not_ready),
        cmocka_unit_test(test_reported_once),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_busy_writes),
        cmocka_unit_test(test_listed_twice),
        cmocka_unit_test(test_an_address_of_several_servers),
        cmocka_unit_test(test_an_address_that_moves_and_returns_later),
        cmocka_unit_test(test_an_address_of_many_servers),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_fresh_when_overdue),
        cmocka_unit_test(test_fresh_for_the_turn),
        cmocka_unit_test(test_fresh_at_the_server_of_another_node),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_second_time_says_nothing),
        cmocka_unit_test(test_lost_releases_are_kept_in_order),
        cmocka_unit_test(test_kept_until),
        cmocka_unit_test(test_many_kept),
        cmocka_unit_test(test_watching),
        cmocka_unit_test(test_watch_refused),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
