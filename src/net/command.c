/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/command.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "net/verdict.h"
#include "node/scripts.h"
#include "redlock.h"

_Static_assert(COMMAND_WORDS_MAX >= REDLOCK_RESOURCES_MAX + 8, "a request with all its keys must fit");

void words_begin(struct words *words, const char *command) {
    words->count = 0;
    words->numbers = 0;
    words_text(words, command);
}

void words_bytes(struct words *words, struct net_bytes bytes) {
    assert(words->count < COMMAND_WORDS_MAX);
    words->word[words->count] = bytes.data ? bytes.data : "";
    words->bytes[words->count++] = bytes.bytes;
}

void words_text(struct words *words, const char *text) { words_bytes(words, (struct net_bytes){text, strlen(text)}); }

void words_number(struct words *words, uint64_t number) {
    assert(words->numbers < sizeof(words->number) / sizeof(words->number[0]));
    char *text = words->number[words->numbers++];
    snprintf(text, sizeof(words->number[0]), "%" PRIu64, number);
    words_text(words, text);
}

bool words_end(const struct words *words, struct buffer *out, size_t limit) {
    char *text = NULL;
    long long bytes = redisFormatCommandArgv(&text, words->count, (const char **)words->word, words->bytes);
    if (bytes < 0) return false;
    bool done = buffer_append(out, text, (size_t)bytes, limit);
    redisFreeCommand(text);
    return done;
}

bool command_is_write(const struct net_request *request) {
    return request->op == NET_ACQUIRE || request->op == NET_EXTEND || request->op == NET_RELEASE;
}

bool command_needs_script(const struct net_request *request) {
    if (request->op == NET_ACQUIRE) return request->keys_count > 1;
    return request->op == NET_EXTEND || request->op == NET_RELEASE;
}

unsigned command_replies(const struct net_request *request) {
    if (request->op == NET_PEEK) return (unsigned)request->keys_count;
    return request->op == NET_LOOK ? 2 : 1;
}

static bool encode_script(const struct net_request *request, bool whole, struct words *words) {
    enum node_script script = NODE_ACQUIRE_MANY;
    if (request->op == NET_EXTEND) script = NODE_EXTEND;
    if (request->op == NET_RELEASE) script = NODE_RELEASE;
    words_begin(words, whole ? "EVAL" : "EVALSHA");
    words_text(words, whole ? node_scripts[script].text : node_scripts[script].sha1);
    words_number(words, request->keys_count);
    for (size_t i = 0; i < request->keys_count; i++) words_bytes(words, request->keys[i]);
    words_bytes(words, request->token);
    if (script != NODE_RELEASE) words_number(words, (uint64_t)request->ttl_ms);
    return true;
}

static void encode_set(const struct net_request *request, struct words *words) {
    words_begin(words, "SET");
    words_bytes(words, request->keys[0]);
    words_bytes(words, request->token);
    words_text(words, "NX");
    words_text(words, "PX");
    words_number(words, (uint64_t)request->ttl_ms);
}

static bool encode_peek(const struct net_request *request, struct words *words, struct buffer *out, size_t limit) {
    for (size_t i = 0; i < request->keys_count; i++) {
        words_begin(words, "PTTL");
        words_bytes(words, request->keys[i]);
        if (!words_end(words, out, limit)) return false;
    }
    return true;
}

/* PTTL first: it alone tells an absent key from one that holds nothing. */
static bool encode_look(const struct net_request *request, struct words *words, struct buffer *out, size_t limit) {
    words_begin(words, "PTTL");
    words_bytes(words, request->keys[0]);
    if (!words_end(words, out, limit)) return false;
    words_begin(words, "GETRANGE");
    words_bytes(words, request->keys[0]);
    words_number(words, 0);
    words_number(words, REDLOCK_TOKEN_BYTES_MAX); /* one more than is shown, to know whether there is more */
    return words_end(words, out, limit);
}

