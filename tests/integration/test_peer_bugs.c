/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bugs that other Redlock clients have had, each under the name by which it is known: here it must
 * not be. TTLs are long where a key left behind would be hidden by its end, so "gone" always means
 * deleted.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "fixtures.h"
#include "notices.h"
#include "proxy.h"

/* Each test finds five running, empty servers. */
static int five_anew(void **state) {
    (void)state;
    for (unsigned i = 0; i < five.count; i++) {
        if (five.at[i].pid == 0)
            server_restart(&five.at[i]);
        else
            server_resume(&five.at[i]);
        freeReplyObject(server_ask(&five.at[i], "CONFIG SET maxmemory 0"));
        freeReplyObject(server_ask(&five.at[i], "FLUSHALL"));
    }
    return 0;
}

static void assert_gone(struct servers *servers, const char *key, double within_ms) {
    double until = now_ms() + within_ms;
    unsigned holding;
    while ((holding = servers_holding(servers, key)) > 0 && now_ms() < until) nap_ms(5);
    assert_int_equal(holding, 0);
}

static void foreign_key(struct server *server, const char *key, long ttl_ms) {
    redisReply *reply = server_ask(server, "SET %s stranger PX %d", key, (int)ttl_ms);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

/* A list like `servers` in which the nodes of the mask are spoken to through proxies. */
struct detour {
    struct servers list; /* only its urls are to be used */
    struct proxy *proxy[SERVERS_MAX];
};

static void detour_start(struct detour *detour, const struct servers *servers, unsigned count,
                         unsigned through_proxy) {
    size_t used = 0;
    *detour = (struct detour){.list.count = count};
    for (unsigned i = 0; i < count; i++) {
        int port = servers->at[i].port;
        if (through_proxy >> i & 1) {
            detour->proxy[i] = proxy_start(port);
            port = proxy_port(detour->proxy[i]);
        }
        used += (size_t)snprintf(detour->list.urls + used, sizeof detour->list.urls - used,
                                 "%sredis://127.0.0.1:%d", i ? "," : "", port);
    }
}

static void detour_stop(struct detour *detour) {
    for (unsigned i = 0; i < detour->list.count; i++) {
        if (detour->proxy[i]) proxy_stop(detour->proxy[i]);
    }
}

static struct redlock_client_options node_timeout(int64_t ms) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = ms;
    return options;
}

/* ---- even N with a tie never resolves ---- */

struct contender {
    pthread_t thread;
    pthread_barrier_t *start;
    struct redlock_client *client;
    int won;
};

static void *contend(void *argument) {
    struct contender *contender = argument;
    struct redlock_lock *lock = new_lock(contender->client, "tie", NULL);
    for (int i = 0; i < 10; i++) {
        pthread_barrier_wait(contender->start); /* together, so that the votes split */
        if (redlock_acquire(lock, 10000) != REDLOCK_OK) continue;
        contender->won++;
        redlock_release(lock);
    }
    redlock_lock_free(lock);
    return NULL;
}

