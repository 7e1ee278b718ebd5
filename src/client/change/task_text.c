/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's texts: progress, and the reason for a failure, each with its cure. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "change.h"

const char *task_report_text(enum rl_membership_report report) {
    switch (report) {
    case RL_REPORT_NOTHING: break;
    case RL_REPORT_WRITING: return "writing records";
    case RL_REPORT_WAITING: return "waiting until every lock that was held before has ended";
    case RL_REPORT_ASKING: return "asking the members";
    case RL_REPORT_SWITCHING: return "writing the change to all nodes";
    case RL_REPORT_GATHERING: return "waiting for a majority to be intact";
    case RL_REPORT_SETTLING: return "waiting until the locks of before the change have ended";
    }
    return "";
}

/* Of each problem. A letter after '%' stands for a part of it (struct rl_problem):
 *
 *     %u the node's URL   %s "URL: answer (detail)", if it did not answer   %w why it is not fit
 *     %q its quorum       %o the URL of a node of quorum %i   %m the member's URL   %c the change
 *     %i %j the ids       %0 %1 %2 the counts   %d what the command does   %b %n the limits
 *     %h " (URL: answer)" of a node that was not heard, if there is one
 *     %t the quorum's ttl_max   %l that of %q */
static const char *const texts[] = {
    [RL_PROBLEM_NO_RANDOM] =
        "the kernel returns no random bytes (getrandom), and without them two records could be "
        "equal: nothing more was written",
    [RL_PROBLEM_TWICE_LISTED] = "%u is a server that is in the list already: leave one of them out",
    [RL_PROBLEM_URL_TOO_LONG] = "the URL is longer than the %b bytes that a record keeps: %u",
    [RL_PROBLEM_LISTED_URL_TOO_LONG] = "a URL is longer than the %b bytes that a record keeps: %u",
    [RL_PROBLEM_MUST_ANSWER] = "%s. It must answer for this: run the command again when it does",
    [RL_PROBLEM_NO_RUN_ID] =
        "%u is not fit for guarded mode: INFO is refused, and only INFO identifies the server "
        "process; allow this user +info",
    [RL_PROBLEM_TOO_OLD] = "%u is not fit for guarded mode: it is older than Redis 6.2",
    [RL_PROBLEM_UNFIT] = "%u is not fit for guarded mode: %w",
    [RL_PROBLEM_TWO_QUORUMS] =
        "%u belongs to quorum %q, %o to quorum %i: leave out the nodes of one of them, or name "
        "the quorum that is meant (--quorum); where %q is gone for good, empty its nodes "
        "(FLUSHALL; a native node: restart it)",
    [RL_PROBLEM_NO_RECORD] = "no node of the list has a record: redlock quorum init makes them",
    [RL_PROBLEM_NO_RECORD_OF] =
        "no node of the list has a record of quorum %i: correct the list, or the quorum that is "
        "named; redlock quorum init makes records",
    [RL_PROBLEM_MAJORITY_UNHEARD] = "%s. A majority of the members must be intact for a change",
    [RL_PROBLEM_TOO_FEW_INTACT] =
        "%0 members are intact in the list, and a change needs %1: list all of them, or wait "
        "until more have recovered",
    [RL_PROBLEM_TOO_FEW_AFTER] =
        "%d now would leave %0 of %1 members intact, and %2 are needed%h: wait until more have "
        "recovered, and run the command again",
    [RL_PROBLEM_ADDED_UNHEARD] = "%s. Only a node that answers can be added",
    [RL_PROBLEM_ADDED_UNREADABLE] =
        "%u has a record that this version cannot read: if it is not needed any more, "
        "empty the server (FLUSHALL; a native node: restart it)",
    [RL_PROBLEM_OF_OTHER_QUORUM] =
        "%u belongs to quorum %i: take it out there (redlock quorum remove), or if that quorum is "
        "gone for good, empty the server (FLUSHALL; a native node: restart it)",
    [RL_PROBLEM_ALREADY_MEMBER] = "%u is a member already, as %i (%m)",
    [RL_PROBLEM_MEMBERS_FULL] = "the quorum has %n members, and cannot have more",
    [RL_PROBLEM_QUORUM_OF_ONE] =
        "cannot add a node to a quorum of one: there is no majority from which a second node "
        "could recover. List all nodes, empty %m (FLUSHALL; a native node: restart it), and redlock quorum init with "
        "--ttl-max of at least %t and a --floor: the record that names its ttl_max and its fences "
        "is gone then",
    [RL_PROBLEM_NOT_A_MEMBER] =
        "%i is not a member of quorum %j: redlock quorum status lists the members",
    [RL_PROBLEM_LAST_MEMBER] = "%i is the last member: a quorum without members holds no lock",
    [RL_PROBLEM_OTHERS_CHANGE] =
        "other commands change the quorum at the same time: run this one again when they are done",
    [RL_PROBLEM_CAME_SECOND] =
        "another change came first (%c) and is finished now. To make this change, run the command "
        "again",
    [RL_PROBLEM_UNDONE] = "the change was made (%c), and a later change undid it",
    [RL_PROBLEM_NOT_SWITCHED] =
        "the change was decided (%c), but could not be written to any node: run the command again",
    [RL_PROBLEM_CLAIM_UNKNOWN] =
        "%s. It is a member now, but its record does not show it yet: run the command again",
    [RL_PROBLEM_TAKEN_ELSEWHERE] =
        "%u was taken into quorum %i while it was added here: remove it there, or here",
    [RL_PROBLEM_SETTLERS_UNHEARD] =
        "%s. The change is in force but not finished, because too few nodes answer: run the "
        "command again when they do",
    [RL_PROBLEM_SETTLERS_TOO_FEW] =
        "the change is in force but not finished: %0 nodes are intact that have switched to epoch "
        "%1, and %2 are needed; run the command again when more nodes have recovered, or if they "
        "cannot: redlock quorum init",
    [RL_PROBLEM_NOT_MARKED] =
        "the change is in force, but could not be marked as finished on a majority: run the "
        "command again",
    [RL_PROBLEM_NOT_SETTLED] =
        "the change is in force but not finished: nodes connect and disconnect; run the command "
        "again when they are stable",
    [RL_PROBLEM_UNREADABLE] =
        "%u has a record that this version cannot read: use the version that wrote it; or if it "
        "is not needed any more, empty the server (FLUSHALL; a native node: restart it)",
    [RL_PROBLEM_MEMBERS_UNLISTED] =
        "%u belongs to quorum %i, and %0 of its %1 members are not in the list (%m, ...): list "
        "them too; or take %u out of that quorum, or if that is gone for good, "
        "empty the server (FLUSHALL; a native node: restart it), and give --ttl-max of at least %l and a --floor: the "
        "record that names its ttl_max and its fences is gone then",
    [RL_PROBLEM_ALIVE] =
        "quorum %i has a majority that is intact (%0 of %1 members), so init is not needed: nodes "
        "that lost their data come back by themselves; add and remove change the list",
    [RL_PROBLEM_USED_BEFORE] =
        "these servers were used before: quorum %i has left records there. never_used "
        "(--never-used) is for new servers alone: leave it out",
    [RL_PROBLEM_WAIT_UNKNOWN] =
        "no node has a record, so nothing says how long locks that are held on these servers may "
        "last: give the longest ttl_max that they ever had (--ttl-max 10m, or ttl-max in the "
        "configuration file); or for servers on which no lock was ever held, never_used "
        "(--never-used)",
    [RL_PROBLEM_MUST_BE_REACHABLE] =
        "%s. It must be reachable for this: run the command again when it is",
    [RL_PROBLEM_WRITTEN_NOW] =
        "another client wrote to %u at the same moment: find it, and run the command again",
    [RL_PROBLEM_WRITTEN_MEANWHILE] =
        "another client wrote to %u meanwhile: find it, and run the command again",
    [RL_PROBLEM_LOST_WHILE_WAITING] =
        "%u restarted or lost its data meanwhile, so that it has not waited: run the command again",
    [RL_PROBLEM_FENCES_UNREAD] = "%s. Its fences must be read: run the command again",
    [RL_PROBLEM_WENT_AWAY] =
        "%s. It went away before its record was complete: run the command again",
    [RL_PROBLEM_LOST_UNFINISHED] =
        "%u restarted or lost its data before its record was complete: run the command again",
};
_Static_assert(sizeof texts / sizeof texts[0] == RL_PROBLEM_LOST_UNFINISHED + 1, "one text each");

