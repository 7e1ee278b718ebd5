/* SPDX-License-Identifier: BSD-2-Clause
 *
 * More renewals are due than a server does. A server of our own, in a thread: it answers so many
 * scripts a second, one after the other, as a busy one does.
 */
#include "fixtures.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = 4, INPUT = 1 << 20 };

struct peer {
    int fd;
    char input[INPUT];
    size_t bytes;
};

static struct slow {
    int listener, port;
    pthread_t thread;
    struct peer peers[PEERS];
    atomic_uint per_s; /* scripts; 0: as fast as it can */
    atomic_bool stops;
    double free_at; /* when it can begin with the next, in now_ms() */
} slow;

static void say(const struct peer *peer, const char *text) {
    (void)!send(peer->fd, text, strlen(text), MSG_NOSIGNAL);
}

static void answer(const struct peer *peer, const char *command, size_t bytes) {
    static const char info[] = "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
                               "run_id:0123456789012345678901234567890123456789\r\n";
    char text[sizeof info + 32];
    unsigned per_s = slow.per_s;
    if (bytes >= 4 && strncasecmp(command, "INFO", 4) == 0) {
        snprintf(text, sizeof text, "$%zu\r\n%s\r\n", sizeof info - 1, info);
        say(peer, text);
    } else if (bytes >= 13 && strncasecmp(command, "REDLOCK.HELLO", 13) == 0) {
        say(peer, "-ERR unknown command 'REDLOCK.HELLO'\r\n");
    } else if (bytes >= 3 && strncasecmp(command, "SET", 3) == 0) {
        say(peer, "+OK\r\n");
    } else if (bytes >= 7 && strncasecmp(command, "EVALSHA", 7) == 0) {
        double now = now_ms();
        if (slow.free_at < now) slow.free_at = now;
        if (per_s > 0) slow.free_at += 1000.0 / per_s;
        while (per_s > 0 && now_ms() < slow.free_at) usleep(200);
        say(peer, ":1\r\n");
    } else {
        say(peer, ":1\r\n");
    }
}

/* Takes one command off the input. False: it is not whole yet. */
static bool take(struct peer *peer) {
    char *end = peer->input + peer->bytes, *at = peer->input, *first = NULL,
         *line = memchr(at, '\n', peer->bytes);
    size_t first_bytes = 0;
    if (!line) return false;
    long words = strtol(at + 1, NULL, 10);
    at = line + 1;
    for (long i = 0; i < words; i++) {
        if (at >= end || !(line = memchr(at, '\n', (size_t)(end - at)))) return false;
        size_t bytes = (size_t)strtol(at + 1, NULL, 10);
        if (i == 0) first = line + 1, first_bytes = bytes;
        at = line + 1 + bytes + 2;
        if (at > end) return false;
    }
    answer(peer, first, first_bytes);
    peer->bytes = (size_t)(end - at);
    memmove(peer->input, at, peer->bytes);
    return true;
}

static void hear(struct peer *peer) {
    ssize_t got = recv(peer->fd, peer->input + peer->bytes, INPUT - 1 - peer->bytes, MSG_DONTWAIT);
    if (got > 0) {
        peer->bytes += (size_t)got;
    } else if (got == 0 || peer->bytes == INPUT - 1) {
        close(peer->fd);
        peer->fd = -1;
        peer->bytes = 0;
    }
}

static void welcome(void) {
    int fd = accept(slow.listener, NULL, NULL);
    for (int i = 0; i < PEERS && fd >= 0; i++) {
        if (slow.peers[i].fd >= 0) continue;
        slow.peers[i].fd = fd;
        slow.peers[i].bytes = 0;
        return;
    }
    if (fd >= 0) close(fd);
}

static void *serve(void *argument) {
    (void)argument;
    while (!slow.stops) {
        struct pollfd fds[PEERS + 1] = {{.fd = slow.listener, .events = POLLIN}};
        bool more = false;
        for (int i = 0; i < PEERS; i++)
            fds[i + 1] = (struct pollfd){.fd = slow.peers[i].fd, .events = POLLIN};
        for (int i = 0; i < PEERS; i++)
            if (slow.peers[i].fd >= 0) more |= take(&slow.peers[i]);
        poll(fds, PEERS + 1, more ? 0 : 20);
        if (fds[0].revents) welcome();
        for (int i = 0; i < PEERS; i++)
            if (fds[i + 1].revents && slow.peers[i].fd >= 0) hear(&slow.peers[i]);
    }
    return NULL;
}

static int start_slow(void **state) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    (void)state;
    for (int i = 0; i < PEERS; i++) slow.peers[i].fd = -1;
    slow.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(slow.listener, (struct sockaddr *)&address, bytes) != 0 ||
        listen(slow.listener, 8) != 0)
        return -1;
    if (getsockname(slow.listener, (struct sockaddr *)&address, &bytes) != 0) return -1;
    slow.port = ntohs(address.sin_port);
    return pthread_create(&slow.thread, NULL, serve, NULL);
}

static int stop_slow(void **state) {
    (void)state;
    slow.stops = true;
    pthread_join(slow.thread, NULL);
    close(slow.listener);
    return 0;
}

/* ---- what is held there ---- */

struct watch {
    struct redlock_client *client;
    atomic_uint renewed, lost, warnings;
    atomic_uint overloads_at_loss; /* when the first was lost */
};

static struct redlock_stats stats_of(struct redlock_client *client) {
    struct redlock_stats stats = {.size = sizeof stats};
    assert_result(redlock_client_stats(client, &stats), REDLOCK_OK);
    return stats;
}

