/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one node does with a request, as Lua for a stock server. The texts are made from the .lua
 * files beside this header when the build is configured; their comments say what each returns.
 */
#ifndef RL_NODE_SCRIPTS_H
#define RL_NODE_SCRIPTS_H

#include <stddef.h>

enum node_script {
    NODE_ACQUIRE_MANY = 0,
    NODE_EXTEND,
    NODE_RELEASE,
    NODE_CLASSIC_SCRIPTS, /* those above; the others need Redis 6.2 */
    NODE_ACQUIRE_GUARDED = NODE_CLASSIC_SCRIPTS,
    NODE_EXTEND_GUARDED,
    NODE_RAISE,
    NODE_CONFIRM,
    NODE_RECORD_WRITE,
    NODE_SCRIPTS, /* those above are proven when a connection begins */
    NODE_WAITING = NODE_SCRIPTS,
    NODE_SETNX_ACQUIRE, /* scheme=setnx: these three in place of the classic ones */
    NODE_SETNX_EXTEND,
    NODE_SETNX_RELEASE,
    NODE_SCRIPTS_ALL
};

struct node_script_text {
    const char *text;
    size_t bytes;
    const char *sha1; /* 40 hex digits, as EVALSHA wants it */
};

/* Each takes any number of keys; with none it changes nothing, so that `EVAL text 0` only loads
 * it. */
extern const struct node_script_text node_scripts[NODE_SCRIPTS_ALL];

#endif
