/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks on real servers: readers together, writers alone, each reader with its own end, and
 * in guarded mode the order of their tokens.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "fixtures.h"
#include "guarded.h"

enum { TTL_MS = 1500, STRIPE = 1898 };
#define NAME "jobs:nightly" /* of that stripe */

static struct redlock_lock *make(struct redlock_client *client, bool shared, int64_t ttl_ms,
                                 bool renew) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.shared = shared;
    options.renew = renew;
    return new_lock(client, NAME, &options);
}

static void free_all(struct redlock_client *client, struct redlock_lock **locks, int count) {
    for (int i = 0; i < count; i++) redlock_lock_free(locks[i]);
    redlock_client_free(client);
}

/* Every server is a native node; see CMakeLists.txt. */
static bool on_natives(void) { return getenv("REDLOCK_TEST_NATIVE") != NULL; }

/* Those whose end has come stay listed until the next reader comes. */
static int64_t readers_at(struct server *server) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* the server's, too */
    if (!on_natives())
        return server_ask_integer(server, "ZCOUNT redlock:shared:" NAME " (%lld +inf",
                                  (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    redisReply *reply = server_ask(server, "REDLOCK.READERS " NAME " 0 0 0");
    const int64_t count = reply->type == REDIS_REPLY_ARRAY ? reply->element[0]->integer : 0;
    freeReplyObject(reply);
    return count;
}

/* As a break does: the places go with the key. */
static void take_key_away(struct server *server) {
    freeReplyObject(
        server_ask(server, on_natives() ? "REDLOCK.UNLOCK " NAME " redlock:shared" : "DEL " NAME));
}

/* No key, and no list of readers. */
static void nothing_is_left(struct servers *servers) {
    wait_until(servers_holding(servers, NAME) == 0, 1000);
    assert_int_equal(servers_holding(servers, "redlock:shared:" NAME), 0);
}

static void readers_hold_it_together_and_writers_alone(struct servers *servers,
                                                       struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, true, TTL_MS, true),
                                    make(client, true, TTL_MS, true),
                                    make(client, false, TTL_MS, true)};
    assert_result(redlock_try(locks[0]), REDLOCK_OK);
    assert_result(redlock_try(locks[1]), REDLOCK_OK);
    assert_result(redlock_try(locks[2]), REDLOCK_HELD);
    assert_result(redlock_extend(locks[0], 0), REDLOCK_OK);
    nap_ms(2 * TTL_MS); /* both are renewed */
    assert_int_equal(redlock_lock_state(locks[0]), REDLOCK_STATE_HELD);
    assert_int_equal(redlock_lock_state(locks[1]), REDLOCK_STATE_HELD);
    assert_result(redlock_release(locks[0]), REDLOCK_OK);
    assert_result(redlock_try(locks[2]), REDLOCK_HELD);
    assert_result(redlock_extend(locks[1], 0), REDLOCK_OK);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    nothing_is_left(servers);
    assert_result(redlock_acquire(locks[2], 1000), REDLOCK_OK);
    assert_result(redlock_try(locks[0]), REDLOCK_HELD);
    assert_result(redlock_release(locks[2]), REDLOCK_OK);
    assert_result(redlock_acquire(locks[0], 1000), REDLOCK_OK);
    assert_result(redlock_release(locks[0]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 3);
}

