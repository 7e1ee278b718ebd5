/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What servers report about themselves, for people to judge: no lock depends on it. */
#include <ctype.h>
#include <string.h>

#include "abi/sized.h"
#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "look.h"

struct server_info {
    struct ask ask;
    struct redlock_server seen[REDLOCK_NODES_MAX];
    struct net_bytes key; /* a name that no client uses, for questions about permissions */
};

static const char nothing[] = "redlock:doctor";

static const struct redlock_server unknown = {.verdict = REDLOCK_VERDICT_NONE,
                                              .asked_ns = -1,
                                              .answered_ns = -1,
                                              .clock_us = -1,
                                              .uptime_s = -1,
                                              .replicas = -1,
                                              .loading = -1,
                                              .writes_refused = -1,
                                              .replicas_lacking = -1,
                                              .memory_bytes = -1,
                                              .memory_bytes_max = -1,
                                              .append_only = -1,
                                              .snapshots = -1,
                                              .clients = -1,
                                              .clients_max = -1,
                                              .protected_mode = -1,
                                              .bind_known = -1,
                                              .tcp_port = -1,
                                              .announces = -1,
                                              .stale = -1,
                                              .native = -1,
                                              .mirror = -1,
                                              .fsync_pauses = -1};

/* ---- reading answers: text from servers, of any length ---- */

/* -1 if it is not a number that fits. */
static int64_t number_of(struct net_bytes bytes) {
    uint64_t number;
    return net_read_number(bytes, INT64_MAX, &number) ? (int64_t)number : -1;
}

static int yes_or_no(struct net_bytes bytes) {
    return net_is_text(bytes, "yes") ? 1 : net_is_text(bytes, "no") ? 0 : -1;
}

static void read_server(struct redlock_server *seen, struct net_bytes info) {
    bool valkey = net_info_field(info, "valkey_version").data != NULL;
    copy_text(net_info_field(info, "redis_version"), seen->redis_version,
              sizeof seen->redis_version);
    const char *version = valkey ? "valkey_version" : "redis_version";
    copy_text(net_info_field(info, version), seen->version, sizeof seen->version);
    if (seen->version[0] != '\0')
        memcpy(seen->server, valkey ? "valkey" : "redis",
               valkey ? sizeof "valkey" : sizeof "redis");
    copy_text(net_info_field(info, "run_id"), seen->run_id, sizeof seen->run_id);
    seen->tcp_port = number_of(net_info_field(info, "tcp_port"));
    seen->uptime_s = number_of(net_info_field(info, "uptime_in_seconds"));
}

static void read_replication(struct redlock_server *seen, struct net_bytes info) {
    struct net_bytes role = net_info_field(info, "role");
    if (net_is_text(role, "master")) seen->role = REDLOCK_ROLE_MASTER;
    if (net_is_text(role, "slave") || net_is_text(role, "replica"))
        seen->role = REDLOCK_ROLE_REPLICA;
    int64_t replicas = number_of(net_info_field(info, "connected_slaves"));
    seen->replicas = replicas > INT32_MAX ? -1 : (int)replicas;
    /* reported only where a number of them is required */
    if (role.data)
        seen->replicas_lacking = net_is_text(net_info_field(info, "min_slaves_good_slaves"), "0");
}

/* A failed append always makes the server refuse writes: 2. A failed snapshot, 1, does so only with
 * snapshots on and stop-writes-on-bgsave-error, the default. That is asked later and decided
 * there. */
static void read_persistence(struct redlock_server *seen, struct net_bytes info) {
    struct net_bytes snapshot = net_info_field(info, "rdb_last_bgsave_status");
    int64_t loading = number_of(net_info_field(info, "loading"));
    int64_t append_only = number_of(net_info_field(info, "aof_enabled"));
    seen->loading = loading < 0 ? -1 : loading > 0;
    seen->append_only = append_only < 0 ? -1 : append_only > 0;
    seen->writes_refused = snapshot.data ? net_is_text(snapshot, "err") : -1;
    if (net_is_text(net_info_field(info, "aof_last_write_status"), "err")) seen->writes_refused = 2;
}

