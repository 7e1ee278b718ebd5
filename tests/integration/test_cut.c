/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One-way cuts, in a network namespace of the test's own: requests to a node vanish, or its answers
 * do. Nodes are spoken to as 127.0.0.2, where the cuts are; the test asks its own questions on
 * 127.0.0.1.
 */
#include "notices.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static struct servers five;

/* ---- the namespace ---- */

static bool put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

/* Root may have one; everybody else needs a user namespace around it, in which he is root. */
static bool enter_namespace(void) {
    char map[40];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWNET) == 0) return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (!put("/proc/self/setgroups", "deny") || !put("/proc/self/uid_map", map)) return false;
    snprintf(map, sizeof map, "0 %u 1", gid);
    return put("/proc/self/gid_map", map);
}

static bool loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP;
    up = up && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0) close(fd);
    return up;
}

static bool nft(const char *format, ...) {
    char line[300];
    va_list args;
    int used = snprintf(line, sizeof line, "PATH=\"$PATH:/usr/sbin:/sbin\" nft '");
    va_start(args, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    snprintf(line + used, sizeof line - (size_t)used, "' 2>/dev/null");
    return system(line) == 0; /* the test's own constant commands */
}

static const char *why_not(void) {
    if (!enter_namespace()) return "no network namespace is allowed here";
    if (!loopback_up()) return "the loopback interface cannot be brought up";
    if (!nft("add table ip cut; add chain ip cut in { type filter hook input priority 0; }"))
        return "nft(8) is missing or refused";
    return NULL;
}

static void drop_requests(unsigned node) {
    assert_true(nft("add rule ip cut in ip daddr 127.0.0.2 tcp dport %d drop", five.at[node].port));
}

static void drop_answers(unsigned node) {
    assert_true(nft("add rule ip cut in ip saddr 127.0.0.2 tcp sport %d drop", five.at[node].port));
}

static void heal(void) { assert_true(nft("flush chain ip cut in")); }

/* ---- servers and clients ---- */

static int start_five(void **state) {
    static const char *const arguments[] = {
        "--bind", "127.0.0.1",         "127.0.0.2", "--slowlog-log-slower-than",
        "0",      "--slowlog-max-len", "1000",      NULL};
    (void)state;
    five = (struct servers){.count = 5};
    size_t used = 0;
    for (unsigned i = 0; i < 5; i++) {
        server_start(&five.at[i], arguments);
        used += (size_t)snprintf(five.urls + used, sizeof five.urls - used,
                                 "%sredis://127.0.0.2:%d", i ? "," : "", five.at[i].port);
    }
    return 0;
}

static int stop_five(void **state) {
    (void)state;
    heal();
    servers_stop(&five);
    return 0;
}

static struct redlock_client *open_stalling(int64_t stall_timeout_ms) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 100;
    options.stall_timeout_ms = stall_timeout_ms;
    struct redlock_client *client = open_client(&five, &options);
    assert_int_equal(nodes_ready(client), 5);
    return client;
}

static struct redlock_lock *new_plain(struct redlock_client *client, const char *resource,
                                      int64_t ttl_ms) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.renew = 0;
    return new_lock(client, resource, &options);
}

/* How many SETs of locks it has executed. The trial of a command that deletes sets a key, too. */
static int sets_of(unsigned node) {
    static const char trial[] = "redlock:waiting:";
    int calls = 0;
    redisReply *log = server_ask(&five.at[node], "SLOWLOG GET 1000");
    for (size_t i = 0; i < log->elements; i++) {
        redisReply *const *words = log->element[i]->element[3]->element;
        calls +=
            strcmp(words[0]->str, "SET") == 0 && strncmp(words[1]->str, trial, strlen(trial)) != 0;
    }
    freeReplyObject(log);
    return calls;
}

/* ---- the cuts ---- */

