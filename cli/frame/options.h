/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options of a program as a table: their names, the commands that take each, whether the file
 * may set it, and its line in --help; and what the functions that set them are made of. The
 * settings are a struct of the program's own.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_entry {
    const char *name;     /* without dashes; also the key in the file */
    int letter;           /* 0: none */
    const char *argument; /* NULL: a flag; "[VALUE]": optional */
    unsigned commands;
    bool in_file;
    /* 0, or -1 with the reason. `value` is NULL for a flag, and where the argument was left out. */
    int (*set)(void *settings, const char *value, char *error, size_t error_size);
    const char *help; /* "VERB: ...": for that verb of the command alone (verbs.h) */
};
struct option_table {
    const struct option_entry *entries;
    size_t count;
};

/* Each sets a field, which stays as it is after an error. 0, or -1 with the reason. */
int option_text(char **field, const char *value, char *error, size_t error_size);
/* Appends to a list that is joined by commas. */
int option_list(char **field, const char *value, char *error, size_t error_size);
/* A duration; `range` says which ones are allowed. */
int option_duration(int64_t *field, const char *value, int64_t least, int64_t most,
                    const char *range, char *error, size_t error_size);
int option_ttl(int64_t *field, const char *value, char *error, size_t error_size);
int option_number(int64_t *field, const char *value, int64_t least, int64_t most, char *error,
                  size_t error_size);

/* Defines a function for `set`, whose body finds the settings, a struct `tag`, in `s`. */
#define OPTION_SETTER(tag, name)                                                                   \
    static int name##_in(struct tag *s, const char *value, char *error, size_t size);              \
    static int name(void *settings, const char *value, char *error, size_t size) {                 \
        return name##_in(settings, value, error, size);                                            \
    }                                                                                              \
    static int name##_in(struct tag *s, const char *value, char *error, size_t size)
#define OPTION_SETTER_TEXT(tag, name, field)                                                       \
    OPTION_SETTER(tag, name) { return option_text(&s->field, value, error, size); }
#define OPTION_SETTER_FLAG(tag, name, field, to)                                                   \
    OPTION_SETTER(tag, name) {                                                                     \
        (void)value;                                                                               \
        (void)error;                                                                               \
        (void)size;                                                                                \
        s->field = (to);                                                                           \
        return 0;                                                                                  \
    }

#endif
