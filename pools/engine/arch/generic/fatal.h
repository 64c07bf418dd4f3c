/* SPDX-License-Identifier: MIT */
/*
 * The kernel says no more of a fault than its address.
 */

static inline void ps_fault_read(const ucontext_t *context, struct ps_fault *fault) {
    (void)context;
    (void)fault;
}
