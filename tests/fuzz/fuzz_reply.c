/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as a server's replies, in RESP2 and RESP3: the same replies come out however the bytes
 * were cut, and each is offered as the answer to a request of every kind. An input is a byte that
 * says how it is cut, in which protocol and by which kind of node it is sent, a byte that says
 * which request is answered, then what the server sends.
 */
#include "net/codec/command.h"
#include "net/codec/reader.h"
#include "net/codec/setnx.h"
#include "net/codec/error_reply.h"

#include "core/guard.h"
#include "must.h"
#include "redlock.h"

enum { RESP3 = 128, NATIVE = 64, OPS = NET_OPS_COUNT };
#define INCARNATION "0123456789abcdef0123456789abcdef01234567"

/* What was read, as far as two readers can differ. */
struct seen {
    uint64_t hash;
    size_t replies;
    bool bad;
};

static void mix(struct seen *seen, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        seen->hash = (seen->hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
}

static void mix_reply(struct seen *seen, const struct reader *reader) {
    must(reader->slots_count >= 1 && reader->slots_count <= READER_ELEMENTS_MAX,
         "a reply of no slots");
    for (size_t i = 0; i < reader->slots_count; i++) {
        const struct reply_slot *slot = &reader->slots[i];
        must(slot->type <= REPLY_ARRAY, "no such type");
        must(slot->type != REPLY_ARRAY || slot->integer >= 0, "an array of less than nothing");
        mix(seen, &slot->type, sizeof slot->type);
        mix(seen, &slot->integer, sizeof slot->integer);
        mix(seen, reader->bytes[i].data, reader->bytes[i].bytes);
    }
    seen->replies++;
}

/* ---- answers ---- */

struct asked {
    struct net_request request;
    bool native;
    unsigned nth;
    struct net_reply answer;
    struct net_state state;
    struct setnx_seen setnx;
};

static const struct net_bytes keys[] = {{"redlock:waiting:k", 17}, {"redlock:waiters:k", 17}};
static const uint64_t nonces[RL_NODES_MAX] = {1};
static const uint16_t stripes[] = {3};

static void ask(struct asked *asked, uint8_t choice, bool native) {
    memset(asked, 0, sizeof *asked);
    asked->native = native;
    asked->request =
        (struct net_request){.op = (enum net_op)(choice % OPS), .keys = keys, .keys_count = 1};
    asked->request.token = (struct net_bytes){"0123456789abcdef", 16};
    asked->request.ttl_ms = 1000;
    asked->request.fence = 5;
    asked->request.question = (enum net_question)(choice % NET_QUESTIONS);
    const int variant = choice / OPS % 4;
    if (variant == 1) asked->request.keys_count = 2;
    if (variant == 2)
        asked->request.nonces = nonces, asked->request.stripes = stripes,
        asked->request.stripes_count = 1;
    if (variant == 3) asked->request.scheme = REDLOCK_SCHEME_SETNX;
    if (asked->request.op == NET_WAIT_QUEUE_ENTER || asked->request.op == NET_WAIT_QUEUE_LEAVE ||
        asked->request.op == NET_WAIT_QUEUE_PEEK || asked->request.op == NET_READERS)
        asked->request.keys_count = 2;
}

static void check_answer(const struct asked *asked) {
    const struct net_reply *answer = &asked->answer;
    must(answer->verdict >= REDLOCK_VERDICT_NONE && answer->verdict <= REDLOCK_VERDICT_NO_SCRIPTS,
         "no such verdict");
    must(answer->remaining_ms >= -2, "no such time");
    must(answer->value.bytes <= REDLOCK_TOKEN_BYTES_MAX, "a token too long");
    must(answer->fence >= 0 && answer->fence <= REDLOCK_FENCE_MAX, "no such fence");
    must(answer->count >= -1, "a rank below none");
    must(answer->age_us >= 0, "a waiter that has not come yet");
    for (size_t i = 0; i < answer->value.bytes; i++)
        (void)*((const volatile char *)answer->value.data + i);
    for (size_t i = 0; answer->fences != NULL && i < RL_STRIPES; i++)
        must(answer->fences[i] >= 0 && answer->fences[i] <= REDLOCK_FENCE_MAX,
             "no such fence among them");
    for (size_t i = 0; i < answer->items_count; i++)
        for (size_t k = 0; k < answer->items[i].bytes; k++)
            (void)*((const volatile char *)answer->items[i].data + k);
}

/* A reply to what a client without scripts looks at first. */
static void take_check(struct asked *asked, const struct reader *reader) {
    bool change;
    if (!setnx_speaks(&asked->request) || !net_op_is_write(asked->request.op) ||
        reader_is_error(reader))
        return;
    if (!setnx_take_check(&asked->request, asked->nth % SETNX_CHECKS, reader, &asked->setnx))
        return;
    const int verdict = setnx_judge(&asked->request, &asked->setnx, REDLOCK_VERDICT_NONE, &change);
    must(!change || verdict == REDLOCK_VERDICT_GRANTED, "a change of what is not ours");
}

static void answer(struct asked *asked, const struct reader *reader) {
    static int64_t fences[RL_STRIPES];
    const struct answer_room room = {.fences = fences,
                                     .state = &asked->state,
                                     .incarnation = asked->native ? INCARNATION : NULL};
    struct native_hello hello;
    if (native_hello_answer(reader, &hello))
        must(strlen(hello.incarnation) == 40 && strlen(hello.quorum) < sizeof hello.quorum,
             "no such identity");
    const struct net_bytes bytes = reader->bytes[0];
    char value[24];
    take_check(asked, reader);
    if (reader->slots[0].type == REPLY_STRING) {
        info_value(bytes, "role", value, sizeof value);
        must(strlen(value) < sizeof value, "a value too long");
        int64_t over;
        must(!setnx_parse(bytes, &over) || over >= 0, "a time before 1970");
    }
    if (!command_answer(&asked->request, asked->nth, reader, room, &asked->answer)) {
        asked->nth = 0;
        return;
    }
    check_answer(asked);
    if (++asked->nth >= command_replies(&asked->request, asked->native)) asked->nth = 0;
}

/* ---- reading ---- */

static void drain(struct reader *reader, struct seen *seen, struct asked *asked) {
    enum reader_status status;
    while ((status = reader_next(reader)) == READER_REPLY || status == READER_PUSH) {
        mix(seen, &status, sizeof status);
        mix_reply(seen, reader);
        if (status == READER_REPLY) answer(asked, reader);
    }
    seen->bad = status != READER_MORE;
    must(status != READER_NO_MEMORY, "no memory");
}

static struct seen read_all(const uint8_t *data, size_t size, size_t piece, uint8_t how,
                            uint8_t choice) {
    struct reader reader;
    struct asked asked;
    struct seen seen = {.hash = 14695981039346656037U};
    must(reader_open(&reader), "no reader");
    reader_expect_resp3(&reader, how & RESP3);
    ask(&asked, choice, how & NATIVE);
    while (size > 0 && !seen.bad) {
        const size_t now = size < piece ? size : piece;
        char *copy = copy_of(data, now);
        must(reader_feed(&reader, copy, now), "not fed");
        drain(&reader, &seen, &asked);
        free(copy);
        data += now;
        size -= now;
    }
    reader_close(&reader);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    const struct seen whole = read_all(data + 2, size - 2, size - 2, data[0], data[1]),
                      cut =
                          read_all(data + 2, size - 2, 1 + (size_t)data[0] % 16, data[0], data[1]);
    must(whole.replies == cut.replies, "another number of replies when cut");
    must(whole.hash == cut.hash, "other replies when cut");
    must(whole.bad == cut.bad, "another end when cut");
    return 0;
}
