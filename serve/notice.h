/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A message whose cause clients can repeat as often as they like. It is printed at most once per
 * NOTICE_PAUSE_NS, with the number of messages left out since.
 */
#ifndef SERVE_NOTICE_H
#define SERVE_NOTICE_H

#include <stdint.h>

#define NOTICE_PAUSE_NS INT64_C(10000000000)

struct serve_options;

/* All zero: it was never printed. */
struct notice {
    int64_t silent_until_ns;
    uint64_t left_out;
};

/* Prints the text, or counts it. `text` is one line without its newline. */
void notice_say(struct notice *notice, const struct serve_options *options, const char *text);

#endif
