/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which list of members each node carries, and whether the node is intact: what a history says of
 * it, up to the record that was read last. For the judges and for the claims of scenes.
 */
#ifndef SIM_LISTS_H
#define SIM_LISTS_H

#include "judges.h"

#define LISTS_MAX 128

struct lists {
    struct {
        int64_t epoch;
        uint32_t members;
    } list[LISTS_MAX + 1];         /* by number; 0: none */
    unsigned carries[JUDGE_NODES]; /* the number of the node's list */
    uint32_t intact;               /* nodes, by bits */
};

/* False: the record is about something else. */
bool lists_read(struct lists *lists, const struct history_record *record);
/* The list of the newest epoch that an intact node carries; 0: none. */
unsigned lists_newest(const struct lists *lists);
unsigned lists_count(uint32_t nodes);

#endif
