/* SPDX-License-Identifier: BSD-2-Clause
 *
 * STORM: clients ask a node about its record and state only so often as something happens.
 *
 * A client whose every answer leads to the next question asks as often as the network allows, for
 * as long as its reason lasts, and no other rule notices it. A sound client has few reasons. Its
 * own timers let it ask about ten times a second (a pause of 100 ms after a failed request). Else a
 * record must have been written: 20,000 seeds with operators have at most 100 tries to write one
 * node's record in a second, by all clients. After each, a client reads the record and the state,
 * and an operator's client reads them for its command too: 4 * 100 requests. A client may send two
 * and a half times as many. Not all clients of a run, of which there are up to eight, operate at
 * once, so all together may send three times what one may. (Measured: 336 and 1,056.)
 */
#include "judges.h"

#include <string.h>

/* In one second, to one node: fewer than so many. */
enum { CLIENT_MAX = 1000, CLIENTS_MAX = 3000 };

void judge_storms(struct report *report) {
    bool reported[JUDGE_CLIENTS + 1][JUDGE_NODES]; /* the first row: of all clients together */
    memset(reported, 0, sizeof reported);
    for (size_t i = 0; i < report->history->count; i++) {
        const struct history_record *record = &report->history->records[i];
        if (record->kind != HISTORY_ASKED || record->node < 0) continue;
        const int client = record->client;
        bool *seen = &reported[client + 1][record->node];
        if (*seen || record->value < (client < 0 ? CLIENTS_MAX : CLIENT_MAX)) continue;
        *seen = true;
        judge_found(report, CHECK_STORM, i, i, record->until, record->at,
                    "%s sent node %d %lld requests about its record and state from %s to %s",
                    client < 0 ? "all clients" : judge_client(client).text, record->node + 1,
                    (long long)record->value, judge_ms(record->until).text,
                    judge_ms(record->at).text);
    }
}
