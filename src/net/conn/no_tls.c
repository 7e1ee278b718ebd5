/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In place of tls.c and openssl.c in a library without TLS (REDLOCK_TLS=off): a client that uses
 * TLS cannot be made, so these functions never get a session. */
#include "net/conn/tls.h"

#include <assert.h>
#include <stdio.h>

#include "redlock.h"

struct tls_context *tls_context_new(const struct net_options *options, struct net_error *error) {
    (void)options;
    error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(error->text, sizeof error->text,
             "this redlock is built without TLS; name the nodes by redis://, or build it with "
             "-DREDLOCK_TLS=loaded");
    return NULL;
}

struct tls_context *tls_context_again(const struct tls_context *context, struct net_error *error) {
    (void)context;
    return tls_context_new(NULL, error);
}

void tls_context_free(struct tls_context *context) { assert(!context), (void)context; }

struct tls *tls_new(struct tls_context *context, const char *host) {
    (void)context;
    (void)host;
    return NULL;
}

void tls_free(struct tls *tls) { assert(!tls), (void)tls; }

enum tls_status tls_handshake(struct tls *tls) { return (void)tls, TLS_FAILED; }

bool tls_feed(struct tls *tls, const char *cipher, size_t bytes) {
    (void)tls;
    (void)cipher;
    (void)bytes;
    return false;
}

enum tls_status tls_read(struct tls *tls, char *plain, size_t capacity, size_t *bytes) {
    (void)tls;
    (void)plain;
    (void)capacity;
    *bytes = 0;
    return TLS_FAILED;
}

enum tls_status tls_write(struct tls *tls, const char *plain, size_t bytes, size_t *written) {
    (void)tls;
    (void)plain;
    (void)bytes;
    *written = 0;
    return TLS_FAILED;
}

bool tls_drain(struct tls *tls, struct buffer *cipher, size_t limit) {
    (void)tls;
    (void)cipher;
    (void)limit;
    return false;
}

bool tls_is_refused(const struct tls *tls) { return (void)tls, true; }

void tls_failure(struct tls *tls, char *text, size_t bytes) {
    (void)tls;
    snprintf(text, bytes, "built without TLS");
}
