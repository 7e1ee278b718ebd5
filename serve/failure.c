/* SPDX-License-Identifier: BSD-2-Clause */
#include "failure.h"

#include <stdio.h>
#include <string.h>

#include "gateway.h"

static bool is_answer(int verdict) {
    return verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_DENIED ||
           verdict == REDLOCK_VERDICT_ABSENT;
}

/* A round asks only connected nodes, and some connections end meanwhile: the reason for those is in
 * the connection. */
static int verdict_of(int verdict, const struct redlock_node_status *status) {
    if (verdict == REDLOCK_VERDICT_NONE)
        return status->verdict != REDLOCK_VERDICT_GRANTED ? status->verdict
                                                          : REDLOCK_VERDICT_TIMEOUT;
    bool silent = verdict == REDLOCK_VERDICT_CONNECTING || verdict == REDLOCK_VERDICT_TIMEOUT ||
                  verdict == REDLOCK_VERDICT_DISCONNECTED;
    return silent && status->verdict != REDLOCK_VERDICT_GRANTED ? status->verdict : verdict;
}

/* " (URL: why; URL: why)" of the nodes that did not help. */
static void name_nodes(const struct gateway *gateway, const int *verdicts, char *out, size_t size) {
    const char *before = " (";
    size_t used = 0;
    for (size_t i = 0; i < redlock_client_nodes(gateway->client) && used < size; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(gateway->client, i, &status) != REDLOCK_OK) continue;
        int verdict = verdicts != NULL ? verdict_of(verdicts[i], &status) : status.verdict;
        if (is_answer(verdict)) continue;
        bool reported = status.verdict == verdict && status.text[0] != '\0';
        used += (size_t)snprintf(out + used, size - used, "%s%s: %s", before, status.url,
                                 reported ? status.text : redlock_verdict_text(verdict));
        before = "; ";
    }
    if (used > 0 && used < size) snprintf(out + used, size - used, ")");
}

void failure_text(const struct gateway *gateway, int result, const int *verdicts, char *out,
                  size_t size) {
    bool unknown = result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED;
    int used =
        snprintf(out, size, "%s %s", unknown ? "NOQUORUM" : "ERR", redlock_result_text(result));
    bool of_nodes = unknown || result == REDLOCK_TWICE_LISTED;
    if (of_nodes && used > 0 && (size_t)used < size)
        name_nodes(gateway, verdicts, out + used, size - (size_t)used);
}
