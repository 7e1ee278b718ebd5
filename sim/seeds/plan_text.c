/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Plans and masks as text.
 */
#include <inttypes.h>
#include <string.h>

#include "plan.h"

const char *plan_break_word(enum plan_break broken) {
    static const char *const words[] = {
#define WORD(name, word, text) word,
        PLAN_BREAKS(WORD)
#undef WORD
    };
    return words[broken];
}

const char *plan_nodes_word(enum plan_nodes nodes) {
    static const char *const words[] = {[PLAN_NODES_DRAWN] = "drawn",
                                        [PLAN_NODES_STOCK] = "stock",
                                        [PLAN_NODES_MIXED] = "mixed",
                                        [PLAN_NODES_NATIVE] = "native"};
    return words[nodes];
}

static void print_ms(FILE *out, const char *before, rl_ns ns) {
    const char *sign = ns < 0 ? "-" : "";
    uint64_t size = (uint64_t)(ns < 0 ? -ns : ns);
    fprintf(out, "%s%s%" PRIu64 ".%03" PRIu64 " ms", before, sign, size / 1000000,
            size / 1000 % 1000);
}

static void print_numbers(rl_mask nodes, FILE *out) {
    for (unsigned i = 0; nodes >> i; i++)
        if (nodes & rl_bit(i)) fprintf(out, " %u", i + 1);
}

static void print_wakes(const struct world_wakes *wakes, FILE *out) {
    fprintf(out, "  wake-ups: ");
    if (!wakes->on) {
        fprintf(out, "none\n");
        return;
    }
    fprintf(out,
            "lost %" PRIu32 " ppm, twice %" PRIu32 " ppm, false %" PRIu32 " ppm, late %" PRIu32
            " ppm",
            wakes->lost_ppm, wakes->twice_ppm, wakes->false_ppm, wakes->late_ppm);
    if (wakes->late_ppm) print_ms(out, " by up to ", wakes->late_max);
    if (wakes->deaf) fprintf(out, ", all lost from nodes");
    print_numbers(wakes->deaf, out);
    fputc('\n', out);
}

static void print_client(const struct plan *plan, unsigned index, FILE *out) {
    const struct world_client_options *client = &plan->options.client[index];
    fprintf(out,
            "  client %c: clock %" PRIu32 " ppm, retry %" PRId64 "-%" PRId64 " ms, stall %" PRId64
            " ms, lost margin %" PRId64 " ms",
            'A' + (int)index, client->clock_ppm, client->lock.retry_delay_ms_min,
            client->lock.retry_delay_ms_max, client->client.stall_timeout_ms,
            client->lock.lost_margin_ms);
    if (client->lock.renew) fprintf(out, ", renews");
    if (client->lock.hold_ms_max)
        fprintf(out, ", holds at most %" PRId64 " ms", client->lock.hold_ms_max);
    if (client->nodes) fprintf(out, ", lists nodes");
    print_numbers(client->nodes, out);
    if (client->client.mode == REDLOCK_MODE_GUARDED && client->client.confirm)
        fprintf(out, ", confirms");
    if (client->client.mode == REDLOCK_MODE_GUARDED && !client->client.recover)
        fprintf(out, ", brings no node back");
    if (client->client.mode == REDLOCK_MODE_AUTO) fprintf(out, ", forgets the mode");
    if (client->client.quorum) fprintf(out, ", names the quorum");
    if (client->wall_off) print_ms(out, ", wall clock off by ", client->wall_off);
    if (plan->patient)
        fprintf(out, ", node timeout %" PRId64 " ms", client->client.node_timeout_ms);
    if (client->short_lived) fprintf(out, ", a process for each lock");
    if (client->stranger) fprintf(out, ", of another project");
    fputc('\n', out);
}

static void print_nodes(rl_mask nodes, const char *what, FILE *out) {
    if (nodes == 0) return;
    fprintf(out, "  nodes");
    print_numbers(nodes, out);
    fprintf(out, " %s\n", what);
}

void plan_print(const struct plan *plan, FILE *out) {
    const struct world_options *options = &plan->options;
    const struct world_link *link = &options->link;
    fprintf(out,
            "seed %" PRIu64 ": nodes %u, clients %u, resources %u, ttl %" PRId64
            " ms, %zu actions, broken: %s\n",
            plan->seed, options->nodes, options->clients, options->resources,
            options->client[0].lock.ttl_ms, plan->count, plan_break_word(plan->broken));
    print_ms(out, "  network: ", link->delay_min);
    print_ms(out, " to ", link->delay_max);
    if (link->tail_ppm) print_ms(out, ", tail to ", link->tail_max);
    fprintf(out,
            " (%" PRIu32 " ppm), requests lost %" PRIu32 " ppm, answers lost %" PRIu32 " ppm\n",
            link->tail_ppm, link->request_loss_ppm, link->reply_loss_ppm);
    print_wakes(&options->wakes, out);
    for (unsigned i = 0; options->slots && i < options->clients; i++)
        fprintf(out, "%s%" PRIu32,
                i ? ", " : "  slots of the clients' locks: ", options->client[i].lock.slots);
    if (options->slots) fputc('\n', out);
    for (unsigned i = 0; options->shared && i < options->clients; i++)
        fprintf(out, "%s%#x", i ? ", " : "  resources whose locks are shared, by client: ",
                options->client[i].reads);
    if (options->shared) fputc('\n', out);
    if (options->together) fprintf(out, "  renewals wait for each other\n");
    if (plan->guarded)
        fprintf(out,
                "  guarded: ttl_max %" PRId64 " ms, SET and ZADD apart %" PRIu32 " ppm, %" PRIu32
                " clients elsewhere\n",
                options->ttl_ms_max, options->split_ppm, options->clients_elsewhere);
    print_nodes(options->others, "are a second quorum", out);
    print_nodes(options->spare, "have no record yet", out);
    if (plan->operators) fprintf(out, "  the last %u clients are operators\n", plan->operators);
    print_nodes(options->unannounced, "announce no changes", out);
    if (plan->nodes == PLAN_NODES_MIXED && !options->native)
        fprintf(out, "  no node is native at first\n");
    print_nodes(options->native, "are native", out);
    for (unsigned i = 0; i < options->clients; i++) print_client(plan, i, out);
    fprintf(out, "  node clocks (ppm):");
    for (unsigned i = 0; i < options->nodes; i++) fprintf(out, " %" PRIu32, plan->node_ppm[i]);
    print_ms(out, "\n  faults end at ", plan->faults_end);
    print_ms(out, ", then somebody acquires within ", plan->liveness_bound);
    fputc('\n', out);
}

