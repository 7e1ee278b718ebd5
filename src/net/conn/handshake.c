/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The first commands on a connection, all sent at once: our identity, the database, whether this is
 * a native node, the server's identity, and whether we may run scripts (one runs, with no keys).
 * Texts from the server are shown only where they cannot hold a secret: "unknown command" repeats
 * the arguments, so no text of an AUTH error is shown.
 *
 * For guarded mode the server must support, and permit us, all that the mode needs. A server that
 * cannot report which process it is, or cannot raise a fence, has no vote that could be trusted. It
 * is also asked to announce each change of the node's record, and each loss of all data, on the
 * connection on which it votes. That connection uses RESP3 from then on. Where the server refuses
 * this, the guarantee is weaker, but the connection still works.
 *
 * A native node needs no scripts for locks, and its identity is the module's, not the process's. A
 * connection is to a stock node only if the server does not know REDLOCK.HELLO: locks that were
 * taken past the module would not be in its table.
 *
 * Redis 8.4 and Valkey 9 have a command that compares and deletes. Each is sent without arguments:
 * a server that knows it objects to their number, before it looks at permissions, and nothing is
 * written. What the command does is tried later (send.c), where keys are going to be changed. */
#include <stdio.h>
#include <string.h>

#include "net/codec/command.h"
#include "net/conn/conn.h"
#include "net/codec/error_reply.h"
#include "node/scripts.h"

/* X(step, its command) */
#define STEPS(X)                                                                                   \
    X(AUTH, "AUTH")                                                                                \
    X(HELLO, "HELLO")                                                                              \
    X(TRACKING, "CLIENT")                                                                          \
    X(UNTRACK, "CLIENT")                                                                           \
    X(SELECT, "SELECT")                                                                            \
    X(NATIVE, "REDLOCK.HELLO")                                                                     \
    X(INFO, "INFO")                                                                                \
    X(DELEX, "DELEX")                                                                              \
    X(DELIFEQ, "DELIFEQ")                                                                          \
    X(QUORUM, "HGET")                                                                              \
    X(SCRIPT, "EVAL")                                                                              \
    X(SCRIPT_SHA, "EVALSHA")                                                                       \
    X(FENCES, "ZADD")                                                                              \
    X(SUBSCRIBE, "SUBSCRIBE")
#define STEP(step, command) STEP_##step,
enum { STEPS(STEP) };
#define COMMAND(step, command) command,
static const char *const commands[] = {STEPS(COMMAND)};

/* What guarded mode needs in addition to a classic lock. */
#define GUARDED_COMMANDS                                                                           \
    "~redlock:* +eval +evalsha +zadd +zscore +zcard +zrange +hget +hset +hgetall +rename +time"

/* What a native node needs: not every server has categories for modules' commands. */
#define NATIVE_CURE "allow +@redlock, or each command (+redlock.hello and so on)"

/* A command was queued, or could not be: `sent`. Its reply is that of the step. */
static bool await(struct conn *conn, unsigned char step, bool sent) {
    conn->steps[conn->steps_count++] = step;
    return sent;
}

/* The main connection is notified of the record: NOLOOP, because our own writes are known. The
 * notifier is notified of the keys that it reads. */
static bool send_hello(struct conn *conn) {
    reader_expect_resp3(&conn->reader, true);
    if (!await(conn, STEP_HELLO, conn_command(conn, "HELLO", "3", NULL))) return false;
    bool sent = conn->kind == CONN_NOTIFIER
                    ? conn_command(conn, "CLIENT", "TRACKING", "ON", "OPTIN", NULL)
                    : conn_command(conn, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX",
                                   NET_KEY_RECORD, "NOLOOP", NULL);
    return await(conn, STEP_TRACKING, sent);
}

/* One script stands for all: a herd that connects at once must cost a server little. EVALSHA too:
 * it may be renamed or forbidden separately. */
static bool send_script(struct conn *conn) {
    const bool setnx = conn->node->url.scheme != REDLOCK_SCHEME_SET;
    const enum node_script which = setnx ? NODE_SETNX_RELEASE : NODE_RELEASE;
    const struct node_script_text *script = &node_scripts[which];
    conn->scripts |= UINT32_C(1) << which;
    return await(conn, STEP_SCRIPT, conn_command(conn, "EVAL", script->text, "0", NULL)) &&
           await(conn, STEP_SCRIPT_SHA, conn_command(conn, "EVALSHA", script->sha1, "0", NULL));
}

