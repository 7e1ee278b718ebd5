/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock-sim: the program behind `redlock sim`.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet/fleet.h"
#include "seeds/explore.h"
#include "scene_runner/scenario.h"

enum option_code {
    OPTION_SEEDS = 256,
    OPTION_START,
    OPTION_MODE,
    OPTION_JOBS,
    OPTION_BREAK,
    OPTION_SEED,
    OPTION_TRACE,
    OPTION_SHRINK,
    OPTION_ONLY,
    OPTION_HASH,
    OPTION_STEPS,
    OPTION_OPERATORS,
    OPTION_STOCK,
    OPTION_MIXED,
    OPTION_NATIVE,
    OPTION_BIASED,
    OPTION_SLOTS,
    OPTION_SHARED,
    OPTION_ADOPT,
    OPTION_COVERAGE,
    OPTION_FLEET,
    OPTION_PLOT
};

struct command_line {
    struct explore_options options;
    struct fleet_options fleet;
    bool has_seeds, has_seed;
};

static void print_help(void) {
    fputs(
        "usage: redlock sim --seeds N [--start S] [options]     explore N seeds\n"
        "       redlock sim --seed S [--trace] [--shrink] [options]     look at one\n"
        "       redlock sim SCENARIO [--html FILE] [--svg FILE]         play one that is told and drawn\n"
        "       redlock sim --fleet CLIENTS [--mode MODE] [--seed S] [--plot FILE]     the load of nodes\n"
        "\n"
        "Runs the library's own code in a world of which a seed determines everything: time, network,\n"
        "servers, clocks, crashes and pauses. The same seed gives the same run on every machine.\n"
        "\n"
        "  --seeds N       explore N seeds; stop at the first that breaks a rule\n"
        "  --start S       the first of them (1)\n"
        "  --jobs J        processes (one a processor)\n"
        "  --mode MODE     the strength of lock: classic, or guarded (which is put to all the faults that\n"
        "                  classic mode's assumptions leave out), or native (guarded --native)\n"
        "  --break WHAT    switch one assumption off:\n",
        stdout);
#define BREAK_HELP(name, word, text)                                                               \
    if (PLAN_BREAK_##name != PLAN_BREAK_NOTHING)                                                   \
        printf("                    %-13s %s\n", word, text);
    PLAN_BREAKS(BREAK_HELP)
#undef BREAK_HELP
    fputs(
        "                  (guarded mode: data-loss, of more than a minority at a time; then nothing need\n"
        "                  be granted any more, but whatever is must be right. Or vm-stop; then two may\n"
        "                  believe that they hold a lock, but tokens must grow)\n"
        "  --operators     operators break locks and, in guarded mode, change the quorum, in every world,\n"
        "                  not in one of twenty\n"
        "  --stock, --mixed, --native\n"
        "                  which nodes are native, in every world: none, some (it changes as they are\n"
        "                  restarted), all. Else: none in classic mode; in guarded mode it is drawn\n"
        "  --biased        corner cases: few nodes, clocks at the edge of drift, and faults at the moments\n"
        "                  that matter to each other (a second loss as a node's wait ends)\n"
        "  --slots         the locks have slots, in every world that can have them, and not in one of ten\n"
        "  --shared        some locks are shared, in every world without slots, and not in one of eight;\n"
        "                  in a third of those worlds operators break them\n"
        "  --adopt         clients take over locks by their tokens, in every world without slots, leaders\n"
        "                  and breaks\n"
        "  --coverage      say how many states the seeds reached, and how many (fault, state) pairs\n"
        "  --seed S        run one seed and say what its options and actions are\n"
        "  --trace         and print everything that happens\n"
        "  --shrink        leave out what is not needed to break the same rule, and print the rest\n"
        "  --only LIST     run only these actions of the seed, as in 3,7,10-12\n"
        "  --hash          print a hash of each seed's trace (a run on one machine equals that on another)\n"
        "  --steps         print the steps of each seed, for the checker made of the proof (proof/README.md)\n"
        "  --fleet CLIENTS run so many clients (100 to 20000) on five nodes, most of them holders, through the\n"
        "                  failure of a zone, the loss of a majority and a rolling restart; print how many\n"
        "                  messages a node gets a second. Status 1: a lock was lost or granted twice, a waiter\n"
        "                  was not served, or a client sent a node 10 a second. 10,000 clients take up to 6 GB and some minutes\n"
        "  --plot FILE     draw it, as SVG\n"
        "  -q, --quiet     no progress, no summary\n"
        "\n"
        "Scenarios:\n",
        stdout);
    scenario_help(stdout);
    fputs(
        "\n"
        "Exit status: 0 no rule broken, 1 safety, 2 liveness, 3 the code under test crashed, 64 usage.\n"
        "\nExample: redlock sim RESTART-EMPTY\nThe manual: man redlock-sim\n",
        stdout);
}

static bool read_number(const char *text, uint64_t most, uint64_t *number) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9') return false;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end != '\0' || value > most) return false;
    *number = value;
    return true;
}

