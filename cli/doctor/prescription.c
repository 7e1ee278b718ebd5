/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "explain/votes.h"
#include "process/message.h"

#define COLUMNS 79
#define INDENT 9

/* ---- for people ---- */

static bool in_colour(void) {
    const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (refused != NULL && refused[0] != '\0') return false;
    return isatty(STDOUT_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

/* Wrapped between words; servers' texts may contain anything. */
static void print_wrapped(const char *text) {
    char clean[1600];
    printable(clean, sizeof clean, text, strlen(text));
    size_t column = INDENT;
    printf("%*s", INDENT, "");
    for (char *rest = NULL, *word = strtok_r(clean, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        size_t length = strlen(word);
        if (column > INDENT && column + 1 + length > COLUMNS) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        }
        column += (size_t)printf("%s%s", column > INDENT ? " " : "", word);
    }
    putchar('\n');
}

static void print_nodes(const struct checkup *checkup, uint32_t nodes) {
    const uint32_t every = (UINT32_C(1) << checkup->count) - 1;
    if ((nodes & every) == every) {
        printf(checkup->count == 1 ? "the node" : "all nodes");
        return;
    }
    printf("%s", (nodes & (nodes - 1)) == 0 ? "node" : "nodes");
    const char *between = " ";
    for (size_t i = 0; i < checkup->count; i++) {
        if ((nodes & (UINT32_C(1) << i)) == 0) continue;
        printf("%s%zu", between, i + 1);
        between = ", ";
    }
}

static void print_finding(const struct checkup *checkup, const struct finding *finding,
                          bool colour) {
    static const char *const colours[] = {"\033[1;31m", "\033[33m", "\033[2m"};
    printf("%s%-7s%s  %s: ", colour ? colours[finding->severity] : "",
           severity_name(finding->severity), colour ? "\033[0m" : "", finding->name);
    print_nodes(checkup, finding->nodes);
    putchar('\n');
    print_wrapped(finding->why);
    char cure[400];
    snprintf(cure, sizeof cure, "Cure: %s", finding->cure);
    print_wrapped(cure);
}

static void print_count(size_t count, const char *what) {
    printf("%zu %s%s", count, what, count == 1 ? "" : "s");
}

void prescription_print(const struct checkup *checkup, const struct findings *findings,
                        bool brief) {
    const bool colour = in_colour();
    for (size_t i = 0; i < findings->count; i++) {
        if (brief && findings->list[i].severity == SEVERITY_NOTE) continue;
        print_finding(checkup, &findings->list[i], colour);
    }
    if (brief) return;
    printf("%s%s to hold locks: ", findings->count > 0 ? "\n" : "",
           findings->errors > 0 ? "Unfit" : "Fit");
    print_count(findings->errors, "error");
    printf(", ");
    print_count(findings->warnings, "warning");
    printf(", ");
    print_count(findings->count - findings->errors - findings->warnings, "note");
    printf(".\n");
}

/* ---- for machines ---- */

static json_t *text_json(const char *text) {
    char clean[1600];
    return text[0] != '\0' ? json_string(printable(clean, sizeof clean, text, strlen(text)))
                           : json_null();
}

static json_t *number_json(int64_t number) {
    return number >= 0 ? json_integer(number) : json_null();
}
static json_t *truth_json(int truth) { return truth >= 0 ? json_boolean(truth) : json_null(); }
static json_t *ms_json(bool known, int64_t ns) {
    return known ? json_real((double)(ns / 1000) / 1e3) : json_null();
}

static json_t *door_json(const struct examined *node) {
    json_t *door = json_object();
    json_object_set_new(door, "password", truth_json(node->password));
    json_object_set_new(door, "protected_mode", truth_json(node->info.protected_mode));
    json_object_set_new(door, "bind",
                        node->info.bind_known == 1 ? json_string(node->info.bind) : json_null());
    json_object_set_new(door, "open", json_boolean(open_to_the_world(node)));
    return door;
}

static json_t *clock_json(const struct examined *node) {
    json_t *clock = json_object();
    json_object_set_new(clock, "offset_ms", ms_json(node->offset_known, node->offset_ns));
    json_object_set_new(clock, "offset_error_ms",
                        ms_json(node->offset_known, node->offset_error_ns));
    json_object_set_new(clock, "change_ms", ms_json(node->change_known, node->change_ns));
    json_object_set_new(clock, "change_error_ms",
                        ms_json(node->change_known, node->change_error_ns));
    json_object_set_new(clock, "change_over_ms", ms_json(node->change_known, node->change_over_ns));
    return clock;
}

static json_t *eligibility_json(const struct redlock_node_status *status) {
    const bool intact = status->verdict == REDLOCK_VERDICT_GRANTED;
    const int64_t left_ms =
        status->verdict == REDLOCK_VERDICT_RECOVERING ? status->recovering_ms : -1;
    json_t *eligibility = json_object();
    json_object_set_new(eligibility, "name",
                        json_string(intact ? "intact" : verdict_name(status->verdict)));
    json_object_set_new(eligibility, "recovering_ms", number_json(left_ms));
    json_object_set_new(eligibility, "member", text_json(status->node_id));
    return eligibility;
}

static json_t *node_json(const struct examined *node, bool guarded) {
    static const char *const roles[] = {"", "master", "replica"};
    static const char *const remains[] = {
        "", "nothing", "snapshot", "most", "all-but-last-second", "all"};
    const struct redlock_server *info = &node->info;
    json_t *object = json_object();
    json_object_set_new(object, "url", json_string(node->status.url));
    json_object_set_new(object, "verdict",
                        json_string(is_served(node) ? "ready" : verdict_name(info->verdict)));
    json_object_set_new(object, "detail", text_json(is_served(node) ? "" : node->status.text));
    json_object_set_new(object, "ping_min_ms", ms_json(node->ping_min_ns >= 0, node->ping_min_ns));
    json_object_set_new(object, "ping_median_ms",
                        ms_json(node->ping_median_ns >= 0, node->ping_median_ns));
    json_object_set_new(object, "server", text_json(info->server));
    json_object_set_new(object, "version", text_json(info->version));
    json_object_set_new(object, "run_id", text_json(info->run_id));
    json_object_set_new(object, "uptime_s", number_json(info->uptime_s));
    json_object_set_new(object, "role", text_json(roles[info->role]));
    json_object_set_new(object, "replicas", number_json(info->replicas));
    json_object_set_new(object, "loading", truth_json(info->loading));
    json_object_set_new(object, "writes_refused", truth_json(info->writes_refused));
    json_object_set_new(object, "after_restart", text_json(remains[remains_after_restart(info)]));
    json_object_set_new(object, "eviction", text_json(info->eviction));
    json_object_set_new(object, "memory_bytes", number_json(info->memory_bytes));
    json_object_set_new(object, "memory_bytes_max", number_json(info->memory_bytes_max));
    json_object_set_new(object, "clients", number_json(info->clients));
    json_object_set_new(object, "clients_max", number_json(info->clients_max));
    json_object_set_new(object, "scripts_refused",
                        is_served(node) ? json_boolean(node->status.uses_transactions)
                                        : json_null());
    json_object_set_new(object, "native", truth_json(info->native));
    json_object_set_new(object, "module", text_json(info->module));
    json_object_set_new(object, "mirror", truth_json(info->mirror));
    json_object_set_new(object, "replicas_lacking", truth_json(info->replicas_lacking));
    json_object_set_new(object, "quorum", text_json(info->quorum));
    if (guarded) json_object_set_new(object, "standing", eligibility_json(&node->status));
    if (guarded) json_object_set_new(object, "announces", truth_json(info->announces));
    json_object_set_new(object, "clock", clock_json(node));
    json_object_set_new(object, "door", door_json(node));
    return object;
}

static json_t *finding_json(const struct checkup *checkup, const struct finding *finding) {
    json_t *object = json_object(), *nodes = json_array();
    json_object_set_new(object, "name", json_string(finding->name));
    json_object_set_new(object, "severity", json_string(severity_name(finding->severity)));
    for (size_t i = 0; i < checkup->count; i++) {
        if ((finding->nodes & (UINT32_C(1) << i)) != 0)
            json_array_append_new(nodes, json_integer((json_int_t)i + 1));
    }
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "why", text_json(finding->why));
    json_object_set_new(object, "cure", json_string(finding->cure));
    return object;
}

static json_t *membership_head(const struct membership *membership) {
    const struct redlock_quorum_status *quorum = &membership->quorum;
    json_t *object = json_object();
    json_object_set_new(object, "id", text_json(quorum->id));
    json_object_set_new(object, "epoch", json_integer(quorum->epoch));
    json_object_set_new(object, "settled", json_boolean(quorum->settled));
    json_object_set_new(object, "ttl_max_ms", json_integer(quorum->ttl_ms_max));
    json_object_set_new(object, "members", json_integer((json_int_t)quorum->members));
    json_object_set_new(object, "intact", json_integer((json_int_t)quorum->intact));
    return object;
}

void prescription_json(const struct checkup *checkup, const struct findings *findings) {
    json_t *object = json_object(), *nodes = json_array(), *list = json_array();
    const struct redlock_quorum_status *quorum = &checkup->membership.quorum;
    const size_t needed =
        checkup->guarded && quorum->known ? quorum->votes_needed : quorum_of(checkup->count);
    json_object_set_new(object, "fit", json_boolean(findings->errors == 0));
    json_object_set_new(object, "quorum", json_integer((json_int_t)needed));
    if (checkup->guarded)
        json_object_set_new(object, "record", membership_head(&checkup->membership));
    for (size_t i = 0; i < checkup->count; i++)
        json_array_append_new(nodes, node_json(&checkup->nodes[i], checkup->guarded));
    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(list, finding_json(checkup, &findings->list[i]));
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "findings", list);
    json_object_set_new(object, "tried", json_boolean(checkup->tried));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(object);
}
