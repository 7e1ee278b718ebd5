/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/codec/command.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/guard.h"
#include "net/codec/form.h"
#include "net/codec/setnx.h"
#include "redlock.h"

_Static_assert(COMMAND_WORDS_MAX >= 2 * REDLOCK_RESOURCES_MAX + 13,
               "a request with all its keys and stripes must fit");
_Static_assert(COMMAND_WORDS_MAX >= NET_FIELDS_MAX + 9, "a record must fit");
_Static_assert(COMMAND_NUMBERS_MAX >= REDLOCK_RESOURCES_MAX + 6, "all stripes must fit");

#define FENCE_WORD "FENCE="
enum {
    TTL_BYTES = sizeof("18446744073709551615:") - 1, /* in place of FENCE= */
    FENCE_WORD_BYTES = TTL_BYTES + NET_NONCE_BYTES + sizeof(":18446744073709551615") - 1 +
                       REDLOCK_RESOURCES_MAX * (sizeof(":4095") - 1)
};
enum { FENCES_NAME_BYTES = sizeof(NET_KEY_FENCES) - 1 + NET_NONCE_BYTES, SHA1_BYTES = 40 };

static void words_clear(struct words *words) {
    words->count = 0;
    words->numbers = 0;
    words->named = 0;
}

void words_begin(struct words *words, const char *command) {
    words_clear(words);
    words_text(words, command);
}

void words_bytes(struct words *words, struct net_bytes bytes) {
    assert(words->count < COMMAND_WORDS_MAX);
    words->word[words->count] = bytes.data ? bytes.data : "";
    words->bytes[words->count++] = bytes.bytes;
}

void words_text(struct words *words, const char *text) {
    words_bytes(words, (struct net_bytes){text, strlen(text)});
}

static size_t digits_of(uint64_t number) {
    for (size_t digits = 1;; digits += 4, number /= 10000) {
        if (number < 10) return digits;
        if (number < 100) return digits + 1;
        if (number < 1000) return digits + 2;
        if (number < 10000) return digits + 3;
    }
}

/* Returns the end. Written by hand, because a lock's commands are formatted in every turn, and
 * printf() takes longer than all the rest. */
static char *put_digits(char *at, uint64_t number) {
    if (number < 10) {
        *at = (char)('0' + number);
        return at + 1;
    }
    char *end = at + digits_of(number);
    char *digit = end;
    do {
        *--digit = (char)('0' + number % 10);
        number /= 10;
    } while (digit > at);
    return end;
}

void words_number(struct words *words, uint64_t number) {
    assert(words->numbers < sizeof(words->number) / sizeof(words->number[0]));
    char *text = words->number[words->numbers++];
    words_bytes(words, (struct net_bytes){text, (size_t)(put_digits(text, number) - text)});
}