static void two_on(const char *first_urls, const char *second_urls) {
    static struct servers lists[2];
    struct contender contenders[2] = {{.won = 0}, {.won = 0}};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    snprintf(lists[0].urls, sizeof lists[0].urls, "%s", first_urls);
    snprintf(lists[1].urls, sizeof lists[1].urls, "%s", second_urls);
    for (int i = 0; i < 2; i++) {
        contenders[i].start = &start;
        contenders[i].client = open_client(&lists[i], NULL);
        assert_int_equal(pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(contenders[i].thread, NULL);
        assert_int_equal(contenders[i].won, 10);
        redlock_client_free(contenders[i].client);
    }
    pthread_barrier_destroy(&start);
}

static void even_n_with_a_tie_never_resolves(void **state) {
    (void)state;
    char forth[200], back[200];
    /* The one asks the nodes in the other's opposite order: each wins half of them first. */
    snprintf(forth, sizeof forth, "redis://127.0.0.1:%d redis://127.0.0.1:%d", five.at[0].port,
             five.at[1].port);
    snprintf(back, sizeof back, "redis://127.0.0.1:%d redis://127.0.0.1:%d", five.at[1].port,
             five.at[0].port);
    two_on(forth, back);
    assert_gone(&five, "tie", 1000);
    int a = five.at[0].port, b = five.at[1].port, c = five.at[2].port, d = five.at[3].port;
    snprintf(forth, sizeof forth,
             "redis://127.0.0.1:%d redis://127.0.0.1:%d redis://127.0.0.1:%d redis://127.0.0.1:%d",
             a, b, c, d);
    snprintf(back, sizeof back,
             "redis://127.0.0.1:%d redis://127.0.0.1:%d redis://127.0.0.1:%d redis://127.0.0.1:%d",
             d, c, b, a);
    two_on(forth, back);
    assert_gone(&five, "tie", 1000);
}

/* A tie made by hand: half of the nodes are a stranger's. It is refused, not won, and ends with the
 * stranger. */
static void a_tie_is_no_majority(void **state) {
    (void)state;
    struct detour four;
    detour_start(&four, &five, 4, 0);
    struct redlock_client *client = open_client(&four.list, NULL);
    struct redlock_lock *lock = new_lock(client, "half", NULL);
    foreign_key(&five.at[0], "half", 400);
    foreign_key(&five.at[1], "half", 400);
    assert_result(redlock_try(lock), REDLOCK_HELD);
    assert_int_equal(servers_holding(&five, "half"), 2);
    assert_result(redlock_acquire(lock, 3000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    detour_stop(&four);
}

/* ---- a retry blocked by its own key ---- */

static void a_retry_blocked_by_its_own_key(void **state) {
    (void)state;
    struct detour front;
    detour_start(&front, &five, 3, 1u << 2);
    struct redlock_client *client = open_client(&front.list, NULL);
    struct redlock_lock_options options = lock_options(30000);
    struct redlock_lock *lock = new_lock(client, "own", &options);
    /* Node 0 is a stranger's, node 1 grants, node 2 grants and its answer comes late: each try
     * loses with two keys set.
     */
    foreign_key(&five.at[0], "own", 300);
    proxy_delay(front.proxy[2], 90);
    double began = now_ms();
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK);
    assert_true(now_ms() - began <
                2000); /* a key of its own on node 1 would be in the way for 30 s */
    struct redlock_stats stats = {.size = sizeof stats};
    assert_result(redlock_client_stats(client, &stats), REDLOCK_OK);
    assert_true(stats.retries >= 1);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_gone(&five, "own", 1000);
    redlock_lock_free(lock);
    redlock_client_free(client);
    detour_stop(&front);
}

/* ---- a cancelled caller whose release is cancelled too ---- */

struct asker {
    struct redlock_lock *lock;
    int result;
};

static void *ask_for_long(void *argument) {
    struct asker *asker = argument;
    asker->result = redlock_acquire(asker->lock, REDLOCK_WAIT_FOREVER);
    return NULL;
}

static void a_cancelled_caller_whose_release_is_cancelled_too(void **state) {
    (void)state;
    struct redlock_client_options options = node_timeout(400);
    struct redlock_client *client = open_client(&five, &options);
    struct asker asker = {new_lock(client, "cancelled", NULL), 1};
    for (unsigned i = 0; i < 3; i++) server_pause(&five.at[i]);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_for_long, &asker), 0);
    double until = now_ms() + 350;
    while (servers_holding(&five, "cancelled") < 2 && now_ms() < until) nap_ms(2);
    assert_int_equal(servers_holding(&five, "cancelled"), 2); /* in the middle of an attempt */
    redlock_cancel(asker.lock);
    assert_gone(&five, "cancelled", 300);
    pthread_join(thread, NULL);
    assert_result(asker.result, REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++) server_resume(&five.at[i]);
    /* The three find the SET in their sockets, and the release behind it. */
    nap_ms(50);
    assert_gone(&five, "cancelled", 1000);
    assert_result(redlock_acquire(asker.lock, 3000), REDLOCK_OK);
    redlock_lock_free(asker.lock);
    redlock_client_free(client);
}

