/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules of one node as Lua, for a stock server. The build makes the texts from the .lua files
 * next to this header when it is configured; their comments say what each returns. */
#ifndef RL_NODE_SCRIPTS_H
#define RL_NODE_SCRIPTS_H

#include <stddef.h>

enum node_script {
    NODE_ACQUIRE_MANY = 0,
    NODE_EXTEND,
    NODE_RELEASE,
    NODE_ACQUIRE_GUARDED, /* this one and the next ones need Redis 6.2 */
    NODE_EXTEND_GUARDED,
    NODE_RAISE,
    NODE_CONFIRM,
    NODE_RECORD_WRITE,
    NODE_WAITING,
    NODE_WAITERS,
    NODE_BREAK,
    NODE_ACQUIRE_SLOT,
    NODE_SHARE, /* shared locks: these three replace the classic ones */
    NODE_SHARE_EXTEND,
    NODE_SHARE_RELEASE,
    NODE_READERS,
    NODE_SETNX_ACQUIRE, /* scheme=setnx: these three replace the classic ones */
    NODE_SETNX_EXTEND,
    NODE_SETNX_RELEASE,
    NODE_SCRIPTS_ALL
};

struct node_script_text {
    const char *text;
    size_t bytes;
    const char *sha1; /* 40 hex digits, as EVALSHA needs it */
};

/* Each takes any number of keys. With none it changes nothing, so `EVAL text 0` only loads it. */
extern const struct node_script_text node_scripts[NODE_SCRIPTS_ALL];

#endif
