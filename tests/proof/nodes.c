/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What src/node does with the requests of readers, writers and slots, for proof/extracted/nodes.ml
 * to compare: one random request after the other, and what is there behind it. One line each.
 * usage: nodes COUNT SEED */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "node/slots.h"

enum { CLIENTS = 5, SLOTS = 4, REQUESTS = 60, TTL_MAX = 12 };
/* as the constructors of Shared.v and Slots.v */
enum shared_action { SET, EXTEND, DELETE, SHARE, SHARE_EXTEND, SHARE_RELEASE, SHARED_ACTIONS };
enum slot_action { CHOOSE, TAKE, SLOT_EXTEND, LEAVE, RELEASE, SLOT_ACTIONS };

static uint64_t random_state;

static unsigned below(unsigned limit) { return (unsigned)(rl_splitmix64(&random_state) % limit); }

static struct node_bytes bytes_of(const char *text) {
    return (struct node_bytes){text, strlen(text)};
}

/* Numbers of slots, by client. 0: it knows no slots. */
static const unsigned numbers[CLIENTS] = {3, 3, 3, 2, 0};
static char tokens[CLIENTS][64];

static void write_tokens(void) {
    for (unsigned c = 0; c < CLIENTS; c++) {
        int bytes = snprintf(tokens[c], sizeof tokens[c], "%040x", c + 1);
        if (numbers[c])
            snprintf(tokens[c] + bytes, sizeof tokens[c] - (size_t)bytes, "/%u", numbers[c]);
    }
}

/* -1: nobody; CLIENTS: the marker */
static int owner_of(struct node_bytes token) {
    for (unsigned c = 0; c < CLIENTS; c++)
        if (token.bytes == strlen(tokens[c]) && memcmp(token.data, tokens[c], token.bytes) == 0)
            return (int)c;
    return CLIENTS;
}

static void print_key(struct node_table *table, const char *key, int64_t now_ms) {
    struct node_lock lock;
    if (node_look(table, bytes_of(key), now_ms, &lock))
        printf(" %d %lld", owner_of(lock.token), (long long)lock.expires_ms);
    else
        printf(" -1 0");
}

/* Mostly the next milliseconds; now and then the end of something. */
static int64_t later(int64_t now_ms) { return now_ms + (below(3) ? below(3) : below(TTL_MAX + 2)); }

/* ---- readers and writers ---- */

struct listing {
    unsigned count;
    int client[CLIENTS];
    int64_t end_ms[CLIENTS];
};

static void list(void *context, struct node_bytes reader, int64_t expires_ms) {
    struct listing *listing = context;
    if (listing->count == CLIENTS) abort();
    listing->client[listing->count] = owner_of(reader);
    listing->end_ms[listing->count++] = expires_ms;
}

static bool serve(struct node_table *table, enum shared_action action, unsigned client,
                  int64_t ttl_ms, int64_t now_ms) {
    const struct node_bytes key = bytes_of("lock"), token = bytes_of(tokens[client]);
    const struct node_share share = {.key = key, .reader = token, .ttl_ms = ttl_ms};
    int64_t fence;
    switch (action) {
    case SET: return node_acquire(table, &key, 1, token, ttl_ms, now_ms) == NODE_GRANTED;
    case EXTEND: return node_extend(table, &key, 1, token, ttl_ms, now_ms) == NODE_GRANTED;
    case DELETE: (void)node_release(table, &key, 1, token, now_ms); return false;
    case SHARE: return node_share(table, &share, now_ms, &fence) == NODE_GRANTED;
    case SHARE_EXTEND: return node_share_extend(table, &share, now_ms) == NODE_GRANTED;
    default: (void)node_share_release(table, &share, now_ms); return false;
    }
}

static void share_world(struct node_table *table, unsigned requests) {
    int64_t now_ms = 1000;
    for (unsigned i = 0; i < requests; i++) {
        enum shared_action action = below(2) ? below(SHARED_ACTIONS) : SHARE + below(3);
        const unsigned client = below(CLIENTS), ttl_ms = 1 + below(TTL_MAX);
        struct listing readers = {0};
        now_ms = later(now_ms);
        bool granted = serve(table, action, client, ttl_ms, now_ms);
        printf("shared %d %u %u %lld %d", (int)action, client, ttl_ms, (long long)now_ms, granted);
        print_key(table, "lock", now_ms);
        node_readers(table, bytes_of("lock"), now_ms, list, &readers);
        printf(" %u", readers.count);
        for (unsigned r = 0; r < readers.count; r++)
            printf(" %d %lld", readers.client[r], (long long)readers.end_ms[r]);
        printf("\n");
    }
}

