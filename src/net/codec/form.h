/* SPDX-License-Identifier: BSD-2-Clause
 * The forms of policy/ops.h, as the encoder (command.c) and the reader of answers (answer.c) use
 * them. */
#ifndef RL_NET_FORM_H
#define RL_NET_FORM_H

#include "node/scripts.h"
#include "policy/request.h"

/* How a reply is read. */
enum shape {
    SHAPE_SET,      /* +OK, or nil */
    SHAPE_VOTE,     /* a native node's: 1 or 2, -1 (stale), or a denial */
    SHAPE_RAISED,   /* ZADD after a SET: whether the fence was raised */
    SHAPE_VERDICTS, /* an integer, as `verdicts` defines it */
    SHAPE_SLOT,     /* two integers: 1, -1 and a slot; 0 and a time; -2 and a number of slots */
    SHAPE_RAISE,
    SHAPE_BREAK,
    SHAPE_SHARED, /* -2: recovering, -1 or a denial: denied; else the stripe's fence */
    SHAPE_PTTL,
    SHAPE_VALUE,
    SHAPE_TYPE, /* a word; "none": there is no key */
    SHAPE_SCAN,
    SHAPE_SERVER_INFO,
    SHAPE_STATE,
    SHAPE_NATIVE_STATE,
    SHAPE_RECORD,
    SHAPE_FENCES,
    SHAPE_OK,
    SHAPE_COUNT,
    SHAPE_TURN,    /* two integers: rank, and how long we must wait */
    SHAPE_QUEUE,   /* two integers: how many wait, and for how long the first one has */
    SHAPE_READERS, /* three integers, then strings; or -1: denied, 0: absent */
    SHAPE_TRIAL    /* in turn: +OK, 0, 1, 0; anything else: the trial failed */
};

struct form {
    const char *text;     /* NULL: the operation has its own encoder */
    const char *verdicts; /* the meaning of the integers from -2 on */
    uint8_t script;       /* enum node_script; NODE_SCRIPTS_ALL: not a script */
    uint8_t more_keys;    /* of the script, in addition to the request's keys */
    uint8_t replies; /* the number of commands, or with `each`, of those for each key; 0: none */
    bool each;
    uint8_t shape[2]; /* of the replies, in turn */
};

/* One key, several; then the same for guarded mode. On a native node: classic, guarded; then the
 * same for one key that no waiter asks for. Then, for one key on a stock node, the forms with DELEX
 * and DELIFEQ. */
enum {
    FORM_GUARDED = 2,
    FORM_NATIVE = 4,
    FORM_NATIVE_ONE = 6,
    FORM_DELEX = 8,
    FORM_DELIFEQ = 9,
    FORM_VARIANTS = 10,
    PIECES_MAX = 1024 /* of all forms */
};

extern const struct form forms[NET_OPS_COUNT][FORM_VARIANTS];

/* The form of the module's own command; NULL: it serves the stock form. Locks of scheme=setnx are
 * keys of other programs, and not in its table. */
static inline const struct form *form_of_native(const struct net_request *request) {
    const bool one = request->keys_count == 1 && !request->waiter.data;
    const int variant = one ? FORM_NATIVE_ONE : FORM_NATIVE;
    const struct form *form = &forms[request->op][variant + (request->nonces ? 1 : 0)];
    return form->replies > 0 && request->scheme == 0 ? form : NULL;
}

static inline const struct form *form_of(const struct net_request *request, bool native) {
    const struct form *form = native ? form_of_native(request) : NULL;
    if (form) return form;
    const int variant = (request->nonces ? FORM_GUARDED : 0) + (request->keys_count > 1 ? 1 : 0);
    return &forms[request->op][variant];
}

/* The form with DELEX or DELIFEQ; NULL: the request has none. */
static inline const struct form *form_of_deleter(const struct net_request *request, bool delifeq) {
    const struct form *form = &forms[request->op][delifeq ? FORM_DELIFEQ : FORM_DELEX];
    const bool one = request->keys_count == 1 && request->scheme == 0;
    return form->replies > 0 && one ? form : NULL;
}

/* A form's text, cut into words once per process: a lock's commands are written in every turn. */
enum { PIECE_END = '\0', PIECE_NEXT_COMMAND = ';', PIECE_WORD = 'w' }; /* or the letter after '%' */
struct piece {
    const char *word;
    uint8_t bytes;
    char what;
};
const struct piece *form_pieces(const struct form *form);

#endif
