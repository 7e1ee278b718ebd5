/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_add(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof text->data - text->used;
    int n = vsnprintf(text->data + text->used, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        text->data[text->used] = '\0';
        text->cut = true;
        return;
    }
    text->used += (size_t)n;
}

void text_ms(struct text *text, rl_ns at) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.3f", (double)at / (double)RL_MS);
    size_t end = strlen(digits);
    while (digits[end - 1] == '0') end--;
    if (digits[end - 1] == '.') end--;
    text_add(text, "%.*sms", (int)end, digits);
}

void text_nodes(struct text *text, rl_mask mask) {
    const char *comma = "node";
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        if ((mask & rl_bit(node)) == 0) continue;
        unsigned last = node;
        while (last + 1 < RL_NODES_MAX && (mask & rl_bit(last + 1))) last++;
        if (last > node)
            text_add(text, "%s%u..%u", comma, node + 1, last + 1);
        else
            text_add(text, "%s%u", comma, node + 1);
        comma = ",";
        node = last;
    }
}

/* ---- events ------------------------------------------------------------------------------- */

static void name_answer(struct text *text, const struct rl_event *event) {
    static const char *const unlock[] = {[RL_VOTE_GRANTED] = "unlocked",
                                         [RL_VOTE_DENIED] = "kept",
                                         [RL_VOTE_ABSENT] = "empty",
                                         [RL_VOTE_FAILED] = "mute"};
    const char *name = rl_vote_name(event->vote);
    if (event->type == RL_EVENT_UNLOCKED && event->vote < sizeof unlock / sizeof unlock[0] &&
        unlock[event->vote])
        name = unlock[event->vote];
    text_add(text, "node%u %s", event->node + 1u, name);
    if (event->type == RL_EVENT_VOTE && event->vote == RL_VOTE_STALE && event->fence > 0)
        text_add(text, " %lld", (long long)event->fence);
    if (event->type == RL_EVENT_VOTE && event->slot != 0) text_add(text, ", slot %u", event->slot);
    if (event->type == RL_EVENT_VOTE && event->other_slots != 0)
        text_add(text, ": of %u slots", event->other_slots);
}

static void name_time(struct text *text, const char *name, rl_ns span) {
    text_add(text, "%s ", name);
    text_ms(text, span);
}

void trace_event(struct text *text, const struct rl_event *event) {
    switch (event->type) {
    case RL_EVENT_START: text_add(text, "start"); break;
    case RL_EVENT_VOTE:
    case RL_EVENT_UNLOCKED: name_answer(text, event); break;
    case RL_EVENT_HINT:
        text_add(text, "node%u ", event->node + 1u);
        name_time(text, "hint", event->remaining);
        break;
    case RL_EVENT_WAKE: text_add(text, "wake"); break;
    case RL_EVENT_NODES: text_add(text, "nodes changed"); break;
    case RL_EVENT_TICK: text_add(text, "tick"); break;
    case RL_EVENT_CANCEL: text_add(text, "cancel"); break;
    case RL_EVENT_EXTEND: name_time(text, "extend", event->ttl); break;
    case RL_EVENT_RELEASE: text_add(text, "release"); break;
    case RL_EVENT_WATCHED:
        text_add(text, "node%u watched: key %s", event->node + 1u, rl_vote_name(event->vote));
        break;
    case RL_EVENT_RANK: text_add(text, "rank %d", (int)event->rank); break;
    case RL_EVENT_QUEUED:
        text_add(text, "node%u queue: ", event->node + 1u);
        if (event->vote == RL_VOTE_GRANTED)
            text_add(text, "rank %d", (int)event->rank);
        else
            text_add(text, event->vote == RL_VOTE_ABSENT ? "you may try" : "no place");
        break;
    case RL_EVENT_TURN: text_add(text, "node%u your turn", event->node + 1u); break;
    }
}

/* ---- actions ------------------------------------------------------------------------------ */

static void name_send(struct text *text, rl_mask mask, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void name_send(struct text *text, rl_mask mask, const char *format, ...) {
    if (mask == 0) return;
    char what[96];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    text_add(text, "    -> ");
    text_nodes(text, mask);
    text_add(text, " %s\n", what);
}

static void name_extension(struct text *text, rl_mask nodes, rl_ns ttl) {
    if (nodes == 0) return;
    text_add(text, "    -> ");
    text_nodes(text, nodes);
    text_add(text, " PEXPIRE ");
    text_ms(text, ttl);
    text_add(text, ", if ours\n");
}

static void name_notices(struct text *text, unsigned notices, const struct trace_context *context) {
    static const struct {
        enum rl_notice notice;
        const char *name;
    } kept[] = {{RL_NOTICE_RENEWED, "== renewed"},
                {RL_NOTICE_UNSURE, "!! unsure"},
                {RL_NOTICE_SURE, "== sure again"}};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if ((notices & (unsigned)kept[i].notice) == 0) continue;
        text_add(text, "    %s", kept[i].name);
        trace_validity(text, context);
    }
    if ((notices & RL_NOTICE_LOST) == 0) return;
    text_add(text, "    !! lost, ");
    text_ms(text, context->left < 0 ? -context->left : context->left);
    text_add(text, context->left < 0 ? " after validity ended\n" : " before validity ends\n");
}

void trace_actions(struct text *text, const struct rl_actions *actions,
                   const struct trace_context *context) {
    const long long fence = (long long)actions->fence;
    if (actions->slot != 0)
        name_send(text, actions->acquire, "slot %u instead, fence %lld", actions->slot, fence);
    else if (context->guarded)
        name_send(text, actions->acquire, "SET (try %u), fence %lld", context->tries, fence);
    else
        name_send(text, actions->acquire, "SET (try %u)", context->tries);
    name_send(text, actions->raise, "raise the fence to %lld", fence);
    name_send(text, actions->confirm, "are key and fence %lld still there?", fence);
    name_extension(text, actions->extend, actions->extend_ttl);
    name_extension(text, actions->catch_up, actions->repair_ttl);
    name_send(text, actions->repair, "SET again, same token");
    name_send(text, actions->leave, "DEL slots other than %u, if ours", actions->slot);
    name_send(text, actions->release, "DEL, if ours");
    name_send(text, actions->peek, "PTTL");
    name_send(text, actions->announce, "announce the term");
    name_notices(text, actions->notices, context);
    if (actions->extend_outcome == RL_OUTCOME_OK) {
        text_add(text, "    == extended");
        trace_validity(text, context);
    } else if (actions->extend_outcome != RL_OUTCOME_NONE) {
        text_add(text, "    == not extended: %s\n", rl_outcome_name(actions->extend_outcome));
    }
}

void trace_validity(struct text *text, const struct trace_context *context) {
    text_add(text, ", validity ");
    text_ms(text, context->validity);
    text_add(text, "\n");
}

void trace_state(struct text *text, const char *state, rl_ns wake_at) {
    text_add(text, "    .. %s", state);
    if (wake_at != RL_NEVER) {
        text_add(text, ", wake at ");
        text_ms(text, wake_at);
    }
    text_add(text, "\n");
}
