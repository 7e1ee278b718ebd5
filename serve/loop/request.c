/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hiredis reads requests as it reads replies: a request is an array of strings. The bytes of each
 * word are copied to the arena, since hiredis's own buffer moves when a request arrives in several
 * reads.
 */
#include "request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* For its version, which decides the types below; of hiredis only the reader is used. */
#include <hiredis/hiredis.h>

enum { ARENA_BYTES_AT_FIRST = 512, ARENA_BYTES_KEPT = 16 * 1024 };

/* The object that hiredis gets; it only checks that it is not NULL. */
static char accepted;
static const char out_of_memory[] = "out of memory";

static void *refuse(struct request_reader *reader, const char *error) {
    reader->error = error;
    return NULL;
}

static bool arena_reserve(struct request_reader *reader, size_t bytes) {
    size_t capacity = reader->arena_capacity;
    if (capacity == 0) capacity = ARENA_BYTES_AT_FIRST;
    while (capacity - reader->arena_bytes < bytes) capacity *= 2;
    if (capacity == reader->arena_capacity) return true;
    char *arena = realloc(reader->arena, capacity);
    if (arena == NULL) return false;
    reader->arena = arena;
    reader->arena_capacity = capacity;
    return true;
}

static void *on_string(const redisReadTask *task, char *text, size_t bytes) {
    struct request_reader *reader = task->privdata;
    if (task->type != REDIS_REPLY_STRING)
        return refuse(reader, "a request is an array of bulk strings");
    if (reader->count == REQUEST_WORDS_MAX) return refuse(reader, "too many words in a request");
    if (!arena_reserve(reader, bytes)) return refuse(reader, out_of_memory);
    if (bytes > 0) memcpy(reader->arena + reader->arena_bytes, text, bytes);
    reader->arena_bytes += bytes;
    reader->words[reader->count++].bytes =
        bytes; /* its address is known when the arena no longer moves */
    return &accepted;
}

static void *on_elements(const redisReadTask *task, size_t elements) {
    struct request_reader *reader = task->privdata;
    if (task->parent != NULL) return refuse(reader, "an array within a request");
    if (elements > REQUEST_WORDS_MAX) return refuse(reader, "too many words in a request");
    return &accepted;
}

/* "*-1" is an empty request, as in Redis. */
static void *on_nil(const redisReadTask *task) {
    return task->parent == NULL ? &accepted : refuse(task->privdata, "a nil within a request");
}

static void *on_integer(const redisReadTask *task, long long value) {
    (void)value;
    return refuse(task->privdata, "a number where a bulk string belongs");
}

static void on_free(void *object) { (void)object; }

/* The functions' types are the only thing that differs between hiredis 0.14 and 1.x. */
#if HIREDIS_MAJOR >= 1
static void *on_array(const redisReadTask *task, size_t elements) {
    return on_elements(task, elements);
}
static void *on_double(const redisReadTask *task, double value, char *text, size_t bytes) {
    (void)value, (void)text, (void)bytes;
    return refuse(task->privdata, "a number where a bulk string belongs");
}
static void *on_bool(const redisReadTask *task, int value) {
    (void)value;
    return refuse(task->privdata, "a boolean where a bulk string belongs");
}
static redisReplyObjectFunctions functions = {on_string, on_array, on_integer, on_double,
                                              on_nil,    on_bool,  on_free};
#else
static void *on_array(const redisReadTask *task, int elements) {
    return on_elements(task, (size_t)elements);
}
static redisReplyObjectFunctions functions = {on_string, on_array, on_integer, on_nil, on_free};
#endif

bool request_open(struct request_reader *reader) {
    memset(reader, 0, sizeof *reader);
    reader->hiredis = redisReaderCreateWithFunctions(&functions);
    if (reader->hiredis == NULL) return false;
    reader->hiredis->privdata = reader;
    return true;
}

void request_close(struct request_reader *reader) {
    if (reader->hiredis != NULL) redisReaderFree(reader->hiredis);
    free(reader->inline_request);
    free(reader->arena);
    memset(reader, 0, sizeof *reader);
}

