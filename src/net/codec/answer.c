/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The verdict of a reply, by the form of its request (policy/ops.h); error_reply.c has that of an
 * error, and client/locks/vote.c makes a vote of it. A reply that its request cannot have ends the
 * connection, because the replies after it would be matched to the wrong requests. A reply of the
 * right form with a value that no client of ours writes (a fence of -1, for example) does not: the
 * connection is sound, only the data are wrong, and a new connection would not change them. Its
 * verdict is PROTOCOL. */
#include <stdlib.h>
#include <string.h>

#include "core/guard.h"
#include "net/codec/command.h"
#include "net/codec/form.h"
#include "net/codec/setnx.h"
#include "net/codec/error_reply.h"
#include "redlock.h"

static bool answer_set(const struct reader *reader, struct net_reply *answer) {
    if (reader_is_status(reader, 0, "OK"))
        answer->verdict = REDLOCK_VERDICT_GRANTED;
    else if (reader->slots[0].type == REPLY_NIL)
        answer->verdict = REDLOCK_VERDICT_DENIED;
    else
        return false;
    return true;
}

/* An integer, by the meaning in the table. */
static bool answer_verdict(const char verdicts[4], const struct reader *reader,
                           struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type != REPLY_INTEGER || slot->integer < -2 || slot->integer > 1) return false;
    switch (verdicts[slot->integer + 2]) {
    case 'G': answer->verdict = REDLOCK_VERDICT_GRANTED; return true;
    case 'D': answer->verdict = REDLOCK_VERDICT_DENIED; return true;
    case 'A': answer->verdict = REDLOCK_VERDICT_ABSENT; return true;
    case 'S': answer->verdict = REDLOCK_VERDICT_STALE; return true;
    case 'R': answer->verdict = REDLOCK_VERDICT_RECOVERING; return true;
    default: return false;
    }
}

/* A native node's denial: [0, remaining time or -1, rank or -1, the beginning of the holder's
 * token]. Later versions may add to it. */
static bool answer_denial(const struct reader *reader, struct net_reply *answer) {
    enum { VERDICT = 1, REMAINING = 2, RANK = 3, HOLDER = 4 };
    const struct reply_slot *slots = reader->slots;
    if (slots[0].type != REPLY_ARRAY || slots[0].integer < HOLDER || reader->slots_count <= HOLDER)
        return false;
    for (size_t i = VERDICT; i <= RANK; i++)
        if (slots[i].type != REPLY_INTEGER || slots[i].integer < (i == VERDICT ? 0 : -1))
            return false;
    if (slots[VERDICT].integer != 0) return false;
    if (slots[HOLDER].type != REPLY_STRING && slots[HOLDER].type != REPLY_NIL) return false;
    answer->verdict = REDLOCK_VERDICT_DENIED;
    answer->remaining_ms = slots[REMAINING].integer;
    answer->count = slots[RANK].integer;
    answer_shows(answer, reader->bytes[HOLDER]);
    return true;
}

/* A native node's vote. 2: granted, and other clients wait. */
static bool answer_vote(const struct net_request *request, const struct reader *reader,
                        struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type == REPLY_ARRAY) return answer_denial(reader, answer);
    if (slot->type == REPLY_INTEGER && slot->integer == 2) {
        answer->verdict = REDLOCK_VERDICT_GRANTED;
        answer->count = 1;
        return true;
    }
    return answer_verdict(request->nonces ? "-SDG" : "--DG", reader, answer);
}

/* The reply after the SET of a guarded acquisition. Whatever it is, a key of another client is
 * DENIED. */
static bool answer_zadd(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type != REPLY_INTEGER || slot->integer < 0 || slot->integer > 1) return false;
    answer->verdict = slot->integer == 1 ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_STALE;
    return true;
}

/* -2, -1, or a fence: it has the verdict `reached`, and is at least `least`. */
static bool answer_fence(int64_t integer, int reached, int64_t least, struct net_reply *answer) {
    answer->verdict = integer == -2                 ? REDLOCK_VERDICT_RECOVERING
                      : integer == -1               ? REDLOCK_VERDICT_DENIED
                      : integer > REDLOCK_FENCE_MAX ? REDLOCK_VERDICT_PROTOCOL
                                                    : reached;
    if (answer->verdict != reached) return true;
    answer->fence = integer;
    return integer >= least;
}