/* As another project's client locks and unlocks: SET NX PX, and a script that compares. */
static unsigned strangers_set(struct servers *servers) {
    unsigned set = 0;
    for (unsigned i = 0; i < servers->count; i++) {
        redisReply *reply = server_ask(&servers->at[i], "SET " NAME " stranger NX PX 20000");
        set += reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    return set;
}

static void strangers_unlock(struct servers *servers) {
    for (unsigned i = 0; i < servers->count; i++)
        freeReplyObject(server_ask(&servers->at[i], "EVAL %s 1 " NAME " stranger",
                                   "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('DEL', KEYS[1]) end return 0"));
}

static void other_projects_exclude_readers_and_are_excluded(struct servers *servers,
                                                            struct redlock_client *client) {
    struct redlock_lock *reader = make(client, true, TTL_MS, true);
    assert_result(redlock_try(reader), REDLOCK_OK);
    wait_until(servers_holding(servers, NAME) == servers->count, 1000);
    assert_int_equal(strangers_set(servers), 0);
    strangers_unlock(servers);
    assert_int_equal(servers_holding(servers, NAME), servers->count);
    assert_result(redlock_release(reader), REDLOCK_OK);
    nothing_is_left(servers);
    assert_int_equal(strangers_set(servers), servers->count);
    assert_result(redlock_try(reader), REDLOCK_HELD);
    assert_int_equal(servers_holding(servers, NAME), servers->count);
    strangers_unlock(servers);
    assert_result(redlock_acquire(reader, 1000), REDLOCK_OK);
    free_all(client, &reader, 1);
    nothing_is_left(servers);
}

/* A reader that died ends at its own TTL although another one renews, and both ends are those of
 * the readers, not of the key. */
static void a_dead_reader_ends_at_its_own_ttl(struct servers *servers,
                                              struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, true, 600, false),
                                    make(client, true, TTL_MS, true)};
    assert_result(redlock_try(locks[0]), REDLOCK_OK);
    assert_result(redlock_try(locks[1]), REDLOCK_OK);
    assert_result(redlock_lock_disown(locks[0]), REDLOCK_OK);
    nap_ms(TTL_MS);
    for (unsigned i = 0; i < servers->count; i++) assert_int_equal(readers_at(&servers->at[i]), 1);
    assert_int_equal(redlock_lock_state(locks[1]), REDLOCK_STATE_HELD);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 2);
}

/* Extends, too. A node whose answer is under way is left out, and follows the next time. */
static bool all_are_listed(struct servers *servers, struct redlock_lock **locks, int count) {
    bool all = true;
    for (int i = 0; i < count; i++) all = redlock_extend(locks[i], 0) == REDLOCK_OK && all;
    for (int i = 0; i < count; i++)
        if (redlock_lock_state(locks[i]) == REDLOCK_STATE_LOST) fail_msg("reader %d is lost", i);
    for (unsigned i = 0; i < servers->count; i++) all = all && readers_at(&servers->at[i]) == count;
    return all;
}

/* As an exclusive lock gets its key back: while a majority proves the lease. So nodes that lose
 * their data one after the other do not end it. */
static void a_place_is_set_again(struct servers *servers, struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, true, 3 * TTL_MS, false),
                                    make(client, true, 3 * TTL_MS, false),
                                    make(client, false, 3 * TTL_MS, false)};
    assert_result(redlock_acquire(locks[2], 1000), REDLOCK_OK);
    assert_result(redlock_downgrade(locks[2]), REDLOCK_OK); /* a reader like the others */
    for (int i = 0; i < 2; i++) assert_result(redlock_acquire(locks[i], 1000), REDLOCK_OK);
    for (unsigned at = 0; at < servers->count; at++) {
        wait_until(all_are_listed(servers, locks, 3), 5000);
        take_key_away(&servers->at[at]);
        if (!on_natives()) command(&servers->at[at], "DEL redlock:shared:" NAME);
    }
    wait_until(all_are_listed(servers, locks, 3), 5000);
    assert_result(redlock_release(locks[0]), REDLOCK_OK);
    assert_int_equal(strangers_set(servers), 0);
    for (int i = 1; i < 3; i++) assert_result(redlock_release(locks[i]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 3);
}

/* A reader whose places are gone on a majority does not get them back, whoever keeps the key. */
static void a_lost_place_is_not_taken_back(struct servers *servers, struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, true, TTL_MS, false),
                                    make(client, true, TTL_MS, false)};
    assert_result(redlock_try(locks[0]), REDLOCK_OK);
    wait_until(servers_holding(servers, NAME) == servers->count, 1000);
    for (unsigned i = 0; i < servers->count; i++) take_key_away(&servers->at[i]);
    /* the lists are still there: the next reader that takes the absent key begins new ones */
    assert_result(redlock_try(locks[1]), REDLOCK_OK);
    nap_ms(50);
    assert_result(redlock_extend(locks[0], 0), REDLOCK_LOST);
    assert_result(redlock_release(locks[0]), REDLOCK_LOST);
    assert_result(redlock_extend(locks[1], 0), REDLOCK_OK);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 2);
}

