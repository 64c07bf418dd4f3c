/* SPDX-License-Identifier: MIT */
/*
 * The kernel's report of a fault on 64-bit ARM.
 */

#define ESR_WRITE_BIT 6 /* of a data abort: set when the access was a write */

static inline void ps_fault_read(const ucontext_t *context, struct ps_fault *fault) {
    fault->instruction = (uintptr_t)context->uc_mcontext.pc;
    /* The kernel appends records to the context; one of them is the syndrome. */
    const char *record = (const char *)context->uc_mcontext.__reserved;
    const char *end = record + sizeof context->uc_mcontext.__reserved;
    while (record + sizeof(struct esr_context) <= end) {
        const struct _aarch64_ctx *head = (const struct _aarch64_ctx *)record;
        if (head->magic == ESR_MAGIC) {
            bool is_write = (((const struct esr_context *)record)->esr >> ESR_WRITE_BIT & 1) != 0;
            fault->access = is_write ? PS_FAULT_WRITE : PS_FAULT_READ;
        }
        if (head->magic == 0 || head->magic == ESR_MAGIC || head->size == 0) {
            return;
        }
        record += head->size;
    }
}