static bool send_deleters(struct conn *conn) {
    if (conn->node->url.scheme != REDLOCK_SCHEME_SET) return true;
    return await(conn, STEP_DELEX, conn_command(conn, "DELEX", NULL)) &&
           await(conn, STEP_DELIFEQ, conn_command(conn, "DELIFEQ", NULL));
}

/* A client with permissions for classic locks only learns here what is missing. ZADD changes
 * nothing: no stripe is added (XX), and none is below 0. */
static bool send_guarded(struct conn *conn) {
    return await(conn, STEP_FENCES,
                 conn_command(conn, "ZADD", NET_KEY_KEPT, "XX", "GT", "CH", "0", "0", NULL));
}

bool handshake_begin(struct conn *conn) {
    const struct url *url = &conn->node->url;
    conn->step = conn->steps_count = 0;
    conn->scripts = UINT32_C(1) << NODE_SCRIPTS_ALL;
    conn->scripting_refused = conn->lua_missing = false;
    conn->unknown_command = NULL;
    conn->deleter = COMMAND_STOCK;
    conn->deleter_tried = conn->deletes = false;
    conn->announces = conn->native = false;
    memset(&conn->hello, 0, sizeof(conn->hello));
    conn->guarded = conn->node->net->guarded;
    conn->run_id[0] = conn->quorum[0] = conn->refusal[0] = '\0';
    const char *password = url->password ? url->password : conn->password;
    const char *user = url->password ? url->user : conn->node->net->passwords.user;
    if (password) {
        bool sent = user ? conn_command(conn, "AUTH", user, password, NULL)
                         : conn_command(conn, "AUTH", password, NULL);
        if (!await(conn, STEP_AUTH, sent)) return false;
    }
    bool main = conn_is_for_votes(conn), notifier = conn->kind == CONN_NOTIFIER;
    bool resp3 = main ? conn->guarded : notifier && conn->node->main->announces;
    if (resp3 && !send_hello(conn)) return false;
    if (notifier && !resp3) {
        memset(conn->steps + conn->steps_count, STEP_SUBSCRIBE, TRACKING_STEPS);
        conn->steps_count += TRACKING_STEPS;
        return tracking_handshake(conn);
    }
    bool other_db = url->db[0] != '\0' && strcmp(url->db, "0") != 0;
    if (other_db && !await(conn, STEP_SELECT, conn_command(conn, "SELECT", url->db, NULL)))
        return false;
    bool asks_native = main || conn->node->main->native;
    if (asks_native && !await(conn, STEP_NATIVE, conn_command(conn, "REDLOCK.HELLO", "1", NULL)))
        return false;
    if (!await(conn, STEP_INFO, conn_command(conn, "INFO", "server", NULL))) return false;
    if (conn->kind == CONN_AUX) return true;
    if (notifier) return await(conn, STEP_SUBSCRIBE, tracking_subscribe(conn));
    if (!send_deleters(conn)) return false;
    if (conn->node->net->asks_quorum &&
        !await(conn, STEP_QUORUM, conn_command(conn, "HGET", NET_KEY_RECORD, "quorum", NULL)))
        return false;
    return send_script(conn) && (!conn->guarded || send_guarded(conn));
}

/* The server's answer to whatever comes first: it is in protected mode, and does not accept clients
 * like us. */
static bool is_denied(struct net_bytes error) {
    return memmem(error.data, error.bytes, "DENIED", 6) == error.data;
}

static int verdict_of(struct net_bytes error) {
    return is_denied(error) ? REDLOCK_VERDICT_AUTH : error_reply_verdict(error);
}

static bool has_password(const struct conn *conn) {
    const struct passwords *passwords = &conn->node->net->passwords;
    return conn->node->url.password || passwords->file || passwords->ask;
}

static void fail(struct conn *conn, const char *what, struct net_bytes error, int verdict) {
    char text[160];
    if (verdict == REDLOCK_VERDICT_AUTH && is_denied(error))
        snprintf(text, sizeof(text),
                 "protected mode: set a password on the server, or bind it to a private address");
    else if (verdict == REDLOCK_VERDICT_AUTH && !has_password(conn))
        snprintf(
            text, sizeof(text),
            "the server requires a password; put it in the URL, as in redis://user:password@host");
    else
        snprintf(text, sizeof(text), "%s: %.*s", what,
                 error_reply_shown_bytes(error, (int)(sizeof(text) - sizeof(": ") - strlen(what))),
                 (const char *)error.data);
    conn_fail(conn, verdict, text);
}

