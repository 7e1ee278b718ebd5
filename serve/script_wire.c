/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_wire.h"

#include <assert.h>
#include <string.h>

/* ---- writing ---- */

/* `at` NULL: only counts. */
struct writer {
    char *at;
    size_t bytes;
};

static void put(struct writer *writer, const void *data, size_t bytes) {
    if (writer->at != NULL && bytes > 0) memcpy(writer->at + writer->bytes, data, bytes);
    writer->bytes += bytes;
}

static void put_number(struct writer *writer, int64_t number) {
    put(writer, &number, sizeof number);
}

static void put_bytes(struct writer *writer, struct script_bytes bytes) {
    const uint32_t count = (uint32_t)bytes.bytes;
    put(writer, &count, sizeof count);
    put(writer, bytes.data, bytes.bytes);
}

static void put_script(struct writer *writer, const struct wire_message *message) {
    put(writer, message->sha, SCRIPT_SHA_BYTES);
    put_bytes(writer, message->text);
}

static void put_run(struct writer *writer, const struct wire_message *message) {
    put_script(writer, message);
    put_bytes(writer, message->key);
    put_number(writer, (int64_t)message->argument_count);
    for (size_t i = 0; i < message->argument_count; i++) put_bytes(writer, message->arguments[i]);
}

/* Only what the gateway needs: a value to take the lock with. */
static void put_call(struct writer *writer, const struct script_call *call) {
    put_number(writer, call->command);
    put_number(writer, call->ttl_ms);
    put_bytes(writer, call->command == SCRIPT_TAKE ? call->value : (struct script_bytes){NULL, 0});
}

static void put_value(struct writer *writer, const struct script_value *value) {
    const bool is_text = value->kind != SCRIPT_NIL && value->kind != SCRIPT_INTEGER;
    put_number(writer, value->kind);
    put_number(writer, value->kind == SCRIPT_INTEGER ? value->integer : 0);
    put_bytes(writer, is_text ? value->bytes : (struct script_bytes){NULL, 0});
}

static void put_body(struct writer *writer, const struct wire_message *message) {
    switch (message->kind) {
    case WIRE_READY:
        put_number(writer, message->pid);
        put_number(writer, message->limited);
        put_number(writer, message->filtered);
        return;
    case WIRE_LOAD: put_script(writer, message); return;
    case WIRE_LOADED: return;
    case WIRE_REFUSED: put_bytes(writer, message->text); return;
    case WIRE_RUN: put_run(writer, message); return;
    case WIRE_CALL: put_call(writer, &message->call); return;
    case WIRE_ANSWER:
    case WIRE_END: put_value(writer, &message->value); return;
    }
}

size_t wire_bytes(const struct wire_message *message) {
    struct writer writer = {NULL, WIRE_HEAD_BYTES};
    put_body(&writer, message);
    return writer.bytes;
}

void wire_write(const struct wire_message *message, char *frame) {
    struct writer writer = {frame, WIRE_HEAD_BYTES};
    put_body(&writer, message);
    assert(writer.bytes - WIRE_HEAD_BYTES <= WIRE_BODY_BYTES_MAX);
    const uint32_t head[2] = {(uint32_t)(writer.bytes - WIRE_HEAD_BYTES), (uint32_t)message->kind};
    memcpy(frame, head, sizeof head);
}

/* ---- reading ---- */

/* After an error (`good` is false), every read returns zero. */
struct reader {
    const char *at;
    size_t left;
    bool good;
};

static void get(struct reader *reader, void *data, size_t bytes) {
    reader->good = reader->good && bytes <= reader->left;
    if (!reader->good) {
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, reader->at, bytes);
    reader->at += bytes;
    reader->left -= bytes;
}

/* A value out of range is treated as absent. */
static int64_t get_number(struct reader *reader, int64_t least, int64_t most) {
    int64_t number;
    get(reader, &number, sizeof number);
    if (number < least || number > most) reader->good = false;
    return reader->good ? number : 0;
}

static struct script_bytes get_bytes(struct reader *reader) {
    uint32_t count;
    get(reader, &count, sizeof count);
    if (count > reader->left) reader->good = false;
    if (!reader->good) return (struct script_bytes){NULL, 0};
    const struct script_bytes bytes = {reader->at, count};
    reader->at += count;
    reader->left -= count;
    return bytes;
}

static void get_script(struct reader *reader, struct wire_message *message) {
    get(reader, message->sha, SCRIPT_SHA_BYTES);
    message->sha[SCRIPT_SHA_BYTES] = '\0';
    message->text = get_bytes(reader);
}

static void get_run(struct reader *reader, struct wire_message *message,
                    struct script_bytes *room) {
    get_script(reader, message);
    message->key = get_bytes(reader);
    message->argument_count = (size_t)get_number(reader, 0, WIRE_ARGUMENTS_MAX);
    message->arguments = room;
    for (size_t i = 0; i < message->argument_count && reader->good; i++)
        room[i] = get_bytes(reader);
}

/* No call is made with a TTL that is not positive: it deletes, or is an error. */
static void get_call(struct reader *reader, struct script_call *call) {
    call->command = (enum script_command)get_number(reader, SCRIPT_GET, SCRIPT_TAKE);
    const bool lives = call->command == SCRIPT_EXTEND || call->command == SCRIPT_TAKE;
    call->ttl_ms = get_number(reader, lives ? 1 : INT64_MIN, INT64_MAX);
    call->value = get_bytes(reader);
}

static void get_value(struct reader *reader, struct script_value *value) {
    value->kind = (enum script_kind)get_number(reader, SCRIPT_NIL, SCRIPT_ERROR);
    value->integer = get_number(reader, INT64_MIN, INT64_MAX);
    value->bytes = get_bytes(reader);
}

static void get_ready(struct reader *reader, struct wire_message *message) {
    message->pid = get_number(reader, 1, INT32_MAX);
    message->limited = get_number(reader, 0, 1) != 0;
    message->filtered = get_number(reader, 0, 1) != 0;
}

static void get_body(struct reader *reader, struct wire_message *message,
                     struct script_bytes *room) {
    switch (message->kind) {
    case WIRE_READY: get_ready(reader, message); return;
    case WIRE_LOAD: get_script(reader, message); return;
    case WIRE_LOADED: return;
    case WIRE_REFUSED: message->text = get_bytes(reader); return;
    case WIRE_RUN:
        if (room == NULL) break;
        get_run(reader, message, room);
        return;
    case WIRE_CALL: get_call(reader, &message->call); return;
    case WIRE_ANSWER:
    case WIRE_END: get_value(reader, &message->value); return;
    }
    reader->good = false;
}

size_t wire_body_bytes(const char head[WIRE_HEAD_BYTES]) {
    uint32_t bytes;
    memcpy(&bytes, head, sizeof bytes);
    return bytes;
}

bool wire_read(const char *frame, size_t bytes, struct wire_message *message,
               struct script_bytes room[WIRE_ARGUMENTS_MAX]) {
    uint32_t head[2];
    struct reader reader = {frame, bytes, true};
    get(&reader, head, sizeof head);
    if (!reader.good || head[0] != reader.left || head[1] > WIRE_END) return false;
    message->kind = (enum wire_kind)head[1];
    get_body(&reader, message, room);
    return reader.good && reader.left == 0;
}
