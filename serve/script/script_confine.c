/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_confine.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define MEMORY_BYTES_MAX ((rlim_t)32 * 1024 * 1024)
#define STACK_BYTES_MAX ((rlim_t)1024 * 1024)
#define FILES_PROBED 65536

/* ---- descriptors ---- */

static void close_from(unsigned first, unsigned last) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0) == 0) return;
#endif
    for (unsigned fd = first; fd <= last && fd < FILES_PROBED; fd++) close((int)fd);
}

void confine_descriptors(void) {
#ifdef SCRIPT_SANITIZED
    close_from(1, 1);
    close_from(3, ~0U);
#else
    close_from(1, ~0U);
#endif
}

/* ---- limits ---- */

static rlim_t lower(rlim_t one, rlim_t other) { return one < other ? one : other; }

/* The type of what is limited differs between C libraries: a function would need its name. Only
 * root may raise a limit, so one that is lower already stays. */
#define LIMIT(what, most)                                                                          \
    (getrlimit((what), &limit) == 0 &&                                                             \
     (limit.rlim_cur = limit.rlim_max = lower((most), limit.rlim_max),                             \
      setrlimit((what), &limit) == 0))

/* A sanitizer reserves terabytes, and has deeper frames. */
bool confine_limits(void) {
    struct rlimit limit;
    bool all = LIMIT(RLIMIT_CORE, 0) && LIMIT(RLIMIT_FSIZE, 0) && LIMIT(RLIMIT_NOFILE, 0) &&
               LIMIT(RLIMIT_NPROC, 0) && LIMIT(RLIMIT_MEMLOCK, 0) && LIMIT(RLIMIT_MSGQUEUE, 0);
#ifndef SCRIPT_SANITIZED
    all = all && LIMIT(RLIMIT_AS, MEMORY_BYTES_MAX) && LIMIT(RLIMIT_STACK, STACK_BYTES_MAX);
#endif
    return all;
}

/* ---- system calls ---- */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__i386__)
#define ARCHITECTURE AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__arm__)
#define ARCHITECTURE AUDIT_ARCH_ARM
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define ARCHITECTURE AUDIT_ARCH_PPC64LE
#elif defined(__s390x__)
#define ARCHITECTURE AUDIT_ARCH_S390X
#endif

#ifndef ARCHITECTURE
bool confine_system_calls(void) {
    errno = ENOSYS;
    return false;
}
#else

/* A sanitizer uses calls that are not listed here to report what it found. They fail, but the
 * report is written. */
#ifdef SCRIPT_SANITIZED
#define REFUSED (SECCOMP_RET_ERRNO | 1)
#else
#define REFUSED SECCOMP_RET_KILL_PROCESS
#endif

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LOW_HALF 4
#else
#define LOW_HALF 0
#endif
#define ARGUMENT(n) ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (n) + LOW_HALF))

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/* If it is this call, its argument decides, and the later rules are skipped. */
#define ALLOW_ON(number, descriptor)                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 4), LOAD(ARGUMENT(0)),                        \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (descriptor), 0, 1), ANSWER(SECCOMP_RET_ALLOW),        \
        ANSWER(REFUSED)
#define ALLOW_WITHOUT(number, argument, bits)                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 4), LOAD(ARGUMENT(argument)),                 \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 1, 0), ANSWER(SECCOMP_RET_ALLOW),             \
        ANSWER(REFUSED)

static const struct sock_filter filter[] = {
    LOAD(offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
    ANSWER(SECCOMP_RET_KILL_PROCESS),
    LOAD(offsetof(struct seccomp_data, nr)),
    ALLOW_ON(__NR_read, 0),
#ifdef SCRIPT_SANITIZED
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 0, 1),
    ANSWER(SECCOMP_RET_ALLOW),
    ALLOW(__NR_madvise),
    ALLOW(__NR_futex),
    ALLOW(__NR_getpid),
    ALLOW(__NR_gettid),
    ALLOW(__NR_sched_yield),
    ALLOW(__NR_sigaltstack),
    ALLOW(__NR_rt_sigprocmask),
#else
    ALLOW_ON(__NR_write, 0),
#endif
/* Memory that scripts fill must not become code: mprotect(2) is not allowed either. */
#ifdef __NR_mmap2
    ALLOW_WITHOUT(__NR_mmap2, 2, PROT_EXEC),
#else
    ALLOW_WITHOUT(__NR_mmap, 2, PROT_EXEC),
#endif
    ALLOW(__NR_munmap),
    ALLOW(__NR_mremap),
    ALLOW(__NR_brk),
    ALLOW(__NR_rt_sigreturn),
    ALLOW(__NR_restart_syscall),
    ALLOW(__NR_exit),
    ALLOW(__NR_exit_group),
    ANSWER(REFUSED),
};

bool confine_system_calls(void) {
    const struct sock_fprog program = {.len = sizeof filter / sizeof filter[0],
                                       .filter = (struct sock_filter *)(uintptr_t)filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}
#endif
