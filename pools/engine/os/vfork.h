/* SPDX-License-Identifier: MIT */
/*
 * A child that shares the memory of its parent, which is suspended meanwhile: that of vfork. It has
 * the parent's area for restartable sequences (rseq.h), but the kernel does not register it: it
 * neither updates the area nor aborts a sequence, which would then run beside those of another
 * processor's threads.
 *
 * So the child writes PS_RSEQ_NO_CPU into the area, as in that of an unregistered thread. Each
 * sequence compares the processor and fails, libc's sched_getcpu asks the system, and the heap
 * proceeds as where a cache has neither room nor a block. The parent restores the number, unless
 * the kernel has: it writes both numbers when the thread was moved, some versions whenever it was
 * preempted. A child of such a child finds PS_RSEQ_NO_CPU, and neither of the two writes.
 *
 * A kernel that checks its numbers (rseq_debug, for development) would end the process.
 *
 * Callers: shim/vfork.c. Owns nothing. No locks.
 */
#ifndef PS_OS_VFORK_H
#define PS_OS_VFORK_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/rseq.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The compiler does not see that code in assembly language calls it. */
#define PS_USED __attribute__((used))

#define PS_RSEQ_NO_CPU ((uint32_t)-1)

/* The beginning of an area, which the kernel writes. */
struct ps_rseq_area {
    uint32_t x_cpu_start; /* the processor, whether or not the child has written the next */
    uint32_t x_cpu;       /* the processor, or a number that is negative if it were signed */
};

/* The result of the function that vfork calls first, in two registers. */
struct ps_vfork_way {
    struct ps_rseq_area *area; /* as ps_rseq_area */
    int (*elsewhere)(void);    /* if not NULL, continue there: no thread has an area */
};

#if PS_HAS_RSEQ

/* Exports a function that has work to do where threads have areas. */
#define PS_RSEQ_EXPORT __attribute__((visibility("default")))
#define PS_RSEQ_EXPORT_ALIAS(name, target)                                                         \
    extern __typeof__(target) name PS_RSEQ_EXPORT __attribute__((alias(#target))) PS_COPY(target);

/*
 * Defines vfork. It returns twice, and the child's calls overwrite the stack below
 * the caller's frame before the parent returns: the return address is in %rdi meanwhile, the area
 * in %rsi; the system call changes %rax, %rcx and %r11 alone.
 *
 * begin: returns a struct ps_vfork_way. failed: gets the error, sets errno and returns -1. With a
 * shadow stack, which the child shares too, the child must not pop it: as in libc's vfork it jumps
 * to where it would return, and the parent returns.
 */
#define PS_VFORK_DEFINE(name, begin, failed)                                                       \
    PS_RSEQ_EXPORT __attribute__((naked)) pid_t name(void) {                                       \
        __asm__("endbr64\n"                                                                        \
                "subq $8, %rsp\n"                                                                  \
                ".cfi_adjust_cfa_offset 8\n"                                                       \
                "call " #begin "\n"                                                                \
                "addq $8, %rsp\n"                                                                  \
                ".cfi_adjust_cfa_offset -8\n"                                                      \
                "testq %rdx, %rdx\n"                                                               \
                "jz 1f\n"                                                                          \
                "jmp *%rdx\n"                                                                      \
                "1: movq %rax, %rsi\n"                                                             \
                "popq %rdi\n"                                                                      \
                ".cfi_adjust_cfa_offset -8\n"                                                      \
                ".cfi_register %rip, %rdi\n"                                                       \
                "movl $58, %eax\n" /* vfork */                                                     \
                "syscall\n"                                                                        \
                "pushq %rdi\n"                                                                     \
                ".cfi_adjust_cfa_offset 8\n"                                                       \
                ".cfi_rel_offset %rip, 0\n"                                                        \
                "testq %rsi, %rsi\n"                                                               \
                "jz 3f\n"                                                                          \
                "testl %eax, %eax\n"                                                               \
                "jnz 2f\n"                                                                         \
                "movl $-1, 4(%rsi)\n" /* as ps_rseq_suspend */                                     \
                "jmp 3f\n"                                                                         \
                "2: movl %eax, %edx\n" /* as ps_rseq_resume */                                     \
                "movl $-1, %eax\n"                                                                 \
                "movl (%rsi), %ecx\n"                                                              \
                "cmpxchgl %ecx, 4(%rsi)\n"                                                         \
                "movl %edx, %eax\n"                                                                \
                "3: testl %eax, %eax\n"                                                            \
                "js 5f\n"                                                                          \
                "jnz 4f\n"                                                                         \
                "xorl %edx, %edx\n"                                                                \
                "rdsspq %rdx\n" /* 0, as before, without a shadow stack */                         \
                "testq %rdx, %rdx\n"                                                               \
                "jnz 6f\n"                                                                         \
                "4: ret\n"                                                                         \
                "5: movl %eax, %edi\n"                                                             \
                "negl %edi\n"                                                                      \
                "jmp " #failed "\n"                                                                \
                "6: popq %rdi\n"                                                                   \
                ".cfi_adjust_cfa_offset -8\n"                                                      \
                ".cfi_register %rip, %rdi\n"                                                       \
                "jmp *%rdi\n");                                                                    \
    }

/* The area of the calling thread; NULL if it is not registered. */
static inline struct ps_rseq_area *ps_rseq_area(void) {
    if (!ps_rseq_is_on()) {
        return NULL;
    }
    struct ps_rseq_area *area =
        (struct ps_rseq_area *)(ps_thread_pointer() + (uintptr_t)ps_rseq_offset);
    return (int32_t)ps_load_relaxed(&area->x_cpu) >= 0 ? area : NULL; /* relaxed: one thread's */
}

/* In the child, before all else. area: of its parent, before the call. */
static inline void ps_rseq_suspend(struct ps_rseq_area *area) {
    ps_store_relaxed(&area->x_cpu, PS_RSEQ_NO_CPU); /* relaxed: the parent stands still */
}

/* In the parent, when the child has ended or runs another program. A single instruction, which
 * fails if the kernel has written the numbers since the first was read. */
static inline void ps_rseq_resume(struct ps_rseq_area *area) {
    uint32_t no_cpu = PS_RSEQ_NO_CPU;
    uint32_t cpu = ps_load_relaxed(&area->x_cpu_start); /* relaxed: one thread's */
    __asm__ volatile("cmpxchgl %2, %1" : "+a"(no_cpu), "+m"(area->x_cpu) : "r"(cpu) : "cc");
}

#else

#define PS_RSEQ_EXPORT PS_HIDDEN
#define PS_RSEQ_EXPORT_ALIAS(name, target)
#define PS_VFORK_DEFINE(name, begin, failed)

static inline struct ps_rseq_area *ps_rseq_area(void) { return NULL; }
static inline void ps_rseq_suspend(struct ps_rseq_area *area) { (void)area; }
static inline void ps_rseq_resume(struct ps_rseq_area *area) { (void)area; }

#endif

#endif