static void on_change(void *context, struct redlock_lock *lock, int change) {
    struct watch *watch = context;
    (void)lock;
    if (change == REDLOCK_CHANGE_RENEWED) watch->renewed++;
    if (change != REDLOCK_CHANGE_LOST) return;
    if (watch->lost++ == 0) watch->overloads_at_loss = (unsigned)stats_of(watch->client).overloads;
}

static void on_log(void *context, int level, const char *text) {
    struct watch *watch = context;
    if (level == REDLOCK_LOG_WARNING && strstr(text, "renewals do not keep up")) watch->warnings++;
}

static void open_slow(struct watch *watch) {
    struct redlock_client_options options;
    struct redlock_error error = {0};
    char url[64];
    *watch = (struct watch){0};
    slow.per_s = 0;
    redlock_client_options_init(&options);
    options.mode = REDLOCK_MODE_CLASSIC;
    options.log = on_log;
    options.log_context = watch;
    options.log_level = REDLOCK_LOG_WARNING;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", slow.port);
    if (redlock_client_open(url, &options, &watch->client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    assert_int_equal(redlock_client_wait_ready(watch->client, 2000), 1);
}

/* Each is to be renewed once a second. */
static void take_all(struct watch *watch, int64_t ttl_ms, struct redlock_lock **locks,
                     size_t count) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.renew_interval_ms = 1000;
    options.on_change = on_change;
    options.on_change_context = watch;
    make_locks(watch->client, "slow", &options, locks, count);
    if (redlock_acquire_many(locks, count, 5000, NULL) == REDLOCK_OK) return;
    /* A busy machine answers so many at once too late; those that are left, one after another. */
    for (size_t i = 0; i < count; i++) {
        const int state = redlock_lock_state(locks[i]); /* the first may be renewed late already */
        if (state != REDLOCK_STATE_HELD && state != REDLOCK_STATE_UNSURE)
            assert_result(redlock_acquire(locks[i], 5000), REDLOCK_OK);
    }
}

static void end(struct watch *watch, struct redlock_lock **locks, size_t count) {
    slow.per_s = 0;
    free_locks(locks, count);
    redlock_client_free(watch->client);
}

enum { SHORT_MS = 3000, LONG_MS = 60000 };

/* A third of the renewals can be done, which is enough for those that need them. */
static void test_due_soonest_go_first(void **state) {
    enum { SHORT = 200, LONG = 400 };
    static struct redlock_lock *locks[SHORT + LONG];
    static struct watch watch;
    (void)state;
    open_slow(&watch);
    take_all(&watch, LONG_MS, locks, LONG);
    take_all(&watch, SHORT_MS, locks + LONG, SHORT);
    slow.per_s = 200;
    nap_ms(8000);
    printf("%u lost, %u renewed of %d and %d\n", watch.lost, watch.renewed, SHORT, LONG);
    assert_int_equal(watch.lost, 0);
    assert_in_range(watch.renewed, 400, 2000);
    end(&watch, locks, SHORT + LONG);
}

/* Of as many as can be held when each is renewed at the last moment, hardly one is lost: none on a
 * machine that has nothing else to do, and all but two when renewals go out in the order in which
 * they became due. */
static void test_late_but_not_lost(void **state) {
    enum { LOCKS = 250 };
    static struct redlock_lock *locks[LOCKS];
    static struct watch watch;
    (void)state;
    open_slow(&watch);
    take_all(&watch, SHORT_MS, locks, LOCKS);
    slow.per_s = 230;
    nap_ms(8000);
    struct redlock_stats stats = stats_of(watch.client);
    printf("%u lost; %llu needed, %llu done a second\n", watch.lost,
           (unsigned long long)stats.renewals_needed, (unsigned long long)stats.renewals_done);
    assert_in_range(watch.lost, 0, LOCKS / 2);
    assert_in_range(stats.overloads, 1, 1);
    assert_int_equal(watch.warnings, 1);
    assert_in_range(stats.renewals_needed, LOCKS * 9 / 10, LOCKS + 1);
    assert_in_range(stats.renewals_done, 1, 300);
    end(&watch, locks, LOCKS);
}

/* Half of them can be held at best: in the time that is left when all are due so many are
 * renewed. */
static void test_event_before_the_first_loss(void **state) {
    enum { LOCKS = 600 };
    static struct redlock_lock *locks[LOCKS];
    static struct watch watch;
    (void)state;
    open_slow(&watch);
    take_all(&watch, SHORT_MS, locks, LOCKS);
    assert_int_equal(stats_of(watch.client).overloads, 0);
    slow.per_s = 200;
    nap_ms(8000);
    printf("%u of %d lost\n", watch.lost, LOCKS);
    assert_in_range(watch.lost, 1, LOCKS * 9 / 10);
    assert_int_equal(watch.overloads_at_loss, 1);
    end(&watch, locks, LOCKS);
}

/* As fast as it comes: nothing is said. */
static void test_no_event_without_overload(void **state) {
    enum { LOCKS = 600 };
    static struct redlock_lock *locks[LOCKS];
    static struct watch watch;
    (void)state;
    open_slow(&watch);
    take_all(&watch, SHORT_MS, locks, LOCKS);
    nap_ms(2500);
    assert_int_equal(watch.lost, 0);
    assert_in_range(watch.renewed, LOCKS, 3 * LOCKS);
    assert_int_equal(stats_of(watch.client).overloads, 0);
    end(&watch, locks, LOCKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_due_soonest_go_first),
        cmocka_unit_test(test_late_but_not_lost),
        cmocka_unit_test(test_event_before_the_first_loss),
        cmocka_unit_test(test_no_event_without_overload),
    };
    return cmocka_run_group_tests(tests, start_slow, stop_slow);
}
