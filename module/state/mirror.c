/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Two ways lead to the keyspace. Within a command the module opens keys itself, which is cheap; for
 * writing only if the command is declared write. In the cron it must not: opening a key may expire
 * it, and the server then has a deletion to pass on to its replicas and its log at a moment when it
 * expects none (7.0 ends itself by an assertion). It calls commands there, which pass on what they
 * change; and only if the key would not end by itself.
 */
#include "state/mirror.h"

#include <string.h>

#include "state/clock.h"

/* Wall clock minus boot time: the highest with which a key was set. A key that was set when it was
 * higher than now outlives its lock, because the wall clock stepped back meanwhile. */
static int64_t offset_highest_ms = INT64_MIN;
enum { OFFSET_TOLERANCE_MS = 5 };

/* Absent, and open for writing; NULL: none. */
static struct server_key *open_key;
static const struct server_string *open_name;

static bool followed; /* by a replica, or one that may come back, when it was last asked */

void mirror_ask_for_replicas(struct server_ctx *ctx) {
    unsigned long long backlog; /* there is one from the first replica on */
    followed = !server_number(ctx, "replication", "repl_backlog_active", &backlog) || backlog > 0;
}

/* The module's own changes reach replicas and the append-only file only if it passes them on. */
static bool is_passed_on(void) { return followed || (node.flags & SERVER_HAS_AOF) != 0; }

static bool same(struct node_bytes a, const char *data, size_t bytes) {
    return a.bytes == bytes && (bytes == 0 || memcmp(a.data, data, bytes) == 0);
}

static struct node_bytes bytes_of_name(const struct server_string *name) {
    struct node_bytes bytes;
    bytes.data = server.StringPtrLen(name, &bytes.bytes);
    return bytes;
}

/* ---- within a command ---- */

/* Of a lock that has ended, and that is still in the table: the timer comes later, and nothing is
 * taken out while the server is paused. */
static bool is_left_over(const struct server_string *name, const char *value, size_t bytes) {
    struct node_lock lock;
    return node_look_ended(node.table, bytes_of_name(name), node.now_ms, &lock) &&
           same(lock.token, value, bytes);
}

static void look(struct server_string *name, struct node_bytes token, struct outside_key *found) {
    const int mode = SERVER_KEY_READ | (node.running == RUNS_WRITE ? SERVER_KEY_WRITE : 0);
    found->what = OUTSIDE_NONE;
    struct server_key *key = server.OpenKey(node.ctx, name, mode);
    if (!key) return;
    int type = server.KeyType(key);
    if (type != SERVER_TYPE_NONE) {
        found->what = OUTSIDE_OTHER_TYPE;
        found->left_ms = server.GetExpire(key);
    }
    if (type == SERVER_TYPE_STRING) {
        size_t bytes = 0;
        const char *value = server.StringDMA(key, &bytes, SERVER_KEY_READ);
        found->what = is_left_over(name, value, bytes) ? OUTSIDE_NONE : OUTSIDE_STRING;
        found->same_token = same(token, value, bytes);
        found->shown_bytes = bytes < sizeof found->shown ? bytes : sizeof found->shown;
        memcpy(found->shown, value, found->shown_bytes);
    }
    server.CloseKey(key);
}

const struct outside_key *mirror_look(struct server_string *name, struct node_bytes token) {
    static struct outside_key found;
    found.what = OUTSIDE_NONE;
    if (!node.mirror) return &found;
    /* If its lock has ended, its copy goes with it, and it is reserved for its first waiter. */
    if (node.running == RUNS_WRITE) node_expire_key(node.table, bytes_of_name(name), node.now_ms);
    look(name, token, &found);
    return &found;
}

const struct outside_key *mirror_look_at_copy(struct server_string *name, struct node_bytes token) {
    static struct outside_key found;
    found.what = OUTSIDE_NONE;
    if (node.mirror) look(name, token, &found);
    return &found;
}

/* A string with bytes of its own: one that is shared with the request would be copied when it is
 * compared. */
static void write_value(struct server_key *key, struct node_bytes token) {
    size_t bytes;
    if (token.bytes == 0) {
        struct server_string *empty = server.CreateString(node.ctx, "", 0);
        server.StringSet(key, empty);
        server.FreeString(node.ctx, empty);
        return;
    }
    if (server.StringTruncate(key, token.bytes) != SERVER_OK) return;
    memcpy(server.StringDMA(key, &bytes, SERVER_KEY_WRITE), token.data, token.bytes);
}

/* When a key ends that is set now. The wall clock is read once in a millisecond: a step meanwhile
 * is as one that comes right after the key was set. */
