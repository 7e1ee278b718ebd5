/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Notices a fork, however it was made: fork(2), _Fork(3) and clone(2) run no handler that we could
 * rely on. The kernel empties one page in the child (MADV_WIPEONFORK, Linux 4.14), so looking costs
 * two loads and no system call. */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/conn/conn.h"

static _Atomic(atomic_uint *) wiped_in_child;
static atomic_uint drawn; /* copied by a fork: a child draws none of its ancestors' numbers */

static atomic_uint *make_page(void) {
    const size_t bytes = sizeof(atomic_uint); /* the kernel rounds up to a page */
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    atomic_uint *none = NULL;
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0 &&
        atomic_compare_exchange_strong(&wiped_in_child, &none, (atomic_uint *)page))
        return page;
    munmap(page, bytes);
    return none; /* another thread was first, or NULL */
}

unsigned net_process_number(void) {
    atomic_uint *number = atomic_load_explicit(&wiped_in_child, memory_order_acquire);
    if (!number) number = make_page();
    if (!number) return (unsigned)getpid(); /* an older kernel, an emulator, or no memory */
    unsigned seen = atomic_load_explicit(number, memory_order_relaxed);
    if (seen != 0) return seen;
    const unsigned fresh = atomic_fetch_add(&drawn, 1) + 1;
    return atomic_compare_exchange_strong(number, &seen, fresh) ? fresh : seen;
}

bool net_is_forked(const struct net *net) {
    return net && atomic_load_explicit(&net->process, memory_order_relaxed) != net_process_number();
}

bool net_may_touch(const struct net *net) {
    return !net_is_forked(net) && !atomic_load_explicit(&net->bereft, memory_order_relaxed);
}

void net_detach(struct net *net) { atomic_store(&net->process, 0); }
