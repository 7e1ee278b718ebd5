/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Each message is described once, for counting, writing and reading.
 */
#include "script_wire.h"

#include <assert.h>

#include "element.h"

/* Without `to` and `from` it only counts. After an error (`good` is false), every read returns
 * zero.
 */
struct wire {
    char *to;
    const char *from;
    size_t at, end;
    bool good;
};

static const struct bytes nothing = {NULL, 0};

static void transfer(struct wire *wire, void *data, size_t bytes) {
    if (wire->from != NULL) {
        wire->good = wire->good && bytes <= wire->end - wire->at;
        if (!wire->good) {
            memset(data, 0, bytes);
            return;
        }
        memcpy(data, wire->from + wire->at, bytes);
    } else if (wire->to != NULL) {
        memcpy(wire->to + wire->at, data, bytes);
    }
    wire->at += bytes;
}

/* A value out of range is treated as absent. */
static int64_t number(struct wire *wire, int64_t value, int64_t least, int64_t most) {
    transfer(wire, &value, sizeof value);
    if (wire->from == NULL) return value;
    if (value < least || value > most) wire->good = false;
    return wire->good ? value : 0;
}

static struct bytes bytes(struct wire *wire, struct bytes value) {
    uint32_t count = (uint32_t)value.bytes;
    transfer(wire, &count, sizeof count);
    if (wire->from != NULL) {
        if (count > wire->end - wire->at) wire->good = false;
        if (!wire->good) return nothing;
        value = (struct bytes){wire->from + wire->at, count};
    } else if (wire->to != NULL && count > 0) {
        memcpy(wire->to + wire->at, value.data, count);
    }
    wire->at += count;
    return value;
}

static void script(struct wire *wire, struct wire_message *message) {
    transfer(wire, message->sha, SCRIPT_SHA_BYTES);
    message->sha[SCRIPT_SHA_BYTES] = '\0';
    message->text = bytes(wire, message->text);
}

static void run(struct wire *wire, struct wire_message *message, struct bytes *room) {
    script(wire, message);
    message->key = bytes(wire, message->key);
    message->argument_count =
        (size_t)number(wire, (int64_t)message->argument_count, 0, WIRE_ARGUMENTS_MAX);
    if (wire->from != NULL) message->arguments = room;
    for (size_t i = 0; i < message->argument_count && wire->good; i++) {
        if (wire->from != NULL)
            room[i] = bytes(wire, nothing);
        else
            bytes(wire, message->arguments[i]);
    }
}

/* No call is made with a TTL that is not positive: it deletes, or is an error. Of values, the
 * gateway needs only the one to take the lock with, and a message. */
static void call(struct wire *wire, struct key_call *call) {
    call->command = (enum key_command)number(wire, (int64_t)call->command, KEY_GET, KEY_TAKE);
    const bool takes = call->command == KEY_TAKE;
    const bool lives = takes || call->command == KEY_EXTEND;
    const bool tells = call->command == KEY_PUBLISH;
    call->ttl_ms = number(wire, call->ttl_ms, lives ? 1 : INT64_MIN, INT64_MAX);
    call->until = number(wire, lives && call->until, 0, lives) != 0;
    call->value = bytes(wire, takes || tells ? call->value : nothing);
    call->channel = bytes(wire, tells ? call->channel : nothing);
}

static void value(struct wire *wire, struct answer *value) {
    value->kind = (enum answer_kind)number(wire, (int64_t)value->kind, ANSWER_NIL, ANSWER_ARRAY);
    const bool is_integer = value->kind == ANSWER_INTEGER, is_nil = value->kind == ANSWER_NIL;
    const bool counts = value->kind == ANSWER_ARRAY;
    value->integer = number(wire, is_integer || counts ? value->integer : 0, counts ? 0 : INT64_MIN,
                            counts ? ELEMENTS_MAX : INT64_MAX);
    value->bytes = bytes(wire, is_integer || is_nil ? nothing : value->bytes);
    if (counts && wire->from != NULL && !elements_are_whole(value)) wire->good = false;
}

static void body(struct wire *wire, struct wire_message *message, struct bytes *room) {
    switch (message->kind) {
    case WIRE_READY:
        message->pid = number(wire, message->pid, 1, INT32_MAX);
        message->limited = number(wire, message->limited, 0, 1) != 0;
        message->filtered = number(wire, message->filtered, 0, 1) != 0;
        message->error = (int)number(wire, message->error, 0, INT16_MAX);
        return;
    case WIRE_LOAD: script(wire, message); return;
    case WIRE_LOADED: return;
    case WIRE_REFUSED: message->text = bytes(wire, message->text); return;
    case WIRE_RUN:
        if (wire->from != NULL && room == NULL) break;
        run(wire, message, room);
        return;
    case WIRE_CALL: call(wire, &message->call); return;
    case WIRE_ANSWER:
    case WIRE_END: value(wire, &message->value); return;
    }
    wire->good = false;
}

static size_t put(const struct wire_message *message, char *frame) {
    struct wire wire = {.to = frame, .at = WIRE_HEAD_BYTES, .good = true};
    struct wire_message copy = *message;
    body(&wire, &copy, NULL);
    return wire.at;
}

size_t wire_bytes(const struct wire_message *message) { return put(message, NULL); }

void wire_write(const struct wire_message *message, char *frame) {
    const size_t bytes_written = put(message, frame) - WIRE_HEAD_BYTES;
    assert(bytes_written <= WIRE_BODY_BYTES_MAX);
    const uint32_t head[2] = {(uint32_t)bytes_written, (uint32_t)message->kind};
    memcpy(frame, head, sizeof head);
}

size_t wire_body_bytes(const char head[WIRE_HEAD_BYTES]) {
    uint32_t count;
    memcpy(&count, head, sizeof count);
    return count;
}

bool wire_read(const char *frame, size_t frame_bytes, struct wire_message *message,
               struct bytes room[WIRE_ARGUMENTS_MAX]) {
    uint32_t head[2];
    struct wire wire = {.from = frame, .end = frame_bytes, .good = true};
    transfer(&wire, head, sizeof head);
    if (!wire.good || head[0] != wire.end - wire.at || head[1] > WIRE_END) return false;
    *message = (struct wire_message){.kind = (enum wire_kind)head[1]};
    body(&wire, message, room);
    return wire.good && wire.at == wire.end;
}
