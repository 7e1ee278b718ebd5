/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any words as requests to the module, in a server of this program's own. Each line is a request:
 * the first byte chooses the command (letters[]), words are separated by spaces. Some bytes are not
 * commands: '+' lets time pass, '!' makes the server a replica or a master, 'S' is a stranger that
 * sets a key, 'D' one that deletes it. Each request gets one whole reply, leaves no key open and no
 * string behind, and a lock has one holder at a time.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/clock.h"
#include "commands/commands.h"
#include "state/ends.h"
#include "state/server_api.h"
#include "state/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int RedisModule_OnLoad(struct server_ctx *ctx, struct server_string **argv, int argc);
int RedisModule_OnUnload(struct server_ctx *ctx);

enum { WORDS_MAX = 64, COMMANDS_MAX = 32, PLAIN_KEYS = 64, DEPTH_MAX = 4 };

struct server_ctx {
    int (*get_api)(const char *name, void *pointer);
};
struct server_string {
    char *data;
    size_t bytes;
};
struct plain {
    bool exists;
    struct server_string name, value;
    long long expire;
};
struct server_key {
    struct plain *plain;
    struct server_string name;
};

static struct {
    int64_t now_us, wall_ahead_us;
    int flags;
    bool paused;  /* as by CLIENT PAUSE */
    bool changes; /* what runs may change keys */
    struct plain plain[PLAIN_KEYS];
    struct {
        char name[32];
        server_command_fn *run;
        bool writes;
    } commands[COMMANDS_MAX];
    unsigned commands_count;
    server_ready_fn *on_timer;
    server_event_fn *on_cron;
    long strings, keys_open;
    unsigned char read;
    /* the reply: how many elements each open array still lacks, -1: its length comes later */
    long missing[DEPTH_MAX], later[DEPTH_MAX];
    unsigned depth, replies;
    long long first;
} world;

int64_t boottime_us(void) { return world.now_us; }

int64_t realtime_us(void) { return world.now_us + INT64_C(1700000000000000) + world.wall_ahead_us; }

/* A server ends by a failed assertion, or loses what differs, if keys change at another time. */
static void changes_keys(void) {
    assert(world.changes && !world.paused && !(world.flags & SERVER_IS_REPLICA));
}

/* ---- strings and memory ---- */

static void *fake_Alloc(size_t bytes) { return malloc(bytes); }
static void *fake_TryAlloc(size_t bytes) { return malloc(bytes); }
static void fake_Free(void *memory) { free(memory); }

static void copy_bytes(struct server_string *to, const char *data, size_t bytes) {
    char *copy = malloc(bytes + 1);
    assert(copy);
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = 0;
    free(to->data);
    to->data = copy;
    to->bytes = bytes;
}

static struct server_string *fake_CreateString(struct server_ctx *ctx, const char *data,
                                               size_t bytes) {
    (void)ctx;
    struct server_string *string = calloc(1, sizeof *string);
    assert(string && data);
    copy_bytes(string, data, bytes);
    world.strings++;
    return string;
}

static void fake_FreeString(struct server_ctx *ctx, struct server_string *string) {
    (void)ctx;
    free(string->data);
    free(string);
    world.strings--;
}

static const char *fake_StringPtrLen(const struct server_string *string, size_t *bytes) {
    *bytes = string->bytes;
    return string->data;
}

/* As strict as a server: no sign but '-', no leading zeros. */
static int fake_StringToLongLong(const struct server_string *string, long long *number) {
    char again[32], *end;
    if (string->bytes == 0 || string->bytes > 20) return SERVER_ERR;
    long long value = strtoll(string->data, &end, 10);
    snprintf(again, sizeof again, "%lld", value);
    if (*end || strlen(again) != string->bytes || strcmp(again, string->data) != 0)
        return SERVER_ERR;
    *number = value;
    return SERVER_OK;
}

/* ---- replies ---- */

