/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Events for many subscribers, worked off in short turns: who gets them, in which order, and who is
 * closed when there are too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "connection/connection.h"
#include "run/parts.h"

enum { CLIENTS = 8 };

static unsigned said;

static void say(const char *format, ...) {
    (void)format;
    said++;
}

static const struct serve_options options = {
    .connections_max = CLIENTS, .client_bytes_max = (size_t)256 << 20, .say = say};

struct fixture {
    struct gateway gateway;
    struct gateway_parts parts;
    struct connection *clients[CLIENTS];
    int ends[CLIENTS]; /* the clients' */
};

static void open_all(struct fixture *fixture) {
    static const struct sockaddr address = {.sa_family = AF_UNIX};
    struct gateway *gateway = &fixture->gateway;
    said = 0;
    memset(fixture, 0, sizeof *fixture);
    gateway_join(gateway, &fixture->parts);
    gateway->options = &options;
    gateway->base = event_base_new();
    assert_true(key_ops_open(gateway) && notifications_open(gateway) && connections_open(gateway));
    for (size_t i = 0; i < CLIENTS; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        fixture->ends[i] = pair[0];
        connection_open(gateway, pair[1], &address);
        fixture->clients[i] = gateway->connections;
    }
}

static void close_all(struct fixture *fixture) {
    struct gateway *gateway = &fixture->gateway;
    connections_close(gateway);
    assert_int_equal(gateway->channels->subscriptions, 0);
    assert_null(gateway->channels->names);
    assert_null(gateway->channels->prefixes);
    key_ops_close(gateway);
    notifications_close(gateway);
    event_base_free(gateway->base);
    for (size_t i = 0; i < CLIENTS; i++) close(fixture->ends[i]);
}

static struct bytes bytes_of(const char *text) { return (struct bytes){text, strlen(text)}; }

static void subscribe(struct fixture *fixture, size_t client, const char *name, bool is_pattern) {
    assert_null(channel_subscribe(fixture->clients[client], bytes_of(name), is_pattern));
}

static void turn(struct fixture *fixture) {
    event_base_loop(fixture->gateway.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

static bool is_busy(const struct fixture *fixture) {
    const struct notifications *notifications = fixture->gateway.notifications;
    if (!STAILQ_EMPTY(&notifications->queue) || !TAILQ_EMPTY(&notifications->unsent)) return true;
    for (const struct connection *one = fixture->gateway.connections; one != NULL;
         one = one->next) {
        if (connection_is_open(one) && evbuffer_get_length(one->reply.out) > 0) return true;
    }
    return false;
}

/* Appends what the client was sent. False: the gateway has closed it. */
static bool read_client(const struct fixture *fixture, size_t client, char *text, size_t size) {
    size_t used = strlen(text);
    ssize_t count;
    while ((count = read(fixture->ends[client], text + used, size - used - 1)) > 0)
        text[used += (size_t)count] = '\0';
    return count < 0;
}

/* Not with strstr(3): under the address sanitizer each call looks for the end of the whole text. */
static size_t messages_in(const char *text) {
    static const char begin[] = "\r\nmessage\r\n";
    size_t count = 0;
    for (; *text != '\0'; text++)
        if (*text == begin[0] && strncmp(text, begin, sizeof begin - 1) == 0) count++;
    return count;
}

static void is_told_in_the_order_of_events(void **state) {
    static char text[1 << 20], wanted[1 << 20];
    struct fixture fixture;
    char *at = wanted;
    (void)state;
    open_all(&fixture);
    text[0] = '\0';
    subscribe(&fixture, 0, "__keyevent@0__:del", false);
    subscribe(&fixture, 0, "__keyspace@0__:a*", true);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "a%03d", i);
        notify(&fixture.gateway, bytes_of(key), "del");
        at += sprintf(
            at,
            "*4\r\n$8\r\npmessage\r\n$17\r\n__keyspace@0__:a*\r\n$19\r\n__keyspace@0__:%s\r\n"
            "$3\r\ndel\r\n*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:del\r\n$4\r\n%s\r\n",
            key, key);
    }
    while (is_busy(&fixture)) {
        turn(&fixture);
        assert_true(read_client(&fixture, 0, text, sizeof text));
    }
    assert_string_equal(text, wanted);
    close_all(&fixture);
}

static void who_comes_later_is_not_told(void **state) {
    struct fixture fixture;
    char text[1024] = "";
    (void)state;
    open_all(&fixture);
    subscribe(&fixture, 0, "*", true);
    notify(&fixture.gateway, bytes_of("before"), "del");
    subscribe(&fixture, 1, "__keyevent@0__:del", false);
    notify(&fixture.gateway, bytes_of("behind"), "del");
    while (is_busy(&fixture)) {
        char ignored[1024] = "";
        turn(&fixture);
        read_client(&fixture, 0, ignored, sizeof ignored);
    }
    assert_true(read_client(&fixture, 1, text, sizeof text));
    assert_null(strstr(text, "before"));
    assert_non_null(strstr(text, "behind"));
    close_all(&fixture);
}

/* As costly as patterns can be: they compare for long, and match nothing. */
static void subscribe_costly(struct fixture *fixture, size_t client) {
    char pattern[CHANNEL_PATTERN_BYTES_MAX + 1];
    for (int i = 0; i < CHANNEL_WILD_BYTES_MAX / CHANNEL_PATTERN_BYTES_MAX; i++) {
        memset(pattern, 'a', sizeof pattern);
        snprintf(pattern + sizeof pattern - 4, 4, "b%02d", i);
        pattern[0] = '*';
        subscribe(fixture, client, pattern, true);
    }
}

