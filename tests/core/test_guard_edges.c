/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Rules of the guard that need two rare events within a short time: a node that must be corrected
 * while it is read, a client that ends, a registration that is checked while nodes come and go, a
 * server that is replaced twice.
 */
#include "guard_world.h"

#include <string.h>

#define PAUSE (100 * RL_MS)

static struct rl_guard *const guard = &gw.agent[0].guard;

static void event(enum rl_guard_event_type type, unsigned node) {
    world_step(0, (struct rl_guard_event){.type = type, .node = (uint8_t)node});
}

static enum rl_pending_op asked(unsigned node) { return gw.agent[0].pending_op[node].what; }

static void must_be_corrected(unsigned node) { gw.node[node].unfit = gw.node[node].suspect = true; }

/* ---- a node that may lack keys and is refused ---- */

/* The answer to the read that is under way shows it. What the client asks of the node then. */
static enum rl_pending_op read_as_refused(unsigned node) {
    must_be_corrected(node);
    world_answer(0, node);
    return asked(node);
}

/* Its record says so to clients that still count it. */
static void test_a_refused_node_is_written_down(void **state) {
    (void)state;
    world_begin_read(3, 1);
    event(RL_GUARD_PEEK, 2);
    assert_int_equal(read_as_refused(2), RL_PENDING_WRITE);
}

static void test_a_client_that_ends_leaves_it_to_others(void **state) {
    (void)state;
    world_begin_read(3, 1);
    event(RL_GUARD_PEEK, 2);
    event(RL_GUARD_LEAVE, 0);
    assert_int_equal(read_as_refused(2), RL_PENDING_NONE);
}

static void test_so_does_one_that_only_reads(void **state) {
    (void)state;
    world_begin_read(3, 1);
    guard->read_only = true;
    event(RL_GUARD_PEEK, 2);
    assert_int_equal(read_as_refused(2), RL_PENDING_NONE);
}

/* No client counts its votes. */
static void test_a_refused_node_without_a_record_stays(void **state) {
    (void)state;
    world_begin_read(3, 1);
    event(RL_GUARD_PEEK, 2);
    world_lose(2, false);
    assert_int_equal(read_as_refused(2), RL_PENDING_NONE);
}

static void test_a_refused_node_with_other_data_stays(void **state) {
    (void)state;
    world_begin_read(3, 1);
    world_promote(2);
    must_be_corrected(2);
    world_state(0, 2);
    assert_int_equal(asked(2), RL_PENDING_NONE);
}

/* It may have another record by now. */
static void test_a_refused_node_that_is_unread_stays(void **state) {
    (void)state;
    world_begin_read(3, 1);
    event(RL_GUARD_CHANGED, 2);
    must_be_corrected(2);
    world_state(0, 2);
    world_fail(0, 2);
    gw.now += PAUSE;
    event(RL_GUARD_TICK, 0);
    assert_int_equal(asked(2), RL_PENDING_NONE);
}

/* The answers of node 2 fail: it is left alone for a while. */
static void test_a_refused_node_has_a_pause_too(void **state) {
    (void)state;
    world_begin_read(5, 1);
    world_lack_sources(0xc);
    for (unsigned i = 2; i < 4; i++) {
        world_connect(0, i);
        world_answer(0, i);
        assert_int_equal(asked(i), RL_PENDING_FENCES);
    }
    const rl_ns failed = gw.now;
    world_fail(0, 2);
    must_be_corrected(2);
    world_state(0, 2);
    assert_int_equal(asked(2), RL_PENDING_NONE);
    gw.now = failed + PAUSE - 1;
    event(RL_GUARD_TICK, 0);
    assert_int_equal(asked(2), RL_PENDING_NONE);
    gw.now = failed + PAUSE;
    event(RL_GUARD_TICK, 0);
    assert_int_equal(asked(2), RL_PENDING_WRITE);
}

