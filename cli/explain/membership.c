/* SPDX-License-Identifier: BSD-2-Clause */
#include "membership.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "failure.h"
#include "config/duration.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "votes.h"

#define PEEK_AGAIN (250 * MS)
#define URL_BYTES 512

bool is_intact(const struct redlock_member *member) {
    return member->verdict == REDLOCK_VERDICT_GRANTED;
}

const char *what_few_survive(size_t members) {
    return members == 1
               ? "With one node, no lock can be taken while it is down, and if it loses its data only redlock quorum init brings it back; three nodes survive the loss of one"
               : "With two nodes, no lock can be taken while one is down, and if one loses its data only redlock quorum init brings it back; three nodes survive the loss of one";
}

static enum membership_state state_of(const struct redlock_quorum_status *quorum, bool enough) {
    if (!quorum->known) return MEMBERSHIP_ABSENT;
    if (!enough) return MEMBERSHIP_LOST;
    return quorum->intact == quorum->members ? MEMBERSHIP_INTACT : MEMBERSHIP_DEGRADED;
}

static void find_unaccepted(struct session *session, struct membership *membership) {
    if (membership->state > MEMBERSHIP_DEGRADED) return;
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) == REDLOCK_OK &&
            status.verdict == REDLOCK_VERDICT_UNACCEPTED)
            snprintf(membership->unaccepted, sizeof membership->unaccepted, "%s", status.text);
    }
}

static int peek(struct session *session, struct membership *membership) {
    *membership = (struct membership){.quorum.size = sizeof membership->quorum};
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++)
        membership->members[i].size = sizeof membership->members[i];
    int result = redlock_quorum_peek(session->client, &membership->quorum, membership->members,
                                     REDLOCK_NODES_MAX);
    const struct redlock_quorum_status *quorum = &membership->quorum;
    membership->state = state_of(quorum, quorum->intact + quorum->behind >= quorum->votes_needed);
    find_unaccepted(session, membership);
    return result == REDLOCK_NO_QUORUM ? REDLOCK_OK : result;
}

int membership_peek(struct session *session, struct membership *membership) {
    int result = peek(session, membership);
    return result == REDLOCK_OK ? 0 : session_failure(session, NULL, "the quorum", result);
}

int membership_peek_at_any(struct session *session, struct membership *membership, bool *two) {
    int result = peek(session, membership);
    *two = result == REDLOCK_TWO_QUORUMS;
    return result == REDLOCK_OK || *two ? 0 : session_failure(session, NULL, "the quorum", result);
}

static bool is_reached(const struct membership *membership, const char *id, int64_t *left_ms) {
    bool all = membership->quorum.known;
    *left_ms = -1;
    for (size_t i = 0; i < membership->quorum.members; i++) {
        const struct redlock_member *member = &membership->members[i];
        if (is_intact(member) || (id != NULL && strcmp(member->id, id) != 0)) continue;
        all = false;
        if (member->recovering_ms > *left_ms) *left_ms = member->recovering_ms;
    }
    return all;
}

int membership_await(struct session *session, struct membership *membership, const char *id,
                     int64_t until_ns, redlock_progress_fn *report, void *context) {
    while (true) {
        int64_t left_ms, now = now_ns();
        int status = membership_peek(session, membership);
        if (status != 0 || is_reached(membership, id, &left_ms) || now >= until_ns) return status;
        report(context, id != NULL ? "waiting for the new member" : "waiting for all members",
               left_ms);
        session_live_until(session, until_ns - now < PEEK_AGAIN ? until_ns : now + PEEK_AGAIN);
    }
}

/* ---- names ------------------------------------------------------------------------------- */

/* "redis://user:password@host/0" and "redis://host:6379" are one place. */
static char *plain_place(const char *url, char *out, size_t size) {
    const char *rest = strstr(url, "://");
    snprintf(out, size, "%s", url);
    if (rest == NULL) return out;
    rest += strlen("://");
    if (strncmp(url, "unix:", 5) == 0) {
        char *database = strstr(out, "?db=0");
        if (database != NULL && database[5] == '\0') *database = '\0';
        return out;
    }
    const int scheme = (int)(rest - url);
    if (strchr(rest, '@') != NULL) rest = strchr(rest, '@') + 1;
    const size_t authority = strcspn(rest, "/");
    const char *database = rest + authority, *bracket = memchr(rest, ']', authority);
    if (strcmp(database, "/") == 0 || strcmp(database, "/0") == 0) database = "";
    /* The colons in [::1] do not begin a port. */
    const size_t address = bracket != NULL ? (size_t)(bracket - rest) : 0;
    const bool has_port = memchr(rest + address, ':', authority - address) != NULL;
    snprintf(out, size, "%.*s%.*s%s%s", scheme, url, (int)authority, rest, has_port ? "" : ":6379",
             database);
    return out;
}

