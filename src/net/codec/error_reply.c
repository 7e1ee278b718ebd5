/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/codec/error_reply.h"

#include <ctype.h>
#include <string.h>

#include "redlock.h"

/* The first word of an error is its code. It must be the whole word: BUSY is a server stuck in a
 * script, BUSYKEY and BUSYGROUP are not. */
static const struct {
    const char *code;
    int verdict;
} codes[] = {
    {"NOAUTH", REDLOCK_VERDICT_AUTH},           {"WRONGPASS", REDLOCK_VERDICT_AUTH},
    {"NOPERM", REDLOCK_VERDICT_NOPERM},         {"OOM", REDLOCK_VERDICT_OOM},
    {"MISCONF", REDLOCK_VERDICT_MISCONF},       {"READONLY", REDLOCK_VERDICT_READONLY},
    {"LOADING", REDLOCK_VERDICT_LOADING},       {"BUSY", REDLOCK_VERDICT_BUSY},
    {"NOREPLICAS", REDLOCK_VERDICT_NOREPLICAS}, {"WRONGTYPE", REDLOCK_VERDICT_WRONGTYPE},
    {"MOVED", REDLOCK_VERDICT_CLUSTER},         {"ASK", REDLOCK_VERDICT_CLUSTER},
    {"CLUSTERDOWN", REDLOCK_VERDICT_CLUSTER},   {"CROSSSLOT", REDLOCK_VERDICT_CLUSTER},
    {"TRYAGAIN", REDLOCK_VERDICT_CLUSTER},      {"MASTERDOWN", REDLOCK_VERDICT_MASTERDOWN},
};

/* Errors under the general code ERR, by what follows it. */
static const struct {
    const char *beginning;
    int verdict;
} sentences[] = {
    {"ERR max number of clients", REDLOCK_VERDICT_MAXCLIENTS},
    {"ERR AUTH <password> called without any password configured", REDLOCK_VERDICT_AUTH},
    {"ERR DB index is out of range", REDLOCK_VERDICT_UNFIT},
    {"ERR SELECT is not allowed in cluster mode", REDLOCK_VERDICT_CLUSTER},
};

static bool begins(struct net_bytes text, const char *beginning) {
    size_t length = strlen(beginning);
    return text.bytes >= length && memcmp(text.data, beginning, length) == 0;
}

static const char *find(struct net_bytes text, const char *what) {
    return memmem(text.data, text.bytes, what, strlen(what));
}

static int verdict_of_code(struct net_bytes text) {
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        size_t length = strlen(codes[i].code);
        if (begins(text, codes[i].code) &&
            (text.bytes == length || ((const char *)text.data)[length] == ' '))
            return codes[i].verdict;
    }
    return REDLOCK_VERDICT_ERROR;
}

/* A denial inside a script has no code. The first is that of Redis 7.2 and later and of Valkey, the
 * second that of 6.2 and 7.0. */
static bool is_denied_in_script(struct net_bytes text) {
    return begins(text, "ERR ACL failure in script") ||
           find(text, "The user executing the script can't ");
}

/* Before version 7 an error inside a script comes wrapped:
 *   ERR Error running script (call to f_<sha>): @user_script:3: WRONGTYPE Operation against ...
 * and some keep the '-' of the wire. Each word after the wrapping is tried as a code. An error that
 * the script caught and returned (redis.pcall) begins with "@user_script". */
static int verdict_in_script(struct net_bytes text) {
    const char *at = find(text, "@user_script"), *end = (const char *)text.data + text.bytes;
    if (is_denied_in_script(text)) return REDLOCK_VERDICT_NOPERM;
    while (at && at < end) {
        if (*at == '-') at++;
        int verdict = verdict_of_code((struct net_bytes){at, (size_t)(end - at)});
        if (verdict != REDLOCK_VERDICT_ERROR) return verdict;
        at = memchr(at, ' ', (size_t)(end - at));
        if (at) at++;
    }
    return REDLOCK_VERDICT_ERROR;
}

int error_reply_verdict(struct net_bytes error) {
    int verdict = verdict_of_code(error);
    if (verdict != REDLOCK_VERDICT_ERROR) return verdict;
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
        if (begins(error, sentences[i].beginning)) return sentences[i].verdict;
    bool in_script = begins(error, "ERR ") || begins(error, "@user_script");
    return in_script ? verdict_in_script(error) : REDLOCK_VERDICT_ERROR;
}

/* The command after `before`, which ends with a quotation mark, in lower case. */
static void take_quoted(struct net_bytes error, const char *before, char *command, size_t size) {
    const char *at = find(error, before), *end = (const char *)error.data + error.bytes;
    size_t bytes = 0;
    if (at) at += strlen(before);
    for (; at && at + bytes < end && bytes + 1 < size; bytes++) {
        if (!isalnum((unsigned char)at[bytes]) && !strchr("._|-", at[bytes])) break;
        command[bytes] = (char)tolower((unsigned char)at[bytes]);
    }
    if (at && (at + bytes == end || (at[bytes] != '\'' && at[bytes] != '`'))) bytes = 0;
    command[bytes] = '\0';
}

/* "... has no permissions to run the 'zrange' command": all versions with users write this, the
 * later ones inside scripts, too. A denied key is another sentence. */
void error_reply_denied_command(struct net_bytes error, char *command, size_t size) {
    take_quoted(error, "permissions to run the '", command, size);
}

void error_reply_unknown_command(struct net_bytes error, char *command, size_t size) {
    command[0] = '\0';
    if (!error_reply_is_unknown_command(error)) return;
    take_quoted(error, "command '", command, size);
    if (command[0] == '\0') take_quoted(error, "command `", command, size);
}

bool error_reply_is_noscript(struct net_bytes error) { return begins(error, "NOSCRIPT"); }

bool error_reply_is_unknown_command(struct net_bytes error) {
    return begins(error, "ERR unknown command") || begins(error, "ERR unsupported command") ||
           begins(error, "unsupported command");
}

bool error_reply_is_wrong_arity(struct net_bytes error) {
    return begins(error, "ERR wrong number of arguments");
}

bool error_reply_is_database_denied(struct net_bytes error) {
    return begins(error, "NOPERM No permissions to access database");
}

bool error_reply_is_lua_missing(struct net_bytes error) {
    return begins(error, "ERR Could not find scripting engine");
}

int error_reply_shown_bytes(struct net_bytes error, int most) {
    const char *end = find(error, ", with args");
    size_t bytes = end ? (size_t)(end - (const char *)error.data) : error.bytes;
    return bytes < (size_t)most ? (int)bytes : most;
}