static void a_token_from_elsewhere_is_a_reader_again(struct servers *servers,
                                                     struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, true, TTL_MS, false),
                                    make(client, true, TTL_MS, false)};
    char token[REDLOCK_TOKEN_BYTES_MAX];
    assert_result(redlock_try(locks[0]), REDLOCK_OK);
    const struct redlock_bytes bytes = redlock_token(locks[0]);
    const int64_t fence = redlock_fence(locks[0]);
    memcpy(token, bytes.data, bytes.bytes);
    wait_until(servers_holding(servers, NAME) == servers->count, 1000);
    assert_result(redlock_lock_disown(locks[0]), REDLOCK_OK);
    assert_result(redlock_lock_adopt_fenced(locks[1], "redlock:shared", 14, fence),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_adopt_fenced(locks[1], token, bytes.bytes, fence), REDLOCK_OK);
    assert_result(redlock_extend(locks[1], 0), REDLOCK_OK);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 2);
}

/* ---- a writer becomes a reader ---- */

/* Programs of others that try all the time. */
struct rival {
    struct servers *servers;
    atomic_bool *ends;
    atomic_uint tries, taken;
};

static void *try_on(void *argument) {
    struct rival *rival = argument;
    struct servers *servers = rival->servers;
    redisContext *connection[9];
    for (unsigned i = 0; i < servers->count; i++)
        connection[i] = redisConnect("127.0.0.1", servers->at[i].port);
    while (!atomic_load(rival->ends)) {
        for (unsigned i = 0; i < servers->count; i++) {
            redisReply *reply =
                redisCommand(connection[i], "SET " NAME " rival NX PX 100"); /* may be NULL */
            atomic_fetch_add(&rival->tries, 1);
            if (reply && reply->type == REDIS_REPLY_STATUS) atomic_fetch_add(&rival->taken, 1);
            freeReplyObject(reply);
        }
    }
    for (unsigned i = 0; i < servers->count; i++) redisFree(connection[i]);
    return NULL;
}

/* Hundreds of times, while another program tries to take the key of every node: no gap. */
static void a_downgrade_has_no_gap(struct servers *servers, struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, false, TTL_MS, false),
                                    make(client, true, TTL_MS, false)};
    atomic_bool ends = false;
    struct rival rival = {.servers = servers, .ends = &ends};
    pthread_t thread;
    for (int i = 0; i < 60; i++) {
        atomic_store(&ends, false);
        atomic_store(&rival.taken, 0);
        assert_result(redlock_acquire(locks[0], 2000), REDLOCK_OK);
        wait_until(servers_holding(servers, NAME) == servers->count, 1000);
        const int64_t fence = redlock_fence(locks[0]);
        const unsigned before = atomic_load(&rival.tries);
        assert_int_equal(pthread_create(&thread, NULL, try_on, &rival), 0);
        wait_until(atomic_load(&rival.tries) > before, 5000);
        assert_result(redlock_try(locks[1]), REDLOCK_HELD);
        assert_result(redlock_downgrade(locks[0]), REDLOCK_OK);
        assert_int_equal(redlock_lock_state(locks[0]), REDLOCK_STATE_HELD);
        assert_int_equal(redlock_fence(locks[0]), fence);
        assert_result(redlock_acquire(locks[1], 1000), REDLOCK_OK);
        assert_true(redlock_fence(locks[1]) >= fence);
        assert_result(redlock_downgrade(locks[0]), REDLOCK_OK); /* again */
        assert_result(redlock_downgrade(locks[1]), REDLOCK_OK); /* it never was a writer */
        assert_result(redlock_extend(locks[0], 0), REDLOCK_OK);
        wait_until(atomic_load(&rival.tries) > before + servers->count, 5000);
        atomic_store(&ends, true);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&rival.taken), 0);
        assert_result(redlock_release(locks[i % 2]), REDLOCK_OK);
        assert_result(redlock_release(locks[1 - i % 2]), REDLOCK_OK);
        nothing_is_left(servers);
    }
    free_all(client, locks, 2);
}

