/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a native node reports of itself. It is a server with the module `redlock`: locks, record and
 * fences are in the module, outside the keyspace, and end by CLOCK_BOOTTIME. */
#include <ctype.h>
#include <string.h>

#include "net/codec/command.h"

enum { INCARNATION_BYTES = 40, STATE_PARTS = 3 };

static bool is_text(const struct reply_slot *slot) {
    return slot->type == REPLY_STRING || slot->type == REPLY_STATUS;
}

/* Servers send a number as an integer or as text. */
static bool number_at(const struct reader *reader, size_t slot, uint64_t most, uint64_t *number) {
    const struct reply_slot *at = &reader->slots[slot];
    if (is_text(at)) return net_read_number(reader->bytes[slot], most, number);
    *number = (uint64_t)at->integer;
    return at->type == REPLY_INTEGER && at->integer >= 0 && *number <= most;
}

static bool read_incarnation(struct net_bytes text, char incarnation[INCARNATION_BYTES + 1]) {
    if (text.bytes != INCARNATION_BYTES) return false;
    memcpy(incarnation, text.data, INCARNATION_BYTES);
    incarnation[INCARNATION_BYTES] = '\0';
    return strspn(incarnation, "0123456789abcdef") == INCARNATION_BYTES;
}

void copy_shown(char *to, size_t size, struct net_bytes text) {
    size_t bytes = text.bytes < size - 1 ? text.bytes : size - 1;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = ((const unsigned char *)text.data)[i];
        to[i] = isgraph(c) ? (char)c : '?';
    }
    to[bytes] = '\0';
}

bool native_hello_answer(const struct reader *reader, struct native_hello *hello) {
    const struct reply_slot *slots = reader->slots;
    uint64_t protocol = 0, mirror = 0, shared = 0, slots_known = 0;
    memset(hello, 0, sizeof(*hello));
    /* a map whose values are not arrays */
    bool right = slots[0].type == REPLY_ARRAY && slots[0].integer % 2 == 0 &&
                 reader->slots_count == 1 + (size_t)slots[0].integer;
    for (size_t i = 1; right && i < reader->slots_count; i += 2) {
        const struct net_bytes name = reader->bytes[i], value = reader->bytes[i + 1];
        const bool text = is_text(&slots[i + 1]);
        if (!is_text(&slots[i])) return false;
        if (net_is_text(name, "protocol"))
            right = number_at(reader, i + 1, INT64_MAX, &protocol);
        else if (net_is_text(name, "mirror"))
            right = number_at(reader, i + 1, 1, &mirror);
        else if (net_is_text(name, "shared"))
            right = number_at(reader, i + 1, INT64_MAX, &shared);
        else if (net_is_text(name, "slots"))
            right = number_at(reader, i + 1, INT64_MAX, &slots_known);
        else if (net_is_text(name, "incarnation"))
            right = text && read_incarnation(value, hello->incarnation);
        else if (net_is_text(name, "version") && text)
            copy_shown(hello->version, sizeof(hello->version), value);
        else if (net_is_text(name, "quorum") && text)
            copy_shown(hello->quorum, sizeof(hello->quorum), value);
    }
    hello->mirror = mirror == 1;
    hello->shared = shared > 0;
    hello->slots = slots_known > 0;
    return right && protocol == NATIVE_PROTOCOL && hello->incarnation[0] != '\0';
}

/* [microseconds of its CLOCK_BOOTTIME, role, replicas, incarnation]. The incarnation covers a
 * module that was unloaded and loaded again under this connection. A module may leave it out. */
bool native_state_answer(const struct reader *reader, const char *incarnation,
                         struct net_state *state, bool *sound) {
    const struct reply_slot *slots = reader->slots;
    char now[INCARNATION_BYTES + 1];
    uint64_t clock, replicas;
    *sound = false;
    memset(state, 0, sizeof(*state));
    if (slots[0].type != REPLY_ARRAY || slots[0].integer < STATE_PARTS ||
        reader->slots_count != 1 + (size_t)slots[0].integer || !is_text(&slots[2]))
        return false;
    if (slots[0].integer > STATE_PARTS &&
        !(is_text(&slots[4]) && read_incarnation(reader->bytes[4], now) &&
          strcmp(now, incarnation) == 0))
        return false;
    bool master = net_is_text(reader->bytes[2], "master");
    state->replica = net_is_text(reader->bytes[2], "replica");
    if (!master && !state->replica) return true;
    if (!number_at(reader, 1, INT64_MAX, &clock) || !number_at(reader, 3, UINT32_MAX, &replicas))
        return true;
    state->wall_us = (int64_t)clock;
    state->replicas = (uint32_t)replicas;
    memcpy(state->replid, incarnation, INCARNATION_BYTES + 1);
    *sound = true;
    return true;
}