/* ---- one dead node that fails the whole acquire ---- */

static void one_dead_node_that_fails_the_whole_acquire(void **state) {
    (void)state;
    struct redlock_client *before = open_client(&five, NULL);
    server_kill(&five.at[0]);
    struct redlock_client *after = open_client(&five, NULL);
    struct redlock_client *clients[] = {before, after};
    for (int i = 0; i < 2; i++) {
        struct redlock_lock *lock = new_lock(clients[i], "dead", NULL);
        int verdicts[5];
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_int_equal(redlock_verdicts(lock, verdicts, 5), 5);
        assert_int_not_equal(verdicts[0], REDLOCK_VERDICT_GRANTED);
        assert_result(redlock_extend(lock, 0), REDLOCK_OK);
        assert_result(redlock_release(lock), REDLOCK_OK);
        redlock_lock_free(lock);
    }
    server_pause(&five.at[1]); /* and one that is silent */
    struct redlock_lock *lock = new_lock(after, "silent", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(before);
    redlock_client_free(after);
    struct servers nonsense = {0}; /* and one that has no address */
    snprintf(nonsense.urls, sizeof nonsense.urls,
             "redis://no-such-host.invalid,redis://127.0.0.1:%d,redis://127.0.0.1:%d",
             five.at[2].port, five.at[3].port);
    struct redlock_client *client = open_client(&nonsense, NULL);
    lock = new_lock(client, "nameless", NULL);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- an error after quorum that leaks the lock ---- */

static void refuse_writes(struct server *server) {
    freeReplyObject(server_ask(server, "CONFIG SET maxmemory 1"));
}

static void an_error_after_quorum_that_leaks_the_lock(void **state) {
    (void)state;
    struct detour late;
    int verdicts[5];
    detour_start(&late, &five, 5, 1u << 3 | 1u << 4);
    struct redlock_client *client = open_calm(&late.list);
    struct redlock_lock *lock = new_lock(client, "error", NULL);
    refuse_writes(&five.at[3]);
    refuse_writes(&five.at[4]);
    proxy_delay(late.proxy[3], 25); /* three have granted by then */
    proxy_delay(late.proxy[4], 25);
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(100);
    assert_int_equal(redlock_verdicts(lock, verdicts, 5), 5);
    assert_int_equal(verdicts[3], REDLOCK_VERDICT_OOM);
    assert_int_equal(verdicts[4], REDLOCK_VERDICT_OOM);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_gone(&five, "error", 1000);
    /* Errors before quorum: the lock is lost, and what was granted is given back. */
    refuse_writes(&five.at[2]);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_gone(&five, "error", 1000);
    redlock_lock_free(lock);
    redlock_client_free(client);
    detour_stop(&late);
}

/* ---- a float quorum ---- */

static void a_float_quorum(void **state) {
    (void)state;
    struct servers fifteen;
    servers_start(&fifteen, 15);
    for (unsigned n = 1; n <= 15; n++) {
        struct detour some;
        detour_start(&some, &fifteen, n, 0);
        struct redlock_client *client = open_client(&some.list, NULL);
        struct redlock_lock *lock = new_lock(client, "float", NULL);
        unsigned quorum = n / 2 + 1, strangers = n - quorum;
        for (unsigned i = 0; i < strangers; i++) foreign_key(&fifteen.at[i], "float", 60000);
        assert_result(redlock_try(lock), REDLOCK_OK); /* exactly the majority is free */
        assert_result(redlock_release(lock), REDLOCK_OK);
        foreign_key(&fifteen.at[strangers], "float", 60000); /* one less */
        assert_result(redlock_try(lock), REDLOCK_HELD);
        assert_int_equal(servers_holding(&fifteen, "float"), strangers + 1);
        for (unsigned i = 0; i <= strangers; i++)
            assert_int_equal(server_ask_integer(&fifteen.at[i], "DEL float"), 1);
        redlock_lock_free(lock);
        redlock_client_free(client);
        detour_stop(&some);
    }
    servers_stop(&fifteen);
}

/* ---- extend that recreates a missing key ---- */

static void extend_that_recreates_a_missing_key(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "missing", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(50);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(server_ask_integer(&five.at[i], "DEL missing"), 1);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    assert_int_equal(redlock_validity_ms(lock), 0);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_LOST);
    nap_ms(50);
    assert_int_equal(servers_holding(&five, "missing"), 2);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_gone(&five, "missing", 1000); /* what was left of ours goes all the same */
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- release only of nodes believed locked ---- */

static void release_only_of_nodes_believed_locked(void **state) {
    (void)state;
    struct detour front;
    detour_start(&front, &five, 3, 1u << 1 | 1u << 2);
    struct redlock_client *client = open_client(&front.list, NULL);
    struct redlock_lock *lock = new_lock(client, "believed", NULL);
    int verdicts[3];
    proxy_swallow(front.proxy[2], 1);
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(100);
    assert_int_equal(redlock_verdicts(lock, verdicts, 3), 3);
    assert_int_not_equal(verdicts[2],
                         REDLOCK_VERDICT_GRANTED); /* it did set the key, and we do not know */
    assert_int_equal(servers_holding(&five, "believed"), 3);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_gone(&five, "believed", 500);
    /* The same when the attempt is lost for lack of answers. */
    proxy_cut(front.proxy[2]);
    proxy_swallow(front.proxy[2], 0);
    for (int i = 0; i < 100 && redlock_client_wait_ready(client, 1000) < 3; i++) nap_ms(20);
    assert_int_equal(redlock_client_wait_ready(client, 1000), 3);
    proxy_swallow(front.proxy[1], 1);
    proxy_swallow(front.proxy[2], 1);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_gone(&five, "believed", 500);
    redlock_lock_free(lock);
    redlock_client_free(client);
    detour_stop(&front);
}

/* ---- a token that is not binary-safe ---- */

static void set_bytes(struct server *server, const char *key, const void *value, size_t bytes) {
    redisReply *reply = server_ask(server, "SET %s %b PX 60000", key, value, bytes);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

static void a_token_that_is_not_binary_safe(void **state) {
    (void)state;
    static const char token[] = "\0nul\r\n$-1\r\n\xff\xfe%s \"'{}\0",
                      other[] = "\0nul\r\n$-1\r\n\xff\xfe%s \"'{}\1";
    size_t bytes = sizeof token - 1;
    struct redlock_view views[5];
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "binary", NULL);
    for (unsigned i = 0; i < 5; i++) set_bytes(&five.at[i], "binary", token, bytes);
    /* One that differs in its last byte, behind several NULs, is another's. */
    assert_result(redlock_lock_adopt(lock, other, bytes), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_int_equal(servers_holding(&five, "binary"), 5);
    assert_result(redlock_lock_adopt(lock, token, bytes), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_int_equal(redlock_token(lock).bytes, bytes);
    assert_memory_equal(redlock_token(lock).data, token, bytes);
    assert_result(redlock_peek(client, "binary", 6, views, 5), REDLOCK_OK);
    assert_int_equal(views[4].token_bytes, bytes);
    assert_memory_equal(views[4].token, token, bytes);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_gone(&five, "binary", 1000);
    redlock_lock_free(lock);
    /* An owner and a resource of any bytes. */
    struct redlock_lock_options options = lock_options(30000);
    options.owner = token;
    options.owner_bytes = bytes;
    assert_result(redlock_lock_new(client, token, bytes, &options, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_peek(client, token, bytes, views, 5), REDLOCK_OK);
    assert_int_equal(views[0].token_bytes, REDLOCK_TOKEN_HEX_BYTES + 1 + bytes);
    assert_memory_equal(views[0].token + REDLOCK_TOKEN_HEX_BYTES + 1, token, bytes);
    assert_int_equal(server_ask_integer(&five.at[0], "EXISTS %b", token, bytes), 1);
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(50);
    assert_int_equal(server_ask_integer(&five.at[0], "EXISTS %b", token, bytes), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- a lock returned that has already expired ---- */

static void a_lock_returned_that_has_already_expired(void **state) {
    (void)state;
    struct detour slow;
    detour_start(&slow, &five, 3, 7);
    struct redlock_client_options options = node_timeout(900);
    options.drift_ms = 700; /* clocks that may differ so much leave 300 ms of a TTL of 1000 */
    struct redlock_client *client = open_client(&slow.list, &options);
    struct redlock_lock_options terms = lock_options(1000);
    terms.renew = 0;
    struct redlock_lock *lock = new_lock(client, "slow", &terms);
    for (int i = 0; i < 3; i++) proxy_delay(slow.proxy[i], 400);
    assert_result(redlock_try(lock), REDLOCK_EXPIRED);
    assert_int_equal(redlock_validity_ms(lock), 0);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_FREE);
    assert_int_equal(servers_holding(&five, "slow"), 0);
    redlock_lock_free(lock);
    /* Enough validity for the rules, too little for this caller. */
    terms.ttl_ms = 30000;
    terms.validity_ms_min = 28700;
    lock = new_lock(client, "slow", &terms);
    assert_result(redlock_try(lock), REDLOCK_EXPIRED);
    assert_int_equal(servers_holding(&five, "slow"), 0);
    for (int i = 0; i < 3; i++) proxy_delay(slow.proxy[i], 0);
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK);
    assert_true(redlock_validity_ms(lock) > 28000);
    redlock_lock_free(lock);
    redlock_client_free(client);
    detour_stop(&slow);
}

/* ---- an unlock of an expired lock that hangs or retries ten times ---- */

/* How often EVAL or EVALSHA was called there. */
static long long script_calls(struct server *server) {
    redisReply *reply = server_ask(server, "INFO commandstats");
    long long calls = 0;
    for (const char *at = reply->str; (at = strstr(at, "cmdstat_eval")); at++)
        calls += atoll(strstr(at, "calls=") + 6);
    freeReplyObject(reply);
    return calls;
}

static void an_unlock_of_an_expired_lock_that_hangs_or_retries_ten_times(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&five, 150, 1);
    struct redlock_lock_options options = lock_options(400);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "unlock", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK); /* the script is known on the nodes now */
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    nap_ms(450);
    assert_int_equal(redlock_validity_ms(lock), 0);
    long long calls = script_calls(&five.at[0]);
    double began = now_ms();
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_true(now_ms() - began < 200);
    nap_ms(500);
    assert_int_equal(script_calls(&five.at[0]), calls + 1);
    /* The same when nobody answers any more. */
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    nap_ms(450);
    for (unsigned i = 0; i < 5; i++) server_pause(&five.at[i]);
    began = now_ms();
    assert_result(redlock_release(lock), REDLOCK_NO_QUORUM);
    assert_true(now_ms() - began < 400);
    for (unsigned i = 0; i < 5; i++) server_resume(&five.at[i]);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(even_n_with_a_tie_never_resolves, five_anew),
        cmocka_unit_test_setup(a_tie_is_no_majority, five_anew),
        cmocka_unit_test_setup(a_retry_blocked_by_its_own_key, five_anew),
        cmocka_unit_test_setup(a_cancelled_caller_whose_release_is_cancelled_too, five_anew),
        cmocka_unit_test_setup(one_dead_node_that_fails_the_whole_acquire, five_anew),
        cmocka_unit_test_setup(an_error_after_quorum_that_leaks_the_lock, five_anew),
        cmocka_unit_test_setup(a_float_quorum, five_anew),
        cmocka_unit_test_setup(extend_that_recreates_a_missing_key, five_anew),
        cmocka_unit_test_setup(release_only_of_nodes_believed_locked, five_anew),
        cmocka_unit_test_setup(a_token_that_is_not_binary_safe, five_anew),
        cmocka_unit_test_setup(a_lock_returned_that_has_already_expired, five_anew),
        cmocka_unit_test_setup(an_unlock_of_an_expired_lock_that_hangs_or_retries_ten_times,
                               five_anew),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
