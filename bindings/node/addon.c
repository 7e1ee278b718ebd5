/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The addon of the package libredlock. It passes the calls of index.js on, and gives index.js what
 * the library reports. No call waits: the library's service thread does the work, libuv watches the
 * client's descriptor, and redlock_process() runs on the thread of the event loop. JavaScript runs
 * only when redlock_process() has returned. index.js, the only caller, checks nothing of what is
 * checked here: a wrong argument throws, and a wrong number does nothing. */
#define NAPI_VERSION 8
#include <node_api.h>
#include <redlock.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of libuv, which node contains and exports. Their form is the same in all of libuv 1, and node-api
 * has no header for them. */
struct uv_poll_s;
struct uv_handle_s;
enum { UV_POLL = 8, UV_READABLE = 1 };
size_t uv_handle_size(int type);
void *uv_handle_get_data(const struct uv_handle_s *handle);
void uv_handle_set_data(struct uv_handle_s *handle, void *data);
int uv_poll_init(struct uv_loop_s *loop, struct uv_poll_s *poll, int fd);
int uv_poll_start(struct uv_poll_s *poll, int events,
                  void (*ready)(struct uv_poll_s *poll, int status, int events));
void uv_close(struct uv_handle_s *handle, void (*closed)(struct uv_handle_s *handle));
void uv_ref(struct uv_handle_s *handle);
void uv_unref(struct uv_handle_s *handle);

enum { BATCH_MAX = 256, ARGUMENTS_MAX = 12, BRIEF_BYTES = 256 };

enum event_kind { EVENT_DONE, EVENT_EXTENDED, EVENT_LOST, EVENT_OBSERVED };

/* A lock or an observer; JavaScript knows its number. */
struct entry {
    struct client *client;
    struct redlock_lock *lock;
    struct redlock_observer *observer;
    struct redlock_leader leader; /* as reported last; its id is in `id` */
    char id[REDLOCK_OWNER_BYTES_MAX];
    uint32_t number;
    bool freeing;
};

struct event {
    struct entry *entry; /* NULL: freed meanwhile */
    enum event_kind kind;
    int result;
};

struct client {
    napi_env env;
    napi_ref dispatch; /* weak: an idle client that nobody uses is collected */
    napi_async_context context;
    napi_async_cleanup_hook_handle cleanup;
    struct redlock_client *redlock; /* NULL: closed */
    struct uv_handle_s *poll;
    struct entry **entries; /* by number */
    uint32_t room, lowest;  /* no number below it is free */
    struct event *events;
    size_t next, count, events_room;
    bool collected; /* by JavaScript. The memory is freed when `poll` is NULL as well */
};

/* ---- arguments and results ---- */

static napi_value number_of(napi_env env, double number) {
    napi_value value = NULL;
    napi_create_double(env, number, &value);
    return value;
}

static napi_value text_of(napi_env env, const char *text) {
    napi_value value = NULL;
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
    return value;
}

static napi_value bytes_of(napi_env env, const char *text, size_t bytes) {
    napi_value value = NULL;
    napi_create_string_utf8(env, text, bytes, &value);
    return value;
}

static napi_value array_of(napi_env env, const napi_value *values, uint32_t count) {
    napi_value array = NULL;
    napi_create_array_with_length(env, count, &array);
    for (uint32_t i = 0; i < count; i++) napi_set_element(env, array, i, values[i]);
    return array;
}

static napi_value failure_of(napi_env env, int result, const char *text) {
    if (!*text) text = redlock_result_text(result);
    return array_of(env, (napi_value[]){number_of(env, result), text_of(env, text)}, 2);
}

static bool refuse(napi_env env, const char *name, const char *expected) {
    char message[128];
    snprintf(message, sizeof message, "%s: %s is expected", name, expected);
    napi_throw_type_error(env, "BAD_ARGUMENT", message);
    return false;
}

static bool is_given(napi_env env, napi_value value) {
    napi_valuetype type = napi_undefined;
    return napi_typeof(env, value, &type) == napi_ok && type != napi_undefined && type != napi_null;
}

/* Leaves *number alone if there is none. Rounds up: half a millisecond is not 0. What no field can
 * hold becomes what the library refuses. */