int task_problem_result(enum rl_problem_kind kind) {
    static const int results[] = {
#define RESULT(name, class) REDLOCK_##class,
        RL_PROBLEMS(RESULT)
#undef RESULT
    };
    return results[kind];
}

/* The longest part: a URL and the reason why its node does not answer. */
enum { PART_BYTES = RL_URL_BYTES + 320 };

static void put_silence(struct quorum_task *task, char *to) {
    unsigned node = (unsigned)task->machine.problem.node;
    struct redlock_node_status status = {.size = sizeof status};
    const char *why = redlock_verdict_text(task->verdict[node]);
    int asked = redlock_client_node(task->client, node, &status);
    if (asked == REDLOCK_OK && status.text[0] != '\0' && status.verdict == task->verdict[node])
        why = status.text;
    snprintf(to, PART_BYTES, "%s: %s", task->url[node], why);
}

static const char *url_of_quorum(const struct quorum_task *task, uint64_t id) {
    for (unsigned i = 0; i < task->machine.wish.nodes; i++) {
        const struct rl_guard_node *node = &task->machine.view.node[i];
        if (node->up && node->has_record && node->record.quorum_id == id) return task->url[i];
    }
    return "this client";
}

static void put_change(const struct rl_change *change, const char *before, char *to) {
    if (change->kind == RL_CHANGE_TTL_MAX)
        snprintf(to, PART_BYTES, "%ssetting ttl_max to %" PRId64 "ms", before, change->ttl_ms);
    else if (change->kind == RL_CHANGE_ADD)
        snprintf(to, PART_BYTES, "%sadding %s as %016" PRIx64, before, change->url, change->id);
    else
        snprintf(to, PART_BYTES, "%sremoving %016" PRIx64, before, change->id);
}

