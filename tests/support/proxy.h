/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A TCP proxy in front of one server, in a thread of its own: it makes answers late, keeps them to
 * itself, damages them or cuts the connections. Requests pass, so a server may do what its client
 * never learns, except on connections that the proxy forgets.
 */
#ifndef TESTS_PROXY_H
#define TESTS_PROXY_H

struct proxy; /* opaque: it is shared with its thread */

/* In front of 127.0.0.1:port. Ends the test with a message when it cannot. */
struct proxy *proxy_start(int port);
void proxy_stop(struct proxy *proxy);
int proxy_port(const struct proxy *proxy);

/* What the server says from now on passes `ms` later. */
void proxy_delay(struct proxy *proxy, long ms);
/* What the server says from now on is dropped. A stream with a hole is of no use: cut before
 * letting answers pass again. */
void proxy_swallow(struct proxy *proxy, int on);
/* Of what the server says from now on, one bit is wrong. */
void proxy_damage(struct proxy *proxy, int on);
/* Ends all connections there are; new ones are welcome. */
void proxy_cut(struct proxy *proxy);
/* Nothing passes any more on the connections there are, in both directions, and none of them ends;
 * new ones are welcome. As when a firewall forgets its connections. */
void proxy_forget(struct proxy *proxy);

#endif
