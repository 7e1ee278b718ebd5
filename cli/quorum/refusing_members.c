/* SPDX-License-Identifier: BSD-2-Clause */
#include "refusing_members.h"

#include <string.h>

#include "process/message.h"

/* NULL: it takes writes, as far as it reports. */
static const char *refusal_of(const struct redlock_server *server) {
    if (server->verdict != REDLOCK_VERDICT_GRANTED) return NULL;
    if (server->writes_refused == 1)
        return "its last write to disk failed (MISCONF): free disk space, or correct its directory";
    if (server->replicas_lacking == 1)
        return "no replica is near enough (NOREPLICAS): connect its replicas, or set "
               "min-replicas-to-write to 0";
    const bool full =
        server->memory_bytes_max > 0 && server->memory_bytes >= server->memory_bytes_max;
    if (full && strcmp(server->eviction, "noeviction") == 0)
        return "its memory is used up: raise maxmemory, or move other data elsewhere";
    return NULL;
}

bool refusals_warn(struct session *session, const struct membership *membership,
                   const struct redlock_member *leaves, bool quiet) {
    struct redlock_server servers[REDLOCK_NODES_MAX];
    const struct redlock_quorum_status *quorum = &membership->quorum;
    size_t refuse = 0, grant = 0, members = quorum->members - (leaves != NULL);
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) redlock_server_init(&servers[i]);
    /* Also with too few answers: what a node did not report stays unknown. */
    (void)!redlock_server_info(session->client, REDLOCK_SERVER_INFO_ALL, servers,
                               REDLOCK_NODES_MAX);
    for (size_t i = 0; i < quorum->members; i++) {
        const struct redlock_member *member = &membership->members[i];
        if (member == leaves || !is_intact(member) || member->node < 0) continue;
        const char *why = refusal_of(&servers[member->node]);
        if (why == NULL) {
            grant++;
            continue;
        }
        refuse++;
        if (quiet) continue;
        complain("warning: %s is intact, but refuses every new lock: %s",
                 member_url(session, member), why);
    }
    const size_t needed = members / 2 + 1;
    const bool too_few = refuse > 0 && grant < needed;
    if (too_few && !quiet)
        complain(
            "warning: %s%zu of %zu members could grant a lock, and %zu must: no lock could be acquired until that is corrected",
            leaves != NULL ? "then " : "", grant, members, needed);
    return too_few;
}