static bool get_number(napi_env env, napi_value value, const char *name, int64_t *number) {
    double given = 0;
    bool truth = false;
    if (!is_given(env, value)) return true;
    if (napi_get_value_bool(env, value, &truth) == napi_ok)
        given = truth;
    else if (napi_get_value_double(env, value, &given) != napi_ok || given != given)
        return refuse(env, name, "a number");
    *number = given > 1e15 ? INT64_MAX : given < -1e15 ? INT64_MIN : (int64_t)given;
    if (given < 1e15 && (double)*number < given) ++*number;
    return true;
}

static bool get_int(napi_env env, napi_value value, const char *name, int *number) {
    int64_t wide = *number;
    if (!get_number(env, value, name, &wide)) return false;
    *number = wide < INT_MIN || wide > INT_MAX ? INT_MAX : (int)wide;
    return true;
}

struct text {
    char brief[BRIEF_BYTES];
    char *data; /* with a NUL behind it; NULL: none was given */
    size_t bytes;
};

static void text_free(struct text *text) {
    if (text->data != text->brief) free(text->data);
}

static bool text_fits(napi_env env, struct text *text, size_t bytes) {
    text->bytes = bytes;
    text->data = bytes < sizeof text->brief ? text->brief : malloc(bytes + 1);
    if (!text->data) napi_throw_error(env, "NO_MEMORY", "out of memory");
    return text->data != NULL;
}

/* A string or a Uint8Array, or none. */
static bool get_text(napi_env env, napi_value value, const char *name, struct text *text) {
    napi_typedarray_type type = napi_int8_array;
    bool is_array = false;
    void *data = NULL;
    text->data = NULL;
    text->bytes = 0;
    if (!is_given(env, value)) return true;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &text->bytes) == napi_ok) {
        if (!text_fits(env, text, text->bytes)) return false;
        napi_get_value_string_utf8(env, value, text->data, text->bytes + 1, &text->bytes);
        return true;
    }
    napi_is_typedarray(env, value, &is_array);
    if (is_array) napi_get_typedarray_info(env, value, &type, &text->bytes, &data, NULL, NULL);
    if (type != napi_uint8_array) return refuse(env, name, "a string or a Uint8Array");
    if (!text_fits(env, text, text->bytes)) return false;
    if (text->bytes > 0) memcpy(text->data, data, text->bytes);
    text->data[text->bytes] = '\0';
    return true;
}

/* ---- what the library reports ---- */

static void report(struct entry *entry, enum event_kind kind, int result) {
    struct client *client = entry->client;
    if (entry->freeing) return;
    if (client->count == client->events_room) {
        size_t room = client->events_room ? 2 * client->events_room : 64;
        struct event *events = realloc(client->events, room * sizeof *events);
        if (!events) abort(); /* as node does without memory: a promise would never end */
        client->events = events;
        client->events_room = room;
    }
    client->events[client->count++] = (struct event){entry, kind, result};
}

static void on_done(void *context, struct redlock_lock *lock, int result) {
    (void)context;
    report(redlock_lock_context(lock), EVENT_DONE, result);
}

static void on_extended(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    report(context, EVENT_EXTENDED, result);
}

static void on_change(void *context, struct redlock_lock *lock, int change) {
    (void)lock;
    if (change == REDLOCK_CHANGE_LOST) report(context, EVENT_LOST, REDLOCK_LOST);
}

static void on_leader(void *context, const struct redlock_leader *leader) {
    struct entry *entry = context;
    entry->leader = *leader;
    if (leader->id.bytes > 0) memcpy(entry->id, leader->id.data, leader->id.bytes);
    report(entry, EVENT_OBSERVED, REDLOCK_OK);
}

