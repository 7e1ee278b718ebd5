/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A thousand clients on one gateway, most of them well-behaved: what the others cost these, and
 * what becomes of their
 * locks when the gateway is ended or killed. usage: redlock up -- gateway_load [options] [PROGRAM]
 * (redlock)
 *   --connections N   (1000) a tenth of them slow, a hundredth talking garbage, where these are
 * there
 *   --rate N          (1000) acquire-and-release cycles a second, of all well-behaved together
 *   --seconds S       (5) of each measurement
 *   --pairs N         (5) a quiet measurement and one beside the others, in alternating order
 *   --memory MIB      (32) so much may the others cost the gateway
 *   --scripts N       (0) in place of those, N that send scripts which mean harm
 *   --idle N          (0) in place of those, N that took and released one lock and are idle
 *   --kill-every MS   (0) meanwhile: ends one of the processes that run scripts, at random
 *   --check           short, and the times are not judged: for tests
 * Exit status 1: something is wrong, as the last lines say.
 */
#include "load.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <redlock.h>

enum {
    PAIRS_MAX = 99,
    BESIDE = 64,
    TTL_MS = 20000,
    HOLD_MS = 25,
    SETTLE_MS = 500,
    STUCK_MS = 1500,
    DRAIN_MS = 7000
};
#define P99_RATIO_MAX 2.0
#define P99_IDLE_RATIO_MAX 1.3
/* Of the processor time for each cycle, which depends least on what else the machine does. */
#define CPU_IDLE_RATIO_MAX 3.0
/* Where the machine does other things, too: hostile scripts cost others seconds before they had a
 * process of their own. */
#define P99_BUSY_RATIO_MAX 10.0
#define P99_BUSY_US_MAX 250e3

struct plan {
    unsigned connections, pairs;
    long memory_mib;
    double rate, seconds;
    unsigned scripts, idle;
    int64_t kill_every_ms;
    bool check;
};

struct run {
    struct plan plan;
    struct served served;
    struct crowd crowd;
    struct redlock_client *client; /* of the nodes, to look */
    long memory[2];                /* the most there was: quiet, beside the others */
    double p50[2][PAIRS_MAX], p99[2][PAIRS_MAX], cpu_us[2][PAIRS_MAX];
    uint64_t answered[2];
    bool bad;
};

/* A line for what must be so. */
static void verdict(struct run *run, bool good, const char *what) {
    printf("%s: %s\n", good ? "ok" : "WRONG", what);
    run->bad |= !good;
}

static struct nuisances_wanted wanted(const struct plan *plan) {
    if (plan->scripts > 0) return (struct nuisances_wanted){.scripts = plan->scripts};
    if (plan->idle > 0) return (struct nuisances_wanted){0};
    return (struct nuisances_wanted){.slow = plan->connections / 10,
                                     .garbage = plan->connections / 100};
}

static void come(struct run *run) {
    const struct nuisances_wanted those = wanted(&run->plan);
    nuisances_open(&run->crowd, &those);
    idle_open(&run->crowd, run->plan.idle);
}

static void go(struct crowd *crowd) {
    nuisances_close(crowd);
    idle_close(crowd);
}

/* ---- measuring ---- */

/* Afterwards, a quiet gateway may still have what the others cost it. */
static bool watch_memory(struct crowd *crowd, void *context) {
    struct run *run = context;
    const bool beside = crowd->nuisances_count + crowd->idle_count > 0;
    const long now = served_memory(&run->served, "VmRSS:");
    if (!beside && run->memory[1] > 0) return true;
    if (now > run->memory[beside]) run->memory[beside] = now;
    return true;
}

