/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Holders that are killed, stopped or limited, and those who wait for them.
 */
#include "fixtures.h"
#include "notices.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a holder in a process of its own ---- */

struct holder {
    pid_t pid;
    int asks, reports; /* our ends */
};

/* What it says, one letter each: 'h'eld, and what on_change tells. */
static void say_change(void *context, struct redlock_lock *lock, int change) {
    static const char letters[] = {[REDLOCK_CHANGE_RENEWED] = 'r',
                                   [REDLOCK_CHANGE_UNSURE] = 'u',
                                   [REDLOCK_CHANGE_SURE] = 's',
                                   [REDLOCK_CHANGE_LOST] = 'l'};
    (void)lock;
    if (write(*(int *)context, &letters[change], 1) != 1) _exit(1);
}

struct report {
    int state, extend, release;
    int64_t validity_ms;
};

/* Never returns. Not a test of its own: whatever fails here shows as a missing letter. */
static void hold(const char *resource, int64_t ttl_ms, int asked, int reporting) {
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_lock_options options = lock_options(ttl_ms);
    struct redlock_client_options client_options;
    char question;
    redlock_client_options_init(&client_options);
    client_options.node_timeout_ms = 150;
    options.on_change = say_change;
    options.on_change_context = &reporting;
    if (redlock_client_open(five.urls, &client_options, &client, NULL) != REDLOCK_OK) _exit(1);
    if (redlock_lock_new(client, resource, strlen(resource), &options, &lock, NULL) != REDLOCK_OK)
        _exit(1);
    if (redlock_try(lock) != REDLOCK_OK || write(reporting, "h", 1) != 1) _exit(1);
    if (read(asked, &question, 1) != 1) _exit(1);
    struct report report = {.state = (int)redlock_lock_state(lock),
                            .validity_ms = redlock_validity_ms(lock)};
    report.extend = redlock_extend(lock, 0);
    report.release = redlock_release(lock);
    _exit(write(reporting, &report, sizeof report) == sizeof report ? 0 : 1);
}

static char next_letter(struct holder *holder) {
    char letter = 0;
    if (read(holder->reports, &letter, 1) != 1) fail_msg("the holder's process has ended");
    return letter;
}

static struct holder start_holder(const char *resource, int64_t ttl_ms) {
    int ask[2], report_us[2];
    assert_int_equal(pipe(ask), 0);
    assert_int_equal(pipe(report_us), 0);
    struct holder holder = {.asks = ask[1], .reports = report_us[0]};
    holder.pid = fork();
    if (holder.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ask[1]);
        hold(resource, ttl_ms, ask[0], report_us[1]);
    }
    close(ask[0]);
    close(report_us[1]);
    assert_true(holder.pid > 0);
    assert_int_equal(next_letter(&holder), 'h');
    return holder;
}

static void end_holder(struct holder *holder) {
    kill(holder->pid, SIGKILL);
    waitpid(holder->pid, NULL, 0);
    close(holder->asks);
    close(holder->reports);
}

/* When the key ends on the third of five: before that nobody else can have a majority. */
static double majority_ends_at(const char *key) {
    long long left[5];
    double now = now_ms();
    for (int i = 0; i < 5; i++) {
        left[i] = server_ask_integer(&five.at[i], "PTTL %s", key);
        for (int j = i; j > 0 && left[j] < left[j - 1]; j--) {
            long long swap = left[j];
            left[j] = left[j - 1];
            left[j - 1] = swap;
        }
    }
    return now + (double)left[2];
}

