/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What this module uses of the interface that Redis and Valkey offer to modules, in declarations of
 * our own. The server hands out its functions by name when it loads the module (server_api_find()).
 * The numbers and the layout of the structs are part of that interface and never change.
 *
 * NEEDED functions are in every server that can load the module; without one of them the module
 * does not load, and the log names it. OPTIONAL ones are NULL where the server is older; a comment
 * says what is missing then.
 *
 * What calls each, and the states of the server in which that happens: P, writes are paused (CLIENT
 * PAUSE, FAILOVER, a SHUTDOWN that waits for its replicas); L, it loads data; R, it is a replica;
 * T, inside a script or a transaction; M, out of memory.
 *
 * called by       in         functions
 * load            -          IsModuleNameBusy SetModuleAttribs SetModuleOptions CreateCommand
 *                            GetCommand SetCommandInfo AddACLCategory SetCommandACLCategories
 *                            SubscribeToServerEvent RegisterInfoFunc SelectDb EventLoopAdd
 *                            GetDetachedThreadSafeContext
 * unload          P R M      EventLoopDel FreeThreadSafeContext; in P and R no more of the cron's
 *                            than of the timer's
 * any of these    P L R T M  Log Alloc TryAlloc Free CreateString FreeString StringPtrLen
 *                            StringToLongLong GetContextFlags AvoidReplicaTraffic Milliseconds
 *                            GetServerInfo ServerInfoGetFieldUnsigned FreeServerInfo
 *                            GetServerVersion
 * INFO            P L R M    InfoAddSection InfoAddFieldCString InfoAddFieldULongLong
 * any command     P R T M    WrongArity IsKeysPositionRequest KeyAtPos GetSelectedDb
 *                            ReplyWithLongLong ReplyWithError ReplyWithStringBuffer ReplyWithArray
 *                            ReplySetArrayLength ReplyWithMap GetCurrentUserName
 *                            GetModuleUserFromUserName FreeModuleUser ACLCheckKeyPermissions
 * readonly ones   P R T M    OpenKey (to read; a key that has ended is deleted if the server would
 *                            do it for a GET: not in P or R) CloseKey KeyType StringDMA GetExpire;
 *                            Call of SCAN, and FreeCallReply CallReplyLength CallReplyArrayElement
 *                            CallReplyStringPtr
 * write ones      T M        the same, and OpenKey to write, DeleteKey StringTruncate StringSet
 *                            SetExpire SetAbsExpire SignalModifiedKey Replicate; Call of PUBLISH.
 *                            The server postpones them in P, except in the transaction that begins
 *                            a pause; may_vote() refuses them in R and L
 * timer           M          SignalModifiedKey, except of a copy that may have ended: from
 *                            Redis 8.6 on it looks the key up, and deletes that; Call of PUBLISH
 * cron            M          the same; Call of GET and DEL */
#ifndef MODULE_SERVER_API_H
#define MODULE_SERVER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_ctx; /* of a call of ours by the server */
struct server_string;
struct server_key; /* an open key of the keyspace */
struct server_command;
struct server_reply; /* to a command that we called */
struct server_info;  /* what INFO says */
struct server_info_out;
struct server_user;

enum { SERVER_OK = 0, SERVER_ERR = 1 };
enum { SERVER_API_VERSION = 1 };
enum { SERVER_KEY_READ = 1, SERVER_KEY_WRITE = 2 };
enum { SERVER_TYPE_NONE = 0, SERVER_TYPE_STRING = 1 };
enum { SERVER_NO_EXPIRE = -1 };
enum { SERVER_LENGTH_LATER = -1 }; /* of an array */
enum { SERVER_READABLE = 1 };      /* of a descriptor in the event loop */
enum {
    SERVER_SIGNALS_BY_HAND = 2
}; /* a module option: opening a key for writing signals nothing */
/* Of a context. */
enum {
    SERVER_IN_SCRIPT = 1 << 0,
    SERVER_IS_REPLICA = 1 << 3,
    SERVER_IS_CLUSTER = 1 << 5,
    SERVER_HAS_AOF = 1 << 6,
    SERVER_IS_LOADING = 1 << 13
};
/* What a command does with a key. */
enum {
    SERVER_KEY_RO = 1 << 0,
    SERVER_KEY_RW = 1 << 1,
    SERVER_KEY_RM = 1 << 3,
    SERVER_KEY_ACCESS = 1 << 4,
    SERVER_KEY_UPDATE = 1 << 5,
    SERVER_KEY_INSERT = 1 << 6,
    SERVER_KEY_DELETE = 1 << 7
};
enum { SERVER_BEGIN_INDEX = 2, SERVER_FIND_RANGE = 2, SERVER_FIND_KEYNUM = 3 };

