/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Replies, decoded by hiredis into slots of our own: an ordinary reply costs no allocation. The slots of a
 * reply lie in the order in which they came, an array before its elements.
 */
#ifndef RL_NET_READER_H
#define RL_NET_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

struct redisReader;

#define READER_REPLY_BYTES_MAX ((size_t)1 << 20)
#define READER_ELEMENTS_MAX ((size_t)65536)

enum reply_type { REPLY_NIL, REPLY_INTEGER, REPLY_STATUS, REPLY_STRING, REPLY_ERROR, REPLY_ARRAY, REPLY_OTHER };

struct reply_slot {
    enum reply_type type;
    int64_t integer; /* INTEGER: the value. ARRAY: how many elements */
};

struct reader {
    struct redisReader *hiredis;
    struct reply_slot *slots;
    struct net_bytes *bytes; /* of slot i, for STATUS, STRING and ERROR; elements side by side for SCAN */
    size_t slots_count, slots_capacity;
    char *arena;
    size_t arena_bytes, arena_capacity;
    size_t pending; /* bytes fed to hiredis since the last whole reply */
    const char *direct; /* what was fed and hiredis has not been given yet */
    size_t direct_bytes;
    bool whole, oversized, no_memory;
};

enum reader_status { READER_MORE, READER_REPLY, READER_MALFORMED, READER_OVERSIZED, READER_NO_MEMORY };

bool reader_open(struct reader *reader); /* false: no memory */
void reader_close(struct reader *reader);
/* The data stay where they are until reader_next() has said anything but READER_REPLY. False: no memory. */
bool reader_feed(struct reader *reader, const char *data, size_t bytes);
/* The next whole reply into slots[0...]; valid until the next call. After a failure the connection is over. */
enum reader_status reader_next(struct reader *reader);

static inline bool reader_is_error(const struct reader *reader) { return reader->slots[0].type == REPLY_ERROR; }
bool reader_is_status(const struct reader *reader, size_t slot, const char *text);

#endif
