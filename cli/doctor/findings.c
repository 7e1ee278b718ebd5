/* SPDX-License-Identifier: BSD-2-Clause */
#include "findings.h"

#include "finding_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *severity_name(enum severity severity) {
    static const char *const names[] = {"error", "warning", "note"};
    return names[severity];
}

void findings_add(struct findings *findings, enum severity severity, const char *name, size_t node,
                  const char *cure, const char *why, ...) {
    struct finding finding = {.name = name, .severity = severity, .cure = cure};
    finding.nodes = node == EVERY_NODE ? UINT32_MAX : UINT32_C(1) << node;
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(finding.why, sizeof finding.why, why, arguments);
    va_end(arguments);
    for (size_t i = 0; i < findings->count; i++) {
        struct finding *known = &findings->list[i];
        if (strcmp(known->name, name) != 0 || strcmp(known->why, finding.why) != 0 ||
            strcmp(known->cure, cure) != 0)
            continue;
        known->nodes |= finding.nodes;
        return;
    }
    if (findings->count == sizeof findings->list / sizeof findings->list[0]) return;
    findings->errors += severity == SEVERITY_ERROR;
    findings->warnings += severity == SEVERITY_WARNING;
    findings->list[findings->count++] = finding;
}

/* ---- questions that several rules and the table share ---- */

bool bound_to_loopback(const struct redlock_server *info) {
    if (info->bind_known != 1 || info->bind[0] == '\0') return false;
    char addresses[sizeof info->bind], *rest = NULL;
    snprintf(addresses, sizeof addresses, "%s", info->bind);
    for (char *one = strtok_r(addresses, " ", &rest); one != NULL;
         one = strtok_r(NULL, " ", &rest)) {
        if (*one == '-') one++; /* "-::1": not an error if the address does not exist */
        if (strncmp(one, "127.", 4) != 0 && strcmp(one, "::1") != 0 &&
            strcmp(one, "localhost") != 0)
            return false;
    }
    return true;
}

/* Before version 7, protected mode did nothing once addresses were bound by name. From 7 on, an
 * empty bind means that the server does not listen on TCP.
 */
bool open_to_the_world(const struct examined *node) {
    const struct redlock_server *info = &node->info;
    const int version = atoi(info->redis_version);
    if (node->password != 0 || info->bind_known != 1 || bound_to_loopback(info)) return false;
    if (info->tcp_port == 0 || (info->bind[0] == '\0' && version >= 7)) return false;
    bool protects = info->protected_mode == 1 && (version >= 7 || info->bind[0] == '\0');
    return info->protected_mode >= 0 && !protects;
}

enum remains remains_after_restart(const struct redlock_server *info) {
    if (info->append_only == 1) {
        if (info->fsync_pauses == 1) return REMAINS_MOST;
        if (strcmp(info->append_fsync, "always") == 0) return REMAINS_ALL;
        if (strcmp(info->append_fsync, "everysec") == 0) return REMAINS_LAST_SECOND;
        return strcmp(info->append_fsync, "no") == 0 ? REMAINS_MOST : REMAINS_UNKNOWN;
    }
    if (info->append_only == 0 && info->snapshots >= 0)
        return info->snapshots == 1 ? REMAINS_SNAPSHOT : REMAINS_NOTHING;
    return REMAINS_UNKNOWN;
}

bool is_native(const struct examined *node) { return node->info.native == 1; }

size_t count_served(const struct checkup *checkup) {
    size_t served = 0;
    for (size_t i = 0; i < checkup->count; i++) served += is_served(&checkup->nodes[i]);
    return served;
}

bool none_answers(const struct checkup *checkup) {
    for (size_t i = 0; i < checkup->count; i++)
        if (checkup->nodes[i].why.obstacle != REDLOCK_OBSTACLE_SILENT) return false;
    return true;
}

void find_quorums(const struct checkup *checkup, const struct examined **first,
                  const struct examined **second) {
    *first = *second = NULL;
    for (size_t i = 0; i < checkup->count; i++) {
        const struct examined *node = &checkup->nodes[i];
        if (!is_served(node) || node->info.quorum[0] == '\0') continue;
        if (*first == NULL) *first = node;
        if (*second == NULL && strcmp(node->info.quorum, (*first)->info.quorum) != 0)
            *second = node;
    }
}
