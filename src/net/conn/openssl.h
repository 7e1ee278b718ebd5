/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The functions of OpenSSL that tls.c calls. The dynamic loader takes longer for libssl and
 * libcrypto than for all else that a program of ours needs, so they are loaded with the first
 * context (REDLOCK_TLS=loaded). A program without a dynamic loader links them (linked). */
#ifndef RL_NET_OPENSSL_H
#define RL_NET_OPENSSL_H

#include <stdbool.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net/net.h"

/* A macro of OpenSSL's headers that calls a function does not find it here: tls.c calls SSL_ctrl()
 * and its like itself. */
#define OPENSSL_FUNCTIONS(X)                                                                       \
    X(BIO_ctrl)                                                                                    \
    X(BIO_free)                                                                                    \
    X(BIO_new)                                                                                     \
    X(BIO_s_mem)                                                                                   \
    X(BIO_write)                                                                                   \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_load_verify_locations)                                                               \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_ctrl)                                                                                    \
    X(SSL_do_handshake)                                                                            \
    X(SSL_free)                                                                                    \
    X(SSL_get0_param)                                                                              \
    X(SSL_get_error)                                                                               \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_new)                                                                                     \
    X(SSL_read_ex)                                                                                 \
    X(SSL_set1_host)                                                                               \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_write_ex)                                                                                \
    X(TLS_client_method)                                                                           \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_verify_cert_error_string)

#define OPENSSL_MEMBER(name) __typeof__(name) *name; /* NOLINT(bugprone-macro-parentheses) */
extern struct libssl { OPENSSL_FUNCTIONS(OPENSSL_MEMBER) } libssl;

/* Before any of them is called; any thread may call it, and again. False: *error is filled
 * (BAD_ARGUMENT with the cure, NO_MEMORY), and a later call may succeed. */
bool openssl_load(struct net_error *error);

#endif
