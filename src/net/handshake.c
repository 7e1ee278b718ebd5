/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The first commands on a connection, all sent at once: who we are, which database, who the server is, and whether
 * it lets us run scripts (each is run with no keys, which also loads it). Server texts are shown only where they
 * cannot hold a secret: "unknown command" repeats the arguments, so nothing of an AUTH error is.
 *
 * For guarded mode the server must be able to do, and we must be allowed, all that it takes: who cannot say which
 * process it is, or not raise a fence, has no vote that could be trusted.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "net/command.h"
#include "net/conn.h"
#include "net/verdict.h"
#include "node/scripts.h"

enum { STEP_AUTH, STEP_SELECT, STEP_INFO, STEP_SCRIPT, STEP_FENCES, STEP_WATCH };

/* What guarded mode takes beside what a classic lock does. */
#define GUARDED_COMMANDS "~redlock:* +eval +evalsha +zadd +zscore +zcard +zrange +hget +hset +hgetall +rename +time"

_Static_assert(HANDSHAKE_STEPS_MAX >= 3 + NODE_SCRIPTS + 2, "all steps must fit");

static bool is_guarded(const struct conn *conn) { return conn->node->net->guarded; }

static bool send_step(struct conn *conn, const struct words *words, unsigned char step) {
    conn->steps[conn->steps_count++] = step;
    return words_end(words, &conn->out, NET_WIRE_BYTES_MAX);
}

static bool send_auth(struct conn *conn) {
    const struct url *url = &conn->node->url;
    struct words words;
    words_begin(&words, "AUTH");
    if (url->user) words_text(&words, url->user);
    words_text(&words, url->password);
    return send_step(conn, &words, STEP_AUTH);
}

/* EVALSHA too: it may be renamed or forbidden by itself. */
static bool send_scripts(struct conn *conn) {
    struct words words;
    bool setnx = conn->node->url.scheme != REDLOCK_SCHEME_SET;
    int first = setnx ? NODE_SETNX_ACQUIRE : 0;
    int end = setnx ? NODE_SCRIPTS_ALL : is_guarded(conn) ? NODE_SCRIPTS : NODE_CLASSIC_SCRIPTS;
    for (int i = first; i < end; i++) {
        words_begin(&words, "EVAL");
        words_text(&words, node_scripts[i].text);
        words_number(&words, 0);
        if (!send_step(conn, &words, STEP_SCRIPT)) return false;
    }
    words_begin(&words, "EVALSHA");
    words_text(&words, node_scripts[setnx ? NODE_SETNX_RELEASE : NODE_RELEASE].sha1);
    words_number(&words, 0);
    return send_step(conn, &words, STEP_SCRIPT);
}

/* Who was allowed what a classic lock takes is told at the door what is missing now. Changes nothing: no stripe is
 * added (XX), none is below 0. */
static bool send_zadd(struct conn *conn) {
    struct words words;
    words_begin(&words, "ZADD");
    words_text(&words, NET_KEY_KEPT);
    words_text(&words, "XX");
    words_text(&words, "GT");
    words_text(&words, "CH");
    words_number(&words, 0);
    words_number(&words, 0);
    return send_step(conn, &words, STEP_FENCES);
}

bool handshake_begin(struct conn *conn) {
    const struct url *url = &conn->node->url;
    struct words words;
    conn->step = conn->steps_count = 0;
    conn->scripting_refused = false;
    conn->run_id[0] = '\0';
    if (url->password && !send_auth(conn)) return false;
    if (conn->kind == CONN_WATCH) {
        memset(conn->steps + conn->steps_count, STEP_WATCH, TRACKING_STEPS);
        conn->steps_count += TRACKING_STEPS;
        return tracking_handshake(conn);
    }
    if (url->db[0] != '\0' && strcmp(url->db, "0") != 0) {
        words_begin(&words, "SELECT");
        words_text(&words, url->db);
        if (!send_step(conn, &words, STEP_SELECT)) return false;
    }
    words_begin(&words, "INFO");
    words_text(&words, "server");
    if (!send_step(conn, &words, STEP_INFO)) return false;
    if (conn->kind == CONN_AUX) return true;
    return send_scripts(conn) && (!is_guarded(conn) || send_zadd(conn));
}

