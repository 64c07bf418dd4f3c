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

/*
 * PS_DWARF_*, the numbers of the registers in unwind tables. PS_FRAME_ABOVE_POINTER, the distance
 * of a frame from the frame pointer that it made; below the frame are the return address and, below
 * that, the frame pointer of the caller. PS_SIGNAL_CONTEXT, the distance of the context from the
 * stack pointer, where the handler of a signal returns; PS_SIGNAL_RETURN, the code there.
 * PS_CODE_BEFORE and PS_EPILOGUE_BYTES, the bytes of code that are read before and after an
 * address. PS_V8_SAVED_BYTES, of the registers that V8 saves above its frame where it is entered;
 * PS_V8_CODE_ALIGNMENT, of the code that it generates.
 */
#include PS_ARCH_PART(registers.h)

#endif
