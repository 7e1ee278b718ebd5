/* SPDX-License-Identifier: BSD-2-Clause */
#include "play.h"

#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "history/memory.h"

enum { LAST_ROUNDS = 2 }; /* how often each client acquires each lock after the faults */

/* A lock that a client wants or holds, for a session of the plan or, at the end, to prove that it
 * can. */
struct pursuit {
    const struct plan_action *session; /* NULL: none */
    uint32_t serial;                   /* timers of an earlier session are stale */
    uint32_t updates_left;
    unsigned last_rounds;
};

struct player {
    struct world *world;
    struct coverage *coverage; /* NULL: not wanted */
    struct history history;
    const struct plan *plan;
    bool healed;
    bool stands; /* after the faults: the quorum was usable, and no operator has worked since */
    bool down[RL_NODES_MAX];
    /* What has befallen stock nodes, whose keys a clock and the server's own memory can end.
     * Guarded: */
    bool clocks_step;
    bool evicts_at_once; /* a node evicts keys before clients can notice that it may */
    bool found;          /* all clients can find the quorum when the run ends */
    /* the time since which no fault has kept clients from seeing its present state */
    rl_ns undisturbed[RL_NODES_MAX];
    uint32_t doubts[RL_NODES_MAX], doubts_count; /* 0: what clients believe of it is known */
    rl_ns calm[RL_NODES_MAX];                    /* how long all clients have been in touch */
    rl_mask known; /* nodes whose present process all clients have been in touch with */
    rl_mask early; /* nodes whose keys end early, perhaps unseen */
    struct early_ends {
        rl_mask known; /* by then; 0: nobody can notice */
        rl_ns since, undisturbed;
    } early_ends[RL_NODES_MAX];
    uint32_t serial[PLAN_KIND_COUNT][WORLD_CLIENTS_MAX]
                   [RL_NODES_MAX]; /* numbers the faults of a kind; the latest one counts */
    uint64_t acquisitions;
    struct operation {
        const struct plan_action *action;
        unsigned kind, tries_left;
    } operations[WORLD_CLIENTS_MAX];
    struct pursuit pursuits[WORLD_CLIENTS_MAX][WORLD_RESOURCES_MAX];
};

struct player *player_new(void) {
    struct player *player = memory_new(sizeof(*player));
    player->world = world_new();
    history_init(&player->history, 0, 0, 0);
    return player;
}

void player_cover(struct player *player, struct coverage *coverage) { player->coverage = coverage; }

void player_free(struct player *player) {
    if (!player) return;
    world_free(player->world);
    history_free(&player->history);
    free(player);
}

const struct history *player_history(const struct player *player) { return &player->history; }

/* ---- a session ------------------------------------------------------------------------------- */

static int64_t pack(unsigned client, unsigned resource, uint32_t serial) {
    return (int64_t)serial << 16 | (int64_t)client << 8 | (int64_t)resource;
}

static struct pursuit *unpack(struct world *world, int64_t number, unsigned *client,
                              unsigned *resource) {
    struct player *player = world_owner(world);
    *client = (unsigned)(number >> 8) & 0xff;
    *resource = (unsigned)number & 0xff;
    struct pursuit *pursuit = &player->pursuits[*client][*resource];
    return pursuit->session && pursuit->serial == (uint32_t)(number >> 16) ? pursuit : NULL;
}

static void update_next(struct world *world, void *argument, int64_t number) {
    unsigned client, resource;
    struct pursuit *pursuit = unpack(world, number, &client, &resource);
    (void)argument;
    if (!pursuit || pursuit->updates_left == 0) return;
    pursuit->updates_left--;
    const struct plan_action *session = pursuit->session;
    actor_update(world, client, resource, session->think, session->late);
    /* A program makes its own updates one after the other. */
    if (pursuit->updates_left > 0)
        world_at(world, world_now(world) + session->think + session->late + RL_MS, update_next,
                 NULL, number);
}

static void extend(struct world *world, void *argument, int64_t number) {
    unsigned client, resource;
    const struct pursuit *pursuit = unpack(world, number, &client, &resource);
    (void)argument;
    if (pursuit) actor_act(world, client, ACTION_EXTEND, resource, pursuit->session->extend_ms);
}

static void adopt(struct world *world, void *argument, int64_t number) {
    unsigned client, resource;
    const struct pursuit *pursuit = unpack(world, number, &client, &resource);
    (void)argument;
    if (pursuit) actor_act(world, client, ACTION_ADOPT, resource, pursuit->session->extend_ms);
}

static void downgrade(struct world *world, void *argument, int64_t number) {
    unsigned client, resource;
    (void)argument;
    if (unpack(world, number, &client, &resource))
        actor_act(world, client, ACTION_DOWNGRADE, resource, 0);
}