static void part_of(struct quorum_task *task, char letter, char *to) {
    const struct rl_problem *p = &task->machine.problem;
    const struct rl_guard_node *node = p->node < 0 ? NULL : &task->machine.view.node[p->node];
    const char *url = node ? task->url[p->node] : "";
    switch (letter) {
    case '0':
    case '1':
    case '2': snprintf(to, PART_BYTES, "%u", p->count[letter - '0']); break;
    case 'b': snprintf(to, PART_BYTES, "%d", RL_URL_BYTES - 1); break;
    case 'c': put_change(&p->change, "", to); break;
    case 'd':
        if (task->machine.made || !rl_change_same(&p->change, &task->machine.wanted))
            put_change(&p->change, "finishing a change that was begun, ", to);
        else if (p->change.kind == RL_CHANGE_TTL_MAX)
            put_change(&p->change, "", to);
        else if (p->change.kind == RL_CHANGE_ADD)
            snprintf(to, PART_BYTES, "adding a member");
        else
            snprintf(to, PART_BYTES, "removing it");
        break;
    case 'h':
        if (node)
            snprintf(to, PART_BYTES, " (%s: %s)", url,
                     redlock_verdict_text(task->verdict[p->node]));
        break;
    case 'i': snprintf(to, PART_BYTES, "%016" PRIx64, p->id[0]); break;
    case 'j': snprintf(to, PART_BYTES, "%016" PRIx64, p->id[1]); break;
    case 'l': snprintf(to, PART_BYTES, "%" PRId64 "ms", rl_record_ttl_wait(&node->record)); break;
    case 'm': snprintf(to, PART_BYTES, "%s", p->url); break;
    case 'n': snprintf(to, PART_BYTES, "%d", RL_MEMBERS_MAX); break;
    case 'o': snprintf(to, PART_BYTES, "%s", url_of_quorum(task, p->id[0])); break;
    case 'q': snprintf(to, PART_BYTES, "%016" PRIx64, node->record.quorum_id); break;
    case 's': put_silence(task, to); break;
    case 't':
        snprintf(to, PART_BYTES, "%" PRId64 "ms", rl_record_ttl_wait(&task->machine.view.quorum));
        break;
    case 'u': snprintf(to, PART_BYTES, "%s", url); break;
    default:
        assert(letter == 'w');
        fitness_judge(task->client, &task->state[p->node], to, PART_BYTES);
    }
}

static const char *text_of(const struct quorum_task *task) {
    const struct rl_problem *p = &task->machine.problem;
    const char *text = texts[p->kind];
    bool silent = strncmp(text, "%s", 2) == 0;
    if (!silent || task->verdict[p->node] != REDLOCK_VERDICT_NOPERM) return text;
    return "%s. Allow its user what " REDLOCK_DOC
           "/acl.md lists under guarded mode, and run the command "
           "again";
}

int task_result(struct quorum_task *task, struct redlock_error *error) {
    const struct rl_membership *machine = &task->machine;
    const struct rl_problem *p = &machine->problem;
    if (task->no_memory) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (p->kind == RL_PROBLEM_NONE) return REDLOCK_OK;
    char whole[sizeof error->text], part[PART_BYTES];
    size_t used = 0;
    for (const char *at = text_of(task); *at && used + 1 < sizeof whole;) {
        size_t plain = strcspn(at, "%");
        snprintf(part, sizeof part, "%.*s", (int)plain, at);
        if (plain == 0) part_of(task, at[1], part);
        used += (size_t)snprintf(whole + used, sizeof whole - used, "%s", part);
        at += plain ? plain : 2;
    }
    /* An acceptor may have the change: a command that gives only its reason would hide that. */
    const char *begun = "";
    if (machine->made && p->kind <= RL_PROBLEM_OTHERS_CHANGE &&
        p->kind != RL_PROBLEM_TOO_FEW_AFTER) {
        begun = ": this command or a later change finishes it";
        put_change(&machine->wanted, ". The change was begun, ", part);
    } else {
        part[0] = '\0';
    }
    return fail(error, task_problem_result(p->kind), "%s%s%s", whole, part, begun);
}