/* JavaScript may call in again, and close the client. */
static void deliver(struct client *client) {
    napi_env env = client->env;
    napi_value dispatch = NULL, global = NULL, error = NULL, words[3];
    if (napi_get_reference_value(env, client->dispatch, &dispatch) != napi_ok || !dispatch) return;
    napi_get_global(env, &global);
    while (client->next < client->count) {
        const struct event event = client->events[client->next++];
        if (!event.entry) continue;
        napi_handle_scope scope;
        if (napi_open_handle_scope(env, &scope) != napi_ok) return;
        napi_create_uint32(env, event.entry->number, &words[0]);
        napi_create_int32(env, (int)event.kind, &words[1]);
        napi_create_int32(env, event.result, &words[2]);
        if (napi_call_function(env, global, dispatch, 3, words, NULL) == napi_pending_exception &&
            napi_get_and_clear_last_exception(env, &error) == napi_ok)
            napi_fatal_exception(env, error);
        napi_close_handle_scope(env, scope);
    }
    client->next = client->count = 0;
}

/* What waits for promises runs when the callback's scope is closed, for all events together. */
static void on_readable(struct uv_poll_s *poll, int status, int events) {
    struct client *client = uv_handle_get_data((struct uv_handle_s *)poll);
    napi_env env = client->env;
    napi_handle_scope handles;
    napi_callback_scope scope;
    (void)status, (void)events;
    redlock_process(client->redlock);
    if (client->count == 0 || napi_open_handle_scope(env, &handles) != napi_ok) return;
    if (napi_open_callback_scope(env, NULL, client->context, &scope) == napi_ok) {
        deliver(client);
        napi_close_callback_scope(env, scope);
    }
    napi_close_handle_scope(env, handles);
}

/* ---- entries ---- */

static struct entry *entry_new(struct client *client) {
    uint32_t number = client->lowest;
    while (number < client->room && client->entries[number]) number++;
    if (number == client->room) {
        uint32_t room = client->room ? 2 * client->room : 16;
        struct entry **entries = realloc(client->entries, room * sizeof(struct entry *));
        if (!entries) return NULL;
        memset(entries + client->room, 0, (room - client->room) * sizeof(struct entry *));
        client->entries = entries;
        client->room = room;
    }
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->client = client;
    entry->number = number;
    client->entries[number] = entry;
    client->lowest = number + 1;
    return entry;
}

static void entry_free(struct entry *entry) {
    struct client *client = entry->client;
    entry->freeing = true; /* an operation under way is reported by redlock_lock_free() */
    redlock_lock_free(entry->lock);
    redlock_observe_stop(entry->observer);
    for (size_t i = client->next; i < client->count; i++)
        if (client->events[i].entry == entry) client->events[i].entry = NULL;
    client->entries[entry->number] = NULL;
    if (entry->number < client->lowest) client->lowest = entry->number;
    free(entry);
}

/* Its number, or [result, text]. */
static napi_value entry_made(napi_env env, struct entry *entry, int result,
                             const struct redlock_error *error) {
    if (result == REDLOCK_OK) return number_of(env, entry->number);
    if (entry) entry_free(entry);
    return failure_of(env, result, error->text);
}

/* ---- the client ---- */

static void client_forget(struct client *client) {
    if (!client->collected || client->poll) return;
    free(client->entries);
    free(client->events);
    free(client);
}

static void on_closed(struct uv_handle_s *poll) {
    struct client *client = uv_handle_get_data(poll);
    if (client->cleanup) napi_remove_async_cleanup_hook(client->cleanup);
    client->poll = NULL;
    free(poll);
    client_forget(client);
}

/* Releases what is held, and waits for that no longer than one node timeout. */
static void client_shut(struct client *client) {
    if (!client->redlock) return;
    for (uint32_t i = 0; i < client->room; i++)
        if (client->entries[i]) entry_free(client->entries[i]);
    uv_close(client->poll, on_closed); /* before its descriptor is closed */
    redlock_client_free(client->redlock);
    client->redlock = NULL;
    napi_async_destroy(client->env, client->context);
    napi_delete_reference(client->env, client->dispatch);
}

static void on_collected(napi_env env, void *data, void *hint) {
    struct client *client = data;
    (void)env, (void)hint;
    client_shut(client);
    client->collected = true;
    client_forget(client);
}

/* The end of the environment: of node, or of a worker thread. */
static void on_cleanup(napi_async_cleanup_hook_handle cleanup, void *data) {
    (void)cleanup; /* on_closed() removes it */
    client_shut(data);
}

