/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Hand-over on real servers. The random delay is so long here that whoever gets the lock sooner was
 * told; and the bounds are far from both, so that a busy machine fails nothing.
 */
#include "notices.h"

#include <pthread.h>

#include "fixtures.h"

enum { POLL_MS = 20000, SOON_MS = 4000 }; /* the second in line polls four times as often */

static struct redlock_lock_options patient_options(int64_t ttl_ms) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.retry_delay_ms_min = options.retry_delay_ms_max = POLL_MS;
    return options;
}

/* ---- somebody who waits in a thread of his own ---- */

struct sleeper {
    struct redlock_client *client;
    struct redlock_lock *lock;
    pthread_t thread;
    int result;
    _Atomic double got; /* when; 0: not yet */
};

static void *acquire_it(void *argument) {
    struct sleeper *sleeper = argument;
    sleeper->result = redlock_acquire(sleeper->lock, REDLOCK_WAIT_FOREVER);
    sleeper->got = now_ms();
    return NULL;
}

static void lie_down(struct sleeper *sleeper, struct redlock_client *client, const char *resource,
                     const struct redlock_lock_options *options) {
    *sleeper = (struct sleeper){.client = client, .lock = new_lock(client, resource, options)};
    assert_int_equal(pthread_create(&sleeper->thread, NULL, acquire_it, sleeper), 0);
}

static void get_up(struct sleeper *sleeper) {
    pthread_join(sleeper->thread, NULL);
    assert_result(sleeper->result, REDLOCK_OK);
}

static long long lines_of(struct server *server, const char *resource) {
    return server_ask_integer(server, "ZCARD redlock:waiting:%s", resource);
}

/* How many stand in the line, wherever it is kept. */
static long long waiting_for(const char *resource) {
    long long count = 0;
    for (unsigned i = 0; i < five.count; i++) count += lines_of(&five.at[i], resource);
    return count;
}

static long long reported_of(const char *channel) {
    long long count = 0;
    for (unsigned i = 0; i < five.count; i++)
        count += server_ask_integer(&five.at[i], "EVAL %s 0 %s",
                                    "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", channel);
    return count;
}

/* Until it stands in the line and all nodes tell it of changes; then for its looks. */
static void until_armed(const char *resource, long long count) {
    wait_until(waiting_for(resource) == count, 5000);
    wait_until(reported_of(servers_invalidations()) >= 5, 5000);
    nap_ms(100);
}

static void everywhere(const char *command) {
    for (unsigned i = 0; i < five.count; i++) freeReplyObject(server_ask(&five.at[i], command));
}

/* ---- hand-over ---- */

static void a_release_is_heard(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *holder = open_calm(&five), *client = open_calm(&five);
    struct redlock_lock *held = new_lock(holder, "released", &options);
    assert_result(redlock_acquire(held, 0), REDLOCK_OK);
    struct sleeper sleeper;
    lie_down(&sleeper, client, "released", &options);
    until_armed("released", 1);
    assert_true(sleeper.got == 0);
    double from = now_ms();
    assert_result(redlock_release(held), REDLOCK_OK);
    get_up(&sleeper);
    assert_less(sleeper.got - from, SOON_MS);
    assert_true(stats_of(client).wakeups > 0);
    assert_int_equal(waiting_for("released"), 0); /* whoever has it waits no longer */
    redlock_lock_free(sleeper.lock);
    redlock_lock_free(held);
    redlock_client_free(client);
    redlock_client_free(holder);
}

/* Others of other projects release in their own ways, or not at all. */
static void others_are_heard_too(void **state) {
    (void)state;
    static const char *const ways[] = {"DEL theirs", "FLUSHALL", "PEXPIRE theirs 1500"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct redlock_lock_options options = patient_options(60000);
        struct redlock_client *client = open_calm(&five);
        struct sleeper sleeper;
        everywhere("SET theirs token PX 60000");
        lie_down(&sleeper, client, "theirs", &options);
        until_armed("theirs", 1);
        double from = now_ms();
        everywhere(ways[i]);
        get_up(&sleeper);
        assert_less(sleeper.got - from, SOON_MS);
        redlock_lock_free(sleeper.lock);
        redlock_client_free(client);
    }
}

static void an_expiry_is_not_missed(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *client = open_calm(&five);
    struct sleeper sleeper;
    everywhere("SET ends token PX 1500");
    double from = now_ms();
    lie_down(&sleeper, client, "ends", &options);
    get_up(&sleeper);
    assert_less(1400, sleeper.got - from);
    assert_less(sleeper.got - from, 1500 + SOON_MS);
    redlock_lock_free(sleeper.lock);
    redlock_client_free(client);
}

