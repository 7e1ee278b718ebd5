/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The waiters of a key are a tree in the order of their arrival. It is a treap: each waiter's hash
 * is its priority, so the tree is balanced for whoever does not know the seed. Each subtree knows
 * its size, which makes a waiter's rank the way down to it. */
#include "node/queue.h"

#include <assert.h>
#include <string.h>

#include "node/ends.h"
#include "node/hash.h"
#include "node/memory.h"

enum {
    NAME_BYTES_MAX = 128,
    SKIPPED_MAX = 16,
    FORGOTTEN_AT_ONCE = 16,
    OFFSET_STEP_US = 1000,
    TAKERS = 8
};
static const int64_t time_us_max = INT64_C(1) << 52; /* 142 years: sums of two stay in range */

/* The wait queue of one key. It exists while somebody waits. */
struct line {
    struct item item; /* its place is among the reservations */
    struct waiter *root;
    bool reserved; /* for the first of them */
    struct taker { /* the last waiters that took the lock, and when */
        int64_t at_us;
        uint32_t hash; /* of the name */
    } takers[TAKERS];
    uint32_t taken; /* how often */
    uint32_t key_bytes;
    char key[];
};

struct waiter {
    struct item item; /* its place is among those that will be forgotten */
    struct line *line;
    struct waiter *left, *right;
    int64_t since_us;
    uint32_t size; /* of the subtree */
    uint16_t name_bytes;
    bool reads;
    char name[];
};

struct node_queue {
    struct node_queue_options options;
    struct buckets lines, waiters;
    struct ends reservations, forgotten;
    size_t items_bytes;
    int64_t offset_us; /* of the wall clock, against the queue's */
};

static struct node_bytes name_of(const struct waiter *waiter) {
    return (struct node_bytes){waiter->name, waiter->name_bytes};
}

static struct node_bytes key_of(const struct line *line) {
    return (struct node_bytes){line->key, line->key_bytes};
}

/* ---- the order ---- */

struct arrival {
    int64_t since_us;
    struct node_bytes name;
};

static struct arrival arrival(const struct waiter *waiter) {
    return (struct arrival){waiter->since_us, name_of(waiter)};
}

static bool comes_before(struct arrival a, struct arrival b) {
    if (a.since_us != b.since_us) return a.since_us < b.since_us;
    size_t shorter = a.name.bytes < b.name.bytes ? a.name.bytes : b.name.bytes;
    int differ = memcmp(a.name.data, b.name.data, shorter);
    return differ != 0 ? differ < 0 : a.name.bytes < b.name.bytes;
}

static uint32_t size_of(const struct waiter *root) { return root ? root->size : 0; }

static void count_again(struct waiter *root) {
    root->size = 1 + size_of(root->left) + size_of(root->right);
}

/* Those before `place`, and the others. */
static void divide(struct waiter *root, struct arrival place, struct waiter **before,
                   struct waiter **behind) {
    if (!root) {
        *before = *behind = NULL;
    } else if (comes_before(arrival(root), place)) {
        divide(root->right, place, &root->right, behind);
        count_again(root);
        *before = root;
    } else {
        divide(root->left, place, before, &root->left);
        count_again(root);
        *behind = root;
    }
}

static struct waiter *join(struct waiter *before, struct waiter *behind) {
    if (!before || !behind) return before ? before : behind;
    if (before->item.hash >= behind->item.hash) {
        before->right = join(before->right, behind);
        count_again(before);
        return before;
    }
    behind->left = join(before, behind->left);
    count_again(behind);
    return behind;
}

static void tree_add(struct waiter *waiter) {
    struct waiter **at = &waiter->line->root;
    struct arrival place = arrival(waiter);
    while (*at && (*at)->item.hash >= waiter->item.hash) {
        struct waiter *root = *at;
        root->size++;
        at = comes_before(place, arrival(root)) ? &root->left : &root->right;
    }
    divide(*at, place, &waiter->left, &waiter->right);
    count_again(waiter);
    *at = waiter;
}

static void tree_remove(struct waiter *waiter) {
    struct waiter **at = &waiter->line->root;
    struct arrival place = arrival(waiter);
    while (*at != waiter) {
        struct waiter *root = *at;
        root->size--;
        at = comes_before(place, arrival(root)) ? &root->left : &root->right;
    }
    *at = join(waiter->left, waiter->right);
}

