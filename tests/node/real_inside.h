/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What real.c and its guarded half share.
 */
#ifndef TESTS_NODE_REAL_INSIDE_H
#define TESTS_NODE_REAL_INSIDE_H

#include "node/scripts.h"
#include "real.h"
#include "servers.h"

enum { REAL_WORDS_MAX = 32 };

struct real {
    struct server server;
    int version; /* 602 is 6.2 */
    bool valkey; /* it counts its own versions */
    redisContext *connection;
    volatile int64_t *clock_us;
    char clock_path[32];
    const char *deleter; /* the command that compares and deletes; NULL: it has none */
};

_Noreturn void real_die(const char *what, const char *why);

/* A request; what it points to must live until it is sent. */
struct words {
    int count;
    const char *word[REAL_WORDS_MAX];
    size_t bytes[REAL_WORDS_MAX];
    char number[REAL_WORDS_MAX][24];
};
void word(struct words *words, struct node_bytes bytes);
void word_text(struct words *words, const char *text);
void word_number(struct words *words, int64_t number);
void send_words(struct real *real, struct words *words, struct answer *answer);

/* The three scripts of shared locks; `guarded`: with the fences. */
void real_share(struct real *real, enum node_script script, const struct request *request,
                bool guarded, struct answer *answer);

redisReply *ask(struct real *real, const char *format, ...);
void take(struct answer *answer, redisReply *reply);

void real_guarded_do(struct real *real, const struct request *request, struct answer *answer);

#endif
