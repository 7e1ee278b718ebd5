/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads a scene: head (title, source, prose), options, steps, expectations, in this order. Its text
 * is printed later, so each line is made safe for a terminal first.
 */
#include "scene.h"

#include "pictures/phrase.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const scene_client_names[WORLD_CLIENTS_MAX] = {"A", "B", "C", "D", "E", "F", "G", "H"};
const char *const scene_resource_names[WORLD_KEYS_MAX] = {"job",    "r2",     "r3",     "r4",
                                                          "slot 1", "slot 2", "slot 3", "slot 4"};

const char *const scene_mode_names[SCENE_MODES] = {"classic", "guarded", "native"};

#define HOLD_MAX (INT64_C(366) * 86400000 * RL_MS)
enum { LINE_BYTES = 512 };

struct reader {
    struct scene *scene;
    unsigned line;
    bool names_nodes, names_clients; /* an option before this line does */
    struct scene_expectation *below; /* the claims that indented lines belong to; NULL: prose */
    char *error;
    size_t error_size;
};

static bool wrong(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool wrong(struct reader *reader, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(reader->error, reader->error_size, "%s:%u: %s", reader->scene->file, reader->line,
             what);
    return false;
}

/* The rest of a line that begins with this word, or NULL. */
static const char *after(const char *line, const char *word) {
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] != ' ' && line[length] != '\0'))
        return NULL;
    line += length;
    while (*line == ' ') line++;
    return line;
}

static bool read_sentence(struct reader *reader, const char *text, const char *const *table,
                          size_t count, struct scene_line *line) {
    char why[300];
    *line = (struct scene_line){.line = reader->line};
    return scene_match(text, table, count, line, why, sizeof why) >= 0 || wrong(reader, "%s", why);
}

/* ---- options --------------------------------------------------------------------------------- */

/* What an option says of one client. */
static void set_client(struct world_client_options *client, const struct scene_line *line) {
    int64_t ms = line->span / RL_MS;
    switch ((enum scene_option)line->kind) {
    case SCENE_OPTION_TTL:
    case SCENE_OPTION_CLIENT_TTL: client->lock.ttl_ms = ms; break;
    case SCENE_OPTION_NODE_TIMEOUT: client->client.node_timeout_ms = ms; break;
    case SCENE_OPTION_STALL_TIMEOUT: client->client.stall_timeout_ms = ms; break;
    case SCENE_OPTION_RENEWED: client->lock.renew = 1; break;
    case SCENE_OPTION_LOST_MARGIN: client->lock.lost_margin_ms = ms; break;
    case SCENE_OPTION_HOLD_MAX:
        client->lock.renew = 1;
        client->lock.hold_ms_max = ms;
        break;
    case SCENE_OPTION_RETRY:
        client->lock.retry_delay_ms_min = line->span2 / RL_MS;
        client->lock.retry_delay_ms_max = ms;
        break;
    case SCENE_OPTION_LISTS: client->nodes = line->nodes; break;
    case SCENE_OPTION_LISTS_TWICE:
        client->twice_listed = 0;
        while (!(line->nodes & rl_bit((unsigned)client->twice_listed))) client->twice_listed++;
        break;
    case SCENE_OPTION_CLOCK_RATE: client->clock_ppm = (uint32_t)line->number; break;
    case SCENE_OPTION_SLOTS:
    case SCENE_OPTION_CLIENT_SLOTS: client->lock.slots = (uint32_t)line->number; break;
    case SCENE_OPTION_READS: client->reads = (1 << WORLD_RESOURCES_MAX) - 1; break;
    case SCENE_OPTION_CONFIRMS: client->client.confirm = 1; break;
    case SCENE_OPTION_NO_AGENT: client->client.recover = 0; break;
    case SCENE_OPTION_OBSERVES: client->observes = 1; break;
    case SCENE_OPTION_NEW_EACH_TIME: client->short_lived = true; break;
    case SCENE_OPTION_IS_STRANGER: client->stranger = true; break;
    case SCENE_OPTION_NO_REPLICAS: client->client.allow_replicas = 0; break;
    default: break; /* it is about the world */
    }
}

