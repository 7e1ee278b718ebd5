/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The operator's texts: progress, and the reason for a failure, each with its cure. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/guarding/guarding.h"
#include "operator.h"

const char *task_report_text(enum rl_membership_report report) {
    switch (report) {
    case RL_REPORT_NOTHING: break;
    case RL_REPORT_WRITING: return "writing records";
    case RL_REPORT_WAITING: return "waiting until every lock that was held before has ended";
    case RL_REPORT_ASKING: return "asking the members";
    case RL_REPORT_SWITCHING: return "giving all nodes the new list";
    case RL_REPORT_GATHERING: return "waiting for a majority to be intact";
    case RL_REPORT_SETTLING: return "waiting until the locks of before the change have ended";
    }
    return "";
}

static int result_of(enum rl_problem_class class) {
    switch (class) {
    case RL_CLASS_NONE: return REDLOCK_OK;
    case RL_CLASS_BAD_ARGUMENT: return REDLOCK_BAD_ARGUMENT;
    case RL_CLASS_CONFLICT: return REDLOCK_CONFLICT;
    case RL_CLASS_NO_QUORUM: return REDLOCK_NO_QUORUM;
    case RL_CLASS_TWICE_LISTED: return REDLOCK_TWICE_LISTED;
    case RL_CLASS_TWO_QUORUMS: return REDLOCK_TWO_QUORUMS;
    case RL_CLASS_SYSTEM: return REDLOCK_SYSTEM;
    }
    return REDLOCK_SYSTEM;
}

/* "URL: answer (detail). cure" */
static int fail_node(struct quorum_task *task, struct redlock_error *error, const char *cure) {
    unsigned node = (unsigned)task->machine.problem.node;
    struct redlock_node_status status = {.size = sizeof status};
    int verdict = task->verdict[node];
    bool reported = redlock_client_node(task->client, node, &status) == REDLOCK_OK &&
                    status.text[0] != '\0' && status.verdict == verdict;
    if (verdict == REDLOCK_VERDICT_NOPERM)
        cure = "Allow its user what " REDLOCK_DOC
               "/acl.md lists under guarded mode, and run the command again";
    return fail(error, REDLOCK_NO_QUORUM, "%s: %s%s%s%s. %s", task->url[node],
                redlock_verdict_text(verdict), reported ? " (" : "", reported ? status.text : "",
                reported ? ")" : "", cure);
}

/* NULL: the problem is not a missing answer. */
static const char *cure_of_silence(enum rl_problem_kind kind) {
    switch ((int)kind) {
    case RL_PROBLEM_MUST_ANSWER:
        return "It must answer for this: run the command again when it does";
    case RL_PROBLEM_MAJORITY_UNHEARD:
        return "A majority of the members must be intact for a change";
    case RL_PROBLEM_ADDED_UNHEARD: return "Only a node that answers can be added";
    case RL_PROBLEM_CLAIM_UNKNOWN:
        return "It is a member now, but its record does not show it yet: run the command again";
    case RL_PROBLEM_SETTLERS_UNHEARD:
        return "The change is in force but not finished, because too few nodes answer: run the command "
               "again when they do";
    case RL_PROBLEM_MUST_BE_REACHABLE:
        return "It must be reachable for this: run the command again when it is";
    case RL_PROBLEM_FENCES_UNREAD: return "Its fences must be read: run the command again";
    case RL_PROBLEM_WENT_AWAY:
        return "It went away before its record was complete: run the command again";
    default: return NULL;
    }
}

static const char *why_unfit(struct quorum_task *task, char why[FITNESS_TEXT_BYTES]) {
    unsigned node = (unsigned)task->machine.problem.node;
    if (task->machine.problem.kind == RL_PROBLEM_NO_RUN_ID)
        return "INFO is refused, and only INFO identifies the server process; allow this user +info";
    if (task->machine.problem.kind == RL_PROBLEM_TOO_OLD) return "it is older than Redis 6.2";
    fitness_judge(task->client, &task->state[node], why, FITNESS_TEXT_BYTES);
    return why;
}

struct change_text {
    char text[RL_URL_BYTES + 48];
};

static struct change_text name(const struct rl_change *change) {
    struct change_text to;
    if (change->kind == RL_CHANGE_ADD)
        snprintf(to.text, sizeof to.text, "adding %s as %016" PRIx64, change->url, change->id);
    else
        snprintf(to.text, sizeof to.text, "removing %016" PRIx64, change->id);
    return to;
}

static const char *url_of_quorum(const struct quorum_task *task, uint64_t id) {
    for (unsigned i = 0; i < task->machine.wish.nodes; i++) {
        const struct rl_guard_node *node = &task->machine.view.node[i];
        if (node->up && node->has_record && node->record.quorum_id == id) return task->url[i];
    }
    return "this client";
}

