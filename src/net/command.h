/* SPDX-License-Identifier: BSD-2-Clause
 * Requests as commands, and replies as answers. */
#ifndef RL_NET_COMMAND_H
#define RL_NET_COMMAND_H

#include "net/buffer.h"
#include "net/net.h"
#include "net/reader.h"

enum { COMMAND_WORDS_MAX = 80 };

struct words {
    int count;
    const char *word[COMMAND_WORDS_MAX];
    size_t bytes[COMMAND_WORDS_MAX];
    char number[4][24];
    unsigned numbers;
};

void words_begin(struct words *words, const char *command);
void words_text(struct words *words, const char *text);
void words_bytes(struct words *words, struct net_bytes bytes);
void words_number(struct words *words, uint64_t number);
/* Formats the command behind what is in the buffer; false: no memory or above `limit`. */
bool words_end(const struct words *words, struct buffer *out, size_t limit);

/* The request as one or more commands. Scripts go as EVALSHA, or with `whole_script` as EVAL. */
bool command_encode(const struct net_request *request, bool whole_script, struct buffer *out, size_t limit);
bool command_is_write(const struct net_request *request);
/* It needs a script, or where that is refused a transaction. */
bool command_needs_script(const struct net_request *request);
unsigned command_replies(const struct net_request *request); /* how many replies answer it */
/* Adds reply `nth` to the answer. False: not a reply to this request; the connection cannot be trusted. */
bool command_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                    struct net_reply *answer);

#endif