/* Nothing is done at a refused node at a time of its own, so nothing wakes the client for it. */
static void test_a_refused_node_wakes_nobody(void **state) {
    (void)state;
    world_begin_read(3, 1);
    event(RL_GUARD_PEEK, 2);
    world_fail(0, 2);
    assert_int_equal(gw.agent[0].wake_at, gw.now + PAUSE);
    gw.node[2].unfit = true;
    world_state(0, 2);
    assert_true(gw.agent[0].wake_at == RL_NEVER);
}

/* ---- a read that was put off ---- */

/* A read that was sent may have been answered before the change; one that was not sent shows it. */
static void test_a_read_that_is_not_sent_shows_the_change(void **state) {
    (void)state;
    for (int unsent = 0; unsent < 2; unsent++) {
        world_begin_read(3, 1);
        event(RL_GUARD_CHANGED, 2);
        assert_int_equal(asked(2), RL_PENDING_READ);
        world_step(
            0, (struct rl_guard_event){.type = RL_GUARD_CHANGED, .node = 2, .unsent = unsent != 0});
        world_state(0, 2);
        world_answer(0, 2);
        assert_int_equal(asked(2), unsent ? RL_PENDING_NONE : RL_PENDING_READ);
        assert_int_equal(rl_guard_intact(guard), unsent ? 7 : 3);
    }
}

/* ---- fences that were asked for another node ---- */

/* Nodes 2 and 3 of five lost their data, and node 0's fences are on their way for one of them when
 * that goes down: they do not count for the other. */
static void test_fences_on_their_way_are_not_for_the_next(void **state) {
    (void)state;
    world_begin_read(5, 1);
    for (unsigned i = 2; i < 4; i++) {
        world_lose(i, false);
        world_peek(i);
    }
    world_run(gw.now + WORLD_QUARANTINE / 2);
    world_disconnect(0, 0);
    world_disconnect(0, 4);
    world_run(gw.now + WORLD_QUARANTINE);
    const unsigned first = (unsigned)guard->installing; /* too few sources */
    assert_in_range(first, 2, 3);
    world_connect(0, 0);
    world_answer(0, 0);
    assert_int_equal(asked(0), RL_PENDING_FENCES);
    world_disconnect(0, first);
    assert_int_equal(guard->installing, 5 - first);
    world_answer(0, 0);
    assert_int_equal(guard->sources & 1, 0);
    assert_int_equal(asked(0), RL_PENDING_FENCES);
    world_answer(0, 0);
    assert_int_equal(guard->sources & 1, 1);
}

/* ---- the registration is checked while nodes come and go ---- */

/* Node 0 of five lost its data, and each of the others has its registration and is read again. */
static void begin_check(void) {
    world_begin_read(5, 1);
    world_lose(0, true);
    world_connect(0, 0);
    while (guard->node[0].peeks_for == 0) {
        bool any = false;
        for (unsigned i = 0; i < 5 && guard->node[0].peeks_for == 0; i++) {
            any |= asked(i) != RL_PENDING_NONE;
            world_answer(0, i);
        }
        assert_true(any);
    }
    /* the registration is complete when three of the four have it; the fourth gets it now */
    for (unsigned i = 1; i < 5; i++)
        if (asked(i) == RL_PENDING_WRITE) world_answer(0, i);
    assert_int_equal(guard->node[0].waits_for, 0);
    assert_int_equal(guard->node[0].peeking, 0x1e);
}

static void test_who_must_be_corrected_is_not_waited_for(void **state) {
    (void)state;
    begin_check();
    gw.node[1].unfit = true;
    world_state(0, 1);
    world_fail(0, 1);
    gw.node[4].record.nonce += 1000; /* another client writes there, so two are left */
    world_run(gw.now);
    assert_int_equal(guard->node[0].waits_for, 0);
    world_run(gw.now + 3 * PAUSE);
    assert_true(guard->node[0].waits_for != 0);
}

