/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences of x86-64.
 */

#define PS_HAS_RSEQ 1

/* The processor that runs the calling thread, which may be another one a moment later. Above all
 * processors for a thread that is not registered. offset: ps_rseq_offset, not 0. */
PS_INLINE uint32_t ps_rseq_cpu(ptrdiff_t offset) {
    uint32_t cpu;
    __asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(offset));
    return cpu;
}

/* Begins a sequence. Its descriptor, at `3`, has the version, flags, start, length, and the address
 * where an aborted sequence continues. The area's fields are cpu_id at 4 and rseq_cs at 8, which
 * the kernel clears when it finds the thread elsewhere. */
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

/* An aborted sequence continues here, after the code. The signature with which glibc registers
 * precedes it, as the operand of an instruction (ud1). */
#define PS_RSEQ_ABORT                                                                              \
    ".pushsection .text.aborted, \"ax\"\n"                                                         \
    ".byte 0x0f, 0xb9, 0x3d\n"                                                                     \
    ".long 0x53053053\n"                                                                           \
    "4:\n"

/* Pushes an entry if the bits of `mask` in the state, the count, are less than the
 * limit, and the thread runs on `cpu`. Adds 1 to the state. False: it did not; there may be room
 * even so. */
PS_INLINE bool ps_rseq_push(ptrdiff_t offset, uint32_t cpu, uint64_t *state, void **entries,
                            uint32_t mask, uint32_t limit, void *entry) {
    __asm__ goto(
        /* The entry is above all entries in use. */
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
