/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/scripts.h"
#include "real_inside.h"

/* "stripe score stripe score ..." of those above 0. */
enum { FLOORS_BYTES = NODE_STRIPES * 24 };

static void word_stripes(struct words *words, const struct request *request) {
    for (unsigned i = 0; i < request->stripes_count; i++) word_number(words, request->stripes[i]);
}

/* ---- votes ----------------------------------------------------------------------------------- */

static void do_script(struct real *real, enum node_script script, const struct request *request,
                      struct answer *answer) {
    struct words words = {0};
    char fences[REQUEST_NAME_BYTES], added[REQUEST_NONCE_BYTES];
    const bool breaks = script == NODE_BREAK;
    snprintf(fences, sizeof(fences), "redlock:fences:%016" PRIx64, request_nonce(request->nonce));
    word_text(&words, "EVALSHA");
    word_text(&words, node_scripts[script].sha1);
    word_number(&words, (int64_t)request->keys_count + 1 + breaks);
    for (unsigned i = 0; i < request->keys_count; i++) word(&words, request_key(request->keys[i]));
    if (breaks) word_text(&words, "redlock:node");
    word_text(&words, fences);
    word(&words, request_token(request->token));
    if (script == NODE_ACQUIRE_GUARDED || script == NODE_EXTEND_GUARDED)
        word_number(&words, request->number);
    word_number(&words, request->fence);
    request_nonce_text(request_added(request), added);
    if (breaks) word_text(&words, added);
    word_stripes(&words, request);
    send_words(real, &words, answer);
}

static void append(struct real *real, const struct words *words) {
    if (redisAppendCommandArgv(real->connection, words->count, (const char **)words->word,
                               words->bytes) != REDIS_OK)
        real_die("a request", real->connection->errstr);
}

static void append_set(struct real *real, const struct request *request) {
    struct words words = {0};
    word_text(&words, "SET");
    word(&words, request_key(request->keys[0]));
    word(&words, request_token(request->token));
    word_text(&words, "NX");
    word_text(&words, "PX");
    word_number(&words, request->number);
    append(real, &words);
}

static void append_zadd(struct real *real, const struct request *request) {
    struct words words = {0};
    char fences[REQUEST_NAME_BYTES];
    snprintf(fences, sizeof(fences), "redlock:fences:%016" PRIx64, request_nonce(request->nonce));
    word_text(&words, "ZADD");
    word_text(&words, fences);
    word_text(&words, "XX");
    word_text(&words, "GT");
    word_text(&words, "CH");
    for (unsigned i = 0; i < request->stripes_count; i++) {
        word_number(&words, request->fence);
        word_number(&words, request->stripes[i]);
    }
    append(real, &words);
}

static redisReply *next_reply(struct real *real) {
    void *reply;
    if (redisGetReply(real->connection, &reply) != REDIS_OK)
        real_die("a reply", real->connection->errstr);
    return reply;
}

static void do_zadd(struct real *real, const struct request *request, struct answer *answer) {
    if (request->op == REQUEST_SET_ZADD) append_set(real, request);
    append_zadd(real, request);
    if (request->op == REQUEST_SET_ZADD) take(answer, next_reply(real));
    redisReply *reply = next_reply(real);
    if (reply->type != REDIS_REPLY_INTEGER)
        real_die("ZADD", reply->str ? reply->str : "no integer");
    answer_line(answer, "%s",
                reply->integer == request->stripes_count ? "all raised" : "not all raised");
    freeReplyObject(reply);
}

/* ---- record and fences ----------------------------------------------------------------------- */

static const char *floors_text(const struct request *request) {
    static char text[FLOORS_BYTES];
    const int64_t *floor = request_floor_of(request);
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; floor && i < NODE_STRIPES; i++)
        if (floor[i] > 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d %" PRId64,
                                     used ? " " : "", i, floor[i]);
    return text;
}

static void place_of_fences(bool kept, uint8_t nonce, char name[REQUEST_NAME_BYTES]) {
    char digits[REQUEST_NONCE_BYTES] = "kept";
    if (!kept) request_nonce_text(request_nonce(nonce), digits);
    snprintf(name, REQUEST_NAME_BYTES, "redlock:fences:%s", digits);
}

static void write_record(struct real *real, const struct request *request, struct answer *answer) {
    struct words words = {0};
    struct node_field fields[NODE_FIELDS_MAX];
    char from[REQUEST_NAME_BYTES], to[REQUEST_NAME_BYTES], expected[REQUEST_NONCE_BYTES] = "",
                                                           digits[REQUEST_NONCE_BYTES];
    place_of_fences(request->was_kept, request->expected, from);
    place_of_fences(request->keep, request->nonce, to);
    if (request->expected) request_nonce_text(request_nonce(request->expected), expected);
    word_text(&words, "EVALSHA");
    word_text(&words, node_scripts[NODE_RECORD_WRITE].sha1);
    word_text(&words, "3");
    word_text(&words, "redlock:node");
    word_text(&words, from);
    word_text(&words, to);
    word_text(&words, expected);
    word_text(&words, floors_text(request));
    word_text(&words, request->floor == FLOOR_NONE ? "0" : "1");
    size_t count = request_fields(request, fields, digits);
    for (size_t i = 0; i < count; i++) {
        word(&words, fields[i].name);
        word(&words, fields[i].value);
    }
    send_words(real, &words, answer);
}

