/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bytes that wait to be written. They are appended at the end and consumed from the start. */
#ifndef RL_NET_BUFFER_H
#define RL_NET_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t begin, end, capacity;
};

/* All or nothing. False: no memory, or more than `limit` bytes would wait. */
bool buffer_append(struct buffer *buffer, const void *data, size_t bytes, size_t limit);
/* Space for that many bytes at the end, which the caller must fill at once; NULL as above. */
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
