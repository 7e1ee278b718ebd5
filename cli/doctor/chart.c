/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Two tables of one line per node, since one table would be wider than a terminal: the identity of
 * the nodes, and their settings.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "explain/votes.h"
#include "process/message.h"

#define URL_COLUMNS 21 /* an IPv4 address with its port */

/* Without the parts that are the same everywhere. */
static const char *short_url(const char *url) {
    return strncmp(url, "redis://", 8) == 0 ? url + 8 : url;
}

enum { WORD_BYTES = 64 };

/* Text from a server, made safe for a terminal. */
static const char *or_unknown(const char *text, char *out) {
    return text[0] != '\0' ? printable(out, WORD_BYTES, text, strlen(text)) : "?";
}

static void ping_text(const struct examined *node, char *out, size_t size) {
    if (node->ping_min_ns < 0) {
        snprintf(out, size, "?");
        return;
    }
    double least = (double)node->ping_min_ns / 1e6, median = (double)node->ping_median_ns / 1e6;
    snprintf(out, size, median < 10 ? "%.2f/%.2f" : "%.0f/%.0f", least, median);
}

static void shift_text(bool known, int64_t ns, char *out, size_t size) {
    double ms = (double)(ns / 100000) / 10; /* whole tenths: no "-0.0" */
    if (!known) {
        snprintf(out, size, "?");
    } else if (llabs(ns) < INT64_C(10000000000)) {
        snprintf(out, size, "%+.1fms", ms);
    } else if (llabs(ns) < INT64_C(100000000000000)) {
        snprintf(out, size, "%+.0fs", ms / 1e3);
    } else {
        snprintf(out, size, "%+.0fd", ms / 86400e3);
    }
}

static void role_text(const struct redlock_server *info, char *out, size_t size) {
    static const char *const roles[] = {"?", "master", "replica"};
    const bool native = info->native == 1 && info->role == REDLOCK_ROLE_MASTER;
    const char *role = native ? "native" : roles[info->role];
    if (info->replicas > 0) {
        snprintf(out, size, "%s+%d", role, info->replicas);
    } else {
        snprintf(out, size, "%s", role);
    }
}

static void print_one(const struct examined *node) {
    char ping[40], offset[40], change[40], role[24], version[WORD_BYTES], run_id[WORD_BYTES];
    if (!is_served(node)) {
        printf("%s\n", redlock_verdict_text(node->info.verdict));
        return;
    }
    ping_text(node, ping, sizeof ping);
    shift_text(node->offset_known, node->offset_ns, offset, sizeof offset);
    shift_text(node->change_known, node->change_ns, change, sizeof change);
    role_text(&node->info, role, sizeof role);
    printf("%-10s %-8s %-9s %-9s %-9s %.8s\n", ping, or_unknown(node->info.version, version), role,
           offset, change, or_unknown(node->info.run_id, run_id));
}

/* A URL that is wider than most has its own line. */
static void print_who(const struct checkup *checkup) {
    size_t width = strlen("NODE");
    for (size_t i = 0; i < checkup->count; i++) {
        size_t length = strlen(short_url(checkup->nodes[i].status.url));
        if (length <= URL_COLUMNS && length > width) width = length;
    }
    printf("%2s  %-*s  %-10s %-8s %-9s %-9s %-9s %s\n", "", (int)width, "NODE", "PING ms",
           "VERSION", "ROLE", "CLOCK", "MOVED", "RUN ID");
    for (size_t i = 0; i < checkup->count; i++) {
        const char *url = short_url(checkup->nodes[i].status.url);
        if (strlen(url) > width) {
            printf("%2zu  %s\n%*s", i + 1, url, (int)width + 6, "");
        } else {
            printf("%2zu  %-*s  ", i + 1, (int)width, url);
        }
        print_one(&checkup->nodes[i]);
    }
}

static void bytes_text(int64_t bytes, char *out, size_t size) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    snprintf(out, size, value < 10 && unit > 0 ? "%.1f%s" : "%.0f%s", value, units[unit]);
}

static void memory_text(const struct redlock_server *info, char *out, size_t size) {
    char used[24] = "?", most[24] = "?";
    if (info->memory_bytes >= 0) bytes_text(info->memory_bytes, used, sizeof used);
    if (info->memory_bytes_max > 0) bytes_text(info->memory_bytes_max, most, sizeof most);
    if (info->memory_bytes_max == 0) snprintf(most, sizeof most, "-");
    snprintf(out, size, "%s/%s", used, most);
}

static void clients_text(const struct redlock_server *info, char *out, size_t size) {
    char here[24] = "?", most[24] = "?";
    if (info->clients >= 0) snprintf(here, sizeof here, "%" PRId64, info->clients);
    if (info->clients_max >= 0) snprintf(most, sizeof most, "%" PRId64, info->clients_max);
    snprintf(out, size, "%s/%s", here, most);
}

static const char *door_text(const struct examined *node) {
    if (open_to_the_world(node)) return "OPEN";
    if (node->password == 1) return "password";
    if (bound_to_loopback(&node->info)) return "loopback";
    if (node->info.protected_mode == 1 && node->password == 0) return "protected";
    return "?";
}

static void eligibility_text(const struct redlock_node_status *status, char *out, size_t size) {
    if (status->verdict == REDLOCK_VERDICT_GRANTED) {
        snprintf(out, size, "intact");
    } else if (status->verdict == REDLOCK_VERDICT_RECOVERING && status->recovering_ms > 0) {
        snprintf(out, size, "back in %" PRId64 " s", (status->recovering_ms + 999) / 1000);
    } else {
        snprintf(out, size, "%s", verdict_name(status->verdict));
    }
}

/* In guarded mode it does not matter what remains after a restart: a restarted node waits before it
 * votes. */
static void print_how(const struct checkup *checkup) {
    static const char *const remains[] = {
        "?", "nothing", "last snapshot", "all but ~30 s", "all but 1 s", "all"};
    printf("\n%2s  %-13s  %-15s  %-11s  %-12s  %s\n", "",
           checkup->guarded ? "STANDING" : "AFTER RESTART", "EVICTION", "MEMORY/MAX", "CLIENTS/MAX",
           "DOOR");
    for (size_t i = 0; i < checkup->count; i++) {
        const struct examined *node = &checkup->nodes[i];
        char memory[56], clients[56], first[48], eviction[WORD_BYTES];
        if (!is_served(node)) continue;
        memory_text(&node->info, memory, sizeof memory);
        clients_text(&node->info, clients, sizeof clients);
        snprintf(first, sizeof first, "%s", remains[remains_after_restart(&node->info)]);
        if (checkup->guarded) eligibility_text(&node->status, first, sizeof first);
        printf("%2zu  %-13s  %-15s  %-11s  %-12s  %s\n", i + 1, first,
               or_unknown(node->info.eviction, eviction), memory, clients, door_text(node));
    }
}

void chart_print(const struct checkup *checkup) {
    print_who(checkup);
    for (size_t i = 0; i < checkup->count; i++) {
        if (!is_served(&checkup->nodes[i])) continue;
        print_how(checkup);
        break;
    }
    putchar('\n');
}