/* The value of "field:value" at the beginning of a line, cut to what fits; "" when absent. */
static void info_field(struct net_bytes info, const char *field, char *value, size_t capacity) {
    const char *at = info.data, *end = at + info.bytes;
    size_t length = strlen(field);
    value[0] = '\0';
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if ((size_t)(line_end - at) > length && memcmp(at, field, length) == 0 && at[length] == ':') {
            size_t n = 0;
            for (at += length + 1; at < line_end && isgraph((unsigned char)*at) && n + 1 < capacity; at++)
                value[n++] = *at;
            value[n] = '\0';
            return;
        }
        at = line_end + 1;
    }
}

static void fail(struct conn *conn, const char *what, const struct net_bytes *error, int verdict) {
    char text[160];
    const char *end = memmem(error->data, error->bytes, ", with args", 11);
    int bytes = (int)(end ? (size_t)(end - (const char *)error->data) : error->bytes);
    if (verdict == REDLOCK_VERDICT_AUTH && !conn->node->url.password)
        snprintf(text, sizeof(text),
                 "the server wants a password; put it in the URL, as in redis://user:password@host");
    else
        snprintf(text, sizeof(text), "%s: %.*s", what, bytes < 110 ? bytes : 110, (const char *)error->data);
    conn_fail(conn, verdict, text);
}

static void auth_failed(struct conn *conn, const struct net_bytes *error) {
    int verdict = verdict_of_error(error->data, error->bytes);
    /* What the server may say before it looks at the command keeps its own meaning. */
    bool about_auth = verdict == REDLOCK_VERDICT_AUTH || verdict == REDLOCK_VERDICT_ERROR;
    if (memmem(error->data, error->bytes, "DENIED", 6) == error->data) {
        fail(conn, "refused", error, REDLOCK_VERDICT_AUTH);
    } else if (!about_auth) {
        fail(conn, "AUTH", error, verdict);
    } else if (memmem(error->data, error->bytes, "wrong number of arguments", 25)) {
        conn_fail(conn, REDLOCK_VERDICT_AUTH, "the server knows no users (it is older than 6.0); write :password@host");
    } else if (memmem(error->data, error->bytes, "without any password", 20) ||
               memmem(error->data, error->bytes, "no password is set", 18)) {
        conn_fail(conn, REDLOCK_VERDICT_AUTH, "the server has no password; take the one in the URL out");
    } else {
        conn_fail(conn, REDLOCK_VERDICT_AUTH, "wrong user or password; correct the node's URL");
    }
}

/* ZADD's GT came with 6.2. (Valkey tells the version of Redis that it is compatible with.) */
static bool is_new_enough(const char *version) {
    unsigned major = 0, minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 2));
}

/* What guarded mode asks of INFO's answer. */
static void check_fitness(struct conn *conn, const char *version) {
    char text[160];
    if (conn->run_id[0] == '\0') {
        conn_fail(conn, REDLOCK_VERDICT_UNFIT,
                  "INFO tells no run_id, by which guarded mode knows a restarted server; connect to the server itself");
    } else if (!is_new_enough(version)) {
        snprintf(text, sizeof(text), "version %s; guarded mode needs Redis 6.2 or later, or Valkey",
                 version[0] ? version : "unknown");
        conn_fail(conn, REDLOCK_VERDICT_UNFIT, text);
    }
}

