/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MODULE_GLOB_H
#define MODULE_GLOB_H

#include "node/table.h"

/* Whether the text matches a pattern of SCAN: * ? [abc] [a-z] [^abc] and \ before a character that
 * stands for itself. Costs at most the product of both lengths. */
bool glob_matches(struct node_bytes pattern, struct node_bytes text);

#endif
