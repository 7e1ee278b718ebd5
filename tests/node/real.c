/* SPDX-License-Identifier: BSD-2-Clause */
#include "real.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "node/scripts.h"
#include "real_inside.h"

_Noreturn void real_die(const char *what, const char *why) {
    fprintf(stderr, "real: %s: %s\n", what, why);
    abort();
}

/* ---- its clock ------------------------------------------------------------------------------- */

static void open_clock(struct real *real) {
    snprintf(real->clock_path, sizeof(real->clock_path), "/tmp/redlock-clock-XXXXXX");
    int fd = mkstemp(real->clock_path);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) != 0)
        real_die("the clock's file", real->clock_path);
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) real_die("the clock's file", real->clock_path);
    close(fd);
    real->clock_us = map;
}

/* Valkey 9.1 reads the clock once a millisecond, and adds what the processor counts. */
static bool reads_clock_late(const struct real *real) {
    return real->valkey && real->version >= 901;
}

/* What it says then is within the first millisecond after the clock's time: whole milliseconds. */
static bool has_time(struct real *real, int64_t now_us, int64_t later_us) {
    redisReply *reply = ask(real, "TIME");
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        real_die("TIME", "no two numbers");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                 strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us >= now_us && us <= now_us + later_us;
}

static bool await_time(struct real *real) {
    enum { POLLS = 100000, US_PER_MS = 1000 };
    for (int i = 0; i < POLLS; i++)
        if (has_time(real, *real->clock_us, US_PER_MS - 1)) return true;
    return false;
}

void real_clock(struct real *real, int64_t now_us) {
    *real->clock_us = now_us;
    if (!real->connection || !reads_clock_late(real)) return;
    *real->clock_us = now_us - now_us % 1000;
    if (!await_time(real)) real_die("TIME", "the server does not follow the clock of the test");
}

/* ---- questions ------------------------------------------------------------------------------- */

redisReply *ask(struct real *real, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(real->connection, format, args);
    va_end(args);
    if (!reply) real_die(format, real->connection->errstr);
    return reply;
}

