/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One server, and programs that use StackExchange.Redis's LockTake, LockExtend and LockRelease
 * beside ours: the commands that they send, one by one. LockTake is SET NX with a TTL, before SET
 * knew NX it was SETEX under WATCH; the other two compare the value under WATCH and change it in a
 * transaction.
 */
#include "fixtures.h"
#include "notices.h"

/* ---- theirs ---- */

static redisContext *connect_theirs(void) {
    redisContext *redis = redisConnect("127.0.0.1", one.at[0].port);
    if (!redis || redis->err) fail_msg("cannot connect");
    return redis;
}

static redisReply *say(redisContext *redis, const char *command) {
    redisReply *reply = redisCommand(redis, command);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply ? reply->str : "no answer");
    return reply;
}

static void say_only(redisContext *redis, const char *command) {
    freeReplyObject(say(redis, command));
}

/* MULTI, the change, EXEC: whether it was done. */
static bool change(redisContext *redis, const char *command) {
    say_only(redis, "MULTI");
    say_only(redis, command);
    redisReply *reply = say(redis, "EXEC");
    bool done = reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return done;
}

/* Its WATCH holds until the change or until this. */
static bool holds(redisContext *redis, const char *value) {
    say_only(redis, "WATCH job");
    redisReply *reply = say(redis, "GET job");
    bool same = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, value) == 0;
    freeReplyObject(reply);
    if (!same) say_only(redis, "UNWATCH");
    return same;
}

static bool take_by_set(redisContext *redis) {
    redisReply *reply = say(redis, "SET job theirs PX 20000 NX");
    bool taken = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return taken;
}

static bool take_by_setex(redisContext *redis) {
    say_only(redis, "WATCH job");
    redisReply *reply = say(redis, "EXISTS job");
    bool free_now = reply->integer == 0;
    freeReplyObject(reply);
    if (!free_now) say_only(redis, "UNWATCH");
    return free_now && change(redis, "SETEX job 20 theirs");
}

static bool extend_theirs(redisContext *redis) {
    return holds(redis, "theirs") && change(redis, "PEXPIRE job 40000");
}
static bool release_theirs(redisContext *redis) {
    return holds(redis, "theirs") && change(redis, "DEL job");
}

/* ---- both ---- */

static void exclude(bool (*take)(redisContext *)) {
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock_options options = lock_options(20000);
    struct redlock_lock *lock = new_lock(client, "job", &options);
    redisContext *theirs = connect_theirs();
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_false(take(theirs));
    assert_false(extend_theirs(theirs));
    assert_false(release_theirs(theirs));
    assert_result(redlock_extend(lock, 30000), REDLOCK_OK);
    assert_in_range(server_ask_integer(&one.at[0], "PTTL job"), 25000, 30000);
    assert_result(redlock_release(lock), REDLOCK_OK);

    assert_true(take(theirs));
    assert_result(redlock_try(lock), REDLOCK_HELD);
    assert_true(extend_theirs(theirs));
    assert_in_range(server_ask_integer(&one.at[0], "PTTL job"), 35000, 40000);
    assert_result(redlock_lock_adopt(lock, "another", 7), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_true(release_theirs(theirs));
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redisFree(theirs);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void taken_by_set(void **state) {
    (void)state;
    exclude(take_by_set);
}

static void taken_by_setex(void **state) {
    (void)state;
    exclude(take_by_setex);
}

/* Between its look and its change ours takes or loses the key: the transaction is not done,
 * whatever it saw. */
static void what_comes_between_look_and_change(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock_options options = lock_options(20000);
    struct redlock_lock *lock = new_lock(client, "job", &options);
    redisContext *theirs = connect_theirs();
    say_only(theirs, "WATCH job");
    freeReplyObject(say(theirs, "EXISTS job"));
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_false(change(theirs, "SETEX job 20 theirs"));
    assert_result(redlock_release(lock), REDLOCK_OK);

    assert_true(take_by_set(theirs));
    assert_true(holds(theirs, "theirs"));
    server_ask_integer(&one.at[0], "DEL job"); /* as if its TTL had ended */
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_false(change(theirs, "DEL job"));
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redisFree(theirs);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void done(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    *(atomic_int *)context = result;
}

/* Their release is heard although it comes as a transaction. */
static void their_release_wakes_ours(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock_options options = lock_options(20000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_lock *lock = new_lock(client, "job", &options);
    redisContext *theirs = connect_theirs();
    atomic_int result = 1;
    assert_true(take_by_set(theirs));
    double began = now_ms();
    assert_result(redlock_acquire_start(lock, 15000, done, &result), REDLOCK_OK);
    wait_until(server_ask_integer(&one.at[0], "EXISTS redlock:waiting:job"), 5000);
    assert_int_equal(result, 1);
    assert_true(release_theirs(theirs));
    wait_until(result != 1, 5000);
    assert_result(result, REDLOCK_OK);
    assert_less(now_ms() - began, 10000); /* its TTL was 20 s, the delay is 60 s */
    assert_result(redlock_release(lock), REDLOCK_OK);
    redisFree(theirs);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_by_set),
        cmocka_unit_test(taken_by_setex),
        cmocka_unit_test(what_comes_between_look_and_change),
        cmocka_unit_test(their_release_wakes_ours),
    };
    return cmocka_run_group_tests(tests, start_one, stop_one);
}
