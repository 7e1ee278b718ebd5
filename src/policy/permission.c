/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which commands a lock needs (docs/operate/acl.md), each in a form that changes nothing: with an
 * argument that the server refuses, on a name that no client uses, or as a read. A server checks
 * the number of arguments before the permission, and the arguments after it. So a denial is a
 * denial, and any other answer is a yes. ACL DRYRUN would need a permission of its own. */
#include "policy/request.h"

#define NOTHING "redlock:doctor"

static const struct net_permission stock[] = {
    {"SET %k x x", NET_MAY_LOCK},
    {"GET %k", NET_MAY_LOCK},
    {"DEL %k", NET_MAY_LOCK},
    {"PTTL %k", NET_MAY_LOCK},
    {"PEXPIRE %k x", NET_MAY_LOCK},
    {"EXISTS " NOTHING, NET_MAY_GUARD},
    {"ZADD " NET_KEY_KEPT " XX GT CH 0 0", NET_MAY_GUARD},
    {"ZSCORE " NET_KEY_KEPT " 0", NET_MAY_GUARD},
    {"ZCARD " NET_KEY_KEPT, NET_MAY_GUARD},
    {"ZRANGE " NET_KEY_KEPT " 0 0", NET_MAY_GUARD},
    {"HGET " NET_KEY_RECORD " nonce", NET_MAY_GUARD},
    {"HSET " NOTHING " x x x", NET_MAY_GUARD},
    {"HGETALL " NET_KEY_RECORD, NET_MAY_GUARD},
    {"RENAME " NOTHING " " NOTHING, NET_MAY_GUARD},
    {"GETRANGE %k 0 0", NET_MAY_OTHER},
    {"SCAN x", NET_MAY_OTHER},
    {"MGET %k", NET_MAY_OTHER},
    {"ZADD %k x x", NET_MAY_OTHER},
    {"ZSCORE %k x", NET_MAY_OTHER},
    {"ZREM %k x", NET_MAY_OTHER},
    {"ZREVRANGE %k x x", NET_MAY_OTHER},
    {"ZREMRANGEBYSCORE %k x x", NET_MAY_OTHER},
    {"PEXPIREAT %k x", NET_MAY_OTHER},
    {"TIME", NET_MAY_OTHER},
    {"EVAL x x", NET_MAY_OTHER},
    {"EVALSHA x x", NET_MAY_OTHER},
};

static const struct net_permission native_ones[] = {
    {"REDLOCK.LOCK %k x x", NET_MAY_LOCK},
    {"REDLOCK.UNLOCK %k x", NET_MAY_LOCK},
    {"REDLOCK.PTTL %k", NET_MAY_LOCK},
    {"REDLOCK.ACQUIRE x %k x x", NET_MAY_LOCK},
    {"REDLOCK.EXTEND x %k x x", NET_MAY_LOCK},
    {"REDLOCK.RELEASE x %k x", NET_MAY_LOCK},
    {"REDLOCK.RAISE x %k x x", NET_MAY_GUARD},
    {"REDLOCK.CONFIRM x %k x x", NET_MAY_GUARD},
    {"REDLOCK.STATE", NET_MAY_GUARD},
    {"REDLOCK.RECORD", NET_MAY_GUARD},
    {"REDLOCK.RECORDWRITE x x x x x x x", NET_MAY_GUARD},
    {"REDLOCK.FENCES x", NET_MAY_GUARD},
    {"REDLOCK.GET %k x", NET_MAY_OTHER},
    {"REDLOCK.SCAN x", NET_MAY_OTHER},
    {"REDLOCK.SHARE %k x x", NET_MAY_OTHER},
    {"REDLOCK.SHAREEXTEND %k x x", NET_MAY_OTHER},
    {"REDLOCK.UNSHARE %k x", NET_MAY_OTHER},
    {"REDLOCK.READERS %k x x x", NET_MAY_OTHER},
};

const struct net_permission *net_permission(bool native, unsigned row) {
    enum {
        STOCK = sizeof(stock) / sizeof(stock[0]),
        NATIVE = sizeof(native_ones) / sizeof(native_ones[0])
    };
    _Static_assert(STOCK <= NET_QUESTIONS_ALL - NET_ASK_MAY, "each row is a question");
    _Static_assert(NATIVE <= NET_QUESTIONS_ALL - NET_ASK_MAY, "each row is a question");
    if (native) return row < NATIVE ? &native_ones[row] : NULL;
    return row < STOCK ? &stock[row] : NULL;
}
