/* SPDX-License-Identifier: BSD-2-Clause
 * Errors as servers word them, from 2.8 to 8. */
#include "world.h"

#include <string.h>

#include "net/codec/error_reply.h"

static const struct {
    const char *text;
    int verdict;
} table[] = {
    {"NOAUTH Authentication required.", REDLOCK_VERDICT_AUTH},
    {"WRONGPASS invalid username-password pair or user is disabled.", REDLOCK_VERDICT_AUTH},
    {"NOPERM this user has no permissions to run the 'eval' command", REDLOCK_VERDICT_NOPERM},
    {"NOPERM", REDLOCK_VERDICT_NOPERM},
    {"NOPERMANENT", REDLOCK_VERDICT_ERROR},
    {"NOPERM No permissions to access database", REDLOCK_VERDICT_NOPERM},
    {"OOM command not allowed when used memory > 'maxmemory'.", REDLOCK_VERDICT_OOM},
    {"MISCONF Redis is configured to save RDB snapshots, but ...", REDLOCK_VERDICT_MISCONF},
    {"READONLY You can't write against a read only replica.", REDLOCK_VERDICT_READONLY},
    {"LOADING Redis is loading the dataset in memory", REDLOCK_VERDICT_LOADING},
    {"BUSY Redis is busy running a script.", REDLOCK_VERDICT_BUSY},
    {"BUSYKEY Target key name already exists.", REDLOCK_VERDICT_ERROR},
    {"BUSYGROUP Consumer Group name already exists", REDLOCK_VERDICT_ERROR},
    {"NOREPLICAS Not enough good replicas to write.", REDLOCK_VERDICT_NOREPLICAS},
    {"WRONGTYPE Operation against a key holding the wrong kind of value",
     REDLOCK_VERDICT_WRONGTYPE},
    {"MOVED 3999 127.0.0.1:6381", REDLOCK_VERDICT_CLUSTER},
    {"ASK 3999 127.0.0.1:6381", REDLOCK_VERDICT_CLUSTER},
    {"CLUSTERDOWN Hash slot not served", REDLOCK_VERDICT_CLUSTER},
    {"CROSSSLOT Keys in request don't hash to the same slot", REDLOCK_VERDICT_CLUSTER},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
     REDLOCK_VERDICT_MASTERDOWN},
    {"ERR max number of clients reached", REDLOCK_VERDICT_MAXCLIENTS},
    {"ERR max number of clients + cluster connections reached", REDLOCK_VERDICT_MAXCLIENTS},
    {"ERR syntax error", REDLOCK_VERDICT_ERROR},
    {"ERR", REDLOCK_VERDICT_ERROR},
    {"", REDLOCK_VERDICT_ERROR},
    {"ERR the value WRONGTYPE is no code here", REDLOCK_VERDICT_ERROR},
    /* inside scripts */
    {"WRONGTYPE Operation against a key holding the wrong kind of value script: 4ca2, on @user_script:1.",
     REDLOCK_VERDICT_WRONGTYPE},
    {"ERR Error running script (call to f_4ca2): @user_script:6: WRONGTYPE Operation against a key",
     REDLOCK_VERDICT_WRONGTYPE},
    {"ERR Error running script (call to f_4ca2): @user_script:7: @user_script: 7: -OOM command not allowed",
     REDLOCK_VERDICT_OOM},
    {"ERR Error running script (call to f_4ca2): @user_script:7: @user_script: 7: -READONLY You can't write",
     REDLOCK_VERDICT_READONLY},
    {"ERR Error running script (call to f_4ca2): @user_script:7: @user_script: 7: -MISCONF Redis is configured",
     REDLOCK_VERDICT_MISCONF},
    {"ERR Error running script (call to f_4ca2): @user_script:7: @user_script: 7: -NOREPLICAS Not enough",
     REDLOCK_VERDICT_NOREPLICAS},
    {"ERR Error running script (call to f_4ca2): @user_script:6: The user executing the script can't run this command "
     "or "
     "subcommand",
     REDLOCK_VERDICT_NOPERM},
    {"ERR Error running script (call to f_4ca2): @user_script:1: @user_script: 1: The user executing the script can't "
     "access at least one of the keys mentioned in the command arguments",
     REDLOCK_VERDICT_NOPERM},
    {"@user_script: 1: The user executing the script can't run this command or subcommand",
     REDLOCK_VERDICT_NOPERM},
    {"ERR The user executing the script can't run this command or subcommand script: 4ad2, on @user_script:1.",
     REDLOCK_VERDICT_NOPERM},
    {"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
     REDLOCK_VERDICT_NOPERM},
    {"ERR ACL failure in script: User u has no permissions to run the 'set' command script: 4ad2, on @user_script:1.",
     REDLOCK_VERDICT_NOPERM},
    {"ERR ACL failure in script: User u has no permissions to run the 'set' command",
     REDLOCK_VERDICT_NOPERM},
    {"ERR ACL failure in script: No permissions to access a key", REDLOCK_VERDICT_NOPERM},
    {"@user_script: 1: -OOM command not allowed", REDLOCK_VERDICT_OOM},
    {"@user_script: 1: something else", REDLOCK_VERDICT_ERROR},
    {"ERR Error running script (call to f_4ca2): @user_script:6: something else",
     REDLOCK_VERDICT_ERROR},
    {"ERR The user executing the script can't run this command or subcommand script: 4ca2, on @user_script:6.",
     REDLOCK_VERDICT_NOPERM},
    {"NOPERM ACL failure in script: No permissions to access a key script: 4ca2, on @user_script:1.",
     REDLOCK_VERDICT_NOPERM},
};