/* The fence that was not reached is lower than the one that is there. */
static bool answer_raise(const struct net_request *request, const struct reader *reader,
                         struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type != REPLY_INTEGER) return false;
    if (slot->integer != 0)
        return answer_fence(slot->integer, REDLOCK_VERDICT_STALE, request->fence, answer);
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    return true;
}

/* {1, slot}, {-1, slot}, {0, time left or -1}, {-2, another number of slots}. A native node also
 * says whether others wait, {2, slot}, and {0, time left, rank or -1}. */
static bool answer_slot(const struct net_request *request, const struct reader *reader,
                        struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    if (slots[0].type != REPLY_ARRAY || slots[0].integer < 2 || slots[0].integer > 3 ||
        reader->slots_count != 1 + (size_t)slots[0].integer)
        return false;
    for (size_t i = 1; i < reader->slots_count; i++)
        if (slots[i].type != REPLY_INTEGER) return false;
    const int64_t what = slots[1].integer, number = slots[2].integer;
    const bool ranked = reader->slots_count > 3;
    const bool ours = what == 1 || what == 2 || (what == -1 && request->nonces);
    if (ranked && (what != 0 || slots[3].integer < -1)) return false;
    answer->verdict = REDLOCK_VERDICT_DENIED;
    if (ranked) answer->count = slots[3].integer;
    if (ours && number >= 1 && number <= request->slots) {
        answer->verdict = what == -1 ? REDLOCK_VERDICT_STALE : REDLOCK_VERDICT_GRANTED;
        answer->slot = (uint8_t)number;
        answer->count = what == 2;
    } else if (what == 0 && number >= -1) {
        answer->remaining_ms = number;
    } else if (what == -2 && number >= 1 && number <= 99 && number != request->slots) {
        answer->verdict = REDLOCK_VERDICT_OTHER_SLOTS;
        answer->slots = (uint8_t)number;
    } else {
        return false;
    }
    return true;
}

static bool answer_break(const struct net_request *request, const struct reader *reader,
                         struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type != REPLY_INTEGER || (slot->integer != 0 && slot->integer != -3))
        return answer_raise(request, reader, answer);
    answer->verdict = slot->integer == 0 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
    return true;
}

static bool answer_shared(const struct net_request *request, const struct reader *reader,
                          struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    if (slot->type == REPLY_ARRAY) return answer_denial(reader, answer); /* a native node's */
    if (slot->type != REPLY_INTEGER) return false;
    if (request->nonces)
        return answer_fence(slot->integer, REDLOCK_VERDICT_GRANTED, request->fence, answer);
    const bool fits =
        slot->integer == -1 || slot->integer == 0 || slot->integer > REDLOCK_FENCE_MAX;
    return fits && answer_fence(slot->integer, REDLOCK_VERDICT_GRANTED, 0, answer);
}

/* A key without TTL never ends, an absent key has ended already. */
static bool ends_later(int64_t left, int64_t than) {
    return left == -1 || (than != -1 && left > than);
}

/* The key that ends last; of slots, the one that ends first. */
static bool answer_pttl(const struct net_request *request, unsigned nth,
                        const struct reader *reader, struct net_reply *answer) {
    int64_t left = reader->slots[0].integer;
    if (reader->slots[0].type != REPLY_INTEGER || left < -2) return false;
    if (nth == 0 || ends_later(left, answer->remaining_ms) == (request->slots == 0))
        answer->remaining_ms = left;
    answer->verdict = answer->remaining_ms == -2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
    return true;
}

static bool answer_scan(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    if (reader->slots_count < 3 || slots[0].type != REPLY_ARRAY || slots[0].integer != 2)
        return false;
    if (slots[1].type != REPLY_STRING || !reader_is_strings(reader, 2, slots[2].integer) ||
        reader->slots_count != 3 + (size_t)slots[2].integer)
        return false;
    char cursor[24] = "", *end;
    if (reader->bytes[1].bytes == 0 || reader->bytes[1].bytes >= sizeof(cursor)) return false;
    memcpy(cursor, reader->bytes[1].data, reader->bytes[1].bytes);
    answer->cursor = strtoull(cursor, &end, 10);
    if (*end != '\0') return false;
    answer->items = &reader->bytes[3];
    answer->items_count = (size_t)slots[2].integer;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    return true;
}

/* An array of pairs of strings: `*pairs` of them. */
static bool is_pairs(const struct reader *reader, size_t *pairs) {
    int64_t count = reader->slots[0].integer;
    *pairs = (reader->slots_count - 1) / 2;
    return reader_is_strings(reader, 0, count) && count % 2 == 0 &&
           reader->slots_count == 1 + (size_t)count;
}