static void after_its_connection_was_killed_it_hears_again(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *client = open_calm(&five);
    struct sleeper sleeper;
    everywhere("SET deaf token PX 60000");
    lie_down(&sleeper, client, "deaf", &options);
    until_armed("deaf", 1);
    everywhere("CLIENT KILL TYPE pubsub");
    everywhere("DEL deaf"); /* told to nobody; who comes back looks */
    double from = now_ms();
    get_up(&sleeper);
    assert_less(sleeper.got - from, SOON_MS);
    redlock_lock_free(sleeper.lock);
    redlock_client_free(client);
}

static void a_hint_that_is_lost_costs_time(void **state) {
    (void)state;
    struct redlock_lock_options options =
        lock_options(60000); /* the default delays, up to 250 ms */
    struct redlock_client *client = open_calm(&five);
    struct sleeper sleeper;
    everywhere("SET lost token PX 60000");
    lie_down(&sleeper, client, "lost", &options);
    until_armed("lost", 1);
    everywhere("ACL SETUSER default -subscribe"); /* nothing is told from here on */
    everywhere("CLIENT KILL TYPE pubsub");
    everywhere("DEL lost");
    double from = now_ms();
    get_up(&sleeper);
    assert_less(sleeper.got - from, SOON_MS);
    everywhere("ACL SETUSER default +subscribe");
    redlock_lock_free(sleeper.lock);
    redlock_client_free(client);
}

/* ---- who comes when ---- */

/* Of many waiters one hears of a renewal, and looks; nobody tries. */
static void renewals_rouse_no_herd(void **state) {
    (void)state;
    enum { WAITERS = 6 };
    struct notices notices = {0};
    struct redlock_lock_options renewed = notices_options(60000, &notices),
                                options = patient_options(60000);
    renewed.renew_interval_ms = 10;
    struct redlock_client *holder = open_calm(&five), *clients[WAITERS];
    struct redlock_lock *held = new_lock(holder, "renewed", &renewed);
    struct sleeper sleepers[WAITERS];
    assert_result(redlock_acquire(held, 0), REDLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        clients[i] = open_calm(&five);
        lie_down(&sleepers[i], clients[i], "renewed", &options);
    }
    until_armed("renewed", WAITERS);
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > 100, 10000);
    uint64_t attempts = 0, deaf = 0;
    for (int i = 0; i < WAITERS; i++) {
        attempts += stats_of(clients[i]).attempts;
        deaf += stats_of(clients[i]).wakeups < 20;
    }
    /* The first of each, before it waits, and what the first in line may have tried in vain. */
    assert_in_range(attempts, WAITERS, 3 * WAITERS);
    assert_true(deaf >= WAITERS - 2);
    assert_result(redlock_release(held), REDLOCK_OK);
    for (int i = 0; i < WAITERS; i++) redlock_cancel(sleepers[i].lock);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(sleepers[i].thread, NULL);
        redlock_lock_free(sleepers[i].lock);
        redlock_client_free(clients[i]);
    }
    redlock_lock_free(held);
    redlock_client_free(holder);
}

static void threads_of_one_process_come_in_order(void **state) {
    (void)state;
    enum { THREADS = 5 };
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *held = new_lock(client, "ordered", &options);
    struct sleeper sleepers[THREADS];
    assert_result(redlock_acquire(held, 0), REDLOCK_OK);
    for (int i = 0; i < THREADS; i++) {
        lie_down(&sleepers[i], client, "ordered", &options);
        wait_until(redlock_lock_state(sleepers[i].lock) == REDLOCK_STATE_ACQUIRING, 1000);
        if (i == 0) until_armed("ordered", 1); /* those behind it are known to nobody else */
    }
    nap_ms(50);
    assert_int_equal(waiting_for("ordered"), 1);
    uint64_t attempts = stats_of(client).attempts;
    assert_result(redlock_release(held), REDLOCK_OK);
    for (int i = 0; i < THREADS; i++) {
        wait_until(sleepers[i].got != 0, SOON_MS);
        for (int j = i + 1; j < THREADS; j++) assert_true(sleepers[j].got == 0);
        assert_result(redlock_release(sleepers[i].lock), REDLOCK_OK);
    }
    assert_in_range(stats_of(client).attempts - attempts, THREADS, 4 * THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(sleepers[i].thread, NULL);
        redlock_lock_free(sleepers[i].lock);
    }
    redlock_lock_free(held);
    redlock_client_free(client);
}