/* Node 0 is read meanwhile, so nobody noticed that the connection was gone. */
static void test_who_connects_again_is_waited_for(void **state) {
    (void)state;
    begin_check();
    event(RL_GUARD_PEEK, 0);
    world_disconnect(0, 1);
    world_connect(0, 1);
    gw.node[4].record.nonce += 1000;
    for (unsigned i = 2; i < 5; i++) world_answer(0, i);
    world_answer(0, 0);
    assert_int_equal(guard->node[0].waits_for, 0);
    assert_int_equal(guard->node[0].peeking, 2);
    world_answer(0, 1);
    assert_true(guard->node[0].waits_for != 0);
}

/* ---- one member, two servers ---- */

/* Server 3 has lost its data and claims the member that server 0 is. Nobody registers it. */
static void test_a_second_server_of_a_member_is_not_registered(void **state) {
    (void)state;
    world_begin_read(4, 1);
    struct rl_record *claim = &gw.node[3].record;
    claim->node_id = 100;
    claim->eligibility = RL_RECORD_RECOVERING;
    claim->loss = 9;
    claim->nonce++;
    claim->members[0].incarnation.number = 9;
    strcpy(claim->members[0].incarnation.run_id, gw.node[3].run_id);
    world_peek(3);
    world_run(gw.now + RL_MS);
    assert_int_equal(guard->node[3].eligibility, RL_ELIGIBILITY_FOREIGN);
    assert_int_equal(guard->node[0].eligibility, RL_ELIGIBILITY_INTACT);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(gw.node[i].record.members[0].incarnation.number, 1);
}

static void replace(const char *run_id, uint32_t number) {
    for (unsigned i = 0; i < 2; i++) {
        struct rl_incarnation *of = &gw.node[i].record.members[2].incarnation;
        of->number = number;
        strcpy(of->run_id, run_id);
        gw.node[i].record.nonce += 1000;
        event(RL_GUARD_PEEK, i);
    }
    for (unsigned i = 0; i < 2; i++)
        while (asked(i) != RL_PENDING_NONE) world_answer(0, i);
}

static uint32_t claimed(void) { return gw.node[2].record.members[2].incarnation.number; }

/* Another server is registered in the place of server 2, which still runs, and which the client
 * still reaches after it has connected again. It gets its place back a quarantine later. */
static rl_ns begin_replaced(void) {
    world_begin_read(3, 1);
    gw.reconnects = true;
    const rl_ns replaced = gw.now;
    replace("elsewhere", 2);
    world_run(replaced + WORLD_QUARANTINE - 1);
    assert_int_equal(guard->node[2].eligibility, RL_ELIGIBILITY_FOREIGN);
    assert_true(guard->node[2].same_again);
    assert_int_equal(claimed(), 1);
    return replaced + WORLD_QUARANTINE;
}

static void test_a_replaced_server_gets_its_place_back(void **state) {
    (void)state;
    const rl_ns due = begin_replaced();
    world_run(due);
    assert_int_equal(claimed(), 3);
}

/* Another process at the address is not the replaced server. */
static void test_another_process_is_not_the_same_again(void **state) {
    (void)state;
    world_begin_read(3, 1);
    const rl_ns replaced = gw.now;
    replace("elsewhere", 2);
    world_run(replaced + WORLD_QUARANTINE - 1);
    assert_true(guard->node[2].asked_again);
    world_disconnect(0, 2);
    gw.node[2].run_id[0] = 'x';
    world_connect(0, 2);
    assert_false(guard->node[2].same_again);
}

/* Nor is it a new server when its data has gone since. */
static void test_a_replaced_server_that_is_flushed_waits_too(void **state) {
    (void)state;
    world_begin_read(3, 1);
    replace("elsewhere", 2);
    world_lose(2, false);
    world_peek(2);
    world_run(gw.now + WORLD_QUARANTINE / 2);
    assert_false(gw.node[2].has_record);
}