/* "*2\r\n" and "$5\r\n" */
static char *put_count(char *at, char kind, size_t count) {
    *at = kind;
    at = put_digits(at + 1, count);
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

static size_t formatted_bytes(size_t word) { return 1 + digits_of(word) + 2 + word + 2; }

bool words_end(const struct words *words, struct buffer *out, size_t limit) {
    size_t bytes = 1 + digits_of((uint64_t)words->count) + 2;
    for (int i = 0; i < words->count; i++) bytes += formatted_bytes(words->bytes[i]);
    char *at = buffer_extend(out, bytes, limit);
    if (!at) return false;
    at = put_count(at, '*', (size_t)words->count);
    for (int i = 0; i < words->count; i++) {
        at = put_count(at, '$', words->bytes[i]);
        memcpy(at, words->word[i], words->bytes[i]);
        at += words->bytes[i];
        *at++ = '\r';
        *at++ = '\n';
    }
    return true;
}

/* The formatted bytes after a word. */
static size_t words_behind(const struct words *words, int word) {
    size_t behind = 2; /* its own end of line */
    for (int i = word + 1; i < words->count; i++) behind += formatted_bytes(words->bytes[i]);
    return behind;
}

bool command_is_guarded(const struct net_request *request) {
    if (net_op_is(request->op, NET_OP_GUARDED)) return true;
    return request->nonces && net_op_is(request->op, NET_OP_FENCED);
}

enum node_script command_script(const struct net_request *request, bool native) {
    if (setnx_speaks(request)) return setnx_script(request);
    return form_of(request, native)->script;
}

unsigned command_replies(const struct net_request *request, bool native) {
    if (setnx_speaks(request)) return setnx_replies(request);
    const struct form *form = form_of(request, native);
    return form->replies * (form->each ? (unsigned)request->keys_count : 1);
}

/* ---- encoders of their own ---- */

void words_script(struct words *words, enum node_script script, bool whole, size_t keys) {
    words_begin(words, whole ? "EVAL" : "EVALSHA");
    words_bytes(words,
                whole ? (struct net_bytes){node_scripts[script].text, node_scripts[script].bytes}
                      : (struct net_bytes){node_scripts[script].sha1, SHA1_BYTES});
    words_number(words, keys);
}

/* The prefix is bytes, and MATCH takes a glob: characters with a meaning in a glob are escaped. */
static bool encode_scan(const struct net_request *request, bool native, struct words *words,
                        struct buffer *out, size_t limit) {
    const char *prefix = request->keys_count ? request->keys[0].data : "";
    size_t bytes = request->keys_count ? request->keys[0].bytes : 0, length = 0;
    char *pattern = malloc(bytes * 2 + 2);
    if (!pattern) return false;
    if (request->anywhere && bytes > 0) pattern[length++] = '*';
    for (size_t i = 0; i < bytes; i++) {
        if (prefix[i] != '\0' && strchr("*?[]\\^-", prefix[i])) pattern[length++] = '\\';
        pattern[length++] = prefix[i];
    }
    pattern[length++] = '*';
    words_begin(words, native ? "REDLOCK.SCAN" : "SCAN");
    words_number(words, request->cursor);
    words_text(words, "MATCH");
    words_bytes(words, (struct net_bytes){pattern, length});
    words_text(words, "COUNT");
    words_number(words, request->effort ? request->effort : 50);
    bool done = words_end(words, out, limit);
    free(pattern);
    return done;
}

static bool encode_permission(const struct net_request *request, bool native, struct words *words,
                              struct buffer *out, size_t limit) {
    const struct net_permission *permission =
        net_permission(native, (unsigned)(request->question - NET_ASK_MAY));
    assert(permission && request->keys_count == 1);
    const char *at = permission->text;
    words_clear(words);
    while (*at) {
        const size_t bytes = strcspn(at, " ");
        const bool key = bytes == 2 && memcmp(at, "%k", 2) == 0;
        words_bytes(words, key ? request->keys[0] : (struct net_bytes){at, bytes});
        at += bytes + (at[bytes] == ' ');
    }
    return words_end(words, out, limit);
}

/* The password is not among them: a client can learn whether there is one without reading it. */
static bool encode_server_info(const struct net_request *request, bool native, struct words *words,
                               struct buffer *out, size_t limit) {
    const enum net_question question = request->question;
    static const char *const line[NET_QUESTIONS][3] = {
#define LINE(name, ...) {__VA_ARGS__},
        NET_SERVER_QUESTIONS(LINE)
#undef LINE
    };
    if (question >= NET_ASK_MAY) return encode_permission(request, native, words, out, limit);
    if (native && question == NET_ASK_QUORUM) {
        words_begin(words, "REDLOCK.HELLO");
        words_number(words, NATIVE_PROTOCOL);
        return words_end(words, out, limit);
    }
    words_begin(words, line[question][0]);
    for (int i = 1; i < 3 && line[question][i]; i++) words_text(words, line[question][i]);
    return words_end(words, out, limit);
}

/* ---- guarded mode ---- */

/* 8 hexadecimal digits at once: each half of the rest moves into its own lane until a byte holds
 * four bits; a byte above 9 becomes a letter. A nonce is written for each vote on each node. */
static void write_half(char text[8], uint32_t half) {
    uint64_t lanes = half;
    lanes = (lanes << 16 | lanes) & UINT64_C(0x0000ffff0000ffff);
    lanes = (lanes << 8 | lanes) & UINT64_C(0x00ff00ff00ff00ff);
    lanes = (lanes << 4 | lanes) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t letters = (lanes + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    lanes += UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10);
    lanes = htobe64(lanes);
    memcpy(text, &lanes, sizeof(lanes));
}

static void write_nonce(char *text, uint64_t nonce) {
    _Static_assert(NET_NONCE_BYTES == 16, "a nonce is two halves");
    write_half(text, (uint32_t)(nonce >> 32));
    write_half(text + 8, (uint32_t)nonce);
}

/* The name of the fences of a nonce; not NUL-terminated. */
static struct net_bytes fences_name(char text[FENCES_NAME_BYTES], uint64_t nonce) {
    memcpy(text, NET_KEY_FENCES, sizeof(NET_KEY_FENCES) - 1);
    write_nonce(text + sizeof(NET_KEY_FENCES) - 1, nonce);
    return (struct net_bytes){text, FENCES_NAME_BYTES};
}

static void add_fences(struct words *words, char text[FENCES_NAME_BYTES], uint64_t nonce) {
    words->named = words->count;
    words->named_bytes = NET_NONCE_BYTES;
    words_bytes(words, fences_name(text, nonce));
}

/* The nonce alone, as native nodes take it. */
static void add_nonce(struct words *words, char text[FENCES_NAME_BYTES], uint64_t nonce) {
    words->named = words->count;
    words->named_bytes = NET_NONCE_BYTES;
    write_nonce(text, nonce);
    words_bytes(words, (struct net_bytes){text, NET_NONCE_BYTES});
}

/* "stripe fence stripe fence ..." of those above 0; NULL: no memory. */
static char *floor_text(const int64_t *floor, size_t *length) {
    enum { PAIR_BYTES = sizeof("4095 9223372036854775807 ") };
    char *text = malloc(RL_STRIPES * PAIR_BYTES);
    *length = 0;
    for (unsigned stripe = 0; text && stripe < RL_STRIPES; stripe++) {
        if (floor[stripe] <= 0) continue;
        int pair = snprintf(text + *length, PAIR_BYTES, "%u %" PRId64 " ", stripe, floor[stripe]);
        *length += (size_t)pair;
    }
    if (*length > 0) --*length; /* the last space */
    return text;
}

/* The names of the fences before and after; a native node knows them by the nonce alone. */
static void add_fences_moved(struct words *words, const struct net_request *request, bool native,
                             char old_name[FENCES_NAME_BYTES], char new_name[FENCES_NAME_BYTES]) {
    struct net_bytes kept = {NET_KEY_KEPT, sizeof(NET_KEY_KEPT) - 1};
    const size_t skipped = native ? sizeof(NET_KEY_FENCES) - 1 : 0;
    struct net_bytes names[2] = {kept, kept};
    if (!request->was_kept && request->expected != 0)
        names[0] = fences_name(old_name, request->expected);
    if (!request->keep) names[1] = fences_name(new_name, request->nonce);
    for (int i = 0; i < 2; i++)
        words_bytes(words, (struct net_bytes){(const char *)names[i].data + skipped,
                                              names[i].bytes - skipped});
}

static bool encode_record_write(const struct net_request *request, enum command_style style,
                                struct words *words, struct buffer *out, size_t limit) {
    char old_name[FENCES_NAME_BYTES], new_name[FENCES_NAME_BYTES], expected[NET_NONCE_BYTES],
        *floor = NULL;
    const bool native = style == COMMAND_NATIVE;
    size_t floor_bytes = 0;
    assert(request->fields_count <= NET_FIELDS_MAX);
    if (request->floor && !(floor = floor_text(request->floor, &floor_bytes))) return false;
    write_nonce(expected, request->expected);
    const struct net_bytes expected_text = {expected, request->expected ? sizeof(expected) : 0};
    if (native) {
        words_begin(words, "REDLOCK.RECORDWRITE");
        words_bytes(words, expected_text);
    } else {
        words_script(words, NODE_RECORD_WRITE, style == COMMAND_WHOLE, 3);
        words_text(words, NET_KEY_RECORD);
    }
    add_fences_moved(words, request, native, old_name, new_name);
    if (!native) words_bytes(words, expected_text);
    words_bytes(words, (struct net_bytes){floor, floor_bytes});
    words_text(words, request->floor ? "1" : "0");
    for (size_t i = 0; i < request->fields_count; i++) words_bytes(words, request->fields[i]);
    bool done = words_end(words, out, limit);
    free(floor);
    return done;
}

/* ---- by the table ---- */

/* What the words of one command need in addition to the request. */
struct turn {
    const struct net_request *request;
    uint64_t nonce;
    size_t key;                   /* this turn's key */
    char name[FENCES_NAME_BYTES]; /* of the fences, or their nonce */
    char fence[FENCE_WORD_BYTES];
    char digits[NET_NONCE_BYTES];
};

/* The lock's key, from the name of a wait queue. */
static struct net_bytes bare_key(const struct net_request *request) {
    const size_t prefix = sizeof(NET_KEY_WAITING) - 1;
    const struct net_bytes *line = &request->keys[0];
    assert(request->keys_count == 2 && line->bytes > prefix);
    return (struct net_bytes){(const char *)line->data + prefix, line->bytes - prefix};
}

static void add_waiting(struct words *words, const struct net_request *request) {
    words_number(words, (uint64_t)request->since_us);
    words_number(words, (uint64_t)request->waited_us);
    words_number(words, (uint64_t)request->remember_us);
}

/* One word, since each takes a native node time. What precedes `nonce` is there. */
static void add_fence_from(struct words *words, struct turn *turn, char *nonce) {
    const struct net_request *request = turn->request;
    char *at = nonce + NET_NONCE_BYTES;
    assert(request->stripes_count <= REDLOCK_RESOURCES_MAX && request->fence <= REDLOCK_FENCE_MAX);
    write_nonce(nonce, turn->nonce);
    *at = ':';
    at = put_digits(at + 1, (uint64_t)request->fence);
    for (size_t i = 0; i < request->stripes_count; i++) {
        *at = i ? ',' : ':';
        at = put_digits(at + 1, request->stripes[i]);
    }
    const size_t bytes = (size_t)(at - turn->fence);
    words->named = words->count;
    words->named_bytes = (size_t)(at - nonce);
    words_bytes(words, (struct net_bytes){turn->fence, bytes});
}

static void add_named(struct words *words, char what, struct turn *turn) {
    const struct net_request *request = turn->request;
    char *at;
    switch (what) {
    case 'k': words_bytes(words, request->keys[turn->key]); return;
    case 'K':
        for (size_t i = 0; i < request->keys_count; i++) words_bytes(words, request->keys[i]);
        return;
    case 't': words_bytes(words, request->token); return;
    case 'l': words_number(words, (uint64_t)request->ttl_ms); return;
    case 'c': words_number(words, request->cursor); return;
    case 'n': add_fences(words, turn->name, turn->nonce); return;
    case 'N':
        if (request->was_kept)
            words_text(words, NET_KEY_KEPT);
        else
            add_fences(words, turn->name, turn->nonce);
        return;
    case 'F':
        memcpy(turn->fence, FENCE_WORD, sizeof(FENCE_WORD) - 1);
        add_fence_from(words, turn, turn->fence + sizeof(FENCE_WORD) - 1);
        return;
    case 'L':
        at = put_digits(turn->fence, (uint64_t)request->ttl_ms);
        *at = ':';
        add_fence_from(words, turn, at + 1);
        return;
    case 'O':
        if (request->was_kept)
            words_text(words, NET_KEPT);
        else
            add_nonce(words, turn->name, turn->nonce);
        return;
    case 'z':
        write_nonce(turn->digits, request->nonce);
        words_bytes(words, (struct net_bytes){turn->digits, NET_NONCE_BYTES});
        return;
    case '#': words_number(words, request->keys_count); return;
    case 'f': words_number(words, (uint64_t)request->fence); return;
    case 's':
        for (size_t i = 0; i < request->stripes_count; i++)
            words_number(words, request->stripes[i]);
        return;
    case 'S': words_number(words, request->slots); return;
    case 'o': words_bytes(words, request->slot_order); return;
    case 'e': words_number(words, request->effort); return;
    case 'x': words_number(words, request->skip); return;
    case 'm': words_number(words, REDLOCK_TOKEN_BYTES_MAX); return;
    case 'M': words_number(words, REDLOCK_TOKEN_BYTES_MAX + 1); return;
    case 'a': words_number(words, request->age_us > 0 ? (uint64_t)request->age_us : 0); return;
    case 'r': words_number(words, RL_WAITING_ARMED); return;
    case 'b': words_bytes(words, bare_key(request)); return;
    case 'u': words_bytes(words, request->waiter); return;
    case 'q':
        if (!request->waiter.data) return;
        words_text(words, "WAITER");
        words_bytes(words, request->waiter);
        add_waiting(words, request);
        return;
    case 'v': add_waiting(words, request); return;
    case 'R':
        if (request->reads) words_text(words, "SHARED");
        if (request->slots == 0) return;
        words_text(words, "SLOTS");
        words_number(words, request->slots);
        return;
    case 'p': words_number(words, request->passes ? 1 : 0); return;
    default: assert(false); /* test_table() knows them all */
    }
}

/* Adds the words up to the end of the command, and returns that end. */
static const struct piece *add_words(struct words *words, const struct piece *piece,
                                     struct turn *turn) {
    for (;; piece++) {
        if (piece->what == PIECE_WORD)
            words_bytes(words, (struct net_bytes){piece->word, piece->bytes});
        else if (piece->what == PIECE_END || piece->what == PIECE_NEXT_COMMAND)
            return piece;
        else
            add_named(words, piece->what, turn);
    }
}

static bool encode_form(const struct form *form, const struct net_request *request, unsigned node,
                        bool whole, struct buffer *out, size_t limit, size_t *nonce_at) {
    struct words words;
    struct turn turn;
    turn.request = request;
    turn.nonce = request->nonces ? request->nonces[node] : 0;
    const size_t turns = form->each ? request->keys_count : 1;
    for (turn.key = 0; turn.key < turns; turn.key++) {
        for (const struct piece *piece = form_pieces(form);; piece++) {
            words_clear(&words);
            if (form->script != NODE_SCRIPTS_ALL)
                words_script(&words, form->script, whole, request->keys_count + form->more_keys);
            piece = add_words(&words, piece, &turn);
            if (!words_end(&words, out, limit)) return false;
            if (piece->what == PIECE_END) break;
        }
    }
    if (words.named) *nonce_at = words_behind(&words, words.named) + words.named_bytes;
    return true;
}

bool command_encode(const struct net_request *request, unsigned node, enum command_style style,
                    struct buffer *out, size_t limit, size_t *nonce_at) {
    const bool native = style == COMMAND_NATIVE, whole = style == COMMAND_WHOLE;
    const bool deleter = style == COMMAND_DELEX || style == COMMAND_DELIFEQ;
    const struct form *form =
        deleter ? form_of_deleter(request, style == COMMAND_DELIFEQ) : form_of(request, native);
    struct words words;
    *nonce_at = 0;
    if (setnx_speaks(request)) return setnx_encode(request, whole, out, limit);
    if (form->text) return encode_form(form, request, node, whole, out, limit, nonce_at);
    switch (request->op) {
    case NET_SCAN: return encode_scan(request, form == form_of_native(request), &words, out, limit);
    case NET_SERVER_INFO: return encode_server_info(request, native, &words, out, limit);
    case NET_RECORD_WRITE: return encode_record_write(request, style, &words, out, limit);
    default: assert(false); return false;
    }
}

void command_for_node(const struct net_request *request, unsigned node, size_t nonce_at,
                      struct buffer *encoded) {
    if (nonce_at) write_nonce(encoded->data + encoded->end - nonce_at, request->nonces[node]);
}
