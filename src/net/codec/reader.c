/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hiredis calls one of the functions below for each value of a reply: a string, a number, or the
 * head of an array. The value's bytes are copied to the arena, because hiredis may move its own
 * buffer while the rest of the reply is read. Slots and arena grow only for a reply that is larger
 * than all before on this connection (SCAN), up to fixed limits.
 *
 * Nearly all answers to a lock's requests are "+OK", ":1" or "$-1" ("_" in RESP3), and one read
 * brings many of them. next_plain() takes those directly from the bytes that were read. From the
 * first other or incomplete reply on, hiredis or resp3.c takes the bytes. */
#include "net/codec/reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

enum { SLOTS_AT_FIRST = 80, ARENA_BYTES_AT_FIRST = 1024 };

static bool grow_slots(struct reader *reader) {
    size_t capacity = reader->slots_capacity * 2;
    struct reply_slot *slots = realloc(reader->slots, capacity * sizeof(*slots));
    if (slots) reader->slots = slots;
    struct net_bytes *bytes = realloc(reader->bytes, capacity * sizeof(*bytes));
    if (bytes) reader->bytes = bytes;
    if (slots && bytes) reader->slots_capacity = capacity;
    return slots && bytes;
}

bool reader_add_slot(struct reader *reader, enum reply_type type, int64_t integer, size_t bytes) {
    reader->oversized = reader->slots_count == READER_ELEMENTS_MAX;
    if (reader->oversized) return false;
    reader->no_memory = reader->slots_count == reader->slots_capacity && !grow_slots(reader);
    if (reader->no_memory) return false;
    size_t at = reader->slots_count++;
    reader->slots[at] = (struct reply_slot){type, integer};
    reader->bytes[at] = (struct net_bytes){NULL, bytes};
    return true;
}

bool reader_add_bytes(struct reader *reader, const char *data, size_t bytes) {
    if (reader->arena_capacity - reader->arena_bytes < bytes) {
        size_t capacity = reader->arena_capacity;
        while (capacity - reader->arena_bytes < bytes) capacity *= 2;
        char *arena = realloc(reader->arena, capacity);
        reader->no_memory = !arena;
        if (!arena) return false;
        reader->arena = arena;
        reader->arena_capacity = capacity;
    }
    if (bytes > 0) memcpy(reader->arena + reader->arena_bytes, data, bytes);
    reader->arena_bytes += bytes;
    return true;
}

/* hiredis only asks that an object is not NULL; the count of slots is not. */
static void *new_slot(const redisReadTask *task, enum reply_type type, int64_t integer,
                      size_t bytes) {
    struct reader *reader = task->privdata;
    if (!reader_add_slot(reader, type, integer, bytes)) return NULL;
    return (void *)(uintptr_t)reader->slots_count;
}

/* RESP3 types that newer versions of hiredis know. */
static void *refuse(const redisReadTask *task) {
    ((struct reader *)task->privdata)->malformed = true;
    return NULL;
}

static void *on_string(const redisReadTask *task, char *text, size_t bytes) {
    enum reply_type type;
    switch (task->type) {
    case REDIS_REPLY_STRING: type = REPLY_STRING; break;
    case REDIS_REPLY_STATUS: type = REPLY_STATUS; break;
    case REDIS_REPLY_ERROR: type = REPLY_ERROR; break;
    default: return refuse(task);
    }
    return reader_add_bytes(task->privdata, text, bytes) ? new_slot(task, type, 0, bytes) : NULL;
}

static void *on_elements(const redisReadTask *task, size_t elements) {
    struct reader *reader = task->privdata;
    if (task->type != REDIS_REPLY_ARRAY) return refuse(task);
    reader->oversized = elements > READER_ELEMENTS_MAX;
    return reader->oversized ? NULL : new_slot(task, REPLY_ARRAY, (int64_t)elements, 0);
}

static void *on_integer(const redisReadTask *task, long long value) {
    return new_slot(task, REPLY_INTEGER, value, 0);
}
static void *on_nil(const redisReadTask *task) { return new_slot(task, REPLY_NIL, 0, 0); }
static void on_free(void *object) { (void)object; }