/* An integer from 0 to `max`, as servers write it: without a zero before it. */
static bool parse_number(struct net_bytes text, int64_t max, int64_t *number) {
    uint64_t value;
    if (text.bytes > 1 && *(const char *)text.data == '0') return false;
    if (!net_read_number(text, (uint64_t)max, &value)) return false;
    *number = (int64_t)value;
    return true;
}

/* An array of arrays of two strings: the RESP3 form of ZRANGE's reply. */
static bool is_nested_pairs(const struct reader *reader, size_t *pairs) {
    size_t count = *pairs = reader->slots_count / 3;
    bool right = reader->slots[0].type == REPLY_ARRAY && reader->slots_count == 1 + 3 * count &&
                 reader->slots[0].integer == (int64_t)count;
    for (size_t i = 0; right && i < count; i++) right = reader_is_strings(reader, 1 + 3 * i, 2);
    return right;
}

/* A native node's reply: pairs of integers. */
static bool is_pairs_of_integers(const struct reader *reader, size_t *pairs) {
    *pairs = (reader->slots_count - 1) / 2;
    bool right = reader->slots[0].type == REPLY_ARRAY && reader->slots_count == 1 + 2 * *pairs &&
                 reader->slots[0].integer == (int64_t)(2 * *pairs);
    for (size_t i = 1; right && i < reader->slots_count; i++)
        right = reader->slots[i].type == REPLY_INTEGER;
    return right;
}

static bool number_at(const struct reader *reader, size_t slot, int64_t max, int64_t *number) {
    if (reader->slots[slot].type == REPLY_STRING)
        return parse_number(reader->bytes[slot], max, number);
    *number = reader->slots[slot].integer;
    return *number >= 0 && *number <= max;
}

static bool answer_fences(const struct reader *reader, int64_t *fences, struct net_reply *answer) {
    size_t pairs;
    int64_t stripe, fence;
    bool flat = is_pairs(reader, &pairs) || is_pairs_of_integers(reader, &pairs);
    if (!fences || !(flat || is_nested_pairs(reader, &pairs))) return false;
    memset(fences, 0, RL_STRIPES * sizeof(*fences));
    for (size_t i = 0; i < pairs; i++) {
        const size_t pair = flat ? 1 + 2 * i : 2 + 3 * i;
        if (number_at(reader, pair, RL_STRIPES - 1, &stripe) &&
            number_at(reader, pair + 1, REDLOCK_FENCE_MAX, &fence)) {
            fences[stripe] = fence;
            continue;
        }
        answer->verdict = REDLOCK_VERDICT_PROTOCOL;
        return true;
    }
    answer->verdict = pairs > 0 ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_RECOVERING;
    if (pairs > 0) answer->fences = fences;
    return true;
}

static bool answer_server_info(enum net_question question, const struct reader *reader,
                               struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    bool many = slots[0].type == REPLY_ARRAY;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    if (question >= NET_ASK_MAY) return true; /* it ran: whatever the reply is, it is a yes */
    if (question == NET_ASK_QUORUM && slots[0].type == REPLY_NIL) return true;
    if (many ? !reader_is_strings(reader, 0, (int64_t)reader->slots_count - 1)
             : slots[0].type != REPLY_STRING)
        return false;
    answer->items = &reader->bytes[many];
    answer->items_count = reader->slots_count - many;
    return true;
}

static bool answer_queue(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    if (reader->slots_count != 3 || slots[0].type != REPLY_ARRAY || slots[0].integer != 2 ||
        slots[1].type != REPLY_INTEGER || slots[2].type != REPLY_INTEGER || slots[1].integer < 0 ||
        slots[2].integer < 0)
        return false;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    answer->count = slots[1].integer;
    answer->age_us = slots[2].integer;
    return true;
}

/* "1500 token" */
static bool is_reader(struct net_bytes item) {
    const char *space = item.bytes > 0 ? memchr(item.data, ' ', item.bytes) : NULL;
    uint64_t left;
    if (!space) return false;
    const size_t digits = (size_t)(space - (const char *)item.data);
    return net_read_number((struct net_bytes){item.data, digits}, INT64_MAX, &left);
}

