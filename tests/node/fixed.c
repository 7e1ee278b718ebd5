/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real_inside.h"

enum { LINE_BYTES = 512, LONG_BYTES = 1100, SHOWN_BYTES = 100 };

static const char *const script_names[NODE_SCRIPTS_ALL] = {
    [NODE_ACQUIRE_MANY] = "acquire_many",
    [NODE_EXTEND] = "extend",
    [NODE_RELEASE] = "release",
    [NODE_ACQUIRE_GUARDED] = "acquire_guarded",
    [NODE_EXTEND_GUARDED] = "extend_guarded",
    [NODE_RAISE] = "raise",
    [NODE_CONFIRM] = "confirm",
    [NODE_RECORD_WRITE] = "record_write",
    [NODE_WAITING] = "waiting",
    [NODE_WAITERS] = "waiters",
    [NODE_BREAK] = "break",
    [NODE_ACQUIRE_SLOT] = "acquire_slot",
    [NODE_SHARE] = "share",
    [NODE_SHARE_EXTEND] = "share_extend",
    [NODE_SHARE_RELEASE] = "share_release",
    [NODE_READERS] = "readers",
    [NODE_SETNX_ACQUIRE] = "setnx_acquire",
    [NODE_SETNX_EXTEND] = "setnx_extend",
    [NODE_SETNX_RELEASE] = "setnx_release",
};

/* ---- sending --------------------------------------------------------------------------------- */

static const char *digest_of(const char *name) {
    for (int i = 0; i < NODE_SCRIPTS_ALL; i++)
        if (strcmp(script_names[i], name) == 0) return node_scripts[i].sha1;
    real_die("a scene names a script that is not there", name);
}

static struct node_bytes long_member(void) {
    static char bytes[LONG_BYTES];
    memset(bytes, 'x', sizeof(bytes));
    return (struct node_bytes){bytes, sizeof(bytes)};
}

/* Words are divided by spaces: @NAME is a script, '' is empty, LONG is longer than any token. */
static redisReply *send_line(struct real *real, const char *line) {
    struct words words = {0};
    char text[LINE_BYTES], *rest = text;
    snprintf(text, sizeof(text), "%s", line);
    for (char *each; (each = strtok_r(rest, " ", &rest)) != NULL;) {
        if (each[0] == '@') {
            word_text(&words, "EVALSHA");
            word_text(&words, digest_of(each + 1));
        } else if (strcmp(each, "LONG") == 0) {
            word(&words, long_member());
        } else {
            word_text(&words, strcmp(each, "''") == 0 ? "" : each);
        }
    }
    redisReply *reply = redisCommandArgv(real->connection, words.count, words.word, words.bytes);
    if (!reply) real_die(line, real->connection->errstr);
    return reply;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Texts of errors differ between servers. */
static const char *error_of(const redisReply *reply) {
    return strstr(reply->str, "WRONGTYPE") ? "WRONGTYPE" : "error";
}

static void show(const redisReply *reply, char *text, size_t size) {
    size_t used = 0;
    switch (reply->type) {
    case REDIS_REPLY_INTEGER: snprintf(text, size, "%lld", reply->integer); break;
    case REDIS_REPLY_NIL: snprintf(text, size, "nil"); break;
    case REDIS_REPLY_ERROR: snprintf(text, size, "%s", error_of(reply)); break;
    case REDIS_REPLY_ARRAY:
        used = (size_t)snprintf(text, size, "[");
        for (size_t i = 0; i < reply->elements && used + SHOWN_BYTES < size; i++) {
            if (i > 0) text[used++] = ' ';
            show(reply->element[i], text + used, size - used);
            used += strlen(text + used);
        }
        snprintf(text + used, size - used, "]");
        break;
    default:
        if (reply->len < SHOWN_BYTES)
            snprintf(text, size, "%s", reply->str);
        else
            snprintf(text, size, "%zu bytes", reply->len);
    }
}

static bool answered(struct real *real, const char *command, const char *expected) {
    char text[LINE_BYTES];
    redisReply *reply = send_line(real, command);
    show(reply, text, sizeof(text));
    const bool same = strcmp(text, expected) == 0;
    if (!same)
        printf("%s answers %s, expected %s%s%s\n", command, text, expected,
               reply->type == REDIS_REPLY_ERROR ? ": " : "",
               reply->type == REDIS_REPLY_ERROR ? reply->str : "");
    freeReplyObject(reply);
    return same;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* "COMMAND -> ANSWER"; false: it is another. */
static bool perform(struct real *real, char *line, int64_t *now_us) {
    static const char arrow[] = " -> ";
    if (line[0] == '+') {
        real_clock(real, *now_us += strtoll(line, NULL, 10) * 1000);
        return true;
    }
    char *answer = strstr(line, arrow);
    if (!answer) real_die("no arrow in the line", line);
    *answer = 0;
    return answered(real, line, answer + sizeof(arrow) - 1);
}

static bool begin(struct real *real, const char *title, int64_t now_us) {
    static const char at_end[] = "(at the end)";
    real_clock(real, now_us);
    real_reset(real);
    return !strstr(title, at_end) || real_end_rule(real) == NODE_ENDS_AFTER;
}

bool fixed_answered(struct real *real, const char *path, int64_t begin_us) {
    char line[LINE_BYTES], title[LINE_BYTES] = "";
    bool same = true, takes_part = false;
    int64_t now_us = begin_us;
    FILE *file = fopen(path, "re");
    if (!file) real_die("no scenes", path);
    while (same && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 0 || strncmp(line, "# ", 2) == 0) continue;
        if (strncmp(line, "== ", 3) == 0) {
            memcpy(title, line, sizeof(title));
            now_us = begin_us;
            takes_part = begin(real, title, now_us);
        } else if (takes_part) {
            same = perform(real, line, &now_us);
        }
    }
    if (!same) printf("differ in the scene %s\n", title);
    fclose(file);
    return same;
}