/* Either all of them are the others, or none. */
static bool pin(struct reader *reader, const struct scene_line *line) {
    struct scene *scene = reader->scene;
    rl_mask others = line->nodes & scene->options.others;
    if (others != 0 && others != line->nodes)
        return wrong(reader, "these nodes are of two quorums");
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++)
        if (line->clients >> i & 1)
            scene->options.client[i].client.quorum = world_quorum_name(others != 0);
    return true;
}

static bool set_option(struct reader *reader, const struct scene_line *line) {
    struct scene *scene = reader->scene;
    switch ((enum scene_option)line->kind) {
    case SCENE_OPTION_NODES:
        if (line->number < 1 || line->number > RL_NODES_MAX)
            return wrong(reader, "1 to %d nodes", RL_NODES_MAX);
        scene->options.nodes = (unsigned)line->number;
        break;
    case SCENE_OPTION_CLIENTS:
        scene->options.clients = 0;
        while (line->clients >> scene->options.clients & 1) scene->options.clients++;
        if (line->clients >> scene->options.clients != 0)
            return wrong(reader, "clients are named A, B, C... without a gap");
        break;
    case SCENE_OPTION_TTL:
    case SCENE_OPTION_CLIENT_TTL:
        if (line->span < REDLOCK_TTL_MS_MIN * RL_MS || line->span > REDLOCK_TTL_MS_MAX * RL_MS)
            return wrong(reader, "a TTL is from %dms to 24h", REDLOCK_TTL_MS_MIN);
        break;
    case SCENE_OPTION_DELAY:
        scene->options.link.delay_min = scene->options.link.delay_max = line->span;
        break;
    case SCENE_OPTION_DELAY_RANGE:
        scene->options.link.delay_min = line->span2;
        scene->options.link.delay_max = line->span;
        break;
    case SCENE_OPTION_NODE_TIMEOUT:
        if (line->span > 60000 * RL_MS) return wrong(reader, "a node timeout is at most 60s");
        break;
    case SCENE_OPTION_STALL_TIMEOUT:
        if (line->span < 10 * RL_MS || line->span > 600000 * RL_MS)
            return wrong(reader, "a stall timeout is from 10ms to 10m");
        break;
    case SCENE_OPTION_HOLD_MAX:
        if (line->span > HOLD_MAX) return wrong(reader, "a lock is held for at most 366 days");
        break;
    case SCENE_OPTION_RETRY:
        if (line->span2 > line->span || line->span > REDLOCK_TTL_MS_MAX * RL_MS)
            return wrong(
                reader,
                "delays between retries go from the least to the most, which is at most 24h");
        break;
    case SCENE_OPTION_CLOCK_RATE:
        if (line->number < 1 || line->number > 10000000)
            return wrong(reader, "a clock runs at 1 to 10000000 ppm");
        break;
    case SCENE_OPTION_TTL_MAX:
        if (line->span < REDLOCK_TTL_MS_MIN * RL_MS || line->span > REDLOCK_TTL_MS_MAX * RL_MS)
            return wrong(reader, "a ttl max is from %dms to 24h", REDLOCK_TTL_MS_MIN);
        scene->options.ttl_ms_max = line->span / RL_MS;
        break;
    case SCENE_OPTION_SLOTS:
    case SCENE_OPTION_CLIENT_SLOTS:
        if (line->number < 1 || line->number > WORLD_SLOTS_MAX)
            return wrong(reader, "1 to %d slots", WORLD_SLOTS_MAX);
        scene->options.slots = true;
        break;
    case SCENE_OPTION_READS: scene->options.shared = true; break;
    case SCENE_OPTION_FORGETS_MODE: scene->forgets_mode |= line->clients; break;
    case SCENE_OPTION_IS_STRANGER:
    case SCENE_OPTION_IS_CLASSIC: scene->classic |= line->clients; break;
    case SCENE_OPTION_PINNED: return pin(reader, line);
    case SCENE_OPTION_MAY_EVICT: scene->options.may_evict = line->nodes; break;
    case SCENE_OPTION_REPLICAS: scene->options.replicas = line->nodes; break;
    case SCENE_OPTION_UNANNOUNCED: scene->options.unannounced = line->nodes; break;
    case SCENE_OPTION_OTHERS: scene->options.others = line->nodes; break;
    case SCENE_OPTION_WAKES: scene->options.wakes.on = true; break;
    case SCENE_OPTION_CROWD: scene->options.clients_elsewhere = (uint32_t)line->number; break;
    case SCENE_OPTION_NATIVE_NODES: scene->options.native = line->nodes; break;
    case SCENE_OPTION_SPARE: scene->options.spare = line->nodes; break;
    case SCENE_OPTION_SEED: scene->options.seed = (uint64_t)line->number; break;
    case SCENE_OPTION_ENDS: scene->ends = line->span; break;
    default: break; /* it is about clients alone */
    }
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++)
        if (line->clients == 0 || (line->clients >> i & 1))
            set_client(&scene->options.client[i], line);
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "all nodes" means those that exist; every client and node that is named must exist. */
static bool settle(struct reader *reader, struct scene_line *line) {
    const struct world_options *options = &reader->scene->options;
    if (line->nodes == rl_all(RL_NODES_MAX)) line->nodes = rl_all(options->nodes);
    if (line->nodes & ~rl_all(options->nodes))
        return wrong(reader, "there are %u nodes", options->nodes);
    if (line->clients >> options->clients != 0)
        return wrong(reader, "there are %u clients", options->clients);
    return true;
}