static size_t rank_of(const struct waiter *waiter) {
    struct arrival place = arrival(waiter);
    size_t before = size_of(waiter->left);
    for (const struct waiter *root = waiter->line->root; root != waiter;) {
        bool is_left = comes_before(place, arrival(root));
        if (!is_left) before += size_of(root->left) + 1;
        root = is_left ? root->left : root->right;
    }
    return before;
}

static struct waiter *at_rank(const struct line *line, size_t rank) {
    struct waiter *root = line->root;
    while (root && rank != size_of(root->left)) {
        bool is_left = rank < size_of(root->left);
        if (!is_left) rank -= size_of(root->left) + 1;
        root = is_left ? root->left : root->right;
    }
    return root;
}

/* ---- lines and waiters ---- */

static struct line *find_line(const struct node_queue *queue, struct node_bytes key) {
    if (node_queue_waiters(queue) == 0) return NULL; /* the usual case, and each vote asks */
    uint32_t hash = node_hash(queue->options.seed, key);
    struct item *item = buckets_first(&queue->lines, hash);
    for (; item; item = item->next) {
        struct line *line = (struct line *)item;
        if (item->hash == hash && node_equal(key_of(line), key)) return line;
    }
    return NULL;
}

/* The same name has another hash in each line. */
static uint32_t waiter_hash(const struct node_queue *queue, const struct line *line,
                            struct node_bytes name) {
    return node_hash(queue->options.seed ^ rl_scatter(line->item.hash), name);
}

static struct waiter *find_waiter(const struct node_queue *queue, const struct line *line,
                                  struct node_bytes name) {
    uint32_t hash = waiter_hash(queue, line, name);
    struct item *item = buckets_first(&queue->waiters, hash);
    for (; item; item = item->next) {
        struct waiter *waiter = (struct waiter *)item;
        if (item->hash == hash && waiter->line == line && node_equal(name_of(waiter), name))
            return waiter;
    }
    return NULL;
}

/* A request takes some time, so what the waiter counts places it too late, and on each node by
 * another time. What it says places it right, if its clock is right. If its clock is slow, it does
 * not come before those that waited already when it last had the lock: else nobody else would get
 * the lock from a client that takes it again and again. */
static int64_t since_of(const struct node_queue *queue, const struct line *line,
                        const struct node_waiter *from, int64_t now_us) {
    int64_t counted_us = now_us - from->waited_us, said_us = from->since_us;
    if (said_us > counted_us || said_us < counted_us - NODE_SINCE_SLACK_US) return counted_us;
    uint32_t hash = waiter_hash(queue, line, from->name);
    for (uint32_t i = 0; i < TAKERS && i < line->taken; i++)
        if (line->takers[i].hash == hash && line->takers[i].at_us > said_us &&
            line->takers[i].at_us <= counted_us) /* else it was a try, which it lost */
            said_us = line->takers[i].at_us;
    return said_us;
}

static size_t line_bytes(size_t key_bytes) {
    return node_memory_charge(sizeof(struct line) + key_bytes);
}

static size_t waiter_bytes(size_t name_bytes) {
    return node_memory_charge(sizeof(struct waiter) + name_bytes);
}

size_t node_queue_bytes(const struct node_queue *queue) {
    return queue->items_bytes + chunks_bytes(&queue->lines.chunks) +
           chunks_bytes(&queue->waiters.chunks) + chunks_bytes(&queue->reservations.chunks) +
           chunks_bytes(&queue->forgotten.chunks);
}

static bool fits(const struct node_queue *queue, size_t more) {
    return queue->options.bytes_max == 0 ||
           node_queue_bytes(queue) + more <= queue->options.bytes_max;
}

/* Room for one more in `ends`, within the limit together with `bytes`. */
static bool make_room(const struct node_queue *queue, struct ends *ends, size_t bytes) {
    return fits(queue, bytes + ends_bytes_more(ends, 1)) && ends_reserve(ends, 1);
}

static bool may_grow(const struct node_queue *queue, const struct buckets *buckets) {
    return fits(queue, chunks_bytes_more(&buckets->chunks, 1));
}

