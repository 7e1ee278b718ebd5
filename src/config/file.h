/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The configuration file: `name = value` lines; and sections, each a profile. Every name is known
 * here, also where a program has no use for its value.
 */
#ifndef RL_CONFIG_FILE_H
#define RL_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_FILE "/etc/redlock.conf"
#define PROFILE_NAME_BYTES_MAX 40
#define PROFILE_NAME_RULE "at most 40 letters, digits, '.', '-' and '_'"

struct config_file {
    const char *path; /* NULL: /etc/redlock.conf, which may be absent unless a profile is named */
    const char *profile; /* the section that applies, which must be there; NULL: none */
    /* Sets a field. `value` NULL: it is a list, which becomes empty. 0, or below with the reason in
     * `error` (values.h). */
    int (*set)(void *settings, const char *name, const char *value, char *error, size_t error_size);
    void *settings; /* what applies */
    void *others;   /* what other profiles set: it is checked, and of no further use */
    char *profiles; /* out, malloc(): all of the file, joined by ", "; NULL: it has none */
};
/* 0, or as values.h says with "FILE:LINE: what is wrong" in `error`. */
int config_file_read(struct config_file *file, char *error, size_t error_size);
/* The names, in the order of redlock.conf(5); NULL ends them. */
extern const char *const config_file_names[];
bool is_profile_name(const char *text);

#endif
