/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The listening sockets: Unix sockets, TCP, and sockets that systemd passes. And the addresses of
 * TCP: HOST:PORT and [HOST]:PORT.
 */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_TEXT_BYTES 64

struct addrinfo;
struct gateway;
struct sockaddr;

/* Opens all sockets that the options name, and takes all that were passed. False after a message;
 * the caller still calls listen_close(). */
bool listen_open(struct gateway *gateway);
/* Writes the addresses as they are in use, separated by commas; returns `out`. */
char *listen_names(const struct gateway *gateway, char *out, size_t size);
/* Accepts no more connections. Removes the gateway's own Unix sockets from the file system. */
void listen_close(struct gateway *gateway);

/* Opens a socket that listens at the address, and logs its address after `what`. -1: errno holds
 * the reason. */
int listen_at(const struct gateway *gateway, const struct addrinfo *address, int backlog,
              bool is_v6_only, const char *what);

/* Returns NULL, or the reason for the failure; a text of another form is `malformed`. The caller
 * frees *found with freeaddrinfo(3). */
const char *address_find(const char *text, const char *malformed, struct addrinfo **found);
/* Writes the address as text for people; returns `out`. */
char *address_text(const struct sockaddr *address, char *out, size_t size);

#endif