/* In a session with several locks, the first one that expires ends the others that were acquired by
 * then. */
static void give_back(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    unsigned client, resource, all = 0;
    (void)argument;
    const struct pursuit *pursuit = unpack(world, number, &client, &resource);
    if (!pursuit) return;
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX && pursuit->session->many; i++)
        if (player->pursuits[client][i].session == pursuit->session) all |= 1u << i;
    if (all)
        actor_act(world, client, ACTION_RELEASE_MANY, all, 0);
    else
        actor_act(world, client, ACTION_RELEASE, resource, 0);
}

static void give_up(struct world *world, void *argument, int64_t number) {
    unsigned client, resource;
    (void)argument;
    if (unpack(world, number, &client, &resource))
        actor_act(world, client, ACTION_CANCEL, resource, 0);
}

static void pursue(struct world *world, unsigned client, unsigned resource,
                   const struct plan_action *session) {
    struct player *player = world_owner(world);
    struct pursuit *pursuit = &player->pursuits[client][resource];
    pursuit->session = session;
    pursuit->serial++;
    /* a register belongs to one lock, and several hold a lock with slots */
    pursuit->updates_left = player->plan->options.slots ? 0 : session->updates;
    if (session->cancel_at)
        world_at(world, world_now(world) + session->cancel_at, give_up, NULL,
                 pack(client, resource, pursuit->serial));
    if (session->adopts)
        actor_act(world, client, ACTION_ADOPT, resource, session->extend_ms);
    else if (!session->many)
        actor_act(world, client, ACTION_ACQUIRE, resource, session->number);
}

static void pursue_many(struct world *world, unsigned client, const struct plan_action *session) {
    unsigned idle = 0;
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++)
        if (session->many >> i & 1 && actor_idle(world, client, i)) idle |= 1u << i;
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++)
        if (idle >> i & 1) pursue(world, client, i, session);
    if (idle) actor_act(world, client, ACTION_ACQUIRE_MANY, idle, session->number);
}

static const struct plan_action last_session = {
    .span = RL_MS, .updates = 1, .number = REDLOCK_WAIT_FOREVER};

static void last_round(struct world *world, unsigned client, unsigned resource) {
    struct player *player = world_owner(world);
    player->pursuits[client][resource].session = NULL;
    if (!player->healed || player->pursuits[client][resource].last_rounds == 0) return;
    pursue(world, client, resource, &last_session);
}

static void again(struct world *world, void *argument, int64_t number) {
    (void)argument;
    last_round(world, (unsigned)(number >> 8), (unsigned)number & 0xff);
}

/* Not from within the callback: the library would report this lock as busy. And where two inits
 * have left records of two quorums, a client is refused at once, until an operator has resolved it;
 * so also where slots are held with another number of them. */
static void end_pursuit(struct world *world, unsigned client, unsigned resource, bool failed) {
    struct player *player = world_owner(world);
    const bool waits = player->plan->operators != 0 || player->plan->options.slots;
    rl_ns pause = failed && waits ? 50 * RL_MS : 0;
    player->pursuits[client][resource].session = NULL;
    if (player->healed)
        world_at(world, world_now(world) + pause, again, NULL, pack(client, resource, 0));
}

static void on_acquired(struct world *world, unsigned client, unsigned resource, int result) {
    struct player *player = world_owner(world);
    struct pursuit *pursuit = &player->pursuits[client][resource];
    const struct plan_action *session = pursuit->session;
    if (result != REDLOCK_OK || !session) {
        end_pursuit(world, client, resource, true);
        return;
    }
    rl_ns now = world_now(world);
    int64_t number = pack(client, resource, pursuit->serial);
    player->acquisitions++;
    if (player->healed && pursuit->last_rounds > 0) pursuit->last_rounds--;
    world_at(world, now, update_next, NULL, number);
    if (session->extend_at) world_at(world, now + session->extend_at, extend, NULL, number);
    if (session->adopt_at) world_at(world, now + session->adopt_at, adopt, NULL, number);
    if (session->downgrade_at)
        world_at(world, now + session->downgrade_at, downgrade, NULL, number);
    world_at(world, now + session->span, give_back, NULL, number);
}

