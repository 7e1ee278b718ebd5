/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Queues of calls: the head's due is the earliest of all, in whatever order they come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "policy/policy.h"

static uint64_t random_state = 7;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

enum { CALLS = 400 };

struct model {
    struct net_call calls[CALLS];
    rl_ns due[CALLS]; /* as they were pushed */
    unsigned first, end;
};

static void assert_same(const struct call_queue *queue, const struct model *model) {
    rl_ns earliest = RL_NEVER;
    for (unsigned i = model->first; i < model->end; i++)
        if (model->due[i] < earliest) earliest = model->due[i];
    if (model->first == model->end) {
        assert_null(queue->head);
        assert_null(queue->tail);
        assert_null(queue->rest);
        return;
    }
    assert_ptr_equal(queue->head, &model->calls[model->first]);
    assert_ptr_equal(queue->tail, &model->calls[model->end - 1]);
    assert_int_equal(queue->head->due, earliest);
}

static void push(struct call_queue *queue, struct model *model, rl_ns due) {
    model->due[model->end] = model->calls[model->end].due = due;
    calls_await(queue, &model->calls[model->end++]);
    assert_same(queue, model);
}

static void pop(struct call_queue *queue, struct model *model) {
    struct net_call *call = calls_pop(queue);
    assert_ptr_equal(call, model->first < model->end ? &model->calls[model->first] : NULL);
    if (call) model->first++;
    assert_same(queue, model);
}

/* Pushes and pops in any order; `dues` different ones, so that with few there are many equals. */
static void play(unsigned dues) {
    static struct model model;
    struct call_queue queue = {.head = NULL};
    memset(&model, 0, sizeof(model));
    while (model.end < CALLS) {
        if (draw(5) < 3)
            push(&queue, &model, draw(dues));
        else
            pop(&queue, &model);
    }
    while (queue.head) pop(&queue, &model);
    pop(&queue, &model);
}

static void test_any_order(void **state) {
    (void)state;
    for (unsigned round = 0; round < 300; round++) play(1 + draw(round + 1));
}

static rl_ns rising(unsigned i) { return i; }
static rl_ns falling(unsigned i) { return CALLS - i; }
static rl_ns sawtooth(unsigned i) { return i % 20 == 0 ? i : 5000 - i; }

static void play_in_order(rl_ns (*due)(unsigned i)) {
    static struct model model;
    struct call_queue queue = {.head = NULL};
    memset(&model, 0, sizeof(model));
    for (unsigned i = 0; i < CALLS; i++) push(&queue, &model, due(i));
    while (queue.head) pop(&queue, &model);
}

static void test_in_order(void **state) {
    (void)state;
    play_in_order(rising);
    play_in_order(falling);
    play_in_order(sawtooth);
}

static void test_appended(void **state) {
    (void)state;
    static struct model model;
    struct call_queue one = {.head = NULL}, other = {.head = NULL};
    memset(&model, 0, sizeof(model));
    for (unsigned i = 0; i < CALLS; i++) {
        model.calls[i].due = draw(9);
        calls_await(i < CALLS / 2 ? &one : &other, &model.calls[i]);
    }
    calls_append(&one, &other);
    assert_null(other.head);
    assert_null(other.rest);
    for (unsigned i = 0; i < CALLS; i++) assert_ptr_equal(calls_pop(&one), &model.calls[i]);
    assert_null(calls_pop(&one));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
