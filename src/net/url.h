/* SPDX-License-Identifier: BSD-2-Clause
 * The list of nodes as the user writes it. */
#ifndef RL_NET_URL_H
#define RL_NET_URL_H

#include "net/net.h"

enum url_kind { URL_TCP = 0, URL_TLS, URL_UNIX };

struct url {
    enum url_kind kind;
    char *text;     /* to show: as configured, without the password */
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *host;     /* lower case; NULL for unix */
    char *path;     /* unix only */
    char port[6];
    char db[10];          /* "" and "0": the default, no SELECT */
    unsigned char scheme; /* enum redlock_scheme; one that is not SET stands alone in its list */
};

/* Fills urls[0..*count-1]. Else fills the error (BAD_ARGUMENT or NO_MEMORY; never with a password
 * in the text), has freed everything, and returns error->result. */
int urls_parse(const char *list, struct url urls[RL_NODES_MAX], unsigned *count,
               struct net_error *error);
void url_free(struct url *url);

#endif
