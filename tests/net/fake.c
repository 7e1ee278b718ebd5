/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void fake_open(struct fake *fake) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    memset(fake, 0, sizeof(*fake));
    fake->peer = -1;
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(fake->listener, 8), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&address, &bytes), 0);
    fake->port = ntohs(address.sin_port);
}

void fake_hang_up(struct fake *fake) {
    if (fake->peer >= 0) close(fake->peer);
    fake->peer = -1;
}

void fake_close(struct fake *fake) {
    fake_hang_up(fake);
    close(fake->listener);
    free(fake->input);
}

void fake_url(const struct fake *fake, char *url, size_t size) {
    snprintf(url, size, "redis://127.0.0.1:%d", fake->port);
}

static void turn(struct world *world, rl_ns end, const char *what) {
    rl_ns now = net_now(world->net);
    if (now >= end) fail_msg("fake node: waited in vain for %s; log:\n%s", what, world->log);
    world_turn(world, now + 2 * RL_MS);
}

/* The clock needs no net: a test may ask how the connection ended after it has closed it. */
static rl_ns patience(struct world *world) { return net_now(world->net) + 5000 * RL_MS; }

void fake_accept(struct fake *fake, struct world *world) {
    rl_ns end = patience(world);
    fake_hang_up(fake);
    fake->seen = fake->bytes = fake->input_bytes = 0;
    while ((fake->peer = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0)
        turn(world, end, "a connection");
    int on = 1; /* what the test says byte by byte must go byte by byte */
    setsockopt(fake->peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Counts whole commands: "*n", then n times "$length" and the bytes. */
static void count_commands(struct fake *fake) {
    for (;;) {
        const char *at = fake->input + fake->bytes, *end = fake->input + fake->input_bytes;
        const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!line) return;
        assert_int_equal(*at, '*');
        long words = strtol(at + 1, NULL, 10);
        for (at = line + 1; words > 0; words--) {
            line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
            if (!line) return;
            assert_int_equal(*at, '$');
            at = line + 1 + strtol(at + 1, NULL, 10) + 2;
            if (at > end) return;
        }
        fake->bytes = (size_t)(at - fake->input);
        fake->seen++;
    }
}

/* False when there is nothing now. */
static bool take_input(struct fake *fake, enum fake_end *how) {
    char data[65536];
    ssize_t got = recv(fake->peer, data, sizeof(data), 0);
    *how = FAKE_OPEN;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) {
        *how = got == 0 ? FAKE_FIN : FAKE_RESET;
        return false;
    }
    if (fake->input_capacity - fake->input_bytes < (size_t)got) {
        fake->input_capacity = fake->input_capacity * 2 + sizeof(data);
        fake->input = realloc(fake->input, fake->input_capacity);
        assert_non_null(fake->input);
    }
    memcpy(fake->input + fake->input_bytes, data, (size_t)got);
    fake->input_bytes += (size_t)got;
    count_commands(fake);
    return true;
}

void fake_await(struct fake *fake, struct world *world, size_t commands) {
    rl_ns end = patience(world);
    enum fake_end how;
    while (fake->seen < commands) {
        if (!take_input(fake, &how)) turn(world, end, "a command");
        if (how != FAKE_OPEN) fail_msg("fake node: the client hung up");
    }
}

enum fake_end fake_await_end(struct fake *fake, struct world *world) {
    rl_ns end = patience(world);
    enum fake_end how = FAKE_OPEN;
    while (how == FAKE_OPEN) {
        if (!take_input(fake, &how) && how == FAKE_OPEN) {
            if (!world->net) fail_msg("fake node: the client is gone and the connection is open");
            turn(world, end, "the end");
        }
    }
    return how;
}

void fake_say(struct fake *fake, const void *data, size_t bytes) {
    assert_int_equal(send(fake->peer, data, bytes, MSG_NOSIGNAL), bytes);
}

void fake_say_text(struct fake *fake, const char *text) { fake_say(fake, text, strlen(text)); }

void fake_introduce(struct fake *fake, int identity) {
    char info[256], text[300];
    if (memmem(fake->input, fake->input_bytes, "REDLOCK.HELLO", 13))
        fake_say_text(fake, fake->native ? fake->native : FAKE_STOCK);
    snprintf(info, sizeof(info),
             "# Server\r\nredis_version:9.9.9\r\nredis_mode:standalone\r\nrun_id:%040d\r\n",
             identity);
    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
    fake_say_text(fake, text);
    if (memmem(fake->input, fake->input_bytes, "DELEX", 5))
        fake_say_text(fake, fake->deleters ? fake->deleters : FAKE_NO_DELETERS);
}

void fake_greet(struct fake *fake, struct world *world) {
    fake_accept(fake, world);
    fake_await(fake, world, fake->guarded ? FAKE_GREETED_GUARDED : FAKE_GREETED);
    if (fake->guarded) fake_say_text(fake, fake->hello ? fake->hello : FAKE_HELLO);
    fake_introduce(fake, fake->port);
    fake_say_text(fake, fake->guarded ? ":0\r\n:0\r\n:0\r\n" : ":0\r\n:0\r\n");
}
