/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Converts a node's record to and from the text fields of its hash. Numbers are decimal; ids,
 * nonces and losses have 16 hex digits. Reading is strict: a record with any part that is not
 * understood is refused. */
#ifndef RL_CLIENT_RECORD_H
#define RL_CLIENT_RECORD_H

#include "core/guard.h"
#include "net/net.h"

#define RECORD_FIELDS 19
/* A member's line has at most 16 + 10 + 40 + 255 bytes and four separators; the rest together is
 * below 1280 bytes. */
#define RECORD_TEXT_BYTES (RL_MEMBERS_MAX * 325 + 1280)

struct record_text {
    struct net_bytes fields[2 * RECORD_FIELDS]; /* field and value in turn */
    size_t fields_count;
    size_t used;
    char text[RECORD_TEXT_BYTES];
};

void record_write(struct record_text *to, const struct rl_record *record);
/* False: something is missing or malformed, or the format is newer than ours; *to is then
 * undefined. Unknown fields are ignored. */
bool record_read(struct rl_record *to, const struct net_bytes *fields, size_t fields_count);
/* Of fields that record_read() refused: why, and the cure. No fields: the key holds no hash. */
const char *record_fault(const struct net_bytes *fields, size_t fields_count);

/* The part of a URL that says which server and database it is: without the user, who differs
 * between operators and clients, and without database 0. Cut to what a record keeps. In place is
 * fine. */
void record_place(char place[RL_URL_BYTES], const char *url);

#endif
