/* SPDX-License-Identifier: BSD-2-Clause
 *
 * RESP3, as servers send it after HELLO 3:
 * https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md
 *
 * A piece is one value, or the head of an aggregate ("*3" is a piece, and three pieces follow).
 * Each becomes the slot that RESP2 has for the same value: a map becomes an array of keys and
 * values, a set an array, a double or a big number a string, a boolean 1 or 0, and a verbatim
 * string its text without the format. An attribute is dropped. Streamed strings and aggregates
 * count as malformed, because servers do not send them.
 *
 * A read may end anywhere in a reply, and the next call continues there. Until a line or a string
 * is complete, its bytes collect in the arena. The bytes of a number or of an attribute are removed
 * from the arena again, because no slot refers to them. */
#include <string.h>

#include "net/codec/reader.h"

enum { NUMBER_BYTES_MAX = 20, FORMAT_BYTES = 4 }; /* "txt:" */

/* The types, by how they go on: a count of pieces, a length, or the value itself. */
#define AGGREGATES "*%~>|"
#define STRINGS "$!="
#define TEXTS "+-,("
static bool is_one_of(char type, const char *types) { return type != '\0' && strchr(types, type); }

static void take(struct reader *reader, size_t bytes) {
    reader->direct += bytes;
    reader->direct_bytes -= bytes;
    reader->pending += bytes;
}

