/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What `redlock doctor` prints.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>

#include "findings.h"

/* chart.c: the tables of nodes, at most 80 columns wide where URLs allow. */
void chart_print(const struct checkup *checkup);
/* prescription.c: the findings and the last line. `brief`: without notes. */
void prescription_print(const struct checkup *checkup, const struct findings *findings, bool brief);
/* prescription.c: all of it on one line. */
void prescription_json(const struct checkup *checkup, const struct findings *findings);

#endif
