/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scheme=setnx: the old pattern. The key has no TTL; its value is the time at which the lock ends,
 * as a number. Other programs read that number, so the value must be a number only, and two clients
 * may write the same one. The owner is recorded next to it: a hash under NET_KEY_SETNX and the key,
 * with the number and the token that wrote it. docs/use/older-ways.md has the rules. */
#ifndef RL_NET_SETNX_H
#define RL_NET_SETNX_H

#include "net/codec/buffer.h"
#include "net/net.h"
#include "net/codec/reader.h"
#include "node/scripts.h"
#include "redlock.h"

enum { SETNX_STAMP_BYTES = 40 }; /* longer than any timestamp: a longer value is not one */

/* When a timestamp found in the field ends, in microseconds since 1970. It may be in seconds or
 * milliseconds, whole or with a fraction. False: it is something else, which holds the lock as long
 * as it exists. */
bool setnx_parse(struct net_bytes text, int64_t *over_us);
/* The value for a lock of ours that is taken or extended at `now_us` of the server's clock. */
int64_t setnx_stamp_at(enum redlock_scheme scheme, int64_t now_us, int64_t ttl_ms);

/* Whether the request uses this scheme's commands and not the ordinary ones. Called for each
 * command. */
static inline bool setnx_speaks(const struct net_request *request) {
    if (request->scheme == REDLOCK_SCHEME_SET) return false;
    return request->op <= NET_PEEK_VALUE || request->op == NET_WATCH;
}
unsigned setnx_replies(const struct net_request *request);
enum node_script setnx_script(const struct net_request *request); /* NODE_SCRIPTS_ALL: none */
bool setnx_encode(const struct net_request *request, bool whole_script, struct buffer *out,
                  size_t limit);
/* For PEEK, PEEK_VALUE and WATCH. The others are scripts and are answered as such. */
bool setnx_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                  struct net_reply *answer);

/* The same where scripts are refused: what a transaction has read of the lock before it changes
 * it. */
struct setnx_seen {
    int64_t left_ms; /* PTTL */
    int64_t now_us;
    char value[SETNX_STAMP_BYTES];
    size_t value_bytes;
    bool ours;
};
enum { SETNX_CHECKS = 5, SETNX_CHANGES_MAX = 3 };
/* WATCH and the reads: SETNX_CHECKS commands. False: no memory. */
bool setnx_send_checks(const struct net_request *request, struct buffer *out, size_t limit);
bool setnx_take_check(const struct net_request *request, unsigned nth, const struct reader *reader,
                      struct setnx_seen *seen);
/* The verdict, and whether a change is needed. `failure`: of the reads, or NONE. */
int setnx_judge(const struct net_request *request, const struct setnx_seen *seen, int failure,
                bool *change);
/* Returns the number of commands, at most SETNX_CHANGES_MAX; 0: no memory. */
unsigned setnx_send_changes(const struct net_request *request, const struct setnx_seen *seen,
                            struct buffer *out, size_t limit);

#endif