struct server_event {
    uint64_t id, version;
};
enum { SERVER_EVENT_CRON = 8 };

typedef int server_command_fn(struct server_ctx *ctx, struct server_string **argv, int argc);
typedef void server_ready_fn(int fd, void *context, int mask);
typedef void server_event_fn(struct server_ctx *ctx, struct server_event event, uint64_t sub,
                             void *data);
typedef void server_info_fn(struct server_info_out *out, int for_crash_report);

/* Where a command has its keys. */
struct server_key_spec {
    const char *notes;
    uint64_t flags;
    int begin_type;
    union {
        struct {
            int pos;
        } index;
        struct {
            const char *keyword;
            int startfrom;
        } keyword;
    } begin;
    int find_type;
    union {
        struct {
            int lastkey, keystep, limit;
        } range;
        struct {
            int keynumidx, firstkey, keystep;
        } keynum;
    } find;
};

struct server_history {
    const char *since, *changes;
};

struct server_argument {
    const char *name;
    int type, key_spec_index;
    const char *token, *summary, *since;
    int flags;
    const char *deprecated_since;
    struct server_argument *subargs;
    const char *display_text;
};

/* The sizes let a server read structs that were shorter when the module was built. */
struct server_docs_version {
    int version;
    size_t sizeof_history, sizeof_key_spec, sizeof_argument;
};

struct server_docs {
    const struct server_docs_version *version;
    const char *summary, *complexity, *since;
    struct server_history *history;
    const char *tips;
    int arity; /* negative: at least as many words */
    struct server_key_spec *key_specs;
    struct server_argument *args;
};

/* X(result, name, parameters) */
#define SERVER_NEEDED(X)                                                                           \
    X(void, Log, (struct server_ctx *, const char *level, const char *format, ...))                \
    X(int, IsModuleNameBusy, (const char *))                                                       \
    X(void, SetModuleAttribs, (struct server_ctx *, const char *name, int version, int api))       \
    X(int, CreateCommand,                                                                          \
      (struct server_ctx *, const char *name, server_command_fn *, const char *flags, int first,   \
       int last, int step))                                                                        \
    X(void *, Alloc, (size_t))                                                                     \
    X(void, Free, (void *))                                                                        \
    X(struct server_string *, CreateString, (struct server_ctx *, const char *, size_t))           \
    X(void, FreeString, (struct server_ctx *, struct server_string *))                             \
    X(const char *, StringPtrLen, (const struct server_string *, size_t *))                        \
    X(int, StringToLongLong, (const struct server_string *, long long *))                          \
    X(int, ReplyWithLongLong, (struct server_ctx *, long long))                                    \
    X(int, ReplyWithError, (struct server_ctx *, const char *))                                    \
    X(int, ReplyWithStringBuffer, (struct server_ctx *, const char *, size_t))                     \
    X(int, ReplyWithArray, (struct server_ctx *, long))                                            \
    X(void, ReplySetArrayLength, (struct server_ctx *, long))                                      \
    X(int, WrongArity, (struct server_ctx *))                                                      \
    X(int, IsKeysPositionRequest, (struct server_ctx *))                                           \
    X(void, KeyAtPos, (struct server_ctx *, int))                                                  \
    X(int, GetSelectedDb, (struct server_ctx *))                                                   \
    X(int, SelectDb, (struct server_ctx *, int))                                                   \
    X(int, GetContextFlags, (struct server_ctx *))                                                 \
    /* writes are paused: by CLIENT PAUSE, FAILOVER, or a SHUTDOWN that waits for replicas */      \
    X(int, AvoidReplicaTraffic, (void))                                                            \
    X(struct server_key *, OpenKey, (struct server_ctx *, struct server_string *, int mode))       \
    X(void, CloseKey, (struct server_key *))                                                       \
    X(int, KeyType, (struct server_key *))                                                         \
    X(int, DeleteKey, (struct server_key *))                                                       \
    X(char *, StringDMA, (struct server_key *, size_t *, int mode))                                \
    X(int, StringTruncate, (struct server_key *, size_t))                                          \
    X(int, StringSet, (struct server_key *, struct server_string *))                               \
    X(long long, GetExpire, (struct server_key *))                                                 \
    X(int, SetExpire, (struct server_key *, long long))                                            \
    X(void, SetModuleOptions, (struct server_ctx *, int))                                          \
    X(long long, Milliseconds, (void)) /* of the wall clock */                                     \
    X(int, SignalModifiedKey, (struct server_ctx *, struct server_string *))                       \
    X(int, GetServerVersion, (void)) /* 0x00080603 is 8.6.3 */                                     \
    X(int, Replicate, (struct server_ctx *, const char *command, const char *format, ...))         \
    X(struct server_reply *, Call,                                                                 \
      (struct server_ctx *, const char *command, const char *format, ...))                         \
    X(void, FreeCallReply, (struct server_reply *))                                                \
    X(size_t, CallReplyLength, (struct server_reply *))                                            \
    X(struct server_reply *, CallReplyArrayElement, (struct server_reply *, size_t))               \
    X(const char *, CallReplyStringPtr, (struct server_reply *, size_t *))                         \
    X(struct server_ctx *, GetDetachedThreadSafeContext, (struct server_ctx *))                    \
    X(void, FreeThreadSafeContext, (struct server_ctx *))                                          \
    X(int, SubscribeToServerEvent, (struct server_ctx *, struct server_event, server_event_fn *))  \
    X(int, RegisterInfoFunc, (struct server_ctx *, server_info_fn *))                              \
    X(int, InfoAddSection, (struct server_info_out *, const char *))                               \
    X(int, InfoAddFieldCString, (struct server_info_out *, const char *, const char *))            \
    X(int, InfoAddFieldULongLong, (struct server_info_out *, const char *, unsigned long long))    \
    X(struct server_info *, GetServerInfo, (struct server_ctx *, const char *section))             \
    X(unsigned long long, ServerInfoGetFieldUnsigned, (struct server_info *, const char *, int *)) \
    X(void, FreeServerInfo, (struct server_ctx *, struct server_info *))

