/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which commands a lock needs (docs/acl.md), each in a form that changes nothing: with an argument
 * that the server refuses, on a name that no client uses, or as a read. A server checks the number
 * of arguments before the permission, and the arguments after it. So a denial is a denial, and any
 * other answer is a yes. ACL DRYRUN would need a permission of its own. */
#include "policy/request.h"

#define NOTHING "redlock:doctor"

static const struct net_permission stock[] = {
    {"SET %k x x", false},
    {"GET %k", false},
    {"DEL %k", false},
    {"PTTL %k", false},
    {"PEXPIRE %k x", false},
    {"EXISTS " NOTHING, true},
    {"ZADD " NET_KEY_KEPT " XX GT CH 0 0", true},
    {"ZSCORE " NET_KEY_KEPT " 0", true},
    {"ZCARD " NET_KEY_KEPT, true},
    {"ZRANGE " NET_KEY_KEPT " 0 0", true},
    {"HGET " NET_KEY_RECORD " nonce", true},
    {"HSET " NOTHING " x x x", true},
    {"HGETALL " NET_KEY_RECORD, true},
    {"RENAME " NOTHING " " NOTHING, true},
};

static const struct net_permission native_ones[] = {
    {"REDLOCK.LOCK %k x x", false},
    {"REDLOCK.UNLOCK %k x", false},
    {"REDLOCK.ACQUIRE x %k x x", false},
    {"REDLOCK.EXTEND x %k x x", false},
    {"REDLOCK.RELEASE x %k x", false},
    {"REDLOCK.RAISE x %k x x", true},
    {"REDLOCK.CONFIRM x %k x x", true},
    {"REDLOCK.STATE", true},
    {"REDLOCK.RECORD", true},
    {"REDLOCK.RECORDWRITE x x x x x x x", true},
    {"REDLOCK.FENCES x", true},
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
