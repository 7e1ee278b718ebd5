/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan.h"

#include <string.h>

#include <redlock.h>

#include "key.h"
#include "key_op.h"

static struct script_value error_value(const char *text) {
    return (struct script_value){.kind = SCRIPT_ERROR, .bytes = {text, strlen(text)}};
}

static struct script_value integer(int64_t value) {
    return (struct script_value){.kind = SCRIPT_INTEGER, .integer = value};
}

/* The fencing token of a lock that another client holds by now is not returned. */
static struct script_value fence_of(const struct key_op *op, struct script_bytes asked,
                                    struct script_bytes held) {
    if (asked.bytes != held.bytes || memcmp(asked.data, held.data, held.bytes) != 0)
        return (struct script_value){.kind = SCRIPT_NIL};
    struct redlock_lock *lock = key_lock(op->key, &op->observation);
    int64_t fence = lock != NULL ? redlock_fence(lock) : 0;
    if (fence > 0) return integer(fence);
    return error_value(
        "ERR the lock is held, and its fencing token is not known here: it was taken through another gateway, "
        "before this one started, or by a client in classic mode");
}

static struct script_value shaped(const struct plan *plan, const struct key_op *op,
                                  const struct script_value *answer) {
    if (answer->kind == SCRIPT_ERROR) return *answer;
    if (plan->shape == PLAN_FENCE && answer->kind == SCRIPT_BYTES)
        return fence_of(op, plan->call.value, answer->bytes);
    if (plan->shape == PLAN_FLAG) return integer(answer->kind == SCRIPT_STATUS);
    if (plan->shape == PLAN_SECONDS && answer->integer >= 0)
        return integer((answer->integer + 500) / 1000);
    return *answer;
}

/* Takes the key only after it was observed absent, so that nil certainly means "taken". */
static enum script_step take_or_report(struct plan *plan, const struct script_value *answer,
                                       struct script_call *call, struct script_value *result) {
    if (answer == NULL) {
        plan->looked = false;
        *call = (struct script_call){.command = SCRIPT_GET};
        return SCRIPT_CALLS;
    }
    if (!plan->looked && answer->kind == SCRIPT_NIL) {
        plan->looked = true;
        *call = plan->call;
        return SCRIPT_CALLS;
    }
    *result = *answer;
    if (plan->looked && answer->kind == SCRIPT_STATUS)
        *result = (struct script_value){.kind = SCRIPT_NIL};
    if (plan->looked && answer->kind == SCRIPT_NIL)
        *result = error_value(
            "TRYAGAIN other clients take and release this key all the time: its value could not be read");
    return SCRIPT_ENDS;
}

enum script_step plan_step(struct plan *plan, struct key_op *op, const struct script_value *answer,
                           struct script_call *call, struct script_value *result) {
    if (plan->shape == PLAN_OLD) return take_or_report(plan, answer, call, result);
    if (answer == NULL) {
        *call = plan->call;
        return SCRIPT_CALLS;
    }
    *result = shaped(plan, op, answer);
    return SCRIPT_ENDS;
}