static bool read_step(struct reader *reader, const char *rest) {
    struct scene *scene = reader->scene;
    char time[32];
    size_t length = strcspn(rest, " ");
    snprintf(time, sizeof time, "%.*s", (int)length, rest);
    struct scene_line line;
    rl_ns at;
    if (!scene_duration(time, &at))
        return wrong(reader, "'at' needs a time such as 100ms or 2.5s, not '%.20s'", time);
    if (scene->steps_count > 0 && at < scene->steps[scene->steps_count - 1].at)
        return wrong(reader, "steps go forward in time");
    if (scene->steps_count == SCENE_LINES_MAX)
        return wrong(reader, "at most %d steps", SCENE_LINES_MAX);
    rest += length;
    while (*rest == ' ') rest++;
    if (!read_sentence(reader, rest, scene_step_sentences, SCENE_STEP_COUNT, &line) ||
        !settle(reader, &line))
        return false;
    line.at = at;
    scene->steps[scene->steps_count++] = line;
    return true;
}

static bool read_claim(struct reader *reader, const char *text) {
    struct scene_expectation *expects = reader->below;
    const char *rest = after(text, "and");
    struct scene_line line;
    if (rest == NULL)
        return wrong(reader,
                     "below 'classic:', 'guarded:' and 'native:' each line begins with 'and'");
    if (expects->claims_count == SCENE_LINES_MAX)
        return wrong(reader, "at most %d expectations", SCENE_LINES_MAX);
    if (!read_sentence(reader, rest, scene_claim_sentences, SCENE_CLAIM_COUNT, &line) ||
        !settle(reader, &line))
        return false;
    expects->claims[expects->claims_count++] = line;
    return true;
}

static bool keep(struct reader *reader, char *into, size_t size, const char *text) {
    if (strlen(text) >= size) return wrong(reader, "this line is too long");
    snprintf(into, size, "%s", text);
    return true;
}

