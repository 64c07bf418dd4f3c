/* SPDX-License-Identifier: MIT */
/*
 * The call of vfork, and the end of its child, on x86-64.
 */

/*
 * Defines vfork and its other name. It returns twice, and the child's calls overwrite the stack
 * below the caller's frame before the parent returns: the return address is in %rdi meanwhile, the
 * area in %rsi; the system call changes %rax, %rcx and %r11 alone.
 *
 * begin: returns a struct ps_vfork_way. failed: gets the error, sets errno and returns -1. With a
 * shadow stack, which the child shares too, the child must not pop it: as in libc's vfork it jumps
 * to where it would return, and the parent returns.
 */
#define PS_VFORK_DEFINE(name, alias, begin, failed)                                                \
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
    }                                                                                              \
    PS_RSEQ_EXPORT_ALIAS(alias, name)

/* In the parent, when the child has ended or runs another program. A single instruction, which
 * fails if the kernel has written the numbers since the first was read. */
static inline void ps_rseq_resume(struct ps_rseq_area *area) {
    uint32_t no_cpu = PS_RSEQ_NO_CPU;
    uint32_t cpu = ps_load_relaxed(&area->x_cpu_start); /* relaxed: one thread's */
    __asm__ volatile("cmpxchgl %2, %1" : "+a"(no_cpu), "+m"(area->x_cpu) : "r"(cpu) : "cc");
}