static struct net_bytes error_of(const char *text, size_t bytes) {
    return (struct net_bytes){text, bytes};
}

static void test_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int verdict = error_reply_verdict(error_of(table[i].text, strlen(table[i].text)));
        if (verdict != table[i].verdict)
            fail_msg("\"%s\": %s", table[i].text, verdict_text(verdict));
    }
}

/* Every cut of every text: nothing is read beyond its end (the sanitizer would tell). */
static void test_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        for (size_t n = 0; n < strlen(table[i].text); n++) {
            char *cut = test_malloc(n + 1);
            memcpy(cut, table[i].text, n);
            int verdict = error_reply_verdict(error_of(cut, n));
            assert_true(verdict >= REDLOCK_VERDICT_AUTH && verdict <= REDLOCK_VERDICT_ERROR);
            test_free(cut);
        }
}

static void test_kinds(void **state) {
    (void)state;
    assert_true(
        error_reply_is_noscript(error_of("NOSCRIPT No matching script. Please use EVAL.", 45)));
    assert_false(error_reply_is_noscript(error_of("NOSCR", 5)));
    assert_true(error_reply_is_unknown_command(error_of("ERR unknown command 'EVAL'", 26)));
    assert_true(
        error_reply_is_unknown_command(error_of("ERR unknown command `EVAL`, with args", 37)));
    assert_false(error_reply_is_unknown_command(error_of("ERR unknown", 11)));
    assert_true(error_reply_is_unknown_command(error_of("unsupported command 'info'", 26)));
    assert_true(
        error_reply_is_database_denied(error_of("NOPERM No permissions to access database", 40)));
    assert_false(
        error_reply_is_database_denied(error_of("NOPERM No permissions to access a key", 37)));
}

static void test_unknown_commands_are_named(void **state) {
    static const struct {
        const char *text, *command;
    } names[] = {
        {"ERR unknown command 'WATCH', with args beginning with: 'secret' ", "watch"},
        {"ERR unknown command `client|tracking`, with args", "client|tracking"},
        {"unsupported command 'info'", "info"},
        {"ERR unknown command", ""},
        {"ERR unknown command 'cut", ""},
        {"ERR no permissions to run the command 'get'", ""},
    };
    char command[24];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        error_reply_unknown_command(error_of(names[i].text, strlen(names[i].text)), command,
                                    sizeof(command));
        assert_string_equal(command, names[i].command);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_unknown_commands_are_named),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
