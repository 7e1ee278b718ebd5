/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writing and reading a node's record. Each field is one text; members are lines "id number run_id
 * url".
 */
#include "record.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "redlock.h"

#define NOBODY "-" /* stands for the run_id of a member for which no server was ever registered */

/* ---- writing ---- */

/* Begins a field; what is put afterwards is its value. */
static void field(struct record_text *to, const char *name) {
    assert(to->fields_count + 2 <= 2 * RECORD_FIELDS);
    to->fields[to->fields_count++] = (struct net_bytes){name, strlen(name)};
    to->fields[to->fields_count++] = (struct net_bytes){to->text + to->used, 0};
}

/* RECORD_TEXT_BYTES is enough for any record, so no text is ever cut. */
__attribute__((format(printf, 2, 3))) static void put(struct record_text *to, const char *format,
                                                      ...) {
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(to->text + to->used, sizeof to->text - to->used, format, args);
    va_end(args);
    assert(bytes >= 0 && (size_t)bytes < sizeof to->text - to->used);
    to->used += (size_t)bytes;
    to->fields[to->fields_count - 1].bytes += (size_t)bytes;
}

/* A URL ends its line, so no byte of it may look like the end of a line. */
static void put_url(struct record_text *to, const char *url) {
    char clean[RL_URL_BYTES];
    size_t bytes = strnlen(url, RL_URL_BYTES);
    assert(bytes < RL_URL_BYTES);
    for (size_t i = 0; i < bytes; i++)
        clean[i] = (unsigned char)url[i] > ' ' && url[i] != 0x7f ? url[i] : '?';
    put(to, "%.*s", (int)bytes, clean);
}

static void number_field(struct record_text *to, const char *name, uint64_t number) {
    field(to, name);
    put(to, "%llu", (unsigned long long)number);
}

static void id_field(struct record_text *to, const char *name, uint64_t id) {
    field(to, name);
    put(to, "%016llx", (unsigned long long)id);
}

static void text_field(struct record_text *to, const char *name, const char *text) {
    field(to, name);
    put(to, "%s", text);
}

static void members_field(struct record_text *to, const struct rl_record *record) {
    field(to, "members");
    for (unsigned i = 0; i < record->members_count; i++) {
        const struct rl_member *member = &record->members[i];
        put(to, "%016llx %lu %s ", (unsigned long long)member->id,
            (unsigned long)member->incarnation.number,
            member->incarnation.run_id[0] ? member->incarnation.run_id : NOBODY);
        put_url(to, member->url);
        put(to, "\n");
    }
}

static void accepted_field(struct record_text *to, const struct rl_change *change) {
    field(to, "accepted");
    if (change->kind == RL_CHANGE_NONE) put(to, "none");
    if (change->kind == RL_CHANGE_REMOVE) put(to, "remove %016llx", (unsigned long long)change->id);
    if (change->kind == RL_CHANGE_TTL_MAX) put(to, "ttl_max %lld", (long long)change->ttl_ms);
    if (change->kind != RL_CHANGE_ADD) return;
    put(to, "add %016llx ", (unsigned long long)change->id);
    put_url(to, change->url);
}

void record_write(struct record_text *to, const struct rl_record *record) {
    assert(record->members_count <= RL_MEMBERS_MAX && record->ttl_max_ms >= 0 &&
           record->ttl_next_ms >= 0 && record->waited_ms >= 0);
    to->fields_count = to->used = 0;
    number_field(to, "format", record->format);
    id_field(to, "quorum", record->quorum_id);
    id_field(to, "node", record->node_id);
    number_field(to, "epoch", record->epoch);
    number_field(to, "begun", record->begun);
    number_field(to, "settled", record->settled);
    members_field(to, record);
    text_field(to, "standing", record->eligibility == RL_RECORD_INTACT ? "intact" : "recovering");
    text_field(to, "run_id", record->run_id);
    text_field(to, "replid", record->replid);
    number_field(to, "evicted", record->evicted);
    id_field(to, "nonce", record->nonce);
    number_field(to, "ttl_max", (uint64_t)record->ttl_max_ms);
    number_field(to, "ttl_next", (uint64_t)record->ttl_next_ms);
    id_field(to, "loss", record->loss);
    number_field(to, "waited", (uint64_t)record->waited_ms);
    number_field(to, "ballot", record->ballot);
    number_field(to, "accepted_ballot", record->accepted_ballot);
    accepted_field(to, &record->accepted);
}

/* ---- reading ---- */

/* The bytes up to the separator, which is skipped; without one, all the rest. */
static struct net_bytes take(struct net_bytes *from, char separator) {
    const char *data = from->data;
    const char *end = from->bytes ? memchr(data, separator, from->bytes) : NULL;
    struct net_bytes taken = {data, end ? (size_t)(end - data) : from->bytes};
    size_t passed = taken.bytes + (end != NULL);
    *from = (struct net_bytes){data ? data + passed : NULL, from->bytes - passed};
    return taken;
}