static struct line *make_line(struct node_queue *queue, struct node_bytes key) {
    struct line *line = node_memory_take(sizeof *line + key.bytes);
    if (!line) return NULL;
    memset(line, 0, sizeof *line);
    if (key.bytes) memcpy(line->key, key.data, key.bytes);
    line->key_bytes = (uint32_t)key.bytes;
    line->item.hash = node_hash(queue->options.seed, key);
    queue->items_bytes += line_bytes(key.bytes);
    buckets_add(&queue->lines, &line->item, may_grow(queue, &queue->lines));
    return line;
}

static void unreserve(struct node_queue *queue, struct line *line) {
    if (line->reserved) ends_remove(&queue->reservations, &line->item);
    line->reserved = false;
}

static void drop_if_empty(struct node_queue *queue, struct line *line) {
    if (line->root) return;
    unreserve(queue, line);
    buckets_remove(&queue->lines, &line->item);
    queue->items_bytes -= line_bytes(line->key_bytes);
    node_memory_give(line);
}

static struct waiter *make_waiter(struct node_queue *queue, struct line *line,
                                  const struct node_waiter *from, int64_t now_us) {
    size_t bytes = from->name.bytes;
    struct waiter *waiter = node_memory_take(sizeof *waiter + bytes);
    if (!waiter) return NULL;
    memcpy(waiter->name, from->name.data, bytes);
    waiter->name_bytes = (uint16_t)bytes;
    waiter->reads = from->reads;
    waiter->line = line;
    waiter->since_us = since_of(queue, line, from, now_us);
    waiter->item.hash = waiter_hash(queue, line, from->name);
    queue->items_bytes += waiter_bytes(bytes);
    buckets_add(&queue->waiters, &waiter->item, may_grow(queue, &queue->waiters));
    ends_add(&queue->forgotten, &waiter->item, now_us + from->remember_us);
    tree_add(waiter);
    return waiter;
}

/* The line may be empty afterwards. */
static void remove_waiter(struct node_queue *queue, struct waiter *waiter) {
    tree_remove(waiter);
    buckets_remove(&queue->waiters, &waiter->item);
    ends_remove(&queue->forgotten, &waiter->item);
    queue->items_bytes -= waiter_bytes(waiter->name_bytes);
    node_memory_give(waiter);
}

/* ---- whose turn it is ---- */

static void notify(const struct node_queue *queue, const struct line *line, size_t rank) {
    const struct waiter *waiter = at_rank(line, rank);
    if (waiter && queue->options.notify)
        queue->options.notify(queue->options.context, key_of(line), name_of(waiter), rank,
                              line->reserved && rank == 0);
}

/* Those behind `rank` have moved up to it. */
static void moved_up(const struct node_queue *queue, const struct line *line, size_t rank) {
    for (; rank < queue->options.heads; rank++) notify(queue, line, rank);
}

/* Without memory the lock is free for whoever comes first. */
static void reserve(struct node_queue *queue, struct line *line, int64_t now_us) {
    int64_t end_us = now_us + queue->options.reserve_us;
    if (line->reserved) {
        ends_move(&queue->reservations, &line->item, end_us);
    } else if (make_room(queue, &queue->reservations, 0)) {
        ends_add(&queue->reservations, &line->item, end_us);
        line->reserved = true;
    }
}

/* A waiter that is not there any more had this rank. The reservation of the first passes to the
 * next. */
static void has_left(struct node_queue *queue, struct line *line, size_t rank, int64_t now_us) {
    if (rank == 0 && line->reserved && line->root) {
        reserve(queue, line, now_us);
        notify(queue, line, 0);
        rank = 1;
    }
    moved_up(queue, line, rank);
    drop_if_empty(queue, line);
}

static void leave(struct node_queue *queue, struct waiter *waiter, int64_t now_us) {
    struct line *line = waiter->line;
    size_t rank = rank_of(waiter);
    remove_waiter(queue, waiter);
    has_left(queue, line, rank, now_us);
}

/* The line with its reservation as of now. NULL: nobody waits. */
static struct line *line_now(struct node_queue *queue, struct node_bytes key, int64_t now_us) {
    struct line *line = find_line(queue, key);
    if (!line || !line->reserved) return line;
    if (ends_time(&queue->reservations, &line->item) > now_us) return line;
    bool last = line->root->size == 1;
    leave(queue, at_rank(line, 0), now_us);
    return last ? NULL : line;
}

/* ---- the queue ---- */

