/* SPDX-License-Identifier: MIT */
/*
 * Frames, calls and the contexts of signals on x86-64.
 */

/* Numbers in unwind tables. */
#define PS_DWARF_SP 7
#define PS_DWARF_FP 6
#define PS_DWARF_EXTRA 3
#define PS_DWARF_LINK 16

/* Distance of a frame from the frame pointer that it made. Below the frame are the return address
 * and, below that, the frame pointer of the caller. */
#define PS_FRAME_ABOVE_POINTER 16
#define PS_V8_CODE_ALIGNMENT 64
#define PS_V8_SAVED_BYTES 0 /* below the frame, by pushes */

/* Distance of the context from the stack pointer, where the handler of a signal returns. */
#define PS_SIGNAL_CONTEXT 0

/* The registers of this very place. */
PS_INLINE void ps_registers_read(struct ps_registers *out) {
    __asm__ volatile("leaq (%%rip), %%rax\n\t"
                     "movq %%rax, 0(%0)\n\t"
                     "movq %%rsp, 8(%0)\n\t"
                     "movq %%rbp, 16(%0)\n\t"
                     "movq %%rbx, 24(%0)\n\t"
                     "movq $0, 32(%0)"
                     :
                     : "r"(out)
                     : "rax", "memory");
}

PS_INLINE void ps_registers_of_signal(const ucontext_t *context, struct ps_registers *out) {
    const greg_t *registers = context->uc_mcontext.gregs;
    out->pc = (uintptr_t)registers[REG_RIP];
    out->sp = (uintptr_t)registers[REG_RSP];
    out->fp = (uintptr_t)registers[REG_RBP];
    out->extra = (uintptr_t)registers[REG_RBX];
    out->link = 0;
}

/* Removes the signature from a return address. */
PS_INLINE uintptr_t ps_registers_plain_address(uintptr_t address) { return address; }

/* The code to which a handler of a signal returns: mov $15, %rax; syscall. */
#define PS_SIGNAL_RETURN                                                                           \
    { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }

/* True if a call ends before the address: call rel32, or call r/m with 0 to 5 bytes after it. */
static inline bool ps_registers_follows_call(const unsigned char *code) {
    if (code[-5] == 0xe8) {
        return true;
    }
    for (int bytes = 2; bytes <= 7; bytes++) {
        if (code[-bytes] == 0xff && (code[1 - bytes] >> 3 & 7) == 2) {
            return true;
        }
    }
    return false;
}

#define PS_CODE_BEFORE 7 /* bytes before an address that ps_registers_follows_call reads */

/*
 * Generated code without tables and frame pointers whose rest is the end of a function: how far the
 * stack pointer is from the return address, in bytes; -1: it is something else.
 */
static inline long ps_registers_epilogue(const unsigned char *code) {
    static const unsigned char add_rsp[] = {0x48, 0x83, 0xc4};
    const unsigned char ret = 0xc3;
    if (memcmp(code, add_rsp, sizeof add_rsp) == 0 && code[4] == ret && code[3] < 0x80) {
        return code[3];
    }
    return code[0] == ret ? 0 : -1;
}

#define PS_EPILOGUE_BYTES 5 /* that it reads */
