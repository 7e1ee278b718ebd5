/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The addresses of TCP: HOST:PORT and [HOST]:PORT.
 */
#ifndef WEB_ADDRESS_H
#define WEB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_TEXT_BYTES 64

struct addrinfo;
struct sockaddr;

/* Returns NULL, or the reason for the failure; a text of another form is `malformed`. The caller
 * frees *found with freeaddrinfo(3). */
const char *address_find(const char *text, const char *malformed, struct addrinfo **found);
/* Writes the address as text for people; returns `out`. */
char *address_text(const struct sockaddr *address, char *out, size_t size);
/* Writes the address of a socket; returns `out`. */
char *address_of(int fd, char *out, size_t size);
/* Only processes of this machine can reach it. */
bool address_is_loopback(const struct sockaddr *address);
/* [::], on a kernel without IPv6 none. */
bool address_is_all_v6(const struct sockaddr *address);
/* Opens a socket that listens at the address. -1: errno holds the reason. */
int address_listen(const struct addrinfo *address, int backlog, bool is_v6_only);
/* For that reason: the address is in use, or this machine does not have it yet. */
bool address_is_taken(int error);

#endif
