/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Each script, here and in a real redis-server, on the same key and with the same arguments: the
 * same SHA1, the same result or error, word for word but for what spelling.h says, and the same key
 * afterwards. One that is known by heart is run in both ways.
 *
 * usage: serve_script_differential [--refused] [FILE...]: the scripts in these files; without any,
 * those of script_shapes.h. --refused: none of them may be taken here, and each refusal is printed.
 */
#include "script/element.h"
#include "script/known.h"
#include "script_shapes.h"
#include "scripted.h"
#include "servers.h"
#include "spelling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server's clock goes on, ours stands still; it is far from any TTL that a script here asks
 * for. */
#define SLACK_MS 20000

static const struct key_case {
    const char *name, *value;
    int64_t pttl;
} key_cases[] = {{"absent", NULL, 0},
                 {"mine", "mine", 600400},
                 {"another's", "another's", 600400},
                 {"mine without end", "mine", -1},
                 {"empty", "", 600400}};

static const char *const argument_cases[][5] = {{"mine", "900400", "0", "yes", NULL},
                                                {"mine", "900400", "1", "no", NULL},
                                                {"mine", "-1", NULL},
                                                {"mine", "soon", NULL},
                                                {"", "900400", NULL},
                                                {NULL}};

static struct { unsigned scripts, runs, differences, known; } count;

static void fill_server(redisContext *redis, const struct key_case *key) {
    freeReplyObject(redisCommand(redis, "DEL resource"));
    if (key->value == NULL) return;
    freeReplyObject(redisCommand(redis, "SET resource %s", key->value));
    if (key->pttl >= 0)
        freeReplyObject(redisCommand(redis, "PEXPIRE resource %lld", (long long)key->pttl));
}

static redisReply *run_there(redisContext *redis, const char *text, size_t bytes,
                             const char *const *arguments) {
    const char *words[16] = {"EVAL", text, "1", "resource"};
    size_t lengths[16] = {4, bytes, 1, 8};
    int words_count = 4;
    for (; *arguments != NULL; arguments++) {
        words[words_count] = *arguments;
        lengths[words_count++] = strlen(*arguments);
    }
    redisReply *reply = redisCommandArgv(redis, words_count, words, lengths);
    if (reply == NULL) {
        fprintf(stderr, "the server is gone: %s\n%.*s\n", redis->errstr, (int)bytes, text);
        exit(1);
    }
    return reply;
}

static const char *kind_there(const redisReply *reply) {
    switch (reply->type) {
    case REDIS_REPLY_NIL: return "nil";
    case REDIS_REPLY_INTEGER: return "integer";
    case REDIS_REPLY_STRING: return "bytes";
    case REDIS_REPLY_STATUS: return "status";
    case REDIS_REPLY_ERROR: return "error";
    default: return "array";
    }
}

static bool near(int64_t a, int64_t b) {
    return a == b || (a > SLACK_MS && b > SLACK_MS && llabs(a - b) <= SLACK_MS);
}

static bool same_text(const char *here, size_t bytes, const redisReply *there) {
    return bytes == (size_t)there->len && memcmp(here, there->str, bytes) == 0;
}

/* The elements here are packed in the text. */
static bool same_elements(const struct ending *here, const redisReply *there) {
    struct bytes rest = {here->text, here->value.bytes.bytes};
    struct answer element;
    bool same = (size_t)here->value.integer == there->elements;
    for (size_t i = 0; same && i < there->elements; i++) {
        const redisReply *other = there->element[i];
        same = element_unpack(&rest, &element);
        if (same && element.kind == ANSWER_NIL) same = other->type == REDIS_REPLY_NIL;
        if (same && element.kind == ANSWER_INTEGER)
            same = other->type == REDIS_REPLY_INTEGER && near(element.integer, other->integer);
        if (same && element.kind == ANSWER_BYTES)
            same = other->type == REDIS_REPLY_STRING &&
                   same_text(element.bytes.data, element.bytes.bytes, other);
    }
    return same && rest.bytes == 0;
}