/* A whole number as servers write it; "-1" is one. */
static bool parse_number(const char *text, size_t bytes, int64_t *number) {
    bool negative = bytes > 0 && text[0] == '-';
    struct net_bytes digits = {text + negative, bytes - negative};
    uint64_t value;
    if (bytes > NUMBER_BYTES_MAX ||
        !net_read_number(digits, (uint64_t)INT64_MAX + negative, &value))
        return false;
    *number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* ---- pieces that are complete ---- */

/* Adds the piece's slot, with its bytes in the arena. */
static bool add(struct reader *reader, enum reply_type type, int64_t integer) {
    const struct resp3 *resp3 = &reader->resp3;
    size_t bytes = reader->arena_bytes - resp3->begin;
    if (!resp3->hidden) return reader_add_slot(reader, type, integer, bytes);
    reader->arena_bytes = resp3->begin;
    return true;
}

static enum reader_status why(const struct reader *reader) {
    return reader->oversized ? READER_OVERSIZED : READER_NO_MEMORY;
}

/* The piece is complete. It may be the last part of an aggregate, which is then complete too, and
 * so on; REPLY: of the whole reply. */
static enum reader_status end_piece(struct reader *reader, enum reply_type type, int64_t integer) {
    struct resp3 *resp3 = &reader->resp3;
    if (!add(reader, type, integer)) return why(reader);
    resp3->type = 0;
    while (resp3->depth > 0) {
        if (--resp3->level[resp3->depth - 1].left > 0) return READER_MORE;
        resp3->depth--;
        if (!resp3->level[resp3->depth].attribute) continue;
        if (resp3->hidden == resp3->depth + 1) resp3->hidden = 0;
        return READER_MORE; /* the value that the attribute is about follows */
    }
    return READER_REPLY;
}

static enum reader_status begin_aggregate(struct reader *reader, int64_t count) {
    struct resp3 *resp3 = &reader->resp3;
    char type = resp3->type;
    if (count == -1 && type == '*') return end_piece(reader, REPLY_NIL, 0);
    if (count < 0) return READER_MALFORMED;
    if ((uint64_t)count > READER_ELEMENTS_MAX) return READER_OVERSIZED;
    size_t pieces = (size_t)count * (type == '%' || type == '|' ? 2 : 1);
    if (pieces > READER_ELEMENTS_MAX) return READER_OVERSIZED;
    if (type == '>') {
        if (resp3->depth > 0 || pieces == 0) return READER_MALFORMED;
        resp3->push = true;
    }
    bool attribute = type == '|';
    if (pieces == 0 && !attribute) return end_piece(reader, REPLY_ARRAY, 0);
    if (!attribute && !add(reader, REPLY_ARRAY, (int64_t)pieces)) return why(reader);
    resp3->type = 0;
    if (pieces == 0) return READER_MORE;
    if (resp3->depth == RESP3_LEVELS) return READER_MALFORMED;
    resp3->level[resp3->depth].left = pieces;
    resp3->level[resp3->depth].attribute = attribute;
    resp3->depth++;
    if (attribute && !resp3->hidden) resp3->hidden = resp3->depth;
    return READER_MORE;
}

static enum reader_status begin_string(struct reader *reader, int64_t bytes) {
    struct resp3 *resp3 = &reader->resp3;
    if (bytes == -1 && resp3->type == '$') return end_piece(reader, REPLY_NIL, 0);
    if (bytes < (resp3->type == '=' ? FORMAT_BYTES : 0)) return READER_MALFORMED;
    if ((uint64_t)bytes > READER_REPLY_BYTES_MAX) return READER_OVERSIZED;
    resp3->in_payload = true;
    resp3->left = (size_t)bytes + 2;
    return READER_MORE;
}

/* ---- lines and payloads ---- */

static enum reader_status end_line(struct reader *reader) {
    struct resp3 *resp3 = &reader->resp3;
    const char *line = reader->arena + resp3->begin;
    size_t bytes = reader->arena_bytes - resp3->begin;
    int64_t number = 0;
    char type = resp3->type;
    if (is_one_of(type, TEXTS)) {
        enum reply_type other = type == '-' ? REPLY_ERROR : REPLY_STRING;
        return end_piece(reader, type == '+' ? REPLY_STATUS : other, 0);
    }
    bool right = type == '_'   ? bytes == 0
                 : type == '#' ? bytes == 1 && (line[0] == 't' || line[0] == 'f')
                               : parse_number(line, bytes, &number);
    if (!right) return READER_MALFORMED;
    if (type == '#') number = line[0] == 't';
    reader->arena_bytes = resp3->begin;
    if (is_one_of(type, AGGREGATES)) return begin_aggregate(reader, number);
    if (is_one_of(type, STRINGS)) return begin_string(reader, number);
    return end_piece(reader, type == '_' ? REPLY_NIL : REPLY_INTEGER, number);
}

static bool ends_the_line(const struct reader *reader) {
    const char *end = reader->arena + reader->arena_bytes;
    return reader->arena_bytes - reader->resp3.begin >= 2 && end[-2] == '\r' && end[-1] == '\n';
}

static enum reader_status read_line(struct reader *reader) {
    const char *end = memchr(reader->direct, '\n', reader->direct_bytes);
    size_t bytes = end ? (size_t)(end - reader->direct) + 1 : reader->direct_bytes;
    if (!reader_add_bytes(reader, reader->direct, bytes)) return READER_NO_MEMORY;
    take(reader, bytes);
    if (ends_the_line(reader)) {
        reader->arena_bytes -= 2;
        return end_line(reader);
    }
    bool number = !is_one_of(reader->resp3.type, TEXTS);
    bool too_long = number && reader->arena_bytes - reader->resp3.begin > NUMBER_BYTES_MAX + 2;
    return too_long ? READER_MALFORMED : READER_MORE;
}

static enum reader_status read_payload(struct reader *reader) {
    struct resp3 *resp3 = &reader->resp3;
    size_t bytes = resp3->left < reader->direct_bytes ? resp3->left : reader->direct_bytes;
    if (!reader_add_bytes(reader, reader->direct, bytes)) return READER_NO_MEMORY;
    take(reader, bytes);
    resp3->left -= bytes;
    if (resp3->left > 0) return READER_MORE;
    resp3->in_payload = false;
    if (!ends_the_line(reader)) return READER_MALFORMED;
    reader->arena_bytes -= 2;
    if (resp3->type == '=') {
        char *text = reader->arena + resp3->begin;
        reader->arena_bytes -= FORMAT_BYTES;
        memmove(text, text + FORMAT_BYTES, reader->arena_bytes - resp3->begin);
    }
    return end_piece(reader, resp3->type == '!' ? REPLY_ERROR : REPLY_STRING, 0);
}

enum reader_status resp3_next(struct reader *reader) {
    struct resp3 *resp3 = &reader->resp3;
    while (reader->direct_bytes > 0) {
        if (resp3->type == 0) {
            char type = *reader->direct;
            if (!is_one_of(type, AGGREGATES STRINGS TEXTS ":_#")) return READER_MALFORMED;
            if (reader->pending == 0) resp3->push = false;
            resp3->type = type;
            resp3->begin = reader->arena_bytes;
            take(reader, 1);
            continue;
        }
        enum reader_status status = resp3->in_payload ? read_payload(reader) : read_line(reader);
        bool too_much = reader->pending > READER_REPLY_BYTES_MAX + NUMBER_BYTES_MAX;
        if (status == READER_MORE && too_much) return READER_OVERSIZED;
        if (status == READER_MORE) continue;
        if (status != READER_REPLY) return status;
        reader->pending = 0;
        return resp3->push ? READER_PUSH : READER_REPLY;
    }
    return READER_MORE;
}
