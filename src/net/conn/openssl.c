/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/conn/openssl.h"

#ifndef REDLOCK_LIBSSL /* the soname; without it, OpenSSL is linked */

#define LINKED(name) .name = (name),
struct libssl libssl = {OPENSSL_FUNCTIONS(LINKED)};

bool openssl_load(struct net_error *error) {
    (void)error;
    return true;
}

#else

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "redlock.h"

#define CURE "install OpenSSL (the package libssl3, openssl-libs or libopenssl3)"
#define PLACE(name) {#name, offsetof(struct libssl, name)},
static const struct {
    const char *name;
    size_t place;
} functions[] = {OPENSSL_FUNCTIONS(PLACE)};

struct libssl libssl;
static _Atomic(void *) opened;
static const char *missing;

/* It is never closed: OpenSSL runs a handler at exit, and one at the end of each thread.
 *
 * A program that contains an OpenSSL and exports it, as Node.js does, must not lend our libssl half
 * of its functions: with RTLD_DEEPBIND libssl prefers its own libcrypto. Only then, because a
 * sanitizer refuses that flag, and because libssl would not see a malloc() of the program's. */
static void *open_library(void) {
    void *library = dlopen(REDLOCK_LIBSSL, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library) return library;
    const int apart = dlsym(RTLD_DEFAULT, "SSL_CTX_new") ? RTLD_DEEPBIND : 0;
    errno = 0;
    return dlopen(REDLOCK_LIBSSL, RTLD_NOW | RTLD_LOCAL | apart);
}

static void find_functions(void) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(opened, functions[i].name);
        if (!function) missing = functions[i].name;
        memcpy((char *)&libssl + functions[i].place, &function, sizeof function);
    }
}

bool openssl_load(struct net_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *library = open_library();
    if (!library) {
        const bool memory = errno == ENOMEM;
        const char *cause = dlerror();
        error->result = memory ? REDLOCK_NO_MEMORY : REDLOCK_BAD_ARGUMENT;
        snprintf(error->text, sizeof error->text, "cannot load OpenSSL for TLS: %.300s; " CURE,
                 cause ? cause : "unknown error");
        return false;
    }
    opened = library;
    pthread_once(&once, find_functions);
    if (!missing) return true;
    error->result = REDLOCK_BAD_ARGUMENT;
    snprintf(error->text, sizeof error->text,
             "cannot use " REDLOCK_LIBSSL " for TLS: it has no %s(), and is older than the OpenSSL "
             "that redlock was built with; " CURE " of at least that version",
             missing);
    return false;
}

#endif
