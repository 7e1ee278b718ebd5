/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The meaning of a server's error for the client. */
#ifndef RL_NET_VERDICT_H
#define RL_NET_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

/* The enum redlock_verdict for the text of an error reply, without the leading '-'. */
int verdict_of_error(const char *text, size_t bytes);
/* the text of redlock_verdict_text(), which belongs to the client layer */
const char *verdict_text(int verdict);
bool verdict_is_noscript(const char *text, size_t bytes);
bool verdict_is_unknown_command(const char *text, size_t bytes);

#endif
