/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Histograms, as Prometheus reads them.
 */
#include <inttypes.h>

#include <event2/buffer.h>

#include "metrics.h"

static const struct bucket {
    int64_t ns;
    const char *text;
} buckets[DURATIONS_BUCKETS] = {
    {50000, "0.00005"},  {100000, "0.0001"},  {250000, "0.00025"}, {500000, "0.0005"},
    {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"},
    {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"},  {250000000, "0.25"},
    {500000000, "0.5"},  {1000000000, "1"},   {2500000000, "2.5"}, {5000000000, "5"},
};

void durations_add(struct durations *durations, int64_t ns) {
    int at = 0;
    while (at < DURATIONS_BUCKETS && ns > buckets[at].ns) at++;
    durations->counts[at]++;
    durations->sum_ns += ns;
}

/* `labels` is "" or `name="value"`. */
void durations_write(const struct durations *durations, const char *name, const char *labels,
                     struct evbuffer *out) {
    const char *comma = labels[0] != '\0' ? "," : "";
    const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
    uint64_t count = 0;
    for (int i = 0; i < DURATIONS_BUCKETS; i++) {
        count += durations->counts[i];
        evbuffer_add_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, comma,
                            buckets[i].text, count);
    }
    count += durations->counts[DURATIONS_BUCKETS];
    evbuffer_add_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma,
                        count);
    evbuffer_add_printf(out, "%s_sum%s%s%s %.9f\n", name, open, labels, close,
                        (double)durations->sum_ns / 1e9);
    evbuffer_add_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}
