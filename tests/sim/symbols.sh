#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: symbols.sh LIBRARY
# Nothing in the simulated world may ask the machine for time, chance or its environment, or compute with floating
# point from the mathematical library. explore.c measures how fast seeds go by; nothing of that enters a world.
set -euo pipefail

found=$(nm -A -u "$1" | grep -v ':explore\.c\.o:' |
    grep -wE 'time|clock_gettime|gettimeofday|clock|rand|random|rand_r|drand48|getrandom|getentropy|getenv|sin|pow|log|exp|sqrt' || true)
if [ -n "$found" ]; then
    echo "what would differ from run to run:" >&2
    echo "$found" >&2
    exit 1
fi
[ "$(nm -A "$1" | grep -c ' T world_begin')" -eq 1 ]
