/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The process that runs scripts, and knows nothing else.
 */
#ifndef SERVE_SCRIPT_WORKER_H
#define SERVE_SCRIPT_WORKER_H

/* Serves the gateway at descriptor 0, until it is gone. */
_Noreturn void script_worker_run(void);

#endif