/* The prefix is bytes, MATCH takes a glob: what a glob would read as more than itself is escaped. */
static bool encode_scan(const struct net_request *request, struct words *words, struct buffer *out, size_t limit) {
    const char *prefix = request->keys_count ? request->keys[0].data : "";
    size_t bytes = request->keys_count ? request->keys[0].bytes : 0, length = 0;
    char *pattern = malloc(bytes * 2 + 1);
    if (!pattern) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (prefix[i] != '\0' && strchr("*?[]\\^-", prefix[i])) pattern[length++] = '\\';
        pattern[length++] = prefix[i];
    }
    pattern[length++] = '*';
    words_begin(words, "SCAN");
    words_number(words, request->cursor);
    words_text(words, "MATCH");
    words_bytes(words, (struct net_bytes){pattern, length});
    words_text(words, "COUNT");
    words_number(words, 50);
    bool done = words_end(words, out, limit);
    free(pattern);
    return done;
}

/* The password is not among them: whether there is one can be learned without seeing it. */
static bool encode_survey(enum net_question question, struct words *words, struct buffer *out, size_t limit) {
    static const char *const line[NET_QUESTIONS][3] = {
        [NET_ASK_TIME] = {"TIME"},
        [NET_ASK_INFO_SERVER] = {"INFO", "server"},
        [NET_ASK_INFO_REPLICATION] = {"INFO", "replication"},
        [NET_ASK_INFO_MEMORY] = {"INFO", "memory"},
        [NET_ASK_INFO_PERSISTENCE] = {"INFO", "persistence"},
        [NET_ASK_INFO_CLIENTS] = {"INFO", "clients"},
        [NET_ASK_POLICY] = {"CONFIG", "GET", "maxmemory-policy"},
        [NET_ASK_APPENDONLY] = {"CONFIG", "GET", "appendonly"},
        [NET_ASK_APPENDFSYNC] = {"CONFIG", "GET", "appendfsync"},
        [NET_ASK_SAVE] = {"CONFIG", "GET", "save"},
        [NET_ASK_STOP_WRITES] = {"CONFIG", "GET", "stop-writes-on-bgsave-error"},
        [NET_ASK_PROTECTED] = {"CONFIG", "GET", "protected-mode"},
        [NET_ASK_BIND] = {"CONFIG", "GET", "bind"},
        [NET_ASK_MAXCLIENTS] = {"CONFIG", "GET", "maxclients"},
    };
    assert(question < NET_QUESTIONS);
    words_begin(words, line[question][0]);
    for (int i = 1; i < 3 && line[question][i]; i++) words_text(words, line[question][i]);
    return words_end(words, out, limit);
}

bool command_encode(const struct net_request *request, bool whole_script, struct buffer *out, size_t limit) {
    struct words words;
    switch (request->op) {
    case NET_PEEK: return encode_peek(request, &words, out, limit);
    case NET_LOOK: return encode_look(request, &words, out, limit);
    case NET_SCAN: return encode_scan(request, &words, out, limit);
    case NET_SURVEY: return encode_survey(request->question, &words, out, limit);
    case NET_ACQUIRE:
    case NET_EXTEND:
    case NET_RELEASE: break;
    }
    if (command_needs_script(request))
        encode_script(request, whole_script, &words);
    else
        encode_set(request, &words);
    return words_end(&words, out, limit);
}

static bool answer_set(const struct reader *reader, struct net_reply *answer) {
    if (reader_is_status(reader, 0, "OK"))
        answer->verdict = REDLOCK_VERDICT_GRANTED;
    else if (reader->slots[0].type == REPLY_NIL)
        answer->verdict = REDLOCK_VERDICT_DENIED;
    else
        return false;
    return true;
}

