/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the judges report: violations in order of time, and the words of their sentences.
 */
#include "judges.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct words judge_ms(rl_ns at) {
    struct words words;
    rl_ns fraction = at % RL_MS;
    if (fraction < 0) fraction = -fraction;
    const char *sign = at < 0 && at / RL_MS == 0 ? "-" : "";
    int length = snprintf(words.text, sizeof words.text, "%s%lld.%06lld", sign,
                          (long long)(at / RL_MS), (long long)fraction);
    size_t end = (size_t)length;
    while (words.text[end - 1] == '0' && words.text[end - 2] != '.') end--;
    memcpy(words.text + end, " ms", sizeof " ms");
    return words;
}

struct words judge_client(int client) {
    struct words words;
    if (client < 0 || client >= 26)
        snprintf(words.text, sizeof words.text, "client %d", client);
    else
        snprintf(words.text, sizeof words.text, "%c", 'A' + client);
    return words;
}

struct words judge_resource(int resource) {
    struct words words;
    if (resource <= 0)
        snprintf(words.text, sizeof words.text, "job");
    else if (resource >= JUDGE_SLOT_FIRST)
        snprintf(words.text, sizeof words.text, "slot %d", resource - JUDGE_SLOT_FIRST + 1);
    else
        snprintf(words.text, sizeof words.text, "r%d", resource + 1);
    return words;
}

/* Judges report in the order of their walk, the caller reads in order of time; of equal times the
 * first one reported stays first. When the array is full, the latest one is dropped. */
void judge_found(struct report *report, enum check_rule rule, size_t first, size_t second,
                 rl_ns from, rl_ns until, const char *format, ...) {
    if (!judged(report, rule)) return;
    report->found++;
    size_t place = report->written;
    while (place > 0 && report->violations[place - 1].from > from) place--;
    if (place >= report->room) return;

    size_t moved = report->written - place;
    if (report->written == report->room)
        moved--;
    else
        report->written++;
    struct check_violation *violation = &report->violations[place];
    memmove(violation + 1, violation, moved * sizeof *violation);
    *violation = (struct check_violation){
        .rule = rule, .first = first, .second = second, .from = from, .until = until};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(violation->text, sizeof violation->text, format, arguments);
    va_end(arguments);
}
