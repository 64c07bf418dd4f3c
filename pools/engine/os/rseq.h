/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences (rseq(2), Linux 4.18): a few instructions that the kernel aborts when their
 * thread is preempted, migrates to another processor or gets a signal among them. glibc registers
 * each thread for them from version 2.35 on.
 *
 * Two sequences are here, on a stack that belongs to a processor: an array, and a state word whose
 * low bits are the number of entries. The threads of that processor push and pop without a locked
 * instruction. Each sequence ends with the one instruction that takes effect, a comparison of the
 * state with an exchange that is not locked. So a sequence also fails when a thread of another
 * processor has changed the state since it began, even if a virtual processor stood still
 * meanwhile: that thread changes the state by a locked exchange, and relies on it after a delay in
 * which an exchange that was being executed has ended (cpu_first.h). A failing exchange writes,
 * too, the state that it has read an instant before; the sequences test the state first.
 *
 * The child of vfork has the area of its parent, but is not registered: vfork.h.
 *
 * Only on x86-64; elsewhere, and where threads are not registered, ps_rseq_offset is 0 for good.
 */
#ifndef PS_OS_RSEQ_H
#define PS_OS_RSEQ_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(PS_EXPLORED)
#define PS_HAS_RSEQ 1
#else
#define PS_HAS_RSEQ 0
#endif

/* From a thread's pointer to its area, which the kernel writes; 0: no thread is registered. Set
 * once, by ps_rseq_start. */
extern PS_HIDDEN ptrdiff_t ps_rseq_offset;

static inline bool ps_rseq_is_on(void) { return PS_HAS_RSEQ && ps_rseq_offset != 0; }

/* Called once, with the engine. */
void ps_rseq_start(void);

#if PS_HAS_RSEQ

/* The processor that runs the calling thread, which may be another one a moment later. Above all
 * processors for a thread that is not registered. offset: ps_rseq_offset, not 0. */
PS_INLINE uint32_t ps_rseq_cpu(ptrdiff_t offset) {
    uint32_t cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(offset));
    return cpu;
}

/* Begins a sequence, of which `3` is the descriptor: version, flags, start, length, where to
 * continue when it is aborted. The area's fields are cpu_id at 4 and rseq_cs at 8, which the kernel
 * clears when it finds the thread elsewhere. */
#define PS_RSEQ_BEGIN(is_elsewhere)                                                                \
    ".pushsection .data.rel.ro.rseq, \"aw\"\n"                                                     \
    ".balign 32\n"                                                                                 \
    "3: .long 0, 0\n"                                                                              \
    ".quad 1f, 2f - 1f, 4f\n"                                                                      \
    ".popsection\n"                                                                                \
    "leaq 3b(%%rip), %%rax\n"                                                                      \
    "movq %%rax, %%fs:8(%[offset])\n"                                                              \
    "1: cmpl %[cpu], %%fs:4(%[offset])\n"                                                          \
    "jne " is_elsewhere "\n"

/* Behind the code, where an aborted sequence continues. Before it stands the signature with which
 * glibc registers, as the operand of an instruction (ud1). */
#define PS_RSEQ_ABORT                                                                              \
    ".pushsection .text.unlikely, \"ax\"\n"                                                        \
    ".byte 0x0f, 0xb9, 0x3d\n"                                                                     \
    ".long 0x53053053\n"                                                                           \
    "4:\n"

/* Pushes an entry if the bits of `mask` in the state, which hold the count, are less than the
 * limit, and the thread runs on `cpu`. Adds 1 to the state. False: it did not; there may be room
 * even so. */
PS_INLINE bool ps_rseq_push(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                            uint32_t mask, uint32_t limit, void *entry) {
    __asm__ goto(
        /* The entry stands above all that are in use. */
        PS_RSEQ_BEGIN("%l[is_not_pushed]") /* */
        "movq %[state], %%rax\n"
        "movl %%eax, %%ecx\n"
        "andl %[mask], %%ecx\n"
        "cmpl %[limit], %%ecx\n"
        "jae %l[is_not_pushed]\n"
        "leaq 1(%%rax), %%rdx\n"
        "movq %[entry], (%[entries],%%rcx,8)\n"
        "cmpxchgq %%rdx, %[state]\n"
        "2: jne %l[is_not_pushed]\n" /* */
        PS_RSEQ_ABORT                /* */
        "jmp %l[is_not_pushed]\n"
        ".popsection\n"
        :
        : [offset] "r"(offset), [cpu] "r"(cpu), [state] "m"(*state), [mask] "ri"(mask),
          [entries] "r"(entries), [limit] "r"(limit), [entry] "r"(entry)
        : "rax", "rcx", "rdx", "cc", "memory"
        : is_not_pushed);
    return true;
is_not_pushed:
    return false;
}

/* Pops the newest entry if the bits of the mask are not 0 and at most `most`, and adds `step` to
 * the state, a constant. NULL: it did not. *left: the entries that are left. */
PS_INLINE void *ps_rseq_pop(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                            uint32_t mask, uint32_t most, int32_t step, uint32_t *left) {
    void *entry;
    uint32_t index;
    __asm__ volatile(PS_RSEQ_BEGIN("5f") /* */
                     "movq %[state], %%rax\n"
                     "movl %%eax, %[index]\n"
                     "andl %[mask], %[index]\n"
                     "subl $1, %[index]\n"
                     "cmpl %[most], %[index]\n"
                     "jae 5f\n"
                     "movq %%rax, %%rdx\n"
                     "addq %[step], %%rdx\n"
                     "movq (%[entries],%q[index],8), %[entry]\n"
                     "cmpxchgq %%rdx, %[state]\n"
                     "2: jne 5f\n"
                     "6:\n"        /* */
                     PS_RSEQ_ABORT /* */
                     "5: xorl %k[entry], %k[entry]\n"
                     "jmp 6b\n"
                     ".popsection\n"
                     : [entry] "=&r"(entry), [index] "=&r"(index), [state] "+m"(*state)
                     : [offset] "r"(offset), [cpu] "r"(cpu), [mask] "ri"(mask), [most] "ri"(most),
                       [entries] "r"(entries), [step] "re"((int64_t)step)
                     : "rax", "rdx", "cc", "memory");
    *left = index;
    return entry;
}

#else

static inline uint32_t ps_rseq_cpu(ptrdiff_t offset) { return (uint32_t)offset; }

static inline bool ps_rseq_push(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                                uint32_t mask, uint32_t limit, void *entry) {
    (void)offset, (void)cpu, (void)state, (void)entries, (void)mask, (void)limit, (void)entry;
    return false;
}

static inline void *ps_rseq_pop(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                                uint32_t mask, uint32_t most, int32_t step, uint32_t *left) {
    (void)offset, (void)cpu, (void)state, (void)entries, (void)mask, (void)most, (void)step;
    *left = 0;
    return NULL;
}

#endif

#endif