/* `value`: a section of INFO, or a value of CONFIG. */
static void read_value(struct redlock_server *seen, enum net_question question,
                       struct net_bytes value) {
    switch (question) {
    case NET_ASK_INFO_SERVER: read_server(seen, value); break;
    case NET_ASK_INFO_REPLICATION: read_replication(seen, value); break;
    case NET_ASK_INFO_MEMORY:
        seen->memory_bytes = number_of(net_info_field(value, "used_memory"));
        seen->memory_bytes_max = number_of(net_info_field(value, "maxmemory"));
        copy_text(net_info_field(value, "maxmemory_policy"), seen->eviction, sizeof seen->eviction);
        break;
    case NET_ASK_INFO_PERSISTENCE: read_persistence(seen, value); break;
    case NET_ASK_INFO_CLIENTS:
        seen->clients = number_of(net_info_field(value, "connected_clients"));
        seen->clients_max = number_of(net_info_field(value, "maxclients")); /* from version 7 on */
        break;
    case NET_ASK_POLICY: copy_text(value, seen->eviction, sizeof seen->eviction); break;
    case NET_ASK_APPENDONLY: seen->append_only = yes_or_no(value); break;
    case NET_ASK_APPENDFSYNC:
        copy_text(value, seen->append_fsync, sizeof seen->append_fsync);
        break;
    case NET_ASK_FSYNC_PAUSES: seen->fsync_pauses = yes_or_no(value); break;
    case NET_ASK_SAVE: seen->snapshots = value.bytes > 0; break;
    case NET_ASK_STOP_WRITES:
        if (seen->writes_refused == 1 && (seen->snapshots == 0 || yes_or_no(value) == 0))
            seen->writes_refused = 0;
        break;
    case NET_ASK_PROTECTED: seen->protected_mode = yes_or_no(value); break;
    case NET_ASK_BIND:
        copy_text(value, seen->bind, sizeof seen->bind);
        seen->bind_known = 1;
        break;
    case NET_ASK_MAXCLIENTS: seen->clients_max = number_of(value); break;
    default: break;
    }
}

static int refusal_of(enum net_question question) {
    if (question == NET_ASK_TIME) return REDLOCK_SERVER_INFO_NO_TIME;
    return question <= NET_ASK_INFO_CLIENTS ? REDLOCK_SERVER_INFO_NO_INFO
                                            : REDLOCK_SERVER_INFO_NO_CONFIG;
}

static void take_answer(struct redlock_server *seen, enum net_question question,
                        const struct net_reply *reply) {
    const size_t items = question <= NET_ASK_INFO_CLIENTS ? 1 : 2; /* CONFIG: key and value */
    if (question == NET_ASK_QUORUM) {
        if (reply->items_count == 1) copy_text(reply->items[0], seen->quorum, sizeof seen->quorum);
    } else if (question == NET_ASK_TIME) {
        seen->clock_us = rates_wall_us(reply);
    } else if (reply->items_count == items) {
        read_value(seen, question, reply->items[items - 1]);
    } else { /* a key that this server does not know */
        seen->refused |= refusal_of(question);
    }
}

/* ---- asking ---- */

/* The command, without its arguments and in lower case. */
static void add_denied(char *list, size_t size, const char *text) {
    size_t at = strlen(list);
    if (at > 0 && at + 1 < size) list[at++] = ' ';
    for (; *text && *text != ' ' && at + 1 < size; text++)
        list[at++] = (char)tolower((unsigned char)*text);
    list[at] = '\0';
}

/* A denied key says nothing: the user may have a pattern for each of its locks. */
static void take_permission(struct redlock_server *seen, bool native, enum net_question question,
                            const struct net_reply *reply) {
    const struct net_permission *permission =
        net_permission(native, (unsigned)(question - NET_ASK_MAY));
    if (!permission || reply->verdict != REDLOCK_VERDICT_NOPERM || reply->denied[0] == '\0') return;
    if (permission->use == NET_MAY_OTHER)
        add_denied(seen->denied_others, sizeof seen->denied_others, permission->text);
    else
        add_denied(seen->denied, sizeof seen->denied, permission->text);
}