static int64_t wall_end(int64_t left_ms) {
    static int64_t offset_ms, read_ms = INT64_MIN;
    if (read_ms != node.now_ms) offset_ms = server.Milliseconds() - node.now_ms;
    read_ms = node.now_ms;
    if (offset_ms > offset_highest_ms) offset_highest_ms = offset_ms;
    return node.now_ms + left_ms + offset_ms;
}

static void set_end(struct server_key *key, int64_t left_ms, int64_t end_ms) {
    if (server.SetAbsExpire)
        server.SetAbsExpire(key, end_ms);
    else
        server.SetExpire(key, left_ms);
}

bool mirror_is_free(struct server_string *name) {
    mirror_close();
    if (!node.mirror) return true;
    open_key = server.OpenKey(node.ctx, name, SERVER_KEY_READ | SERVER_KEY_WRITE);
    open_name = name;
    bool is_free = !open_key || server.KeyType(open_key) == SERVER_TYPE_NONE;
    if (!is_free) mirror_close();
    return is_free;
}

void mirror_close(void) {
    if (open_key) server.CloseKey(open_key);
    open_key = NULL;
    open_name = NULL;
}

/* The one that mirror_is_free() left open, or a fresh one. */
static struct server_key *take_key(struct server_string *name) {
    struct server_key *key = open_key;
    if (!key || open_name != name)
        return server.OpenKey(node.ctx, name, SERVER_KEY_READ | SERVER_KEY_WRITE);
    open_key = NULL;
    open_name = NULL;
    return key;
}

void mirror_put(struct server_string *name, struct node_bytes token, int64_t left_ms) {
    if (!node.mirror) return;
    struct server_key *key = take_key(name);
    if (!key) return;
    int type = server.KeyType(key);
    bool ours = type == SERVER_TYPE_NONE;
    if (ours) {
        write_value(key, token);
    } else if (type == SERVER_TYPE_STRING) {
        size_t bytes = 0;
        const char *value = server.StringDMA(key, &bytes, SERVER_KEY_READ);
        ours = same(token, value, bytes);
    }
    int64_t end_ms = ours ? wall_end(left_ms) : 0;
    if (ours) set_end(key, left_ms, end_ms);
    server.CloseKey(key);
    if (ours && is_passed_on())
        server.Replicate(node.ctx, "SET", "sbcl", name, (const char *)token.data, token.bytes,
                         "PXAT", (long long)end_ms);
}

static bool drop_in_command(struct server_string *name, struct node_bytes token) {
    struct server_key *key = server.OpenKey(node.ctx, name, SERVER_KEY_READ | SERVER_KEY_WRITE);
    bool ours = false;
    if (!key) return false;
    if (server.KeyType(key) == SERVER_TYPE_STRING) {
        size_t bytes = 0;
        const char *value = server.StringDMA(key, &bytes, SERVER_KEY_READ);
        ours = same(token, value, bytes);
    }
    if (ours) server.DeleteKey(key);
    server.CloseKey(key);
    if (ours && is_passed_on()) server.Replicate(node.ctx, "DEL", "s", name);
    return ours;
}

/* ---- in the cron ---- */

static bool ends_by_itself(void) {
    return server.Milliseconds() - boottime_ms() >= offset_highest_ms - OFFSET_TOLERANCE_MS;
}

static bool drop_by_call(struct server_string *name, struct node_bytes token) {
    struct server_reply *reply = server.Call(node.ctx, "GET", "s", name);
    size_t bytes = 0;
    const char *value = reply ? server.CallReplyStringPtr(reply, &bytes) : NULL;
    bool ours = value && same(token, value, bytes);
    if (reply) server.FreeCallReply(reply);
    if (!ours) return false;
    reply = server.Call(node.ctx, "DEL", "!s", name);
    if (reply) server.FreeCallReply(reply);
    return true;
}

void mirror_signalled(struct server_string *name) {
    enum { LOOKS_UP_SINCE = 0x00080600 };
    if (!node.mirror || node.running != RUNS_TIMER || server.GetServerVersion() < LOOKS_UP_SINCE)
        return;
    struct server_reply *reply = server.Call(node.ctx, "EXISTS", "s", name);
    if (reply) server.FreeCallReply(reply);
}

bool mirror_needs_cron(void) { return node.mirror && !ends_by_itself(); }

bool mirror_drop(struct server_string *name, struct node_bytes token) {
    if (!node.mirror) return false;
    if (node.running == RUNS_WRITE) return drop_in_command(name, token);
    return node.running == RUNS_CRON && !ends_by_itself() && drop_by_call(name, token);
}
