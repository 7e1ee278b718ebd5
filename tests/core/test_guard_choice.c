/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a client chooses its quorum from its list, for every small list: each node has no record, or
 * one of quorum 1 or 2, and was read, could not be read, or has not answered yet. What the client
 * accepts is a function of that, of what it has pinned, and of what it had accepted before
 * (docs/inside/guarded.md, "One quorum or none").
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/eligibility.h"

enum { NODES_MAX = 5, STATES = 3 };
enum { READ, UNREADABLE, UNHEARD };

static struct rl_guard guard;
static unsigned nodes, records[NODES_MAX], heard[NODES_MAX];

/* The digits of `number`. False: there are no more. */
static bool digits(unsigned number, unsigned to[NODES_MAX]) {
    for (unsigned i = 0; i < nodes; i++, number /= STATES) to[i] = number % STATES;
    return number == 0;
}

static void put_record(struct rl_guard_node *node, unsigned self) {
    struct rl_record *record = &node->record;
    memset(record, 0, sizeof *record);
    record->format = 3;
    record->quorum_id = records[self];
    record->node_id = self + 1;
    record->epoch = 2;
    record->settled = true;
    record->eligibility = RL_RECORD_INTACT;
    record->nonce = self + 1;
    record->ttl_max_ms = record->ttl_next_ms = 1000;
    snprintf(record->run_id, sizeof record->run_id, "%s", node->run_id);
    for (unsigned i = 0; i < nodes; i++) {
        if (records[i] != records[self]) continue;
        struct rl_member *member = &record->members[record->members_count++];
        member->id = i + 1;
        member->incarnation.number = 1;
        snprintf(member->url, sizeof member->url, "redis://n%u", i);
        snprintf(member->incarnation.run_id, sizeof member->incarnation.run_id, "run%u", i);
    }
}

/* The client hears so much of the nodes now. */
static void hear(void) {
    guard.unreadable_now = 0;
    for (unsigned i = 0; i < nodes; i++) {
        struct rl_guard_node *node = &guard.node[i];
        snprintf(node->url, sizeof node->url, "redis://n%u", i);
        snprintf(node->run_id, sizeof node->run_id, "run%u", i);
        node->up = node->stated = node->read = heard[i] == READ;
        node->has_record = heard[i] == READ && records[i] != 0;
        if (heard[i] == UNREADABLE) guard.unreadable_now |= rl_bit(i);
        if (node->has_record) put_record(node, i);
    }
    eligibility_judge(&guard);
}

static unsigned carriers(unsigned id) {
    unsigned count = 0;
    for (unsigned i = 0; i < nodes; i++) count += heard[i] == READ && records[i] == id;
    return count;
}

static void check_voters(unsigned id) {
    for (unsigned i = 0; i < nodes; i++)
        if (rl_guard_voters(&guard) & rl_bit(i)) {
            assert_int_equal(heard[i], READ);
            assert_int_equal(records[i], id);
        }
}

static unsigned choice(uint64_t pinned) {
    rl_guard_init(&guard, nodes, 10000, 2 * RL_MS);
    guard.pinned = pinned;
    hear();
    return guard.decided ? (unsigned)guard.quorum.quorum_id : 0;
}

static void check_open(unsigned *accepted) {
    const unsigned id = choice(0);
    check_voters(id);
    if (id == 0) {
        assert_int_equal(rl_guard_voters(&guard), 0);
        return;
    }
    assert_true(2 * carriers(id) > nodes);
    assert_int_equal(carriers(3 - id), 0);
    /* two clients with this list never accept different quorums, whichever nodes they reach */
    if (*accepted != 0) assert_int_equal(id, *accepted);
    *accepted = id;
}

static void check_pinned(void) {
    for (unsigned pinned = 1; pinned <= 3; pinned++) {
        const unsigned id = choice(pinned);
        assert_true(id == 0 || id == pinned);
        check_voters(pinned);
        if (carriers(pinned) == 0) assert_int_equal(rl_guard_voters(&guard), 0);
    }
}

static void test_choice(void **state) {
    (void)state;
    unsigned lists = 0, accepting = 0;
    for (nodes = 1; nodes <= NODES_MAX; nodes++)
        for (unsigned r = 0; digits(r, records); r++) {
            unsigned accepted = 0;
            for (unsigned h = 0; digits(h, heard); h++) {
                check_open(&accepted);
                check_pinned();
            }
            lists++;
            accepting += accepted != 0;
        }
    printf("%u lists, %u of them with a quorum that is accepted\n", lists, accepting);
    assert_true(accepting > 50 && accepting < lists);
}

/* A quorum that is accepted stays, whatever the nodes carry later. */
static void test_stays(void **state) {
    (void)state;
    unsigned changes = 0;
    nodes = 3;
    for (unsigned r = 0; digits(r, records); r++)
        for (unsigned h = 0; digits(h, heard); h++)
            for (unsigned later = 0, to[NODES_MAX]; digits(later, to); later++)
                for (unsigned k = 0; digits(k, heard); k++) {
                    digits(r, records);
                    digits(h, heard);
                    const unsigned id = choice(0);
                    if (id == 0) break;
                    memcpy(records, to, sizeof records);
                    digits(k, heard);
                    hear();
                    assert_true(guard.decided);
                    assert_int_equal(guard.quorum.quorum_id, id);
                    check_voters(id);
                    digits(r, records);
                    changes++;
                }
    assert_true(changes > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_stays)};
    return cmocka_run_group_tests_name("guard_choice", tests, NULL, NULL);
}