static bool read_number(struct net_bytes bytes, uint64_t most, uint64_t *number) {
    bool padded = bytes.bytes > 1 && ((const char *)bytes.data)[0] == '0';
    return !padded && net_read_number(bytes, most, number);
}

static bool read_id(struct net_bytes bytes, uint64_t *id) {
    const char *at = bytes.data;
    if (bytes.bytes != 16) return false;
    *id = 0;
    for (size_t i = 0; i < bytes.bytes; i++) {
        bool digit = at[i] >= '0' && at[i] <= '9';
        if (!digit && (at[i] < 'a' || at[i] > 'f')) return false;
        *id = *id << 4 | (uint64_t)(digit ? at[i] - '0' : at[i] - 'a' + 10);
    }
    return true;
}

/* Printable, without spaces, and short enough for the buffer. */
/* "scheme://user@..." without the user, which may hold any character, an '@' too. So may a path,
 * but what begins with a path has no user. */
static const char *after_user(const char *rest, bool socket) {
    const char *at = !socket ? strrchr(rest, '@') : rest[0] != '/' ? strstr(rest, "@/") : NULL;
    return at ? at + 1 : rest;
}

void record_place(char place[RL_URL_BYTES], const char *url) {
    const char *rest = strstr(url, "://"), *own = url;
    size_t scheme = 0, bytes = strlen(url);
    if (rest) {
        const bool socket = strncmp(url, "unix:", strlen("unix:")) == 0;
        const char *first = socket ? "?db=0" : "/0";
        rest += strlen("://");
        scheme = (size_t)(rest - url);
        own = after_user(rest, socket);
        bytes = strlen(own);
        const size_t database = strlen(first);
        /* A URL has one. All are taken off, so that a second time changes nothing. */
        while (bytes > database && memcmp(own + bytes - database, first, database) == 0)
            bytes -= database;
    }
    if (bytes >= RL_URL_BYTES - scheme) bytes = RL_URL_BYTES - scheme - 1;
    memmove(place, url, scheme);
    memmove(place + scheme, own, bytes);
    place[scheme + bytes] = '\0';
}

static bool read_word(struct net_bytes bytes, char *word, size_t size) {
    const unsigned char *at = bytes.data;
    if (bytes.bytes >= size) return false;
    for (size_t i = 0; i < bytes.bytes; i++)
        if (at[i] <= ' ' || at[i] == 0x7f) return false;
    if (bytes.bytes) memcpy(word, at, bytes.bytes);
    word[bytes.bytes] = '\0';
    return true;
}

static bool read_url(struct net_bytes text, char url[RL_URL_BYTES]) {
    if (!read_word(text, url, RL_URL_BYTES)) return false;
    record_place(url, url);
    return true;
}

/* Number 0 and an absent run_id belong together. */
static bool read_member(struct rl_member *member, struct net_bytes line) {
    struct rl_incarnation *incarnation = &member->incarnation;
    uint64_t number = 0;
    if (!read_id(take(&line, ' '), &member->id) || member->id == 0 ||
        !read_number(take(&line, ' '), UINT32_MAX, &number) ||
        !read_word(take(&line, ' '), incarnation->run_id, sizeof incarnation->run_id) ||
        incarnation->run_id[0] == '\0')
        return false;
    incarnation->number = (uint32_t)number;
    bool nobody = strcmp(incarnation->run_id, NOBODY) == 0;
    if (nobody) incarnation->run_id[0] = '\0';
    return nobody == (number == 0) && read_url(line, member->url);
}

static bool read_members(struct rl_record *to, struct net_bytes text) {
    if (text.bytes == 0 || ((const char *)text.data)[text.bytes - 1] != '\n') return false;
    for (to->members_count = 0; text.bytes > 0; to->members_count++) {
        if (to->members_count == RL_MEMBERS_MAX) return false;
        struct rl_member *member = &to->members[to->members_count];
        if (!read_member(member, take(&text, '\n'))) return false;
        if (rl_record_member(to, member->id)) return false; /* twice */
    }
    return true;
}

static bool read_accepted(struct rl_change *change, struct net_bytes text) {
    *change = (struct rl_change){.kind = RL_CHANGE_NONE};
    if (net_is_text(text, "none")) return true;
    struct net_bytes kind = take(&text, ' ');
    if (net_is_text(kind, "ttl_max")) {
        uint64_t ttl_ms = 0;
        change->kind = RL_CHANGE_TTL_MAX;
        if (!read_number(text, REDLOCK_TTL_MS_MAX, &ttl_ms) || ttl_ms < REDLOCK_TTL_MS_MIN)
            return false;
        change->ttl_ms = (int64_t)ttl_ms;
        return true;
    }
    bool add = net_is_text(kind, "add");
    if (!add && !net_is_text(kind, "remove")) return false;
    change->kind = add ? RL_CHANGE_ADD : RL_CHANGE_REMOVE;
    if (!read_id(add ? take(&text, ' ') : text, &change->id) || change->id == 0) return false;
    return !add || read_url(text, change->url);
}

