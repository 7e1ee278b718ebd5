/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a comparison of a server with its twin ends. scripts/mutate-lua counts a changed script as
 * noticed for EXIT_DIFFERS only: a server that does not start, or an answer that never came, is
 * another failure, and says nothing about a script.
 */
#ifndef TESTS_NODE_DIFFERS_H
#define TESTS_NODE_DIFFERS_H

enum { EXIT_DIFFERS = 3 };

#endif