const char *shown_name(const char *name, char *out, size_t size) {
    const char *scheme = strstr(name, "://"), *at = strrchr(name, '@');
    const char *place = at != NULL ? at + 1 : scheme != NULL ? scheme + strlen("://") : name;
    const size_t host = strcspn(place, ":/?%"), port = place[host] == ':' ? 1 : 0;
    /* Without a host, what follows the colon may be a password. */
    const char *rest = place + host + port;
    const bool clear = place[0] == '[' || place[0] == '/' || rest[0] == '\0' || rest[0] == '/' ||
                       (port != 0 && rest[strspn(rest, "0123456789")] == '\0') ||
                       (port != 0 && rest[strspn(rest, "0123456789")] == '/');
    if (!clear) return "that URL";
    snprintf(out, size, "'%.*s%.200s'", scheme != NULL ? (int)(scheme - name) + 3 : 0, name, place);
    return out;
}

bool same_place(const char *a, const char *b) {
    char left[URL_BYTES], right[URL_BYTES];
    plain_place(a, left, sizeof left);
    plain_place(b, right, sizeof right);
    return (strncmp(left, "unix:", 5) == 0 ? strcmp : strcasecmp)(left, right) == 0;
}

bool list_has(const char *nodes, const char *url, size_t *at) {
    static const char separators[] = ", \t\r\n\v\f";
    size_t index = 0;
    bool found = false;
    for (const char *one = nodes + strspn(nodes, separators); *one != '\0' && !found;) {
        char text[URL_BYTES];
        size_t length = strcspn(one, separators);
        snprintf(text, sizeof text, "%.*s", (int)length, one);
        found = same_place(text, url);
        one += length;
        one += strspn(one, separators);
        index += !found;
    }
    if (at != NULL) *at = index;
    return found;
}

const char *member_url(struct session *session, const struct redlock_member *member) {
    return member->node >= 0 ? node_url(session, (size_t)member->node) : member->url;
}

bool is_of_half_added(const struct membership *membership, const struct redlock_member *member,
                      const struct redlock_node_status *status) {
    return membership->state <= MEMBERSHIP_DEGRADED && member->node < 0 &&
           status->verdict == REDLOCK_VERDICT_FOREIGN && status->node_id[0] != '\0' &&
           same_place(member->url, status->url);
}

static int node_half_added(struct session *session, const struct membership *membership,
                           const struct redlock_member *member) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) == REDLOCK_OK &&
            is_of_half_added(membership, member, &status))
            return (int)i;
    }
    return -1;
}

int member_named(struct session *session, const struct membership *membership, const char *name) {
    for (size_t i = 0; i < membership->quorum.members; i++) {
        const struct redlock_member *member = &membership->members[i];
        if (strcasecmp(member->id, name) == 0) return (int)i;
        if (same_place(member->url, name) || same_place(member_url(session, member), name))
            return (int)i;
    }
    return -1;
}

/* Text about a member that comes only from a record may be a stranger's. */
static const char *clean_url(struct session *session, const struct redlock_member *member,
                             char *out, size_t size) {
    if (member->node >= 0) return member_url(session, member);
    return printable(out, size, member->url, strlen(member->url));
}

char *membership_nodes(struct session *session, const struct membership *membership) {
    char *nodes = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&nodes, &size);
    if (text == NULL) return NULL;
    for (size_t i = 0; i < membership->quorum.members; i++) {
        char clean[URL_BYTES];
        fprintf(text, "%s%s", i > 0 ? "," : "",
                clean_url(session, &membership->members[i], clean, sizeof clean));
    }
    if (fclose(text) == 0) return nodes;
    free(nodes);
    return NULL;
}

/* ---- for people -------------------------------------------------------------------------- */

static struct redlock_node_status status_of(struct session *session, int node) {
    struct redlock_node_status status = {
        .size = sizeof status, .verdict = REDLOCK_VERDICT_NONE, .recovering_ms = -1};
    if (node >= 0 && redlock_client_node(session->client, (size_t)node, &status) != REDLOCK_OK)
        status.url = "?";
    return status;
}

