/* SPDX-License-Identifier: BSD-2-Clause A node that says what the test tells it to, byte by byte.
 * It lives in the test's own loop: no thread. */
#ifndef TESTS_NET_FAKE_H
#define TESTS_NET_FAKE_H

#include "world.h"

struct fake {
    int listener, peer; /* peer -1: nobody is connected */
    int port;
    bool guarded;         /* the client's net is: greeting is longer */
    const char *hello;    /* its answers to HELLO 3 and CLIENT TRACKING; NULL: FAKE_HELLO */
    const char *native;   /* its answer to REDLOCK.HELLO; NULL: FAKE_STOCK */
    const char *deleters; /* its answers to DELEX and DELIFEQ; NULL: FAKE_NO_DELETERS */
    size_t seen;          /* commands received from this peer */
    size_t bytes;         /* of which this many bytes */
    char *input;          /* all of it */
    size_t input_bytes, input_capacity;
};

/* Commands of a whole handshake: REDLOCK.HELLO, INFO, DELEX, DELIFEQ, EVAL and EVALSHA; guarded
 * HELLO, CLIENT TRACKING and ZADD too. */
enum { FAKE_GREETED = 6, FAKE_GREETED_GUARDED = FAKE_GREETED + 3 };

#define FAKE_STOCK "-ERR unknown command 'REDLOCK.HELLO', with args beginning with: '1' \r\n"

#define FAKE_NO_DELETERS                                                                           \
    "-ERR unknown command 'DELEX', with args beginning with: \r\n"                                 \
    "-ERR unknown command 'DELIFEQ', with args beginning with: \r\n"

#define FAKE_HELLO "%2\r\n$6\r\nserver\r\n$4\r\nfake\r\n$5\r\nproto\r\n:3\r\n+OK\r\n"

enum fake_end { FAKE_OPEN, FAKE_FIN, FAKE_RESET };

void fake_open(struct fake *fake);
void fake_close(struct fake *fake);
void fake_url(const struct fake *fake, char *url, size_t size);
/* Each turns the world's loop meanwhile and fails the test after five seconds. */
void fake_accept(struct fake *fake,
                 struct world *world); /* the next connection; drops the one before */
void fake_await(struct fake *fake, struct world *world,
                size_t commands); /* until so many came from this peer */
/* The answers to REDLOCK.HELLO, INFO, DELEX and DELIFEQ, as far as they were asked on this
 * connection. */
void fake_introduce(struct fake *fake, int identity);
void fake_greet(struct fake *fake, struct world *world); /* accepts and answers the handshake */
enum fake_end fake_await_end(struct fake *fake,
                             struct world *world); /* how the other side closed */
void fake_say(struct fake *fake, const void *data, size_t bytes);
void fake_say_text(struct fake *fake, const char *text);
void fake_hang_up(struct fake *fake);

#endif
