/* SPDX-License-Identifier: BSD-2-Clause */
#include "exposition.h"

#include <inttypes.h>

#include <event2/buffer.h>
#include <redlock.h>

void exposition_head(struct evbuffer *out, const char *name, const char *type, const char *help) {
    evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void exposition_number(struct evbuffer *out, const char *name, const char *type, uint64_t value,
                       const char *help) {
    exposition_head(out, name, type, help);
    evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

void exposition_real(struct evbuffer *out, const char *name, const char *type, double value,
                     const char *help) {
    exposition_head(out, name, type, help);
    evbuffer_add_printf(out, "%s %.9g\n", name, value);
}

void exposition_labelled(struct evbuffer *out, const char *name, const char *label,
                         const char *text, uint64_t value) {
    evbuffer_add_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, text, value);
}

void exposition_escape(const char *text, char *out, size_t size) {
    size_t used = 0;
    for (; *text != '\0' && used + 3 < size; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n') out[used++] = '\\';
        out[used++] = *text == '\n' ? 'n' : *text;
    }
    out[used] = '\0';
}

void exposition_nodes(struct evbuffer *out, const struct exposition_node *nodes, size_t count) {
    exposition_head(out, "redlock_node_up", "gauge", "1: the node is connected and votes.");
    for (size_t i = 0; i < count; i++)
        exposition_labelled(out, "redlock_node_up", "node", nodes[i].url,
                            nodes[i].verdict == REDLOCK_VERDICT_GRANTED);
    exposition_head(out, "redlock_node_verdict", "gauge",
                    "The number of the node's last verdict, with its meaning; 1 is good.");
    for (size_t i = 0; i < count; i++)
        evbuffer_add_printf(out, "redlock_node_verdict{node=\"%s\",verdict=\"%s\"} %d\n",
                            nodes[i].url, redlock_verdict_text(nodes[i].verdict), nodes[i].verdict);
}
