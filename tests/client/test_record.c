/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A record survives being written and read; what is not wholly a record is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "client/guarding/record.h"
#include "core/mix.h"
#include "redlock.h"

static uint64_t random_state = 1;

static uint64_t draw(void) { return rl_splitmix64(&random_state); }

static void fill(char *text, size_t size, size_t length) {
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789+/@.-_%?=\xc3\xbc";
    assert_true(length < size);
    for (size_t i = 0; i < length; i++) text[i] = alphabet[draw() % (sizeof alphabet - 1)];
    text[length] = '\0';
}

static void fill_run_id(char *run_id) {
    for (size_t i = 0; i < 40; i++) run_id[i] = "0123456789abcdef"[draw() % 16];
    run_id[40] = '\0';
}

static struct rl_record any_record(unsigned members, size_t url_bytes) {
    struct rl_record record;
    memset(&record, 0, sizeof record);
    record.format = RL_RECORD_FORMAT;
    record.quorum_id = draw() | 1;
    record.epoch = (uint32_t)draw() | 1;
    record.begun = record.epoch / 2;
    record.settled = draw() % 2;
    record.members_count = (uint8_t)members;
    for (unsigned i = 0; i < members; i++) {
        record.members[i].id = draw() | 1;
        fill(record.members[i].url, sizeof record.members[i].url, url_bytes);
        if (i % 3 == 2) continue; /* nobody was ever registered */
        record.members[i].incarnation.number = (uint32_t)draw() | 1;
        fill_run_id(record.members[i].incarnation.run_id);
    }
    record.node_id = record.members[0].id;
    record.eligibility = draw() % 2 ? RL_RECORD_INTACT : RL_RECORD_RECOVERING;
    fill_run_id(record.run_id);
    fill_run_id(record.replid);
    record.evicted = draw();
    record.nonce = draw() | 1;
    record.ttl_max_ms = 60000;
    record.ttl_next_ms = draw() % 2 ? 60000 : 5000;
    record.loss = draw();
    record.waited_ms = (int64_t)(draw() % 100000);
    record.ballot = draw();
    record.accepted_ballot = draw();
    record.accepted.kind = (enum rl_change_kind)(draw() % 4);
    if (record.accepted.kind == RL_CHANGE_NONE) record.accepted_ballot = 0;
    if (record.accepted.kind == RL_CHANGE_ADD || record.accepted.kind == RL_CHANGE_REMOVE)
        record.accepted.id = draw() | 1;
    if (record.accepted.kind == RL_CHANGE_TTL_MAX)
        record.accepted.ttl_ms = (int64_t)(REDLOCK_TTL_MS_MIN + draw() % 100000);
    if (record.accepted.kind == RL_CHANGE_ADD)
        fill(record.accepted.url, sizeof record.accepted.url, url_bytes);
    return record;
}

static void assert_same(const struct rl_record *a, const struct rl_record *b) {
    assert_int_equal(a->format, b->format);
    assert_true(a->quorum_id == b->quorum_id && a->node_id == b->node_id && a->nonce == b->nonce &&
                a->loss == b->loss);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->begun, b->begun);
    assert_int_equal(a->settled, b->settled);
    assert_int_equal(a->eligibility, b->eligibility);
    assert_string_equal(a->run_id, b->run_id);
    assert_string_equal(a->replid, b->replid);
    assert_true(a->evicted == b->evicted);
    assert_int_equal(a->ttl_max_ms, b->ttl_max_ms);
    assert_int_equal(a->ttl_next_ms, b->ttl_next_ms);
    assert_int_equal(a->waited_ms, b->waited_ms);
    assert_true(a->ballot == b->ballot && a->accepted_ballot == b->accepted_ballot);
    assert_int_equal(a->accepted.kind, b->accepted.kind);
    assert_true(a->accepted.id == b->accepted.id && a->accepted.ttl_ms == b->accepted.ttl_ms);
    assert_string_equal(a->accepted.url, b->accepted.url);
    assert_int_equal(a->members_count, b->members_count);
    for (unsigned i = 0; i < a->members_count; i++) {
        assert_true(a->members[i].id == b->members[i].id);
        assert_string_equal(a->members[i].url, b->members[i].url);
        assert_int_equal(a->members[i].incarnation.number, b->members[i].incarnation.number);
        assert_string_equal(a->members[i].incarnation.run_id, b->members[i].incarnation.run_id);
    }
}

static struct record_text text;
static struct rl_record got;

static void what_is_written_is_read(void **state) {
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct rl_record record = any_record(1 + round % RL_MEMBERS_MAX, draw() % RL_URL_BYTES);
        record_write(&text, &record);
        assert_true(record_read(&got, text.fields, text.fields_count));
        assert_same(&record, &got);
    }
}

