/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a server's error means to the client: its verdict, and what the text names. */
#ifndef RL_NET_ERROR_REPLY_H
#define RL_NET_ERROR_REPLY_H

#include "net/net.h"

/* The enum redlock_verdict for the text of an error reply, without the leading '-'. */
int error_reply_verdict(struct net_bytes error);
/* Of an error that denies a command, the command; "": none is named. */
void error_reply_denied_command(struct net_bytes error, char *command, size_t size);
/* Of an error that says that the server does not know a command, the command; "": none is named. */
void error_reply_unknown_command(struct net_bytes error, char *command, size_t size);
bool error_reply_is_noscript(struct net_bytes error);
/* The server knows the command. */
bool error_reply_is_wrong_arity(struct net_bytes error);
/* Also in the words of proxies, and of servers that are not for all commands. */
bool error_reply_is_unknown_command(struct net_bytes error);
/* Valkey 9.1 and later: the user is confined to other databases. It comes before other denials. */
bool error_reply_is_database_denied(struct net_bytes error);
/* Valkey 9.1 and later without its module `lua`. */
bool error_reply_is_lua_missing(struct net_bytes error);
/* How many bytes of an error may be shown, at most `most`: the arguments that an "unknown command"
 * error repeats may hold a secret. */
int error_reply_shown_bytes(struct net_bytes error, int most);

#endif