static void wrong_password(struct conn *conn) {
    char text[160];
    const char *file = conn->node->net->passwords.file;
    const bool in_url = conn->node->url.password != NULL;
    snprintf(text, sizeof(text), "wrong user or password; correct %s%.80s",
             in_url ? "the node's URL"
             : file ? "the user, or the password file "
                    : "the user, or what gives the password",
             file && !in_url ? file : "");
    conn_fail(conn, REDLOCK_VERDICT_AUTH, text);
}

static void auth_failed(struct conn *conn, struct net_bytes error) {
    int verdict = error_reply_verdict(error);
    /* Errors that the server may send before it reads the command keep their own meaning. */
    bool about_auth = verdict == REDLOCK_VERDICT_AUTH || verdict == REDLOCK_VERDICT_ERROR;
    if (is_denied(error)) {
        fail(conn, "refused", error, REDLOCK_VERDICT_AUTH);
    } else if (!about_auth) {
        fail(conn, "AUTH", error, verdict);
    } else if (memmem(error.data, error.bytes, "without any password", 20)) {
        conn_fail(conn, REDLOCK_VERDICT_AUTH,
                  conn->node->url.password
                      ? "the server has no password; remove the one in the URL"
                      : "the server has no password; set one there (requirepass)");
    } else {
        wrong_password(conn);
    }
}

/* ---- RESP3 and tracking ---- */

static void note_refusal(struct conn *conn, const char *what, struct net_bytes error) {
    snprintf(conn->refusal, sizeof(conn->refusal), "%s is refused: %.*s", what,
             error_reply_shown_bytes(error, 40), (const char *)error.data);
}

static void hello_failed(struct conn *conn, struct net_bytes error) {
    if (conn->kind == CONN_NOTIFIER) {
        tracking_refused(conn, "HELLO", error);
        return;
    }
    const int verdict = verdict_of(error);
    if (verdict != REDLOCK_VERDICT_NOPERM && verdict != REDLOCK_VERDICT_ERROR) {
        fail(conn, "HELLO", error, verdict);
        return;
    }
    note_refusal(conn, "HELLO", error);
    reader_expect_resp3(&conn->reader, false);
}

/* A proxy between us and the server may answer in its place, and may not use the protocol. */
static void hello_answered(struct conn *conn) {
    const struct reader *reader = &conn->reader;
    for (size_t i = 0; i + 1 < reader->slots_count; i++) {
        const struct reply_slot *value = &reader->slots[i + 1];
        if (reader_is_string(reader, i, "proto") && value->type == REPLY_INTEGER &&
            value->integer == 3)
            return;
    }
    snprintf(conn->refusal, sizeof(conn->refusal), "HELLO 3 was answered in another protocol");
    if (conn->kind == CONN_NOTIFIER)
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, conn->refusal);
    else
        reader_expect_resp3(&conn->reader, false);
}

/* ---- who the server is ---- */

/* The parts of INFO's answer that guarded mode needs. ZADD's GT came with 6.2. (Valkey reports the
 * version of Redis that it is compatible with.) */
static void check_fitness(struct conn *conn, const char *version) {
    char text[160];
    unsigned major = 0, minor = 0;
    bool known = sscanf(version, "%u.%u", &major, &minor) == 2;
    if (conn->run_id[0] == '\0') {
        conn_fail(
            conn, REDLOCK_VERDICT_UNFIT,
            "INFO shows no run_id, and guarded mode needs it to recognise a restarted server; connect to the server itself");
    } else if (!known || major < 6 || (major == 6 && minor < 2)) {
        snprintf(text, sizeof(text), "version %s; guarded mode needs Redis 6.2 or later, or Valkey",
                 version[0] ? version : "unknown");
        conn_fail(conn, REDLOCK_VERDICT_UNFIT, text);
    }
}

