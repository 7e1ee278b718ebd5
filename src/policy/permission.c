/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which commands a lock needs (docs/acl.md), each in a form that changes nothing: with an argument
 * that the server refuses, on a name that no client uses, or as a read. A server checks the number
 * of arguments before the permission, and the arguments after it. So a denial is a denial, and any
 * other answer is a yes. ACL DRYRUN would need a permission of its own. */
#include "policy/request.h"

#define NOTHING "redlock:doctor"

static const struct net_permission stock[] = {
    {"SET %k x x", false, false},
    {"GET %k", false, false},
    {"DEL %k", false, false},
    {"PTTL %k", false, false},
    {"PEXPIRE %k x", false, false},
    {"EXISTS " NOTHING, true, false},
    {"ZADD " NET_KEY_KEPT " XX GT CH 0 0", true, false},
    {"ZSCORE " NET_KEY_KEPT " 0", true, false},
    {"ZCARD " NET_KEY_KEPT, true, false},
    {"ZRANGE " NET_KEY_KEPT " 0 0", true, false},
    {"HGET " NET_KEY_RECORD " nonce", true, false},
    {"HSET " NOTHING " x x x", true, false},
    {"HGETALL " NET_KEY_RECORD, true, false},
    {"RENAME " NOTHING " " NOTHING, true, false},
    {"GETRANGE %k 0 0", false, true},
    {"SCAN x", false, true},
};

static const struct net_permission native_ones[] = {
    {"REDLOCK.LOCK %k x x", false, false},
    {"REDLOCK.UNLOCK %k x", false, false},
    {"REDLOCK.ACQUIRE x %k x x", false, false},
    {"REDLOCK.EXTEND x %k x x", false, false},
    {"REDLOCK.RELEASE x %k x", false, false},
    {"REDLOCK.RAISE x %k x x", true, false},
    {"REDLOCK.CONFIRM x %k x x", true, false},
    {"REDLOCK.STATE", true, false},
    {"REDLOCK.RECORD", true, false},
    {"REDLOCK.RECORDWRITE x x x x x x x", true, false},
    {"REDLOCK.FENCES x", true, false},
    {"REDLOCK.GET %k", false, true},
    {"REDLOCK.SCAN x", false, true},
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