static void close_full(void) {
    while (world.depth > 0 && world.missing[world.depth - 1] == 0) world.depth--;
}

static void reply_item(void) {
    if (world.depth == 0) {
        world.replies++;
    } else if (world.missing[world.depth - 1] == SERVER_LENGTH_LATER) {
        world.later[world.depth - 1]++;
    } else {
        world.missing[world.depth - 1]--;
    }
}

static int reply_array(long length) {
    reply_item();
    assert(world.depth < DEPTH_MAX && length >= SERVER_LENGTH_LATER);
    world.missing[world.depth] = length;
    world.later[world.depth++] = 0;
    close_full();
    return SERVER_OK;
}

static int fake_ReplyWithArray(struct server_ctx *ctx, long length) {
    (void)ctx;
    return reply_array(length);
}
static int fake_ReplyWithMap(struct server_ctx *ctx, long length) {
    (void)ctx;
    return reply_array(2 * length);
}
static void fake_ReplySetArrayLength(struct server_ctx *ctx, long length) {
    (void)ctx;
    assert(world.depth > 0 && world.missing[world.depth - 1] == SERVER_LENGTH_LATER);
    assert(world.later[world.depth - 1] == length);
    world.depth--;
    close_full();
}
static int fake_ReplyWithLongLong(struct server_ctx *ctx, long long number) {
    (void)ctx;
    if (world.replies == 0 && world.depth == 0) world.first = number;
    reply_item();
    close_full();
    return SERVER_OK;
}
static int fake_ReplyWithStringBuffer(struct server_ctx *ctx, const char *data, size_t bytes) {
    (void)ctx;
    assert(data);
    for (size_t i = 0; i < bytes; i++) world.read ^= (unsigned char)data[i]; /* it can be read */
    reply_item();
    close_full();
    return SERVER_OK;
}
static int fake_ReplyWithError(struct server_ctx *ctx, const char *text) {
    (void)ctx;
    assert(text[0] >= 'A' && text[0] <= 'Z' && !strpbrk(text, "\r\n"));
    assert(world.depth == 0); /* not in the middle of an array */
    reply_item();
    return SERVER_OK;
}
static int fake_WrongArity(struct server_ctx *ctx) {
    return fake_ReplyWithError(ctx, "ERR wrong number of arguments");
}

/* ---- the keyspace ---- */

static struct plain *find_plain(const struct server_string *name) {
    for (int i = 0; i < PLAIN_KEYS; i++) {
        struct plain *at = &world.plain[i];
        if (at->exists && at->expire >= 0 && world.now_us / 1000 > at->expire) at->exists = false;
        if (at->exists && at->name.bytes == name->bytes &&
            memcmp(at->name.data, name->data, name->bytes) == 0)
            return at;
    }
    return NULL;
}

static struct plain *make_plain(const struct server_string *name) {
    for (int i = 0; i < PLAIN_KEYS; i++) {
        struct plain *at = &world.plain[i];
        if (at->exists) continue;
        copy_bytes(&at->name, name->data, name->bytes);
        copy_bytes(&at->value, "", 0);
        at->expire = SERVER_NO_EXPIRE;
        at->exists = true;
        return at;
    }
    return NULL; /* full: as if it had been evicted */
}

