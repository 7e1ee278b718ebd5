/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A load on `redlock serve`: a crowd of well-behaved clients at a stated rate, with or without
 * clients beside them that are a nuisance, and a look at the nodes afterwards.
 */
#ifndef BENCH_GATEWAY_LOAD_H
#define BENCH_GATEWAY_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "program/meter.h"
#include "process/boottime.h"

struct redlock_client;

enum { SHARED_KEYS = 4, SHA_BYTES = 40, KEY_BYTES = 80, BACKLOG_MAX = 64, ANSWER_MAX = 2048 };

/* ---- served.c: the gateway's process, and what is on the nodes ---- */

struct served {
    const char *program, *nodes;
    char directory[80];
    struct sockaddr_un address;
    pid_t pid; /* 0: none */
    unsigned connections_max;
};

void served_start(struct served *served);
/* Its exit status, or 128 and the signal's number; -1: it does not end within `ms`. *took_ns says
 * how long it took. */
int served_end(struct served *served, int number, int ms, int64_t *took_ns);
void served_close(struct served *served);
/* A stream to it; -1: it is not there, or has no room. */
int served_connect(const struct served *served);
/* Ends one of the processes that run scripts, by SIGKILL, any of them; false: there is none at the
 * moment. */
bool served_kill_worker(const struct served *served);
bool served_runs(const struct served *served);
/* Its processor time so far. */
int64_t served_cpu_ns(const struct served *served);
/* In KiB, of /proc: "VmRSS:", "VmHWM:". */
long served_memory(const struct served *served, const char *which);

/* How many nodes hold the key at this moment, with that value unless it is NULL. *most_ms: the
 * longest that one of them still will, -1: for ever, left alone where nobody does. */
unsigned nodes_holding(struct redlock_client *client, const char *key, const char *value,
                       int64_t *most_ms);

/* Ends the program with a word. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- crowd.c: the well-behaved ---- */

enum worker_state { WORKER_IDLE, WORKER_TAKING, WORKER_HOLDING, WORKER_GIVING, WORKER_GONE };

struct worker {
    int fd;
    enum worker_state state;
    int shared; /* which of the shared keys; -1: one of its own */
    unsigned number,
        names; /* a key is not used again after it could not be known what became of it */
    uint64_t value;
    int64_t due_ns;  /* of the cycle under way: when it was planned, which is not always when it
                        could begin */
    int64_t sent_ns; /* the request under way */
    int64_t gives_ns;
    int64_t backlog[BACKLOG_MAX]; /* planned, not begun */
    unsigned backlog_first, backlog_count;
    char answer[ANSWER_MAX];
    size_t answer_bytes;
};

struct crowd {
    const struct served *served;
    const char *name; /* part of its keys' */
    struct worker *workers;
    unsigned count, sharing; /* the first `sharing` of them use the shared keys */
    double rate;             /* cycles a second, of all; one in five is on a shared key */
    int64_t ttl_ms, hold_ns;
    bool keeps; /* locks on keys of their own are not given back */
    bool ends;  /* who is answered does nothing more */
    int epoll, timer;
    char sha[SHA_BYTES + 1];
    int64_t next_ns; /* when the next cycle is planned */
    uint64_t planned;
    unsigned next_own;
    /* The client that was granted the lock and has not begun to release it; -1: none. */
    int holder[SHARED_KEYS];
    struct histogram *latency;
    uint64_t cycles, refused, twice, lost, unknown, wrong, overrun;
    char last_error[160];
    struct nuisance *nuisances;
    unsigned nuisances_count;
    int *idle; /* sockets */
    unsigned idle_count;
    uint64_t scripts;                    /* bytes of answers to those that mean harm */
    int64_t kill_every_ns, kill_next_ns; /* a process that runs scripts; 0: none */
    uint64_t killed;
};

void crowd_open(struct crowd *crowd);
/* Plans cycles at the rate until then, and goes on until those are done; `while_running` (may be
 * NULL) is asked ten times a second, and ends it by false. */
void crowd_run(struct crowd *crowd, int64_t until_ns,
               bool (*while_running)(struct crowd *crowd, void *context), void *context);
/* Everybody with a key of his own who is idle asks for it, all at once; the even or the odd
 * ones. */
void crowd_burst(struct crowd *crowd, unsigned odd);
/* Reads what is still to come, until all connections are closed or `ms` are over. How many are
 * not. */
unsigned crowd_read_out(struct crowd *crowd, int ms);
void crowd_close(struct crowd *crowd);
void worker_key(const struct crowd *crowd, const struct worker *worker, char *out);
void worker_value(const struct worker *worker, char *out);

/* ---- nuisance.c: the others ---- */

enum nuisance_kind {
    NUISANCE_READS_SLOWLY,
    NUISANCE_WRITES_SLOWLY,
    NUISANCE_TALKS_GARBAGE,
    NUISANCE_RUNS_SCRIPTS
};

struct nuisance {
    enum nuisance_kind kind;
    int fd;        /* -1: to be connected again */
    uint64_t done; /* bytes, lines of garbage */
    int64_t next_ns;
};

struct nuisances_wanted {
    unsigned slow, garbage, scripts;
};
void nuisances_open(struct crowd *crowd, const struct nuisances_wanted *wanted);
void nuisances_close(struct crowd *crowd);
/* Does what is due; called a hundred times a second. */
void nuisances_do(struct crowd *crowd, int64_t now);

/* ---- idle.c: clients that were done before ---- */

void idle_open(struct crowd *crowd, unsigned count);
void idle_close(struct crowd *crowd);

/* ---- hostile.c: scripts that mean harm ---- */

/* Sends as many as there is room for, of all kinds in turn, and reads what has come. False: the
 * connection is over. */
bool hostile_do(struct crowd *crowd, struct nuisance *nuisance);

#endif
