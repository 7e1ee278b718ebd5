/* SPDX-License-Identifier: BSD-2-Clause
 *
 * OpenSSL between two memory BIOs. Its error queue belongs to the thread, and the host program may
 * use it too: it is cleared before each call that may add to it, and after each failure. */
#include "net/conn/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn/openssl.h"
#include "redlock.h"

struct tls_context {
    SSL_CTX *openssl;
    char *ca_file, *cert_file, *key_file, *server_name; /* NULL: not given */
};

struct tls {
    SSL *openssl;
    BIO *incoming, *outgoing; /* owned by openssl */
    unsigned long error;
};

static const char *reason_of(unsigned long code) {
    const char *reason = code ? libssl.ERR_reason_error_string(code) : NULL;
    return reason ? reason : "unknown error";
}

/* Whether the file can be read. OpenSSL's own message does not say why it cannot. */
static bool readable(const char *what, const char *path, struct net_error *error) {
    char byte;
    FILE *file = fopen(path, "re");
    bool good = file && (fread(&byte, 1, 1, file) == 1 || !ferror(file));
    int why = errno;
    if (file) fclose(file);
    if (good) return true;
    error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(error->text, sizeof(error->text), "cannot read the TLS %s file %.300s: %s", what, path,
             strerror(why));
    return false;
}

static bool refuse_file(const char *what, const char *path, struct net_error *error) {
    error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(error->text, sizeof(error->text),
             "the TLS %s file %.300s cannot be used (PEM is expected): %s", what, path,
             reason_of(libssl.ERR_peek_last_error()));
    return false;
}

/* An encrypted key would make OpenSSL ask for its password on the terminal. */
static int no_password(char *buf, int size, int rwflag, void *context) {
    (void)buf, (void)size, (void)rwflag, (void)context;
    return -1;
}

/* The CAs that are trusted, and our own certificate with its key. */
static bool load_files(SSL_CTX *openssl, const struct net_options *options,
                       struct net_error *error) {
    const char *ca = options->tls_ca_file;
    const char *cert = options->tls_cert_file, *key = options->tls_key_file;
    if (!ca)
        libssl.SSL_CTX_set_default_verify_paths(openssl);
    else if (!readable("CA", ca, error))
        return false;
    else if (libssl.SSL_CTX_load_verify_locations(openssl, ca, NULL) != 1)
        return refuse_file("CA", ca, error);
    if (!cert && !key) return true;
    if (!cert || !key) {
        error->result = REDLOCK_BAD_ARGUMENT;
        snprintf(error->text, sizeof(error->text),
                 "a TLS client certificate needs both files: the %s is missing",
                 cert ? "key" : "certificate");
        return false;
    }
    if (!readable("certificate", cert, error) || !readable("key", key, error)) return false;
    if (libssl.SSL_CTX_use_certificate_chain_file(openssl, cert) != 1)
        return refuse_file("certificate", cert, error);
    if (libssl.SSL_CTX_use_PrivateKey_file(openssl, key, SSL_FILETYPE_PEM) != 1)
        return refuse_file("key", key, error);
    return libssl.SSL_CTX_check_private_key(openssl) == 1 || refuse_file("key", key, error);
}

static bool copy_text(char **to, const char *from) { return !from || (*to = strdup(from)); }