static long long ask_integer(struct real *real, const char *format) {
    redisReply *reply = ask(real, format);
    if (reply->type != REDIS_REPLY_INTEGER)
        real_die(format, reply->str ? reply->str : "no integer");
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

/* What no script has a part in: a failure is not a difference. */
static void must(struct real *real, const char *format) {
    redisReply *reply = ask(real, format);
    if (reply->type != REDIS_REPLY_STATUS) real_die(format, reply->str ? reply->str : "no status");
    freeReplyObject(reply);
}

long long real_count(struct real *real) { return ask_integer(real, "DBSIZE"); }

void take(struct answer *answer, redisReply *reply) {
    switch (reply->type) {
    case REDIS_REPLY_STATUS: answer_line(answer, "%s", reply->str); break;
    case REDIS_REPLY_NIL: answer_line(answer, "nil"); break;
    case REDIS_REPLY_INTEGER: answer_line(answer, "(%lld)", reply->integer); break;
    case REDIS_REPLY_STRING:
        answer_bytes(answer, (struct node_bytes){reply->str, reply->len});
        break;
    case REDIS_REPLY_ERROR: /* 6.x says "ERR Error running script (...): @user_script: 1: WRONGTYPE
                               ..." */
        if (strstr(reply->str, "WRONGTYPE"))
            answer_line(answer, "WRONGTYPE");
        else
            answer_line(answer, "error: %s", reply->str);
        break;
    default: answer_line(answer, "unexpected reply of type %d", reply->type);
    }
    freeReplyObject(reply);
}

/* ---- requests -------------------------------------------------------------------------------- */

void word(struct words *words, struct node_bytes bytes) {
    if (words->count == REAL_WORDS_MAX) real_die("a request", "too many words");
    words->word[words->count] = bytes.data;
    words->bytes[words->count++] = bytes.bytes;
}

void word_text(struct words *words, const char *text) {
    word(words, (struct node_bytes){text, strlen(text)});
}

void word_number(struct words *words, int64_t number) {
    char *digits = words->number[words->count];
    snprintf(digits, sizeof(words->number[0]), "%" PRId64, number);
    word_text(words, digits);
}

void send_words(struct real *real, struct words *words, struct answer *answer) {
    redisReply *reply = redisCommandArgv(real->connection, words->count, words->word, words->bytes);
    if (!reply) real_die("a request", real->connection->errstr);
    take(answer, reply);
}

static void do_script(struct real *real, enum node_script script, const struct request *request,
                      struct answer *answer) {
    static const char *const counts[] = {"0", "1", "2", "3", "4"};
    _Static_assert(sizeof(counts) / sizeof(counts[0]) == REQUEST_KEYS_MAX + 1,
                   "a text for each count");
    struct words words = {0};
    word_text(&words, "EVALSHA");
    word_text(&words, node_scripts[script].sha1);
    word_text(&words, counts[request->keys_count]);
    for (unsigned i = 0; i < request->keys_count; i++) word(&words, request_key(request->keys[i]));
    word(&words, request_token(request->token));
    if (script != NODE_RELEASE) word_number(&words, request->number);
    send_words(real, &words, answer);
}

/* One key, by the command that this server has for it, as the library does. False: there is none,
 * or it did not delete. */
static bool do_deleter(struct real *real, const struct request *request, struct answer *answer) {
    if (!real->deleter || request->keys_count != 1) return false;
    const struct node_bytes key = request_key(request->keys[0]),
                            token = request_token(request->token);
    redisReply *reply =
        strcmp(real->deleter, "DELEX") == 0
            ? ask(real, "DELEX %b IFEQ %b", key.data, key.bytes, token.data, token.bytes)
            : ask(real, "DELIFEQ %b %b", key.data, key.bytes, token.data, token.bytes);
    const bool deleted = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (deleted) take(answer, reply);
    if (!deleted) freeReplyObject(reply);
    return deleted;
}

void real_share(struct real *real, enum node_script script, const struct request *request,
                bool guarded, struct answer *answer) {
    struct words words = {0};
    char fences[REQUEST_NAME_BYTES];
    word_text(&words, "EVALSHA");
    word_text(&words, node_scripts[script].sha1);
    word_number(&words, guarded ? 3 : 2);
    word(&words, request_key(request->keys[0]));
    word(&words, request_list_key(request->keys[0]));
    snprintf(fences, sizeof(fences), "redlock:fences:%016" PRIx64, request_nonce(request->nonce));
    if (guarded) word_text(&words, fences);
    word_text(&words, NODE_SHARED_MARKER);
    word(&words, request_token(request->token));
    if (script != NODE_SHARE_RELEASE) word_number(&words, request->number);
    if (guarded) word_number(&words, request->fence);
    if (guarded) word_number(&words, request->stripes[0]);
    send_words(real, &words, answer);
}

/* Readers of one page; false: this was the last one, or an answer of another kind. `count` is of
 * all pages. */
static bool take_page(redisReply *reply, long long *next, long long *skip, unsigned *count,
                      struct answer *answer) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) {
        take(answer, reply);
        return false;
    }
    if (*next == 0) answer_line(answer, "(%lld)", reply->element[0]->integer);
    *next = reply->element[1]->integer;
    *skip = reply->element[2]->integer;
    for (size_t i = 3; i < reply->elements; i++) {
        const redisReply *item = reply->element[i];
        const char *space = memchr(item->str, ' ', item->len);
        if (!space || *count == REQUEST_TOKENS) {
            answer_line(answer, space ? "more readers than tokens" : "a reader without an end");
            freeReplyObject(reply);
            return false;
        }
        const char *token = space + 1;
        (*count)++;
        answer_line(answer, "(%.*s)", (int)(space - item->str), item->str);
        answer_bytes(answer, (struct node_bytes){token, item->len - (size_t)(token - item->str)});
    }
    freeReplyObject(reply);
    return *next != 0;
}