static bool read_rules(struct reader *reader, enum scene_mode mode, const char *rest) {
    struct scene_expectation *expects = &reader->scene->expects[mode];
    while (*rest != '\0' && *rest != '.') {
        size_t length = strcspn(rest, " .");
        int rule = 0;
        while (rule < CHECK_RULE_COUNT &&
               (strlen(check_rule_name((enum check_rule)rule)) != length ||
                strncmp(check_rule_name((enum check_rule)rule), rest, length) != 0))
            rule++;
        if (rule == CHECK_RULE_COUNT)
            return wrong(reader, "no rule is called '%.*s'", (int)length, rest);
        expects->breaks |= 1u << rule;
        rest += length;
        while (*rest == ' ') rest++;
    }
    return true;
}

/* "holds" or "breaks RULE...", and, after a full stop, an optional explanation. */
static bool read_expectation(struct reader *reader, enum scene_mode mode, const char *rest) {
    const char *name = scene_mode_names[mode];
    struct scene_expectation *expects = &reader->scene->expects[mode];
    if (expects->given) return wrong(reader, "'%s:' a second time", name);
    expects->given = true;
    reader->below = expects;
    const char *why = strchr(rest, '.');
    if (why != NULL && !keep(reader, expects->why, sizeof expects->why, why + 1 + (why[1] == ' ')))
        return false;
    if (strncmp(rest, "holds", 5) == 0 && (rest[5] == '\0' || rest[5] == '.')) return true;
    rest = after(rest, "breaks");
    if (rest == NULL || *rest == '\0' || *rest == '.')
        return wrong(reader, "'%s:' is followed by 'holds' or 'breaks RULE...'", name);
    return read_rules(reader, mode, rest);
}

static bool read_prose(struct reader *reader, const char *text) {
    struct scene *scene = reader->scene;
    size_t used = strlen(scene->prose), length = strlen(text);
    if (used + length + 3 > sizeof scene->prose) return wrong(reader, "the prose is too long");
    bool joins = used > 0 && scene->prose[used - 1] != '\n';
    snprintf(scene->prose + used, sizeof scene->prose - used, "%s%s", joins ? " " : "", text);
    return true;
}

static bool read_option(struct reader *reader, const char *text) {
    struct scene_line line;
    if (!read_sentence(reader, text, scene_option_sentences, SCENE_OPTION_COUNT, &line))
        return false;
    bool late = reader->scene->steps_count > 0 && line.kind != SCENE_OPTION_ENDS;
    if (late) return wrong(reader, "options come before the first step, and steps begin with 'at'");
    if (line.kind == SCENE_OPTION_NODES && reader->names_nodes)
        return wrong(reader, "the number of nodes comes before lines that name nodes");
    if (line.kind == SCENE_OPTION_CLIENTS && reader->names_clients)
        return wrong(reader, "the clients' names come before lines that name one of them");
    if (line.kind != SCENE_OPTION_CLIENTS) {
        if (!settle(reader, &line)) return false;
        reader->names_nodes |= line.nodes != 0;
        reader->names_clients |= line.clients != 0;
    }
    return set_option(reader, &line);
}

static bool read_line(struct reader *reader, const char *text) {
    struct scene *scene = reader->scene;
    const char *rest;
    if (*text == ' ') {
        while (*text == ' ') text++;
        return reader->below ? read_claim(reader, text) : read_prose(reader, text);
    }
    if ((rest = after(text, "title")) != NULL)
        return keep(reader, scene->title, sizeof scene->title, rest);
    if ((rest = after(text, "source")) != NULL) {
        if (scene->sources_count == DRAW_SOURCES_MAX)
            return wrong(reader, "at most %d sources", DRAW_SOURCES_MAX);
        return keep(reader, scene->source_text[scene->sources_count++],
                    sizeof scene->source_text[0], rest);
    }
    if ((rest = after(text, "later")) != NULL)
        return keep(reader, scene->later, sizeof scene->later, rest);
    if ((rest = after(text, "at")) != NULL) return read_step(reader, rest);
    for (int mode = 0; mode < SCENE_MODES; mode++) {
        char word[16];
        snprintf(word, sizeof word, "%s:", scene_mode_names[mode]);
        if ((rest = after(text, word)) != NULL)
            return read_expectation(reader, (enum scene_mode)mode, rest);
    }
    return read_option(reader, text);
}

