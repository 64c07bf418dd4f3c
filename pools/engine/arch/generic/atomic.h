/* SPDX-License-Identifier: MIT */
/*
 * Counters by a load and a store.
 */

PS_INLINE void ps_counter_up(uint16_t *counter) {
    ps_store_relaxed(counter, (uint16_t)(*counter + 1));
}

PS_INLINE int ps_counter_down(uint16_t *counter) {
    uint16_t left = (uint16_t)(*counter - 1);
    ps_store_relaxed(counter, left);
    return left == 0;
}

#define ps_arch_counter_add(counter, constant) ps_owner_add(counter, constant)
