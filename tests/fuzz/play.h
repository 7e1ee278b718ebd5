/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A world for the whole client: time that moves only when it is moved, and servers that say what an
 * input has them say. The library runs unchanged; calls to the system that show it time, chance and
 * the network end here (the linker's --wrap). The same input gives the same run.
 *
 * An input is a byte that chooses the client (enum play_mode, number of nodes), then what happens
 * in turn. Bytes from 0x20 on, and \t \n \r, are what the chosen server sends; the others are
 * codes.
 */
#ifndef FUZZ_PLAY_H
#define FUZZ_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum play_code {
    PLAY_SEND = 0x00,   /* what was said so far arrives, and nothing else yet */
    PLAY_NODE_1 = 0x01, /* speak for node 1 (to 5), on its oldest open connection */
    PLAY_NODE_5 = 0x05,
    PLAY_NEXT = 0x06, /* on the node's next connection */
    PLAY_TIME_1MS = 0x07,
    PLAY_TIME_30MS = 0x08,
    PLAY_TIME_1S = 0x0b,
    PLAY_TIME_15S = 0x0c,
    PLAY_CLOSE = 0x0e,      /* the connection */
    PLAY_ANSWER = 0x0f,     /* as a sound server would: all that was asked on this connection */
    PLAY_ANSWER_ALL = 0x10, /* the same on all, until nothing is asked any more */
    PLAY_ACQUIRE = 0x11,
    PLAY_WAIT = 0x12, /* acquire, waiting for 5 s */
    PLAY_EXTEND = 0x13,
    PLAY_RELEASE = 0x14,
    PLAY_PEEK = 0x15,
    PLAY_CANCEL = 0x16,
    PLAY_ANOTHER = 0x17, /* free the lock, make it anew */
    PLAY_SERVER_INFO = 0x18,
    PLAY_LIST = 0x19,
    PLAY_QUORUM = 0x1a, /* look at the quorum */
    PLAY_BYTE = 0x1b,   /* the next byte is said, whatever it is */
    PLAY_DISOWN = 0x1c,
    PLAY_ADOPT = 0x1d,
    PLAY_INIT = 0x1e,   /* a quorum */
    PLAY_MEMBERS = 0x1f /* remove a member, add a node */
};

enum play_mode {
    PLAY_CLASSIC = 0,
    PLAY_GUARDED = 1,
    PLAY_AUTO = 2,
    PLAY_SETNX = 3,
    PLAY_MODES = 4
};
/* Above the mode's two bits: three nodes, one, five, or three of which the first two are native;
 * then whether a guarded client confirms, the lock is on two keys, is not renewed, and whether
 * servers know no scripts. */
enum {
    PLAY_ONE_NODE = 4,
    PLAY_FIVE_NODES = 8,
    PLAY_MIXED = PLAY_ONE_NODE | PLAY_FIVE_NODES,
    PLAY_CONFIRMS = 16,
    PLAY_TWO_KEYS = 32,
    PLAY_NO_RENEWAL = 64,
    PLAY_NO_SCRIPTS = 128
};

enum { PLAY_NODES_MAX = 5, PLAY_CONNS = 4 };

/* One whole run. */
void play(const uint8_t *data, size_t size);

/* Where servers that are real are asked in place of the input, see record.c. All NULL: they are
 * not. */
struct play_real {
    int (*connect)(unsigned node); /* a socket */
    void (*said)(unsigned node, unsigned conn, const char *bytes, size_t count);
    void (*acts)(uint8_t code); /* the program does that now */
};
extern struct play_real play_real;

#endif
