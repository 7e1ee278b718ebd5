/* SPDX-License-Identifier: BSD-2-Clause
 *
 * HOST:PORT, [HOST]:PORT.
 */
#ifndef SERVE_ADDRESS_H
#define SERVE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_TEXT_BYTES 64

struct addrinfo;
struct sockaddr;

struct address {
    char host[256], port[8];
};

bool address_read(const char *text, struct address *address);
/* NULL, or why not. What was found is freed by freeaddrinfo(3). */
const char *address_find(const struct address *address, struct addrinfo **found);
bool address_is_loopback(const struct sockaddr *address);
/* For people; returns `out`. */
char *address_text(const struct sockaddr *address, char *out, size_t size);

#endif