/* 15 members with the longest URL each, and the largest numbers: it must fit, and net must take
 * that many fields. */
static void the_largest_record_fits(void **state) {
    (void)state;
    struct rl_record record = any_record(RL_MEMBERS_MAX, RL_URL_BYTES - 1);
    record.epoch = UINT32_MAX;
    record.ballot = record.accepted_ballot = UINT64_MAX;
    record.ttl_max_ms = record.ttl_next_ms = REDLOCK_TTL_MS_MAX;
    record.accepted = (struct rl_change){.kind = RL_CHANGE_ADD, .id = UINT64_MAX};
    fill(record.accepted.url, sizeof record.accepted.url, RL_URL_BYTES - 1);
    for (unsigned i = 0; i < RL_MEMBERS_MAX; i++) {
        record.members[i].incarnation.number = UINT32_MAX;
        fill_run_id(record.members[i].incarnation.run_id);
    }
    record_write(&text, &record);
    assert_true(text.used < sizeof text.text);
    assert_true(text.fields_count <= NET_FIELDS_MAX);
    assert_true(record_read(&got, text.fields, text.fields_count));
    assert_same(&record, &got);
}

/* A URL that came from elsewhere must not be able to add a line. */
static void a_url_cannot_end_its_line(void **state) {
    (void)state;
    struct rl_record record = any_record(3, 10);
    strcpy(record.members[1].url, "a\nb c\x7f");
    record_write(&text, &record);
    assert_true(record_read(&got, text.fields, text.fields_count));
    assert_int_equal(got.members_count, 3);
    assert_string_equal(got.members[1].url, "a?b?c?");
}

static void a_place_has_no_user(void **state) {
    (void)state;
    static const char *const places[][2] = {
        {"redis://h:6379", "redis://h:6379"},
        {"redis://locks@h:6379", "redis://h:6379"},
        {"redis://a@b/c@[::1]:1/0", "redis://[::1]:1"},
        {"rediss://h:6379/0", "rediss://h:6379"},
        {"redis://h:6379/0/0", "redis://h:6379"},
        {"redis://h:6379/10", "redis://h:6379/10"},
        {"redis://h:6379/1", "redis://h:6379/1"},
        {"unix:///run/x@/r.sock?db=0", "unix:///run/x@/r.sock"},
        {"unix://locks@/run/r.sock?db=2", "unix:///run/r.sock?db=2"},
        {"unix:///0", "unix:///0"},
        {"", ""},
    };
    char place[RL_URL_BYTES];
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        record_place(place, places[i][0]);
        assert_string_equal(place, places[i][1]);
        record_place(place, place);
        assert_string_equal(place, places[i][1]);
    }
    /* a record that was written before users were left out */
    struct rl_record record = any_record(3, 10);
    strcpy(record.members[1].url, "redis://locks@h:1/0");
    record_write(&text, &record);
    assert_true(record_read(&got, text.fields, text.fields_count));
    assert_string_equal(got.members[1].url, "redis://h:1");
}

/* ---- what is no record ---- */

static struct net_bytes *value_of(const char *name) {
    for (size_t i = 0; i < text.fields_count; i += 2)
        if (strncmp(text.fields[i].data, name, text.fields[i].bytes) == 0 &&
            text.fields[i].bytes == strlen(name))
            return &text.fields[i + 1];
    fail_msg("there is no field %s", name);
    return NULL;
}

static bool reads_with(const char *name, const void *value, size_t bytes) {
    struct net_bytes *field = value_of(name), before = *field;
    *field = (struct net_bytes){value, bytes};
    bool good = record_read(&got, text.fields, text.fields_count);
    *field = before;
    return good;
}

static void assert_refused(const char *name, const char *value) {
    if (reads_with(name, value, strlen(value)))
        fail_msg("a record with %s \"%s\" was believed", name, value);
}

static void write_one(unsigned members) {
    struct rl_record record = any_record(members, 20);
    record_write(&text, &record);
    assert_true(record_read(&got, text.fields, text.fields_count));
}

