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

/* "held", "free", ...: names for machines. */
const char *majority_name(enum majority_verdict verdict);

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

/* As memcmp(); of two names or tokens that begin alike, the shorter is less. */
int compare_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* Both nodes have a key, with the same token. */
bool has_same_token(const struct redlock_view *a, const struct redlock_view *b);
/* Whether the node has the marker of a shared lock: its readers are listed elsewhere
 * (redlock_readers()). */
bool is_shared(const struct redlock_view *view);
/* The owner in one of our tokens: as it is there, NULL if there is none; and made printable, ""
 * then. */
const unsigned char *owner_of(const struct redlock_view *view, size_t *bytes);
char *owner_text(const struct redlock_view *view, char *out, size_t size);
/* How much of a token is shown where only its beginning is: it proves ownership. */
enum { TOKEN_SHOWN_MAX = 8 };
size_t token_shown(const struct redlock_view *view);
/* The token, or only its beginning. */
char *token_text(const struct redlock_view *view, bool whole, char *out, size_t size);
/* Both: "web1, token 1234abcd…", "token 1234abcd…". */
char *holder_text(const struct redlock_view *view, bool whole, char *out, size_t size);
/* For "held by ...": the owner, else "readers" of a shared lock, else `another`. */
const char *holder_name(const char *owner, bool shared, const char *another);
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