/* The functions' types are the only thing that differs between hiredis 0.14 and 1.x. */
#if HIREDIS_MAJOR >= 1
static void *on_array(const redisReadTask *task, size_t elements) {
    return on_elements(task, elements);
}
static void *on_double(const redisReadTask *task, double value, char *text, size_t bytes) {
    (void)value, (void)text, (void)bytes;
    return refuse(task);
}
static void *on_bool(const redisReadTask *task, int value) {
    (void)value;
    return refuse(task);
}
static redisReplyObjectFunctions functions = {on_string, on_array, on_integer, on_double,
                                              on_nil,    on_bool,  on_free};
static int task_type(const redisReader *hiredis) { return hiredis->task[hiredis->ridx]->type; }
#else
static void *on_array(const redisReadTask *task, int elements) {
    return on_elements(task, (size_t)elements);
}
static redisReplyObjectFunctions functions = {on_string, on_array, on_integer, on_nil, on_free};
static int task_type(const redisReader *hiredis) { return hiredis->rstack[hiredis->ridx].type; }
#endif

bool reader_open(struct reader *reader) {
    memset(reader, 0, sizeof(*reader));
    reader->slots_capacity = SLOTS_AT_FIRST;
    reader->arena_capacity = ARENA_BYTES_AT_FIRST;
    reader->slots = malloc(SLOTS_AT_FIRST * sizeof(*reader->slots));
    reader->bytes = malloc(SLOTS_AT_FIRST * sizeof(*reader->bytes));
    reader->arena = malloc(ARENA_BYTES_AT_FIRST);
    reader->hiredis = redisReaderCreateWithFunctions(&functions);
    if (reader->slots && reader->bytes && reader->arena && reader->hiredis &&
        reader->hiredis->buf) {
        reader->hiredis->privdata = reader;
        /* Else hiredis takes a smaller buffer after a large answer, and 0.14 ends the process when
         * there is no memory. */
        reader->hiredis->maxbuf = 0;
        return true;
    }
    reader_close(reader);
    return false;
}

void reader_close(struct reader *reader) {
    if (reader->hiredis) redisReaderFree(reader->hiredis);
    free(reader->slots);
    free(reader->bytes);
    free(reader->arena);
    memset(reader, 0, sizeof(*reader));
}

static bool feed_hiredis(struct reader *reader) {
    size_t bytes = reader->direct_bytes;
    if (bytes == 0) return true;
    reader->pending += bytes;
    reader->direct_bytes = 0;
    return redisReaderFeed(reader->hiredis, reader->direct, bytes) == REDIS_OK;
}

bool reader_is_empty(const struct reader *reader) {
    return reader->pending == 0 && reader->direct_bytes == 0;
}

bool reader_is_in_reply(const struct reader *reader) {
    const struct resp3 *resp3 = &reader->resp3;
    return reader->pending > 0 && !(resp3->on && (resp3->push || resp3->type == '>'));
}

void reader_expect_resp3(struct reader *reader, bool on) {
    assert(reader->pending == 0);
    reader->resp3.on = on;
}

bool reader_feed(struct reader *reader, const char *data, size_t bytes) {
    if (reader->resp3.on)
        assert(reader->direct_bytes == 0);
    else if (!feed_hiredis(reader))
        return false;
    reader->direct = data;
    reader->direct_bytes = bytes;
    return true;
}

/* ---- the plainest replies ---- */

static bool take_plain(struct reader *reader, size_t bytes, enum reply_type type, int64_t integer) {
    reader->direct += bytes;
    reader->direct_bytes -= bytes;
    reader->slots_count = 1;
    reader->slots[0] = (struct reply_slot){type, integer};
    reader->bytes[0] =
        type == REPLY_STATUS ? (struct net_bytes){"OK", 2} : (struct net_bytes){NULL, 0};
    reader->whole = true;
    return true;
}