static void measure(struct run *run, bool beside, unsigned pair) {
    static struct histogram latency; /* large */
    struct crowd *crowd = &run->crowd;
    if (beside) come(run);
    crowd->latency = NULL;
    crowd_run(crowd, now_ns() + SETTLE_MS * MS, watch_memory, run);
    memset(&latency, 0, sizeof latency);
    crowd->latency = &latency;
    const int64_t cpu_before_ns = served_cpu_ns(&run->served);
    crowd_run(crowd, now_ns() + (int64_t)(run->plan.seconds * 1e9), watch_memory, run);
    crowd->latency = NULL;
    run->cpu_us[beside][pair] = (double)(served_cpu_ns(&run->served) - cpu_before_ns) / 1e3 /
                                (double)(latency.count > 0 ? latency.count : 1);
    go(crowd);
    run->p50[beside][pair] = histogram_percentile_ns(&latency, 0.5) / 1e3;
    run->p99[beside][pair] = histogram_percentile_ns(&latency, 0.99) / 1e3;
    run->answered[beside] += latency.count;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t count) {
    double sorted[PAIRS_MAX];
    memcpy(sorted, values, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_size);
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double median_ratio(double values[2][PAIRS_MAX], unsigned pairs) {
    double ratios[PAIRS_MAX];
    for (unsigned i = 0; i < pairs; i++) ratios[i] = values[1][i] / values[0][i];
    return median(ratios, pairs);
}

static void judge_ratios(struct run *run, double p99, double cpu) {
    const struct plan *plan = &run->plan;
    if (plan->idle > 0 && !plan->check) {
        verdict(run, p99 <= P99_IDLE_RATIO_MAX, "the p99 is within 1.3 times the quiet one");
    } else if (plan->idle > 0) {
        verdict(run, cpu <= CPU_IDLE_RATIO_MAX,
                "a cycle takes at most 3 times the processor time of a quiet one");
    } else if (!plan->check) {
        verdict(run, p99 <= P99_RATIO_MAX, "the p99 is within twice the quiet one");
    } else if (plan->scripts > 0) {
        verdict(run,
                p99 <= P99_BUSY_RATIO_MAX || median(run->p99[1], plan->pairs) <= P99_BUSY_US_MAX,
                "the p99 is within ten times the quiet one, or a quarter of a second");
    }
}

static void report_latencies(struct run *run) {
    static const char *const names[] = {"quiet", "beside the others"};
    const unsigned pairs = run->plan.pairs;
    const double p99 = median_ratio(run->p99, pairs), cpu = median_ratio(run->cpu_us, pairs);
    printf("%-18s %10s %10s %10s %10s %12s\n", "", "CYCLES", "P50 us", "P99 us", "CPU us",
           "MEMORY KiB");
    for (int i = 0; i < 2; i++) {
        printf("%-18s %10llu %10.0f %10.0f %10.0f %12ld\n", names[i],
               (unsigned long long)run->answered[i], median(run->p50[i], pairs),
               median(run->p99[i], pairs), median(run->cpu_us[i], pairs), run->memory[i]);
    }
    printf("beside the others over quiet, medians of %u pairs: p99 %.2f, CPU %.2f\n", pairs, p99,
           cpu);
    judge_ratios(run, p99, cpu);
}

static void judge_locks(struct run *run, const char *when) {
    const struct crowd *crowd = &run->crowd;
    char text[400];
    snprintf(text, sizeof text,
             "%s: no lock was granted twice (%llu times), none was lost by its holder (%llu)", when,
             (unsigned long long)crowd->twice, (unsigned long long)crowd->lost);
    verdict(run, crowd->twice == 0 && crowd->lost == 0, text);
    snprintf(
        text, sizeof text,
        "%s: %llu cycles, %llu refused on shared keys, %llu unknown, %llu other errors, %llu not begun%s%s",
        when, (unsigned long long)crowd->cycles, (unsigned long long)crowd->refused,
        (unsigned long long)crowd->unknown, (unsigned long long)crowd->wrong,
        (unsigned long long)crowd->overrun, crowd->last_error[0] != '\0' ? "; the last: " : "",
        crowd->last_error);
    /* On a machine so busy that a node is silent for a second, the outcome of a lock is unknown.
     * That is not an error. */
    verdict(run,
            crowd->cycles > 0 && crowd->refused > 0 && crowd->wrong == 0 &&
                (crowd->overrun == 0 || run->plan.check),
            text);
}

static void open_crowd(struct run *run, const char *name, int64_t ttl_ms) {
    const struct nuisances_wanted those = wanted(&run->plan);
    const unsigned count = run->plan.connections - those.slow - those.garbage;
    run->crowd = (struct crowd){.served = &run->served,
                                .name = name,
                                .count = count,
                                .sharing = count / 10,
                                .rate = run->plan.rate,
                                .ttl_ms = ttl_ms,
                                .hold_ns = HOLD_MS * MS,
                                .kill_every_ns = run->plan.kill_every_ms * MS};
    crowd_open(&run->crowd);
}

static void judge_hostile(struct run *run) {
    char text[160];
    snprintf(
        text, sizeof text,
        "the gateway has run all the time: %llu KiB of answers to hostile scripts, %llu processes ended",
        (unsigned long long)run->crowd.scripts / 1024, (unsigned long long)run->crowd.killed);
    verdict(run,
            served_runs(&run->served) && run->crowd.scripts > 0 &&
                (run->plan.kill_every_ms == 0 || run->crowd.killed > 0),
            text);
}

static void measure_pairs(struct run *run) {
    char text[80];
    served_start(&run->served);
    printf("memory of the gateway at its beginning: %ld KiB\n",
           served_memory(&run->served, "VmRSS:"));
    open_crowd(run, "measured", TTL_MS);
    const struct nuisances_wanted those = wanted(&run->plan);
    printf(
        "%u well-behaved clients, %u of them on %d shared keys, %.0f cycles a second; beside them %u slow ones, %u that "
        "talk garbage, %u whose scripts mean harm and %u idle ones\n",
        run->crowd.count, run->crowd.sharing, SHARED_KEYS, run->plan.rate, those.slow,
        those.garbage, those.scripts, run->plan.idle);
    for (unsigned pair = 0; pair < run->plan.pairs; pair++) {
        measure(run, pair % 2 != 0, pair);
        measure(run, pair % 2 == 0, pair);
    }
    report_latencies(run);
    printf("memory afterwards: %ld KiB, the most ever: %ld KiB\n",
           served_memory(&run->served, "VmRSS:"), served_memory(&run->served, "VmHWM:"));
    snprintf(text, sizeof text, "the others cost the gateway at most %ld MiB",
             run->plan.memory_mib);
    verdict(run, run->memory[1] - run->memory[0] <= run->plan.memory_mib * 1024, text);
    judge_locks(run, "measured");
    if (run->plan.scripts > 0) judge_hostile(run);
}

/* ---- SIGTERM ---- */

/* Many requests before the signal, and as many just after it. */
static bool burst_and_end(struct crowd *crowd, void *context) {
    const int64_t *at = context;
    if (now_ns() < *at) return true;
    crowd_burst(crowd, 0);
    kill(crowd->served->pid, SIGTERM);
    crowd_burst(crowd, 1);
    return false;
}

/* What was answered is so on the nodes; what was not, was not done. */
static void judge_drain(struct run *run) {
    unsigned answered = 0, unanswered = 0, not_there = 0, done_all_the_same = 0;
    const unsigned quorum = (unsigned)redlock_client_nodes(run->client) / 2 + 1;
    char key[KEY_BYTES], value[KEY_BYTES], text[200];
    for (unsigned i = run->crowd.sharing; i < run->crowd.count; i++) {
        const struct worker *worker = &run->crowd.workers[i];
        int64_t most_ms = 0;
        if (worker->state != WORKER_HOLDING && worker->state != WORKER_TAKING) continue;
        worker_key(&run->crowd, worker, key);
        worker_value(worker, value);
        unsigned holding = nodes_holding(run->client, key, value, &most_ms);
        if (worker->state == WORKER_HOLDING) {
            answered++;
            not_there += holding < quorum;
        } else {
            unanswered++;
            done_all_the_same += holding >= quorum;
        }
    }
    snprintf(
        text, sizeof text,
        "of %u locks that were granted in the end %u are not there, of %u requests that were not answered %u were done",
        answered, not_there, unanswered, done_all_the_same);
    verdict(run, answered > 0 && not_there == 0 && done_all_the_same == 0, text);
}

static void drain(struct run *run) {
    int64_t at = now_ns() + STUCK_MS * MS, took_ns = 0;
    char text[160];
    come(run);
    crowd_run(&run->crowd, INT64_MAX, burst_and_end, &at);
    at = now_ns();
    unsigned open = crowd_read_out(&run->crowd, DRAIN_MS);
    const int64_t read_out_ns = now_ns() - at;
    int status =
        served_end(&run->served, 0, DRAIN_MS, &took_ns); /* those who do not read hold it up */
    snprintf(
        text, sizeof text,
        "SIGTERM: the well-behaved were done with after %.2f s (%u were not), the gateway after %.1f s, exit status %d",
        (double)read_out_ns / 1e9, open, (double)(now_ns() - at) / 1e9, status);
    verdict(run, status == 0 && open == 0 && now_ns() - at < DRAIN_MS * MS, text);
    judge_drain(run);
    go(&run->crowd);
    judge_locks(run, "until then");
    crowd_close(&run->crowd);
}

/* ---- SIGKILL ---- */

static bool stop_at(struct crowd *crowd, void *context) {
    (void)crowd;
    return now_ns() < *(const int64_t *)context;
}

/* How many of all keys are on the nodes, and the longest that one will be. */
static unsigned keys_there(struct run *run, int64_t *most_ms) {
    unsigned there = 0;
    char key[KEY_BYTES];
    *most_ms = 0;
    for (unsigned i = 0; i < run->crowd.count; i++) {
        struct worker worker = run->crowd.workers[i];
        const unsigned names = worker.names;
        for (worker.names = 0; worker.names <= names; worker.names++) {
            worker_key(&run->crowd, &worker, key);
            there += nodes_holding(run->client, key, NULL, most_ms) > 0;
        }
    }
    return there;
}

static void die(struct run *run) {
    const int64_t ttl_ms = run->plan.check ? 3000 : 5000;
    int64_t at, took_ns, most_ms, most_later_ms;
    char text[200];
    served_start(&run->served);
    open_crowd(run, "kept", ttl_ms);
    run->crowd.keeps = true;
    come(run);
    at = now_ns() + 1000 * MS;
    crowd_run(&run->crowd, INT64_MAX, stop_at, &at);
    int status = served_end(&run->served, SIGKILL, 1000, &took_ns);
    const int64_t over_ns =
        now_ns() + (ttl_ms + 200) * MS; /* what it had sent last is done within that */
    unsigned there = keys_there(run, &most_ms);
    while (now_ns() < over_ns) pause_ms(10);
    unsigned there_later = keys_there(run, &most_later_ms);
    snprintf(
        text, sizeof text,
        "SIGKILL (%d): %u locks were held, for %lld ms at most of %lld; that time later there are %u",
        status - 128, there, (long long)most_ms, (long long)ttl_ms, there_later);
    verdict(run,
            status == 128 + SIGKILL && there > 0 && most_ms >= 0 && most_ms <= ttl_ms &&
                there_later == 0,
            text);
    go(&run->crowd);
    crowd_close(&run->crowd);
}

/* ---- the whole ---- */

static void read_options(struct run *run, int argc, char **argv) {
    static const struct option options[] = {{"connections", required_argument, NULL, 'c'},
                                            {"rate", required_argument, NULL, 'r'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"pairs", required_argument, NULL, 'p'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"scripts", required_argument, NULL, 'x'},
                                            {"idle", required_argument, NULL, 'd'},
                                            {"kill-every", required_argument, NULL, 'i'},
                                            {"check", no_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    struct plan *plan = &run->plan;
    *plan = (struct plan){
        .connections = 1000, .pairs = 5, .memory_mib = 32, .rate = 1000, .seconds = 5};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'k')
            *plan = (struct plan){.connections = 1000,
                                  .pairs = 1,
                                  .memory_mib = 32,
                                  .rate = 300,
                                  .seconds = 1.5,
                                  .check = true};
        else if (option == 'c')
            plan->connections = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'r')
            plan->rate = strtod(optarg, NULL);
        else if (option == 's')
            plan->seconds = strtod(optarg, NULL);
        else if (option == 'x')
            plan->scripts = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'd')
            plan->idle = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'i')
            plan->kill_every_ms = strtoll(optarg, NULL, 10);
        else if (option == 'm')
            plan->memory_mib = strtol(optarg, NULL, 10);
        else if (option == 'p')
            plan->pairs = (unsigned)strtoul(optarg, NULL, 10);
        else
            exit(64);
    }
    run->served.program = optind < argc ? argv[optind] : "redlock";
    run->served.nodes = getenv("REDLOCK_NODES");
    if (run->served.nodes == NULL)
        give_up("REDLOCK_NODES is not set; run it as: redlock up -- gateway_load");
    if (plan->connections < 100 || plan->pairs < 1 || plan->pairs > PAIRS_MAX || plan->rate < 1 ||
        plan->seconds <= 0)
        give_up("at least 100 connections, 1 to %d pairs, a cycle a second, and some seconds",
                PAIRS_MAX);
    /* A tenth is for other users. */
    run->served.connections_max = plan->connections + plan->idle * 5 / 4 + BESIDE;
}

static void make_room(unsigned connections) {
    struct rlimit limit;
    const rlim_t needed = connections + 2 * BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
    limit.rlim_cur = needed;
    if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        give_up("ulimit -n must allow %u files", connections + 2 * BESIDE);
}

static void open_client(struct run *run) {
    struct redlock_client_options options;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 5000;
    if (redlock_client_open(run->served.nodes, &options, &run->client, &error) != REDLOCK_OK)
        give_up("%s", error.text);
    redlock_client_wait_ready(run->client, 5000);
}

int main(int argc, char **argv) {
    static struct run run; /* large */
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    read_options(&run, argc, argv);
    make_room(run.plan.connections + run.plan.idle * 5 / 4);
    open_client(&run);
    measure_pairs(&run);
    if (run.plan.scripts + run.plan.idle > 0) {
        crowd_close(&run.crowd);
    } else {
        drain(&run);
        die(&run);
    }
    redlock_client_free(run.client);
    served_close(&run.served);
    return run.bad ? 1 : 0;
}