static void each_value_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *name, *values[13];
    } wrong[] = {
        {"format",
         {"0", "4", "", "x", "01", "+1", " 1", "1 ", "4294967297", "18446744073709551617"}},
        {"quorum",
         {"", "0000000000000000", "123", "123456789abcdefG", "123456789ABCDEF0",
          "00112233445566778"}},
        {"node", {"", "0000000000000000", "-000000000000001"}},
        {"epoch", {"", "0", "-1", "4294967296", "1e3"}},
        {"settled", {"", "2", "yes", "01"}},
        {"members",
         {"", "\n", "x\n", "0000000000000001 1 abc redis://a", "0000000000000000 1 abc redis://a\n",
          "0000000000000001 0 abc u\n", "0000000000000001 1 - u\n",
          "0000000000000001 4294967296 abc u\n",
          "0000000000000001 1 abc u\n0000000000000001 1 abd v\n", "0000000000000001 1 abc u v\n",
          "0000000000000001  1 abc u\n"}},
        {"standing", {"", "INTACT", "intact ", "ok"}},
        {"run_id", {"", "has space", "0123456789012345678901234567890123456789x"}},
        {"replid", {"has space", "0123456789012345678901234567890123456789x"}},
        {"evicted", {"", "-1", "18446744073709551616"}},
        {"nonce", {"", "0000000000000000", "zzzzzzzzzzzzzzzz"}},
        {"ttl_max", {"", "9", "86400001", "-5", "60000ms"}},
        {"ttl_next", {"", "9", "86400001", "-5", "60000ms"}},
        {"loss", {"", "0", "12345678"}},
        {"waited", {"", "-1", "9223372036854775807"}},
        {"ballot", {"", "-1", "18446744073709551616", "99999999999999999999"}},
        {"accepted_ballot", {"", "x"}},
        {"accepted",
         {"", "None", "add", "add 0000000000000000 u", "remove", "remove 1",
          "add 0000000000000001 a b", "remove 0000000000000001 u", "ttl_max", "ttl_max 9",
          "ttl_max 86400001", "ttl_max 5000 "}},
    };
    write_one(3);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (size_t j = 0; wrong[i].values[j]; j++)
            assert_refused(wrong[i].name, wrong[i].values[j]);
    assert_false(reads_with("run_id", "with\0nul", 8));
    assert_true(record_read(&got, text.fields, text.fields_count)); /* nothing of that stayed */
}

/* What the first version wrote: without replid and evicted. */
static void the_first_format_is_read(void **state) {
    (void)state;
    struct rl_record record = any_record(3, 20);
    struct net_bytes fields[2 * RECORD_FIELDS];
    size_t count = 0;
    record.format = 1;
    record.ttl_next_ms = record.ttl_max_ms;
    record_write(&text, &record);
    for (size_t i = 0; i < text.fields_count; i += 2) {
        if (text.fields[i].bytes == 6 && memcmp(text.fields[i].data, "replid", 6) == 0) continue;
        if (text.fields[i].bytes == 7 && memcmp(text.fields[i].data, "evicted", 7) == 0) continue;
        if (text.fields[i].bytes == 8 && memcmp(text.fields[i].data, "ttl_next", 8) == 0) continue;
        fields[count++] = text.fields[i];
        fields[count++] = text.fields[i + 1];
    }
    assert_int_equal(count, text.fields_count - 6);
    assert_true(record_read(&got, fields, count));
    record.replid[0] = '\0';
    record.evicted = 0;
    assert_same(&record, &got);
    record.format = RL_RECORD_FORMAT;
    record_write(&text, &record);
    fields[1] = text.fields[1]; /* "3" */
    assert_false(record_read(&got, fields, count));
}

/* What the second version wrote: without ttl_next. There was no change of ttl_max then. */
static void the_second_format_is_read(void **state) {
    (void)state;
    struct rl_record record = any_record(3, 20);
    struct net_bytes fields[2 * RECORD_FIELDS];
    size_t count = 0;
    record.format = 2;
    record.ttl_max_ms = 60000;
    record.ttl_next_ms = 5000;
    record_write(&text, &record);
    for (size_t i = 0; i < text.fields_count; i += 2) {
        if (text.fields[i].bytes == 8 && memcmp(text.fields[i].data, "ttl_next", 8) == 0) continue;
        fields[count++] = text.fields[i];
        fields[count++] = text.fields[i + 1];
    }
    assert_int_equal(count, text.fields_count - 2);
    assert_true(record_read(&got, fields, count));
    record.ttl_next_ms = 60000;
    assert_same(&record, &got);
    record.format = 3;
    record_write(&text, &record);
    fields[1] = text.fields[1];
    assert_false(record_read(&got, fields, count)); /* of the third it is a part */
    fields[1] = (struct net_bytes){"4", 1};
    assert_false(record_read(&got, fields, count));
}

/* Whoever finishes what was accepted would have nothing in his hand. */
static void a_ballot_accepts_a_change(void **state) {
    (void)state;
    struct rl_record record = any_record(3, 20);
    record.accepted_ballot = 65536;
    record.accepted = (struct rl_change){.kind = RL_CHANGE_REMOVE, .id = 1};
    record_write(&text, &record);
    assert_true(record_read(&got, text.fields, text.fields_count));
    assert_refused("accepted", "none");
}

