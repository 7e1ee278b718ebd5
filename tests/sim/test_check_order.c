/* SPDX-License-Identifier: BSD-2-Clause
 *
 * LINEARIZABLE: by hand, and against a search over all orders (as Wing and Gong do it) that knows
 * nothing of cores.
 */
#include "past.h"

#define TAKES(when, who, what_token, end)                                                          \
    DOES(when, who, ACQUIRED, .token = (what_token), .until = (end))
#define GIVES(when, who, said) DOES(when, who, RELEASED, .result = (said))

static void acquired_only_if_free(void **state) {
    (void)state;
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900), DOES(200, A, RELEASE), TAKES(210, B, 2, 900),
          GIVES(220, A, OK));
    BREAKS(LINEARIZABLE, 0, 1, TAKES(100, A, 1, 900), TAKES(199, B, 2, 900), DOES(200, A, RELEASE),
           GIVES(220, A, OK));
    spans(199, 200);
    says("B acquired job at 0.000199 ms, when it was not free: A had it until 0.0002 ms");
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 200), TAKES(200, B, 2, 900));
    BREAKS(LINEARIZABLE, 0, 1, TAKES(100, A, 1, 201), TAKES(200, B, 2, 900));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900), DOES(200, A, LOST), TAKES(200, B, 2, 900));
    BREAKS(LINEARIZABLE, 0, 2, TAKES(100, A, 1, 200), DOES(150, A, RENEWED, .until = 301),
           TAKES(300, B, 2, 900));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 200),
          DOES(150, A, EXTENDED, .result = LOST_, .until = 301), TAKES(300, B, 2, 900));
    HOLDS(LINEARIZABLE, DOES(50, B, ACQUIRE), TAKES(100, A, 1, 900),
          DOES(200, B, NOT_ACQUIRED, .result = HELD), DOES(950, B, ACQUIRE),
          DOES(999, B, NOT_ACQUIRED, .result = HELD)); /* refused spuriously */
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900),
          DOES(200, B, ACQUIRED, .token = 2, .until = 900, .resource = 1));
    BREAKS(LINEARIZABLE, 0, 1, TAKES(100, A, 1, 900), TAKES(300, A, 2, 900), DOES(400, A, RELEASE));
}

static void a_crash_frees_nothing(void **state) {
    (void)state;
    BREAKS(LINEARIZABLE, 0, 2, TAKES(100, A, 1, 900), BEFALLS(150, A, CLIENT_CRASH),
           TAKES(899, B, 2, 1900));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900), BEFALLS(150, A, CLIENT_CRASH),
          TAKES(900, B, 2, 1900));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), BEFALLS(150, A, CLIENT_CRASH), TAKES(899, B, 2, 1900));
    /* Crashed in its release: that may have been done. */
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900), DOES(140, A, RELEASE), BEFALLS(150, A, CLIENT_CRASH),
          TAKES(160, B, 2, 1900));
}

static void released_by_the_owner_only(void **state) {
    (void)state;
    /* Its validity was over, B has taken the lock, and A's release says that it deleted it from a
     * majority. */
    BREAKS(LINEARIZABLE, 0, 1, TAKES(100, A, 1, 200), TAKES(250, B, 2, 900), DOES(300, A, RELEASE),
           GIVES(310, A, OK));
    says(
        "B acquired job at 0.00025 ms, yet A, who had it before, released it as its owner at 0.0003 ms");
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200), TAKES(250, B, 2, 900), DOES(300, A, RELEASE),
          GIVES(310, A, OK));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 200), TAKES(250, B, 2, 900), DOES(300, A, RELEASE),
          GIVES(310, A, LOST_));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 200), TAKES(250, B, 2, 900), DOES(300, A, RELEASE),
          GIVES(310, A, NO_QUORUM));
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 200), DOES(300, A, RELEASE),
          GIVES(310, A, OK)); /* over, and still there */
    BREAKS(LINEARIZABLE, 0, 0, GIVES(310, A, OK));
    says("A's release of job said ok at 0.00031 ms, but A had nothing to release");
    BREAKS(LINEARIZABLE, 3, 3, TAKES(100, A, 1, 900), DOES(300, A, RELEASE), GIVES(310, A, OK),
           GIVES(320, A, OK));
    HOLDS(LINEARIZABLE, GIVES(310, A, LOST_));
}

