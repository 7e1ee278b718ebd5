/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The measurements of `redlock bench`, and their results.
 */
#ifndef BENCH_PROGRAM_BENCH_H
#define BENCH_PROGRAM_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include <redlock/metrics.h>

#include "meter.h"
#include "up/janitor.h"
#include "up/servers.h"
#include "options.h"

enum { PAIRS_MAX = 99, SIDES_MAX = 5, MEASURES_MAX = 40, WAITERS_MAX = 128, THREADS_MAX = 16 };

/* One number of a measurement. For a rate, and for the fewest turns of any waiter, higher is
 * better. */
enum figure {
    FIGURE_RATE, /* cycles, holds, extensions or renewals a second */
    FIGURE_P50,
    FIGURE_P99,
    FIGURE_MAX,
    FIGURE_CPU,     /* processor time of the client, for each of them */
    FIGURE_SERVERS, /* processor time of one server, for each of them */
    FIGURE_FEWEST,  /* turns of the waiter that had the fewest */
    FIGURE_MOST,
    FIGURE_EVENNESS, /* fewest / most */
    FIGURE_QUEUE,    /* the longest wait, as a multiple of a perfect queue's */
    FIGURE_SPLITS,   /* split votes for each hold */
    FIGURE_BYTES,    /* of memory, for each held lock */
    FIGURE_LOST,     /* locks */
    FIGURE_SHARE,    /* of one processor, in percent */
    FIGURES
};

enum kind {
    KIND_BLOCKING, /* one at a time, from one thread or more of one client */
    /* the floor from as many threads: the cost of blocking threads to a client whose threads share
     * connections */
    KIND_HANDOVER,
    KIND_FLIGHT,    /* many at a time, through the client's descriptor */
    KIND_CONTENDED, /* one resource; each waiter is a process; floor: ring.h */
    KIND_HELD,      /* very many locks, held and renewed */
    KIND_DISTINCT,  /* many resources */
    KIND_GATEWAY,   /* one at a time, through redlock serve */
    KIND_NATIVE,    /* stock and native nodes, one at a time or many */
    KIND_START      /* the command; without resources it takes no lock */
};

/* The sides of KIND_NATIVE: the floor and the library on stock nodes, the library on native ones.
 */
enum native_side { NATIVE_FLOOR, NATIVE_CLASSIC, NATIVE_GUARDED, NATIVE_NATIVE, NATIVE_SIDES };
/* The ratios that are reported: of the native side to another. */
struct native_ratio {
    enum native_side over;
    enum figure figure;
    const char *words;
};
enum { NATIVE_RATIOS = 5 };
extern const struct native_ratio native_ratios[NATIVE_RATIOS];

struct measure {
    const char *name;
    enum kind kind;
    const char *summary;
    unsigned in_flight; /* or threads, or waiters */
    unsigned nodes;     /* 0: as many as -n says */
    unsigned resources; /* in one lock */
    bool extends;       /* measures extensions instead of cycles */
    bool extra;         /* only with --only */
};

struct bench {
    const struct bench_settings *settings;
    int mode; /* enum redlock_mode */
    /* The servers: started by bench itself, as many as a measurement needs, or those of -N. */
    struct janitor janitor;
    struct servers servers;
    struct servers stock, natives; /* KIND_NATIVE's */
    unsigned quorums;              /* started so far */
    bool own;
    char directory[PATH_MAX];
    char nodes[4096]; /* the URLs in use */
    size_t nodes_listed;
};

struct sample {
    double figures[FIGURES]; /* NAN: does not apply */
};

struct result {
    const struct measure *measure;
    size_t nodes, rounds, sides;
    struct sample samples[SIDES_MAX][PAIRS_MAX];
    struct histogram *latency[SIDES_MAX]; /* of all rounds */
};

/* measures.c */
extern const struct measure bench_measures[];
extern const size_t bench_measures_count;
const struct measure *measure_named(const char *name);
bool measure_has_floor(const struct measure *measure);
/* Two sides; the second is a ratio to the first: floor and library, library and gateway, true(1)
 * and redlock. */
