/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_name.h"

#include <assert.h>

#include <openssl/evp.h>

bool script_name(struct bytes text, char sha[SCRIPT_SHA_BYTES + 1]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    if (EVP_Digest(text.data, text.bytes, digest, &bytes, EVP_sha1(), NULL) != 1) return false;
    assert(bytes * 2 == SCRIPT_SHA_BYTES);
    for (unsigned i = 0; i < bytes; i++) {
        sha[2 * i] = digits[digest[i] >> 4];
        sha[2 * i + 1] = digits[digest[i] & 15];
    }
    sha[SCRIPT_SHA_BYTES] = '\0';
    return true;
}