static struct server_key *fake_OpenKey(struct server_ctx *ctx, struct server_string *name,
                                       int mode) {
    (void)ctx;
    if (mode & SERVER_KEY_WRITE) changes_keys();
    struct server_key *key = calloc(1, sizeof *key);
    assert(key);
    key->plain = find_plain(name);
    copy_bytes(&key->name, name->data, name->bytes);
    world.keys_open++;
    return key;
}
static void fake_CloseKey(struct server_key *key) {
    free(key->name.data);
    free(key);
    world.keys_open--;
}
static int fake_KeyType(struct server_key *key) {
    return key->plain ? SERVER_TYPE_STRING : SERVER_TYPE_NONE;
}
static int fake_DeleteKey(struct server_key *key) {
    changes_keys();
    if (key->plain) key->plain->exists = false;
    key->plain = NULL;
    return SERVER_OK;
}
static char *fake_StringDMA(struct server_key *key, size_t *bytes, int mode) {
    (void)mode;
    assert(key->plain);
    *bytes = key->plain->value.bytes;
    return key->plain->value.data;
}
static int fake_StringTruncate(struct server_key *key, size_t bytes) {
    changes_keys();
    char *zeros = calloc(1, bytes + 1);
    assert(zeros && bytes > 0);
    assert(key->plain || !find_plain(&key->name)); /* nobody has set it since it was opened */
    if (!key->plain) key->plain = make_plain(&key->name);
    if (key->plain) copy_bytes(&key->plain->value, zeros, bytes);
    free(zeros);
    return key->plain ? SERVER_OK : SERVER_ERR;
}
static int fake_StringSet(struct server_key *key, struct server_string *value) {
    changes_keys();
    if (!key->plain) key->plain = make_plain(&key->name);
    if (key->plain) copy_bytes(&key->plain->value, value->data, value->bytes);
    return SERVER_OK;
}
static long long wall_ms(void) { return (world.now_us + world.wall_ahead_us) / 1000; }
static long long fake_GetExpire(struct server_key *key) {
    if (!key->plain || key->plain->expire < 0) return SERVER_NO_EXPIRE;
    return key->plain->expire - wall_ms();
}
static int fake_SetExpire(struct server_key *key, long long ms) {
    changes_keys();
    assert(ms > 0);
    if (key->plain) key->plain->expire = wall_ms() + ms;
    return SERVER_OK;
}

static int fake_SetAbsExpire(struct server_key *key, long long ms) {
    changes_keys();
    if (key->plain) key->plain->expire = ms;
    return SERVER_OK;
}

/* ---- the rest of the server ---- */

