/* SPDX-License-Identifier: BSD-2-Clause
 *
 * acquire_slot.lua on a real server against its twin in C (src/node/slots.c): random requests,
 * classic and guarded, among keys that others set and delete. After each one the answers, all slots
 * and their fences are the same. TTLs are far from their ends, so no clock has to be stopped:
 * test_slots.c has the ends.
 *
 * usage: slots_differential [REQUESTS [SEED]]. Exit status: differs.h
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "differs.h"
#include "node/scripts.h"
#include "node/slots.h"
#include "servers.h"

enum { REQUESTS = 3000, TOKENS = 9, NAME_BYTES = 24, STRIPES = 8, LAG_MS = 60000 };
#define FENCES "redlock:fences:000000000000000b"
#define NONCE UINT64_C(0xb)
#define RESOURCE "r\r\n"

/* Tokens with numbers of slots, and what others keep: no number, too many digits, a leading zero,
 * digits that are not hexadecimal. */
static const char *const tokens[TOKENS] = {
    "0000000000000000000000000000000000000001/3",
    "0000000000000000000000000000000000000002/3:owner",
    "0000000000000000000000000000000000000003/3",
    "0000000000000000000000000000000000000004/5",
    "0000000000000000000000000000000000000005",
    "0000000000000000000000000000000000000006/100",
    "0000000000000000000000000000000000000007/03",
    "000000000000000000000000000000000000000g/4",
    "0000000000000000000000000000000000000008/3:",
};
static const unsigned counts[TOKENS] = {3, 3, 3, 5, 3, 3, 3, 3, 3};

static char names[NODE_SLOTS_MAX][NAME_BYTES];
static struct node_bytes keys[NODE_SLOTS_MAX];
static struct server server;
static uint64_t seen[4]; /* of each answer: granted, stale, all taken, another number */

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "slots_differential: %s: %s\n", what, why ? why : "no text");
    exit(1);
}

static _Noreturn void differs(void) {
    server_stop(&server);
    exit(EXIT_DIFFERS);
}

static uint64_t below(uint64_t *random, uint64_t limit) { return rl_splitmix64(random) % limit; }

struct draw {
    struct node_slot_request request;
    uint8_t order[NODE_SLOTS_MAX];
    uint16_t stripes[NODE_SLOTS_MAX];
};

static void draw_order(struct draw *draw, uint64_t *random) {
    const unsigned count = draw->request.count;
    for (unsigned i = 0; i < count; i++) draw->order[i] = (uint8_t)(i + 1);
    for (unsigned i = count; i > 1; i--) {
        unsigned at = (unsigned)below(random, i);
        uint8_t last = draw->order[i - 1];
        draw->order[i - 1] = draw->order[at];
        draw->order[at] = last;
    }
    draw->request.order = draw->order;
    draw->request.order_count = below(random, 3) == 0 ? 1 : count;
}

static void draw_request(struct draw *draw, uint64_t *random) {
    const unsigned token = (unsigned)below(random, TOKENS);
    draw->request = (struct node_slot_request){
        .names = keys,
        .count = counts[token],
        .token = {tokens[token], strlen(tokens[token])},
        .ttl_ms = 600000 + 600000 * (int64_t)below(random, 5),
        .nonce = below(random, 8) == 0 ? 0xc : NONCE,
        .fence = 1 + (int64_t)below(random, 4000),
    };
    draw_order(draw, random);
    for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) draw->stripes[i] = (uint16_t)((i * 3) % STRIPES);
    if (below(random, 2) == 0) draw->request.stripes = draw->stripes;
}

/* ---- the real one ---------------------------------------------------------------------------- */

struct words {
    int count;
    const char *word[96];
    size_t bytes[96];
    char number[80][24];
    int numbers;
};

static void word(struct words *words, const char *text, size_t bytes) {
    words->word[words->count] = text;
    words->bytes[words->count++] = bytes;
}

static void number(struct words *words, int64_t value) {
    char *text = words->number[words->numbers++];
    word(words, text, (size_t)snprintf(text, sizeof(words->number[0]), "%" PRId64, value));
}

static redisReply *send_words(redisContext *connection, struct words *words) {
    redisReply *reply = redisCommandArgv(connection, words->count, words->word, words->bytes);
    if (!reply) die("a request", connection->errstr);
    return reply;
}