/* [how many, end and number of the next page, reader...], or why there are none. */
static bool answer_readers(const struct reader *reader, struct net_reply *answer) {
    enum { COUNT = 1, NEXT = 2, SKIP = 3, FIRST = 4 };
    const struct reply_slot *slots = reader->slots;
    if (slots[0].type == REPLY_INTEGER) return answer_verdict("-DA-", reader, answer);
    if (slots[0].type != REPLY_ARRAY || reader->slots_count < FIRST ||
        slots[0].integer != (int64_t)reader->slots_count - 1)
        return false;
    for (size_t i = COUNT; i <= SKIP; i++)
        if (slots[i].type != REPLY_INTEGER || slots[i].integer < 0) return false;
    if (slots[SKIP].integer > UINT32_MAX) return false;
    for (size_t i = FIRST; i < reader->slots_count; i++)
        if (slots[i].type != REPLY_STRING || !is_reader(reader->bytes[i])) return false;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    answer->count = slots[COUNT].integer;
    answer->cursor = (uint64_t)slots[NEXT].integer;
    answer->skip = (uint32_t)slots[SKIP].integer;
    answer->items = &reader->bytes[FIRST];
    answer->items_count = reader->slots_count - FIRST;
    return true;
}

/* [waiters before us or -1, time left: -2: we may try, -1: no end] */
static bool answer_turn(const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slots = reader->slots;
    if (reader->slots_count != 3 || slots[0].type != REPLY_ARRAY || slots[0].integer != 2 ||
        slots[1].type != REPLY_INTEGER || slots[2].type != REPLY_INTEGER || slots[1].integer < -1 ||
        slots[2].integer < -2)
        return false;
    answer->count = slots[1].integer;
    answer->remaining_ms = slots[2].integer;
    answer->verdict = answer->remaining_ms == -2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
    return true;
}

/* NET_ASK_QUORUM at a native node: the answer to REDLOCK.HELLO, of which only the quorum is kept.
 */
static bool answer_native_quorum(const struct reader *reader, struct net_reply *answer) {
    struct native_hello hello;
    if (!native_hello_answer(reader, &hello)) return false;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    for (size_t i = 1; hello.quorum[0] != '\0' && i < reader->slots_count; i += 2) {
        if (!net_is_text(reader->bytes[i], "quorum")) continue;
        answer->items = &reader->bytes[i + 1];
        answer->items_count = 1;
    }
    return true;
}

/* A server may answer anything to a command that it takes for another one. */
static bool answer_trial(unsigned nth, const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    const bool right = nth == 0
                           ? reader_is_status(reader, 0, "OK")
                           : slot->type == REPLY_INTEGER && slot->integer == (nth == 2 ? 1 : 0);
    answer->verdict = right ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_DENIED;
    return true;
}

static bool answer_right(const struct net_request *request, unsigned nth,
                         const struct reader *reader, struct answer_room room,
                         struct net_reply *answer) {
    const bool native = room.incarnation != NULL;
    const struct form *form = form_of(request, native);
    const struct reply_slot *slot = &reader->slots[0];
    size_t pairs;
    bool sound;
    if (setnx_speaks(request)) {
        if (!net_op_is_write(request->op)) return setnx_answer(request, nth, reader, answer);
        /* the scripts of scheme=setnx answer as the classic ones do */
        return answer_verdict(forms[request->op][1].verdicts, reader, answer);
    }
    switch ((enum shape)form->shape[nth % 2]) {
    case SHAPE_SET: return answer_set(reader, answer);
    case SHAPE_VOTE: return answer_vote(request, reader, answer);
    case SHAPE_RAISED: return answer_zadd(reader, answer);
    case SHAPE_VERDICTS: return answer_verdict(form->verdicts, reader, answer);
    case SHAPE_SLOT: return answer_slot(request, reader, answer);
    case SHAPE_RAISE: return answer_raise(request, reader, answer);
    case SHAPE_BREAK: return answer_break(request, reader, answer);
    case SHAPE_SHARED: return answer_shared(request, reader, answer);
    case SHAPE_PTTL: return answer_pttl(request, nth / form->replies, reader, answer);
    case SHAPE_VALUE:
        answer_shows(answer, reader->bytes[0]);
        return slot->type == REPLY_STRING || (native && slot->type == REPLY_NIL);
    case SHAPE_TYPE:
        answer_shows(answer, reader->bytes[0]);
        answer->verdict =
            reader_is_status(reader, 0, "none") ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
        return slot->type == REPLY_STATUS;
    case SHAPE_SCAN: return answer_scan(reader, answer);
    case SHAPE_SERVER_INFO:
        if (native && request->question == NET_ASK_QUORUM)
            return answer_native_quorum(reader, answer);
        return answer_server_info(request->question, reader, answer);
    case SHAPE_STATE:
        if (!room.state || !state_answer(nth, reader, room.state, &sound)) return false;
        answer->verdict = sound ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_PROTOCOL;
        answer->state = nth + 1 == form->replies ? room.state : NULL;
        return true;
    case SHAPE_NATIVE_STATE:
        if (!room.state || !native_state_answer(reader, room.incarnation, room.state, &sound))
            return false;
        answer->verdict = sound ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_PROTOCOL;
        answer->state = room.state;
        return true;
    case SHAPE_RECORD:
        if (!is_pairs(reader, &pairs)) return false;
        answer->items = &reader->bytes[1];
        answer->items_count = 2 * pairs;
        answer->verdict = pairs > 0 ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_ABSENT;
        return true;
    case SHAPE_FENCES: return answer_fences(reader, room.fences, answer);
    case SHAPE_OK:
        answer->verdict = REDLOCK_VERDICT_GRANTED;
        return reader_is_status(reader, 0, "OK");
    case SHAPE_COUNT:
        answer->verdict = REDLOCK_VERDICT_GRANTED;
        answer->count = slot->integer;
        return slot->type == REPLY_INTEGER && slot->integer >= 0;
    case SHAPE_TURN: return answer_turn(reader, answer);
    case SHAPE_QUEUE: return answer_queue(reader, answer);
    case SHAPE_READERS: return answer_readers(reader, answer);
    case SHAPE_TRIAL: return answer_trial(nth, reader, answer);
    }
    return false;
}

