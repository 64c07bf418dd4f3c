/* SPDX-License-Identifier: MIT */
/*
 * Push and pop of a front (front/front.h) by restartable sequences of 64-bit ARM.
 *
 * The order of each access, since the processor may change that of others:
 *
 *   a push stores the entry    stlr: after the block's mark, and after the state that the thread
 *                              stored before. A return that finds a new entry must find the state
 *                              that came with it, without HELD (reserve_entries)
 *   a push stores the state    stlr: after the entry, for a reader that acquires the state
 *   a pop stores the state     plain: after the load of the entry, by the branch between them;
 *                              others take from it only how many blocks were taken
 *   a reset stores the state   plain, likewise; the next push stores its entry afterwards
 *   loads of state and entry   plain: one that is old for a moment is what the delays of a return
 *                              are for
 *   load of the front          plain: all else in it is reached through it (publish)
 *   load of the limit          plain: a bound
 *
 * tests/models/front.c has these orders. Threads of one id do not run at the same time, and the
 * kernel has a full barrier between the one that leaves an id, or a processor, and the next.
 */

/* Sanitizers and the models' explorer know nothing of sequences. */
#if defined(__SANITIZE_THREAD__) || defined(PS_EXPLORED)
#include "pools/engine/arch/generic/front.h"
#else

/* Begins a sequence: loads the front of the thread's id into x10, the address of the state of the
 * class into x9, and the state into x11. Its descriptor, at `3`, has the version, flags, start,
 * length, and the address where an aborted sequence continues. The area has the processor at 4,
 * which is negative if the kernel does not know the thread, and rseq_cs at 8, which the kernel
 * clears when it finds the thread elsewhere. */
#define PS_FRONT_BEGIN(is_elsewhere)                                                               \
    ".pushsection .data.rel.ro.rseq, \"aw\"\n"                                                     \
    ".balign 32\n"                                                                                 \
    "3: .word 0, 0\n"                                                                              \
    ".xword 1f, 2f - 1f, 4f\n"                                                                     \
    ".popsection\n"                                                                                \
    "ldr x9, [%[table], #%c[area]]\n"                                                              \
    "ldr x10, [%[table], #%c[id]]\n"                                                               \
    "adrp x11, 3b\n"                                                                               \
    "add x11, x11, #:lo12:3b\n"                                                                    \
    "add x9, x9, %[thread]\n"                                                                      \
    "str x11, [x9, #8]\n"                                                                          \
    "1: ldr w11, [x9, #4]\n"                                                                       \
    "cmp w11, #0\n"                                                                                \
    "b.lt " is_elsewhere "\n"                                                                      \
    "ldr w10, [%[thread], x10]\n"                                                                  \
    "cmp w10, #%c[fronts_count]\n"                                                                 \
    "b.hs " is_elsewhere "\n"                                                                      \
    "ldr x10, [%[fronts], x10, lsl #3]\n"                                                          \
    "cbz x10, " is_elsewhere "\n"                                                                  \
    "add x9, x10, %[class], lsl #3\n"                                                              \
    "ldr x11, [x9]\n"

/* The address of the first entry, plus `count` of them, less what x_entries is from the front. */
#define PS_FRONT_ENTRY(count)                                                                      \
    "add x13, %[table], %[class], lsl #2\n"                                                        \
    "ldrh w13, [x13, #%c[places]]\n"                                                               \
    "add w13, w13, " count "\n"                                                                    \
    "add x13, x10, x13, lsl #3\n"

#define PS_FRONT_OPERANDS                                                                          \
    [table] "r"(table), [class] "r"(class_index), [thread] "r"(ps_thread_pointer()),               \
        [fronts] "r"(table->x_fronts), PS_FRONT_OFFSETS

/* An aborted sequence continues here, in a section of its own, since a cold function may be in any
 * other. The signature with which glibc registers precedes it, as an instruction (brk). No landing
 * pad: the kernel does not branch, and a sequence has no indirect branch that may be under way. */
#define PS_FRONT_ABORT(is_elsewhere)                                                               \
    ".pushsection .text.aborted, \"ax\"\n"                                                         \
    ".inst 0xd428bc00\n"                                                                           \
    "4: b " is_elsewhere "\n"                                                                      \
    ".popsection\n"

/* False: there is no room, or the sequence was aborted. */
PS_INLINE bool ps_front_push_here(const struct ps_front_table *table, size_t class_index,
                                  void *block) {
    __asm__ goto(
        PS_FRONT_BEGIN("%l[is_not_pushed]") /* */
        "add x12, x10, %[class], lsl #1\n"
        "ldrh w12, [x12, #%c[limits]]\n"
        "and w14, w11, #0xffff\n"
        "cmp w14, w12\n"
        "b.hs %l[is_not_pushed]\n" /* also if it is held */
        PS_FRONT_ENTRY("w14")      /* */
        "add x13, x13, #%c[entries]\n"
        "add x11, x11, #1\n"
        "stlr %[block], [x13]\n"
        "stlr x11, [x9]\n"
        "2:\n" /* */
        PS_FRONT_ABORT("%l[is_not_pushed]")
        :
        : PS_FRONT_OPERANDS, [block] "r"(block), [limits] "i"(offsetof(struct ps_front, x_limit))
        : "x9", "x10", "x11", "x12", "x13", "x14", "cc", "memory"
        : is_not_pushed);
    return true;
is_not_pushed:
    return false;
}

/* NULL: there is no block, or the sequence was aborted. */
PS_INLINE void *ps_front_pop_here(const struct ps_front_table *table, size_t class_index) {
    void *block;
    __asm__ volatile(PS_FRONT_BEGIN("5f") /* */
                     "sxth w12, w11\n"
                     "cmp w12, #0\n"
                     "b.le 5f\n"           /* also if it is held */
                     PS_FRONT_ENTRY("w12") /* */
                     "ldr %[block], [x13, #%c[entries] - 8]\n"
                     "cmp %[block], #0\n"
                     "b.le 5f\n" /* also if it is reserved: see front_return.c */
                     "ldr x13, [x13, #%c[entries] - 16]\n"
                     "add x11, x11, %[popped]\n"
                     "str x11, [x9]\n"
                     "2: prfm pstl1keep, [x13]\n" /* the next one that leaves; any address */
                     "6:\n"                       /* */
                     PS_FRONT_ABORT("5f") ".pushsection .text.aborted, \"ax\"\n"
                                          "5: mov %[block], #0\n"
                                          "b 6b\n"
                                          ".popsection\n"
                     : [block] "=&r"(block)
                     : PS_FRONT_OPERANDS, [popped] "r"(PS_FRONT_POPPED)
                     : "x9", "x10", "x11", "x12", "x13", "cc", "memory");
    return block;
}

/* Sets the number of entries to 0 if the newest is NULL or reserved. */
static inline void ps_front_reset_here(const struct ps_front_table *table, size_t class_index) {
    __asm__ goto(PS_FRONT_BEGIN("%l[is_over]") /* */
                 "sxth w12, w11\n"
                 "cmp w12, #0\n"
                 "b.le %l[is_over]\n" PS_FRONT_ENTRY("w12") /* */
                 "ldr x13, [x13, #%c[entries] - 8]\n"
                 "cmp x13, #0\n"
                 "b.gt %l[is_over]\n"
                 "and x11, x11, #~0xffff\n"
                 "str x11, [x9]\n"
                 "2:\n" /* */
                 PS_FRONT_ABORT("%l[is_over]")
                 :
                 : PS_FRONT_OPERANDS
                 : "x9", "x10", "x11", "x12", "x13", "cc", "memory"
                 : is_over);
is_over:;
}

#endif