/* Time stands still: each reader comes once, whatever the size of a page. */
static void do_readers(struct real *real, const struct request *request, struct answer *answer) {
    long long next = 0, skip = 0;
    unsigned count = 0;
    bool more = true;
    for (int page = 0; more && page < 100; page++) {
        struct words words = {0};
        word_text(&words, "EVALSHA");
        word_text(&words, node_scripts[NODE_READERS].sha1);
        word_text(&words, "2");
        word(&words, request_key(request->keys[0]));
        word(&words, request_list_key(request->keys[0]));
        word_text(&words, NODE_SHARED_MARKER);
        word_number(&words, 1 + request->number % 3);
        word_number(&words, next);
        word_number(&words, skip);
        redisReply *reply =
            redisCommandArgv(real->connection, words.count, words.word, words.bytes);
        if (!reply) real_die("readers", real->connection->errstr);
        more = take_page(reply, &next, &skip, &count, answer);
    }
    if (more) answer_line(answer, "the pages do not end");
}

static void do_set(struct real *real, const struct request *request, struct answer *answer) {
    struct words words = {0};
    word_text(&words, "SET");
    word(&words, request_key(request->keys[0]));
    word(&words, request_token(request->token));
    if (request->op == REQUEST_SET_NX) word_text(&words, "NX");
    if (request->op != REQUEST_SET) {
        word_text(&words, "PX");
        word_number(&words, request->number);
    }
    send_words(real, &words, answer);
}

static void do_key(struct real *real, const char *command, const struct request *request,
                   struct answer *answer) {
    struct words words = {0};
    word_text(&words, command);
    word(&words, request_key(request->keys[0]));
    if (strcmp(command, "PEXPIRE") == 0) word_number(&words, request->number);
    if (strcmp(command, "RPUSH") == 0) word_text(&words, "element");
    if (strcmp(command, "GETRANGE") == 0) {
        word_text(&words, "0");
        word_text(&words, "1024");
    }
    send_words(real, &words, answer);
}

/* Active expiry is off but for this, so that it is known which keys it has found. */
static void expire_due(struct real *real, long long count, struct answer *answer) {
    must(real, "DEBUG SET-ACTIVE-EXPIRE 1");
    long long left = real_count(real);
    for (int i = 0; i < 2000 && left > count; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        left = real_count(real);
    }
    must(real, "DEBUG SET-ACTIVE-EXPIRE 0");
    answer_line(answer, "%lld left", left);
}

void real_do(struct real *real, const struct request *request, long long count,
             struct answer *answer) {
    switch (request->op) {
    case REQUEST_SET_NX:
    case REQUEST_SET:
    case REQUEST_SET_PX: do_set(real, request, answer); break;
    case REQUEST_ACQUIRE_MANY: do_script(real, NODE_ACQUIRE_MANY, request, answer); break;
    case REQUEST_EXTEND: do_script(real, NODE_EXTEND, request, answer); break;
    case REQUEST_RELEASE:
        if (!do_deleter(real, request, answer)) do_script(real, NODE_RELEASE, request, answer);
        break;
    case REQUEST_SHARE: real_share(real, NODE_SHARE, request, false, answer); break;
    case REQUEST_SHARE_EXTEND: real_share(real, NODE_SHARE_EXTEND, request, false, answer); break;
    case REQUEST_SHARE_RELEASE: real_share(real, NODE_SHARE_RELEASE, request, false, answer); break;
    case REQUEST_READERS: do_readers(real, request, answer); break;
    case REQUEST_PEEK_VALUE:
        do_key(real, "PTTL", request, answer);
        do_key(real, "GETRANGE", request, answer);
        break;
    case REQUEST_OTHER_TYPE:
        do_key(real, "DEL", request, answer);
        do_key(real, "RPUSH", request, answer);
        break;
    case REQUEST_PTTL: do_key(real, "PTTL", request, answer); break;
    case REQUEST_GET: do_key(real, "GET", request, answer); break;
    case REQUEST_DEL: do_key(real, "DEL", request, answer); break;
    case REQUEST_PEXPIRE: do_key(real, "PEXPIRE", request, answer); break;
    case REQUEST_EXPIRE_DUE: expire_due(real, count, answer); break;
    case REQUEST_FLUSHALL:
    case REQUEST_SNAPSHOT:
    case REQUEST_RESTORE:
        must(real, request->op == REQUEST_FLUSHALL   ? "FLUSHALL"
                   : request->op == REQUEST_SNAPSHOT ? "SAVE"
                                                     : "DEBUG RELOAD NOSAVE");
        answer_line(answer, "OK");
        break;
    case REQUEST_CLOCK_STEP:
    case REQUEST_CLOCK_TO_END: break;
    default: real_guarded_do(real, request, answer);
    }
}