bool command_answer_plain(enum net_op op, const struct reader *reader, struct net_reply *answer) {
    const struct reply_slot *slot = &reader->slots[0];
    bool set = op == NET_ACQUIRE;
    answer->remaining_ms = -2;
    if (set && slot->type == REPLY_STATUS) return answer_set(reader, answer);
    if (set ? slot->type != REPLY_NIL
            : slot->type != REPLY_INTEGER || slot->integer < 0 || slot->integer > 1)
        return false;
    answer->verdict = set                  ? REDLOCK_VERDICT_DENIED
                      : slot->integer == 1 ? REDLOCK_VERDICT_GRANTED
                                           : REDLOCK_VERDICT_ABSENT;
    return true;
}

bool command_answer_vote(unsigned nth, const struct reader *reader, struct net_reply *answer) {
    if (nth == 1) return answer->verdict == REDLOCK_VERDICT_GRANTED && answer_zadd(reader, answer);
    if (!reader_is_status(reader, 0, "OK")) return false;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    answer->remaining_ms = -2;
    answer->fence = 0;
    return true;
}

/* Under the name of the fences is a value of another type: they are gone. */
static int error_verdict(const struct net_request *request, unsigned nth,
                         const struct reader *reader, struct answer_room room) {
    const int verdict = error_reply_verdict(reader->bytes[0]);
    if (verdict != REDLOCK_VERDICT_WRONGTYPE || setnx_speaks(request)) return verdict;
    const struct form *form = form_of(request, room.incarnation != NULL);
    const uint8_t shape = form->shape[nth % 2];
    return shape == SHAPE_RAISED || shape == SHAPE_FENCES ? REDLOCK_VERDICT_RECOVERING : verdict;
}

bool command_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                    struct answer_room room, struct net_reply *answer) {
    if (nth == 0) *answer = (struct net_reply){.remaining_ms = -2};
    /* The first of several replies that fails (or denies) is the answer; the others only need the
     * right type. */
    int before = answer->verdict;
    bool stands = nth > 0 && before != REDLOCK_VERDICT_GRANTED && before != REDLOCK_VERDICT_ABSENT;
    bool right = true;
    if (reader_is_error(reader)) {
        answer->verdict = error_verdict(request, nth, reader, room);
        if (!stands && answer->verdict == REDLOCK_VERDICT_NOPERM)
            error_reply_denied_command(reader->bytes[0], answer->denied, sizeof(answer->denied));
        if (!stands && answer->verdict == REDLOCK_VERDICT_ERROR)
            error_reply_unknown_command(reader->bytes[0], answer->unknown, sizeof(answer->unknown));
    } else {
        right = answer_right(request, nth, reader, room, answer);
    }
    if (stands) answer->verdict = before;
    if (answer->verdict != REDLOCK_VERDICT_GRANTED) answer->state = NULL;
    return right;
}