/* Why it is not intact, with the cure. */
static const char *reason_of(struct session *session, int node, int verdict,
                             const struct redlock_node_status *status, char *out, size_t size) {
    char reason[400];
    const bool has_text =
        verdict == REDLOCK_VERDICT_RECOVERING || verdict == REDLOCK_VERDICT_FOREIGN;
    if (status->url == NULL && !has_text)
        snprintf(reason, sizeof reason, "not in the list of nodes: update it");
    else if (has_text || (verdict == REDLOCK_VERDICT_NO_RECORD && status->text[0] != '\0'))
        snprintf(reason, sizeof reason, "%s", status->text);
    else if (verdict == REDLOCK_VERDICT_NO_RECORD)
        snprintf(reason, sizeof reason, "it carries no record");
    else
        node_reason(session, (size_t)node, verdict, reason, sizeof reason);
    return printable(out, size, reason, strlen(reason));
}

static void print_eligibility(struct session *session, int node, int verdict,
                              const struct redlock_node_status *status, FILE *out) {
    char reason[400];
    if (verdict == REDLOCK_VERDICT_GRANTED) {
        fputs("intact\n", out);
        return;
    }
    if (verdict == REDLOCK_VERDICT_RECOVERING || verdict == REDLOCK_VERDICT_FOREIGN)
        fprintf(out, "%s: ", verdict_name(verdict));
    fprintf(out, "%s\n", reason_of(session, node, verdict, status, reason, sizeof reason));
}

static bool is_connected(const struct redlock_node_status *status) {
    return status->run_id[0] != '\0';
}

/* "": not known, or no node is native, and people need not know the word. */
static const char *kind_of(const struct redlock_node_status *status, bool shown) {
    if (!shown || !is_connected(status)) return "";
    return status->native ? "native" : "stock";
}

/* How many of the members that were connected are native, and how many those are. */
static size_t count_natives(struct session *session, const struct membership *membership,
                            size_t *known) {
    size_t natives = 0;
    *known = 0;
    for (size_t i = 0; i < membership->quorum.members; i++) {
        const struct redlock_node_status status = status_of(session, membership->members[i].node);
        *known += is_connected(&status);
        natives += status.native == 1;
    }
    return natives;
}

static void print_kinds(struct session *session, const struct membership *membership, FILE *out) {
    size_t known, natives = count_natives(session, membership, &known);
    if (natives == 0) return;
    if (natives == known)
        fprintf(out, "%s native nodes.\n",
                known == membership->quorum.members ? "All members are"
                                                    : "All members that answer are");
    else
        fprintf(out,
                "%zu of %zu members are native nodes. The guarantee is that of the stock ones: "
                "redlock doctor.\n",
                natives, membership->quorum.members);
}

/* A node that loses its data is found again only by the URL in the other members' records. */
static void print_other_name(struct session *session, const struct redlock_member *member,
                             FILE *out) {
    char clean[URL_BYTES];
    if (member->node < 0 || same_place(member->url, member_url(session, member))) return;
    fprintf(out, "%20srecorded as %s: list it by that URL, so that it recovers from a loss\n", "",
            printable(clean, sizeof clean, member->url, strlen(member->url)));
}

static bool stands_for_a_member(const struct membership *membership, size_t node) {
    for (size_t i = 0; i < membership->quorum.members; i++) {
        if (membership->members[i].node == (int)node) return true;
    }
    return false;
}

static bool is_half_added(struct session *session, const struct membership *membership,
                          size_t node) {
    for (size_t i = 0; i < membership->quorum.members; i++) {
        if (node_half_added(session, membership, &membership->members[i]) == (int)node) return true;
    }
    return false;
}

static void print_rows(struct session *session, const struct membership *membership, FILE *out) {
    const size_t nodes = redlock_client_nodes(session->client),
                 members = membership->quorum.members;
    int width = (int)strlen("NODE");
    char clean[URL_BYTES];
    for (size_t i = 0; i < members; i++) {
        int length = (int)strlen(clean_url(session, &membership->members[i], clean, sizeof clean));
        if (length > width) width = length;
    }
    for (size_t i = 0; i < nodes; i++) {
        int length = (int)strlen(node_url(session, i));
        if (length > width) width = length;
    }
    bool kinds = false;
    for (size_t i = 0; i < nodes; i++) kinds = kinds || status_of(session, (int)i).native == 1;
    const int kind_width = kinds ? 8 : 0;
    fprintf(out, "  %-16s  %-*s  %-*s%s\n", "MEMBER", width, "NODE", kind_width,
            kinds ? "KIND" : "", "STANDING");
    for (size_t i = 0; i < members; i++) {
        const struct redlock_member *member = &membership->members[i];
        const struct redlock_node_status status = status_of(session, member->node);
        fprintf(out, "  %-16s  %-*s  %-*s", member->id, width,
                clean_url(session, member, clean, sizeof clean), kind_width,
                kind_of(&status, kinds));
        const int half_added = node_half_added(session, membership, member);
        if (half_added >= 0)
            fprintf(out, "its add was interrupted: run redlock quorum add %s again\n",
                    node_url(session, (size_t)half_added));
        else
            print_eligibility(session, member->node, member->verdict, &status, out);
        print_other_name(session, member, out);
    }
    for (size_t i = 0; i < nodes; i++) {
        if (stands_for_a_member(membership, i) || is_half_added(session, membership, i)) continue;
        const struct redlock_node_status status = status_of(session, (int)i);
        fprintf(out, "  %-16s  %-*s  %-*s", "no member", width, status.url, kind_width,
                kind_of(&status, kinds));
        print_eligibility(session, (int)i, status.verdict, &status, out);
    }
}