/* ---- its life -------------------------------------------------------------------------------- */

bool real_is_guarded(const struct real *real) { return real->version >= 602; }

/* Tried on Redis 8.0.2 and 8.0.6; the others on 6.2.14, 7.0.15, 7.4.1, Valkey 8.1.1 and 9.1.2, and
 * Redict 7.3.6. */
enum node_end_rule real_end_rule(const struct real *real) {
    return !real->valkey && real->version >= 800 ? NODE_EXPIRES_AT : NODE_ENDS_AFTER;
}

static void check_clock(struct real *real) {
    if (!(reads_clock_late(real) ? await_time(real) : has_time(real, *real->clock_us, 0)))
        real_die("TIME", "the server does not go by the clock of the test");
}

static bool is_valkey(struct real *real) {
    redisReply *reply = ask(real, "INFO server");
    if (reply->type != REDIS_REPLY_STRING) real_die("INFO", "no text");
    bool valkey = strstr(reply->str, "valkey_version:") != NULL;
    freeReplyObject(reply);
    return valkey;
}

static const char *deleter_of(struct real *real) {
    static const char *const names[] = {"DELEX", "DELIFEQ"};
    for (size_t i = 0; i < 2; i++) {
        redisReply *reply = ask(real, names[i]);
        const bool known = strstr(reply->str, "wrong number of arguments") != NULL;
        freeReplyObject(reply);
        if (known) return names[i];
    }
    return NULL;
}

static void load_scripts(struct real *real) {
    for (int i = 0; i < NODE_SCRIPTS_ALL; i++) {
        redisReply *reply =
            ask(real, "SCRIPT LOAD %b", node_scripts[i].text, node_scripts[i].bytes);
        if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, node_scripts[i].sha1) != 0)
            real_die("SCRIPT LOAD", reply->str ? reply->str : "no digest");
        freeReplyObject(reply);
    }
}

struct real *real_start(const char *stepclock, int64_t now_us) {
    static const char *const arguments[] = {"--hz", "500",
                                            NULL}; /* so often does active expiry run */
    static const char *const permitting[] = {"--hz", "500", "--enable-debug-command", "local",
                                             NULL};
    struct real *real = calloc(1, sizeof(*real));
    if (!real) real_die("memory", "none");
    real->version = servers_version();
    /* Since 7.0 DEBUG needs a permission, by an option that those before do not know. */
    bool permission = real->version >= 700;
    open_clock(real);
    real_clock(real, now_us);
    setenv("STEPCLOCK_FILE", real->clock_path, 1);
    setenv("LD_PRELOAD", stepclock, 1);
    server_start(&real->server, permission ? permitting : arguments);
    unsetenv("LD_PRELOAD");
    real->connection = redisConnect("127.0.0.1", real->server.port);
    if (!real->connection || real->connection->err) real_die("connect", "failed");
    unlink(real->clock_path); /* both have it open */
    real->valkey = is_valkey(real);
    real->deleter = deleter_of(real);
    check_clock(real);
    load_scripts(real);
    must(real, "DEBUG SET-ACTIVE-EXPIRE 0");
    return real;
}

void real_reset(struct real *real) {
    must(real, "FLUSHALL");
    must(real, "SAVE");
}

void real_stop(struct real *real) {
    redisFree(real->connection);
    server_stop(&real->server);
    munmap((void *)(uintptr_t)real->clock_us, sizeof(int64_t));
    free(real);
}
