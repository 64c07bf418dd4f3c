/* SPDX-License-Identifier: MIT */
/*
 * Stores, which x86-64 does not reorder, and counters of one instruction.
 */

#define ps_arch_fence_stores() ps_fence_program_order()

PS_INLINE void ps_counter_up(uint16_t *counter) {
    __asm__("addw $1, %0" : "+m"(*counter) : : "cc");
}

PS_INLINE int ps_counter_down(uint16_t *counter) {
    int is_zero;
    __asm__("subw $1, %0" : "+m"(*counter), "=@ccz"(is_zero));
    return is_zero;
}

#define ps_arch_counter_add(counter, constant)                                                     \
    __asm__("addl %1, %0" : "+m"(*(counter)) : "i"(constant) : "cc")
