/* SPDX-License-Identifier: BSD-2-Clause */
#include "notice.h"

#include <inttypes.h>

#include "gateway.h"

void notice_say(struct notice *notice, const struct serve_options *options, const char *text) {
    const int64_t now = gateway_now_ns();
    if (now < notice->silent_until_ns) {
        notice->left_out++;
        return;
    }
    if (notice->left_out > 0)
        options->say("%s (and %" PRIu64 " times since this was last logged)", text,
                     notice->left_out);
    else
        options->say("%s", text);
    notice->left_out = 0;
    notice->silent_until_ns = now + NOTICE_PAUSE_NS;
}
