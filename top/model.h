/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What redlock top knows: from looks at the nodes to rows and rates. Pure: it asks no server, reads
 * no clock and draws nothing. Times are nanoseconds of CLOCK_BOOTTIME (boottime.h).
 */
#ifndef TOP_MODEL_H
#define TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock/admin.h>

#include "explain/majority.h"

enum {
    TOP_ROWS_MAX = 16384,    /* of any model; see rows_max */
    TOP_BYTES_MAX = 8 << 20, /* of all names together */
    TOP_TRIPS = 9,           /* round trips whose median counts */
    TOP_RATE_LOOKS = 10,     /* looks that the rates cover */
    TOP_FILTER_BYTES = 64
};

/* ---- nodes ---- */

struct top_node {
    char url[256];
    int verdict; /* enum redlock_verdict. GRANTED: it votes */
    char reason[200];
    char unlisted[160];    /* why its keys, or what they hold, are not seen; "": they are */
    char version[16];      /* "": unknown */
    int64_t recovering_ms; /* until it votes again; -1: unknown, or it does not recover */
    int64_t reconnects;    /* since redlock top began; -1: unknown */
    uint64_t recoveries;   /* how often it was seen to begin one */
    int64_t trips_us[TOP_TRIPS];
    size_t trips;
    struct top_clock {
        int64_t at_ns, clock_us; /* the wall clock of the node at that time */
    } clocks[TOP_TRIPS];
    size_t clocks_count;
};

struct top_quorum {
    int mode; /* enum redlock_mode */
    struct redlock_quorum_status status;
    bool two_quorums, unaccepted; /* see cli/explain/membership.h */
};

/* ---- locks ---- */

struct top_row {
    void *resource;
    size_t bytes;
    enum majority_verdict verdict;
    bool known;      /* a look has shown it */
    bool is_lock;    /* a node holds, or has held, a value with the form of a token */
    uint64_t holder; /* of the last token that a majority held; 0: there was none */
    unsigned char head[TOKEN_SHOWN_MAX]; /* of the holder's token */
    size_t head_bytes;
    unsigned char owner[REDLOCK_OWNER_BYTES_MAX];
    size_t owner_bytes;
    size_t votes;         /* HELD: nodes that hold the token */
    bool leads;           /* an announcement of a leader was seen since this holder was */
    bool shared;          /* HELD: by readers, and no token */
    int64_t readers;      /* how many; -1: unknown */
    int64_t remaining_ms; /* HELD: -1: it never ends */
    int64_t waiters;      /* -1: unknown */
    int64_t oldest_ms;    /* of the first waiter */
    int64_t since_ns;     /* when this holder was first seen */
    bool is_older;        /* it may have held the lock long before */
    int64_t idle_ns;      /* since when neither held nor waited for; 0: it is */
    struct top_row *next; /* in its chain */
};

enum top_sort { TOP_BY_WAITERS, TOP_BY_RESOURCE, TOP_BY_AGE, TOP_BY_LEFT, TOP_SORTS };

struct top_model {
    struct top_node nodes[REDLOCK_NODES_MAX];
    size_t nodes_count;
    struct top_quorum quorum;
    bool every_value; /* values of any form count as locks */
    int64_t now_ns;   /* of the last look */

    struct top_row *rows[TOP_ROWS_MAX];
    size_t rows_count, bytes;
    size_t rows_max; /* of this model */
    bool is_full;    /* the last key found no place, and none has become free since */
    struct top_row *chains[2 * TOP_ROWS_MAX];
    char filter[TOP_FILTER_BYTES];

    struct redlock_walk walk;
    int64_t keys_of_walk[REDLOCK_NODES_MAX]; /* names that the walk has passed on a node */
    uint64_t names_of_walk;                  /* those that the filter keeps out included */
    int64_t keys;           /* of the last complete walk, on the node with the most; -1: none yet */
    bool left_out;          /* keys for which there was no room, in this walk ... */
    bool left_out_before;   /* ... and in the last complete one */
    unsigned looks_of_walk; /* looks that this walk has taken */
    bool walk_complete;     /* in this look */
    bool passed_all;        /* this look has passed all keys */
    bool sees_all;          /* the last look passed all keys: what is new now was not there then */

    struct {
        int64_t at_ns;
        unsigned hand_overs, splits;
    } past[TOP_RATE_LOOKS + 1];
    size_t looks;                /* that have ended */
    unsigned hand_overs, splits; /* of the look under way */
    uint64_t hand_overs_total, splits_total;
};

/* `rows_max` is at most TOP_ROWS_MAX. */
void top_model_init(struct top_model *model, size_t nodes, size_t rows_max);
void top_model_free(struct top_model *model);

/* -1: the node did not answer. */
void top_model_trip(struct top_model *model, size_t node, int64_t trip_us);
/* The median of the last round trips in microseconds; -1: there are none. */
int64_t top_node_trip_us(const struct top_node *node);
/* What the node's wall clock showed. Its rate against this machine's CLOCK_BOOTTIME, over the last
 * looks: 1 is the same; 0: unknown, or the node was silent at the last look. */
void top_model_clock(struct top_model *model, size_t node, int64_t at_ns, int64_t clock_us);
double top_node_clock_rate(const struct top_node *node);
/* The nodes that vote. */
size_t top_model_voters(const struct top_model *model);

/* A walk passes a key. Makes a row if there is room and the filter lets it pass; a waited-for
 * resource takes the place of one that is not. False: no memory. */
bool top_model_found(struct top_model *model, size_t node, int what, const void *resource,
                     size_t bytes);
/* A step of the walk has ended; begins the next walk when this one is complete. Returns whether it
 * is. */
bool top_model_stepped(struct top_model *model);
/* How many keys each server should look at in the next step: long names need smaller steps. */
uint32_t top_model_effort(const struct top_model *model);
/* What the nodes hold now. Views of nodes that do not vote are changed to their verdict. `queues`
 * may be NULL. */
void top_model_saw(struct top_model *model, struct top_row *row, struct redlock_view *views,
                   const struct redlock_queue_view *queues, int64_t now_ns);
/* After it, of a shared lock: what the nodes say of its readers. */
void top_model_saw_readers(struct top_model *model, struct top_row *row,
                           const struct redlock_readers_view *counts);
/* The look is complete: forgets rows that are no longer interesting. */
void top_model_looked(struct top_model *model, int64_t now_ns);
/* Forgets the rows that do not fit, and walks again. */
void top_model_filter(struct top_model *model, const char *filter);

struct top_row *top_model_row(const struct top_model *model, const void *resource, size_t bytes);
/* Whether people want to see it: it is held, split or waited for. */
bool top_row_is_shown(const struct top_row *row);
/* Writes the rows that are shown, in order; returns how many. `rows` has room for TOP_ROWS_MAX. */
size_t top_model_sorted(const struct top_model *model, enum top_sort by, bool reversed,
                        const struct top_row **rows);
/* How long this holder has been seen, at the last look. */
int64_t top_row_age_ms(const struct top_model *model, const struct top_row *row);

struct top_rates {
    int64_t over_ms; /* the time that they cover; 0: one look has no rate */
    double hand_overs, splits;
};
struct top_rates top_model_rates(const struct top_model *model);

#endif
