/* SPDX-License-Identifier: MIT */
/*
 * Selects the folder of the processor that is compiled for. All code that differs between
 * processors lies in these folders; no other file tests for one. A folder has the parts below. The
 * file that a part is named after includes it, no other file does, and a part includes parts only:
 *
 *   compiler.h    of base/compiler.h: the largest page, the alignment of thread-local data, the
 *                 thread pointer, the hint of a spin loop
 *   atomic.h      of base/atomic.h: the order of stores
 *   syscall.h     of os/syscall.h: the instruction, the names of the kernel's own functions (vDSO)
 *   signals.h     of os/signals.h: an action as the kernel has it, the code a handler returns to
 *   fatal.h       of os/fatal.c: the report of a fault in a signal's context
 *   registers.h   of os/registers.h: registers, frames and calls, for a walk
 *   rseq.h        of os/rseq.h: restartable sequences
 *   front.h       of front/front.h: push and pop by restartable sequences
 *   vfork.h       of os/vfork.h: the call of vfork, where there are sequences
 *   probe.h       of os/probe.c: registers of arguments, and their names in notes
 *   mte.h         of os/mte.h: tags of memory
 *   bytes.h       of os/bytes.c: words at any address, instructions that copy and fill
 *
 * generic/ has parts that need nothing of a processor. A processor has them if its own part
 * includes them: where a part is missing, nothing compiles.
 */
#ifndef PS_ARCH_ARCH_H
#define PS_ARCH_ARCH_H

/* clang-format off */
#if defined(__x86_64__)
#define PS_ARCH x86_64
#elif defined(__aarch64__)
#define PS_ARCH aarch64
#elif defined(__riscv) && __riscv_xlen == 64
#define PS_ARCH riscv64
#else
#error "poolshim knows nothing of this processor: add its folder to pools/engine/arch/"
#endif

/* The path of a part, for #include. */
#define PS_ARCH_PART(part) PS_ARCH_PATH(pools/engine/arch/PS_ARCH/part)
/* clang-format on */

#define PS_ARCH_PATH(path) PS_ARCH_QUOTED(path)
#define PS_ARCH_QUOTED(path) #path

#endif