static int fail_too_few_after(const struct quorum_task *task, struct redlock_error *error) {
    const struct rl_problem *p = &task->machine.problem;
    const char *kind =
        task->machine.wish.kind == RL_MEMBERSHIP_ADD ? "adding a member" : "removing it";
    if (p->node < 0)
        return fail(
            error, REDLOCK_NO_QUORUM,
            "%s now would leave %u of %u members intact, and %u are needed: wait until more have recovered",
            kind, p->count[0], p->count[1], p->count[2]);
    return fail(
        error, REDLOCK_NO_QUORUM,
        "%s now would leave %u of %u members intact, and %u are needed (%s: %s): wait until more have "
        "recovered",
        kind, p->count[0], p->count[1], p->count[2], task->url[p->node],
        redlock_verdict_text(task->verdict[p->node]));
}

/* ---- a change ---- */

static int fail_refused(const struct quorum_task *task, struct redlock_error *error) {
    const struct rl_problem *p = &task->machine.problem;
    const char *url = p->node >= 0 ? task->url[p->node] : "";
    int result = result_of(rl_problem_class(p->kind));
    switch ((int)p->kind) {
    case RL_PROBLEM_TWICE_LISTED:
        return fail(error, result,
                    "%s is a server that is in the list already: leave one of them out", url);
    case RL_PROBLEM_URL_TOO_LONG:
        return fail(error, result, "the URL is longer than the %d bytes that a record keeps: %s",
                    RL_URL_BYTES - 1, url);
    case RL_PROBLEM_LISTED_URL_TOO_LONG:
        return fail(error, result, "a URL is longer than the %d bytes that a record keeps: %s",
                    RL_URL_BYTES - 1, url);
    case RL_PROBLEM_TWO_QUORUMS:
        return fail(
            error, result,
            "%s belongs to quorum %016" PRIx64 ", %s to quorum %016" PRIx64
            ": leave out the nodes of one of them, or name the quorum that is meant (--quorum); where %016" PRIx64
            " is gone for good, DEL " NET_KEY_RECORD " on its nodes",
            url, task->machine.view.node[p->node].record.quorum_id, url_of_quorum(task, p->id[0]),
            p->id[0], task->machine.view.node[p->node].record.quorum_id);
    case RL_PROBLEM_NO_RECORD:
        return fail(error, result,
                    "no node of the list has a record: redlock quorum init makes them");
    case RL_PROBLEM_NO_RECORD_OF:
        return fail(
            error, result,
            "no node of the list has a record of quorum %016" PRIx64
            ": correct the list, or the quorum that is named; redlock quorum init makes records",
            p->id[0]);
    case RL_PROBLEM_TOO_FEW_INTACT:
        return fail(
            error, result,
            "%u members are intact in the list, and a change needs %u: list all of them, or wait until more "
            "have recovered",
            p->count[0], p->count[1]);
    case RL_PROBLEM_TOO_FEW_AFTER: return fail_too_few_after(task, error);
    case RL_PROBLEM_ADDED_UNREADABLE:
        return fail(
            error, result,
            "%s has a record that this version cannot read: if it is not needed any more, DEL " NET_KEY_RECORD
            " there",
            url);
    case RL_PROBLEM_OF_OTHER_QUORUM:
        return fail(error, result,
                    "%s belongs to quorum %016" PRIx64
                    ": take it out there (redlock quorum remove), or if that quorum "
                    "is gone for good, DEL " NET_KEY_RECORD " there",
                    url, p->id[0]);
    case RL_PROBLEM_ALREADY_MEMBER:
        return fail(error, result, "%s is a member already, as %016" PRIx64 " (%s)", url, p->id[0],
                    p->url);
    case RL_PROBLEM_MEMBERS_FULL:
        return fail(error, result, "the quorum has %u members, and cannot have more",
                    RL_MEMBERS_MAX);
    case RL_PROBLEM_QUORUM_OF_ONE:
        return fail(
            error, result,
            "cannot add a node to a quorum of one: there is no majority from which a second node could recover. List all nodes, DEL " NET_KEY_RECORD
            " on %s, and redlock quorum init",
            p->url);
    case RL_PROBLEM_NOT_A_MEMBER:
        return fail(error, result,
                    "%016" PRIx64 " is not a member of quorum %016" PRIx64
                    ": redlock quorum status lists the members",
                    p->id[0], p->id[1]);
    default:
        return fail(error, result,
                    "%016" PRIx64 " is the last member: a quorum without members holds no lock",
                    p->id[0]);
    }
}