/* The next time it is a writer again. */
static void the_next_acquisition_is_exclusive(struct servers *servers,
                                              struct redlock_client *client) {
    struct redlock_lock *locks[] = {make(client, false, TTL_MS, true),
                                    make(client, true, TTL_MS, true)};
    for (int i = 0; i < 2; i++) {
        assert_result(redlock_acquire(locks[0], 1000), REDLOCK_OK);
        assert_result(redlock_try(locks[1]), REDLOCK_HELD);
        assert_result(redlock_downgrade(locks[0]), REDLOCK_OK);
        nap_ms(TTL_MS); /* it is renewed */
        assert_int_equal(redlock_lock_state(locks[0]), REDLOCK_STATE_HELD);
        assert_result(redlock_release(locks[0]), REDLOCK_OK);
        nothing_is_left(servers);
    }
    free_all(client, locks, 2);
}

/* Nodes that were not reached keep the writer's key, and follow at the next extension. */
static void a_downgrade_of_a_minority_is_completed_later(struct servers *servers,
                                                         struct redlock_client *client) {
    const unsigned quorum = servers->count / 2 + 1;
    struct redlock_lock *locks[] = {make(client, false, 10 * TTL_MS, false),
                                    make(client, true, TTL_MS, false)};
    assert_result(redlock_acquire(locks[0], 1000), REDLOCK_OK);
    wait_until(servers_holding(servers, NAME) == servers->count, 1000);
    nap_ms(100); /* until the client has all answers, too */
    for (unsigned i = 0; i < quorum; i++) server_pause(&servers->at[i]);
    assert_result(redlock_downgrade(locks[0]), REDLOCK_NO_QUORUM);
    assert_true(redlock_validity_ms(locks[0]) > 0); /* still held */
    for (unsigned i = quorum; i < servers->count; i++)
        assert_int_equal(readers_at(&servers->at[i]), 1);
    for (unsigned i = 0; i < quorum; i++) server_resume(&servers->at[i]);
    int result = REDLOCK_NO_QUORUM;
    for (double end = now_ms() + 8000; result != REDLOCK_OK && now_ms() < end; nap_ms(20))
        result = redlock_extend(locks[0], 0);
    assert_result(result, REDLOCK_OK);
    assert_result(redlock_acquire(locks[1], 2000), REDLOCK_OK);
    assert_result(redlock_release(locks[0]), REDLOCK_OK);
    assert_result(redlock_release(locks[1]), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, locks, 2);
}

/* A release right after a downgrade that did not arrive everywhere finds both kinds of keys. */
static void a_release_finds_the_writers_key_too(struct servers *servers,
                                                struct redlock_client *client) {
    if (on_natives()) { /* it writes their keys; tests/module does this there */
        redlock_client_free(client);
        skip();
    }
    struct redlock_lock *lock = make(client, false, TTL_MS, false);
    char token[REDLOCK_TOKEN_BYTES_MAX + 1] = "";
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    wait_until(servers_holding(servers, NAME) == servers->count, 1000);
    const struct redlock_bytes bytes = redlock_token(lock);
    memcpy(token, bytes.data, bytes.bytes);
    /* A node whose answer to the acquisition is under way is left out, and follows the next time.
     */
    for (int i = 0; i < 50 && servers_holding(servers, "redlock:shared:" NAME) < servers->count;
         i++) {
        assert_result(redlock_downgrade(lock), REDLOCK_OK);
        nap_ms(20);
    }
    assert_int_equal(servers_holding(servers, "redlock:shared:" NAME), servers->count);
    freeReplyObject(server_ask(&servers->at[0], "SET " NAME " %s PX 20000", token)); /* as before */
    freeReplyObject(server_ask(&servers->at[0], "DEL redlock:shared:" NAME));
    assert_result(redlock_release(lock), REDLOCK_OK);
    nothing_is_left(servers);
    free_all(client, &lock, 1);
}