static void not_lost_while_it_is_valid(void **state) {
    (void)state;
#define GIVEN_BACK(then, ...)                                                                      \
    TAKES(100, A, 1, 900), __VA_ARGS__, DOES(300, A, RELEASE), GIVES(then, A, LOST_)
    BREAKS(LINEARIZABLE, 0, 3, GIVEN_BACK(899, DOES(200, A, UNSURE)));
    says(
        "A's release of job said at 0.000899 ms that it was lost, but its validity ran until 0.0009 ms and nothing had "
        "happened to its keys");
    HOLDS(LINEARIZABLE, GIVEN_BACK(900, DOES(200, A, UNSURE)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, DOES(200, A, LOST)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, KEY(200, 0, LOST, .token = 1)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, KEY(200, 0, FOREIGN, .token = 0)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, NODE(200, 2, CLOCK, .value = 5)));
    BREAKS(LINEARIZABLE, 0, 3, GIVEN_BACK(310, KEY(200, 0, LOST, .token = 7))); /* another's key */
    /* Older data: the key is there, and an extension that was counted is gone. */
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, NODE(200, 2, RESYNCED)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, NODE(200, 2, FAILOVER)));
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, NODE(200, 2, RESTART, .value = 2)));
    BREAKS(LINEARIZABLE, 0, 3, GIVEN_BACK(310, NODE(200, 2, RESTART)));
    /* Its locks as a stock node are not those of a native one; but it began as such a node. */
    HOLDS(LINEARIZABLE, GIVEN_BACK(310, NODE(200, 2, NATIVE, .value = 1)));
    BREAKS(LINEARIZABLE, 1, 4, NODE(0, 2, NATIVE, .value = 1),
           GIVEN_BACK(310, NODE(200, 2, RESTART)));
    /* It did delete a key: an answer was lost, and the node asked again. */
    HOLDS(LINEARIZABLE, TAKES(100, A, 1, 900), DOES(300, A, RELEASE),
          KEY(305, 0, DELETED, .token = 1), GIVES(310, A, LOST_));
    BREAKS(LINEARIZABLE, 0, 3, TAKES(100, A, 1, 900), DOES(300, A, RELEASE),
           KEY(305, 0, DELETED, .token = 7), GIVES(310, A, LOST_));
    BREAKS(LINEARIZABLE, 0, 3, GIVEN_BACK(310, KEY(200, 0, DELETED, .token = 1)));
}

static void a_change_of_members_excuses_nothing(void **state) {
    (void)state;
    BREAKS(LINEARIZABLE, 0, 3,
           GIVEN_BACK(310, NODE(200, 2, MEMBERS, .message = 2, .value = 2, .until = 15)));
    BREAKS(LINEARIZABLE, 0, 2, TAKES(100, A, 1, 200),
           NODE(220, 2, MEMBERS, .message = 2, .value = 2, .until = 15), TAKES(250, B, 2, 900),
           DOES(300, A, RELEASE), GIVES(310, A, OK));
}

/* ---- the search ----------------------------------------------------------------------------- */

enum { LOCKS = 3, TIME = 9 };

struct lock { /* one acquisition, as the history tells of it */
    int begun, acquired, until, lost, release, released, said; /* -1: did not happen */
};

struct search {
    struct lock locks[LOCKS];
    unsigned acquired, freed; /* bits: what has had its point */
    int owner;                /* -1: free */
};

static int free_from(const struct lock *lock) { /* expiry: not before this */
    return lock->lost >= 0 && lock->lost < lock->until ? lock->lost : lock->until;
}

/* Some order of what is left, from `now` on? A greater `now` never helps, so each point is taken as
 * early as it can be.
 */
static bool order_exists(struct search search, int now) {
    bool done = search.owner < 0 || search.locks[search.owner].said != OK ||
                search.locks[search.owner].release < 0;
    for (int i = 0; i < LOCKS; i++) {
        if ((search.acquired >> i & 1) == 0) done = false;
    }
    if (done) return true;

    for (int i = 0; i < LOCKS; i++) { /* acquire(i) -> OK */
        const struct lock *lock = &search.locks[i];
        int at = now > lock->begun ? now : lock->begun;
        if ((search.acquired >> i & 1) != 0 || search.owner >= 0 || at > lock->acquired) continue;
        struct search next = search;
        next.acquired |= 1u << i;
        next.owner = i;
        if (order_exists(next, at)) return true;
    }
    if (search.owner < 0) return false;

    const struct lock *lock = &search.locks[search.owner];
    struct search next = search;
    next.freed |= 1u << search.owner;
    next.owner = -1;
    bool says_ok = lock->release >= 0 && lock->said == OK;
    if (lock->release >= 0) { /* release, or what may be one */
        int at = now > lock->release ? now : lock->release;
        if ((!says_ok || at <= lock->released) && order_exists(next, at)) return true;
    }
    if (says_ok) return false; /* an expired lock is not there to be released */
    int at = now > free_from(lock) ? now : free_from(lock);
    return order_exists(next, at);
}

