/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STRINGIFY(x) #x
#define TEXT_OF(x) STRINGIFY(x)

/* With the end of the line, and a byte more, which shows that it is longer. */
enum { BUFFER_BYTES = CONFIG_LINE_BYTES_MAX + 2 };

bool config_lines_open(struct config_lines *lines, FILE *file) {
    *lines = (struct config_lines){.file = file, .line = malloc(BUFFER_BYTES + 1)};
    return lines->line != NULL;
}

void config_lines_close(struct config_lines *lines) {
    if (lines->line != NULL) explicit_bzero(lines->line, BUFFER_BYTES + 1);
    free(lines->line);
    lines->line = NULL;
}

/* Like fgets(3), with the length: the bytes behind a NUL belong to the line, too. */
static size_t take(struct config_lines *lines) {
    size_t length = 0;
    int byte = 0;
    while (length < BUFFER_BYTES && byte != '\n' && (byte = getc(lines->file)) != EOF)
        lines->line[length++] = (char)byte;
    lines->line[length] = '\0';
    return length;
}

static char *without_blanks(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    return text;
}

/* Up to a blank and '#' or ';'. No URL contains a blank: the '#' of a password stays. */
static char *without_comment(char *text) {
    for (char *at = text; (at = strpbrk(at, "#;")) != NULL; at++) {
        if (at == text || !isspace((unsigned char)at[-1])) continue;
        *at = '\0';
        break;
    }
    return without_blanks(text);
}

static enum config_item wrong(const char **value, const char *why) {
    *value = why;
    return CONFIG_WRONG;
}

static enum config_item section(struct config_lines *lines, char *text, const char **name,
                                const char **value) {
    char *end = strchr(text, ']');
    if (end == NULL) return wrong(value, "'[' without ']'");
    *end = '\0';
    if (without_comment(end + 1)[0] != '\0') return wrong(value, "a profile's line ends with ']'");
    *name = text + 1;
    lines->name[0] = '\0';
    return CONFIG_SECTION;
}

/* Of lines->name, without quotes and comment. */
static enum config_item value_of(struct config_lines *lines, char *text, const char **value) {
    char *begin = text + strspn(text, " \t"), *end = begin + 1;
    *value = begin;
    if (*begin != '"' && *begin != '\'') {
        *value = without_comment(text);
        return CONFIG_VALUE;
    }
    end = strchr(end, *begin);
    if (end != NULL && without_comment(end + 1)[0] == '\0') {
        *end = '\0';
        *value = begin + 1;
        return CONFIG_VALUE;
    }
    snprintf(lines->why, sizeof lines->why, "'%s': a quote must enclose the whole value",
             lines->name);
    return wrong(value, lines->why);
}

static enum config_item assignment(struct config_lines *lines, char *text, const char **name,
                                   const char **value) {
    char *sign = text + strcspn(text, "=:");
    if (*sign == '\0') return wrong(value, "not a `name = value` line");
    *sign = '\0';
    *name = without_blanks(text);
    snprintf(lines->name, sizeof lines->name, "%s", *name);
    return value_of(lines, sign + 1, value);
}

enum config_item config_lines_next(struct config_lines *lines, const char **name,
                                   const char **value) {
    static const char mark[] = "\xef\xbb\xbf"; /* that some editors put before UTF-8 */
    for (size_t length; (length = take(lines)) > 0;) {
        char *line = lines->line;
        lines->number++;
        if (strlen(line) < length) return wrong(value, "a NUL byte: this is not a text file");
        if (length - (line[length - 1] == '\n') > CONFIG_LINE_BYTES_MAX)
            return wrong(value, "line longer than " TEXT_OF(CONFIG_LINE_BYTES_MAX) " bytes");
        if (lines->number == 1 && strncmp(line, mark, strlen(mark)) == 0) line += strlen(mark);
        char *text = without_blanks(line);
        if (text[0] == '\0' || text[0] == '#' || text[0] == ';') continue;
        if (text > line && lines->name[0] != '\0') {
            *name = lines->name;
            return value_of(lines, text, value);
        }
        return text[0] == '[' ? section(lines, text, name, value)
                              : assignment(lines, text, name, value);
    }
    if (ferror(lines->file) == 0) return CONFIG_END;
    lines->number++;
    return wrong(value, strerror(errno));
}
