/* SPDX-License-Identifier: BSD-2-Clause */
#include "causes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *node_name(struct session *session, size_t node, char *out, size_t size) {
    const char *url = node_url(session, node), *scheme = strstr(url, "://");
    const bool is_path = strncmp(url, "unix:", 5) == 0;
    const char *name = scheme != NULL ? scheme + 3 : url;
    size_t length = strcspn(name, is_path ? "?" : "/?");
    for (const char *at; !is_path && (at = memchr(name, '@', length)) != NULL;) {
        length -= (size_t)(at + 1 - name);
        name = at + 1;
    }
    snprintf(out, size, "%.*s", (int)length, name);
    return out;
}

static bool counts(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_NONE;
}

static const char *phrase(const struct session *session, int verdict, bool one, char *out,
                          size_t size) {
    switch (verdict) {
    case REDLOCK_VERDICT_TIMEOUT: return " timed out";
    case REDLOCK_VERDICT_REFUSED: return " cannot be reached";
    case REDLOCK_VERDICT_DISCONNECTED: return " closed the connection";
    case REDLOCK_VERDICT_CONNECTING: return one ? " is not connected" : " are not connected";
    case REDLOCK_VERDICT_ABSENT:
        if (session->settings->shared)
            return one ? " has no place of this reader" : " have no place of this reader";
        return one ? " does not have the key" : " do not have the key";
    case REDLOCK_VERDICT_DENIED: return one ? " has another token" : " have another token";
    case REDLOCK_VERDICT_RECOVERING: return one ? " lost its lock data" : " lost their lock data";
    case REDLOCK_VERDICT_NOPERM:
        snprintf(out, size, ": %s: see redlock doctor, and acl.md", redlock_verdict_text(verdict));
        return out;
    default: snprintf(out, size, ": %s", redlock_verdict_text(verdict)); return out;
    }
}

/* "all 3 nodes timed out", "db2 and db3 timed out". Returns how many there are. */
static size_t group_text(struct session *session, const int *verdicts, size_t count, size_t first,
                         char *out, size_t size) {
    size_t all = 0, named = 0, used = 0;
    char name[300], text[120];
    for (size_t i = 0; i < count; i++) all += verdicts[i] == verdicts[first];
    if (all == count && count > 2) {
        snprintf(out, size, "all %zu nodes%s", count,
                 phrase(session, verdicts[first], false, text, sizeof text));
        return all;
    }
    for (size_t i = first; i < count && used < size; i++) {
        if (verdicts[i] != verdicts[first]) continue;
        const char *join = named == 0 ? "" : named + 1 == all ? " and " : ", ";
        used += (size_t)snprintf(out + used, size - used, "%s%s", join,
                                 node_name(session, i, name, sizeof name));
        named++;
    }
    if (used < size)
        snprintf(out + used, size - used, "%s",
                 phrase(session, verdicts[first], all == 1, text, sizeof text));
    return all;
}

size_t causes_text(struct session *session, const int *verdicts, size_t count, char *out,
                   size_t size) {
    size_t total = 0, used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used + 3 < size; i++) {
        bool is_new = !counts(verdicts[i]);
        for (size_t j = 0; j < i; j++) is_new = is_new && verdicts[j] != verdicts[i];
        if (!is_new) continue;
        if (total > 0) used += (size_t)snprintf(out + used, size - used, "; ");
        total += group_text(session, verdicts, count, i, out + used, size - used);
        used += strlen(out + used);
    }
    return total;
}