struct node_queue *node_queue_new(const struct node_queue_options *options) {
    struct node_queue *queue = node_memory_take(sizeof *queue);
    assert(options->reserve_us > 0);
    if (!queue) return NULL;
    memset(queue, 0, sizeof *queue);
    queue->options = *options;
    if (buckets_begin(&queue->lines) && buckets_begin(&queue->waiters)) return queue;
    node_queue_free(queue);
    return NULL;
}

void node_queue_free(struct node_queue *queue) {
    if (!queue) return;
    struct item *item;
    while ((item = ends_first(&queue->forgotten))) {
        struct line *line = ((struct waiter *)item)->line;
        remove_waiter(queue, (struct waiter *)item);
        drop_if_empty(queue, line);
    }
    buckets_free(&queue->lines);
    buckets_free(&queue->waiters);
    ends_free(&queue->reservations);
    ends_free(&queue->forgotten);
    node_memory_give(queue);
}

static bool is_sound(const struct node_waiter *waiter) {
    return waiter->name.bytes > 0 && waiter->name.bytes <= NAME_BYTES_MAX &&
           waiter->waited_us >= 0 && waiter->waited_us <= time_us_max && waiter->remember_us > 0 &&
           waiter->remember_us <= time_us_max;
}

/* A reservation is for the first, also if it came after the others. */
static void claim(struct node_queue *queue, const struct waiter *waiter, int64_t now_us) {
    struct line *line = waiter->line;
    if (!line->reserved || rank_of(waiter) != 0) return;
    reserve(queue, line, now_us);
    notify(queue, line, 0);
}

/* NULL: the queue is full, and unchanged. */
static struct waiter *come(struct node_queue *queue, struct node_bytes key, struct line *line,
                           const struct node_waiter *from, int64_t now_us) {
    size_t bytes = waiter_bytes(from->name.bytes) + (line ? 0 : line_bytes(key.bytes));
    if (!make_room(queue, &queue->forgotten, bytes)) return NULL;
    if (!line) line = make_line(queue, key);
    if (!line) return NULL;
    struct waiter *waiter = make_waiter(queue, line, from, now_us);
    if (!waiter) {
        drop_if_empty(queue, line);
        return NULL;
    }
    claim(queue, waiter, now_us);
    return waiter;
}

/* One that comes again may have come before the others, if its first request took long. But it does
 * not take the reservation of another: by a clock that runs fast, a waiter has come earlier each
 * time that it comes again, and two of them would take it from each other for ever. */
static void move_up(struct waiter *waiter, int64_t since_us) {
    const struct line *line = waiter->line;
    const struct waiter *first = at_rank(line, 0);
    if (line->reserved && since_us <= first->since_us) since_us = first->since_us + 1;
    if (since_us >= waiter->since_us) return;
    tree_remove(waiter);
    waiter->since_us = since_us;
    tree_add(waiter);
}

/* The two clocks are read one after the other. An offset that stays the same in spite of that keeps
 * the order of waiters that came at almost the same time. */
int64_t node_queue_since(struct node_queue *queue, int64_t said_us, int64_t wall_us,
                         int64_t now_us) {
    int64_t offset_us = wall_us - now_us, change_us = offset_us - queue->offset_us;
    if (change_us < -OFFSET_STEP_US || change_us > OFFSET_STEP_US) queue->offset_us = offset_us;
    return said_us - queue->offset_us;
}

int64_t node_queue_enter(struct node_queue *queue, struct node_bytes key,
                         const struct node_waiter *waiter, int64_t now_us) {
    if (!is_sound(waiter) || key.bytes > UINT32_MAX) return -1;
    struct line *line = line_now(queue, key, now_us);
    struct waiter *found = line ? find_waiter(queue, line, waiter->name) : NULL;
    if (found) {
        ends_move(&queue->forgotten, &found->item, now_us + waiter->remember_us);
        found->reads = waiter->reads;
        move_up(found, since_of(queue, line, waiter, now_us));
    } else {
        found = come(queue, key, line, waiter, now_us);
    }
    return found ? (int64_t)rank_of(found) : -1;
}

