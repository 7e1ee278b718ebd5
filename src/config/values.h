/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the functions that set a field from text are made of: those of a configuration file, and of
 * options.
 */
#ifndef RL_CONFIG_VALUES_H
#define RL_CONFIG_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* What such a function returns next to 0, with the reason in `error`. */
enum { CONFIG_REFUSED = -1, CONFIG_NO_MEMORY = -2 };

/* Each sets a field, which stays as it is after an error. */
int option_text(char **field, const char *value, char *error, size_t error_size);
/* Appends to a list that is joined by commas. `value` NULL: empties it. */
int option_list(char **field, const char *value, char *error, size_t error_size);
/* A duration; `range` says which ones are allowed. */
int option_duration(int64_t *field, const char *value, int64_t least, int64_t most,
                    const char *range, char *error, size_t error_size);
int option_ttl(int64_t *field, const char *value, char *error, size_t error_size);
int option_number(int64_t *field, const char *value, int64_t least, int64_t most, char *error,
                  size_t error_size);
/* `value` NULL: yes. */
int option_yes_or_no(const char *value, int *yes, char *error, size_t error_size);

/* Defines a function that sets a field of a struct `tag`, which its body finds in `s`. */
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