static bool next_plain(struct reader *reader) {
    const char *at = reader->direct;
    size_t left = reader->direct_bytes;
    if (reader->pending > 0) return false;
    if (left >= 4 && at[0] == ':' && at[1] >= '0' && at[1] <= '9' && at[2] == '\r' && at[3] == '\n')
        return take_plain(reader, 4, REPLY_INTEGER, at[1] - '0');
    if (left >= 3 && reader->resp3.on && memcmp(at, "_\r\n", 3) == 0)
        return take_plain(reader, 3, REPLY_NIL, 0);
    if (left < 5) return false;
    if (memcmp(at, "+OK\r\n", 5) == 0) return take_plain(reader, 5, REPLY_STATUS, 0);
    if (memcmp(at, "$-1\r\n", 5) == 0) return take_plain(reader, 5, REPLY_NIL, 0);
    return false;
}

/* A string whose announced length is above the limit is refused at once, not after all of it has
 * come. */
static bool announces_too_much(const redisReader *hiredis) {
    if (hiredis->ridx < 0 || task_type(hiredis) != REDIS_REPLY_STRING) return false;
    size_t announced = 0;
    for (size_t at = hiredis->pos;
         at < hiredis->len && hiredis->buf[at] >= '0' && hiredis->buf[at] <= '9'; at++) {
        announced = announced * 10 + (size_t)(hiredis->buf[at] - '0');
        if (announced > READER_REPLY_BYTES_MAX) return true;
    }
    return false;
}

static enum reader_status next_of_hiredis(struct reader *reader) {
    if (!feed_hiredis(reader)) return READER_NO_MEMORY;
    void *object = NULL;
    int outcome = redisReaderGetReply(reader->hiredis, &object);
    size_t left = reader->hiredis->len - reader->hiredis->pos;
    if (reader->oversized) return READER_OVERSIZED;
    if (reader->malformed) return READER_MALFORMED;
    if (reader->no_memory) return READER_NO_MEMORY;
    if (outcome != REDIS_OK)
        return reader->hiredis->err == REDIS_ERR_OOM ? READER_NO_MEMORY : READER_MALFORMED;
    if (!object) {
        bool too_much =
            reader->pending > READER_REPLY_BYTES_MAX || announces_too_much(reader->hiredis);
        return too_much ? READER_OVERSIZED : READER_MORE;
    }
    reader->pending = left;
    return READER_REPLY;
}

enum reader_status reader_next(struct reader *reader) {
    if (reader->whole) reader->slots_count = reader->arena_bytes = 0;
    reader->whole = false;
    if (next_plain(reader)) return READER_REPLY;
    enum reader_status status = reader->resp3.on ? resp3_next(reader) : next_of_hiredis(reader);
    reader->whole = status == READER_REPLY || status == READER_PUSH;
    /* the arena stays in its place from now on */
    const char *at = reader->arena;
    for (size_t i = 0; reader->whole && i < reader->slots_count; i++) {
        reader->bytes[i].data = at;
        at += reader->bytes[i].bytes;
    }
    return status;
}

static bool is_text(const struct reader *reader, size_t slot, enum reply_type type,
                    const char *text) {
    return slot < reader->slots_count && reader->slots[slot].type == type &&
           bytes_equal(reader->bytes[slot], (struct net_bytes){text, strlen(text)});
}

bool reader_is_status(const struct reader *reader, size_t slot, const char *text) {
    return is_text(reader, slot, REPLY_STATUS, text);
}

bool reader_is_string(const struct reader *reader, size_t slot, const char *text) {
    return is_text(reader, slot, REPLY_STRING, text);
}

bool reader_is_strings(const struct reader *reader, size_t slot, int64_t count) {
    const struct reply_slot *slots = reader->slots + slot;
    if (slot >= reader->slots_count || slots[0].type != REPLY_ARRAY || slots[0].integer != count ||
        reader->slots_count - slot - 1 < (size_t)count)
        return false;
    for (int64_t i = 1; i <= count; i++)
        if (slots[i].type != REPLY_STRING) return false;
    return true;
}
