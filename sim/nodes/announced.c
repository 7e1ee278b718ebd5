/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a node does with the announcements of leaders. A restart with data may bring an old
 * announcement back, and a rollback keeps a new one: each is exact, and none is a vote.
 */
#include "nodes.h"

/* An ordinary key, with a TTL by the wall clock, on a native node too. */
void announced_serve(struct server *server, struct message *request) {
    struct announced *key = &server->announced[request->keys[0]];
    const int64_t now_ms = server_wall_ms(server);
    request->verdict = REDLOCK_VERDICT_GRANTED;
    if (request->op == NET_ANNOUNCE) {
        *key = (struct announced){request->token, now_ms + request->ttl_ms};
        return;
    }
    request->reply.remaining_ms = -2;
    if (key->text == 0 || key->expires_ms < now_ms) {
        request->verdict = REDLOCK_VERDICT_ABSENT;
        return;
    }
    request->reply.remaining_ms = key->expires_ms - now_ms;
    request->reply.value = key->text;
}
