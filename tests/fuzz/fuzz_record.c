/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as a node's record: names and values in turn, each ended by a NUL. A record that is
 * taken is within its limits, can be changed as the protocol does, and is the same when it is
 * written and read again.
 */
#include "client/guarding/record.h"

#include "must.h"
#include "redlock.h"

static bool is_text(const char *text, size_t size) {
    const char *end = memchr(text, '\0', size);
    must(end != NULL, "a text without an end");
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f) return false;
    return true;
}

static void check(const struct rl_record *record) {
    must(record->format >= 1 && record->format <= RL_RECORD_FORMAT, "no such format");
    must(record->quorum_id != 0 && record->node_id != 0 && record->nonce != 0 && record->epoch != 0,
         "a zero");
    must(record->members_count >= 1 && record->members_count <= RL_MEMBERS_MAX,
         "no such number of members");
    must(record->ttl_max_ms >= REDLOCK_TTL_MS_MIN && record->ttl_max_ms <= REDLOCK_TTL_MS_MAX,
         "no such ttl_max");
    must(record->waited_ms >= 0 && record->waited_ms <= INT64_MAX / RL_MS, "no such wait");
    must(is_text(record->run_id, sizeof record->run_id) &&
             is_text(record->replid, sizeof record->replid),
         "no ids");
    must(is_text(record->accepted.url, sizeof record->accepted.url), "no URL");
    for (unsigned i = 0; i < record->members_count; i++) {
        const struct rl_member *member = &record->members[i];
        must(member->id != 0 && rl_record_member(record, member->id) == member, "a member twice");
        must(is_text(member->url, sizeof member->url), "a member without a URL");
        must((member->incarnation.number == 0) == (member->incarnation.run_id[0] == '\0'),
             "half a body");
    }
}

static void check_again(const struct rl_record *record) {
    static struct record_text text, second;
    static struct rl_record again;
    record_write(&text, record);
    must(record_read(&again, text.fields, text.fields_count), "what was read cannot be written");
    record_write(&second, &again);
    must(second.used == text.used && memcmp(second.text, text.text, text.used) == 0,
         "another record");
}

static void change(const struct rl_record *record) {
    static struct rl_record changed;
    const struct rl_change remove = {.kind = RL_CHANGE_REMOVE, .id = record->node_id};
    const struct rl_change add = {.kind = RL_CHANGE_ADD, .id = record->nonce, .url = "redis://a"};
    for (int i = 0; i < 3; i++) {
        const struct rl_change *one = i == 0 ? &remove : i == 1 ? &add : &record->accepted;
        changed = *record;
        if (one->kind == RL_CHANGE_NONE || !rl_record_change(&changed, one)) continue;
        check(&changed);
        check_again(&changed);
    }
}

/* Each field in memory of its own. */
static size_t cut(const uint8_t *data, size_t size, struct net_bytes *fields, size_t most) {
    size_t count = 0;
    while (size > 0 && count < most) {
        const uint8_t *nul = memchr(data, '\0', size);
        const size_t bytes = nul != NULL ? (size_t)(nul - data) : size,
                     passed = bytes + (nul != NULL);
        fields[count++] = (struct net_bytes){copy_of(data, bytes), bytes};
        data += passed;
        size -= passed;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct rl_record record;
    struct net_bytes fields[NET_FIELDS_MAX] = {{NULL, 0}};
    const size_t count = cut(data, size, fields, NET_FIELDS_MAX);
    if (record_read(&record, fields, count)) {
        check(&record);
        check_again(&record);
        change(&record);
    }
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)fields[i].data);
    return 0;
}
