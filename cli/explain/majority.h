/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a majority of nodes agrees on, computed from the keys that they hold.
 */
#ifndef CLI_MAJORITY_H
#define CLI_MAJORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock/admin.h>

/* FOREIGN: a majority holds a value that is not a string, as Redisson's locks are. */
enum majority_verdict {
    MAJORITY_HELD,
    MAJORITY_FREE,
    MAJORITY_SPLIT,
    MAJORITY_UNKNOWN,
    MAJORITY_FOREIGN
};

struct majority {
    enum majority_verdict verdict;
    size_t holder; /* HELD: a view that has its token */
    size_t votes;  /* HELD: nodes that hold that token */
    size_t answered;
    int64_t remaining_ms; /* HELD: until fewer than a majority hold it; -1: it never ends */
};

/* The node said what it has under the key. */
bool is_answer(const struct redlock_view *view);
struct majority majority_of(const struct redlock_view *views, size_t count);

/* Both nodes have a key, with the same token. */
bool has_same_token(const struct redlock_view *a, const struct redlock_view *b);
/* Whether a value has the form of our tokens: 40 hex digits, then perhaps '/' and a
 * number of slots, then perhaps ':' and an owner. */
bool is_ours(const struct redlock_view *view);
/* Where the owner's ':' is in one of our tokens, or would be: after the digits, and after '/' and
 * the number of slots of a slot's token. */
size_t token_head(const struct redlock_view *view);
/* Whether the node has the marker of a shared lock: its readers are listed elsewhere
 * (redlock_readers()). */
bool is_shared(const struct redlock_view *view);
/* The owner in one of our tokens, made printable; "" if there is none. */
char *owner_text(const struct redlock_view *view, char *out, size_t size);
/* The token, or only its beginning: it proves ownership. */
char *token_text(const struct redlock_view *view, bool whole, char *out, size_t size);
/* Whether a value has the form of a token: ours, or one of other Redlock clients
 * (docs/man/redlock-show.1 lists them); or is the marker of a shared lock. */
bool is_token(const struct redlock_view *view);

/* How many readers of a shared lock a majority of the nodes has; -1: they do not say. */
int64_t readers_total(const struct redlock_readers_view *counts, size_t count);
/* "3 readers", "1 reader"; unknown: "readers". */
char *readers_text(int64_t count, char *out, size_t size);

/* FOREIGN: what the key holds. `type` is the server's name for it; "": unknown. */
char *foreign_text(const char *type, char *out, size_t size);

#endif