static void ask_real(redisContext *connection, const struct node_slot_request *request,
                     int64_t answer[2]) {
    struct words words = {.count = 0};
    char order[NODE_SLOTS_MAX * 3 + 1] = "", fences[40];
    size_t used = 0;
    for (unsigned i = 0; i < request->order_count; i++)
        used += (size_t)snprintf(order + used, sizeof(order) - used, "%u ", request->order[i]);
    snprintf(fences, sizeof(fences), "redlock:fences:%016" PRIx64, request->nonce);
    const struct node_script_text *script = &node_scripts[NODE_ACQUIRE_SLOT];
    word(&words, "EVALSHA", 7);
    word(&words, script->sha1, 40);
    number(&words, request->stripes ? 2 : 1);
    word(&words, RESOURCE, strlen(RESOURCE));
    if (request->stripes) word(&words, fences, strlen(fences));
    word(&words, request->token.data, request->token.bytes);
    number(&words, request->ttl_ms);
    number(&words, request->count);
    word(&words, order, used);
    if (request->stripes) {
        number(&words, request->fence);
        for (unsigned i = 0; i < request->count; i++) number(&words, request->stripes[i]);
    }
    redisReply *reply = send_words(connection, &words);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->type != REDIS_REPLY_INTEGER) {
        fprintf(stderr, "they differ: %s\n", reply->str ? reply->str : "no pair of integers");
        differs();
    }
    for (int i = 0; i < 2; i++) answer[i] = reply->element[i]->integer;
    freeReplyObject(reply);
}

static void ask_model(struct node_table *table, const struct node_slot_request *request,
                      int64_t answer[2]) {
    struct node_slot_answer model = node_acquire_slot(table, request, 0);
    answer[0] = model.answer == NODE_GRANTED ? 1 : model.answer == NODE_STALE ? -1 : 0;
    answer[1] = answer[0] != 0 ? (int64_t)model.slot : model.remaining_ms;
    if (model.other_count == 0) return;
    answer[0] = -2;
    answer[1] = (int64_t)model.other_count;
}

/* ---- what others do -------------------------------------------------------------------------- */

static void free_reply(redisReply *reply, const char *what) {
    if (!reply || reply->type == REDIS_REPLY_ERROR) die(what, reply ? reply->str : "no reply");
    freeReplyObject(reply);
}