static void a_waiter_gets_in_when_a_killed_holders_ttl_ends(void **state) {
    (void)state;
    struct holder holder = start_holder("killed", 1200);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "killed", NULL);
    assert_int_equal(next_letter(&holder), 'r'); /* it renews */
    end_holder(&holder);
    double end = majority_ends_at("killed");
    assert_less(now_ms(), end);
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK);
    double got = now_ms();
    assert_less(end - 20, got);
    assert_less(got, end + 300);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_holder_stopped_past_its_ttl_is_told_lost_first_thing(void **state) {
    (void)state;
    struct holder holder = start_holder("stopped", 600);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "stopped", NULL);
    struct report report;
    kill(holder.pid, SIGSTOP);
    waitpid(holder.pid, NULL, WUNTRACED);
    assert_result(redlock_acquire(lock, 3000), REDLOCK_OK);
    /* The holder's keys need not end at the same time, so some nodes may have denied. The last of
     * them must not count as ours. */
    nap_ms(650);
    unsigned held = servers_holding(&five, "stopped");
    assert_true(held >= 3);
    kill(holder.pid, SIGCONT);
    double woken = now_ms();
    char letter;
    while ((letter = next_letter(&holder)) == 'r' && now_ms() - woken < 1)
        continue; /* of before the stop */
    assert_int_equal(letter, 'l');
    assert_less(now_ms() - woken, 300);
    assert_int_equal(write(holder.asks, "?", 1), 1);
    assert_int_equal(read(holder.reports, &report, sizeof report), sizeof report);
    assert_int_equal(report.state, REDLOCK_STATE_LOST);
    assert_int_equal(report.validity_ms, 0);
    assert_int_equal(report.extend, REDLOCK_LOST);
    assert_int_equal(report.release, REDLOCK_LOST);
    end_holder(&holder);
    nap_ms(50);
    assert_true(servers_holding(&five, "stopped") >= held);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- limits of holding ---- */

static void a_maximum_hold_ends_the_lease_within_it(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(900, &notices);
    options.hold_ms_max = 1600;
    options.lost_margin_ms = 250;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "hold", &options);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_OK);
    double held = now_ms();
    assert_result(redlock_extend(lock, 5000), REDLOCK_LIMIT);
    double end = validity_end_until_lost(lock, &notices, 3000);
    assert_less(end, held + 1600);
    assert_less(began + 1000, end); /* it was renewed at all */
    assert_less(notices.first[REDLOCK_CHANGE_LOST], end);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 0);
    nap_ms(350);
    assert_int_equal(servers_holding(&five, "hold"), 0);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Less than the margin that a TTL of this length has by default. */
static void a_hold_may_be_short(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(30000);
    options.hold_ms_max = 900;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "brief", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_in_range(redlock_validity_ms(lock), 1, 900);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_maximum_count_of_renewals_ends_the_lease(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(900, &notices);
    options.renew_count_max = 2;
    options.lost_margin_ms = 250;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "count", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] == 2, 1500);
    assert_result(redlock_extend(lock, 0), REDLOCK_LIMIT);
    double end = validity_end_until_lost(lock, &notices, 2000);
    assert_less(notices.first[REDLOCK_CHANGE_LOST], end);
    assert_int_equal(notices.count[REDLOCK_CHANGE_RENEWED], 2);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 0);
    assert_result(redlock_release(lock),
                  REDLOCK_OK); /* told lost by the margin early, so the keys are still there */
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- waiting ---- */

static void set_everywhere(const char *key, int ttl_ms) {
    for (int i = 0; i < 5; i++)
        freeReplyObject(server_ask(&five.at[i], "SET %s another PX %d", key, ttl_ms));
}

static void retries_are_bounded_by_a_count(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_count_max = 3;
    options.retry_delay_ms_min = 10;
    options.retry_delay_ms_max = 20;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "retries", &options);
    set_everywhere("retries", 30000);
    assert_result(redlock_acquire(lock, REDLOCK_WAIT_FOREVER), REDLOCK_HELD);
    assert_int_equal(stats_of(client).attempts, 4);
    assert_int_equal(stats_of(client).retries, 3);
    assert_int_equal(stats_of(client).acquired, 0);
    assert_int_equal(servers_holding(&five, "retries"), 5);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void waiting_is_bounded_by_a_deadline(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "deadline", NULL);
    set_everywhere("deadline", 30000);
    double began = now_ms();
    assert_result(redlock_acquire(lock, 400), REDLOCK_HELD);
    assert_less(399, now_ms() - began);
    assert_less(now_ms() - began, 600);
    began = now_ms();
    assert_result(redlock_acquire(lock, 0), REDLOCK_HELD);
    assert_less(now_ms() - began, 100);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void the_holders_ttl_shortens_a_waiters_sleep(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 5000;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "hint", &options);
    double began = now_ms();
    set_everywhere("hint", 300);
    double end = now_ms() + 300;
    assert_result(redlock_acquire(lock, 10000), REDLOCK_OK);
    assert_less(began + 299, now_ms());
    assert_less(now_ms(), end + 1000); /* it would have slept for 5 s */
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* ---- cancelling ---- */