/* One node is silent from the acquisition to the release, and then gets all requests at once. */
static void a_release_after_a_downgrade_is_a_readers(struct servers *servers,
                                                     struct redlock_client *client) {
    struct redlock_lock *lock = make(client, false, 3 * TTL_MS, false);
    struct server *silent = &servers->at[servers->count - 1];
    server_pause(silent);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    assert_result(redlock_downgrade(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    server_resume(silent);
    nothing_is_left(servers);
    free_all(client, &lock, 1);
}

/* ---- classic ---- */

#define IN_CLASSIC(test)                                                                           \
    static void classic_##test(void **state) {                                                     \
        (void)state;                                                                               \
        test(&three, open_patient(&three, 400, 1));                                                \
    }
IN_CLASSIC(readers_hold_it_together_and_writers_alone)
IN_CLASSIC(other_projects_exclude_readers_and_are_excluded)
IN_CLASSIC(a_dead_reader_ends_at_its_own_ttl)
IN_CLASSIC(a_place_is_set_again)
IN_CLASSIC(a_lost_place_is_not_taken_back)
IN_CLASSIC(a_token_from_elsewhere_is_a_reader_again)
IN_CLASSIC(a_downgrade_has_no_gap)
IN_CLASSIC(the_next_acquisition_is_exclusive)
IN_CLASSIC(a_downgrade_of_a_minority_is_completed_later)
IN_CLASSIC(a_release_finds_the_writers_key_too)
IN_CLASSIC(a_release_after_a_downgrade_is_a_readers)

/* Readers of several programs come without a pause: one of them always holds the lock. */
struct crowd {
    struct redlock_client *client;
    atomic_bool *ends;
    atomic_uint holds;
};

static void *read_on(void *argument) {
    struct crowd *crowd = argument;
    struct redlock_lock *lock = make(crowd->client, true, TTL_MS, true);
    while (!atomic_load(crowd->ends)) {
        if (redlock_acquire(lock, 5000) != REDLOCK_OK) continue;
        nap_ms(40);
        (void)redlock_release(lock);
        atomic_fetch_add(&crowd->holds, 1);
        nap_ms(15); /* longer than a client remembers that it had the lock */
    }
    redlock_lock_free(lock);
    return NULL;
}

enum { READERS = 6, HOLDS = 8 };

static void a_writer_gets_in_between_readers(void **state) {
    (void)state;
    struct crowd crowds[READERS] = {0};
    pthread_t threads[READERS];
    atomic_bool ends = false;
    struct redlock_client *client = open_patient(&three, 400, 1);
    struct redlock_lock *writer = make(client, false, TTL_MS, true);
    for (int i = 0; i < READERS; i++) {
        crowds[i].client = open_patient(&three, 400, 1);
        crowds[i].ends = &ends;
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &crowds[i]), 0);
        nap_ms(10);
    }
    double longest = 0;
    for (int i = 0; i < HOLDS; i++) {
        const double began = now_ms();
        assert_result(redlock_acquire(writer, 10000), REDLOCK_OK);
        if (now_ms() - began > longest) longest = now_ms() - began;
        assert_result(redlock_release(writer), REDLOCK_OK);
        nap_ms(100); /* the readers go on */
    }
    atomic_store(&ends, true);
    unsigned holds = 0;
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(atomic_load(&crowds[i].holds) > 0);
        holds += atomic_load(&crowds[i].holds);
        redlock_client_free(crowds[i].client);
    }
    print_message("%u holds of readers; a writer waited for at most %.0f ms\n", holds, longest);
    assert_true(longest < 2000);
    free_all(client, &writer, 1);
}

static void several_resources_are_refused(void **state) {
    struct redlock_lock_options options = lock_options(TTL_MS);
    const struct redlock_bytes two[] = {{"a", 1}, {"b", 1}};
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    (void)state;
    struct redlock_client *client = open_patient(&three, 400, 1);
    options.shared = 1;
    assert_result(redlock_lock_new_multi(client, two, 2, &options, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "a shared lock covers one resource"));
    options.shared = 2;
    assert_result(redlock_lock_new(client, "a", 1, &options, &lock, &error), REDLOCK_BAD_ARGUMENT);
    redlock_client_free(client);
}