static bool client_watch(struct client *client) {
    struct uv_loop_s *loop = NULL;
    client->poll = calloc(1, uv_handle_size(UV_POLL));
    if (!client->poll || napi_get_uv_event_loop(client->env, &loop) != napi_ok) return false;
    struct uv_poll_s *poll = (struct uv_poll_s *)client->poll;
    if (uv_poll_init(loop, poll, redlock_client_fd(client->redlock)) != 0) return false;
    uv_handle_set_data(client->poll, client);
    uv_poll_start(poll, UV_READABLE, on_readable);
    uv_unref(client->poll);
    napi_add_async_cleanup_hook(client->env, on_cleanup, client, &client->cleanup);
    return true;
}

enum { TEXT_OPTIONS = 8 };

/* The library reads it up to a NUL. */
static bool is_one_word(napi_env env, const char *name, const struct text *text) {
    return !text->data || strlen(text->data) == text->bytes ||
           refuse(env, name, "a string without NUL");
}

/* The library copies what is in `texts`. */
static bool get_client_options(napi_env env, napi_value object, struct text *texts,
                               struct redlock_client_options *options) {
    const struct {
        const char *name;
        int64_t *wide;
        int *number;
        const char **text;
    } fields[] = {
        {"keyPrefix", NULL, NULL, &options->key_prefix}, /* the first text */
        {"tlsCaFile", NULL, NULL, &options->tls_ca_file},
        {"tlsCertFile", NULL, NULL, &options->tls_cert_file},
        {"tlsKeyFile", NULL, NULL, &options->tls_key_file},
        {"tlsServerName", NULL, NULL, &options->tls_server_name},
        {"quorum", NULL, NULL, &options->quorum},
        {"user", NULL, NULL, &options->user},
        {"passwordFile", NULL, NULL, &options->password_file},
        {"nodeTimeout", &options->node_timeout_ms, NULL, NULL},
        {"connectTimeout", &options->connect_timeout_ms, NULL, NULL},
        {"stallTimeout", &options->stall_timeout_ms, NULL, NULL},
        {"mode", NULL, &options->mode, NULL},
        {"confirm", NULL, &options->confirm, NULL},
        {"recover", NULL, &options->recover, NULL},
        {"allowReplicas", NULL, &options->allow_replicas, NULL},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        napi_value value = NULL;
        const char *name = fields[i].name;
        if (napi_get_named_property(env, object, name, &value) != napi_ok) return false;
        if (fields[i].wide && !get_number(env, value, name, fields[i].wide)) return false;
        if (fields[i].number && !get_int(env, value, name, fields[i].number)) return false;
        if (!fields[i].text) continue;
        if (!get_text(env, value, name, &texts[i])) return false;
        if (i > 0 && !is_one_word(env, name, &texts[i])) return false;
        *fields[i].text = texts[i].data;
    }
    options->key_prefix_bytes = texts[0].bytes;
    options->queue = 1;
    return true;
}

static napi_value client_made(napi_env env, struct redlock_client *redlock, napi_value dispatch) {
    napi_value external = NULL, name = text_of(env, "redlock");
    struct client *client = calloc(1, sizeof *client);
    if (client) *client = (struct client){.env = env, .redlock = redlock};
    if (!client || !client_watch(client)) {
        redlock_client_free(redlock);
        if (client) free(client->poll);
        free(client);
        return failure_of(env, REDLOCK_NO_MEMORY, "the client's descriptor cannot be watched");
    }
    napi_create_reference(env, dispatch, 0, &client->dispatch);
    napi_async_init(env, NULL, name, &client->context);
    napi_create_external(env, client, on_collected, NULL, &external);
    return external;
}

/* ---- the functions of the module ---- */

/* The arguments; the first is a client, and the second often the number of an entry. */
struct call {
    napi_value words[ARGUMENTS_MAX];
    size_t count;
    struct client *client;
    struct entry *entry;
};