static void fake_SetModuleAttribs(struct server_ctx *ctx, const char *name, int version, int api) {
    (void)ctx;
    assert(strcmp(name, "redlock") == 0 && version > 0 && api == 1);
}
static int fake_IsModuleNameBusy(const char *name) {
    (void)name;
    return 0;
}
static int fake_CreateCommand(struct server_ctx *ctx, const char *name, server_command_fn *run,
                              const char *flags, int first, int last, int step) {
    (void)ctx, (void)last, (void)step;
    assert(world.commands_count < COMMANDS_MAX && (first == 0 || first == 1));
    world.commands[world.commands_count].writes = strncmp(flags, "write", 5) == 0;
    snprintf(world.commands[world.commands_count].name, 32, "%s", name);
    world.commands[world.commands_count++].run = run;
    return SERVER_OK;
}
static struct server_command *fake_GetCommand(struct server_ctx *ctx, const char *name) {
    (void)ctx;
    return (struct server_command *)(uintptr_t)name;
}
static int fake_SetCommandInfo(struct server_command *command, const struct server_docs *docs) {
    return command && docs->summary && docs->arity != 0 ? SERVER_OK : SERVER_ERR;
}
static int fake_AddACLCategory(struct server_ctx *ctx, const char *name) {
    (void)ctx, (void)name;
    return SERVER_OK;
}
static int fake_SetCommandACLCategories(struct server_command *command, const char *names) {
    (void)command, (void)names;
    return SERVER_OK;
}
static int fake_IsKeysPositionRequest(struct server_ctx *ctx) {
    (void)ctx;
    return 0;
}
static void fake_KeyAtPos(struct server_ctx *ctx, int position) { (void)ctx, (void)position; }
static int fake_GetSelectedDb(struct server_ctx *ctx) {
    (void)ctx;
    return 0;
}
static int fake_SelectDb(struct server_ctx *ctx, int db) {
    (void)ctx;
    return db == 0 ? SERVER_OK : SERVER_ERR;
}
static int fake_GetContextFlags(struct server_ctx *ctx) {
    (void)ctx;
    return world.flags;
}
static void fake_SetModuleOptions(struct server_ctx *ctx, int options) { (void)ctx, (void)options; }
static long long fake_Milliseconds(void) { return wall_ms(); }
static int fake_AvoidReplicaTraffic(void) { return world.paused; }
static int fake_SignalModifiedKey(struct server_ctx *ctx, struct server_string *name) {
    assert(ctx && name->data);
    return SERVER_OK;
}
static int fake_GetServerVersion(void) { return 0x00080600; }
static int fake_Replicate(struct server_ctx *ctx, const char *command, const char *format, ...) {
    (void)ctx, (void)command, (void)format;
    changes_keys();
    return SERVER_OK;
}
/* To GET the plain key; other commands answer nothing. */
static struct server_reply *fake_Call(struct server_ctx *ctx, const char *command,
                                      const char *format, ...) {
    struct plain *plain = NULL;
    (void)ctx;
    if (strcmp(command, "GET") == 0 || strcmp(command, "DEL") == 0) {
        va_list args;
        va_start(args, format);
        plain = find_plain(va_arg(args, struct server_string *));
        va_end(args);
    }
    if (strcmp(command, "DEL") != 0) return (struct server_reply *)plain;
    changes_keys();
    assert(strcmp(format, "!s") == 0);
    if (plain) plain->exists = false;
    return NULL;
}
static void fake_FreeCallReply(struct server_reply *reply) { assert(reply); }
static size_t fake_CallReplyLength(struct server_reply *reply) { return reply ? 1 : 0; }
static struct server_reply *fake_CallReplyArrayElement(struct server_reply *reply, size_t i) {
    return i ? NULL : reply;
}
static const char *fake_CallReplyStringPtr(struct server_reply *reply, size_t *bytes) {
    const struct plain *plain = (const struct plain *)reply;
    *bytes = plain->value.bytes;
    return plain->value.data;
}
static void fake_Log(struct server_ctx *ctx, const char *level, const char *format, ...) {
    char text[512];
    va_list args;
    (void)ctx, (void)level;
    va_start(args, format);
    assert(vsnprintf(text, sizeof text, format, args) > 0);
    va_end(args);
}
static struct server_ctx *fake_GetDetachedThreadSafeContext(struct server_ctx *ctx) { return ctx; }
static void fake_FreeThreadSafeContext(struct server_ctx *ctx) { (void)ctx; }
static int fake_SubscribeToServerEvent(struct server_ctx *ctx, struct server_event event,
                                       server_event_fn *run) {
    (void)ctx, (void)event;
    world.on_cron = run;
    return SERVER_OK;
}
static int fake_EventLoopAdd(int fd, int mask, server_ready_fn *run, void *context) {
    (void)fd, (void)mask, (void)context;
    world.on_timer = run;
    return SERVER_OK;
}
static int fake_EventLoopDel(int fd, int mask) {
    (void)fd, (void)mask;
    world.on_timer = NULL;
    return SERVER_OK;
}
static int fake_RegisterInfoFunc(struct server_ctx *ctx, server_info_fn *run) {
    (void)ctx;
    run(NULL, 0);
    return SERVER_OK;
}
static int fake_InfoAddSection(struct server_info_out *out, const char *name) {
    (void)out;
    return name ? SERVER_OK : SERVER_ERR;
}
static int fake_InfoAddFieldCString(struct server_info_out *out, const char *name,
                                    const char *value) {
    (void)out;
    return name && value ? SERVER_OK : SERVER_ERR;
}
static int fake_InfoAddFieldULongLong(struct server_info_out *out, const char *name,
                                      unsigned long long value) {
    (void)out, (void)value;
    return name ? SERVER_OK : SERVER_ERR;
}
static struct server_info *fake_GetServerInfo(struct server_ctx *ctx, const char *section) {
    (void)ctx, (void)section;
    return NULL;
}
static unsigned long long fake_ServerInfoGetFieldUnsigned(struct server_info *info,
                                                          const char *name, int *failed) {
    (void)info, (void)name;
    *failed = 0;
    return 0;
}
static void fake_FreeServerInfo(struct server_ctx *ctx, struct server_info *info) {
    (void)ctx, (void)info;
}
static struct server_string *fake_GetCurrentUserName(struct server_ctx *ctx) {
    (void)ctx;
    return NULL;
}
static struct server_user *fake_GetModuleUserFromUserName(struct server_string *name) {
    (void)name;
    return NULL;
}
static void fake_FreeModuleUser(struct server_user *user) { (void)user; }
static int fake_ACLCheckKeyPermissions(struct server_user *user, struct server_string *name,
                                       int flags) {
    (void)user, (void)name, (void)flags;
    return SERVER_ERR;
}

