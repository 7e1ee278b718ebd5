/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The process that runs scripts. It has no secrets and no connections but the one to the gateway.
 */
#ifndef SERVE_SCRIPT_WORKER_H
#define SERVE_SCRIPT_WORKER_H

/* Serves the gateway at descriptor 0, until the gateway closes it. */
_Noreturn void script_worker_run(void);

#endif