static bool read_break(const char *text, enum plan_break *broken) {
    for (int i = 0; i < PLAN_BREAK_COUNT; i++) {
        if (strcmp(text, plan_break_word((enum plan_break)i)) != 0) continue;
        *broken = (enum plan_break)i;
        return true;
    }
    return false;
}

static bool complain(const char *text, const char *what) {
    fprintf(stderr, "redlock sim: %s%s; try 'redlock sim --help'\n", text, what);
    return false;
}

static bool take_option(struct command_line *line, int option, const char *value) {
    uint64_t number = 0;
    switch (option) {
    case OPTION_SEEDS:
        line->has_seeds =
            read_number(value, UINT32_MAX, &line->options.count) && line->options.count > 0;
        return line->has_seeds || complain("--seeds takes a number from 1 on, not ", value);
    case OPTION_START:
        return read_number(value, UINT64_MAX / 2, &line->options.first) ||
               complain("--start takes a number, not ", value);
    case OPTION_JOBS:
        if (!read_number(value, 64, &number) || number == 0)
            return complain("--jobs takes a number from 1 to 64, not ", value);
        line->options.jobs = (unsigned)number;
        return true;
    case OPTION_SEED:
        line->has_seed = read_number(value, UINT64_MAX, &line->options.seed);
        return line->has_seed || complain("--seed takes a number, not ", value);
    case OPTION_MODE:
        line->options.wish.guarded = strcmp(value, "classic") != 0;
        if (strcmp(value, "native") == 0) line->options.wish.nodes = PLAN_NODES_NATIVE;
        if (strcmp(value, "classic") == 0 || strcmp(value, "guarded") == 0 ||
            strcmp(value, "native") == 0)
            return true;
        return complain("unknown mode: --mode ", value);
    case OPTION_BREAK:
        if (!read_break(value, &line->options.wish.broken))
            return complain("unknown assumption: --break ", value);
        return true;
    case OPTION_TRACE: line->options.trace = true; return true;
    case OPTION_SHRINK: line->options.shrink = true; return true;
    case OPTION_ONLY: line->options.only = value; return true;
    case OPTION_FLEET:
        if (!read_number(value, FLEET_CLIENTS_MAX, &number) || number < FLEET_CLIENTS_MIN)
            return complain("--fleet takes a number of clients from 100 to 20000, not ", value);
        line->fleet.clients = (unsigned)number;
        return true;
    case OPTION_PLOT: line->fleet.svg = value; return true;
    case OPTION_HASH: line->options.hash = true; return true;
    case OPTION_STEPS: line->options.steps = true; return true;
    case OPTION_OPERATORS: line->options.wish.operators = true; return true;
    case OPTION_BIASED: line->options.wish.biased = true; return true;
    case OPTION_SLOTS: line->options.wish.slots = true; return true;
    case OPTION_SHARED: line->options.wish.shared = true; return true;
    case OPTION_ADOPT: line->options.wish.adopt = true; return true;
    case OPTION_COVERAGE: line->options.coverage = true; return true;
    case OPTION_STOCK: line->options.wish.nodes = PLAN_NODES_STOCK; return true;
    case OPTION_MIXED: line->options.wish.nodes = PLAN_NODES_MIXED; return true;
    case OPTION_NATIVE: line->options.wish.nodes = PLAN_NODES_NATIVE; return true;
    case 'q': line->options.quiet = true; return true;
    default: return false; /* getopt has printed the reason */
    }
}

