/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A scenario as a text file that reads as documentation: the steps of clients and nodes with their
 * times, and the expected result. scenarios/README.md explains how to write one. The tables below
 * list the sentences that a file may use, and `redlock sim --words` prints them.
 *
 * In a sentence, CLIENT is a letter, NODES is "node 3", "nodes 1 2 3", "nodes 1-3" or "all nodes",
 * DURATION is "50ms", "10s", "1.5s", "2m", "1h", STEP a duration with a sign, a|b is either word.
 */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "judges/check.h"
#include "pictures/draw.h"
#include "run/run.h"

/* Options: before the first step. X(name, sentence) */
#define SCENE_OPTIONS(X)                                                                           \
    X(NODES, "nodes NUMBER")                                                                       \
    X(CLIENTS, "clients CLIENTS")                                                                  \
    X(TTL, "ttl DURATION")                                                                         \
    X(DELAY, "delay DURATION")                                                                     \
    X(DELAY_RANGE, "delay DURATION to DURATION")                                                   \
    X(NODE_TIMEOUT, "node timeout DURATION")                                                       \
    X(STALL_TIMEOUT, "stall timeout DURATION")                                                     \
    X(RENEWED, "locks are renewed")                                                                \
    X(LOST_MARGIN, "lost margin DURATION")                                                         \
    X(HOLD_MAX, "locks are renewed for at most DURATION")                                          \
    X(RETRY, "retries after DURATION to DURATION")                                                 \
    X(LISTS, "CLIENT lists NODES")                                                                 \
    X(LISTS_TWICE, "CLIENT lists NODES twice")                                                     \
    X(CLOCK_RATE, "CLIENT 's clock runs at NUMBER ppm")                                            \
    X(TTL_MAX, "ttl max DURATION")                                                                 \
    X(CONFIRMS, "CLIENT confirms")                                                                 \
    X(NO_AGENT, "CLIENT brings no node back")                                                      \
    X(CLIENT_TTL, "CLIENT 's ttl is DURATION")                                                     \
    X(FORGETS_MODE, "CLIENT forgets the mode")                                                     \
    X(IS_CLASSIC, "CLIENT is classic in any mode")                                                 \
    X(IS_STRANGER, "CLIENT is of another project")                                                 \
    X(PINNED, "CLIENT names the quorum of NODES")                                                  \
    X(NEW_EACH_TIME, "CLIENT is a new process for each lock")                                      \
    X(SLOTS, "locks have NUMBER slots")                                                            \
    X(CLIENT_SLOTS, "CLIENT has locks of NUMBER slots")                                            \
    X(READS, "CLIENT 's locks are shared")                                                         \
    X(MAY_EVICT, "NODES may evict")                                                                \
    X(REPLICAS, "NODES has|have a replica")                                                        \
    X(NO_REPLICAS, "masters with replicas are refused")                                            \
    X(UNANNOUNCED, "NODES announces|announce no changes of the record")                            \
    X(OTHERS, "NODES are another quorum")                                                          \
    X(WAKES, "nodes tell of changes")                                                              \
    X(CROWD, "nodes count NUMBER more clients")                                                    \
    X(NATIVE_NODES, "NODES is|are native")                                                         \
    X(SPARE, "NODES has|have no record")                                                           \
    X(OBSERVES, "CLIENT observes job")                                                             \
    X(SEED, "seed NUMBER")                                                                         \
    X(ENDS, "ends at DURATION")

