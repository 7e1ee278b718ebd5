/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as a frame of a worker's, which may be in the hands of an attacker: what the gateway
 * takes has a meaning, and is within the frame.
 */
#include "script/script_wire.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void must_be_inside(struct bytes piece, const char *frame, size_t bytes) {
    if (piece.bytes == 0) return;
    must(piece.data >= frame && piece.bytes <= bytes && piece.data + piece.bytes <= frame + bytes,
         "a piece from elsewhere");
}

static void check_call(const struct key_call *call) {
    const bool lives = call->command == KEY_EXTEND || call->command == KEY_TAKE;
    must(call->command <= KEY_TAKE, "no such call");
    must(!lives || call->ttl_ms > 0, "a time that is over");
}

/* Written again it is read again as the same; a part of it may have been left out, as it says
 * nothing. */
static void check_again(const struct wire_message *message) {
    static struct wire_message again;
    static struct bytes room[WIRE_ARGUMENTS_MAX];
    memset(&again, 0, sizeof again);
    const size_t bytes = wire_bytes(message);
    char *frame = malloc(bytes);
    must(frame != NULL, "no memory");
    wire_write(message, frame);
    must(wire_read(frame, bytes, &again, room), "what was read cannot be written");
    must(again.kind == message->kind && again.argument_count == message->argument_count, "another");
    must(again.call.command == message->call.command, "another call");
    must(again.value.kind == message->value.kind, "another value");
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct wire_message message;
    static struct bytes room[WIRE_ARGUMENTS_MAX];
    const char *frame = (const char *)data;
    memset(&message, 0, sizeof message);
    if (size >= WIRE_HEAD_BYTES) (void)wire_body_bytes(frame);
    if (!wire_read(frame, size, &message, room)) return 0;
    must(message.argument_count <= WIRE_ARGUMENTS_MAX, "too many arguments");
    must_be_inside(message.text, frame, size);
    must_be_inside(message.key, frame, size);
    for (size_t i = 0; i < message.argument_count; i++)
        must_be_inside(message.arguments[i], frame, size);
    must_be_inside(message.call.value, frame, size);
    must_be_inside(message.value.bytes, frame, size);
    if (message.kind == WIRE_CALL) check_call(&message.call);
    must(message.value.kind <= ANSWER_ARRAY, "no such value");
    check_again(&message);
    return 0;
}
