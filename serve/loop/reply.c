/* SPDX-License-Identifier: BSD-2-Clause */
#include "reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

#include "script/element.h"

enum { ERROR_BYTES_MAX = 2048 };

/* Out of memory: nothing behind it may be sent, or the next answer would be taken for this one. */
static void note(struct reply *reply, bool added) { reply->failed = reply->failed || !added; }

void reply_raw(struct reply *reply, const void *data, size_t bytes) {
    note(reply, evbuffer_add(reply->out, data, bytes) == 0);
}

static void head(struct reply *reply, char kind, int64_t number) {
    char text[32];
    int bytes = snprintf(text, sizeof text, "%c%" PRId64 "\r\n", kind, number);
    reply_raw(reply, text, (size_t)bytes);
}

static void line(struct reply *reply, char kind, const char *text) {
    reply_raw(reply, &kind, 1);
    reply_raw(reply, text, strlen(text));
    reply_raw(reply, "\r\n", 2);
}

void reply_status(struct reply *reply, const char *text) { line(reply, '+', text); }

static void error_line(struct reply *reply, char *text) {
    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = ' ';
    }
    line(reply, '-', text);
}

void reply_error(struct reply *reply, const char *format, ...) {
    char text[ERROR_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_line(reply, text);
}

void reply_integer(struct reply *reply, int64_t value) { head(reply, ':', value); }

void reply_bytes(struct reply *reply, const void *data, size_t bytes) {
    head(reply, '$', (int64_t)bytes);
    reply_raw(reply, data, bytes);
    reply_raw(reply, "\r\n", 2);
}

void reply_text(struct reply *reply, const char *text) { reply_bytes(reply, text, strlen(text)); }

void reply_buffer(struct reply *reply, struct evbuffer *content) {
    head(reply, '$', (int64_t)evbuffer_get_length(content));
    reply_move(reply, content);
    reply_raw(reply, "\r\n", 2);
    evbuffer_free(content);
}

void reply_move(struct reply *reply, struct evbuffer *answers) {
    note(reply, evbuffer_add_buffer(reply->out, answers) == 0);
}

void reply_nil(struct reply *reply) {
    const char *nil = reply->protocol == 3 ? "_\r\n" : "$-1\r\n";
    reply_raw(reply, nil, strlen(nil));
}

void reply_nil_array(struct reply *reply) {
    const char *nil = reply->protocol == 3 ? "_\r\n" : "*-1\r\n";
    reply_raw(reply, nil, strlen(nil));
}

void reply_array(struct reply *reply, size_t count) { head(reply, '*', (int64_t)count); }

void reply_map(struct reply *reply, size_t pairs) {
    if (reply->protocol == 3)
        head(reply, '%', (int64_t)pairs);
    else
        head(reply, '*', (int64_t)pairs * 2);
}

void reply_push(struct reply *reply, size_t count) {
    head(reply, reply->protocol == 3 ? '>' : '*', (int64_t)count);
}

static void elements(struct reply *reply, struct bytes rest) {
    struct answer element;
    while (element_unpack(&rest, &element)) reply_value(reply, &element);
}

void reply_value(struct reply *reply, const struct answer *value) {
    char text[ERROR_BYTES_MAX];
    switch (value->kind) {
    case ANSWER_NIL: reply_nil(reply); return;
    case ANSWER_INTEGER: reply_integer(reply, value->integer); return;
    case ANSWER_BYTES: reply_bytes(reply, value->bytes.data, value->bytes.bytes); return;
    case ANSWER_ARRAY:
        reply_array(reply, (size_t)value->integer);
        elements(reply, value->bytes);
        return;
    case ANSWER_STATUS:
    case ANSWER_ERROR: break;
    }
    size_t bytes = value->bytes.bytes < sizeof text ? value->bytes.bytes : sizeof text - 1;
    memcpy(text, value->bytes.data, bytes);
    text[bytes] = '\0';
    if (value->kind == ANSWER_ERROR) {
        error_line(reply, text);
        return;
    }
    text[strcspn(text, "\r\n")] = '\0';
    reply_status(reply, text);
}
