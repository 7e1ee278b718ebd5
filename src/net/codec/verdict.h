/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The meaning of a server's error for the client. */
#ifndef RL_NET_VERDICT_H
#define RL_NET_VERDICT_H

#include "net/net.h"

/* The enum redlock_verdict for the text of an error reply, without the leading '-'. */
int verdict_of_error(struct net_bytes error);
/* Of an error that denies a command, the command; "": none is named. */
void verdict_denied_command(struct net_bytes error, char *command, size_t size);
/* Of an error that says that the server does not know a command, the command; "": none is named. */
void verdict_unknown_command(struct net_bytes error, char *command, size_t size);
bool verdict_is_noscript(struct net_bytes error);
/* Also in the words of proxies, and of servers that are not for all commands. */
bool verdict_is_unknown_command(struct net_bytes error);
/* Valkey 9.1 and later without its module `lua`. */
bool verdict_is_lua_missing(struct net_bytes error);
/* How many bytes of an error may be shown, at most `most`: the arguments that an "unknown command"
 * error repeats may hold a secret. */
int verdict_shown_bytes(struct net_bytes error, int most);

#endif
