/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks that are taken over by their tokens, on real guarded servers. A lost lock whose keys late
 * requests have brought back must not be held again with its old fencing token.
 */
#include "fixtures.h"
#include "guarded.h"

enum { TTL_MAX = 60000 };
#define NAME "adopted"

static struct servers three_guarded;

static int start(void **state) {
    (void)state;
    start_quorum(&three_guarded, 3, TTL_MAX);
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&three_guarded);
    return 0;
}

/* Every server is a native node; see CMakeLists.txt. */
static bool on_natives(void) { return getenv("REDLOCK_TEST_NATIVE") != NULL; }

static struct redlock_lock *lock_of(struct redlock_client *client, bool shared) {
    struct redlock_lock_options options = lock_options(10000);
    options.shared = shared;
    options.renew = 0;
    return new_lock(client, NAME, &options);
}

struct taken {
    char token[REDLOCK_TOKEN_HEX_BYTES + 1];
    int64_t fence;
};

/* Held, and left behind as by a process that has ended. */
static struct taken take(struct redlock_lock *lock) {
    struct taken taken = {.fence = 0};
    /* A release is over when a majority has answered. */
    wait_until(servers_holding(&three_guarded, NAME) == 0, 1000);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    taken.fence = redlock_fence(lock);
    memcpy(taken.token, redlock_token(lock).data, REDLOCK_TOKEN_HEX_BYTES);
    wait_until(servers_holding(&three_guarded, NAME) == 3, 1000);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    return taken;
}

static void adopt(struct redlock_lock *lock, const struct taken *taken) {
    assert_result(
        redlock_lock_adopt_fenced(lock, taken->token, REDLOCK_TOKEN_HEX_BYTES, taken->fence),
        REDLOCK_OK);
}

static void give_back(struct redlock_lock *lock, const struct taken *taken) {
    adopt(lock, taken);
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(servers_holding(&three_guarded, NAME) == 0, 1000);
}

static int64_t hold_and_release(struct redlock_lock *lock) {
    const struct taken taken = take(lock);
    give_back(lock, &taken);
    return taken.fence;
}