char *unfinished_text(const struct membership *membership, char *out, size_t size) {
    const struct redlock_quorum_status *quorum = &membership->quorum;
    char clean[URL_BYTES];
    out[0] = '\0';
    if (!quorum->known || quorum->settled) return out;
    switch (quorum->change) {
    case REDLOCK_QUORUM_CHANGE_ADD:
        snprintf(out, size, "redlock quorum add %s",
                 printable(clean, sizeof clean, quorum->change_url, strlen(quorum->change_url)));
        break;
    case REDLOCK_QUORUM_CHANGE_REMOVE:
        snprintf(out, size, "redlock quorum remove %s", quorum->change_id);
        break;
    case REDLOCK_QUORUM_CHANGE_TTL_MAX:
        snprintf(out, size, "redlock quorum set-ttl-max %" PRId64 "ms", quorum->ttl_ms_next);
        break;
    default: break;
    }
    return out;
}

static void print_unsettled(const struct membership *membership, FILE *out) {
    char command[URL_BYTES + 40];
    unfinished_text(membership, command, sizeof command);
    fprintf(out, "The last change is not finished: %s\n",
            command[0] != '\0' ? command : "run that command again.");
}

static void print_state(const struct membership *membership, enum reach reach, bool advises,
                        FILE *out) {
    const struct redlock_quorum_status *quorum = &membership->quorum;
    const char *are = quorum->intact == 1 ? "is" : "are";
    switch (membership->state) {
    case MEMBERSHIP_INTACT:
        fprintf(out,
                quorum->members == 1 ? "The member is intact.\n" : "All %zu members are intact.\n",
                quorum->members);
        break;
    case MEMBERSHIP_DEGRADED:
        if (membership->unaccepted[0] != '\0') {
            fprintf(out, "%zu of %zu members %s intact.\n", quorum->intact, quorum->members, are);
            break;
        }
        if (quorum->intact < quorum->votes_needed) {
            fprintf(
                out,
                "%zu of %zu members %s intact, and %zu %s only the newest change: a client that "
                "takes a lock brings it to them.\n",
                quorum->intact, quorum->members, are, quorum->behind,
                quorum->behind == 1 ? "lacks" : "lack");
            break;
        }
        fprintf(out, "%zu of %zu members %s intact, and %zu are enough: locks can be taken.\n",
                quorum->intact, quorum->members, are, quorum->votes_needed);
        break;
    case MEMBERSHIP_LOST:
        fprintf(out, "%zu of %zu members %s intact, and %zu are needed: no lock can be taken.%s\n",
                quorum->intact, quorum->members, are, quorum->votes_needed,
                reach != REACH_ALL ? " First start or correct the nodes that cannot be asked."
                : advises ? " If the data of a majority is lost for good: redlock quorum init"
                          : "");
        break;
    case MEMBERSHIP_ABSENT:
        fputs(
            reach == REACH_NONE
                ? "No node answers: start them, or correct their URLs or the network.\n"
            : reach == REACH_SOME
                ? "No record of a quorum can be read. First start or correct the nodes that cannot be asked.\n"
            : advises
                ? "No record of a quorum can be read. To make new servers a quorum: redlock quorum init\n"
                : "No record of a quorum can be read.\n",
            out);
        break;
    }
    if (membership->unaccepted[0] != '\0')
        fprintf(out, "With this list of nodes no lock can be taken. %s\n", membership->unaccepted);
    if (membership->state <= MEMBERSHIP_DEGRADED && !quorum->settled) {
        print_unsettled(membership, out);
    }
}