static void info_answered(struct conn *conn) {
    struct node *node = conn->node;
    char mode[16], version[16];
    if (conn->reader.slots[0].type != REPLY_STRING) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "INFO was answered by something else");
        return;
    }
    info_field(conn->reader.bytes[0], "run_id", conn->run_id, sizeof(conn->run_id));
    info_field(conn->reader.bytes[0], "redis_version", version, sizeof(version));
    info_field(conn->reader.bytes[0], "redis_mode", mode, sizeof(mode));
    if (strcmp(mode, "cluster") == 0) {
        conn_fail(conn, REDLOCK_VERDICT_CLUSTER, "the server runs in cluster mode; list independent servers");
    } else if (conn->kind == CONN_AUX && strcmp(conn->run_id, node->run_id) != 0) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "the second connection reached another server than the first");
    } else if (conn->kind == CONN_MAIN) {
        memcpy(node->version, version, sizeof(version));
        if (is_guarded(conn)) check_fitness(conn, version);
    }
}

static void info_failed(struct conn *conn, const struct net_bytes *error) {
    int verdict = verdict_of_error(error->data, error->bytes);
    if (memmem(error->data, error->bytes, "DENIED", 6) == error->data) verdict = REDLOCK_VERDICT_AUTH;
    bool refused = verdict == REDLOCK_VERDICT_NOPERM || verdict_is_unknown_command(error->data, error->bytes);
    if (!refused)
        fail(conn, "INFO", error, verdict);
    else if (is_guarded(conn))
        conn_fail(conn, REDLOCK_VERDICT_NOPERM,
                  "INFO is refused; guarded mode needs its run_id to know a restarted server: allow +info");
}

/* Classic mode has transactions instead. */
static void scripting_refused(struct conn *conn) {
    conn->scripting_refused = true;
    if (is_guarded(conn))
        conn_fail(conn, REDLOCK_VERDICT_NOPERM,
                  "scripts are refused; guarded mode needs them: allow " GUARDED_COMMANDS);
}

static void script_failed(struct conn *conn, const struct net_bytes *error) {
    int verdict = verdict_of_error(error->data, error->bytes);
    switch (verdict) {
    case REDLOCK_VERDICT_NOPERM: scripting_refused(conn); return;
    case REDLOCK_VERDICT_OOM:
    case REDLOCK_VERDICT_MISCONF:
    case REDLOCK_VERDICT_READONLY:
    case REDLOCK_VERDICT_NOREPLICAS: return; /* says nothing of scripting, and may pass: each call will be told */
    default: break;
    }
    if (verdict_is_unknown_command(error->data, error->bytes))
        scripting_refused(conn);
    else if (!verdict_is_noscript(error->data, error->bytes))
        fail(conn, "EVAL", error, verdict);
}

static void fences_failed(struct conn *conn, const struct net_bytes *error) {
    /* Whatever else it is may pass, or will be told of the node's record and of each vote. */
    if (verdict_of_error(error->data, error->bytes) == REDLOCK_VERDICT_NOPERM ||
        verdict_is_unknown_command(error->data, error->bytes))
        conn_fail(conn, REDLOCK_VERDICT_NOPERM, "guarded mode needs more than a classic lock: allow " GUARDED_COMMANDS);
}

void handshake_reply(struct conn *conn) {
    unsigned char step = conn->steps[conn->step++];
    struct net_bytes error = conn->reader.bytes[0];
    uint32_t generation = conn->generation;
    bool failed = reader_is_error(&conn->reader);
    switch (step) {
    case STEP_AUTH:
        if (failed) auth_failed(conn, &error);
        break;
    case STEP_SELECT:
        if (failed) fail(conn, "SELECT", &error, verdict_of_error(error.data, error.bytes));
        break;
    case STEP_INFO:
        if (failed)
            info_failed(conn, &error);
        else
            info_answered(conn);
        break;
    case STEP_WATCH: tracking_step(conn, failed); break;
    case STEP_FENCES:
        if (failed) fences_failed(conn, &error);
        break;
    default:
        if (failed) script_failed(conn, &error);
        break;
    }
    if (conn->generation == generation && conn->step == conn->steps_count) node_up(conn);
}
