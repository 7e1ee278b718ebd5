/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The linker's --wrap sends every call that an object of this program makes to one of these
 * functions here (the list is in CMakeLists.txt). It does not reach into shared libraries, so each
 * function of theirs that allocates and that the library calls is wrapped as a whole: it fails as
 * it would if its own allocation failed.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <uriparser/Uri.h>

#include "failing_count.h"

bool failing_live_is_exact(void) { return true; }

#define WRAPPED(type, name, ...)                                                                   \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

WRAPPED(void *, malloc, size_t bytes) {
    return fails() ? no_memory() : counted(__real_malloc(bytes));
}
WRAPPED(void *, calloc, size_t count, size_t bytes) {
    return fails() ? no_memory() : counted(__real_calloc(count, bytes));
}
WRAPPED(char *, strdup, const char *text) {
    return fails() ? no_memory() : counted(__real_strdup(text));
}
WRAPPED(char *, strndup, const char *text, size_t bytes) {
    return fails() ? no_memory() : counted(__real_strndup(text, bytes));
}

WRAPPED(void *, realloc, void *block, size_t bytes) {
    if (fails()) return no_memory();
    void *moved = __real_realloc(block, bytes);
    return block ? moved : counted(moved);
}

WRAPPED(void, free, void *block) {
    if (block) atomic_fetch_sub(&live, 1);
    __real_free(block);
}

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...) {
    if (fails()) return -1;
    va_list args;
    va_start(args, format);
    int bytes = vasprintf(text, format, args);
    va_end(args);
    if (bytes >= 0) counted(*text);
    return bytes;
}

WRAPPED(redisReader *, redisReaderCreateWithFunctions, redisReplyObjectFunctions *functions) {
    return fails() ? NULL : counted(__real_redisReaderCreateWithFunctions(functions));
}

WRAPPED(void, redisReaderFree, redisReader *reader) {
    if (reader) atomic_fetch_sub(&live, 1);
    __real_redisReaderFree(reader);
}

/* As hiredis does it: the reader is unusable from then on. */
WRAPPED(int, redisReaderFeed, redisReader *reader, const char *data, size_t bytes) {
    if (!fails()) return __real_redisReaderFeed(reader, data, bytes);
    reader->err = REDIS_ERR_OOM;
    return REDIS_ERR;
}

WRAPPED(int, redisReaderGetReply, redisReader *reader, void **reply) {
    if (!fails()) return __real_redisReaderGetReply(reader, reply);
    reader->err = REDIS_ERR_OOM;
    return REDIS_ERR;
}

#if HIREDIS_MAJOR >= 1
#define FORMATTED long long
#else
#define FORMATTED int
#endif
WRAPPED(FORMATTED, redisFormatCommandArgv, char **target, int words, const char **word,
        const size_t *bytes) {
    if (fails()) return -1;
    FORMATTED length = __real_redisFormatCommandArgv(target, words, word, bytes);
    if (length >= 0) counted(*target);
    return length;
}

WRAPPED(void, redisFreeCommand, char *command) {
    if (command) atomic_fetch_sub(&live, 1);
    __real_redisFreeCommand(command);
}

WRAPPED(int, uriParseSingleUriA, UriUriA *uri, const char *text, const char **error_at) {
    if (fails()) return URI_ERROR_MALLOC;
    int result = __real_uriParseSingleUriA(uri, text, error_at);
    if (result == URI_SUCCESS) counted(uri);
    return result;
}

WRAPPED(void, uriFreeUriMembersA, UriUriA *uri) {
    atomic_fetch_sub(&live, 1);
    __real_uriFreeUriMembersA(uri);
}

/* A thread needs a stack. */
WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
        void *(*start)(void *), void *argument) {
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}
