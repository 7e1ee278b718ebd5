/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ORPHAN. Node 0, resource 0, TTL 1000 throughout.
 */
#include "past.h"

#define ASKS(when, who, what, what_token)                                                          \
    { .at = (when), .client = (who), .kind = HISTORY_SENT, .op = (what), .token = (what_token) }
#define TRIES(when, who, what_token) DOES(when, who, ACQUIRE), ASKS(when, who, 0, what_token)
#define SETS(when, whose, end) KEY(when, 0, SET, .token = (whose), .until = (end))
#define TAKES(when, who, what_token)                                                               \
    DOES(when, who, ACQUIRED, .token = (what_token), .until = (when) + 900)

static void after_a_release(void **state) {
    (void)state;
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          KEY(201, 0, DELETED, .token = 1), RUN(9000, END));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          KEY(1200, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 2, 3, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           KEY(1201, 0, EXPIRED, .token = 1));
    spans(1200, 1201);
    says(
        "a key of job on node 1 that nobody wanted since 0.0002 ms was there until 0.001201 ms, longer than one TTL "
        "(0.001 ms)");
    BREAKS(ORPHAN, 2, 3, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           KEY(1201, 0, DELETED, .token = 1));
    BREAKS(ORPHAN, 2, 3, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           KEY(1201, 0, LOST, .token = 1));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED), RUN(1200, END));
    BREAKS(ORPHAN, 2, 3, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           RUN(1201, END));
    /* Still wanted: renewed, or lost and not yet released. */
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1),
          KEY(900, 0, EXTENDED, .token = 1, .until = 1900), DOES(1000, A, LOST), RUN(9000, END));
    /* The TTL is the last effect's. */
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1),
          KEY(150, 0, EXTENDED, .token = 1, .until = 2150), DOES(200, A, RELEASED),
          KEY(2200, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 3, 4, SETS(100, 1, 1100), TAKES(101, A, 1),
           KEY(150, 0, EXTENDED, .token = 1, .until = 2150), DOES(200, A, RELEASED),
           KEY(2201, 0, EXPIRED, .token = 1));
}