void membership_print(struct session *session, const struct membership *membership, bool advises,
                      FILE *out) {
    char most[64];
    const struct redlock_quorum_status *quorum = &membership->quorum;
    if (quorum->known) {
        fprintf(out, "quorum %s, epoch %u, ttl_max %s", quorum->id, quorum->epoch,
                duration_text(most, sizeof most, quorum->ttl_ms_allowed));
        duration_text(most, sizeof most, quorum->ttl_ms_max);
        if (quorum->ttl_ms_allowed != quorum->ttl_ms_max &&
            quorum->ttl_ms_next == quorum->ttl_ms_max)
            fprintf(out, " (%s when the change is finished)", most);
        else if (quorum->ttl_ms_allowed != quorum->ttl_ms_max)
            fprintf(out, " (nodes that lost their data wait for %s until the change is finished)",
                    most);
        putc('\n', out);
    }
    print_rows(session, membership, out);
    print_state(membership, session_reach_of_records(session), advises, out);
    print_kinds(session, membership, out);
}

/* ---- for machines ------------------------------------------------------------------------ */

static json_t *eligibility_json(struct session *session, int node, const char *url, int verdict,
                                int64_t recovering_ms, const struct redlock_node_status *status) {
    char reason[400];
    const bool left_known = verdict == REDLOCK_VERDICT_RECOVERING && recovering_ms >= 0;
    const char *eligibility = verdict == REDLOCK_VERDICT_GRANTED ? "intact" : verdict_name(verdict);
    json_t *object = json_object();
    json_object_set_new(object, "url", json_string(url));
    json_object_set_new(object, "standing", json_string(eligibility));
    json_object_set_new(object, "recovering_ms",
                        left_known ? json_integer(recovering_ms) : json_null());
    json_object_set_new(
        object, "reason",
        verdict == REDLOCK_VERDICT_GRANTED
            ? json_null()
            : json_string(reason_of(session, node, verdict, status, reason, sizeof reason)));
    return object;
}

static json_t *native_json(struct session *session, int node) {
    const struct redlock_node_status status = status_of(session, node);
    return is_connected(&status) ? json_boolean(status.native) : json_null();
}

json_t *membership_json(struct session *session, const struct membership *membership) {
    static const char *const states[] = {"intact", "degraded", "no-quorum", "no-record"};
    /* That they carry no record is not known then. */
    const bool silent =
        membership->state == MEMBERSHIP_ABSENT && session_reach(session) == REACH_NONE;
    const struct redlock_quorum_status *quorum = &membership->quorum;
    json_t *object = json_object(), *members = json_array(), *others = json_array();
    char command[URL_BYTES + 40];
    json_object_set_new(object, "state",
                        json_string(membership->unaccepted[0] != '\0' ? "unaccepted"
                                    : silent                          ? "no-answer"
                                                                      : states[membership->state]));
    json_object_set_new(object, "id", quorum->known ? json_string(quorum->id) : json_null());
    json_object_set_new(object, "epoch", json_integer(quorum->epoch));
    json_object_set_new(object, "settled", json_boolean(quorum->settled));
    json_object_set_new(object, "unfinished",
                        unfinished_text(membership, command, sizeof command)[0] != '\0'
                            ? json_string(command)
                            : json_null());
    json_object_set_new(object, "ttl_max_ms", json_integer(quorum->ttl_ms_max));
    json_object_set_new(object, "ttl_allowed_ms", json_integer(quorum->ttl_ms_allowed));
    json_object_set_new(object, "ttl_next_ms", json_integer(quorum->ttl_ms_next));
    json_object_set_new(object, "intact", json_integer((json_int_t)quorum->intact));
    json_object_set_new(object, "votes_needed", json_integer((json_int_t)quorum->votes_needed));
    for (size_t i = 0; i < quorum->members; i++) {
        const struct redlock_member *member = &membership->members[i];
        const struct redlock_node_status status = status_of(session, member->node);
        json_t *row = eligibility_json(session, member->node, member_url(session, member),
                                       member->verdict, member->recovering_ms, &status);
        json_object_set_new(row, "id", json_string(member->id));
        if (member->node < 0) json_object_set_new(row, "standing", json_string("not_listed"));
        json_object_set_new(row, "native", native_json(session, member->node));
        json_object_set_new(row, "node",
                            member->node >= 0 ? json_integer(member->node + 1) : json_null());
        json_array_append_new(members, row);
    }
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        if (stands_for_a_member(membership, i)) continue;
        const struct redlock_node_status status = status_of(session, (int)i);
        json_t *row = eligibility_json(session, (int)i, status.url, status.verdict,
                                       status.recovering_ms, &status);
        json_object_set_new(row, "native", native_json(session, (int)i));
        json_object_set_new(row, "node", json_integer((json_int_t)i + 1));
        json_array_append_new(others, row);
    }
    json_object_set_new(object, "members", members);
    json_object_set_new(object, "others", others);
    return object;
}
