/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A program that contains an OpenSSL of another version and exports it, as Node.js does: none of
 * these functions may be called by the libssl that we load. */
#include <stdlib.h>

#define OTHER(name)                                                                                \
    __attribute__((visibility("default"))) void name(void);                                        \
    void name(void) { abort(); }

OTHER(SSL_CTX_new)
OTHER(SSL_new)
OTHER(BIO_new)
OTHER(BIO_ctrl)
OTHER(CRYPTO_malloc)
OTHER(CRYPTO_zalloc)
OTHER(CRYPTO_free)
OTHER(ERR_clear_error)
OTHER(ERR_put_error)
OTHER(EVP_MD_CTX_new)
OTHER(OPENSSL_init_crypto)
OTHER(X509_free)
