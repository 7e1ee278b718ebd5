/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A native node: what the module does with its locks, and with the plain keys next to them. Each
 * lock has a copy among the keys, so that the clients of other projects see it, and a key that is
 * not such a copy is a lock of theirs. The copies decide nothing: a lock stands without its copy.
 */
#include <string.h>

#include "nodes.h"

static bool equal(struct node_bytes a, struct node_bytes b) {
    return a.data && b.data && a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static bool is_held(struct server *server, struct node_bytes key) {
    struct node_lock lock;
    return node_look(server->own, key, server_now_ms(server), &lock);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Locks, record and fences end with the process, whatever its keys do. The keys show what is there
 * before and after where the node changes its kind. */
void native_begin(struct server *server, bool native) {
    const bool changes = server->native != native;
    if (server->native) {
        node_flush_all(server->own); /* reported as lost */
        node_table_free(server->own);
        server->own = NULL;
    }
    server->native = native;
    if (native) server->own = server_table_of(server, true);
    server->table = native ? server->own : server->keys;
    server->ends_at = RL_NEVER;
    turns_begin(server, native);
    if (changes) server_write(server, HISTORY_NODE_NATIVE, native);
}

/* ---- copies among the keys ------------------------------------------------------------------- */

/* A key of the same name that is not the copy is left alone. */
static void copy(struct server *server, struct node_bytes key, struct node_bytes token,
                 int64_t expires_ms) {
    const int64_t wall_ms = server_wall_ms(server), left_ms = expires_ms - server_now_ms(server);
    if (left_ms <= 0) return;
    if (node_pttl(server->keys, key, wall_ms) == -2)
        (void)node_set(server->keys, key, token, left_ms, wall_ms);
    else if (equal(node_get(server->keys, key, wall_ms), token))
        (void)node_pexpire(server->keys, key, left_ms, wall_ms);
}

/* A replica changes no key; and a process that ends cannot. */
void native_changed(struct server *server, enum node_change change, struct node_bytes key,
                    struct node_bytes token, int64_t expires_ms) {
    if (server->replica || change == NODE_CHANGE_LOST) return;
    if (change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED)
        copy(server, key, token, expires_ms);
    else
        (void)node_release(server->keys, &key, 1, token, server_wall_ms(server));
}

/* After an extension, which may not have moved the end: copies that are missing are made again. */
void native_copy(struct server *server, const struct node_request *what) {
    for (size_t i = 0; i < what->count; i++) {
        struct node_lock lock;
        if (node_look(server->own, what->keys[i], what->now_ms, &lock))
            copy(server, lock.key, lock.token, lock.expires_ms);
    }
}

/* ---- keys without a lock --------------------------------------------------------------------- */

/* The lock of a client of another project; or our own, from before the server was a native node or
 * was restarted: it refuses us as well, until it is adopted or ends. */
bool native_is_anothers(struct server *server, const struct node_request *what) {
    const int64_t wall_ms = server_wall_ms(server);
    for (size_t i = 0; i < what->count; i++)
        if (!is_held(server, what->keys[i]) &&
            node_pttl(server->keys, what->keys[i], wall_ms) != -2)
            return true;
    return false;
}

/* Classic mode: a key that holds the token and has no lock becomes one, to be extended. */
void native_adopt(struct server *server, const struct node_request *what, int64_t ttl_ms) {
    const int64_t wall_ms = server_wall_ms(server);
    for (size_t i = 0; i < what->count; i++) {
        const struct node_bytes key = what->keys[i];
        if (is_held(server, key) || !equal(node_get(server->keys, key, wall_ms), what->token))
            continue;
        const int64_t left_ms = node_pttl(server->keys, key, wall_ms);
        (void)node_set(server->own, key, what->token, left_ms > 0 ? left_ms : ttl_ms, what->now_ms);
    }
}

/* The lock, and a key that holds the token and has none. */
enum node_answer native_release(struct server *server, const struct node_request *what) {
    bool deleted = false;
    for (size_t i = 0; i < what->count; i++)
        if (!is_held(server, what->keys[i]))
            deleted |= node_release(server->keys, &what->keys[i], 1, what->token,
                                    server_wall_ms(server)) == NODE_GRANTED;
    enum node_answer answer =
        node_release(server->own, what->keys, what->count, what->token, what->now_ms);
    return answer == NODE_ABSENT && deleted ? NODE_GRANTED : answer;
}

int64_t native_pttl(struct server *server, struct node_bytes key) {
    if (is_held(server, key)) return node_pttl(server->own, key, server_now_ms(server));
    return node_pttl(server->keys, key, server_wall_ms(server));
}

/* What an acquisition that is denied hears: the token of the key that ends last, and its time. */
void native_deny(struct server *server, struct message *request) {
    for (unsigned i = 0; i < request->keys_count && request->reply.remaining_ms != -1; i++) {
        const struct node_bytes key = resource_key(request->keys[i]);
        const int64_t left_ms = native_pttl(server, key);
        if (left_ms != -1 && left_ms <= request->reply.remaining_ms) continue;
        const struct node_bytes token = native_get(server, key);
        request->reply.remaining_ms = left_ms;
        request->reply.value =
            token_number(&server->world->tokens, (struct net_bytes){token.data, token.bytes});
    }
}

unsigned native_bar_slots(struct server *server, struct node_slot_request *what, int64_t *left_ms) {
    const int64_t wall_ms = server_wall_ms(server);
    unsigned other = 0;
    *left_ms = -1;
    for (unsigned slot = 1; slot <= NODE_SLOTS_MAX; slot++) {
        const struct node_bytes key = what->names[slot - 1];
        const int64_t left = is_held(server, key) ? -2 : node_pttl(server->keys, key, wall_ms);
        if (left == -2) continue;
        const unsigned count = node_slot_count(node_get(server->keys, key, wall_ms));
        if (count != 0 && count != what->count) other = count;
        if (slot > what->count) continue;
        what->barred |= UINT64_C(1) << (slot - 1);
        if (left >= 0 && (*left_ms < 0 || left < *left_ms)) *left_ms = left;
    }
    return other;
}

struct node_bytes native_get(struct server *server, struct node_bytes key) {
    if (is_held(server, key)) return node_get(server->own, key, server_now_ms(server));
    return node_get(server->keys, key, server_wall_ms(server));
}

/* ---- shared locks ---------------------------------------------------------------------------- */

/* The key of a writer that becomes a reader: the marker takes its place among the keys too. */
static enum node_answer extend_place(struct server *server, const struct node_request *what,
                                     const struct node_share *share) {
    enum node_answer answer = turns_share_extend(server, share);
    if (answer != NODE_GRANTED) return answer;
    (void)node_release(server->keys, what->keys, 1, share->reader, server_wall_ms(server));
    native_copy(server, what);
    return answer;
}

/* Readers hold the lock, and a client of another project has its key meanwhile: their copy ended by
 * the wall clock, or was deleted. Those that are there stay; nobody joins them. */
static bool copy_is_anothers(struct server *server, const struct node_share *share) {
    const struct node_bytes marker = {NODE_SHARED_MARKER, sizeof(NODE_SHARED_MARKER) - 1};
    const int64_t now_ms = server_now_ms(server), wall_ms = server_wall_ms(server);
    if (!node_is_shared(server->own, share->key, now_ms) ||
        node_share_is_listed(server->own, share->key, share->reader, now_ms))
        return false;
    return node_pttl(server->keys, share->key, wall_ms) != -2 &&
           !equal(node_get(server->keys, share->key, wall_ms), marker);
}

enum node_answer native_share(struct server *server, struct message *request,
                              const struct node_share *share) {
    const struct node_request what = node_request(server, request);
    if (request->op == NET_SHARE) {
        if (native_is_anothers(server, &what) || copy_is_anothers(server, share))
            return NODE_DENIED;
        enum node_answer answer = turns_share(server, request, share);
        if (answer == NODE_GRANTED) native_copy(server, &what);
        return answer;
    }
    if (request->op == NET_SHARE_EXTEND) return extend_place(server, &what, share);
    const bool held = is_held(server, share->key);
    enum node_answer answer = node_share_release(server->own, share, what.now_ms);
    if (answer != NODE_ABSENT || held) return answer;
    return node_release(server->keys, &share->key, 1, share->reader, server_wall_ms(server));
}