static bool feed_inline(struct request_reader *reader, const char *data, size_t bytes) {
    char *inline_request = realloc(reader->inline_request, reader->inline_request_bytes + bytes);
    if (inline_request == NULL) return false;
    memcpy(inline_request + reader->inline_request_bytes, data, bytes);
    reader->inline_request = inline_request;
    reader->inline_request_bytes += bytes;
    return true;
}

/* hiredis frees what it has when it finds no memory. */
void request_feed(struct request_reader *reader, const char *data, size_t bytes) {
    if (bytes == 0 || reader->error != NULL) return;
    const bool fed = reader->inline_request != NULL
                         ? feed_inline(reader, data, bytes)
                         : redisReaderFeed(reader->hiredis, data, bytes) == REDIS_OK;
    if (!fed) {
        reader->error = out_of_memory;
        return;
    }
    reader->pending += bytes;
    reader->grown = reader->grown || reader->pending > ARENA_BYTES_KEPT;
}

static enum request_status bad(struct request_reader *reader, const char *error) {
    reader->error = error;
    return error == out_of_memory ? REQUEST_NO_MEMORY : REQUEST_BAD;
}

/* ---- lines ---- */

struct splitting {
    const char *at, *end;
    char *out; /* never ahead of `at`: what is quoted becomes shorter */
};

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Behind a backslash. */
static char escaped(struct splitting *s) {
    char c = *s->at++;
    if (c == 'x' && s->end - s->at >= 2 && digit(s->at[0]) >= 0 && digit(s->at[1]) >= 0) {
        c = (char)(digit(s->at[0]) * 16 + digit(s->at[1]));
        s->at += 2;
        return c;
    }
    if (c == 'n') return '\n';
    if (c == 'r') return '\r';
    if (c == 't') return '\t';
    return c;
}

/* Behind the opening quote. False: there is no closing one, or no blank behind it. */
static bool quoted(struct splitting *s, char quote) {
    while (s->at < s->end && *s->at != quote) {
        bool escapes = *s->at == '\\' && s->end - s->at >= 2 && (quote == '"' || s->at[1] == '\'');
        if (escapes) s->at++;
        *s->out++ = escapes ? escaped(s) : *s->at++;
    }
    if (s->at == s->end) return false;
    s->at++;
    return s->at == s->end || is_blank(*s->at);
}

static bool word(struct splitting *s) {
    while (s->at < s->end && !is_blank(*s->at)) {
        char c = *s->at++;
        if (c == '"' || c == '\'') return quoted(s, c);
        *s->out++ = c;
    }
    return true;
}

/* Splits a line into words like a shell: 'as it is', "with \" \\ \n \r \t \xHH", blanks between.
 * The words are built in place, in `line`. Returns their count, or -1: a quote is not closed, or
 * there are too many words. */
static int split(char *line, size_t bytes, struct bytes *words) {
    struct splitting s = {.at = line, .end = line + bytes, .out = line};
    size_t count = 0;
    while (true) {
        while (s.at < s.end && is_blank(*s.at)) s.at++;
        if (s.at == s.end) return (int)count;
        if (count == REQUEST_WORDS_MAX) return -1;
        char *from = s.out;
        if (!word(&s)) return -1;
        words[count++] = (struct bytes){from, (size_t)(s.out - from)};
    }
}

/* What hiredis has not read is no array: it becomes a line, and hiredis forgets it. */
static bool become_inline(struct request_reader *reader) {
    redisReader *old = reader->hiredis, *fresh = redisReaderCreateWithFunctions(&functions);
    if (fresh == NULL) return false;
    fresh->privdata = reader;
    bool kept = feed_inline(reader, old->buf + old->pos, old->len - old->pos);
    redisReaderFree(old);
    reader->hiredis = fresh;
    return kept;
}

/* What follows a line may be an array again. */
static bool leave_inline(struct request_reader *reader, size_t used) {
    char *inline_request = reader->inline_request;
    size_t left = reader->inline_request_bytes - used;
    reader->pending = left;
    if (left > 0 && inline_request[used] != '*') {
        memmove(inline_request, inline_request + used, left);
        reader->inline_request_bytes = left;
        return true;
    }
    reader->inline_request = NULL;
    reader->inline_request_bytes = 0;
    bool fed =
        left == 0 || redisReaderFeed(reader->hiredis, inline_request + used, left) == REDIS_OK;
    free(inline_request);
    return fed;
}

