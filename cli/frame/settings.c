/* SPDX-License-Identifier: BSD-2-Clause */
#include "settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock.h>

#include "config/duration.h"
#include "config/file.h"
#include "process/exit_codes.h"

void settings_init(struct settings *settings) {
    *settings = (struct settings){.ttl_ms = SETTINGS_TTL_MS,
                                  .wait_ms = WAIT_UNSET,
                                  .retry_delay_ms_min = 50,
                                  .retry_delay_ms_max = 250,
                                  .conflict_exit_code = EXIT_HELD,
                                  .client = CLIENT_FIELDS_DEFAULTS,
                                  .file = {.mode = MODE_UNSET, .allow_replicas = -1},
                                  .kill_after_ms = 5000,
                                  .run = {.grace_ms = -1},
                                  .look = {.interval_ms = 2000, .samples = 10},
                                  .quorum = {.await_ms = WAIT_UNSET},
                                  .up = {.count = 5, .restart_after_ms = -1},
                                  .serve = {.socket_mode = 0600,
                                            .connections = 1000,
                                            .lock_memory_mib = 128,
                                            .client_memory_mib = 256,
                                            .busy_poll = true},
                                  .web = {.interval_ms = 15000}};
}

void settings_free(struct settings *s) {
    client_fields_free(&s->client);
    char *owned[] = {s->config,
                     s->profile,
                     s->profiles,
                     s->owner,
                     s->file.nodes,
                     s->file.quorum_id,
                     s->lock.token,
                     s->lock.reason,
                     s->run.command,
                     s->run.status_file,
                     s->run.metrics_file,
                     s->quorum.write_config,
                     s->up.dir,
                     s->up.server,
                     s->up.module,
                     s->serve.listen,
                     s->serve.password_file,
                     s->serve.metrics,
                     s->web.listen};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

_Static_assert(offsetof(struct settings, client) == 0, "its setters are those of client_fields.h");

#define SETTER(name) OPTION_SETTER(settings, name)
#define SETTER_TEXT(name, field) OPTION_SETTER_TEXT(settings, name, field)
#define SETTER_FLAG(name, field, to) OPTION_SETTER_FLAG(settings, name, field, to)

SETTER(set_listen) { return option_list(&s->serve.listen, value, error, size); }
SETTER_TEXT(set_token, lock.token)
SETTER_TEXT(set_status_file, run.status_file)
SETTER_TEXT(set_metrics_file, run.metrics_file)
SETTER_TEXT(set_dir, up.dir)
SETTER_TEXT(set_server, up.server)
SETTER_TEXT(set_module, up.module)
SETTER_TEXT(set_reason, lock.reason)
SETTER_TEXT(set_password_file, serve.password_file)
SETTER_TEXT(set_metrics, serve.metrics)
SETTER_TEXT(set_web_listen, web.listen)
SETTER_TEXT(set_command, run.command)
SETTER_TEXT(set_write_config, quorum.write_config)
SETTER_FLAG(set_force, quorum.force, true)
SETTER_FLAG(set_native, up.native, true)
SETTER(set_profile) {
    if (!is_profile_name(value)) {
        snprintf(error, size, "'%.60s' is not the name of a profile (" PROFILE_NAME_RULE ")",
                 value);
        return -1;
    }
    s->file_first = true;
    return option_text(&s->profile, value, error, size);
}
SETTER(set_config) {
    if (value[0] == '\0') {
        snprintf(error, size, "'' names no file");
        return -1;
    }
    s->file_first = true;
    return option_text(&s->config, value, error, size);
}
SETTER_FLAG(set_nonblock, wait_ms, 0)
SETTER_FLAG(set_quiet, quiet, true)
SETTER_FLAG(set_verbose, verbose, true)
SETTER_FLAG(set_json, json, true)
SETTER_FLAG(set_tokens, look.tokens, true)
SETTER_FLAG(set_all, look.all, true)
SETTER_FLAG(set_help, help, true)
SETTER_FLAG(set_once, once, true)
SETTER_FLAG(set_confirm, confirm, true)
SETTER_FLAG(set_shared, shared, true)
SETTER_FLAG(set_leave_behind, run.leave_behind, true)
SETTER_FLAG(set_never_used, quorum.never_used, true)
SETTER_FLAG(set_yes, yes, true)
SETTER_FLAG(set_no_syslog, lock.no_syslog, true)
SETTER_FLAG(set_any_value, lock.any_value, true)
SETTER(set_ttl) { return option_ttl(&s->ttl_ms, value, error, size); }
SETTER(set_wait) {
    if (strcmp(value, "forever") == 0) {
        s->wait_ms = REDLOCK_WAIT_FOREVER;
        return 0;
    }
    return option_duration(&s->wait_ms, value, 0, DURATION_MS_MAX, "", error, size);
}
SETTER(set_kill_after) {
    return option_duration(&s->kill_after_ms, value, 0, REDLOCK_TTL_MS_MAX,
                           "--kill-after is from 0 to 24h", error, size);
}
SETTER(set_grace) {
    return option_duration(&s->run.grace_ms, value, 0, REDLOCK_TTL_MS_MAX,
                           "--grace is from 0 to 24h", error, size);
}
SETTER(set_max_hold) {
    return option_duration(&s->run.max_hold_ms, value, REDLOCK_TTL_MS_MIN, DURATION_MS_MAX,
                           "a maximum hold is at least 10ms", error, size);
}
SETTER(set_min_hold) {
    return option_duration(&s->run.min_hold_ms, value, 0, DURATION_MS_MAX, "", error, size);
}
SETTER(set_restart_after) {
    return option_duration(&s->up.restart_after_ms, value, 0, REDLOCK_TTL_MS_MAX,
                           "--restart-after is from 0 to 24h", error, size);
}
SETTER(set_slots) { return option_number(&s->slots, value, 1, REDLOCK_SLOTS_MAX, error, size); }
SETTER(set_conflict) { return option_number(&s->conflict_exit_code, value, 0, 255, error, size); }
SETTER(set_fence) { return option_number(&s->fence, value, 1, REDLOCK_FENCE_MAX, error, size); }
int settings_fence(struct settings *settings, const char *value, char *error, size_t error_size) {
    return set_fence(settings, value, error, error_size);
}
SETTER(set_count) { return option_number(&s->up.count, value, 1, REDLOCK_NODES_MAX, error, size); }
SETTER(set_floor) {
    return option_number(&s->quorum.floor, value, 1, REDLOCK_FENCE_MAX, error, size);
}
SETTER(set_connections) {
    return option_number(&s->serve.connections, value, 1, 100000, error, size);
}
SETTER(set_lock_memory) {
    return option_number(&s->serve.lock_memory_mib, value, 1, 1048576, error, size);
}
SETTER(set_client_memory) {
    return option_number(&s->serve.client_memory_mib, value, 1, 1048576, error, size);
}
SETTER(set_socket_mode) {
    char *end = NULL;
    unsigned long mode = strtoul(value, &end, 8);
    if (value[0] < '0' || value[0] > '7' || *end != '\0' || mode > 0777) {
        snprintf(error, size, "'%.60s' is not a file mode such as 0600", value);
        return -1;
    }
    s->serve.socket_mode = (int64_t)mode;
    return 0;
}
SETTER(set_samples) { return option_number(&s->look.samples, value, 1, 1000, error, size); }
SETTER(set_watch) {
    s->look.watch_ms = 5000;
    if (value == NULL) return 0;
    return option_duration(&s->look.watch_ms, value, 100, REDLOCK_TTL_MS_MAX,
                           "--watch is from 100ms to 24h", error, size);
}
SETTER(set_show_watch) {
    s->look.watch_ms = 2000;
    return value != NULL ? set_watch(s, value, error, size) : 0;
}

SETTER(set_interval) {
    return option_duration(&s->look.interval_ms, value, 200, 60000,
                           "--interval is from 200ms to 60s", error, size);
}

SETTER(set_scrape_interval) {
    return option_duration(&s->web.interval_ms, value, 1000, 3600000, "--interval is from 1s to 1h",
                           error, size);
}

SETTER(set_ttl_max) {
    return option_duration(&s->ttl_max_ms, value, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX,
                           "a ttl_max is from 10ms to 24h", error, size);
}
SETTER(set_await) {
    s->quorum.await_ms = REDLOCK_WAIT_FOREVER;
    if (value == NULL || strcmp(value, "forever") == 0) return 0;
    return option_duration(&s->quorum.await_ms, value, 0, DURATION_MS_MAX, "", error, size);
}
/* For servers that the command starts itself, whose settings are known. */
SETTER(set_up_mode) {
    int mode = mode_named(value);
    if (mode != REDLOCK_MODE_CLASSIC && mode != REDLOCK_MODE_GUARDED) {
        snprintf(error, size, "'%.60s' is neither classic nor guarded", value);
        return -1;
    }
    s->client.mode = mode;
    return 0;
}

SETTER(set_page) { return option_yes_or_no(value, &s->web.page, error, size); }
SETTER(set_owner) {
    if (strlen(value) > REDLOCK_OWNER_BYTES_MAX) {
        snprintf(error, size, "an owner is at most %d bytes long, not %zu", REDLOCK_OWNER_BYTES_MAX,
                 strlen(value));
        return -1;
    }
    return option_text(&s->owner, value, error, size);
}

SETTER(set_on_lost) {
    if (strcmp(value, "term") != 0 && strcmp(value, "ignore") != 0) {
        snprintf(error, size, "'%.60s' is neither term nor ignore", value);
        return -1;
    }
    s->run.on_lost_ignore = value[0] == 'i';
    return 0;
}

SETTER(set_busy_poll) { return option_yes_or_no(value, &s->serve.busy_poll, error, size); }

/* In the order of enum serve_scripts. */
SETTER(set_scripts) {
    static const char *const names[] = {"confined", "unconfined", "known"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) != 0) continue;
        s->serve.scripts = i;
        return 0;
    }
    snprintf(error, size, "'%.60s' is not confined, unconfined or known", value);
    return -1;
}

