/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many seeds on many processors, and one seed in detail. Each worker is a process, so that a crash
 * of the code under test names its seed and harms nothing else. Workers take every J-th seed and
 * report through memory that all share. No worker continues beyond a seed that failed, so that the
 * result is the first one, whatever the number of workers.
 */
#include "explore.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 64 };

struct worker {
    _Atomic uint64_t seed, done, simulated_ms, acquisitions, messages;
    bool failed;
    uint64_t failed_seed;
    struct outcome outcome;
};

struct shared {
    _Atomic uint64_t beyond; /* seeds from here on no longer matter */
    struct worker worker[JOBS_MAX];
    struct coverage coverage;
};

static void never_beyond(struct shared *shared, uint64_t seed) {
    uint64_t beyond = atomic_load(&shared->beyond);
    while (seed < beyond && !atomic_compare_exchange_weak(&shared->beyond, &beyond, seed)) continue;
}

/* ---- a worker -------------------------------------------------------------------------------- */

static void work(struct shared *shared, unsigned index, const struct explore_options *options) {
    static struct plan plan;
    struct worker *worker = &shared->worker[index];
    struct player *player = player_new();
    if (options->coverage) player_cover(player, &shared->coverage);
    for (uint64_t i = index; i < options->count && !worker->failed; i += options->jobs) {
        uint64_t seed = options->first + i;
        if (seed >= atomic_load(&shared->beyond)) break;
        struct plan_mask all;
        struct outcome outcome;
        atomic_store(&worker->seed, seed);
        plan_draw(&plan, seed, &options->wish);
        plan_mask_all(&all, plan.count);
        player_play(player, &plan, &all, &outcome);
        atomic_fetch_add(&worker->done, 1);
        atomic_fetch_add(&worker->simulated_ms, (uint64_t)(outcome.simulated / RL_MS));
        atomic_fetch_add(&worker->acquisitions, outcome.acquisitions);
        atomic_fetch_add(&worker->messages, outcome.messages);
        if (outcome.count == 0) continue;
        worker->failed = true;
        worker->failed_seed = seed;
        worker->outcome = outcome;
        never_beyond(shared, seed);
    }
    player_free(player);
}

/* ---- all workers ---------------------------------------------------------------------------- */

static int64_t wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct sums {
    uint64_t seeds, simulated_ms, acquisitions, messages;
    int64_t ms; /* of real time, at least 1 */
};

static struct sums sum(const struct shared *shared, unsigned jobs, int64_t began) {
    struct sums sums = {.ms = wall_ms() - began};
    if (sums.ms < 1) sums.ms = 1;
    for (unsigned i = 0; i < jobs; i++) {
        sums.seeds += atomic_load(&shared->worker[i].done);
        sums.simulated_ms += atomic_load(&shared->worker[i].simulated_ms);
        sums.acquisitions += atomic_load(&shared->worker[i].acquisitions);
        sums.messages += atomic_load(&shared->worker[i].messages);
    }
    return sums;
}

static void show_summary(const struct shared *shared, const struct explore_options *options,
                         int64_t began) {
    struct sums sums = sum(shared, options->jobs, began);
    char nodes[32] = "";
    if (options->wish.nodes != PLAN_NODES_DRAWN)
        snprintf(nodes, sizeof nodes, ", %s nodes", plan_nodes_word(options->wish.nodes));
    printf("%" PRIu64 " seeds from %" PRIu64 " (%s%s%s%s%s, broken: %s): %" PRIu64
           " s simulated in %" PRId64 ".%03" PRId64 " s (%" PRIu64 " times real time, %" PRIu64
           " seeds a second), %" PRIu64 " acquisitions, %" PRIu64 " requests\n",
           sums.seeds, options->first, options->wish.guarded ? "guarded" : "classic", nodes,
           options->wish.biased ? ", biased" : "", options->wish.shared ? ", shared" : "",
           options->wish.adopt ? ", adopting" : "", plan_break_word(options->wish.broken),
           sums.simulated_ms / 1000, sums.ms / 1000, sums.ms % 1000,
           sums.simulated_ms / (uint64_t)sums.ms, sums.seeds * 1000 / (uint64_t)sums.ms,
           sums.acquisitions, sums.messages);
    if (options->coverage)
        printf("reached %" PRIu64 " states in which something happened, %" PRIu64
               " pairs of a state and what happened in it\n",
               atomic_load(&shared->coverage.states_count),
               atomic_load(&shared->coverage.pairs_count));
}

