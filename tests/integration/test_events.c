/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The event hook and the histograms on real servers: each change of a lock is reported once, with
 * its times and the verdicts of the nodes, and counted in the histogram that it belongs to.
 */
#include "guarded.h"

#include <pthread.h>

#include "fixtures.h"

enum { TTL_MS = 20000, SOON_MS = 4000, EVENTS = 64 };

/* ---- a recorder ---- */

struct recorded {
    struct redlock_event event;
    char resources[2][32];
    int verdicts[REDLOCK_NODES_MAX];
};

/* Written by the thread that drives; read when that cannot happen any more, or under `mutex`. */
struct recorder {
    pthread_mutex_t mutex;
    int count;
    struct recorded at[EVENTS];
};

static void record(void *context, const struct redlock_event *event) {
    struct recorder *recorder = context;
    pthread_mutex_lock(&recorder->mutex);
    struct recorded *got = &recorder->at[recorder->count++ % EVENTS];
    *got = (struct recorded){.event = *event};
    for (size_t i = 0; i < event->resources_count && i < 2; i++)
        memcpy(got->resources[i], event->resources[i].data, event->resources[i].bytes);
    memcpy(got->verdicts, event->verdicts, event->nodes * sizeof event->verdicts[0]);
    pthread_mutex_unlock(&recorder->mutex);
}

static void observe(struct redlock_client *client, struct recorder *recorder) {
    memset(recorder, 0, sizeof *recorder);
    pthread_mutex_init(&recorder->mutex, NULL);
    assert_result(redlock_client_observe(client, record, recorder), REDLOCK_OK);
}

static int recorded_of(struct recorder *recorder) {
    pthread_mutex_lock(&recorder->mutex);
    int count = recorder->count;
    pthread_mutex_unlock(&recorder->mutex);
    return count;
}

static int count_of(struct recorder *recorder, int kind) {
    int count = 0;
    pthread_mutex_lock(&recorder->mutex);
    for (int i = 0; i < recorder->count; i++) count += recorder->at[i].event.kind == kind;
    pthread_mutex_unlock(&recorder->mutex);
    return count;
}

static struct recorded last(struct recorder *recorder) {
    pthread_mutex_lock(&recorder->mutex);
    assert_true(recorder->count > 0 && recorder->count <= EVENTS);
    struct recorded got = recorder->at[recorder->count - 1];
    pthread_mutex_unlock(&recorder->mutex);
    return got;
}

static int64_t now_in_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* The one event since `before`: of this kind, with this result, and with times after `from`. */
static struct recorded assert_one(struct recorder *recorder, int before, int kind, int result,
                                  int64_t from) {
    assert_int_equal(recorded_of(recorder), before + 1);
    struct recorded got = last(recorder);
    assert_int_equal(got.event.kind, kind);
    assert_result(got.event.result, result);
    assert_int_equal(got.event.size, sizeof got.event);
    if (got.event.began_ns < from)
        fail_msg("began %lld ns before the call", (long long)(from - got.event.began_ns));
    assert_true(got.event.ended_ns >= got.event.began_ns);
    assert_true(got.event.ended_ns <= now_in_ns());
    return got;
}

static unsigned granted_in(const struct recorded *got) {
    unsigned granted = 0;
    for (size_t i = 0; i < got->event.nodes; i++)
        granted += got->verdicts[i] == REDLOCK_VERDICT_GRANTED;
    return granted;
}

static void set_everywhere(struct servers *servers, const char *text) {
    for (unsigned i = 0; i < servers->count; i++)
        freeReplyObject(server_ask(&servers->at[i], text));
}

/* ---- events ---- */

