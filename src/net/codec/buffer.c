/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/codec/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES_MIN = 1024, BUFFER_BYTES_KEPT = 262144 };

static bool make_room(struct buffer *buffer, size_t bytes) {
    if (buffer->begin > 0) {
        memmove(buffer->data, buffer->data + buffer->begin, buffer_bytes(buffer));
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (buffer->capacity - buffer->end >= bytes) return true;
    size_t capacity = buffer->capacity ? buffer->capacity : BUFFER_BYTES_MIN;
    while (capacity - buffer->end < bytes) capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

char *buffer_extend(struct buffer *buffer, size_t bytes, size_t limit) {
    if (bytes > limit || buffer_bytes(buffer) > limit - bytes) return NULL;
    if (buffer->capacity - buffer->end < bytes && !make_room(buffer, bytes)) return NULL;
    char *at = buffer->data + buffer->end;
    buffer->end += bytes;
    return at;
}

bool buffer_append(struct buffer *buffer, const void *data, size_t bytes, size_t limit) {
    if (bytes == 0) return true;
    char *at = buffer_extend(buffer, bytes, limit);
    if (at) memcpy(at, data, bytes);
    return at != NULL;
}

void buffer_consume(struct buffer *buffer, size_t bytes) {
    assert(bytes <= buffer_bytes(buffer));
    buffer->begin += bytes;
    if (buffer->begin < buffer->end) return;
    buffer->begin = buffer->end = 0;
    /* One burst must not hold its memory for the life of the client. */
    if (buffer->capacity > BUFFER_BYTES_KEPT) buffer_free(buffer);
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}