/* Redis, Valkey 8 and later, and Redict have a name of their own for it. */
static void read_mode(struct net_bytes info, char *mode, size_t size) {
    static const char *const names[] = {"redis_mode", "server_mode", "redict_mode"};
    mode[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && mode[0] == '\0'; i++)
        info_value(info, names[i], mode, size);
}

static void reached_another(struct conn *conn) {
    conn_fail(conn, REDLOCK_VERDICT_PROTOCOL,
              "the second connection reached another server than the first");
}

/* Whether it leads to one server at a time decides about the main connection, too. */
static bool reached_several(struct conn *conn) {
    static const char text[] = "the address leads to several servers at a time (a load balancer, "
                               "or a name with several addresses): list each server itself";
    struct node *node = conn->node;
    if (!policy_reached(&node->net->policy, node->index, conn->run_id, net_now(node->net)))
        return false;
    if (conn->kind != CONN_MAIN && node->main->state == CONN_READY)
        conn_break(node->main, REDLOCK_VERDICT_UNFIT, text);
    conn_fail(conn, REDLOCK_VERDICT_UNFIT, text);
    return true;
}

/* Envoy's redis_proxy calls each server a cluster, and each of its answers may be another one's. */
static void refuse_cluster(struct conn *conn) {
    char process[24];
    info_value(conn->reader.bytes[0], "process_id", process, sizeof(process));
    if (process[0] == '\0')
        conn_fail(conn, REDLOCK_VERDICT_UNFIT,
                  "a proxy answers (INFO shows cluster mode and no process_id, as Envoy's does); "
                  "list the server itself");
    else
        conn_fail(conn, REDLOCK_VERDICT_CLUSTER,
                  "the server runs in cluster mode; list independent servers");
}

static void info_answered(struct conn *conn) {
    struct node *node = conn->node;
    char mode[16], version[16];
    if (conn->reader.slots[0].type != REPLY_STRING) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "the reply to INFO is something else");
        return;
    }
    info_value(conn->reader.bytes[0], "run_id", conn->run_id, sizeof(conn->run_id));
    info_value(conn->reader.bytes[0], "redis_version", version, sizeof(version));
    info_value(conn->reader.bytes[0], "redict_mode", mode, sizeof(mode));
    conn->redict = mode[0] != '\0';
    read_mode(conn->reader.bytes[0], mode, sizeof(mode));
    if (reached_several(conn)) return;
    if (strcmp(mode, "cluster") == 0) {
        refuse_cluster(conn);
    } else if (strcmp(mode, "sentinel") == 0) {
        conn_fail(conn, REDLOCK_VERDICT_UNFIT,
                  "the server is a Sentinel and holds no keys; list the servers themselves");
    } else if (!conn_is_for_votes(conn) && strcmp(conn->run_id, node->main->run_id) != 0) {
        reached_another(conn);
    } else if (conn_is_for_votes(conn)) {
        memcpy(node->status.version, version, sizeof(version));
        if (conn->guarded && !conn->native) check_fitness(conn, version);
    }
}

/* No permission helps here. */
static void unknown_command(struct conn *conn, const char *name, const char *what) {
    char text[160];
    snprintf(text, sizeof(text),
             "the server does not know %s (renamed or disabled), and %s needs it: remove its "
             "rename-command from the configuration",
             name, what);
    conn_fail(conn, REDLOCK_VERDICT_UNFIT, text);
}

static void info_failed(struct conn *conn, struct net_bytes error) {
    const int verdict = verdict_of(error);
    const bool unknown = error_reply_is_unknown_command(error),
               other = verdict == REDLOCK_VERDICT_ERROR;
    const bool needed = conn->guarded && !conn->native;
    if (verdict != REDLOCK_VERDICT_NOPERM && (!other || (needed && !unknown)))
        fail(conn, "INFO", error, verdict);
    else if (needed && unknown)
        unknown_command(conn, "INFO", "guarded mode");
    else if (needed)
        conn_fail(
            conn, REDLOCK_VERDICT_NOPERM,
            "INFO is refused; guarded mode needs its run_id to recognise a restarted server: allow +info");
}