size_t node_queue_leave(struct node_queue *queue, struct node_bytes key, struct node_bytes waiter,
                        bool skipping, int64_t now_us) {
    struct line *line = line_now(queue, key, now_us);
    struct waiter *found = line ? find_waiter(queue, line, waiter) : NULL;
    if (!line) return 0;
    size_t remain = line->root->size;
    if (!found) return remain;
    for (int i = 0; skipping && i < SKIPPED_MAX; i++) {
        struct waiter *first = at_rank(line, 0);
        if (first == found) break;
        remove_waiter(queue, first);
        remain--;
    }
    size_t rank = skipping ? 0 : rank_of(found);
    remove_waiter(queue, found);
    has_left(queue, line, rank, now_us);
    return remain - 1;
}

size_t node_queue_peek(const struct node_queue *queue, struct node_bytes key, int64_t now_us,
                       int64_t *age_us) {
    const struct line *line = find_line(queue, key);
    *age_us = 0;
    if (!line) return 0;
    int64_t since_us = at_rank(line, 0)->since_us;
    if (since_us < now_us) *age_us = now_us - since_us;
    return line->root->size;
}

void node_queue_freed(struct node_queue *queue, struct node_bytes key, int64_t now_us) {
    struct line *line = find_line(queue, key);
    if (!line || line->reserved) return;
    /* Nobody waits for one that is known to have gone. */
    for (int i = 0; i < FORGOTTEN_AT_ONCE; i++) {
        struct waiter *first = at_rank(line, 0);
        if (ends_time(&queue->forgotten, &first->item) > now_us) break;
        remove_waiter(queue, first);
        if (!line->root) break;
    }
    if (line->root) {
        reserve(queue, line, now_us);
        notify(queue, line, 0);
    }
    drop_if_empty(queue, line);
}

static bool comes_first(const struct node_queue *queue, const struct line *line,
                        const struct node_waiter *waiter, int64_t now_us) {
    const struct waiter *first = at_rank(line, 0);
    if (!is_sound(waiter)) return false;
    if (node_equal(name_of(first), waiter->name)) return true;
    const struct arrival place = {since_of(queue, line, waiter, now_us), waiter->name};
    return !find_waiter(queue, line, waiter->name) && comes_before(place, arrival(first));
}

bool node_queue_admits(struct node_queue *queue, struct node_bytes key,
                       const struct node_waiter *waiter, int64_t now_us, int64_t *left_us) {
    struct line *line = line_now(queue, key, now_us);
    if (!line || !line->reserved || comes_first(queue, line, waiter, now_us)) return true;
    *left_us = ends_time(&queue->reservations, &line->item) - now_us;
    return false;
}

bool node_queue_is_first(struct node_queue *queue, struct node_bytes key,
                         const struct node_waiter *waiter, int64_t now_us) {
    const struct line *line = line_now(queue, key, now_us);
    return !line || comes_first(queue, line, waiter, now_us);
}

void node_queue_shared(struct node_queue *queue, struct node_bytes key, int64_t now_us) {
    const struct line *line = find_line(queue, key);
    if (line && at_rank(line, 0)->reads) node_queue_freed(queue, key, now_us);
}

bool node_queue_taken(struct node_queue *queue, struct node_bytes key, struct node_bytes waiter,
                      int64_t now_us) {
    struct line *line = find_line(queue, key);
    if (!line) return false;
    unreserve(queue, line);
    struct waiter *found = waiter.bytes ? find_waiter(queue, line, waiter) : NULL;
    bool others = line->root->size > (found ? 1 : 0);
    if (waiter.bytes)
        line->takers[line->taken++ % TAKERS] =
            (struct taker){now_us, waiter_hash(queue, line, waiter)};
    if (found) leave(queue, found, now_us);
    return others;
}

/* ---- time ---- */

size_t node_queue_tick(struct node_queue *queue, int64_t now_us, size_t limit) {
    size_t done = 0;
    for (; done < limit && ends_next(&queue->reservations) <= now_us; done++)
        leave(queue, at_rank((struct line *)ends_first(&queue->reservations), 0), now_us);
    for (; done < limit && ends_next(&queue->forgotten) <= now_us; done++)
        leave(queue, (struct waiter *)ends_first(&queue->forgotten), now_us);
    return done;
}

int64_t node_queue_next(const struct node_queue *queue) {
    int64_t reservation = ends_next(&queue->reservations), forgets = ends_next(&queue->forgotten);
    return reservation < forgets ? reservation : forgets;
}

size_t node_queue_waiters(const struct node_queue *queue) { return queue->forgotten.count; }

size_t node_queue_reservations(const struct node_queue *queue) { return queue->reservations.count; }