static bool call_read(napi_env env, napi_callback_info info, struct call *call) {
    void *data = NULL;
    uint32_t number = 0;
    napi_valuetype type = napi_undefined;
    *call = (struct call){.count = ARGUMENTS_MAX};
    napi_get_cb_info(env, info, &call->count, call->words, NULL, NULL);
    napi_typeof(env, call->words[0], &type);
    if (type != napi_external || napi_get_value_external(env, call->words[0], &data) != napi_ok)
        return false;
    call->client = data;
    if (!call->client->redlock) return false;
    if (napi_get_value_uint32(env, call->words[1], &number) == napi_ok &&
        number < call->client->room)
        call->entry = call->client->entries[number];
    return true;
}

static bool call_read_lock(napi_env env, napi_callback_info info, struct call *call) {
    return call_read(env, info, call) && call->entry && call->entry->lock;
}

/* open(nodes, options, dispatch): the client, or [result, text]. dispatch(number, kind, result) is
 * called for each event. */
static napi_value call_open(napi_env env, napi_callback_info info) {
    napi_value words[3] = {NULL}, made = NULL;
    size_t count = 3;
    struct text nodes, texts[TEXT_OPTIONS];
    struct redlock_client_options options;
    struct redlock_client *redlock = NULL;
    struct redlock_error error = {0};
    for (size_t i = 0; i < TEXT_OPTIONS; i++) texts[i].data = NULL;
    redlock_client_options_init(&options);
    napi_get_cb_info(env, info, &count, words, NULL, NULL);
    if (!get_text(env, words[0], "nodes", &nodes)) return NULL;
    if (is_one_word(env, "nodes", &nodes) && get_client_options(env, words[1], texts, &options)) {
        const int result = redlock_client_open(nodes.data, &options, &redlock, &error);
        made = result == REDLOCK_OK ? client_made(env, redlock, words[2])
                                    : failure_of(env, result, error.text);
    }
    for (size_t i = 0; i < TEXT_OPTIONS; i++) text_free(&texts[i]);
    text_free(&nodes);
    return made;
}

/* close(client) */
static napi_value call_close(napi_env env, napi_callback_info info) {
    struct call call;
    if (call_read(env, info, &call)) client_shut(call.client);
    return NULL;
}

/* keep(client, alive): whether it keeps the event loop alive. */
static napi_value call_keep(napi_env env, napi_callback_info info) {
    struct call call;
    bool alive = false;
    if (!call_read(env, info, &call)) return NULL;
    napi_get_value_bool(env, call.words[1], &alive);
    (alive ? uv_ref : uv_unref)(call.client->poll);
    return NULL;
}

static bool get_lock_options(napi_env env, const napi_value *words, struct text *owner,
                             struct redlock_lock_options *options) {
    int slots = 0;
    if (!get_number(env, words[0], "ttl", &options->ttl_ms) ||
        !get_int(env, words[1], "renew", &options->renew) ||
        !get_int(env, words[2], "shared", &options->shared) ||
        !get_int(env, words[3], "slots", &slots) ||
        !get_int(env, words[4], "leader", &options->leader) ||
        !get_number(env, words[5], "holdMax", &options->hold_ms_max) ||
        !get_number(env, words[6], "lostMargin", &options->lost_margin_ms) ||
        !get_text(env, words[7], "owner", owner))
        return false;
    options->slots = (uint32_t)slots;
    options->owner = owner->bytes > 0 ? owner->data : NULL;
    options->owner_bytes = owner->bytes;
    return true;
}

static int make_lock(napi_env env, struct entry *entry, napi_value names,
                     struct redlock_lock_options *options, struct redlock_error *error) {
    struct text texts[REDLOCK_RESOURCES_MAX];
    struct redlock_bytes resources[REDLOCK_RESOURCES_MAX];
    uint32_t count = 0, read = 0;
    int result = REDLOCK_BAD_ARGUMENT;
    napi_get_array_length(env, names, &count);
    for (; read < count && read < REDLOCK_RESOURCES_MAX; read++) {
        napi_value name = NULL;
        napi_get_element(env, names, read, &name);
        if (!get_text(env, name, "resource", &texts[read])) break;
        resources[read] = (struct redlock_bytes){texts[read].data, texts[read].bytes};
    }
    options->on_change = on_change;
    options->on_change_context = entry;
    if (read == REDLOCK_RESOURCES_MAX && read < count)
        snprintf(error->text, sizeof error->text, "a lock has at most %u resources, not %u", read,
                 count);
    else if (read == count)
        result = redlock_lock_new_multi(entry->client->redlock, resources, count, options,
                                        &entry->lock, error);
    while (read > 0) text_free(&texts[--read]);
    return result;
}

