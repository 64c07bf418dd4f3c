/* SPDX-License-Identifier: MIT */
/*
 * The kernel's report of a fault on x86-64.
 */

static inline void ps_fault_read(const ucontext_t *context, struct ps_fault *fault) {
    const greg_t *registers = context->uc_mcontext.gregs;
    fault->instruction = (uintptr_t)registers[REG_RIP];
    fault->access = (registers[REG_ERR] & 2) != 0 ? PS_FAULT_WRITE : PS_FAULT_READ;
}
