/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node's record as the text fields of its hash, there and back. Numbers are decimal; ids, nonces
 * and losses have 16 hex digits. What others wrote is read strictly: a record that is not wholly
 * understood is none.
 */
#ifndef RL_CLIENT_RECORD_H
#define RL_CLIENT_RECORD_H

#include "core/guard.h"
#include "net/net.h"

#define RECORD_FIELDS 18
/* A member's line is at most 16 + 10 + 40 + 255 bytes and four separators; all else together is
 * below 1280. */
#define RECORD_TEXT_BYTES (RL_MEMBERS_MAX * 325 + 1280)

struct record_text {
    struct net_bytes fields[2 * RECORD_FIELDS]; /* field and value in turn */
    size_t fields_count;
    size_t used;
    char text[RECORD_TEXT_BYTES];
};

void record_write(struct record_text *to, const struct rl_record *record);
/* False: something is missing or malformed, or the format is newer than ours; then what is in *to
 * means nothing. Fields that we do not know are passed over. */
bool record_read(struct rl_record *to, const struct net_bytes *fields, size_t fields_count);

#endif
