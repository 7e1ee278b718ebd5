/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads the addresses of options: HOST:PORT and [HOST]:PORT.
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
/* Returns NULL, or the reason for the failure. The caller frees *found with freeaddrinfo(3). */
const char *address_find(const struct address *address, struct addrinfo **found);
bool address_is_loopback(const struct sockaddr *address);
/* Writes the address as text for people; returns `out`. */
char *address_text(const struct sockaddr *address, char *out, size_t size);

#endif
