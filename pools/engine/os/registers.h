/* SPDX-License-Identifier: MIT */
/*
 * The registers that a walk over call frames follows, of this processor: those that survive a call
 * and that compilers address frames by. Callers: shim/unwind.c. Owns nothing. No locks.
 */
#ifndef PS_OS_REGISTERS_H
#define PS_OS_REGISTERS_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

struct ps_registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;    /* rbp, x29, s0 */
    uintptr_t extra; /* rbx, by which the loader addresses its frame; x19, s1 */
    uintptr_t link;  /* x30, ra; the return address lies in memory on x86-64 */
};

#if defined(__x86_64__)

/* Numbers in unwind tables. */
#define PS_DWARF_SP 7
#define PS_DWARF_FP 6
#define PS_DWARF_EXTRA 3
#define PS_DWARF_LINK 16

/* Distance of a frame from the frame pointer that it made. Below the frame are the return address
 * and, below that, the frame pointer of the caller. */
#define PS_FRAME_ABOVE_POINTER 16

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

/* True if a call ends before the address: call rel32, or call r/m with 0 to 5 bytes behind. */
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

#define PS_CODE_BEFORE 7 /* bytes that ps_registers_follows_call reads, and behind it */

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

#elif defined(__aarch64__)

#define PS_DWARF_SP 31
#define PS_DWARF_FP 29
#define PS_DWARF_EXTRA 19
#define PS_DWARF_LINK 30
#define PS_FRAME_ABOVE_POINTER 16
#define PS_SIGNAL_CONTEXT 128 /* behind the siginfo */

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

#elif defined(__riscv)

#define PS_DWARF_SP 2
#define PS_DWARF_FP 8
#define PS_DWARF_EXTRA 9
#define PS_DWARF_LINK 1
#define PS_FRAME_ABOVE_POINTER 0
#define PS_SIGNAL_CONTEXT 128 /* behind the siginfo */

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

#else
#error "name the registers of this processor in pools/engine/os/registers.h"
#endif

#endif