/* Classic mode uses transactions instead. */
static void scripting_refused(struct conn *conn) {
    conn->scripting_refused = true;
    if (!conn->guarded || conn->native) return;
    if (conn->lua_missing)
        conn_fail(conn, REDLOCK_VERDICT_UNFIT,
                  "the server has no Lua engine, and guarded mode needs scripts: load its module");
    else if (conn->unknown_command)
        unknown_command(conn, conn->unknown_command, "guarded mode");
    else
        conn_fail(conn, REDLOCK_VERDICT_NOPERM,
                  "scripts are refused; guarded mode needs them: allow " GUARDED_COMMANDS);
}

static void script_failed(struct conn *conn, const char *command, struct net_bytes error) {
    int verdict = error_reply_verdict(error);
    switch (verdict) {
    case REDLOCK_VERDICT_NOPERM: scripting_refused(conn); return;
    case REDLOCK_VERDICT_OOM:
    case REDLOCK_VERDICT_MISCONF:
    case REDLOCK_VERDICT_READONLY:
    case REDLOCK_VERDICT_NOREPLICAS:
        return; /* this does not concern scripting, and may pass: each call gets its own answer */
    default: break;
    }
    if (error_reply_is_lua_missing(error)) conn->lua_missing = true;
    if (!conn->unknown_command && error_reply_is_unknown_command(error))
        conn->unknown_command = command;
    /* The words for it are many; classic mode does without. */
    const bool other = verdict == REDLOCK_VERDICT_ERROR && !error_reply_is_noscript(error);
    if (conn->lua_missing || conn->unknown_command || (other && !conn->guarded))
        scripting_refused(conn);
    else if (!error_reply_is_noscript(error))
        fail(conn, "EVAL", error, verdict);
}

/* A value that is not ours is shown as far as possible: it is compared with 16 hex digits. On a
 * native node, a record among the keys remains from the time before the module. It does not say
 * which quorum the node belongs to, but that these nodes are guarded. */
static void quorum_answered(struct conn *conn, struct net_bytes value) {
    if (conn->quorum[0] != '\0') return;
    copy_shown(conn->quorum, sizeof(conn->quorum), value);
    memcpy(conn->node->status.quorum, conn->quorum, sizeof(conn->quorum));
    /* At once, because the handshake may still fail. */
    struct net *net = conn->node->net;
    if (value.bytes > 0 && !net->guarded)
        net->handlers.changed(net->handlers.context, conn->node->index);
}

/* This node or another one carries a record: the handshake goes on with what guarded mode needs. */
static void turn_guarded(struct conn *conn) {
    uint32_t generation = conn->generation;
    conn->guarded = true;
    if (!reader_is_empty(&conn->reader))
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "more answers than commands");
    else if (conn->scripting_refused && !conn->native)
        scripting_refused(conn);
    else if (!conn->native)
        check_fitness(conn, conn->node->status.version);
    if (conn->generation == generation &&
        (!send_hello(conn) || !(conn->native || send_guarded(conn))))
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
}

/* ---- a native node ---- */

/* Where the permission is missing, the node is not used as a stock one: see above. */
static void native_failed(struct conn *conn, struct net_bytes error) {
    const int verdict = verdict_of(error);
    if (error_reply_is_unknown_command(error)) {
        if (!conn_is_for_votes(conn)) reached_another(conn);
    } else if (verdict == REDLOCK_VERDICT_NOPERM) {
        conn_fail(conn, REDLOCK_VERDICT_NOPERM,
                  "the module redlock is loaded, and this user may not use it: " NATIVE_CURE);
    } else {
        fail(conn, "REDLOCK.HELLO", error, verdict);
    }
}

static void native_answered(struct conn *conn) {
    if (!native_hello_answer(&conn->reader, &conn->hello)) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL,
                  "the reply to REDLOCK.HELLO is something else, or of another version of the "
                  "module: update this program, or the module");
        return;
    }
    conn->native = true;
    if (!conn_is_for_votes(conn)) {
        if (strcmp(conn->hello.incarnation, conn->node->main->hello.incarnation) != 0)
            reached_another(conn);
    } else if (conn->node->net->asks_quorum) {
        quorum_answered(conn, (struct net_bytes){conn->hello.quorum, strlen(conn->hello.quorum)});
    }
}

/* A record that may not be read may be there: its absence would be a guess, and classic votes rest
 * on it. Any other error passes, or shows up in each vote; and a key of another type is no record.
 */
