/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The list of nodes as the user writes it. */
#ifndef RL_NET_URL_H
#define RL_NET_URL_H

#include "net/net.h"

enum url_kind { URL_TCP = 0, URL_TLS, URL_UNIX };

struct url {
    enum url_kind kind;
    char *text;     /* for display: as configured, without the password */
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *host;     /* lower case, with an IPv6 address's zone behind '%'; NULL for unix */
    char *path;     /* unix only */
    char port[6];
    char db[10]; /* "" and "0": the default, no SELECT */
    /* enum redlock_scheme; a URL with another scheme than SET must be the only one in its list */
    unsigned char scheme;
};

/* Fills urls[0..*count-1]. On failure it fills *error (BAD_ARGUMENT or NO_MEMORY; the text never
 * has a password), frees everything, and returns error->result. */
int urls_parse(const char *list, struct url urls[RL_NODES_MAX], unsigned *count,
               struct net_error *error);
void url_free(struct url *url);

#endif