#define SERVER_OPTIONAL(X)                                                                         \
    /* 7.0; without: a table that outgrows the machine ends the server, as any other data does */  \
    X(void *, TryAlloc, (size_t))                                                                  \
    /* 6.2.2; without: SetExpire(), which reads the wall clock for each key */                     \
    X(int, SetAbsExpire, (struct server_key *, long long))                                         \
    /* 7.0; without: ends are found by the server's cron, ten times a second */                    \
    X(int, EventLoopAdd, (int fd, int mask, server_ready_fn *, void *))                            \
    X(int, EventLoopDel, (int fd, int mask))                                                       \
    /* 7.0; without: no documents of the commands */                                               \
    X(struct server_command *, GetCommand, (struct server_ctx *, const char *))                    \
    X(int, SetCommandInfo, (struct server_command *, const struct server_docs *))                  \
    /* 7.0; without: lists instead of maps */                                                      \
    X(int, ReplyWithMap, (struct server_ctx *, long))                                              \
    /* 7.0; without: REDLOCK.RECORD and its siblings are guarded by the command's name alone */    \
    X(struct server_string *, GetCurrentUserName, (struct server_ctx *))                           \
    X(struct server_user *, GetModuleUserFromUserName, (struct server_string *))                   \
    X(void, FreeModuleUser, (struct server_user *))                                                \
    X(int, ACLCheckKeyPermissions, (struct server_user *, struct server_string *, int flags))      \
    /* 7.2 and 7.4; without: no category of our own */                                             \
    X(int, AddACLCategory, (struct server_ctx *, const char *))                                    \
    X(int, SetCommandACLCategories, (struct server_command *, const char *))

struct server_api {
#define SERVER_POINTER(result, name, parameters) result(*name) parameters;
    SERVER_NEEDED(SERVER_POINTER)
    SERVER_OPTIONAL(SERVER_POINTER)
#undef SERVER_POINTER
};
extern struct server_api server;

/* NULL, or the name of a needed function that the server does not have. */
const char *server_api_find(struct server_ctx *ctx);

/* A number in a section of INFO. False: the server does not have it. */
bool server_number(struct server_ctx *ctx, const char *section, const char *field,
                   unsigned long long *number);

#endif