static void quorum_failed(struct conn *conn, struct net_bytes error) {
    const bool unknown = error_reply_is_unknown_command(error);
    const bool refused = error_reply_verdict(error) == REDLOCK_VERDICT_NOPERM || unknown;
    if (unknown && !conn->native)
        unknown_command(conn, "HGET", "mode auto");
    else if (refused && !conn->native) /* a native node has said it already */
        conn_fail(conn, REDLOCK_VERDICT_NOPERM, NET_QUORUM_UNREADABLE);
    else
        net_log(conn->node->net, REDLOCK_LOG_DEBUG,
                "%s: cannot find out whether it has a record: %.*s", conn->node->url.text,
                error_reply_shown_bytes(error, 110), (const char *)error.data);
}

/* Any other error may pass, or shows up when the record is read and in each vote. */
static void fences_failed(struct conn *conn, struct net_bytes error) {
    if (error_reply_is_unknown_command(error))
        unknown_command(conn, "ZADD", "guarded mode");
    else if (error_reply_verdict(error) == REDLOCK_VERDICT_NOPERM)
        conn_fail(conn, REDLOCK_VERDICT_NOPERM,
                  "guarded mode needs more than a classic lock: allow " GUARDED_COMMANDS);
}

static void database_denied(struct conn *conn) {
    const struct url *url = &conn->node->url;
    const char *db = url->db[0] != '\0' ? url->db : "0";
    char text[160];
    snprintf(text, sizeof(text),
             "this user may not use database %s: add %s to its databases (ACL SETUSER %.20s "
             "db=...), or name a permitted one in the URL",
             db, db, url->user ? url->user : "default");
    conn_fail(conn, REDLOCK_VERDICT_NOPERM, text);
}

const char *handshake_awaits(const struct conn *conn) {
    return conn->step < conn->steps_count ? commands[conn->steps[conn->step]] : "the last command";
}

void handshake_reply(struct conn *conn) {
    unsigned char step = conn->steps[conn->step++];
    struct net_bytes error = conn->reader.bytes[0];
    uint32_t generation = conn->generation;
    bool failed = reader_is_error(&conn->reader);
    if (failed && error_reply_is_database_denied(error)) {
        database_denied(conn);
        return;
    }
    switch (step) {
    case STEP_AUTH:
        if (failed) auth_failed(conn, error);
        break;
    case STEP_HELLO:
        if (failed)
            hello_failed(conn, error);
        else
            hello_answered(conn);
        break;
    case STEP_TRACKING:
        if (failed && conn->kind == CONN_NOTIFIER)
            tracking_refused(conn, "CLIENT TRACKING", error);
        else if (failed && conn->refusal[0] == '\0')
            note_refusal(conn, "CLIENT TRACKING", error);
        conn->announces = !failed && conn->refusal[0] == '\0';
        /* In RESP2 nothing is announced, and this tracking would exclude that of tracking.c. */
        if (!failed && !conn->announces &&
            !await(conn, STEP_UNTRACK, conn_command(conn, "CLIENT", "TRACKING", "OFF", NULL)))
            conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
        break;
    case STEP_UNTRACK: break;
    case STEP_QUORUM:
        if (failed)
            quorum_failed(conn, error);
        else if (conn->reader.slots[0].type == REPLY_STRING)
            quorum_answered(conn, conn->reader.bytes[0]);
        break;
    case STEP_SELECT:
        if (failed) fail(conn, "SELECT", error, error_reply_verdict(error));
        break;
    case STEP_NATIVE:
        if (failed)
            native_failed(conn, error);
        else
            native_answered(conn);
        break;
    case STEP_INFO:
        if (failed)
            info_failed(conn, error);
        else
            info_answered(conn);
        break;
    case STEP_DELEX:
    case STEP_DELIFEQ:
        if (failed && !conn->native && error_reply_is_wrong_arity(error))
            conn->deleter = step == STEP_DELEX ? COMMAND_DELEX : COMMAND_DELIFEQ;
        break;
    case STEP_SUBSCRIBE: tracking_step(conn, failed); break;
    case STEP_FENCES:
        if (failed && !conn->native) fences_failed(conn, error);
        break;
    default:
        if (failed) script_failed(conn, commands[step], error);
        break;
    }
    if (conn->generation != generation || conn->step < conn->steps_count) return;
    if (conn_is_for_votes(conn) && conn->node->net->guarded && !conn->guarded)
        turn_guarded(conn);
    else
        node_up(conn);
}