struct canceller {
    struct redlock_lock *lock;
    long after_ms;
    double at;
};

static void *cancel(void *argument) {
    struct canceller *canceller = argument;
    nap_ms(canceller->after_ms);
    canceller->at = now_ms();
    redlock_cancel(canceller->lock);
    return NULL;
}

/* How long after the cancellation the blocked call returned. */
static double cancelled_after_ms(struct redlock_lock *lock, long after_ms) {
    struct canceller canceller = {.lock = lock, .after_ms = after_ms};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel, &canceller), 0);
    int result = redlock_acquire(lock, REDLOCK_WAIT_FOREVER);
    double returned = now_ms();
    pthread_join(thread, NULL);
    assert_result(result, REDLOCK_CANCELLED);
    return returned - canceller.at;
}

static void cancelling_a_sleeping_waiter(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "sleeping", &options);
    set_everywhere("sleeping", 30000);
    assert_less(cancelled_after_ms(lock, 100), 100);
    for (int i = 0; i < 5; i++) freeReplyObject(server_ask(&five.at[i], "DEL sleeping"));
    nap_ms(50);
    assert_int_equal(servers_holding(&five, "sleeping"), 0);
    redlock_cancel(lock); /* harmless, and forgotten */
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_cancel(lock);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* A cancelled caller's releases go out all the same: also to those who have not answered yet. */
static void cancelling_while_voting_leaves_no_key(void **state) {
    (void)state;
    struct redlock_client_options client_options;
    redlock_client_options_init(&client_options);
    client_options.node_timeout_ms = 600;
    struct redlock_client *client = open_client(&five, &client_options);
    struct redlock_lock *lock = new_lock(client, "voting", NULL);
    for (int i = 0; i < 3; i++) server_pause(&five.at[i]);
    assert_less(cancelled_after_ms(lock, 200), 600 + 150);
    assert_int_equal(servers_holding(&five, "voting"), 0);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_FREE);
    for (int i = 0; i < 3; i++) server_resume(&five.at[i]);
    wait_until(nodes_ready(client) == 5, 2000);
    assert_int_equal(servers_holding(&five, "voting"), 0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&five, "voting"), 0);
}

/* Freed while stopped nodes owe an answer: the same. */
static void freeing_a_held_lock_leaves_no_key(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "freed", NULL);
    server_pause(&five.at[0]);
    server_pause(&five.at[1]);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    server_resume(&five.at[0]);
    server_resume(&five.at[1]);
    wait_until(nodes_ready(client) == 5, 2000);
    assert_int_equal(servers_holding(&five, "freed"), 0);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_gets_in_when_a_killed_holders_ttl_ends),
        cmocka_unit_test(a_holder_stopped_past_its_ttl_is_told_lost_first_thing),
        cmocka_unit_test(a_maximum_hold_ends_the_lease_within_it),
        cmocka_unit_test(a_hold_may_be_short),
        cmocka_unit_test(a_maximum_count_of_renewals_ends_the_lease),
        cmocka_unit_test(retries_are_bounded_by_a_count),
        cmocka_unit_test(waiting_is_bounded_by_a_deadline),
        cmocka_unit_test(the_holders_ttl_shortens_a_waiters_sleep),
        cmocka_unit_test(cancelling_a_sleeping_waiter),
        cmocka_unit_test(cancelling_while_voting_leaves_no_key),
        cmocka_unit_test(freeing_a_held_lock_leaves_no_key),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