static bool answer_script(const struct net_request *request, const struct reader *reader, struct net_reply *answer) {
    if (reader->slots[0].type != REPLY_INTEGER) return false;
    switch (reader->slots[0].integer) {
    case 1: answer->verdict = REDLOCK_VERDICT_GRANTED; return true;
    case 0: answer->verdict = request->op == NET_ACQUIRE ? REDLOCK_VERDICT_DENIED : REDLOCK_VERDICT_ABSENT; return true;
    case -1: answer->verdict = REDLOCK_VERDICT_DENIED; return request->op != NET_ACQUIRE;
    default: return false;
    }
}

static bool answer_pttl(unsigned nth, const struct reader *reader, struct net_reply *answer) {
    int64_t left = reader->slots[0].integer;
    if (reader->slots[0].type != REPLY_INTEGER || left < -2) return false;
    /* The one that ends last: a key without TTL never ends, no key has ended already. */
    if (nth == 0 || left == -1 || (answer->remaining_ms != -1 && left > answer->remaining_ms))
        answer->remaining_ms = left;
    answer->verdict = answer->remaining_ms == -2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
    return true;
}

static bool answer_look(unsigned nth, const struct reader *reader, struct net_reply *answer) {
    if (nth == 0) return answer_pttl(0, reader, answer);
    if (reader->slots[0].type != REPLY_STRING) return false;
    answer->value = reader->bytes[0];
    answer->truncated = answer->value.bytes > REDLOCK_TOKEN_BYTES_MAX;
    if (answer->truncated) answer->value.bytes = REDLOCK_TOKEN_BYTES_MAX;
    return true;
}

static bool answer_scan(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    if (reader->slots_count < 3 || slots[0].type != REPLY_ARRAY || slots[0].integer != 2) return false;
    if (slots[1].type != REPLY_STRING || slots[2].type != REPLY_ARRAY) return false;
    if (reader->slots_count != 3 + (size_t)slots[2].integer) return false;
    for (size_t i = 3; i < reader->slots_count; i++)
        if (slots[i].type != REPLY_STRING) return false;
    char cursor[24] = "", *end;
    if (reader->bytes[1].bytes == 0 || reader->bytes[1].bytes >= sizeof(cursor)) return false;
    memcpy(cursor, reader->bytes[1].data, reader->bytes[1].bytes);
    answer->cursor = strtoull(cursor, &end, 10);
    if (*end != '\0') return false;
    answer->items = &reader->bytes[3];
    answer->items_count = (size_t)slots[2].integer;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    return true;
}

static bool answer_survey(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    bool many = slots[0].type == REPLY_ARRAY;
    if (many && reader->slots_count != 1 + (size_t)slots[0].integer) return false;
    for (size_t i = many; i < reader->slots_count; i++)
        if (slots[i].type != REPLY_STRING) return false;
    answer->items = &reader->bytes[many];
    answer->items_count = reader->slots_count - many;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    return true;
}

bool command_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                    struct net_reply *answer) {
    if (nth == 0) *answer = (struct net_reply){.remaining_ms = -2};
    if (reader_is_error(reader)) {
        answer->verdict = verdict_of_error(reader->bytes[0].data, reader->bytes[0].bytes);
        return true;
    }
    /* The first error of several replies is the answer; the others only have to be of the right kind. */
    int first_error = nth > 0 ? answer->verdict : REDLOCK_VERDICT_NONE;
    bool failed = nth > 0 && first_error != REDLOCK_VERDICT_GRANTED && first_error != REDLOCK_VERDICT_ABSENT;
    bool right = false;
    switch (request->op) {
    case NET_ACQUIRE:
        right = request->keys_count > 1 ? answer_script(request, reader, answer) : answer_set(reader, answer);
        break;
    case NET_EXTEND:
    case NET_RELEASE: right = answer_script(request, reader, answer); break;
    case NET_PEEK: right = answer_pttl(nth, reader, answer); break;
    case NET_LOOK: right = answer_look(nth, reader, answer); break;
    case NET_SCAN: right = answer_scan(reader, answer); break;
    case NET_SURVEY: right = answer_survey(reader, answer); break;
    }
    if (failed) answer->verdict = first_error;
    return right;
}