bool measure_is_pair(const struct measure *measure);
size_t measure_sides(const struct measure *measure);
void measure_side_name(const struct measure *measure, size_t side, char *out, size_t size);
size_t measure_rounds(const struct measure *measure, const struct bench_settings *settings);
/* The result of one side in one round. */
int64_t measure_ns(const struct measure *measure, const struct bench_settings *settings);
/* The unit of the count: "cycles", "holds", ... */
const char *measure_unit(const struct measure *measure);
bool figure_applies(const struct measure *measure, enum figure figure);
/* Runs one side once. 0, or the exit status after a message. */
int measure_run(struct bench *bench, const struct measure *measure, size_t side,
                struct meter *meter, struct sample *sample);
/* The floor's side, or with `threads` the floor from as many threads. */
int measure_floor(struct bench *bench, const struct measure *measure, bool threads,
                  struct meter *meter);

/* nodes.c */
/* 0, or the exit status after a message. */
int bench_nodes_open(struct bench *bench);
/* Sets the number of nodes for the following measurements. */
int bench_nodes_use(struct bench *bench, size_t count);
/* To the environment, for programs of ours that are measured: these nodes, and no other setting. */
void bench_nodes_export(const struct bench *bench);
void bench_nodes_close(struct bench *bench);

/* library.c: the library's side. 0, or the exit status after a message. */
int64_t library_node_timeout_ms(const struct bench *bench);
int library_open(struct bench *bench, bool service_thread, struct redlock_client **client);
void library_lock_options(const struct bench *bench, struct redlock_lock_options *options);
/* `first`: the number in the first resource's name. */
int library_lock(struct redlock_client *client, const struct redlock_lock_options *options,
                 unsigned number, unsigned resources, struct redlock_lock **lock);
int library_failed(const char *what, int result);
int library_blocking(struct bench *bench, const struct measure *measure, struct meter *meter);

/* flight.c: many locks through one descriptor */
enum flight_work { FLIGHT_CYCLES, FLIGHT_EXTENSIONS, FLIGHT_TAKE, FLIGHT_GIVE };
struct flight_plan {
    enum flight_work work;
    struct redlock_lock **locks;
    unsigned locks_count, in_flight;
    /* cycles and extensions go on until it ends; each lock is taken or given back once */
    struct meter *meter;
    /* FLIGHT_GIVE: counts the locks that were already gone, and those for which too few nodes
     * answered. NULL: either one is a failure. */
    struct flight_misses {
        unsigned lost, unanswered;
    } * misses;
    /* Called about four times a second with the number of locks that are done; false: begin no
     * more. May be NULL. */
    bool (*watch)(void *context, unsigned done);
    void *context;
};
int flight_run(struct redlock_client *client, const struct flight_plan *plan);
/* Waits until that time. */
int flight_idle(struct redlock_client *client, int64_t until_ns);
int library_flight(struct bench *bench, const struct measure *measure, unsigned locks_count,
                   struct meter *meter);

/* contended.c; `floor`: with the processes of ring.h in place of the library */
int contended_run(struct bench *bench, const struct measure *measure, bool floor,
                  struct meter *meter, struct sample *sample);
/* held.c */
int held_run(struct bench *bench, const struct measure *measure, struct meter *meter,
             struct sample *sample);

/* gateway.c: the gateway's side */
int gateway_run(struct bench *bench, struct meter *meter);

/* start.c: the command's side, or that of true(1) */
int start_run(struct bench *bench, const struct measure *measure, size_t side, struct meter *meter);

/* native.c: two sets of servers; the module is that of --module, or the one that was installed with
 * this program */
bool native_can_be_had(const struct bench *bench);
int native_open(struct bench *bench); /* starts both, if they are not started */
void native_close(struct bench *bench);
const char *native_side_name(size_t side);
int native_run(struct bench *bench, const struct measure *measure, size_t side, struct meter *meter,
               struct sample *sample);

/* report.c, plot.c */
void report_print(const struct bench *bench, const struct result *results, size_t count);
void report_json(const struct bench *bench, const struct result *results, size_t count);
/* Checks that the file can be written, before the measurement takes minutes. Both return 0, or the
 * exit status after a message. */
int plot_try(const char *file);
int plot_write(const char *file, const struct result *results, size_t count);

/* bench.c */
/* argv[0..argc) are the operands. Returns the exit status. */
int bench_main(const struct bench_settings *settings, int argc, char **argv);
/* Median, minimum and maximum of one figure over the rounds; with `over` also the ratios to that
 * side, pair by pair. */
struct spread {
    double median, least, most;
};
struct spread result_spread(const struct result *result, size_t side, enum figure figure);
struct spread result_ratio(const struct result *result, size_t side, size_t over,
                           enum figure figure);

#endif