/* A request that was on its way all the time. The fence that came with it is refused. */
static void arrives_late(struct server *server, const char *token) {
    redisReply *reply = server_ask(
        server, on_natives() ? "REDLOCK.LOCK " NAME " %s 20000" : "SET " NAME " %s NX PX 20000",
        token);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

struct clients {
    struct redlock_client *a, *b;
    struct redlock_lock *mine, *yours;
};

static struct clients two_clients(bool shared) {
    struct clients two = {.a = open_guarded(&three_guarded), .b = open_guarded(&three_guarded)};
    two.mine = lock_of(two.a, shared);
    two.yours = lock_of(two.b, false);
    return two;
}

static void end_clients(struct clients *two) {
    redlock_lock_free(two->mine);
    redlock_lock_free(two->yours);
    redlock_client_free(two->a);
    redlock_client_free(two->b);
    wait_until(servers_holding(&three_guarded, NAME) == 0, 1000);
}

/* Some servers do not have the script, and are sent it while others have extended already. */
static void each_node_that_counts_has_extended(void **state) {
    (void)state;
    for (int run = 0; run < 10; run++) {
        struct clients two = two_clients(false);
        const struct taken taken = take(two.mine);
        for (int i = 1; i < 3; i++)
            freeReplyObject(server_ask(&three_guarded.at[i], "SCRIPT FLUSH"));
        adopt(two.yours, &taken);
        assert_result(redlock_extend(two.yours, 40000), REDLOCK_OK);
        nap_ms(50);
        for (int i = 0; i < 3; i++)
            assert_in_range(server_ask_integer(&three_guarded.at[i], "PTTL " NAME), 30000, 40000);
        assert_result(redlock_release(two.yours), REDLOCK_OK);
        end_clients(&two);
    }
}

static void a_lost_lock_comes_back_with_a_new_token_only(void **state) {
    (void)state;
    struct clients two = two_clients(false);
    const struct taken lost = take(two.mine);
    give_back(two.mine, &lost);
    const int64_t between = hold_and_release(two.yours);
    assert_true(between > lost.fence);
    arrives_late(&three_guarded.at[0], lost.token);
    arrives_late(&three_guarded.at[1], lost.token);
    adopt(two.mine, &lost);
    assert_int_equal(redlock_fence(two.mine), 0);
    assert_result(redlock_extend(two.mine, 0), REDLOCK_OK);
    const int64_t again = redlock_fence(two.mine);
    assert_true(again > between);
    assert_result(redlock_try(two.yours), REDLOCK_HELD);
    assert_result(redlock_extend(two.mine, 0), REDLOCK_OK); /* a lease as any other now */
    assert_int_equal(redlock_fence(two.mine), again);
    assert_result(redlock_release(two.mine), REDLOCK_OK);
    assert_true(hold_and_release(two.yours) > again);
    end_clients(&two);
}

/* A denied client raises the fences of stock nodes, as one that held the lock does. */
static void a_lock_that_others_want_is_taken_over(void **state) {
    (void)state;
    struct clients two = two_clients(false);
    struct taken held = take(two.mine);
    for (int i = 0; i < 10; i++) {
        assert_result(redlock_try(two.yours), REDLOCK_HELD);
        adopt(two.mine, &held);
        assert_result(redlock_extend(two.mine, 0), REDLOCK_OK);
        assert_true(redlock_fence(two.mine) > held.fence);
        held.fence = redlock_fence(two.mine);
        assert_result(redlock_lock_disown(two.mine), REDLOCK_OK);
    }
    give_back(two.mine, &held);
    end_clients(&two);
}

static void an_own_lock_that_was_lost_stays_lost(void **state) {
    (void)state;
    struct clients two = two_clients(false);
    char token[REDLOCK_TOKEN_HEX_BYTES + 1] = {0};
    struct redlock_lock_options options = lock_options(1000);
    options.renew = 0;
    struct redlock_lock *own = new_lock(two.a, NAME, &options);
    assert_result(redlock_acquire(own, 2000), REDLOCK_OK);
    memcpy(token, redlock_token(own).data, REDLOCK_TOKEN_HEX_BYTES);
    wait_until(redlock_lock_state(own) == REDLOCK_STATE_LOST, 2000);
    wait_until(servers_holding(&three_guarded, NAME) == 0, 2000);
    for (int i = 0; i < 3; i++) arrives_late(&three_guarded.at[i], token);
    assert_result(redlock_extend(own, 0), REDLOCK_LOST);
    assert_result(redlock_lock_adopt(own, token, REDLOCK_TOKEN_HEX_BYTES), REDLOCK_BUSY);
    assert_int_equal(redlock_lock_state(own), REDLOCK_STATE_LOST);
    (void)redlock_release(own);
    wait_until(servers_holding(&three_guarded, NAME) == 0, 2000);
    redlock_lock_free(own);
    end_clients(&two);
}

static void a_reader_gets_a_new_token_too(void **state) {
    (void)state;
    struct clients two = two_clients(true);
    const int64_t before = hold_and_release(two.yours);
    struct taken reads = take(two.mine);
    assert_true(reads.fence >= before);
    adopt(two.mine, &reads);
    assert_result(redlock_extend(two.mine, 0), REDLOCK_OK);
    assert_true(redlock_fence(two.mine) > reads.fence);
    reads.fence = redlock_fence(two.mine);
    struct redlock_lock *other = lock_of(two.b, true); /* readers do not refuse each other */
    assert_result(redlock_acquire(other, 2000), REDLOCK_OK);
    assert_true(redlock_fence(other) >= reads.fence);
    assert_result(redlock_release(other), REDLOCK_OK);
    assert_result(redlock_release(two.mine), REDLOCK_OK);
    assert_true(hold_and_release(two.yours) > reads.fence);
    redlock_lock_free(other);
    end_clients(&two);
}

static void a_downgrade_may_take_over(void **state) {
    (void)state;
    struct clients two = two_clients(false);
    const struct taken held = take(two.mine);
    adopt(two.mine, &held);
    assert_result(redlock_downgrade(two.mine), REDLOCK_OK);
    assert_true(redlock_fence(two.mine) > held.fence);
    struct redlock_lock *other = lock_of(two.b, true);
    assert_result(redlock_acquire(other, 2000), REDLOCK_OK);
    assert_true(redlock_fence(other) >= redlock_fence(two.mine));
    assert_result(redlock_release(other), REDLOCK_OK);
    assert_result(redlock_release(two.mine), REDLOCK_OK);
    redlock_lock_free(other);
    end_clients(&two);
}

static void several_resources_get_one_new_token(void **state) {
    (void)state;
    struct clients two = two_clients(false);
    const struct redlock_bytes names[] = {{NAME, 7}, {"b", 1}, {"c", 1}};
    struct redlock_lock_options options = lock_options(10000);
    options.renew = 0;
    struct redlock_lock *many = NULL;
    assert_result(redlock_lock_new_multi(two.a, names, 3, &options, &many, NULL), REDLOCK_OK);
    const struct taken held = take(many);
    assert_result(redlock_try(two.yours), REDLOCK_HELD);
    adopt(many, &held);
    assert_result(redlock_extend(many, 0), REDLOCK_OK);
    const int64_t fence = redlock_fence(many);
    assert_true(fence > held.fence);
    assert_result(redlock_release(many), REDLOCK_OK);
    assert_true(hold_and_release(two.yours) > fence);
    redlock_lock_free(many);
    end_clients(&two);
}

/* An extension needs no memory, and a fence does. */
static void a_full_server_gives_no_new_token(void **state) {
    (void)state;
    if (on_natives()) skip(); /* they need none for a key that they have */
    struct clients two = two_clients(false);
    const struct taken held = take(two.mine);
    for (int i = 0; i < 3; i++) command(&three_guarded.at[i], "CONFIG SET maxmemory 1");
    adopt(two.mine, &held);
    assert_result(redlock_extend(two.mine, 0), REDLOCK_NO_QUORUM);
    int verdicts[3], full = 0;
    assert_int_equal(redlock_verdicts(two.mine, verdicts, 3), 3);
    for (int i = 0; i < 3; i++) {
        if (verdicts[i] == REDLOCK_VERDICT_OOM)
            full++;
        else if (verdicts[i] != REDLOCK_VERDICT_TIMEOUT) /* two were enough to know */
            assert_verdict(verdicts[i], REDLOCK_VERDICT_NONE);
    }
    assert_in_range(full, 2, 3);
    for (int i = 0; i < 3; i++) command(&three_guarded.at[i], "CONFIG SET maxmemory 0");
    assert_result(redlock_extend(two.mine, 0), REDLOCK_OK);
    assert_true(redlock_fence(two.mine) > held.fence);
    assert_result(redlock_release(two.mine), REDLOCK_OK);
    end_clients(&two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_lock_comes_back_with_a_new_token_only),
        cmocka_unit_test(each_node_that_counts_has_extended),
        cmocka_unit_test(a_lock_that_others_want_is_taken_over),
        cmocka_unit_test(an_own_lock_that_was_lost_stays_lost),
        cmocka_unit_test(a_reader_gets_a_new_token_too),
        cmocka_unit_test(a_downgrade_may_take_over),
        cmocka_unit_test(several_resources_get_one_new_token),
        cmocka_unit_test(a_full_server_gives_no_new_token),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