/* ---- slots ---- */

static char names[NODE_SLOTS_MAX][NODE_SLOT_KEY_BYTES_MAX + 1];
static struct node_bytes keys[NODE_SLOTS_MAX];

static void write_names(void) {
    for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) {
        keys[i] = node_slot_key(bytes_of("lock"), i + 1, names[i]);
        names[i][keys[i].bytes] = 0;
    }
}

static void shuffle(uint8_t order[SLOTS], unsigned count) {
    for (unsigned i = 0; i < count && i < SLOTS; i++) order[i] = (uint8_t)(i + 1);
    for (unsigned i = count; i > 1; i--) {
        const unsigned j = below(i);
        const uint8_t slot = order[i - 1];
        order[i - 1] = order[j];
        order[j] = slot;
    }
}

/* Returns the slot that was granted, or 0. A client that knows no slots sends SET NX. */
static unsigned take(struct node_table *table, unsigned client, const uint8_t *order,
                     unsigned count, int64_t ttl_ms, int64_t now_ms) {
    const struct node_bytes token = bytes_of(tokens[client]);
    const struct node_slot_request request = {.names = keys,
                                              .count = numbers[client],
                                              .order = order,
                                              .order_count = count,
                                              .token = token,
                                              .ttl_ms = ttl_ms};
    if (!numbers[client])
        return node_acquire(table, &keys[order[0] - 1], 1, token, ttl_ms, now_ms) == NODE_GRANTED
                   ? order[0]
                   : 0;
    struct node_slot_answer answer = node_acquire_slot(table, &request, now_ms);
    return answer.answer == NODE_GRANTED ? answer.slot : 0;
}

static unsigned serve_slot(struct node_table *table, enum slot_action action, unsigned client,
                           const uint8_t *order, unsigned count, int64_t ttl_ms, int64_t now_ms) {
    const struct node_bytes token = bytes_of(tokens[client]);
    const unsigned slot = order[0];
    switch (action) {
    case CHOOSE:
    case TAKE: return take(table, client, order, count, ttl_ms, now_ms);
    case SLOT_EXTEND:
        return node_extend(table, &keys[slot - 1], 1, token, ttl_ms, now_ms) == NODE_GRANTED ? slot
                                                                                             : 0;
    default:
        for (unsigned i = 0; i < SLOTS; i++)
            if (action == RELEASE || i + 1 != slot)
                (void)node_release(table, &keys[i], 1, token, now_ms);
        return 0;
    }
}

static void slot_world(struct node_table *table, unsigned requests) {
    int64_t now_ms = 1000;
    for (unsigned i = 0; i < requests; i++) {
        enum slot_action action = below(4) ? below(3) : below(SLOT_ACTIONS);
        const unsigned client = below(CLIENTS), ttl_ms = 1 + below(TTL_MAX);
        uint8_t order[SLOTS];
        unsigned count = numbers[client] ? numbers[client] : SLOTS;
        shuffle(order, count);
        if (action != CHOOSE || !numbers[client]) count = 1;
        now_ms = later(now_ms);
        unsigned granted = serve_slot(table, action, client, order, count, ttl_ms, now_ms);
        printf("slot %d %u %u %u %lld %u", (int)action, client, numbers[client], ttl_ms,
               (long long)now_ms, count);
        for (unsigned j = 0; j < count; j++) printf(" %u", order[j]);
        printf(" %u %d", granted, SLOTS);
        for (unsigned slot = 1; slot <= SLOTS; slot++) print_key(table, names[slot - 1], now_ms);
        printf("\n");
    }
}

static void world(unsigned requests) {
    const struct node_options options = {.native = below(2) != 0};
    struct node_table *table = node_table_open(&options);
    if (!table) abort();
    printf("reset %s\n", options.native ? "native" : "stock");
    (below(2) ? share_world : slot_world)(table, requests);
    node_table_free(table);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: nodes COUNT SEED\n");
        return 64;
    }
    random_state = strtoull(argv[2], NULL, 10);
    write_tokens();
    write_names();
    for (unsigned long left = strtoul(argv[1], NULL, 10); left > 0;) {
        const unsigned requests = left < REQUESTS ? (unsigned)left : REQUESTS;
        world(requests);
        left -= requests;
    }
    return 0;
}