struct source {
    const struct net_bytes *fields;
    size_t count;
    bool good; /* every field until now was valid */
};

/* The field must be there exactly once. */
static struct net_bytes value_of(struct source *from, const char *name) {
    struct net_bytes value = {NULL, 0};
    unsigned found = 0;
    for (size_t i = 0; i + 1 < from->count; i += 2) {
        if (!net_is_text(from->fields[i], name)) continue;
        value = from->fields[i + 1];
        found++;
    }
    if (found != 1) from->good = false;
    return value;
}

static uint64_t number_of(struct source *from, const char *name, uint64_t least, uint64_t most) {
    uint64_t number = 0;
    struct net_bytes value = value_of(from, name);
    if (!from->good || !read_number(value, most, &number) || number < least) from->good = false;
    return number;
}

/* 0 when the field is absent: records of earlier versions do not have it. */
static uint64_t number_if_any(struct source *from, const char *name, uint64_t most) {
    for (size_t i = 0; i + 1 < from->count; i += 2)
        if (net_is_text(from->fields[i], name)) return number_of(from, name, 0, most);
    return 0;
}

static uint64_t id_of(struct source *from, const char *name, bool may_be_zero) {
    uint64_t id = 0;
    struct net_bytes value = value_of(from, name);
    if (!from->good || !read_id(value, &id) || (id == 0 && !may_be_zero)) from->good = false;
    return id;
}

bool record_read(struct rl_record *to, const struct net_bytes *fields, size_t fields_count) {
    struct source from = {fields, fields_count, fields_count % 2 == 0};
    memset(to, 0, sizeof *to);
    to->format = (uint32_t)number_of(&from, "format", 1, RL_RECORD_FORMAT);
    to->quorum_id = id_of(&from, "quorum", false);
    to->node_id = id_of(&from, "node", false);
    to->epoch = (uint32_t)number_of(&from, "epoch", 1, UINT32_MAX);
    to->begun = (uint32_t)number_if_any(&from, "begun", to->epoch);
    to->settled = number_of(&from, "settled", 0, 1);
    struct net_bytes standing = value_of(&from, "standing");
    bool intact = net_is_text(standing, "intact");
    to->eligibility = intact ? RL_RECORD_INTACT : RL_RECORD_RECOVERING;
    to->nonce = id_of(&from, "nonce", false);
    to->ttl_max_ms = (int64_t)number_of(&from, "ttl_max", REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX);
    to->ttl_next_ms = to->ttl_max_ms; /* the first two formats have no change of it */
    if (to->format > 2)
        to->ttl_next_ms =
            (int64_t)number_of(&from, "ttl_next", REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX);
    to->loss = id_of(&from, "loss", true);
    to->waited_ms = (int64_t)number_of(&from, "waited", 0, INT64_MAX / RL_MS / 2);
    to->ballot = number_of(&from, "ballot", 0, UINT64_MAX);
    to->accepted_ballot = number_of(&from, "accepted_ballot", 0, UINT64_MAX);
    struct net_bytes replid = {NULL, 0};
    if (to->format != 1) { /* the first format has neither */
        replid = value_of(&from, "replid");
        to->evicted = number_of(&from, "evicted", 0, UINT64_MAX);
    }
    struct net_bytes run_id = value_of(&from, "run_id"), members = value_of(&from, "members");
    struct net_bytes accepted = value_of(&from, "accepted");
    if (!from.good || (!intact && !net_is_text(standing, "recovering"))) return false;
    if (!read_word(run_id, to->run_id, sizeof to->run_id) || to->run_id[0] == '\0') return false;
    if (!read_word(replid, to->replid, sizeof to->replid)) return false;
    if (!read_members(to, members) || !read_accepted(&to->accepted, accepted)) return false;
    return to->accepted_ballot == 0 || to->accepted.kind != RL_CHANGE_NONE;
}

#define DELETE_IT ": delete that key, and clients bring the node back"

const char *record_fault(const struct net_bytes *fields, size_t fields_count) {
    struct source from = {fields, fields_count, fields_count % 2 == 0};
    if (fields_count == 0)
        return "another program wrote " NET_KEY_RECORD ", which is not a hash any more" DELETE_IT;
    const uint64_t format = number_of(&from, "format", 1, UINT32_MAX);
    if (from.good && format > RL_RECORD_FORMAT)
        return "its record (" NET_KEY_RECORD
               ") is of a newer version of redlock: update this program";
    return NET_KEY_RECORD " holds a hash that is not a record, or is damaged" DELETE_IT;
}
