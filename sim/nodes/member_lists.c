/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The member lists that the world itself knows, from the records that its nodes carry.
 */
#include <string.h>

#include "client/guarding/record.h"
#include "nodes.h"

static int node_of(const struct world *world, const char *url) {
    for (unsigned i = 0; i < world->options.nodes; i++)
        if (strcmp(world->server[i].url, url) == 0) return (int)i;
    return -1;
}

static bool is_list(const struct member_list *list, const struct rl_record *record) {
    if (list->quorum_id != record->quorum_id || list->epoch != record->epoch ||
        list->count != record->members_count)
        return false;
    for (unsigned i = 0; i < list->count; i++)
        if (!rl_record_member(record, list->id[i])) return false;
    return true;
}

/* Numbers them in the order of their appearance; 0: there are too many, or the record is NULL. */
unsigned world_list_of(struct world *world, const struct rl_record *record) {
    unsigned i = 0;
    if (!record) return 0;
    while (i < world->lists_count && !is_list(&world->lists[i], record)) i++;
    if (i == WORLD_LISTS_MAX) return 0;
    if (i < world->lists_count) return i + 1;
    struct member_list *list = &world->lists[world->lists_count++];
    *list = (struct member_list){
        .quorum_id = record->quorum_id, .epoch = record->epoch, .count = record->members_count};
    for (unsigned m = 0; m < list->count && m < RL_NODES_MAX; m++) {
        int node = node_of(world, record->members[m].url);
        list->id[m] = record->members[m].id;
        list->node[m] = (uint8_t)(node < 0 ? RL_NODES_MAX : node);
        if (node >= 0) list->nodes |= rl_bit((unsigned)node);
    }
    return world->lists_count;
}

/* The list of the newest epoch that an intact node carries. */
const struct member_list *world_newest_list(const struct world *world) {
    const struct member_list *best = NULL;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (!server->intact || server->list == 0) continue;
        const struct member_list *list = &world->lists[server->list - 1];
        if (!best || list->epoch > best->epoch) best = list;
    }
    return best;
}

rl_mask world_members(const struct world *world) {
    const struct member_list *list = world_newest_list(world);
    return list ? list->nodes : 0;
}

int64_t world_ttl_allowed(const struct world *world) {
    const struct member_list *list = world_newest_list(world);
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (server->intact && server->list && &world->lists[server->list - 1] == list)
            return server->ttl_allowed;
    }
    return 0;
}

static bool is_identity(const struct member_list *list, uint64_t id) {
    for (unsigned i = 0; i < list->count; i++)
        if (list->id[i] == id) return true;
    return false;
}

/* Whether this server's record names a newer incarnation of the node than its own. Then the node
 * counts as lost. */
static bool knows_newer(const struct server *server, uint64_t id,
                        const struct rl_incarnation *own) {
    struct rl_record record;
    if (!server->up || !server_guard_record(server, &record)) return false;
    const struct rl_member *member = rl_record_member(&record, id);
    return member && rl_incarnation_compare(own, &member->incarnation) < 0;
}

bool node_is_intact(const struct world *world, unsigned node) {
    const struct server *server = &world->server[node];
    struct rl_record record;
    if (!server->intact || server->replica || !server_guard_record(server, &record)) return false;
    if (server->may_evict && !server->native) return false;
    if (strcmp(record.replid, server->replid) != 0) return false;
    const uint64_t id = record.node_id;
    const struct rl_member *member = rl_record_member(&record, id);
    for (unsigned i = 0; member && i < world->options.nodes; i++) {
        if (knows_newer(&world->server[i], id, &member->incarnation)) return false;
        if (world->old[i].up && knows_newer(&world->old[i], id, &member->incarnation)) return false;
    }
    return true;
}

bool world_is_intact(const struct world *world, unsigned node) {
    const struct member_list *list = world_newest_list(world);
    if (!node_is_intact(world, node)) return false;
    bool member = list && (list->nodes & rl_bit(node));
    return !member || is_identity(list, world->server[node].identity);
}

/* No node carries a record of another quorum, which clients would refuse. */
bool world_is_usable(const struct world *world) {
    const struct member_list *list = world_newest_list(world);
    unsigned intact = 0;
    if (!list) return false;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        if (server->list && world->lists[server->list - 1].quorum_id != list->quorum_id)
            return false;
        intact += (list->nodes & rl_bit(i)) && world_is_intact(world, i);
    }
    return intact >= rl_quorum(list->count);
}

rl_mask world_strays(const struct world *world) {
    const struct member_list *list = world_newest_list(world);
    rl_mask strays = 0;
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const unsigned carried = world->server[i].list;
        const bool other = carried && world->lists[carried - 1].quorum_id != list->quorum_id;
        if (other && !(list->nodes & rl_bit(i))) strays |= rl_bit(i);
    }
    return strays;
}

int world_unclaimed(const struct world *world) {
    const struct member_list *list = world_newest_list(world);
    for (unsigned i = 0; list && i < world->options.nodes; i++) {
        const struct server *server = &world->server[i];
        bool known = server->list == 0 || is_identity(list, server->identity);
        if ((list->nodes & rl_bit(i)) && !known) return (int)i;
    }
    return -1;
}
