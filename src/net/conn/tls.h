/* SPDX-License-Identifier: BSD-2-Clause
 *
 * TLS between two memory buffers. OpenSSL never sees the socket. So net itself does every write,
 * with MSG_NOSIGNAL, and the host program gets no SIGPIPE. */
#ifndef RL_NET_TLS_H
#define RL_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/codec/buffer.h"
#include "net/net.h"

struct tls_context;
struct tls;

/* Reads the files. NULL: *error is filled (BAD_ARGUMENT names the file, NO_MEMORY). */
struct tls_context *tls_context_new(const struct net_options *options, struct net_error *error);
/* The same files, read again. */
struct tls_context *tls_context_again(const struct tls_context *context, struct net_error *error);
void tls_context_free(struct tls_context *context); /* existing sessions continue */

/* A session with a server whose certificate must name `host` (or the context's server name). NULL:
 * no memory, or a name that OpenSSL cannot check. */
struct tls *tls_new(struct tls_context *context, const char *host);
void tls_free(struct tls *tls);

/* MORE: it needs more bytes by tls_feed(). CLOSED: the server ended the session. */
enum tls_status { TLS_OK, TLS_MORE, TLS_CLOSED, TLS_FAILED };

enum tls_status tls_handshake(struct tls *tls);
bool tls_feed(struct tls *tls, const char *cipher, size_t bytes); /* false: no memory */
enum tls_status tls_read(struct tls *tls, char *plain, size_t capacity, size_t *bytes);
enum tls_status tls_write(struct tls *tls, const char *plain, size_t bytes, size_t *written);
/* Moves the bytes that are to be sent into the buffer; false: no memory. */
bool tls_drain(struct tls *tls, struct buffer *cipher, size_t limit);
/* The last call failed for a cause that waiting does not cure. */
bool tls_is_refused(const struct tls *tls);
/* Why the last call failed. */
void tls_failure(struct tls *tls, char *text, size_t bytes);

#endif
