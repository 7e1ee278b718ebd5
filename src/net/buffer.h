/* SPDX-License-Identifier: BSD-2-Clause
 * Bytes waiting to be written: grows at the end, is consumed from the beginning. */
#ifndef RL_NET_BUFFER_H
#define RL_NET_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t begin, end, capacity;
};

/* All or nothing: false when memory fails or more than `limit` bytes would wait. */
bool buffer_append(struct buffer *buffer, const void *data, size_t bytes, size_t limit);
/* Room for so many bytes at the end, to be written at once; NULL as above. */
char *buffer_extend(struct buffer *buffer, size_t bytes, size_t limit);
void buffer_consume(struct buffer *buffer, size_t bytes);
void buffer_free(struct buffer *buffer);

static inline size_t buffer_bytes(const struct buffer *buffer) {
    return buffer->end - buffer->begin;
}
static inline const char *buffer_data(const struct buffer *buffer) {
    return buffer->data + buffer->begin;
}
static inline void buffer_clear(struct buffer *buffer) {
    buffer_consume(buffer, buffer_bytes(buffer));
}

#endif