/* A blank line between two lines of prose begins a paragraph. */
static void blank_line(struct scene *scene) {
    size_t used = strlen(scene->prose);
    if (used > 0 && scene->prose[used - 1] != '\n' && used + 3 < sizeof scene->prose)
        memcpy(scene->prose + used, "\n\n", 3);
}

/* The library would refuse these options, so nothing could run. */
static bool check_client(struct reader *reader, unsigned client) {
    const struct redlock_client_options *options = &reader->scene->options.client[client].client;
    const struct redlock_lock_options *lock = &reader->scene->options.client[client].lock;
    const char *name = scene_client_names[client];
    const int64_t ttl_ms = lock->ttl_ms,
                  drift_ms = ttl_ms * options->drift_ppm / 1000000 + options->drift_ms;
    int64_t margin_ms = lock->lost_margin_ms;
    if (margin_ms < 0) margin_ms = ttl_ms / 10 < 1000 ? ttl_ms / 10 : 1000;
    if (options->node_timeout_ms >= ttl_ms)
        return wrong(reader, "%s's node timeout must be below its TTL", name);
    if (drift_ms + margin_ms + 1 >= ttl_ms)
        return wrong(reader,
                     "%s's TTL leaves no validity: it must be above the lost margin and the drift",
                     name);
    return true;
}

static bool complete(struct reader *reader) {
    struct scene *scene = reader->scene;
    size_t used = strlen(scene->prose);
    while (used > 0 && scene->prose[used - 1] == '\n') scene->prose[--used] = '\0';
    if (scene->title[0] == '\0') return wrong(reader, "no title");
    if (scene->sources_count == 0)
        return wrong(reader, "no source: say who published it, or that nobody did");
    if (scene->prose[0] == '\0')
        return wrong(reader, "no prose: say in a paragraph what this is about");
    if (scene->later[0] != '\0') return true;
    if (scene->steps_count == 0) return wrong(reader, "nothing happens: no line begins with 'at'");
    bool expects = false;
    for (int mode = 0; mode < SCENE_MODES; mode++) expects |= scene->expects[mode].given;
    if (!expects)
        return wrong(
            reader,
            "no expectation: a line 'classic: holds' or 'classic: breaks RULE...', or one of 'guarded:' or 'native:'");
    for (unsigned i = 0; i < scene->options.clients; i++)
        if (!check_client(reader, i)) return false;
    if (scene->ends == 0) scene->ends = scene->steps[scene->steps_count - 1].at + 1000 * RL_MS;
    return true;
}

bool scene_read(struct scene *scene, const char *name, const char *file, const char *text,
                char *error, size_t size) {
    memset(scene, 0, sizeof *scene);
    phrase_plain(scene->name, sizeof scene->name, name, strlen(name));
    phrase_plain(scene->file, sizeof scene->file, file, strlen(file));
    world_options_init(&scene->options);
    scene->options.link.delay_min = scene->options.link.delay_max = RL_MS;
    scene->options.record_messages = 1;
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++)
        scene->options.client[i].client.allow_replicas = 1;
    struct reader reader = {.scene = scene, .error = error, .error_size = size};
    while (*text != '\0') {
        char line[4 * LINE_BYTES];
        size_t length = strcspn(text, "\n"), shown = length;
        reader.line++;
        if (length >= LINE_BYTES)
            return wrong(&reader, "a line of more than %d bytes", LINE_BYTES - 1);
        while (shown > 0 &&
               (text[shown - 1] == ' ' || text[shown - 1] == '\r' || text[shown - 1] == '\t'))
            shown--;
        phrase_plain(line, sizeof line, text, shown);
        if (shown == 0) {
            blank_line(scene);
        } else if (line[0] != '#' && !read_line(&reader, line)) {
            return false;
        }
        text += length + (text[length] == '\n');
    }
    return complete(&reader);
}