SETTER(set_retry_delay) {
    char least[64];
    const char *dash = strchr(value, '-');
    if (dash == NULL || (size_t)(dash - value) >= sizeof least) {
        snprintf(error, size, "'%.60s' is not a range of durations; write it as 50ms-250ms", value);
        return -1;
    }
    memcpy(least, value, (size_t)(dash - value));
    least[dash - value] = '\0';
    int64_t from = 0, to = 0;
    if (duration_parse(least, &from, error, size) != 0 ||
        duration_parse(dash + 1, &to, error, size) != 0)
        return -1;
    if (from < 1 || from > to || to > 60000) {
        snprintf(error, size, "'%.60s' is out of range: from 1ms to 60s, the lesser first", value);
        return -1;
    }
    s->retry_delay_ms_min = from;
    s->retry_delay_ms_max = to;
    return 0;
}

#define TAKERS (COMMAND_RUN | COMMAND_ACQUIRE)
#define WAITERS (TAKERS | COMMAND_WAIT)
#define LOCKERS (TAKERS | COMMAND_EXTEND | COMMAND_RELEASE)
#define CLIENTS                                                                                    \
    (LOCKERS | COMMAND_SHOW | COMMAND_BREAK | COMMAND_WAIT | COMMAND_TOP | COMMAND_SERVE |         \
     COMMAND_ELECT | COMMAND_WATCH | COMMAND_EXPORTER | COMMAND_BEFORE)