/* Steps: "at DURATION sentence". */
#define SCENE_STEPS(X)                                                                             \
    X(ACQUIRES, "CLIENT acquires job")                                                             \
    X(ACQUIRES_WAITING, "CLIENT acquires job waiting up to DURATION")                              \
    X(EXTENDS, "CLIENT extends job")                                                               \
    X(ADOPTS, "CLIENT takes over its last lock on job by the token")                               \
    X(RELEASES, "CLIENT releases job")                                                             \
    X(CANCELS, "CLIENT gives up acquiring job")                                                    \
    X(UPDATES, "CLIENT updates job thinking DURATION")                                             \
    X(UPDATES_LATE, "CLIENT updates job thinking DURATION with a write that takes DURATION")       \
    X(INITS, "CLIENT inits the quorum with ttl max DURATION")                                      \
    X(INITS_NEW, "CLIENT inits servers that were never used")                                      \
    X(ADDS, "CLIENT adds NODES")                                                                   \
    X(REMOVES, "CLIENT removes NODES")                                                             \
    X(SETS_TTL_MAX, "CLIENT sets ttl max DURATION")                                                \
    X(BREAKS_LOCK, "CLIENT breaks the lock on job")                                                \
    X(PAUSED, "CLIENT is paused")                                                                  \
    X(FROZEN, "CLIENT is frozen together with its clock")                                          \
    X(RESUMES, "CLIENT resumes")                                                                   \
    X(CRASHES, "CLIENT crashes")                                                                   \
    X(WALL_CLOCK, "CLIENT 's wall clock steps STEP")                                               \
    X(NODE_CRASHES, "NODES crashes|crash")                                                         \
    X(RESTARTS_EMPTY, "NODES restarts|restart empty")                                              \
    X(RESTARTS_WHOLE, "NODES restarts|restart with all data")                                      \
    X(RESTARTS_LESS, "NODES restarts|restart without the last second")                             \
    X(RESTARTS_NATIVE, "NODES restarts|restart as a native node")                                  \
    X(RESTARTS_STOCK, "NODES restarts|restart as a stock node")                                    \
    X(FLUSHED, "NODES is|are flushed")                                                             \
    X(EVICTS, "NODES evicts|evict job")                                                            \
    X(FAILS_OVER, "NODES fails|fail over to a replica DURATION behind")                            \
    X(SPLITS, "NODES fails|fail over to a replica DURATION behind and lives|live on")              \
    X(OLD_ENDS, "the old NODES ends|end")                                                          \
    X(DEMOTED, "NODES becomes|become the replica of its|their promoted replica DURATION behind")   \
    X(FOLLOWS, "NODES follows|follow its|their promoted replica")                                  \
    X(FOLLOWS_DELETION, "job is deleted on the master of NODES")                                   \
    X(PROMOTED, "NODES is|are promoted again")                                                     \
    X(GETS_REPLICA, "NODES gets|get a first replica")                                              \
    X(POLICY_EVICTS, "NODES 's policy becomes volatile-random")                                    \
    X(POLICY_KEEPS, "NODES 's policy becomes noeviction")                                          \
    X(CLOCK_STEPS, "NODES 's clock steps STEP")                                                    \
    X(CLOCK_FREEZES, "NODES 's clock stands still")                                                \
    X(CLOCK_TRUE, "NODES 's clock runs true")                                                      \
    X(CLOCK_RUNS, "NODES 's clock runs at NUMBER ppm")                                             \
    X(ANSWERS, "NODES answers|answer writes with VERDICT")                                         \
    X(ANSWERS_NORMALLY, "NODES answers|answer normally")                                           \
    X(NODE_PAUSED, "NODES is|are paused")                                                          \
    X(NODE_RESUMES, "NODES resumes|resume")                                                        \
    X(STRANGER_DELETES, "a stranger deletes job on NODES")                                         \
    X(STRANGER_SETS, "a stranger sets job on NODES for DURATION")                                  \
    X(RECORD_DELETED, "a stranger deletes the record on NODES")                                    \
    X(CUT_BOTH, "cut CLIENT from NODES")                                                           \
    X(CUT_REQUESTS, "cut requests from CLIENT to NODES")                                           \
    X(CUT_ANSWERS, "cut answers to CLIENT from NODES")                                             \
    X(HEAL, "heal CLIENT and NODES")                                                               \
    X(BREAK, "break CLIENT and NODES")                                                             \
    X(BLACK_HOLE, "the connections of CLIENT to NODES become black holes")                         \
    X(MOVES, "the next connections of CLIENT to NODES reach node NUMBER")                          \
    X(DELAY_NEXT, "delay the next request of CLIENT to NODES by DURATION")                         \
    X(LOSE_ANSWER, "lose the next answer to CLIENT from NODES")                                    \
    X(WAKES_LOST, "lose the wake-ups of CLIENT from NODES")                                        \
    X(WAKES_AGAIN, "repeat the wake-ups of CLIENT from NODES")                                     \
    X(WAKES_FALSELY, "NODES tells|tell CLIENT of a change that was none")                          \
    X(CALLS_FALSELY, "NODES tells|tell CLIENT that it is first in line")                           \
    X(TURNS_FALSELY, "NODES tells|tell CLIENT that it is its turn")                                \
    X(FAULTS_END, "every fault ends")

/* What must happen, below "classic:", "guarded:" and "native:". */
#define SCENE_CLAIMS(X)                                                                            \
    X(ACQUIRES, "CLIENT acquires job")                                                             \
    X(ACQUIRES_BEFORE, "CLIENT acquires job before DURATION")                                      \
    X(ACQUIRES_AFTER, "CLIENT acquires job after DURATION")                                        \
    X(TRIES, "CLIENT tries at most NUMBER times|time")                                             \
    X(WOKEN_AFTER, "CLIENT is woken after DURATION")                                               \
    X(FAILS, "CLIENT is refused RESULT")                                                           \
    X(FAILS_AFTER, "CLIENT is refused RESULT after DURATION")                                      \
    X(NEVER_ACQUIRES, "CLIENT never acquires job")                                                 \
    X(HOLDS_AT, "CLIENT holds job at DURATION")                                                    \
    X(NOT_HOLDS_AT, "CLIENT does not hold job at DURATION")                                        \
    X(TOLD_LOST, "CLIENT is told LOST before DURATION")                                            \
    X(TOLD_LOST_AFTER, "CLIENT is told LOST after DURATION")                                       \
    X(NEVER_TOLD_LOST, "CLIENT is never told LOST")                                                \
    X(EXTENSION, "CLIENT 's extension ends RESULT")                                                \
    X(RELEASE, "CLIENT 's release ends RESULT")                                                    \
    X(KEY_THERE, "key of CLIENT on NODES at DURATION")                                             \
    X(KEY_GONE, "key of CLIENT gone from NODES at DURATION")                                       \
    X(WRITES, "CLIENT writes NUMBER")                                                              \
    X(NEVER_WRITES, "CLIENT never writes")                                                         \
    X(REGISTER, "the last write is NUMBER")                                                        \
    X(FENCED_OFF, "CLIENT is fenced off")                                                          \
    X(CHANGE, "CLIENT 's change ends RESULT")                                                      \
    X(CHANGE_BEFORE, "CLIENT 's change ends RESULT before DURATION")                               \
    X(CHANGE_AFTER, "CLIENT 's change ends RESULT after DURATION")                                 \
    X(BREAKS, "CLIENT breaks job")                                                                 \
    X(BREAK_ENDS, "CLIENT 's break ends RESULT")                                                   \
    X(REPORTS, "CLIENT reports NUMBER leaders|leader")                                             \
    X(REPORTS_BEFORE, "CLIENT reports a leader before DURATION")                                   \
    X(REPORTS_NONE, "CLIENT reports no leader after DURATION")                                     \
    X(MEMBERS_AT, "NODES is|are the members at DURATION")                                          \
    X(INTACT_AT, "NODES is|are intact at DURATION")                                                \
    X(LOST_AT, "NODES does|do not vote at DURATION")