static bool read_line(struct command_line *line, int argc, char **argv) {
    static const struct option options[] = {
        {"seeds", required_argument, NULL, OPTION_SEEDS},
        {"start", required_argument, NULL, OPTION_START},
        {"mode", required_argument, NULL, OPTION_MODE},
        {"jobs", required_argument, NULL, OPTION_JOBS},
        {"break", required_argument, NULL, OPTION_BREAK},
        {"seed", required_argument, NULL, OPTION_SEED},
        {"trace", no_argument, NULL, OPTION_TRACE},
        {"shrink", no_argument, NULL, OPTION_SHRINK},
        {"only", required_argument, NULL, OPTION_ONLY},
        {"hash", no_argument, NULL, OPTION_HASH},
        {"steps", no_argument, NULL, OPTION_STEPS},
        {"quiet", no_argument, NULL, 'q'},
        {"operators", no_argument, NULL, OPTION_OPERATORS},
        {"stock", no_argument, NULL, OPTION_STOCK},
        {"mixed", no_argument, NULL, OPTION_MIXED},
        {"native", no_argument, NULL, OPTION_NATIVE},
        {"biased", no_argument, NULL, OPTION_BIASED},
        {"slots", no_argument, NULL, OPTION_SLOTS},
        {"shared", no_argument, NULL, OPTION_SHARED},
        {"adopt", no_argument, NULL, OPTION_ADOPT},
        {"coverage", no_argument, NULL, OPTION_COVERAGE},
        {"fleet", required_argument, NULL, OPTION_FLEET},
        {"plot", required_argument, NULL, OPTION_PLOT},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "q", options, NULL)) != -1)
        if (!take_option(line, option, optarg)) return false;
    if (optind < argc) return complain("unknown argument ", argv[optind]);
    if (line->fleet.clients > 0) return true;
    enum plan_break broken = line->options.wish.broken;
    if (line->options.wish.guarded && broken != PLAN_BREAK_NOTHING &&
        broken != PLAN_BREAK_DATA_LOSS && broken != PLAN_BREAK_VM_STOP)
        return complain("guarded mode stands against it, or has no such assumption: --break ",
                        plan_break_word(broken));
    if (!line->options.wish.guarded && broken == PLAN_BREAK_VM_STOP)
        return complain("classic mode has no tokens that would stand against it: --break ",
                        plan_break_word(broken));
    if (line->has_seeds && line->has_seed) return complain("either --seeds or --seed", "");
    if (!line->has_seeds && !line->has_seed)
        return complain("nothing to do: give --seeds or --seed", "");
    bool one = line->options.trace || line->options.shrink || line->options.only;
    if (one && !line->has_seed)
        return complain("--trace, --shrink and --only are about one --seed", "");
    if (line->options.hash && !line->has_seeds) return complain("--hash is about many --seeds", "");
    if (line->options.steps && (!line->has_seeds || line->options.hash))
        return complain("--steps is about many --seeds, without --hash", "");
    if (line->options.coverage && !line->has_seeds)
        return complain("--coverage is about many --seeds", "");
    return true;
}

int main(int argc, char **argv) {
    struct command_line line = {.options = {.first = 1}};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    line.options.jobs = processors < 1 ? 1 : processors > 64 ? 64 : (unsigned)processors;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) continue;
        print_help();
        return EXPLORE_OK;
    }
    if (scenario_wants(argc, argv)) return scenario_main(argc, argv);
    if (!read_line(&line, argc, argv)) return EXPLORE_USAGE;
    if (line.fleet.clients > 0) {
        line.fleet.seed = line.has_seed ? line.options.seed : 1;
        line.fleet.guarded = line.options.wish.guarded;
        line.fleet.native = line.options.wish.nodes == PLAN_NODES_NATIVE;
        return fleet_run(&line.fleet) ? EXPLORE_OK : EXPLORE_SAFETY;
    }
    return line.has_seed ? explore_one(&line.options) : explore_many(&line.options);
}
