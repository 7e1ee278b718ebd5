/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock of doctor's own, taken and given back with the rights of this user. What a server reports
 * about itself does not say what it permits.
 */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include <stdbool.h>

#include "frame/session.h"

enum trial_step {
    TRIAL_TAKE,
    TRIAL_EXTEND,
    TRIAL_WAIT, /* for it, by another lock of the same name */
    TRIAL_RELEASE,
    TRIAL_SHARE,
    TRIAL_SLOT,
    TRIAL_STEPS
};

/* At one node. */
struct tried {
    int verdict[TRIAL_STEPS]; /* enum redlock_verdict. NONE: it was not asked */
    /* The command that it denied in this step, or that it does not know; "": none is named. */
    char denied[TRIAL_STEPS][24], unknown[TRIAL_STEPS][24];
};

/* The name is new and random, under the prefix of the settings, and the keys end soon by themselves
 * if they cannot be deleted. In guarded mode the acquisitions raise fences, as any other client's
 * do. `ttl_ms_max`: of the quorum; 0: there is none. Returns the enum redlock_result of the
 * first step that failed, of TAKE, EXTEND and RELEASE; SYSTEM: nothing was tried. */
int trial_take(const struct settings *settings, int64_t ttl_ms_max, struct tried *tried);

#endif
