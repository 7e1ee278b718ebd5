/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/duration.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

static int refuse(char *error, size_t size, const char *text, const char *why) {
    snprintf(error, size, "'%.60s' %s; write a duration as 500ms, 30s, 2m, 1h or plain seconds",
             text, why);
    return -1;
}

static const struct unit *find_unit(const char *name) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].name, name) == 0) return &units[i];
    }
    return NULL;
}

int duration_parse(const char *text, int64_t *ms, char *error, size_t error_size) {
    const char *at = text;
    if (*at == '-') return refuse(error, error_size, text, "is negative");
    /* The whole part and the thousandths are integers: 0.1 s is 100 ms, not 100.00000000000001. */
    int64_t whole = 0, fraction = 0, scale = 1;
    bool digits = false, rest = false;
    for (; isdigit((unsigned char)*at); at++, digits = true) {
        if (whole > DURATION_MS_MAX) return refuse(error, error_size, text, "is too long");
        whole = whole * 10 + (*at - '0');
    }
    if (*at == '.') {
        for (at++; isdigit((unsigned char)*at); at++, digits = true) {
            if (scale >= 1000000) {
                rest = rest || *at != '0';
                continue;
            }
            fraction = fraction * 10 + (*at - '0');
            scale *= 10;
        }
    }
    if (!digits) return refuse(error, error_size, text, "is not a duration");
    const struct unit *unit = find_unit(at);
    if (unit == NULL) return refuse(error, error_size, text, "has an unknown unit");
    if (whole > DURATION_MS_MAX / unit->ms) return refuse(error, error_size, text, "is too long");
    int64_t part = fraction * unit->ms;
    int64_t total = whole * unit->ms + part / scale + (part % scale != 0 || rest ? 1 : 0);
    if (total > DURATION_MS_MAX) return refuse(error, error_size, text, "is too long");
    *ms = total;
    return 0;
}

char *duration_text(char *out, size_t size, int64_t ms) {
    if (ms < 1000) {
        snprintf(out, size, "%" PRId64 " ms", ms);
    } else if (ms < 120000) {
        snprintf(out, size, "%" PRId64 ".%" PRId64 " s", ms / 1000, ms % 1000 / 100);
    } else if (ms < 7200000) {
        snprintf(out, size, "%" PRId64 " min %" PRId64 " s", ms / 60000, ms % 60000 / 1000);
    } else {
        snprintf(out, size, "%" PRId64 " h %" PRId64 " min", ms / 3600000, ms % 3600000 / 60000);
    }
    return out;
}