static int get_api(const char *name, void *pointer) {
#define GIVE(result, function, parameters)                                                         \
    if (strcmp(name, "RedisModule_" #function) == 0) {                                             \
        result(*given) parameters = fake_##function;                                               \
        memcpy(pointer, &given, sizeof given);                                                     \
        return SERVER_OK;                                                                          \
    }
    SERVER_NEEDED(GIVE)
    SERVER_OPTIONAL(GIVE)
    return SERVER_ERR;
}

/* ---- requests ---- */

static struct server_ctx context = {get_api};

/* Splits the line at spaces; every word is memory of its own, so that a read beyond it shows. */
static int split(const uint8_t *line, size_t bytes, struct server_string **words) {
    int count = 0;
    for (size_t at = 0; at <= bytes && count < WORDS_MAX;) {
        const uint8_t *space = memchr(line + at, ' ', bytes - at);
        size_t end = space ? (size_t)(space - line) : bytes;
        words[count++] = fake_CreateString(NULL, (const char *)line + at, end - at);
        at = end + 1;
    }
    return count;
}

static bool holder_of(const struct server_string *key, struct node_lock *lock) {
    return node_look(node.table, (struct node_bytes){key->data, key->bytes}, world.now_us / 1000,
                     lock);
}

/* A grant says that nobody held the first key before. */
static void run_command(unsigned number, struct server_string **words, int count) {
    struct node_lock lock;
    const char *name = world.commands[number].name;
    const int key = strcmp(name, "redlock.acquire") == 0 ? 2 : strcmp(name, "redlock.lock") == 0;
    const bool acquires = key > 0, held = acquires && count > key && holder_of(words[key], &lock);
    long strings = world.strings;
    world.depth = world.replies = 0;
    world.first = 0;
    world.changes = world.commands[number].writes;
    if (world.paused && world.changes) return; /* the server postpones it */
    world.commands[number].run(&context, words, count);
    world.changes = false;
    assert(world.replies == 1 && world.depth == 0);
    assert(world.keys_open == 0 && world.strings == strings);
    if (!acquires || (world.first != 1 && world.first != 2 && world.first != -1)) return;
    assert(!held && !(world.flags & SERVER_IS_REPLICA) && holder_of(words[key], &lock));
}

/* The letters stay what they are when the module gets another command, so that kept inputs go on
 * doing what they were kept for. */
static const struct {
    char letter;
    const char *name;
} letters[] = {{'a', "acquire"},     {'e', "extend"},  {'r', "release"}, {'i', "raise"},
               {'b', "break"},       {'c', "confirm"}, {'l', "lock"},    {'u', "unlock"},
               {'p', "pttl"},        {'g', "get"},     {'s', "scan"},    {'d', "record"},
               {'w', "recordwrite"}, {'f', "fences"},  {'h', "hello"},   {'t', "state"},
               {'q', "queue"},       {'v', "wait"},    {'x', "unwait"},  {'j', "share"},
               {'k', "shareextend"}, {'o', "unshare"}, {'y', "readers"}, {'z', "slot"}};
enum { LETTERS = sizeof letters / sizeof letters[0] };

static unsigned command_of(unsigned char letter) {
    const char *name = letters[letter % LETTERS].name;
    for (unsigned i = 0; i < LETTERS; i++)
        if (letters[i].letter == letter) name = letters[i].name;
    for (unsigned i = 0; i < world.commands_count; i++)
        if (strcmp(world.commands[i].name + strlen("redlock."), name) == 0) return i;
    abort(); /* the module lacks a command that has a letter */
}

static void run_line(const uint8_t *line, size_t bytes) {
    struct server_string *words[WORDS_MAX];
    if (bytes == 0) return;
    int count = split(line, bytes, words);
    struct plain *plain = count > 1 ? find_plain(words[1]) : NULL;
    switch (line[0]) {
    case '+':
        world.now_us += 1 + (int64_t)line[bytes - 1] * 100000;
        if (line[bytes - 1] % 2 && world.on_timer) world.on_timer(-1, NULL, SERVER_READABLE);
        world.changes = true;
        if (line[bytes - 1] % 3 == 0)
            world.on_cron(&context, (struct server_event){SERVER_EVENT_CRON, 1}, 0, NULL);
        world.changes = false;
        break;
    case '!': world.flags ^= SERVER_IS_REPLICA; break;
    case '%': world.paused = !world.paused; break;
    case '~': world.wall_ahead_us = 1000000 * (int64_t)line[bytes - 1]; break;
    case 'S':
        if (!plain && count > 1) plain = make_plain(words[1]);
        if (plain && count > 2) copy_bytes(&plain->value, words[2]->data, words[2]->bytes);
        break;
    case 'D':
        if (plain) plain->exists = false;
        break;
    default: run_command(command_of(line[0]), words, count);
    }
    assert(world.keys_open == 0);
    for (int i = 0; i < count; i++) fake_FreeString(NULL, words[i]);
}

/* A word of the options, then the requests. */
static bool begin(bool mirror) {
    struct server_string *options[] = {
        fake_CreateString(NULL, "mirror", 6),
        fake_CreateString(NULL, mirror ? "yes" : "no", mirror ? 3 : 2),
        fake_CreateString(NULL, "memory", 6), fake_CreateString(NULL, "1mb", 3)};
    world.now_us = 1000000;
    world.wall_ahead_us = 0;
    world.flags = 0;
    world.paused = false;
    world.commands_count = 0;
    bool loaded = RedisModule_OnLoad(&context, options, 4) == SERVER_OK;
    for (int i = 0; i < 4; i++) fake_FreeString(NULL, options[i]);
    return loaded;
}

/* With a record, or a lock that lasts longer than this process, it refuses to go. */
static void end(void) {
    world.now_us += INT64_C(1) << 40;
    world.flags = 0;
    world.changes = true;
    const int unloaded = RedisModule_OnUnload(&context);
    world.changes = false;
    if (unloaded == SERVER_OK) return;
    ends_stop();
    node_queue_free(node.queue);
    node.queue = NULL;
    node_table_free(node.table);
    node.table = NULL;
    fake_FreeString(NULL, record_key);
    record_key = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    bool loaded = begin(data[0] % 2);
    assert(loaded && world.commands_count == LETTERS); /* each command has a letter */
    for (size_t at = 1; at < size;) {
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        size_t stop = newline ? (size_t)(newline - data) : size;
        run_line(data + at, stop - at);
        assert(node_bytes_locked(node.table) <= node.memory_max);
        assert(node_queue_bytes(node.queue) <= node.memory_max);
        at = stop + 1;
    }
    end();
    for (int i = 0; i < PLAIN_KEYS; i++) world.plain[i].exists = false;
    assert(world.strings == 0);
    return 0;
}