/* lock(client, resources, ttl, renew, shared, slots, leader, holdMax, lostMargin, owner): its
 * number, or [result, text]. */
static napi_value call_lock(napi_env env, napi_callback_info info) {
    struct call call;
    struct text owner;
    struct redlock_lock_options options;
    struct redlock_error error = {0};
    redlock_lock_options_init(&options);
    if (!call_read(env, info, &call) || !get_lock_options(env, call.words + 2, &owner, &options))
        return NULL;
    struct entry *entry = entry_new(call.client);
    int result = entry ? make_lock(env, entry, call.words[1], &options, &error) : REDLOCK_NO_MEMORY;
    text_free(&owner);
    return entry_made(env, entry, result, &error);
}

/* observe(client, resource): its number, or [result, text]. */
static napi_value call_observe(napi_env env, napi_callback_info info) {
    struct call call;
    struct text resource;
    struct redlock_error error = {0};
    if (!call_read(env, info, &call) || !get_text(env, call.words[1], "resource", &resource))
        return NULL;
    struct entry *entry = entry_new(call.client);
    int result = !entry ? REDLOCK_NO_MEMORY
                        : redlock_observe_start(call.client->redlock, resource.data, resource.bytes,
                                                on_leader, entry, &entry->observer, &error);
    text_free(&resource);
    return entry_made(env, entry, result, &error);
}

/* free(client, number) */
static napi_value call_free(napi_env env, napi_callback_info info) {
    struct call call;
    if (call_read(env, info, &call) && call.entry) entry_free(call.entry);
    return NULL;
}

static void start(struct client *client, struct entry **entries, size_t count, bool release,
                  int64_t wait_ms) {
    struct redlock_lock *locks[BATCH_MAX];
    int results[BATCH_MAX];
    for (size_t i = 0; i < count; i++) locks[i] = entries[i]->lock;
    int result = release
                     ? redlock_release_many_start(locks, count, results, on_done, NULL)
                     : redlock_acquire_many_start(locks, count, wait_ms, results, on_done, NULL);
    (void)result; /* that of one of them */
    for (size_t i = 0; i < count; i++)
        if (results[i] != REDLOCK_OK) report(entries[i], EVENT_DONE, results[i]);
    deliver(client);
}

/* start(client, numbers, count, wait): acquires these locks; with wait undefined, releases them.
 * Their requests leave together. JavaScript that is called meanwhile does not change `numbers`. */
static napi_value call_start(napi_env env, napi_callback_info info) {
    struct call call;
    uint32_t count = 0;
    void *numbers = NULL;
    struct entry *entries[BATCH_MAX];
    size_t got = 0;
    int64_t wait_ms = 0;
    if (!call_read(env, info, &call)) return NULL;
    const bool release = !is_given(env, call.words[3]);
    if (!get_number(env, call.words[3], "wait", &wait_ms)) return NULL;
    napi_get_value_uint32(env, call.words[2], &count);
    napi_get_typedarray_info(env, call.words[1], NULL, NULL, &numbers, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = ((const uint32_t *)numbers)[i];
        if (number < call.client->room && call.client->entries[number] &&
            call.client->entries[number]->lock)
            entries[got++] = call.client->entries[number];
        if (got == 0 || (got < BATCH_MAX && i + 1 < count)) continue;
        start(call.client, entries, got, release, wait_ms);
        got = 0;
    }
    return NULL;
}

/* extend(client, number, ttl): 0, or why it was not started. downgrade(client, number). */
static napi_value call_extend(napi_env env, napi_callback_info info) {
    struct call call;
    int64_t ttl_ms = 0;
    if (!call_read_lock(env, info, &call) || !get_number(env, call.words[2], "ttl", &ttl_ms))
        return NULL;
    return number_of(env, redlock_extend_start(call.entry->lock, ttl_ms, on_extended, call.entry));
}