static void one_turn_is_short(void **state) {
    static char key[1000];
    struct fixture fixture;
    (void)state;
    open_all(&fixture);
    subscribe_costly(&fixture, 0);
    memset(key, 'a', sizeof key - 1);
    for (int i = 0; i < 100; i++) notify(&fixture.gateway, bytes_of(key), "expired");
    const size_t before = fixture.gateway.notifications->bytes;
    turn(&fixture);
    assert_true(fixture.gateway.notifications->bytes > before / 2);
    close_all(&fixture);
}

static void the_costly_one_makes_room(void **state) {
    static char text[8 << 20];
    static char key[1000];
    struct fixture fixture;
    struct gateway *gateway = &fixture.gateway;
    size_t events = 0;
    (void)state;
    open_all(&fixture);
    text[0] = '\0';
    subscribe_costly(&fixture, 0);
    subscribe(&fixture, 1, "__keyevent@0__:expired", false);
    memset(key, 'a', sizeof key - 1);
    for (; events < 50; events++) notify(gateway, bytes_of(key), "expired");
    for (int i = 0; i < 20; i++) turn(&fixture);
    assert_true(is_busy(&fixture));
    for (; !notifications_are_many(gateway); events++) notify(gateway, bytes_of(key), "expired");
    assert_int_equal(gateway->metrics.refusals[REFUSED_NOTIFICATIONS], 0);
    while (gateway->metrics.refusals[REFUSED_NOTIFICATIONS] == 0) {
        notify(gateway, bytes_of(key), "expired");
        events++;
    }
    while (is_busy(&fixture)) {
        turn(&fixture);
        assert_true(read_client(&fixture, 1, text, sizeof text));
    }
    assert_int_equal(messages_in(text), events);
    assert_int_equal(gateway->metrics.refusals[REFUSED_NOTIFICATIONS], 1);
    assert_int_equal(said, 1);
    text[0] = '\0';
    assert_false(read_client(&fixture, 0, text, sizeof text));
    assert_non_null(strstr(text, "-ERR more locks end than"));
    close_all(&fixture);
}

/* Both want the same; one does not read, and takes turns from the other. */
static void the_slow_one_makes_room(void **state) {
    static char text[8 << 20];
    struct fixture fixture;
    struct gateway *gateway = &fixture.gateway;
    const uint64_t *closed = &gateway->metrics.refusals[REFUSED_NOTIFICATIONS];
    size_t events = 0;
    (void)state;
    open_all(&fixture);
    text[0] = '\0';
    for (size_t i = 0; i < 2; i++) subscribe(&fixture, i, "__keyevent@0__:del", false);
    while (*closed == 0) {
        notify(gateway, bytes_of("key"), "del");
        if (++events % 100 != 0 || *closed > 0) continue;
        turn(&fixture);
        assert_true(read_client(&fixture, 1, text, sizeof text));
    }
    while (is_busy(&fixture)) {
        turn(&fixture);
        assert_true(read_client(&fixture, 1, text, sizeof text));
    }
    assert_int_equal(messages_in(text), events);
    assert_int_equal(*closed, 1);
    assert_int_equal(gateway->metrics.refusals[REFUSED_SLOW], 0);
    assert_int_equal(gateway->connections_count, CLIENTS - 1);
    close_all(&fixture);
}

/* Clients subscribe and leave while the gateway delivers an event. It keeps no pointer to a
 * subscription that is gone. */
static void comings_and_goings(void **state) {
    static const char *const names[] = {
        "*",   "__keyspace@0__:*",  "__key*",    "__keyspace@0__:a?", "_[_]key*", "__keyevent*",
        "*a1", "__keyspace@0__:a1", "__keyev?*", "__keyevent@0__:del"};
    enum { NAMES = sizeof names / sizeof names[0] };
    static char text[1 << 16];
    struct fixture fixture;
    (void)state;
    open_all(&fixture);
    srand(1);
    for (int i = 0; i < 20000; i++) {
        const size_t client = (size_t)(rand() % CLIENTS);
        const struct bytes name = bytes_of(names[rand() % NAMES]);
        struct connection *one = fixture.clients[client];
        const bool is_pattern = rand() % 4 > 0;
        if (one != NULL && rand() % 2 == 0)
            channel_subscribe(one, name, is_pattern);
        else if (one != NULL)
            channel_unsubscribe(one, name, is_pattern);
        if (one != NULL && rand() % 3000 == 0) {
            connection_close(one);
            fixture.clients[client] = NULL;
        }
        for (int j = rand() % 8; j > 0; j--) notify(&fixture.gateway, bytes_of("a1"), "del");
        if (rand() % 4 == 0) turn(&fixture);
        for (size_t j = 0; j < CLIENTS; j++) {
            text[0] = '\0';
            if (fixture.clients[j] != NULL && !read_client(&fixture, j, text, sizeof text))
                fixture.clients[j] = NULL;
        }
    }
    close_all(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_told_in_the_order_of_events),
                                       cmocka_unit_test(who_comes_later_is_not_told),
                                       cmocka_unit_test(one_turn_is_short),
                                       cmocka_unit_test(the_costly_one_makes_room),
                                       cmocka_unit_test(the_slow_one_makes_room),
                                       cmocka_unit_test(comings_and_goings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
