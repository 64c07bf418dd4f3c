/* SPDX-License-Identifier: MIT */
/*
 * The call of vfork, and the end of its child, on 64-bit ARM.
 */

/*
 * Defines vfork and its other name. It returns twice, and the child's calls overwrite the stack
 * below the caller's frame before the parent returns: the return address is in x30 meanwhile, the
 * area in x9; the system call changes x0 alone. In assembly language: GCC has no naked functions
 * for this processor.
 *
 * begin: returns a struct ps_vfork_way. failed: gets the error, sets errno and returns -1. With a
 * shadow stack (GCS), which the child shares too, the child must not pop it: it jumps to where it
 * would return, which is a landing pad, since compilers know that vfork returns twice.
 */
#define PS_VFORK_DEFINE(name, alias, begin, failed)                                                \
    __asm__(".pushsection .text." #name ", \"ax\"\n"                                               \
            ".p2align 2\n"                                                                         \
            ".globl " #name "\n"                                                                   \
            ".type " #name ", %function\n" #name ":\n"                                             \
            ".cfi_startproc\n"                                                                     \
            "hint #34\n" /* bti c */                                                               \
            "stp x29, x30, [sp, #-16]!\n"                                                          \
            ".cfi_def_cfa_offset 16\n"                                                             \
            ".cfi_offset x29, -16\n"                                                               \
            ".cfi_offset x30, -8\n"                                                                \
            "mov x29, sp\n"                                                                        \
            "bl " #begin "\n"                                                                      \
            "ldp x29, x30, [sp], #16\n"                                                            \
            ".cfi_def_cfa_offset 0\n"                                                              \
            ".cfi_restore x29\n"                                                                   \
            ".cfi_restore x30\n"                                                                   \
            "cbz x1, 1f\n"                                                                         \
            "mov x16, x1\n" /* a landing pad of functions takes a jump by x16 */                   \
            "br x16\n"                                                                             \
            "1: mov x9, x0\n"                                                                      \
            "mov x0, #0x4111\n" /* CLONE_VM | CLONE_VFORK | SIGCHLD */                             \
            "mov x1, #0\n"      /* the same stack */                                               \
            "mov x2, #0\n"                                                                         \
            "mov x3, #0\n"                                                                         \
            "mov x4, #0\n"                                                                         \
            "mov x8, #220\n" /* clone */                                                           \
            "svc #0\n"                                                                             \
            "cbz x9, 4f\n"                                                                         \
            "add x10, x9, #4\n"                                                                    \
            "mov w11, #-1\n"                                                                       \
            "cbnz x0, 3f\n"                                                                        \
            "str w11, [x10]\n" /* as ps_rseq_suspend */                                            \
            "b 4f\n"                                                                               \
            "3: ldr w12, [x9]\n" /* as ps_rseq_resume; an exception clears the monitor */          \
            "ldxr w13, [x10]\n"                                                                    \
            "cmp w13, w11\n"                                                                       \
            "b.ne 4f\n"                                                                            \
            "stxr w13, w12, [x10]\n"                                                               \
            "cbnz w13, 3b\n"                                                                       \
            "4: cmp x0, #0\n"                                                                      \
            "b.lt 6f\n"                                                                            \
            "b.gt 5f\n"                                                                            \
            "mov x16, #1\n"                                                                        \
            "hint #40\n" /* chkfeat x16: 0 with a shadow stack */                                  \
            "cbnz x16, 5f\n"                                                                       \
            "br x30\n"                                                                             \
            "5: ret\n"                                                                             \
            "6: neg w0, w0\n"                                                                      \
            "b " #failed "\n"                                                                      \
            ".cfi_endproc\n"                                                                       \
            ".size " #name ", . - " #name "\n"                                                     \
            ".globl " #alias "\n"                                                                  \
            ".set " #alias ", " #name "\n"                                                         \
            ".popsection\n");

/* In the parent, when the child has ended or runs another program. */
static inline void ps_rseq_resume(struct ps_rseq_area *area) {
    uint32_t no_cpu = PS_RSEQ_NO_CPU;
    uint32_t cpu = ps_load_relaxed(&area->x_cpu_start); /* relaxed: one thread's */
    /* acquire: none is needed, but that it fails if the kernel has written both numbers since the
     * load: the swap is one instruction, or an exception lets its store fail. */
    (void)ps_cas_strong_acquire(&area->x_cpu, &no_cpu, cpu);
}