/* Nothing is changed: they are exclusive as before. */
static void some_locks_are_not_downgraded(void **state) {
    if (on_natives()) skip(); /* no slots */
    struct redlock_lock_options options = lock_options(TTL_MS);
    const struct redlock_bytes two[] = {{"a", 1}, {"b", 1}};
    struct redlock_lock *lock = NULL;
    (void)state;
    struct redlock_client *client = open_patient(&three, 400, 1);
    assert_result(redlock_lock_new_multi(client, two, 2, &options, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_downgrade(lock), REDLOCK_LOST); /* not held */
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    assert_result(redlock_downgrade(lock), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    options.slots = 2;
    assert_result(redlock_lock_new(client, "c", 1, &options, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    assert_result(redlock_downgrade(lock), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_downgrade_start(lock, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- guarded ---- */

static int start_guarded(void **state) {
    (void)state;
    start_quorum(&five, 5, 5000);
    return 0;
}

#define IN_GUARDED(test)                                                                           \
    static void guarded_##test(void **state) {                                                     \
        (void)state;                                                                               \
        test(&five, open_guarded(&five));                                                          \
    }
IN_GUARDED(readers_hold_it_together_and_writers_alone)
IN_GUARDED(other_projects_exclude_readers_and_are_excluded)
IN_GUARDED(a_dead_reader_ends_at_its_own_ttl)
IN_GUARDED(a_place_is_set_again)
IN_GUARDED(a_lost_place_is_not_taken_back)
IN_GUARDED(a_token_from_elsewhere_is_a_reader_again)
IN_GUARDED(a_downgrade_has_no_gap)
IN_GUARDED(the_next_acquisition_is_exclusive)
IN_GUARDED(a_release_finds_the_writers_key_too)
IN_GUARDED(a_release_after_a_downgrade_is_a_readers)

static void set_fence(struct server *server, int64_t fence) {
    freeReplyObject(server_ask(server, "EVAL %s 0 %lld",
                               "return redis.call('ZADD', 'redlock:fences:' .. redis.call('HGET', "
                               "'redlock:node', 'nonce'), 'XX', 'CH', ARGV[1], 1898)",
                               (long long)fence));
}

static int64_t held_with(struct redlock_lock *lock) {
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    int64_t fence = redlock_fence(lock);
    assert_result(redlock_release(lock), REDLOCK_OK);
    return fence;
}

static void tokens_of_readers_and_writers_are_ordered(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *locks[] = {make(client, true, TTL_MS, true),
                                    make(client, true, TTL_MS, true),
                                    make(client, false, TTL_MS, true)};
    int64_t writer = held_with(locks[2]);
    for (int i = 0; i < 10; i++) {
        assert_result(redlock_acquire(locks[0], 2000), REDLOCK_OK);
        assert_result(redlock_acquire(locks[1], 2000), REDLOCK_OK);
        const int64_t reader = redlock_fence(locks[0]);
        assert_true(reader >= writer);
        assert_true(redlock_fence(locks[1]) >= writer);
        assert_result(redlock_release(locks[0]), REDLOCK_OK);
        assert_result(redlock_release(locks[1]), REDLOCK_OK);
        writer = held_with(locks[2]);
        assert_true(writer > reader);
    }
    free_all(client, locks, 3);
}

/* A writer reached only two of five with a high token. A reader that is told of it must leave it on
 * a majority. */
static void a_higher_fence_of_a_minority_is_written_back(void **state) {
    (void)state;
    if (on_natives()) skip(); /* fences are set by hand here; tests/node does this there */
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = make(client, true, TTL_MS, true);
    const int64_t low = held_with(lock), high = low + 1000000;
    for (unsigned i = 0; i < 2; i++) set_fence(&five.at[i], high);
    for (unsigned i = 2; i < 5; i++) assert_int_equal(fence_of(&five.at[i], STRIPE), low);
    server_pause(&five.at[4]);
    server_pause(&five.at[3]); /* so three vote, and two of them have it */
    nap_ms(50);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_int_equal(redlock_fence(lock), high);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(fence_of(&five.at[i], STRIPE), high);
    for (unsigned i = 3; i < 5; i++) server_resume(&five.at[i]);
    assert_result(redlock_release(lock), REDLOCK_OK);
    free_all(client, &lock, 1);
}

static void a_writer_after_a_downgrade_has_a_higher_token(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *locks[] = {make(client, false, TTL_MS, true),
                                    make(client, true, TTL_MS, true)};
    int64_t before = 0;
    for (int i = 0; i < 10; i++) {
        assert_result(redlock_acquire(locks[0], 2000), REDLOCK_OK);
        const int64_t writer = redlock_fence(locks[0]);
        assert_true(writer > before);
        assert_result(redlock_downgrade(locks[0]), REDLOCK_OK);
        assert_result(redlock_acquire(locks[1], 2000), REDLOCK_OK);
        before = redlock_fence(locks[1]);
        assert_true(before >= writer);
        for (int j = 0; j < 2; j++) assert_result(redlock_release(locks[j]), REDLOCK_OK);
    }
    free_all(client, locks, 2);
}

static void a_confirmed_reader_works(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    options.confirm = 1;
    struct redlock_client *client = open_guarded_at(five.urls, &options);
    struct redlock_lock *locks[] = {make(client, true, TTL_MS, true),
                                    make(client, true, TTL_MS, true)};
    for (int i = 0; i < 2; i++) assert_result(redlock_acquire(locks[i], 2000), REDLOCK_OK);
    for (int i = 0; i < 2; i++) assert_result(redlock_release(locks[i]), REDLOCK_OK);
    free_all(client, locks, 2);
}

/* A node that lost everything gives no place. */
static void a_flushed_node_does_not_vote(void **state) {
    (void)state;
    if (on_natives()) skip(); /* nothing is lost there */
    struct redlock_client_options options = guarded_options();
    options.recover = 0;
    struct redlock_client *client = open_guarded_at(five.urls, &options);
    struct redlock_lock *lock = make(client, true, TTL_MS, true);
    for (unsigned i = 0; i < 3; i++) command(&five.at[i], "FLUSHALL");
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    free_all(client, &lock, 1);
}

int main(void) {
    const struct CMUnitTest classic[] = {
        cmocka_unit_test(classic_readers_hold_it_together_and_writers_alone),
        cmocka_unit_test(classic_other_projects_exclude_readers_and_are_excluded),
        cmocka_unit_test(classic_a_dead_reader_ends_at_its_own_ttl),
        cmocka_unit_test(classic_a_place_is_set_again),
        cmocka_unit_test(classic_a_lost_place_is_not_taken_back),
        cmocka_unit_test(classic_a_token_from_elsewhere_is_a_reader_again),
        cmocka_unit_test(classic_a_downgrade_has_no_gap),
        cmocka_unit_test(classic_the_next_acquisition_is_exclusive),
        cmocka_unit_test(classic_a_downgrade_of_a_minority_is_completed_later),
        cmocka_unit_test(classic_a_release_finds_the_writers_key_too),
        cmocka_unit_test(classic_a_release_after_a_downgrade_is_a_readers),
        cmocka_unit_test(some_locks_are_not_downgraded),
        cmocka_unit_test(a_writer_gets_in_between_readers),
        cmocka_unit_test(several_resources_are_refused),
    };
    const struct CMUnitTest guarded[] = {
        cmocka_unit_test(guarded_readers_hold_it_together_and_writers_alone),
        cmocka_unit_test(guarded_other_projects_exclude_readers_and_are_excluded),
        cmocka_unit_test(guarded_a_dead_reader_ends_at_its_own_ttl),
        cmocka_unit_test(guarded_a_place_is_set_again),
        cmocka_unit_test(guarded_a_lost_place_is_not_taken_back),
        cmocka_unit_test(guarded_a_token_from_elsewhere_is_a_reader_again),
        cmocka_unit_test(guarded_a_downgrade_has_no_gap),
        cmocka_unit_test(guarded_the_next_acquisition_is_exclusive),
        cmocka_unit_test(guarded_a_release_finds_the_writers_key_too),
        cmocka_unit_test(guarded_a_release_after_a_downgrade_is_a_readers),
        cmocka_unit_test(a_writer_after_a_downgrade_has_a_higher_token),
        cmocka_unit_test(tokens_of_readers_and_writers_are_ordered),
        cmocka_unit_test(a_higher_fence_of_a_minority_is_written_back),
        cmocka_unit_test(a_confirmed_reader_works),
        cmocka_unit_test(a_flushed_node_does_not_vote),
    };
    int failed = cmocka_run_group_tests_name("classic", classic, start_three, stop_three);
    return failed + cmocka_run_group_tests_name("guarded", guarded, start_guarded, stop_five);
}
