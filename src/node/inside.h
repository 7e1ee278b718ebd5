/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What table.c (the keys) and guarded.c (record and fences) share. */
#ifndef RL_NODE_INSIDE_H
#define RL_NODE_INSIDE_H

#include "node/ends.h"
#include "node/reader_lists.h"
#include "node/table.h"

/* A key: one piece of memory. Its end is in `ends`. */
struct entry {
    struct item item;
    struct entry *previous, *next; /* in the order in which they were set */
    int64_t fence; /* native: the highest accepted for it, or the floor when it was set */
    uint32_t key_bytes, token_bytes;
    uint16_t stripe; /* NODE_STRIPES: not known yet (guarded.c) */
    bool other_type; /* a list, a hash: it exists, and has no value to compare */
    char data[];     /* the key, then the token */
};
static inline struct node_bytes token_of(const struct entry *entry) {
    return (struct node_bytes){entry->data + entry->key_bytes, entry->token_bytes};
}

/* For each stripe the highest token that was accepted. There is one set unless a person writes by
 * hand; in a native table never two. Sets have names so that a request under an old name cannot
 * find fences that now have a new one. */
struct fences {
    struct fences *next;
    uint64_t name; /* the nonce; 0: the kept ones */
    /* NODE_STRIPES for each. Native: the meanings are in table.h. Stock: the last two are NULL. */
    int64_t *highest, *floor, *bound;
    int64_t numbers[];
};

/* Text fields. The node itself understands only the nonce; the clients have all rules about the
 * others. */
struct record {
    uint64_t nonce; /* 0: there is no record */
    size_t fields_count, bytes;
    struct node_field fields[NODE_FIELDS_MAX];
    char *data; /* names and values */
};

struct node_table {
    struct node_options options;
    struct buckets buckets;
    struct ends ends;
    struct entry *first, *last;
    struct entry *recent; /* the one that was found last: a request looks for its key again */
    size_t entries_bytes;
    struct fences *fences;
    struct fences *spare_fences; /* dropped sets, for the next ones */
    struct record record;
    struct reader_lists readers; /* of all shared locks */
};

/* What a request does with a key decides whether it has ended (table.h), and who takes it out. */
enum purpose {
    LOOKS, /* it only reads */
    HOLDS, /* it relies on the key, and does not change it */
    WRITES,
    EXPIRES /* active expiry */
};
struct entry *table_find(struct node_table *table, struct node_bytes key, int64_t now_ms,
                         enum purpose purpose);
bool table_holds(const struct entry *entry, struct node_bytes token);

/* Another end for a key that is there, earlier or later. */
void table_set_end(struct node_table *table, struct entry *entry, int64_t expires_ms);
int64_t table_end(const struct node_table *table, const struct entry *entry);
void table_delete(struct node_table *table, struct entry *entry);

/* Native: a key that is taken out takes its readers along. */
void shared_entry_goes(struct node_table *table, const struct entry *entry, struct node_bytes key);
bool shared_copy(struct node_table *to, const struct node_table *from);

/* Uses the names from net/net.h. False: not such a name, or nothing is there. */
bool guarded_delete(struct node_table *table, struct node_bytes key);
void guarded_flush(struct node_table *table);
/* For a key that is held, and its stripe. Not strict: what is there already may be as high, or
 * higher. Returns the key's fence afterwards. */
bool guarded_has_fences(const struct node_table *table, uint64_t nonce);
int64_t guarded_raise_to(struct node_table *table, struct node_bytes key, uint64_t nonce,
                         int64_t fence, uint16_t stripe, int64_t now_ms);
bool guarded_copy(struct node_table *to, const struct node_table *from);
void guarded_free(struct node_table *table);
/* Native: where a new key's fence begins, and what remains of it. */
void guarded_entry_begins(const struct node_table *table, struct entry *entry,
                          struct node_bytes key);
void guarded_entry_goes(struct node_table *table, const struct entry *entry);

#endif
