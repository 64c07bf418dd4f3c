/* SPDX-License-Identifier: MIT */
/*
 * Frames, calls and the contexts of signals on RISC-V.
 */

#define PS_DWARF_SP 2
#define PS_DWARF_FP 8
#define PS_DWARF_EXTRA 9
#define PS_DWARF_LINK 1
#define PS_FRAME_ABOVE_POINTER 0
#define PS_V8_CODE_ALIGNMENT 32
#define PS_V8_SAVED_BYTES 0
#define PS_SIGNAL_CONTEXT 128 /* after the siginfo */

PS_INLINE void ps_registers_read(struct ps_registers *out) {
    __asm__ volatile("auipc t0, 0\n\t"
                     "sd t0, 0(%0)\n\t"
                     "sd sp, 8(%0)\n\t"
                     "sd s0, 16(%0)\n\t"
                     "sd s1, 24(%0)\n\t"
                     "sd ra, 32(%0)"
                     :
                     : "r"(out)
                     : "t0", "memory");
}

PS_INLINE void ps_registers_of_signal(const ucontext_t *context, struct ps_registers *out) {
    const unsigned long *registers = context->uc_mcontext.__gregs;
    out->pc = (uintptr_t)registers[0]; /* in place of x0 */
    out->sp = (uintptr_t)registers[2];
    out->fp = (uintptr_t)registers[8];
    out->extra = (uintptr_t)registers[9];
    out->link = (uintptr_t)registers[1];
}

PS_INLINE uintptr_t ps_registers_plain_address(uintptr_t address) { return address; }

/* li a7, 139; ecall */
#define PS_SIGNAL_RETURN                                                                           \
    { 0x93, 0x08, 0xb0, 0x08, 0x73, 0, 0, 0 }

/* jal ra, jalr ra, or the c.jalr of two bytes. */
static inline bool ps_registers_follows_call(const unsigned char *code) {
    uint32_t word;
    uint16_t half;
    memcpy(&word, code - sizeof word, sizeof word);
    memcpy(&half, code - sizeof half, sizeof half);
    return (word & 0xfff) == 0x0ef || (word & 0x7fff) == 0x00e7 ||
           ((half & 0xf07f) == 0x9002 && (half & 0x0f80) != 0);
}

#define PS_CODE_BEFORE 4

static inline long ps_registers_epilogue(const unsigned char *code) {
    (void)code;
    return -1; /* as above */
}

#define PS_EPILOGUE_BYTES 1