/* Prints the command that repeats the run, without the end of the line. */
static void print_command(uint64_t seed, const struct plan_wish *wish, const char *more,
                          FILE *out) {
    fprintf(out, "redlock sim --seed %" PRIu64, seed);
    if (wish->guarded) fprintf(out, " --mode guarded");
    if (wish->nodes != PLAN_NODES_DRAWN) fprintf(out, " --%s", plan_nodes_word(wish->nodes));
    if (wish->operators) fprintf(out, " --operators");
    if (wish->biased) fprintf(out, " --biased");
    if (wish->shared) fprintf(out, " --shared");
    if (wish->adopt) fprintf(out, " --adopt");
    if (wish->broken != PLAN_BREAK_NOTHING)
        fprintf(out, " --break %s", plan_break_word(wish->broken));
    fputs(more, out);
}

static void print_violations(const struct outcome *outcome) {
    for (size_t i = 0; i < outcome->count; i++)
        printf("violated: %s: %s\n", check_rule_name(outcome->violations[i].rule),
               outcome->violations[i].text);
}

int explore_exit_of(const struct outcome *outcome) {
    if (outcome->count == 0) return EXPLORE_OK;
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->violations[i].rule != CHECK_LIVENESS &&
            outcome->violations[i].rule != CHECK_RECOVERED &&
            outcome->violations[i].rule != CHECK_STORM)
            return EXPLORE_SAFETY;
    return EXPLORE_LIVENESS;
}

static int report_failure(const struct worker *worker, const struct plan_wish *wish) {
    static struct plan plan;
    plan_draw(&plan, worker->failed_seed, wish);
    plan_print(&plan, stdout);
    print_violations(&worker->outcome);
    printf("to see it: ");
    print_command(worker->failed_seed, wish, " --trace\n", stdout);
    printf("to see it small: ");
    print_command(worker->failed_seed, wish, " --shrink\n", stdout);
    return explore_exit_of(&worker->outcome);
}

static void report_crash(const struct worker *worker, int status, const struct plan_wish *wish) {
    fprintf(stderr, "redlock-sim: a worker died (%s %d) on seed %" PRIu64 "\nto see it: ",
            WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            atomic_load(&worker->seed));
    print_command(atomic_load(&worker->seed), wish, " --trace\n", stderr);
}

/* Returns the first seed on which a worker died; UINT64_MAX: none did. */
static uint64_t await_workers(struct shared *shared, const struct explore_options *options,
                              const pid_t *pids, int64_t began) {
    uint64_t first = UINT64_MAX;
    bool progress = !options->quiet && isatty(STDERR_FILENO);
    for (unsigned left = options->jobs; left > 0;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, progress ? WNOHANG : 0);
        if (pid <= 0) {
            if (!progress) break;
            struct sums sums = sum(shared, options->jobs, began);
            fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " a second ", sums.seeds,
                    options->count, sums.seeds * 1000 / (uint64_t)sums.ms);
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
            continue;
        }
        left--;
        for (unsigned i = 0; i < options->jobs; i++) {
            bool died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
            if (pids[i] != pid || !died) continue;
            uint64_t seed = atomic_load(&shared->worker[i].seed);
            report_crash(&shared->worker[i], status, &options->wish);
            never_beyond(shared, seed);
            if (seed < first) first = seed;
        }
    }
    if (progress) fputs("\r\033[K", stderr);
    return first;
}

static int run_workers(struct shared *shared, const struct explore_options *options) {
    pid_t pids[JOBS_MAX], self = getpid();
    int64_t began = wall_ms();
    fflush(NULL);
    for (unsigned i = 0; i < options->jobs; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            perror("redlock-sim: fork");
            return EXPLORE_SYSTEM; /* workers that were started end by themselves */
        }
        if (pids[i] > 0) continue;
        /* Nobody reads what an orphan finds. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self) _exit(1);
        work(shared, i, options);
        _exit(0);
    }
    uint64_t crashed = await_workers(shared, options, pids, began);
    if (!options->quiet) show_summary(shared, options, began);
    const struct worker *failed = NULL; /* on the first seed of those that failed */
    for (unsigned i = 0; i < options->jobs; i++) {
        const struct worker *worker = &shared->worker[i];
        if (worker->failed && (!failed || worker->failed_seed < failed->failed_seed))
            failed = worker;
    }
    int result = failed ? report_failure(failed, &options->wish) : EXPLORE_OK;
    /* The lowest failing seed decides. */
    return crashed != UINT64_MAX && (!failed || crashed < failed->failed_seed) ? EXPLORE_CRASH
                                                                               : result;
}

