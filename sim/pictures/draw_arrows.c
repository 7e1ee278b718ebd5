/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages: a request goes down or up to its node, its answer comes back dashed, and a lost message
 * ends in a cross.
 */
#include "draw_layout.h"

#include "net/net.h"
#include "redlock.h"

struct way {
    int x1, y1, x2, y2;
};

/* From the edge of the client's bar to the edge of the node's that it faces. */
static struct way way_between(const struct draw_layout *layout, const struct history_record *record,
                              rl_ns client_at, rl_ns node_at) {
    const struct draw_row *client = &layout->rows[draw_row_of(layout, DRAW_CLIENT, record->client)];
    const struct draw_row *node = &layout->rows[draw_row_of(layout, DRAW_NODE, record->node)];
    bool upper = record->client < layout->upper_clients;
    return (struct way){draw_x(layout, client_at),
                        upper ? client->bar_y + client->bar_h : client->bar_y,
                        draw_x(layout, node_at), upper ? node->bar_y : node->bar_y + node->bar_h};
}

static struct way reversed(struct way way) { return (struct way){way.x2, way.y2, way.x1, way.y1}; }

/* Two strokes of a head at the end of a line, of about eight pixels; integers all the way. */
static void draw_head(FILE *out, struct way way) {
    int dx = way.x2 - way.x1, dy = way.y2 - way.y1;
    int length = (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy);
    if (length == 0) return;
    int back_x = dx * 8 / length, back_y = dy * 8 / length, side_x = dy * 4 / length,
        side_y = -dx * 4 / length;
    fprintf(out, "M%d %dL%d %dL%d %d", way.x2 - back_x + side_x, way.y2 - back_y + side_y, way.x2,
            way.y2, way.x2 - back_x - side_x, way.y2 - back_y - side_y);
}

static const char solid[] = "", dashed[] = " stroke-dasharray=\"5 3\"",
                  dotted[] = " stroke-dasharray=\"1 4\"";

static void draw_arrow(FILE *out, struct way way, int client, const char *line) {
    const struct draw_colour colour = draw_colour(client);
    fprintf(out, "<path d=\"M%d %dL%d %d\" stroke=\"%s\" stroke-width=\"1.4\"%s/>", way.x1, way.y1,
            way.x2, way.y2, colour.name, line);
    fputs("<path d=\"", out);
    draw_head(out, way);
    fprintf(out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"/>\n", colour.name);
}

static void draw_lost(FILE *out, struct way way, int client, const char *line) {
    const struct draw_colour colour = draw_colour(client);
    /* Lost on the way: drawn to three quarters of it. */
    int x = way.x1 + (way.x2 - way.x1) * 3 / 4, y = way.y1 + (way.y2 - way.y1) * 3 / 4;
    fprintf(out, "<path d=\"M%d %dL%d %d\" stroke=\"%s\" stroke-width=\"1.4\"%s/>", way.x1, way.y1,
            x, y, colour.name, line);
    fprintf(out, "<path d=\"M%d %dl8 8m0 -8l-8 8\" stroke=\"var(--red)\" stroke-width=\"2.4\"/>\n",
            x - 4, y - 4);
}

/* A tick where a node agreed, a bar where it refused. */
static void draw_vote(FILE *out, struct way way, int verdict, bool upper) {
    int y = way.y2 + (upper ? 7 : -7);
    if (verdict == REDLOCK_VERDICT_GRANTED) {
        fprintf(
            out,
            "<circle cx=\"%d\" cy=\"%d\" r=\"6\" fill=\"var(--bg)\"/><path d=\"M%d %dl2 3l4 -6\" "
            "fill=\"none\" stroke=\"var(--good)\" stroke-width=\"2\"/>\n",
            way.x2, y, way.x2 - 3, y);
    } else {
        fprintf(
            out,
            "<circle cx=\"%d\" cy=\"%d\" r=\"6\" fill=\"var(--bg)\"/><path d=\"M%d %dl6 6m0 -6l-6 "
            "6\" stroke=\"var(--ink)\" stroke-width=\"1.8\"/>\n",
            way.x2, y, way.x2 - 3, y - 3);
    }
}

/* When a message that left at this time was lost; RL_NEVER: it was not. A message that waits in a
 * cut connection is dropped with it much later, or never: it is drawn as lost where it was sent. */
static rl_ns lost_at(const struct draw_layout *layout, const struct story_exchange *exchange,
                     rl_ns left_at) {
    const rl_ns prompt = 20 * RL_MS;
    const struct history *history = layout->picture->history;
    rl_ns at =
        history->records[exchange->dropped != STORY_NONE ? exchange->dropped : history->count - 1]
            .at;
    if (at > left_at + prompt) return left_at + 2 * RL_MS;
    return exchange->dropped != STORY_NONE ? at : RL_NEVER;
}

void draw_exchange(FILE *out, const struct draw_layout *layout,
                   const struct story_exchange *exchange) {
    const struct history_record *records = layout->picture->history->records;
    if (exchange->sent == STORY_NONE || !draw_message(&records[exchange->sent])) return;
    const struct history_record *sent = &records[exchange->sent];
    if (sent->client < 0 || sent->node < 0) return;
    if (exchange->arrived == STORY_NONE) {
        rl_ns lost = lost_at(layout, exchange, sent->at);
        if (lost != RL_NEVER)
            draw_lost(out, way_between(layout, sent, sent->at, lost), sent->client, solid);
        return;
    }
    const struct history_record *arrival = &records[exchange->arrived];
    struct way there = way_between(layout, sent, sent->at, arrival->at);
    draw_arrow(out, there, sent->client, solid);
    if (exchange->answered != STORY_NONE) {
        draw_arrow(out,
                   reversed(way_between(layout, sent, records[exchange->answered].at, arrival->at)),
                   sent->client, dashed);
    } else if (lost_at(layout, exchange, arrival->at) != RL_NEVER) {
        rl_ns lost = lost_at(layout, exchange, arrival->at);
        draw_lost(out, reversed(way_between(layout, sent, lost, arrival->at)), sent->client,
                  dashed);
    }
    if (sent->op != NET_RELEASE)
        draw_vote(out, there, arrival->result, sent->client < layout->upper_clients);
}

void draw_hint(FILE *out, const struct draw_layout *layout, const struct history_record *hint) {
    struct way way = reversed(way_between(layout, hint, hint->at, hint->until));
    if (hint->kind == HISTORY_WAKE_LOST)
        draw_lost(out, way, hint->client, dotted);
    else
        draw_arrow(out, way, hint->client, dotted);
}
