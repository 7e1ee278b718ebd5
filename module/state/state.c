/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/state.h"

struct native_node node;
struct server_string *record_key;