/* A cancelled one is passed over; one whose wait is over was not behind for ever. */
static void those_who_give_up_hold_nobody_up(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *held = new_lock(client, "given-up", &options),
                        *late = new_lock(client, "given-up", &options);
    struct sleeper first, second;
    assert_result(redlock_acquire(held, 0), REDLOCK_OK);
    lie_down(&first, client, "given-up", &options);
    until_armed("given-up", 1);
    lie_down(&second, client, "given-up", &options);
    wait_until(redlock_lock_state(second.lock) == REDLOCK_STATE_ACQUIRING, 1000);
    assert_result(redlock_acquire(late, 100), REDLOCK_HELD);
    assert_result(redlock_try(late), REDLOCK_HELD);
    redlock_cancel(first.lock);
    pthread_join(first.thread, NULL);
    assert_result(first.result, REDLOCK_CANCELLED);
    until_armed("given-up", 1);
    assert_result(redlock_release(held), REDLOCK_OK);
    get_up(&second);
    redlock_lock_free(late);
    redlock_lock_free(first.lock);
    redlock_lock_free(second.lock);
    redlock_lock_free(held);
    redlock_client_free(client);
}

enum { COMERS = 20 };

struct comers {
    struct redlock_client *client;
    struct redlock_lock *locks[COMERS];
    atomic_bool over;
    atomic_uint number;
};

static void *comes_and_goes(void *argument) {
    struct comers *crowd = argument;
    unsigned self = crowd->number++;
    struct redlock_lock *lock = crowd->locks[self];
    for (unsigned times = self; !crowd->over; times++)
        if (redlock_acquire(lock, times % 4) == REDLOCK_OK) (void)redlock_release(lock);
    return NULL;
}

/* Places that a client leaves behind keep others waiting. */
static void no_place_is_left_behind(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    long long left = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct comers crowd = {.client = open_calm(&five)};
        pthread_t threads[COMERS];
        for (unsigned i = 0; i < COMERS; i++)
            crowd.locks[i] = new_lock(crowd.client, i % 2 ? "left-behind" : "left-here", &options);
        for (unsigned i = 0; i < COMERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, comes_and_goes, &crowd), 0);
        nap_ms(20 + round);
        crowd.over = true;
        for (unsigned i = 0; i < COMERS; i++) redlock_cancel(crowd.locks[i]);
        for (unsigned i = 0; i < COMERS; i++) pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < COMERS; i++) redlock_lock_free(crowd.locks[i]);
        redlock_client_free(crowd.client);
        left += waiting_for("left-behind") + waiting_for("left-here");
        everywhere("DEL redlock:waiting:left-behind redlock:waiting:left-here");
    }
    assert_int_equal(left, 0);
}

/* Who takes it again and again without ever having waited learns that others do. */
static void nobody_starves_beside_one_who_never_waits(void **state) {
    (void)state;
    struct redlock_lock_options options = patient_options(60000);
    struct redlock_client *greedy = open_calm(&five), *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(greedy, "greedy", &options);
    struct sleeper sleeper;
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    lie_down(&sleeper, client, "greedy", &options);
    double end = now_ms() + POLL_MS / 4;
    while (sleeper.got == 0) {
        if (now_ms() > end) fail_msg("it was never let in");
        nap_ms(1);
        assert_result(redlock_release(lock), REDLOCK_OK);
        int result = redlock_acquire(lock, 500); /* behind the other */
        if (result == REDLOCK_HELD) break;
        assert_result(result, REDLOCK_OK);
    }
    get_up(&sleeper);
    redlock_lock_free(sleeper.lock);
    redlock_lock_free(lock);
    redlock_client_free(client);
    redlock_client_free(greedy);
}

enum { CROWD = 8, TURNS = 320 };
static atomic_int turns_left, inside;
struct member {
    struct redlock_client *client;
    pthread_t thread;
    int turns, failure;
};

static void *take_turns(void *argument) {
    struct member *member = argument;
    struct redlock_lock_options options = lock_options(60000);
    struct redlock_lock *lock = new_lock(member->client, "crowded", &options);
    while (member->failure == REDLOCK_OK && atomic_load(&turns_left) > 0) {
        member->failure = redlock_acquire(lock, 20000);
        if (member->failure != REDLOCK_OK) break;
        if (atomic_fetch_add(&inside, 1) != 0) member->failure = REDLOCK_LOST;
        member->turns++;
        atomic_fetch_sub(&turns_left, 1);
        nap_ms(1);
        atomic_fetch_sub(&inside, 1);
        redlock_release(lock);
    }
    redlock_lock_free(lock);
    return NULL;
}

