/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/duration.h"
#include "redlock.h"

int option_text(char **field, const char *value, char *error, size_t size) {
    char *copy = strdup(value);
    if (copy == NULL) {
        snprintf(error, size, "out of memory");
        return CONFIG_NO_MEMORY;
    }
    free(*field);
    *field = copy;
    return 0;
}

int option_list(char **field, const char *value, char *error, size_t size) {
    if (value == NULL) {
        free(*field);
        *field = NULL;
        return 0;
    }
    if (*field == NULL) return option_text(field, value, error, size);
    char *joined = NULL;
    if (asprintf(&joined, "%s,%s", *field, value) < 0) {
        snprintf(error, size, "out of memory");
        return CONFIG_NO_MEMORY;
    }
    free(*field);
    *field = joined;
    return 0;
}

int option_duration(int64_t *field, const char *value, int64_t least, int64_t most,
                    const char *range, char *error, size_t size) {
    int64_t ms = 0;
    if (duration_parse(value, &ms, error, size) != 0) return CONFIG_REFUSED;
    if (ms < least || ms > most) {
        snprintf(error, size, "'%.60s' is out of range: %s", value, range);
        return CONFIG_REFUSED;
    }
    *field = ms;
    return 0;
}

int option_ttl(int64_t *field, const char *value, char *error, size_t size) {
    return option_duration(field, value, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX,
                           "a TTL is from 10ms to 24h", error, size);
}

int option_number(int64_t *field, const char *value, int64_t least, int64_t most, char *error,
                  size_t size) {
    /* strtoll(3) would pass over blanks and '+' */
    const bool digits = value[0] != '\0' && value[strspn(value, "0123456789")] == '\0';
    errno = 0;
    const long long given = digits ? strtoll(value, NULL, 10) : 0;
    if (!digits || errno != 0 || given < least || given > most) {
        snprintf(error, size, "'%.60s' is not a number from %" PRId64 " to %" PRId64, value, least,
                 most);
        return CONFIG_REFUSED;
    }
    *field = given;
    return 0;
}

int option_yes_or_no(const char *value, int *yes, char *error, size_t size) {
    const bool is_no = value != NULL && strcmp(value, "no") == 0;
    if (value != NULL && !is_no && strcmp(value, "yes") != 0) {
        snprintf(error, size, "'%.60s' is neither yes nor no", value);
        return CONFIG_REFUSED;
    }
    *yes = !is_no;
    return 0;
}
