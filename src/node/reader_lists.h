/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The readers of all shared locks of a table, each key with a list of its own. A list is in the
 * order of the readers' ends; lists are found by their keys, and readers by their tokens. So a call
 * costs a fixed number of steps, but for a reader that comes before others by its end: it walks
 * over those. A list that is dropped is gone at once; its memory is freed `at_once` readers at a
 * time. */
#ifndef RL_NODE_READER_LISTS_H
#define RL_NODE_READER_LISTS_H

#include "node/buckets.h"
#include "node/table.h"

struct reader {
    struct item item;
    struct readers *list;
    struct reader *previous, *next; /* by their ends */
    int64_t expires_ms;
    uint32_t bytes;
    char token[];
};

/* One key's. */
struct readers {
    struct item item;
    struct readers *previous, *next; /* of all keys */
    struct reader *first, *last;
    int64_t expires_ms; /* the latest end of a reader when the list was last settled */
    uint32_t key_bytes;
    char key[];
};

struct reader_lists {
    uint64_t seed;
    struct readers *first;
    struct readers *dropped;         /* no longer found; their readers are not freed yet */
    size_t at_once;                  /* how many readers one call frees at most */
    struct buckets by_key, by_token; /* of no memory before the first reader comes */
    size_t bytes;                    /* of lists and readers, the dropped ones too */
};

struct readers *lists_find(const struct reader_lists *lists, struct node_bytes key);
struct readers *lists_add(struct reader_lists *lists, struct node_bytes key); /* NULL: no memory */
void lists_drop(struct reader_lists *lists, struct readers *list);
/* Of what was dropped. Returns how many readers and lists; fewer than `limit`: nothing is left. */
size_t lists_free_some(struct reader_lists *lists, size_t limit);
void lists_drop_all(struct reader_lists *lists);
void lists_free(struct reader_lists *lists);
size_t lists_bytes(const struct reader_lists *lists);
/* What a reader of a new list may add to it. */
size_t lists_bytes_more(const struct reader_lists *lists, size_t key_bytes, size_t token_bytes);

struct reader *lists_reader(const struct reader_lists *lists, const struct readers *list,
                            struct node_bytes token);
/* NULL: no memory. */
struct reader *lists_add_reader(struct reader_lists *lists, struct readers *list,
                                struct node_bytes token, int64_t expires_ms);
void lists_move_reader(struct reader *reader, int64_t expires_ms);
void lists_drop_reader(struct reader_lists *lists, struct reader *reader);
/* Of more than `at_once`, the others stay in the list. */
void lists_drop_ended(struct reader_lists *lists, struct readers *list, int64_t now_ms);

#endif
