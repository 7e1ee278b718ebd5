/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The client's descriptors without the kernel: sockets, the epoll set, eventfd and timerfd are
 * entries of a table. A real socket costs ten times as much as what the client does with it.
 *
 * The linker's --wrap sends the client's calls here. Other descriptors are passed on to the system.
 * As in the kernel, both ends of a connection are closed on their own, a small buffer makes the
 * client's writes partial, and an end that hangs up before it has read everything resets the
 * connection. No timer ever fires: time moves in play.c.
 */
#ifndef FUZZ_SOCKETS_H
#define FUZZ_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>

/* Forgets all descriptors. False: the client left some open. */
bool sockets_reset(void);
/* The events that are ready, as epoll_wait() with a timeout of 0. */
int sockets_ready(struct epoll_event *events, int most);

/* The server's end of the client's socket `fd`. Each connection that is accepted is hung up once.
 */
void socket_accept(int fd);
/* Takes what the client wrote, at most `room` bytes. -1: the client has closed its end. */
long socket_hear(int fd, char *to, size_t room);
/* False: the client reads too slowly, or has closed its end. */
bool socket_say(int fd, const char *bytes, size_t count);
void socket_hang_up(int fd);

#endif