static void disturb(redisContext *connection, struct node_table *table, uint64_t *random) {
    const unsigned slot = (unsigned)below(random, below(random, 20) == 0 ? 8 : 4);
    const struct node_bytes key = keys[slot];
    const unsigned token = (unsigned)below(random, TOKENS);
    const struct node_bytes value = {tokens[token], strlen(tokens[token])};
    /* a number stays for as long as a slot is held with it: so that others get their turns */
    const bool all = below(random, 3) == 0;
    for (unsigned i = all ? 0 : slot; i <= (all ? 7 : slot); i++) {
        free_reply(redisCommand(connection, "DEL %b", keys[i].data, keys[i].bytes), "DEL");
        (void)node_delete(table, keys[i], 0);
    }
    switch (below(random, 12)) {
    case 0:
        free_reply(redisCommand(connection, "RPUSH %b x", key.data, key.bytes), "RPUSH");
        (void)node_set_other_type(table, key, 0);
        break;
    case 1: /* without an end */
        free_reply(
            redisCommand(connection, "SET %b %b", key.data, key.bytes, value.data, value.bytes),
            "SET");
        (void)node_set(table, key, value, 0, 0);
        break;
    case 2:
        free_reply(redisCommand(connection, "SET %b %b PX 900000", key.data, key.bytes, value.data,
                                value.bytes),
                   "SET");
        (void)node_set(table, key, value, 900000, 0);
        break;
    default: break;
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_key(redisContext *connection, struct node_table *table, struct node_bytes key) {
    redisReply *left = redisCommand(connection, "PTTL %b", key.data, key.bytes);
    redisReply *value = redisCommand(connection, "GET %b", key.data, key.bytes);
    const int64_t model = node_pttl(table, key, 0);
    const struct node_bytes held = node_get(table, key, 0);
    bool same = model < 0 ? left->integer == model
                          : left->integer <= model && left->integer > model - LAG_MS;
    if (value->type == REDIS_REPLY_STRING)
        same = same && held.bytes == value->len && memcmp(held.data, value->str, held.bytes) == 0;
    else
        same = same && !held.data;
    freeReplyObject(left);
    freeReplyObject(value);
    return same;
}

static bool same_fences(redisContext *connection, const struct node_table *table) {
    const int64_t *fences = node_fences(table, NONCE);
    redisReply *reply = redisCommand(connection, "ZMSCORE " FENCES " 0 1 2 3 4 5 6 7");
    bool same = fences && reply->type == REDIS_REPLY_ARRAY && reply->elements == STRIPES;
    for (unsigned i = 0; same && i < STRIPES; i++)
        same = fences[i] == strtoll(reply->element[i]->str, NULL, 10);
    freeReplyObject(reply);
    return same;
}

static bool same_answer(const int64_t real[2], const int64_t model[2]) {
    if (real[0] != model[0]) return false;
    if (real[0] != 0 || model[1] < 0) return real[1] == model[1];
    return real[1] <= model[1] && real[1] > model[1] - LAG_MS; /* time passes only there */
}

static void compare(redisContext *connection, struct node_table *table, uint64_t *random, long at) {
    struct draw draw;
    int64_t real[2], model[2];
    draw_request(&draw, random);
    if (below(random, 2) == 0) disturb(connection, table, random);
    ask_real(connection, &draw.request, real);
    ask_model(table, &draw.request, model);
    bool same = same_answer(real, model) && same_fences(connection, table);
    for (unsigned i = 0; same && i < 8; i++) same = same_key(connection, table, keys[i]);
    seen[real[0] == 1 ? 0 : real[0] == -1 ? 1 : real[0] == 0 ? 2 : 3]++;
    if (same) return;
    fprintf(stderr,
            "they differ at request %ld: token %s, order %u of %u from %u: the server {%" PRId64
            ", %" PRId64 "}, the table {%" PRId64 ", %" PRId64 "}\n",
            at, (const char *)draw.request.token.data, draw.request.order_count, draw.request.count,
            draw.order[0], real[0], real[1], model[0], model[1]);
    differs();
}

/* ---- */

static void begin_fences(redisContext *connection, struct node_table *table) {
    static const int64_t floor[NODE_STRIPES];
    static const struct node_field field = {{"nonce", 5}, {"000000000000000b", 16}};
    const struct node_record_write write = {
        .nonce = NONCE, .floor = floor, .fields = &field, .fields_count = 1};
    free_reply(redisCommand(connection, "ZADD " FENCES " 0 0 0 1 0 2 0 3 0 4 0 5 0 6 0 7"), "ZADD");
    if (node_record_write(table, &write) != NODE_GRANTED) die("the table", "no record");
}

int main(int argc, char **argv) {
    const long requests = argc > 1 ? strtol(argv[1], NULL, 10) : REQUESTS;
    uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    server_start(&server, NULL);
    redisContext *connection = redisConnect("127.0.0.1", server.port);
    struct node_table *table = node_table_new(NULL, NULL);
    if (!connection || connection->err || !table) die("beginning", "no connection");
    for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) {
        int bytes = snprintf(names[i], NAME_BYTES, RESOURCE ":slot:%u", i + 1);
        keys[i] = (struct node_bytes){names[i], (size_t)bytes};
    }
    const struct node_script_text *script = &node_scripts[NODE_ACQUIRE_SLOT];
    free_reply(redisCommand(connection, "SCRIPT LOAD %b", script->text, script->bytes), "LOAD");
    begin_fences(connection, table);
    for (long i = 0; i < requests; i++) compare(connection, table, &random, i);
    printf("%ld requests: granted %" PRIu64 ", stale %" PRIu64 ", all taken %" PRIu64
           ", another number %" PRIu64 "\n",
           requests, seen[0], seen[1], seen[2], seen[3]);
    for (int i = 0; i < 4; i++)
        if (seen[i] < (uint64_t)requests / 100) die("an answer came too seldom", "see above");
    node_table_free(table);
    redisFree(connection);
    server_stop(&server);
    return 0;
}