static bool on_answer(struct question *asked, unsigned node, const struct net_reply *reply) {
    struct redlock_client *client = asked->ask->client;
    struct redlock_server *seen = &RL_CONTAINER(asked->ask, struct server_info, ask)->seen[node];
    const enum net_question question = asked->request.question;
    if (question >= NET_ASK_MAY) {
        take_permission(seen, client_status(client, node).native, question, reply);
        return false;
    }
    bool reported = reply->verdict == REDLOCK_VERDICT_GRANTED;
    /* A missing permission or a renamed command is an answer too: the server is alive. */
    bool refused =
        reply->verdict == REDLOCK_VERDICT_NOPERM || reply->verdict == REDLOCK_VERDICT_ERROR;
    if (question == NET_ASK_TIME && (reported || refused)) seen->answered_ns = net_now(client->net);
    if (reported) take_answer(seen, question, reply);
    /* the content of that key does not show anything about the server */
    if (question == NET_ASK_QUORUM)
        refused = !reported;
    else if (refused)
        seen->refused |= refusal_of(question);
    if (question != NET_ASK_QUORUM && reply->unknown[0] != '\0')
        seen->unknown |= refusal_of(question);
    if (!reported && !refused)
        seen->verdict = reply->verdict;
    else if (seen->verdict == REDLOCK_VERDICT_NONE)
        seen->verdict = REDLOCK_VERDICT_GRANTED;
    return false;
}

static struct server_info *server_info_new(struct redlock_client *client) {
    const size_t bytes = client->options.key_prefix_bytes + sizeof nothing;
    struct server_info *info = ask_new(client, sizeof *info, NET_QUESTIONS_ALL, bytes, on_answer);
    if (!info) return NULL;
    info->key = ask_key(&info->ask, "", (struct net_bytes){nothing, sizeof nothing - 1});
    for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) info->seen[i] = unknown;
    for (unsigned q = 0; q < NET_QUESTIONS_ALL; q++)
        info->ask.questions[q].request =
            (struct net_request){.op = NET_SERVER_INFO,
                                 .question = (enum net_question)q,
                                 .keys = &info->key,
                                 .keys_count = q < NET_ASK_MAY ? 0 : 1};
    return info;
}

static rl_mask put(struct server_info *info, unsigned q, rl_mask nodes, rl_ns until) {
    struct question *question = &info->ask.questions[q];
    return ask_send(question, nodes, &question->request, until);
}

static int stale_of(const struct rl_guard_node *node) {
    const struct rl_record *record = &node->record;
    if (!node->up || !node->stated || !node->read || !node->has_record || node->unreadable)
        return -1;
    /* its state was refused to this user */
    if (node->replid[0] == '\0' && record->replid[0] != '\0') return -1;
    if (strcmp(record->run_id, node->run_id) != 0) return REDLOCK_STALE_PROCESS;
    if (rl_record_fits(record, node->run_id, node->replid, node->evicted)) return 0;
    return (strcmp(record->replid, node->replid) != 0 ? REDLOCK_STALE_REPLICATION : 0) |
           (record->evicted != node->evicted ? REDLOCK_STALE_EVICTED : 0);
}

