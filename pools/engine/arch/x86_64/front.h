/* SPDX-License-Identifier: MIT */
/*
 * Push and pop of a front (front/front.h) by restartable sequences of x86-64.
 */

/* Sanitizers and the models' explorer know nothing of sequences. */
#if defined(__SANITIZE_THREAD__) || defined(PS_EXPLORED)
#include "pools/engine/arch/generic/front.h"
#else

/* Begins a sequence: loads the front of the thread's id into rax, and the state of the class into
 * rcx. Its descriptor, at `3`, has the version, flags, start, length, and the address where an
 * aborted sequence continues. The area has the processor at 4, which is negative if the kernel does
 * not know the thread, and rseq_cs at 8, which the kernel clears when it finds the thread
 * elsewhere. */
#define PS_FRONT_BEGIN(is_elsewhere)                                                               \
    ".pushsection .data.rel.ro.rseq, \"aw\"\n"                                                     \
    ".balign 32\n"                                                                                 \
    "3: .long 0, 0\n"                                                                              \
    ".quad 1f, 2f - 1f, 4f\n"                                                                      \
    ".popsection\n"                                                                                \
    "movq %c[area](%[table]), %%rcx\n"                                                             \
    "leaq 3b(%%rip), %%rax\n"                                                                      \
    "movq %%rax, %%fs:8(%%rcx)\n"                                                                  \
    "1: cmpl $0, %%fs:4(%%rcx)\n"                                                                  \
    "js " is_elsewhere "\n"                                                                        \
    "movq %c[id](%[table]), %%rcx\n"                                                               \
    "movl %%fs:(%%rcx), %%eax\n"                                                                   \
    "cmpl %[fronts_count], %%eax\n"                                                                \
    "jae " is_elsewhere "\n"                                                                       \
    "movq %c[fronts](%[table],%%rax,8), %%rax\n"                                                   \
    "testq %%rax, %%rax\n"                                                                         \
    "je " is_elsewhere "\n"                                                                        \
    "movq (%%rax,%[class],8), %%rcx\n"

#define PS_FRONT_OPERANDS                                                                          \
    [table] "r"(table), [class] "r"(class_index),                                                  \
        [fronts] "i"(offsetof(struct ps_front_table, x_fronts)), PS_FRONT_OFFSETS

/* An aborted sequence continues here, in a section of its own, since a cold function may be in any
 * other. The signature with which glibc registers
 * precedes it, as the operand of an instruction (ud1). */
#define PS_FRONT_ABORT(is_elsewhere)                                                               \
    ".pushsection .text.aborted, \"ax\"\n"                                                         \
    ".byte 0x0f, 0xb9, 0x3d\n"                                                                     \
    ".long 0x53053053\n"                                                                           \
    "4: jmp " is_elsewhere "\n"                                                                    \
    ".popsection\n"

/* False: there is no room, or the sequence was aborted. */
PS_INLINE bool ps_front_push_here(const struct ps_front_table *table, size_t class_index,
                                  void *block) {
    __asm__ goto(
        PS_FRONT_BEGIN("%l[is_not_pushed]") /* */
        "cmpw %%cx, %c[limits](%%rax,%[class],2)\n"
        "jbe %l[is_not_pushed]\n" /* also if it is held */
        "movzwl %c[places](%[table],%[class],4), %%edx\n"
        "movzwl %%cx, %%r8d\n"
        "addl %%r8d, %%edx\n"
        "incq %%rcx\n"
        "movq %[block], %c[entries](%%rax,%%rdx,8)\n"
        "movq %%rcx, (%%rax,%[class],8)\n"
        "2:\n" /* */
        PS_FRONT_ABORT("%l[is_not_pushed]")
        :
        : PS_FRONT_OPERANDS, [block] "r"(block), [limits] "i"(offsetof(struct ps_front, x_limit))
        : "rax", "rcx", "rdx", "r8", "cc", "memory"
        : is_not_pushed);
    return true;
is_not_pushed:
    return false;
}

/* NULL: there is no block, or the sequence was aborted. No jump to a label of C: with outputs GCC
 * 12 takes values for NULL there that the outputs have overwritten. */
PS_INLINE void *ps_front_pop_here(const struct ps_front_table *table, size_t class_index) {
    void *block;
    bool is_popped;
    __asm__ volatile(PS_FRONT_BEGIN("5f") /* */
                     "testw %%cx, %%cx\n"
                     "jle 5f\n" /* also if it is held */
                     "movzwl %c[places](%[table],%[class],4), %%edx\n"
                     "movzwl %%cx, %k[block]\n"
                     "addq %[block], %%rdx\n"
                     "movq %c[entries]-8(%%rax,%%rdx,8), %[block]\n"
                     "testq %[block], %[block]\n"
                     "jle 5f\n" /* also if it is reserved: see front_return.c */
                     "movq %c[entries]-16(%%rax,%%rdx,8), %%rdx\n"
                     "addq %[popped], %%rcx\n" /* never 0 */
                     "movq %%rcx, (%%rax,%[class],8)\n"
                     "2: prefetchw (%%rdx)\n" /* the next one that leaves; any address */
                     "6:\n"                   /* */
                     PS_FRONT_ABORT("5f") ".pushsection .text.aborted, \"ax\"\n"
                                          "5: xorl %k[block], %k[block]\n"
                                          "jmp 6b\n"
                                          ".popsection\n"
                     : [block] "=&r"(block), "=@ccne"(is_popped)
                     : PS_FRONT_OPERANDS, [popped] "er"((int64_t)PS_FRONT_POPPED)
                     : "rax", "rcx", "rdx", "memory");
    return is_popped ? block : NULL;
}

/* Sets the number of entries to 0 if the newest is NULL or reserved. */
static inline void ps_front_reset_here(const struct ps_front_table *table, size_t class_index) {
    __asm__ goto(PS_FRONT_BEGIN("%l[is_over]") /* */
                 "testw %%cx, %%cx\n"
                 "jle %l[is_over]\n"
                 "movzwl %c[places](%[table],%[class],4), %%edx\n"
                 "movzwl %%cx, %%r8d\n"
                 "addl %%r8d, %%edx\n"
                 "cmpq $0, %c[entries]-8(%%rax,%%rdx,8)\n"
                 "jg %l[is_over]\n"
                 "xorw %%cx, %%cx\n"
                 "movq %%rcx, (%%rax,%[class],8)\n"
                 "2:\n" /* */
                 PS_FRONT_ABORT("%l[is_over]")
                 :
                 : PS_FRONT_OPERANDS
                 : "rax", "rcx", "rdx", "r8", "cc", "memory"
                 : is_over);
is_over:;
}

#endif