static napi_value call_downgrade(napi_env env, napi_callback_info info) {
    struct call call;
    if (!call_read_lock(env, info, &call)) return NULL;
    return number_of(env, redlock_downgrade_start(call.entry->lock, on_extended, call.entry));
}

/* cancel(client, number) */
static napi_value call_cancel(napi_env env, napi_callback_info info) {
    struct call call;
    if (call_read_lock(env, info, &call)) redlock_cancel(call.entry->lock);
    return NULL;
}

/* validity(client, number): in milliseconds */
static napi_value call_validity(napi_env env, napi_callback_info info) {
    struct call call;
    if (!call_read_lock(env, info, &call)) return number_of(env, 0);
    return number_of(env, (double)redlock_validity_ms(call.entry->lock));
}

/* grant(client, number): [token, fence, slot] of a lock that is held */
static napi_value call_grant(napi_env env, napi_callback_info info) {
    struct call call;
    char token[REDLOCK_TOKEN_BYTES_MAX];
    if (!call_read_lock(env, info, &call)) return NULL;
    struct redlock_lock *lock = call.entry->lock;
    const napi_value token_text =
        bytes_of(env, token, redlock_token_copy(lock, token, sizeof token));
    return array_of(env,
                    (napi_value[]){token_text, number_of(env, (double)redlock_fence(lock)),
                                   number_of(env, redlock_slot(lock))},
                    3);
}

/* leader(client, number): [state, term, id, for how many milliseconds it is sure] */
static napi_value call_leader(napi_env env, napi_callback_info info) {
    struct call call;
    if (!call_read(env, info, &call) || !call.entry || !call.entry->observer) return NULL;
    const struct redlock_leader *leader = &call.entry->leader;
    const int64_t left_ns = leader->sure_until_ns - redlock_now_ns();
    return array_of(env,
                    (napi_value[]){number_of(env, leader->state),
                                   number_of(env, (double)leader->term),
                                   bytes_of(env, call.entry->id, leader->id.bytes),
                                   number_of(env, left_ns > 0 ? (double)(left_ns / 1000000) : 0)},
                    4);
}

/* why(client, number or -1, result): [sentence, cure] */
static napi_value call_why(napi_env env, napi_callback_info info) {
    struct call call;
    struct redlock_why_report why;
    int result = 0;
    redlock_why_report_init(&why);
    if (!call_read(env, info, &call)) return NULL;
    napi_get_value_int32(env, call.words[2], &result);
    struct redlock_lock *lock = call.entry ? call.entry->lock : NULL;
    if (redlock_why(call.client->redlock, lock, result, NULL, &why) != REDLOCK_OK)
        snprintf(why.sentence, sizeof why.sentence, "%s", redlock_result_text(result));
    return array_of(env, (napi_value[]){text_of(env, why.sentence), text_of(env, why.cure)}, 2);
}

/* By -result: "OK", "HELD", ... */
static napi_value results_of(napi_env env) {
    napi_value names = NULL;
    napi_create_array(env, &names);
#define NAME(name, value, text) napi_set_element(env, names, -(value), text_of(env, &#name[8]));
    REDLOCK_RESULTS(NAME)
#undef NAME
    return names;
}

NAPI_MODULE_INIT() {
    static const struct {
        const char *name;
        napi_callback call;
    } functions[] = {
        {"open", call_open},           {"close", call_close},
        {"keep", call_keep},           {"lock", call_lock},
        {"observe", call_observe},     {"free", call_free},
        {"start", call_start},         {"extend", call_extend},
        {"cancel", call_cancel},       {"validity", call_validity},
        {"downgrade", call_downgrade}, {"grant", call_grant},
        {"leader", call_leader},       {"why", call_why},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value function = NULL;
        const char *name = functions[i].name;
        if (napi_create_function(env, name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function) !=
            napi_ok)
            return NULL;
        napi_set_named_property(env, exports, name, function);
    }
    napi_set_named_property(env, exports, "results", results_of(env));
    napi_set_named_property(env, exports, "version", text_of(env, redlock_version()));
    return exports;
}
