/* SPDX-License-Identifier: BSD-2-Clause */
#include "spelling.h"

#include <stdio.h>
#include <string.h>

#include "servers.h"

enum { ERROR_BYTES = 4096 };

struct words {
    const char *here, *there;
};

/* All but 6.2 word what is wrong with a call in their own name. */
static const struct words valkey[] = {
    {"Lua redis lib command arguments", "Command arguments"},
    {"calling Redis command from script", "calling command from script"},
    {"for this redis lib call", "for this call"},
    {NULL, NULL}};
static const struct words redict[] = {
    {"Lua redis lib command arguments", "Lua redict lib command arguments"},
    {"calling Redis command from script", "calling Redict command from script"},
    {"for this redis lib call", "for this redict lib call"},
    {NULL, NULL}};

/* Redis 6.2: the errors of its commands, which begin with a code, ... */
static const struct words old_commands[] = {
    {"ERR invalid expire time in 'set' command", "ERR invalid expire time in set"},
    {"ERR invalid expire time in 'expire' command", "ERR invalid expire time in expire"},
    {"ERR invalid expire time in 'pexpire' command", "ERR invalid expire time in pexpire"},
    {"ERR value is not an integer or out of range", "ERR value is not an integer or out of range"},
    {"ERR syntax error", "ERR syntax error"},
    {NULL, NULL}};
/* ... of calls, which have a line and no code, ... */
static const struct words old_calls[] = {
    {"ERR Lua redis lib command arguments must be strings or integers",
     "Lua redis() command arguments must be strings or integers"},
    {"ERR Wrong number of args calling Redis command from script",
     "Wrong number of args calling Redis command From Lua script"},
    {"ERR Please specify at least one argument for this redis lib call",
     "Please specify at least one argument for redis.call()"},
    {"ERR wrong number or type of arguments", "wrong number or type of arguments"},
    {NULL, NULL}};
/* ... and of scripts that raise something else than a text, which its handler of errors cannot
 * take. */
static const struct words old_raised[] = {{"MY boom", "a table value"},
                                          {"ERR nil", "a nil value"},
                                          {"ERR true", "a boolean value"},
                                          {NULL, NULL}};

static const char *found_in(const struct words *words, const char *here) {
    for (; words->here != NULL; words++)
        if (strcmp(words->here, here) == 0) return words->there;
    return NULL;
}

static void replace(char text[ERROR_BYTES], const struct words *words) {
    char rest[ERROR_BYTES];
    for (; words->here != NULL; words++) {
        char *at = strstr(text, words->here);
        if (at == NULL) continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(words->here));
        snprintf(at, ERROR_BYTES - (size_t)(at - text), "%s%s", words->there, rest);
        return;
    }
}

/* "... script: SHA, on @user_script:1." without the digest. */
static void leave_digest_out(char *text) {
    char *at = strstr(text, " script: ");
    if (at == NULL || strlen(at) < 54 || strncmp(at + 49, ", on ", 5) != 0) return;
    memmove(at + 9, at + 51, strlen(at + 51) + 1);
}

/* What 6.2 says of a message, and without the place where it was raised; the line is that of a
 * call. */
static void old_message(char out[ERROR_BYTES], const char *message, const char *line) {
    const char *command = found_in(old_commands, message), *call = found_in(old_calls, message);
    if (call != NULL)
        snprintf(out, ERROR_BYTES, "@user_script: %s: %s", line, call);
    else if (command != NULL)
        snprintf(out, ERROR_BYTES, "%s", command);
    else
        snprintf(out, ERROR_BYTES, "%s", message + (strncmp(message, "ERR ", 4) == 0 ? 4 : 0));
}

/* Returned by a script, all of which here are on one line; or raised: "... script: SHA, on
 * @user_script:LINE." */
static void spell_old(char text[ERROR_BYTES]) {
    char *place = strstr(text, " script: "), message[ERROR_BYTES], digest[41], line[16];
    if (place == NULL ||
        sscanf(place, " script: %40[0-9a-f], on @user_script:%15[0-9].", digest, line) != 2) {
        old_message(message, text, "1");
        snprintf(text, ERROR_BYTES, "%s", message);
        return;
    }
    *place = '\0';
    const char *raised = found_in(old_raised, text);
    if (raised != NULL) {
        snprintf(text, ERROR_BYTES,
                 "ERR Error running script (call to f_%s): @err_handler_def:9: err_handler_def:9: "
                 "attempt to concatenate local 'err' (%s)",
                 digest, raised);
        return;
    }
    old_message(message, text, line);
    snprintf(text, ERROR_BYTES, "ERR Error running script (call to f_%s): @user_script:%s: %.2000s",
             digest, line, message);
}

bool spelled_same(const char *here, size_t bytes, const char *there) {
    char text[ERROR_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)bytes, here);
    const int version = servers_version();
    switch (servers_project()) {
    case SERVERS_REDIS:
        if (version >= 700) break;
        spell_old(text);
        if (there[0] == '-') there++; /* as the script gave it; later servers take the sign off */
        break;
    case SERVERS_VALKEY:
        replace(text, valkey);
        if (version >= 900) leave_digest_out(text);
        break;
    case SERVERS_REDICT: replace(text, redict);
    }
    return strcmp(text, there) == 0;
}