static void test_who_ends_does_not_give_it_back(void **state) {
    (void)state;
    gw.now = begin_replaced();
    event(RL_GUARD_LEAVE, 0);
    assert_int_equal(asked(2), RL_PENDING_NONE);
}

/* A connection that ends by itself in the second round shows nothing. */
static void test_each_round_asks_again(void **state) {
    (void)state;
    gw.now = begin_replaced();
    event(RL_GUARD_TICK, 0);
    world_answer(0, 2);
    assert_int_equal(claimed(), 3);
    const rl_ns again = gw.now;
    replace("elsewhere else", 9);
    world_run(again + WORLD_QUARANTINE / 2);
    world_disconnect(0, 2);
    world_connect(0, 2);
    world_run(again + WORLD_QUARANTINE + 10 * RL_MS);
    assert_int_equal(claimed(), 3);
    world_run(again + 3 * WORLD_QUARANTINE);
    assert_int_equal(claimed(), 10);
}

/* Another client wrote first, and server 2 is still replaced: the whole wait begins anew. */
static void refuse_the_claim(void) {
    gw.now = begin_replaced();
    event(RL_GUARD_TICK, 0);
    assert_int_equal(asked(2), RL_PENDING_WRITE);
    gw.node[2].record.nonce += 1000;
}

static void test_a_refused_claim_waits_again(void **state) {
    (void)state;
    refuse_the_claim();
    const rl_ns refused = gw.now;
    world_run(refused + WORLD_QUARANTINE - 1);
    assert_true(guard->node[2].same_again);
    assert_int_equal(claimed(), 1);
    world_run(refused + WORLD_QUARANTINE);
    assert_int_equal(claimed(), 3);
}

static void test_a_refused_claim_asks_again(void **state) {
    (void)state;
    refuse_the_claim();
    gw.reconnects = false;
    world_run(gw.now + 3 * WORLD_QUARANTINE);
    assert_int_equal(claimed(), 1);
}

/* ---- requests that no longer count ---- */

/* A node recovers, and node 3 is asked for its fences. */
static void ask_for_fences(void) {
    world_begin_read(5, 1);
    world_lack_sources(0x18);
    world_connect(0, 3);
    world_answer(0, 3);
    assert_int_equal(asked(3), RL_PENDING_FENCES);
}

/* The answer of node 3 belonged to the wait before this one, and failed. The next one counts. */
static void test_a_failed_answer_is_forgotten(void **state) {
    (void)state;
    ask_for_fences();
    world_lose(0, false);
    event(RL_GUARD_PEEK, 0);
    world_answer(0, 0);
    world_answer(0, 0); /* claimed again */
    assert_int_equal(guard->installing, -1);
    world_fail(0, 3);
    const unsigned before = gw.node[3].fence_reads;
    world_run(gw.now + 3 * WORLD_QUARANTINE);
    assert_int_equal(guard->node[0].eligibility, RL_ELIGIBILITY_INTACT);
    assert_int_equal(gw.node[3].fence_reads, before + 1);
}

/* Node 3 loses its fences before it answers. It is not a source, and is read again. */
static void test_an_answer_without_fences(void **state) {
    (void)state;
    ask_for_fences();
    gw.node[3].has_fences = false;
    world_answer(0, 3);
    assert_int_equal(guard->sources & 8, 0);
    assert_int_equal(asked(3), RL_PENDING_READ);
}

static void rename_node(uint64_t expected, uint64_t nonce) {
    gw.node[1].record.nonce = nonce;
    world_step(0, (struct rl_guard_event){
                      .type = RL_GUARD_RENAMED, .node = 1, .expected = expected, .nonce = nonce});
    assert_int_equal(world_intact(0), 7);
}

/* It goes on voting, under the new nonce, and is read again only if an older answer is under way.
 */