static void after_a_crash_and_a_failed_try(void **state) {
    (void)state;
    BREAKS(ORPHAN, 2, 3, SETS(100, 1, 1100), TAKES(101, A, 1), BEFALLS(200, A, CLIENT_CRASH),
           KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), BEFALLS(200, A, CLIENT_CRASH),
          KEY(1200, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 3, 4, TRIES(90, A, 1), SETS(100, 1, 1100), DOES(200, A, NOT_ACQUIRED),
           KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, TRIES(90, A, 1), SETS(100, 1, 1100), DOES(200, A, NOT_ACQUIRED),
          KEY(1200, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, TRIES(90, A, 1), SETS(100, 1, 1100), BEFALLS(200, A, CLIENT_CRASH),
          KEY(1200, 0, EXPIRED, .token = 1));
    /* The next try, with a token of its own, ends the one before. */
    BREAKS(ORPHAN, 3, 4, TRIES(90, A, 1), SETS(100, 1, 1100), ASKS(200, A, 0, 2),
           KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, TRIES(90, A, 1), SETS(100, 1, 1100), ASKS(200, A, 0, 2),
          KEY(1200, 0, EXPIRED, .token = 1));
    /* Without messages nobody knows whose token it was. */
    HOLDS(ORPHAN, DOES(90, A, ACQUIRE), SETS(100, 1, 1100), DOES(200, A, NOT_ACQUIRED),
          KEY(1201, 0, EXPIRED, .token = 1));
}

/* "An orphan of at most one TTL remains possible." */
static void a_late_set(void **state) {
    (void)state;
    HOLDS(ORPHAN, TRIES(90, A, 1), DOES(200, A, NOT_ACQUIRED), SETS(700, 1, 1700),
          KEY(1700, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 2, 4, TRIES(90, A, 1), DOES(200, A, NOT_ACQUIRED), SETS(700, 1, 1700),
           KEY(1701, 0, EXPIRED, .token = 1));
    /* Sent when nobody wanted it any more: in the same instant, but behind the end. */
    BREAKS(ORPHAN, 2, 4, TRIES(90, A, 1), DOES(200, A, NOT_ACQUIRED), ASKS(200, A, 0, 1),
           SETS(210, 1, 1210), KEY(211, 0, DELETED, .token = 1));
    says(
        "A's key of job was set on node 1 at 0.00021 ms by a request of 0.0002 ms, when its client had no more "
        "interest "
        "in it since 0.0002 ms");
    /* A token first seen on a node when its try is over belongs to that try. */
    BREAKS(ORPHAN, 1, 3, DOES(90, A, ACQUIRE), DOES(200, A, NOT_ACQUIRED), ASKS(201, A, 0, 1),
           SETS(210, 1, 1210));
    /* Releases may leave late. */
    HOLDS(ORPHAN, TRIES(90, A, 1), DOES(200, A, NOT_ACQUIRED), ASKS(201, A, 2, 1),
          SETS(210, 1, 1210), KEY(211, 0, DELETED, .token = 1));
}

static void a_late_extension(void **state) {
    (void)state;
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), ASKS(190, A, 1, 1), DOES(200, A, RELEASED),
          KEY(300, 0, EXTENDED, .token = 1, .until = 1300), KEY(1300, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 3, 5, SETS(100, 1, 1100), TAKES(101, A, 1), ASKS(190, A, 1, 1),
           DOES(200, A, RELEASED), KEY(300, 0, EXTENDED, .token = 1, .until = 1300),
           KEY(1301, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 2, 4, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           ASKS(210, A, 1, 1), KEY(300, 0, EXTENDED, .token = 1, .until = 1300),
           KEY(1300, 0, EXPIRED, .token = 1));
    /* Without messages: a burst is believed, a client that goes on renewing is not. */
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          KEY(300, 0, EXTENDED, .token = 1, .until = 1300),
          KEY(1300, 0, EXTENDED, .token = 1, .until = 2300), KEY(2300, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 2, 6, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           KEY(300, 0, EXTENDED, .token = 1, .until = 1300),
           KEY(1100, 0, EXTENDED, .token = 1, .until = 2100),
           KEY(1900, 0, EXTENDED, .token = 1, .until = 2900), KEY(2900, 0, EXPIRED, .token = 1));
    spans(2100, 2900);
}

static void brought_back_by_old_data(void **state) {
    (void)state;
#define LOSES_ITS_LAST_SECOND(then) NODE(then, 0, CRASH), NODE(then, 0, RESTART, .value = 2)
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          KEY(201, 0, DELETED, .token = 1), LOSES_ITS_LAST_SECOND(500), SETS(500, 1, 1100),
          KEY(1100, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          KEY(201, 0, DELETED, .token = 1), LOSES_ITS_LAST_SECOND(1500), SETS(1500, 1, 1100),
          KEY(1500, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 2, 7, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
           KEY(201, 0, DELETED, .token = 1), LOSES_ITS_LAST_SECOND(1500), SETS(1500, 1, 1100),
           KEY(1501, 0, EXPIRED, .token = 1));
}

/* Between the lock's beginning and its renewal there are more tokens than are remembered. */
static void a_lock_held_for_long(void **state) {
    (void)state;
    enum { OTHERS = 2000 };
    static struct history_record records[OTHERS + 8] = {SETS(1, 1, 1001), TAKES(2, A, 1)};
    size_t count = 2;
    for (uint32_t i = 0; i < OTHERS; i++)
        records[count++] = (struct history_record)ASKS(3, B, 0, i + 2);
    records[count++] = (struct history_record)ASKS(900, A, 1, 1);
    records[count++] = (struct history_record)KEY(901, 0, EXTENDED, .token = 1, .until = 1901);
    records[count++] = (struct history_record)DOES(1000, A, RELEASED);
    records[count++] = (struct history_record)KEY(2000, 0, EXPIRED, .token = 1);
    struct history history = {
        .records = records, .count = count, .clients = 2, .nodes = 1, .resources = 1};
    assert_int_equal(check_history(&history, 1u << CHECK_ORPHAN, found, FOUND_ROOM), 0);
    records[count - 1].at = 2001;
    assert_int_equal(check_history(&history, 1u << CHECK_ORPHAN, found, FOUND_ROOM), 1);
}

static void without_an_end(void **state) {
    (void)state;
    BREAKS(ORPHAN, 2, 2, TRIES(90, A, 1), SETS(100, 1, RL_NEVER), TAKES(101, A, 1));
    says("node 1 was told at 0.0001 ms to keep a key of job without an end");
    HOLDS(ORPHAN, SETS(100, 1, RL_NEVER), RUN(9000, END)); /* a stranger's */
    /* Its clock stands still; runs again before the SET. */
    HOLDS(ORPHAN, NODE(50, 0, RATE, .value = 0), TRIES(90, A, 1), SETS(100, 1, RL_NEVER),
          TAKES(101, A, 1));
    BREAKS(ORPHAN, 4, 4, NODE(50, 0, RATE, .value = 0), NODE(60, 0, RATE, .value = 1000000),
           TRIES(90, A, 1), SETS(100, 1, RL_NEVER), TAKES(101, A, 1));
}

/* A step of its wall clock excuses nothing of a native node, and a stranger's key is not its lock.
 * What it had as another kind of node is not judged. */
static void native_nodes(void **state) {
    (void)state;
    BREAKS(ORPHAN, 4, 5, NODE(0, 0, NATIVE, .value = 1), SETS(100, 1, 1100), TAKES(101, A, 1),
           NODE(150, 0, CLOCK, .value = -500), DOES(200, A, RELEASED),
           KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), NODE(150, 0, CLOCK, .value = -500),
          DOES(200, A, RELEASED), KEY(1201, 0, EXPIRED, .token = 1));
    BREAKS(ORPHAN, 3, 5, NODE(0, 0, NATIVE, .value = 1), SETS(100, 1, 1100), TAKES(101, A, 1),
           DOES(200, A, RELEASED), KEY(300, 0, FOREIGN), KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED),
          NODE(300, 0, NATIVE, .value = 1), RUN(9000, END));
}

static void clocks_and_stops_excuse(void **state) {
    (void)state;
#define ORPHAN_OF(...)                                                                             \
    SETS(100, 1, 1100), TAKES(101, A, 1), DOES(200, A, RELEASED), __VA_ARGS__,                     \
        KEY(1201, 0, EXPIRED, .token = 1)
    HOLDS(ORPHAN, ORPHAN_OF(NODE(300, 0, CLOCK, .value = -500)));
    HOLDS(ORPHAN, ORPHAN_OF(NODE(300, 0, RATE, .value = 0)));
    HOLDS(ORPHAN, ORPHAN_OF(NODE(300, 0, PAUSE), NODE(1201, 0, RESUME)));
    HOLDS(ORPHAN, ORPHAN_OF(NODE(300, 0, CRASH), NODE(1201, 0, RESTART, .value = 1)));
    BREAKS(ORPHAN, 2, 4, ORPHAN_OF(NODE(300, 1, CLOCK, .value = -500)));
    BREAKS(ORPHAN, 2, 4, ORPHAN_OF(NODE(300, 0, MODE, .result = 13)));
    /* What was over before the key was set excuses nothing; a false rate lasts, whatever else
     * befalls. */
    BREAKS(ORPHAN, 7, 8, NODE(1, 0, CLOCK, .value = -500), NODE(2, 0, RATE, .value = 0),
           NODE(3, 0, RATE, .value = 1000000), NODE(3, 0, PAUSE), NODE(4, 0, RESUME),
           SETS(100, 1, 1100), DOES(200, A, ACQUIRED, .token = 1, .until = 900),
           DOES(200, A, RELEASED), KEY(1201, 0, EXPIRED, .token = 1));
    HOLDS(ORPHAN, NODE(2, 0, RATE, .value = 0), NODE(3, 0, PAUSE), NODE(4, 0, RESUME),
          ORPHAN_OF(NODE(300, 1, PAUSE)));
    HOLDS(ORPHAN, NODE(3, 0, PAUSE), ORPHAN_OF(NODE(300, 1, PAUSE)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_release),
        cmocka_unit_test(after_a_crash_and_a_failed_try),
        cmocka_unit_test(a_late_set),
        cmocka_unit_test(a_late_extension),
        cmocka_unit_test(brought_back_by_old_data),
        cmocka_unit_test(a_lock_held_for_long),
        cmocka_unit_test(without_an_end),
        cmocka_unit_test(native_nodes),
        cmocka_unit_test(clocks_and_stops_excuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