static void read_record(struct real *real, struct answer *answer) {
    struct node_field fields[NODE_FIELDS_MAX];
    redisReply *reply = ask(real, "HGETALL redlock:node");
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements / 2 > NODE_FIELDS_MAX) {
        take(answer, reply);
        return;
    }
    for (size_t i = 0; i < reply->elements / 2; i++) {
        const redisReply *name = reply->element[2 * i], *value = reply->element[2 * i + 1];
        fields[i] = (struct node_field){{name->str, name->len}, {value->str, value->len}};
    }
    answer_fields(answer, fields, reply->elements / 2);
    freeReplyObject(reply);
}

static void read_fences(struct real *real, const struct request *request, struct answer *answer) {
    for (uint8_t i = 0; i < REQUEST_NONCES; i++) {
        struct words words = {0};
        char name[REQUEST_NAME_BYTES];
        request_name(i, name);
        word_text(&words, "ZMSCORE");
        word_text(&words, name);
        word_stripes(&words, request);
        redisReply *reply =
            redisCommandArgv(real->connection, words.count, words.word, words.bytes);
        if (!reply) real_die("ZMSCORE", real->connection->errstr);
        if (reply->type != REDIS_REPLY_ARRAY) {
            take(answer, reply);
            continue;
        }
        for (size_t k = 0; k < reply->elements; k++) {
            take(answer, reply->element[k]);
            reply->element[k] = NULL; /* freed by now */
        }
        freeReplyObject(reply);
    }
}

/* Every stripe is there, no other member, and scores are whole numbers. */
static void read_all_of(struct real *real, const char *name, struct answer *answer) {
    int64_t fences[NODE_STRIPES];
    redisReply *reply = ask(real, "ZRANGE %s 0 -1 WITHSCORES", name);
    for (unsigned i = 0; i < NODE_STRIPES; i++) fences[i] = -1;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        char *member_end, *score_end;
        long stripe = strtol(reply->element[i]->str, &member_end, 10);
        int64_t score = strtoll(reply->element[i + 1]->str, &score_end, 10);
        if (*member_end || *score_end || stripe < 0 || stripe >= NODE_STRIPES ||
            fences[stripe] != -1) {
            answer_line(answer, "%s: a strange member: %s, score %s", name, reply->element[i]->str,
                        reply->element[i + 1]->str);
            break;
        }
        fences[stripe] = score;
    }
    if (reply->elements == 2 * NODE_STRIPES)
        answer_fences(answer, name, fences);
    else if (reply->elements > 0)
        answer_line(answer, "%s: %zu members", name, reply->elements / 2);
    freeReplyObject(reply);
}

static void read_all_fences(struct real *real, struct answer *answer) {
    char name[REQUEST_NAME_BYTES];
    for (uint8_t i = 0; i < REQUEST_NONCES; i++) {
        request_name(i, name);
        read_all_of(real, name, answer);
    }
}

static void delete_name(struct real *real, const struct request *request, struct answer *answer) {
    char name[REQUEST_NAME_BYTES];
    request_name(request->name, name);
    take(answer, ask(real, "DEL %s", name));
}

void real_guarded_do(struct real *real, const struct request *request, struct answer *answer) {
    switch (request->op) {
    case REQUEST_SET_ZADD:
    case REQUEST_ZADD: do_zadd(real, request, answer); break;
    case REQUEST_ACQUIRE_GUARDED: do_script(real, NODE_ACQUIRE_GUARDED, request, answer); break;
    case REQUEST_EXTEND_GUARDED: do_script(real, NODE_EXTEND_GUARDED, request, answer); break;
    case REQUEST_SHARE_GUARDED: real_share(real, NODE_SHARE, request, true, answer); break;
    case REQUEST_SHARE_EXTEND_GUARDED:
        real_share(real, NODE_SHARE_EXTEND, request, true, answer);
        break;
    case REQUEST_RAISE: do_script(real, NODE_RAISE, request, answer); break;
    case REQUEST_BREAK: do_script(real, NODE_BREAK, request, answer); break;
    case REQUEST_CONFIRM: do_script(real, NODE_CONFIRM, request, answer); break;
    case REQUEST_RECORD_WRITE: write_record(real, request, answer); break;
    case REQUEST_RECORD: read_record(real, answer); break;
    case REQUEST_FENCES: read_fences(real, request, answer); break;
    case REQUEST_ALL_FENCES: read_all_fences(real, answer); break;
    case REQUEST_DEL_NAME: delete_name(real, request, answer); break;
    default: break;
    }
}