static bool explainable(const struct lock *locks) {
    struct search search = {.owner = -1};
    memcpy(search.locks, locks, sizeof search.locks);
    for (int i = 0; i < LOCKS; i++) {
        const struct lock *lock = &locks[i];
        if (lock->release >= 0 && lock->said == LOST_ && lock->released < free_from(lock))
            return false;
    }
    return order_exists(search, 0);
}

/* ---- small histories, drawn ------------------------------------------------------------------ */

static uint64_t seed;
static int draw(int low, int high) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int)((seed >> 33) % (uint64_t)(high - low + 1));
}

static struct lock draw_lock(void) {
    static const int results[] = {OK, OK, NO_QUORUM, LOST_};
    struct lock lock = {.lost = -1, .release = -1, .released = -1, .said = OK};
    lock.begun = draw(0, TIME - 2);
    lock.acquired = draw(lock.begun, TIME - 1);
    lock.until = draw(lock.acquired + 1, TIME + 2);
    if (draw(0, 3) == 0) lock.lost = draw(lock.acquired, TIME);
    if (draw(0, 3) == 0) return lock; /* never released: crashed, or to the end */
    lock.release = draw(lock.lost > lock.acquired ? lock.lost : lock.acquired, TIME);
    lock.released = draw(lock.release, TIME);
    lock.said = results[draw(0, 3)];
    return lock;
}

static size_t add(struct history_record *records, size_t count, int at, enum history_kind kind,
                  int client, int until, int result) {
    records[count] = (struct history_record){.at = at,
                                             .kind = (uint8_t)kind,
                                             .client = (int8_t)client,
                                             .node = -1,
                                             .token = (uint32_t)client + 1,
                                             .until = until,
                                             .result = (int16_t)result};
    return count + 1;
}

/* In order of time; within an instant by client, the first of one with the first. */
static size_t report(const struct lock *locks, struct history_record *records) {
    size_t count = 0;
    for (int at = 0; at <= TIME; at++) {
        for (int i = 0; i < LOCKS; i++) {
            const struct lock *lock = &locks[i];
            if (lock->begun == at) count = add(records, count, at, HISTORY_ACQUIRE, i, 0, 0);
            if (lock->acquired == at)
                count = add(records, count, at, HISTORY_ACQUIRED, i, lock->until, 0);
            if (lock->lost == at) count = add(records, count, at, HISTORY_LOST, i, 0, 0);
            if (lock->release == at) count = add(records, count, at, HISTORY_RELEASE, i, 0, 0);
            if (lock->released == at)
                count = add(records, count, at, HISTORY_RELEASED, i, 0, lock->said);
        }
    }
    return count;
}

static void show(const struct lock *locks) {
    for (int i = 0; i < LOCKS; i++) {
        const struct lock *lock = &locks[i];
        print_message("%c: acquire %d to %d, until %d, lost %d, release %d to %d says %d\n",
                      'A' + i, lock->begun, lock->acquired, lock->until, lock->lost, lock->release,
                      lock->released, lock->said);
    }
}

static void agrees_with_the_search(void **state) {
    (void)state;
    const unsigned of_each =
        20000; /* of those that an order explains, and of those that none does */
    unsigned explained = 0, unexplained = 0;
    seed = 1;
    while (explained < of_each || unexplained < of_each) {
        struct lock locks[LOCKS];
        struct history_record records[LOCKS * 5];
        for (int i = 0; i < LOCKS; i++) locks[i] = draw_lock();
        bool holds = past_judge(CHECK_LINEARIZABLE, records, report(locks, records)) == 0;
        bool expected = explainable(locks);
        if (expected)
            explained++;
        else
            unexplained++;
        if (holds == expected) continue;
        show(locks);
        fail_msg("the search finds %s order, the judge says: %s", expected ? "an" : "no",
                 holds ? "fine" : found[0].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acquired_only_if_free),
        cmocka_unit_test(a_crash_frees_nothing),
        cmocka_unit_test(released_by_the_owner_only),
        cmocka_unit_test(not_lost_while_it_is_valid),
        cmocka_unit_test(a_change_of_members_excuses_nothing),
        cmocka_unit_test(agrees_with_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
