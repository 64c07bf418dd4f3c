/* SPDX-License-Identifier: MIT */
/*
 * Frames, calls and the contexts of signals on 64-bit ARM.
 */

#define PS_DWARF_SP 31
#define PS_DWARF_FP 29
#define PS_DWARF_EXTRA 19
#define PS_DWARF_LINK 30
#define PS_FRAME_ABOVE_POINTER 16
#define PS_V8_CODE_ALIGNMENT 32
#define PS_V8_SAVED_BYTES 144
#define PS_SIGNAL_CONTEXT 128 /* after the siginfo */

PS_INLINE void ps_registers_read(struct ps_registers *out) {
    __asm__ volatile("adr x9, .\n\t"
                     "mov x10, sp\n\t"
                     "stp x9, x10, [%0]\n\t"
                     "stp x29, x19, [%0, #16]\n\t"
                     "str x30, [%0, #32]"
                     :
                     : "r"(out)
                     : "x9", "x10", "memory");
}

PS_INLINE void ps_registers_of_signal(const ucontext_t *context, struct ps_registers *out) {
    out->pc = (uintptr_t)context->uc_mcontext.pc;
    out->sp = (uintptr_t)context->uc_mcontext.sp;
    out->fp = (uintptr_t)context->uc_mcontext.regs[29];
    out->extra = (uintptr_t)context->uc_mcontext.regs[19];
    out->link = (uintptr_t)context->uc_mcontext.regs[30];
}

/* xpaclri, a hint that older processors ignore. */
PS_INLINE uintptr_t ps_registers_plain_address(uintptr_t address) {
    register uintptr_t link __asm__("x30") = address;
    __asm__("hint #7" : "+r"(link));
    return link;
}

/* mov x8, #139; svc #0 */
#define PS_SIGNAL_RETURN                                                                           \
    { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 }

/* bl, or one of the blr. */
static inline bool ps_registers_follows_call(const unsigned char *code) {
    uint32_t word;
    memcpy(&word, code - sizeof word, sizeof word);
    return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;
}

#define PS_CODE_BEFORE 4

static inline long ps_registers_epilogue(const unsigned char *code) {
    (void)code;
    return -1; /* the return address is in memory only where there is a frame pointer */
}

#define PS_EPILOGUE_BYTES 1