static void print_session(const struct plan_action *action, FILE *out) {
    fprintf(out, "%c acquires", 'A' + action->client);
    if (!action->many) fprintf(out, " r%d", action->resource + 1);
    for (int i = 0; i < WORLD_RESOURCES_MAX; i++)
        if (action->many >> i & 1) fprintf(out, " r%d", i + 1);
    fprintf(out, "%s, waits up to %" PRId64 " ms", action->many ? " in one call" : "",
            action->number);
    print_ms(out, ", holds ", action->span);
    if (action->updates) {
        fprintf(out, ", updates %" PRIu32 " times", action->updates);
        print_ms(out, ", thinks ", action->think);
        if (action->late) print_ms(out, ", writes take ", action->late);
    }
    if (action->adopts) fputs(", by the token of its last lock", out);
    if (action->adopt_at) print_ms(out, ", takes it over by its token after ", action->adopt_at);
    if (action->extend_at) print_ms(out, ", extends after ", action->extend_at);
    if (action->downgrade_at) print_ms(out, ", only reads after ", action->downgrade_at);
    if (action->cancel_at) print_ms(out, ", gives up after ", action->cancel_at);
}

static void print_fault(const struct plan_action *action, FILE *out) {
    static const char *const sentences[] = {
#define TEXT(name, text) text,
        PLAN_KINDS(TEXT)
#undef TEXT
    };
    bool of_client = action->kind >= PLAN_CLIENT_PAUSE,
         of_link = !of_client && action->kind >= PLAN_CUT;
    if (of_client)
        fprintf(out, "%c", 'A' + action->client);
    else
        fprintf(out, "n%d", action->node + 1);
    fprintf(out, " %s", sentences[action->kind]);
    if (of_link) fprintf(out, " for %c", 'A' + action->client);
    if (action->kind == PLAN_BREAKS_LOCK) {
        fprintf(out, " (r%d)", action->resource + 1);
        if (action->think) print_ms(out, " that it has seen before, by ", action->think);
    }
    if (action->number || action->kind == PLAN_NODE_KIND || action->kind == PLAN_NODE_STRANGER)
        fprintf(out, " (%" PRId64 ")", action->number);
    if (action->native) fprintf(out, ", if it is native");
    if (action->span) print_ms(out, " for ", action->span);
}

void plan_print_action(const struct plan *plan, size_t index, FILE *out) {
    const struct plan_action *action = &plan->actions[index];
    fprintf(out, "  %3zu", index);
    print_ms(out, " at ", action->at);
    fputs(": ", out);
    if (action->kind == PLAN_SESSION)
        print_session(action, out);
    else
        print_fault(action, out);
    fputc('\n', out);
}

/* ---- masks ----------------------------------------------------------------------------------- */

bool plan_mask_has(const struct plan_mask *mask, size_t index) {
    return (mask->words[index / 64] >> index % 64 & 1) != 0;
}

void plan_mask_set(struct plan_mask *mask, size_t index, bool on) {
    uint64_t bit = UINT64_C(1) << index % 64;
    if (on)
        mask->words[index / 64] |= bit;
    else
        mask->words[index / 64] &= ~bit;
}

void plan_mask_all(struct plan_mask *mask, size_t count) {
    memset(mask, 0, sizeof(*mask));
    for (size_t i = 0; i < count; i++) plan_mask_set(mask, i, true);
}

static bool read_number(const char **text, size_t *number) {
    *number = 0;
    if (**text < '0' || **text > '9') return false;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        *number = *number * 10 + (size_t)(**text - '0');
        if (*number >= PLAN_ACTIONS_MAX) return false;
    }
    return true;
}

bool plan_mask_read(struct plan_mask *mask, const char *text) {
    memset(mask, 0, sizeof(*mask));
    if (strcmp(text, "none") == 0) return true;
    for (;;) {
        size_t from, to;
        if (!read_number(&text, &from)) return false;
        to = from;
        if (*text == '-') {
            text++;
            if (!read_number(&text, &to) || to < from) return false;
        }
        for (size_t i = from; i <= to; i++) plan_mask_set(mask, i, true);
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

void plan_mask_print(const struct plan_mask *mask, size_t count, FILE *out) {
    const char *comma = "";
    for (size_t i = 0; i < count; i++) {
        if (!plan_mask_has(mask, i)) continue;
        size_t to = i;
        while (to + 1 < count && plan_mask_has(mask, to + 1)) to++;
        fprintf(out, "%s%zu", comma, i);
        if (to > i) fprintf(out, "-%zu", to);
        comma = ",";
        i = to;
    }
    if (*comma == '\0') fputs("none", out);
}