/* Some nodes may have answered the first questions and not the last. Their answers stay. */
static void settle_verdicts(struct server_info *info) {
    struct redlock_client *client = info->ask.client;
    for (unsigned i = 0; i < client->nodes; i++) {
        struct redlock_server *seen = &info->seen[i];
        struct net_node_status status = client_status(client, i);
        if (seen->verdict == REDLOCK_VERDICT_NONE) seen->verdict = ask_silence(client, i);
        seen->reconnects = (int64_t)status.reconnects;
        seen->scripts = status.scripts;
        memcpy(seen->last_denied, status.denied, sizeof seen->last_denied);
        memcpy(seen->last_unknown, status.unknown, sizeof seen->last_unknown);
        if (status.connected) seen->native = status.native;
        if (status.connected && status.native) {
            seen->mirror = status.mirror;
            memcpy(seen->module, status.module, sizeof seen->module);
        }
        if (seen->run_id[0] == '\0') memcpy(seen->run_id, status.run_id, sizeof seen->run_id);
        if (client->guard && status.connected) {
            seen->announces = status.announces;
            seen->stale = stale_of(&client->guard->machine.node[i]);
        }
        if (seen->redis_version[0] != '\0') continue;
        memcpy(seen->redis_version, status.version, sizeof seen->redis_version);
        memcpy(seen->version, status.version, sizeof seen->version);
    }
}

static bool is_asked(const struct redlock_client *client, const struct net_permission *permission,
                     int what) {
    if (permission->use == NET_MAY_OTHER) return what == REDLOCK_SERVER_INFO_PERMISSIONS;
    return permission->use == NET_MAY_LOCK || client->guard;
}

/* Locks with a SETNX scheme use other commands. */
static void ask_permissions(struct server_info *info, rl_mask nodes, int what, rl_ns until) {
    struct redlock_client *client = info->ask.client;
    for (unsigned row = 0; client->scheme == REDLOCK_SCHEME_SET; row++) {
        rl_mask asked = 0;
        bool more = false;
        for (unsigned i = 0; i < client->nodes; i++) {
            const struct net_permission *permission =
                net_permission(client_status(client, i).native, row);
            more = more || permission;
            if (permission && is_asked(client, permission, what)) asked |= rl_bit(i);
        }
        if (!more) break;
        put(info, NET_ASK_MAY + row, nodes & asked, until);
    }
}

/* The mutex is held. TIME goes first, so that its round trip contains nothing else. */
static void server_info_ask(struct server_info *info, rl_mask nodes, int what) {
    const unsigned questions = what == REDLOCK_SERVER_INFO_ALL ? NET_QUESTIONS : 1;
    struct redlock_client *client = info->ask.client;
    const rl_ns now = net_now(client->net), until = gather_until(client);
    for (unsigned q = 0; q < questions; q++) {
        const rl_mask taken = put(info, q, nodes, until);
        for (unsigned i = 0; q == NET_ASK_TIME && i < client->nodes; i++)
            if (taken & rl_bit(i)) info->seen[i].asked_ns = now;
    }
    if (what != REDLOCK_SERVER_INFO_CLOCK) ask_permissions(info, nodes, what, until);
    ask_wait(&info->ask);
    settle_verdicts(info);
}

int redlock_server_info(struct redlock_client *client, int what, struct redlock_server *servers,
                        size_t count) {
    if (what < REDLOCK_SERVER_INFO_CLOCK || what > REDLOCK_SERVER_INFO_PERMISSIONS)
        return REDLOCK_BAD_ARGUMENT;
    if (!client || !servers || count < client->nodes ||
        !sized_array_fits(servers, client->nodes, FIRST_SERVER))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct server_info *info = server_info_new(client);
    unsigned reported = 0;
    if (info) {
        server_info_ask(info, gather(client, gather_until(client)), what);
        for (unsigned i = 0; i < client->nodes; i++) {
            if (info->seen[i].writes_refused > 0) info->seen[i].writes_refused = 1;
            sized_fill(sized_element(servers, i), servers->size, &info->seen[i],
                       sizeof info->seen[i]);
            reported += info->seen[i].verdict == REDLOCK_VERDICT_GRANTED;
        }
        ask_unref(&info->ask);
    }
    int result = reported >= rl_quorum(client->nodes) ? REDLOCK_OK : REDLOCK_NO_QUORUM;
    if (!info) result = REDLOCK_NO_MEMORY;
    return client_leave_notifying(client, result);
}