/* Hashes of the histories, or the steps. */
static int print_each(const struct explore_options *options) {
    static struct plan plan;
    struct player *player = player_new();
    for (uint64_t i = 0; i < options->count; i++) {
        struct plan_mask all;
        struct outcome outcome;
        plan_draw(&plan, options->first + i, &options->wish);
        plan.options.record_messages = options->hash;
        plan.options.steps = options->steps ? stdout : NULL;
        plan_mask_all(&all, plan.count);
        player_play(player, &plan, &all, &outcome);
        if (!options->hash) continue;
        printf("%" PRIu64 " %016" PRIx64 "\n", options->first + i, player_hash(player));
    }
    player_free(player);
    return EXPLORE_OK;
}

int explore_many(const struct explore_options *given) {
    struct explore_options options = *given;
    if (options.hash || options.steps) return print_each(&options);
    if (options.jobs < 1) options.jobs = 1;
    if (options.jobs > JOBS_MAX) options.jobs = JOBS_MAX;
    if (options.jobs > options.count) options.jobs = (unsigned)options.count;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("redlock-sim: mmap");
        return EXPLORE_SYSTEM;
    }
    atomic_store(&shared->beyond, UINT64_MAX);
    int result = run_workers(shared, &options);
    munmap(shared, sizeof(*shared));
    return result;
}

/* ---- the smallest part that fails ------------------------------------------------------------ */

static size_t members(const struct plan_mask *mask, size_t count, size_t *each) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (plan_mask_has(mask, i)) each[found++] = i;
    return found;
}

static bool still_broken(struct player *player, const struct plan *plan, enum check_rule rule,
                         const struct plan_mask *mask) {
    struct outcome outcome;
    player_play(player, plan, mask, &outcome);
    for (size_t i = 0; i < outcome.count; i++)
        if (outcome.violations[i].rule == rule) return true;
    return false;
}

/* Delta debugging (Zeller's ddmin): removes ever smaller parts, as long as the same rule stays
 * broken. */
size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask) {
    size_t each[PLAN_ACTIONS_MAX], runs = 0, parts = 2;
    for (size_t left = members(mask, plan->count, each); left > 0 && parts <= 2 * left;) {
        if (parts > left) parts = left;
        bool found = false;
        for (size_t part = 0; part < parts && !found; part++) {
            struct plan_mask less = *mask;
            for (size_t i = left * part / parts; i < left * (part + 1) / parts; i++)
                plan_mask_set(&less, each[i], false);
            runs++;
            found = still_broken(player, plan, rule, &less);
            if (found) *mask = less;
        }
        if (!found && parts == left) break;
        parts = found ? (parts > 2 ? parts - 1 : 2) : parts * 2;
        left = members(mask, plan->count, each);
    }
    return runs;
}

/* ---- one seed ------------------------------------------------------------------------------- */

static void shrink_and_report(struct player *player, struct plan *plan, struct plan_mask *mask,
                              struct outcome *outcome) {
    size_t each[PLAN_ACTIONS_MAX], before = members(mask, plan->count, each);
    plan->options.record_messages = 0;
    size_t runs = shrink(player, plan, outcome->violations[0].rule, mask);
    printf("%zu actions of %zu are enough (%zu runs):\n", members(mask, plan->count, each), before,
           runs);
    plan->options.record_messages = 1;
    player_play(player, plan, mask, outcome);
}

int explore_one(const struct explore_options *options) {
    static struct plan plan;
    struct plan_mask mask;
    struct outcome outcome;
    plan_draw(&plan, options->seed, &options->wish);
    plan.options.record_messages = options->trace || options->shrink;
    plan_mask_all(&mask, plan.count);
    if (options->only && !plan_mask_read(&mask, options->only)) {
        fprintf(stderr, "redlock-sim: --only takes numbers below %d, as in 3,7,10-12, or 'none'\n",
                PLAN_ACTIONS_MAX);
        return EXPLORE_USAGE;
    }
    struct player *player = player_new();
    plan_print(&plan, stdout);
    fflush(stdout); /* in case the run crashes */
    player_play(player, &plan, &mask, &outcome);
    bool shrinks = options->shrink && outcome.count > 0;
    if (shrinks) shrink_and_report(player, &plan, &mask, &outcome);
    for (size_t i = 0; i < plan.count; i++)
        if (plan_mask_has(&mask, i)) plan_print_action(&plan, i, stdout);
    if (options->trace || shrinks) history_print_all(player_history(player), stdout);
    print_violations(&outcome);
    if (outcome.count == 0) puts("no rule is violated");
    if (shrinks) {
        printf("to see it again: ");
        print_command(options->seed, &options->wish, " --only ", stdout);
        plan_mask_print(&mask, plan.count, stdout);
        puts(" --trace");
    }
    player_free(player);
    return explore_exit_of(&outcome);
}
