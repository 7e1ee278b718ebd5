/* SPDX-License-Identifier: BSD-2-Clause
 *
 * INFO is requested section by section: before version 7 it takes only one, and a whole INFO is
 * long. */
#include "net/codec/command.h"

#include <ctype.h>
#include <string.h>

enum { REPLID_BYTES = 40, NUMBER_BYTES = 21 };

void info_value(struct net_bytes info, const char *field, char *value, size_t capacity) {
    const struct net_bytes found = net_info_field(info, field);
    const char *from = found.data;
    size_t n = 0;
    for (; n < found.bytes && isgraph((unsigned char)from[n]) && n + 1 < capacity; n++)
        value[n] = from[n];
    value[n] = '\0';
}

static bool number_field(struct net_bytes info, const char *field, uint64_t max, uint64_t *number) {
    /* one byte more than is allowed, so that a number that is too long is not cut to another
     * number */
    char text[NUMBER_BYTES + 1];
    info_value(info, field, text, sizeof(text));
    return strlen(text) < NUMBER_BYTES &&
           net_read_number((struct net_bytes){text, strlen(text)}, max, number);
}

bool time_answer(const struct reader *reader, size_t slot, int64_t *wall_us) {
    *wall_us = net_time_us(reader->bytes[slot + 1], reader->bytes[slot + 2]);
    return *wall_us >= 0;
}

static bool take_replication(struct net_bytes info, struct net_state *state) {
    char role[8], replid[REPLID_BYTES + 2];
    uint64_t replicas;
    info_value(info, "role", role, sizeof(role));
    info_value(info, "master_replid", replid, sizeof(replid));
    state->replica = strcmp(role, "slave") == 0;
    if (!state->replica && strcmp(role, "master") != 0) return false;
    if (strspn(replid, "0123456789abcdefABCDEF") != REPLID_BYTES || replid[REPLID_BYTES] != '\0')
        return false;
    memcpy(state->replid, replid, sizeof(state->replid));
    if (!number_field(info, "connected_slaves", UINT32_MAX, &replicas)) return false;
    state->replicas = (uint32_t)replicas;
    return true;
}

bool state_answer(unsigned nth, const struct reader *reader, struct net_state *state, bool *sound) {
    struct net_bytes info = reader->bytes[0];
    char policy[32];
    *sound = false;
    if (nth == 0) {
        memset(state, 0, sizeof(*state));
        if (!reader_is_strings(reader, 0, 2) || reader->slots_count != 3) return false;
        *sound = time_answer(reader, 0, &state->wall_us);
        return true;
    }
    if (reader->slots[0].type != REPLY_STRING) return false;
    if (nth == 1) *sound = take_replication(info, state);
    if (nth == 2) {
        info_value(info, "maxmemory_policy", policy, sizeof(policy));
        state->may_evict = strcmp(policy, "noeviction") != 0;
        *sound = policy[0] != '\0';
    }
    if (nth == 3) *sound = number_field(info, "evicted_keys", UINT64_MAX, &state->evicted);
    if (nth == 4) {
        uint64_t clients = 0;
        *sound = true; /* without the field, this client asks as if it were alone */
        if (number_field(info, "tracking_clients", UINT32_MAX - 1, &clients))
            state->clients = (uint32_t)clients;
    }
    return true;
}