static void turns_fall_evenly(void **state) {
    (void)state;
    struct member members[CROWD];
    int fewest = TURNS, most = 0;
    atomic_store(&turns_left, TURNS);
    for (int i = 0; i < CROWD; i++) members[i] = (struct member){.client = open_calm(&five)};
    for (int i = 0; i < CROWD; i++)
        pthread_create(&members[i].thread, NULL, take_turns, &members[i]);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(members[i].thread, NULL);
        assert_result(members[i].failure, REDLOCK_OK);
        redlock_client_free(members[i].client);
        if (members[i].turns < fewest) fewest = members[i].turns;
        if (members[i].turns > most) most = members[i].turns;
    }
    /* By chance alone, without a line, this is 0.1 and less. */
    assert_less(0.3, (double)fewest / most);
}

/* ---- where nobody tells ---- */

/* What docs/operate/acl.md gives to whoever holds locks, and to whoever is to wait well. */
#define HOLDS                                                                                      \
    "~lock:* ~redlock:node resetchannels -@all +set +get +del +exists +pttl +pexpire +eval "       \
    "+evalsha +info +hget"
#define IS_REPORTED                                                                                \
    "&__redis__:invalidate &__redict__:invalidate &redlock:wake:* +subscribe +client|id +client|tracking +client|caching"
#define STANDS                                                                                                        \
    "~redlock:waiting:* ~redlock:waiters:* +zadd +zrem +zrank +zcard +zrange +zrangebyscore +zremrangebyscore +time " \
    "+publish"

static void wait_with_permissions(const char *permissions, bool notices, int line) {
    char urls[1024];
    size_t used = 0;
    for (unsigned i = 0; i < five.count; i++) {
        char acl[1024];
        snprintf(acl, sizeof acl, "ACL SETUSER locks reset on >p %s", permissions);
        redisReply *reply = server_ask(&five.at[i], acl);
        assert_int_equal(reply->type, REDIS_REPLY_STATUS);
        freeReplyObject(reply);
        used += (size_t)snprintf(urls + used, sizeof urls - used, "%sredis://locks:p@127.0.0.1:%d",
                                 i ? "," : "", five.at[i].port);
    }
    struct redlock_client_options plain;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&plain);
    plain.node_timeout_ms = 300;
    assert_result(redlock_client_open(urls, &plain, &client, NULL), REDLOCK_OK);
    redlock_client_wait_ready(client, 2000);
    struct redlock_lock_options options = lock_options(60000);
    struct sleeper sleeper;
    everywhere("SET lock:plain token PX 60000");
    lie_down(&sleeper, client, "lock:plain", &options);
    if (notices) wait_until(reported_of(servers_invalidations()) >= 5, 5000);
    if (line) wait_until(waiting_for("lock:plain") == line, 5000);
    nap_ms(300);
    assert_int_equal(waiting_for("lock:plain"), line);
    assert_true(sleeper.got == 0);
    everywhere("DEL lock:plain");
    double from = now_ms();
    get_up(&sleeper);
    assert_less(sleeper.got - from, SOON_MS);
    assert_int_equal(stats_of(client).wakeups > 0, notices);
    redlock_lock_free(sleeper.lock);
    redlock_client_free(client);
}

static void it_does_with_what_it_may(void **state) {
    (void)state;
    wait_with_permissions(HOLDS, false, 0);
    wait_with_permissions(HOLDS " " IS_REPORTED, true, 0);
    wait_with_permissions(HOLDS " " IS_REPORTED " " STANDS, true, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_is_heard),
        cmocka_unit_test(others_are_heard_too),
        cmocka_unit_test(an_expiry_is_not_missed),
        cmocka_unit_test(after_its_connection_was_killed_it_hears_again),
        cmocka_unit_test(renewals_rouse_no_herd),
        cmocka_unit_test(threads_of_one_process_come_in_order),
        cmocka_unit_test(those_who_give_up_hold_nobody_up),
        cmocka_unit_test(no_place_is_left_behind),
        cmocka_unit_test(nobody_starves_beside_one_who_never_waits),
        cmocka_unit_test(turns_fall_evenly),
        cmocka_unit_test(it_does_with_what_it_may),
        cmocka_unit_test(a_hint_that_is_lost_costs_time),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