static void a_release_that_vanishes_leaves_the_key_to_its_ttl(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(300);
    struct redlock_lock *lock = new_plain(client, "vanishes", 2000);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "vanishes") == 5, 500);
    double set = now_ms();
    drop_requests(0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "vanishes") == 1, 500);
    wait_until(servers_holding(&five, "vanishes") == 0, 3000);
    assert_less(now_ms(), set + 2000 + 100);
    assert_less(began + 1900, now_ms()); /* the cut was one */
    heal();
    for (int i = 0; i < 15; i++) {
        nap_ms(100);
        assert_int_equal(servers_holding(&five, "vanishes"), 0);
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_release_is_kept_for_a_node_that_comes_back(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(300);
    struct redlock_lock *lock = new_plain(client, "kept", 30000);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "kept") == 5, 500);
    drop_requests(0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(700); /* the connection is given up meanwhile */
    assert_int_equal(servers_holding(&five, "kept"), 1);
    heal();
    wait_until(servers_holding(&five, "kept") == 0, 4000);
    wait_until(nodes_ready(client) == 5, 2000);
    assert_true(stats_of(client).reconnects >= 1);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_set_on_its_way_is_followed_by_its_release(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(20000);
    struct redlock_lock *lock = new_plain(client, "behind", 30000);
    drop_requests(0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    nap_ms(300);
    assert_int_equal(sets_of(0), 0);
    heal();
    wait_until(nodes_ready(client) == 5, 5000);
    assert_int_equal(sets_of(0), 1); /* it came late, on the same connection */
    assert_int_equal(servers_holding(&five, "behind"), 0);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_held_lock_is_given_to_nodes_that_come_back(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(300);
    struct redlock_lock *lock = new_plain(client, "given", 60000);
    drop_requests(0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(600); /* the connection is given up meanwhile */
    assert_int_equal(servers_holding(&five, "given"), 4);
    heal();
    wait_until(servers_holding(&five, "given") == 5, 4000);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* After a plain close the kernel would go on sending what is queued: the lock would appear after
 * its owner has gone. */
static void a_set_given_up_is_never_executed(void **state) {
    (void)state;
    struct redlock_client *gone = open_stalling(20000), *stays = open_stalling(300);
    struct redlock_lock *left = new_plain(gone, "left", 60000),
                        *held = new_plain(stays, "held", 60000);
    drop_requests(0);
    drop_requests(1);
    assert_result(redlock_try(left), REDLOCK_OK);
    assert_result(redlock_try(held), REDLOCK_OK);
    assert_result(redlock_lock_disown(left), REDLOCK_OK);
    redlock_lock_free(left);
    redlock_client_free(gone);
    nap_ms(600); /* the other client has given up its connections */
    /* a lock that is held is given anew to nodes that come back */
    assert_result(redlock_release(held), REDLOCK_OK);
    heal();
    wait_until(nodes_ready(stays) == 5, 3000);
    nap_ms(2500); /* over the kernel's next attempts */
    assert_int_equal(sets_of(0) + sets_of(1), 0);
    assert_int_equal(servers_holding(&five, "left"), 3);
    assert_int_equal(servers_holding(&five, "held"), 0);
    redlock_lock_free(held);
    redlock_client_free(stays);
}

static void no_quorum_behind_a_cut_leaves_no_key(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(20000);
    struct redlock_lock *lock = new_plain(client, "minority", 60000);
    for (unsigned i = 0; i < 3; i++) drop_requests(i);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_int_equal(servers_holding(&five, "minority"), 0);
    heal();
    wait_until(nodes_ready(client) == 5, 5000);
    assert_int_equal(servers_holding(&five, "minority"), 0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* The SETs take effect, only the answers are lost: what nobody knows of is deleted all the same. */
static void lost_answers_leave_no_key(void **state) {
    (void)state;
    struct redlock_client *client = open_stalling(20000);
    struct redlock_lock *lock = new_plain(client, "answers", 60000);
    for (unsigned i = 0; i < 3; i++) drop_answers(i);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_less(now_ms() - began, 100 + 100 + 150);
    wait_until(servers_holding(&five, "answers") == 0, 3000);
    for (unsigned i = 0; i < 5; i++) assert_int_equal(sets_of(i), 1);
    heal();
    wait_until(nodes_ready(client) == 5, 5000);
    assert_int_equal(servers_holding(&five, "answers"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_lease_lives_through_a_cut_of_two_and_not_of_three(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(1500, &notices);
    options.lost_margin_ms = 300;
    struct redlock_client *client = open_stalling(300);
    struct redlock_lock *lock = new_lock(client, "lease", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    drop_requests(0);
    drop_answers(1);
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] == 3, 3000);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 0);
    drop_requests(2);
    double end = validity_end_until_lost(lock, &notices, 4000);
    assert_less(notices.first[REDLOCK_CHANGE_LOST], end);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 1);
    heal();
    wait_until(nodes_ready(client) == 5, 4000);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_LOST);
    redlock_release(lock);
    wait_until(servers_holding(&five, "lease") == 0, 2000);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_release_that_vanishes_leaves_the_key_to_its_ttl,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_release_is_kept_for_a_node_that_comes_back, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(a_set_on_its_way_is_followed_by_its_release, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(a_held_lock_is_given_to_nodes_that_come_back, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(a_set_given_up_is_never_executed, start_five, stop_five),
        cmocka_unit_test_setup_teardown(no_quorum_behind_a_cut_leaves_no_key, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(lost_answers_leave_no_key, start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_lives_through_a_cut_of_two_and_not_of_three,
                                        start_five, stop_five),
    };
    const char *why = why_not();
    if (why) {
        fprintf(stderr, "skipped: %s\n", why);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
