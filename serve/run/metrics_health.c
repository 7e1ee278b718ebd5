/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whether this gateway can take locks now. The client knows that from its connections, so the
 * question costs the nodes nothing.
 */
#include <event2/buffer.h>

#include "loop/gateway.h"
#include "metrics_page.h"

bool metrics_ready(const struct gateway *gateway, struct evbuffer *out) {
    const size_t nodes = redlock_client_nodes(gateway->client), needed = nodes / 2 + 1;
    size_t ready = 0;
    struct evbuffer *reasons = evbuffer_new();
    if (reasons == NULL) return false;
    for (size_t i = 0; i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(gateway->client, i, &status) != REDLOCK_OK) continue;
        ready += status.verdict == REDLOCK_VERDICT_GRANTED;
        if (status.verdict != REDLOCK_VERDICT_GRANTED)
            evbuffer_add_printf(reasons, "%s: %s\n", status.url,
                                redlock_verdict_text(status.verdict));
    }
    evbuffer_add_printf(out, "%zu of %zu nodes can vote, %zu needed\n", ready, nodes, needed);
    evbuffer_add_buffer(out, reasons);
    evbuffer_free(reasons);
    if (gateway->draining) evbuffer_add_printf(out, "this gateway is stopping\n");
    return ready >= needed && !gateway->draining;
}