#define SCENE_ENUM_OPTION(name, sentence) SCENE_OPTION_##name,
#define SCENE_ENUM_STEP(name, sentence) SCENE_STEP_##name,
#define SCENE_ENUM_CLAIM(name, sentence) SCENE_CLAIM_##name,
enum scene_option { SCENE_OPTIONS(SCENE_ENUM_OPTION) SCENE_OPTION_COUNT };
enum scene_step { SCENE_STEPS(SCENE_ENUM_STEP) SCENE_STEP_COUNT };
enum scene_claim { SCENE_CLAIMS(SCENE_ENUM_CLAIM) SCENE_CLAIM_COUNT };
#undef SCENE_ENUM_OPTION
#undef SCENE_ENUM_STEP
#undef SCENE_ENUM_CLAIM

/* A sentence that was recognised. */
struct scene_line {
    int kind;         /* index in its table */
    unsigned line;    /* in the file */
    rl_ns at;         /* steps */
    unsigned clients; /* bit i: client i */
    rl_mask nodes;
    rl_ns span, span2;
    int64_t number;  /* NUMBER, RESULT, VERDICT */
    char words[120]; /* as it stands in the file */
};

#define SCENE_LINES_MAX 64

/* NATIVE: as GUARDED, and all nodes are native. */
enum scene_mode { SCENE_CLASSIC, SCENE_GUARDED, SCENE_NATIVE, SCENE_MODES };
extern const char *const scene_mode_names[SCENE_MODES];

/* The expected result of a mode. */
struct scene_expectation {
    bool given;
    unsigned breaks; /* these rules are broken (bit by rule); 0: holds */
    char why[200];   /* a sentence; "" when the file has none */
    struct scene_line claims[SCENE_LINES_MAX];
    size_t claims_count;
};

struct scene {
    char name[64];
    char file[256];
    char title[160];
    char source_text[DRAW_SOURCES_MAX][320];
    size_t sources_count;
    char prose[3000];
    char later[160]; /* not empty: the reason why it cannot run yet */
    struct world_options options;
    unsigned classic, forgets_mode; /* clients, by bits */
    rl_ns ends;
    struct scene_line steps[SCENE_LINES_MAX];
    size_t steps_count;
    struct scene_expectation expects[SCENE_MODES]; /* a mode that is not named does not run */
};

/* Reads a scene from text. On failure fills `error` with "FILE:LINE: what is wrong" and returns
 * false. */
bool scene_read(struct scene *scene, const char *name, const char *file, const char *text,
                char *error, size_t size);

/* The result of a run. */
#define SCENE_VIOLATIONS_MAX 64
struct scene_result {
    enum scene_mode mode;
    struct history history;
    struct check_violation violations[SCENE_VIOLATIONS_MAX];
    size_t violations_count;
    char verdict[256]; /* "classic: two holders from 301 ms to 9898 ms, as published" */
    bool as_expected;
    char unmet[1024]; /* each line one thing that was expected and did not happen, as FILE:LINE: ...
                       */
};
void scene_run(const struct scene *scene, enum scene_mode mode, struct scene_result *result);
void scene_result_free(struct scene_result *result);
extern const char *const scene_client_names[], *const scene_resource_names[];

/* ---- between the files of a scene ------------------------------------------------------------ */

/* Recognises a sentence of the table; -1: none. Words are cut at blanks; "'s" is a word of its own,
 * and ',' ':' ';' at the end of a word are not part of it. */
int scene_match(const char *text, const char *const *table, size_t count, struct scene_line *line,
                char *why, size_t size);
extern const char *const scene_option_sentences[];
extern const char *const scene_step_sentences[];
extern const char *const scene_claim_sentences[];
bool scene_duration(const char *word, rl_ns *span);
/* Judges `result->history` by what the scene expects of `result->mode`: fills all else. */
void scene_judge(const struct scene *scene, struct scene_result *result);

#endif