#define ASKERS (CLIENTS | COMMAND_DOCTOR | COMMAND_QUORUM)
#define ALL (ASKERS | COMMAND_UP | COMMAND_GATE)

static const struct option_entry entries[] = {
    {"nodes", 'N', "URL[,URL...]", ASKERS, client_field_nodes, "the nodes; may be repeated"},
    {"config", 0, "FILE", ASKERS, set_config, "the configuration file (/etc/redlock.conf)"},
    {"profile", 0, "NAME", ASKERS, set_profile, "use the section [NAME] of the configuration file"},
    {"mode", 0, "MODE", ASKERS, client_field_mode, "auto, single, classic or guarded (auto)"},
    {"quorum", 0, "ID", ASKERS, client_field_quorum,
     "guarded: the quorum; nodes of others never count"},
    {"allow-replicas", 0, NULL, ASKERS, client_field_allow_replicas,
     "guarded: masters that have replicas may vote"},
    {"mode", 0, "MODE", COMMAND_UP, set_up_mode, "classic or guarded (guarded)"},
    {"ttl", 't', "DURATION", TAKERS | COMMAND_ELECT | COMMAND_EXTEND, set_ttl,
     "time to live of the lock (30s)"},
    {"ttl", 't', "DURATION", COMMAND_SERVE, set_ttl,
     "time to live of a lock that SETNX takes (30s)"},
    {"wait", 'w', "DURATION", TAKERS, set_wait,
     "how long to try; 0: once (run: forever, acquire: 0)"},
    {"wait", 'w', "DURATION", COMMAND_WAIT, set_wait, "how long to wait; 0: look once (forever)"},
    {"nonblock", 'n', NULL, WAITERS, set_nonblock, "the same as --wait 0"},
    {"conflict-exit-code", 'E', "STATUS", WAITERS, set_conflict,
     "exit status when held by another (75)"},
    {"timeout", 0, "DURATION", WAITERS, set_wait, "the same as --wait"},
    {"command", 'c', "LINE", COMMAND_RUN, set_command,
     "run this line by the shell, in place of COMMAND"},
    {"owner", 'o', "TEXT", TAKERS, set_owner, "shown by redlock show (HOST:PID)"},
    {"slots", 0, "K", TAKERS, set_slots, "take one of K slots of the resource"},
    {"slots", 0, "K", COMMAND_SHOW, set_slots, "show the K slots of each RESOURCE"},
    {"id", 0, "ADDRESS", COMMAND_ELECT, set_owner, "what observers see of the leader (HOST:PID)"},
    {"confirm", 0, NULL, TAKERS | COMMAND_ELECT | COMMAND_SERVE, set_confirm,
     "guarded: ask a majority once more before the lock counts"},
    {"shared", 0, NULL, LOCKERS, set_shared,
     "a shared lock: readers hold it together, and exclude others"},
    {"retry-delay", 0, "MIN-MAX", TAKERS | COMMAND_ELECT, set_retry_delay,
     "random delay before a retry (50ms-250ms)"},
    {"token", 0, "TOKEN", COMMAND_EXTEND | COMMAND_RELEASE, set_token,
     "the token; others can see it: prefer REDLOCK_TOKEN or -"},
    {"max-hold", 0, "DURATION", COMMAND_RUN, set_max_hold,
     "give up the lock this long after taking it"},
    {"min-hold", 0, "DURATION", COMMAND_RUN, set_min_hold,
     "the lock stays held this long, even if COMMAND ends before"},
    {"kill-after", 'k', "DURATION", COMMAND_RUN | COMMAND_ELECT, set_kill_after,
     "time from TERM to KILL (5s)"},
    {"grace", 'g', "DURATION", COMMAND_RUN | COMMAND_ELECT, set_grace,
     "send TERM this long before validity ends (kill-after + 1s)"},
    {"on-lost", 0, "ACTION", COMMAND_RUN, set_on_lost,
     "term: end the command; ignore: let it run (term)"},
    {"leave-behind", 0, NULL, COMMAND_RUN | COMMAND_ELECT, set_leave_behind,
     "release the lock when COMMAND ends; what it has started may go on"},
    {"status-file", 0, "FILE", COMMAND_RUN | COMMAND_ELECT, set_status_file,
     "write the outcome to this file as JSON"},
    {"metrics-file", 0, "FILE", COMMAND_RUN, set_metrics_file,
     "keep metrics of this run there, for node_exporter's textfile collector"},
    {"fence", 0, "N", COMMAND_GATE | COMMAND_EXTEND, set_fence,
     "the fencing token (REDLOCK_FENCE)"},
    {"ttl-max", 0, "DURATION", COMMAND_QUORUM, set_ttl_max,
     "init: the longest TTL, and how long a node waits to return"},
    {"ttl-max", 0, "DURATION", COMMAND_UP, set_ttl_max,
     "the longest TTL, and how long a node waits to return (60s)"},
    {"floor", 0, "N", COMMAND_QUORUM, set_floor, "init: fencing tokens begin above this"},
    {"never-used", 0, NULL, COMMAND_QUORUM, set_never_used,
     "init: no lock was ever held on these servers: ready at once"},
    {"write-config", 0, "FILE", COMMAND_QUORUM, set_write_config,
     "init: write a configuration file for the clients"},
    {"force", 0, NULL, COMMAND_QUORUM, set_force, "init: --write-config may replace a file"},
    {"wait", 0, "[DURATION]", COMMAND_QUORUM, set_await,
     "status: return when all members are intact"},
    {"yes", 'y', NULL, COMMAND_QUORUM | COMMAND_BREAK, set_yes, "do not ask"},
    {"reason", 0, "TEXT", COMMAND_BREAK, set_reason, "why the lock is broken; it is logged"},
    {"no-syslog", 0, NULL, COMMAND_BREAK, set_no_syslog,
     "log on standard error only, not in the system log"},
    {"any-value", 0, NULL, COMMAND_BREAK, set_any_value,
     "also a value without a TTL that has no token's form"},
    {"count", 'n', "N", COMMAND_UP, set_count, "how many servers (5)"},
    {"dir", 'd', "DIR", COMMAND_UP, set_dir, "keep the servers' files there; absent or empty"},
    {"server", 0, "FILE", COMMAND_UP, set_server,
     "the server program (redis-server, else valkey-server)"},
    {"native", 0, NULL, COMMAND_UP, set_native,
     "native lock nodes: the servers load the module redlock.so"},
    {"module", 0, "FILE", COMMAND_UP, set_module, "native: this module, not the installed one"},
    {"restart-after", 0, "DURATION", COMMAND_UP, set_restart_after,
     "restart a server this long after it died"},
    {"listen", 0, "ADDRESS[,...]", COMMAND_SERVE, set_listen,
     "unix:///PATH or HOST:PORT; may be repeated"},
    {"socket-mode", 0, "MODE", COMMAND_SERVE, set_socket_mode,
     "file mode of the Unix sockets (0600)"},
    {"password-file", 0, "FILE", COMMAND_SERVE, set_password_file,
     "clients must send the password in its first line"},
    {"connections", 0, "N", COMMAND_SERVE, set_connections, "how many clients at once (1000)"},
    {"client-memory", 0, "MIB", COMMAND_SERVE, set_client_memory,
     "memory for what clients send and do not read (256)"},
    {"lock-memory", 0, "MIB", COMMAND_SERVE, set_lock_memory,
     "memory for the locks it remembers (128)"},
    {"metrics", 0, "HOST:PORT", COMMAND_SERVE, set_metrics, "serve /metrics for Prometheus there"},
    {"listen", 0, "HOST:PORT", COMMAND_EXPORTER, set_web_listen,
     "where to serve /metrics for Prometheus (127.0.0.1:16390)"},
    {"page", 0, NULL, COMMAND_SERVE | COMMAND_EXPORTER, set_page,
     "also serve a page that shows nodes and locks to a browser"},
    {"busy-poll", 0, "yes|no", COMMAND_SERVE, set_busy_poll,
     "stay awake for 0.1 ms after a message, for the next (yes)"},
    {"scripts", 0, "WHICH", COMMAND_SERVE, set_scripts,
     "run scripts that are confined, unconfined, or only known ones (confined)"},
    {"prefix", 'p', "TEXT", CLIENTS | COMMAND_DOCTOR, client_field_prefix,
     "prefix that makes a key of every resource"},
    {"node-timeout", 0, "DURATION", ASKERS, client_field_node_timeout,
     "wait for one node (ttl/20, at most 50ms)"},
    {"connect-timeout", 0, "DURATION", ASKERS, client_field_connect_timeout,
     "wait for a connection to a node (1s)"},
    {"node-user", 0, "NAME", ASKERS, client_field_node_user,
     "the user at nodes whose URL has no password (default)"},
    {"node-password-file", 0, "FILE", ASKERS, client_field_node_password_file,
     "the password of such nodes is its first line"},
    {"node-password-command", 0, "LINE", ASKERS, client_field_node_password_command,
     "or the first line that this line of the shell prints"},
    {"tls-ca-file", 0, "FILE", ASKERS, client_field_tls_ca_file,
     "certificates to trust for rediss://"},
    {"tls-cert-file", 0, "FILE", ASKERS, client_field_tls_cert_file, "client certificate"},
    {"tls-key-file", 0, "FILE", ASKERS, client_field_tls_key_file, "its private key"},
    {"tls-server-name", 0, "NAME", ASKERS, client_field_tls_server_name,
     "name to verify instead of the URL's host"},
    {"samples", 0, "N", COMMAND_DOCTOR, set_samples,
     "how often to ask for the time, 100ms apart (10)"},
    {"watch", 0, "[INTERVAL]", COMMAND_SHOW, set_show_watch,
     "look again and again; show what changes, until ^C (2s)"},
    {"watch", 0, "[INTERVAL]", COMMAND_DOCTOR, set_watch, "examine again and again (5s)"},
    {"all", 'a', NULL, COMMAND_SHOW, set_all,
     "every reader of a shared lock; without RESOURCE: every string with a TTL, not locks alone"},
    {"all", 'a', NULL, COMMAND_TOP, set_all, "every string, not locks alone"},
    {"interval", 'i', "DURATION", COMMAND_TOP, set_interval, "from one look to the next (2s)"},
    {"interval", 'i', "DURATION", COMMAND_EXPORTER, set_scrape_interval,
     "how often Prometheus scrapes; the nodes are asked no more often (15s)"},
    {"once", '1', NULL, COMMAND_TOP, set_once, "print one look as text, or as JSON"},
    {"once", '1', NULL, COMMAND_ELECT, set_once, "do not campaign again after a loss"},
    {"once", '1', NULL, COMMAND_WATCH, set_once,
     "report once: exit 0 for a leader, 75 for none, 69 if unknown"},
    {"tokens", 0, NULL, COMMAND_SHOW, set_tokens, "show whole tokens; they are secrets"},
    {"json", 'j', NULL,
     ASKERS & ~(unsigned)(COMMAND_RUN | COMMAND_ELECT | COMMAND_SERVE | COMMAND_EXPORTER), set_json,
     "print results as JSON"},
    {"json", 'j', NULL, COMMAND_RUN | COMMAND_ELECT, set_json,
     "write the outcome as JSON on standard error, or to --status-file"},
    {"quiet", 'q', NULL, ALL, set_quiet, "do not report contention"},
    {"verbose", 'v', NULL, ALL, set_verbose, "report what happens"},
    {"help", 'h', NULL, ALL, set_help, "this text"},
};
const struct option_table settings_options = {entries, sizeof entries / sizeof entries[0]};