static void test_a_break_of_our_own_renames_a_node(void **state) {
    (void)state;
    world_begin_read(3, 1);
    const struct rl_guard_node *node = &gw.agent[0].guard.node[1];
    const unsigned reads = gw.node[1].reads;
    const uint64_t nonce = node->record.nonce;
    rename_node(nonce, nonce + 7);
    world_run(gw.now);
    assert_int_equal(node->record.nonce, nonce + 7);
    assert_int_equal(gw.node[1].reads, reads);
    rename_node(nonce, nonce + 8); /* of an earlier nonce */
    assert_int_equal(node->record.nonce, nonce + 7);
    world_peek(1);
    assert_int_equal(node->record.nonce, nonce + 8);
    assert_int_equal(gw.node[1].reads, reads + 1);

    world_step(0, (struct rl_guard_event){.type = RL_GUARD_PEEK, .node = 1});
    world_execute(0, 1);
    assert_int_equal(gw.node[1].reads, reads + 2);
    rename_node(nonce + 8, nonce + 9);
    world_answer(0, 1);
    assert_int_equal(world_intact(0), 7);
    world_run(gw.now);
    assert_int_equal(node->record.nonce, nonce + 9);
    assert_int_equal(gw.node[1].reads, reads + 3);
}

/* Server 2 showed a later epoch, and has no record any more: nothing is left to follow. */
static void test_an_epoch_that_is_gone_is_not_followed(void **state) {
    (void)state;
    world_begin_read(3, 1);
    guard->read_only = true;
    struct rl_record *record = &gw.node[2].record;
    record->epoch = 2;
    record->eligibility = RL_RECORD_RECOVERING;
    record->loss = 9;
    world_peek(2);
    unsigned before = gw.node[0].reads;
    world_run(gw.now + 5000 * RL_MS);
    assert_in_range(gw.node[0].reads - before, 3, 6);
    world_lose(2, false);
    world_peek(2);
    before = gw.node[0].reads;
    world_run(gw.now + 5000 * RL_MS);
    assert_in_range(gw.node[0].reads - before, 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_node_is_written_down),
        cmocka_unit_test(test_a_client_that_ends_leaves_it_to_others),
        cmocka_unit_test(test_so_does_one_that_only_reads),
        cmocka_unit_test(test_a_refused_node_without_a_record_stays),
        cmocka_unit_test(test_a_refused_node_with_other_data_stays),
        cmocka_unit_test(test_a_refused_node_that_is_unread_stays),
        cmocka_unit_test(test_a_refused_node_has_a_pause_too),
        cmocka_unit_test(test_a_refused_node_wakes_nobody),
        cmocka_unit_test(test_a_read_that_is_not_sent_shows_the_change),
        cmocka_unit_test(test_fences_on_their_way_are_not_for_the_next),
        cmocka_unit_test(test_who_must_be_corrected_is_not_waited_for),
        cmocka_unit_test(test_who_connects_again_is_waited_for),
        cmocka_unit_test(test_a_second_server_of_a_member_is_not_registered),
        cmocka_unit_test(test_a_replaced_server_gets_its_place_back),
        cmocka_unit_test(test_another_process_is_not_the_same_again),
        cmocka_unit_test(test_a_replaced_server_that_is_flushed_waits_too),
        cmocka_unit_test(test_who_ends_does_not_give_it_back),
        cmocka_unit_test(test_each_round_asks_again),
        cmocka_unit_test(test_a_refused_claim_waits_again),
        cmocka_unit_test(test_a_refused_claim_asks_again),
        cmocka_unit_test(test_a_failed_answer_is_forgotten),
        cmocka_unit_test(test_an_answer_without_fences),
        cmocka_unit_test(test_a_break_of_our_own_renames_a_node),
        cmocka_unit_test(test_an_epoch_that_is_gone_is_not_followed),
    };
    return cmocka_run_group_tests_name("guard_edges", tests, NULL, NULL);
}