static int fail_begun(const struct quorum_task *task, struct redlock_error *error) {
    const struct rl_problem *p = &task->machine.problem;
    int result = result_of(rl_problem_class(p->kind));
    switch ((int)p->kind) {
    case RL_PROBLEM_OTHERS_CHANGE:
        return fail(
            error, result,
            "other commands change the quorum at the same time: run this one again when they are done");
    case RL_PROBLEM_CAME_SECOND:
        return fail(
            error, result,
            "another change came first (%s) and is finished now. To make this change, run the command again",
            name(&p->change).text);
    case RL_PROBLEM_UNDONE:
        return fail(error, result, "the change was made (%s), and a later change undid it",
                    name(&p->change).text);
    case RL_PROBLEM_NOT_SWITCHED:
        return fail(
            error, result,
            "the change was decided (%s), but could not be written to any node: run the command again",
            name(&p->change).text);
    case RL_PROBLEM_TAKEN_ELSEWHERE:
        return fail(error, result,
                    "%s was taken into quorum %016" PRIx64
                    " while it was added here: remove it there, or here",
                    task->url[p->node], p->id[0]);
    case RL_PROBLEM_SETTLERS_TOO_FEW:
        return fail(
            error, result,
            "the change is in force but not finished: %u nodes are intact that have switched to epoch %u, "
            "and %u are needed; run the command again when more nodes have recovered",
            p->count[0], p->count[1], p->count[2]);
    case RL_PROBLEM_NOT_MARKED:
        return fail(
            error, result,
            "the change is in force, but could not be marked as finished on a majority: run the command "
            "again");
    default:
        return fail(
            error, result,
            "the change is in force but not finished: nodes connect and disconnect; run the command again when they are stable");
    }
}

/* ---- an init ---- */

static int fail_init(const struct quorum_task *task, struct redlock_error *error) {
    const struct rl_problem *p = &task->machine.problem;
    const char *url = p->node >= 0 ? task->url[p->node] : "";
    int result = result_of(rl_problem_class(p->kind));
    switch ((int)p->kind) {
    case RL_PROBLEM_UNREADABLE:
        return fail(
            error, result,
            "%s has a record that this version cannot read: use the version that wrote it; or if it is "
            "not needed any more, DEL " NET_KEY_RECORD " there",
            url);
    case RL_PROBLEM_MEMBERS_UNLISTED:
        return fail(
            error, result,
            "%s belongs to quorum %016" PRIx64
            ", and %u of its %u members are not in the list (%s, ...): "
            "list them too; or take %s out of that quorum, or if that is gone for good, DEL " NET_KEY_RECORD
            " there",
            url, p->id[0], p->count[0], p->count[1], p->url, url);
    case RL_PROBLEM_ALIVE:
        return fail(
            error, result,
            "quorum %016" PRIx64
            " has a majority that is intact (%u of %u members), so init is not needed: nodes that lost their data come back by themselves; add and remove change the list",
            p->id[0], p->count[0], p->count[1]);
    case RL_PROBLEM_USED_BEFORE:
        return fail(error, result,
                    "these servers were used before: quorum %016" PRIx64
                    " has left records there. never_used (--never-used) "
                    "is for new servers alone: leave it out",
                    p->id[0]);
    case RL_PROBLEM_WAIT_UNKNOWN:
        return fail(
            error, result,
            "no node has a record, so nothing says how long locks that are held on these servers may last: give the longest "
            "ttl_max that they ever had (--ttl-max 10m, or ttl-max in the configuration file); or for servers on which no lock "
            "was ever held, never_used (--never-used)");
    case RL_PROBLEM_WRITTEN_NOW:
        return fail(
            error, result,
            "another client wrote to %s at the same moment: find it, and run the command again",
            url);
    case RL_PROBLEM_WRITTEN_MEANWHILE:
        return fail(error, result,
                    "another client wrote to %s meanwhile: find it, and run the command again",
                    url);
    case RL_PROBLEM_LOST_WHILE_WAITING:
        return fail(
            error, result,
            "%s restarted or lost its data meanwhile, so that it has not waited: run the command again",
            url);
    default:
        return fail(
            error, result,
            "%s restarted or lost its data before its record was complete: run the command again",
            url);
    }
}

int task_result(struct quorum_task *task, struct redlock_error *error) {
    const struct rl_problem *problem = &task->machine.problem;
    char why[FITNESS_TEXT_BYTES];
    if (task->no_memory) return fail(error, REDLOCK_NO_MEMORY, "out of memory");
    if (problem->kind == RL_PROBLEM_NONE) return REDLOCK_OK;
    if (problem->kind == RL_PROBLEM_NO_RANDOM)
        return fail(
            error, REDLOCK_SYSTEM,
            "the kernel returns no random bytes (getrandom), and without them two records could be equal: nothing more was written");
    if (cure_of_silence(problem->kind))
        return fail_node(task, error, cure_of_silence(problem->kind));
    if (problem->kind >= RL_PROBLEM_NO_RUN_ID && problem->kind <= RL_PROBLEM_UNFIT)
        return fail(error, REDLOCK_NO_QUORUM, "%s is not fit for guarded mode: %s",
                    task->url[problem->node], why_unfit(task, why));
    if (problem->kind >= RL_PROBLEM_UNREADABLE) return fail_init(task, error);
    if (problem->kind >= RL_PROBLEM_OTHERS_CHANGE) return fail_begun(task, error);
    return fail_refused(task, error);
}