/* A TTL in a result goes with the clock: in milliseconds or, in seconds, a little less. */
static bool same_result(const struct ending *here, const redisReply *there) {
    static const char *const kinds[] = {"nil", "integer", "bytes", "status", "error", "array"};
    if (strcmp(kinds[here->value.kind], kind_there(there)) != 0) return false;
    if (here->value.kind == ANSWER_NIL) return true;
    if (here->value.kind == ANSWER_ARRAY) return same_elements(here, there);
    if (here->value.kind == ANSWER_INTEGER) {
        return near(here->value.integer, there->integer) ||
               (there->integer >= 500 && llabs(here->value.integer - there->integer) <= 20);
    }
    if (here->value.kind == ANSWER_ERROR)
        return spelled_same(here->text, here->value.bytes.bytes, there->str);
    return same_text(here->text, here->value.bytes.bytes, there);
}

/* A script may give the key a millisecond, which ends while we look. */
static bool is_ending(int64_t pttl) { return pttl == -2 || (pttl >= 0 && pttl <= 50); }

static bool same_key(redisContext *redis, const struct key_now *here) {
    redisReply *value = redisCommand(redis, "GET resource"),
               *pttl = redisCommand(redis, "PTTL resource");
    bool same = here->there == (value->type == REDIS_REPLY_STRING);
    if (same && here->there)
        same = same_text(here->value, here->bytes, value) && near(here->pttl, pttl->integer);
    if (is_ending(here->there ? here->pttl : -2) && is_ending(pttl->integer)) same = true;
    if (!same)
        printf("the key there: '%s' for %lld ms, here: ",
               value->str != NULL ? value->str : "(absent)", pttl->integer);
    if (!same)
        printf("'%.*s' for %" PRId64 " ms\n", (int)here->bytes,
               here->there ? here->value : "(absent)", here->pttl);
    freeReplyObject(value);
    freeReplyObject(pttl);
    return same;
}

struct question {
    const char *text;
    const struct key_case *key;
    const char *const *arguments;
};

/* `path` says how it was run here. */
static void compare_ending(redisContext *redis, const struct question *question, const char *path,
                           const struct ending *here, const struct key_now *key,
                           const redisReply *there) {
    const char *const *arguments = question->arguments;
    const bool equal = same_result(here, there);
    if (same_key(redis, key) && equal) return;
    count.differences++;
    printf(
        "differs %s: %s\nwith the key %s and '%s', '%s'\nthere: %s %lld %s\nhere: kind %d, %" PRId64
        " %s\n",
        path, question->text, question->key->name, arguments[0] != NULL ? arguments[0] : "",
        arguments[0] != NULL ? arguments[1] : "", kind_there(there), there->integer,
        there->str != NULL ? there->str : "", (int)here->value.kind, here->value.integer,
        here->text);
}

/* math.ceil(-0.001) is a zero below zero. Up to 7.0 a command gets it as "-0" and refuses it, as
 * the gateway does; later servers give it 0, and the key ends. */
static bool is_negative_zero(const struct question *question) {
    return strstr(question->text, "math.ceil(tonumber(ARGV[2]") && question->key->value &&
           strcmp(question->key->value, "mine") == 0 && question->arguments[1] != NULL &&
           strcmp(question->arguments[1], "-1") == 0 && servers_version() > 700;
}

static void expect_negative_zero(redisContext *redis, const struct question *question,
                                 const struct ending *here, const redisReply *there) {
    redisReply *left = redisCommand(redis, "EXISTS resource");
    const bool expected = here->value.kind == ANSWER_ERROR && there->type == REDIS_REPLY_INTEGER &&
                          there->integer == 1 && left->type == REDIS_REPLY_INTEGER &&
                          left->integer == 0;
    freeReplyObject(left);
    if (expected) return;
    count.differences++;
    printf("a zero below zero is another than expected there: %s\n", question->text);
}

