/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Texts for people: results, the log, and the reason for a failed call. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"

const char *redlock_result_text(int result) {
    switch (result) {
#define TEXT(name, value, text)                                                                    \
    case value: return text;
        REDLOCK_RESULTS(TEXT)
    default: return "unknown result";
    }
}

const char *redlock_verdict_text(int verdict) {
    switch (verdict) {
        REDLOCK_VERDICTS(TEXT)
#undef TEXT
    default: return "unknown verdict";
    }
}

void copy_text(struct net_bytes from, char *to, size_t size) {
    size_t length = 0;
    for (size_t i = 0; i < from.bytes && length + 1 < size; i++) {
        char c = ((const char *)from.data)[i];
        to[length++] = c >= ' ' && c <= '~' ? c : '?';
    }
    to[length] = '\0';
}

struct net_bytes token_owner(const void *token, size_t bytes) {
    const char *at = token;
    size_t hex = 0;
    while (hex < bytes && hex < REDLOCK_TOKEN_HEX_BYTES && memchr("0123456789abcdef", at[hex], 16))
        hex++;
    if (hex < REDLOCK_TOKEN_HEX_BYTES || bytes <= hex + 1 || at[hex] != ':')
        return (struct net_bytes){NULL, 0};
    return (struct net_bytes){at + hex + 1, bytes - hex - 1};
}

void client_log(struct redlock_client *client, int level, const char *format, ...) {
    if (!client->options.log || level > client->options.log_level) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    client->options.log(client->options.log_context, level, text);
}

int fail(struct redlock_error *error, int result, const char *format, ...) {
    va_list args;
    if (!error) return result;
    error->result = result;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return result;
}

int fail_null(struct redlock_error *error) {
    return fail(error, REDLOCK_BAD_ARGUMENT, "the client must not be NULL");
}

int fail_forked(struct redlock_error *error) {
    return fail(error, REDLOCK_FORKED, "%s", redlock_result_text(REDLOCK_FORKED));
}
