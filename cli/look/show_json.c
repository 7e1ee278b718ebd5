/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What show sees, for programs. */
#include <string.h>

#include "explain/lock_json.h"
#include "explain/majority.h"
#include "explain/votes.h"
#include "show.h"

/* `readers`: of a shared lock. */
static json_t *view_json(struct session *session, const struct redlock_view *view,
                         int64_t readers) {
    json_t *object = json_object();
    json_object_set_new(object, "verdict",
                        json_string(view->verdict == REDLOCK_VERDICT_GRANTED
                                        ? "held"
                                        : verdict_name(view->verdict)));
    if (view->verdict != REDLOCK_VERDICT_GRANTED) return object;
    char text[REDLOCK_TOKEN_BYTES_MAX * 4 + 8];
    owner_text(view, text, sizeof text);
    json_object_set_new(object, "kind", json_string(is_shared(view) ? "shared" : "exclusive"));
    if (text[0] != '\0') json_object_set_new(object, "owner", json_string(text));
    if (is_shared(view))
        json_object_set_new(object, "readers_count",
                            readers < 0 ? json_null() : json_integer(readers));
    else
        json_object_set_new(
            object, "token",
            json_string(token_text(view, session->settings->look.tokens, text, sizeof text)));
    json_object_set_new(object, "remaining_ms",
                        view->remaining_ms < 0 ? json_null() : json_integer(view->remaining_ms));
    return object;
}

json_t *sight_json(struct session *session, const struct sight *sight) {
    struct majority majority = majority_of(sight->views, sight->count);
    json_t *object = json_object(), *nodes = json_array();
    json_object_set_new(object, "resource", bytes_json(sight->resource, sight->bytes));
    json_object_set_new(object, "verdict", json_string(majority_name(majority.verdict)));
    if (majority.verdict == MAJORITY_HELD) {
        json_t *holder = view_json(session, &sight->views[majority.holder], sight->readers.total);
        json_object_set_new(holder, "remaining_ms",
                            majority.remaining_ms < 0 ? json_null()
                                                      : json_integer(majority.remaining_ms));
        json_object_del(holder, "verdict");
        json_object_update(object, holder);
        json_decref(holder);
    }
    if (sight->readers.count > 0)
        json_object_set_new(object, "readers", readers_json(session, &sight->readers));
    if (sight->type[0] != '\0')
        json_object_set_new(object, "type", bytes_json(sight->type, strlen(sight->type)));
    for (size_t i = 0; i < sight->count; i++) {
        json_t *node = view_json(session, &sight->views[i], sight_readers(sight, i));
        json_object_set_new(node, "url", json_string(node_url(session, i)));
        json_array_append_new(nodes, node);
    }
    json_object_set_new(object, "nodes", nodes);
    return object;
}
