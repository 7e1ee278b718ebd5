/* SPDX-License-Identifier: BSD-2-Clause
 * What an error of a server means for us. */
#ifndef RL_NET_VERDICT_H
#define RL_NET_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

/* enum redlock_verdict for the text of an error reply, without the leading '-'. */
int verdict_of_error(const char *text, size_t bytes);
const char *
verdict_text(int verdict); /* as redlock_verdict_text() says it, which is of the client above us */
bool verdict_is_noscript(const char *text, size_t bytes);
bool verdict_is_unknown_command(const char *text, size_t bytes);

#endif