struct tls_context *tls_context_new(const struct net_options *options, struct net_error *error) {
    if (!openssl_load(error)) return NULL;
    struct tls_context *context = calloc(1, sizeof(*context));
    SSL_CTX *openssl = libssl.SSL_CTX_new(libssl.TLS_client_method());
    if (context) context->openssl = openssl;
    if (!context || !openssl || !copy_text(&context->ca_file, options->tls_ca_file) ||
        !copy_text(&context->cert_file, options->tls_cert_file) ||
        !copy_text(&context->key_file, options->tls_key_file) ||
        !copy_text(&context->server_name, options->tls_server_name)) {
        error->result = REDLOCK_NO_MEMORY;
        snprintf(error->text, sizeof(error->text), "out of memory while preparing TLS");
        if (!context) libssl.SSL_CTX_free(openssl);
    } else {
        libssl.SSL_CTX_ctrl(openssl, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        libssl.SSL_CTX_set_verify(openssl, SSL_VERIFY_PEER, NULL);
        libssl.SSL_CTX_ctrl(openssl, SSL_CTRL_MODE,
                            SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                            NULL);
        libssl.SSL_CTX_set_default_passwd_cb(openssl, no_password);
        libssl.ERR_clear_error();
        if (load_files(openssl, options, error)) return context;
    }
    libssl.ERR_clear_error();
    tls_context_free(context);
    return NULL;
}

struct tls_context *tls_context_again(const struct tls_context *context, struct net_error *error) {
    const struct net_options options = {.tls_ca_file = context->ca_file,
                                        .tls_cert_file = context->cert_file,
                                        .tls_key_file = context->key_file,
                                        .tls_server_name = context->server_name};
    return tls_context_new(&options, error);
}

void tls_context_free(struct tls_context *context) {
    if (!context) return;
    libssl.SSL_CTX_free(context->openssl);
    free(context->ca_file);
    free(context->cert_file);
    free(context->key_file);
    free(context->server_name);
    free(context);
}

static bool expect_name(SSL *openssl, const char *name) {
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return libssl.X509_VERIFY_PARAM_set1_ip_asc(libssl.SSL_get0_param(openssl), name) == 1;
    return libssl.SSL_set1_host(openssl, name) == 1 &&
           libssl.SSL_ctrl(openssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                           (void *)name) == 1;
}

/* Without the zone of an IPv6 address (RFC 6874) and the final dot of a full name (RFC 6066), which
 * are not parts of a name in a certificate. */
static bool expect_host(SSL *openssl, const char *host) {
    char name[256];
    size_t bytes = strcspn(host, "%");
    if (!memchr(host, ':', bytes)) bytes = strlen(host);
    if (bytes > 1 && host[bytes - 1] == '.') bytes--;
    if (host[bytes] == '\0' || bytes >= sizeof(name)) return expect_name(openssl, host);
    snprintf(name, sizeof(name), "%.*s", (int)bytes, host);
    return expect_name(openssl, name);
}

struct tls *tls_new(struct tls_context *context, const char *host) {
    struct tls *tls = calloc(1, sizeof(*tls));
    if (!tls) return NULL;
    tls->openssl = libssl.SSL_new(context->openssl);
    tls->incoming = libssl.BIO_new(libssl.BIO_s_mem());
    tls->outgoing = libssl.BIO_new(libssl.BIO_s_mem());
    if (tls->openssl && tls->incoming && tls->outgoing) {
        /* which owns them from now on */
        libssl.SSL_set_bio(tls->openssl, tls->incoming, tls->outgoing);
        libssl.SSL_set_connect_state(tls->openssl);
        if (context->server_name ? expect_name(tls->openssl, context->server_name)
                                 : expect_host(tls->openssl, host))
            return tls;
    } else {
        libssl.BIO_free(tls->incoming);
        libssl.BIO_free(tls->outgoing);
    }
    tls_free(tls);
    libssl.ERR_clear_error();
    return NULL;
}

void tls_free(struct tls *tls) {
    if (!tls) return;
    libssl.SSL_free(tls->openssl);
    free(tls);
}

/* The status after a call of OpenSSL's that returned `outcome`. */
static enum tls_status status_of(struct tls *tls, int outcome) {
    if (outcome > 0) return TLS_OK;
    switch (libssl.SSL_get_error(tls->openssl, outcome)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN: return TLS_CLOSED;
    default: break;
    }
    tls->error = libssl.ERR_peek_last_error();
    libssl.ERR_clear_error();
    return TLS_FAILED;
}

enum tls_status tls_handshake(struct tls *tls) {
    libssl.ERR_clear_error();
    return status_of(tls, libssl.SSL_do_handshake(tls->openssl));
}

bool tls_feed(struct tls *tls, const char *cipher, size_t bytes) {
    if (libssl.BIO_write(tls->incoming, cipher, (int)bytes) == (int)bytes) return true;
    libssl.ERR_clear_error();
    return false;
}

enum tls_status tls_read(struct tls *tls, char *plain, size_t capacity, size_t *bytes) {
    libssl.ERR_clear_error();
    return status_of(tls, libssl.SSL_read_ex(tls->openssl, plain, capacity, bytes));
}

enum tls_status tls_write(struct tls *tls, const char *plain, size_t bytes, size_t *written) {
    libssl.ERR_clear_error();
    return status_of(tls, libssl.SSL_write_ex(tls->openssl, plain, bytes, written));
}

bool tls_drain(struct tls *tls, struct buffer *cipher, size_t limit) {
    char *data;
    long bytes = libssl.BIO_ctrl(tls->outgoing, BIO_CTRL_INFO, 0, &data);
    if (bytes <= 0) return true;
    if (!buffer_append(cipher, data, (size_t)bytes, limit)) return false;
    libssl.BIO_ctrl(tls->outgoing, BIO_CTRL_RESET, 0, NULL);
    return true;
}

/* What the two sides do not agree on, which another try meets again: a certificate, a protocol, a
 * cipher. Every other failure may come from bytes that were damaged on their way. */
bool tls_is_refused(const struct tls *tls) {
    if (ERR_GET_LIB(tls->error) != ERR_LIB_SSL) return false;
    switch (ERR_GET_REASON(tls->error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: /* also of a wrong host name */
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_NO_CIPHERS_AVAILABLE:
    case SSL_R_EE_KEY_TOO_SMALL:
    case SSL_R_DH_KEY_TOO_SMALL:
    case SSL_R_UNSAFE_LEGACY_RENEGOTIATION_DISABLED:
    case SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_REASON_OFFSET + SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA:
    case SSL_AD_REASON_OFFSET + SSL_AD_ACCESS_DENIED:
    case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_REASON_OFFSET + SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNRECOGNIZED_NAME:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REQUIRED: return true;
    default: return false;
    }
}

void tls_failure(struct tls *tls, char *text, size_t bytes) {
    long verification = libssl.SSL_get_verify_result(tls->openssl);
    if (verification != X509_V_OK)
        snprintf(text, bytes, "the server's certificate was refused: %s",
                 libssl.X509_verify_cert_error_string(verification));
    else
        snprintf(text, bytes, "TLS failed: %s", reason_of(tls->error));
}
