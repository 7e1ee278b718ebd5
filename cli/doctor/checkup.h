/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What `redlock doctor` learns of each node: the server info, the latency, and the rate of its
 * clock.
 */
#ifndef CLI_CHECKUP_H
#define CLI_CHECKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock/admin.h>

#include "explain/membership.h"
#include "frame/session.h"
#include "trial.h"

/* One answer to TIME: the server's clock showed `clock_ns` at some time between two readings of
 * ours. */
struct clock_sample {
    bool taken;
    int64_t middle_ns; /* between question and answer, on CLOCK_BOOTTIME */
    int64_t round_trip_ns;
    int64_t clock_ns; /* since 1970 */
};

struct examined {
    struct redlock_node_status status;
    struct redlock_server info;
    struct redlock_why_node why; /* if it is not served */
    char cure[160];              /* ... as a sentence of its own; "": none is known */
    struct redlock_own_key keys[REDLOCK_OWN_KEYS];
    int64_t ping_min_ns, ping_median_ns; /* -1: unknown */
    bool offset_known;
    /* to the wall clock of this machine; positive: the server is ahead */
    int64_t offset_ns, offset_error_ns;
    bool change_known;
    /* of its clock against CLOCK_BOOTTIME here */
    int64_t change_ns, change_error_ns, change_over_ns;
    int64_t frozen_over_ns;   /* so long did its clock show one and the same time; 0: it did not */
    int64_t jump_ns;          /* the largest jump of its clock between two samples; 0: none */
    struct clock_sample last; /* the next examination of --watch measures from here */
    struct tried tried;       /* if the checkup has `tried` */
    char other_run_id[41];    /* of another server that the address leads to; "": none was met */
    int password;             /* 1: it requires one; 0: it does not; -1: unknown */
};

struct checkup {
    size_t count;
    struct examined nodes[REDLOCK_NODES_MAX];
    int64_t node_timeout_ms;
    bool tls_certificate; /* we show a client certificate */
    bool guarded;
    bool mode_open;      /* no mode was named, so no lock is taken on nodes of a guarded quorum */
    bool guarded_meant;  /* the configuration file has a ttl-max, which no classic client needs */
    bool pinned;         /* GUARDED: the quorum was named */
    bool allow_replicas; /* GUARDED */
    struct membership membership; /* GUARDED */
    bool tried;                   /* a lock of doctor's own was tried */
    int trial_result;             /* enum redlock_result */
};

/* Examines every node; `before` is the previous examination, or NULL. Takes (samples - 1) x 100 ms.
 * Returns a redlock_result. */
int checkup_take(struct session *session, const struct checkup *before, struct checkup *checkup);
bool is_served(const struct examined *node);
/* One of the words, which a space separates. */
bool has_word(const char *words, const char *word);
/* This user may neither take nor end a lock: it is doctor's own, and nothing is wrong with it. */
bool only_examines(const char *denied);

#endif