static void on_released(struct world *world, unsigned client, unsigned resource, int result) {
    (void)result;
    end_pursuit(world, client, resource, false);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* The next node, from that one on, that is a member, or is not; -1: none. */
static int next_node(const struct player *player, unsigned from, bool member) {
    rl_mask members = world_members(player->world);
    unsigned nodes = player->plan->options.nodes;
    for (unsigned i = 0; i < nodes; i++) {
        unsigned node = (from + i) % nodes;
        if (((members & rl_bit(node)) != 0) == member) return (int)node;
    }
    return -1;
}

static void operate(struct world *world, unsigned client) {
    struct player *player = world_owner(world);
    const struct plan_action *action = player->operations[client].action;
    const unsigned kind = player->operations[client].kind;
    const struct world_options *options = &player->plan->options;
    struct world_operation what = {.kind = (uint8_t)kind, .node = action->node};
    if (kind == OPERATION_INIT) {
        what.never_used = player->plan->fresh && !action->span;
        what.ttl_max_ms = action->span || player->plan->fresh ? options->ttl_ms_max : 0;
        what.ttl_max_before_ms = player->plan->ttl_ms_longest;
    } else if (kind == OPERATION_SET_TTL_MAX) {
        what.ttl_max_ms = action->extend_ms;
    } else {
        int node = next_node(player, action->node, kind == OPERATION_REMOVE);
        /* Clients that do not name the quorum use the one that more than half of their nodes carry.
         */
        bool named = options->client[0].client.quorum != NULL;
        unsigned fewest = named ? 2 : options->nodes / 2 + 1;
        if (node < 0 || (kind == OPERATION_REMOVE && rl_count(world_members(world)) <= fewest)) {
            player->operations[client].action = NULL;
            return;
        }
        what.node = (uint8_t)node;
    }
    actor_operate(world, client, what);
}

static void operate_again(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    unsigned client = (unsigned)number & 0xff;
    bool stale = player->operations[client].action != argument;
    if (!stale && !player->healed && !actor_operates(world, client)) operate(world, client);
}

static void begin_operation(struct world *world, const struct plan_action *action) {
    struct player *player = world_owner(world);
    unsigned client = action->client;
    if (player->healed || actor_operates(world, client)) return;
    player->operations[client] =
        (struct operation){action, (unsigned)action->number, action->updates};
    operate(world, client);
}

static void begin_break(struct world *world, const struct plan_action *action) {
    const struct player *player = world_owner(world);
    if (player->healed) return;
    actor_operate(world, action->client,
                  (struct world_operation){.kind = OPERATION_BREAK,
                                           .resource = action->resource,
                                           .think = action->think});
}

static void on_operated(struct world *world, unsigned client, unsigned resource, int result) {
    struct player *player = world_owner(world);
    struct operation *operation = &player->operations[client];
    const struct plan_action *action = operation->action;
    (void)resource;
    if (!action || player->healed) return;
    if (result == REDLOCK_OK && action->many && operation->kind == OPERATION_ADD)
        operation->kind = OPERATION_REMOVE;
    else if (result == REDLOCK_NO_QUORUM && operation->tries_left > 0)
        operation->tries_left--;
    else
        return;
    world_at(world, world_now(world) + action->think, operate_again, (void *)(uintptr_t)action,
             client);
}

/* After the faults, client A, which always exists, does what docs/inside/guarded.md asks of an
 * operator: it runs init if too few members are intact, or if two inits have left records of two
 * quorums, it repeats an add that its node has forgotten, and it raises a ttl_max that has become
 * too short for the clients. Nothing else helps in these cases.
 *
 * This must not hide a fault of the library. So A waits until every operator has ended, which
 * LIVENESS judges. It does nothing while a majority is intact: clients must recover the other
 * members, which RECOVERED judges. And once the quorum was usable without an operator at work, A
 * never inits again: if clients then destroy it, it stays destroyed. */
#define LOOK_EVERY (500 * RL_MS)
#define CLOCKS_APART_MAX (5 * 3600000 * RL_MS)

static void tend(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const struct plan *plan = player->plan;
    bool busy = false;
    (void)argument;
    for (unsigned i = 0; i < plan->options.clients; i++) busy = busy || actor_operates(world, i);
    /* A node that lost its data recovers by itself, given the time. */
    bool usable = world_is_usable(world);
    number = usable || busy ? 0 : number + 1;
    player->stands = !busy && (usable || player->stands);
    if (number >= 4 && !player->stands) {
        struct world_operation what = {.kind = OPERATION_INIT,
                                       .ttl_max_before_ms = plan->ttl_ms_longest,
                                       .ttl_max_ms = plan->options.ttl_ms_max,
                                       .floor = CLOCKS_APART_MAX + world_now(world)};
        actor_operate(world, 0, what);
    }
    int node = usable && !busy ? world_unclaimed(world) : -1;
    if (node >= 0)
        actor_operate(world, 0,
                      (struct world_operation){.kind = OPERATION_ADD, .node = (uint8_t)node});
    const int64_t ttl_ms = plan->options.client[0].lock.ttl_ms;
    if (node < 0 && usable && !busy && world_ttl_allowed(world) < ttl_ms)
        actor_operate(
            world, 0,
            (struct world_operation){.kind = OPERATION_SET_TTL_MAX, .ttl_max_ms = ttl_ms});
    world_at(world, world_now(world) + LOOK_EVERY, tend, NULL, number);
}

/* A minority may have kept its data. */
static void end_power_cut(struct world *world, const struct plan_action *action) {
    struct player *player = world_owner(world);
    unsigned nodes = player->plan->options.nodes, keep = (nodes - 1) / 2;
    for (unsigned i = 0; i < nodes; i++) {
        bool keeps = keep > 0 && (action->many >> i & 1);
        keep -= keeps;
        player->down[i] = false;
        node_restart(world, i, keeps ? NODE_KEEPS_ALL : NODE_KEEPS_NOTHING);
    }
}

static rl_mask members_of(const struct player *player) {
    const struct world_options *options = &player->plan->options;
    const rl_mask ours = rl_all(options->nodes) & ~(rl_mask)options->others;
    return options->changes ? world_members(player->world) : ours;
}

static bool is_member(const struct player *player, unsigned node) {
    return members_of(player) & rl_bit(node);
}

/* ---- what clients have noticed --------------------------------------------------------------- */

/* A client promises to look about once a second. This looks whether no fault kept it from that. */
#define CHANGE_SEEN (2200 * RL_MS)
#define CHANGE_EVERY (100 * RL_MS)

/* They give up the node only if the others are a majority without it. */
static bool may_do_without(const struct player *player, unsigned node) {
    const rl_mask members = members_of(player);
    unsigned others = 0;
    for (unsigned i = 0; i < player->plan->options.nodes; i++)
        others += i != node && members & rl_bit(i) && node_is_in_touch(player->world, i) &&
                  world_is_intact(player->world, i);
    return others >= rl_quorum(rl_count(members));
}

static void doubt(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const unsigned node = (unsigned)number & 0xff;
    (void)argument;
    if (player->healed || player->doubts[node] != (uint32_t)(number >> 8)) return;
    rl_ns *undisturbed = &player->undisturbed[node];
    const bool acts = node_is_in_touch(world, node) && may_do_without(player, node);
    *undisturbed = acts ? *undisturbed + CHANGE_EVERY : 0;
    if (*undisturbed >= CHANGE_SEEN)
        player->doubts[node] = 0;
    else
        world_at(world, world_now(world) + CHANGE_EVERY, doubt, NULL, number);
}

/* The node's policy evicts no more. Clients that saw it evict will call its data lost, but only
 * when they look again. */
static void begin_doubt(struct world *world, unsigned node) {
    struct player *player = world_owner(world);
    player->doubts[node] = ++player->doubts_count;
    player->undisturbed[node] = 0;
    doubt(world, NULL, (int64_t)player->doubts[node] << 8 | (int64_t)node);
}

/* ---- keys that end early ----------------------------------------------------------------------
 */

/* Where a stock node's clock steps, or where it evicts, keys end early. Clients act on it when all
 * of this has been so for a while: they are in touch with the node, and with a majority of others
 * that are intact and whose clocks they knew before. Nothing can come of it any more once every
 * lease from before would have ended. Smaller steps may be drift. */
#define STEP_NOTICED (100 * RL_MS)

static void note_unseen(struct player *player, unsigned node, bool unseen) {
    node_note_unseen(player->world, node, unseen);
    player->early &= ~rl_bit(node);
    if (unseen) player->early |= rl_bit(node);
}

static void end_early(struct player *player, const struct plan_action *action) {
    const bool steps = action->kind == PLAN_NODE_STEP;
    if (!player->plan->guarded || (steps && action->number <= 0)) return;
    const bool noticed =
        player->known & rl_bit(action->node) && (!steps || action->number >= STEP_NOTICED);
    player->early_ends[action->node] = (struct early_ends){.known = noticed ? player->known : 0,
                                                           .since = world_now(player->world)};
    note_unseen(player, action->node, true);
}

static void forget_process(struct player *player, unsigned node) {
    player->known &= ~rl_bit(node);
    player->calm[node] = 0;
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        player->early_ends[i].known = i == node ? 0 : player->early_ends[i].known & player->known;
}

static bool is_seen(struct player *player, unsigned node, rl_mask steady) {
    struct early_ends *ends = &player->early_ends[node];
    const unsigned quorum = rl_quorum(rl_count(members_of(player)));
    const bool acts = player->calm[node] > 0 && ends->known & rl_bit(node) &&
                      rl_count(steady & ends->known & ~rl_bit(node)) >= quorum;
    ends->undisturbed = acts ? ends->undisturbed + CHANGE_EVERY : 0;
    const rl_ns longest = player->plan->ttl_ms_longest * RL_MS * 103 / 100;
    return ends->undisturbed >= CHANGE_SEEN || world_now(player->world) > ends->since + longest;
}

static void look_at_clocks(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const unsigned nodes = player->plan->options.nodes;
    rl_mask steady = 0;
    (void)argument;
    (void)number;
    for (unsigned i = 0; i < nodes; i++) {
        if (!node_is_up(world, i)) forget_process(player, i);
        player->calm[i] = node_is_in_touch(world, i) ? player->calm[i] + CHANGE_EVERY : 0;
        if (player->calm[i] >= CHANGE_SEEN) player->known |= rl_bit(i);
        if (player->calm[i] > 0 && is_member(player, i) && world_is_intact(world, i))
            steady |= rl_bit(i);
    }
    steady &= ~player->early;
    for (unsigned i = 0; i < nodes; i++)
        if (player->early & rl_bit(i) && is_seen(player, i, steady)) note_unseen(player, i, false);
    if (player->early != 0 || !player->healed)
        world_at(world, world_now(world) + CHANGE_EVERY, look_at_clocks, NULL, 0);
}

/* ---- faults and their ends ------------------------------------------------------------------- */

/* The end of a fault that a later one of its kind has replaced does nothing. */
static uint32_t *latest(struct player *player, const struct plan_action *action) {
    bool of_client = action->kind >= PLAN_CLIENT_PAUSE, of_link = action->kind == PLAN_CUT;
    unsigned client = of_client || of_link ? action->client : 0;
    return &player->serial[action->kind][client][of_client ? 0 : action->node];
}

static void end_fault(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const struct plan_action *action = &player->plan->actions[number & 0xffff];
    (void)argument;
    if (player->healed || *latest(player, action) != (uint32_t)(number >> 16)) return;
    switch ((enum plan_kind)action->kind) {
    case PLAN_NODE_CRASH:
        player->down[action->node] = false;
        node_restart(world, action->node, (enum node_keeps)action->number);
        break;
    case PLAN_NODE_KIND:
        player->down[action->node] = false;
        node_restart_as(world, action->node, (enum node_keeps)action->many, action->number != 0);
        break;
    case PLAN_NODE_SPLIT: node_old_ends(world, action->node); break;
    case PLAN_NODE_TRIP: node_promote(world, action->node); break;
    case PLAN_NODE_POLICY:
        node_policy(world, action->node, false);
        begin_doubt(world, action->node);
        break;
    case PLAN_NODE_PAUSE: node_resume(world, action->node); break;
    case PLAN_NODE_MODE: node_mode(world, action->node, REDLOCK_VERDICT_GRANTED); break;
    case PLAN_CUT: link_heal(world, action->client, action->node); break;
    case PLAN_CLIENT_FREEZE:
    case PLAN_CLIENT_PAUSE: actor_resume(world, action->client); break;
    case PLAN_POWER_CUT: end_power_cut(world, action); break;
    default: break;
    }
}

/* Guarded mode withstands the loss of any minority: until the lost nodes are intact again, the
 * minority is used up. Clients that still reach what was left of a node may bring that back. No
 * client has a lock in the second quorum. */
static bool is_one_too_many(const struct player *player, unsigned node) {
    const struct plan *plan = player->plan;
    unsigned members = 0, lost = 1;
    for (unsigned i = 0; i < plan->options.nodes; i++) {
        if (!is_member(player, i)) continue;
        members++;
        lost += i != node && (!node_is_up(player->world, i) || !world_is_intact(player->world, i) ||
                              node_lives_on(player->world, i) || player->doubts[i] != 0);
    }
    return is_member(player, node) && lost > members - rl_quorum(members);
}

/* A node that switches to a policy that evicts, or that follows another master, may lose a key once
 * all clients have had the time to notice. */
static void lose_when_seen(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const struct plan_action *action = &player->plan->actions[number & 0xffff];
    rl_ns *undisturbed = &player->undisturbed[action->node];
    (void)argument;
    bool over = player->healed || *latest(player, action) != (uint32_t)(number >> 16);
    if (over || !node_may_lose(world, action->node))
        return; /* a new process is a master with its own policy */
    *undisturbed = node_is_in_touch(world, action->node) ? *undisturbed + CHANGE_EVERY : 0;
    if (*undisturbed < CHANGE_SEEN)
        world_at(world, world_now(world) + CHANGE_EVERY, lose_when_seen, NULL, number);
    else if (!is_one_too_many(player, action->node) && action->kind == PLAN_NODE_TRIP)
        node_follows_deletion(world, action->node, action->resource);
    else if (!is_one_too_many(player, action->node))
        node_evict(world, action->node, action->resource);
}

static void evict_apart(struct world *world, const struct plan_action *action) {
    const struct plan *plan = ((struct player *)world_owner(world))->plan;
    for (unsigned i = 0; i < plan->options.clients; i++) link_break(world, i, action->node);
    node_policy(world, action->node, true);
    node_evict(world, action->node, action->resource);
    node_policy(world, action->node, false);
}

static void touch(struct world *world, const struct plan_action *action) {
    switch (action->number) {
    case 0: node_foreign(world, action->node, action->resource, NULL, 0); break;
    case 1:
        node_foreign(world, action->node, action->resource, "a stranger's token",
                     action->late / RL_MS);
        break;
    case 2: node_delete_record(world, action->node); break;
    default: node_swap_db(world, action->node); break;
    }
}

static void begin_fault(struct world *world, const struct plan_action *action) {
    struct player *player = world_owner(world);
    switch ((enum plan_kind)action->kind) {
    case PLAN_NODE_CRASH:
    case PLAN_NODE_KIND:
        node_crash(world, action->node);
        player->down[action->node] = true;
        break;
    case PLAN_NODE_PAUSE: node_pause(world, action->node); break;
    case PLAN_NODE_MODE: node_mode(world, action->node, (int)action->number); break;
    case PLAN_NODE_RATE: node_clock_rate(world, action->node, (uint32_t)action->number); break;
    case PLAN_NODE_STEP: node_clock_step(world, action->node, action->number); break;
    case PLAN_NODE_FLUSH: node_flush(world, action->node); break;
    case PLAN_NODE_EVICT: node_evict(world, action->node, action->resource); break;
    case PLAN_NODE_FAILOVER:
        if (!player->down[action->node]) node_failover(world, action->node, action->number);
        break;
    case PLAN_NODE_SPLIT:
        if (!player->down[action->node]) node_split(world, action->node, action->number);
        break;
    case PLAN_NODE_TRIP:
        player->undisturbed[action->node] = 0;
        if (action->many)
            node_follow(world, action->node);
        else
            node_demote(world, action->node, action->number, action->late);
        break;
    case PLAN_NODE_REPLICA: node_gets_replica(world, action->node); break;
    case PLAN_NODE_POLICY:
        node_policy(world, action->node, true);
        player->undisturbed[action->node] = 0;
        break;
    case PLAN_NODE_EVICT_APART: evict_apart(world, action); break;
    case PLAN_NODE_STRANGER: touch(world, action); break;
    case PLAN_CUT:
        link_cut(world, action->client, action->node, (enum link_way)action->number);
        break;
    case PLAN_BREAK: link_break(world, action->client, action->node); break;
    case PLAN_LOSE_ANSWER: link_lose_next_answer(world, action->client, action->node); break;
    case PLAN_DELAY: link_delay(world, action->client, action->node, action->number); break;
    case PLAN_BLACK_HOLE: link_becomes_hole(world, action->client, action->node); break;
    case PLAN_CLIENT_PAUSE: actor_pause(world, action->client); break;
    case PLAN_CLIENT_FREEZE: actor_freeze(world, action->client); break;
    case PLAN_CLIENT_CRASH: actor_crash(world, action->client); break;
    case PLAN_CLIENT_CLOCK: actor_clock_step(world, action->client, action->number); break;
    case PLAN_POWER_CUT:
        for (unsigned i = 0; i < player->plan->options.nodes; i++) {
            node_crash(world, i);
            player->down[i] = true;
        }
        break;
    case PLAN_OPERATE: begin_operation(world, action); break;
    case PLAN_BREAKS_LOCK: begin_break(world, action); break;
    case PLAN_SESSION:
    case PLAN_KIND_COUNT: break;
    }
}

/* A native node loses its data with its process, and in no other way. */
static bool ends_process(unsigned kind) {
    return kind == PLAN_NODE_CRASH || kind == PLAN_NODE_KIND || kind == PLAN_NODE_FAILOVER ||
           kind == PLAN_NODE_SPLIT;
}

static bool changes_process(unsigned kind) { return ends_process(kind) || kind == PLAN_NODE_TRIP; }

static void note_stock(struct player *player, const struct plan_action *action) {
    player->clocks_step |= action->kind == PLAN_NODE_STEP;
    player->evicts_at_once |= action->kind == PLAN_NODE_EVICT;
    if (action->kind == PLAN_NODE_STEP || action->kind == PLAN_NODE_EVICT)
        end_early(player, action);
}

static void act(struct world *world, void *argument, int64_t number) {
    struct player *player = world_owner(world);
    const struct plan_action *action = &player->plan->actions[number];
    (void)argument;
    if (player->coverage) coverage_note(player->coverage, world, action->resource, action->kind);
    if (action->kind == PLAN_SESSION) {
        if (action->many)
            pursue_many(world, action->client, action);
        else if (actor_idle(world, action->client, action->resource))
            pursue(world, action->client, action->resource, action);
        return;
    }
    const bool of_node = action->kind >= PLAN_NODE_CRASH && action->kind < PLAN_CUT;
    const bool native = of_node && node_is_native(world, action->node);
    if (action->native && !native) return;
    bool loses = native ? ends_process(action->kind)
                        : action->kind == PLAN_NODE_CRASH ||
                              (action->kind >= PLAN_NODE_FLUSH && action->kind < PLAN_CUT);
    bool bounded = player->plan->guarded && player->plan->broken != PLAN_BREAK_DATA_LOSS;
    if (loses && bounded && is_one_too_many(player, action->node)) return;
    if (of_node && !native) note_stock(player, action);
    if (of_node && changes_process(action->kind)) forget_process(player, action->node);
    begin_fault(world, action);
    uint32_t serial = ++*latest(player, action);
    if (action->span > 0)
        world_at(world, world_now(world) + action->span, end_fault, NULL,
                 (int64_t)serial << 16 | number);
    if (action->kind == PLAN_NODE_POLICY || (action->kind == PLAN_NODE_TRIP && action->many))
        world_at(world, world_now(world) + CHANGE_EVERY, lose_when_seen, NULL,
                 (int64_t)serial << 16 | number);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool all_content(const struct player *player) {
    const struct world_options *options = &player->plan->options;
    for (unsigned client = 0; client < options->clients; client++) {
        if (!actor_alive(player->world, client)) continue;
        if (actor_operates(player->world, client)) return false;
        for (unsigned resource = 0; resource < options->resources; resource++) {
            const struct pursuit *pursuit = &player->pursuits[client][resource];
            if (pursuit->last_rounds > 0 || pursuit->session) return false;
        }
    }
    return true;
}

static bool all_intact(const struct player *player) {
    for (unsigned i = 0; i < player->plan->options.nodes && player->plan->guarded; i++)
        if (is_member(player, i) && !world_is_intact(player->world, i)) return false;
    return !player->plan->options.changes || world_is_usable(player->world);
}

/* The faults are over: each remaining client acquires each lock again. This waits until all had
 * their turn, or until the judge of liveness has seen enough. */
static void run_healed(struct player *player) {
    const struct plan *plan = player->plan;
    struct world *world = player->world;
    rl_ns ttl = plan->options.client[0].lock.ttl_ms * RL_MS;
    rl_ns latest_end = world_now(world) + 2 * ttl + 2 * plan->liveness_bound;
    player->healed = true;
    world_heal(world);
    if (plan->operators) tend(world, NULL, 0);
    for (unsigned client = 0; client < plan->options.clients; client++) {
        const bool refused = plan->may_be_refused >> client & 1;
        for (unsigned resource = 0; resource < plan->options.resources; resource++) {
            player->pursuits[client][resource].last_rounds = refused ? 0 : LAST_ROUNDS;
            if (actor_idle(world, client, resource)) last_round(world, client, resource);
        }
    }
    while (!(all_content(player) && all_intact(player)) && world_now(world) < latest_end)
        world_run_until(world, world_now(world) + ttl / 4);
    world_run_until(world,
                    world_now(world) + ttl * 5 / 4); /* keys that remain must end by themselves */
    /* records one as recovering late, to be sure; or A has begun an operator's work late */
    while (!(all_content(player) && all_intact(player)) && world_now(world) < latest_end)
        world_run_until(world, world_now(world) + ttl / 4);
}

static void begin(struct player *player, const struct plan *plan) {
    player->plan = plan;
    player->healed = player->stands = false;
    player->acquisitions = 0;
    memset(player->down, 0, sizeof(player->down));
    memset(player->doubts, 0, sizeof(player->doubts));
    player->clocks_step = player->evicts_at_once = false;
    memset(player->calm, 0, sizeof(player->calm));
    memset(player->early_ends, 0, sizeof(player->early_ends));
    player->known = player->early = 0;
    memset(player->serial, 0, sizeof(player->serial));
    memset(player->operations, 0, sizeof(player->operations));
    memset(player->pursuits, 0, sizeof(player->pursuits));
    world_begin(player->world, &plan->options, &player->history);
    player->history.liveness_bound = plan->liveness_bound;
    world_report_to(player->world, player,
                    &(struct world_reports){on_acquired, on_released, on_operated});
    for (unsigned i = 0; i < plan->options.nodes; i++)
        if (plan->node_ppm[i] != 1000000) node_clock_rate(player->world, i, plan->node_ppm[i]);
}

/* A client that names no quorum accepts one only if more than half of the nodes in its list carry
 * its record. Native nodes that are members no more lose theirs in any restart, so an operator must
 * shorten the list, or name the quorum; here none does. The same holds where a server that was
 * removed goes back to data from before, when it had a record of another quorum. */
static bool all_find_the_quorum(const struct player *player) {
    const struct world_options *options = &player->plan->options;
    const rl_mask carriers = world_carriers(player->world), strays = world_strays(player->world);
    for (unsigned i = 0; i < options->clients && options->changes; i++) {
        const struct world_client_options *client = &options->client[i];
        const rl_mask nodes = client->nodes ? client->nodes : rl_all(options->nodes);
        if (client->client.quorum) continue;
        if (2 * rl_count(nodes & carriers) <= rl_count(nodes) || (nodes & strays)) return false;
    }
    return true;
}

/* With clocks that stand still or go back, keys end late or never: orphans and liveness cannot be
 * judged. Where all of that befell native nodes alone, nothing is excused. */
static unsigned rules_of(const struct player *player) {
    const struct plan *plan = player->plan;
    unsigned all = (1u << CHECK_RULE_COUNT) - 1;
    if (!player->found) all &= ~(1u << CHECK_LIVENESS);
    if (plan->guarded && (player->clocks_step || player->evicts_at_once))
        all &= ~(1u << CHECK_LINEARIZABLE | 1u << CHECK_FENCE_ORDER | 1u << CHECK_BROKEN |
                 1u << CHECK_SURE);
    /* More than a minority lost its data: an operator must decide. Until then no wrong grant
     * happens. */
    if (plan->guarded && plan->broken == PLAN_BREAK_DATA_LOSS)
        all &= ~(1u << CHECK_LIVENESS | 1u << CHECK_RECOVERED);
    /* Two clients may believe in a lock, and the tokens tell them apart. To a client whose own
     * clock stood still, those of nodes have stepped, and one may seem to have done so alone. */
    if (plan->broken == PLAN_BREAK_VM_STOP)
        all &= ~(1u << CHECK_EXCLUSION | 1u << CHECK_LINEARIZABLE | 1u << CHECK_FENCE_ORDER |
                 1u << CHECK_RESURRECTED | 1u << CHECK_LATE_LOSS | 1u << CHECK_BROKEN |
                 1u << CHECK_SURE | 1u << CHECK_LIVENESS | 1u << CHECK_RECOVERED);
    if (plan->guarded && player->evicts_at_once) all &= ~(1u << CHECK_UNFIT_VOTE);
    if (plan->guarded && player->clocks_step)
        all &= ~(1u << CHECK_LIVENESS | 1u << CHECK_ORPHAN | 1u << CHECK_RECOVERED);
    return plan->broken == PLAN_BREAK_CLOCK_STEP
               ? all & ~(1u << CHECK_LIVENESS | 1u << CHECK_ORPHAN)
               : all;
}

void player_play(struct player *player, const struct plan *plan, const struct plan_mask *mask,
                 struct outcome *outcome) {
    begin(player, plan);
    for (size_t i = 0; i < plan->count; i++)
        if (plan_mask_has(mask, i))
            world_at(player->world, plan->actions[i].at, act, NULL, (int64_t)i);
    if (plan->guarded) look_at_clocks(player->world, NULL, 0);
    world_run_until(player->world, plan->faults_end);
    run_healed(player);
    player->found = all_find_the_quorum(player);
    outcome->simulated = world_now(player->world);
    outcome->messages = world_messages(player->world);
    outcome->acquisitions = player->acquisitions;
    world_end(player->world);
    outcome->count =
        check_history(&player->history, rules_of(player), outcome->violations, PLAY_VIOLATIONS_MAX);
    if (outcome->count > PLAY_VIOLATIONS_MAX) outcome->count = PLAY_VIOLATIONS_MAX;
}

uint64_t player_hash(const struct player *player) {
    uint64_t hash = RL_FNV_BASIS;
    char line[256];
    for (size_t i = 0; i < player->history.count; i++) {
        history_print(&player->history.records[i], line, sizeof(line));
        hash = rl_fnv1a(hash, line, strlen(line));
        hash = rl_fnv1a(hash, "\n", 1);
    }
    return hash;
}
