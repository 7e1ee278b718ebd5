/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scheme=setnx: the old pattern, in which the key holds the time at which the lock ends, as a
 * number, and has no TTL. Others read that number, so nothing but a number may stand there, and two
 * of them may be equal. Whose it is stands beside it: a hash under NET_KEY_SETNX and the key, with
 * the number and the token that wrote it. docs/older-ways.md has the rules.
 */
#ifndef RL_NET_SETNX_H
#define RL_NET_SETNX_H

#include "net/buffer.h"
#include "net/net.h"
#include "net/reader.h"
#include "redlock.h"

enum { SETNX_STAMP_BYTES = 40 }; /* more than any timestamp has: a longer value is none */

/* When a timestamp as it is found in the field is over, in microseconds since 1970: seconds or
 * milliseconds, in whole or with a fraction. False: something else, which is held for as long as it
 * is there. */
bool setnx_parse(struct net_bytes text, int64_t *over_us);
/* What a lock of ours is to hold that is taken or extended at `now_us` of the server's clock. */
int64_t setnx_stamp_at(enum redlock_scheme scheme, int64_t now_us, int64_t ttl_ms);

/* Whether the request is sent in this scheme's words and not in the ordinary ones. Asked for each
 * command. */
static inline bool setnx_speaks(const struct net_request *request) {
    if (request->scheme == REDLOCK_SCHEME_SET) return false;
    return request->op <= NET_PEEK_VALUE || request->op == NET_WATCH;
}
unsigned setnx_replies(const struct net_request *request);
bool setnx_encode(const struct net_request *request, bool whole_script, struct buffer *out,
                  size_t limit);
/* Of PEEK, PEEK_VALUE and WATCH; the others are scripts, answered as any. */
bool setnx_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                  struct net_reply *answer);

/* The same where scripts are refused: what a transaction has seen of the lock before it changes
 * it. */
struct setnx_seen {
    int64_t left_ms; /* PTTL */
    int64_t now_us;
    char value[SETNX_STAMP_BYTES];
    size_t value_bytes;
    bool ours;
};
enum { SETNX_CHECKS = 5, SETNX_CHANGES_MAX = 3 };
/* WATCH and the looks: SETNX_CHECKS commands. False: no memory. */
bool setnx_send_checks(const struct net_request *request, struct buffer *out, size_t limit);
bool setnx_take_check(const struct net_request *request, unsigned nth, const struct reader *reader,
                      struct setnx_seen *seen);
/* The verdict, and whether it takes a change. `failure`: of the looks, or NONE. */
int setnx_judge(const struct net_request *request, const struct setnx_seen *seen, int failure,
                bool *change);
/* How many commands, SETNX_CHANGES_MAX at most; 0: no memory. */
unsigned setnx_send_changes(const struct net_request *request, const struct setnx_seen *seen,
                            struct buffer *out, size_t limit);

#endif