static void compare(struct scripts *scripts, redisContext *redis, const struct question *question) {
    struct key_now key;
    struct ending known;
    key_fill(&key, question->key->value, question->key->pttl);
    fill_server(redis, question->key);
    const struct ending here = script_ending(scripts, question->text, question->arguments, &key);
    redisReply *there =
        run_there(redis, question->text, strlen(question->text), question->arguments);
    count.runs++;
    if (is_negative_zero(question)) {
        expect_negative_zero(redis, question, &here, there);
        freeReplyObject(there);
        return;
    }
    compare_ending(redis, question, "interpreted", &here, &key, there);
    key_fill(&key, question->key->value, question->key->pttl);
    if (known_ending(question->text, question->arguments, &key, &known)) {
        count.known++;
        compare_ending(redis, question, "by heart", &known, &key, there);
    }
    freeReplyObject(there);
}

static void compare_names(struct scripts *scripts, redisContext *redis, const char *text) {
    char sha[SCRIPT_SHA_BYTES + 1], error[512];
    redisReply *there = redisCommand(redis, "SCRIPT LOAD %s", text);
    const bool taken = script_load(scripts, text, strlen(text), sha, error, sizeof error);
    const bool same = taken ? there->type == REDIS_REPLY_STRING && strcmp(there->str, sha) == 0
                            : there->type == REDIS_REPLY_ERROR &&
                                  strncmp(there->str + 4, error, strlen("Error compiling")) == 0;
    if (!same) {
        count.differences++;
        printf("%s: %s\n%s\n", taken ? "another name" : "refused", taken ? sha : error, text);
    }
    freeReplyObject(there);
}

static void compare_all(struct scripts *scripts, redisContext *redis, const char *text) {
    count.scripts++;
    const unsigned before = count.differences;
    compare_names(scripts, redis, text);
    if (count.differences != before) return;
    for (size_t i = 0; i < sizeof key_cases / sizeof key_cases[0]; i++) {
        for (size_t k = 0; k < sizeof argument_cases / sizeof argument_cases[0]; k++) {
            const struct question question = {text, &key_cases[i], argument_cases[k]};
            compare(scripts, redis, &question);
        }
    }
}

static void expect_refusal(struct scripts *scripts, const char *text) {
    char sha[SCRIPT_SHA_BYTES + 1], error[512] = "";
    count.scripts++;
    const bool taken = script_load(scripts, text, strlen(text), sha, error, sizeof error);
    count.differences += taken;
    printf("%s: %s\n", taken ? "taken" : "refused", taken ? text : error);
}

static const char *read_text(const char *path) {
    static char text[65536];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void compare_given(struct scripts *scripts, char **paths) {
    struct server server = {0};
    server_start(&server, NULL);
    redisContext *redis = redisConnect("127.0.0.1", server.port);
    if (redis == NULL || redis->err != 0) exit(1);
    for (char **path = paths; *path != NULL; path++) compare_all(scripts, redis, read_text(*path));
    for (size_t i = 0; *paths == NULL && script_shapes[i] != NULL; i++)
        compare_all(scripts, redis, script_shapes[i]);
    for (size_t i = 0; *paths == NULL && known_program_at(i) != NULL; i++)
        compare_all(scripts, redis, known_program_at(i)->text);
    redisFree(redis);
    server_stop(&server);
}

int main(int argc, char **argv) {
    struct scripts *scripts = scripts_new(4, 65536);
    if (scripts == NULL) return 1;
    if (argc > 1 && strcmp(argv[1], "--refused") == 0) {
        for (int i = 2; i < argc; i++) expect_refusal(scripts, read_text(argv[i]));
    } else {
        compare_given(scripts, argv + 1);
    }
    scripts_free(scripts);
    printf("%u scripts, %u runs, %u differences; %u of the runs by heart, too\n", count.scripts,
           count.runs, count.differences, count.known);
    return count.differences != 0;
}