static void every_field_must_be_there_once(void **state) {
    (void)state;
    write_one(2);
    size_t count = text.fields_count;
    struct net_bytes fields[2 * RECORD_FIELDS + 2];
    for (size_t left_out = 0; left_out < count; left_out += 2) {
        size_t used = 0;
        for (size_t i = 0; i < count; i++)
            if (i / 2 != left_out / 2) fields[used++] = text.fields[i];
        /* Records of before do not have "begun". */
        bool may_be_absent = memcmp(text.fields[left_out].data, "begun", 5) == 0;
        assert_int_equal(record_read(&got, fields, used), may_be_absent);
        assert_true(!may_be_absent || got.begun == 0);
        memcpy(fields, text.fields, count * sizeof fields[0]);
        fields[count] = text.fields[left_out];
        fields[count + 1] = text.fields[left_out + 1];
        assert_false(record_read(&got, fields, count + 2));
    }
    assert_false(record_read(&got, text.fields, count - 1));
    assert_false(record_read(&got, NULL, 0));
}

static void fields_of_a_later_version_are_passed_over(void **state) {
    (void)state;
    write_one(2);
    struct net_bytes fields[2 * RECORD_FIELDS + 2];
    memcpy(fields, text.fields, text.fields_count * sizeof fields[0]);
    fields[text.fields_count] = (struct net_bytes){"comment", 7};
    fields[text.fields_count + 1] = (struct net_bytes){"\0\xff", 2};
    assert_true(record_read(&got, fields, text.fields_count + 2));
}

static void one_member_more_than_fits_is_refused(void **state) {
    (void)state;
    char lines[(RL_MEMBERS_MAX + 1) * 32] = "";
    write_one(1);
    for (unsigned i = 1; i <= RL_MEMBERS_MAX; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%016x 1 abc u\n", i);
    assert_true(reads_with("members", lines, strlen(lines)));
    strcat(lines, "00000000000000ff 1 abc u\n");
    assert_refused("members", lines);
}

/* One byte changed, cut off or put in anywhere: whatever is still believed can be written and read
 * again. */
static void mangled_records_do_no_harm(void **state) {
    (void)state;
    unsigned believed = 0;
    static char bytes[RECORD_TEXT_BYTES];
    static struct record_text again;
    static struct rl_record second;
    for (unsigned round = 0; round < 40000; round++) {
        if (round % 100 == 0) write_one(1 + (round / 100) % RL_MEMBERS_MAX);
        struct net_bytes *field = &text.fields[1 + 2 * (draw() % (text.fields_count / 2))],
                         before = *field;
        memcpy(bytes, field->data, field->bytes);
        size_t at = field->bytes ? (size_t)(draw() % field->bytes) : 0;
        if (draw() % 4 == 0)
            field->bytes = at;
        else
            bytes[at] = (char)draw();
        field->data = bytes;
        if (record_read(&got, text.fields, text.fields_count)) {
            believed++;
            record_write(&again, &got);
            assert_true(record_read(&second, again.fields, again.fields_count));
            assert_same(&got, &second);
        }
        *field = before;
    }
    assert_true(believed > 0 && believed < 40000);
}

static void pure_garbage_is_refused(void **state) {
    (void)state;
    static char bytes[600];
    for (unsigned round = 0; round < 20000; round++) {
        struct net_bytes fields[2 * RECORD_FIELDS];
        size_t count = (size_t)draw() % (2 * RECORD_FIELDS + 1);
        write_one(1);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)draw();
        for (size_t i = 0; i < count; i++) {
            bool named = i % 2 == 0 && i < text.fields_count && draw() % 2;
            size_t length = (size_t)draw() % 40;
            fields[i] = named ? text.fields[i] : (struct net_bytes){bytes + draw() % 500, length};
        }
        assert_false(record_read(&got, fields, count));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_largest_record_fits),
        cmocka_unit_test(a_url_cannot_end_its_line),
        cmocka_unit_test(a_place_has_no_user),
        cmocka_unit_test(each_value_is_checked),
        cmocka_unit_test(the_first_format_is_read),
        cmocka_unit_test(the_second_format_is_read),
        cmocka_unit_test(a_ballot_accepts_a_change),
        cmocka_unit_test(every_field_must_be_there_once),
        cmocka_unit_test(fields_of_a_later_version_are_passed_over),
        cmocka_unit_test(one_member_more_than_fits_is_refused),
        cmocka_unit_test(mangled_records_do_no_harm),
        cmocka_unit_test(pure_garbage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