static enum request_status next_inline(struct request_reader *reader) {
    char *end = memchr(reader->inline_request, '\n', reader->inline_request_bytes);
    size_t bytes =
        end != NULL ? (size_t)(end - reader->inline_request) : reader->inline_request_bytes;
    if (bytes > REQUEST_INLINE_BYTES_MAX) return bad(reader, "the line is too long");
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)reader->inline_request[i];
        bool blank = byte == '\t' || (byte == '\r' && i + 1 == bytes);
        if ((byte < ' ' && !blank) || byte == 0x7f)
            return bad(reader, "neither an array of bulk strings nor a line of text");
    }
    if (end == NULL) return REQUEST_MORE;
    size_t used = bytes + 1;
    if (bytes > 0 && reader->inline_request[bytes - 1] == '\r') bytes--;
    if (!arena_reserve(reader, bytes)) return bad(reader, out_of_memory);
    if (bytes > 0) memcpy(reader->arena, reader->inline_request, bytes);
    int count = split(reader->arena, bytes, reader->words);
    if (count < 0) return bad(reader, "unbalanced quotes in request");
    reader->count = (size_t)count;
    reader->midway = false;
    return leave_inline(reader, used) ? REQUEST_READY : bad(reader, out_of_memory);
}

/* ---- arrays ---- */

static enum request_status next_array(struct request_reader *reader) {
    void *object = NULL;
    int outcome = redisReaderGetReply(reader->hiredis, &object);
    if (outcome != REDIS_OK && reader->error == NULL)
        reader->error = reader->hiredis->err == REDIS_ERR_OOM ? out_of_memory : "not a request";
    if (outcome != REDIS_OK) return bad(reader, reader->error);
    size_t behind = object != NULL ? reader->hiredis->len - reader->hiredis->pos : 0;
    if (reader->pending - behind > REQUEST_BYTES_MAX) return bad(reader, "the request is too long");
    if (object == NULL) return REQUEST_MORE;
    reader->midway = false;
    reader->pending = behind;
    const char *at = reader->arena;
    for (size_t i = 0; i < reader->count; i++) {
        reader->words[i].data = at;
        at += reader->words[i].bytes;
    }
    return REQUEST_READY;
}

bool request_is_idle(const struct request_reader *reader) {
    return !reader->midway && reader->pending == 0 && reader->inline_request == NULL &&
           reader->error == NULL;
}

bool request_is_small(const struct request_reader *reader) {
    return !reader->grown && reader->arena_capacity <= ARENA_BYTES_KEPT;
}

/* hiredis asks for twice what it needs. */
size_t request_weight(const struct request_reader *reader) {
    return reader->arena_capacity + reader->inline_request_bytes + 2 * reader->hiredis->len;
}

enum request_status request_next(struct request_reader *reader) {
    if (reader->error != NULL) return bad(reader, reader->error);
    if (!reader->midway) {
        /* A request has ended: frees its words, and the memory of a long one. */
        reader->count = reader->arena_bytes = 0;
        if (reader->arena_capacity > ARENA_BYTES_KEPT) {
            free(reader->arena);
            reader->arena = NULL;
            reader->arena_capacity = 0;
        }
        if (reader->pending == 0) return REQUEST_MORE;
        reader->midway = true;
        const redisReader *hiredis = reader->hiredis;
        if (reader->inline_request == NULL && hiredis->buf[hiredis->pos] != '*' &&
            !become_inline(reader))
            return bad(reader, out_of_memory);
    }
    return reader->inline_request != NULL ? next_inline(reader) : next_array(reader);
}

bool command_is(struct bytes word, const char *text) {
    return word.bytes == strlen(text) && strncasecmp(word.data, text, word.bytes) == 0;
}

bool request_number(struct bytes word, int64_t *number) {
    char text[24], *end = NULL; /* INT64_MIN has 20 bytes */
    if (word.bytes == 0 || word.bytes >= sizeof text) return false;
    memcpy(text, word.data, word.bytes);
    text[word.bytes] = '\0';
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
        return false; /* strtoll(3) would pass over blanks and '+' */
    long long value = strtoll(text, &end, 10);
    /* the limits: also what strtoll(3) returns when out of range */
    if (end != text + word.bytes || value == INT64_MAX || value == INT64_MIN) return false;
    *number = value;
    return true;
}