static void a_lock_from_beginning_to_end(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 2000;
    options.key_prefix = "prefix:";
    struct redlock_client *client = open_client(&three, &options);
    struct recorder recorder;
    observe(client, &recorder);
    struct redlock_lock_options lock_settings = lock_options(TTL_MS);
    lock_settings.renew = 0;
    struct redlock_lock *lock = new_lock(client, "events", &lock_settings);
    int64_t from = now_in_ns();
    assert_result(redlock_try(lock), REDLOCK_OK);
    struct recorded got = assert_one(&recorder, 0, REDLOCK_EVENT_ACQUIRED, REDLOCK_OK, from);
    assert_ptr_equal(got.event.lock, lock);
    assert_int_equal(got.event.resources_count, 1);
    assert_string_equal(got.resources[0], "events"); /* without the prefix */
    assert_int_equal(got.event.fence, 0);
    assert_int_equal(got.event.nodes, 3);
    assert_true(granted_in(&got) >= 2);
    assert_int_equal(got.event.tries, 1);
    assert_int_equal(got.event.acquired_ns, got.event.ended_ns);
    assert_int_equal(got.event.validity_end_ns, redlock_validity_end_ns(lock));
    const int64_t acquired_ns = got.event.acquired_ns;

    from = now_in_ns();
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    got = assert_one(&recorder, 1, REDLOCK_EVENT_EXTENDED, REDLOCK_OK, from);
    assert_int_equal(got.event.acquired_ns, acquired_ns);
    assert_int_equal(got.event.validity_end_ns, redlock_validity_end_ns(lock));
    assert_true(got.event.validity_end_ns > acquired_ns + TTL_MS / 2 * INT64_C(1000000));
    assert_true(granted_in(&got) >= 2);

    from = now_in_ns();
    assert_result(redlock_release(lock), REDLOCK_OK);
    got = assert_one(&recorder, 2, REDLOCK_EVENT_RELEASED, REDLOCK_OK, from);
    assert_int_equal(got.event.acquired_ns, acquired_ns);
    assert_true(granted_in(&got) >= 2);
    assert_int_equal(got.event.tries, 0);

    assert_result(redlock_client_observe(client, NULL, NULL), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(recorded_of(&recorder), 3);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void an_acquisition_that_fails(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct recorder recorder;
    observe(client, &recorder);
    set_everywhere(&three, "SET taken another PX 60000");
    struct redlock_lock *lock = new_lock(client, "taken", NULL);
    int64_t from = now_in_ns();
    assert_result(redlock_acquire(lock, 400), REDLOCK_HELD);
    struct recorded got = assert_one(&recorder, 0, REDLOCK_EVENT_FAILED, REDLOCK_HELD, from);
    assert_true(got.event.ended_ns - got.event.began_ns >= INT64_C(400000000));
    assert_true(got.event.tries >= 1);
    assert_int_equal(got.event.acquired_ns, 0);
    assert_int_equal(got.event.validity_end_ns, 0);
    int denied = 0;
    for (int i = 0; i < 3; i++) denied += got.verdicts[i] == REDLOCK_VERDICT_DENIED;
    assert_true(denied >= 2);
    /* what is refused before it begins has no event */
    assert_result(redlock_acquire(lock, -2), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(recorded_of(&recorder), 1);
    redlock_lock_free(lock);
    set_everywhere(&three, "DEL taken");
    redlock_client_free(client);
}

static void a_lock_that_is_lost(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_client *client = open_calm(&three);
    struct recorder recorder;
    observe(client, &recorder);
    struct redlock_lock_options options = notices_options(1500, &notices);
    struct redlock_lock *lock = new_lock(client, "lost", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    const int64_t acquired_ns = last(&recorder).event.acquired_ns;
    wait_until(count_of(&recorder, REDLOCK_EVENT_EXTENDED) > 0, SOON_MS); /* a renewal */
    assert_result(last(&recorder).event.result, REDLOCK_OK);
    set_everywhere(&three, "DEL lost");
    wait_until(notices.count[REDLOCK_CHANGE_LOST] > 0, SOON_MS);
    assert_int_equal(count_of(&recorder, REDLOCK_EVENT_LOST), 1);
    struct recorded got = last(&recorder);
    assert_int_equal(got.event.kind, REDLOCK_EVENT_LOST);
    assert_int_equal(got.event.began_ns, acquired_ns);
    assert_int_equal(got.event.acquired_ns, acquired_ns);
    int absent = 0;
    for (int i = 0; i < 3; i++) absent += got.verdicts[i] == REDLOCK_VERDICT_ABSENT;
    assert_true(absent >= 2);
    int before = recorded_of(&recorder);
    int64_t from = now_in_ns();
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_one(&recorder, before, REDLOCK_EVENT_RELEASED, REDLOCK_LOST, from);
    redlock_lock_free(lock);
    const struct redlock_stats stats = stats_of(client);
    assert_int_equal(stats.held.count, 1);
    assert_int_equal(stats.validity_left.count, 0); /* nothing was left */
    assert_int_equal(stats.lost, 1);
    redlock_client_free(client);
}

/* Two of three servers do not answer: the renewal fails, and its event names them. */
static void a_renewal_that_fails(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_client *client = open_calm(&three);
    struct recorder recorder;
    observe(client, &recorder);
    struct redlock_lock_options options = notices_options(3000, &notices);
    struct redlock_lock *lock = new_lock(client, "unsure", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    server_pause(&three.at[1]);
    server_pause(&three.at[2]);
    wait_until(notices.count[REDLOCK_CHANGE_UNSURE] > 0, SOON_MS);
    struct recorded got = last(&recorder);
    server_resume(&three.at[1]);
    server_resume(&three.at[2]);
    assert_int_equal(got.event.kind, REDLOCK_EVENT_EXTENDED);
    assert_result(got.event.result, REDLOCK_NO_QUORUM);
    assert_verdict(got.verdicts[1], REDLOCK_VERDICT_TIMEOUT);
    assert_verdict(got.verdicts[2], REDLOCK_VERDICT_TIMEOUT);
    assert_true(got.event.ended_ns - got.event.began_ns >= INT64_C(300000000)); /* node timeout */
    assert_true(got.event.validity_end_ns > got.event.ended_ns);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void locks_that_end_otherwise(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct recorder recorder;
    observe(client, &recorder);
    const struct redlock_bytes both[] = {{"first", 5}, {"second", 6}};
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    assert_result(redlock_lock_new_multi(client, both, 2, NULL, &lock, &error), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    struct recorded got = last(&recorder);
    assert_int_equal(got.event.resources_count, 2);
    assert_string_equal(got.resources[0], "first");
    assert_string_equal(got.resources[1], "second");
    char token[REDLOCK_TOKEN_HEX_BYTES];
    memcpy(token, redlock_token(lock).data, sizeof token);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_one(&recorder, 1, REDLOCK_EVENT_DISOWNED, REDLOCK_OK, got.event.acquired_ns);
    assert_int_equal(stats_of(client).held.count, 0);

    int64_t adopted = now_in_ns();
    assert_result(redlock_lock_adopt(lock, token, sizeof token), REDLOCK_OK);
    assert_int_equal(recorded_of(&recorder), 2);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    got = assert_one(&recorder, 2, REDLOCK_EVENT_EXTENDED, REDLOCK_OK, adopted);
    assert_true(got.event.acquired_ns >= adopted);

    int64_t from = now_in_ns();
    redlock_lock_free(lock); /* nobody waits for the answers */
    got = assert_one(&recorder, 3, REDLOCK_EVENT_RELEASED, REDLOCK_NO_QUORUM, from);
    assert_true(got.event.acquired_ns >= adopted);
    const struct redlock_stats stats = stats_of(client);
    assert_int_equal(stats.held.count, 1);
    assert_int_equal(stats.validity_left.count, 1);
    redlock_client_free(client);
}

static void cancelled_once(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    assert_result(result, REDLOCK_CANCELLED);
    ++*(int *)context;
}

static void an_acquisition_whose_lock_is_freed(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct recorder recorder;
    observe(client, &recorder);
    set_everywhere(&three, "SET freed another PX 60000");
    struct redlock_lock *lock = new_lock(client, "freed", NULL);
    int64_t from = now_in_ns();
    int ended = 0;
    assert_result(redlock_acquire_start(lock, REDLOCK_WAIT_FOREVER, cancelled_once, &ended),
                  REDLOCK_OK);
    nap_ms(20);
    redlock_lock_free(lock);
    assert_int_equal(ended, 1);
    assert_one(&recorder, 0, REDLOCK_EVENT_FAILED, REDLOCK_CANCELLED, from);
    set_everywhere(&three, "DEL freed");
    redlock_client_free(client);
}

static void a_guarded_lock_has_its_fence(void **state) {
    (void)state;
    struct servers quorum;
    start_quorum(&quorum, 3, TTL_MS);
    struct redlock_client *client = open_guarded(&quorum);
    struct recorder recorder;
    observe(client, &recorder);
    struct redlock_lock_options options = lock_options(TTL_MS);
    struct redlock_lock *lock = new_lock(client, "fenced", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    int64_t fence = redlock_fence(lock);
    assert_true(fence > 0);
    assert_int_equal(last(&recorder).event.fence, fence);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(last(&recorder).event.kind, REDLOCK_EVENT_RELEASED);
    assert_int_equal(last(&recorder).event.fence, fence);
    redlock_lock_free(lock);
    redlock_client_free(client);
    servers_stop(&quorum);
}

/* ---- histograms ---- */

static void assert_whole(const struct redlock_histogram *histogram, uint64_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS; i++) sum += histogram->buckets[i];
    assert_int_equal(histogram->count, count);
    assert_int_equal(sum, count);
}

static void histograms_of_what_was_done(void **state) {
    (void)state;
    enum { TIMES = 10, HOLD_MS = 30 };
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock_options options = lock_options(TTL_MS);
    struct redlock_lock *lock = new_lock(client, "counted", &options);
    double from = now_ms();
    for (int i = 0; i < TIMES; i++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        nap_ms(HOLD_MS);
        assert_result(redlock_release(lock), REDLOCK_OK);
    }
    const double took_ns = (now_ms() - from) * 1e6;
    const struct redlock_stats stats = stats_of(client);
    assert_whole(&stats.waited, TIMES);
    assert_whole(&stats.held, TIMES);
    assert_whole(&stats.validity_left, TIMES);
    assert_whole(&stats.handed_over, 0);
    assert_less(TIMES * HOLD_MS * 1e6 - 1, stats.held.sum_ns);
    assert_less(stats.held.sum_ns + stats.waited.sum_ns, took_ns);
    /* the TTL, less the drift and the hold */
    assert_less(stats.validity_left.sum_ns, TIMES * (TTL_MS * 0.99 - HOLD_MS) * 1e6);
    assert_less(TIMES * (TTL_MS * 0.5) * 1e6, stats.validity_left.sum_ns);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

struct waiting {
    struct redlock_lock *lock;
    int result;
};

static void *acquire_it(void *argument) {
    struct waiting *waiting = argument;
    waiting->result = redlock_acquire(waiting->lock, REDLOCK_WAIT_FOREVER);
    return NULL;
}

static bool is_waited_for(const char *resource) {
    long long count = 0;
    for (unsigned i = 0; i < three.count; i++)
        count += server_ask_integer(&three.at[i], "ZCARD redlock:waiting:%s", resource);
    return count > 0;
}

/* The client that waits takes the lock over, and only its histogram has that. */
static void a_hand_over_is_measured(void **state) {
    (void)state;
    enum { HOLD_MS = 600 };
    struct redlock_client *holder = open_calm(&three), *client = open_calm(&three);
    struct redlock_lock_options options = lock_options(TTL_MS);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 15000; /* polls come too late */
    struct redlock_lock *held = new_lock(holder, "handed", &options);
    struct waiting waiting = {.lock = new_lock(client, "handed", &options)};
    pthread_t thread;
    assert_result(redlock_try(held), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, acquire_it, &waiting), 0);
    wait_until(is_waited_for("handed"), SOON_MS);
    nap_ms(HOLD_MS);
    assert_result(redlock_release(held), REDLOCK_OK);
    pthread_join(thread, NULL);
    assert_result(waiting.result, REDLOCK_OK);
    const struct redlock_stats stats = stats_of(client), others = stats_of(holder);
    assert_whole(&stats.handed_over, 1);
    assert_whole(&others.handed_over, 0);
    assert_less(HOLD_MS * 1e6, stats.waited.sum_ns);
    assert_less(stats.handed_over.sum_ns + HOLD_MS * UINT64_C(1000000), stats.waited.sum_ns);
    assert_result(redlock_release(waiting.lock), REDLOCK_OK);
    redlock_lock_free(waiting.lock);
    redlock_lock_free(held);
    redlock_client_free(client);
    redlock_client_free(holder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_from_beginning_to_end),
        cmocka_unit_test(an_acquisition_that_fails),
        cmocka_unit_test(a_lock_that_is_lost),
        cmocka_unit_test(a_renewal_that_fails),
        cmocka_unit_test(locks_that_end_otherwise),
        cmocka_unit_test(an_acquisition_whose_lock_is_freed),
        cmocka_unit_test(a_guarded_lock_has_its_fence),
        cmocka_unit_test(histograms_of_what_was_done),
        cmocka_unit_test(a_hand_over_is_measured),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
